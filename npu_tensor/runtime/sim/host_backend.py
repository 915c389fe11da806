"""Back end for the simulated NPU: the C++ of a design, compiled for this machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Configuration, Design, KernelFunction, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.host_compiler import Entry
from npu_tensor.runtime.store.requests import AnyRequest, Unit


class HostBackend:
    """Back end that makes one shared library per source of a design: ".so", "_1.so" and so on."""

    name = "host"
    formats: tuple[tuple[str, ...], ...] = ((host_compiler.SUFFIX,),)

    def missing(self) -> str | None:
        """Return the reason why a C++ compiler is missing, or None."""
        return host_compiler.reason()

    def toolchain(self) -> str:
        """Return the toolchain's name, such as "host-gcc12.2.0"."""
        return host_compiler.toolchain()

    def unit(self, design: Design | ArrayProgram) -> Unit:
        """Return the configuration of a design, or the program, whose libraries are those of all its configurations."""
        return design.configuration if isinstance(design, Design) else design

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        """Return compiler, flags and headers of every source, and the required features of the processor."""
        sources = {
            suffix: host_compiler.ingredients(source, unit.array.arch) for suffix, (source, _) in _sources(unit).items()
        }
        return {"processor": " ".join(sorted(host_target().features)), "sources": sources}

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Return the reason why libraries do not suit this processor, or None.

        They use all instructions of the machine that compiled them. A missing instruction would end the process.
        """
        lacking = set(str(ingredients.get("processor", "unknown")).split()) - host_target().features
        return f"this processor lacks {', '.join(sorted(lacking))}" if lacking else None

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        """Compile every source, or take its library from the cache: kernels of several shapes share sources."""
        files = {}
        for suffix, (source, functions) in _sources(request.design).items():
            library = host_compiler.library(source, request.design.array.arch, functions, force)
            files[suffix] = directory / f"kernel{suffix}"
            shutil.copyfile(library.files[host_compiler.SUFFIX], files[suffix])
        return files


def entries(
    configuration: Configuration, files: Mapping[str, Path], description: Mapping[str, Any]
) -> dict[str, Entry]:
    """Return the entries of the functions of a configuration from its libraries.

    Raises:
        BuildError: A library is missing or cannot be loaded.
    """
    entry_points: dict[str, Entry] = {}
    for suffix, (source, functions) in _sources(configuration).items():
        if suffix not in files:
            raise BuildError(f"the library {suffix} of {configuration.name} is missing")
        loaded = host_compiler.load(files[suffix], description["files"][suffix]["sha256"], source, functions)
        entry_points |= {function.symbol: loaded.entry(function) for function in functions}
    return entry_points


def _sources(configuration: Unit) -> dict[str, tuple[Source, list[KernelFunction]]]:
    """Return the sources of a configuration or a program with their functions, by the suffix of their libraries."""
    suffix = host_compiler.SUFFIX
    return {
        suffix if not number else f"_{number}{suffix}": item
        for number, item in enumerate(host_compiler.functions_by_source(configuration).items())
    }
