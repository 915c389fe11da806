"""Threads and memory of this process's CPU device."""

from __future__ import annotations

from dataclasses import asdict

from npu_tensor import schedule
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError

__all__ = ["empty_cache", "get_num_threads", "memory_stats", "set_num_threads"]


def set_num_threads(threads: int) -> None:
    """Use this many threads, the caller included, for large work from now on; 0 means all cores of the process."""
    if threads < 0:
        raise ArgumentError(f"the number of threads must be 0 or more, not {threads}")
    config.threads = threads
    schedule.reset_plans()
    for device in schedule.devices():
        device.set_threads(threads)


def get_num_threads() -> int:
    """The number of threads that large work is spread over."""
    return schedule.devices()[0].threads


def empty_cache() -> int:
    """Give memory that is kept for reuse back to the system; returns the bytes."""
    return schedule.allocator().release()


def memory_stats() -> dict[str, int]:
    """Bytes `in_use` by tensors, `cached` for reuse, and the `peak` of both."""
    return asdict(schedule.allocator().statistics())
