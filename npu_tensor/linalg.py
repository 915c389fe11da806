"""Inverses and factorizations, with the names and results of torch.linalg. They read their operands at once.

NumPy's LAPACK computes them on the processor, in float64 for float64 and in float32 for the other float types, whose
results are rounded to them. Leading dimensions are a batch. Singular matrices and the like are an ArgumentError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from npu_tensor.dtypes import DType, int64
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.graph.history import require_constant
from npu_tensor.tensor import Tensor, from_array

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

Array = np.ndarray[Any, Any]


class QR(NamedTuple):
    """A = Q @ R."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """A = U @ diag(S) @ Vh, with S in descending order."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """A @ eigenvectors = eigenvectors * eigenvalues, which ascend."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SignLogDet(NamedTuple):
    """The determinant is sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class LeastSquares(NamedTuple):
    """The solution of least squares; residuals are empty unless A has full rank and more rows than columns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _operand(name: str, value: Any) -> Tensor:
    """A Tensor as it is, and a NumPy array as one. TypeError for anything else."""
    if isinstance(value, np.ndarray):
        return from_array(value)
    if not isinstance(value, Tensor):
        raise TypeError(f"linalg.{name} takes tensors and NumPy arrays, not {type(value).__name__}; use nt.tensor")
    return value


def _arrays(name: str, *operands: Any, square: bool = False) -> tuple[DType, list[Array]]:
    """The common dtype of matrices, and their values in the type that is computed in. DTypeError, ShapeError."""
    tensors = [_operand(name, operand) for operand in operands]
    require_constant(f"linalg.{name}", *(tensor._node for tensor in tensors))
    dtype = tensors[0].dtype
    if not all(tensor.dtype is dtype and tensor.is_floating_point() for tensor in tensors):
        dtypes = " and ".join(tensor.dtype.name for tensor in tensors)
        raise DTypeError(f"linalg.{name} takes floats of one dtype, not {dtypes}; convert with .to(npu_tensor.float32)")
    shape = tensors[0].shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        raise ShapeError(f"linalg.{name} takes {'square ' if square else ''}matrices, not {list(shape)}")
    return dtype, [tensor.numpy().astype(dtype.register, copy=False) for tensor in tensors]


