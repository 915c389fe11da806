"""Interleaved timing of contenders, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.cli.calibrate.probes import block, calls_that_fill, no_garbage_collection

Call = Callable[[], Any]

Around = Mapping[str, Callable[[], AbstractContextManager[Any]]]
"""Context managers around the calls, by contender. Entering and leaving is not timed."""


class CallFailed(Exception):
    """Error in a call of the contender `name`, with its exception as the cause."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Effort(NamedTuple):
    """Effort of timing warm calls: rounds, blocks per round and minimum block duration in seconds."""

    rounds: int
    block_seconds: float
    blocks: int = 1


FULL_EFFORT = Effort(rounds=15, block_seconds=400e-6)
QUICK_EFFORT = Effort(rounds=3, block_seconds=50e-6)

# Idle worker threads poll for work and occupy a core: OpenMP's for 8 ms of processor time after a call of PyTorch,
# OpenBLAS's for 0.11 s after a call of NumPy. Before a block, the calling thread sleeps until they stop polling.
# Untimed calls then bring threads, caches and clock of the contender to the state of a user's loop.
REST_SECONDS = 12e-3
MOST_RESTS = 40
IDLE = 0.1  # Upper bound on this process's load during a rest.
WARM_UP_SECONDS = 3e-3


def _settle(call: Call) -> None:
    for _ in range(MOST_RESTS):
        start = time.process_time()
        time.sleep(REST_SECONDS)
        if time.process_time() - start < IDLE * REST_SECONDS:
            break
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        call()


@contextmanager
def _turn(name: str, around: Around | None) -> Iterator[None]:
    """Convert any exception of a contender's call to CallFailed."""
    try:
        with (around or {}).get(name, nullcontext)():
            yield
    except Exception as error:
        raise CallFailed(name) from error


def interleaved(contenders: Mapping[str, Call], effort: Effort, around: Around | None = None) -> dict[str, list[float]]:
    """Measure seconds per call in every block of every contender. The order alternates between rounds.

    Raises CallFailed.
    """
    repeats: dict[str, int] = {}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    with no_garbage_collection():
        for name, call in contenders.items():
            with _turn(name, around):
                repeats[name] = calls_that_fill(effort.block_seconds, call)
        for _ in range(effort.rounds):
            for name in order:
                with _turn(name, around):
                    _settle(contenders[name])
                    for _ in range(effort.blocks):
                        samples[name].append(block(contenders[name], repeats[name]) / repeats[name])
            order.reverse()
    return samples


def medians(contenders: Mapping[str, Call], effort: Effort, around: Around | None = None) -> dict[str, float]:
    """Measure the median seconds per call of every contender, interleaved. Raises CallFailed."""
    return {name: statistics.median(times) for name, times in interleaved(contenders, effort, around).items()}


def after_pauses(
    contenders: Mapping[str, Call], pauses: Mapping[str, float], times: int, around: Around | None = None
) -> dict[str, float]:
    """Measure the median seconds of one call after an idle pause, by contender. Raises CallFailed."""
    if not times:
        return {}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    with no_garbage_collection():
        for _ in range(times):
            for name, call in contenders.items():
                with _turn(name, around):
                    time.sleep(pauses[name])
                    samples[name].append(block(call, 1))
    return {name: statistics.median(times) for name, times in samples.items()}


class Percentiles(NamedTuple):
    """Percentiles of samples in their unit, interpolated between samples."""

    p50: float
    p95: float
    p99: float


def percentiles(samples: list[float]) -> Percentiles:
    """Return the percentiles of samples."""
    return Percentiles(*map(float, np.percentile(samples, (50, 95, 99))))
