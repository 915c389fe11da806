"""The simulated NPU as a device of the package: URIs, placement, reasons, events."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import heard, needs_compiler

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.kernels.block_floats import PackedOrder
from npu_tensor.planner import selection
from npu_tensor.runtime.sim import host_compiler

pytestmark = pytest.mark.usefixtures("less_optimised")


def bfloat16(*shape: int, seed: int = 0) -> nt.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return nt.from_numpy(values).to(nt.bfloat16).realize()


@needs_compiler
def test_ops_run_there_inside_the_block_only() -> None:
    x = bfloat16(64, 100)
    with nt.default_device("sim:npu2"):
        inside = nt.explain(x * x)
        value = (x * x).float().numpy()
    after = nt.explain(x * x)
    assert (inside[-1].device, after[-1].device) == ("sim:npu2", "cpu")
    np.testing.assert_array_equal(value, (x * x).float().numpy())


@needs_compiler
def test_what_has_no_kernel_runs_on_the_cpu_and_says_why() -> None:
    with nt.default_device("sim:npu1"), heard(events.Fallback) as seen:
        result = nt.explain(nt.tensor([3, 1, 2]).argsort())
    assert result[-1].device == "cpu"
    assert "no NPU kernel" in result[-1].why
    assert any(event.device == "sim:npu1" for event in seen)


@needs_compiler
def test_float32_stays_on_the_cpu_unless_asked_for() -> None:
    x = nt.rand(8, 64).realize()
    with nt.default_device("sim:npu2"):
        exact = nt.explain(x.tanh())[-1]
    with nt.default_device("sim:npu2?float32=emulate"):
        emulated = nt.explain(x.tanh())[-1]
        value = x.tanh().numpy()
    assert exact.device == "cpu"
    assert "float32" in exact.why
    assert emulated.device == "sim:npu2?float32=emulate"
    np.testing.assert_allclose(value, np.tanh(x.numpy().astype(np.float64)), rtol=4 * 2.0**-23)


@needs_compiler
@pytest.mark.parametrize("rows", [1, 3])
def test_products_of_bfloat16_may_be_float32(rows: int) -> None:
    """One row is the work of another kernel than several, under the same policy."""
    weights, x = bfloat16(33, 65), bfloat16(rows, 65, seed=1)
    with nt.default_device("sim:npu2"):
        product = nt.mul_mat(weights, x)
        (row,) = [row for row in nt.explain(product) if row.predicted is not None]
        result = product.numpy()
    assert (row.device, row.kernel) == ("sim:npu2", "rowwise" if rows == 1 else "gemm")
    assert product.dtype is nt.float32
    expected = x.float().numpy().astype(np.float64) @ weights.float().numpy().T.astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("index", [5, -1])
def test_an_index_out_of_range_is_an_error_as_on_the_cpu(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its values then count as not known yet.
    monkeypatch.setattr(sys.modules["npu_tensor.tensor"], "check_indices", lambda *_: None)
    table = bfloat16(5, 32)
    messages = []
    for uri in ("cpu", "sim:npu2"):
        with nt.default_device(uri):
            rows = nt.index_select(table, 0, nt.tensor([0, index], dtype=nt.int32))
            assert nt.explain(rows)[-1].device == uri
            with pytest.raises(IndexError) as caught:
                rows.realize()
        messages.append(str(caught.value).replace(uri, "device"))
    assert messages[0] == messages[1]
    assert "test_device.py" in messages[0]


@needs_compiler
def test_float32_beside_bfloat16_does_not_keep_a_norm_on_the_cpu() -> None:
    x, weight, bias = bfloat16(33, 100), bfloat16(100, seed=1), bfloat16(100, seed=2)

    def norms() -> list[nt.Tensor]:
        return [nt.layer_norm(x, (100,), weight, bias), nt.rms_norm(x, (100,), weight), nt.group_norm(x, 10)]

    expected = [result.float().numpy() for result in norms()]
    with nt.default_device("sim:npu2"):
        for result, value in zip(norms(), expected, strict=True):
            rows = nt.explain(result)
            assert {row.device for row in rows} <= {"sim:npu2", "-"}, rows
            np.testing.assert_allclose(result.float().numpy(), value, rtol=2.0**-7, atol=2.0**-7)
        wrong = nt.explain(x.float() > bias.float() * 1.1)  # a comparison of float32 must be exact
    assert wrong[-1].device == "cpu"


@needs_compiler
def test_a_rounded_result_may_be_widened_where_float32_is_exact() -> None:
    x = bfloat16(9, 40)
    with nt.default_device("sim:npu1"):
        for widened in (x.tanh().float(), x.softmax(dim=-1).float(), x.float()):
            assert nt.explain(widened)[-1].device == "sim:npu1", nt.explain(widened)
        result = x.tanh().float().numpy()
        assert nt.explain(x.float().tanh())[-1].device == "cpu"
    np.testing.assert_allclose(result, x.tanh().realize().float().numpy(), rtol=2.0**-7)


@needs_compiler
def test_float16_as_bfloat16_is_refused_where_that_would_show() -> None:
    x = nt.tensor([-1.99, 2047.0, 0.1], dtype=nt.float16).realize()
    with nt.default_device("sim:npu2?float32=bfloat16"):
        for result in (x.to(nt.int8), x > 2046, x.argmax()):
            row = nt.explain(result)[-1]
            assert row.device == "cpu"
            assert "float16 passes through bfloat16" in row.why
        assert nt.explain(x * 2)[-1].device == "sim:npu2?float32=bfloat16"


@needs_compiler
def test_float16_is_as_exact_as_float32_by_default() -> None:
    values = np.random.default_rng(0).normal(size=(40, 48)).astype(np.float16)
    x, square = nt.from_numpy(values), nt.from_numpy(values[:, :40].copy())
    positions = nt.from_numpy(np.arange(40, dtype=np.int32))
    with nt.default_device("sim:npu2"):
        turned = nt.rope(x.reshape(1, 40, 1, 48), positions)
        for result in (x * 3 + 1, x.softmax(-1), square @ x, x > 0.1, x.sum(-1), turned):
            row = nt.explain(result)[-1]
            assert row.device == "cpu"
            assert "float16" in row.why
        # Values that are rounded to bfloat16 anyway, and pure copies, lose no precision.
        for result, expected in (
            (x.to(nt.bfloat16) * 2, x.to(nt.bfloat16).realize(device="cpu") * 2),
            (x.to(nt.bfloat16).to(nt.float16), x.to(nt.bfloat16).realize(device="cpu").to(nt.float16)),
            (x.T.contiguous(), x.T),
        ):
            assert nt.explain(result)[-1].device == "sim:npu2"
            actual = result.realize().to(nt.float64).numpy()
            np.testing.assert_array_equal(actual, expected.realize(device="cpu").to(nt.float64).numpy())


@needs_compiler
def test_a_residual_is_added_by_a_kernel_of_its_own() -> None:
    x, w, residual = bfloat16(40, 64), bfloat16(24, 64, seed=1), bfloat16(40, 24, seed=2)
    with nt.default_device("sim:npu2"):
        result = nt.linear(x, w) + residual
        rows = nt.explain(result)
        actual = result.float().numpy()
    assert [row.kernel for row in rows if row.predicted is not None] == ["gemm", "elementwise"]
    assert {row.device for row in rows if row.predicted is not None} == {"sim:npu2"}
    expected = (nt.linear(x, w) + residual).float().numpy()
    np.testing.assert_allclose(actual, expected, rtol=2.0**-6, atol=0.05)


@needs_compiler
def test_a_row_kernel_gets_no_more_streams_than_a_core_has_channels() -> None:
    """ALiBi over one sequence has scores, mask and slopes, which all differ from row to row."""
    scores, mask = bfloat16(1, 4, 8, 64), bfloat16(8, 64, seed=1)
    uri = "sim:npu2?float32=emulate"
    with nt.default_device(uri):
        result = nt.soft_max_ext(scores, mask, 0.5, 8.0)
        rows = [row for row in nt.explain(result) if row.predicted is not None]
        actual = result.float().numpy()
    assert {row.device for row in rows} == {uri}
    assert rows[-1].kernel == "rowwise"
    slopes = 2.0 ** (-2 * np.arange(1, 5))[:, None, None]
    logits = scores.float().numpy().astype(np.float64) * 0.5 + slopes * mask.float().numpy()
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(actual, weights / weights.sum(-1, keepdims=True), rtol=2.0**-8 + 2.0**-12)


@needs_compiler
def test_several_devices_in_order_of_preference() -> None:
    """Each takes what those before it refuse; one graph runs on all of them."""
    first, second = "sim:npu1", "sim:npu2?float32=emulate"
    x, y = bfloat16(8, 8), nt.rand(8, 8).realize()
    with nt.default_device(f"{first}, {second}"):
        results = [x * 2, y.tanh(), y.argsort()]
        assert [nt.explain(result)[-1].device for result in results] == [first, second, "cpu"]
        both = nt.index_select(x, 0, nt.tensor([5, 2], dtype=nt.int32)).float() + y[:2].tanh()
        assert {row.device for row in nt.explain(both)} - {"-"} == {first, second}
        actual = both.numpy()
    expected = x.float().numpy()[[5, 2]] + np.tanh(y.numpy()[:2].astype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)  # the terms may cancel
    with nt.default_device("cpu, sim:npu2"):
        assert nt.explain(x + x)[-1].device == "cpu"


@needs_compiler
def test_a_captured_function_follows_the_device() -> None:
    @nt.jit
    def double(x: nt.Tensor) -> nt.Tensor:
        return x + x

    x = bfloat16(32)
    with heard(events.KernelRan) as ran:
        double(x).numpy()
        with nt.default_device("sim:npu2"):
            double(x).numpy()
        double(x).numpy()
    assert [event.device for event in ran] == ["cpu", "sim:npu2", "cpu"]
    assert double.captures == 2


@needs_compiler
def test_a_run_reports_its_counters() -> None:
    x = bfloat16(1 << 16)
    with nt.default_device("sim:npu1"), heard(events.KernelRan) as ran:
        (x + x).numpy()
        (x * x).numpy()
    seen = [event.simulated for event in ran if event.simulated]
    assert [event.kernel for event in seen] == ["add", "mul"]
    for event in seen:  # one operand, read once, and a result
        assert event.ddr_bytes == 2 * 2 * (1 << 16)
        assert event.seconds >= event.ddr_bytes / 24e9
        assert event.limit in ("compute", "stream", "ddr")
        assert event.cycles > 0


@needs_compiler
def test_explain_shows_what_the_run_costs() -> None:
    with nt.default_device("sim:npu2"):
        row = nt.explain(bfloat16(1 << 20).exp())[-1]
    assert "predicted: " in row.why
    assert "cycles on" in row.why
    assert "limited by" in row.why
    assert row.predicted is not None
    assert row.predicted >= 2 * 2 * (1 << 20) / 55e9


def test_without_a_compiler_everything_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_compiler, "reason", lambda: "no C++ compiler")
    selection.reset_plans()
    with nt.default_device("sim:npu1?cols=3"):
        row = nt.explain(bfloat16(16) + 1)[-1]
        assert (row.device, "no C++ compiler" in row.why) == ("cpu", True)
        assert (bfloat16(16) * 0 + 1).float().tolist() == [1.0] * 16


@needs_compiler
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**32 + 5, 2**40])
@pytest.mark.parametrize("dtype", [nt.int8, nt.int16, nt.int32])
def test_a_number_of_more_than_32_bits_wraps(dtype: nt.DType, number: int) -> None:
    values = np.array([-7, 0, 5, 127]).astype(dtype.numpy)
    wrapped = np.full(4, number).astype(dtype.numpy)
    x = nt.from_numpy(values).realize()
    with nt.default_device("sim:npu1"):
        assert nt.explain(x + number)[-1].device == "sim:npu1"
        result = [(x + number).numpy(), (x * number).numpy(), (number - x).numpy(), (x == number).numpy()]
    expected = [values + wrapped, values * wrapped, wrapped - values, values == wrapped]
    for got, wanted in zip(result, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@needs_compiler
def test_values_of_rows_begin_at_words_in_every_column() -> None:
    random = np.random.default_rng(3)
    shapes = ((16, 17, 1, 64), (1, 17, 1, 64), (16, 17, 1, 1))
    x, y, z = (random.integers(-40, 40, shape).astype(np.int8) for shape in shapes)
    with nt.default_device("sim:npu2?cols=5"):  # five columns get different numbers of rows
        result = nt.from_numpy(x).realize() + nt.from_numpy(y).realize() + nt.from_numpy(z).realize()
        assert nt.explain(result)[-1].device == "sim:npu2?cols=5"
        np.testing.assert_array_equal(result.numpy(), x + y + z)


def test_block_floats_are_chosen_by_the_uri() -> None:
    """Named by `explain`, less exact than without, and as exact as others have measured on silicon."""
    random = np.random.default_rng(5)
    a, b = (nt.from_numpy(random.standard_normal((256, 512), np.float32)).to(nt.bfloat16).realize() for _ in range(2))
    wide_a, wide_b = (np.asarray(each.numpy()).astype(np.float64) for each in (a, b))
    expected = wide_a @ wide_b.T
    errors = {}
    for uri in ("sim:npu2", "sim:npu2?bfloat16=exact", "sim:npu2?bfloat16=bfp16"):
        with nt.default_device(uri, policy="always"):
            product = nt.mul_mat(b, a)
            text = str(nt.explain(product))
            assert ("share an exponent" in text) == ("bfp16" in uri)
            result = np.asarray(product.numpy()).astype(np.float64)
        errors[uri] = np.abs(result - expected).mean() / np.abs(expected).mean()
    assert errors["sim:npu2"] == errors["sim:npu2?bfloat16=exact"] < 1e-6
    # 9.3e-3: Xilinx/mlir-air, kernel_registry/details/GEMM_bf16_in_fp32_out.md, normally distributed operands.
    assert errors["sim:npu2?bfloat16=bfp16"] == pytest.approx(9.3e-3, rel=0.05)


def test_approximate_functions_are_chosen_by_the_uri() -> None:
    """Named by `explain`."""
    x = bfloat16(1000)
    results = {}
    for uri in (f"sim:npu{number}?functions={name}" for number in (1, 2) for name in ("exact", "approximate")):
        with nt.default_device(uri, policy="always"):
            y = x.sigmoid()
            is_fast = "approximate functions" in " ".join(str(nt.explain(y)).split())
            assert is_fast == uri.endswith("approximate")
            results[uri] = np.asarray(y.float().numpy())
    exact = results.pop("sim:npu1?functions=exact")
    np.testing.assert_allclose(results.pop("sim:npu2?functions=exact"), exact, rtol=2.0**-7)
    assert 0.001 < np.abs(results.pop("sim:npu1?functions=approximate") - exact).max() < 0.006
    assert 0.01 < np.abs(results.pop("sim:npu2?functions=approximate") - exact).max() < 0.022


def test_constants_of_a_function_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under jit, also after they were written: the results are those of weights that are passed as arguments."""
    packed: list[tuple[int, ...]] = []
    write = PackedOrder.write

    def spy(order: PackedOrder, elements: np.ndarray[Any, Any], memory: np.ndarray[Any, Any]) -> None:
        packed.append(order.layout.shape)
        write(order, elements, memory)

    monkeypatch.setattr(PackedOrder, "write", spy)
    random = np.random.default_rng(6)
    x, weights = (nt.from_numpy(random.standard_normal((96, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    nt.realize(x, weights)

    @nt.jit
    def constant(x: nt.Tensor) -> nt.Tensor:
        return nt.linear(x, weights)

    with nt.default_device("sim:npu2?bfloat16=bfp16", policy="always"):
        expected = nt.linear(x, weights).numpy()
        assert packed == []
        for _ in range(3):
            assert np.array_equal(constant(x).numpy(), expected)
        assert packed == [(64, 96)]
        weights[0] = 1.0
        changed = nt.linear(x, weights).numpy()
        assert np.array_equal(constant(x).numpy(), changed)
        assert not np.array_equal(changed, expected)


# --- several simulated NPUs as one device


def simulated_on(work: Callable[[], object]) -> list[str]:
    """The members that ran the launches of some work, in order."""
    with heard(events.KernelRan) as ran:
        work()
    return [event.simulated.device for event in ran if event.simulated is not None]


@needs_compiler
def test_explain_names_the_logical_device_and_events_the_member() -> None:
    x = bfloat16(64)
    with nt.default_device("sim:npu2x2"), heard(events.KernelRan, events.Fallback) as ran:
        assert nt.explain(x + x)[-1].device == "sim:npu2x2"
        on = simulated_on(lambda: [(x + x).realize() for _ in range(4)])
    assert sorted(set(on)) == ["sim:npu2x2#0", "sim:npu2x2#1"]
    assert on[:2] == on[2:]  # by turns
    assert {(type(event), event.device) for event in ran} == {(events.KernelRan, "sim:npu2x2")}


@needs_compiler
def test_several_give_what_one_gives() -> None:
    x, weights = bfloat16(24, 64), bfloat16(40, 64, seed=1)

    def compute() -> list[np.ndarray]:
        hidden = nt.linear(x, weights)
        results = [hidden.softmax(dim=-1), hidden.tanh(), x.sum(dim=-1), x * 2 + 1]
        return [result.float().numpy() for result in results]

    actual = []
    for uri in ("sim:npu1", "sim:npu1x3"):
        with nt.default_device(uri):
            actual.append(compute())
            on = simulated_on(compute)
    assert len(set(on)) == 3
    for one, several in zip(*actual, strict=True):
        np.testing.assert_array_equal(one, several)
