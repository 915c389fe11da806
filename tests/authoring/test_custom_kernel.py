"""Kernels that users write: their results, and what is said about broken ones."""

from __future__ import annotations

import dataclasses
import faulthandler
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from running import in_child

import npu_tensor as nt
from npu_tensor.authoring.apart import Failure, run_apart
from npu_tensor.authoring.custom_kernel import CustomKernel, _refuse
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.design import Design, Release, Transfer
from npu_tensor.examples import npu_kernels
from npu_tensor.kernels.dataflow_patterns import PATTERNS, CoreFunction, Pattern
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.task import Refusal, Task

pytestmark = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))

Array = np.ndarray[Any, Any]


def made(source: str, contract: Callable[..., Array], **options: Any) -> CustomKernel:
    contract.__name__ = "k"
    return nt.npu_kernel(source, **options)(contract)


def scale(a: Array) -> Array:
    return 3 * a


SCALE = """
void k(const int32 *__restrict a, int32 *__restrict out, int32 n) {
    for (int i = 0; i < n; i += 16)
        aie::store_v(out + i, aie::mul(aie::load_v<16>(a + i), int32(3)).template to_vector<int32>());
}
"""

KERNELS: dict[str, tuple[str, Callable[..., Array], dict[str, Any]]] = {
    "relu": (
        """
void k(const bfloat16 *a, bfloat16 *out, int32 n) {
    const auto zeros = aie::zeros<bfloat16, 32>();
    for (int i = 0; i < n; i += 32) aie::store_v(out + i, aie::max(aie::load_v<32>(a + i), zeros));
}
""",
        lambda a: np.maximum(a, 0),
        {},
    ),
}


KERNELS["gemm of int8"] = (
    """
void k(const int8 *a, const int8 *b, int32 *c) {
    constexpr unsigned m = tile::m, n = tile::n, r = tile::r, s = tile::s, t = tile::t;
    for (unsigned i = 0; i < m; ++i)
        for (unsigned j = 0; j < n; ++j) {
            int32 &sum = c[(i / r * n + j / t * t) * r + i % r * t + j % t];
            for (unsigned l = 0; l < tile::k; ++l)
                sum += a[l / s * s * m + i * s + l % s] * b[(l / s * n + j / t * t) * s + l % s * t + j % t];
        }
}
""",
    lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
    {"pattern": "gemm", "tolerance": 0},
)


KERNELS["sum and difference"] = (
    """
void k(const int32 *__restrict a, const int32 *__restrict b, int32 *__restrict sum, int32 *__restrict difference,
       int32 n) {
    for (int i = 0; i < n; i += 16) {
        const auto x = aie::load_v<16>(a + i), y = aie::load_v<16>(b + i);
        aie::store_v(sum + i, aie::add(x, y));
        aie::store_v(difference + i, aie::sub(x, y));
    }
}
""",
    lambda a, b: (a + b, a - b),
    {"tolerance": 0},
)
KERNELS["most and place"] = (
    """
void k(const int32 *a, int32 *most, int32 *place, int32 n) {
    *place = 0;
    for (int i = 1; i < n; ++i) if (a[i] > a[*place]) *place = i;
    *most = a[*place];
}
""",
    lambda a: (a.max(-1), a.argmax(-1)),
    {"pattern": "reduce", "tolerance": 0},
)
KERNELS["three operands"] = (
    """
void k(const int32 *a, const int32 *b, const int32 *c, int32 *out, int32 n) {
    for (int i = 0; i < n; i += 16) {
        const auto sum = aie::add(aie::load_v<16>(a + i), aie::load_v<16>(b + i));
        aie::store_v(out + i, aie::sub(sum, aie::load_v<16>(c + i)));
    }
}
""",
    lambda a, b, c: a + b - c,
    {"tolerance": 0},
)
KERNELS["five operands of two types"] = (
    """
void k(const float *a, const bfloat16 *b, const float *c, const bfloat16 *d, const bfloat16 *e,
       float *difference, float *sum, int32 n) {
    for (int i = 0; i < n; ++i) {
        difference[i] = a[i] - c[i];
        sum[i] = 4 * float(b[i]) + 2 * float(d[i]) - float(e[i]);
    }
}
""",
    lambda a, b, c, d, e: (a - c, 4 * b + 2 * d - e),
    {"pattern": "rows", "tolerance": 1e-6},
)
KERNELS["sum of three operands"] = (
    """
void k(const int16 *a, const int16 *b, const int16 *c, int32 *out, int32 n) {
    *out = 0;
    for (int i = 0; i < n; ++i) *out += a[i] - 2 * b[i] + 3 * c[i];
}
""",
    lambda a, b, c: (a - 2 * b.astype(np.int32) + 3 * c.astype(np.int32)).sum(-1, dtype=np.int32),
    {"pattern": "reduce", "tolerance": 0},
)
KERNELS["5x5 stencil"] = (
    """
void k(const int16 *a, const int16 *b, const int16 *c, const int16 *d, const int16 *e, int32 *out, int32 n) {
    const int16 *rows[5] = {a, b, c, d, e};
    for (int i = 0; i < n; ++i) {
        out[i] = 0;
        for (int y = 0; y < 5; ++y)
            for (int x = -2; x <= 2; ++x)
                if (i + x >= 0 && i + x < n) out[i] += (5 * y + x + 1) * rows[y][i + x];
    }
}
""",
    lambda a: sum(
        (5 * y + x - 1)
        * np.pad(np.pad(a.astype(np.int32), ((2, 2), (0, 0)), "edge"), ((0, 0), (2, 2)))[
            y : y + a.shape[0], x : x + a.shape[1]
        ]
        for y in range(5)
        for x in range(5)
    ),
    {"pattern": "neighbours", "tolerance": 0},
)
EXAMPLES = {kernel.name: kernel for kernel in npu_kernels.KERNELS}
FAST = ("blur", "scale", "dot", "layer_norm", "product", "five operands of two types", "5x5 stencil")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in (*EXAMPLES, *KERNELS)],
)
def test_kernels_hold_their_contracts_on_both_arrays(name: str) -> None:
    if name in KERNELS:
        source, contract, options = KERNELS[name]
        kernel = made(source, contract, **options)
    else:
        kernel = EXAMPLES[name]
    trials = kernel.test(seconds=120)
    assert len(trials) == 8
    assert trials, repr(trials)


