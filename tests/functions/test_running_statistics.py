"""Training: dropout, running statistics, the row of padding, transposed convolutions."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(3)
IMAGES = ((4, 3, 5), (2, 3, 4, 5))


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


@pytest.mark.parametrize(
    ("name", "shape", "alike"),
    [("dropout", (64, 100), ()), ("dropout1d", (64, 50, 3), (2,)), ("dropout2d", (64, 50, 3, 2), (2, 3))],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_dropout(name: str, shape: tuple[int, ...], alike: tuple[int, ...], dtype: str) -> None:
    """The share p is zero, the rest divided by 1 - p; the gradient has the same zeros; the next call has others."""
    drop = getattr(nt, name)
    x = nt.ones(*shape, dtype=dtype)
    result, pull_back = nt.vjp(lambda x: drop(x, 0.25), x)
    assert result.dtype is x.dtype
    values = result.double().numpy()
    factor = nt.tensor(1 / 0.75, dtype=dtype).item()
    assert set(np.unique(values)) == {0.0, factor}
    assert np.ptp(values, axis=alike).max() == 0 if alike else True
    chosen = values[..., *(0 for _ in alike)]
    # The share of n draws has the deviation sqrt(0.25 * 0.75 / n).
    assert abs((chosen == 0).mean() - 0.25) < 5 * (0.1875 / chosen.size) ** 0.5
    np.testing.assert_array_equal(pull_back(nt.ones(*shape, dtype=dtype))[0].double().numpy(), values)
    assert (drop(x, 0.25) != result).any()
    assert drop(x, 0.0) is x
    assert drop(x, 0.25, training=False) is x
    assert not drop(x * nt.inf, 1.0).any()


def test_dropout_of_invalid_arguments() -> None:
    with pytest.raises(DTypeError, match="takes floats"):
        nt.dropout(nt.ones(3, dtype=nt.int32))
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ArgumentError, match="from 0 to 1"):
            nt.dropout(nt.ones(3), p)


def test_dropout_of_attention() -> None:
    """Each weight is dropped, or its key contributes its value times 1 / (1 - p)."""
    query, key = nt.zeros(1, 500, 4), nt.zeros(1, 2, 4)
    value = nt.tensor([[[1.0], [10.0]]])
    result = nt.scaled_dot_product_attention(query, key, value, dropout_p=0.5).numpy()
    assert set(np.unique(result)) == {0.0, 1.0, 10.0, 11.0}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("batch_norm", (6, 3)), *((f"{kind}_norm", shape) for kind in ("batch", "instance") for shape in IMAGES)],
)
@pytest.mark.parametrize("affine", [True, False])
def test_running_statistics(name: str, shape: tuple[int, ...], affine: bool) -> None:
    options = {"training": True} if name == "batch_norm" else {}
    x, mean, variance = normal(*shape), normal(3), normal(3) ** 2
    weights = [normal(3), normal(3)] if affine else []
    own = [torch.tensor(each) for each in (x, mean, variance, *weights)]
    ours = [nt.from_numpy(each) for each in (x, mean, variance, *weights)]
    for _ in range(3):
        expected = getattr(F, name)(*own, momentum=0.3, **options)
        result = getattr(nt, name)(*ours, momentum=0.3, **options).realize()
        assert ours[1].is_realized  # computed with the result
        assert ours[2].is_realized
    for actual, exact in zip((result, *ours), (expected, *own), strict=True):
        np.testing.assert_allclose(actual.numpy(), exact.numpy(), rtol=1e-12, atol=1e-12)


def test_running_statistics_are_constants_of_a_gradient() -> None:
    def of(lib: Any, array: Any, x: Any) -> Any:
        mean, variance = array(np.zeros(3)), array(np.ones(3))
        normal = lib.batch_norm(x, mean, variance, training=True)
        return (normal**3).sum() + (mean * variance).sum()

    x = normal(5, 3)
    leaf = torch.tensor(x, requires_grad=True)
    of(F, torch.tensor, leaf).backward()
    gradient = nt.grad(lambda x: of(nt, nt.from_numpy, x))(nt.from_numpy(x))
    np.testing.assert_allclose(gradient.numpy(), leaf.grad.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.covers("layer_norm_gradient", "rms_norm_gradient", "norm_weight_gradient", "standardize_gradient")
@pytest.mark.parametrize(("order", "dtype"), [(1, "float32"), (1, "float64"), (2, "float64")])
def test_gradients_of_norms(order: int, dtype: str) -> None:
    """Compare the gradients of all operands, and those of a product of them."""
    arrays = [each.astype(dtype) for each in (normal(3, 4, 2, 5), normal(4), normal(4), normal(2, 5), normal(2, 5))]

    def norms(lib: Any, x: Any, w: Any, b: Any, v: Any, c: Any) -> list[Any]:
        return [
            lib.batch_norm(x, None, None, w, b, True),
            lib.batch_norm(x, w.detach(), (b * b).detach(), b, w),
            lib.group_norm(x, 2, w, b),
            lib.instance_norm(x, None, None, w, b),
            lib.layer_norm(x, (2, 5), v, c),
            lib.layer_norm(x, (2, 5), v),
            lib.layer_norm(x, (2, 5), None, c),
            lib.rms_norm(x, (2, 5), v, 1e-5),
        ]

    leaves = [torch.tensor(each, requires_grad=True) for each in arrays]
    total = sum((each**3).sum() for each in norms(F, *leaves))
    if order == 2:
        total = (torch.autograd.grad(total, leaves[:1], create_graph=True)[0] * leaves[0] * 1e-2).sum()
    expected = torch.autograd.grad(total, leaves)

    def ours(*leaves: Any) -> Any:
        return sum((each**3).sum() for each in norms(nt, *leaves))

    def product(*leaves: Any) -> Any:
        return (nt.grad(ours)(*leaves) * leaves[0] * 1e-2).sum()

    for _ in range(3):  # The last call records the norms by their templates.
        gradients = nt.grad(ours if order == 1 else product, tuple(range(5)))(*map(nt.from_numpy, arrays))
    tolerance = {"float32": 2e-4, "float64": 1e-10}[dtype]
    for actual, exact in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual.numpy(), exact.numpy(), rtol=tolerance, atol=tolerance * abs(exact).max())


def test_one_element_has_no_statistics() -> None:
    with pytest.raises(ShapeError, match="more than 1 value per channel"):
        nt.batch_norm(nt.ones(1, 3), nt.zeros(3), nt.ones(3), training=True)


@pytest.mark.parametrize("padding_idx", [1, -3])
def test_the_row_of_padding_has_no_gradient(padding_idx: int) -> None:
    places, weight = np.array([[0, 1], [3, 1]]), normal(4, 2)
    leaf = torch.tensor(weight, requires_grad=True)
    (F.embedding(torch.tensor(places), leaf, padding_idx) ** 2).sum().backward()
    gradient = nt.grad(lambda w: (nt.embedding(nt.from_numpy(places), w, padding_idx) ** 2).sum())
    np.testing.assert_array_equal(gradient(nt.from_numpy(weight)).numpy(), leaf.grad.numpy())
    with pytest.raises(ArgumentError, match="padding_idx 4 is not one of 4"):
        nt.embedding(nt.from_numpy(places), nt.from_numpy(weight), 4)


@pytest.mark.parametrize(
    ("shape", "weight", "options", "error"),
    [
        ((2, 4, 5), (3, 2, 3), {}, ShapeError),
        ((2, 4, 5), (4, 2, 3), {"groups": 3}, ShapeError),
        ((2, 4, 5), (4, 2, 3), {"output_padding": 1}, ArgumentError),
        ((2, 4, 5), (4, 2, 3), {"stride": 0}, ArgumentError),
        ((2, 4, 2), (4, 2, 1), {"padding": 3}, ShapeError),
    ],
)
def test_transposed_convolutions_with_wrong_shapes(shape: Any, weight: Any, options: Any, error: Any) -> None:
    with pytest.raises(error, match="conv_transpose1d"):
        nt.conv_transpose1d(nt.ones(*shape), nt.ones(*weight), **options)
