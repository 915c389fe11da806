"""GGML's functions beyond the golden values: errors, both implementations of `mul_mat_id`, recurrences in parts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

rng = np.random.default_rng(0)


def values(*shape: int) -> nt.Tensor:
    return nt.from_numpy(rng.standard_normal(shape, np.float32))


@pytest.mark.parametrize("experts", [3, 16])
@pytest.mark.parametrize("shared", [True, False])
def test_matrices_by_index(experts: int, shared: bool) -> None:
    """With few experts all products are computed, with many the matrices are gathered."""
    a, b = values(experts, 5, 8), values(4, 1 if shared else 2, 8)
    ids = rng.integers(0, experts, (4, 2))
    expected = np.empty((4, 2, 5))
    for token, use in np.ndindex(4, 2):
        expected[token, use] = a.numpy()[ids[token, use]].astype(float) @ b.numpy()[token, 0 if shared else use]
    np.testing.assert_allclose(nt.mul_mat_id(a, b, nt.from_numpy(ids)).numpy(), expected, 1e-5, 1e-5)


def test_a_sequence_in_two_parts_is_the_same_sequence() -> None:
    """The returned states continue the recurrence."""
    operands, state = [values(6, 2, 4) for _ in range(4)], values(1, 2, 4, 4)
    whole, last = nt.gated_linear_attn(*operands, state)
    first, between = nt.gated_linear_attn(*(x[:4] for x in operands), state)
    second, end = nt.gated_linear_attn(*(x[4:] for x in operands), between)
    np.testing.assert_allclose(nt.cat([first, second]).numpy(), whole.numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(end.numpy(), last.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangles(left: bool, lower: bool, unit: bool) -> None:
    square = (values(2, 4, 4) + 4 * nt.eye(4)).numpy()
    triangle = np.tril(square) if lower else np.triu(square)
    if unit:
        triangle[..., range(4), range(4)] = 1
    b = values(2, 4, 3) if left else values(2, 3, 4)
    x = nt.solve_tri(nt.from_numpy(square), b, left, lower, unit).numpy()
    product = triangle.astype(float) @ x if left else x @ triangle.astype(float)
    np.testing.assert_allclose(product, b.numpy(), 1e-4, 1e-4)


def test_windows_and_back() -> None:
    for height, width, window in ((4, 6, 2), (5, 7, 3), (2, 2, 5)):
        image = values(height, width, 3)
        windows = nt.win_part(image, window)
        assert windows.shape == (-(-height // window) * -(-width // window), window, window, 3)
        assert nt.win_unpart(windows, width, height, window).tolist() == image.tolist()


X, S = nt.ones(2, 3), nt.zeros(1, 1, 2, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nt.mul_mat_id(X, X, X),
        lambda: nt.add_id(X, X, X),
        lambda: nt.acc(X, nt.ones(2, 2), (0, 2)),
        lambda: nt.set(X, nt.ones(1), (0, 0)),
        lambda: nt.ssm_conv(X, X),
        lambda: nt.ssm_scan(X, X, X, X, X, X, X),
        lambda: nt.rwkv_wkv6(X, X, X, X, X, S),
        lambda: nt.rwkv_wkv7(*[nt.ones(3, 1, 2)] * 6, nt.zeros(2, 1, 2, 2)),
        lambda: nt.gated_linear_attn(*[nt.ones(2, 1, 2)] * 4, X),
        lambda: nt.gated_delta_net(X, X, X, X, X, S),
        lambda: nt.solve_tri(X, X),
        lambda: nt.im2col(X, (2, 2)),
        lambda: nt.win_part(X, 2),
        lambda: nt.win_unpart(nt.ones(2, 2, 2, 1), 5, 5, 2),
        lambda: nt.get_rel_pos(X, 2, 2),
        lambda: nt.add_rel_pos(X, X, X),
        lambda: nt.timestep_embedding(X, 4),
        lambda: nt.rope(nt.ones(2, 1, 4), nt.arange(2), mode="mrope"),
    ],
)
def test_errors_name_wrong_shapes(call: Callable[[], Any]) -> None:
    with pytest.raises(nt.ShapeError, match=r"^\w+\(.*recorded at test_ggml"):
        call()
