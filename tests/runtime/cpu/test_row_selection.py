"""The largest and smallest elements of rows by one compiled kernel, against a stable sort."""

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "uint8", "int64", "bool"])
@pytest.mark.parametrize(
    ("shape", "dim", "k"),
    [((1,), 0, 1), ((5, 40), 1, 3), ((40, 5), 0, 32), ((3, 17, 4), 1, 17), ((2, 3, 333), 2, 1), ((6, 100), -1, 20)],
)
def test_selected_elements(shape: tuple[int, ...], dim: int, k: int, dtype: str) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 2 if dtype == "bool" else 250 if dtype == "uint8" else 100, shape).astype(np.float64)
    if dtype.startswith(("float", "bfloat")):
        x[random.random(shape) < 0.1] = np.nan
        x[random.random(shape) < 0.1] = -np.inf
    tensor = nt.from_numpy(x).to(getattr(nt, dtype)).realize()
    for largest in (True, False):
        values, indices = tensor.topk(k, dim, largest)
        assert [row.kernel for row in nt.explain(indices) if row.op == "top_indices"] == ["selection"]
        keys = np.where(np.isnan(x), np.inf, x)  # No element is inf otherwise.
        expected = np.argsort(-keys if largest else keys, dim, kind="stable").take(range(k), dim)
        np.testing.assert_array_equal(indices.numpy(), expected)
        np.testing.assert_array_equal(values.to(nt.float64).numpy(), np.take_along_axis(x, expected, dim))


def test_views_and_threads() -> None:
    x = np.random.default_rng(0).standard_normal((300, 12, 80), np.float32)
    expected = np.argsort(-x[:, ::-2, ::2].transpose(2, 0, 1), 1, kind="stable")[:, :4]
    result = nt.from_numpy(x).flip(1)[:, ::2, ::2].permute(2, 0, 1).topk(4, 1)
    np.testing.assert_array_equal(result.indices.numpy(), expected)
