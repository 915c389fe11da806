"""Kernel lookup time in memory, on disk and in a kernel directory: the suite `cache`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import npu_tensor as nt
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

DEVICE = "sim:npu2"
PLACES = ("memory", "cache on disk", "precompiled directory")


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


def look_ups(directory: Path, alternations: int) -> tuple[dict[str, list[float]], float]:
    """Measure seconds of every lookup in each place, and seconds of one build.

    A fresh library has an empty memory cache, so it reads and verifies the files each time.
    """
    with nt.config.scope(jit=False):  # The plan must not fill the cache.
        needed = requests()
    backend = HostBackend()
    warm = KernelLibrary(backend)
    start = time.perf_counter()
    artifacts = [warm.find(request) for request in needed]
    build = (time.perf_counter() - start) / len(needed)
    publish(artifacts, directory)
    memory = seconds(warm.find, needed, alternations)
    disk = seconds(lambda request: KernelLibrary(backend).find(request), needed, alternations)
    with nt.config.scope(kernel_dirs=(directory,)):
        ready = seconds(lambda request: KernelLibrary(backend).find(request), needed, alternations)
    return dict(zip(PLACES, (memory, disk, ready), strict=True)), build
