# ruff: noqa: E501, F401, I001
# Written by `python -m npu_tensor.tools.stubs` from the op registry and npu_tensor/functions.
import builtins
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npu_tensor import linalg as linalg
from npu_tensor import nn as nn
from npu_tensor import optim as optim
from npu_tensor.config import config as config
from npu_tensor.dtypes import DType as DType
from npu_tensor.functions.creation import Generator as Generator
from npu_tensor.tensor import Tensor as Tensor
from npu_tensor.ggml_hsa.ahead_of_time import compile as compile
from npu_tensor.functions.resources import default_device as default_device
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
from npu_tensor.functions.creation import manual_seed as manual_seed
from npu_tensor.functions.resources import memory_stats as memory_stats
from npu_tensor.observe.profiling import profile as profile
from npu_tensor.tensor import realize as realize
from npu_tensor.ggml_hsa.kernel_log import record_kernels as record_kernels
from npu_tensor.functions.serialization import save as save
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
from npu_tensor.functions.shape import ValuesIndices

Operand = Tensor | np.ndarray[Any, Any] | builtins.float
Dims = builtins.int | Sequence[builtins.int] | None
Size = Any
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

def abs(input: Operand) -> Tensor:
    """Absolute value; the smallest integer wraps to itself."""
def absolute(input: Operand) -> Tensor:
    """Absolute value; the smallest integer wraps to itself."""
