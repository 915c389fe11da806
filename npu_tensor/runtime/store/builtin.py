"""The kernels that are part of the package, by array, and whether an array can have kernels at all.

    builtin_targets()           # ("aie2",)
    no_kernels("aie2p")         # "no kernels for `aie2p`: built-in targets are aie2; set GGML_HSA_KERNEL_DIR or ..."

They are a directory of ready kernels as `precompiled` has it, which `NPU_TENSOR_KERNEL_TARGETS=aie2 python -m
npu_tensor.ggml_hsa --builtin` makes before a wheel is built. Without that the package has no such directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.artifact import Backend
from npu_tensor.runtime.store.directories import readable, untrusted
from npu_tensor.runtime.store.kernel_cache import store
from npu_tensor.runtime.store.keys import folder
from npu_tensor.runtime.store.ready_kernels import MANIFEST

__all__ = ["DIRECTORY", "builtin_targets", "no_kernels", "ready_directories"]

DIRECTORY: Final = Path(__file__).parents[2] / "builtin_kernels"


def builtin_targets() -> tuple[str, ...]:
    """The arrays that the package brings kernels for."""
    return tuple(arch for arch in ARRAYS if (DIRECTORY / arch / MANIFEST).is_file())


def ready_directories() -> tuple[Path, ...]:
    """Where ready kernels are looked for: in those of `config.ready_kernel_dirs`, then in the package.

    Raises ArgumentError if one of the former does not exist, or if other users can write to it.
    """
    asked = config.ready_kernel_dirs()
    for path in asked:
        if reason := untrusted(path):
            raise ArgumentError(
                f"{config.origin('kernel_dirs')} names {str(path)!r}, which {reason}, and its kernels would run as "
                "this user; NPU_TENSOR_TRUST_CACHE=1 allows that"
            )
    return (*asked, *([DIRECTORY] if builtin_targets() else []))


def no_kernels(arch: str, backend: Backend | None = None) -> str | None:
    """Why there can be no kernels for an array, and what to do; None where some are ready or can be built.

    backend: what would build them, by default `IronBackend`. Raises ArgumentError as `ready_directories` does.
    """
    if backend is None:
        from npu_tensor.runtime.build.iron import IronBackend

        backend = IronBackend()
    missing = backend.missing()
    if config.jit != "off" and missing is None:
        return None
    cached = (directory / folder(arch, backend) for directory in readable(store.root))
    if any(directory.is_dir() for directory in (*(ready / arch for ready in ready_directories()), *cached)):
        return None
    targets = ", ".join(builtin_targets()) or "none"
    build = f"install mlir-aie ({missing})" if missing else "set NPU_TENSOR_JIT=wait, so that they are built"
    return f"no kernels for `{arch}`: built-in targets are {targets}; set GGML_HSA_KERNEL_DIR or {build}"
