"""Linear algebra in PyTorch's main namespace: other names or other results than in torch.linalg."""

from __future__ import annotations

from npu_tensor import linalg
from npu_tensor.functions.register import composite
from npu_tensor.linalg import QR
from npu_tensor.tensor import Tensor

__all__: list[str] = []

for _function in (linalg.det, linalg.slogdet, linalg.matrix_power, linalg.matrix_exp):
    composite()(_function)
composite("inverse")(linalg.inv)


@composite()
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant of square matrices; NaN if it is negative."""
    return linalg.det(input).log()


@composite()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudoinverse of matrices. Singular values up to rcond times the largest count as 0."""
    return linalg.pinv(input, rtol=rcond)


@composite()
def qr(input: Tensor, some: bool = True) -> QR:
    """Return the QR decomposition, like `linalg.qr`; some=False makes Q square."""
    return linalg.qr(input, "reduced" if some else "complete")


@composite()
def svd(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V with input = U @ diag(S) @ V.mT; some=False makes U and V square.

    `linalg.svd` returns V.mT instead of V.
    """
    u, s, vh = linalg.svd(input, not some)
    return u, s, vh.mT


@composite()
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return the Cholesky factor, like `linalg.cholesky`.

    >>> nt.cholesky(nt.tensor([[4.0, 2.0], [2.0, 5.0]]))
    """
    return linalg.cholesky(input, upper=upper)


@composite()
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solve A @ X = input for the matrices A whose Cholesky factors are input2.

    >>> nt.cholesky_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))
    """
    factor = input2.mT if upper else input2
    half = linalg.solve_triangular(factor, input, upper=False)
    return linalg.solve_triangular(factor.mT, half, upper=True)


@composite()
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrices whose Cholesky factors are input."""
    inverse = linalg.inv(input.triu() if upper else input.tril())
    return inverse @ inverse.mT if upper else inverse.mT @ inverse
