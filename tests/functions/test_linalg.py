"""Inverses and factorizations: against torch.linalg if the result is unique, else by their defining equations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from comparison import from_torch, to_torch
from op_examples import Case, calls

import npu_tensor as nt

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

RNG = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return torch.from_numpy(RNG.standard_normal(shape))


S = normal(3, 4, 4)
POSITIVE = S @ S.mT + torch.eye(4, dtype=torch.float64)
TALL, WIDE = normal(2, 5, 3), normal(3, 5)

UNIQUE: list[Case] = [
    ("inv", (S,), {}),
    ("det", (S,), {}),
    *calls("solve", (S, normal(3, 4, 2)), (S, normal(3, 4)), (S[0], normal(4)), (S[0], normal(2, 4), {"left": False})),
    *calls("cholesky", (POSITIVE,), (POSITIVE, {"upper": True})),
    *((name, (S,), {}) for name in ("lu", "lu_factor", "lu_factor_ex", "inv_ex")),
    *((name, (matrix,), {}) for name in ("lu", "lu_factor") for matrix in (TALL, WIDE, S[:0], S[:, :0, :0])),
    *((name, (S[:0],), {}) for name in ("inv_ex", "lu_factor_ex", "cholesky_ex")),
    *calls("solve_ex", (S, normal(3, 4, 2)), (S, normal(3, 4)), (S, normal(3, 2, 4), {"left": False})),
    *calls("solve_ex", (S, normal(4, 2)), (S[0], normal(3, 4, 2))),
    *(
        (
            "lu_solve",
            (*torch.linalg.lu_factor(S), normal(*((3, 4, 2) if left else (3, 2, 4)))),
            {"left": left, "adjoint": t},
        )
        for left in (True, False)
        for t in (True, False)
    ),
    *calls("cholesky_ex", (POSITIVE,), (POSITIVE, {"upper": True})),
    *(("norm", (S[0],), {"ord": ord}) for ord in ("fro", "nuc", float("inf"), -float("inf"), 1, -1, 2, -2)),
    *(("norm", (S[0, 0],), {"ord": ord}) for ord in (None, float("inf"), -float("inf"), 0, 1, 2, 3.5)),
    *calls("norm", (S,), (S, {"dim": 1, "keepdim": True}), (S, {"dim": (0, 2), "keepdim": True}), (S, 3, (1,))),
]


@pytest.mark.parametrize("limit", ["atol", "rtol"])
def test_limits_of_singular_values_for_each_matrix(limit: str) -> None:
    limits = torch.tensor([0.0, 0.8], dtype=torch.float64)
    for name in ("matrix_rank", "pinv"):
        expected = getattr(torch.linalg, name)(TALL, **{limit: limits})
        result = getattr(nt.linalg, name)(from_torch(TALL), **{limit: from_torch(limits)})
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "args", "kwargs"), UNIQUE)
def test_unique_results(name: str, args: Any, kwargs: Any, dtype: Any) -> None:
    args = [
        value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in args
    ]
    expected = getattr(torch.linalg, name)(*args, **kwargs)
    ours = [from_torch(value) if isinstance(value, torch.Tensor) else value for value in args]
    result = getattr(nt.linalg, name)(*ours, **kwargs)
    pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]
    for part, wanted in pairs:
        torch.testing.assert_close(to_torch(part), wanted, rtol=1e-10 if dtype is torch.float64 else 2e-4, atol=1e-5)


def identity_of(columns: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.eye(columns.shape[-1]), (*columns.shape[:-2], columns.shape[-1], columns.shape[-1]))


def assert_orthonormal(columns: np.ndarray) -> None:
    np.testing.assert_allclose(np.swapaxes(columns, -1, -2) @ columns, identity_of(columns), atol=1e-12)


@pytest.mark.parametrize("matrix", [TALL, WIDE, S], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(matrix: Any, mode: str) -> None:
    result = nt.linalg.qr(from_torch(matrix), mode)
    assert [part.shape for part in result] == [tuple(part.shape) for part in torch.linalg.qr(matrix, mode)]
    q, r = result.Q.numpy(), result.R.numpy()
    assert_orthonormal(q)
    np.testing.assert_allclose(q @ r, matrix.numpy(), atol=1e-12)
    np.testing.assert_array_equal(np.triu(r), r)
    only = nt.linalg.qr(from_torch(matrix), "r")
    assert only.Q.numel() == 0
    np.testing.assert_allclose(np.abs(only.R.numpy()), np.abs(torch.linalg.qr(matrix, "r").R.numpy()), atol=1e-12)


@pytest.mark.parametrize("matrix", [TALL, WIDE, S], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("full", [True, False])
def test_svd(matrix: Any, full: bool) -> None:
    result, expected = nt.linalg.svd(from_torch(matrix), full), torch.linalg.svd(matrix, full)
    assert [part.shape for part in result] == [tuple(part.shape) for part in expected]
    np.testing.assert_allclose(result.S.numpy(), expected.S.numpy(), atol=1e-12)
    u, s, vh = (part.numpy() for part in result)
    k = s.shape[-1]
    assert_orthonormal(u)
    assert_orthonormal(np.swapaxes(vh, -1, -2))
    np.testing.assert_allclose(u[..., :k] * s[..., None, :] @ vh[..., :k, :], matrix.numpy(), atol=1e-12)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh(triangle: str) -> None:
    result, expected = nt.linalg.eigh(from_torch(S), triangle), torch.linalg.eigh(S, triangle)
    np.testing.assert_allclose(result.eigenvalues.numpy(), expected.eigenvalues.numpy(), atol=1e-12)
    vectors = result.eigenvectors.numpy()
    assert_orthonormal(vectors)
    lower = torch.tril(S, -1) if triangle == "L" else torch.triu(S, 1)
    symmetric = (lower + lower.mT + torch.diag_embed(torch.diagonal(S, dim1=-2, dim2=-1))).numpy()
    np.testing.assert_allclose(symmetric @ vectors, vectors * result.eigenvalues.numpy()[..., None, :], atol=1e-12)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_lstsq(columns: tuple[int, ...]) -> None:
    a, b = TALL[0], normal(5, *columns)
    result = nt.linalg.lstsq(from_torch(a), from_torch(b))
    expected = torch.linalg.lstsq(a, b.reshape(5, -1), driver="gelsd")
    np.testing.assert_allclose(result.solution.numpy().reshape(3, -1), expected.solution.numpy(), atol=1e-12)
    np.testing.assert_allclose(result.residuals.numpy(), expected.residuals.numpy(), atol=1e-12)
    assert result.rank.item() == expected.rank.item() == 3
    np.testing.assert_allclose(result.singular_values.numpy(), torch.linalg.svdvals(a).numpy(), atol=1e-12)


def test_sixteen_bits_are_computed_in_32() -> None:
    matrix = from_torch(S[0].float()).to(nt.bfloat16)
    result = nt.linalg.inv(matrix)
    exact = np.linalg.inv(matrix.double().numpy())
    assert result.dtype is nt.bfloat16
    np.testing.assert_allclose(result.double().numpy(), exact, rtol=2**-8, atol=1e-5)


def test_failures_of_single_matrices() -> None:
    batch = torch.stack([torch.eye(3), torch.tensor([[1.0, 2, 0], [2, 4, 0], [0, 0, 1]]), -torch.eye(3)])
    ours = from_torch(batch)
    for name, operands in (
        ("inv_ex", ()),
        ("solve_ex", (torch.ones(3, 3),)),
        ("cholesky_ex", ()),
        ("lu_factor_ex", ()),
    ):
        result, expected = (
            getattr(lib, name)(x, *more)
            for lib, x, more in (
                (nt.linalg, ours, [from_torch(each) for each in operands]),
                (torch.linalg, batch, operands),
            )
        )
        assert result.info.tolist() == expected.info.tolist()
        np.testing.assert_allclose(result[0][0].numpy(), expected[0][0].numpy())
        with pytest.raises(nt.ArgumentError, match=f"linalg.{name}"):
            getattr(nt.linalg, name)(ours, *(from_torch(each) for each in operands), check_errors=True)
    assert nt.linalg.inv_ex(ours).inverse[1].isnan().all()
    with pytest.raises(nt.ArgumentError, match="pivot=False is not supported"):
        nt.linalg.lu(ours, pivot=False)
    with pytest.raises(nt.ShapeError, match="pivots"):
        nt.linalg.lu_solve(nt.eye(2), nt.tensor([3, 9]), nt.eye(2))


SINGULAR = nt.ones(3, 3)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: nt.linalg.inv(SINGULAR - SINGULAR), nt.ArgumentError),
        (lambda: nt.linalg.solve(nt.zeros(2, 2), nt.ones(2)), nt.ArgumentError),
        (lambda: nt.linalg.cholesky(-nt.eye(2)), nt.ArgumentError),
        (lambda: nt.linalg.svd(nt.full((2, 2), float("nan"))), nt.ArgumentError),
        (lambda: nt.linalg.qr(nt.eye(2), "full"), nt.ArgumentError),
        (lambda: nt.linalg.eigh(nt.eye(2), "l"), nt.ArgumentError),
        (lambda: nt.linalg.inv(nt.ones(2, 3)), nt.ShapeError),
        (lambda: nt.linalg.det(nt.ones(3)), nt.ShapeError),
        (lambda: nt.linalg.solve(nt.eye(2), nt.ones(3)), nt.ArgumentError),
        (lambda: nt.linalg.lstsq(nt.ones(2, 3, 3), nt.ones(2, 3, 3)), nt.ShapeError),
        (lambda: nt.linalg.lstsq(nt.ones(3, 2), nt.ones(2, 1)), nt.ArgumentError),
        (lambda: nt.linalg.norm(nt.ones(2, 2, 2), "nuc"), nt.ArgumentError),
        (lambda: nt.linalg.norm(nt.ones(2, 2), "max"), nt.ArgumentError),
        (lambda: nt.linalg.inv(nt.eye(2, dtype=nt.int64)), nt.DTypeError),
        (lambda: nt.linalg.solve(nt.eye(2), nt.ones(2, dtype=nt.float64)), nt.DTypeError),
    ],
)
def test_operands_without_a_result(call: Callable[[], Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match="linalg"):
        call()


def test_values_are_not_read_under_jit() -> None:
    with pytest.raises(nt.CaptureError, match=r"test_linalg\.py"):
        nt.jit(lambda x: nt.linalg.inv(x))(nt.eye(2))
    assert nt.jit(lambda x: nt.linalg.norm(x))(nt.ones(4)).item() == 2.0


def test_arrays_are_converted_and_lists_refused() -> None:
    assert nt.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]])).tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert nt.linalg.norm(np.array([3.0, 4.0])).item() == 5.0
    for call in (nt.linalg.inv, nt.linalg.norm, lambda rows: nt.linalg.solve(nt.eye(2), rows)):
        with pytest.raises(TypeError, match=r"linalg\.(inv|norm|solve) takes tensors and NumPy arrays, not list"):
            call([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(("ord", "axis"), [(None, 1), (3, 1), ("fro", (0, 2))])
def test_norm_takes_numpys_names_and_a_dtype(ord: Any, axis: Any) -> None:
    ours = nt.linalg.norm(from_torch(S).to(nt.float32), ord, axis=axis, keepdims=True, dtype=nt.float64)
    expected = np.linalg.norm(S.numpy().astype(np.float32).astype(np.float64), ord, axis, True)
    assert ours.dtype is nt.float64
    np.testing.assert_allclose(ours.numpy(), expected.reshape(ours.shape), rtol=1e-12)
    assert ours.shape == tuple(1 if at in np.atleast_1d(axis) else extent for at, extent in enumerate(S.shape))
    with pytest.raises(TypeError, match="dim and axis mean the same"):
        nt.linalg.norm(from_torch(S), dim=0, axis=1)
