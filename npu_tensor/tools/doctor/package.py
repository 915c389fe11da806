"""Checks of the package's own needs: a kernel cache, a compiler and the simulated NPU."""

from __future__ import annotations

from pathlib import Path

from npu_tensor._util.units import size
from npu_tensor.config import config
from npu_tensor.runtime.devices.backends import not_allowed
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.directories import writable
from npu_tensor.tools.doctor.finding import CheckResult, System, note, ok

__all__ = ["cache_directory", "host_cxx", "simulated_npu"]


def cache_directory(_system: System) -> CheckResult:
    """Check that compiled kernels can be cached, and the size of the cache."""
    directory = config.cache_dir
    try:
        writable(directory)
    except OSError as error:
        return note(f"nothing can be written to {directory}: {error}", *_NOT_KEPT)
    return ok(f"{directory} holds {size(sum(_sizes(directory)))} of at most {size(config.cache_bytes)}")


_NOT_KEPT = "every process compiles its kernels again", "export NPU_TENSOR_CACHE_DIR=DIRECTORY, one of yours"


def _sizes(directory: Path) -> list[int]:
    sizes = []
    for path in directory.rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except OSError:  # Another process has removed the file.
            continue
    return sizes


def host_cxx(system: System) -> CheckResult:
    """Check that kernels can be compiled for this machine."""
    reason = system.compiler()
    if reason is None:
        return ok(host_compiler.toolchain().removeprefix("host-"))
    fix = "unset CXX, or set it to a C++ compiler" if "CXX=" in reason else "sudo apt install g++"
    return note(reason, "kernels are compiled by it for the simulated NPU", fix)


def simulated_npu(system: System) -> CheckResult:
    """Check that a small kernel gives the right result on the simulated NPU."""
    if system.compiler() is not None:
        return note("not tried without a C++ compiler")
    if reason := not_allowed("sim"):
        return note(reason)
    import npu_tensor as nt

    ones = nt.tensor([1] * 64, dtype=nt.int32)
    try:
        with config.scope(fallback="error", cache_clear=False), nt.default_device("sim:npu2"):
            result = (ones + ones).tolist()
    except nt.NpuTensorError as error:
        return note(str(error), "nothing can be tried without an NPU", "report it, with npu-tensor doctor --json")
    if result != [2] * 64:
        return note(f"1 + 1 = {result}", "results of the simulated NPU cannot be trusted", "report it")
    return ok("a kernel ran on sim:npu2")
