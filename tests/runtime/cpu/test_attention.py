"""The kernel of attention, for several instruction sets and through the public function, against PyTorch in float64."""

import ctypes
import math
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_harness import LEVELS, target

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.config import config
from npu_tensor.nn import functional as F
from npu_tensor.runtime.cpu.attention_kernel import KEYS, NUMBERS, VECTORS, AttentionSpec, attention_module
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.target import CpuTarget

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
TOLERANCE = {"rtol": 1e-5, "atol": 2e-6}


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


def expected(query: Any, key: Any, value: Any, mask: Any = None, **options: Any) -> Any:
    q, k, v = (torch.tensor(each).double() for each in (query, key, value))
    added = None if mask is None else torch.tensor(mask)
    if mask is not None and mask.dtype != bool:
        added = added.double()
    function = torch.nn.functional.scaled_dot_product_attention
    return function(q, k, v, added, enable_gqa=q.shape[-3] != k.shape[-3], **options).numpy()


def kernels(tensor: nt.Tensor) -> set[str]:
    return {row.kernel for row in nt.explain(tensor)} - {"none"}  # Views have none.


@cache
def engine(level: str) -> Engine:
    return Engine(target(level).create_target_machine(), level, config.cache_dir)


def run(level: str, query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> Any:
    """Run the kernel on operands of one batch (tokens, heads, features). The mask is (heads, queries, keys)."""
    (queries, heads, features), (keys, groups, value_features) = query.shape, value.shape
    shared = mask is not None and not any(mask.strides[:2])
    rows = heads // groups * queries
    panels = -(-rows // (VECTORS * target(level).lanes))
    numbers = dict.fromkeys(NUMBERS, 0) | {
        "rows": rows,
        "queries": queries,
        "keys": keys,
        "features": features,
        "value_features": value_features,
        "panels": panels,
        "groups": groups,
        "group": heads // groups,
    }
    for name, array in (("query", query), ("key", key), ("value", value)):
        for axis, stride in zip(("token", "head", "feature"), array.strides, strict=True):
            if f"{name}_{axis}" in numbers:
                numbers[f"{name}_{axis}"] = stride
    if mask is not None:
        for axis, stride in zip(("head", "query", "key"), mask.strides, strict=True):
            numbers[f"mask_{axis}"] = stride // mask.itemsize
    meta = np.array([numbers[name] for name in NUMBERS], np.int64)
    result = np.full((queries, heads, value_features), np.nan, np.float32)
    spec = AttentionSpec("" if mask is None else mask.dtype.name, shared, is_causal)
    code = engine(level).compile(attention_module(spec, target(level)), "kernel")
    scale = np.array(1 / math.sqrt(features)).view(np.int64).item()
    arrays = [each.ctypes.data for each in (result, query, key, value)]
    pointers = np.array([*arrays, scale, *([] if mask is None else [mask.ctypes.data])], np.int64)
    KERNEL(code["kernel"])(pointers.ctypes.data, meta.ctypes.data, 0, groups * panels)
    return result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float32", "shared bool", "shared float32"])
def test_levels(level: str, kind: str) -> None:
    """Extents that are not multiples of a block, a panel, a tile or a vector; keys and values are not row-major."""
    queries, keys, heads, groups = 21, KEYS + 7, 6, 2
    query = normal(queries, heads, 19)
    key, value = normal(groups, 19, keys).transpose(2, 0, 1), normal(11, keys, groups).transpose(1, 2, 0)
    mask = None
    if "bool" in kind or "float32" in kind:
        mask = normal(*((1, 1, keys) if "shared" in kind else (heads, queries, keys)))
        mask = mask > 0 if "bool" in kind else np.where(mask > 1, np.float32(-math.inf), mask)
        if "shared" not in kind:
            mask[1, 2] = False if "bool" in kind else -math.inf  # A query without keys.
        mask = np.broadcast_to(mask, (heads, queries, keys))
    result = run(level, query, key, value, mask, kind == "causal")
    q, k, v = (each.swapaxes(0, 1) for each in (query, key, value))
    theirs = expected(q, k, v, mask, is_causal=kind == "causal")
    np.testing.assert_allclose(result, theirs.swapaxes(0, 1), **TOLERANCE)


AARCH64 = CpuTarget("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"}))
AVX512 = CpuTarget(
    "x86_64-unknown-linux-gnu",
    "skylake-avx512",
    frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c", "64bit"}),
)


@pytest.mark.parametrize("made_for", [AARCH64, AVX512], ids=["aarch64", "avx512"])
@pytest.mark.parametrize("mask", ["", "bool", "float32"])
def test_code_for_other_processors(made_for: CpuTarget, mask: str) -> None:
    module = llvm.parse_assembly(attention_module(AttentionSpec(mask, False, not mask), made_for))
    module.verify()
    assert made_for.create_target_machine().emit_object(module)


