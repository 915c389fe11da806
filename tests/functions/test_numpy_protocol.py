"""NumPy's functions called on Tensors, against the same functions on arrays."""

from typing import Any

import numpy as np
import pytest
from op_examples import Case, calls

import npu_tensor as nt
from npu_tensor.functions import numpy_protocol

A = np.array([[3.0, -1.5, 2.0], [0.5, 4.0, -2.0]], np.float32)
B = np.array([[1.0, 2.0, -3.0], [2.5, 0.25, 1.0]], np.float32)
I = np.array([[3, 0, 2], [1, 5, 7]], np.int32)  # noqa: E741
U = np.array([0, 3, 0], np.uint8)
V = A[0]
M = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
NAN = np.array([[np.nan, np.inf, -2.0], [0.0, np.nan, 3.0]], np.float32)

# Functions with a counterpart, which return Tensors.
RECORDED: list[Case] = [
    *((f, (x,), k) for f in (np.sum, np.prod) for x in (A, I) for k in ({}, {"axis": 1, "keepdims": True})),
    *calls(np.sum, (A, (0, 1)), (A, {"dtype": np.float64})),
    *((f, (x, 1), {}) for f in (np.mean, np.var, np.std) for x in (A, I)),
    (np.mean, (A,), {"keepdims": True}),
    (np.var, (A, 0), {"ddof": 1}),
    *((f, (A,), k) for f in (np.max, np.min, np.amax, np.amin) for k in ({}, {"axis": 1, "keepdims": True})),
    *((f, (A,), k) for f in (np.argmax, np.argmin) for k in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})),
    *((f, (x,), k) for f in (np.any, np.all) for x in (I, U) for k in ({}, {"axis": 0})),
    *calls(np.cumsum, (A,), (A, 1)),
    (np.round, (A,), {"decimals": 1}),
    (np.around, (A,), {}),
    *calls(np.clip, (A, -1, 1), (A, {"min": 0}), (A, None, B)),
    *calls(np.where, (A > 0, A, B), (I, A, 0.0)),
    *calls(np.reshape, (A, (3, 2)), (A, -1)),
    (np.ravel, (A,), {}),
    *calls(np.transpose, (A,), (A, (1, 0))),
    (np.swapaxes, (A, 0, 1), {}),
    (np.moveaxis, (A, 0, 1), {}),
    *calls(np.squeeze, (A[:, :1],), (A[:, :1], 1)),
    (np.expand_dims, (A, -1), {}),
    (np.broadcast_to, (A, (2, 2, 3)), {}),
    *calls(np.flip, (A,), (A, 1)),
    (np.roll, (A, 1), {"axis": 0}),
    *calls(np.repeat, (A, 2), (A, 2, 1)),
    (np.tile, (A, (2, 1)), {}),
    *calls(np.concatenate, ([A, B],), ((A, I), 1)),
    (np.stack, ([A, B],), {"axis": 1}),
    (np.hstack, ([A, B],), {}),
    (np.vstack, ([A, V],), {}),
    (np.tril, (A,), {"k": -1}),
    (np.triu, (A,), {}),
    *calls(np.dot, (A, B.T), (A, V), (A, np.float32(2))),
    *calls(np.outer, (V, V), (A, V)),
    (np.einsum, ("ij,kj->ik", A, B), {"optimize": True}),
    *((f, (A,), k) for f in (np.zeros_like, np.ones_like) for k in ({}, {"dtype": np.int32})),
    (np.full_like, (A, 3), {}),
    (np.add, (A, [1.0, 2.0, 3.0]), {}),
    (np.exp, (A,), {}),
    *calls(np.cumprod, (A,), (A, 1)),
    *((f, (A,), {"axis": axis}) for f in (np.sort, np.argsort) for axis in (None, 0, -1)),
    *calls(np.diff, (A,), (A, 2, 1), (I, 1, 0)),
    *calls(np.diagonal, (A,), (A, 1), (M, 0, 2, 1)),
    *calls(np.trace, (A,), (I, 1)),
    (np.linalg.trace, (M,), {"offset": 1}),
    *calls(np.take, (A, [0, -1, 5]), (A, I[:1, 1:], 1), (V, 2)),
    *calls(np.take_along_axis, (A, np.argsort(A, 1), 1), (A, np.array([4, -1]), None), (V, np.array([-1, 0]))),
    *calls(np.pad, (A, 2), (A, ((1, 0), (0, 2))), (A, (1, 2), "edge"), (I, 1, {"constant_values": 7})),
    *calls(np.unique, (I,), (np.array([[1, 2], [1, 2]]), {"axis": 0})),
    (np.argwhere, (I > 1,), {}),
    *calls(np.count_nonzero, (I,), (I, 1), (I, {"axis": 0, "keepdims": True})),
    *calls(np.searchsorted, (np.array([-2.0, 0.5, 3.0]), A), (np.array([0, 2, 5]), I, {"side": "right"})),
    *calls(np.isin, (I, [1, 7]), (I, U, {"invert": True})),
    *calls(np.isclose, (A, A + 1e-6), (I, I), (NAN, NAN, {"equal_nan": True}), (A, B, 0.5, 1.0)),
    *calls(np.nan_to_num, (NAN,), (NAN, {"nan": 2.0})),
    *calls(np.nansum, (NAN,), (NAN, 0)),
    *calls(np.kron, (A, B), (V, A)),
    *calls(np.inner, (A, B), (V, V)),
    *calls(np.vdot, (A, B)),
    *calls(np.tensordot, (A, B, ([1, 0], [1, 0])), (A, B.T, 1), (A, B, (1, 1))),
    *((f, (A,), {}) for f in (np.fliplr, np.flipud, np.rot90, np.atleast_1d, np.atleast_2d)),
    (np.rot90, (M, -1), {"axes": (2, 0)}),
    *((f, ([V, B[1]],), {}) for f in (np.column_stack, np.dstack)),
    *calls(np.diag, (V,), (A, 1)),
    (np.diagflat, (A, -1), {}),
    (np.matrix_transpose, (M,), {}),
    *calls(np.astype, (A, np.int32)),
    *calls(np.trapezoid, (A,), (A, V), (I, {"dx": 0.5, "axis": 0})),
    *((f, (V,), {"include_initial": i}) for f in (np.cumulative_sum, np.cumulative_prod) for i in (False, True)),
    (np.cumulative_sum, (A,), {"axis": 1}),
    (np.sign, (NAN,), {}),
    (np.power, (I, 3), {}),
    (np.heaviside, (A, B), {}),
    (np.copysign, (A, [1.0, 2.0, 3.0]), {}),
    *calls(np.split, (A, 3, 1), (A, [1, 2], 1)),
    *calls(np.array_split, (A, 2, 1)),
    *calls(np.unstack, (A,), (M, {"axis": 1})),
    *calls(np.nonzero, (I,)),
    *calls(np.meshgrid, (V, U), (V, U, {"indexing": "ij"})),
]

