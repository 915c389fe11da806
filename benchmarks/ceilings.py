"""What devices can do at most: the lines of a roofline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from npu_tensor.runtime.device_uri import SIMULATED

from .results import Row

__all__ = ["ceilings"]

COPIED: Final = 64 << 20
"""Bytes: more than caches hold."""

COPIES: Final = 5


def ceilings(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Of the NPUs what the cost model assumes; of the processor what this session has reached."""
    for name, array in SIMULATED.items():
        for dtype in ("bfloat16", "int8", "float32"):
            cores = array.core_rows * array.columns
            yield {
                "device": name,
                "dtype": dtype,
                "flops_per_second": 2 * array.macs_per_cycle[dtype] * cores * array.clock_hz,
                "bytes_per_second": array.ddr_bytes_per_second,
                "source": "the cost model's arrays",
            }
    best: dict[str, float] = {}
    for row in rows:
        if row.kind == "measured" and row.device == "cpu" and row.flops:
            best[row.dtype] = max(best.get(row.dtype, 0.0), row.flops / row.p50)
    bandwidth = _copy_rate() if best else 0.0
    for dtype, rate in best.items():
        yield {
            "device": "cpu",
            "dtype": dtype,
            "flops_per_second": rate,
            "bytes_per_second": bandwidth,
            "source": "the fastest row of this session, and a copy in memory by one thread",
        }


def _copy_rate() -> float:
    """Bytes read and written per second."""
    source, target = np.ones(COPIED, np.int8), np.empty(COPIED, np.int8)
    best = 0.0
    for _ in range(COPIES):
        start = time.perf_counter()
        np.copyto(target, source)
        best = max(best, 2 * COPIED / (time.perf_counter() - start))
    return best
