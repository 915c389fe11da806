"""Interleaved timing of probes, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from npu_tensor.errors import DeviceError, NpuTensorError
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner.fuse import cut
from npu_tensor.task import Device, Refusal, Task
from npu_tensor.tensor import Tensor


class Unclear(NpuTensorError):
    """Error for inconsistent measurements."""


Probe = Callable[[], object]

BLOCK_SECONDS: Final = 200e-6
"""Minimum duration of a block, in seconds. Reading the clock and an interrupt take some microseconds."""

QUICK_ROUNDS: Final = 5
ROUNDS: Final = 25


def typical(probes: Mapping[str, Probe], quick: bool = False) -> dict[str, float]:
    """Return seconds per probe: the lower quartile of interleaved blocks, because interference only adds time."""
    with no_garbage_collection():
        repeats = {name: calls_that_fill(BLOCK_SECONDS, probe) for name, probe in probes.items()}
        blocks: dict[str, list[float]] = {name: [] for name in probes}
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            for name, probe in probes.items():
                block(probe, 1)  # loads its operands into the caches again
                blocks[name].append(block(probe, repeats[name]) / repeats[name])
    return {name: statistics.quantiles(samples, n=4)[0] for name, samples in blocks.items()}


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now and disable collection until the end of the block."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def block(probe: Probe, repeats: int) -> float:
    """Measure the seconds of `repeats` calls. Each result lives until the next replaces it, as in a user's loop."""
    start = time.perf_counter()
    for _ in range(repeats):
        result = probe()
    seconds = time.perf_counter() - start
    del result
    return seconds


def calls_that_fill(block_seconds: float, probe: Probe) -> int:
    """Return the number of calls that fill a block. The first call may compile and is not measured."""
    probe()
    repeats = 1
    while (seconds := block(probe, repeats)) < block_seconds:
        repeats = max(2 * repeats, int(repeats * block_seconds / max(seconds, 1e-9)))
    return repeats


def positive(name: str, value: float) -> float:
    """Return a rate or a time. Raises Unclear for an impossible value, caused by other load on the machine."""
    if not 0 < value < float("inf"):
        raise Unclear(
            f"{name} cannot be told from what else was measured ({value!r}): the machine did something else "
            "meanwhile, and nothing was kept. Run npu-tensor calibrate again, without --quick, when it is idle"
        )
    return value


def kernel(device: Device, result: Tensor) -> tuple[Task, Any, Probe]:
    """Return the task of a pending tensor, the device's kernel for it, and a call that runs the kernel once.

    Raises:
        DeviceError: The device refuses the task, or it needs several kernels.
        BuildError: The build failed.
    """
    graph = structure_of([result._node])
    tasks = cut(graph, device.fusion).tasks
    if len(tasks) != 1:
        raise DeviceError(f"{device.uri}: what is measured should be one kernel, and is {len(tasks)}")
    (task,) = tasks
    answer = device.claim(task)
    if isinstance(answer, Refusal):
        raise DeviceError(f"{device.uri} has no kernel for what is measured: {answer.reason}")
    step = answer.bind()
    values = graph.values()
    return task, answer, lambda: step(values)