def _computed(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What NumPy computes. ArgumentError for what it cannot."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **options)
    except (np.linalg.LinAlgError, ValueError) as error:
        shapes = " and ".join(str(list(argument.shape)) for argument in arguments)
        raise ArgumentError(f"linalg.{name} of {shapes}: {error}") from None


def _tensor(array: Any, dtype: DType) -> Tensor:
    return from_array(np.asarray(array), dtype)


def norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The norm of vectors, if dim is one dimension or A has one, which is recorded; else that of matrices over two.

    ord: of vectors, a number (2 unless given), see `npu_tensor.norm`; of matrices "fro" (unless given), "nuc", inf,
    -inf, 1, -1, 2 or -2. Without ord and dim, A is one vector. dtype: what A is converted to first. axis and keepdims
    are NumPy's names of dim and keepdim.
    """
    A = _operand("norm", A) if dtype is None else _operand("norm", A).to(dtype)
    if axis is not None:
        if dim is not None:
            raise TypeError("linalg.norm: dim and axis mean the same: give one of them")
        dim = axis
    keepdim = keepdim or keepdims
    dims = (dim,) if isinstance(dim, int) else dim if dim is None else tuple(dim)
    if (len(dims) == 1) if dims is not None else (ord is None or A.ndim == 1):
        return A.norm(2.0 if ord is None else ord, dims, keepdim)
    dtype, (array,) = _arrays("norm", A)
    return _tensor(_computed("norm", lambda a: np.linalg.norm(a, ord, dims, keepdim), array), dtype)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices.

    >>> nt.inverse(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    """
    dtype, (array,) = _arrays("inv", A, square=True)
    return _tensor(_computed("inv", np.linalg.inv, array), dtype)


def det(A: Tensor) -> Tensor:
    """The determinant of square matrices.

    >>> nt.det(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    """
    dtype, (array,) = _arrays("det", A, square=True)
    return _tensor(_computed("det", np.linalg.det, array), dtype)


def solve(A: Tensor, B: Tensor) -> Tensor:
    """X with A @ X = B for square matrices A; B has columns, or is one vector for each matrix."""
    dtype, (a, b) = _arrays("solve", A, B, square=True)
    if b.ndim == 1 or b.shape == a.shape[:-1]:
        return _tensor(_computed("solve", np.linalg.solve, a, b[..., None])[..., 0], dtype)
    return _tensor(_computed("solve", np.linalg.solve, a, b), dtype)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None) -> LeastSquares:
    """X that makes A @ X - B smallest, for one matrix A and the columns of B, or one vector.

    Singular values below rcond times the largest count as 0; by default epsilon times the larger extent of A.
    """
    dtype, (a, b) = _arrays("lstsq", A, B)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise ShapeError(f"linalg.lstsq takes one matrix and columns, not {list(a.shape)} and {list(b.shape)}")
    solution, residuals, rank, values = _computed("lstsq", lambda a, b: np.linalg.lstsq(a, b, rcond), a, b)
    parts = (_tensor(solution, dtype), _tensor(residuals, dtype))
    return LeastSquares(*parts, from_array(np.asarray(rank, np.int64)), _tensor(values, dtype))


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with A = L @ L.mT, or its transpose, for symmetric positive definite matrices."""
    dtype, (array,) = _arrays("cholesky", A, square=True)
    return _tensor(_computed("cholesky", np.linalg.cholesky, array, upper=upper), dtype)


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangular R. mode: "reduced", "complete" (square Q) or "r" (empty Q)."""
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    dtype, (array,) = _arrays("qr", A)
    factors = _computed("qr", np.linalg.qr, array, mode=mode)
    q, r = (np.zeros(0), factors) if mode == "r" else factors
    return QR(_tensor(q, dtype), _tensor(r, dtype))


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """The singular value decomposition; full_matrices=False leaves out what S does not multiply."""
    dtype, (array,) = _arrays("svd", A)
    return SVD(*(_tensor(part, dtype) for part in _computed("svd", np.linalg.svd, array, full_matrices=full_matrices)))


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues and eigenvectors of symmetric matrices, of which the lower ("L") or upper ("U") triangle is read."""
    if UPLO not in ("L", "U"):
        raise ArgumentError(f"linalg.eigh: UPLO must be 'L' or 'U', not {UPLO!r}")
    dtype, (array,) = _arrays("eigh", A, square=True)
    return Eigh(*(_tensor(part, dtype) for part in _computed("eigh", np.linalg.eigh, array, UPLO=UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, as `eigh`."""
    return eigh(A, UPLO).eigenvalues


def svdvals(A: Tensor) -> Tensor:
    """The singular values in descending order."""
    dtype, (array,) = _arrays("svdvals", A)
    return _tensor(_computed("svdvals", np.linalg.svd, array, compute_uv=False), dtype)


def slogdet(A: Tensor) -> SignLogDet:
    """Sign and logarithm of the magnitude of the determinant of square matrices.

    >>> nt.slogdet(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    """
    dtype, (array,) = _arrays("slogdet", A, square=True)
    return SignLogDet(*(_tensor(part, dtype) for part in _computed("slogdet", np.linalg.slogdet, array)))


