"""Which devices run ops, and the threads and memory of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from npu_tensor import schedule
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, DeviceError

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


def set_default_device(uri: str) -> None:
    """Let the device at `uri` take every op that it has a kernel for, from now on; the CPU runs the rest.

    uri: "cpu", "npu" (all NPUs), "npu:0", "npu://<id>", or simulated "sim:npu1", "sim:npu2", with options such as
    "?cols=4&float32=emulate"; or several, separated by commas, the preferred one first. Holds for the whole process.
    Raises DeviceError.
    """
    if not isinstance(uri, str):
        raise DeviceError(f"a device is named by text such as 'npu:0', not by {uri!r}", code="INVALID_ARGUMENT")
    schedule.set_default_device(uri)


def get_default_device() -> str:
    """What was given to `set_default_device`, or in NPU_TENSOR_DEVICE."""
    return schedule.default_device()


@contextmanager
def default_device(uri: str) -> Iterator[None]:
    """`set_default_device` for a with block. Ops run where they are when they are computed, not when recorded."""
    previous = schedule.default_device()
    set_default_device(uri)
    try:
        yield
    finally:
        set_default_device(previous)


def synchronize() -> None:
    """Wait until the NPUs have ended everything that was realized with `wait=False`. Raises what went wrong."""
    schedule.synchronize()


def set_num_threads(threads: int) -> None:
    """Use this many threads, the caller included, for large work from now on; 0 means all cores of the process."""
    if threads < 0:
        raise ArgumentError(f"the number of threads must be 0 or more, not {threads}")
    config.threads = threads
    schedule.reset_plans()
    for device in schedule.host_devices():
        device.set_threads(threads)


def get_num_threads() -> int:
    """The number of threads that large work is spread over."""
    return schedule.host_devices()[0].threads


def empty_cache() -> int:
    """Give memory that is kept for reuse back to the system; returns the bytes."""
    return schedule.allocator().release()


def memory_stats() -> dict[str, int]:
    """Bytes `in_use` by tensors, `cached` for reuse, and the `peak` of both."""
    return asdict(schedule.allocator().statistics())
