# ruff: noqa: E501, F401, F811, I001
# Written by `python -m npu_tensor.tools.stubs` from the op registry and npu_tensor/functions.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from npu_tensor import array_api as array_api
from npu_tensor import autograd as autograd
from npu_tensor import cuda as cuda
from npu_tensor import linalg as linalg
from npu_tensor import models as models
from npu_tensor import nn as nn
from npu_tensor import optim as optim
from npu_tensor.config import config as config
from npu_tensor.dtypes import DType as DType
from npu_tensor.functions.creation import Generator as Generator
from npu_tensor.spec import Size as Size
from npu_tensor.tensor import Tensor as Tensor
from npu_tensor.ggml_hsa.ahead_of_time import compile as compile
from npu_tensor.functions.resources import default_device as default_device
from npu_tensor.runtime.devices.device_uri import DeviceName as device
from npu_tensor.dtypes import DType as dtype
from npu_tensor.dtypes import dtypes_table as dtypes_table
from npu_tensor.functions.resources import empty_cache as empty_cache
from npu_tensor.tensor import explain as explain
from npu_tensor.runtime.store.background import finish_builds as finish_builds
from npu_tensor.functions.resources import get_default_device as get_default_device
from npu_tensor.functions.resources import get_num_threads as get_num_threads
from npu_tensor.autograd.transforms import grad as grad
from npu_tensor.jit import jit as jit
from npu_tensor.runtime.devices.backends import list_devices as list_devices
from npu_tensor.functions.serialization import load as load
from npu_tensor.functions.gguf import load_gguf as load_gguf
from npu_tensor.functions.creation import manual_seed as manual_seed
from npu_tensor.functions.resources import memory_stats as memory_stats
from npu_tensor.observe.profiling import profile as profile
from npu_tensor.tensor import realize as realize
from npu_tensor.ggml_hsa.kernel_log import record_kernels as record_kernels
from npu_tensor.functions.serialization import save as save
from npu_tensor.functions.gguf import save_gguf as save_gguf
from npu_tensor.tools.self_test import selftest as selftest
from npu_tensor.functions.resources import set_default_device as set_default_device
from npu_tensor.functions.resources import set_num_threads as set_num_threads
from npu_tensor.observe.printing import set_printoptions as set_printoptions
from npu_tensor.functions.resources import synchronize as synchronize
from npu_tensor.autograd.transforms import value_and_grad as value_and_grad
from npu_tensor.autograd.transforms import vjp as vjp
from npu_tensor.errors import ArgumentError as ArgumentError
from npu_tensor.errors import BuildError as BuildError
from npu_tensor.errors import CaptureError as CaptureError
from npu_tensor.errors import DTypeError as DTypeError
from npu_tensor.errors import DeviceError as DeviceError
from npu_tensor.errors import DimensionError as DimensionError
from npu_tensor.errors import DivisionError as DivisionError
from npu_tensor.errors import FileError as FileError
from npu_tensor.errors import GradientError as GradientError
from npu_tensor.errors import LaunchError as LaunchError
from npu_tensor.errors import LaunchTimeout as LaunchTimeout
from npu_tensor.errors import NpuTensorError as NpuTensorError
from npu_tensor.errors import OutOfMemoryError as OutOfMemoryError
from npu_tensor.errors import ShapeError as ShapeError
from npu_tensor.functions.pytorch_arguments import FloatLimits, IntegerLimits
from npu_tensor.functions.arithmetic import MantissaExponent
from npu_tensor.functions.shape import ValuesIndices
from npu_tensor.functions.statistics import Histogram
from npu_tensor.linalg import QR, SignLogDet

Operand = Tensor | np.ndarray[Any, Any] | builtins.float
Dims = builtins.int | Sequence[builtins.int] | None
Extents = Any
Sizes = builtins.int | Sequence[builtins.int]
DTypeLike = Any
__version__: str
float32: DType
bfloat16: DType
float16: DType
int8: DType
int16: DType
int32: DType
float64: DType
int64: DType
uint8: DType
bool: DType
q8_0: DType
q4_0: DType
q4_1: DType
q5_0: DType
q5_1: DType
q4_k: DType
q5_k: DType
q6_k: DType
iq4_nl: DType
mxfp4: DType
double: DType
float: DType
half: DType
int: DType
long: DType
short: DType
e: builtins.float
inf: builtins.float
nan: builtins.float
pi: builtins.float
newaxis: None

def abs(input: Operand) -> Tensor:
    """Return the absolute value; the smallest integer wraps to itself."""
