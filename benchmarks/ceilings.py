"""Ceilings of a roofline: peaks of the NPU arrays, and the best measured rates of this processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

import npu_tensor as nt
from npu_tensor.runtime.sim.kind import SIMULATED

from .results import Row

SIDE: Final = 1024
"""Rows and columns of the multiplied matrices. The product occupies every thread for some milliseconds."""

COPIED: Final = 64 << 20
"""Size of the copied tensor in bytes, larger than the caches."""

SECONDS: Final = 0.3
"""Duration of the repetitions in seconds. The fastest one counts."""


def ceilings(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield ceilings in the format of schema.json.

    NPUs have one per dtype of matrix products, the processor one per dtype of its rows.
    """
    for name, array in SIMULATED.items():
        for dtype in ("bfloat16", "int8", "float32"):
            cores = array.core_rows * array.columns
            yield {
                "device": name,
                "dtype": dtype,
                "flops_per_second": 2 * array.most_macs(dtype) * cores * array.clock_hz,
                "bytes_per_second": array.ddr_bytes_per_second,
                "source": "peak: every core multiplies in every cycle"
                + (", in several bfloat16 products for each" if dtype == "float32" else "")
                + "; memory as published for matrix products. Predictions use lower rates, which kernels reach",
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
            "flops_per_second": max(rate, _product_rate(dtype)),
            "bytes_per_second": bandwidth,
            "source": f"best seen here: of a product of {SIDE} x {SIDE} by {SIDE} x {SIDE} and all rows; "
            f"a copy of {COPIED >> 20} MiB in memory. With all threads",
        }


def _product_rate(dtype: str) -> float:
    """Measure the operations per second of npu_tensor with all threads."""
    x = nt.ones(SIDE, SIDE, dtype=dtype).realize()
    product = nt.mul_mat if dtype.startswith("int") else nt.matmul
    return 2 * SIDE**3 / _least_seconds(lambda: product(x, x).realize(device="cpu"))


def _copy_rate() -> float:
    """Measure the bytes read and written per second by all threads."""
    threads = nt.get_num_threads()
    sources = np.array_split(np.ones(COPIED, np.int8), threads)
    targets = np.array_split(np.ones(COPIED, np.int8), threads)
    with ThreadPoolExecutor(threads) as pool:
        return 2 * COPIED / _least_seconds(lambda: list(pool.map(np.copyto, targets, sources)))


def _least_seconds(call: Callable[[], object]) -> float:
    """Measure the fastest of the calls repeated for SECONDS. The first call, which may compile, does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
