"""Which devices run ops, and the threads and memory of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from npu_tensor.config import Policy, config
from npu_tensor.errors import ArgumentError
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.host import allocator, host_devices

__all__ = [
    "default_device",
    "empty_cache",
    "get_default_device",
    "get_num_threads",
    "memory_stats",
    "set_default_device",
    "set_num_threads",
    "synchronize",
]


def set_default_device(uris: str, policy: Policy | None = None) -> None:
    """Let the devices at `uris` run ops from now on, as the policy says; the CPU runs the rest.

    uris: "cpu", "npu" (all NPUs), "npu:0", "npu://<id>", or simulated "sim:npu1", "sim:npu2", with options such as
    "?cols=4&float32=emulate"; or several, separated by commas, the preferred one first.
    policy: what a placement makes small: "latency", "cpu_time" or "energy", as predicted; "always" for a device that
    takes every op that it has a kernel for; "auto" for latency, or always if all devices are simulated; None for what
    NPU_TENSOR_POLICY says, by default auto.
    Holds for the whole process. Raises DeviceError, ArgumentError.
    """
    selection.select(uris, policy)


def get_default_device() -> str:
    """The devices that were given to `set_default_device`, or in NPU_TENSOR_DEVICE."""
    return selection.default_device()


@contextmanager
def default_device(uris: str, policy: Policy | None = None) -> Iterator[None]:
    """`set_default_device` for a with block. Ops run where they are when they are computed, not when recorded."""
    selection.default_device()
    previous = selection.active.key
    set_default_device(uris, policy)
    try:
        yield
    finally:
        selection.select(previous.uris, previous.policy)


def synchronize() -> None:
    """Wait until the NPUs have ended everything that was realized with `wait=False`. Raises what went wrong."""
    selection.synchronize()


def set_num_threads(threads: int) -> None:
    """Use this many threads, the caller included, for large work from now on; 0 means all cores of the process."""
    if threads < 0:
        raise ArgumentError(f"the number of threads must be 0 or more, not {threads}")
    config.threads = threads
    selection.reset_plans()
    for device in host_devices():
        device.set_threads(threads)


def get_num_threads() -> int:
    """The number of threads that large work is spread over."""
    return host_devices()[0].threads


def empty_cache() -> int:
    """Give memory that is kept for reuse, packed weights included, back to the system; returns the bytes."""
    return allocator().release()


def memory_stats() -> dict[str, int]:
    """Bytes `in_use`, `cached` for reuse, and the `peak` of both.

    `packed`, a part of `in_use`: copies of operands, such as weights, in the layout in which a product reads them.
    """
    return asdict(allocator().statistics())
