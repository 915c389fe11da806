"""Kernel lookup time in memory, on disk and in a kernel directory: python -m benchmarks.cache."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.cli.calibrate.probes import no_garbage_collection
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner.planner import plan
from npu_tensor.planner.selection import accelerators, current
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Request
from npu_tensor.runtime.store.store import Artifact

from .report import Outcome, benchmark, table

DEVICE = "sim:npu2"
PLACES = ("memory", "cache on disk", "precompiled directory")
ASKED_MICROSECONDS = {"memory": 20.0, "cache on disk": 2000.0}
ALTERNATIONS = 1000
QUICK_ALTERNATIONS = 50


def requests() -> list[Request]:
    """Return requests for two kernels, as made by the scheduler."""
    x = nt.ones(4096, dtype=nt.bfloat16).realize()
    result = []
    with nt.default_device(DEVICE):
        for expression in (x + x, (x * x).gelu(approximate="tanh")):
            (placed,) = plan(structure_of([expression._node])).placed
            kernel = accelerators(current())[0].claim(placed.task)
            assert isinstance(kernel, NpuKernel)
            result.append(kernel.request)
    return result


def seconds(call: Callable[[Request], object], rotation: list[Request], repeats: int) -> list[float]:
    """Measure the seconds of every lookup, with alternating requests."""
    times = []
    with no_garbage_collection():
        for number in range(repeats):
            request = rotation[number % len(rotation)]
            start = time.perf_counter()
            call(request)
            times.append(time.perf_counter() - start)
    return times


def publish(kernels: list[Artifact], directory: Path) -> None:
    """Write a kernel directory, as `npu-tensor gen-kernels` does."""
    for kernel in kernels:
        contents = {suffix: path.read_bytes() for suffix, path in kernel.files.items()}
        fields = {field: kernel.description[field] for field in ("name", "key", "made_from")}
        KernelDirectory(directory).write(kernel.description["made_from"]["arch"], kernel.name, contents, fields)


def look_ups(directory: Path, alternations: int) -> tuple[dict[str, list[float]], float, int]:
    """Measure seconds of every lookup in each place, seconds of one build, and the number of rebuilt kernels.

    A fresh library has an empty memory cache, so it reads and verifies the files each time.
    """
    with nt.config.scope(jit=False):  # The plan must not fill the cache.
        needed = requests()
    builds: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.BuildStarted):
            builds.append(event.kernel)

    backend = HostBackend()
    warm = KernelLibrary(backend)
    start = time.perf_counter()
    artifacts = [warm.find(request) for request in needed]
    build = (time.perf_counter() - start) / len(needed)
    publish(artifacts, directory)
    with events.listen(note):
        memory = seconds(warm.find, needed, alternations)
        disk = seconds(lambda request: KernelLibrary(backend).find(request), needed, alternations)
        with nt.config.scope(kernel_dirs=(directory,)):
            ready = seconds(lambda request: KernelLibrary(backend).find(request), needed, alternations)
    return dict(zip(PLACES, (memory, disk, ready), strict=True)), build, len(builds)


def measured(directory: Path, alternations: int) -> list[dict[str, Any]]:
    """Measure one row per place."""
    looked_up, build, rebuilds = look_ups(directory, alternations)
    rows = {place: statistics.median(samples) for place, samples in looked_up.items()} | {"build": build}
    return [{"place": place, "microseconds": value * 1e6, "rebuilds": rebuilds} for place, value in rows.items()]


@benchmark("Few look-ups.")
def main(quick: bool) -> Outcome:
    """Microseconds to find a kernel of the simulated NPU, two kernels taking turns, after both were built."""
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryDirectory() as ready,
        nt.config.scope(cache_path=empty),
    ):
        rows = measured(Path(ready), QUICK_ALTERNATIONS if quick else ALTERNATIONS)
    for row in rows:
        asked = ASKED_MICROSECONDS.get(row["place"])
        row |= {"asked": asked, "met": None if asked is None else row["microseconds"] < asked}
    columns = ("place", "us = microseconds:.1f", "asked:.0f", "met", "rebuilds")
    return Outcome({"rows": rows}, [table("median of one look-up", rows, *columns)])


if __name__ == "__main__":
    main()