def test_a_kernel_is_an_op() -> None:
    kernel = made(SCALE, scale, gradient=lambda gradient, a: (3 * gradient,))
    x = nt.arange(30).to(nt.int32).reshape(5, 6)
    for device in ("cpu", "sim:npu1", "sim:npu2?cols=1"):
        with nt.default_device(device):
            y = kernel(x.T) + 1
            assert nt.explain(y)[-2 if device != "cpu" else 0].device in (device, "cpu")
            np.testing.assert_array_equal(y.numpy(), 3 * x.T.numpy() + 1)
            np.testing.assert_array_equal(kernel(x[:0]).numpy(), x[:0].numpy())
    with nt.default_device("sim:npu2"):
        (row,) = nt.explain(kernel(x.realize()))
        assert (row.device, row.kernel) == ("sim:npu2", "custom")
        np.testing.assert_array_equal(nt.jit(kernel)(x).numpy(), 3 * x.numpy())


@pytest.mark.parametrize("name", ["scale", "dot", "layer_norm", "blur", "product"])
def test_each_pattern_computes_in_a_graph(name: str) -> None:
    kernel = EXAMPLES[name]
    values = np.random.default_rng(1).integers(-9, 9, (48, 40))
    dtypes = [dtype for _, dtype in kernel.function.operands]
    for strided in (False, True):
        operands = [nt.from_numpy(values.copy()).to(dtype).realize() for dtype in dtypes]
        operands = [each[1:41].T if strided else each for each in operands]
        if name == "product":
            operands[1] = operands[1].T
        with nt.default_device("sim:npu2"):
            result = kernel(*operands)
            assert nt.explain(result)[-1].device == "sim:npu2"
            computed = result.float().numpy()
        np.testing.assert_allclose(computed, kernel(*operands).float().numpy(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("pattern", ["map", "rows"])
def test_rows_need_not_be_evenly_spaced(pattern: str) -> None:
    kernel = made(SCALE, scale, pattern=pattern)
    x = nt.arange(2 * 7 * 34).to(nt.int32).reshape(7, 2, 34).realize().transpose(0, 1)[..., ::2]
    with nt.default_device("sim:npu2"):
        y = kernel(x)
        assert nt.explain(y)[-1].device == "sim:npu2"
        np.testing.assert_array_equal(y.numpy(), 3 * x.numpy())


def test_a_contract_of_a_module_named_like_one_of_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "__module__", "conv")
    kernel = made(SCALE, scale)
    with nt.default_device("sim:npu2"):
        assert kernel(nt.ones(5, dtype="int32")).tolist() == [3] * 5


def test_two_results_are_a_tuple() -> None:
    kernel = made(*KERNELS["sum and difference"][:2])
    for wrong, message in (
        (lambda a, b: a + b, r"returns 1 results, the C\+\+ 2"),
        (lambda a, b: (a + b, a.sum()), r"returns shape \[\], not \[5\]"),
    ):
        with pytest.raises(nt.ShapeError, match=message):
            made(KERNELS["sum and difference"][0], wrong).test((5,))
    assert repr(kernel) == "<npu_kernel k(a: int32, b: int32) -> int32, int32>"
    x, y = nt.arange(3000).to(nt.int32).reshape(30, 100), nt.full((30, 100), 7, dtype="int32")
    for device in ("cpu", "sim:npu1", "sim:npu2"):
        with nt.default_device(device):
            total, difference = kernel(x, y)
            np.testing.assert_array_equal((total * difference).numpy(), x.numpy() ** 2 - 49)
            most, place = made(*KERNELS["most and place"][:2], pattern="reduce")(-x)
            np.testing.assert_array_equal((most + place).numpy(), np.arange(30) * -100)
    scalar = "void k(const float *a, float *b, float *c, int32 n) { for (int i = 0; i < n; ++i) b[i] = c[i] = a[i]; }"
    copies = made(scalar, lambda a: (a, a), gradient=lambda of, a: (of.sum(0),))
    z = nt.ones(5, requires_grad=True)
    one, two = copies(z)
    (one + 2 * two).sum().backward()
    assert z.grad.tolist() == [3] * 5
    assert copies.cost((4096,)).counted.scalar == 2048
    assert "result1" in copies.iron((4096,))


@pytest.mark.parametrize(
    ("options", "elements"),
    [({"cores": 1}, 70001), ({"columns": 1, "depth": 1}, (1 << 20) + 5000), ({"tile": 64}, 70001)],
)
def test_operands_that_share_a_channel(options: dict[str, Any], elements: int) -> None:
    kernel = made(*KERNELS["three operands"][:2], **options)
    assert kernel.test((3000,), (elements,), targets=["npu1"], seconds=60)
    a, b, c = (nt.from_numpy(np.random.default_rng(seed).integers(-99, 99, (50, 90))).int().T for seed in range(3))
    with nt.default_device("sim:npu2"):
        result = kernel(a.realize(), b.realize(), c.realize())
        assert nt.explain(result)[-1].kernel == "custom"
        np.testing.assert_array_equal(result.numpy(), a.numpy() + b.numpy() - c.numpy())


def test_three_operands_of_one_type_are_limited_by_memory() -> None:
    kernel = made(*KERNELS["three operands"][:2])
    for target in ("npu1", "npu2"):
        cost = kernel.cost((1 << 18,), target=target)
        assert cost.bounds["control"] < cost.seconds < 1.5 * cost.bounds["ddr"]
        assert "acquire(3)" in kernel.iron((4096,), target=target)
    assert kernel.timeline((1 << 14,)).cycles > 0


def test_operands_of_three_types_are_refused() -> None:
    kernel = made("void k(const int32 *a, const int16 *b, const int8 *c, int32 *out) {}", lambda a, b, c: a)
    (problem,) = kernel.check()
    assert "3 operands of int32, int16, int8; a core has 2 input channels" in problem


@pytest.mark.parametrize("halo", [1, 3])
def test_windows_may_be_higher_than_the_image(halo: int) -> None:
    names = [f"r{number}" for number in range(2 * halo + 1)]
    source = f"""
void k({", ".join(f"const int32 *{name}" for name in names)}, int32 *out, int32 n) {{
    for (int i = 0; i < n; ++i) out[i] = {" + ".join(f"{place + 1} * {name}[i]" for place, name in enumerate(names))};
}}
"""

    def weighted(a: Array) -> Array:
        padded = np.pad(a, ((halo, halo), (0, 0)), "edge")
        rows = [(place + 1) * padded[place : place + len(a)] for place in range(2 * halo + 1)]
        return np.sum(rows, 0, dtype=np.int32)

    kernel = made(source, weighted, pattern="neighbours")
    assert kernel.test((1, 300), (2, 5), (4, 16), (33, 270), seconds=60)
    image = np.arange(600, dtype=np.int32).reshape(20, 30)
    with nt.default_device("sim:npu2"):
        result = kernel(nt.from_numpy(image).realize())
        assert nt.explain(result)[-1].kernel == "custom"
        np.testing.assert_array_equal(result.numpy(), weighted(image))
    assert f"acquire({2 * halo + 1})" in kernel.iron((20, 30))


def test_windows_have_13_rows_at_most() -> None:
    def same(a: Array) -> Array:
        return a

    rows = [", ".join(f"const int32 *row{row}" for row in range(count)) for count in (13, 15)]
    sources = [f"void k({each}, int32 *out, int32 n) {{ *out = 0; }}" for each in rows]
    fits, too_tall = (made(source, same, pattern="neighbours") for source in sources)
    assert fits.check((20, 30)) == []
    (problem,) = too_tall.check((20, 30))
    assert "needs 18 buffer descriptors (rows_0: 16, results_0: 2), and has 16" in problem
    assert "use fewer objects (operands, rows of a window)" in problem


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("add", [(0,), (3, 0, 2)], [(0,), (3, 0, 2)]),
        ("softmax", [(0, 4)], [(0, 4)]),
        ("total", [(0,), (3, 0), (0, 17), (5, 64)], [(), (3,), (0,), (5,)]),
        ("product", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 2, 3, 4)], [(0, 4), (3, 4), (3, 0), (0, 2, 4)]),
    ],
)
def test_operands_without_elements(name: str, shapes: list[tuple[int, ...]], expected: list[tuple[int, ...]]) -> None:
    kernel = EXAMPLES[name]
    trials = kernel.test(*shapes)
    assert trials, repr(trials)
    empty = [shape for shape in shapes if 0 in shape]
    assert [trial.shape for trial in trials if trial.target == "cpu"] == empty
    for shape in empty:
        (problem,) = kernel.check(shape)
        assert "no elements" in problem
    for shape, result in zip(shapes, expected, strict=True):
        operands = [nt.zeros(*each, dtype=dtype) for each, (_, dtype) in kernel._with_dtypes([shape])]
        with nt.default_device("sim:npu2"):
            computed = kernel(*operands).float().numpy()
        np.testing.assert_array_equal(computed, np.zeros(result))