@pytest.mark.parametrize("features", [1, 4, 32, 64, 80, 96, 100, 128])
def test_widths(features: int) -> None:
    query, key = normal(2, 3, 20, features), normal(2, 3, 33, features)
    value = normal(2, 3, 33, features + 3)
    mixed = F.scaled_dot_product_attention(*map(nt.from_numpy, (query, key, value)))
    assert "attention" in kernels(mixed)
    np.testing.assert_allclose(mixed.numpy(), expected(query, key, value), **TOLERANCE)


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 40), (2, 1, 1, 40), (2, 4, 1, 40), (1, 1, 32, 40), (1, 4, 32, 1), (32, 40), (4, 32, 40)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["bool", "float32", "float16"])
def test_masks(shape: tuple[int, ...], dtype: str) -> None:
    query, key, value = normal(2, 4, 32, 8), normal(2, 2, 40, 8), normal(2, 2, 40, 8)
    mask = normal(*shape, seed=1)
    mask = mask > -0.5 if dtype == "bool" else mask.astype(dtype)
    operands = map(nt.from_numpy, (query, key, value, mask))
    mixed = F.scaled_dot_product_attention(*operands, enable_gqa=True)
    assert "attention" in {row.op for row in nt.explain(mixed)}
    np.testing.assert_allclose(mixed.numpy(), expected(query, key, value, mask), **TOLERANCE)


def test_special_scores() -> None:
    """NaN and infinity spread as in PyTorch; large scores do not overflow."""
    query, key, value = normal(1, 3, 20, 4), normal(1, 3, 200, 4), normal(1, 3, 200, 4)
    query[0, 0, 0, 0], query[0, 0, 1] = math.nan, math.inf
    query[0, 1] *= 1e4
    key[0, 2, 150, 0] = math.nan
    mixed = F.scaled_dot_product_attention(*map(nt.from_numpy, (query, key, value))).numpy()
    np.testing.assert_allclose(mixed, expected(query, key, value), rtol=1e-4, atol=1e-4)
    hidden = np.ones((20, 200), bool)
    hidden[3] = False
    query[:], key[:] = 1, 1
    mixed = F.scaled_dot_product_attention(*map(nt.from_numpy, (query, key, value, hidden))).numpy()
    assert not mixed[0, :, 3].any()


@pytest.mark.parametrize("shape", [(0, 2, 20, 4), (1, 2, 20, 0)])
def test_empty_operands(shape: tuple[int, ...]) -> None:
    operands = [nt.zeros(*shape) for _ in "qkv"]
    assert F.scaled_dot_product_attention(*operands).shape == shape
    keys = nt.zeros(1, 2, 0, 4)
    assert not F.scaled_dot_product_attention(nt.ones(1, 2, 20, 4), keys, keys).numpy().any()


@pytest.mark.parametrize("dtype", [nt.float16, nt.bfloat16], ids=lambda dtype: dtype.name)
def test_16_bit_operands(dtype: Any) -> None:
    """Results are rounded once."""
    query, key, value = (nt.from_numpy(normal(1, 3, 24, 8, seed=seed)).to(dtype) for seed in range(3))
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert mixed.dtype is dtype
    theirs = expected(*(each.float().numpy() for each in (query, key, value)), is_causal=True)
    unit = 2.0 ** (-11 if dtype is nt.float16 else -8)
    np.testing.assert_allclose(mixed.float().numpy(), theirs, rtol=1.01 * unit, atol=1e-6)


def test_operands_are_not_copied() -> None:
    """Heads are views of (batch, tokens, heads, features), and so is their concatenation."""
    query, key, value = (nt.from_numpy(normal(2, 24, 3, 8, seed=seed)) for seed in range(3))
    mixed = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (query, key, value)))
    joined = mixed.transpose(1, 2).flatten(2)
    assert kernels(joined) == {"attention"}
    theirs = expected(*(each.numpy().swapaxes(1, 2) for each in (query, key, value)))
    np.testing.assert_allclose(joined.numpy(), theirs.swapaxes(1, 2).reshape(2, 24, 24), **TOLERANCE)


@pytest.mark.covers("attention")
def test_errors() -> None:
    x = nt.zeros(1, 4, 3, 8)
    for operands, error in (
        ((x, x[:, :3], x[:, :3]), nt.ShapeError),
        ((x, x, x[:, :, :2]), nt.ShapeError),
        ((x, x, x, nt.zeros(1, 2, 3, 3)), nt.ShapeError),
        ((x, x, x, nt.zeros(1, 1, 3, 3, dtype=nt.int32)), nt.DTypeError),
        ((x.double(), x, x), nt.DTypeError),
        ((x[0], x[0], x[0]), nt.ShapeError),
    ):
        with pytest.raises(error):
            ops.attention(*operands)
    wide = nt.zeros(1, 1, 2, 5000)
    (row,) = (row for row in nt.explain(ops.attention(wide, wide, wide)) if row.op == "attention")
    assert "features" in row.why
    assert not ops.attention(wide, wide, wide).numpy().any()
