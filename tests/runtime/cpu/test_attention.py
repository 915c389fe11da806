"""The kernel of attention, for several instruction sets and through the public function, against PyTorch in float64."""

import math
from typing import Any

import numpy as np
import pytest
from kernel_harness import AARCH64, AVX512, LEVELS, assembly, run_op

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.dtypes import as_dtype
from npu_tensor.nn import functional as F
from npu_tensor.runtime.cpu.attention_kernel import KEYS, AttentionSpec, attention_module, gradient_module
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.spec import Spec

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

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


def strided(features: int, value_features: int) -> list[Any]:
    """Return query, key and value whose extents do not fill whole blocks, panels, tiles or vectors."""
    query, keys = normal(1, 21, 6, features).swapaxes(1, 2), KEYS + 7
    key = normal(1, 2, features, keys).swapaxes(2, 3)
    return [query, key, normal(1, value_features, keys, 2).transpose(0, 3, 2, 1)]


def computed(
    op: Any, level: str, operands: Any, mask: Any, attributes: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> Any:
    arrays = [*operands, *([] if mask is None else [mask])]
    specs = tuple(Spec.of(each.shape, as_dtype(each.dtype.name)) for each in arrays)
    return run_op(level, op.op.call(specs, attributes), arrays, monkeypatch)


def mask_of(kind: str, heads: int, queries: int, keys: int) -> Any:
    if "bool" not in kind and "float32" not in kind:
        return None
    mask = normal(*((1, 1, keys) if "shared" in kind else (heads, queries, keys)))
    mask = mask > 0 if "bool" in kind else np.where(mask > 1, np.float32(-math.inf), mask)
    if "shared" not in kind:
        mask[1, 2] = False if "bool" in kind else -math.inf  # A query without keys.
        mask[0, :16, :KEYS] = False if "bool" in kind else -math.inf  # A block without queries.
    return np.broadcast_to(mask, (1, heads, queries, keys))


KINDS = ["none", "causal", "bool", "float32", "shared bool", "shared float32"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_levels(level: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operands = strided(19, 11)
    mask = mask_of(kind, 6, 21, KEYS + 7)
    attributes = 1 / math.sqrt(19), kind == "causal", 0.0
    result = computed(ops.attention, level, operands, mask, attributes, monkeypatch)
    theirs = expected(*operands, mask, is_causal=kind == "causal")
    np.testing.assert_allclose(result, theirs.swapaxes(1, 2), **TOLERANCE)


def expected_gradients(gradient: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> list[Any]:
    """Return the gradients of query, key and value, (heads, tokens, features). Queries without keys have none."""
    tensors = [torch.tensor(each).double().requires_grad_() for each in (query, key, value)]
    q, (k, v) = tensors[0], (each.repeat_interleave(len(query) // len(key), 0) for each in tensors[1:])
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -1e30)
    if mask is not None:
        added = torch.tensor(np.where(mask, 0, -math.inf) if mask.dtype == bool else mask).double()
        scores = scores + added.clamp(-1e30)
    weights = scores.softmax(-1) * (scores.amax(-1, True) > -1e29)
    (weights @ v).backward(torch.tensor(gradient).double())
    return [each.grad.numpy() for each in tensors]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("features", [(19, 11), (3, 32)])
def test_levels_of_gradients(level: str, kind: str, features: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    operands, gradient = strided(*features), normal(1, 21, 6, features[1])
    mask, is_causal = mask_of(kind, 6, 21, KEYS + 7), kind == "causal"
    delta = (expected(*operands, mask, is_causal=is_causal).swapaxes(1, 2) * gradient).sum(-1, dtype=np.float32)
    attributes = 1 / math.sqrt(features[0]), is_causal
    flat = computed(ops.attention_backward, level, [gradient, delta, *operands], mask, attributes, monkeypatch)
    theirs = expected_gradients(
        gradient[0].swapaxes(0, 1), *(each[0] for each in operands), None if mask is None else mask[0], is_causal
    )
    results = np.split(flat, np.cumsum([each.size for each in operands[:2]]))
    for ours, right in zip(results, theirs, strict=True):
        tokens = right.swapaxes(0, 1)
        np.testing.assert_allclose(ours.reshape(tokens.shape), tokens, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("made_for", [AARCH64, AVX512], ids=["aarch64", "avx512"])
@pytest.mark.parametrize("mask", ["", "bool", "float32"])
def test_code_for_other_processors(made_for: CpuTarget, mask: str) -> None:
    for made in (attention_module, gradient_module):
        assert assembly(made(AttentionSpec(mask, False, not mask), made_for), made_for)


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


@pytest.mark.covers("attention", "attention_backward")
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
    for gradient, delta in ((x, x[..., 0]), (nt.zeros(1, 3, 4, 8), x[..., 0])):
        with pytest.raises(nt.ShapeError, match="sums over features"):
            ops.attention_backward(gradient, delta, x, x, x)
    wide = nt.zeros(1, 1, 2, 5000)
    (row,) = (row for row in nt.explain(ops.attention(wide, wide, wide)) if row.op == "attention")
    assert "features" in row.why
    assert not ops.attention(wide, wide, wide).numpy().any()
    assert not ops.attention_backward(nt.zeros(1, 2, 1, 5000), nt.zeros(1, 2, 1), wide, wide, wide).numpy().any()


def test_few_queries_and_masks_with_gradients_use_products() -> None:
    query, key = nt.from_numpy(normal(1, 2, 20, 4)), nt.from_numpy(normal(1, 2, 30, 4))
    mask = nt.from_numpy(normal(20, 30))

    def recorded(*operands: nt.Tensor) -> set[str]:
        return {row.op for row in nt.explain(F.scaled_dot_product_attention(*operands))}

    assert "attention" in recorded(query, key, key, mask)
    assert "contract" in recorded(query[:, :, :1], key, key)
    assert "contract" in recorded(query, key, key, mask.requires_grad_())
    with nt.no_grad():
        assert "attention" in recorded(query, key, key, mask)


GRADIENTS = [
    ((2, 4, 37, 19), (2, 2, 210, 19), 11, None, False),
    ((1, 2, 100, 64), (1, 2, 100, 64), 64, None, True),
    ((2, 2, 20, 8), (2, 1, 33, 8), 8, (20, 33), False),
    ((2, 2, 20, 80), (2, 2, 33, 80), 80, (2, 1, 1, 33), False),
    ((3, 20, 8), (3, 33, 8), 5, None, False),
]


@pytest.mark.parametrize(("query_shape", "key_shape", "value_features", "mask_shape", "is_causal"), GRADIENTS)
def test_gradients(query_shape: Any, key_shape: Any, value_features: int, mask_shape: Any, is_causal: bool) -> None:
    arrays = [normal(*query_shape), normal(*key_shape), normal(*key_shape[:-1], value_features)]
    seed = normal(*query_shape[:-1], value_features, seed=1)
    mask = None if mask_shape is None else normal(*mask_shape)
    if mask is not None and mask.ndim == 4:
        mask = mask > -0.5
    tensors = [torch.tensor(each).double().requires_grad_() for each in arrays]
    added = None if mask is None else torch.tensor(mask) if mask.ndim == 4 else torch.tensor(mask).double()
    function = torch.nn.functional.scaled_dot_product_attention
    function(*tensors, added, is_causal=is_causal, enable_gqa=len(query_shape) == 4).backward(
        torch.tensor(seed).double()
    )
    own = [nt.from_numpy(each).requires_grad_() for each in arrays]
    given = None if mask is None else nt.from_numpy(mask)
    mixed = F.scaled_dot_product_attention(*own, given, is_causal=is_causal, enable_gqa=len(query_shape) == 4)
    mixed.backward(nt.from_numpy(seed))
    gradients = [each.grad for each in own]
    assert "attention_backward" in {row.op for row in nt.explain(gradients[0])}
    for ours, theirs in zip(gradients, tensors, strict=True):
        assert ours is not None
        np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [nt.float16, nt.bfloat16], ids=lambda dtype: dtype.name)
def test_gradients_of_16_bit_operands(dtype: Any) -> None:
    own = [nt.from_numpy(normal(1, 3, 24, 8, seed=seed)).to(dtype).requires_grad_() for seed in range(3)]
    F.scaled_dot_product_attention(*own).sum().backward()
    arrays = [each.detach().float().numpy()[0] for each in own]
    theirs = expected_gradients(np.ones((3, 24, 8)), *arrays, None, False)
    for each, right in zip(own, theirs, strict=True):
        assert each.grad is not None
        assert each.grad.dtype is dtype
        np.testing.assert_allclose(each.grad.float().numpy()[0], right, rtol=0.02, atol=0.02)


def test_gradients_of_queries_without_keys() -> None:
    hidden = np.ones((20, 33), bool)
    hidden[3] = False
    own = [nt.from_numpy(normal(1, 2, tokens, 8)).requires_grad_() for tokens in (20, 33, 33)]
    F.scaled_dot_product_attention(*own, nt.from_numpy(hidden)).sum().backward()
    arrays = [each.detach().numpy()[0] for each in own]
    theirs = expected_gradients(np.ones((2, 20, 8)), *arrays, np.broadcast_to(hidden, (2, 20, 33)), False)
    for each, right in zip(own, theirs, strict=True):
        assert each.grad is not None
        np.testing.assert_allclose(each.grad.numpy()[0], right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 2, 20, 4), (1, 2, 20, 0)])
def test_empty_gradients(shape: tuple[int, ...]) -> None:
    own = [nt.zeros(*shape).requires_grad_() for _ in "qkv"]
    F.scaled_dot_product_attention(*own).sum().backward()
    assert all(each.grad is not None and each.grad.shape == shape for each in own)


def test_second_derivatives() -> None:
    """Differentiate the norm of the gradients."""
    arrays = [normal(1, 2, 20, 4, seed=seed) for seed in range(3)]
    hidden = normal(20, 20) > 0

    def squared(q: Any, k: Any, v: Any) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return (F.scaled_dot_product_attention(q, k, v, nt.from_numpy(hidden)) ** 2).sum()

        return sum((each**2).sum() for each in nt.grad(loss, argnums=(0, 1, 2))(q, k, v))

    ours = nt.grad(squared, argnums=(0, 1, 2))(*map(nt.from_numpy, arrays))
    tensors = [torch.tensor(each).double().requires_grad_() for each in arrays]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        mixed = torch.nn.functional.scaled_dot_product_attention(*tensors, torch.tensor(hidden))
    first = torch.autograd.grad((mixed**2).sum(), tensors, create_graph=True)
    theirs = torch.autograd.grad(sum((each**2).sum() for each in first), tensors)
    for own, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own.numpy(), right.numpy(), rtol=1e-4, atol=1e-4)


def test_gradient_of_a_mask() -> None:
    query, mask = nt.from_numpy(normal(1, 2, 20, 4)), normal(20, 20)

    def loss(mask: Any) -> Any:
        return (ops.attention(query, query, query, mask.reshape(1, 1, 20, 20), scale=0.5) ** 2).sum()

    tensor = torch.tensor(mask).double().requires_grad_()
    q = torch.tensor(query.numpy()).double()
    (torch.nn.functional.scaled_dot_product_attention(q, q, q, tensor) ** 2).sum().backward()
    assert tensor.grad is not None
    np.testing.assert_allclose(nt.grad(loss)(nt.from_numpy(mask)).numpy(), tensor.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_soft_cap_and_its_gradients() -> None:
    """Computed with NumPy: the compiled kernel has none."""
    arrays = [normal(1, heads, 20, 4, seed=seed) for seed, heads in enumerate((4, 2, 2))]
    arrays.append(normal(1, 1, 20, 20, seed=3))
    tensors = [torch.tensor(each).double().requires_grad_() for each in arrays]
    query, key, value, mask = tensors
    key, value = (each.repeat_interleave(2, 1) for each in (key, value))
    scores = 2 * torch.tanh(query @ key.mT * 0.5 / 2) + mask
    mixed = (scores.softmax(-1) @ value).transpose(1, 2)
    (mixed**2).sum().backward()
    own = [nt.from_numpy(each).requires_grad_() for each in arrays]
    ours = ops.attention(*own, scale=0.5, softcap=2.0)
    np.testing.assert_allclose(ours.detach().numpy(), mixed.detach().numpy(), rtol=1e-5, atol=1e-5)
    (ours**2).sum().backward()
    for each, right in zip(own, tensors, strict=True):
        assert each.grad is not None
        assert right.grad is not None
        np.testing.assert_allclose(each.grad.numpy(), right.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("max_bias", [0.0, 8.0])
@pytest.mark.parametrize("shape", [(20, 30), (1, 4, 24, 30), (2, 1, 20, 30)], ids=str)
def test_flash_attention_of_ggml(shape: tuple[int, ...], max_bias: float) -> None:
    """A soft cap needs the scores; one that changes nothing gives the expected result."""
    query, key, value = (nt.from_numpy(normal(*each)) for each in ((2, 4, 20, 8), (2, 2, 30, 8), (2, 2, 30, 5)))
    mask = nt.from_numpy(normal(*shape))
    mixed = nt.flash_attn_ext(query, key, value, mask, 0.5, max_bias)
    assert "attention" in {row.op for row in nt.explain(mixed)}
    theirs = nt.flash_attn_ext(query, key, value, mask, 0.5, max_bias, logit_softcap=1e4)
    assert "contract" in {row.op for row in nt.explain(theirs)}
    np.testing.assert_allclose(mixed.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)