def test_contracts_are_tried_without_elements() -> None:
    kernel = made("void k(const int32 *a, int32 *out, int32 n) {}", lambda a: a.max(-1), pattern="reduce")
    with pytest.raises(ValueError, match="zero-size array"):
        kernel.test((3, 0))


def test_an_edited_kernel_does_not_keep_constants_of_the_first_version() -> None:
    source = """
struct Taps { static constexpr int32 values[2] = {FACTOR, 2}; };
inline int32 offset = FACTOR;
void k(const int32 *a, int32 *out, int32 n) {
    for (int i = 0; i < n; ++i) out[i] = a[i] * Taps::values[i & 1] + offset;
}
"""
    x = nt.arange(6).to(nt.int32).realize()
    for factor in (3, 5):
        kernel = made(source.replace("FACTOR", str(factor)), lambda a: a)
        with nt.default_device("sim:npu2"):
            assert kernel(x)[4].item() == 5 * factor


def test_gradients() -> None:
    scalar = "void k(const float *a, float *out, int32 n) { for (int i = 0; i < n; ++i) out[i] = a[i]; }"
    x = nt.ones(3, requires_grad=True)
    made(scalar, lambda a: a, gradient=lambda gradient, a: (2 * gradient,))(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(nt.ArgumentError, match="k: `gradient` must return a tuple of 1 tensors"):
        made(scalar, lambda a: a, gradient=lambda gradient, a: gradient)(x).sum().backward()
    with pytest.raises(nt.GradientError, match="k has no derivative"):
        made(scalar, lambda a: a)(x).sum().backward()


def test_operands_are_checked() -> None:
    kernel = EXAMPLES["add"]
    with pytest.raises(nt.DTypeError, match=r"add\(.*takes bfloat16 as a, not float32"):
        kernel(nt.ones(3), nt.ones(3))
    with pytest.raises(nt.ShapeError, match="equal shapes"):
        kernel(nt.ones(3).bfloat16(), nt.ones(4).bfloat16())
    with pytest.raises(TypeError, match="takes 2 tensors, not 1"):
        kernel(nt.ones(3))


@pytest.mark.parametrize(
    ("contract", "error", "message"),
    [
        (lambda a: a.sum(), nt.ShapeError, r"returns shape \[\], not \[5\]"),
        (lambda a: a * 0.5, nt.DTypeError, r"returns float64, the C\+\+ int32"),
    ],
)
def test_contracts_have_the_shape_and_dtype_of_the_result(contract: Any, error: type[Exception], message: str) -> None:
    kernel = made(SCALE, contract)
    with pytest.raises(error, match=message):
        kernel(nt.zeros(5, dtype="int32")).numpy()
    with pytest.raises(error, match=message):
        kernel.test((5,), targets=["npu1"])


def test_contracts_that_work_in_place_change_nothing() -> None:
    def twice(a: Array) -> Array:
        a *= 2
        return a

    kernel = made(f"{HEAD} for (int i = 0; i < n; ++i) out[i] = a[i]; }}", twice)
    x = nt.arange(4).to(nt.int32)
    assert kernel(x).tolist() == [0, 2, 4, 6]
    assert x.tolist() == [0, 1, 2, 3]
    assert not kernel.test((5, 40), targets=["npu1"])


def test_costs_say_what_bounds_a_kernel() -> None:
    vectors = made(SCALE, scale).cost((1 << 16,))
    loop = "void k(const int32 *a, int32 *out, int32 n) { for (int i = 0; i < n; ++i) out[i] = 3 * a[i]; }"
    scalar = made(loop, scale).cost((1 << 16,))
    assert scalar.counted.scalar == 1024
    assert vectors.counted.scalar == 0
    assert "most for scalar code" in repr(scalar)
    assert scalar.bounds["compute"] > 5 * vectors.bounds["compute"]
    assert scalar.bounds["ddr"] == vectors.bounds["ddr"] < vectors.seconds * 1.1
    assert scalar.seconds == scalar.bounds[scalar.limit] == max(scalar.bounds.values())
    assert scalar.limit == "compute"
    one_buffer = made(loop, scale, columns=1, cores=1, depth=1)
    assert one_buffer.cost((1 << 16,)).seconds > 20 * scalar.seconds
    # Transfers of one buffer wait for the core.
    assert one_buffer.timeline((1 << 14,)).cycles > made(loop, scale, columns=1, cores=1).timeline((1 << 14,)).cycles


def test_export(tmp_path: Any) -> None:
    kernel = made(SCALE, scale)
    assert "void k(const int32" in kernel.iron((4096,))
    (saved,) = kernel.save(tmp_path, (4096,), target="sim:npu2").kernels
    assert all(path.exists() for path in saved.files.values())


def test_a_pattern_of_your_own() -> None:
    def claim(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
        return PATTERNS["map"].claim(function._replace(tile=64), task, target)

    kernel = made(SCALE, scale, pattern=Pattern(lambda shapes: shapes[0], claim), tolerance=0)
    assert kernel.test((5, 40), targets=["npu1"])
    assert kernel.cost((100,)).elements == 64

    def copies(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
        return PATTERNS["map"].claim(function._replace(cycles=lambda *_: 100), task, target)

    with pytest.raises(nt.ArgumentError, match=r"does not call `function\.cycles`"):
        made(SCALE, scale, pattern=Pattern(lambda shapes: shapes[0], copies)).cost((100,))


def test_products_check_their_operands() -> None:
    kernel = EXAMPLES["product"]
    with pytest.raises(nt.ShapeError, match=r"takes matrices \(..., M, K\) and \(..., K, N\), not \[2, 3\], \[2, 3\]"):
        kernel(nt.ones(2, 3).bfloat16(), nt.ones(2, 3).bfloat16())
    rounded = made("void k(const int8 *a, const int8 *b, int8 *c) {}", lambda a, b: a @ b, pattern="gemm")
    (problem,) = rounded.check((8, 8, 8))
    assert "no sums of products of int8 and int8 in int8" in problem
    numbers = made("void k(const int8 *a, const int8 *b, int32 *c, int32 n) {}", lambda a, b: a @ b, pattern="gemm")
    assert "constants of namespace `tile`" in numbers.check((8, 8, 8))[0]
    scalar = made(*KERNELS["gemm of int8"][:2], pattern="gemm").cost((64, 64, 64))
    assert scalar.counted.scalar == scalar.elements * 64
    for arch, target in (("aie2", "npu1"), ("aie2p", "npu2")):
        cost = kernel.cost((64, 64, 64), target=target)
        products = cost.elements * 64  # all of K in a call
        assert cost.counted.scalar == 0
        assert cost.counted.vector == pytest.approx(products / ARRAYS[arch].macs_per_cycle["bfloat16"], rel=0.05)


HEAD = "void k(const int32 *a, int32 *out, int32 n) { "
BROKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "no semicolon": (f"\n{HEAD} out[0] = a[0] }}", {}, r"k:2:\d+: error(.|\n)*   2 \| void k"),
    "no definition": (f"int32 other(int32);\n{HEAD} out[0] = other(a[0]); }}", {}, "undefined|cannot be loaded"),
    "unknown type": (f"{HEAD} vector<int32> v; }}", {}, "error"),
    "unknown function": (f"{HEAD} aie::store_v(out, aie::frobnicate(aie::load_v<16>(a))); }}", {}, "frobnicate"),
    "misaligned load": (f"{HEAD} aie::store_v(out, aie::load_v<16>(a + 1)); }}", {}, "align"),
    "write beyond the object": (f"{HEAD} for (int i = 0; i < n + 4; ++i) out[i] = 0; }}", {}, "wrote outside"),
    "wild pointer": (f"{HEAD} out[1 << 28] = 1; }}", {}, "crashed|signal|SIG"),
    "endless loop": (f"{HEAD} for (volatile int i = 0; i >= 0;) out[0] = i; }}", {}, "did not end within"),
    "division by zero": (f"{HEAD} volatile int zero = n - n; out[0] = n / zero; }}", {}, "crashed|SIG"),
    "abort": (f"extern \"C\" void abort();\n{HEAD} abort(); }}", {}, "crashed|SIG"),
    "wrong result": (f"{HEAD} for (int i = 0; i < n; ++i) out[i] = 2 * a[i]; }}", {}, r"elements differ; \[.*expected"),
    "unwritten result": (f"{HEAD} out[0] = 3 * a[0]; }}", {}, "elements differ"),
    "tile too large": (SCALE, {"tile": 1 << 16}, "bytes"),
    "tile of odd bytes": ("void k(const uint8 *a, uint8 *out) { out[0] = 3 * a[0]; }", {"tile": 3}, "bytes|word"),
    "off by a little": (f"{HEAD} for (int i = 0; i < n; ++i) out[i] = 3 * a[i] + 1; }}", {}, "elements differ"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_kernels_say_what_is_wrong(name: str) -> None:
    source, options, message = BROKEN[name]
    kernel = made(source, scale, **options)
    trials = kernel.test((5000,), targets=["npu2"], seconds=5 if name == "endless loop" else 60)
    assert not trials
    assert re.search(message, trials[0].problem), trials[0].problem


def test_processes_are_used_again_until_code_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = run_apart([os.getpid], 60)
    assert first != os.getpid()
    again, wrong = run_apart([os.getpid, partial(_refuse, "wrong")], 60)
    assert (again, wrong) == (first, Failure("wrong", ran=False))
    assert in_child(lambda: run_apart([os.getpid], 60)) != [first]
    assert run_apart([os.getpid, partial(int, "x")], 60)[0] == first
    (second,) = run_apart([os.getpid], 60)
    assert second != first
    assert run_apart([os.abort, os.getpid], 60) == [
        Failure("the code crashed (SIGABRT)"),
        Failure("not tried, because an earlier one failed"),
    ]
    run_apart([os.getpid], 60)
    monkeypatch.setenv("OF_A_TEST", "1")
    assert run_apart([partial(os.getenv, "OF_A_TEST")], 60) == ["1"]


def without_releases(design: Design) -> Design:
    first, *others = design.workers
    body = tuple(statement for statement in first.body if not isinstance(statement, Release))
    return dataclasses.replace(design, workers=(dataclasses.replace(first, body=body), *others))


def out_of_range(design: Design) -> Design:
    first, *others = design.sequence
    assert isinstance(first, Transfer)
    return dataclasses.replace(design, sequence=(first._replace(pattern=first.pattern.moved(4096)), *others))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (without_releases, r"core \(0,2\) still holds 1 objects of fifo in0_a_0_2"),
        (out_of_range, r"shim \(0,0\): the fill of fifo in0_a_0 .* reaches element 7167, and in0_a has 0 to 6143"),
    ],
)
def test_broken_designs_say_where_and_which_rule(edit: Callable[[Design], Design], message: str) -> None:
    def claim(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
        offer = PATTERNS["map"].claim(function, task, target)
        assert isinstance(offer, Offer)
        return offer._replace(design=lambda: edit(offer.design()))

    kernel = made(SCALE, scale, pattern=Pattern(lambda shapes: shapes[0], claim))
    (problem,) = kernel.check((5000,))
    assert re.search(message, problem), problem
    with nt.default_device("sim:npu2"):
        y = kernel(nt.ones(5000, dtype="int32"))
        assert re.search(message, nt.explain(y)[-1].why)
        assert y.sum().item() == 15000


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("void other(const int32 *a, int32 *out) {}", {}, "no function `void k"),
        ("void k(const double *a, double *out) {}", {}, "takes `const double"),
        ("void k(int32 *out, const int32 *a) {}", {}, "in this order"),
        ("void k(const int32 *a) {}", {}, "1 operands, which are pointers to const, and 0 results"),
        ("void k(const int32 *a, int32 *out, float *more) {}", {}, "results of int32 and float32"),
        ("void k(const int32 *a, int32 *b, int32 *c, int32 *d) {}", {}, "3 results; pattern 'map' has 2 at most"),
        (SCALE.replace("int32 n", "int32 *more"), {"pattern": "gemm"}, "2 results; pattern 'gemm' has 1 at most"),
        ("void k(const int32 *b, int32 *out) {}", {}, r"takes \(a\) in Python and \(b\) in C\+\+"),
        (SCALE, {"pattern": "spiral"}, "pattern must be one of map"),
        (SCALE, {"pattern": "neighbours"}, r"takes 3, 5, 7, \.\.\. pointers of one type .* not 1 and 1"),
        (SCALE.replace("a,", "a, const int32 *b,"), {"pattern": "neighbours"}, "not 2 and 1"),
        *((SCALE, {name: 0}, f"{name} must be 1 or more") for name in ("tile", "depth", "columns", "cores")),
    ],
)
def test_declarations_that_do_not_fit(source: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        made(source, scale, **options)


def test_lambdas_have_no_name() -> None:
    with pytest.raises(nt.ArgumentError, match="a function with a name"):
        nt.npu_kernel(SCALE)(lambda a: 3 * a)


def test_names_of_types_in_the_standard_library() -> None:
    source = """
void k(const std::int32_t *a, int32_t *out, const std::int32_t n) { for (int i = 0; i < n; ++i) out[i] = 3 * a[i]; }
"""
    assert made(source, scale).test((5,), targets=["npu1"])


def test_a_graph_does_not_run_a_kernel_that_crashes() -> None:
    kernel = made(f"{HEAD} out[1 << 28] = 1; }}", scale)
    with nt.default_device("sim:npu2"):
        y = kernel(nt.ones(5000, dtype="int32").realize())
        (row,) = nt.explain(y)
        assert row.device == "cpu"
        assert "crashed" in row.why
        assert y.sum().item() == 15000


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("out[a[0] << 24] = 1;", r"crashed \(SIGSEGV"),
        ("if (a[0]) abort();", r"crashed \(SIGABRT"),
        ("if (a[0]) __builtin_trap();", r"crashed \(SIG"),
        ("for (volatile int i = a[0]; i; i = 1) {}", "did not end within 2 s"),
    ],
)
def test_a_graph_survives_a_problem_that_depends_on_data(code: str, problem: str) -> None:
    source = f'extern "C" void abort();\n{HEAD} {code} for (int i = 0; i < n; ++i) out[i] = 3 * a[i]; }}'
    kernel = made(source, scale)

    def run() -> None:
        with nt.default_device("sim:npu2"):
            y = kernel(nt.full((5000,), 50, dtype="int32"))
            assert nt.explain(y)[-1].device == "sim:npu2"
            with pytest.warns(RuntimeWarning, match=rf"k in core \(0,2\): the code {problem}"):
                assert y.sum().item() == 750000

    in_child(run)  # The device is out of order afterwards.


def test_crashes_of_other_code_end_a_process_as_before() -> None:
    def crash() -> None:
        faulthandler.disable()
        with nt.default_device("sim:npu2"):
            assert made(SCALE, scale)(nt.ones(5, dtype="int32")).tolist() == [3] * 5
        os.kill(os.getpid(), signal.SIGSEGV)

    child = multiprocessing.get_context("fork").Process(target=crash)
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGSEGV
