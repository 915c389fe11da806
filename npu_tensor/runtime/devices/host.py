"""This machine's processor: its memory, its devices, and the choice between them."""

from __future__ import annotations

from functools import cache

from npu_tensor._util.affinity import available_memory
from npu_tensor._util.forks import new_lock
from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import HostDevice, Kernel, Refusal, Step, Task

LAYOUT_SHARE = 4
"""Divisor of the machine's memory: copies of weights in the layouts of kernels may fill a quarter. Chosen, not
measured: a model and the copies of all its weights then take at most half."""

_lock = new_lock()  # Threads must not create the cached objects twice.


def allocator() -> Allocator:
    """Return the allocator of all tensors on this machine's processor."""
    with _lock:
        return _allocator()


@cache
def _allocator() -> Allocator:
    return Allocator(config.pool_bytes, available_memory() // LAYOUT_SHARE or config.pool_bytes)


def host_devices() -> tuple[HostDevice, ...]:
    """Return the CPU device, if it is available, and the NumPy reference, which runs every task."""
    with _lock:
        return _host_devices()


@cache
def _host_devices() -> tuple[HostDevice, ...]:
    from npu_tensor.runtime.reference import ReferenceDevice

    devices: list[HostDevice] = []
    if config.cpu_features != "numpy":
        try:
            import_whole("npu_tensor.runtime.cpu.cpu_device")  # which imports llvmlite
            from npu_tensor.runtime.cpu.cpu_device import CpuDevice

            devices.append(CpuDevice(allocator()))
        except ImportError as error:
            warn(f"the CPU compiler cannot be used, NumPy runs everything: {error}")
    return (*devices, ReferenceDevice(allocator()))


def forget_host_devices() -> None:
    """Drop the cached devices. The next call recreates them from the current settings; their memory is kept."""
    with _lock:
        _host_devices.cache_clear()


def host_kernel(task: Task) -> Kernel:
    """Return the kernel of the first device that claims a task."""
    answers = (device.claim(task) for device in host_devices())
    return next(answer for answer in answers if not isinstance(answer, Refusal))


def host_step(task: Task) -> Step:
    """Return the step of the first device that can build a kernel for a task. The NumPy reference always can."""
    for device in host_devices():
        answer = device.claim(task)
        if not isinstance(answer, Refusal):
            try:
                return answer.bind()
            except BuildError:
                continue
    raise AssertionError(f"the processor does not take {task.name}")
