"""The files that the stand-in loads: what mlir-aie makes for an NPU, with a kernel for this machine in it.

    image = write(path, design, "xclbin")           # or "elf", which needs no instruction stream
    image.addresses                                 # of runtime parameters
    read(path).entries                              # how to call the functions of its cores
    write(path, program, "elf").program             # what one launch does; of a design, a run of it

Both kinds are zip files: the pickled design or program, the shared library of each of its sources, and a description.
Of an xclbin only the configuration of the design is used.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import uuid
import zipfile
from collections.abc import Mapping
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import Final

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Configuration, Design, Source
from npu_tensor.runtime.build.iron_worker import Format
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.host_compiler import CompiledSource, Entry, functions_by_source

__all__ = ["KERNELS", "Image", "read", "write"]

KERNELS: Final[Mapping[Format, str]] = {"xclbin": "MLIR_AIE", "elf": "main:sequence"}
"""The names that mlir-aie gives, as its examples use them."""

DESCRIPTION: Final = "image.json"


class Image:
    """A loaded file."""

    def __init__(self, content: bytes) -> None:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            description = json.loads(archive.read(DESCRIPTION))
            made: Design | ArrayProgram = pickle.loads(archive.read("design.pickle"))
            self._libraries = [archive.read(name) for name in description["libraries"]]
        self.program = ArrayProgram.of(made) if isinstance(made, Design) else made
        self.design = self.program.runs[0].design
        """The first, or the only one."""
        self.format: Format = description["format"]
        self.declared: int = description["declared"]
        self.digest: str = description["digest"]
        self.uuid = str(uuid.UUID(self.digest[:32]))
        self.kernel = KERNELS[self.format]
        self.first_buffer = 3 if self.format == "xclbin" else 0
        """Before the buffers, an xclbin's kernel takes the opcode, the instructions and their number."""

    @property
    def arguments(self) -> int:
        """How many its kernel takes."""
        return self.first_buffer + self.declared

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """How to call the functions of the design, by symbol."""
        return self.entries_of(self.design)

    def entries_of(self, configuration: Configuration) -> Mapping[str, Entry]:
        """How to call the functions of one of the configurations, by symbol."""
        return {f.symbol: self._loaded[f.source].entry(f) for f in configuration.functions}

    @cached_property
    def _loaded(self) -> dict[Source, CompiledSource]:
        found = functions_by_source(self.program)
        libraries = zip(found.items(), self._libraries, strict=True)
        return {source: CompiledSource(library, source, functions) for (source, functions), library in libraries}

    @cached_property
    def addresses(self) -> dict[str, int]:
        """Where a compiler has put the runtime parameters: each in a place of its own."""
        return {parameter.name: 0x400 + 0x100 * n for n, parameter in enumerate(self.design.parameters)}


def write(path: Path, made: Design | ArrayProgram, format: Format, declared: int | None = None) -> Image:
    """Compile a design or a program for this machine, pack it into a file, and return what was written.

    declared: host buffers that its kernel takes; by default those that it uses. Raises BuildError.
    """
    libraries = []
    for source, functions in functions_by_source(made).items():
        library = host_compiler.library(source, made.array.arch, functions)
        libraries.append(library.files[host_compiler.SUFFIX].read_bytes())
    pickled = pickle.dumps(made)
    names = [f"library_{number}.so" for number in range(len(libraries))]
    description = {
        "format": format,
        "declared": declared or len(made.host_buffers if isinstance(made, Design) else made.arguments),
        "digest": hashlib.sha256(pickled).hexdigest(),
        "libraries": names,
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(DESCRIPTION, json.dumps(description))
        archive.writestr("design.pickle", pickled)
        for name, content in zip(names, libraries, strict=True):
            archive.writestr(name, content)
    return read(path)


def read(path: Path) -> Image:
    """The image in a file. Raises OSError, and ValueError if it is not one."""
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int, size: int) -> Image:
    try:
        return Image(path.read_bytes())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path}: {error}") from None
