"""What a kernel is known by: digests over everything that its files follow from.

    design_digest(design)                       what the kernel computes and how: the same on every machine
    kernel_key(description(request, backend))   that and what builds it here: compilers, flags, headers

A cached kernel is found by its key; a precompiled one, made by whatever compiler, by the digest of its design.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from npu_tensor.dataflow.design import Design
from npu_tensor.runtime.store.artifact import ABI, Backend, Request

__all__ = ["canonical", "description", "design_digest", "folder", "kernel_key"]


def canonical(value: Any) -> bytes:
    """JSON of one spelling: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def design_digest(design: Design) -> str:
    """SHA-256 of a design with the text of its sources, as 64 hexadecimal digits.

    Predicted costs do not count: they change nothing in the files.
    """
    functions = tuple(replace(function, cycles=0, program_bytes=0) for function in design.functions)
    return hashlib.sha256(repr(replace(design, functions=functions)).encode()).hexdigest()


def folder(arch: str, backend: Backend) -> str:
    """Where in the cache its kernels lie: generation of the array, and toolchain."""
    return f"{arch}-{backend.toolchain()}"


def description(request: Request, backend: Backend) -> dict[str, Any]:
    """What a kernel is made from, as JSON; part of its sidecar. Equal descriptions mean equal kernels."""
    design = request.design
    return {
        "abi": ABI,
        "arch": design.arch,
        "backend": backend.name,
        "columns": design.columns,
        "design": design_digest(design),
        "ingredients": backend.ingredients(design),
        "name": request.name,
        "op_params": request.op_params.hex(),
        "tensors": list(request.tensors),
        "toolchain": backend.toolchain(),
    }


def kernel_key(described: Mapping[str, Any]) -> str:
    """SHA-256 of a description, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(described)).hexdigest()
