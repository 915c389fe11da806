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
from npu_tensor import masked as masked
from npu_tensor import models as models
from npu_tensor import nn as nn
from npu_tensor import optim as optim
from npu_tensor import signals as signal
from npu_tensor import special_names as special
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
from npu_tensor.torch.exported import from_exported as from_exported
from npu_tensor.torch.exported import from_torch as from_torch
from npu_tensor.functions.resources import get_default_device as get_default_device
from npu_tensor.functions.resources import get_num_threads as get_num_threads
from npu_tensor.autograd.transforms import grad as grad
from npu_tensor.jit import jit as jit
from npu_tensor.runtime.devices.backends import list_devices as list_devices
from npu_tensor.interop.saved_function import load as load
from npu_tensor.functions.gguf import load_gguf as load_gguf
from npu_tensor.interop.onnx_model import load_onnx as load_onnx
from npu_tensor.interop.pt2 import load_pt2 as load_pt2
from npu_tensor.functions.creation import manual_seed as manual_seed
from npu_tensor.functions.resources import memory_stats as memory_stats
from npu_tensor.authoring.custom_kernel import npu_kernel as npu_kernel
from npu_tensor.observe.profiling import profile as profile
from npu_tensor.tensor import realize as realize
from npu_tensor.ggml_hsa.kernel_log import record_kernels as record_kernels
from npu_tensor.interop.saved_function import save as save
from npu_tensor.functions.gguf import save_gguf as save_gguf
from npu_tensor.cli.selftest import selftest as selftest
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
channels_last: builtins.str
channels_last_3d: builtins.str
contiguous_format: builtins.str
preserve_format: builtins.str
strided: builtins.str

def _weight_norm(v: Tensor, g: Tensor, dim: builtins.int = 0) -> Tensor:
    """Return v scaled to the norms g along a dimension, as PyTorch's parametrization of weights does.

    >>> nt._weight_norm(nt.tensor([[3.0, 4.0]]), nt.tensor([[10.0]]))"""
def abs(input: Operand) -> Tensor:
    """Return the absolute value; the smallest integer wraps to itself."""
def abs_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `abs` in place, which also changes the views of this tensor."""
def absolute(input: Operand) -> Tensor:
    """Return the absolute value; the smallest integer wraps to itself."""
def absolute_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `absolute` in place, which also changes the views of this tensor."""
def acc(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """Return input with source added to a block of the last dimensions.

    Args:
        source: Tensor of the block.
        start: Index of the block in each dimension of `source`.

    >>> nt.acc(nt.ones(2, 3), nt.ones(1, 2), (1, 1))"""
def acos(input: Operand) -> Tensor:
    """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
def acos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `acos` in place, which also changes the views of this tensor."""
def acosh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic cosine; NaN below 1."""
def acosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `acosh` in place, which also changes the views of this tensor."""
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """Return the means of output_size parts of (width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool1d(nt.arange(3.0).reshape(1, 3), 2)"""
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """Return the means of output_size parts of (height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2)"""
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None) -> Tensor:
    """Return the means of output_size parts of (depth, height, width), which may overlap by one element; None keeps all.

    >>> nt.adaptive_avg_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2)"""
def adaptive_max_pool1d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Any:
    """Return the maxima of output_size parts of (width), which may overlap by one element; None keeps all.

    Args:
        input: Tensor (batch, channels, width).
        output_size: Number of parts, one number or one per place.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.adaptive_max_pool1d(nt.arange(3.0).reshape(1, 3), 2)"""
def adaptive_max_pool2d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Any:
    """Return the maxima of output_size parts of (height, width), which may overlap by one element; None keeps all.

    Args:
        input: Tensor (batch, channels, height, width).
        output_size: Number of parts, one number or one per place.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.adaptive_max_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2)"""
def adaptive_max_pool3d(input: Tensor, output_size: Sizes | Sequence[builtins.int | None] | None, return_indices: builtins.bool = False) -> Any:
    """Return the maxima of output_size parts of (depth, height, width), which may overlap by one element; None keeps all.

    Args:
        input: Tensor (batch, channels, depth, height, width).
        output_size: Number of parts, one number or one per place.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.adaptive_max_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2)"""