def acc(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """input with `source` added to the block of the last dimensions that begins at the indices `start`.

    >>> nt.acc(nt.ones(2, 3), nt.ones(1, 2), (1, 1))"""
def acos(input: Operand) -> Tensor:
    """Inverse cosine in radians; NaN beyond -1 and 1."""
def acosh(input: Operand) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1."""
def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    """The means of output_size parts, which may overlap by one element, of the width; None keeps it.

    >>> nt.adaptive_avg_pool1d(nt.arange(6.0).reshape(1, 6), 2)"""
def adaptive_avg_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None] | None) -> Tensor:
    """The means of output_size parts, which may overlap by one element, of height and width; None keeps an extent.

    >>> nt.adaptive_avg_pool2d(nt.arange(16.0).reshape(1, 4, 4), (2, 1))"""
def add(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """input + alpha * other."""
def add1(input: Tensor, other: Tensor) -> Tensor:
    """input + the one element of other.

    >>> nt.add1(nt.tensor([1.0, 2.0]), nt.tensor([5.0]))"""
def add_id(input: Tensor, other: Tensor, ids: Tensor) -> Tensor:
    """input (tokens, used, n) plus the rows of other (experts, n) at the indices ids (tokens, used).

    >>> nt.add_id(nt.zeros(2, 1, 2), nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.tensor([[1], [0]]))"""
def add_rel_pos(input: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Attention scores of images plus a bias for the distance in each direction.

    input: (heads, queries, keys), keys being all places (height, width) row by row. across: (heads, query rows, query
    columns, width), added to every row of keys. down: (heads, query rows, query columns, height), to every column.

    >>> nt.add_rel_pos(nt.zeros(1, 4, 4), nt.ones(1, 2, 2, 2), nt.ones(1, 2, 2, 2))"""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """input + value * tensor1 / tensor2, computed in the promoted dtype of all three, 16-bit floats in float32.

    DTypeError if neither tensor1 nor tensor2 are floats."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """input + value * tensor1 * tensor2, computed in the promoted dtype of all three, 16-bit floats in float32."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    >>> nt.addmm(nt.ones(2, 2), nt.ones(2, 3), nt.ones(3, 2))"""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> nt.addmv(nt.ones(2), nt.ones(2, 3), nt.ones(3))"""
def all(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Whether every element over dim is true (not zero)."""
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
    """Whether all elements are close. Reads the value."""
def amax(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Largest element over dim (empty = all); NaN wins."""
def amin(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Smallest element over dim (empty = all); NaN wins."""
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Smallest and largest element over dim (None = all)."""
def any(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Whether some element over dim is true (not zero)."""
def arange(start: builtins.float, end: builtins.float | None = None, step: builtins.float = 1, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """start, start + step, ... below end; arange(n) starts at 0. int64 if all three are integers, else float32.

    As in PyTorch, an integer dtype takes start and step without their fractions, int64 end too."""
def arccos(input: Operand) -> Tensor:
    """Inverse cosine in radians; NaN beyond -1 and 1."""
def arccosh(input: Operand) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1."""
def arcsin(input: Operand) -> Tensor:
    """Inverse sine in radians; NaN beyond -1 and 1."""
def arcsinh(input: Operand) -> Tensor:
    """Inverse hyperbolic sine."""
def arctan(input: Operand) -> Tensor:
    """Inverse tangent in radians."""
def arctan2(input: Operand, other: Operand) -> Tensor:
    """Angle of the point (x = other, y = input) in radians, from -pi to pi."""
def arctanh(input: Operand) -> Tensor:
    """Inverse hyperbolic tangent; NaN beyond -1 and 1."""
def argmax(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Index of the first largest element over dim (None = of the flattened tensor); the first NaN wins.

    GGML's ARGMAX takes the last of equal elements, and begins anew behind a NaN."""
def argmin(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Index of the first smallest element over dim (None = of the flattened tensor); the first NaN wins."""
def argsort(input: Operand, dim: Dims = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor:
    """Indices that sort along dim, always stable; NaN counts as the largest."""
def argwhere(input: Tensor) -> Tensor:
    """Positions of elements that are not zero, one row each. Reads the value."""
def as_tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """As `tensor`, but a Tensor of the dtype is returned as it is."""
def asin(input: Operand) -> Tensor:
    """Inverse sine in radians; NaN beyond -1 and 1."""
def asinh(input: Operand) -> Tensor:
    """Inverse hyperbolic sine."""
def atan(input: Operand) -> Tensor:
    """Inverse tangent in radians."""
def atan2(input: Operand, other: Operand) -> Tensor:
    """Angle of the point (x = other, y = input) in radians, from -pi to pi."""
def atanh(input: Operand) -> Tensor:
    """Inverse hyperbolic tangent; NaN beyond -1 and 1."""
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:
    """The mean of each window of (batch, channels, width); stride defaults to kernel_size.

    GGML's POOL_1D divides by the number of elements that are not padding, as count_include_pad=False does; its POOL_2D
    counts the padding."""
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of (batch, channels, height, width); stride defaults to kernel_size.

    count_include_pad: whether the zeros of the padding count; divisor_override: what to divide the sum by instead.

    >>> nt.avg_pool2d(nt.arange(16.0).reshape(1, 1, 4, 4), 2)"""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix.

    >>> nt.baddbmm(nt.ones(2, 1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float | Tensor = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Each channel (dimension 1) normalized with the running statistics, or its own if training.

    Training moves the running statistics, where they are passed, in place towards those of the input.

    >>> nt.batch_norm(nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.zeros(2), nt.ones(2))"""
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability in each element of input, or with p, else 0; NaN where that is outside [0, 1]."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)) of probabilities, with logarithms of at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of sigmoid(input), without overflow; pos_weight multiplies the part of positive targets.

    The result has the dtype of target, as in PyTorch, or that of input if target is not of floats."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
    """How often each of 0, 1, ... occurs in a vector, or the sum of the weights where it does. Reads the largest.

    >>> nt.bincount(nt.tensor([0, 1, 1, 3]))"""
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """input & other."""
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """input << other."""
def bitwise_not(input: Operand) -> Tensor:
    """~input."""
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """input | other."""
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """input >> other; the sign is kept."""
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """input ^ other."""
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two stacks of equally many matrices.

    >>> nt.bmm(nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def broadcast_tensors(*tensors: Tensor) -> builtins.tuple[Tensor, ...]:
    """All expanded to their common shape.

    >>> nt.broadcast_tensors(nt.zeros(2, 1), nt.ones(3))"""
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor:
    """Expanded to a shape, by the rules of broadcasting.

    >>> nt.broadcast_to(nt.tensor([1, 2]), (2, 2))"""
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """In which of the intervals between ascending boundaries each value is; as searchsorted.

    >>> nt.bucketize(nt.tensor([0.5, 2.5]), nt.tensor([1.0, 2.0, 3.0]))"""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one row each, the last vector's varying fastest.

    >>> nt.cartesian_prod(nt.tensor([1, 2]), nt.tensor([3, 4]))"""
def cat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0) -> Tensor:
    """p-norms of the differences of all rows of x1 (..., n, m) and x2 (..., k, m): (..., n, k)."""
def ceil(input: Operand) -> Tensor:
    """The smallest integer not below input."""
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """At most `chunks` parts of equal size along dim; the last may be smaller."""
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """input limited to [min, max], which may be tensors; NaN stays NaN; max wins where min > max.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """The smaller of input and max.

    >>> nt.clamp_max(nt.tensor([-2.0, 0.5, 3.0]), 1.0)"""
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """The larger of input and min.

    >>> nt.clamp_min(nt.tensor([-2.0, 0.5, 3.0]), 0.0)"""
def clip(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """input limited to [min, max], which may be tensors; NaN stays NaN; max wins where min > max.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clone(input: Tensor) -> Tensor:
    """A tensor of its own with the same value. As values never change, nothing is copied."""
def concat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def concatenate(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Tensors joined along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolution of (batch, channels, width) with weight (outputs, channels / groups, width), plus bias (outputs,).

    padding: zeros at both ends, "same" or "valid". The kernel is not flipped, as in PyTorch.

    >>> nt.conv1d(nt.arange(5.0).reshape(1, 1, 5), nt.tensor([[[1.0, -1.0]]]))"""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolution of (batch, channels, height, width) with weight (outputs, channels / groups, height, width).

    bias (outputs,) is added. padding: zeros on all sides, "same" or "valid". The kernel is not flipped, as in PyTorch.

    >>> nt.conv2d(nt.arange(9.0).reshape(1, 1, 3, 3), nt.ones(1, 1, 2, 2))"""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """The transpose of `conv1d`, its gradient, with weight (channels, outputs / groups, width).

    padding: elements less at both ends; output_padding: elements more at the end.

    >>> nt.conv_transpose1d(nt.tensor([[[1.0, 2.0]]]), nt.tensor([[[1.0, 10.0]]]), stride=2)"""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """The transpose of `conv2d`, its gradient, with weight (channels, outputs / groups, height, width).

    padding: elements less on all sides; output_padding: elements more at the ends.

    >>> nt.conv_transpose2d(nt.tensor([[[[1.0, 2.0]]]]), nt.ones(1, 1, 2, 2), stride=2)"""
def cos(input: Operand) -> Tensor:
    """Cosine of radians."""
def cosh(input: Operand) -> Tensor:
    """Hyperbolic cosine."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """1 - cosine of the angle between two rows where target is 1, max(cosine - margin, 0) where it is -1.

    >>> nt.cosine_embedding_loss(nt.ones(2, 3), nt.ones(2, 3), nt.tensor([1, -1]))"""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:
    """Cosine of the angle between x1 and x2 over dim."""
def count_equal(input: Operand, other: Operand) -> Tensor:
    """How many elements are equal, as int64."""
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over dim are not zero, as int64."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean', label_smoothing: builtins.float = 0.0) -> Tensor:
    """Cross-entropy of scores (batch, classes, ...) with class indices or with probabilities of the scores' shape.

    ArgumentError for size_average and reduce, which `reduction` has replaced.

    >>> nt.cross_entropy(nt.tensor([[2.0, 0.5], [0.1, 1.5]]), nt.tensor([0, 1]))"""
def cross_entropy_loss(input: Tensor, labels: Tensor) -> Tensor:
    """-sum(labels * log_softmax(input)) over the number of rows; labels are probabilities of the input's shape."""
def cumprod(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Running product along dim; integers give int64."""
def cumsum(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
def diag(input: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """The matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input`."""
def diag_mask_inf(input: Tensor, n_past: builtins.int) -> Tensor:
    """Minus infinity where column > row + n_past in the last two dimensions."""
def diag_mask_zero(input: Tensor, n_past: builtins.int) -> Tensor:
    """Zero where column > row + n_past in the last two dimensions."""
def diagonal(input: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Elements i, i + offset of dimensions dim1 and dim2, as the last dimension of the result."""
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1) -> Tensor:
    """Each element along dim minus the one before it, n times over; of bool, whether they differ."""
def div(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """input / other. rounding_mode: None (true division), "floor" or "trunc"; both keep integers."""
def divide(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """input / other. rounding_mode: None (true division), "floor" or "trunc"; both keep integers."""
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """If training, each element is 0 with probability p and else input / (1 - p); input itself otherwise."""
def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """As dropout, of whole channels of (batch, channels, width)."""
def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """As dropout, of whole channels of (batch, channels, height, width)."""
def einsum(equation: builtins.str, *operands: Any) -> Tensor:
    """Einstein summation, as einsum("bij,bjk->bik", a, b); more than two operands in the order that costs least.

    An ellipsis stands for broadcast dimensions; a label repeated inside one operand for the diagonal. Sums of a single
    operand of integers are int64, products keep its dtype.

    >>> nt.einsum("ij,jk->ik", nt.ones(2, 3), nt.ones(3, 2))"""
def elu(input: Operand, alpha: builtins.float = 1.0) -> Tensor:
    """input where positive, else alpha * (exp(input) - 1)."""
def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None) -> Tensor:
    """The rows of weight (entries, features) at the indices in input, whose shape comes first.

    The row at padding_idx has no gradient.

    >>> nt.embedding(nt.tensor([2, 0]), nt.arange(6.0).reshape(3, 2))"""
def empty(*size: Size, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros: values are immutable, so memory without a value would have no use."""
def empty_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the input's shape and dtype, as `empty`."""
def enable_grad(function: Any = None) -> Any:
    """A context and decorator: what is recorded inside counts again, as outside of `no_grad`."""
def eq(input: Operand, other: Operand) -> Tensor:
    """input == other."""
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether shape and all elements are equal. Reads the value."""
def erf(input: Operand) -> Tensor:
    """The error function."""
def exp(input: Operand) -> Tensor:
    """e to the power of input."""
def exp2(input: Operand) -> Tensor:
    """2 to the power of input."""
def expand(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions of extent 1 repeated to the given extent without copying; -1 keeps one as it is.

    >>> nt.expand(nt.tensor([[1], [2]]), 2, 3)"""
def expm1(input: Operand) -> Tensor:
    """exp(input) - 1, accurate near zero."""
def eye(n: builtins.int, m: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """n rows and m (default n) columns with ones on the diagonal."""
def finfo(type: Any = None) -> FloatLimits:
    """The limits of a float dtype, float32 unless given: eps is the distance from 1 to the next number."""
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
def floor(input: Operand) -> Tensor:
    """The largest integer not above input."""
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """The quotient rounded down. Integer division by zero raises ZeroDivisionError when it runs."""
def fmax(input: Operand, other: Operand) -> Tensor:
    """The larger of the two; the other one if one is NaN."""
def fmin(input: Operand, other: Operand) -> Tensor:
    """The smaller of the two; the other one if one is NaN."""
def fmod(input: Operand, other: Operand) -> Tensor:
    """What division rounded toward zero leaves; has the sign of input."""
def frac(input: Operand) -> Tensor:
    """input - trunc(input)."""
def from_dlpack(external: Any) -> Tensor:
    """A tensor with the value and dtype of a PyTorch tensor, a JAX array or whatever else speaks DLPack; always a copy.

    Raises BufferError for memory that is not the processor's, and DTypeError for a dtype that there is not here.

    >>> nt.from_dlpack(np.arange(3.0))"""
def from_numpy(array: np.ndarray[Any, Any], copy: builtins.bool = True) -> Tensor:
    """A tensor with the array's value and dtype.

    copy=False shares the memory of a row-major array and marks the array read-only, as values never change.

    >>> nt.from_numpy(np.arange(3.0))"""
def full(size: Size, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
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
def ge(input: Operand, other: Operand) -> Tensor:
    """input >= other."""
def geglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu(x, tanh form) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def geglu_erf(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu(x, exact form) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def geglu_quick(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """gelu_quick(x) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def gelu(input: Tensor, approximate: builtins.str = 'none') -> Tensor:
    """Gaussian error linear unit, exact; approximate="tanh" is GGML's gelu."""
def gelu_erf(input: Operand) -> Tensor:
    """Gaussian error linear unit, exact form: 0.5 x (1 + erf(x / sqrt(2)))."""
def gelu_quick(input: Operand) -> Tensor:
    """input * sigmoid(1.702 * input)."""
def get_rel_pos(input: Tensor, queries: builtins.int, keys: builtins.int) -> Tensor:
    """The embedding of every distance between a query and a key: (queries, keys, features) of (distances, features).

    There are 2 max(queries, keys) - 1 distances, from the key that is farthest ahead.

    >>> nt.get_rel_pos(nt.arange(3.0).reshape(3, 1), 2, 2)"""
def get_rows(input: Tensor, rows: Tensor) -> Tensor:
    """Rows of input (..., entries, features) at the indices in rows (..., n): (..., n, features).

    Floats of up to 32 bits come out as float32.

    >>> nt.get_rows(nt.arange(6.0).reshape(3, 2), nt.tensor([2, 0]))"""
def glu(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """PyTorch's gated linear unit: the first half of dim times the sigmoid of the second."""
def greater(input: Operand, other: Operand) -> Tensor:
    """input > other."""
def greater_equal(input: Operand, other: Operand) -> Tensor:
    """input >= other."""
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """Layer norm over groups of channels (dimension 1); weight and bias have one element per channel.

    >>> nt.group_norm(nt.arange(8.0).reshape(1, 4, 2), 2)"""
def gt(input: Operand, other: Operand) -> Tensor:
    """input > other."""
def hardsigmoid(input: Operand) -> Tensor:
    """min(max(input + 3, 0), 6) / 6."""
def hardswish(input: Operand) -> Tensor:
    """input * min(max(input + 3, 0), 6) / 6."""
def hardtanh(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
    """input limited to [min_val, max_val]."""
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined side by side: along dimension 1, or 0 where they have one dimension."""
def huber_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', delta: builtins.float = 1.0) -> Tensor:
    """Half the squared distance up to delta, beyond it delta times the distance minus half of delta."""
def hypot(input: Operand, other: Operand) -> Tensor:
    """sqrt(input^2 + other^2), without overflow."""
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
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
    """input with the slices at the positions `index` along dim replaced by those of source.

    >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: builtins.float) -> Tensor:
    """input with the slices at the positions `index` along dim set to value.

    >>> nt.index_fill(nt.zeros(3), 0, nt.tensor([2, 0]), 7.0)"""
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: builtins.bool = False) -> Tensor:
    """input with input[indices] replaced by values, or increased by them, those of equal positions by their sum.

    >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))"""
def index_select(input: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """The slices of input at the positions in the vector `index` along dim.

    >>> nt.index_select(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([1]))"""
def inference_mode(mode: Any = True) -> Any:
    """As no_grad. With False it changes nothing."""
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of the products along the last dimensions of both; with a number as either, the product."""
def interpolate(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None) -> Tensor:
    """(batch, channels, *places) with other extents: `size`, or those of input times scale_factor, rounded down.

    mode: "nearest", or "linear" for one place dimension and "bilinear" for two. align_corners: whether the outermost
    elements keep their values; only for the linear ones.

    >>> nt.interpolate(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def is_grad_enabled() -> builtins.bool:
    """Whether gradients pass through what this thread records."""
def is_tensor(obj: builtins.object) -> builtins.bool:
    """Whether obj is a Tensor.

    >>> nt.is_tensor(nt.zeros(2))"""
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, element by element; of integers and bool in float32."""
def isfinite(input: Operand) -> Tensor:
    """Whether input is neither infinite nor NaN."""
def isin(elements: Operand, test_elements: Operand, *, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> Tensor:
    """Whether each of the elements is among test_elements, with which it is compared one by one.

    >>> nt.isin(nt.tensor([1, 2, 3]), nt.tensor([2, 5]))"""
def isinf(input: Operand) -> Tensor:
    """Whether input is plus or minus infinity."""
def isnan(input: Operand) -> Tensor:
    """Whether input is NaN."""
def kl_div(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', log_target: builtins.bool = False) -> Tensor:
    """target * (log(target) - input) with log-probabilities as input; log_target: the target is given as them, too.

    reduction "batchmean" divides the sum by the extent of the first dimension."""
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: other times each element of input, laid out as input is."""
def l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean') -> Tensor:
    """|input - target|: their mean, their sum, or all of them."""
def l2_norm(input: Operand, dim: Dims = -1, eps: builtins.float = 1e-12) -> Tensor:
    """input / max(sqrt(sum(input^2)), eps) over dim."""
def layer_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """(input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias."""
def le(input: Operand, other: Operand) -> Tensor:
    """input <= other."""
def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01) -> Tensor:
    """input where positive, else negative_slope * input."""
def lerp(input: Operand, end: Operand, weight: Operand) -> Tensor:
    """input + weight * (end - input), from the nearer end, so that a weight of 1 gives end itself.

    >>> nt.lerp(nt.tensor([0.0, 10.0]), nt.tensor([1.0, 20.0]), 0.25)"""
def less(input: Operand, other: Operand) -> Tensor:
    """input < other."""
def less_equal(input: Operand, other: Operand) -> Tensor:
    """input <= other."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias; the rows of weight (out features, in features) are outputs.

    >>> nt.linear(nt.ones(2, 3), nt.ones(4, 3), nt.zeros(4))"""
def linspace(start: builtins.float, end: builtins.float, steps: builtins.int, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included.

    >>> nt.linspace(0.0, 1.0, 5)"""
def log(input: Operand) -> Tensor:
    """Natural logarithm; negative numbers give NaN."""
def log10(input: Operand) -> Tensor:
    """Logarithm to base 10, exact for powers of ten."""
def log1p(input: Operand) -> Tensor:
    """log(1 + input), accurate near zero."""
def log2(input: Operand) -> Tensor:
    """Logarithm to base 2, exact for powers of two."""
def log_softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """log(softmax(input)) over dim, without overflow."""
def logaddexp(input: Operand, other: Operand) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
def logical_and(input: Operand, other: Operand) -> Tensor:
    """Both are true (not zero)."""
def logical_not(input: Operand) -> Tensor:
    """input is false (zero)."""
def logical_or(input: Operand, other: Operand) -> Tensor:
    """Either is true."""
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Exactly one is true."""
def logsigmoid(input: Operand) -> Tensor:
    """log(sigmoid(input)), without overflow."""
def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
    """log(sum(exp(input))) over dim, without overflow."""
def lt(input: Operand, other: Operand) -> Tensor:
    """input < other."""
def masked_fill(input: Tensor, mask: Tensor, value: builtins.float | Tensor) -> Tensor:
    """`value` where mask, else input; keeps the input's dtype."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in their order, where mask. Reads the mask.

    >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))"""
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask, as a vector. Reads the mask."""
def matmul(input: Operand, other: Operand) -> Tensor:
    """Matrix product. Vectors count as a row on the left and a column on the right; leading dimensions broadcast.

    Both must have one dtype. Float sums are float32 (float64 for float64), rounded once."""
def max(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """max(input): the largest element. max(input, dim): (values, indices) along dim. max(input, other): maximum."""
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False) -> Tensor:
    """The largest element of each window of (batch, channels, width); stride defaults to kernel_size."""
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False) -> Tensor:
    """The largest element of each window of (batch, channels, height, width); stride defaults to kernel_size.

    ceil_mode: windows that begin inside the input may end beyond it.

    >>> nt.max_pool2d(nt.arange(16.0).reshape(1, 1, 4, 4), 2)"""
def maximum(input: Operand, other: Operand) -> Tensor:
    """The larger of the two; NaN if either is NaN."""
def mean(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Arithmetic mean over dim (None = all)."""
def median(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along dim. NaN wins.

    NaN of no elements; DimensionError of none along dim, or of no integers."""
def meshgrid(*tensors: Tensor, indexing: builtins.str = 'ij') -> builtins.tuple[Tensor, ...]:
    """Each vector expanded along a dimension of its own; indexing="xy" swaps the first two dimensions.

    >>> nt.meshgrid(nt.arange(2), nt.arange(3))"""
def min(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """min(input): the smallest element. min(input, dim): (values, indices) along dim. min(input, other): minimum."""
def minimum(input: Operand, other: Operand) -> Tensor:
    """The smaller of the two; NaN if either is NaN."""
def mish(input: Operand) -> Tensor:
    """input * tanh(softplus(input))."""
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions `source` moved to the places `destination`; the others keep their order."""
def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions `source` moved to the places `destination`; the others keep their order."""
def mse_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean') -> Tensor:
    """(input - target) squared: their mean, their sum, or all of them."""
def mul(input: Operand, other: Operand) -> Tensor:
    """input * other."""
def mul_mat(a: Tensor, b: Tensor) -> Tensor:
    """GGML's product with weights: a (..., m, k) and b (..., n, k) give b @ a.T, (..., n, m).

    Each batch of a serves as many consecutive batches of b as it takes. A float b is converted to the dtype of a.
    Floats give float32, integers of up to 32 bits int32."""
def mul_mat_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """`mul_mat` with the matrices of a (experts, m, k) at the indices ids (tokens, used): (tokens, used, m).

    b: (tokens, used, k), or (tokens, 1, k) for all that a token uses. A float b is converted to the dtype of a.

    >>> nt.mul_mat_id(nt.arange(3.0).reshape(3, 1, 1), nt.ones(2, 1, 1), nt.tensor([[0, 1], [2, 1]]))"""
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:
    """Indices drawn with the weights in each row of input, which need not sum to 1; int64 of (rows, num_samples).

    Raises DimensionError, where the indices are read, if weights are negative or not finite, or if fewer are positive
    than are drawn without replacement.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)"""
def multiply(input: Operand, other: Operand) -> Tensor:
    """input * other."""
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector.

    >>> nt.mv(nt.ones(2, 3), nt.ones(3))"""
def nan_to_num(input: Tensor, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """`nan` for NaN, posinf and neginf for the infinities; these default to the limits of the dtype."""
def nanmean(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over dim (None = all) of what is not NaN; NaN if there is nothing else."""
def nansum(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim (None = all) of what is not NaN."""
def narrow(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """`length` elements along dim from `start`.

    >>> nt.narrow(nt.arange(5), 0, 1, 3)"""
def ne(input: Operand, other: Operand) -> Tensor:
    """input != other."""
def neg(input: Operand) -> Tensor:
    """-input."""
def negative(input: Operand) -> Tensor:
    """-input."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean') -> Tensor:
    """Minus the log-probability of the target class; the mean is weighted. Classes are dimension 1 of input.

    ArgumentError for size_average and reduce, which `reduction` has replaced.

    >>> nt.nll_loss(nt.tensor([[-0.1, -2.3], [-1.6, -0.2]]), nt.tensor([0, 1]))"""
def no_grad(function: Any = None) -> Any:
    """A context and decorator: gradients do not pass through what is recorded inside."""
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False) -> Any:
    """Positions of elements that are not zero, one row each, or one vector per dimension. Reads the value."""
def norm(input: Tensor, p: builtins.float | builtins.str = 2.0, dim: Dims = None, keepdim: builtins.bool = False, dtype: Any = None) -> Tensor:
    """The vector p-norm over dim (None = all): sum(|input| ** p) ** (1 / p); "fro" is p = 2; p may be infinite."""
def norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """(input - mean) / sqrt(variance + eps) over dim: layer norm without weights."""
def normal(mean: Tensor | builtins.float, std: Tensor | builtins.float = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Normal random numbers of these means and standard deviations, which broadcast; of two numbers, `size` of them.

    The dtype is that of mean, or of std if only that is a tensor, and float32 of two numbers.

    >>> nt.normal(0.0, 1.0, (2, 2))"""
def normalize(input: Tensor, p: builtins.float = 2.0, dim: builtins.int = 1, eps: builtins.float = 1e-12) -> Tensor:
    """input / max(p-norm over dim, eps)."""
def not_equal(input: Operand, other: Operand) -> Tensor:
    """input != other."""
def numel(input: Tensor) -> builtins.int:
    """Number of elements."""
def one_hot(input: Tensor, num_classes: builtins.int = -1) -> Tensor:
    """int64, 1 at the place of the index along a new last dimension. num_classes=-1 reads the largest index.

    DimensionError for an index outside [0, num_classes), where the value is read.

    >>> nt.one_hot(nt.tensor([0, 2]), 3)"""
def ones(*size: Size, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
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
def permute(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Dimensions in another order."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    """(..., channels * factor^2, height, width) as (..., channels, height * factor, width * factor).

    >>> nt.pixel_shuffle(nt.arange(4.0).reshape(1, 4, 1, 1), 2)"""
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    """(..., channels, height, width) as (..., channels * factor^2, height / factor, width / factor).

    >>> nt.pixel_unshuffle(nt.arange(4.0).reshape(1, 1, 2, 2), 2)"""
def pow(input: Operand | np.generic, exponent: Operand | np.generic) -> Tensor:
    """input to the power of exponent. Two integers give an integer; a negative exponent number is an error then."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else input * weight, which has one element or one per channel (dimension 1).

    >>> nt.prelu(nt.tensor([-2.0, 3.0]), nt.tensor(0.1))"""
def prod(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Product over dim (None = all); integers give int64."""
def quantile(input: Tensor, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
    """What the part q of the elements along dim (None = all) is below; several q make a first dimension. NaN wins.

    interpolation between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint". A q outside [0, 1] is an
    ArgumentError, and in a tensor a DimensionError where the value is read."""
def rand(*size: Size, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform random numbers on [0, 1). The seed is drawn now, the numbers when the value is needed."""
def rand_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform on [0, 1) in the input's shape and dtype."""
def randint(low: builtins.int, high: builtins.int | Size | None = None, size: Size = None, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform random integers on [low, high), or [0, low) as randint(high, size); int64 by default.

    ArgumentError for integers that `dtype` cannot hold. A float dtype rounds those that have more digits than it.

    >>> nt.randint(0, 10, (2, 2))"""
def randint_like(input: Tensor, low: builtins.int, high: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Uniform integers on [low, high), or [0, low), in the input's shape and dtype.

    >>> nt.randint_like(nt.zeros(2, 2), 0, 10)"""
def randn(*size: Size, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Standard normal random numbers."""
def randn_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Standard normal in the input's shape and dtype."""
def randperm(n: builtins.int, generator: Generator | None = None, dtype: DTypeLike = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """A random order of 0 to n - 1; int64 by default. ArgumentError for numbers that `dtype` cannot hold."""
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
def reciprocal(input: Operand) -> Tensor:
    """1 / input."""
def reglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """relu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension; swapped: second and first."""
def relu(input: Operand) -> Tensor:
    """max(input, 0); NaN stays NaN, as in PyTorch (GGML gives 0)."""
def relu6(input: Operand) -> Tensor:
    """min(max(input, 0), 6)."""
def remainder(input: Operand, other: Operand) -> Tensor:
    """What floor division leaves; has the sign of the divisor, as a zero that of input."""
def repeat_interleave(input: Tensor, repeats: builtins.int, dim: builtins.int | None = None) -> Tensor:
    """Every element repeated `repeats` times next to itself, along `dim` or flattened."""
def reshape(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """The same elements in row-major order under another shape, in the same memory where its strides allow that."""
def rms_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    """input / sqrt(mean(input^2) + eps) over the last dimensions, times weight.

    eps defaults to the machine epsilon of the type it is computed in."""
def rms_norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """input / sqrt(mean(input^2) + eps) over dim: RMS norm without weights."""
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
def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """The nearest multiple of 10 ** -decimals, halves to even."""
def round_half_away(input: Operand) -> Tensor:
    """The nearest integer, halves away from zero: GGML's ROUND."""
def rsqrt(input: Operand) -> Tensor:
    """1 / sqrt(input)."""
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
def scale(input: Operand, s: builtins.float, b: builtins.float = 0.0) -> Tensor:
    """input * s + b.

    >>> nt.scale(nt.tensor([1.0, 2.0]), 3.0, 1.0)"""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; shapes (..., tokens, features).

    A bool mask is true where a query may look; a float mask is added; a query that may look nowhere gives 0.
    dropout_p: of the weights. scale defaults to 1 / sqrt(features). enable_gqa lets each head of key and value serve a
    group of query heads.

    >>> nt.scaled_dot_product_attention(nt.ones(2, 4), nt.ones(3, 4), nt.ones(3, 2))"""
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | builtins.float | None = None, *, value: builtins.float | None = None, reduce: builtins.str | None = None) -> Tensor:
    """input with src[i][j], or the number `value`, stored at [index[i][j]][j] for dim = 0, and likewise for the others.

    reduce: "add" or "multiply" what is there instead, as often as a place is named. Negative indices are out of range,
    as in gather.

    >>> nt.scatter(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
    """input with src[i][j] added to [index[i][j]][j] for dim = 0, and likewise for the others.

    >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
def searchsorted(sorted_sequence: Tensor, input: Operand, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """Where in an ascending sequence (..., n) each value (..., m) belongs: before its equals, or behind them if right.

    NaN counts as the largest, as in `sort`. A sequence of one dimension serves values of any shape. Each value is
    compared with the whole sequence.

    >>> nt.searchsorted(nt.tensor([1.0, 2.0, 3.0]), nt.tensor([0.5, 2.5]))"""
def select(input: Operand, dim: Dims, index: builtins.int) -> Tensor:
    """The slice at `index` along dim, without it.

    >>> nt.select(nt.tensor([[1, 2], [3, 4]]), 0, 1)"""
def selu(input: Operand) -> Tensor:
    """Scaled elu with the constants of Klambauer et al., 2017."""
def set(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """input with `source` in the place of the block of the last dimensions that begins at the indices `start`.

    >>> nt.set(nt.zeros(2, 3), nt.ones(1, 2), (1, 1))"""
def set_grad_enabled(mode: builtins.bool) -> Any:
    """Whether gradients pass through what this thread records from now on, or inside a with block.

    >>> nt.set_grad_enabled(True)"""
def set_rows(input: Tensor, source: Tensor, rows: Tensor) -> Tensor:
    """input (..., entries, features) with the rows at the indices `rows` (..., n) taken from source (..., n, features).

    The indices repeat over leading dimensions.

    >>> nt.set_rows(nt.zeros(3, 2), nt.ones(1, 2), nt.tensor([1]))"""
def sgn(input: Operand) -> Tensor:
    """The same as sign, under the name that it has in GGML."""
def sigmoid(input: Operand) -> Tensor:
    """1 / (1 + exp(-input))."""
def sign(input: Operand) -> Tensor:
    """-1, 0 or 1; NaN gives 0, as in PyTorch and GGML."""
def silu(input: Operand) -> Tensor:
    """input * sigmoid(input)."""
def silu_back(grad: Tensor, input: Tensor) -> Tensor:
    """grad times the derivative of silu at input."""
def sin(input: Operand) -> Tensor:
    """Sine of radians."""
def sinh(input: Operand) -> Tensor:
    """Hyperbolic sine."""
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', beta: builtins.float = 1.0) -> Tensor:
    """Half the squared distance over beta up to beta, beyond it the distance minus half of beta. beta=0 is l1_loss."""
def soft_max_ext(input: Tensor, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
    """softmax(input * scale + slope * mask) over the last dimension of (..., heads, rows, columns).

    The mask repeats over the leading dimensions and may have more rows than input. slope is 1, or one ALiBi slope
    per head where max_bias > 0. sinks (heads,) are further logits that take probability and give no column."""
def softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) over dim, without overflow."""
def softmin(input: Tensor, dim: builtins.int, dtype: Any = None) -> Tensor:
    """softmax(-input) over dim."""
def softplus(input: Operand, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""
def softsign(input: Operand) -> Tensor:
    """input / (1 + |input|)."""
def solve_tri(a: Tensor, b: Tensor, left: builtins.bool = True, lower: builtins.bool = True, unit_diagonal: builtins.bool = False) -> Tensor:
    """The x of a x = b, of triangles a (..., n, n) and b (..., n, m): one row after the other.

    GGML has left and lower alone. unit_diagonal: whether the diagonal counts as ones.

    >>> nt.solve_tri(nt.tensor([[2.0, 0.0], [1.0, 1.0]]), nt.tensor([[2.0], [3.0]]))"""
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> ValuesIndices:
    """Values in order along dim, and where they were. Always stable; NaN counts as the largest."""
def split(input: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Parts of a given size along dim (the last may be smaller), or of given sizes."""
def sqrt(input: Operand) -> Tensor:
    """Square root; negative numbers give NaN."""
def square(input: Operand) -> Tensor:
    """input * input."""
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
    """1 where input > 0, else 0."""
def sub(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """input - alpha * other."""
def subtract(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """input - alpha * other."""
def sum(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim (None = all); integers give int64. float32 partial sums."""
def sum_rows(input: Tensor) -> Tensor:
    """Sum over the last dimension, which is kept with extent 1."""
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
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
    """As gather, with input and indices broadcast in the other dimensions; dim=None flattens both.

    >>> nt.take_along_dim(nt.tensor([[1, 2], [3, 4]]), nt.tensor([[1], [0]]), 1)"""
def tan(input: Operand) -> Tensor:
    """Tangent of radians."""
def tanh(input: Operand) -> Tensor:
    """Hyperbolic tangent."""
def tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor of Python numbers, nested lists of them, an array of NumPy, PyTorch or JAX, or another tensor; a copy.

    Without `dtype`, Python floats give float32, ints int64 and bools bool; arrays and tensors keep theirs. Gradients
    that a library notes for its array stay behind.
    Raises ShapeError for ragged lists, DTypeError for what is not a number and ArgumentError for Python numbers that
    an integer dtype cannot hold; in arrays, floats out of range give the nearest limit, as in `Tensor.to`."""
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
def tril(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """The part of the last two dimensions on and below the diagonal; zero elsewhere."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and below a diagonal."""
def triu(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """The part of the last two dimensions on and above the diagonal; zero elsewhere."""
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and above a diagonal."""
def true_divide(input: Operand, other: Operand) -> Tensor:
    """input / other; integers give float32."""
def trunc(input: Operand) -> Tensor:
    """The integer part, toward zero."""
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
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:
    """With a dimension of extent 1 before `dim`."""
def var(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
    """Variance over dim (None = all): squared deviations summed, divided by n - correction (default 1)."""
def var_mean(input: Tensor, dim: Dims = None, *, correction: builtins.float = 1, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Variance and mean over dim."""
def vdot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
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
    """GGML's xIELU with alpha_n and alpha_p as they stand in the formula (after its softplus).

    alpha_p x^2 + beta x where x > 0, else alpha_n (expm1(min(x, eps)) - x) + beta x.

    >>> nt.xielu(nt.tensor([-1.0, 2.0]), 0.8, 0.5, 0.5, -1e-6)"""
def zeros(*size: Size, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the given shape; float32 unless `dtype` says otherwise."""
def zeros_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Zeros of the input's shape and dtype."""
