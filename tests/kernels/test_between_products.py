"""Ops between products with quantized weights, in the configuration of the products, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_tasks import accepted, nmse, simulate, target, task_of
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.kernels import families
from npu_tensor.kernels.block_order import FORMATS
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.kernels.quantized import between_products
from npu_tensor.nn import functional as F
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.npu.packing import form_of
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.task import Task

Array = np.ndarray[Any, Any]

pytestmark = needs_compiler
generations = pytest.mark.parametrize("generation", SIMULATED)

# Less than a unit, units and a half, rows of SmolLM2 and of Llama 3.2 1B.
LENGTHS = [32, 96, 576, 2048]

OPS: dict[str, tuple[Callable[..., nt.Tensor], Callable[..., Array]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "gated": (lambda a, b: F.silu(a) * b, lambda a, b: a / (1 + np.exp(-a)) * b),
    "gated from the right": (lambda a, b: b * F.silu(a), lambda a, b: a / (1 + np.exp(-a)) * b),
    "norm": (
        lambda a, b: nt.rms_norm(a, a.shape[-1:], b, 1e-3),
        lambda a, b: a / np.sqrt((a**2).mean() + 1e-3) * b,
    ),
}


def rows(length: int, scale: float = 1.0) -> list[nt.Tensor]:
    random = np.random.default_rng(length)
    numbers = (random.standard_normal(length, np.float32) * np.float32(scale) for _ in range(2))
    return [nt.from_numpy(each).to(nt.bfloat16).realize() for each in numbers]


def wide(x: nt.Tensor) -> Array:
    numbers: Array = x.float().numpy().astype(np.float64)
    return numbers


def computed(result: nt.Tensor, where: Target, dtype: str, *operands: nt.Tensor) -> Array:
    """Return a result on the simulated array. The operands are in the order of the task."""
    task = task_of(result)
    offer = between_products.claim(FORMATS[dtype], where, task)
    assert isinstance(offer, Offer)
    (found,) = simulate(task, offer, where, [operand.numpy() for operand in operands])
    return found.astype(np.float64)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OPS)
@generations
def test_against_float64(generation: str, name: str, length: int) -> None:
    """Results are rounded once, to bfloat16."""
    record, formula = OPS[name]
    a, b = rows(length)
    found = computed(record(a, b), target(generation), "q4_1", a, b)
    np.testing.assert_allclose(found, formula(*map(wide, (a, b))), rtol=2**-8, atol=1e-30)


@pytest.mark.parametrize("dtype", {str(format): name for name, format in FORMATS.items()}.values())
def test_each_format_of_blocks(dtype: str) -> None:
    """Objects have different sizes, and products change x where a code has 4 bits."""
    for record, formula in OPS.values():
        a, b = rows(1024)
        found = computed(record(a, b), target("npu2"), dtype, a, b)
        np.testing.assert_allclose(found, formula(*map(wide, (a, b))), rtol=2**-8, atol=1e-30)


@pytest.mark.parametrize(("generation", "columns"), [("npu1", 1), ("npu2", 3)])
def test_some_columns(generation: str, columns: int) -> None:
    record, formula = OPS["norm"]
    a, b = rows(1504)
    found = computed(record(a, b), target(generation, columns), "q8_0", a, b)
    np.testing.assert_allclose(found, formula(*map(wide, (a, b))), rtol=2**-8, atol=1e-30)


@pytest.mark.parametrize("mode", ["normal", "neox"])
@pytest.mark.parametrize(("heads", "features"), [(1, 64), (5, 128), (32, 64)])
@generations
def test_rotations(generation: str, heads: int, features: int, mode: str) -> None:
    """One position far from the start, scaled like a context that was extended by YaRN."""
    (x,), place = rows(heads * features)[:1], 131_071
    rotated = nt.rope(
        x.reshape(1, heads, features),
        nt.from_numpy(np.array([place], np.int32)),
        mode=mode,
        freq_base=500_000.0,
        attn_factor=0.75,
    )
    task = task_of(rotated)
    offer = between_products.claim(FORMATS["q4_1"], target(generation), task)
    assert isinstance(offer, Offer)
    (found,) = simulate(task, offer, target(generation), [x.numpy(), np.array([place], np.int32)])
    pairs = wide(x).reshape(heads, -1, 2) if mode == "normal" else wide(x).reshape(heads, 2, -1).swapaxes(1, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(
        1j * place * 500_000.0 ** (-np.arange(features // 2) * 2 / features)
    )
    expected = 0.75 * np.stack([turned.real, turned.imag], -1 if mode == "normal" else 1).reshape(1, heads, features)
    # Sums of two products of up to 4, whose factors have 17 bits.
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2**-8, atol=2**-14)


def test_other_rotations_are_left_to_their_family() -> None:
    x, position = nt.zeros(1, 4, 64, dtype=nt.bfloat16).realize(), nt.zeros(1, dtype=nt.int32).realize()
    left = [
        nt.rope(x, position, n_dims=32),
        nt.rope(x, position, nt.ones(32).realize()),
        nt.rope(x.float().realize(), position),
        nt.rope(x.reshape(1, 8, 32), position),
        nt.rope(nt.zeros(1, 1, 512, dtype=nt.bfloat16).realize(), position),
        nt.rope(nt.zeros(2, 4, 64, dtype=nt.bfloat16).realize(), nt.zeros(2, dtype=nt.int32).realize()),
    ]
    found = [between_products.claim(FORMATS["q4_1"], target("npu2"), task_of(result)) for result in left]
    assert found == [None] * len(left)


@pytest.mark.parametrize("name", OPS)
def test_rows_within_a_tensor(name: str) -> None:
    """Parts of a product with stacked weights. A channel reads objects from where the row begins."""
    record, formula = OPS[name]
    whole, _ = rows(2 * 576 + 30)
    task = task_of(record(*rows(576)))

    def views(*offsets: int) -> Task:
        """Return the task on rows that begin at these elements."""
        layouts = [Layout((576,), (1,), offset) for offset in offsets]
        inputs = (source._replace(layout=each) for source, each in zip(task.tensors, layouts, strict=True))
        return task._replace(inputs=tuple(inputs))

    offer = between_products.claim(FORMATS["q4_1"], target("npu2"), views(2, 602))
    assert isinstance(offer, Offer)
    (found,) = simulate(task, offer, target("npu2"), [whole.numpy()] * 2)
    a, b = (wide(whole)[first : first + 576] for first in (2, 602))
    np.testing.assert_allclose(found.astype(np.float64), formula(a, b), rtol=2**-8, atol=1e-30)
    assert between_products.claim(FORMATS["q4_1"], target("npu2"), views(2, 601)) is None


@generations
def test_numbers_that_are_not_finite(generation: str) -> None:
    a, b = rows(96)
    special = a.float().numpy().copy()
    special[[3, 40, 70]] = np.nan, np.inf, -np.inf
    a = nt.from_numpy(special).to(nt.bfloat16).realize()
    for name in ("add", "gated"):
        record, formula = OPS[name]
        with np.errstate(all="ignore"):
            expected = formula(*map(wide, (a, b)))
        found = computed(record(a, b), target(generation), "q4_1", a, b)
        np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-30)


@generations
def test_all_are_in_the_configuration_of_products_and_in_place(generation: str) -> None:
    where, a, b = target(generation), *rows(2048)
    weights = nt.quantize(nt.zeros(64, 2048), "q4_1").realize()
    product = families.claim(task_of(F.linear(a, weights)), where)
    assert isinstance(product, Offer)
    assert product.claim_within is not None
    assert product.claim_within(task_of(F.linear(a, weights))) is None
    for record, _ in OPS.values():
        offer = product.claim_within(task_of(record(a, b)))
        assert isinstance(offer, Offer)
        assert accepted(offer).configuration == accepted(product).configuration
        assert [form_of(operand, nt.bfloat16) for operand in offer.operands] == [None] * 3


def test_what_is_left_to_other_kernels() -> None:
    where, format = target("npu2"), FORMATS["q4_1"]
    (a, b), (long, long_too) = rows(2048), rows(8192)
    left = [
        a * b,
        a + b[:1],
        a.float() + b.float(),
        nt.rms_norm(a, (2048,), b, 0.0),
        nt.rms_norm(a.reshape(2, 1024), (1024,), b[:1024]),
        nt.rms_norm(long, (8192,), long_too),
    ]
    deep = a
    for _ in range(30):  # As a tree, it would have a billion instructions.
        deep = deep * deep + b
    left.append(deep)
    assert [between_products.claim(format, where, task_of(result)) for result in left] == [None] * len(left)


@generations
def test_a_layer_shares_one_configuration(generation: str) -> None:
    random = np.random.default_rng(1)

    def weight(rows: int, features: int) -> nt.Tensor:
        numbers = random.standard_normal((rows, features), np.float32) / np.float32(features**0.5)
        return nt.quantize(nt.from_numpy(numbers), "q4_1")

    mixed, gate, up, down = weight(576, 576), weight(1536, 576), weight(1536, 576), weight(576, 1536)
    scale, x = rows(576)

    def layer(x: nt.Tensor) -> nt.Tensor:
        x = x + F.linear(x, mixed)
        y = nt.rms_norm(x, (576,), scale, 1e-5)
        return x + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)

    a, gate_, up_, down_ = (each.dequantize().numpy().astype(np.float64) for each in (mixed, gate, up, down))
    expected = wide(x) + a @ wide(x)
    normed = expected / np.sqrt((expected**2).mean() + 1e-5) * wide(scale)
    gated = gate_ @ normed
    expected = expected + down_ @ (gated / (1 + np.exp(-gated)) * (up_ @ normed))
    with nt.default_device(f"sim:{generation}"):
        result = layer(x)
        rows_ = [row for row in nt.explain(result) if row.device == f"sim:{generation}"]
        found = wide(result)
    assert {row.kernel for row in rows_ if "fused" not in row.kernel} == {"quantized"}
    assert any("rms_norm of a row of 576 in the configuration of products" in row.why for row in rows_)
    assert nmse(found, expected) <= 1e-4


@generations
def test_heads_are_rotated_between_products(generation: str) -> None:
    """The host makes the table of a position once for both results."""
    numbers = np.random.default_rng(2).standard_normal((576, 576), np.float32) / np.float32(24)
    weights, place = nt.quantize(nt.from_numpy(numbers), "q4_1"), 77
    x, _ = rows(576)
    position = nt.from_numpy(np.array([place], np.int32))

    def rotated(projected: nt.Tensor, heads: int) -> nt.Tensor:
        return nt.rope(projected.reshape(1, heads, -1), position)

    with nt.default_device(f"sim:{generation}"):
        q = rotated(F.linear(x, weights), 9)
        k = rotated(F.linear(q.reshape(576), weights)[:192], 3)
        names = [row.kernel for row in nt.explain(k) if row.device == f"sim:{generation}"]
        found = wide(k)
    assert {name for name in names if "fused" not in name} == {"quantized"}
    matrix = weights.dequantize().numpy().astype(np.float64)

    def formula(row: Array) -> Array:
        pairs = row.reshape(-1, 32, 2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * place * 1e4 ** (-np.arange(32) / 32))
        result: Array = np.stack([turned.real, turned.imag], -1).reshape(-1)
        return result

    expected = formula((matrix @ formula(matrix @ wide(x)))[:192]).reshape(found.shape)
    assert nmse(found, expected) <= 1e-4
