"""The files that the stand-in loads: in place of what mlir-aie makes for an NPU, what it makes it from.

    image = write(path, design, "xclbin")           # or "elf", which needs no instruction stream
    image.addresses                                 # of runtime parameters
    write(path, program, "elf").program             # what one launch does; of a design, a run of it
    write(path, {"MLIR_AIE": design, "MORE": other}, "xclbin")      # of several kernels

Of an xclbin only the configurations of the designs are used.
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import Design
from npu_tensor.runtime.build.iron_worker import Format
from npu_tensor.runtime.sim.host_compiler import Entry

KERNELS: Final[Mapping[Format, str]] = {"xclbin": "MLIR_AIE", "elf": "main:sequence"}
"""The names that mlir-aie gives, as its examples use them."""

MAGIC: Final = b"stand-in for a file of mlir-aie\n"


def addresses(design: Design) -> dict[str, int]:
    """Return the addresses of runtime parameters, each at a different place."""
    return {each.name: 0x400 + 0x100 * number for number, each in enumerate(design.parameters)}


class Image:
    """A loaded file. kernels: by name. design: the first, or the only one. declared: host buffers of each kernel."""

    def __init__(self, content: bytes) -> None:
        made, self.format = pickle.loads(content)
        self.kernels: dict[str, Design] = made if isinstance(made, dict) else {}
        if isinstance(made, Design):
            self.kernels = {KERNELS[self.format]: made}
        elif isinstance(made, ArrayProgram):
            self.kernels = {KERNELS[self.format]: made.runs[0].design}
        self.design = next(iter(self.kernels.values()))
        self.program = made if isinstance(made, ArrayProgram) else ArrayProgram.of(self.design)
        self.declared = HOST_BUFFERS if self.format == "xclbin" else len(self.program.arguments)
        self.digest = hashlib.sha256(content).hexdigest()
        self.uuid = str(uuid.UUID(self.digest[:32]))
        self.first_buffer = 3 if self.format == "xclbin" else 0
        """Before the buffers, an xclbin's kernel takes the opcode, the instructions and their number."""
        self.entries: dict[int, Mapping[str, Entry]] = {}
        """Entry points of each configuration on this machine, created on first use."""
        known = self.program.configurations
        self.configurations = [known.index(run.design.configuration) for run in self.program.runs]
        """Number of the configuration of each run."""
        self.designs = list(self.kernels.values())
        """One of each configuration."""
        if self.format == "elf":
            self.designs = [self.program.runs[self.configurations.index(n)].design for n in range(len(known))]

    @property
    def arguments(self) -> int:
        """Number of arguments of each kernel."""
        return self.first_buffer + self.declared


def write(path: Path, made: Design | ArrayProgram | dict[str, Design], format: Format) -> Image:
    """Put a design, a program or several kernels into a file."""
    path.write_bytes(MAGIC + pickle.dumps((made, format)))
    return read(path)


def read(path: Path) -> Image:
    """The image in a file. Raises OSError, and ValueError if it is not one."""
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int, size: int) -> Image:
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise ValueError(f"{path} is no file of the stand-in")
    return Image(content.removeprefix(MAGIC))
