"""Products of float32 with 16-bit caches and weights, against PyTorch or NumPy in float64."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.nn import functional as F

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")


@pytest.mark.parametrize("dtype", [nt.float32, nt.float16, nt.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("tokens", [1, 5])
def test_groups_of_heads_read_a_cache_in_place(dtype: Any, tokens: int) -> None:
    """Groups of three of six heads share keys and values; the cache is (positions, heads, features)."""
    random = np.random.default_rng(9)
    query = nt.from_numpy(random.standard_normal((6, tokens, 16), np.float32))
    keys, values = (nt.from_numpy(random.standard_normal((11, 2, 16), np.float32)).to(dtype).realize() for _ in "kv")
    mask = nt.arange(11) <= nt.arange(3, 3 + tokens).unsqueeze(1)
    mixed = F.scaled_dot_product_attention(query, keys.transpose(0, 1), values.transpose(0, 1), mask, enable_gqa=True)
    # Products, the ops between them, and the mask; no copies of keys or values.
    assert {row.op for row in nt.explain(mixed)}.isdisjoint({"repeat", "take", "copy", "expand", "convert"})
    q, k, v = (
        torch.tensor(x.float().numpy(), dtype=torch.float64)
        for x in (query, keys.transpose(0, 1), values.transpose(0, 1))
    )
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, torch.tensor(mask.numpy()), enable_gqa=True)
    assert mixed.dtype is nt.float32
    np.testing.assert_allclose(mixed.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [nt.float16, nt.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("lead", [(), (1,), (3,), (2, 5), (40,)], ids=str)
def test_linear(dtype: Any, lead: tuple[int, ...]) -> None:
    random = np.random.default_rng(10)
    x, weight = random.standard_normal((*lead, 64), np.float32), random.standard_normal((33, 64), np.float32)
    weights = nt.from_numpy(weight).to(dtype)
    out = F.linear(nt.from_numpy(x), weights)
    assert out.dtype is nt.float32
    expected = x.astype(np.float64) @ weights.float().numpy().astype(np.float64).T
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=2e-5)


def test_other_mixtures_are_errors() -> None:
    half, single = nt.ones(2, 3, 4, dtype=nt.float16), nt.ones(2, 3, 4)
    for query, key in ((half, single), (single, single.double()), (single, single.int())):
        with pytest.raises(nt.DTypeError, match="one dtype"):
            F.scaled_dot_product_attention(query, key, key)
        with pytest.raises(nt.DTypeError, match="one dtype"):
            F.linear(query[0], key[0])
    with pytest.raises(nt.DTypeError, match="one dtype"):
        single @ half.mT
