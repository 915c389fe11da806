"""A kernel's files as the runtime needs them: what to load into a context, and how to start it.

program = read_program(ArrayProgram("add", (DesignRun(design, slices),), sizes), artifact)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.instructions import stream
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.runtime.store.requests import Artifact

__all__ = ["XrtProgram", "read_program"]


@dataclass(eq=False, kw_only=True)
class XrtProgram(NpuProgram):
    """A binary with the instructions of a launch.

    path: xclbin or full ELF.
    instructions: 32-bit words for an xclbin; None for an ELF, which holds them.
    parameters: for each word that a run is given, where it stands in the instructions.
    """

    path: Path
    instructions: np.ndarray[Any, np.dtype[np.uint32]] | None
    parameters: Sequence[Sequence[int]]

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


def read_program(program: ArrayProgram, artifact: Artifact) -> XrtProgram:
    """What runs an array's program whose binary an artefact has.

    Raises BuildError if the artefact is for another array or its files do not fit.
    """
    arch = program.array.arch
    arch_of_files = artifact.description.get("made_from", artifact.description).get("arch", arch)
    if arch_of_files != arch:
        raise BuildError(f"{artifact.name} is made for {arch_of_files}, and this NPU is {arch}")
    elf = artifact.files.get(".elf")
    if elf is not None and ".xclbin" not in artifact.files:
        if any(run.design.run_words for run in program.runs):
            raise BuildError(f"{artifact.name} has runtime parameters, which cannot be set in a full ELF")
        return XrtProgram(
            name=program.name,
            key=artifact.key,
            binary=artifact.key,
            sizes=program.arguments,
            path=elf,
            instructions=None,
            parameters=(),
        )
    path = artifact.files["_parameters.json"]
    (configuration,) = program.configurations
    try:
        places = json.loads(path.read_bytes())
        words, parameters = stream(program, [{each.name: int(places[each.name]) for each in configuration.parameters}])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BuildError(f"{path} does not say where the runtime parameters of {artifact.name} are: {error}") from None
    return XrtProgram(
        name=program.name,
        key=hashlib.sha256(artifact.key.encode() + words.tobytes()).hexdigest(),
        binary=artifact.key,
        sizes=program.arguments,
        path=artifact.files[".xclbin"],
        instructions=words,
        parameters=parameters,
    )
