"""Requests for kernels, the back ends that build them, and the keys of the cache.

    request = Request("add-1024bf16-1024bf16-1024bf16", design, tensors)
    artifact = KernelLibrary(HostBackend()).find(request)
    artifact.files[".so"]

    digest(configuration)                       the same on every machine
    kernel_key(description(request, backend))   depends on what builds it here, too: compilers, flags, headers

The files of a kernel depend on the configuration of its design, and serve all designs that share it. A cached kernel is
found by its key; one in a kernel directory, made by any compiler, by the digest of its configuration. A ProgramRequest
asks for a program of several configurations; its files serve it alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Configuration, Design

Unit = Configuration | ArrayProgram
"""The part of a design that files are made from: a configuration, a design with its sequence, or a program."""

ABI: Final = 2
"""Counter of incompatible changes of this package, part of every key and description."""


class Request(NamedTuple):
    """A kernel that is needed.

    Attributes:
        name: Canonical GGML name, see `kernel_name`.
        design: Design to build.
        tensors: Descriptors as `TensorDesc` writes them, the outputs first.
        op_params: Attributes of the ops as bytes; empty where the name is complete.
    """

    name: str
    design: Design
    tensors: tuple[str, ...] = ()
    op_params: bytes = b""


class ProgramRequest(NamedTuple):
    """A program of several configurations that is needed as one binary, named for its kernels."""

    name: str
    design: ArrayProgram


AnyRequest = Request | ProgramRequest


class Backend(Protocol):
    """A compiler of designs and programs.

    Attributes:
        name: "host" or "iron".
        formats: Suffixes of the files in each form that a kernel may have.
    """

    name: str
    formats: tuple[tuple[str, ...], ...]

    def missing(self) -> str | None:
        """Return why nothing can be built here and what to install, or None. Never raises."""
        ...

    def toolchain(self) -> str:
        """Return compilers and versions in one word that is fit for a directory, such as "host-gcc12.2"."""
        ...

    def unit(self, design: Design | ArrayProgram) -> Unit:
        """Return the part of a design that its files depend on: the configuration, or all if they hold a sequence."""
        ...

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        """Return everything else that the files depend on, as JSON: flags, digests of headers, compilers."""
        ...

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Return why files made elsewhere from these ingredients cannot be used here, or None."""
        ...

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        """Make all files of a kernel below an empty directory, and return them by suffix.

        The output of compilers goes to build.log there. `force` also makes anew what kernels share. Raises BuildError
        with the message of the compiler.
        """
        ...


def digest(unit: Unit) -> str:
    """Return the SHA-256 of a configuration, a design or a program, with its sources, as 64 hexadecimal digits.

    Predicted costs are left out: the files do not depend on them.
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
    """Return the folder of kernels in the cache: generation of the array, and toolchain."""
    return f"{arch}-{backend.toolchain()}"


def description(request: AnyRequest, backend: Backend) -> dict[str, Any]:
    """Return everything that the files of a kernel depend on, as JSON: "made_from" of their description."""
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
    """Return the SHA-256 of a description, as 64 hexadecimal digits."""
    spelled = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=True)  # One spelling for all.
    return hashlib.sha256(spelled.encode()).hexdigest()
