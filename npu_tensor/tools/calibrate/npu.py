"""The rates of an NPU, from launches of kernels of this package, and those of the host around it.

Not run on an NPU: tried with the stand-in for XRT that the tests use.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from statistics import quantiles
from typing import TYPE_CHECKING, Final, NamedTuple

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.npu.npu_cost import padded_macs
from npu_tensor.runtime.npu.packing import pack
from npu_tensor.runtime.rates import NpuRates, npu_rates
from npu_tensor.tools.calibrate.probes import Probe, kernel, positive, typical

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["measure_npu"]

QUICK_ROUNDS: Final = 5
ROUNDS: Final = 30
WARM_UP: Final = 3
"""Launches before: contexts, run objects and buffers are made, and the first result is compared with the CPU's."""

MEASURED_PRODUCTS: Final = ("bfloat16", "int8", "int16")
INSTEAD: Final = {"float32": "bfloat16", "int32": "int16"}
"""Dtypes that are taken to be as much faster or slower than their prior as another one."""


class _Launches(NamedTuple):
    """Seconds until XRT had a launch, and until the host saw its end."""

    asked: float
    done: float


def measure_npu(device: XrtDevice, quick: bool = False) -> NpuRates:
    """Of one NPU in its present power mode, and of the host that feeds it.

    Raises DeviceError, LaunchError if a launch fails, BuildError if its kernels cannot be had.
    """
    rounds = QUICK_ROUNDS if quick else ROUNDS
    n, side = (1 << 18, 256) if quick else (1 << 23, 1024)
    dtypes = MEASURED_PRODUCTS[:1] if quick else MEASURED_PRODUCTS
    prior = npu_rates(device.target.array.device)
    with config.scope(strict=True):  # The CPU must not compute in its place.
        _, _, small = kernel(device, _ones("bfloat16", 1024).relu())
        _, _, other = kernel(device, _ones("bfloat16", 1024) + _ones("bfloat16", 1024))
        _, stream, large = kernel(device, _ones("bfloat16", n) + _ones("bfloat16", n))
        base, _ = _launched(device, small, rounds), _launched(device, other, rounds)
        by_turns = _launched(device, partial(_one_by_one, device, other, small), rounds)
        same = _launched(device, partial(_one_by_one, device, small, small), rounds)
        busy = _launched(device, large, rounds).done - base.done
        macs = {}
        for dtype in dtypes:
            task, answer, product = kernel(device, _ones(dtype, side, side) @ _ones(dtype, side, side))
            seconds = _launched(device, product, rounds).done - base.done
            macs[dtype] = positive(f"macs[{dtype}]", padded_macs(task, answer.offer) / seconds)
    for dtype in prior.macs.keys() - macs.keys():
        known = INSTEAD.get(dtype, "bfloat16")
        known = known if known in macs else "bfloat16"
        macs[dtype] = prior.macs[dtype] * macs[known] / prior.macs[known]
    bandwidth = positive("bytes_per_second", stream.prediction[0].ddr_bytes / busy)
    measured = replace(
        prior,
        python_seconds=positive("python_seconds", base.asked),
        dispatch_seconds=positive("dispatch_seconds", base.done - base.asked),
        # Each round has two switches; a difference that cannot be told is less than a launch.
        switch_seconds=max((by_turns.done - same.done) / 2, base.done / 10),
        bytes_per_second=bandwidth,
        column_bytes_per_second=prior.column_bytes_per_second * bandwidth / prior.bytes_per_second,
        macs=macs,
    )
    return _with_host(measured, device, n, quick)


def _ones(dtype: str, *shape: int) -> nt.Tensor:
    return nt.from_numpy(np.ones(shape, np.float32)).to(dtype).realize(device="cpu")


def _one_by_one(device: XrtDevice, *launches: Probe) -> None:
    for launch in launches:
        launch()
        device.synchronize()


def _launched(device: XrtDevice, launch: Probe, rounds: int) -> _Launches:
    """Of one or more launches, with nothing else under way; the lower quartile, as for `probes.typical`."""
    found = []
    for _ in range(WARM_UP + rounds):
        device.synchronize()
        start = time.perf_counter()
        launch()
        device.submit()
        asked = time.perf_counter()
        device.synchronize()
        found.append((asked - start, time.perf_counter() - start))
    return _Launches(*(quantiles(part, n=4)[0] for part in zip(*found[WARM_UP:], strict=True)))


def _with_host(rates: NpuRates, device: XrtDevice, n: int, quick: bool) -> NpuRates:
    """What the host takes to bring n elements into a buffer, and to make the NPU see them."""
    from npu_tensor.runtime.xrt import bindings

    lease = device.engine.pool.take(2 * n)
    block = lease.block
    direction = bindings.pyxrt().xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
    columns = 256
    layout = Layout((n // columns, columns), (columns, 1))
    same = HostOperand(0, False, layout, layout.shape, "bfloat16")
    padded = same._replace(layout=layout._replace(shape=(n // columns, columns - 1)))
    probes: dict[str, Probe] = {
        "sync": partial(block.bo.sync, direction),
        "copy": partial(pack, same, np.ones(n, ml_dtypes.bfloat16), block.bytes),
        "convert": partial(pack, padded, np.ones(n, np.float32), block.bytes),
    }
    found = typical(probes, quick)
    return replace(
        rates,
        sync_seconds_per_byte=positive("sync_seconds_per_byte", found["sync"] / block.nbytes),
        copied_bytes=positive("copied_bytes", 2 * n / found["copy"]),
        converted_elements=positive("converted_elements", n / found["convert"]),
    )
