"""Requests for kernels: what is asked for, the files that answer it, who can build them, and the keys of the cache.

    request = Request("add-1024bf16-1024bf16-1024bf16", design, tensors)
    artifact = KernelLibrary(HostBackend()).find(request)
    artifact.files[".so"]

    digest(configuration)                       what is on the array: the same on every machine
    kernel_key(description(request, backend))   that and what builds it here: compilers, flags, headers

The files of a kernel follow from the configuration of its design, and serve all designs that share it. A cached kernel
is found by its key; a precompiled one, made by whatever compiler, by the digest of its configuration. A program of
several configurations is asked for in the same way, with a ProgramRequest; its files serve it alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Configuration, Design

__all__ = [
    "ABI",
    "AnyRequest",
    "Artifact",
    "Backend",
    "Origin",
    "ProgramRequest",
    "Request",
    "Unit",
    "description",
    "digest",
    "folder",
    "kernel_key",
]

Unit = Configuration | ArrayProgram
"""What files are made from: a configuration, a design where they hold its sequence, or a program."""

ABI = 2
"""Counts the changes after which an artefact made before can no longer be used. Part of every key and description."""

Origin = Literal["memory", "precompiled", "cache", "built"]
"""Where a kernel came from, in the order in which these places are asked."""


class Request(NamedTuple):
    """A kernel that is needed.

    name: canonical GGML name, see `kernel_name`.
    design: what to build.
    tensors: descriptors as `TensorDesc` writes them, the outputs first.
    op_params: the attributes of the ops as bytes; empty where the name says all.
    """

    name: str
    design: Design
    tensors: tuple[str, ...] = ()
    op_params: bytes = b""


class ProgramRequest(NamedTuple):
    """A program that is needed as one binary. name: of its kernels."""

    name: str
    design: ArrayProgram


AnyRequest = Request | ProgramRequest


class Artifact(NamedTuple):
    """The files of a kernel, complete and verified.

    name: that of the configuration.
    key: 64 hexadecimal digits.
    files: by suffix, such as ".so", ".xclbin", "_insts.bin" or ".elf"; all of one of the back end's formats, perhaps
        among others. Another process may remove files of the cache at any time to make room: if one cannot be opened,
        ask for the kernel again.
    origin: the place that had it.
    description: the JSON sidecar.
    """

    name: str
    key: str
    files: Mapping[str, Path]
    origin: Origin
    description: Mapping[str, Any]


class Backend(Protocol):
    """What turns designs and programs into files.

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

    def unit(self, design: Design | ArrayProgram) -> Unit:
        """What the files are made from: the configuration of a design, or all of it where they hold its sequence."""
        ...

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        """What the files follow from besides that, as JSON: flags, digests of headers, compilers. For the key."""
        ...

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Why files that were made elsewhere from these ingredients cannot be used here; None if they can."""
        ...

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        """Make all files below `directory`, an empty one, and return them by suffix; compilers' output in build.log.

        force: whether to make anew what kernels share, too. Raises BuildError with what the compiler says.
        """
        ...


def digest(unit: Unit) -> str:
    """SHA-256 of a configuration, a design or a program, with the text of the sources, as 64 hexadecimal digits.

    Predicted costs do not count: they change nothing in the files.
    """
    if isinstance(unit, ArrayProgram):
        designs = {id(run.design): run.design for run in unit.runs}
        digests = {number: digest(design) for number, design in designs.items()}
        spelled = repr((unit.name, unit.arguments, [(digests[id(run.design)], run.slices) for run in unit.runs]))
    else:
        functions = tuple(replace(function, cycles=0, program_bytes=0) for function in unit.functions)
        spelled = repr(replace(unit, functions=functions))
    return hashlib.sha256(spelled.encode()).hexdigest()


def folder(arch: str, backend: Backend) -> str:
    """Where in the cache its kernels lie: generation of the array, and toolchain."""
    return f"{arch}-{backend.toolchain()}"


def description(request: AnyRequest, backend: Backend) -> dict[str, Any]:
    """What a kernel is made from, as JSON; part of its sidecar. Equal descriptions mean equal files."""
    unit = backend.unit(request.design)
    return {
        "abi": ABI,
        "arch": unit.array.arch,
        "backend": backend.name,
        "columns": unit.columns,
        "design": digest(unit),
        "ingredients": backend.ingredients(unit),
        "name": unit.name,
        "toolchain": backend.toolchain(),
    }


def kernel_key(described: Mapping[str, Any]) -> str:
    """SHA-256 of a description, as 64 hexadecimal digits."""
    spelled = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=True)  # One spelling for all.
    return hashlib.sha256(spelled.encode()).hexdigest()
