"""What the kernel lifecycle passes around: the request for a kernel, the files that answer it, and who can build them.

    request = Request("add-1024bf16-1024bf16-1024bf16", design, tensors)
    artifact = KernelLibrary(HostBackend()).find(request)
    artifact.files[".so"]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from npu_tensor.dataflow.design import Design

__all__ = ["ABI", "Artifact", "Backend", "Origin", "Request"]

ABI = 1
"""Counts the changes after which an artefact made before can no longer be used. Part of every key and description."""

Origin = Literal["memory", "precompiled", "cache", "built"]
"""Where a kernel came from, in the order in which these places are asked."""


class Request(NamedTuple):
    """A kernel that is needed.

    name: canonical GGML name, see `kernel_name`. tensors: descriptors as `TensorDesc` writes them, the outputs first.
    op_params: the attributes of the ops as bytes; empty where the name says all.
    """

    name: str
    design: Design
    tensors: tuple[str, ...] = ()
    op_params: bytes = b""


class Artifact(NamedTuple):
    """The files of a kernel, complete and verified.

    key: 64 hexadecimal digits. files: by suffix, such as ".so", ".xclbin", "_insts.bin" or ".elf"; all of one of the
    back end's formats, perhaps among others. description: the JSON sidecar.
    """

    name: str
    key: str
    files: Mapping[str, Path]
    origin: Origin
    description: Mapping[str, Any]


class Backend(Protocol):
    """What turns a design into files.

    name: "host" or "iron". formats: of each form that a kernel may have, the suffixes of the files it takes.
    """

    name: str
    formats: tuple[tuple[str, ...], ...]

    def missing(self) -> str | None:
        """Why nothing can be built here, and what to install, in one sentence; None if it can. Never raises."""
        ...

    def toolchain(self) -> str:
        """Compilers and versions in one word that is fit for a directory, such as "host-gcc12.2"."""
        ...

    def ingredients(self, design: Design) -> dict[str, Any]:
        """What the files follow from besides the design, as JSON: flags, digests of headers, compilers. For the key."""
        ...

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Why files that were made elsewhere from these ingredients cannot be used here; None if they can."""
        ...

    def build(self, request: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        """Make all files below `directory`, an empty one, and return them by suffix; compilers' output in build.log.

        force: whether to make anew what kernels share, too. Raises BuildError with what the compiler says.
        """
        ...