def add(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input + alpha * other."""
def add1(input: Tensor, other: Tensor) -> Tensor:
    """Return input + the one element of other.

    >>> nt.add1(nt.tensor([1.0, 2.0]), nt.tensor([5.0]))"""
def add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `add` in place, which also changes the views of this tensor."""
def add_id(input: Tensor, other: Tensor, ids: Tensor) -> Tensor:
    """Add the selected rows of other to input.

    Args:
        input: Tensor (tokens, used, n).
        other: Tensor (experts, n).
        ids: Indices of rows (tokens, used).

    >>> nt.add_id(nt.zeros(2, 1, 2), nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.tensor([[1], [0]]))"""
def add_rel_pos(input: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Add a bias for the distance in each direction to attention scores of images.

    Args:
        input: Scores (heads, queries, keys). The keys are all places (height, width), row by row.
        across: Bias (heads, query rows, query columns, width), added to every row of keys.
        down: Bias (heads, query rows, query columns, height), added to every column of keys.

    >>> nt.add_rel_pos(nt.zeros(1, 4, 4), nt.ones(1, 2, 2, 2), nt.ones(1, 2, 2, 2))"""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """Return beta * input + alpha * the sum of the products of two stacks of matrices.

    >>> nt.addbmm(nt.ones(1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def addbmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addbmm` in place, which also changes the views of this tensor."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """Return input + value * tensor1 / tensor2.

    The computation uses the promoted dtype of all three, and float32 for 16-bit floats.

    Raises:
        DTypeError: Neither `tensor1` nor `tensor2` is floating point."""
def addcdiv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addcdiv` in place, which also changes the views of this tensor."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
    """Return input + value * tensor1 * tensor2.

    The computation uses the promoted dtype of all three, and float32 for 16-bit floats."""
def addcmul_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addcmul` in place, which also changes the views of this tensor."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2).

    >>> nt.addmm(nt.ones(2, 2), nt.ones(2, 3), nt.ones(3, 2))"""
def addmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addmm` in place, which also changes the views of this tensor."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """Return beta * input + alpha * (mat @ vec).

    >>> nt.addmv(nt.ones(2), nt.ones(2, 3), nt.ones(3))"""
def addmv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addmv` in place, which also changes the views of this tensor."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """Return beta * input + alpha * all products of elements of two vectors.

    >>> nt.addr(nt.zeros(2, 2), nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def addr_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `addr` in place, which also changes the views of this tensor."""
def affine_grid(theta: Tensor, size: Sequence[builtins.int], align_corners: builtins.bool = False) -> Tensor:
    """Return the coordinates of a grid after affine maps, for `grid_sample`.

    Coordinates go from -1 to 1, x first.

    Args:
        theta: Maps (batch, places, places + 1).
        size: Extents (batch, channels, *places) of the grid.
        align_corners: True if -1 and 1 are the centres of the outermost elements, False if they are their edges.

    Returns:
        Tensor (batch, *places, number of places).

    >>> nt.affine_grid(nt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))"""
def all(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return True if every element over dim is true (not zero)."""
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
    """Return True if all elements are close, as defined by `isclose`. Reads the value."""
def alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False) -> Tensor:
    """Replace elements by selu's lower limit with probability p in training, keeping mean and variance."""
def amax(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Return the largest element over dim (empty = all); NaN wins."""
def amin(input: Operand, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
    """Return the smallest element over dim (empty = all); NaN wins."""
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Return the smallest and the largest element over dim (None for all)."""
def any(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return True if any element over dim is true (not zero)."""
def arange(start: builtins.float = 0, end: builtins.float | None = None, step: builtins.float = 1, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create start, start + step, ... below end, beginning at 0 if only one number is given.

    The dtype is int64 if all three are integers, else float32. As in PyTorch, an integer dtype drops the fractions of
    start and step, and int64 also that of end.

    Args:
        start: First element.
        end: Upper bound, not included.
        step: Difference of neighbours.

    Raises:
        ArgumentError: A number is not finite, or `step` does not lead from `start` to `end`.
        DTypeError: `dtype` is bool."""
def arccos(input: Operand) -> Tensor:
    """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
def arccos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arccos` in place, which also changes the views of this tensor."""
def arccosh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic cosine; NaN below 1."""
def arccosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arccosh` in place, which also changes the views of this tensor."""
def arcsin(input: Operand) -> Tensor:
    """Compute the inverse sine in radians; NaN beyond -1 and 1."""
def arcsin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arcsin` in place, which also changes the views of this tensor."""
def arcsinh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic sine."""
def arcsinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arcsinh` in place, which also changes the views of this tensor."""
def arctan(input: Operand) -> Tensor:
    """Compute the inverse tangent in radians."""
def arctan2(input: Operand, other: Operand) -> Tensor:
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
def arctan2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arctan2` in place, which also changes the views of this tensor."""
def arctan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arctan` in place, which also changes the views of this tensor."""
def arctanh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
def arctanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `arctanh` in place, which also changes the views of this tensor."""
def argmax(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return the index of the first largest element over dim, or in the flattened tensor; the first NaN wins.

    GGML's ARGMAX takes the last of equal elements, and starts again after a NaN."""
def argmin(input: Operand, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
    """Return the index of the first smallest element over dim, or in the flattened tensor; the first NaN wins."""
def argsort(input: Operand, dim: Dims = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor:
    """Return the indices that sort along dim. The sort is always stable; NaN counts as the largest."""
def argwhere(input: Tensor) -> Tensor:
    """Return the positions of elements that are not zero, one row each. Reads the value."""
def as_strided(input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
    """Return the elements at storage_offset + i * stride[0] + j * stride[1] + ... as a copy.

    The elements are counted in row-major order of `input`, as in PyTorch for a contiguous tensor.

    >>> nt.as_strided(nt.arange(6), (2, 2), (1, 2))"""
def as_strided_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `as_strided`, which takes the same arguments, with memory of its own.

    >>> nt.as_strided_copy(nt.eye(4), (2, 2), (1, 2))"""
def as_tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor as `tensor` does, but return a Tensor that already has the dtype unchanged."""
def asarray(data: Any, dtype: DTypeLike = None, device: Any = None, copy: builtins.bool | None = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor as `as_tensor` does, with control over copies.

    Args:
        copy: True never returns `data` itself. False refuses data that has to be copied.

    Raises:
        ArgumentError: `copy` is False and a copy is needed."""
def asin(input: Operand) -> Tensor:
    """Compute the inverse sine in radians; NaN beyond -1 and 1."""
def asin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `asin` in place, which also changes the views of this tensor."""
def asinh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic sine."""
def asinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `asinh` in place, which also changes the views of this tensor."""
def atan(input: Operand) -> Tensor:
    """Compute the inverse tangent in radians."""
def atan2(input: Operand, other: Operand) -> Tensor:
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
def atan2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `atan2` in place, which also changes the views of this tensor."""
def atan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `atan` in place, which also changes the views of this tensor."""
def atanh(input: Operand) -> Tensor:
    """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
def atanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `atanh` in place, which also changes the views of this tensor."""
def atleast_1d(*tensors: Any) -> Any:
    """Convert zero-dimensional tensors to vectors of one element."""
def atleast_2d(*tensors: Any) -> Any:
    """Convert numbers and vectors to matrices of one row."""
def atleast_3d(*tensors: Any) -> Any:
    """Append a dimension of extent 1 to matrices; vectors and numbers become matrices of one row first."""
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """Return the mean of each window of (batch, channels, width).

    Args:
        input: Tensor (batch, channels, width).
        stride: Steps between windows; None for kernel_size.
        count_include_pad: True if zeros of the padding count, as in GGML's POOL_2D and not in its POOL_1D.
        divisor_override: Divisor of the sum in place of the number of elements.

    >>> nt.avg_pool1d(nt.arange(3.0).reshape(1, 3), 2, stride=1)"""
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """Return the mean of each window of (batch, channels, height, width).

    Args:
        input: Tensor (batch, channels, height, width).
        stride: Steps between windows; None for kernel_size.
        count_include_pad: True if zeros of the padding count, as in GGML's POOL_2D and not in its POOL_1D.
        divisor_override: Divisor of the sum in place of the number of elements.

    >>> nt.avg_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, stride=1)"""
def avg_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None) -> Tensor:
    """Return the mean of each window of (batch, channels, depth, height, width).

    Args:
        input: Tensor (batch, channels, depth, height, width).
        stride: Steps between windows; None for kernel_size.
        count_include_pad: True if zeros of the padding count, as in GGML's POOL_2D and not in its POOL_1D.
        divisor_override: Divisor of the sum in place of the number of elements.

    >>> nt.avg_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, stride=1)"""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
    """Return beta * input + alpha * (batch1 @ batch2), matrix by matrix.

    >>> nt.baddbmm(nt.ones(2, 1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def baddbmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `baddbmm` in place, which also changes the views of this tensor."""
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return a triangle that is 0 at the ends. periodic omits the last element of the symmetric window."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float | Tensor = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Normalize each channel (dimension 1) with running statistics, or with its own statistics in training.

    Args:
        input: Floats (batch, channels, ...).
        running_mean: Mean of each channel. Training updates it in place if it is given.
        running_var: Variance of each channel. Training updates it in place if it is given.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.
        training: True to use the statistics of `input`.
        momentum: Weight of the present statistics in an update.

    Raises:
        ArgumentError: Running statistics are missing outside of training.
        ShapeError: Training with a single value per channel, or fewer than two dimensions.

    >>> nt.batch_norm(nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.zeros(2), nt.ones(2))"""
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Draw 1 with the probability in each element of input, or with p, else 0; NaN where it is outside [0, 1]."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input1 @ weight[o] @ input2 for each output o, plus bias.

    Args:
        input1: Floats (..., n).
        input2: Floats (..., m).
        weight: Tensor (outputs, n, m).
        bias: Offset (outputs); None for 0.

    >>> nt.bilinear(nt.ones(2, 3), nt.ones(2, 4), nt.ones(1, 3, 4))"""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return -(target log(input) + (1 - target) log(1 - input)), with logarithms of at least -100.

    Args:
        input: Probabilities of any shape. Values outside of [0, 1] give NaN; PyTorch raises an error.
        target: Probabilities of the same shape.
        weight: Factor of the losses; None for 1."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Return the binary cross-entropy of sigmoid(input), computed without overflow.

    The result has the dtype of target, as in PyTorch, or that of input if target is not floating point.

    Args:
        input: Logits of any shape.
        target: Probabilities of the same shape.
        weight: Factor of the losses; None for 1.
        pos_weight: Factor of the part of positive targets; None for 1."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
    """Return the number of occurrences of 0, 1, ... in a vector, or the sums of their weights. Reads the value.

    >>> nt.bincount(nt.tensor([0, 1, 1, 3]))"""
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw the number of successes of `count` trials, each with the probability in prob.

    >>> nt.binomial(nt.tensor([10.0, 20.0]), nt.tensor([0.5, 0.1]))"""
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input & other."""
def bitwise_and_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_and` in place, which also changes the views of this tensor."""
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """Shift bits to the left: input << other."""
def bitwise_left_shift_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_left_shift` in place, which also changes the views of this tensor."""
def bitwise_not(input: Operand) -> Tensor:
    """Return the bitwise complement, ~input."""
def bitwise_not_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_not` in place, which also changes the views of this tensor."""
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input | other."""
def bitwise_or_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_or` in place, which also changes the views of this tensor."""
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """Shift bits to the right: input >> other. The sign is kept."""
def bitwise_right_shift_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_right_shift` in place, which also changes the views of this tensor."""
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """Return the bitwise input ^ other."""
def bitwise_xor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `bitwise_xor` in place, which also changes the views of this tensor."""
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return 0.42 - 0.5 * cos(t) + 0.08 * cos(2 * t) for t from 0 to 2 pi. periodic omits the last element of the symmetric window."""
def block_diag(*tensors: Any) -> Tensor:
    """Return the matrix with these matrices along its diagonal; numbers and vectors count as one row."""
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of two stacks (batch, n, k) and (batch, k, m).

    >>> nt.bmm(nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
def broadcast_shapes(*shapes: Any) -> builtins.tuple[builtins.int, ...]:
    """Return the shape that tensors of these shapes broadcast to."""
def broadcast_tensors(*tensors: Tensor) -> builtins.tuple[Tensor, ...]:
    """Expand all tensors to their common shape.

    >>> nt.broadcast_tensors(nt.zeros(2, 1), nt.ones(3))"""
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor:
    """Expand to a shape by the rules of broadcasting."""
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor:
    """Return the interval of each value between ascending boundaries, like `searchsorted`.

    >>> nt.bucketize(nt.tensor([0.5, 2.5]), nt.tensor([1.0, 2.0, 3.0]))"""
def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Return True if an in-place op may store elements of one dtype in another.

    Bool may be stored in integers, and both in floats.

    >>> nt.can_cast(nt.int32, nt.float32)"""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all combinations of the elements of vectors, one per row; those of the last vector vary fastest.

    A single vector is returned unchanged.

    >>> nt.cartesian_prod(nt.tensor([1, 2]), nt.tensor([3, 4]))"""
def cat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Join tensors along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, compute_mode: builtins.str | None = None) -> Tensor:
    """Return the p-norms of the differences of all rows of x1 (..., n, m) and x2 (..., k, m): (..., n, k)."""
def ceil(input: Operand) -> Tensor:
    """Round up to an integer."""
def ceil_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `ceil` in place, which also changes the views of this tensor."""
def celu(input: Operand, alpha: builtins.float = 1.0) -> Tensor:
    """Return max(input, 0) + min(alpha * (exp(input / alpha) - 1), 0)."""
def celu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `celu` in place, which also changes the views of this tensor."""
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    """Interleave the channels of the groups of (batch, groups * n, ...).

    >>> nt.channel_shuffle(nt.arange(4.0).reshape(1, 4, 1), 2)"""
def cholesky(input: Tensor, upper: builtins.bool = False) -> Tensor:
    """Return the Cholesky factor, like `linalg.cholesky`.

    >>> nt.cholesky(nt.tensor([[4.0, 2.0], [2.0, 5.0]]))"""
def cholesky_inverse(input: Tensor, upper: builtins.bool = False) -> Tensor:
    """Return the inverse of the matrices whose Cholesky factors are input."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = False) -> Tensor:
    """Solve A @ X = input for the matrices A whose Cholesky factors are input2.

    >>> nt.cholesky_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))"""
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split into at most `chunks` parts of equal size along dim; the last may be smaller."""
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Limit input to [min, max]. NaN stays NaN; max wins where min > max.

    Args:
        min: Lower limit, a number or a tensor; None for no limit.
        max: Upper limit, a number or a tensor; None for no limit.

    Raises:
        ArgumentError: Both limits are None, or an integer dtype cannot hold one.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clamp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `clamp` in place, which also changes the views of this tensor."""
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """Return the smaller of input and max."""
def clamp_max_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `clamp_max` in place, which also changes the views of this tensor."""
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """Return the larger of input and min."""
def clamp_min_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `clamp_min` in place, which also changes the views of this tensor."""
def clip(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Limit input to [min, max]. NaN stays NaN; max wins where min > max.

    Args:
        min: Lower limit, a number or a tensor; None for no limit.
        max: Upper limit, a number or a tensor; None for no limit.

    Raises:
        ArgumentError: Both limits are None, or an integer dtype cannot hold one.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
def clip_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `clip` in place, which also changes the views of this tensor."""
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return a new tensor with the same value, whatever the memory format. Values never change: nothing is copied."""
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Join vectors as columns of a matrix, or matrices side by side."""
def combinations(input: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor:
    """Return all choices of r elements of a vector, in order, one per row.

    >>> nt.combinations(nt.tensor([1, 2, 3]))"""
def concat(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Join tensors along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def concatenate(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Join tensors along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
def constant_pad_nd(input: Tensor, pad: Sequence[builtins.int], value: builtins.float = 0) -> Tensor:
    """Pad like `pad` with mode "constant"."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolve (batch, channels, width) with a kernel, which is not flipped, as in PyTorch.

    Args:
        input: Floats (batch, channels, width).
        weight: Kernel (outputs, channels / groups, width).
        bias: Offset (outputs); None for 0.
        padding: Zeros at both ends of each dimension, "same" or "valid".

    >>> nt.conv1d(nt.arange(3.0).reshape(1, 3), nt.ones(1, 1, 2))"""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolve (batch, channels, height, width) with a kernel, which is not flipped, as in PyTorch.

    Args:
        input: Floats (batch, channels, height, width).
        weight: Kernel (outputs, channels / groups, height, width).
        bias: Offset (outputs); None for 0.
        padding: Zeros at both ends of each dimension, "same" or "valid".

    >>> nt.conv2d(nt.arange(9.0).reshape(1, 3, 3), nt.ones(1, 1, 2, 2))"""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | builtins.str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Convolve (batch, channels, depth, height, width) with a kernel, which is not flipped, as in PyTorch.

    Args:
        input: Floats (batch, channels, depth, height, width).
        weight: Kernel (outputs, channels / groups, depth, height, width).
        bias: Offset (outputs); None for 0.
        padding: Zeros at both ends of each dimension, "same" or "valid".

    >>> nt.conv3d(nt.arange(27.0).reshape(1, 3, 3, 3), nt.ones(1, 1, 2, 2, 2))"""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Compute the transpose of a convolution, which is its gradient.

    Args:
        input: Floats (batch, channels, width).
        weight: Kernel (channels, outputs / groups, width).
        bias: Offset (outputs); None for 0.
        padding: Elements removed at both ends of each dimension.
        output_padding: Elements added at the end of each dimension.

    >>> nt.conv_transpose1d(nt.ones(1, 1, 2), nt.ones(1, 1, 2))"""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Compute the transpose of a convolution, which is its gradient.

    Args:
        input: Floats (batch, channels, height, width).
        weight: Kernel (channels, outputs / groups, height, width).
        bias: Offset (outputs); None for 0.
        padding: Elements removed at both ends of each dimension.
        output_padding: Elements added at the end of each dimension.

    >>> nt.conv_transpose2d(nt.ones(1, 1, 2, 2), nt.ones(1, 1, 2, 2))"""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Compute the transpose of a convolution, which is its gradient.

    Args:
        input: Floats (batch, channels, depth, height, width).
        weight: Kernel (channels, outputs / groups, depth, height, width).
        bias: Offset (outputs); None for 0.
        padding: Elements removed at both ends of each dimension.
        output_padding: Elements added at the end of each dimension.

    >>> nt.conv_transpose3d(nt.ones(1, 1, 2, 2, 2), nt.ones(1, 1, 2, 2, 2))"""
def copysign(input: Operand, other: Operand) -> Tensor:
    """Return the magnitude of input with the sign of other, also that of a zero."""
def copysign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `copysign` in place, which also changes the views of this tensor."""
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of the rows of a matrix, whose columns are samples."""
def cos(input: Operand) -> Tensor:
    """Compute the cosine of an angle in radians."""
def cos_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `cos` in place, which also changes the views of this tensor."""
def cosh(input: Operand) -> Tensor:
    """Compute the hyperbolic cosine."""
def cosh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `cosh` in place, which also changes the views of this tensor."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return 1 - cosine of two rows where target is 1, and max(cosine - margin, 0) where it is -1.

    >>> nt.cosine_embedding_loss(nt.ones(2, 3), nt.ones(2, 3), nt.tensor([1, -1]))"""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:
    """Return the cosine of the angle between x1 and x2 over dim."""
def count_equal(input: Operand, other: Operand) -> Tensor:
    """Count the equal elements, as int64."""
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Return the number of elements over dim that are not zero, as int64."""
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Return the covariances of the rows of a matrix, whose columns are samples; for one row, the variance.

    Args:
        input: Matrix (variables, samples), or a vector.
        correction: Subtracted from the number of samples.
        fweights: Integer number of occurrences of each sample.
        aweights: Weight of each sample."""
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim.

    Args:
        input: Vectors of any shape with a dimension of extent 3.
        dim: Dimension of extent 3; None for the first such dimension.

    >>> nt.cross(nt.tensor([1.0, 0.0, 0.0]), nt.tensor([0.0, 1.0, 0.0]))"""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean', label_smoothing: builtins.float = 0.0) -> Tensor:
    """Return the cross-entropy of scores with class indices or probabilities.

    Args:
        input: Scores (batch, classes, ...).
        target: Class indices (batch, ...), or probabilities of the shape of `input`.
        weight: Weight of each class; None for 1.
        ignore_index: Class index that does not count.
        reduce: Not supported; `reduction` has replaced it.
        label_smoothing: Share of the target that is spread evenly over all classes, in [0, 1]."""
def cross_entropy_loss(input: Tensor, labels: Tensor) -> Tensor:
    """Return -sum(labels * log_softmax(input)) divided by the number of rows.

    The labels are probabilities of the input's shape."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[builtins.int], target_lengths: Tensor | Sequence[builtins.int], blank: builtins.int = 0, reduction: builtins.str = 'mean', zero_infinity: builtins.bool = False) -> Tensor:
    """Return minus the log-probability of all alignments of targets (Graves et al., 2006). Reads the lengths.

    Args:
        log_probs: Log-probabilities (time, batch, classes) or (time, classes).
        targets: Labels (batch, length), or those of all samples concatenated.
        input_lengths: Number of time steps of each sample.
        target_lengths: Number of labels of each sample.
        blank: Class of the blank.
        reduction: "mean", "sum" or "none". "mean" divides by the target lengths first.
        zero_infinity: True to return 0 for targets that are too long.

    >>> nt.ctc_loss(nt.zeros(3, 1, 2).log_softmax(2), nt.tensor([[1]]), [3], [1])"""
def cummax(input: Tensor, dim: builtins.int) -> ValuesIndices:
    """Return the largest element up to each one along dim, and the last index of it. NaN wins."""
def cummin(input: Tensor, dim: builtins.int) -> ValuesIndices:
    """Return the smallest element up to each one along dim, and the last index of it. NaN wins."""
def cumprod(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Compute the running product along dim; integers give int64."""
def cumprod_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `cumprod` in place, which also changes the views of this tensor."""
def cumsum(input: Operand, dim: Dims, *, dtype: Any = None) -> Tensor:
    """Compute the running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
def cumsum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `cumsum` in place, which also changes the views of this tensor."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """Return the integrals up to each sample except the first, like `trapezoid`."""
def deg2rad(input: Operand) -> Tensor:
    """Convert degrees to radians."""
def deg2rad_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `deg2rad` in place, which also changes the views of this tensor."""
def dequantize(input: Operand) -> Tensor:
    """Convert a quantized tensor to float32.

    >>> nt.dequantize(nt.quantize(nt.ones(2, 32), "q8_0")).sum()"""
def det(A: Tensor) -> Tensor:
    """Return the determinant of square matrices."""
def detach(self: Any) -> Tensor:
    """Return the same value and memory without gradients.

    >>> nt.detach(nt.tensor([1.0, 2.0]))"""
def detach_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `detach`, which takes the same arguments, with memory of its own.

    >>> nt.detach_copy(nt.eye(4))"""
def diag(input: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """Return the matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input`."""
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """Return matrices with the rows of input on a diagonal, over the new dimensions dim1 and dim2."""
def diag_mask_inf(input: Tensor, n_past: builtins.int) -> Tensor:
    """Set elements with column > row + n_past in the last two dimensions to minus infinity."""
def diag_mask_zero(input: Tensor, n_past: builtins.int) -> Tensor:
    """Set elements with column > row + n_past in the last two dimensions to zero."""
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:
    """Return the matrix with all elements of input on a diagonal."""
def diagonal(input: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Return the elements (i, i + offset) of dimensions dim1 and dim2 as the last dimension."""
def diagonal_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `diagonal`, which takes the same arguments, with memory of its own.

    >>> nt.diagonal_copy(nt.eye(4))"""
def diagonal_scatter(input: Tensor, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Return input with a diagonal replaced by src.

    >>> nt.diagonal_scatter(nt.zeros(2, 2), nt.tensor([1.0, 2.0]))"""
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Subtract from each element along dim the one before it. Of bool, return True where they differ.

    Args:
        n: Number of times this is repeated; 0 returns `input`.
        prepend: Elements to put before `input` along dim first.
        append: Elements to put after `input` along dim first.

    Raises:
        ArgumentError: `n` is negative.
        ShapeError: `input` has no dimensions."""
def digamma(input: Operand) -> Tensor:
    """Compute the derivative of lgamma; infinite at 0, NaN at negative integers."""
def digamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `digamma` in place, which also changes the views of this tensor."""
def dist(input: Tensor, other: Tensor, p: builtins.float = 2.0) -> Tensor:
    """Return the p-norm of the difference of all elements."""
def div(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """Return input / other.

    Args:
        input: Dividend.
        other: Divisor; the shapes broadcast.
        rounding_mode: None (true division), "floor" or "trunc"; the last two keep integers.

    Raises:
        ArgumentError: `rounding_mode` has another value."""
def div_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `div` in place, which also changes the views of this tensor."""
def divide(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
    """Return input / other.

    Args:
        input: Dividend.
        other: Divisor; the shapes broadcast.
        rounding_mode: None (true division), "floor" or "trunc"; the last two keep integers.

    Raises:
        ArgumentError: `rounding_mode` has another value."""
def divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `divide` in place, which also changes the views of this tensor."""
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return the sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """Set each element to 0 with probability p in training and scale the others by 1 / (1 - p).

    Args:
        p: Probability in [0, 1].
        training: False to return `input` itself."""
def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, width), like `dropout`."""
def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, height, width), like `dropout`."""
def dropout3d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, depth, height, width), like `dropout`."""
def dsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Split along dimension 2 into equal parts, or between indices, like `tensor_split`.

    >>> nt.dsplit(nt.ones(2, 2, 2), 2)"""
def dstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 2, after `atleast_3d`."""
def einsum(equation: builtins.str, *operands: Any) -> Tensor:
    """Compute an Einstein summation. The equation "bij,bjk->bik" is a batched matrix product.

    More than two operands are contracted in the cheapest order. Sums of a single operand of integers are int64, and
    products keep its dtype. A transposition or a diagonal of a single operand is a view.

    Args:
        equation: Letters for the dimensions of each operand and of the result. An ellipsis stands for broadcast
            dimensions; a letter repeated inside one operand takes the diagonal.
        *operands: Tensors, or one sequence of them.

    >>> nt.einsum("ij,jk->ik", nt.ones(2, 3), nt.ones(3, 2))"""
def elu(input: Operand, alpha: builtins.float = 1.0) -> Tensor:
    """Return input where positive, else alpha * (exp(input) - 1)."""
def elu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `elu` in place, which also changes the views of this tensor."""
def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:
    """Return the rows of weight at the indices in input. Rows of quantized weights are float32.

    Args:
        input: Integer indices of any shape.
        weight: Matrix (entries, features).
        padding_idx: Index of a row without gradient.
        norm_type: Order of the norm that `max_norm` limits.

    Returns:
        Tensor of shape (*input.shape, features).

    >>> nt.embedding(nt.tensor([2, 0]), nt.arange(6.0).reshape(3, 2))"""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2, scale_grad_by_freq: builtins.bool = False, mode: builtins.str = 'mean', sparse: builtins.bool = False, per_sample_weights: Tensor | None = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> Tensor:
    """Return the sum, mean or maximum of the rows of weight in each bag. An empty bag gives zeros.

    Args:
        input: Indices: a matrix with one bag per row, or a vector with `offsets`.
        weight: Matrix (entries, features).
        offsets: Position of the first index of each bag in a vector.
        norm_type: Order of the norm that `max_norm` limits.
        mode: "sum", "mean" or "max".
        per_sample_weights: Factors of the rows, for "sum".
        include_last_offset: True if the last offset is the end of the last bag.
        padding_idx: Index that does not count.

    Returns:
        Tensor (bags, features).

    >>> nt.embedding_bag(nt.tensor([[0, 2]]), nt.arange(6.0).reshape(3, 2))"""
def empty(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor of the given shape, float32 unless `dtype` is given. The elements are zero."""
def empty_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor of the input's shape and dtype. The elements are zero."""
def enable_grad(function: Any = None) -> Any:
    """Enable gradients in a with block or a decorated function, also inside of `no_grad`."""
def eq(input: Operand, other: Operand) -> Tensor:
    """Compare: input == other."""
def eq_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `eq` in place, which also changes the views of this tensor."""
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Return True if shape and all elements are equal. Reads the value."""
def erf(input: Operand) -> Tensor:
    """Compute the error function."""
def erf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `erf` in place, which also changes the views of this tensor."""
def erfc(input: Operand) -> Tensor:
    """Compute 1 - erf(input), with full relative precision where it is small."""
def erfc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `erfc` in place, which also changes the views of this tensor."""
def erfinv(input: Operand) -> Tensor:
    """Return x with erf(x) = input; infinite at -1 and 1, NaN beyond.

    Computed by Giles' approximation and a step of Halley's method."""
def erfinv_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `erfinv` in place, which also changes the views of this tensor."""
def exp(input: Operand) -> Tensor:
    """Raise e to the power of input."""
def exp2(input: Operand) -> Tensor:
    """Raise 2 to the power of input."""
def exp2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `exp2` in place, which also changes the views of this tensor."""
def exp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `exp` in place, which also changes the views of this tensor."""
def expand(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Repeat dimensions of extent 1 to the given extents without copying; -1 keeps an extent.

    >>> nt.expand(nt.tensor([[1], [2]]), 2, 3)"""
def expand_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `expand`, which takes the same arguments, with memory of its own.

    >>> nt.expand_copy(nt.eye(4), (2, 4, 4))"""
def expm1(input: Operand) -> Tensor:
    """Compute exp(input) - 1, accurate near zero."""
def expm1_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `expm1` in place, which also changes the views of this tensor."""
def eye(n: builtins.int, m: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a matrix of n rows and m (default n) columns with ones on the diagonal."""
def feature_alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False) -> Tensor:
    """Replace whole channels (dimension 1) by selu's lower limit, like `alpha_dropout`."""
def finfo(type: Any = None) -> FloatLimits:
    """Return the limits of a float dtype, by default float32. eps is the distance from 1 to the next number."""
def fix(input: Operand) -> Tensor:
    """Round toward zero to an integer."""
def fix_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `fix` in place, which also changes the views of this tensor."""
def flash_attn_ext(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, logit_softcap: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
    """Compute attention of (batch, heads, tokens, features). Sums are float32.

    Args:
        query: Floats (batch, heads, queries, features).
        key: Floats (batch, key heads, keys, features). Each key head serves a group of consecutive query heads.
        value: Floats (batch, key heads, keys, value features).
        mask: Mask of `soft_max_ext`.
        scale: Factor of the scores.
        max_bias: Bias of `soft_max_ext`.
        logit_softcap: c, if not 0: the scores become c * tanh(score / c).
        sinks: Sinks of `soft_max_ext`.

    Returns:
        Tensor (batch, queries, heads, value features).

    >>> nt.flash_attn_ext(nt.ones(1, 2, 3, 4), nt.ones(1, 1, 5, 4), nt.ones(1, 1, 5, 2)).shape"""
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """Merge the dimensions start_dim to end_dim."""
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reverse the elements along dims."""
def fliplr(input: Tensor) -> Tensor:
    """Reverse the columns."""
def flipud(input: Tensor) -> Tensor:
    """Reverse the rows."""
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """Raise input to the power of exponent, in float64."""
def floor(input: Operand) -> Tensor:
    """Round down to an integer."""
def floor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `floor` in place, which also changes the views of this tensor."""
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Divide and round down, also infinite numbers. Two integers give an integer.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool."""
def floor_divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `floor_divide` in place, which also changes the views of this tensor."""
def fmax(input: Operand, other: Operand) -> Tensor:
    """Return the larger of two elements, or the other one if one is NaN."""
def fmax_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `fmax` in place, which also changes the views of this tensor."""
def fmin(input: Operand, other: Operand) -> Tensor:
    """Return the smaller of two elements, or the other one if one is NaN."""
def fmin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `fmin` in place, which also changes the views of this tensor."""
def fmod(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of division rounded toward zero, with the sign of input.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool."""
def fmod_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `fmod` in place, which also changes the views of this tensor."""
def fold(input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Add columns where `unfold` took them from: the transpose of `unfold`.

    Args:
        input: Tensor (batch, channels * elements of a kernel, positions).
        output_size: Height and width of the result.

    Returns:
        Tensor (batch, channels, height, width).

    >>> nt.fold(nt.ones(1, 4, 4), 3, 2)"""
def frac(input: Operand) -> Tensor:
    """Return the fraction, input - trunc(input)."""
def frac_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `frac` in place, which also changes the views of this tensor."""
def frexp(input: Tensor) -> MantissaExponent:
    """Split floats into a mantissa and an int32 power of two.

    Returns:
        `mantissa`, 0 or with a magnitude in [0.5, 1), and `exponent`, both of the shape of `input`."""
def from_dlpack(external: Any, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """Convert an array that supports DLPack, such as a PyTorch tensor or a JAX array, to a tensor of the same dtype.

    Args:
        external: Array of another library.
        copy: False shares the memory of a row-major array, which must not be written to any more.

    Raises:
        BufferError: The memory is not accessible to the CPU.
        DTypeError: The dtype has no equivalent.
        TypeError: `external` has no `__dlpack__`.

    >>> nt.from_dlpack(np.arange(3.0))"""
def from_numpy(array: np.ndarray[Any, Any], copy: builtins.bool = True) -> Tensor:
    """Create a tensor with the array's value and dtype.

    Args:
        array: NumPy array.
        copy: False shares the memory of a row-major array and marks the array read-only, because values never change.

    Raises:
        TypeError: `array` is not a NumPy array.

    >>> nt.from_numpy(np.arange(3.0))"""
def full(size: Extents, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor with `fill_value` everywhere. Its type determines the dtype unless `dtype` is given.

    Raises:
        ArgumentError: An integer dtype cannot hold `fill_value`.
        TypeError: `fill_value` is not a number."""
def full_like(input: Tensor, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor with `fill_value` everywhere, in the input's shape and dtype."""
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """Run the gated delta rule.

    For each token, S = exp(g) state, state = S + beta (v - S k) k^T, and the output is state q / sqrt(features).

    Args:
        q: Tensor (sequences, tokens, heads of keys, features). The heads of keys repeat.
        k: Tensor of the shape of `q`.
        v: Tensor (sequences, tokens, heads, features).
        g: Tensor (sequences, tokens, heads, 1), or with one element for each feature of k.
        beta: Tensor (sequences, tokens, heads, 1).
        state: Tensor (sequences, heads, features of v, features of k).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.gated_delta_net(*[nt.ones(1, 2, 1, 2)] * 3, nt.zeros(1, 2, 1, 1), nt.ones(1, 2, 1, 1), nt.zeros(1, 1, 2, 2))"""
def gated_linear_attn(k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, scale: builtins.float = 1.0) -> builtins.tuple[Tensor, Tensor]:
    """Run gated linear attention: state = diag(g) state + k v^T, output = scale q state.

    Args:
        k: Tensor (tokens of all sequences, heads, features).
        v: Tensor of the shape of `k`.
        q: Tensor of the shape of `k`.
        g: Tensor of the shape of `k`.
        state: Tensor (sequences, heads, features of k, features of v).
        scale: Factor of the outputs.

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.gated_linear_attn(*[nt.ones(2, 1, 2)] * 4, nt.zeros(1, 1, 2, 2), 0.5)"""
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
    """Return out[i][j] = input[index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        sparse_grad: Has no effect; gradients are dense.

    >>> nt.gather(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([[1, 0], [0, 0]]))"""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: builtins.bool = False, eps: builtins.float = 1e-06, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return (log(var) + (input - target)^2 / var) / 2.

    Args:
        input: Means.
        target: Samples.
        var: Variances.
        full: True to add log(2 pi) / 2.
        eps: Lower limit of the variances.

    >>> nt.gaussian_nll_loss(nt.zeros(2), nt.ones(2), nt.ones(2))"""
def gcd(input: Operand, other: Operand) -> Tensor:
    """Compute the greatest common divisor."""
def gcd_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `gcd` in place, which also changes the views of this tensor."""
def ge(input: Operand, other: Operand) -> Tensor:
    """Compare: input >= other."""
def ge_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `ge` in place, which also changes the views of this tensor."""
def geglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """Return gelu(x, tanh form) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
def geglu_erf(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """Return gelu(x, exact form) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
def geglu_quick(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """Return gelu_quick(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
def gelu(input: Tensor, approximate: builtins.str = 'none') -> Tensor:
    """Apply the Gaussian error linear unit: exactly, or as GGML's gelu with approximate="tanh"."""
def gelu_erf(input: Operand) -> Tensor:
    """Compute the exact Gaussian error linear unit: 0.5 x (1 + erf(x / sqrt(2)))."""
def gelu_erf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `gelu_erf` in place, which also changes the views of this tensor."""
def gelu_quick(input: Operand) -> Tensor:
    """Return input * sigmoid(1.702 * input)."""
def gelu_quick_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `gelu_quick` in place, which also changes the views of this tensor."""
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Return all products of elements of two vectors.

    >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def get_default_dtype() -> DType:
    """Return the dtype of Python floats, float32 unless `set_default_dtype` has changed it."""
def get_rel_pos(input: Tensor, queries: builtins.int, keys: builtins.int) -> Tensor:
    """Return the embedding of the distance of each query and key.

    Args:
        input: Embeddings (distances, features). There are 2 * max(queries, keys) - 1 distances, beginning with the key
            that is farthest ahead.
        queries: Number of queries.
        keys: Number of keys.

    Returns:
        Tensor (queries, keys, features).

    >>> nt.get_rel_pos(nt.arange(3.0).reshape(3, 1), 2, 2)"""
def get_rows(input: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a tensor. Floats of up to 32 bits and quantized numbers give float32.

    Args:
        input: Tensor (..., entries, features).
        rows: Integer indices (..., n).

    Returns:
        Tensor (..., n, features).

    >>> nt.get_rows(nt.arange(6.0).reshape(3, 2), nt.tensor([2, 0]))"""
def glu(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """Multiply the first half of dim by the sigmoid of the second, PyTorch's gated linear unit."""
def gradient(input: Tensor, *, spacing: Operand | Sequence[Operand] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, edge_order: builtins.int = 1) -> builtins.tuple[Tensor, ...]:
    """Return derivatives along dims by central differences of second order.

    Args:
        input: Samples.
        spacing: Distance of samples, or their coordinates as a vector; one for all dimensions or one for each. None is
            a distance of 1.
        dim: Dimensions of the derivatives; None for all.
        edge_order: Order of the differences at the ends, 1 or 2."""
def greater(input: Operand, other: Operand) -> Tensor:
    """Compare: input > other."""
def greater_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `greater` in place, which also changes the views of this tensor."""
def greater_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input >= other."""
def greater_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `greater_equal` in place, which also changes the views of this tensor."""
def grid_sample(input: Tensor, grid: Tensor, mode: builtins.str = 'bilinear', padding_mode: builtins.str = 'zeros', align_corners: builtins.bool | None = None) -> Tensor:
    """Sample input at coordinates.

    Args:
        input: Floats (batch, channels, *places), with two or three places.
        grid: Coordinates (batch, *out, number of places) from -1 to 1, as returned by `affine_grid`.
        mode: "bilinear" (trilinear for three places), "nearest", or "bicubic" for two places.
        padding_mode: Values outside: "zeros", "border" or "reflection".
        align_corners: True if -1 and 1 are the centres of the outermost elements, False if they are their edges.

    Returns:
        Tensor (batch, channels, *out).

    >>> nt.grid_sample(nt.arange(4.0).reshape(1, 1, 2, 2), nt.zeros(1, 1, 1, 2), align_corners=True)"""
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """Normalize groups of channels (dimension 1).

    Args:
        input: Floats (batch, channels, ...).
        num_groups: Number of groups; it must divide the number of channels.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.

    >>> nt.group_norm(nt.arange(8.0).reshape(1, 4, 2), 2)"""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None) -> Tensor:
    """Multiply groups of rows with a matrix for each group, as in mixtures of experts.

    Args:
        mat_a: Matrix (rows, k), whose rows are sorted by group, or matrices (groups, rows, k).
        mat_b: Matrices (groups, k, columns). With two matrices (rows, k) and (k, columns), `offs` divides k, and the
            result has a product for each group. A matrix (k, columns) with matrices `mat_a` has sorted columns.
        offs: End of each group, ascending; None for matrices in both operands.

    Returns:
        The products: (rows, columns), or (groups, rows, columns). Rows after the last group are zero.

    >>> nt.grouped_mm(nt.ones(3, 1), nt.arange(2.0).reshape(2, 1, 1) + 1, offs=nt.tensor([1, 3]))"""
def gt(input: Operand, other: Operand) -> Tensor:
    """Compare: input > other."""
def gt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `gt` in place, which also changes the views of this tensor."""
def gumbel_softmax(logits: Tensor, tau: builtins.float = 1.0, hard: builtins.bool = False, eps: builtins.float = 1e-10, dim: builtins.int = -1) -> Tensor:
    """Return softmax((logits + Gumbel noise) / tau) over dim: a sample of the categories for a small tau.

    Args:
        logits: Floats of any shape.
        tau: Temperature.
        hard: True to return one-hot vectors with the gradient of the soft sample.
        eps: Has no effect.

    >>> nt.gumbel_softmax(nt.tensor([1.0, 2.0, 3.0]), hard=True)"""
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return alpha - beta cos(x) over a turn. periodic omits the last element of the symmetric window."""
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return 0.5 - 0.5 * cos(t) for t from 0 to 2 pi. periodic omits the last element of the symmetric window."""
def hardshrink(input: Operand, lambd: builtins.float = 0.5) -> Tensor:
    """Return input where it is outside [-lambd, lambd], else zero."""
def hardshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `hardshrink` in place, which also changes the views of this tensor."""
def hardsigmoid(input: Operand) -> Tensor:
    """Return min(max(input + 3, 0), 6) / 6."""
def hardsigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `hardsigmoid` in place, which also changes the views of this tensor."""
def hardswish(input: Operand) -> Tensor:
    """Return input * min(max(input + 3, 0), 6) / 6."""
def hardswish_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `hardswish` in place, which also changes the views of this tensor."""
def hardtanh(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
    """Limit input to [min_val, max_val]."""
def hardtanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `hardtanh` in place, which also changes the views of this tensor."""
def heaviside(input: Operand, values: Operand) -> Tensor:
    """Return 0 where input < 0, 1 where input > 0, and values where it is 0.

    >>> nt.heaviside(nt.tensor([-1.0, 0.0, 1.0]), 0.5)"""
def heaviside_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `heaviside` in place, which also changes the views of this tensor."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return a distance where target is 1, and max(margin - distance, 0) where it is -1."""
def histc(input: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
    """Count the elements in equal intervals from min to max, or between the extremes if these are equal."""
def histogram(input: Tensor, bins: builtins.int | Tensor, *, range: builtins.tuple[builtins.float, builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False) -> Histogram:
    """Sum the weights of the elements between edges, the last one included.

    Args:
        input: Floats of any shape.
        bins: Ascending edges, or the number of equal intervals.
        range: First and last edge, if `bins` is a number.
        weight: Weight of each element; None for 1.
        density: True to divide by the total and by the widths.

    >>> nt.histogram(nt.tensor([1.0, 2.0, 2.5, 4.0]), 3)"""
def hsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Split along dimension 1 into equal parts, or between indices, like `tensor_split`.

    >>> nt.hsplit(nt.ones(2, 2, 2), 2)"""
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 1, or 0 if they have one dimension."""
def huber_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', delta: builtins.float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Return half the squared distance up to delta, and delta times the distance minus half of delta beyond.

    Args:
        weight: Factor of the losses; None for 1."""
def hypot(input: Operand, other: Operand) -> Tensor:
    """Compute sqrt(input^2 + other^2) without overflow."""
def hypot_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `hypot` in place, which also changes the views of this tensor."""
def i0(input: Tensor) -> Tensor:
    """Compute the modified Bessel function of the first kind and order 0."""
def iinfo(type: Any) -> IntegerLimits:
    """Return bits, max and min of an integer dtype.

    >>> nt.iinfo(nt.int8)"""
def im2col(input: Tensor, kernel_size: builtins.tuple[builtins.int, ...], stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1) -> Tensor:
    """Gather the elements under a kernel at each of its positions.

    Args:
        input: Tensor (batch, channels, *places).
        kernel_size: Extent of the kernel in each of one to three place dimensions.

    Returns:
        Tensor (batch, *positions, channels * elements of the kernel).

    >>> nt.im2col(nt.arange(9.0).reshape(1, 1, 3, 3), (2, 2))"""
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
    """Return input with alpha times the slices of source added to those at the positions `index` along dim.

    >>> nt.index_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
def index_add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `index_add` in place, which also changes the views of this tensor."""
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
    """Return input with the slices at the positions `index` along dim replaced by those of source.

    >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def index_copy_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `index_copy` in place, which also changes the views of this tensor."""
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: builtins.float) -> Tensor:
    """Return input with the slices at the positions `index` along dim set to value.

    >>> nt.index_fill(nt.zeros(3), 0, nt.tensor([2, 0]), 7.0)"""
def index_fill_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `index_fill` in place, which also changes the views of this tensor."""
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: builtins.bool = False) -> Tensor:
    """Return input with input[indices] replaced by values.

    Args:
        indices: Index tensors of the first dimensions.
        values: New elements, broadcast.
        accumulate: True to add the values, once for each time a position occurs.

    >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))"""
def index_put_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `index_put` in place, which also changes the views of this tensor."""
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
    """Reduce the slices of input at the positions `index` along dim with those of source, like `scatter_reduce`.

    >>> nt.index_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "prod")"""
def index_reduce_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `index_reduce` in place, which also changes the views of this tensor."""
def index_select(input: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """Return the slices of input at the positions in the vector `index` along dim.

    >>> nt.index_select(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([1]))"""
def inference_mode(mode: Any = True) -> Any:
    """Disable gradients like `no_grad`; with mode=False, change nothing."""
def initial_seed() -> builtins.int:
    """Return the seed that the default generator was started from."""
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Return the sums of products along the last dimensions of both; if one is a number, the product."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: builtins.bool = True, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Normalize each channel of each sample with its own statistics.

    Args:
        input: Floats (batch, channels, ...).
        running_mean: Mean of each channel, updated in place towards the mean over the samples if given.
        running_var: Variance of each channel, updated in place towards the mean over the samples if given.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.
        use_input_stats: False to normalize with the running statistics.
        momentum: Weight of the present statistics in an update.

    >>> nt.instance_norm(nt.arange(4.0).reshape(1, 2, 2))"""
def interpolate(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False) -> Tensor:
    """Resize (batch, channels, *places).

    Args:
        input: Tensor (batch, channels, *places); floats, or uint8 for "bilinear" and "bicubic", or any dtype for the
            first three modes.
        size: Extents of the result.
        scale_factor: Factors of the extents in place of `size`; the results are rounded down.
        mode: "nearest", "nearest-exact", "area" (means of parts), "linear" for one place dimension, "bilinear" and
            "bicubic" for two, "trilinear" for three.
        align_corners: True to keep the values of the outermost elements; not for the first three modes.
        recompute_scale_factor: True to compute the factors from the extents.
        antialias: True to include all elements in a smaller result, for "bilinear" and "bicubic".

    >>> nt.interpolate(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def inverse(A: Tensor) -> Tensor:
    """Return the inverse of square matrices."""
def is_floating_point(input: Tensor) -> builtins.bool:
    """Return True if the dtype is floating point."""
def is_grad_enabled() -> builtins.bool:
    """Return True if operations of this thread are recorded for gradients."""
def is_nonzero(input: Tensor) -> builtins.bool:
    """Return True if the only element is not zero. Reads the value.

    Raises:
        ShapeError: `input` has several elements.

    >>> nt.is_nonzero(nt.tensor([2]))"""
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Return True if both have the same shape."""
def is_signed(input: Tensor) -> builtins.bool:
    """Return True if the dtype has negative numbers."""
def is_tensor(obj: builtins.object) -> builtins.bool:
    """Return True if obj is a Tensor.

    >>> nt.is_tensor(nt.zeros(2))"""
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    """Return True where |input - other| <= atol + rtol * |other|. Integers and bool are compared in float32.

    Args:
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: True to treat two NaN as close."""
def isfinite(input: Operand) -> Tensor:
    """Return True where input is neither infinite nor NaN."""
def isfinite_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `isfinite` in place, which also changes the views of this tensor."""
def isin(elements: Operand, test_elements: Operand, *, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> Tensor:
    """Return True for each element that is among test_elements.

    >>> nt.isin(nt.tensor([1, 2, 3]), nt.tensor([2, 5]))"""
def isinf(input: Operand) -> Tensor:
    """Return True where input is plus or minus infinity."""
def isinf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `isinf` in place, which also changes the views of this tensor."""
def isnan(input: Operand) -> Tensor:
    """Return True where input is NaN."""
def isnan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `isnan` in place, which also changes the views of this tensor."""
def isneginf(input: Operand) -> Tensor:
    """Return True where input is minus infinity."""
def isneginf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `isneginf` in place, which also changes the views of this tensor."""
def isposinf(input: Operand) -> Tensor:
    """Return True where input is plus infinity."""
def isposinf_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `isposinf` in place, which also changes the views of this tensor."""
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return Kaiser's window with a shape parameter. periodic omits the last element of the symmetric window."""
def kl_div(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', log_target: builtins.bool = False) -> Tensor:
    """Return target * (log(target) - input).

    Args:
        input: Log-probabilities.
        target: Probabilities.
        reduction: "mean", "sum", "none", or "batchmean" for the sum divided by the extent of the first dimension.
        log_target: True if `target` holds log-probabilities."""
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: other times each element of input, arranged like input."""
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
    """Return the k-th smallest element of each row along dim, counted from 1, and its index."""
def l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Return the absolute differences of input and target, times weight, reduced. The mean is weighted."""
def l2_norm(input: Operand, dim: Dims = -1, eps: builtins.float = 1e-12) -> Tensor:
    """Return input / max(sqrt(sum(input^2)), eps) over dim."""
def layer_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """Return (input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias.

    Args:
        input: Floats of any shape.
        weight: Scale of shape `normalized_shape`; None for 1.
        bias: Offset of shape `normalized_shape`; None for 0.

    Raises:
        ShapeError: `normalized_shape` is not the end of the input's shape.
        DTypeError: `input` is not floating point."""
def lcm(input: Operand, other: Operand) -> Tensor:
    """Compute the least common multiple."""
def lcm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `lcm` in place, which also changes the views of this tensor."""
def ldexp(input: Operand, other: Operand) -> Tensor:
    """Return input * 2^other."""
def ldexp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `ldexp` in place, which also changes the views of this tensor."""
def le(input: Operand, other: Operand) -> Tensor:
    """Compare: input <= other."""
def le_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `le` in place, which also changes the views of this tensor."""
def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01) -> Tensor:
    """Return input where positive, else negative_slope * input."""
def leaky_relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `leaky_relu` in place, which also changes the views of this tensor."""
def lerp(input: Operand, end: Operand, weight: Operand) -> Tensor:
    """Interpolate: input + weight * (end - input), computed from the nearer end so that a weight of 1 gives end.

    >>> nt.lerp(nt.tensor([0.0, 10.0]), nt.tensor([1.0, 20.0]), 0.25)"""
def lerp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `lerp` in place, which also changes the views of this tensor."""
def less(input: Operand, other: Operand) -> Tensor:
    """Compare: input < other."""
def less_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `less` in place, which also changes the views of this tensor."""
def less_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input <= other."""
def less_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `less_equal` in place, which also changes the views of this tensor."""
def lgamma(input: Operand) -> Tensor:
    """Compute the natural logarithm of |gamma(input)|; infinite at 0 and at negative integers."""
def lgamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `lgamma` in place, which also changes the views of this tensor."""
def linear(input: Operand, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input @ weight.T + bias in the dtype of input.

    Args:
        input: Floats (..., in features).
        weight: Matrix (out features, in features), or a vector for one output. It may be float16 or bfloat16 if `input`
            is float32, and quantized if `input` is floating point; see `mul_mat`.
        bias: Offset (out features); None for 0.

    Returns:
        Tensor (..., out features)."""
def linspace(start: builtins.float, end: builtins.float, steps: builtins.int, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create `steps` evenly spaced numbers from start to end, both included.

    Integer results have whole bounds: the fractions of start and end are dropped, as in PyTorch.

    >>> nt.linspace(0.0, 1.0, 5)"""
def local_response_norm(input: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    """Return input / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta.

    Channels are dimension 1.

    >>> nt.local_response_norm(nt.ones(1, 3, 2), 2)"""
def log(input: Operand) -> Tensor:
    """Compute the natural logarithm; negative numbers give NaN."""
def log10(input: Operand) -> Tensor:
    """Compute the logarithm to base 10, exact for powers of ten."""
def log10_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `log10` in place, which also changes the views of this tensor."""
def log1p(input: Operand) -> Tensor:
    """Compute log(1 + input), accurate near zero."""
def log1p_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `log1p` in place, which also changes the views of this tensor."""
def log2(input: Operand) -> Tensor:
    """Compute the logarithm to base 2, exact for powers of two."""
def log2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `log2` in place, which also changes the views of this tensor."""
def log_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `log` in place, which also changes the views of this tensor."""
def log_softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """Compute log(softmax(input)) over dim without overflow."""
def logaddexp(input: Operand, other: Operand) -> Tensor:
    """Compute log(exp(input) + exp(other)) without overflow."""
def logaddexp2(input: Operand, other: Operand) -> Tensor:
    """Compute log2(2^input + 2^other) without overflow."""
def logaddexp2_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logaddexp2` in place, which also changes the views of this tensor."""
def logaddexp_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logaddexp` in place, which also changes the views of this tensor."""
def logcumsumexp(input: Operand, dim: Dims) -> Tensor:
    """Compute the logarithm of the running sum of exp(input) along dim without overflow."""
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant of square matrices; NaN if it is negative."""
def logical_and(input: Operand, other: Operand) -> Tensor:
    """Return True where both elements are true (not zero)."""
def logical_and_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logical_and` in place, which also changes the views of this tensor."""
def logical_not(input: Operand) -> Tensor:
    """Return True where input is false (zero)."""
def logical_not_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logical_not` in place, which also changes the views of this tensor."""
def logical_or(input: Operand, other: Operand) -> Tensor:
    """Return True where either element is true."""
def logical_or_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logical_or` in place, which also changes the views of this tensor."""
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Return True where exactly one element is true."""
def logical_xor_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logical_xor` in place, which also changes the views of this tensor."""
def logit(input: Operand, eps: builtins.float | None = None) -> Tensor:
    """Compute log(input / (1 - input)), with input limited to [eps, 1 - eps] if eps is given."""
def logit_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logit` in place, which also changes the views of this tensor."""
def logsigmoid(input: Operand) -> Tensor:
    """Compute log(sigmoid(input)) without overflow."""
def logsigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `logsigmoid` in place, which also changes the views of this tensor."""
def logspace(start: builtins.float, end: builtins.float, steps: builtins.int, base: builtins.float = 10.0, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create `steps` numbers from base ** start to base ** end whose logarithms are evenly spaced.

    Integer results have whole bounds: the fractions of start and end are dropped, as in PyTorch.

    >>> nt.logspace(0.0, 2.0, 3)"""
def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
    """Compute log(sum(exp(input))) over dim without overflow."""
def lp_pool1d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of x ** norm_type) ** (1 / norm_type) of each window of (batch, channels, width).

    >>> nt.lp_pool1d(nt.arange(3.0).reshape(1, 3), 2, 2, stride=1)"""
def lp_pool2d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of x ** norm_type) ** (1 / norm_type) of each window of (batch, channels, height, width).

    >>> nt.lp_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, 2, stride=1)"""
def lp_pool3d(input: Tensor, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of x ** norm_type) ** (1 / norm_type) of each window of (batch, channels, depth, height, width).

    >>> nt.lp_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, 2, stride=1)"""
def lt(input: Operand, other: Operand) -> Tensor:
    """Compare: input < other."""
def lt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `lt` in place, which also changes the views of this tensor."""
def lu(input: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> builtins.tuple[Tensor, ...]:
    """Return the LU factorization like `linalg.lu_factor`; get_infos adds the failures of `linalg.lu_factor_ex`."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Solve A @ X = input for the matrices A that `linalg.lu_factor` has factored.

    >>> nt.lu_solve(nt.tensor([[2.0], [4.0]]), *nt.linalg.lu_factor(2 * nt.eye(2)))"""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = True, unpack_pivots: builtins.bool = True) -> linalg.LU:
    """Return P, L and U from the parts of `linalg.lu_factor`.

    Args:
        LU_data: L below and U above the diagonal.
        LU_pivots: Exchanged rows.
        unpack_data: False to return empty tensors for L and U.
        unpack_pivots: False to return an empty tensor for P.

    >>> nt.lu_unpack(*nt.linalg.lu_factor(2 * nt.eye(2)))"""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0.0, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return max(margin - target * (input1 - input2), 0).

    Targets are 1 where input1 should be larger, else -1.

    >>> nt.margin_ranking_loss(nt.tensor([1.0]), nt.tensor([3.0]), nt.tensor([1.0]))"""
def masked_fill(input: Tensor, mask: Tensor, value: builtins.float | Tensor) -> Tensor:
    """Return input with `value` where mask is true; keeps the input's dtype."""
def masked_fill_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `masked_fill` in place, which also changes the views of this tensor."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return input with the elements of source, in order, where mask is true. Reads the mask.

    >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))"""
def masked_scatter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `masked_scatter` in place, which also changes the views of this tensor."""
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where mask is true, as a vector. Reads the mask."""
def matmul(input: Operand, other: Operand) -> Tensor:
    """Return the matrix product; leading dimensions broadcast.

    Float sums are accumulated in float32 (float64 for float64) and rounded once.

    Args:
        input: Tensor (..., n, k); a vector (k) counts as one row.
        other: Tensor (..., k, m) of the dtype of `input`; a vector (k) counts as one column.

    Returns:
        Tensor (..., n, m), without the dimensions that a vector lacks.

    Raises:
        ShapeError: Inner dimensions differ, or an operand has no dimensions."""
def matrix_exp(A: Tensor) -> Tensor:
    """Return the exponential of square matrices: the Taylor series of A / 2^n, squared n times."""
def matrix_power(A: Tensor, n: builtins.int) -> Tensor:
    """Raise square matrices to an integer power; negative ones use the inverse."""
def max(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """Return the largest element; with dim, (values, indices) along it; with a tensor, elementwise maxima.

    Args:
        input: First operand.
        dim: Dimension to reduce, or the second operand.
        other: Second operand."""
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window of (batch, channels, width).

    Args:
        input: Tensor (batch, channels, width).
        stride: Steps between windows; None for kernel_size.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.max_pool1d(nt.arange(3.0).reshape(1, 3), 2, stride=1)"""
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window of (batch, channels, height, width).

    Args:
        input: Tensor (batch, channels, height, width).
        stride: Steps between windows; None for kernel_size.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.max_pool2d(nt.arange(9.0).reshape(1, 3, 3), 2, stride=1)"""
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window of (batch, channels, depth, height, width).

    Args:
        input: Tensor (batch, channels, depth, height, width).
        stride: Steps between windows; None for kernel_size.
        return_indices: True to also return the position of each element in its channel.

    >>> nt.max_pool3d(nt.arange(27.0).reshape(1, 3, 3, 3), 2, stride=1)"""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """Put the elements of a maximum pool of (batch, channels, width) where they were, and zeros elsewhere.

    Args:
        input: Elements from the pool, (batch, channels, extents of the pool).
        indices: Positions from the pool.
        stride: Steps between windows; None for kernel_size.
        padding: Elements added at both ends, one number or one per place.
        output_size: Extents of the result, if kernel, stride and padding allow several.

    >>> nt.max_unpool1d(nt.arange(3.0).reshape(1, 3), nt.arange(3.0).reshape(1, 3).long(), 1)"""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """Put the elements of a maximum pool of (batch, channels, height, width) where they were, and zeros elsewhere.

    Args:
        input: Elements from the pool, (batch, channels, extents of the pool).
        indices: Positions from the pool.
        stride: Steps between windows; None for kernel_size.
        padding: Elements added at both ends, one number or one per place.
        output_size: Extents of the result, if kernel, stride and padding allow several.

    >>> nt.max_unpool2d(nt.arange(9.0).reshape(1, 3, 3), nt.arange(9.0).reshape(1, 3, 3).long(), 1)"""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Sequence[builtins.int] | None = None) -> Tensor:
    """Put the elements of a maximum pool of (batch, channels, depth, height, width) where they were, and zeros elsewhere.

    Args:
        input: Elements from the pool, (batch, channels, extents of the pool).
        indices: Positions from the pool.
        stride: Steps between windows; None for kernel_size.
        padding: Elements added at both ends, one number or one per place.
        output_size: Extents of the result, if kernel, stride and padding allow several.

    >>> nt.max_unpool3d(nt.arange(27.0).reshape(1, 3, 3, 3), nt.arange(27.0).reshape(1, 3, 3, 3).long(), 1)"""
def maximum(input: Operand, other: Operand) -> Tensor:
    """Return the larger of two elements, or NaN if either is NaN."""
def maximum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `maximum` in place, which also changes the views of this tensor."""
def mean(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Compute the arithmetic mean over dim (None = all)."""
def median(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """Return the lower median of all elements, or (values, indices) along dim. NaN wins.

    The median of an empty tensor is NaN.

    Raises:
        DimensionError: There are no elements along `dim`, or an integer tensor is empty."""
def meshgrid(*tensors: Tensor, indexing: builtins.str = 'ij') -> builtins.tuple[Tensor, ...]:
    """Expand each vector along a dimension of its own; indexing="xy" swaps the first two dimensions.

    >>> nt.meshgrid(nt.arange(2), nt.arange(3))"""
def min(input: Tensor, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
    """Return the smallest element; with dim, (values, indices) along it; with a tensor, elementwise minima.

    Args:
        input: First operand.
        dim: Dimension to reduce, or the second operand.
        other: Second operand."""
def minimum(input: Operand, other: Operand) -> Tensor:
    """Return the smaller of two elements, or NaN if either is NaN."""
def minimum_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `minimum` in place, which also changes the views of this tensor."""
def mish(input: Operand) -> Tensor:
    """Return input * tanh(softplus(input))."""
def mish_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `mish` in place, which also changes the views of this tensor."""
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices."""
def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
    """Return the most frequent element of each row along dim, the smallest of several, and its last index."""
def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Move the dimensions `source` to the positions `destination`; the others keep their order."""
def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Move the dimensions `source` to the positions `destination`; the others keep their order."""
def mse_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Return the squared differences of input and target, times weight, reduced. The mean is weighted."""
def msort(input: Tensor) -> Tensor:
    """Sort along the first dimension."""
def mul(input: Operand, other: Operand) -> Tensor:
    """Return input * other."""
def mul_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `mul` in place, which also changes the views of this tensor."""
def mul_mat(a: Tensor, b: Tensor, *, exact: builtins.bool = False) -> Tensor:
    """Return b @ a.T, GGML's product with weights. Floats give float32, integers of up to 32 bits int32.

    For quantized weights, b is rounded to 8 bits as in ggml, so that integers are multiplied. Each 32 elements of a row
    have a scale, or 256 for q4_k, q5_k and q6_k. On an NPU, b is rounded to bfloat16 instead. The gradient of b is that
    of its product with a.dequantize().

    Args:
        a: Weights (..., m, k). Each batch serves a group of consecutive batches of b. May be quantized if (m, k).
        b: Tensor (..., n, k). Floats are converted to the dtype of a.
        exact: True to use float32 b without rounding for quantized weights, which is slower.

    Returns:
        Tensor (..., n, m)."""
def mul_mat_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """Multiply each token with its selected experts' matrices, like `mul_mat`.

    Args:
        a: Matrices (experts, m, k).
        b: Tokens (tokens, used, k), or (tokens, 1, k) for all experts that a token uses. Floats are converted to the
            dtype of a.
        ids: Indices of experts (tokens, used).

    Returns:
        Tensor (tokens, used, m).

    >>> nt.mul_mat_id(nt.arange(3.0).reshape(3, 1, 1), nt.ones(2, 1, 1), nt.tensor([[0, 1], [2, 1]]))"""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: builtins.int, num_heads: builtins.int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: builtins.bool, dropout_p: builtins.float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: builtins.bool = True, key_padding_mask: Tensor | None = None, need_weights: builtins.bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: builtins.bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: builtins.bool = True, is_causal: builtins.bool = False) -> builtins.tuple[Tensor, Tensor | None]:
    """Attend with several heads, between linear layers, as `nn.MultiheadAttention` does.

    Masks are True for excluded keys, or floats that are added to the scores.

    Args:
        query: Floats (tokens, batch, features); the batch may be omitted.
        key: Floats (keys, batch, features).
        value: Floats (keys, batch, features).
        embed_dim_to_check: Features of `query`.
        num_heads: Number of heads.
        in_proj_weight: Weights of query, key and value below one another.
        in_proj_bias: Biases of query, key and value in a row.
        bias_k: Further key, (1, 1, features).
        bias_v: Further value, (1, 1, features).
        add_zero_attn: True to append a key and a value of zeros.
        dropout_p: Dropout probability of the weights.
        out_proj_weight: Weight of the last linear layer.
        out_proj_bias: Bias of the last linear layer.
        training: False to drop no weights.
        key_padding_mask: Mask (batch, keys).
        need_weights: True to return the attention weights too.
        attn_mask: Mask (queries, keys) or (batch * num_heads, queries, keys).
        use_separate_proj_weight: True to use the three weights that follow in place of `in_proj_weight`.
        q_proj_weight: Weight of the query.
        k_proj_weight: Weight of the key.
        v_proj_weight: Weight of the value.
        static_k: Keys (batch * num_heads, keys, features of a head) in place of those of `key`.
        static_v: Values in place of those of `value`.
        average_attn_weights: True to average the weights over the heads.
        is_causal: Hint that `attn_mask`, which must be passed, is causal.

    Returns:
        The result in the shape of `query`, and the weights or None.

    >>> nt.multi_head_attention_forward(*[nt.eye(4)] * 3, 4, 1, nt.ones(12, 4), *[None] * 3, False, 0, nt.eye(4), None)"""
def multi_margin_loss(input: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return the mean over the other classes i of max(margin - input[target] + input[i], 0) ** p; classes come last.

    >>> nt.multi_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([1]))"""
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return the sum of max(1 - input[i] + input[j], 0) over classes i of a sample and others j, per class.

    The classes of a sample are those in its row of target before the first -1.

    >>> nt.multilabel_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([[1, -1]]))"""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return the binary cross-entropy of sigmoid(input) with targets of 0 or 1, averaged over the last dimension."""
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:
    """Draw indices with the weights in each row of input, which need not sum to 1.

    Args:
        input: Weights (categories) or (rows, categories).
        num_samples: Number of indices per row.
        replacement: True if an index may be drawn again.

    Returns:
        int64 indices (num_samples) or (rows, num_samples).

    Raises:
        DimensionError: Weights are negative or not finite, or fewer are positive than are drawn without replacement.
            Raised at once if the weights have been computed, otherwise where the indices are read.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)"""
def multiply(input: Operand, other: Operand) -> Tensor:
    """Return input * other."""
def multiply_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `multiply` in place, which also changes the views of this tensor."""
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Return the product of a matrix and a vector.

    >>> nt.mv(nt.ones(2, 3), nt.ones(3))"""
def mvlgamma(input: Tensor, p: builtins.int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of p dimensions.

    >>> nt.mvlgamma(nt.tensor([3.0, 4.0]), 2)"""
def mvlgamma_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `mvlgamma` in place, which also changes the views of this tensor."""
def nan_to_num(input: Tensor, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """Replace NaN and infinities.

    Args:
        nan: Replacement of NaN.
        posinf: Replacement of infinity; None for the largest number of the dtype.
        neginf: Replacement of minus infinity; None for the lowest number of the dtype."""
def nan_to_num_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `nan_to_num` in place, which also changes the views of this tensor."""
def nanmean(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Return the mean over dim (None for all) of the elements that are not NaN; NaN if there are none."""
def nanmedian(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
    """Return the lower median of all elements that are not NaN, or (values, indices) along dim."""
def nanquantile(input: Tensor, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
    """Return the q-th quantile along dim of the elements that are not NaN, like `quantile`; NaN if there are none.

    Args:
        input: float32 or float64 of any shape.
        q: Number in [0, 1], or a vector of them, which adds a first dimension.
        dim: Dimension to reduce; None for all elements.
        interpolation: Value between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint"."""
def nansum(input: Tensor, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum over dim (None for all) of the elements that are not NaN."""
def narrow(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """Return `length` elements along dim from `start`.

    >>> nt.narrow(nt.arange(5), 0, 1, 3)"""
def narrow_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `narrow`, which takes the same arguments, with memory of its own.

    >>> nt.narrow_copy(nt.eye(4), 0, 1, 2)"""
def ne(input: Operand, other: Operand) -> Tensor:
    """Compare: input != other."""
def ne_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `ne` in place, which also changes the views of this tensor."""
def neg(input: Operand) -> Tensor:
    """Return -input."""
def neg_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `neg` in place, which also changes the views of this tensor."""
def negative(input: Operand) -> Tensor:
    """Return -input."""
def negative_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `negative` in place, which also changes the views of this tensor."""
def nextafter(input: Operand, other: Operand) -> Tensor:
    """Return the next number after input toward other."""
def nextafter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `nextafter` in place, which also changes the views of this tensor."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: builtins.str = 'mean') -> Tensor:
    """Return minus the log-probability of the target class. The mean is weighted.

    Args:
        input: Log-probabilities (batch, classes, ...).
        target: Class indices (batch, ...).
        weight: Weight of each class; None for 1.
        ignore_index: Target that does not count.
        reduce: Not supported; `reduction` has replaced it.

    >>> nt.nll_loss(nt.tensor([[-0.1, -2.3], [-1.6, -0.2]]), nt.tensor([0, 1]))"""
def no_grad(function: Any = None) -> Any:
    """Disable gradients in a with block or a decorated function."""
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False) -> Any:
    """Return the positions of elements that are not zero. Reads the value.

    Args:
        as_tuple: True for one vector per dimension, False for a matrix with one row per element."""
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
    """Return the result of `nonzero`, cut or filled with fill_value to `size` rows. Reads the value.

    >>> nt.nonzero_static(nt.tensor([0, 3, 4]), size=2)"""
def norm(input: Tensor, p: builtins.float | builtins.str = 2.0, dim: Dims = None, keepdim: builtins.bool = False, dtype: Any = None) -> Tensor:
    """Return the vector p-norm over dim: sum(|input| ** p) ** (1 / p).

    Args:
        input: Floats of any shape.
        p: Order, which may be infinite or 0; "fro" is 2; "nuc" is the sum of the singular values of matrices.
        dim: Dimensions to reduce; None for all.
        dtype: Dtype to convert input to first."""
def norm_except_dim(v: Tensor, pow: builtins.int = 2, dim: builtins.int = 0) -> Tensor:
    """Return the norms over all dimensions except one, or over all for dim=-1, with extents of 1.

    >>> nt.norm_except_dim(nt.ones(3, 4))"""
def norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """Return (input - mean) / sqrt(variance + eps) over dim: layer norm without weights."""
def normal(mean: Tensor | builtins.float, std: Tensor | builtins.float = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Draw normal random numbers.

    The dtype is that of mean, or of std if only that is a tensor, and float32 for two numbers.

    Args:
        mean: Mean; broadcast with std.
        std: Standard deviation.
        size: Shape, if mean and std are numbers.

    >>> nt.normal(0.0, 1.0, (2, 2))"""
def normalize(input: Tensor, p: builtins.float = 2.0, dim: builtins.int = 1, eps: builtins.float = 1e-12) -> Tensor:
    """Return input / max(p-norm over dim, eps)."""
def not_equal(input: Operand, other: Operand) -> Tensor:
    """Compare: input != other."""
def not_equal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `not_equal` in place, which also changes the views of this tensor."""
def numel(input: Tensor) -> builtins.int:
    """Return the number of elements."""
def one_hot(input: Tensor, num_classes: builtins.int = -1) -> Tensor:
    """Encode indices as int64 vectors with a 1 at the index.

    Args:
        input: Integer indices of any shape.
        num_classes: Extent of the new last dimension; -1 for the largest index plus 1, which reads the value.

    Raises:
        ArgumentError: `num_classes` is -1 and `input` is empty.
        DimensionError: An index is outside [0, num_classes). Raised where the value is read.

    >>> nt.one_hot(nt.tensor([0, 2]), 3)"""
def ones(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Create ones of the given shape, float32 unless `dtype` is given."""
def ones_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create ones of the input's shape and dtype."""
def out_prod(a: Tensor, b: Tensor) -> Tensor:
    """Return b.T @ a, GGML's sum of outer products, of a (..., k, m) and b (..., k, n): (..., n, m)."""
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Return all products of elements of two vectors.

    >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def pad(input: Tensor, pad: Sequence[builtins.int], mode: builtins.str = 'constant', value: builtins.float | None = None) -> Tensor:
    """Add elements around a tensor. Negative widths crop.

    Args:
        pad: (before, after) of the last dimension, then of the one before it, and so on.
        mode: "constant", "reflect", "replicate" or "circular".
        value: Added elements in the mode "constant"; None for 0."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False) -> Tensor:
    """Return the p-norms of x1 - x2 + eps over the last dimension."""
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    """Return the p-norms of the differences of all pairs of rows of a matrix.

    The order of the pairs is 0 and 1, 0 and 2, ..., 1 and 2, and so on."""
def permute(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Reorder the dimensions."""
def permute_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `permute`, which takes the same arguments, with memory of its own.

    >>> nt.permute_copy(nt.eye(4), (1, 0))"""
def pinverse(input: Tensor, rcond: builtins.float = 1e-15) -> Tensor:
    """Return the pseudoinverse of matrices. Singular values up to rcond times the largest count as 0."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    """Rearrange (..., channels * factor^2, height, width) to (..., channels, height * factor, width * factor).

    >>> nt.pixel_shuffle(nt.arange(4.0).reshape(1, 4, 1, 1), 2)"""
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    """Rearrange (..., channels, height, width) to (..., channels * factor^2, height / factor, width / factor).

    >>> nt.pixel_unshuffle(nt.arange(4.0).reshape(1, 1, 2, 2), 2)"""
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from Poisson distributions with the rates in input."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False, eps: builtins.float = 1e-08, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return exp(input) - target * input.

    Args:
        input: Logarithms of rates, or rates.
        target: Counts.
        log_input: False if `input` holds rates: the loss is input - target * log(input + eps).
        full: True to add Stirling's approximation of log(target!) for targets above 1.
        eps: Added to rates."""
def polygamma(n: builtins.int, input: Tensor) -> Tensor:
    """Compute the n-th derivative of `digamma`.

    >>> nt.polygamma(1, nt.tensor([1.0, 2.0]))"""
def positive(input: Tensor) -> Tensor:
    """Return input itself.

    Raises:
        DTypeError: `input` is bool."""
def pow(input: Operand | np.generic, exponent: Operand | np.generic) -> Tensor:
    """Raise input to the power of exponent. Two integers give an integer.

    Raises:
        ArgumentError: Integers with a negative exponent given as a number.
        DTypeError: Both operands are bool."""
def pow_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `pow` in place, which also changes the views of this tensor."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, else input * weight, of one element or one per channel (dimension 1).

    >>> nt.prelu(nt.tensor([-2.0, 3.0]), nt.tensor(0.1))"""
def prod(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Multiply the elements over dim (None = all); integers give int64."""
def promote_types(type1: Any, type2: Any) -> DType:
    """Return the dtype that tensors of these two dtypes promote to.

    >>> nt.promote_types(nt.int32, nt.float16)"""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """Return input with the elements at row-major positions replaced by those of source, or increased by them.

    >>> nt.put(nt.zeros(2, 2), nt.tensor([3]), nt.tensor([7.0]))"""
def put_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `put` in place, which also changes the views of this tensor."""
def qr(input: Tensor, some: builtins.bool = True) -> QR:
    """Return the QR decomposition, like `linalg.qr`; some=False makes Q square."""
def quantile(input: Tensor, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
    """Return the q-th quantile of the elements along dim. NaN wins.

    Args:
        input: float32 or float64 of any shape.
        q: Number in [0, 1], or a vector of them, which adds a first dimension.
        dim: Dimension to reduce; None for all elements.
        interpolation: Value between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint".

    Raises:
        ArgumentError: A number q is outside [0, 1], or `interpolation` has another value.
        DimensionError: An element of a tensor q is outside [0, 1], raised where the value is read; or there are no
            elements."""
def quantize(input: Operand, dtype: Any) -> Tensor:
    """Convert input to q8_0, q4_0, q4_1, q5_0 or q5_1.

    Each 32 elements of a row share a scale. Rounding is that of ggml.

    >>> nt.quantize(nt.ones(2, 32), "q8_0").dtype"""
def rad2deg(input: Operand) -> Tensor:
    """Convert radians to degrees."""
def rad2deg_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `rad2deg` in place, which also changes the views of this tensor."""
def rand(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Draw uniform random numbers on [0, 1). The seed is drawn now, the numbers when the value is needed."""
def rand_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Draw uniform random numbers on [0, 1) in the input's shape and dtype."""
def randint(low: builtins.int = 0, high: builtins.int | Extents | None = None, size: Extents = None, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Draw uniform random integers on [low, high), int64 by default. Without high, the range is [0, low).

    A float dtype rounds integers that have more digits than it.

    Raises:
        ArgumentError: The range is empty, or `dtype` cannot hold it.

    >>> nt.randint(0, 10, (2, 2))"""
def randint_like(input: Tensor, low: builtins.int, high: builtins.int | None = None, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Draw uniform random integers on [low, high), or [0, low), in the input's shape and dtype.

    >>> nt.randint_like(nt.zeros(2, 2), 0, 10)"""
def randn(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Draw standard normal random numbers."""
def randn_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Draw standard normal random numbers in the input's shape and dtype."""
def randperm(n: builtins.int, generator: Generator | None = None, dtype: DTypeLike = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Return a random order of 0 to n - 1; int64 by default.

    Raises:
        ArgumentError: `dtype` cannot hold n - 1."""
def range(start: builtins.float, end: builtins.float, step: builtins.float = 1, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create start, start + step, ... up to and including end, of the default float dtype unless `dtype` is given.

    Raises:
        ArgumentError: `step` does not lead from `start` to `end`.

    >>> nt.range(0, 3)"""
def ravel(input: Tensor) -> Tensor:
    """Return all elements in one dimension."""
def reciprocal(input: Operand) -> Tensor:
    """Return 1 / input."""
def reciprocal_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `reciprocal` in place, which also changes the views of this tensor."""
def reglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """Return relu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
def relu(input: Operand) -> Tensor:
    """Return max(input, 0). NaN stays NaN, as in PyTorch (GGML gives 0)."""
def relu6(input: Operand) -> Tensor:
    """Return min(max(input, 0), 6)."""
def relu6_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `relu6` in place, which also changes the views of this tensor."""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `relu` in place, which also changes the views of this tensor."""
def remainder(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of floor division, with the sign of the divisor; a zero has the sign of input.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool."""
def remainder_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `remainder` in place, which also changes the views of this tensor."""
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
    """Scale slices along dim whose p-norm is above maxnorm down to it.

    >>> nt.renorm(nt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)"""
def renorm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `renorm` in place, which also changes the views of this tensor."""
def repeat_interleave(input: Tensor, repeats: builtins.int | Tensor | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Repeat every element `repeats` times, along `dim` or flattened.

    Args:
        repeats: Number of times, or an integer tensor with one number for each element along dim. None repeats the
            positions 0, 1, ... as often as `input` states.
        output_size: Sum of the numbers in a tensor, which is read if it is not given.

    >>> nt.repeat_interleave(nt.tensor([1.0, 2.0]), 2)"""
def reshape(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Give the elements, in row-major order, another shape; the result shares memory if the strides allow that."""
def result_type(tensor1: Operand, tensor2: Operand) -> DType:
    """Return the dtype that two operands promote to.

    Operands without dimensions count less than others, and Python numbers least."""
def rms_norm(input: Tensor, normalized_shape: builtins.int | Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    """Return input / sqrt(mean(input^2) + eps) over the last dimensions, times weight.

    Args:
        input: Floats of any shape.
        weight: Scale of shape `normalized_shape`; None for 1.
        eps: Added to the mean; None for the machine epsilon of the dtype of the computation.

    Raises:
        ShapeError: `normalized_shape` is not the end of the input's shape.
        DTypeError: `input` is not floating point."""
def rms_norm_rows(input: Operand, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
    """Return input / sqrt(mean(input^2) + eps) over dim: RMS norm without weights."""
def roll(input: Tensor, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Shift elements along dims; those pushed out enter at the other end. dims=None rolls the flattened tensor."""
def rope(input: Tensor, positions: Tensor, freq_factors: Tensor | None = None, *, n_dims: builtins.int | None = None, mode: builtins.str = 'normal', freq_base: builtins.float = 10000.0, freq_scale: builtins.float = 1.0, n_ctx_orig: builtins.int = 0, ext_factor: builtins.float = 0.0, attn_factor: builtins.float = 1.0, beta_fast: builtins.float = 32.0, beta_slow: builtins.float = 1.0, sections: Sequence[builtins.int] = ()) -> Tensor:
    """Apply rotary position embedding.

    Args:
        input: Floats (..., tokens, heads, features).
        positions: Integers (tokens), or (4, tokens) for time, height, width and another position in the modes "mrope",
            "imrope" and "vision".
        freq_factors: Divisors (n_dims/2) of the angles.
        n_dims: Number of features that determines the frequencies; None for all, in "vision" for half of them.
            Features that are not rotated are copied.
        mode: "normal" rotates neighbouring pairs (2i, 2i+1), the other modes pairs (i, i + n_dims/2).
        freq_base: Base of the frequencies.
        freq_scale: Factor of the angles.
        n_ctx_orig: Parameter of YaRN.
        ext_factor: Parameter of YaRN.
        attn_factor: Parameter of YaRN.
        beta_fast: Parameter of YaRN.
        beta_slow: Parameter of YaRN.
        sections: Number of pairs that rotate by each of the four positions. In "imrope", the first three positions
            alternate; in "vision", the frequencies of each section restart.

    >>> nt.rope(nt.ones(2, 1, 4), nt.arange(2))"""
def rot90(input: Tensor, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
    """Rotate k times by a quarter turn from the first towards the second of two dimensions."""
def round(input: Tensor, decimals: builtins.int = 0) -> Tensor:
    """Round to the nearest multiple of 10 ** -decimals, halves to even."""
def round_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `round` in place, which also changes the views of this tensor."""
def round_half_away(input: Operand) -> Tensor:
    """Round to the nearest integer, halves away from zero, as GGML's ROUND."""
def round_half_away_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `round_half_away` in place, which also changes the views of this tensor."""
def row_stack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 0, after making each at least a matrix."""
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False) -> Tensor:
    """Return input where positive, else input times a slope.

    Args:
        lower: Smallest slope.
        upper: Largest slope.
        training: True to draw a slope for each element; False to use the mean of both."""
def rrelu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `rrelu` in place, which also changes the views of this tensor."""
def rsqrt(input: Operand) -> Tensor:
    """Return 1 / sqrt(input)."""
def rsqrt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `rsqrt` in place, which also changes the views of this tensor."""
def rsub(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return other - alpha * input."""
def rwkv_wkv6(k: Tensor, v: Tensor, r: Tensor, tf: Tensor, td: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """Run RWKV 6: output = r (state + tf k v^T), state = td state + k v^T.

    Args:
        k: Tensor (tokens of all sequences, heads, features).
        v: Tensor of the shape of `k`.
        r: Tensor of the shape of `k`.
        tf: Tensor (heads, features).
        td: Tensor of the shape of `k`.
        state: Tensor (sequences, heads, features of k, features of v).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.rwkv_wkv6(*[nt.ones(2, 1, 2)] * 3, nt.ones(1, 2), nt.ones(2, 1, 2), nt.zeros(1, 1, 2, 2))"""
def rwkv_wkv7(r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """Run RWKV 7: state = state diag(w) + v k^T + (state a) b^T, output = state r.

    Args:
        r: Tensor (tokens of all sequences, heads, features).
        w: Tensor of the shape of `r`.
        k: Tensor of the shape of `r`.
        v: Tensor of the shape of `r`.
        a: Tensor of the shape of `r`.
        b: Tensor of the shape of `r`.
        state: Tensor (sequences, heads, features of v, features of k).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.rwkv_wkv7(*[nt.ones(2, 1, 2)] * 6, nt.zeros(1, 1, 2, 2))"""
def scalar_tensor(s: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor without dimensions from a number, of the default float dtype unless `dtype` is given.

    >>> nt.scalar_tensor(2.5)"""
def scale(input: Operand, s: builtins.float, b: builtins.float = 0.0) -> Tensor:
    """Return input * s + b.

    >>> nt.scale(nt.tensor([1.0, 2.0]), 3.0, 1.0)"""
def scale_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `scale` in place, which also changes the views of this tensor."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, scale: builtins.float | None = None, enable_gqa: builtins.bool = False) -> Tensor:
    """Return softmax(query @ key.T * scale + mask) @ value.

    A query that may not attend to any key gives 0. Key and value may be float16 or bfloat16 if query is float32.

    Args:
        query: Floats (..., queries, features).
        key: Floats (..., keys, features).
        value: Floats (..., keys, value features).
        attn_mask: Bool, True where a query may attend, or float, added to the scores.
        dropout_p: Dropout probability of the weights.
        is_causal: True to let query i attend to keys 0 to i only.
        scale: Factor of the scores; None for 1 / sqrt(features).
        enable_gqa: True to let each head of key and value serve a group of query heads, without a copy.

    Returns:
        Tensor of shape (..., queries, value features) in the dtype of `query`.

    Raises:
        ArgumentError: Both `attn_mask` and `is_causal` are given.
        ShapeError: The shapes do not fit, or key heads do not divide query heads.

    >>> nt.scaled_dot_product_attention(nt.ones(2, 4), nt.ones(3, 4), nt.ones(3, 2))"""
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor | builtins.float | None = None, *, value: builtins.float | None = None, reduce: builtins.str | None = None) -> Tensor:
    """Return input with elements of src stored at [index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        dim: Dimension along which `index` counts.
        index: Integer positions. Negative ones are out of range, as in `gather`.
        src: Tensor of the new elements, at least as large as `index`.
        value: Number to store instead of `src`.
        reduce: "add" or "multiply" to combine with the present elements, once for each time a position occurs.

    Raises:
        ArgumentError: `reduce` has another value.
        TypeError: Not exactly one of `src` and `value` is given.

    >>> nt.scatter(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
def scatter_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `scatter` in place, which also changes the views of this tensor."""
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
    """Return input with src[i][j] added to [index[i][j]][j] for dim = 0, and accordingly for other dims.

    >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
def scatter_add_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `scatter_add` in place, which also changes the views of this tensor."""
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
    """Reduce input with src[i][j] at [index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        dim: Dimension along which `index` counts.
        index: Integer positions.
        src: Elements, at least as many as in `index`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: False to leave out the elements of `input` at these positions.

    >>> nt.scatter_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "sum")"""
def scatter_reduce_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `scatter_reduce` in place, which also changes the views of this tensor."""
def searchsorted(sorted_sequence: Tensor, input: Operand, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: builtins.str | None = None, sorter: Tensor | None = None) -> Tensor:
    """Return the position of each value (..., m) in an ascending sequence (..., n).

    NaN counts as the largest value, as in `sort`. A one-dimensional sequence serves values of any shape.

    Args:
        sorted_sequence: Ascending values (..., n).
        input: Values (..., m).
        out_int32: True for int32 positions in place of int64.
        right: True for the position after equal elements, False for the one before.
        side: "right" or "left", in place of `right`.
        sorter: Order of the sequence that is ascending, as `argsort` returns it.

    >>> nt.searchsorted(nt.tensor([1.0, 2.0, 3.0]), nt.tensor([0.5, 2.5]))"""
def seed() -> builtins.int:
    """Restart the default generator from a seed of the operating system and return that seed."""
def select(input: Operand, dim: Dims, index: builtins.int) -> Tensor:
    """Return the slice at `index` along dim, without that dimension.

    >>> nt.select(nt.tensor([[1, 2], [3, 4]]), 0, 1)"""
def select_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `select`, which takes the same arguments, with memory of its own.

    >>> nt.select_copy(nt.eye(4), 0, 1)"""
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """Return input with the slice at a position along dim replaced by src.

    >>> nt.select_scatter(nt.zeros(2, 2), nt.ones(2), 0, 1)"""
def selu(input: Operand) -> Tensor:
    """Compute the scaled elu with the constants of Klambauer et al., 2017."""
def selu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `selu` in place, which also changes the views of this tensor."""
def set(input: Tensor, source: Tensor, start: builtins.tuple[builtins.int, ...]) -> Tensor:
    """Return input with a block of the last dimensions replaced by source.

    Args:
        source: Tensor of the block.
        start: Index of the block in each dimension of `source`.

    >>> nt.set(nt.ones(2, 3), nt.ones(1, 2), (1, 1))"""
def set_default_dtype(d: Any) -> None:
    """Set the dtype of Python floats, `zeros` and other constants, and quotients of integers for the whole process.

    Functions wrapped by `jit` are captured again.

    Raises:
        DTypeError: The dtype is not floating point.

    >>> nt.set_default_dtype(nt.float32)"""
def set_grad_enabled(mode: builtins.bool) -> Any:
    """Enable or disable gradients for this thread from now on, in a with block or in a decorated function.

    >>> nt.set_grad_enabled(True)"""
def set_rows(input: Tensor, source: Tensor, rows: Tensor) -> Tensor:
    """Return input with some rows replaced.

    Args:
        input: Tensor (..., entries, features).
        source: New rows (..., n, features).
        rows: Indices (..., n) of the rows in `input`; they repeat over leading dimensions.

    >>> nt.set_rows(nt.zeros(3, 2), nt.ones(1, 2), nt.tensor([1]))"""
def sgn(input: Operand) -> Tensor:
    """Return the sign as -1, 0 or 1. This is GGML's name of `sign`."""
def sgn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sgn` in place, which also changes the views of this tensor."""
def sigmoid(input: Operand) -> Tensor:
    """Return 1 / (1 + exp(-input))."""
def sigmoid_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sigmoid` in place, which also changes the views of this tensor."""
def sign(input: Operand) -> Tensor:
    """Return the sign as -1, 0 or 1. NaN gives 0, as in PyTorch and GGML."""
def sign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sign` in place, which also changes the views of this tensor."""
def signbit(input: Operand) -> Tensor:
    """Return True where the sign is minus, also for -0.0."""
def signbit_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `signbit` in place, which also changes the views of this tensor."""
def silu(input: Operand) -> Tensor:
    """Return input * sigmoid(input)."""
def silu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `silu` in place, which also changes the views of this tensor."""
def silu_back(grad: Tensor, input: Tensor) -> Tensor:
    """Return grad times the derivative of silu at input."""
def sin(input: Operand) -> Tensor:
    """Compute the sine of an angle in radians."""
def sin_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sin` in place, which also changes the views of this tensor."""
def sinc(input: Operand) -> Tensor:
    """Compute sin(pi * input) / (pi * input); 1 at 0."""
def sinc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sinc` in place, which also changes the views of this tensor."""
def sinh(input: Operand) -> Tensor:
    """Compute the hyperbolic sine."""
def sinh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sinh` in place, which also changes the views of this tensor."""
def slice_scatter(input: Tensor, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor:
    """Return input with input[start:end:step] along dim replaced by src.

    >>> nt.slice_scatter(nt.zeros(4), nt.ones(2), 0, 1, 3)"""
def slogdet(A: Tensor) -> SignLogDet:
    """Return sign and logarithm of the magnitude of the determinant of square matrices."""
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: builtins.str = 'mean', beta: builtins.float = 1.0) -> Tensor:
    """Return half the squared distance over beta up to beta, and the distance minus half of beta beyond.

    With beta=0 it is `l1_loss`."""
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return log(1 + exp(-target * input)) with targets of 1 or -1."""
def soft_max_ext(input: Tensor, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
    """Return softmax(input * scale + slope * mask) over the last dimension.

    Args:
        input: Floats (..., heads, rows, columns).
        mask: Added to the scores. It repeats over the leading dimensions and may have more rows than input.
        scale: Factor of the scores.
        max_bias: Above 0, slope is one ALiBi slope per head; otherwise it is 1.
        sinks: Further logits (heads), which take probability and have no column in the result.

    Raises:
        ShapeError: `mask` does not cover the rows and columns, or `sinks` does not fit the heads."""
def softmax(input: Operand, dim: Dims, dtype: Any = None) -> Tensor:
    """Compute exp(input) / sum(exp(input)) over dim without overflow."""
def softmin(input: Tensor, dim: builtins.int, dtype: Any = None) -> Tensor:
    """Return softmax(-input) over dim."""
def softplus(input: Operand, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, or input where beta * input > threshold."""
def softplus_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `softplus` in place, which also changes the views of this tensor."""
def softshrink(input: Operand, lambd: builtins.float = 0.5) -> Tensor:
    """Move input toward zero by lambd; elements within [-lambd, lambd] become zero."""
def softshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `softshrink` in place, which also changes the views of this tensor."""
def softsign(input: Operand) -> Tensor:
    """Return input / (1 + |input|)."""
def softsign_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `softsign` in place, which also changes the views of this tensor."""
def solve_tri(a: Tensor, b: Tensor, left: builtins.bool = True, lower: builtins.bool = True, unit_diagonal: builtins.bool = False) -> Tensor:
    """Solve a x = b, or x a = b, for triangular matrices a, row by row. GGML supports the defaults only.

    Args:
        a: Triangular matrices (..., n, n).
        b: Right-hand sides (..., n, m), or (..., m, n) if not `left`.
        left: True for a x = b, False for x a = b.
        lower: True for lower triangles.
        unit_diagonal: True to take the diagonal as ones."""
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> ValuesIndices:
    """Sort along dim. Always stable; NaN counts as the largest.

    Returns:
        `values` in order, and `indices` of their positions before."""
def split(input: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split into parts of a given size along dim (the last may be smaller), or of given sizes."""
def split_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `split`, which takes the same arguments, with memory of its own.

    >>> nt.split_copy(nt.eye(4), 2)"""
def split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split into parts of the given sizes along dim.

    >>> nt.split_with_sizes(nt.arange(4), (1, 3))"""
def sqrt(input: Operand) -> Tensor:
    """Compute the square root; negative numbers give NaN."""
def sqrt_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sqrt` in place, which also changes the views of this tensor."""
def square(input: Operand) -> Tensor:
    """Return input * input."""
def square_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `square` in place, which also changes the views of this tensor."""
def squeeze(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Remove all dimensions of extent 1, or those of them in `dim`."""
def squeeze_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `squeeze`, which takes the same arguments, with memory of its own.

    >>> nt.squeeze_copy(nt.eye(4))"""
def ssm_conv(input: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel of a sequence with its weights.

    Args:
        input: Tensor (sequences, channels, width - 1 + tokens).
        weight: Tensor (channels, width).

    Returns:
        Tensor (sequences, tokens, channels).

    >>> nt.ssm_conv(nt.arange(5.0).reshape(1, 1, 5), nt.tensor([[1.0, 1.0]]))"""
def ssm_scan(state: Tensor, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, ids: Tensor) -> builtins.tuple[Tensor, Tensor]:
    """Run Mamba's selective scan.

    For each token, state = exp(softplus(dt) a) state + softplus(dt) x b, and the output is sum(state c) over the
    states.

    Args:
        state: Entries (entries, heads, features, states).
        x: Tensor (sequences, tokens, heads, features).
        dt: Tensor (sequences, tokens, heads).
        a: Tensor (heads, states) or (heads, 1).
        b: Tensor (sequences, tokens, groups, states). Each group serves a group of heads.
        c: Tensor of the shape of `b`.
        ids: Index of each sequence's entry in `state`, (sequences).

    Returns:
        Outputs of the shape of `x`, and the last states.

    >>> nt.ssm_scan(*(nt.ones([1] * ndim) for ndim in (4, 4, 3, 2, 4, 4)), nt.tensor([0]))"""
def stack(tensors: Sequence[Operand], dim: builtins.int = 0) -> Tensor:
    """Join tensors of equal shape along a new dimension."""
def std(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
    """Return the standard deviation over dim: the square root of `var`.

    Args:
        input: Floats of any shape.
        dim: Dimensions to reduce; None for all.
        unbiased: PyTorch's older argument: False for a correction of 0.
        correction: Subtracted from the number of elements; 1 by default."""
def std_mean(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> builtins.tuple[Tensor, Tensor]:
    """Return standard deviation and mean over dim, with the arguments of `std`."""
def step(input: Operand) -> Tensor:
    """Return 1 where input > 0, else 0."""
def step_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `step` in place, which also changes the views of this tensor."""
def sub(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input - alpha * other."""
def sub_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `sub` in place, which also changes the views of this tensor."""
def subtract(input: Operand, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
    """Return input - alpha * other."""
def subtract_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `subtract` in place, which also changes the views of this tensor."""
def sum(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dim (None = all). Integers give int64; partial sums of floats are float32."""
def sum_rows(input: Tensor) -> Tensor:
    """Sum over the last dimension, which is kept with extent 1."""
def svd(input: Tensor, some: builtins.bool = True) -> builtins.tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V with input = U @ diag(S) @ V.mT; some=False makes U and V square.

    `linalg.svd` returns V.mT instead of V."""
def swapaxes(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Swap the dimensions dim0 and dim1."""
def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Swap the dimensions dim0 and dim1."""
def swiglu(input: Tensor, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
    """Return silu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
def swiglu_oai(input: Tensor, gate: Tensor | None = None, *, alpha: builtins.float = 1.702, limit: builtins.float = 7.0, swapped: builtins.bool = False) -> Tensor:
    """Return x * sigmoid(alpha * x) * (gate + 1), with x at most `limit` and gate in [-limit, limit].

    Without a gate, the last dimension is split into halves as in `swiglu`."""
def t(input: Tensor) -> Tensor:
    """Swap rows and columns; return tensors of fewer than two dimensions unchanged.

    Raises:
        ShapeError: `input` has more than two dimensions."""
def t_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `t`, which takes the same arguments, with memory of its own.

    >>> nt.t_copy(nt.eye(4))"""
def take(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements at row-major positions; negative ones count from the end.

    >>> nt.take(nt.tensor([[1, 2], [3, 4]]), nt.tensor([0, 3]))"""
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
    """Gather elements, with input and indices broadcast in the other dimensions; dim=None flattens both.

    >>> nt.take_along_dim(nt.tensor([[1, 2], [3, 4]]), nt.tensor([[1], [0]]), 1)"""
def tan(input: Operand) -> Tensor:
    """Compute the tangent of an angle in radians."""
def tan_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `tan` in place, which also changes the views of this tensor."""
def tanh(input: Operand) -> Tensor:
    """Compute the hyperbolic tangent."""
def tanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `tanh` in place, which also changes the views of this tensor."""
def tanhshrink(input: Operand) -> Tensor:
    """Return input - tanh(input)."""
def tanhshrink_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `tanhshrink` in place, which also changes the views of this tensor."""
def tensor(data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create a tensor by copying data.

    Without `dtype`, Python floats give float32, ints int64 and bools bool; arrays and tensors keep theirs. A list with
    elements of several types gets the promoted dtype. Gradients that another library records for its array are dropped.

    Args:
        data: Number, nested lists of numbers, array of NumPy, PyTorch or JAX, or another tensor.

    Raises:
        ShapeError: Nested lists are ragged.
        DTypeError: An element is not a number.
        ArgumentError: An integer dtype cannot hold a Python number. Floats of arrays that are out of range give the
            nearest limit instead, as in `Tensor.to`."""
def tensor_split(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split along dim into a number of parts, or between indices.

    If the parts are not equal, the first ones are larger by one.

    >>> nt.tensor_split(nt.arange(5), 2)"""
def tensordot(a: Tensor, b: Tensor, dims: builtins.int | Sequence[Sequence[builtins.int]] = 2) -> Tensor:
    """Sum products over several dimensions of a and b.

    Args:
        a: First operand.
        b: Second operand.
        dims: Number of last dimensions of a and first dimensions of b, or the dimensions of each."""
def threshold(input: Operand, threshold: builtins.float, value: builtins.float) -> Tensor:
    """Return input where it is above the threshold, else value.

    >>> nt.threshold(nt.tensor([0.5, 2.0]), 1.0, 0.0)"""
def threshold_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `threshold` in place, which also changes the views of this tensor."""
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Repeat the whole tensor like `repeat`; fewer numbers than dimensions apply to the last ones."""
def timestep_embedding(timesteps: Tensor, dim: builtins.int, max_period: builtins.int = 10000) -> Tensor:
    """Return cosines and then sines of time steps at dim/2 frequencies from 1 down to 1/max_period.

    Args:
        timesteps: Floats (n).
        dim: Number of features. The last one of an odd number is 0.
        max_period: Period of the lowest frequency.

    Returns:
        Tensor (n, dim).

    >>> nt.timestep_embedding(nt.tensor([0.0, 1.0]), 4)"""
def top_k(input: Tensor, k: builtins.int) -> Tensor:
    """Return int32 indices of the k largest elements of each row."""
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> ValuesIndices:
    """Return the k largest (or smallest) elements along dim in order, and their indices. Always sorted.

    NaN counts as the largest; the choice among equal elements is undefined."""
def trace(input: Tensor) -> Tensor:
    """Return the sum of the diagonal of a matrix."""
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Swap the dimensions dim0 and dim1."""
def transpose_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `transpose`, which takes the same arguments, with memory of its own.

    >>> nt.transpose_copy(nt.eye(4), 0, 1)"""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """Integrate samples y along dim by the trapezoidal rule, at places x or with a distance of dx."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: builtins.float = 1, dim: builtins.int = -1) -> Tensor:
    """Integrate samples y along dim by the trapezoidal rule, at places x or with a distance of dx."""
def triangular_solve(input: Tensor, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
    """Return X with A @ X = input for triangular A, and A. transpose solves A.mT @ X = input.

    >>> nt.triangular_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))"""
def tril(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """Keep the elements of the last two dimensions on and below the diagonal; the others become zero."""
def tril_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `tril` in place, which also changes the views of this tensor."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return rows and columns, of shape (2, n), of the elements on and below a diagonal."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2.0, eps: builtins.float = 1e-06, swap: builtins.bool = False, *, reduction: builtins.str = 'mean') -> Tensor:
    """Return max(distance to positive - distance to negative + margin, 0) of rows, by their p-norms.

    Args:
        anchor: Rows to compare.
        positive: Rows that should be near.
        negative: Rows that should be far.
        margin: Required difference of the distances.
        p: Order of the norm.
        eps: Added to the differences.
        swap: True to use the distance of positive and negative if it is smaller than that of anchor and negative.

    >>> nt.triplet_margin_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))"""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: builtins.float = 1.0, swap: builtins.bool = False, reduction: builtins.str = 'mean') -> Tensor:
    """Return the triplet loss for another function of the distance, by default `pairwise_distance`.

    >>> nt.triplet_margin_with_distance_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))"""
def triu(input: Operand, diagonal: builtins.int = 0) -> Tensor:
    """Keep the elements of the last two dimensions on and above the diagonal; the others become zero."""
def triu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `triu` in place, which also changes the views of this tensor."""
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Return rows and columns, of shape (2, n), of the elements on and above a diagonal."""
def true_divide(input: Operand, other: Operand) -> Tensor:
    """Return input / other; integers give float32."""
def true_divide_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `true_divide` in place, which also changes the views of this tensor."""
def trunc(input: Operand) -> Tensor:
    """Round toward zero to an integer."""
def trunc_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `trunc` in place, which also changes the views of this tensor."""
def unbind(input: Tensor, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Return the slices along dim."""
def unbind_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `unbind`, which takes the same arguments, with memory of its own.

    >>> nt.unbind_copy(nt.eye(4))"""
def unflatten(input: Tensor, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
    """Split the dimension `dim` into `sizes`, one of which may be -1.

    >>> nt.unflatten(nt.arange(6), 0, (2, 3))"""
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Gather the elements under a kernel at each of its positions.

    Args:
        input: Tensor (batch, channels, height, width).

    Returns:
        Tensor (batch, channels * elements of the kernel, positions).

    >>> nt.unfold(nt.arange(9.0).reshape(1, 1, 3, 3), 2)"""
def unfold_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `unfold`, which takes the same arguments, with memory of its own.

    >>> nt.unfold_copy(nt.eye(4), 0, 2, 1)"""
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    """Return the distinct elements, or slices along dim, in ascending order. Every NaN is distinct. Reads the value.

    Args:
        sorted: Has no effect; the result is always sorted.
        return_inverse: True to also return the position of each element in the result.
        return_counts: True to also return the number of occurrences.
        dim: Dimension of the slices; None for elements."""
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    """Return the elements, or slices along dim, that differ from the previous one. Reads the value.

    Args:
        return_inverse: True to also return the position of each element in the result.
        return_counts: True to also return the number of repetitions.
        dim: Dimension of the slices; None for elements."""
def unravel_index(indices: Tensor, shape: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Convert row-major positions to indices in each dimension of a shape.

    >>> nt.unravel_index(nt.tensor([5]), (2, 3))"""
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split into at most `chunks` parts of equal size along dim; the last may be smaller."""
def unsafe_split(input: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
    """Split into parts of a given size along dim (the last may be smaller), or of given sizes."""
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:
    """Insert a dimension of extent 1 before `dim`."""
def unsqueeze_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `unsqueeze`, which takes the same arguments, with memory of its own.

    >>> nt.unsqueeze_copy(nt.eye(4), 0)"""
def upsample(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: builtins.str = 'nearest', align_corners: builtins.bool | None = None) -> Tensor:
    """Resize like `interpolate`.

    >>> nt.upsample(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def upsample_bilinear(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None) -> Tensor:
    """Resize like `interpolate` with mode="bilinear" and aligned corners.

    >>> nt.upsample_bilinear(nt.ones(1, 1, 2, 2), scale_factor=2)"""
def upsample_nearest(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None) -> Tensor:
    """Resize like `interpolate` to the nearest elements.

    >>> nt.upsample_nearest(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)"""
def vander(x: Tensor, N: builtins.int | None = None, *, increasing: builtins.bool = False) -> Tensor:
    """Return powers of the elements of a vector as columns: N - 1, ..., 1, 0, or ascending. Integers give int64.

    >>> nt.vander(nt.tensor([1, 2, 3]))"""
def var(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
    """Return the variance over dim: the sum of squared deviations divided by n - correction.

    Args:
        input: Floats of any shape.
        dim: Dimensions to reduce; None for all.
        unbiased: PyTorch's older argument: False for a correction of 0.
        correction: Subtracted from the number of elements; 1 by default."""
def var_mean(input: Tensor, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> builtins.tuple[Tensor, Tensor]:
    """Return variance and mean over dim, with the arguments of `var`."""
def vdot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return the sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
def view_copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the result of `view`, which takes the same arguments, with memory of its own.

    >>> nt.view_copy(nt.eye(4), (2, 8))"""
def vsplit(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
    """Split along dimension 0 into equal parts, or between indices, like `tensor_split`.

    >>> nt.vsplit(nt.ones(2, 2, 2), 2)"""
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 0, after making each at least a matrix."""
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """Return input where condition is true, else other.

    A condition alone gives its positions, as `nonzero` with as_tuple=True.

    >>> nt.where(nt.tensor([True, False]), nt.tensor([1.0, 2.0]), 0.0)"""
def win_part(input: Tensor, window: builtins.int) -> Tensor:
    """Split (height, width, features) into squares, row by row: (windows, window, window, features).

    Zeros fill the last squares.

    >>> nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2).shape"""
def win_unpart(input: Tensor, width: builtins.int, height: builtins.int, window: builtins.int) -> Tensor:
    """Join the windows of `win_part` to an image (height, width, features).

    >>> nt.win_unpart(nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2), 3, 2, 2).shape"""
def xielu(input: Operand, alpha_n: builtins.float, alpha_p: builtins.float, beta: builtins.float, eps: builtins.float) -> Tensor:
    """Compute GGML's xIELU; alpha_n and alpha_p are the values after GGML's softplus.

    alpha_p x^2 + beta x where x > 0, else alpha_n (expm1(min(x, eps)) - x) + beta x.

    >>> nt.xielu(nt.tensor([-1.0, 2.0]), 0.8, 0.5, 0.5, -1e-6)"""
def xielu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `xielu` in place, which also changes the views of this tensor."""
def xlogy(input: Operand, other: Operand) -> Tensor:
    """Compute input * log(other); 0 where input is 0, unless other is NaN."""
def xlogy_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Apply `xlogy` in place, which also changes the views of this tensor."""
def zeros(*size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
    """Create zeros of the given shape, float32 unless `dtype` is given."""
def zeros_like(input: Tensor, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Create zeros of the input's shape and dtype."""
