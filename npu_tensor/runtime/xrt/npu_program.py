"""A kernel's files as the runtime needs them: what to load into a context, and how to start it.

    program = read_program(artifact, design, arch="aie2p")
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.requests import Artifact

__all__ = ["NpuProgram", "read_program"]

@dataclass(eq=False)
class NpuProgram:
    """What runs in a context of its own. Shared by all steps that launch it.

    name, key: of the kernel.
    path: xclbin or full ELF.
    instructions: 32-bit words for an xclbin; None for an ELF, which holds them.
    parameters: for each word that a run is given, where it stands in the instructions.
    sizes: bytes that the design needs of each host buffer.
    checked: whether its results were compared with the CPU's, and need not be now.
    launches: how many steps were asked to run it.
    faults: how many launches failed since one was right.
    refused: why it is not launched any more, or nothing.
    """

    name: str
    key: str
    path: Path
    instructions: np.ndarray[Any, np.dtype[np.uint32]] | None
    parameters: Sequence[Sequence[int]]
    sizes: Sequence[int]
    checked: bool = False
    launches: int = 0
    faults: int = 0
    refused: str = ""

    @property
    def is_elf(self) -> bool:
        """Whether it is one file that holds the instructions too."""
        return self.instructions is None

    def patched(self, words: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The instructions with the words of a run, each 32 bits, at their places."""
        assert self.instructions is not None
        instructions = self.instructions.copy()
        for places, word in zip(self.parameters, words, strict=True):
            instructions[list(places)] = word & 0xFFFFFFFF
        return instructions


def read_program(artifact: Artifact, design: Design, arch: str) -> NpuProgram:
    """The program of an artefact for a design. Raises BuildError if it is for another array or its files do not fit."""
    arch_of_files = artifact.description.get("made_from", artifact.description).get("arch", arch)
    if arch_of_files != arch:
        raise BuildError(f"{artifact.name} is made for {arch_of_files}, and this NPU is {arch}")
    sizes = tuple(buffer.type.nbytes for buffer in design.host_buffers)
    elf = artifact.files.get(".elf")
    if elf is not None and ".xclbin" not in artifact.files:
        if design.parameters:
            raise BuildError(f"{artifact.name} has runtime parameters, which cannot be set in a full ELF")
        return NpuProgram(artifact.name, artifact.key, elf, None, (), sizes)
    instructions = np.fromfile(artifact.files["_insts.bin"], np.uint32)
    if not instructions.size or artifact.files["_insts.bin"].stat().st_size % 4:
        raise BuildError(f"{artifact.files['_insts.bin']} is no stream of 32-bit instructions")
    parameters = _parameters(artifact, design, instructions.size)
    return NpuProgram(artifact.name, artifact.key, artifact.files[".xclbin"], instructions, parameters, sizes)


def _parameters(artifact: Artifact, design: Design, size: int) -> tuple[tuple[int, ...], ...]:
    """Where each word stands: all runtime parameters of a design get the same words."""
    if not design.parameters:
        return ()
    path = artifact.files["_parameters.json"]
    try:
        offsets = json.loads(path.read_bytes())
        places = np.array([offsets[parameter.name] for parameter in design.parameters], np.int64).T
    except (KeyError, TypeError, ValueError, OverflowError):
        places = np.empty(0, np.int64)
    shape = design.parameters[0].words, len(design.parameters)
    if places.shape == shape and ((places >= 0) & (places < size)).all():
        return tuple(tuple(map(int, word)) for word in places)
    raise BuildError(f"{path} does not say where the runtime parameters of {artifact.name} are")