def cond(A: Tensor, p: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """The condition number of matrices: the norm, 2 unless given, times that of the inverse; it may be infinite."""
    dtype, (array,) = _arrays("cond", A, square=p not in (None, 2, -2))
    return _tensor(_computed("cond", lambda a: np.linalg.cond(a, p), array), dtype)


def _smallest_counted(values: Array, shape: Sequence[int], atol: float | None, rtol: float | None) -> Array:
    """The limit below which singular values count as 0: max(atol, rtol * the largest)."""
    if rtol is None:
        rtol = 0.0 if atol else float(np.finfo(values.dtype).eps) * max(shape[-2:])
    largest = values.max(-1, keepdims=True, initial=0)
    limit: Array = np.maximum(largest * rtol, atol or 0.0)
    return limit


def pinv(A: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """The pseudoinverse of matrices; singular values up to max(atol, rtol * the largest) count as 0."""
    dtype, (array,) = _arrays("pinv", A, square=hermitian)
    u, s, vh = _computed("pinv", np.linalg.svd, array, full_matrices=False)
    kept = s > _smallest_counted(s, array.shape, atol, rtol)
    inverse = np.divide(1, s, out=np.zeros_like(s), where=kept)
    return _tensor(np.swapaxes(vh, -1, -2) * inverse[..., None, :] @ np.swapaxes(u, -1, -2), dtype)


def matrix_rank(A: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """How many singular values of matrices are above max(atol, rtol * the largest)."""
    _, (array,) = _arrays("matrix_rank", A, square=hermitian)
    values = _computed("matrix_rank", np.linalg.svd, array, compute_uv=False)
    return from_array(np.asarray((values > _smallest_counted(values, array.shape, atol, rtol)).sum(-1), np.int64))


def matrix_power(A: Tensor, n: int) -> Tensor:
    """Square matrices to an integer power; negative ones of the inverse.

    >>> nt.matrix_power(nt.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    """
    dtype, (array,) = _arrays("matrix_power", A, square=True)
    return _tensor(_computed("matrix_power", lambda a: np.linalg.matrix_power(a, n), array), dtype)


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices: the Taylor series of A / 2^n, squared n times.

    >>> nt.matrix_exp(nt.zeros(2, 2))
    """
    dtype, (array,) = _arrays("matrix_exp", A, square=True)
    wide = array.astype(np.float64)
    largest = np.abs(wide).sum(-1).max(initial=0)
    halvings = max(int(np.ceil(np.log2(largest))) + 1, 0) if 0 < largest < np.inf else 0
    scaled = wide / 2.0**halvings
    total = term = np.broadcast_to(np.eye(wide.shape[-1]), wide.shape)
    for number in range(1, 19):  # 0.5**18 / 18! is below the precision of float64
        term = term @ scaled / number
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return _tensor(total, dtype)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order that costs least; the first and the last may be vectors."""
    dtype, arrays = _arrays("multi_dot", *(tensor.reshape(1, -1) if tensor.ndim == 1 else tensor for tensor in tensors))
    shaped = [array.reshape(tensor.shape) for array, tensor in zip(arrays, tensors, strict=True)]
    return _tensor(np.linalg.multi_dot(shaped), dtype)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A @ X = B, or X @ A = B unless left, for triangular A, of which only that triangle is read."""
    dtype, (a, b) = _arrays("solve_triangular", A, B, square=True)
    triangle = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        np.einsum("...ii->...i", triangle)[...] = 1
    if left:
        return _tensor(_computed("solve_triangular", np.linalg.solve, triangle, b), dtype)
    turned = _computed("solve_triangular", np.linalg.solve, np.swapaxes(triangle, -1, -2), np.swapaxes(b, -1, -2))
    return _tensor(np.swapaxes(turned, -1, -2), dtype)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot` of a tensor whose first `ind` dimensions have as many elements as the others."""
    dtype, (array,) = _arrays("tensorinv", A)
    return _tensor(_computed("tensorinv", lambda a: np.linalg.tensorinv(a, ind), array), dtype)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; dims of A are moved to the end first."""
    dtype, (a, b) = _arrays("tensorsolve", A, B.reshape(1, *B.shape))
    return _tensor(_computed("tensorsolve", lambda a, b: np.linalg.tensorsolve(a, b, dims), a, b[0]), dtype)


# --- recorded, of any dtype that the functions they are made of take


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The norm of vectors over dim (None = all); see `npu_tensor.norm`."""
    x = _operand("vector_norm", x)
    return x.norm(ord, dim, keepdim, dtype)


def matrix_norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """The norm of matrices over two dimensions; see `norm`."""
    return norm(A, ord, dim, keepdim, dtype=dtype)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product, as `npu_tensor.matmul`."""
    return _operand("matmul", input) @ other


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of vectors of three elements along dim."""
    return _operand("cross", input).cross(other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of matrices, a view."""
    return _operand("diagonal", A).diagonal(offset, dim1, dim2)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along dim."""
    return (_operand("vecdot", x) * y).sum(dim)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers of the elements of x, from 0 to N - 1, along a new dimension; N is their number unless given.

    Integers give int64.
    """
    x = _operand("vander", x)
    x = x if x.is_floating_point() else x.to(int64)
    count = x.shape[-1] if N is None else N
    exponents = from_array(np.arange(count))
    return x.unsqueeze(-1) ** exponents.to(x.dtype)