# Functions or arguments without a counterpart, which return NumPy's results.
COMPUTED: list[Case] = [
    (np.ptp, (A,), {"axis": 1}),
    (np.median, (A,), {}),
    (np.allclose, (A, A), {}),
    (np.array_equal, (A, B), {}),
    (np.pad, (A, 1, "reflect"), {}),
    (np.unique, (I,), {"return_counts": True}),
    (np.shape, (A,), {}),
    (np.ndim, (A,), {}),
    (np.size, (A, 1), {}),
    (np.sum, (A,), {"where": A > 0}),
    (np.max, (A,), {"initial": 9.0}),
    (np.concatenate, ([A, B], None), {}),
    (np.repeat, (V, [1, 0, 2]), {}),
    (np.tril, (V,), {}),
    (np.clip, (A, None, None), {}),
    (np.dot, (A, np.ones((2, 3, 4), np.float32)), {}),
    (np.where, (I,), {}),
    (np.add.reduce, (A,), {"axis": 1}),
    (np.maximum.accumulate, (A,), {"axis": 1}),
    (np.add, (A, B), {"where": A > 0, "out": np.zeros_like(A)}),
]


def tensors_in(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return nt.from_numpy(value)
    return type(value)(map(tensors_in, value)) if isinstance(value, (list, tuple)) else value


def both(result: Any, expected: Any) -> list[Any]:
    """Return the parts of two results, one part each unless they are lists or tuples."""
    return [x if isinstance(x, (list, tuple)) else [x] for x in (result, expected)]


def name(case: Any) -> str:
    return f"{case[0].__name__} {case[2] or ''}" if isinstance(case, tuple) else str(case)


@pytest.mark.parametrize("case", RECORDED, ids=name)
def test_functions_with_a_counterpart_record_it(case: Any) -> None:
    function, args, kwargs = case
    for result, wanted in zip(*both(function(*tensors_in(args), **kwargs), function(*args, **kwargs)), strict=True):
        expected = np.asarray(wanted)
        assert isinstance(result, nt.Tensor)
        assert result.shape == expected.shape
        assert (result.dtype.numpy.kind, expected.dtype.kind) in (("i", "u"), (expected.dtype.kind,) * 2)
        np.testing.assert_allclose(result.numpy(), expected, rtol=2e-6)


def test_every_counterpart_is_compared() -> None:
    without_value = {np.empty_like}  # uninitialized memory
    assert {f for f, *_ in RECORDED + COMPUTED} >= set(numpy_protocol._FUNCTIONS) - without_value
    assert np.empty_like(nt.from_numpy(A)).shape == A.shape


@pytest.mark.parametrize("case", COMPUTED, ids=name)
def test_functions_without_a_counterpart_give_arrays(case: Any) -> None:
    function, args, kwargs = case
    expected = function(*args, **kwargs)
    result = function(*tensors_in(args), **{key: np.copy(value) for key, value in kwargs.items()})
    assert type(result) is type(expected)
    for part, wanted in zip(*both(result, expected), strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_operators_with_arrays_give_tensors() -> None:
    x, array = nt.tensor([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.5]], np.float32)
    for result, expected in (
        (array + x, [[2.0, 2.5], [4.0, 4.5]]),
        (x - array, [[0.0, 1.5], [2.0, 3.5]]),
        (np.float32(2) * x, [[2.0, 4.0], [6.0, 8.0]]),
        (np.sqrt(x * x), [[1.0, 2.0], [3.0, 4.0]]),
        (array @ x, [[2.5, 4.0]]),
        (x @ array.T, [[2.0], [5.0]]),
    ):
        assert isinstance(result, nt.Tensor)
        assert result.tolist() == expected


def test_arrays_accept_tensors() -> None:
    array = np.zeros((2, 3), np.float32)
    array += nt.from_numpy(A)
    np.copyto(array[0], nt.from_numpy(V) * 2)
    np.testing.assert_array_equal(array, [V * 2, A[1]])


def test_nothing_is_written_to_tensors() -> None:
    t = nt.from_numpy(A)
    for write in (lambda: np.add(t, 1, out=t), lambda: np.copyto(t, 0), lambda: np.sum(A, axis=0, out=t[0])):
        with pytest.raises(ValueError, match=r"read-only|writable"):
            write()
    assert t.tolist() == A.tolist()


def test_errors_name_the_line_and_invalid_operands_are_refused() -> None:
    t = nt.from_numpy(A)
    with pytest.raises(nt.DimensionError, match=r"test_numpy_protocol\.py"):
        np.sum(t, axis=5)
    with pytest.raises(ValueError, match="size"):
        np.squeeze(t, 0)
    with pytest.raises(TypeError):
        np.add(t, {"a": 1})


def test_values_are_not_read_while_a_function_is_captured() -> None:
    assert nt.jit(lambda x: np.mean(x, axis=0))(nt.from_numpy(A)).tolist() == A.mean(0).tolist()
    with pytest.raises(nt.CaptureError):
        nt.jit(lambda x: np.ptp(x))(nt.from_numpy(A))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "any", "all"])
def test_no_axis_reduces_nothing(name: str) -> None:
    expected = getattr(np, name)(A, axis=())
    for result in (getattr(np, name)(nt.from_numpy(A), axis=()), getattr(np, name)(nt.from_numpy(A), ())):
        np.testing.assert_array_equal(np.asarray(result), expected)
