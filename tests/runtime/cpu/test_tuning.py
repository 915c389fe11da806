"""Tiles and units of products, of which a calibration chooses the fastest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_gemm import LEVELS, check_floats, check_integers, machine, multiply, random_matrix

import npu_tensor as nt
from npu_tensor.cli.calibrate.probes import kernel
from npu_tensor.errors import DTypeError
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.cpu.cpu_cost import factor_dtypes, product_work
from npu_tensor.runtime.cpu.gemm_micro import UNITS, blockings, choose_unit, usual_blocking
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.rates import TileShape, processor_identity, processor_rates

DTYPES = ("float32", "bfloat16", "int8", "int16", "int32", "float64")


@pytest.mark.parametrize("level", ["", *(pytest.param(level, marks=pytest.mark.slow) for level in LEVELS[1:])])
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


def test_a_calibration_decides_for_kernels_and_costs(own_rates: object) -> None:
    prior = processor_rates(16)
    other = blockings(UNITS["float32"], host_devices()[0].target)[1]
    tiles = {"float32": TileShape(*other[1:]), "int32": TileShape(1000, 48)}
    rates.save("processor", processor_identity(), replace(prior, tiles=tiles))
    selection.reset()
    device = host_devices()[0]
    best = device.blocking("float32", "float32")
    assert best == other
    assert device.blocking("int32", "int32") == usual_blocking(UNITS["int32"], device.target)  # 1000 rows do not fit.
    with pytest.raises(DTypeError):
        device.blocking("float32", "int8")
    task, answer, _ = kernel(device, nt.ones(70, 300).realize() @ nt.ones(300, 90).realize())
    assert factor_dtypes(task) == ("float32", "float32")
    assert product_work(task, best, device.target).unit == "float32"
    assert answer.cost.expense.seconds > 0
    rates.forget()
    selection.reset()
