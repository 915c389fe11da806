# ruff: noqa: E501, F401, I001
# Written by `python -m npu_tensor.tools.stubs` from the op registry and npu_tensor/functions.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from npu_tensor.functions.creation import Generator
from npu_tensor.functions.arithmetic import MantissaExponent
from npu_tensor.functions.shape import ValuesIndices
from npu_tensor.functions.statistics import Histogram
from npu_tensor.linalg import QR, SignLogDet
from npu_tensor.tensor import Tensor

Operand = Tensor | np.ndarray[Any, Any] | builtins.float
Dims = builtins.int | Sequence[builtins.int] | None
Extents = Any
Sizes = builtins.int | Sequence[builtins.int]
DTypeLike = Any

class Methods:
    __slots__ = ()
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """Return input[index]."""
    def __gt__(self, other: Any) -> Tensor: ...
    def __iadd__(self, other: Any) -> Tensor: ...
    def __iand__(self, other: Any) -> Tensor: ...
    def __ifloordiv__(self, other: Any) -> Tensor: ...
    def __ilshift__(self, other: Any) -> Tensor: ...
    def __imatmul__(self, other: Any) -> Tensor: ...
    def __imod__(self, other: Any) -> Tensor: ...
    def __imul__(self, other: Any) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Any) -> Tensor: ...
    def __ipow__(self, other: Any) -> Tensor: ...
    def __irshift__(self, other: Any) -> Tensor: ...
    def __isub__(self, other: Any) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]:
        """"""
    def __itruediv__(self, other: Any) -> Tensor: ...
    def __ixor__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __lt__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return input itself.

        Raises:
            DTypeError: `input` is bool."""
    def __pow__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __round__(self, digits: builtins.int | None = None) -> Tensor:
        """"""
    def __rpow__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Operand) -> None:
        """"""
    def __sub__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def abs(self) -> Tensor:
        """Return the absolute value; the smallest integer wraps to itself."""
    def abs_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `abs` in place, which also changes the views of this tensor."""
    def absolute(self) -> Tensor:
        """Return the absolute value; the smallest integer wraps to itself."""
    def absolute_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `absolute` in place, which also changes the views of this tensor."""
    def acos(self) -> Tensor:
        """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
    def acos_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `acos` in place, which also changes the views of this tensor."""
    def acosh(self) -> Tensor:
        """Compute the inverse hyperbolic cosine; NaN below 1."""
    def acosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `acosh` in place, which also changes the views of this tensor."""
    def add(self, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
        """Return input + alpha * other."""
    def add1(self, other: Tensor) -> Tensor:
        """Return input + the one element of other.

        >>> nt.add1(nt.tensor([1.0, 2.0]), nt.tensor([5.0]))"""
    def add_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `add` in place, which also changes the views of this tensor."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        """Return beta * input + alpha * the sum of the products of two stacks of matrices.

        >>> nt.addbmm(nt.ones(1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
    def addbmm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addbmm` in place, which also changes the views of this tensor."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """Return input + value * tensor1 / tensor2.

        The computation uses the promoted dtype of all three, and float32 for 16-bit floats.

        Raises:
            DTypeError: Neither `tensor1` nor `tensor2` is floating point."""
    def addcdiv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addcdiv` in place, which also changes the views of this tensor."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: builtins.float = 1) -> Tensor:
        """Return input + value * tensor1 * tensor2.

        The computation uses the promoted dtype of all three, and float32 for 16-bit floats."""
    def addcmul_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addcmul` in place, which also changes the views of this tensor."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        """Return beta * input + alpha * (mat1 @ mat2).

        >>> nt.addmm(nt.ones(2, 2), nt.ones(2, 3), nt.ones(3, 2))"""
    def addmm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addmm` in place, which also changes the views of this tensor."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        """Return beta * input + alpha * (mat @ vec).

        >>> nt.addmv(nt.ones(2), nt.ones(2, 3), nt.ones(3))"""
    def addmv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addmv` in place, which also changes the views of this tensor."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        """Return beta * input + alpha * all products of elements of two vectors.

        >>> nt.addr(nt.zeros(2, 2), nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
    def addr_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `addr` in place, which also changes the views of this tensor."""
    def all(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return True if every element over dim is true (not zero)."""
    def allclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """Return True if all elements are close, as defined by `isclose`. Reads the value."""
    def amax(self, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
        """Return the largest element over dim (empty = all); NaN wins."""
    def amin(self, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
        """Return the smallest element over dim (empty = all); NaN wins."""
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
        """Return the smallest and the largest element over dim (None for all)."""
    def any(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return True if any element over dim is true (not zero)."""
    def arccos(self) -> Tensor:
        """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
    def arccos_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arccos` in place, which also changes the views of this tensor."""
    def arccosh(self) -> Tensor:
        """Compute the inverse hyperbolic cosine; NaN below 1."""
    def arccosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arccosh` in place, which also changes the views of this tensor."""
    def arcsin(self) -> Tensor:
        """Compute the inverse sine in radians; NaN beyond -1 and 1."""
    def arcsin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arcsin` in place, which also changes the views of this tensor."""
    def arcsinh(self) -> Tensor:
        """Compute the inverse hyperbolic sine."""
    def arcsinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arcsinh` in place, which also changes the views of this tensor."""
    def arctan(self) -> Tensor:
        """Compute the inverse tangent in radians."""
    def arctan2(self, other: Operand) -> Tensor:
        """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
    def arctan2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arctan2` in place, which also changes the views of this tensor."""
    def arctan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arctan` in place, which also changes the views of this tensor."""
    def arctanh(self) -> Tensor:
        """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
    def arctanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `arctanh` in place, which also changes the views of this tensor."""
    def argmax(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the index of the first largest element over dim, or in the flattened tensor; the first NaN wins.

        GGML's ARGMAX takes the last of equal elements, and starts again after a NaN."""
    def argmin(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the index of the first smallest element over dim, or in the flattened tensor; the first NaN wins."""
    def argsort(self, dim: Dims = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor:
        """Return the indices that sort along dim. The sort is always stable; NaN counts as the largest."""
    def argwhere(self) -> Tensor:
        """Return the positions of elements that are not zero, one row each. Reads the value."""
    def as_strided(self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
        """Return the elements at storage_offset + i * stride[0] + j * stride[1] + ... as a copy.

        The elements are counted in row-major order of `input`, as in PyTorch for a contiguous tensor.

        >>> nt.as_strided(nt.arange(6), (2, 2), (1, 2))"""
    def asin(self) -> Tensor:
        """Compute the inverse sine in radians; NaN beyond -1 and 1."""
    def asin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `asin` in place, which also changes the views of this tensor."""
    def asinh(self) -> Tensor:
        """Compute the inverse hyperbolic sine."""
    def asinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `asinh` in place, which also changes the views of this tensor."""
    def atan(self) -> Tensor:
        """Compute the inverse tangent in radians."""
    def atan2(self, other: Operand) -> Tensor:
        """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
    def atan2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `atan2` in place, which also changes the views of this tensor."""
    def atan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `atan` in place, which also changes the views of this tensor."""
    def atanh(self) -> Tensor:
        """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
    def atanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `atanh` in place, which also changes the views of this tensor."""
    def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool = False) -> None:
        """Add the gradients of this tensor to `grad` of the leaves it was computed from. They are recorded, not computed.

        Args:
            input: Tensor to differentiate.
            gradient: Gradient of this tensor, of its shape; None for 1, if it has a single element.
            retain_graph: True if there will be another backward pass through the same graph.

        Raises:
            GradientError: The tensor does not require a gradient."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.float = 1, alpha: builtins.float = 1) -> Tensor:
        """Return beta * input + alpha * (batch1 @ batch2), matrix by matrix.

        >>> nt.baddbmm(nt.ones(2, 1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
    def baddbmm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `baddbmm` in place, which also changes the views of this tensor."""
    def bernoulli(self, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Draw 1 with the probability in each element of input, or with p, else 0; NaN where it is outside [0, 1]."""
    def bernoulli_(self, p: Tensor | builtins.float = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by 1 with probability p, else 0. An invalid p gives NaN, or 0 of integers."""
    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """Convert to bfloat16."""
    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """Return the number of occurrences of 0, 1, ... in a vector, or the sums of their weights. Reads the value.

        >>> nt.bincount(nt.tensor([0, 1, 1, 3]))"""
    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bitwise input & other."""
    def bitwise_and_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_and` in place, which also changes the views of this tensor."""
    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """Shift bits to the left: input << other."""
    def bitwise_left_shift_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_left_shift` in place, which also changes the views of this tensor."""
    def bitwise_not(self) -> Tensor:
        """Return the bitwise complement, ~input."""
    def bitwise_not_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_not` in place, which also changes the views of this tensor."""
    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bitwise input | other."""
    def bitwise_or_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_or` in place, which also changes the views of this tensor."""
    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """Shift bits to the right: input >> other. The sign is kept."""
    def bitwise_right_shift_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_right_shift` in place, which also changes the views of this tensor."""
    def bitwise_xor(self, other: Operand) -> Tensor:
        """Return the bitwise input ^ other."""
    def bitwise_xor_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `bitwise_xor` in place, which also changes the views of this tensor."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """Return the products of two stacks (batch, n, k) and (batch, k, m).

        >>> nt.bmm(nt.ones(2, 1, 3), nt.ones(2, 3, 2))"""
    def bool(self, memory_format: Any = None) -> Tensor:
        """Convert to bool."""
    def broadcast_to(self, size: Sequence[builtins.int]) -> Tensor:
        """Expand to a shape by the rules of broadcasting."""
    def byte(self, memory_format: Any = None) -> Tensor:
        """Convert to uint8."""
    def cauchy_(self, median: builtins.float = 0.0, sigma: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by random numbers of a Cauchy distribution; sigma is half its width at half maximum."""
    def ceil(self) -> Tensor:
        """Round up to an integer."""
    def ceil_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `ceil` in place, which also changes the views of this tensor."""
    def celu(self, alpha: builtins.float = 1.0) -> Tensor:
        """Return max(input, 0) + min(alpha * (exp(input / alpha) - 1), 0)."""
    def celu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `celu` in place, which also changes the views of this tensor."""
    def char(self, memory_format: Any = None) -> Tensor:
        """Convert to int8."""
    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """Return the Cholesky factor, like `linalg.cholesky`.

        >>> nt.cholesky(nt.tensor([[4.0, 2.0], [2.0, 5.0]]))"""
    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """Return the inverse of the matrices whose Cholesky factors are input."""
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False) -> Tensor:
        """Solve A @ X = input for the matrices A whose Cholesky factors are input2.

        >>> nt.cholesky_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))"""
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split into at most `chunks` parts of equal size along dim; the last may be smaller."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Limit input to [min, max]. NaN stays NaN; max wins where min > max.

        Args:
            min: Lower limit, a number or a tensor; None for no limit.
            max: Upper limit, a number or a tensor; None for no limit.

        Raises:
            ArgumentError: Both limits are None, or an integer dtype cannot hold one.

        >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
    def clamp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `clamp` in place, which also changes the views of this tensor."""
    def clamp_max(self, max: Operand) -> Tensor:
        """Return the smaller of input and max."""
    def clamp_max_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `clamp_max` in place, which also changes the views of this tensor."""
    def clamp_min(self, min: Operand) -> Tensor:
        """Return the larger of input and min."""
    def clamp_min_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `clamp_min` in place, which also changes the views of this tensor."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Limit input to [min, max]. NaN stays NaN; max wins where min > max.

        Args:
            min: Lower limit, a number or a tensor; None for no limit.
            max: Upper limit, a number or a tensor; None for no limit.

        Raises:
            ArgumentError: Both limits are None, or an integer dtype cannot hold one.

        >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)"""
    def clip_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `clip` in place, which also changes the views of this tensor."""
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Return a new tensor with the same value, whatever the memory format. Values never change: nothing is copied."""
    def copy_(self, src: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Replace the value by that of src, broadcast and converted."""
    def copysign(self, other: Operand) -> Tensor:
        """Return the magnitude of input with the sign of other, also that of a zero."""
    def copysign_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `copysign` in place, which also changes the views of this tensor."""
    def corrcoef(self) -> Tensor:
        """Return the correlations of the rows of a matrix, whose columns are samples."""
    def cos(self) -> Tensor:
        """Compute the cosine of an angle in radians."""
    def cos_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `cos` in place, which also changes the views of this tensor."""
    def cosh(self) -> Tensor:
        """Compute the hyperbolic cosine."""
    def cosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `cosh` in place, which also changes the views of this tensor."""
    def count_equal(self, other: Operand) -> Tensor:
        """Count the equal elements, as int64."""
    def count_nonzero(self, dim: Dims = None) -> Tensor:
        """Return the number of elements over dim that are not zero, as int64."""
    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Return the covariances of the rows of a matrix, whose columns are samples; for one row, the variance.

        Args:
            input: Matrix (variables, samples), or a vector.
            correction: Subtracted from the number of samples.
            fweights: Integer number of occurrences of each sample.
            aweights: Weight of each sample."""
    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Return the cross products of vectors of three elements along dim.

        Args:
            input: Vectors of any shape with a dimension of extent 3.
            dim: Dimension of extent 3; None for the first such dimension.

        >>> nt.cross(nt.tensor([1.0, 0.0, 0.0]), nt.tensor([0.0, 1.0, 0.0]))"""
    def cummax(self, dim: builtins.int) -> ValuesIndices:
        """Return the largest element up to each one along dim, and the last index of it. NaN wins."""
    def cummin(self, dim: builtins.int) -> ValuesIndices:
        """Return the smallest element up to each one along dim, and the last index of it. NaN wins."""
    def cumprod(self, dim: Dims, *, dtype: Any = None) -> Tensor:
        """Compute the running product along dim; integers give int64."""
    def cumprod_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `cumprod` in place, which also changes the views of this tensor."""
    def cumsum(self, dim: Dims, *, dtype: Any = None) -> Tensor:
        """Compute the running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
    def cumsum_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `cumsum` in place, which also changes the views of this tensor."""
    def deg2rad(self) -> Tensor:
        """Convert degrees to radians."""
    def deg2rad_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `deg2rad` in place, which also changes the views of this tensor."""
    def dequantize(self) -> Tensor:
        """Convert a quantized tensor to float32.

        >>> nt.dequantize(nt.quantize(nt.ones(2, 32), "q8_0")).sum()"""
    def det(self) -> Tensor:
        """Return the determinant of square matrices."""
    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """Return the matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input`."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Return matrices with the rows of input on a diagonal, over the new dimensions dim1 and dim2."""
    def diag_mask_inf(self, n_past: builtins.int) -> Tensor:
        """Set elements with column > row + n_past in the last two dimensions to minus infinity."""
    def diag_mask_zero(self, n_past: builtins.int) -> Tensor:
        """Set elements with column > row + n_past in the last two dimensions to zero."""
    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """Return the matrix with all elements of input on a diagonal."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return the elements (i, i + offset) of dimensions dim1 and dim2 as the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return input with a diagonal replaced by src.

        >>> nt.diagonal_scatter(nt.zeros(2, 2), nt.tensor([1.0, 2.0]))"""
    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """Subtract from each element along dim the one before it. Of bool, return True where they differ.

        Args:
            n: Number of times this is repeated; 0 returns `input`.
            prepend: Elements to put before `input` along dim first.
            append: Elements to put after `input` along dim first.

        Raises:
            ArgumentError: `n` is negative.
            ShapeError: `input` has no dimensions."""
    def digamma(self) -> Tensor:
        """Compute the derivative of lgamma; infinite at 0, NaN at negative integers."""
    def digamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `digamma` in place, which also changes the views of this tensor."""
    def dist(self, other: Tensor, p: builtins.float = 2.0) -> Tensor:
        """Return the p-norm of the difference of all elements."""
    def div(self, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """Return input / other.

        Args:
            input: Dividend.
            other: Divisor; the shapes broadcast.
            rounding_mode: None (true division), "floor" or "trunc"; the last two keep integers.

        Raises:
            ArgumentError: `rounding_mode` has another value."""
    def div_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `div` in place, which also changes the views of this tensor."""
    def divide(self, other: Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """Return input / other.

        Args:
            input: Dividend.
            other: Divisor; the shapes broadcast.
            rounding_mode: None (true division), "floor" or "trunc"; the last two keep integers.

        Raises:
            ArgumentError: `rounding_mode` has another value."""
    def divide_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `divide` in place, which also changes the views of this tensor."""
    def dot(self, tensor: Tensor) -> Tensor:
        """Return the sum of the products of two vectors.

        >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
    def double(self, memory_format: Any = None) -> Tensor:
        """Convert to float64."""
    def dsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
        """Split along dimension 2 into equal parts, or between indices, like `tensor_split`.

        >>> nt.dsplit(nt.ones(2, 2, 2), 2)"""
    def elu(self, alpha: builtins.float = 1.0) -> Tensor:
        """Return input where positive, else alpha * (exp(input) - 1)."""
    def elu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `elu` in place, which also changes the views of this tensor."""
    def eq(self, other: Operand) -> Tensor:
        """Compare: input == other."""
    def eq_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `eq` in place, which also changes the views of this tensor."""
    def equal(self, other: Tensor) -> builtins.bool:
        """Return True if shape and all elements are equal. Reads the value."""
    def erf(self) -> Tensor:
        """Compute the error function."""
    def erf_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `erf` in place, which also changes the views of this tensor."""
    def erfc(self) -> Tensor:
        """Compute 1 - erf(input), with full relative precision where it is small."""
    def erfc_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `erfc` in place, which also changes the views of this tensor."""
    def erfinv(self) -> Tensor:
        """Return x with erf(x) = input; infinite at -1 and 1, NaN beyond.

        Computed by Giles' approximation and a step of Halley's method."""
    def erfinv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `erfinv` in place, which also changes the views of this tensor."""
    def exp(self) -> Tensor:
        """Raise e to the power of input."""
    def exp2(self) -> Tensor:
        """Raise 2 to the power of input."""
    def exp2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `exp2` in place, which also changes the views of this tensor."""
    def exp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `exp` in place, which also changes the views of this tensor."""
    def expand(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Repeat dimensions of extent 1 to the given extents without copying; -1 keeps an extent.

        >>> nt.expand(nt.tensor([[1], [2]]), 2, 3)"""
    def expand_as(self, other: Tensor) -> Tensor:
        """Expand to the shape of other."""
    def expm1(self) -> Tensor:
        """Compute exp(input) - 1, accurate near zero."""
    def expm1_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `expm1` in place, which also changes the views of this tensor."""
    def exponential_(self, lambd: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by exponential random numbers of rate lambd."""
    def fill_(self, value: builtins.float | Tensor) -> Tensor:
        """Set all elements to one number."""
    def fill_diagonal_(self, fill_value: builtins.float, wrap: builtins.bool = False) -> Tensor:
        """Set the elements with equal indices in all dimensions to fill_value; wrap continues in a tall matrix."""
    def fix(self) -> Tensor:
        """Round toward zero to an integer."""
    def fix_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `fix` in place, which also changes the views of this tensor."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Merge the dimensions start_dim to end_dim."""
    def flip(self, *dims: Any) -> Tensor:
        """Reverse the elements along dims."""
    def fliplr(self) -> Tensor:
        """Reverse the columns."""
    def flipud(self) -> Tensor:
        """Reverse the rows."""
    def float(self, memory_format: Any = None) -> Tensor:
        """Convert to float32."""
    def float_power(self, exponent: Operand) -> Tensor:
        """Raise input to the power of exponent, in float64."""
    def floor(self) -> Tensor:
        """Round down to an integer."""
    def floor_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `floor` in place, which also changes the views of this tensor."""
    def floor_divide(self, other: Operand) -> Tensor:
        """Divide and round down, also infinite numbers. Two integers give an integer.

        Raises:
            ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
            DTypeError: Both operands are bool."""
    def floor_divide_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `floor_divide` in place, which also changes the views of this tensor."""
    def fmax(self, other: Operand) -> Tensor:
        """Return the larger of two elements, or the other one if one is NaN."""
    def fmax_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `fmax` in place, which also changes the views of this tensor."""
    def fmin(self, other: Operand) -> Tensor:
        """Return the smaller of two elements, or the other one if one is NaN."""
    def fmin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `fmin` in place, which also changes the views of this tensor."""
    def fmod(self, other: Operand) -> Tensor:
        """Return the remainder of division rounded toward zero, with the sign of input.

        Raises:
            ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
            DTypeError: Both operands are bool."""
    def fmod_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `fmod` in place, which also changes the views of this tensor."""
    def frac(self) -> Tensor:
        """Return the fraction, input - trunc(input)."""
    def frac_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `frac` in place, which also changes the views of this tensor."""
    def frexp(self) -> MantissaExponent:
        """Split floats into a mantissa and an int32 power of two.

        Returns:
            `mantissa`, 0 or with a magnitude in [0.5, 1), and `exponent`, both of the shape of `input`."""
    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """Return out[i][j] = input[index[i][j]][j] for dim = 0, and accordingly for other dims.

        Args:
            sparse_grad: Has no effect; gradients are dense.

        >>> nt.gather(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([[1, 0], [0, 0]]))"""
    def gcd(self, other: Operand) -> Tensor:
        """Compute the greatest common divisor."""
    def gcd_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `gcd` in place, which also changes the views of this tensor."""
    def ge(self, other: Operand) -> Tensor:
        """Compare: input >= other."""
    def ge_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `ge` in place, which also changes the views of this tensor."""
    def geglu(self, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
        """Return gelu(x, tanh form) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
    def geglu_erf(self, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
        """Return gelu(x, exact form) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
    def geglu_quick(self, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
        """Return gelu_quick(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
    def gelu(self, approximate: builtins.str = 'none') -> Tensor:
        """Apply the Gaussian error linear unit: exactly, or as GGML's gelu with approximate="tanh"."""
    def gelu_erf(self) -> Tensor:
        """Compute the exact Gaussian error linear unit: 0.5 x (1 + erf(x / sqrt(2)))."""
    def gelu_erf_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `gelu_erf` in place, which also changes the views of this tensor."""
    def gelu_quick(self) -> Tensor:
        """Return input * sigmoid(1.702 * input)."""
    def gelu_quick_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `gelu_quick` in place, which also changes the views of this tensor."""
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by random numbers of trials up to the first success, each with probability p."""
    def ger(self, vec2: Tensor) -> Tensor:
        """Return all products of elements of two vectors.

        >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
    def get_rows(self, rows: Tensor) -> Tensor:
        """Return rows of a tensor. Floats of up to 32 bits and quantized numbers give float32.

        Args:
            input: Tensor (..., entries, features).
            rows: Integer indices (..., n).

        Returns:
            Tensor (..., n, features).

        >>> nt.get_rows(nt.arange(6.0).reshape(3, 2), nt.tensor([2, 0]))"""
    def glu(self, dim: builtins.int = -1) -> Tensor:
        """Multiply the first half of dim by the sigmoid of the second, PyTorch's gated linear unit."""
    def greater(self, other: Operand) -> Tensor:
        """Compare: input > other."""
    def greater_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `greater` in place, which also changes the views of this tensor."""
    def greater_equal(self, other: Operand) -> Tensor:
        """Compare: input >= other."""
    def greater_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `greater_equal` in place, which also changes the views of this tensor."""
    def gt(self, other: Operand) -> Tensor:
        """Compare: input > other."""
    def gt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `gt` in place, which also changes the views of this tensor."""
    def half(self, memory_format: Any = None) -> Tensor:
        """Convert to float16."""
    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """Return input where it is outside [-lambd, lambd], else zero."""
    def hardshrink_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `hardshrink` in place, which also changes the views of this tensor."""
    def hardsigmoid(self) -> Tensor:
        """Return min(max(input + 3, 0), 6) / 6."""
    def hardsigmoid_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `hardsigmoid` in place, which also changes the views of this tensor."""
    def hardswish(self) -> Tensor:
        """Return input * min(max(input + 3, 0), 6) / 6."""
    def hardswish_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `hardswish` in place, which also changes the views of this tensor."""
    def hardtanh(self, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
        """Limit input to [min_val, max_val]."""
    def hardtanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `hardtanh` in place, which also changes the views of this tensor."""
    def heaviside(self, values: Operand) -> Tensor:
        """Return 0 where input < 0, 1 where input > 0, and values where it is 0.

        >>> nt.heaviside(nt.tensor([-1.0, 0.0, 1.0]), 0.5)"""
    def heaviside_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `heaviside` in place, which also changes the views of this tensor."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """Count the elements in equal intervals from min to max, or between the extremes if these are equal."""
    def histogram(self, bins: builtins.int | Tensor, *, range: builtins.tuple[builtins.float, builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False) -> Histogram:
        """Sum the weights of the elements between edges, the last one included.

        Args:
            input: Floats of any shape.
            bins: Ascending edges, or the number of equal intervals.
            range: First and last edge, if `bins` is a number.
            weight: Weight of each element; None for 1.
            density: True to divide by the total and by the widths.

        >>> nt.histogram(nt.tensor([1.0, 2.0, 2.5, 4.0]), 3)"""
    def hsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
        """Split along dimension 1 into equal parts, or between indices, like `tensor_split`.

        >>> nt.hsplit(nt.ones(2, 2, 2), 2)"""
    def hypot(self, other: Operand) -> Tensor:
        """Compute sqrt(input^2 + other^2) without overflow."""
    def hypot_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `hypot` in place, which also changes the views of this tensor."""
    def i0(self) -> Tensor:
        """Compute the modified Bessel function of the first kind and order 0."""
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
        """Return input with alpha times the slices of source added to those at the positions `index` along dim.

        >>> nt.index_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
    def index_add_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `index_add` in place, which also changes the views of this tensor."""
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """Return input with the slices at the positions `index` along dim replaced by those of source.

        >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))"""
    def index_copy_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `index_copy` in place, which also changes the views of this tensor."""
    def index_fill(self, dim: builtins.int, index: Tensor, value: builtins.float) -> Tensor:
        """Return input with the slices at the positions `index` along dim set to value.

        >>> nt.index_fill(nt.zeros(3), 0, nt.tensor([2, 0]), 7.0)"""
    def index_fill_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `index_fill` in place, which also changes the views of this tensor."""
    def index_put(self, indices: Sequence[Tensor], values: Operand, accumulate: builtins.bool = False) -> Tensor:
        """Return input with input[indices] replaced by values.

        Args:
            indices: Index tensors of the first dimensions.
            values: New elements, broadcast.
            accumulate: True to add the values, once for each time a position occurs.

        >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))"""
    def index_put_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `index_put` in place, which also changes the views of this tensor."""
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """Reduce the slices of input at the positions `index` along dim with those of source, like `scatter_reduce`.

        >>> nt.index_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "prod")"""
    def index_reduce_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `index_reduce` in place, which also changes the views of this tensor."""
    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """Return the slices of input at the positions in the vector `index` along dim.

        >>> nt.index_select(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([1]))"""
    def inner(self, other: Tensor) -> Tensor:
        """Return the sums of products along the last dimensions of both; if one is a number, the product."""
    def int(self, memory_format: Any = None) -> Tensor:
        """Convert to int32."""
    def inverse(self) -> Tensor:
        """Return the inverse of square matrices."""
    def is_contiguous(self) -> builtins.bool:
        """Return True if the elements are in row-major order. Only views may have another order."""
    def is_nonzero(self) -> builtins.bool:
        """Return True if the only element is not zero. Reads the value.

        Raises:
            ShapeError: `input` has several elements.

        >>> nt.is_nonzero(nt.tensor([2]))"""
    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Return True if both have the same shape."""
    def is_signed(self) -> builtins.bool:
        """Return True if the dtype has negative numbers."""
    def isclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        """Return True where |input - other| <= atol + rtol * |other|. Integers and bool are compared in float32.

        Args:
            rtol: Relative tolerance.
            atol: Absolute tolerance.
            equal_nan: True to treat two NaN as close."""
    def isfinite(self) -> Tensor:
        """Return True where input is neither infinite nor NaN."""
    def isfinite_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `isfinite` in place, which also changes the views of this tensor."""
    def isinf(self) -> Tensor:
        """Return True where input is plus or minus infinity."""
    def isinf_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `isinf` in place, which also changes the views of this tensor."""
    def isnan(self) -> Tensor:
        """Return True where input is NaN."""
    def isnan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `isnan` in place, which also changes the views of this tensor."""
    def isneginf(self) -> Tensor:
        """Return True where input is minus infinity."""
    def isneginf_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `isneginf` in place, which also changes the views of this tensor."""
    def isposinf(self) -> Tensor:
        """Return True where input is plus infinity."""
    def isposinf_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `isposinf` in place, which also changes the views of this tensor."""
    def kron(self, other: Tensor) -> Tensor:
        """Return the Kronecker product: other times each element of input, arranged like input."""
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """Return the k-th smallest element of each row along dim, counted from 1, and its index."""
    def l2_norm(self, dim: Dims = -1, eps: builtins.float = 1e-12) -> Tensor:
        """Return input / max(sqrt(sum(input^2)), eps) over dim."""
    def lcm(self, other: Operand) -> Tensor:
        """Compute the least common multiple."""
    def lcm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `lcm` in place, which also changes the views of this tensor."""
    def ldexp(self, other: Operand) -> Tensor:
        """Return input * 2^other."""
    def ldexp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `ldexp` in place, which also changes the views of this tensor."""
    def le(self, other: Operand) -> Tensor:
        """Compare: input <= other."""
    def le_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `le` in place, which also changes the views of this tensor."""
    def leaky_relu(self, negative_slope: builtins.float = 0.01) -> Tensor:
        """Return input where positive, else negative_slope * input."""
    def leaky_relu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `leaky_relu` in place, which also changes the views of this tensor."""
    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """Interpolate: input + weight * (end - input), computed from the nearer end so that a weight of 1 gives end.

        >>> nt.lerp(nt.tensor([0.0, 10.0]), nt.tensor([1.0, 20.0]), 0.25)"""
    def lerp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `lerp` in place, which also changes the views of this tensor."""
    def less(self, other: Operand) -> Tensor:
        """Compare: input < other."""
    def less_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `less` in place, which also changes the views of this tensor."""
    def less_equal(self, other: Operand) -> Tensor:
        """Compare: input <= other."""
    def less_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `less_equal` in place, which also changes the views of this tensor."""
    def lgamma(self) -> Tensor:
        """Compute the natural logarithm of |gamma(input)|; infinite at 0 and at negative integers."""
    def lgamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `lgamma` in place, which also changes the views of this tensor."""
    def log(self) -> Tensor:
        """Compute the natural logarithm; negative numbers give NaN."""
    def log10(self) -> Tensor:
        """Compute the logarithm to base 10, exact for powers of ten."""
    def log10_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `log10` in place, which also changes the views of this tensor."""
    def log1p(self) -> Tensor:
        """Compute log(1 + input), accurate near zero."""
    def log1p_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `log1p` in place, which also changes the views of this tensor."""
    def log2(self) -> Tensor:
        """Compute the logarithm to base 2, exact for powers of two."""
    def log2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `log2` in place, which also changes the views of this tensor."""
    def log_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `log` in place, which also changes the views of this tensor."""
    def log_normal_(self, mean: builtins.float = 1.0, std: builtins.float = 2.0, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by random numbers whose logarithms are normal with this mean and standard deviation."""
    def log_softmax(self, dim: Dims, dtype: Any = None) -> Tensor:
        """Compute log(softmax(input)) over dim without overflow."""
    def logaddexp(self, other: Operand) -> Tensor:
        """Compute log(exp(input) + exp(other)) without overflow."""
    def logaddexp2(self, other: Operand) -> Tensor:
        """Compute log2(2^input + 2^other) without overflow."""
    def logaddexp2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logaddexp2` in place, which also changes the views of this tensor."""
    def logaddexp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logaddexp` in place, which also changes the views of this tensor."""
    def logcumsumexp(self, dim: Dims) -> Tensor:
        """Compute the logarithm of the running sum of exp(input) along dim without overflow."""
    def logdet(self) -> Tensor:
        """Return the logarithm of the determinant of square matrices; NaN if it is negative."""
    def logical_and(self, other: Operand) -> Tensor:
        """Return True where both elements are true (not zero)."""
    def logical_and_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logical_and` in place, which also changes the views of this tensor."""
    def logical_not(self) -> Tensor:
        """Return True where input is false (zero)."""
    def logical_not_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logical_not` in place, which also changes the views of this tensor."""
    def logical_or(self, other: Operand) -> Tensor:
        """Return True where either element is true."""
    def logical_or_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logical_or` in place, which also changes the views of this tensor."""
    def logical_xor(self, other: Operand) -> Tensor:
        """Return True where exactly one element is true."""
    def logical_xor_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logical_xor` in place, which also changes the views of this tensor."""
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """Compute log(input / (1 - input)), with input limited to [eps, 1 - eps] if eps is given."""
    def logit_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logit` in place, which also changes the views of this tensor."""
    def logsigmoid(self) -> Tensor:
        """Compute log(sigmoid(input)) without overflow."""
    def logsigmoid_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `logsigmoid` in place, which also changes the views of this tensor."""
    def logsumexp(self, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
        """Compute log(sum(exp(input))) over dim without overflow."""
    def long(self, memory_format: Any = None) -> Tensor:
        """Convert to int64."""
    def lt(self, other: Operand) -> Tensor:
        """Compare: input < other."""
    def lt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `lt` in place, which also changes the views of this tensor."""
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> builtins.tuple[Tensor, ...]:
        """Return the LU factorization like `linalg.lu_factor`; get_infos adds the failures of `linalg.lu_factor_ex`."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """Solve A @ X = input for the matrices A that `linalg.lu_factor` has factored.

        >>> nt.lu_solve(nt.tensor([[2.0], [4.0]]), *nt.linalg.lu_factor(2 * nt.eye(2)))"""
    def masked_fill(self, mask: Tensor, value: builtins.float | Tensor) -> Tensor:
        """Return input with `value` where mask is true; keeps the input's dtype."""
    def masked_fill_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `masked_fill` in place, which also changes the views of this tensor."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Return input with the elements of source, in order, where mask is true. Reads the mask.

        >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))"""
    def masked_scatter_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `masked_scatter` in place, which also changes the views of this tensor."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements where mask is true, as a vector. Reads the mask."""
    def matmul(self, other: Operand) -> Tensor:
        """Return the matrix product; leading dimensions broadcast.

        Float sums are accumulated in float32 (float64 for float64) and rounded once.

        Args:
            input: Tensor (..., n, k); a vector (k) counts as one row.
            other: Tensor (..., k, m) of the dtype of `input`; a vector (k) counts as one column.

        Returns:
            Tensor (..., n, m), without the dimensions that a vector lacks.

        Raises:
            ShapeError: Inner dimensions differ, or an operand has no dimensions."""
    def matrix_exp(self) -> Tensor:
        """Return the exponential of square matrices: the Taylor series of A / 2^n, squared n times."""
    def matrix_power(self, n: builtins.int) -> Tensor:
        """Raise square matrices to an integer power; negative ones use the inverse."""
    def max(self, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
        """Return the largest element; with dim, (values, indices) along it; with a tensor, elementwise maxima.

        Args:
            input: First operand.
            dim: Dimension to reduce, or the second operand.
            other: Second operand."""
    def maximum(self, other: Operand) -> Tensor:
        """Return the larger of two elements, or NaN if either is NaN."""
    def maximum_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `maximum` in place, which also changes the views of this tensor."""
    def mean(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Compute the arithmetic mean over dim (None = all)."""
    def median(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the lower median of all elements, or (values, indices) along dim. NaN wins.

        The median of an empty tensor is NaN.

        Raises:
            DimensionError: There are no elements along `dim`, or an integer tensor is empty."""
    def min(self, dim: builtins.int | Operand | None = None, keepdim: builtins.bool = False, *, other: Operand | None = None) -> Any:
        """Return the smallest element; with dim, (values, indices) along it; with a tensor, elementwise minima.

        Args:
            input: First operand.
            dim: Dimension to reduce, or the second operand.
            other: Second operand."""
    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller of two elements, or NaN if either is NaN."""
    def minimum_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `minimum` in place, which also changes the views of this tensor."""
    def mish(self) -> Tensor:
        """Return input * tanh(softplus(input))."""
    def mish_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `mish` in place, which also changes the views of this tensor."""
    def mm(self, mat2: Tensor) -> Tensor:
        """Return the product of two matrices."""
    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ValuesIndices:
        """Return the most frequent element of each row along dim, the smallest of several, and its last index."""
    def moveaxis(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Move the dimensions `source` to the positions `destination`; the others keep their order."""
    def movedim(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Move the dimensions `source` to the positions `destination`; the others keep their order."""
    def msort(self) -> Tensor:
        """Sort along the first dimension."""
    def mul(self, other: Operand) -> Tensor:
        """Return input * other."""
    def mul_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `mul` in place, which also changes the views of this tensor."""
    def mul_mat(self, b: Tensor, *, exact: builtins.bool = False) -> Tensor:
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
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None) -> Tensor:
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
    def multiply(self, other: Operand) -> Tensor:
        """Return input * other."""
    def multiply_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `multiply` in place, which also changes the views of this tensor."""
    def mv(self, vec: Tensor) -> Tensor:
        """Return the product of a matrix and a vector.

        >>> nt.mv(nt.ones(2, 3), nt.ones(3))"""
    def mvlgamma(self, p: builtins.int) -> Tensor:
        """Return the logarithm of the multivariate gamma function of p dimensions.

        >>> nt.mvlgamma(nt.tensor([3.0, 4.0]), 2)"""
    def mvlgamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `mvlgamma` in place, which also changes the views of this tensor."""
    def nan_to_num(self, nan: builtins.float = 0.0, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        """Replace NaN and infinities.

        Args:
            nan: Replacement of NaN.
            posinf: Replacement of infinity; None for the largest number of the dtype.
            neginf: Replacement of minus infinity; None for the lowest number of the dtype."""
    def nan_to_num_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `nan_to_num` in place, which also changes the views of this tensor."""
    def nanmean(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Return the mean over dim (None for all) of the elements that are not NaN; NaN if there are none."""
    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the lower median of all elements that are not NaN, or (values, indices) along dim."""
    def nanquantile(self, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
        """Return the q-th quantile along dim of the elements that are not NaN, like `quantile`; NaN if there are none.

        Args:
            input: float32 or float64 of any shape.
            q: Number in [0, 1], or a vector of them, which adds a first dimension.
            dim: Dimension to reduce; None for all elements.
            interpolation: Value between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint"."""
    def nansum(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Return the sum over dim (None for all) of the elements that are not NaN."""
    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return `length` elements along dim from `start`.

        >>> nt.narrow(nt.arange(5), 0, 1, 3)"""
    def ndimension(self) -> builtins.int:
        """Return the number of dimensions."""
    def ne(self, other: Operand) -> Tensor:
        """Compare: input != other."""
    def ne_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `ne` in place, which also changes the views of this tensor."""
    def neg(self) -> Tensor:
        """Return -input."""
    def neg_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `neg` in place, which also changes the views of this tensor."""
    def negative(self) -> Tensor:
        """Return -input."""
    def negative_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `negative` in place, which also changes the views of this tensor."""
    def nelement(self) -> builtins.int:
        """Return the number of elements."""
    def new_empty(self, *size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """Create a tensor of the given shape in the dtype of input. The elements are zero."""
    def new_full(self, size: Extents, fill_value: builtins.float, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
        """Create a tensor with `fill_value` everywhere, in the dtype of input."""
    def new_ones(self, *size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """Create ones of the given shape in the dtype of input."""
    def new_tensor(self, data: Any, dtype: DTypeLike = None, device: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
        """Create a tensor from data, like `tensor`, in the dtype of input."""
    def new_zeros(self, *size: Extents, dtype: DTypeLike = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """Create zeros of the given shape in the dtype of input."""
    def nextafter(self, other: Operand) -> Tensor:
        """Return the next number after input toward other."""
    def nextafter_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `nextafter` in place, which also changes the views of this tensor."""
    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Return the positions of elements that are not zero. Reads the value.

        Args:
            as_tuple: True for one vector per dimension, False for a matrix with one row per element."""
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
        """Return the result of `nonzero`, cut or filled with fill_value to `size` rows. Reads the value.

        >>> nt.nonzero_static(nt.tensor([0, 3, 4]), size=2)"""
    def norm(self, p: builtins.float | builtins.str = 2.0, dim: Dims = None, keepdim: builtins.bool = False, dtype: Any = None) -> Tensor:
        """Return the vector p-norm over dim: sum(|input| ** p) ** (1 / p).

        Args:
            input: Floats of any shape.
            p: Order, which may be infinite or 0; "fro" is 2; "nuc" is the sum of the singular values of matrices.
            dim: Dimensions to reduce; None for all.
            dtype: Dtype to convert input to first."""
    def norm_rows(self, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
        """Return (input - mean) / sqrt(variance + eps) over dim: layer norm without weights."""
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by normal random numbers."""
    def not_equal(self, other: Operand) -> Tensor:
        """Compare: input != other."""
    def not_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `not_equal` in place, which also changes the views of this tensor."""
    def out_prod(self, b: Tensor) -> Tensor:
        """Return b.T @ a, GGML's sum of outer products, of a (..., k, m) and b (..., k, n): (..., n, m)."""
    def outer(self, vec2: Tensor) -> Tensor:
        """Return all products of elements of two vectors.

        >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
    def permute(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Reorder the dimensions."""
    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """Return the pseudoinverse of matrices. Singular values up to rcond times the largest count as 0."""
    def polygamma(self, n: builtins.int) -> Tensor:
        """Compute the n-th derivative of `digamma`."""
    def positive(self) -> Tensor:
        """Return input itself.

        Raises:
            DTypeError: `input` is bool."""
    def pow(self, exponent: Operand | np.generic) -> Tensor:
        """Raise input to the power of exponent. Two integers give an integer.

        Raises:
            ArgumentError: Integers with a negative exponent given as a number.
            DTypeError: Both operands are bool."""
    def pow_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `pow` in place, which also changes the views of this tensor."""
    def prelu(self, weight: Tensor) -> Tensor:
        """Return input where it is positive, else input * weight, of one element or one per channel (dimension 1).

        >>> nt.prelu(nt.tensor([-2.0, 3.0]), nt.tensor(0.1))"""
    def prod(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Multiply the elements over dim (None = all); integers give int64."""
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Return input with the elements at row-major positions replaced by those of source, or increased by them.

        >>> nt.put(nt.zeros(2, 2), nt.tensor([3]), nt.tensor([7.0]))"""
    def put_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `put` in place, which also changes the views of this tensor."""
    def qr(self, some: builtins.bool = True) -> QR:
        """Return the QR decomposition, like `linalg.qr`; some=False makes Q square."""
    def quantile(self, q: builtins.float | Sequence[builtins.float] | Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
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
    def quantize(self, dtype: Any) -> Tensor:
        """Convert input to q8_0, q4_0, q4_1, q5_0 or q5_1.

        Each 32 elements of a row share a scale. Rounding is that of ggml.

        >>> nt.quantize(nt.ones(2, 32), "q8_0").dtype"""
    def rad2deg(self) -> Tensor:
        """Convert radians to degrees."""
    def rad2deg_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `rad2deg` in place, which also changes the views of this tensor."""
    def random_(self, from_: builtins.int = 0, to: builtins.int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by uniform random integers on [from_, to), or [0, from_), or all that the dtype holds."""
    def ravel(self) -> Tensor:
        """Return all elements in one dimension."""
    def reciprocal(self) -> Tensor:
        """Return 1 / input."""
    def reciprocal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `reciprocal` in place, which also changes the views of this tensor."""
    def reglu(self, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
        """Return relu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
    def relu(self) -> Tensor:
        """Return max(input, 0). NaN stays NaN, as in PyTorch (GGML gives 0)."""
    def relu6(self) -> Tensor:
        """Return min(max(input, 0), 6)."""
    def relu6_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `relu6` in place, which also changes the views of this tensor."""
    def relu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `relu` in place, which also changes the views of this tensor."""
    def remainder(self, other: Operand) -> Tensor:
        """Return the remainder of floor division, with the sign of the divisor; a zero has the sign of input.

        Raises:
            ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
            DTypeError: Both operands are bool."""
    def remainder_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `remainder` in place, which also changes the views of this tensor."""
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """Scale slices along dim whose p-norm is above maxnorm down to it.

        >>> nt.renorm(nt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)"""
    def renorm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `renorm` in place, which also changes the views of this tensor."""
    def repeat(self, *repeats: Any) -> Tensor:
        """Repeat the whole tensor along each dimension; more numbers than dimensions add leading ones."""
    def repeat_as(self, other: Tensor) -> Tensor:
        """Repeat input as a whole to the shape of other, which it must divide."""
    def repeat_interleave(self, repeats: builtins.int | Tensor | None = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
        """Repeat every element `repeats` times, along `dim` or flattened.

        Args:
            repeats: Number of times, or an integer tensor with one number for each element along dim. None repeats the
                positions 0, 1, ... as often as `input` states.
            output_size: Sum of the numbers in a tensor, which is read if it is not given.

        >>> nt.repeat_interleave(nt.tensor([1.0, 2.0]), 2)"""
    def reshape(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Give the elements, in row-major order, another shape; the result shares memory if the strides allow that."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the elements with the shape of other."""
    def rms_norm_rows(self, dim: Dims, eps: builtins.float = 1e-05) -> Tensor:
        """Return input / sqrt(mean(input^2) + eps) over dim: RMS norm without weights."""
    def roll(self, shifts: builtins.int | Sequence[builtins.int], dims: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Shift elements along dims; those pushed out enter at the other end. dims=None rolls the flattened tensor."""
    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
        """Rotate k times by a quarter turn from the first towards the second of two dimensions."""
    def round(self, decimals: builtins.int = 0) -> Tensor:
        """Round to the nearest multiple of 10 ** -decimals, halves to even."""
    def round_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `round` in place, which also changes the views of this tensor."""
    def round_half_away(self) -> Tensor:
        """Round to the nearest integer, halves away from zero, as GGML's ROUND."""
    def round_half_away_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `round_half_away` in place, which also changes the views of this tensor."""
    def rrelu(self, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False) -> Tensor:
        """Return input where positive, else input times a slope.

        Args:
            lower: Smallest slope.
            upper: Largest slope.
            training: True to draw a slope for each element; False to use the mean of both."""
    def rrelu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `rrelu` in place, which also changes the views of this tensor."""
    def rsqrt(self) -> Tensor:
        """Return 1 / sqrt(input)."""
    def rsqrt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `rsqrt` in place, which also changes the views of this tensor."""
    def rsub(self, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
        """Return other - alpha * input."""
    def scale(self, s: builtins.float, b: builtins.float = 0.0) -> Tensor:
        """Return input * s + b.

        >>> nt.scale(nt.tensor([1.0, 2.0]), 3.0, 1.0)"""
    def scale_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `scale` in place, which also changes the views of this tensor."""
    def scatter(self, dim: builtins.int, index: Tensor, src: Tensor | builtins.float | None = None, *, value: builtins.float | None = None, reduce: builtins.str | None = None) -> Tensor:
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
    def scatter_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `scatter` in place, which also changes the views of this tensor."""
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """Return input with src[i][j] added to [index[i][j]][j] for dim = 0, and accordingly for other dims.

        >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))"""
    def scatter_add_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `scatter_add` in place, which also changes the views of this tensor."""
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """Reduce input with src[i][j] at [index[i][j]][j] for dim = 0, and accordingly for other dims.

        Args:
            dim: Dimension along which `index` counts.
            index: Integer positions.
            src: Elements, at least as many as in `index`.
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: False to leave out the elements of `input` at these positions.

        >>> nt.scatter_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "sum")"""
    def scatter_reduce_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `scatter_reduce` in place, which also changes the views of this tensor."""
    def select(self, dim: Dims, index: builtins.int) -> Tensor:
        """Return the slice at `index` along dim, without that dimension.

        >>> nt.select(nt.tensor([[1, 2], [3, 4]]), 0, 1)"""
    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return input with the slice at a position along dim replaced by src.

        >>> nt.select_scatter(nt.zeros(2, 2), nt.ones(2), 0, 1)"""
    def selu(self) -> Tensor:
        """Compute the scaled elu with the constants of Klambauer et al., 2017."""
    def selu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `selu` in place, which also changes the views of this tensor."""
    def set_rows(self, source: Tensor, rows: Tensor) -> Tensor:
        """Return input with some rows replaced.

        Args:
            input: Tensor (..., entries, features).
            source: New rows (..., n, features).
            rows: Indices (..., n) of the rows in `input`; they repeat over leading dimensions.

        >>> nt.set_rows(nt.zeros(3, 2), nt.ones(1, 2), nt.tensor([1]))"""
    def sgn(self) -> Tensor:
        """Return the sign as -1, 0 or 1. This is GGML's name of `sign`."""
    def sgn_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sgn` in place, which also changes the views of this tensor."""
    def short(self, memory_format: Any = None) -> Tensor:
        """Convert to int16."""
    def sigmoid(self) -> Tensor:
        """Return 1 / (1 + exp(-input))."""
    def sigmoid_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sigmoid` in place, which also changes the views of this tensor."""
    def sign(self) -> Tensor:
        """Return the sign as -1, 0 or 1. NaN gives 0, as in PyTorch and GGML."""
    def sign_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sign` in place, which also changes the views of this tensor."""
    def signbit(self) -> Tensor:
        """Return True where the sign is minus, also for -0.0."""
    def signbit_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `signbit` in place, which also changes the views of this tensor."""
    def silu(self) -> Tensor:
        """Return input * sigmoid(input)."""
    def silu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `silu` in place, which also changes the views of this tensor."""
    def silu_back(self, input: Tensor) -> Tensor:
        """Return grad times the derivative of silu at input."""
    def sin(self) -> Tensor:
        """Compute the sine of an angle in radians."""
    def sin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sin` in place, which also changes the views of this tensor."""
    def sinc(self) -> Tensor:
        """Compute sin(pi * input) / (pi * input); 1 at 0."""
    def sinc_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sinc` in place, which also changes the views of this tensor."""
    def sinh(self) -> Tensor:
        """Compute the hyperbolic sine."""
    def sinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sinh` in place, which also changes the views of this tensor."""
    def slice_scatter(self, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor:
        """Return input with input[start:end:step] along dim replaced by src.

        >>> nt.slice_scatter(nt.zeros(4), nt.ones(2), 0, 1, 3)"""
    def slogdet(self) -> SignLogDet:
        """Return sign and logarithm of the magnitude of the determinant of square matrices."""
    def soft_max_ext(self, mask: Tensor | None = None, scale: builtins.float = 1.0, max_bias: builtins.float = 0.0, sinks: Tensor | None = None) -> Tensor:
        """Return softmax(input * scale + slope * mask) over the last dimension.

        Args:
            input: Floats (..., heads, rows, columns).
            mask: Added to the scores. It repeats over the leading dimensions and may have more rows than input.
            scale: Factor of the scores.
            max_bias: Above 0, slope is one ALiBi slope per head; otherwise it is 1.
            sinks: Further logits (heads), which take probability and have no column in the result.

        Raises:
            ShapeError: `mask` does not cover the rows and columns, or `sinks` does not fit the heads."""
    def softmax(self, dim: Dims, dtype: Any = None) -> Tensor:
        """Compute exp(input) / sum(exp(input)) over dim without overflow."""
    def softplus(self, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
        """Return log(1 + exp(beta * input)) / beta, or input where beta * input > threshold."""
    def softplus_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `softplus` in place, which also changes the views of this tensor."""
    def softshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """Move input toward zero by lambd; elements within [-lambd, lambd] become zero."""
    def softshrink_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `softshrink` in place, which also changes the views of this tensor."""
    def softsign(self) -> Tensor:
        """Return input / (1 + |input|)."""
    def softsign_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `softsign` in place, which also changes the views of this tensor."""
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> ValuesIndices:
        """Sort along dim. Always stable; NaN counts as the largest.

        Returns:
            `values` in order, and `indices` of their positions before."""
    def split(self, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split into parts of a given size along dim (the last may be smaller), or of given sizes."""
    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split into parts of the given sizes along dim.

        >>> nt.split_with_sizes(nt.arange(4), (1, 3))"""
    def sqrt(self) -> Tensor:
        """Compute the square root; negative numbers give NaN."""
    def sqrt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sqrt` in place, which also changes the views of this tensor."""
    def square(self) -> Tensor:
        """Return input * input."""
    def square_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `square` in place, which also changes the views of this tensor."""
    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Remove all dimensions of extent 1, or those of them in `dim`."""
    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `squeeze` in place: this tensor becomes that view of its memory."""
    def std(self, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
        """Return the standard deviation over dim: the square root of `var`.

        Args:
            input: Floats of any shape.
            dim: Dimensions to reduce; None for all.
            unbiased: PyTorch's older argument: False for a correction of 0.
            correction: Subtracted from the number of elements; 1 by default."""
    def std_mean(self, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> builtins.tuple[Tensor, Tensor]:
        """Return standard deviation and mean over dim, with the arguments of `std`."""
    def step(self) -> Tensor:
        """Return 1 where input > 0, else 0."""
    def step_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `step` in place, which also changes the views of this tensor."""
    def stride(self, dim: builtins.int | None = None) -> Any:
        """Return the distance of neighbours in elements, for each dimension or for one.

        For a dimension of extent 1 it has no meaning. Results of ops are row-major, whatever their operands are."""
    def sub(self, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
        """Return input - alpha * other."""
    def sub_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `sub` in place, which also changes the views of this tensor."""
    def subtract(self, other: Operand, *, alpha: builtins.float = 1) -> Tensor:
        """Return input - alpha * other."""
    def subtract_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `subtract` in place, which also changes the views of this tensor."""
    def sum(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Sum over dim (None = all). Integers give int64; partial sums of floats are float32."""
    def sum_rows(self) -> Tensor:
        """Sum over the last dimension, which is kept with extent 1."""
    def sum_to_size(self, *size: Any) -> Tensor:
        """Sum over the dimensions in which a tensor of shape `size` would be expanded to input's."""
    def svd(self, some: builtins.bool = True) -> builtins.tuple[Tensor, Tensor, Tensor]:
        """Return U, S and V with input = U @ diag(S) @ V.mT; some=False makes U and V square.

        `linalg.svd` returns V.mT instead of V."""
    def swapaxes(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swap the dimensions dim0 and dim1."""
    def swapaxes_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `swapaxes` in place: this tensor becomes that view of its memory."""
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swap the dimensions dim0 and dim1."""
    def swapdims_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `swapdims` in place: this tensor becomes that view of its memory."""
    def swiglu(self, gate: Tensor | None = None, *, swapped: builtins.bool = False) -> Tensor:
        """Return silu(x) * gate. Without a gate, x and gate are the first and second half of the last dimension, or the second and first if `swapped`."""
    def swiglu_oai(self, gate: Tensor | None = None, *, alpha: builtins.float = 1.702, limit: builtins.float = 7.0, swapped: builtins.bool = False) -> Tensor:
        """Return x * sigmoid(alpha * x) * (gate + 1), with x at most `limit` and gate in [-limit, limit].

        Without a gate, the last dimension is split into halves as in `swiglu`."""
    def t(self) -> Tensor:
        """Swap rows and columns; return tensors of fewer than two dimensions unchanged.

        Raises:
            ShapeError: `input` has more than two dimensions."""
    def t_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `t` in place: this tensor becomes that view of its memory."""
    def take(self, index: Tensor) -> Tensor:
        """Return the elements at row-major positions; negative ones count from the end.

        >>> nt.take(nt.tensor([[1, 2], [3, 4]]), nt.tensor([0, 3]))"""
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Gather elements, with input and indices broadcast in the other dimensions; dim=None flattens both.

        >>> nt.take_along_dim(nt.tensor([[1, 2], [3, 4]]), nt.tensor([[1], [0]]), 1)"""
    def tan(self) -> Tensor:
        """Compute the tangent of an angle in radians."""
    def tan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `tan` in place, which also changes the views of this tensor."""
    def tanh(self) -> Tensor:
        """Compute the hyperbolic tangent."""
    def tanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `tanh` in place, which also changes the views of this tensor."""
    def tanhshrink(self) -> Tensor:
        """Return input - tanh(input)."""
    def tanhshrink_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `tanhshrink` in place, which also changes the views of this tensor."""
    def tensor_split(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split along dim into a number of parts, or between indices.

        If the parts are not equal, the first ones are larger by one.

        >>> nt.tensor_split(nt.arange(5), 2)"""
    def threshold(self, threshold: builtins.float, value: builtins.float) -> Tensor:
        """Return input where it is above the threshold, else value.

        >>> nt.threshold(nt.tensor([0.5, 2.0]), 1.0, 0.0)"""
    def threshold_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `threshold` in place, which also changes the views of this tensor."""
    def tile(self, *dims: Any) -> Tensor:
        """Repeat the whole tensor like `repeat`; fewer numbers than dimensions apply to the last ones."""
    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: builtins.bool = False, copy: builtins.bool = False, memory_format: Any = None) -> Tensor:
        """Convert to another dtype.

        The arguments are (dtype), (device, dtype), or another tensor for its dtype. The tensor itself is returned if
        nothing changes. A device, "cpu" or one in use, is accepted and changes nothing: `set_default_device` chooses the
        devices that run ops. A memory format changes nothing either, as the planner chooses the order of images.

        Raises:
            DeviceError: The device is unknown or not in use."""
    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """Return the tensor itself. `set_default_device` chooses the devices that compute.

        Raises:
            DeviceError: The device is unknown or not in use."""
    def top_k(self, k: builtins.int) -> Tensor:
        """Return int32 indices of the k largest elements of each row."""
    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> ValuesIndices:
        """Return the k largest (or smallest) elements along dim in order, and their indices. Always sorted.

        NaN counts as the largest; the choice among equal elements is undefined."""
    def trace(self) -> Tensor:
        """Return the sum of the diagonal of a matrix."""
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swap the dimensions dim0 and dim1."""
    def transpose_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `transpose` in place: this tensor becomes that view of its memory."""
    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> builtins.tuple[Tensor, Tensor]:
        """Return X with A @ X = input for triangular A, and A. transpose solves A.mT @ X = input.

        >>> nt.triangular_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))"""
    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """Keep the elements of the last two dimensions on and below the diagonal; the others become zero."""
    def tril_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `tril` in place, which also changes the views of this tensor."""
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """Keep the elements of the last two dimensions on and above the diagonal; the others become zero."""
    def triu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `triu` in place, which also changes the views of this tensor."""
    def true_divide(self, other: Operand) -> Tensor:
        """Return input / other; integers give float32."""
    def true_divide_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `true_divide` in place, which also changes the views of this tensor."""
    def trunc(self) -> Tensor:
        """Round toward zero to an integer."""
    def trunc_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `trunc` in place, which also changes the views of this tensor."""
    def type(self, dtype: Any = None) -> Any:
        """Convert to a dtype. Without one, return the name of the tensor's dtype."""
    def type_as(self, other: Tensor) -> Tensor:
        """Convert to the dtype of other."""
    def unbind(self, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Return the slices along dim."""
    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """Split the dimension `dim` into `sizes`, one of which may be -1.

        >>> nt.unflatten(nt.arange(6), 0, (2, 3))"""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Return the slices of `size` elements along a dimension, `step` apart, as a view with size as last dimension."""
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Replace the value by uniform random numbers on [from_, to). Rounding to the dtype may give `to`."""
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        """Return the distinct elements, or slices along dim, in ascending order. Every NaN is distinct. Reads the value.

        Args:
            sorted: Has no effect; the result is always sorted.
            return_inverse: True to also return the position of each element in the result.
            return_counts: True to also return the number of occurrences.
            dim: Dimension of the slices; None for elements."""
    def unique_consecutive(self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        """Return the elements, or slices along dim, that differ from the previous one. Reads the value.

        Args:
            return_inverse: True to also return the position of each element in the result.
            return_counts: True to also return the number of repetitions.
            dim: Dimension of the slices; None for elements."""
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split into at most `chunks` parts of equal size along dim; the last may be smaller."""
    def unsafe_split(self, split_size_or_sections: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Split into parts of a given size along dim (the last may be smaller), or of given sizes."""
    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Insert a dimension of extent 1 before `dim`."""
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `unsqueeze` in place: this tensor becomes that view of its memory."""
    def var(self, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
        """Return the variance over dim: the sum of squared deviations divided by n - correction.

        Args:
            input: Floats of any shape.
            dim: Dimensions to reduce; None for all.
            unbiased: PyTorch's older argument: False for a correction of 0.
            correction: Subtracted from the number of elements; 1 by default."""
    def var_mean(self, dim: Dims = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> builtins.tuple[Tensor, Tensor]:
        """Return variance and mean over dim, with the arguments of `var`."""
    def vdot(self, tensor: Tensor) -> Tensor:
        """Return the sum of the products of two vectors.

        >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))"""
    def view(self, *shape: Any) -> Tensor:
        """Return the same memory with another shape; one extent may be -1.

        With a dtype in place of a shape, the bits of the elements are read as that dtype, and the last extent changes with
        its size. That is a copy: writing to it does not change input.

        Raises:
            ArgumentError: The strides do not allow the shape without a copy.

        >>> nt.tensor([1.0, -2.0]).view(nt.int32)"""
    def view_as(self, other: Tensor) -> Tensor:
        """Return the same memory with the shape of other."""
    def vsplit(self, indices_or_sections: builtins.int | Sequence[builtins.int]) -> builtins.tuple[Tensor, ...]:
        """Split along dimension 0 into equal parts, or between indices, like `tensor_split`.

        >>> nt.vsplit(nt.ones(2, 2, 2), 2)"""
    def where(self, condition: Tensor, other: Operand) -> Any:
        """Return this tensor where condition is true, else other."""
    def xielu(self, alpha_n: builtins.float, alpha_p: builtins.float, beta: builtins.float, eps: builtins.float) -> Tensor:
        """Compute GGML's xIELU; alpha_n and alpha_p are the values after GGML's softplus.

        alpha_p x^2 + beta x where x > 0, else alpha_n (expm1(min(x, eps)) - x) + beta x.

        >>> nt.xielu(nt.tensor([-1.0, 2.0]), 0.8, 0.5, 0.5, -1e-6)"""
    def xielu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `xielu` in place, which also changes the views of this tensor."""
    def xlogy(self, other: Operand) -> Tensor:
        """Compute input * log(other); 0 where input is 0, unless other is NaN."""
    def xlogy_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Apply `xlogy` in place, which also changes the views of this tensor."""
    def zero_(self) -> Tensor:
        """Set all elements to zero."""
    def _assign(self, result: Tensor) -> Tensor: ...
