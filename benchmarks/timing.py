"""Interleaved timing: what is compared takes turns, so that a slow moment of the machine meets everybody."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.tools.calibrate.probes import block, calls_that_fill, no_garbage_collection

__all__ = [
    "FULL_EFFORT",
    "QUICK_EFFORT",
    "Call",
    "CallFailed",
    "Effort",
    "Percentiles",
    "after_pauses",
    "interleaved",
    "medians",
    "percentiles",
]

Call = Callable[[], Any]

Around = Mapping[str, Callable[[], AbstractContextManager[Any]]]
"""What calls of a contender run inside of, if anything, by contender. Entered and left outside the clock."""


class CallFailed(Exception):
    """A call of the contender `name` has raised, which is the cause of this."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Effort(NamedTuple):
    """How warm calls are timed: turns of every contender, blocks in each of them, and the least length of a block."""

    rounds: int
    block_seconds: float
    blocks: int = 1


FULL_EFFORT = Effort(rounds=15, block_seconds=400e-6)
QUICK_EFFORT = Effort(rounds=3, block_seconds=50e-6)

# Idle threads watch for work and take a core meanwhile: OpenMP's after a call of PyTorch for 8 ms of processor time,
# OpenBLAS's after one of NumPy for 0.11 s. Before a block, the calling thread sleeps until they have given up. Then
# untimed calls bring the contender's own threads, caches and clock to where a loop of the user's would find them.
REST_SECONDS = 12e-3
MOST_RESTS = 40
IDLE = 0.1  # Of a rest: what this process may compute meanwhile.
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
    """Whatever a call of a contender raises comes out as CallFailed."""
    try:
        with (around or {}).get(name, nullcontext)():
            yield
    except Exception as error:
        raise CallFailed(name) from error


def interleaved(contenders: Mapping[str, Call], effort: Effort, around: Around | None = None) -> dict[str, list[float]]:
    """Seconds per call in every block of every contender; every other round takes them in reverse order.

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
    """Median seconds per call of every contender, interleaved. Raises CallFailed."""
    return {name: statistics.median(times) for name, times in interleaved(contenders, effort, around).items()}


def after_pauses(
    contenders: Mapping[str, Call], pauses: Mapping[str, float], times: int, around: Around | None = None
) -> dict[str, float]:
    """Median seconds of one call after so many seconds in which nothing ran, by contender; none if `times` is 0.

    Raises CallFailed.
    """
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
    """Of all samples, in their unit; between two samples they are interpolated."""

    p50: float
    p95: float
    p99: float


def percentiles(samples: list[float]) -> Percentiles:
    """The three figures of a distribution."""
    return Percentiles(*map(float, np.percentile(samples, (50, 95, 99))))
