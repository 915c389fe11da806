"""Rates of an NPU and its host, measured with launches of this package's kernels.

Not run on an NPU: the tests measure a stand-in for XRT whose launches take a known time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import quantiles
from typing import TYPE_CHECKING, Final, NamedTuple

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.cli.calibrate.probes import Probe, kernel, positive, typical
from npu_tensor.config import config
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.npu.npu_cost import kernel_seconds
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.npu.packing import pack
from npu_tensor.runtime.rates import NpuRates, npu_rates

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice

REPEATS: Final = 8
"""Number of kernels of one configuration in a launch that measures the cost per kernel."""

WARM_UP: Final = 3
"""Number of untimed launches, which create contexts, run objects and buffers and run the self-check."""


class _Launches(NamedTuple):
    """Seconds until XRT received the last launch, and until the host saw its completion."""

    asked: float
    done: float


def measure_npu(device: NpuDevice, quick: bool = False) -> NpuRates:
    """Measure the rates of an NPU in its current power mode, and of its host.

    The core rate comes from a bfloat16 product and its predicted cycles.

    Raises:
        DeviceError: The NPU refuses a kernel.
        LaunchError: A launch failed.
        BuildError: The kernels are not available.
    """
    rounds, n, side = (5, 1 << 18, 256) if quick else (30, 1 << 23, 1024)
    array = device.target.array
    prior = replace(npu_rates(array.device), clock_hz=device.costs.rates.clock_hz)
    with config.scope(fallback="error"):  # prevents fallback to the CPU
        _, _, small = kernel(device, _ones(1024).relu())
        _, _, other = kernel(device, _ones(1024) + _ones(1024))
        _, stream, large = kernel(device, _ones(n) + _ones(n))
        _, multiply, product = kernel(device, _ones(side, side) @ _ones(side, side))
        probes = ((small,), (other, small), (small, small), (large,), (product,))
        base, switching, same, streaming, multiplying = (launch_seconds(device, rounds, *each) for each in probes)
    bandwidth = positive("ddr_bytes_per_second", stream.prediction[0].ddr_bytes / (streaming.done - base.done))
    compute = multiply.prediction[1].compute * array.clock_hz / prior.clock_hz
    core_rate = positive("core_rate", compute / (multiplying.done - base.done))
    measured = replace(
        prior,
        python_seconds=positive("python_seconds", base.asked),
        dispatch_seconds=positive("dispatch_seconds", base.done - base.asked),
        # Each round has two switches. An unmeasurable difference counts as a tenth of a launch.
        switch_seconds=max((switching.done - same.done) / 2, base.done / 10),
        switch_column_seconds=0,
        ddr_bytes_per_second=bandwidth,
        core_rate=core_rate,
    )
    measured = _with_host(measured, device, n, quick)
    with config.scope(fallback="error"):
        return _with_launches(measured, device, rounds)


def _with_launches(rates: NpuRates, device: NpuDevice, rounds: int) -> NpuRates:
    """Measure the costs of kernels and reconfigurations within a launch. Keep the priors where a launch has none."""
    graph = structure_of([(_ones(32, 64) @ _ones(64, 64))._node, _ones(32, 64).softmax(-1)._node])
    tasks = cut(graph, device.fusion).tasks
    kernels = [kernel for kernel in map(device.claim, tasks) if isinstance(kernel, NpuKernel)]
    steps = [kernel.bind() for kernel in kernels]

    def seconds(numbers: Sequence[int]) -> float | None:
        """Return the seconds of one launch of these kernels, or None if they need several."""
        unused: list[Sequence[int]] = [()] * len(numbers)
        own = [kernels[n] for n in numbers]
        launches = device.launches(own, [steps[n] for n in numbers], unused, {}, own)
        if len(launches) > 1:
            return None
        values = graph.values()
        return launch_seconds(device, rounds, lambda: launches[0].step(values)).done

    # Unmeasurable differences count as a hundredth of a launch.
    one, several = seconds([0]), seconds([0] * REPEATS)
    grouped, mixed = seconds([0] * REPEATS + [1] * REPEATS), seconds([0, 1] * REPEATS)
    if one is not None and several is not None:
        counters, work = kernels[0].prediction
        step = (several - one) / (REPEATS - 1) - kernel_seconds(rates, device.target.array, counters, work)
        step = max(step, one / 100)
        # The measured launch cost includes one kernel.
        dispatch = max(rates.dispatch_seconds - step, rates.dispatch_seconds / 10)
        rates = replace(rates, step_seconds=step, dispatch_seconds=dispatch)
    if grouped is not None and mixed is not None:
        change = max(mixed - grouped, mixed / 100) / (2 * REPEATS - 2)
        rates = replace(rates, change_seconds=change)
    return rates


def _ones(*shape: int) -> nt.Tensor:
    return nt.ones(*shape, dtype=nt.bfloat16).realize(device="cpu")


def launch_seconds(device: NpuDevice, rounds: int, *launches: Probe) -> _Launches:
    """Measure launches in sequence, with nothing else in flight. Return lower quartiles, as `probes.typical` does."""
    samples = []
    for _ in range(WARM_UP + rounds):
        device.synchronize()
        start = time.perf_counter()
        for launch in launches[:-1]:
            launch()
            device.synchronize()
        launches[-1]()
        device.submit()
        submit_end = time.perf_counter()
        device.synchronize()
        samples.append((submit_end - start, time.perf_counter() - start))
    return _Launches(*(quantiles(part, n=4)[0] for part in zip(*samples[WARM_UP:], strict=True)))


def _with_host(rates: NpuRates, device: NpuDevice, n: int, quick: bool) -> NpuRates:
    """Measure the host costs of writing n elements to a buffer and synchronizing it to the NPU."""
    lease = device.engine.pool.take(2 * n)
    block = lease.block
    columns = 256
    layout = Layout((n // columns, columns), (columns, 1))
    same = HostOperand(0, False, layout, layout.shape, "bfloat16")
    padded = same._replace(layout=layout._replace(shape=(n // columns, columns - 1)))
    seconds = typical(
        {
            "sync": block.memory.to_device,
            "copy": partial(pack, same, np.ones(n, ml_dtypes.bfloat16), block.bytes),
            "convert": partial(pack, padded, np.ones(n, np.float32), block.bytes),
        },
        quick,
    )
    return replace(
        rates,
        sync_seconds_per_byte=positive("sync_seconds_per_byte", seconds["sync"] / block.nbytes),
        copied_bytes=positive("copied_bytes", 2 * n / seconds["copy"]),
        converted_elements=positive("converted_elements", n / seconds["convert"]),
    )