def abs_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `abs`: the result is written to this tensor, and so to its views."""
def absolute(input: Operand) -> Tensor:
    """Return the absolute value; the smallest integer wraps to itself."""
def absolute_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `absolute`: the result is written to this tensor, and so to its views."""
def acc(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """input with `source` added to the block of the last dimensions that begins at the indices `start`.

    >>> nt.acc(nt.ones(2, 3), nt.ones(1, 2), (1, 1))"""
def acos(input: Operand) -> Tensor:
    """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
def acos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `acos`: the result is written to this tensor, and so to its views."""
def acosh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic cosine; NaN below 1."""
def acosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `acosh`: the result is written to this tensor, and so to its views."""
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The means of output_size parts of (width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool1d(nt.arange(3.0).reshape(1, 3), 2)"""
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The means of output_size parts of (height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2)"""
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The means of output_size parts of (depth, height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2)"""
def adaptive_max_pool1d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The largest of output_size parts of (width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_max_pool1d(nt.arange(3.0).reshape(1, 3), 2)"""
def adaptive_max_pool2d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The largest of output_size parts of (height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_max_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2)"""
def adaptive_max_pool3d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """The largest of output_size parts of (depth, height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_max_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2)"""
def add(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input + alpha * other."""
def add1(input: Tensor, other: Tensor) -> Tensor:
    """input + the one element of other.

    >>> nt.add1(nt.tensor([1.0, 2.0]), nt.tensor([5.0]))"""
def add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `add`: the result is written to this tensor, and so to its views."""
def add_id(input: Tensor, other: Tensor, ids: Tensor) -> Tensor:
    """input (tokens, used, n) plus the rows of other (experts, n) at the indices ids (tokens, used).

    >>> nt.add_id(nt.zeros(2, 1, 2), nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.tensor([[1], [0]]))"""
def add_rel_pos(input: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Attention scores of images plus a bias for the distance in each direction.

    input: (heads, queries, keys), keys being all places (height, width) row by row. across: (heads, query rows, query
    columns, width), added to every row of keys. down: (heads, query rows, query columns, height), to every column.

    >>> nt.add_rel_pos(nt.zeros(1, 4, 4), nt.ones(1, 2, 2, 2), nt.ones(1, 2, 2, 2))"""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * the sum of the products of two stacks of matrices.

    >>> nt.addbmm(nt.ones(1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def addbmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addbmm`: the result is written to this tensor, and so to its views."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """input + value * tensor1 / tensor2, computed in the promoted dtype of all three, 16-bit floats in float32.

    DTypeError if neither tensor1 nor tensor2 are floats."""
def addcdiv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addcdiv`: the result is written to this tensor, and so to its views."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """input + value * tensor1 * tensor2, computed in the promoted dtype of all three, 16-bit floats in float32."""
def addcmul_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addcmul`: the result is written to this tensor, and so to its views."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    >>> nt.addmm(nt.ones(2, 2), nt.ones(2, 3), nt.ones(3, 2))"""
def addmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addmm`: the result is written to this tensor, and so to its views."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> nt.addmv(nt.ones(2), nt.ones(2, 3), nt.ones(3))"""
def addmv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addmv`: the result is written to this tensor, and so to its views."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * all products of elements of two vectors.

    >>> nt.addr(nt.zeros(2, 2), nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def addr_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `addr`: the result is written to this tensor, and so to its views."""
def affine_grid(theta: Tensor, size: Sequence[builtins.int], align_corners: builtins.bool = False) -> Tensor:
    """The places that a grid of `size` (batch, channels, *places) has after the maps theta (batch, places, places + 1).

    Coordinates go from -1 to 1, x first: to the centres of the outermost elements if align_corners, else to their
    edges. The result is (batch, *places, number of places).

    >>> nt.affine_grid(nt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))"""
def all(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return True if every element over dim is true (not zero)."""
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
    """Whether all elements are close. Reads the value."""
def alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False) -> Tensor:
    """If training, each element is what selu saturates to with probability p; scaled to keep mean and variance."""
def amax(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Return the largest element over dim (empty = all); NaN wins."""
def amin(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Return the smallest element over dim (empty = all); NaN wins."""
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Smallest and largest element over dim (None = all)."""
def any(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return True if any element over dim is true (not zero)."""
def arange(start: builtins.float, end: builtins.float | None = None, step: builtins.float = 1, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """start, start + step, ... below end; arange(n) starts at 0. int64 if all three are integers, else float32.

    As in PyTorch, an integer dtype takes start and step without their fractions, int64 end too."""
def arccos(input: Operand) -> Tensor:
    """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
def arccos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arccos`: the result is written to this tensor, and so to its views."""
def arccosh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic cosine; NaN below 1."""
def arccosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arccosh`: the result is written to this tensor, and so to its views."""
def arcsin(input: Operand) -> Tensor:
    """Compute the inverse sine in radians; NaN beyond -1 and 1."""
def arcsin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arcsin`: the result is written to this tensor, and so to its views."""
def arcsinh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic sine."""
def arcsinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arcsinh`: the result is written to this tensor, and so to its views."""
def arctan(input: Operand) -> Tensor:
    """Compute the inverse tangent in radians."""
def arctan2(input: Operand, other: Operand) -> Tensor:
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
def arctan2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arctan2`: the result is written to this tensor, and so to its views."""
def arctan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arctan`: the result is written to this tensor, and so to its views."""
def arctanh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
def arctanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `arctanh`: the result is written to this tensor, and so to its views."""
def argmax(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return the index of the first largest element over dim (None = of the flattened tensor); the first NaN wins.

    GGML's ARGMAX takes the last of equal elements, and starts again after a NaN."""
def argmin(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return the index of the first smallest element over dim (None = of the flattened tensor); the first NaN wins."""
def argsort(input: Operand, dim: Dims = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor:
    """Return the indices that sort along dim. The sort is always stable; NaN counts as the largest."""
def argwhere(input: Tensor) -> Tensor:
    """Positions of elements that are not zero, one row each. Reads the value."""
def as_tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """As `tensor`, but a Tensor of the dtype is returned as it is."""
def asarray(data: Any, dtype: DTypeLike = None, device: Any = None, copy: builtins.bool | None = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """As `as_tensor`; copy=True never returns the tensor itself, copy=False refuses data that has to be copied."""
def asin(input: Operand) -> Tensor:
    """Compute the inverse sine in radians; NaN beyond -1 and 1."""
def asin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `asin`: the result is written to this tensor, and so to its views."""
def asinh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic sine."""
def asinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `asinh`: the result is written to this tensor, and so to its views."""
def atan(input: Operand) -> Tensor:
    """Compute the inverse tangent in radians."""
def atan2(input: Operand, other: Operand) -> Tensor:
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
def atan2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `atan2`: the result is written to this tensor, and so to its views."""
def atan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `atan`: the result is written to this tensor, and so to its views."""
def atanh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
def atanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `atanh`: the result is written to this tensor, and so to its views."""
def atleast_1d(*tensors: Any) -> Any:
    """Tensors without dimensions as vectors of one element."""
def atleast_2d(*tensors: Any) -> Any:
    """Numbers and vectors as matrices of one row."""
def atleast_3d(*tensors: Any) -> Any:
    """Matrices with a last dimension of extent 1; vectors and numbers as such matrices of one row."""
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of (batch, channels, width); stride defaults to kernel_size.

    count_include_pad: whether the zeros of the padding count, as they do in GGML's POOL_2D and not in its POOL_1D;
    divisor_override: what to divide the sum by instead.

    >>> nt.avg_pool1d(nt.arange(3.0).reshape(1, 3), 2, stride=1)"""
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of (batch, channels, height, width); stride defaults to kernel_size.

    count_include_pad: whether the zeros of the padding count, as they do in GGML's POOL_2D and not in its POOL_1D;
    divisor_override: what to divide the sum by instead.

    >>> nt.avg_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, stride=1)"""
def avg_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of (batch, channels, depth, height, width); stride defaults to kernel_size.

    count_include_pad: whether the zeros of the padding count, as they do in GGML's POOL_2D and not in its POOL_1D;
    divisor_override: what to divide the sum by instead.

    >>> nt.avg_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, stride=1)"""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix.

    >>> nt.baddbmm(nt.ones(2, 1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def baddbmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `baddbmm`: the result is written to this tensor, and so to its views."""
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """A triangle that is 0 at the ends; periodic: without the last element of the symmetric one.

    >>> nt.bartlett_window(4)"""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float | Tensor = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Each channel (dimension 1) normalized with the running statistics, or its own if training.

    Training moves the running statistics, where they are passed, in place towards those of the input.

    >>> nt.batch_norm(nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.zeros(2), nt.ones(2))"""
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability in each element of input, or with p, else 0; NaN where that is outside [0, 1]."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 for each output o, plus bias (outputs,); leading dimensions are a batch.

    >>> nt.bilinear(nt.ones(2, 3), nt.ones(2, 4), nt.ones(1, 3, 4))"""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)) of probabilities, with logarithms of at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of sigmoid(input), without overflow; pos_weight multiplies the part of positive targets.

    The result has the dtype of target, as in PyTorch, or that of input if target is not of floats."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
    """How often each of 0, 1, ... occurs in a vector, or the sum of the weights where it does. Reads the largest.

    >>> nt.bincount(nt.tensor([0, 1, 1, 3]))"""
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with the probability in prob.

    >>> nt.binomial(nt.tensor([10.0, 20.0]), nt.tensor([0.5, 0.1]))"""
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input & other."""
def bitwise_and_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_and`: the result is written to this tensor, and so to its views."""
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """Shift bits to the left: input << other."""
def bitwise_left_shift_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_left_shift`: the result is written to this tensor, and so to its views."""
def bitwise_not(input: Operand) -> Tensor:
    """Return the bitwise complement, ~input."""
def bitwise_not_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_not`: the result is written to this tensor, and so to its views."""
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input | other."""
def bitwise_or_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_or`: the result is written to this tensor, and so to its views."""
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """Shift bits to the right: input >> other. The sign is kept."""
def bitwise_right_shift_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_right_shift`: the result is written to this tensor, and so to its views."""
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input ^ other."""
def bitwise_xor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `bitwise_xor`: the result is written to this tensor, and so to its views."""
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """0.42 - 0.5 cos(x) + 0.08 cos(2 x) over a turn; periodic: without the last element of the symmetric one.

    >>> nt.blackman_window(4)"""
def block_diag(*tensors: Any) -> Tensor:
    """The matrix with these matrices along its diagonal; numbers and vectors count as one row."""
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two stacks of equally many matrices.

    >>> nt.bmm(nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def broadcast_shapes(*shapes: Any) -> builtins.tuple[builtins.int, ...]:
    """The shape that tensors of these shapes broadcast to."""
def broadcast_tensors(*tensors: Tensor) -> builtins.tuple[Tensor, ...]:
    """All expanded to their common shape.

    >>> nt.broadcast_tensors(nt.zeros(2, 1), nt.ones(3))"""
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor:
    """Expanded to a shape, by the rules of broadcasting.

    >>> nt.broadcast_to(nt.tensor([1, 2]), (2, 2))"""
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """In which of the intervals between ascending boundaries each value is; as searchsorted.

    >>> nt.bucketize(nt.tensor([0.5, 2.5]), nt.tensor([1.0, 2.0, 3.0]))"""
def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Whether an in-place op may store elements of one dtype in another: bool in integers, and these in floats.

    >>> nt.can_cast(nt.int32, nt.float32)"""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one row each, the last vector's varying fastest.

    A single vector is returned as it is.

    >>> nt.cartesian_prod(nt.tensor([1, 2]), nt.tensor([3, 4]))"""
def cat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0) -> Tensor:
    """p-norms of the differences of all rows of x1 (..., n, m) and x2 (..., k, m): (..., n, k)."""
def ceil(input: Operand) -> Tensor:
    """Round up to an integer."""
def ceil_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `ceil`: the result is written to this tensor, and so to its views."""
def celu(input: Operand, alpha: builtins.float = 1.0) -> Tensor:
    """Return max(input, 0) + min(alpha * (exp(input / alpha) - 1), 0)."""
def celu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `celu`: the result is written to this tensor, and so to its views."""
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    """(batch, groups * n, ...) with channels of all groups next to each other.

    >>> nt.channel_shuffle(nt.arange(4.0).reshape(1, 4, 1), 2)"""
def cholesky(input: Tensor, upper: builtins.bool = False) -> Tensor:
    """As linalg.cholesky.

    >>> nt.cholesky(nt.tensor([[4.0, 2.0], [2.0, 5.0]]))"""
def cholesky_inverse(input: Tensor, upper: builtins.bool = False) -> Tensor:
    """The inverse of the matrices whose Cholesky factors are input."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = False) -> Tensor:
    """X with A @ X = input for the matrices A whose Cholesky factors are input2.

    >>> nt.cholesky_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))"""
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """At most `chunks` parts of equal size along dim; the last may be smaller."""
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """input limited to [min, max], which may be tensors; NaN stays NaN; max wins where min > max.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clamp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `clamp`: the result is written to this tensor, and so to its views."""
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """The smaller of input and max.

    >>> nt.clamp_max(nt.tensor([-2.0, 0.5, 3.0]), 1.0)"""
def clamp_max_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `clamp_max`: the result is written to this tensor, and so to its views."""
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """The larger of input and min.

    >>> nt.clamp_min(nt.tensor([-2.0, 0.5, 3.0]), 0.0)"""
def clamp_min_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `clamp_min`: the result is written to this tensor, and so to its views."""
def clip(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """input limited to [min, max], which may be tensors; NaN stays NaN; max wins where min > max.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clip_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `clip`: the result is written to this tensor, and so to its views."""
def clone(input: Tensor) -> Tensor:
    """A tensor of its own with the same value. As values never change, nothing is copied."""
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Vectors as the columns of a matrix, or matrices side by side."""
def combinations(input: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor:
    """All choices of r elements of a vector, in order, one row each."""
def concat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def concatenate(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def constant_pad_nd(input: Tensor, pad: Sequence[builtins.int], value: builtins.float = 0) -> Tensor:
    """As `pad` with mode "constant".

    >>> nt.constant_pad_nd(nt.ones(1, 2), (1, 1), 7.0)"""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolution of (batch, channels, width), plus bias (outputs,).

    weight: (outputs, channels / groups, width); it is not flipped, as in PyTorch. padding: zeros at both ends
    of each dimension, "same" or "valid".

    >>> nt.conv1d(nt.arange(3.0).reshape(1, 3), nt.ones(1, 1, 2))"""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolution of (batch, channels, height, width), plus bias (outputs,).

    weight: (outputs, channels / groups, height, width); it is not flipped, as in PyTorch. padding: zeros at both ends
    of each dimension, "same" or "valid".

    >>> nt.conv2d(nt.arange(9.0).reshape(1, 3, 3), nt.ones(1, 1, 2, 2))"""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolution of (batch, channels, depth, height, width), plus bias (outputs,).

    weight: (outputs, channels / groups, depth, height, width); it is not flipped, as in PyTorch. padding: zeros at both ends
    of each dimension, "same" or "valid".

    >>> nt.conv3d(nt.arange(27.0).reshape(1, 3, 3, 3), nt.ones(1, 1, 2, 2, 2))"""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """The transpose of a convolution, its gradient, with weight (channels, outputs / groups, width).

    padding: elements less at both ends of each dimension; output_padding: elements more at the ends.

    >>> nt.conv_transpose1d(nt.ones(1, 1, 2), nt.ones(1, 1, 2))"""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """The transpose of a convolution, its gradient, with weight (channels, outputs / groups, height, width).

    padding: elements less at both ends of each dimension; output_padding: elements more at the ends.

    >>> nt.conv_transpose2d(nt.ones(1, 1, 2, 2), nt.ones(1, 1, 2, 2))"""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """The transpose of a convolution, its gradient, with weight (channels, outputs / groups, depth, height, width).

    padding: elements less at both ends of each dimension; output_padding: elements more at the ends.

    >>> nt.conv_transpose3d(nt.ones(1, 1, 2, 2, 2), nt.ones(1, 1, 2, 2, 2))"""
def copysign(input: Operand, other: Operand) -> Tensor:
    """Return the magnitude of input with the sign of other, also that of a zero."""
def copysign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `copysign`: the result is written to this tensor, and so to its views."""
def corrcoef(input: Tensor) -> Tensor:
    """Correlations of the rows of a matrix, whose columns are samples."""
def cos(input: Operand) -> Tensor:
    """Compute the cosine of an angle in radians."""
def cos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `cos`: the result is written to this tensor, and so to its views."""
def cosh(input: Operand) -> Tensor:
    """Compute the hyperbolic cosine."""
def cosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `cosh`: the result is written to this tensor, and so to its views."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """1 - cosine of the angle between two rows where target is 1, max(cosine - margin, 0) where it is -1.

    >>> nt.cosine_embedding_loss(nt.ones(2, 3), nt.ones(2, 3), nt.tensor([1, -1]))"""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:
    """Cosine of the angle between x1 and x2 over dim."""
def count_equal(input: Operand, other: Operand) -> Tensor:
    """Count the equal elements, as int64."""
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over dim are not zero, as int64."""
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariances of the rows of a matrix, whose columns are samples; of a vector or one row, the variance.

    fweights: how often each sample counts, as integers; aweights: how much."""
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = None) -> Tensor:
    """Cross products of vectors of three elements along dim, by default the first dimension of extent 3.

    >>> nt.cross(nt.tensor([1.0, 0.0, 0.0]), nt.tensor([0.0, 1.0, 0.0]))"""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean', label_smoothing: builtins.float = 0.0) -> Tensor:
    """Cross-entropy of scores (batch, classes, ...) with class indices or with probabilities of the scores' shape.

    ArgumentError for size_average and reduce, which `reduction` has replaced.

    >>> nt.cross_entropy(nt.tensor([[2.0, 0.5], [0.1, 1.5]]), nt.tensor([0, 1]))"""
def cross_entropy_loss(input: Tensor, labels: Tensor) -> Tensor:
    """-sum(labels * log_softmax(input)) over the number of rows; labels are probabilities of the input's shape."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[builtins.int], target_lengths: Tensor | Sequence[builtins.int], blank: builtins.int = 0, reduction: builtins.str = 'mean', zero_infinity: builtins.bool = False) -> Tensor:
    """Minus the log-probability of all alignments of targets with log_probs (time, batch, classes) or (time, classes).

    targets: (batch, length), or those of all samples behind each other. "mean" divides by the target lengths first.
    zero_infinity: 0 for targets that are too long. Reads the lengths. Graves et al., Connectionist Temporal
    Classification, 2006.

    >>> nt.ctc_loss(nt.zeros(3, 1, 2).log_softmax(2), nt.tensor([[1]]), [3], [1])"""
def cummax(input: Tensor, dim: builtins.int) -> ValuesIndices:
    """The largest element up to each one along dim, and where it is: the latest of equal ones. NaN wins."""
def cummin(input: Tensor, dim: builtins.int) -> ValuesIndices:
    """The smallest element up to each one along dim, and where it is: the latest of equal ones. NaN wins."""
def cumprod(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Compute the running product along dim; integers give int64."""
def cumprod_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `cumprod`: the result is written to this tensor, and so to its views."""
def cumsum(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Compute the running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
def cumsum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `cumsum`: the result is written to this tensor, and so to its views."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """The integrals up to each sample but the first; as trapezoid.

    >>> nt.cumulative_trapezoid(nt.tensor([1.0, 2.0, 4.0]))"""
def deg2rad(input: Operand) -> Tensor:
    """Convert degrees to radians."""
def deg2rad_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `deg2rad`: the result is written to this tensor, and so to its views."""
def dequantize(input: Operand) -> Tensor:
    """Convert a quantized tensor to float32.

    >>> nt.dequantize(nt.quantize(nt.ones(2, 32), "q8_0")).sum()"""
def det(A: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> nt.det(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))"""
def detach(self: Any) -> Tensor:
    """The same value and memory, through which no gradients pass.

    >>> nt.detach(nt.tensor([1.0, 2.0]))"""
def diag(input: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """The matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input`."""
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """Matrices over the new dimensions dim1 and dim2, with the rows of input on a diagonal, zero elsewhere."""
def diag_mask_inf(input: Tensor, n_past: builtins.int) -> Tensor:
    """Minus infinity where column > row + n_past in the last two dimensions."""
def diag_mask_zero(input: Tensor, n_past: builtins.int) -> Tensor:
    """Zero where column > row + n_past in the last two dimensions."""
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:
    """The matrix with all elements of input on a diagonal."""
def diagonal(input: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Return the elements (i, i + offset) of dimensions dim1 and dim2 as the last dimension."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """input with a diagonal replaced by src.

    >>> nt.diagonal_scatter(nt.zeros(2, 2), nt.tensor([1.0, 2.0]))"""
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1) -> Tensor:
    """Each element along dim minus the one before it, n times over; of bool, whether they differ."""
def digamma(input: Operand) -> Tensor:
    """Compute the derivative of lgamma; infinite at 0, NaN at negative integers."""
def digamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `digamma`: the result is written to this tensor, and so to its views."""
def dist(input: Tensor, other: Tensor, p: builtins.float = 2.0) -> Tensor:
    """The p-norm of the difference of all elements."""
def div(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """input / other. rounding_mode: None (true division), "floor" or "trunc"; both keep integers."""
def div_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `div`: the result is written to this tensor, and so to its views."""
def divide(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """input / other. rounding_mode: None (true division), "floor" or "trunc"; both keep integers."""
def divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `divide`: the result is written to this tensor, and so to its views."""
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """If training, each element is 0 with probability p and else input / (1 - p); input itself otherwise."""
def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """As dropout, of whole channels of (batch, channels, width)."""
def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """As dropout, of whole channels of (batch, channels, height, width)."""
def dropout3d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """As dropout, of whole channels of (batch, channels, depth, height, width)."""
def dsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Equal parts along dimension 2, or parts between indices, as `tensor_split`.

    >>> nt.dsplit(nt.ones(2, 2, 2), 2)"""
def dstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along dimension 2, after `atleast_3d`."""
def einsum(equation: builtins.str, *operands: Any) -> Tensor:
    """Einstein summation, as einsum("bij,bjk->bik", a, b); more than two operands in the order that costs least.

    An ellipsis stands for broadcast dimensions; a label repeated inside one operand for the diagonal. Sums of a single
    operand of integers are int64, products keep its dtype. A transposition or a diagonal of a single operand is a view.

    >>> nt.einsum("ij,jk->ik", nt.ones(2, 3), nt.ones(3, 2))"""
def elu(input: Operand, alpha: builtins.float = 1.0) -> Tensor:
    """Return input where positive, else alpha * (exp(input) - 1)."""
def elu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `elu`: the result is written to this tensor, and so to its views."""
def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None) -> Tensor:
    """The rows of weight (entries, features) at the indices in input, whose shape comes first.

    The row at padding_idx has no gradient. Rows of quantized weights come out as float32.

    >>> nt.embedding(nt.tensor([2, 0]), nt.arange(6.0).reshape(3, 2))"""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, *, mode: builtins.str = 'mean', per_sample_weights: Tensor | None = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> Tensor:
    """The "sum", "mean" or "max" of the rows of weight (entries, features) at the indices of each bag.

    A bag is a row of input, or in a vector what is between one of the offsets and the next; include_last_offset: the
    last offset is the end of the last bag. per_sample_weights: factors of the rows, for "sum". padding_idx: an index
    that does not count. An empty bag gives zeros.

    >>> nt.embedding_bag(nt.tensor([[0, 2]]), nt.arange(6.0).reshape(3, 2))"""
def empty(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros: values are immutable, so memory without a value would have no use."""
def empty_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the input's shape and dtype, as `empty`."""
def enable_grad(function: Any = None) -> Any:
    """A context and decorator: what is recorded inside counts again, as outside of `no_grad`."""
def eq(input: Operand, other: Operand) -> Tensor:
    """Compare: input == other."""
def eq_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `eq`: the result is written to this tensor, and so to its views."""
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether shape and all elements are equal. Reads the value."""
def erf(input: Operand) -> Tensor:
    """Compute the error function."""
def erf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `erf`: the result is written to this tensor, and so to its views."""
def erfc(input: Operand) -> Tensor:
    """Compute 1 - erf(input), with full relative precision where it is small."""
def erfc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `erfc`: the result is written to this tensor, and so to its views."""
def erfinv(input: Operand) -> Tensor:
    """Return x with erf(x) = input; infinite at -1 and 1, NaN beyond.

    Computed by Giles' approximation and a step of Halley's method."""
def erfinv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `erfinv`: the result is written to this tensor, and so to its views."""
def exp(input: Operand) -> Tensor:
    """Raise e to the power of input."""
def exp2(input: Operand) -> Tensor:
    """Raise 2 to the power of input."""
def exp2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `exp2`: the result is written to this tensor, and so to its views."""
def exp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `exp`: the result is written to this tensor, and so to its views."""
def expand(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Repeat dimensions of extent 1 to the given extents without copying; -1 keeps an extent.

    >>> nt.expand(nt.tensor([[1], [2]]), 2, 3)"""
def expm1(input: Operand) -> Tensor:
    """Compute exp(input) - 1, accurate near zero."""
def expm1_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `expm1`: the result is written to this tensor, and so to its views."""
def eye(n: builtins.int, m: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """n rows and m (default n) columns with ones on the diagonal."""
def finfo(type: Any = None) -> FloatLimits:
    """The limits of a float dtype, float32 unless given: eps is the distance from 1 to the next number."""
def fix(input: Operand) -> Tensor:
    """Round toward zero to an integer."""
def fix_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `fix`: the result is written to this tensor, and so to its views."""
def flash_attn_ext(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, logit_softcap: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
    """Attention of (batch, heads, tokens, features), whose result is (batch, tokens, heads, features).

    The scores, times scale, become c tanh(score / c) where logit_softcap = c is not 0; mask, max_bias and sinks are
    those of `soft_max_ext`. Heads of key and value may be fewer: each serves as many heads of query. Sums are float32.

    >>> nt.flash_attn_ext(nt.ones(1, 2, 3, 4), nt.ones(1, 1, 5, 4), nt.ones(1, 1, 5, 2)).shape"""
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """Dimensions start_dim to end_dim as one."""
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reversed along dims."""
def fliplr(input: Tensor) -> Tensor:
    """Columns reversed."""
def flipud(input: Tensor) -> Tensor:
    """Rows reversed."""
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """input to the power of exponent, in float64."""
def floor(input: Operand) -> Tensor:
    """Round down to an integer."""
def floor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `floor`: the result is written to this tensor, and so to its views."""
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Divide and round down, also infinite numbers. Integer division by zero raises ZeroDivisionError when it runs."""
def floor_divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `floor_divide`: the result is written to this tensor, and so to its views."""
def fmax(input: Operand, other: Operand) -> Tensor:
    """Return the larger of two elements, or the other one if one is NaN."""
def fmax_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `fmax`: the result is written to this tensor, and so to its views."""
def fmin(input: Operand, other: Operand) -> Tensor:
    """Return the smaller of two elements, or the other one if one is NaN."""
def fmin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `fmin`: the result is written to this tensor, and so to its views."""
def fmod(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of division rounded toward zero, with the sign of input."""
def fmod_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `fmod`: the result is written to this tensor, and so to its views."""
def fold(input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The transpose of `unfold`: columns (batch, channels * elements of a kernel, positions) added where they were.

    >>> nt.fold(nt.ones(1, 4, 4), 3, 2)"""
def frac(input: Operand) -> Tensor:
    """Return the fraction, input - trunc(input)."""
def frac_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `frac`: the result is written to this tensor, and so to its views."""
def frexp(input: Tensor) -> MantissaExponent:
    """Fractions from 0.5 to below 1 in magnitude, or 0, and int32 powers of 2 that give input."""
def from_dlpack(external: Any) -> Tensor:
    """A tensor with the value and dtype of a PyTorch tensor, a JAX array or whatever else speaks DLPack; always a copy.

    Raises BufferError for memory that is not the processor's, and DTypeError for a dtype that there is not here.

    >>> nt.from_dlpack(np.arange(3.0))"""
def from_numpy(array: np.ndarray[Any, Any], copy: builtins.bool = True) -> Tensor:
    """A tensor with the array's value and dtype.

    copy=False shares the memory of a row-major array and marks the array read-only, as values never change.

    >>> nt.from_numpy(np.arange(3.0))"""
def full(size: Extents, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """`fill_value` everywhere; its own type gives the dtype unless `dtype` does.

    Raises ArgumentError if an integer dtype cannot hold it."""
def full_like(input: Tensor, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """`fill_value` in the input's shape and dtype."""
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """The gated delta rule: S = exp(g) state, state = S + beta (v - S k) k^T, output = state q / sqrt(features).

    q, k: (sequences, tokens, heads of keys, features). v: (sequences, tokens, heads, features). g: (sequences, tokens,
    heads, 1), or one for each feature of k. beta: (sequences, tokens, heads, 1). state: (sequences, heads, features of
    v, features of k). The heads of keys repeat. Returns outputs as v, and states.

    >>> nt.gated_delta_net(*[nt.ones(1, 2, 1, 2)] * 3, nt.zeros(1, 2, 1, 1), nt.ones(1, 2, 1, 1), nt.zeros(1, 1, 2, 2))"""
def gated_linear_attn(k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, scale: builtins.float = 1.0) -> builtins.tuple[Tensor, Tensor]:
    """Gated linear attention: state = diag(g) state + k v^T, output = scale q state.

    k, v, q, g: (tokens of all sequences, heads, features). state: (sequences, heads, features of k, features of v).
    Returns outputs as v, and states.

    >>> nt.gated_linear_attn(*[nt.ones(2, 1, 2)] * 4, nt.zeros(1, 1, 2, 2), 0.5)"""
def gather(input: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim = 0, and likewise for the others.

    >>> nt.gather(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([[1, 0], [0, 0]]))"""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: builtins.bool = False, eps: builtins.float = 1e-06, *, reduction: builtins.str = 'mean') -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2 with variances of at least eps; full: plus log(2 pi) / 2.

    >>> nt.gaussian_nll_loss(nt.zeros(2), nt.ones(2), nt.ones(2))"""
def gcd(input: Operand, other: Operand) -> Tensor:
    """Compute the greatest common divisor."""
def gcd_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `gcd`: the result is written to this tensor, and so to its views."""
def ge(input: Operand, other: Operand) -> Tensor:
    """Compare: input >= other."""
def ge_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `ge`: the result is written to this tensor, and so to its views."""
def geglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu(x, tanh form) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def geglu_erf(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu(x, exact form) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def geglu_quick(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu_quick(x) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def gelu(input: Tensor, approximate: builtins.str = 'none') -> Tensor:
    """Gaussian error linear unit, exact; approximate="tanh" is GGML's gelu."""
def gelu_erf(input: Operand) -> Tensor:
    """Compute the exact Gaussian error linear unit: 0.5 x (1 + erf(x / sqrt(2)))."""
def gelu_erf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `gelu_erf`: the result is written to this tensor, and so to its views."""
def gelu_quick(input: Operand) -> Tensor:
    """Return input * sigmoid(1.702 * input)."""
def gelu_quick_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `gelu_quick`: the result is written to this tensor, and so to its views."""
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of elements of two vectors.

    >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def get_default_dtype() -> DType:
    """The dtype that Python floats become, float32 unless `set_default_dtype` has changed it."""
def get_rel_pos(input: Tensor, queries: builtins.int, keys: builtins.int) -> Tensor:
    """The embedding of every distance between a query and a key: (queries, keys, features) of (distances, features).

    There are 2 max(queries, keys) - 1 distances, from the key that is farthest ahead.

    >>> nt.get_rel_pos(nt.arange(3.0).reshape(3, 1), 2, 2)"""
def get_rows(input: Tensor, rows: Tensor) -> Tensor:
    """Rows of input (..., entries, features) at the indices in rows (..., n): (..., n, features).

    Floats of up to 32 bits and quantized numbers come out as float32.

    >>> nt.get_rows(nt.arange(6.0).reshape(3, 2), nt.tensor([2, 0]))"""
def glu(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """PyTorch's gated linear unit: the first half of dim times the sigmoid of the second."""
def gradient(input: Tensor, *, spacing: Operand | Sequence[Operand] = 1, dim: builtins.int | Sequence[builtins.int] | None = None, edge_order: builtins.int = 1) -> builtins.tuple[Tensor, ...]:
    """Derivatives along each of dims (None = all) by central differences of second order, at the ends of edge_order.

    spacing: the distance of samples, or their coordinates as a vector; one for all dimensions or one for each."""
def greater(input: Operand, other: Operand) -> Tensor:
    """Compare: input > other."""
def greater_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `greater`: the result is written to this tensor, and so to its views."""
def greater_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input >= other."""
def greater_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `greater_equal`: the result is written to this tensor, and so to its views."""
def grid_sample(input: Tensor, grid: Tensor, mode: builtins.str = 'bilinear', padding_mode: builtins.str = 'zeros', align_corners: builtins.bool | None = None) -> Tensor:
    """input (batch, channels, *places) read at grid (batch, *out, number of places), of two or three places.

    Coordinates go from -1 to 1, as in `affine_grid`. mode: "bilinear" (of three places trilinear) or "nearest".
    padding_mode: what is outside: "zeros", the "border", or its "reflection".

    >>> nt.grid_sample(nt.arange(4.0).reshape(1, 1, 2, 2), nt.zeros(1, 1, 1, 2), align_corners=True)"""
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """Layer norm over groups of channels (dimension 1); weight and bias have one element per channel.

    >>> nt.group_norm(nt.arange(8.0).reshape(1, 4, 2), 2)"""
def gt(input: Operand, other: Operand) -> Tensor:
    """Compare: input > other."""
def gt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `gt`: the result is written to this tensor, and so to its views."""
def gumbel_softmax(logits: Tensor, tau: builtins.float = 1.0, hard: builtins.bool = False, eps: builtins.float = 1e-10, dim: builtins.int = -1) -> Tensor:
    """softmax((logits + noise of Gumbel's distribution) / tau) over dim, a sample of the categories for a small tau.

    hard: 1 for the largest and 0 for the others, with the gradient of the soft sample. eps has no effect.

    >>> nt.gumbel_softmax(nt.tensor([1.0, 2.0, 3.0]), hard=True)"""
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """alpha - beta cos(x) over a turn; periodic: without the last element of the symmetric one.

    >>> nt.hamming_window(4)"""
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """0.5 - 0.5 cos(x) over a turn; periodic: without the last element of the symmetric one.

    >>> nt.hann_window(4)"""
def hardshrink(input: Operand, lambd: builtins.float = 0.5) -> Tensor:
    """Return input where it is outside [-lambd, lambd], else zero."""
def hardshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `hardshrink`: the result is written to this tensor, and so to its views."""
def hardsigmoid(input: Operand) -> Tensor:
    """Return min(max(input + 3, 0), 6) / 6."""
def hardsigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `hardsigmoid`: the result is written to this tensor, and so to its views."""
def hardswish(input: Operand) -> Tensor:
    """Return input * min(max(input + 3, 0), 6) / 6."""
def hardswish_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `hardswish`: the result is written to this tensor, and so to its views."""
def hardtanh(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
    """Limit input to [min_val, max_val]."""
def hardtanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `hardtanh`: the result is written to this tensor, and so to its views."""
def heaviside(input: Operand, values: Operand) -> Tensor:
    """Return 0 where input < 0, 1 where input > 0, and values where it is 0.

    >>> nt.heaviside(nt.tensor([-1.0, 0.0, 1.0]), 0.5)"""
def heaviside_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `heaviside`: the result is written to this tensor, and so to its views."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """A distance where target is 1, max(margin - distance, 0) where it is -1."""
def histc(input: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
    """How many elements are in each of so many equal intervals from min to max, or between the extremes."""
def histogram(input: Tensor, bins: builtins.int | Tensor, *, range: builtins.tuple[builtins.float, builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False) -> Histogram:
    """Sums of the weights (1 unless given) of the elements between edges, the last one included.

    bins: edges in ascending order, or how many equal intervals there are in `range`. density: divided by the total and
    by the widths.

    >>> nt.histogram(nt.tensor([1.0, 2.0, 2.5, 4.0]), 3)"""
def hsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Equal parts along dimension 1, or parts between indices, as `tensor_split`.

    >>> nt.hsplit(nt.ones(2, 2, 2), 2)"""
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined side by side: along dimension 1, or 0 where they have one dimension."""
def huber_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', delta: builtins.float = 1.0) -> Tensor:
    """Half the squared distance up to delta, beyond it delta times the distance minus half of delta."""
def hypot(input: Operand, other: Operand) -> Tensor:
    """Compute sqrt(input^2 + other^2) without overflow."""
def hypot_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `hypot`: the result is written to this tensor, and so to its views."""
def iinfo(type: Any) -> IntegerLimits:
    """Bits, max and min of an integer dtype.

    >>> nt.iinfo(nt.int8)"""
def im2col(input: Tensor, kernel_size: builtins.tuple[builtins.int, ...], stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1) -> Tensor:
    """What a kernel over (batch, channels, *places) meets: (batch, *positions, channels * elements of the kernel).

    kernel_size: an extent for each of one to three place dimensions.

    >>> nt.im2col(nt.arange(9.0).reshape(1, 1, 3, 3), (2, 2))"""
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
    """input with alpha times the slices of source added to those at the positions `index` along dim.

    >>> nt.index_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
def index_add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `index_add`: the result is written to this tensor, and so to its views."""
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
    """input with the slices at the positions `index` along dim replaced by those of source.

    >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def index_copy_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `index_copy`: the result is written to this tensor, and so to its views."""
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: builtins.float) -> Tensor:
    """input with the slices at the positions `index` along dim set to value.

    >>> nt.index_fill(nt.zeros(3), 0, nt.tensor([2, 0]), 7.0)"""
def index_fill_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `index_fill`: the result is written to this tensor, and so to its views."""
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: builtins.bool = False) -> Tensor:
    """input with input[indices] replaced by values, or increased by them, those of equal positions by their sum.

    >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))"""
def index_put_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `index_put`: the result is written to this tensor, and so to its views."""
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
    """input reduced with the slices of source at those at the positions `index` along dim; as scatter_reduce.

    >>> nt.index_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "prod")"""
def index_reduce_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `index_reduce`: the result is written to this tensor, and so to its views."""
def index_select(input: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """The slices of input at the positions in the vector `index` along dim.

    >>> nt.index_select(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([1]))"""
def inference_mode(mode: Any = True) -> Any:
    """As no_grad. With False it changes nothing."""
def initial_seed() -> builtins.int:
    """The seed that the default generator was started from."""
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of the products along the last dimensions of both; with a number as either, the product."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: builtins.bool = True, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Each channel of each sample normalized with its own statistics, or with the running ones unless use_input_stats.

    The running statistics, where they are passed, move in place towards the mean of those of the samples.

    >>> nt.instance_norm(nt.arange(4.0).reshape(1, 2, 2))"""
def interpolate(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False) -> Tensor:
    """(batch, channels, *places) with other extents: `size`, or those of input times scale_factor, rounded down.

    mode: "nearest", "nearest-exact", "area" (means of parts), or "linear" for one place dimension, "bilinear" and
    "bicubic" for two, "trilinear" for three. align_corners: whether the outermost elements keep their values; not for
    the first three. recompute_scale_factor: the factors are the quotients of the extents. antialias: of "bilinear" and
    "bicubic", whether elements count that lie between those of a smaller result.

    >>> nt.interpolate(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def inverse(A: Tensor) -> Tensor:
    """The inverse of square matrices.

    >>> nt.inverse(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))"""
def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the dtype is a float type."""
def is_grad_enabled() -> builtins.bool:
    """Whether gradients pass through what this thread records."""
def is_nonzero(input: Tensor) -> builtins.bool:
    """Whether the only element is not zero. ShapeError for several. Reads the value.

    >>> nt.is_nonzero(nt.tensor([2]))"""
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether both have the same shape."""
def is_signed(input: Tensor) -> builtins.bool:
    """Whether the dtype has negative numbers."""
def is_tensor(obj: builtins.object) -> builtins.bool:
    """Whether obj is a Tensor.

    >>> nt.is_tensor(nt.zeros(2))"""
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, element by element; of integers and bool in float32."""
def isfinite(input: Operand) -> Tensor:
    """Return True where input is neither infinite nor NaN."""
def isfinite_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `isfinite`: the result is written to this tensor, and so to its views."""
def isin(elements: Operand, test_elements: Operand, *, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> Tensor:
    """Whether each of the elements is among test_elements, with which it is compared one by one.

    >>> nt.isin(nt.tensor([1, 2, 3]), nt.tensor([2, 5]))"""
def isinf(input: Operand) -> Tensor:
    """Return True where input is plus or minus infinity."""
def isinf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `isinf`: the result is written to this tensor, and so to its views."""
def isnan(input: Operand) -> Tensor:
    """Return True where input is NaN."""
def isnan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `isnan`: the result is written to this tensor, and so to its views."""
def isneginf(input: Operand) -> Tensor:
    """Return True where input is minus infinity."""
def isneginf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `isneginf`: the result is written to this tensor, and so to its views."""
def isposinf(input: Operand) -> Tensor:
    """Return True where input is plus infinity."""
def isposinf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `isposinf`: the result is written to this tensor, and so to its views."""
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Kaiser's window of a shape parameter; periodic: without the last element of the symmetric one.

    >>> nt.kaiser_window(4)"""
def kl_div(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', log_target: builtins.bool = False) -> Tensor:
    """target * (log(target) - input) with log-probabilities as input; log_target: the target is given as them, too.

    reduction "batchmean" divides the sum by the extent of the first dimension."""
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: other times each element of input, laid out as input is."""
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
    """The k-th smallest element of each row along dim, counted from 1, and where it was."""
def l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean') -> Tensor:
    """|input - target|: their mean, their sum, or all of them."""
def l2_norm(input: Operand, dim: Dims = -1, eps: builtins.float = 1e-12) -> Tensor:
    """Return input / max(sqrt(sum(input^2)), eps) over dim."""
def layer_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """(input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias."""
def lcm(input: Operand, other: Operand) -> Tensor:
    """Compute the least common multiple."""
def lcm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `lcm`: the result is written to this tensor, and so to its views."""
def ldexp(input: Operand, other: Operand) -> Tensor:
    """Return input * 2^other."""
def ldexp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `ldexp`: the result is written to this tensor, and so to its views."""
def le(input: Operand, other: Operand) -> Tensor:
    """Compare: input <= other."""
def le_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `le`: the result is written to this tensor, and so to its views."""
def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01) -> Tensor:
    """Return input where positive, else negative_slope * input."""
def leaky_relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `leaky_relu`: the result is written to this tensor, and so to its views."""
def lerp(input: Operand, end: Operand, weight: Operand) -> Tensor:
    """Interpolate: input + weight * (end - input), computed from the nearer end so that a weight of 1 gives end.

    >>> nt.lerp(nt.tensor([0.0, 10.0]), nt.tensor([1.0, 20.0]), 0.25)"""
def lerp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `lerp`: the result is written to this tensor, and so to its views."""
def less(input: Operand, other: Operand) -> Tensor:
    """Compare: input < other."""
def less_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `less`: the result is written to this tensor, and so to its views."""
def less_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input <= other."""
def less_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `less_equal`: the result is written to this tensor, and so to its views."""
def lgamma(input: Operand) -> Tensor:
    """Compute the natural logarithm of |gamma(input)|; infinite at 0 and at negative integers."""
def lgamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `lgamma`: the result is written to this tensor, and so to its views."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias; the rows of weight (out features, in features) are outputs.

    The result has the dtype of input. Weights may be float16 or bfloat16 where input is float32, or quantized where it
    is of floats; see `mul_mat`.

    >>> nt.linear(nt.ones(2, 3), nt.ones(4, 3), nt.zeros(4))"""
def linspace(start: builtins.float, end: builtins.float, steps: builtins.int, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included.

    >>> nt.linspace(0.0, 1.0, 5)"""
def local_response_norm(input: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    """input / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta; channels are dimension 1.

    >>> nt.local_response_norm(nt.ones(1, 3, 2), 2)"""
def log(input: Operand) -> Tensor:
    """Compute the natural logarithm; negative numbers give NaN."""
def log10(input: Operand) -> Tensor:
    """Compute the logarithm to base 10, exact for powers of ten."""
def log10_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `log10`: the result is written to this tensor, and so to its views."""
def log1p(input: Operand) -> Tensor:
    """Compute log(1 + input), accurate near zero."""
def log1p_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `log1p`: the result is written to this tensor, and so to its views."""
def log2(input: Operand) -> Tensor:
    """Compute the logarithm to base 2, exact for powers of two."""
def log2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `log2`: the result is written to this tensor, and so to its views."""
def log_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `log`: the result is written to this tensor, and so to its views."""
def log_softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """Compute log(softmax(input)) over dim without overflow."""
def logaddexp(input: Operand, other: Operand) -> Tensor:
    """Compute log(exp(input) + exp(other)) without overflow."""
def logaddexp2(input: Operand, other: Operand) -> Tensor:
    """Compute log2(2^input + 2^other) without overflow."""
def logaddexp2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logaddexp2`: the result is written to this tensor, and so to its views."""
def logaddexp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logaddexp`: the result is written to this tensor, and so to its views."""
def logcumsumexp(input: Operand, dim: Dims) -> Tensor:
    """Compute the logarithm of the running sum of exp(input) along dim without overflow."""
def logdet(input: Tensor) -> Tensor:
    """Logarithm of the determinant of square matrices; NaN where it is negative."""
def logical_and(input: Operand, other: Operand) -> Tensor:
    """Return True where both elements are true (not zero)."""
def logical_and_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logical_and`: the result is written to this tensor, and so to its views."""
def logical_not(input: Operand) -> Tensor:
    """Return True where input is false (zero)."""
def logical_not_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logical_not`: the result is written to this tensor, and so to its views."""
def logical_or(input: Operand, other: Operand) -> Tensor:
    """Return True where either element is true."""
def logical_or_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logical_or`: the result is written to this tensor, and so to its views."""
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Return True where exactly one element is true."""
def logical_xor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logical_xor`: the result is written to this tensor, and so to its views."""
def logit(input: Operand, eps: builtins.float | None = None) -> Tensor:
    """Compute log(input / (1 - input)), with input limited to [eps, 1 - eps] if eps is given."""
def logit_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logit`: the result is written to this tensor, and so to its views."""
def logsigmoid(input: Operand) -> Tensor:
    """Compute log(sigmoid(input)) without overflow."""
def logsigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `logsigmoid`: the result is written to this tensor, and so to its views."""
def logspace(start: builtins.float, end: builtins.float, steps: builtins.int, base: builtins.float = 10.0, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """`steps` numbers from base ** start to base ** end, whose logarithms are evenly spaced.

    >>> nt.logspace(0.0, 2.0, 3)"""
def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
    """Compute log(sum(exp(input))) over dim without overflow."""
def lp_pool1d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """The sum of a power of the elements of each window of (batch, channels, width), to the inverse power.

    >>> nt.lp_pool1d(nt.arange(3.0).reshape(1, 3), 2, 2, stride=1)"""
def lp_pool2d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """The sum of a power of the elements of each window of (batch, channels, height, width), to the inverse power.

    >>> nt.lp_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, 2, stride=1)"""
def lp_pool3d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """The sum of a power of the elements of each window of (batch, channels, depth, height, width), to the inverse power.

    >>> nt.lp_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, 2, stride=1)"""
def lt(input: Operand, other: Operand) -> Tensor:
    """Compare: input < other."""
def lt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `lt`: the result is written to this tensor, and so to its views."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """max(margin - target * (input1 - input2), 0): target is 1 where input1 should be larger, else -1.

    >>> nt.margin_ranking_loss(nt.tensor([1.0]), nt.tensor([3.0]), nt.tensor([1.0]))"""
def masked_fill(input: Tensor, mask: Tensor, value: builtins.float | Tensor) -> Tensor:
    """`value` where mask, else input; keeps the input's dtype."""
def masked_fill_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `masked_fill`: the result is written to this tensor, and so to its views."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in their order, where mask. Reads the mask.

    >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))"""
def masked_scatter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `masked_scatter`: the result is written to this tensor, and so to its views."""
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask, as a vector. Reads the mask."""
def matmul(input: Operand, other: Operand) -> Tensor:
    """Matrix product. Vectors count as a row on the left and a column on the right; leading dimensions broadcast.

    Both must have one dtype. Float sums are float32 (float64 for float64), rounded once."""
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices: the Taylor series of A / 2^n, squared n times.

    >>> nt.matrix_exp(nt.zeros(2, 2))"""
def matrix_power(A: Tensor, n: builtins.int) -> Tensor:
    """Square matrices to an integer power; negative ones of the inverse.

    >>> nt.matrix_power(nt.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)"""
def max(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """max(input): the largest element. max(input, dim): (values, indices) along dim. max(input, other): maximum."""
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """The largest element of each window of (batch, channels, width); stride defaults to kernel_size.

    ceil_mode: windows that begin inside the input may end beyond it. return_indices: also where each one is among
    the elements of its channel.

    >>> nt.max_pool1d(nt.arange(3.0).reshape(1, 3), 2, stride=1)"""
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """The largest element of each window of (batch, channels, height, width); stride defaults to kernel_size.

    ceil_mode: windows that begin inside the input may end beyond it. return_indices: also where each one is among
    the elements of its channel.

    >>> nt.max_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, stride=1)"""
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """The largest element of each window of (batch, channels, depth, height, width); stride defaults to kernel_size.

    ceil_mode: windows that begin inside the input may end beyond it. return_indices: also where each one is among
    the elements of its channel.

    >>> nt.max_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, stride=1)"""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """The elements of a maximum pool of (batch, channels, width) put where they were, zeros elsewhere.

    output_size: the extents, if kernel, stride and padding allow several.

    >>> nt.max_unpool1d(nt.arange(3.0).reshape(1, 3), nt.arange(3.0).reshape(1, 3).long(), 1)"""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """The elements of a maximum pool of (batch, channels, height, width) put where they were, zeros elsewhere.

    output_size: the extents, if kernel, stride and padding allow several.

    >>> nt.max_unpool2d(nt.arange(9.0).reshape(1, 3, 3), nt.arange(9.0).reshape(1, 3, 3).long(), 1)"""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """The elements of a maximum pool of (batch, channels, depth, height, width) put where they were, zeros elsewhere.

    output_size: the extents, if kernel, stride and padding allow several.

    >>> nt.max_unpool3d(nt.arange(27.0).reshape(1, 3, 3, 3), nt.arange(27.0).reshape(1, 3, 3, 3).long(), 1)"""
def maximum(input: Operand, other: Operand) -> Tensor:
    """Return the larger of two elements, or NaN if either is NaN."""
def maximum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `maximum`: the result is written to this tensor, and so to its views."""
def mean(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Compute the arithmetic mean over dim (None = all)."""
def median(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along dim. NaN wins.

    NaN of no elements; DimensionError of none along dim, or of no integers."""
def meshgrid(*tensors: Tensor, indexing: builtins.str = 'ij') -> builtins.tuple[Tensor, ...]:
    """Each vector expanded along a dimension of its own; indexing="xy" swaps the first two dimensions.

    >>> nt.meshgrid(nt.arange(2), nt.arange(3))"""
def min(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """min(input): the smallest element. min(input, dim): (values, indices) along dim. min(input, other): minimum."""
def minimum(input: Operand, other: Operand) -> Tensor:
    """Return the smaller of two elements, or NaN if either is NaN."""
def minimum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `minimum`: the result is written to this tensor, and so to its views."""
def mish(input: Operand) -> Tensor:
    """Return input * tanh(softplus(input))."""
def mish_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `mish`: the result is written to this tensor, and so to its views."""
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
    """The most frequent element of each row along dim, the smallest of several, and where it was last."""
def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions `source` moved to the places `destination`; the others keep their order."""
def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions `source` moved to the places `destination`; the others keep their order."""
def mse_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean') -> Tensor:
    """(input - target) squared: their mean, their sum, or all of them."""
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension."""
def mul(input: Operand, other: Operand) -> Tensor:
    """Return input * other."""
def mul_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `mul`: the result is written to this tensor, and so to its views."""
def mul_mat(a: Tensor, b: Tensor, *, exact: builtins.bool = False) -> Tensor:
    """GGML's product with weights: a (..., m, k) and b (..., n, k) give b @ a.T, (..., n, m).

    Each batch of a serves as many consecutive batches of b as it takes. A float b is converted to the dtype of a.
    Floats give float32, integers of up to 32 bits int32.

    For a quantized a (m, k), b of floats is rounded to 8 bits as in ggml, with a scale for each 32 elements of a row,
    or 256 for q4_k, q5_k and q6_k, so that integers are multiplied; on an NPU it is rounded to bfloat16. exact: take
    float32 numbers as they are, which is slower. The gradient of b is that of its product with a.dequantize()."""
def mul_mat_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """`mul_mat` with the matrices of a (experts, m, k) at the indices ids (tokens, used): (tokens, used, m).

    b: (tokens, used, k), or (tokens, 1, k) for all that a token uses. A float b is converted to the dtype of a.

    >>> nt.mul_mat_id(nt.arange(3.0).reshape(3, 1, 1), nt.ones(2, 1, 1), nt.tensor([[0, 1], [2, 1]]))"""
def multi_margin_loss(input: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """The mean over the other classes i of max(margin - input[target] + input[i], 0) ** p; classes come last.

    >>> nt.multi_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([1]))"""
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: builtins.str = 'mean') -> Tensor:
    """The sum of max(1 - input[i] + input[j], 0) over the classes i of a sample and the others j, per class.

    The classes of a sample are those in its row of target before the first -1.

    >>> nt.multilabel_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([[1, -1]]))"""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """Binary cross-entropy of sigmoid(input) with targets of 0 or 1, the mean over the last dimension."""
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:
    """Indices drawn with the weights in each row of input, which need not sum to 1; int64 of (rows, num_samples).

    Raises DimensionError if weights are negative or not finite, or if fewer are positive than are drawn without
    replacement. The error is raised at once if the weights have been computed, otherwise where the indices are read.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)"""
def multiply(input: Operand, other: Operand) -> Tensor:
    """Return input * other."""
def multiply_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `multiply`: the result is written to this tensor, and so to its views."""
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector.

    >>> nt.mv(nt.ones(2, 3), nt.ones(3))"""
def mvlgamma(input: Tensor, p: builtins.int) -> Tensor:
    """Logarithm of the gamma function of p dimensions.

    >>> nt.mvlgamma(nt.tensor([3.0, 4.0]), 2)"""
def mvlgamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `mvlgamma`: the result is written to this tensor, and so to its views."""
def nan_to_num(input: Tensor, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """`nan` for NaN, posinf and neginf for the infinities; these default to the limits of the dtype."""
def nan_to_num_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `nan_to_num`: the result is written to this tensor, and so to its views."""
def nanmean(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over dim (None = all) of what is not NaN; NaN if there is nothing else."""
def nanmedian(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """The lower median of all elements that are not NaN, or (values, indices) along dim."""
def nansum(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim (None = all) of what is not NaN."""
def narrow(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """`length` elements along dim from `start`.

    >>> nt.narrow(nt.arange(5), 0, 1, 3)"""
def ne(input: Operand, other: Operand) -> Tensor:
    """Compare: input != other."""
def ne_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `ne`: the result is written to this tensor, and so to its views."""
def neg(input: Operand) -> Tensor:
    """Return -input."""
def neg_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `neg`: the result is written to this tensor, and so to its views."""
def negative(input: Operand) -> Tensor:
    """Return -input."""
def negative_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `negative`: the result is written to this tensor, and so to its views."""
def nextafter(input: Operand, other: Operand) -> Tensor:
    """Return the next number after input toward other."""
def nextafter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `nextafter`: the result is written to this tensor, and so to its views."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean') -> Tensor:
    """Minus the log-probability of the target class; the mean is weighted. Classes are dimension 1 of input.

    ArgumentError for size_average and reduce, which `reduction` has replaced.

    >>> nt.nll_loss(nt.tensor([[-0.1, -2.3], [-1.6, -0.2]]), nt.tensor([0, 1]))"""
def no_grad(function: Any = None) -> Any:
    """A context and decorator: gradients do not pass through what is recorded inside."""
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False) -> Any:
    """Positions of elements that are not zero, one row each, or one vector per dimension. Reads the value."""
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
    """As nonzero, cut or filled with fill_value to `size` rows. Reads the value.

    >>> nt.nonzero_static(nt.tensor([0, 3, 4]), size=2)"""
def norm(input: Tensor, p: builtins.float | builtins.str = 2.0, dim: Dims = None, keepdim: builtins.bool = False, dtype: Any = None) -> Tensor:
    """The vector p-norm over dim (None = all): sum(|input| ** p) ** (1 / p); "fro" is p = 2; p may be infinite."""
def norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """Return (input - mean) / sqrt(variance + eps) over dim: layer norm without weights."""
def normal(mean: Tensor | builtins.float, std: Tensor | builtins.float = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Normal random numbers of these means and standard deviations, which broadcast; of two numbers, `size` of them.

    The dtype is that of mean, or of std if only that is a tensor, and float32 of two numbers.

    >>> nt.normal(0.0, 1.0, (2, 2))"""
def normalize(input: Tensor, p: builtins.float = 2.0, dim: builtins.int = 1, eps: builtins.float = 1e-12) -> Tensor:
    """input / max(p-norm over dim, eps)."""
def not_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input != other."""
def not_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `not_equal`: the result is written to this tensor, and so to its views."""
def numel(input: Tensor) -> builtins.int:
    """Number of elements."""
def one_hot(input: Tensor, num_classes: builtins.int = -1) -> Tensor:
    """int64, 1 at the place of the index along a new last dimension. num_classes=-1 reads the largest index.

    DimensionError for an index outside [0, num_classes), where the value is read.

    >>> nt.one_hot(nt.tensor([0, 2]), 3)"""
def ones(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Ones of the given shape; float32 unless `dtype` says otherwise."""
def ones_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Ones of the input's shape and dtype."""
def out_prod(a: Tensor, b: Tensor) -> Tensor:
    """GGML's sum of outer products: a (..., k, m) and b (..., k, n) give b.T @ a, (..., n, m)."""
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of elements of two vectors.

    >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def pad(input: Tensor, pad: Sequence[builtins.int], mode: builtins.str = 'constant', value: builtins.float | None = None) -> Tensor:
    """Elements added around: pad = (before, after) of the last dimension, then of the one before, and so on.

    mode: constant (with value, default 0), reflect, replicate or circular. Negative widths crop.

    >>> nt.pad(nt.ones(1, 2), (1, 1), value=0.0)"""
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False) -> Tensor:
    """p-norms of x1 - x2 + eps over the last dimension."""
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    """p-norms of the differences of all pairs of rows of a matrix: those of rows 0 and 1, 0 and 2, ..., 1 and 2, ..."""
def permute(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Reorder the dimensions."""
def pinverse(input: Tensor, rcond: builtins.float = 1e-15) -> Tensor:
    """The pseudoinverse of matrices; singular values up to rcond times the largest count as 0."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    """(..., channels * factor^2, height, width) as (..., channels, height * factor, width * factor).

    >>> nt.pixel_shuffle(nt.arange(4.0).reshape(1, 4, 1, 1), 2)"""
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    """(..., channels, height, width) as (..., channels * factor^2, height / factor, width / factor).

    >>> nt.pixel_unshuffle(nt.arange(4.0).reshape(1, 1, 2, 2), 2)"""
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Random numbers of Poisson distributions with the rates in input."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False, eps: builtins.float = 1e-08, *, reduction: builtins.str = 'mean') -> Tensor:
    """exp(input) - target * input, of rates that are given as logarithms, else input - target * log(input + eps).

    full: with Stirling's approximation of log(target!) for targets above 1."""
def positive(input: Tensor) -> Tensor:
    """input itself. DTypeError for bool."""
def pow(input: Operand | np.generic, exponent: Operand | np.generic) -> Tensor:
    """input to the power of exponent. Two integers give an integer; a negative exponent number is an error then."""
def pow_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `pow`: the result is written to this tensor, and so to its views."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else input * weight, which has one element or one per channel (dimension 1).

    >>> nt.prelu(nt.tensor([-2.0, 3.0]), nt.tensor(0.1))"""
def prod(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Multiply the elements over dim (None = all); integers give int64."""
def promote_types(type1: Any, type2: Any) -> DType:
    """The dtype of a result of tensors of these two dtypes.

    >>> nt.promote_types(nt.int32, nt.float16)"""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """input with elements at positions among all elements replaced by those of source, or increased by them.

    >>> nt.put(nt.zeros(2, 2), nt.tensor([3]), nt.tensor([7.0]))"""
def put_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `put`: the result is written to this tensor, and so to its views."""
def qr(input: Tensor, some: builtins.bool = True) -> QR:
    """As linalg.qr; some=False makes Q square."""
def quantile(input: Tensor, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
    """What the part q of the elements along dim (None = all) is below; several q make a first dimension. NaN wins.

    interpolation between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint". A q outside [0, 1] is an
    ArgumentError, and in a tensor a DimensionError where the value is read."""
def quantize(input: Operand, dtype: Any) -> Tensor:
    """Convert input to q8_0, q4_0, q4_1, q5_0 or q5_1.

    Each 32 elements of a row share a scale. Rounding is that of ggml.

    >>> nt.quantize(nt.ones(2, 32), "q8_0").dtype"""
def rad2deg(input: Operand) -> Tensor:
    """Convert radians to degrees."""
def rad2deg_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `rad2deg`: the result is written to this tensor, and so to its views."""
def rand(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform random numbers on [0, 1). The seed is drawn now, the numbers when the value is needed."""
def rand_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform on [0, 1) in the input's shape and dtype."""
def randint(low: builtins.int = 0, high: builtins.int | Extents | None = None, size: Extents = None, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform random integers on [low, high), or on [0, high) as randint(high, size); int64 by default.

    ArgumentError for integers that `dtype` cannot hold. A float dtype rounds those that have more digits than it.

    >>> nt.randint(0, 10, (2, 2))"""
def randint_like(input: Tensor, low: builtins.int, high: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform integers on [low, high), or [0, low), in the input's shape and dtype.

    >>> nt.randint_like(nt.zeros(2, 2), 0, 10)"""
def randn(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Standard normal random numbers."""
def randn_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Standard normal in the input's shape and dtype."""
def randperm(n: builtins.int, generator: Generator | None = None, dtype: DTypeLike = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """A random order of 0 to n - 1; int64 by default. ArgumentError for numbers that `dtype` cannot hold."""
def range(start: builtins.float, end: builtins.float, step: builtins.float = 1, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """start, start + step, ... up to and including end, of the default float dtype unless `dtype` says otherwise.

    >>> nt.range(0, 3)"""
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
def reciprocal(input: Operand) -> Tensor:
    """Return 1 / input."""
def reciprocal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `reciprocal`: the result is written to this tensor, and so to its views."""
def reglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """relu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def relu(input: Operand) -> Tensor:
    """Return max(input, 0). NaN stays NaN, as in PyTorch (GGML gives 0)."""
def relu6(input: Operand) -> Tensor:
    """Return min(max(input, 0), 6)."""
def relu6_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `relu6`: the result is written to this tensor, and so to its views."""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `relu`: the result is written to this tensor, and so to its views."""
def remainder(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of floor division, with the sign of the divisor; a zero has the sign of input."""
def remainder_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `remainder`: the result is written to this tensor, and so to its views."""
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
    """Slices along dim whose p-norm is above maxnorm scaled down to it.

    >>> nt.renorm(nt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)"""
def renorm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `renorm`: the result is written to this tensor, and so to its views."""
def repeat_interleave(input: Tensor, repeats: builtins.int, dim: builtins.int | None = None) -> Tensor:
    """Every element repeated `repeats` times next to itself, along `dim` or flattened."""
def reshape(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Give the elements, in row-major order, another shape; the result shares memory if the strides allow that."""
def result_type(tensor1: Operand, tensor2: Operand) -> DType:
    """The dtype of a result of these two operands: those without dimensions count less, and Python numbers least."""
def rms_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    """input / sqrt(mean(input^2) + eps) over the last dimensions, times weight.

    eps defaults to the machine epsilon of the type it is computed in."""
def rms_norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """Return input / sqrt(mean(input^2) + eps) over dim: RMS norm without weights."""
def roll(input: Tensor, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Elements shifted along dims, those pushed out coming in at the other end; dims=None rolls the flattened."""
def rope(input: Tensor, positions: Tensor, freq_factors: Tensor | None = None, *, n_dims: builtins.int | None = None, mode: builtins.str = 'normal', freq_base: builtins.float = 10000.0, freq_scale: builtins.float = 1.0, n_ctx_orig: builtins.int = 0, ext_factor: builtins.float = 0.0, attn_factor: builtins.float = 1.0, beta_fast: builtins.float = 32.0, beta_slow: builtins.float = 1.0, sections: Sequence[builtins.int] = ()) -> Tensor:
    """Rotary position embedding of input (..., tokens, heads, features) at integer positions (tokens,).

    mode "normal" rotates neighbouring pairs (2i, 2i+1), "neox" pairs (i, i + n_dims/2). Features from n_dims on are
    copied. freq_factors (n_dims/2,) divide the angles; n_ctx_orig and what follows it are YaRN's parameters.

    "mrope", "imrope" and "vision" rotate pairs as "neox" does, and positions are (4, tokens): time, height, width and
    another one. sections: how many pairs turn by each of the four; of "imrope" the first three take turns; of "vision",
    where n_dims is half of the features, the frequencies of each begin anew.

    >>> nt.rope(nt.ones(2, 1, 4), nt.arange(2))"""
def rot90(input: Tensor, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
    """Rotated k times by a quarter turn from the first towards the second of two dimensions."""
def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """The nearest multiple of 10 ** -decimals, halves to even."""
def round_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `round`: the result is written to this tensor, and so to its views."""
def round_half_away(input: Operand) -> Tensor:
    """Round to the nearest integer, halves away from zero, as GGML's ROUND."""
def round_half_away_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `round_half_away`: the result is written to this tensor, and so to its views."""
def row_stack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined on top of each other, after making each a matrix at least."""
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False) -> Tensor:
    """input where positive, else times a slope: if training, a random one for each element, else the mean of both."""
def rrelu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `rrelu`: the result is written to this tensor, and so to its views."""
def rsqrt(input: Operand) -> Tensor:
    """Return 1 / sqrt(input)."""
def rsqrt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `rsqrt`: the result is written to this tensor, and so to its views."""
def rsub(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """other - alpha * input."""
def rwkv_wkv6(k: Tensor, v: Tensor, r: Tensor, tf: Tensor, td: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """RWKV 6: output = r (state + tf k v^T), state = td state + k v^T.

    k, v, r, td: (tokens of all sequences, heads, features). tf: (heads, features). state: (sequences, heads, features
    of k, features of v). Returns outputs as v, and states.

    >>> nt.rwkv_wkv6(*[nt.ones(2, 1, 2)] * 3, nt.ones(1, 2), nt.ones(2, 1, 2), nt.zeros(1, 1, 2, 2))"""
def rwkv_wkv7(r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """RWKV 7: state = state diag(w) + v k^T + (state a) b^T, output = state r.

    r, w, k, v, a, b: (tokens of all sequences, heads, features). state: (sequences, heads, features of v, features of
    k). Returns outputs as v, and states.

    >>> nt.rwkv_wkv7(*[nt.ones(2, 1, 2)] * 6, nt.zeros(1, 1, 2, 2))"""
def scalar_tensor(s: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """A number as a tensor without dimensions, of the default float dtype unless `dtype` says otherwise.

    >>> nt.scalar_tensor(2.5)"""
def scale(input: Operand, s: builtins.float, b: builtins.float = 0.0) -> Tensor:
    """Return input * s + b.

    >>> nt.scale(nt.tensor([1.0, 2.0]), 3.0, 1.0)"""
def scale_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `scale`: the result is written to this tensor, and so to its views."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; shapes (..., tokens, features).

    A bool mask is true where a query may look; a float mask is added; a query that may look nowhere gives 0.
    dropout_p: of the weights. scale defaults to 1 / sqrt(features). enable_gqa lets each head of key and value serve a
    group of query heads, from where it is in memory. Key and value may be float16 or bfloat16 where query is float32.

    >>> nt.scaled_dot_product_attention(nt.ones(2, 4), nt.ones(3, 4), nt.ones(3, 2))"""
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | builtins.float | None = None, *, value: builtins.float | None = None, reduce: builtins.str | None = None) -> Tensor:
    """input with src[i][j], or the number `value`, stored at [index[i][j]][j] for dim = 0, and likewise for the others.

    reduce: "add" or "multiply" what is there instead, as often as a place is named. Negative indices are out of range,
    as in gather.

    >>> nt.scatter(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def scatter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `scatter`: the result is written to this tensor, and so to its views."""
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
    """input with src[i][j] added to [index[i][j]][j] for dim = 0, and likewise for the others.

    >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
def scatter_add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `scatter_add`: the result is written to this tensor, and so to its views."""
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
    """input reduced with src[i][j] at [index[i][j]][j] for dim = 0, and likewise for the others.

    reduce: "sum", "prod", "mean", "amax" or "amin", of the elements of src alone unless include_self.

    >>> nt.scatter_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "sum")"""
def scatter_reduce_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `scatter_reduce`: the result is written to this tensor, and so to its views."""
def searchsorted(sorted_sequence: Tensor, input: Operand, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """Where in an ascending sequence (..., n) each value (..., m) belongs: before its equals, or behind them if right.

    NaN counts as the largest, as in `sort`. A sequence of one dimension serves values of any shape.

    >>> nt.searchsorted(nt.tensor([1.0, 2.0, 3.0]), nt.tensor([0.5, 2.5]))"""
def seed() -> builtins.int:
    """Start the default generator anew from a seed of the operating system, and return that."""
def select(input: Operand, dim: Dims, index: builtins.int) -> Tensor:
    """Return the slice at `index` along dim, without that dimension.

    >>> nt.select(nt.tensor([[1, 2], [3, 4]]), 0, 1)"""
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """input with the slice at a position along dim replaced by src.

    >>> nt.select_scatter(nt.zeros(2, 2), nt.ones(2), 0, 1)"""
def selu(input: Operand) -> Tensor:
    """Compute the scaled elu with the constants of Klambauer et al., 2017."""
def selu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `selu`: the result is written to this tensor, and so to its views."""
def set(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """input with `source` in the place of the block of the last dimensions that begins at the indices `start`.

    >>> nt.set(nt.zeros(2, 3), nt.ones(1, 2), (1, 1))"""
def set_default_dtype(d: Any) -> None:
    """Let Python floats, `zeros` and the like, and quotients of integers, have the dtype d from now on.

    Holds for the whole process. Functions wrapped by `jit` are captured again. Raises DTypeError for dtypes that are
    not floating point.

    >>> nt.set_default_dtype(nt.float32)"""
def set_grad_enabled(mode: builtins.bool) -> Any:
    """Switch gradients on or off for this thread from now on, in a with block or in a decorated function.

    >>> nt.set_grad_enabled(True)"""
def set_rows(input: Tensor, source: Tensor, rows: Tensor) -> Tensor:
    """input (..., entries, features) with the rows at the indices `rows` (..., n) taken from source (..., n, features).

    The indices repeat over leading dimensions.

    >>> nt.set_rows(nt.zeros(3, 2), nt.ones(1, 2), nt.tensor([1]))"""
def sgn(input: Operand) -> Tensor:
    """Return the sign as -1, 0 or 1. This is GGML's name of `sign`."""
def sgn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sgn`: the result is written to this tensor, and so to its views."""
def sigmoid(input: Operand) -> Tensor:
    """Return 1 / (1 + exp(-input))."""
def sigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sigmoid`: the result is written to this tensor, and so to its views."""
def sign(input: Operand) -> Tensor:
    """Return the sign as -1, 0 or 1. NaN gives 0, as in PyTorch and GGML."""
def sign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sign`: the result is written to this tensor, and so to its views."""
def signbit(input: Operand) -> Tensor:
    """Return True where the sign is minus, also for -0.0."""
def signbit_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `signbit`: the result is written to this tensor, and so to its views."""
def silu(input: Operand) -> Tensor:
    """Return input * sigmoid(input)."""
def silu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `silu`: the result is written to this tensor, and so to its views."""
def silu_back(grad: Tensor, input: Tensor) -> Tensor:
    """grad times the derivative of silu at input."""
def sin(input: Operand) -> Tensor:
    """Compute the sine of an angle in radians."""
def sin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sin`: the result is written to this tensor, and so to its views."""
def sinc(input: Operand) -> Tensor:
    """Compute sin(pi * input) / (pi * input); 1 at 0."""
def sinc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sinc`: the result is written to this tensor, and so to its views."""
def sinh(input: Operand) -> Tensor:
    """Compute the hyperbolic sine."""
def sinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sinh`: the result is written to this tensor, and so to its views."""
def slice_scatter(input: Tensor, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor:
    """input with input[start:end:step] along dim replaced by src.

    >>> nt.slice_scatter(nt.zeros(4), nt.ones(2), 0, 1, 3)"""
def slogdet(A: Tensor) -> SignLogDet:
    """Sign and logarithm of the magnitude of the determinant of square matrices.

    >>> nt.slogdet(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))"""
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', beta: builtins.float = 1.0) -> Tensor:
    """Half the squared distance over beta up to beta, beyond it the distance minus half of beta. beta=0 is l1_loss."""
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: builtins.str = 'mean') -> Tensor:
    """log(1 + exp(-target * input)) with targets of 1 or -1."""
def soft_max_ext(input: Tensor, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
    """softmax(input * scale + slope * mask) over the last dimension of (..., heads, rows, columns).

    The mask repeats over the leading dimensions and may have more rows than input. slope is 1, or one ALiBi slope
    per head where max_bias > 0. sinks (heads,) are further logits that take probability and give no column."""
def softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """Compute exp(input) / sum(exp(input)) over dim without overflow."""
def softmin(input: Tensor, dim: builtins.int, dtype: Any = None) -> Tensor:
    """softmax(-input) over dim."""
def softplus(input: Operand, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, or input where beta * input > threshold."""
def softplus_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `softplus`: the result is written to this tensor, and so to its views."""
def softshrink(input: Operand, lambd: builtins.float = 0.5) -> Tensor:
    """Move input toward zero by lambd; elements within [-lambd, lambd] become zero."""
def softshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `softshrink`: the result is written to this tensor, and so to its views."""
def softsign(input: Operand) -> Tensor:
    """Return input / (1 + |input|)."""
def softsign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `softsign`: the result is written to this tensor, and so to its views."""
def solve_tri(a: Tensor, b: Tensor, left: builtins.bool = True, lower: builtins.bool = True, unit_diagonal: builtins.bool = False) -> Tensor:
    """The x of a x = b, of triangles a (..., n, n) and b (..., n, m): one row after the other.

    GGML has left and lower alone. unit_diagonal: whether the diagonal counts as ones.

    >>> nt.solve_tri(nt.tensor([[2.0, 0.0], [1.0, 1.0]]), nt.tensor([[2.0], [3.0]]))"""
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> ValuesIndices:
    """Values in order along dim, and where they were. Always stable; NaN counts as the largest."""
def split(input: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Parts of a given size along dim (the last may be smaller), or of given sizes."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Parts of the given sizes along dim.

    >>> nt.split_with_sizes(nt.arange(4), (1, 3))"""
def sqrt(input: Operand) -> Tensor:
    """Compute the square root; negative numbers give NaN."""
def sqrt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sqrt`: the result is written to this tensor, and so to its views."""
def square(input: Operand) -> Tensor:
    """Return input * input."""
def square_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `square`: the result is written to this tensor, and so to its views."""
def squeeze(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Without the dimensions of extent 1, or without those of them that `dim` names."""
def ssm_conv(input: Tensor, weight: Tensor) -> Tensor:
    """Convolution of each channel of (sequences, channels, width - 1 + tokens) with weight (channels, width).

    The result is (sequences, tokens, channels).

    >>> nt.ssm_conv(nt.arange(5.0).reshape(1, 1, 5), nt.tensor([[1.0, 1.0]]))"""
def ssm_scan(state: Tensor, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, ids: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """Mamba's selective scan: state = exp(softplus(dt) a) state + softplus(dt) x b, output = sum(state c) over states.

    state: (entries, heads, features, states), of which each sequence has the one at its index in ids (sequences,). x:
    (sequences, tokens, heads, features). dt: (sequences, tokens, heads). a: (heads, states), or (heads, 1). b, c:
    (sequences, tokens, groups, states), a group for each of as many heads. Returns outputs as x, and states.

    >>> nt.ssm_scan(*(nt.ones([1] * ndim) for ndim in (4, 4, 3, 2, 4, 4)), nt.tensor([0]))"""
def stack(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors of equal shape joined along a new dimension."""
def std(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
    """Standard deviation over dim: sqrt(var)."""
def std_mean(input: Tensor, dim: Dims = None, *, correction: builtins.float = 1, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Standard deviation and mean over dim."""
def step(input: Operand) -> Tensor:
    """Return 1 where input > 0, else 0."""
def step_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `step`: the result is written to this tensor, and so to its views."""
def sub(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input - alpha * other."""
def sub_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `sub`: the result is written to this tensor, and so to its views."""
def subtract(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input - alpha * other."""
def subtract_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `subtract`: the result is written to this tensor, and so to its views."""
def sum(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim (None = all). Integers give int64; partial sums of floats are float32."""
def sum_rows(input: Tensor) -> Tensor:
    """Sum over the last dimension, which is kept with extent 1."""
def svd(input: Tensor, some: builtins.bool = True) -> builtins.tuple[Tensor, Tensor, Tensor]:
    """U, S and V with input = U @ diag(S) @ V.mT; linalg.svd gives V.mT. some=False makes U and V square."""
def swapaxes(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Dimensions dim0 and dim1 swapped."""
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Dimensions dim0 and dim1 swapped."""
def swiglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """silu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def swiglu_oai(input: Tensor, gate: Tensor | None = None, *, alpha: builtins.float = 1.702, limit: builtins.float = 7.0, swapped: builtins.bool = False) -> Tensor:
    """x * sigmoid(alpha x) * (gate + 1) with x at most `limit` and gate in [-limit, limit]; halves as in swiglu."""
def t(input: Tensor) -> Tensor:
    """Rows and columns swapped; tensors of fewer than two dimensions as they are. ShapeError above two."""
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions among all elements in row-major order; negative ones count from the end.

    >>> nt.take(nt.tensor([[1, 2], [3, 4]]), nt.tensor([0, 3]))"""
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
    """As gather, with input and indices broadcast in the other dimensions; dim=None flattens both.

    >>> nt.take_along_dim(nt.tensor([[1, 2], [3, 4]]), nt.tensor([[1], [0]]), 1)"""
def tan(input: Operand) -> Tensor:
    """Compute the tangent of an angle in radians."""
def tan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `tan`: the result is written to this tensor, and so to its views."""
def tanh(input: Operand) -> Tensor:
    """Compute the hyperbolic tangent."""
def tanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `tanh`: the result is written to this tensor, and so to its views."""
def tanhshrink(input: Operand) -> Tensor:
    """Return input - tanh(input)."""
def tanhshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `tanhshrink`: the result is written to this tensor, and so to its views."""
def tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor of Python numbers, nested lists of them, an array of NumPy, PyTorch or JAX, or another tensor; a copy.

    Without `dtype`, Python floats give float32, ints int64 and bools bool; arrays and tensors keep theirs. A list of
    several kinds gets the promoted dtype. Gradients that a library notes for its array stay behind.
    Raises ShapeError for ragged lists, DTypeError for what is not a number and ArgumentError for Python numbers that
    an integer dtype cannot hold; in arrays, floats out of range give the nearest limit, as in `Tensor.to`."""
def tensor_split(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """So many parts along dim, the first ones larger by one where they are not equal, or parts between indices.

    >>> nt.tensor_split(nt.arange(5), 2)"""
def tensordot(a: Tensor, b: Tensor, dims: builtins.int | Sequence[Sequence[builtins.int]] = 2) -> Tensor:
    """Sums of products over as many dimensions of a and b: the last and the first `dims`, or those that are named."""
def threshold(input: Operand, threshold: builtins.float, value: builtins.float) -> Tensor:
    """Return input where it is above the threshold, else value.

    >>> nt.threshold(nt.tensor([0.5, 2.0]), 1.0, 0.0)"""
def threshold_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `threshold`: the result is written to this tensor, and so to its views."""
def tile(input: Tensor, *dims: Any) -> Tensor:
    """As repeat; fewer numbers than dimensions leave the leading ones alone."""
def timestep_embedding(timesteps: Tensor, dim: builtins.int, max_period: builtins.int = 10000) -> Tensor:
    """Cosines and then sines of timesteps (n,) at dim/2 frequencies from 1 down to 1/max_period: (n, dim).

    The last feature of an odd dim is 0.

    >>> nt.timestep_embedding(nt.tensor([0.0, 1.0]), 4)"""
def top_k(input: Tensor, k: builtins.int) -> Tensor:
    """int32 indices of the k largest elements of each row."""
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along dim in order, and where they were. Always sorted.

    NaN counts as the largest; which of equal elements is taken is not defined."""
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Dimensions dim0 and dim1 swapped."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """The integral over samples y along dim by the trapezoidal rule, at places x or with a distance of dx.

    >>> nt.trapezoid(nt.tensor([1.0, 2.0, 4.0]))"""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """The integral over samples y along dim by the trapezoidal rule, at places x or with a distance of dx.

    >>> nt.trapezoid(nt.tensor([1.0, 2.0, 4.0]))"""
def tril(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """Keep the elements of the last two dimensions on and below the diagonal; the others become zero."""
def tril_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `tril`: the result is written to this tensor, and so to its views."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and below a diagonal."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2.0, eps: builtins.float = 1e-06, swap: builtins.bool = False, *, reduction: builtins.str = 'mean') -> Tensor:
    """max(distance to positive - distance to negative + margin, 0) of rows, by their p-norms.

    swap: the distance of positive and negative counts if it is smaller than that of anchor and negative.

    >>> nt.triplet_margin_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))"""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: builtins.float = 1.0, swap: builtins.bool = False, reduction: builtins.str = 'mean') -> Tensor:
    """As `triplet_margin_loss` with another function of the distance, pairwise_distance unless given.

    >>> nt.triplet_margin_with_distance_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))"""
def triu(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """Keep the elements of the last two dimensions on and above the diagonal; the others become zero."""
def triu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `triu`: the result is written to this tensor, and so to its views."""
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and above a diagonal."""
def true_divide(input: Operand, other: Operand) -> Tensor:
    """input / other; integers give float32."""
def true_divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `true_divide`: the result is written to this tensor, and so to its views."""
def trunc(input: Operand) -> Tensor:
    """Round toward zero to an integer."""
def trunc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `trunc`: the result is written to this tensor, and so to its views."""
def unbind(input: Tensor, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """The slices along dim, without it."""
def unflatten(input: Tensor, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
    """Dimension `dim` split into `sizes`, one of which may be -1.

    >>> nt.unflatten(nt.arange(6), 0, (2, 3))"""
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """What a kernel over (batch, channels, height, width) meets: (batch, channels * elements of it, positions).

    >>> nt.unfold(nt.arange(9.0).reshape(1, 1, 3, 3), 2)"""
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    """The different elements, or slices along dim, in ascending order; every NaN counts as different. Reads the value.

    return_inverse: also where each element is in the result; return_counts: also how often each of the result occurs."""
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    """The elements, or slices along dim, that differ from the one before. Reads the value.

    return_inverse: also where each one is in the result; return_counts: also how often each of the result is repeated."""
def unravel_index(indices: Tensor, shape: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """The indices in each dimension of a shape of positions among all its elements.

    >>> nt.unravel_index(nt.tensor([5]), (2, 3))"""
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:
    """With a dimension of extent 1 before `dim`."""
def upsample(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None) -> Tensor:
    """As `interpolate`.

    >>> nt.upsample(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def vander(x: Tensor, N: builtins.int | None = None, *, increasing: builtins.bool = False) -> Tensor:
    """Powers of the elements of a vector, a column each: N - 1, ..., 1, 0, or the other way round. Integers give int64.

    >>> nt.vander(nt.tensor([1, 2, 3]))"""
def var(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
    """Variance over dim (None = all): squared deviations summed, divided by n - correction (default 1)."""
def var_mean(input: Tensor, dim: Dims = None, *, correction: builtins.float = 1, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Variance and mean over dim."""
def vdot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def vsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Equal parts along dimension 0, or parts between indices, as `tensor_split`.

    >>> nt.vsplit(nt.ones(2, 2, 2), 2)"""
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined on top of each other, after making each a matrix at least."""
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """input where condition, else other. where(condition) is nonzero(condition, as_tuple=True).

    >>> nt.where(nt.tensor([True, False]), nt.tensor([1.0, 2.0]), 0.0)"""
def win_part(input: Tensor, window: builtins.int) -> Tensor:
    """Squares of (height, width, features), row by row: (windows, window, window, features). Zeros fill the last ones.

    >>> nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2).shape"""
def win_unpart(input: Tensor, width: builtins.int, height: builtins.int, window: builtins.int) -> Tensor:
    """The image (height, width, features) that `win_part` has made windows of.

    >>> nt.win_unpart(nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2), 3, 2, 2).shape"""
def xielu(input: Operand, alpha_n: builtins.float, alpha_p: builtins.float, beta: builtins.float, eps: builtins.float) -> Tensor:
    """Compute GGML's xIELU; alpha_n and alpha_p are the values after GGML's softplus.

    alpha_p x^2 + beta x where x > 0, else alpha_n (expm1(min(x, eps)) - x) + beta x.

    >>> nt.xielu(nt.tensor([-1.0, 2.0]), 0.8, 0.5, 0.5, -1e-6)"""
def xielu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `xielu`: the result is written to this tensor, and so to its views."""
def xlogy(input: Operand, other: Operand) -> Tensor:
    """Compute input * log(other); 0 where input is 0, unless other is NaN."""
def xlogy_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place form of `xlogy`: the result is written to this tensor, and so to its views."""
def zeros(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the given shape; float32 unless `dtype` says otherwise."""
def zeros_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the input's shape and dtype."""
