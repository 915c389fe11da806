"""In which unit products of bfloat16 are faster is measured: neither a processor's name nor its instructions tell."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from npu_tensor._util.forks import new_lock
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.gemm_micro import THROUGHPUT_VECTORS, UNITS, Unit, throughput_module
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.rates import ProcessorRates

__all__ = ["bfloat16_unit"]

CLEARLY: Final = 1.1
"""Factor by which the rate of float32 must be higher, so that every measurement has the same result. The dot product of
bfloat16 has twice the rate of float32 on a Zen 4 and half of it on some Intel processors, and needs half the space."""

STEPS: Final = 1000
"""Steps of a timed kernel: 8 us on a Zen 4."""

ROUNDS: Final = 10

_PAIRS, _WIDENED = UNITS["bfloat16_pair"], UNITS["float32"]

_lock = new_lock()
_chosen: dict[CpuTarget, Unit] = {}


def bfloat16_unit(engine: Engine, target: CpuTarget, rates: ProcessorRates) -> Unit:
    """Return the unit in which products of bfloat16 are faster, for a target that has the dot product.

    Calibration has measured it; without one, the first such product of a process does, in 2 ms.
    """
    if rates.tiles:
        return _faster(rates.macs[_PAIRS.name], rates.macs[_WIDENED.name])
    with _lock:
        if target not in _chosen:
            _chosen[target] = _faster(*_rates(engine, target))
        return _chosen[target]


def _faster(pairs: float, widened: float) -> Unit:
    return _WIDENED if widened > CLEARLY * pairs else _PAIRS


def _rates(engine: Engine, target: CpuTarget) -> tuple[float, float]:
    """Return multiply-accumulates per time of pairs and of float32."""
    units = (_PAIRS, _WIDENED)
    code = [engine.compile(throughput_module("multiply", unit, target), "multiply")["multiply"] for unit in units]
    functions = [ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address) for address in code]
    vectors = np.zeros(THROUGHPUT_VECTORS * target.lanes, np.float32)
    rounds = [[_seconds(function, vectors.ctypes.data) for function in functions] for _ in range(ROUNDS)]
    pairs, widened = map(min, zip(*rounds, strict=True))
    return _PAIRS.count / pairs, _WIDENED.count / widened


def _seconds(function: Callable[[int, int], object], vectors: int) -> float:
    start = time.perf_counter()
    function(vectors, STEPS)
    return time.perf_counter() - start
