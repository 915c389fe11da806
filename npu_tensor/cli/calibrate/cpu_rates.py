"""Rates of the processor, measured with kernels of the CPU device and calls of its NumPy reference."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.cli.calibrate.probes import Probe, kernel, positive, typical
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.rates import Level, ProcessorRates, TileShape, processor_rates
from npu_tensor.task import HostDevice
from npu_tensor.tensor import Tensor

CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
FILLED: Final = 0.6
"""Share of a cache that a working set fills. Other data of the processor needs the rest."""

BEYOND: Final = 4
"""Ratio of a working set in main memory to the size of the last cache."""

ADD_BYTES: Final = 12
"""Size of operands and result of a float32 addition, in bytes per element."""

TABLE_COLUMNS: Final = 4096
"""Number of columns of a float32 table that is read by column. Adjacent elements are 4 pages apart."""

PRODUCTS: Final = {
    "float32": "float32",
    "bfloat16_pair": "bfloat16",
    "int8_quad": "int8",
    "int16_pair": "int16",
    "int32": "int32",
}
"""Dtype of the products of each micro-kernel unit. No tensors exist for the other units."""

SEARCHED: Final = (252, 384, 512)
"""m, n and k of the products that select the fastest tiles. They hold whole tiles of most shapes, and two panels of A
and B exceed the first cache."""

GAIN: Final = 0.97
"""Upper bound on the time of better tiles, relative to the usual ones. A smaller gain may be noise."""

INSTEAD: Final = {"float64": "float32", "int64": "int32"}
"""Unmeasured units, with the unit whose ratio of measured rate to prior they use."""


def _ones(dtype: str, *shape: int) -> Tensor:
    return nt.from_numpy(np.ones(shape, np.float32)).to(dtype).realize(device="cpu")


def _add(nbytes: float) -> Tensor:
    n = max(16, int(nbytes / ADD_BYTES))
    return _ones("float32", n) + _ones("float32", n)


def _cpu_device() -> Any:
    device, *_ = host_devices()
    if not hasattr(device, "target"):
        raise DeviceError("the CPU device compiles nothing here; `npu-tensor info` shows the reason")
    return device


@contextmanager
def _threads(device: HostDevice, number: int) -> Iterator[None]:
    before = device.threads
    device.set_threads(number)
    try:
        yield
    finally:
        device.set_threads(before)


def measure_processor(quick: bool = False) -> ProcessorRates:
    """Measure the rates of the processor, with the number of threads of the CPU device.

    Raises:
        DeviceError: The compiler is missing.
        NpuTensorError: The measurements are inconsistent.
    """
    from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, flops

    device = _cpu_device()
    caches = _cache_bytes(device.threads)
    sizes = [size * FILLED for size in caches] or [level.nbytes for level in processor_rates().levels[:-1]]
    # The working sets lie between the sizes of adjacent caches and beyond the last cache.
    middle = [math.sqrt(small * large) for small, large in pairwise(sizes)]
    sets = [sizes[0], *middle, sizes[-1] * BEYOND * (1 if quick else 2)]
    with _threads(device, 1):
        probes: dict[str, Probe] = {"launch": kernel(device, _add(0))[2]}
        work: dict[str, Any] = {}
        for number, nbytes in enumerate(sets):
            rows = max(2, int(nbytes / (4 * TABLE_COLUMNS)))
            probes[f"level {number}"] = kernel(device, _add(nbytes))[2]
            probes[f"lines {number}"] = kernel(device, _ones("float32", rows, TABLE_COLUMNS).sum(0))[2]
            work[f"lines {number}"] = rows * TABLE_COLUMNS
        task, _, probes["function"] = kernel(device, _ones("float32", 1 << 14).tanh())
        work["function"] = flops(task.program) << 14
        probes["least"] = kernel(device, _add(ADD_BYTES * LEAST_PIECE))[2]
        probes["rows"] = kernel(device, _ones("float32", 4096, 64).sum(-1))[2]
        probes["scattered"] = kernel(device, _ones("float32", 3 << 14)[::3].contiguous())[2]
        chosen = _fastest(device, quick)
        work |= _products(device, chosen, probes)
        alone = typical(probes, quick)
    threads = device.threads
    probes = {f"level {number}": kernel(device, _add(nbytes * threads))[2] for number, nbytes in enumerate(middle, 1)}
    probes[f"level {len(sizes)}"] = kernel(device, _add(sets[-1]))[2]
    probes["least"] = kernel(device, _add(ADD_BYTES * LEAST_PIECE * threads))[2]
    together = typical(probes, quick)
    prior, launch = processor_rates(device.target.lanes), positive("launch_seconds", alone["launch"])
    # If work grows with the threads, the extra time is the cost of waking them. The difference may be unmeasurable.
    fork = max(together["least"] - alone["least"], launch / 10) if threads > 1 else prior.fork_seconds
    levels = []
    for number, nbytes in enumerate(sets):
        last = number == len(sizes)
        one = positive("thread_bytes_per_second", nbytes / (alone[f"level {number}"] - launch))
        if number == 0:
            every = one * threads  # Each core has its own cache.
        else:
            every = nbytes * (1 if last else threads) / (together[f"level {number}"] - launch - fork)
        line = (alone[f"lines {number}"] - launch) * device.target.lanes / work[f"lines {number}"]
        size = prior.levels[-1].nbytes if last else sizes[number]
        levels.append(Level(size, one, max(one, positive("bytes_per_second", every)), positive("line_seconds", line)))
    operations = positive("flops", work["function"] / (alone["function"] - launch))
    rates = replace(
        prior,
        lanes=device.target.lanes,
        launch_seconds=launch,
        fork_seconds=fork,
        levels=tuple(levels),
        flops=operations,
        row_seconds=positive("row_seconds", (alone["rows"] - launch - 4096 * 64 / operations) / 4096),
        scattered_elements=positive("scattered_elements", (1 << 14) / (alone["scattered"] - launch)),
    )
    rates = replace(rates, tiles={unit: TileShape(*blocking[1:]) for unit, blocking in chosen.items()})
    return _with_reference(_with_products(rates, prior, work, alone), quick)


def _cache_bytes(threads: int) -> list[float]:
    """Return the share of one thread in each cache from level 2 up, in bytes; empty if unknown."""
    by_level: dict[int, float] = {}
    try:
        for cache in CACHES.glob("index[0-9]*"):
            number, kind, size, shared = (
                (cache / name).read_text("ascii").strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
            if kind != "Instruction" and int(number) > 1 and size.endswith("K"):
                by_level[int(number)] = int(size[:-1]) * 1024 // max(1, min(threads, _cores(shared)))
    except (OSError, ValueError):
        return []
    sizes = [by_level[number] for number in sorted(by_level)]
    return sizes if sizes == sorted(set(sizes)) else []


def _cores(listed: str) -> int:
    """Count the cores in a list such as "0-3,8" that this process may use."""
    named: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        named.update(range(int(first), int(last or first) + 1))
    return len(named & os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else len(named)


def _product(device: Any, blocking: Any, dtype: str, m: int, n: int, k: int) -> Probe:
    """Return a call that multiplies m x k by k x n ones with a blocking."""
    from npu_tensor.runtime.cpu.gemm import Gemm, Matrix

    a, b = (np.ones(shape, getattr(ml_dtypes, dtype, dtype)) for shape in ((m, k), (k, n)))
    result = np.empty((m, n), blocking.unit.accumulate)
    of_a, of_b, of_result = (Matrix(array.dtype.name, (array.shape[1], 1)) for array in (a, b, result))
    gemm = Gemm(device.engine, device.target, blocking, (m, n, k), a=of_a, b=of_b, outputs=(of_result,))
    launch, allocate = device.pool.launch, device.allocator.allocate

    def call() -> None:
        addresses = [a.ctypes.data], [b.ctypes.data]
        packed = [packing.run(launch, allocate, of) for packing, of in zip(gemm.packings, addresses, strict=False)]
        sources = [[buffer.address] for buffer in packed] or addresses
        gemm(launch, [result.ctypes.data], *sources)

    return call


def _fastest(device: Any, quick: bool) -> dict[str, Any]:
    """Return the blocking of each natively supported unit: the usual one unless another is clearly faster."""
    from npu_tensor.runtime.cpu.gemm_micro import UNITS, blockings, choose_unit

    chosen = {}
    for unit, dtype in PRODUCTS.items():
        if choose_unit(dtype, dtype, device.target).name == unit:
            candidates = {str(blocking[1:]): blocking for blocking in blockings(UNITS[unit], device.target)}
            probes = {name: _product(device, each, dtype, *SEARCHED) for name, each in candidates.items()}
            seconds = typical(probes, quick)
            usual, best = next(iter(candidates)), min(seconds, key=seconds.__getitem__)
            chosen[unit] = candidates[best if seconds[best] < GAIN * seconds[usual] else usual]
    return chosen


def _products(device: Any, chosen: dict[str, Any], probes: dict[str, Probe]) -> dict[str, Any]:
    """Add products to `probes`: a compute-bound one for each unit, a store-bound one and a packing-bound one."""
    from npu_tensor.runtime.cpu.cpu_cost import product_work

    shapes = {f"multiply {unit}": (unit, 256, 256, 1024) for unit in chosen}
    shapes |= {"store": ("float32", 512, 512, 12), "pack": ("float32", 12, 512, 512)}  # Smaller ones remain unpacked.
    work = {}
    for name, (unit, m, n, k) in shapes.items():
        dtype = PRODUCTS[unit]
        probes[name] = _product(device, chosen[unit], dtype, m, n, k)
        task, *_ = kernel(device, _ones(dtype, m, k) @ _ones(dtype, k, n))
        work[name] = product_work(task, chosen[unit], device.target)
    return work


def _with_products(
    rates: ProcessorRates, prior: ProcessorRates, work: dict[str, Any], seconds: dict[str, float]
) -> ProcessorRates:
    """Derive the costs of a MAC, a tile and packing from three float32 products, then the rates of the other units."""
    three = ("multiply float32", "store", "pack")
    per_mac, tile, per_byte = np.linalg.solve(
        [[work[name].macs, work[name].tiles, sum(work[name].packed)] for name in three],
        [seconds[name] - 3 * rates.launch_seconds for name in three],
    )
    macs = {"float32": positive("macs[float32]", 1 / per_mac)}
    tile, per_byte = positive("tile_seconds", tile), positive("packed_bytes", per_byte)
    for unit in rates.tiles:
        done = work[f"multiply {unit}"]
        left = seconds[f"multiply {unit}"] - 3 * rates.launch_seconds - done.tiles * tile - sum(done.packed) * per_byte
        macs[unit] = positive(f"macs[{unit}]", done.macs / left)
    known = dict(macs)
    for unit, other in {unit: INSTEAD.get(unit, "float32") for unit in prior.macs if unit not in known}.items():
        macs[unit] = prior.macs[unit] * known[other] / prior.macs[other]
    return replace(rates, macs=macs, tile_seconds=float(tile), packed_bytes=float(1 / per_byte))


def _with_reference(rates: ProcessorRates, quick: bool) -> ProcessorRates:
    reference = host_devices()[-1]
    n, side = 1 << 18, 64  # NumPy's BLAS runs larger products in its own threads, which other load delays.
    _, answer, elements = kernel(reference, _add(ADD_BYTES * n))
    seconds = typical(
        {
            "call": kernel(reference, _add(0))[2],
            "elements": elements,
            "float": kernel(reference, _ones("float32", side, side) @ _ones("float32", side, side))[2],
            "integer": kernel(reference, _ones("int32", side, side) @ _ones("int32", side, side))[2],
        },
        quick,
    )
    call = seconds["call"]
    return replace(
        rates,
        reference_seconds=positive("reference_seconds", call),
        reference_elements=positive("reference_elements", n * answer.passes / (seconds["elements"] - call)),
        reference_macs={
            kind: positive(f"reference_macs[{kind}]", side**3 / (seconds[kind] - call)) for kind in ("float", "integer")
        },
    )
