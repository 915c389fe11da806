"""Devices that run ops, and the threads and memory of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from npu_tensor.config import Policy, config
from npu_tensor.errors import ArgumentError
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.host import allocator, host_devices


def set_default_device(uris: str, policy: Policy | None = None) -> None:
    """Choose the devices that run ops from now on, for the whole process. The CPU runs ops that they do not support.

    Args:
        uris: "cpu", "npu" (all NPUs), "npu:0", "npu://<id>", or simulated "sim:npu1", "sim:npu2", with options such as
            "?cols=4&float32=emulate"; or several, separated by commas, the preferred one first.
        policy: Cost that a placement minimizes: "latency", "cpu_time" or "energy", as predicted. "always" uses a device
            for every op that it has a kernel for; "auto" is "latency", or "always" if all devices are simulated. None
            uses NPU_TENSOR_POLICY, by default "auto".

    Raises:
        DeviceError: A device is unknown or cannot be used.
        ArgumentError: `policy` has another value.
    """
    selection.select(uris, policy)


def get_default_device() -> str:
    """Return the devices passed to `set_default_device`, or NPU_TENSOR_DEVICE."""
    return selection.default_device()


@contextmanager
def default_device(uris: str, policy: Policy | None = None) -> Iterator[None]:
    """Apply `set_default_device` in a with block. It affects ops that are computed in the block."""
    selection.default_device()
    previous = selection.active.key
    set_default_device(uris, policy)
    try:
        yield
    finally:
        selection.select(previous.uris, previous.policy)


def synchronize() -> None:
    """Wait until the NPUs have finished everything realized with `wait=False`. Raise errors of these launches."""
    selection.synchronize()


def set_num_threads(threads: int) -> None:
    """Set the number of threads for large work, the caller included; 0 for all cores of the process."""
    if threads < 0:
        raise ArgumentError(f"the number of threads must be 0 or more, not {threads}")
    config.threads = threads
    selection.reset_plans()
    for device in host_devices():
        device.set_threads(threads)


def get_num_threads() -> int:
    """Return the number of threads for large work."""
    return host_devices()[0].threads


def empty_cache() -> int:
    """Release memory that is kept for reuse, packed weights included. Return the number of bytes."""
    return allocator().release()


def memory_stats() -> dict[str, int]:
    """Return bytes `in_use`, `cached` for reuse, and the `peak` of both.

    `packed`, a part of `in_use`, are copies of operands, such as weights, in the layout that a product reads.
    """
    return asdict(allocator().statistics())
