"""Tuning of products: the candidate tiles and units, and the choice by measurement."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from test_gemm import LEVELS, check_floats, check_integers, machine, multiply, random_matrix

import npu_tensor as nt
from npu_tensor.cli.calibrate.probes import kernel
from npu_tensor.config import config
from npu_tensor.errors import DTypeError
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.cpu import tuning
from npu_tensor.runtime.cpu.cpu_cost import factor_dtypes, product_work
from npu_tensor.runtime.cpu.gemm_micro import (
    THROUGHPUT_VECTORS,
    UNITS,
    blockings,
    choose_unit,
    throughput_module,
    usual_blocking,
)
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.rates import TileShape, processor_identity, processor_rates

DTYPES = ("float32", "bfloat16", "int8", "int16", "int32", "float64")
needs_dot_product = pytest.mark.skipif(
    not host_target(config.cpu_features).has_bfloat16, reason="no dot product of bfloat16 here"
)


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_chosen", {})


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_blocking_multiplies(level: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = random_matrix(rng, (37, 45), dtype), random_matrix(rng, (45, 131), dtype)
    target = machine(level).target
    unit = choose_unit(dtype, dtype, target)
    candidates = blockings(unit, target)
    assert candidates[0] == usual_blocking(unit, target)
    assert len(set(candidates)) == len(candidates) > 3
    for blocking in candidates:
        (result,) = multiply(level, a, b, [unit.accumulate], blocking=blocking)
        check_integers(result, a, b) if dtype.startswith("int") else check_floats(result, a, b, unit.accumulate)


@pytest.mark.parametrize("level", LEVELS)
def test_bfloat16_may_be_widened(level: str) -> None:
    rng = np.random.default_rng(2)
    a, b = random_matrix(rng, (33, 200), "bfloat16"), random_matrix(rng, (200, 70), "bfloat16")
    blocking = usual_blocking(UNITS["float32"], machine(level).target)
    for result in multiply(level, a, b, ["float32", "bfloat16"], blocking=blocking):
        check_floats(result, a, b)


@pytest.mark.parametrize("name", ["float32", "bfloat16_pair"])
def test_what_is_timed_multiplies_and_adds(name: str) -> None:
    target, engine, _ = machine("")
    unit = UNITS[name]
    if name == "bfloat16_pair" and not target.has_bfloat16:
        pytest.skip("no dot product of bfloat16 here")
    address = engine.compile(throughput_module("multiply", unit, target), "multiply")["multiply"]
    elements = np.full((2, target.lanes * unit.count), 3, np.float32 if unit.count == 1 else ml_dtypes.bfloat16)
    vectors = np.arange(THROUGHPUT_VECTORS * target.lanes, dtype=np.float32).reshape(THROUGHPUT_VECTORS, -1)
    vectors[:2] = elements.view(np.float32)
    expected = vectors.copy()
    expected[2:] += 5 * 9 * unit.count
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)(vectors.ctypes.data, 5)
    np.testing.assert_array_equal(vectors, expected)


@pytest.fixture
def calibrated(own_rates: object) -> Iterator[None]:
    """An 8 x 48 tile for float32, and a dot product of bfloat16 that is slow."""
    prior = processor_rates(16)
    macs = {**prior.macs, "bfloat16_pair": prior.macs["float32"] / 2}
    tiles = {"float32": TileShape(8, 48), "int32": TileShape(1000, 48)}
    rates.save("processor", processor_identity(), replace(prior, macs=macs, tiles=tiles))
    selection.reset()
    yield
    rates.forget()
    selection.reset()


@needs_dot_product
@pytest.mark.usefixtures("calibrated")
def test_a_calibration_decides_for_kernels_and_costs() -> None:
    device = host_devices()[0]
    best = device.blocking("float32", "float32")
    assert best[1:] == (8, 48)
    assert device.blocking("bfloat16", "bfloat16") == best
    assert device.blocking("int8", "int8") == usual_blocking(UNITS["int8_quad"], device.target)
    assert device.blocking("int32", "int32") == usual_blocking(UNITS["int32"], device.target)  # 1000 rows do not fit.
    with pytest.raises(DTypeError):
        device.blocking("float32", "int8")
    rng = np.random.default_rng(3)
    a, b = (random_matrix(rng, shape, "bfloat16") for shape in ((70, 300), (300, 90)))
    x, y = (nt.from_numpy(array.astype(np.float32)).to("bfloat16").realize() for array in (a, b))
    assert not tuning._chosen
    check_floats((x @ y).to("float32").numpy().astype(ml_dtypes.bfloat16), a, b)
    task, answer, _ = kernel(device, x @ y)
    assert factor_dtypes(task) == ("bfloat16", "bfloat16")
    assert product_work(task, best, device.target).unit == "float32"
    assert answer.cost.expense.seconds > 0
