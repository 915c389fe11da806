"""Programs for XRT: the binary of a context, and the instructions that start it.

program = read_program(ArrayProgram("add", (DesignRun(design, slices),), sizes), artifact)
program = read_bundled(program_of_two_configurations, [artifact, other])
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.bundle import bundle
from npu_tensor.runtime.build.instructions import stream
from npu_tensor.runtime.npu.driver import NpuProgram
from npu_tensor.runtime.store.store import Artifact


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPart:
    """One run of XRT: consecutive runs of a program with one configuration.

    Attributes:
        kernel: Name in the file; None for the first kernel.
        instructions: 32-bit words for an xclbin; None for an ELF, which contains them.
        parameters: For each runtime parameter, its positions in the instructions.
    """

    kernel: str | None
    instructions: np.ndarray[Any, np.dtype[np.uint32]] | None
    parameters: Sequence[Sequence[int]] = ()

    def patched(self, words: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Return the instructions with these runtime parameters, 32 bits each."""
        assert self.instructions is not None
        instructions = self.instructions.copy()
        for places, word in zip(self.parameters, words, strict=True):
            instructions[list(places)] = word & 0xFFFFFFFF
        return instructions


@dataclass(eq=False, kw_only=True)
class XrtProgram(NpuProgram):
    """A binary and the parts of a launch. `path` is an xclbin or a full ELF."""

    path: Path
    parts: Sequence[ProgramPart]

    @property
    def is_elf(self) -> bool:
        """True if the file contains the instructions, too."""
        return self.parts[0].instructions is None


def read_program(program: ArrayProgram, artifact: Artifact) -> XrtProgram:
    """Create the XRT program for the binary in an artifact. Raises BuildError if its files do not fit."""
    if ".xclbin" not in artifact.files:
        if any(run.design.run_words for run in program.runs):
            raise BuildError(f"{artifact.name} has runtime parameters, which cannot be set in a full ELF")
        return XrtProgram(
            name=program.name,
            key=artifact.key,
            binary=artifact.key,
            sizes=program.arguments,
            path=artifact.files[".elf"],
            parts=[ProgramPart(None, None)],
        )
    return _with_instructions(program, artifact, [_part(program, artifact, None)])


def read_bundled(program: ArrayProgram, artifacts: Sequence[Artifact], packed: Sequence[Artifact]) -> XrtProgram:
    """Create the XRT program for a context with several configurations.

    Args:
        program: Program of the array.
        artifacts: Files of each run, in order.
        packed: Files of all configurations in the context.

    Raises:
        BuildError: See `bundle` and `read_program`.
    """
    bundled, kernels = bundle(program.array.arch, packed)
    by_configuration = {
        id(run.design.configuration): artifact for run, artifact in zip(program.runs, artifacts, strict=True)
    }
    parts = []
    for number, runs in groupby(program.runs, lambda run: id(run.design.configuration)):
        own = by_configuration[number]
        parts.append(_part(replace(program, runs=tuple(runs)), own, kernels[own.key]))
    return _with_instructions(program, bundled, parts)


def _with_instructions(program: ArrayProgram, artifact: Artifact, parts: Sequence[ProgramPart]) -> XrtProgram:
    key = hashlib.sha256(artifact.key.encode())
    for part in parts:
        assert part.instructions is not None
        key.update(part.instructions.tobytes())
    return XrtProgram(
        name=program.name,
        key=key.hexdigest(),
        binary=artifact.key,
        sizes=program.arguments,
        steps=len(parts),
        path=artifact.files[".xclbin"],
        parts=parts,
    )


def _part(program: ArrayProgram, artifact: Artifact, kernel: str | None) -> ProgramPart:
    """Create the part for a program of one configuration."""
    path = artifact.files["_parameters.json"]
    (configuration,) = program.configurations
    try:
        places = json.loads(path.read_bytes())
        addresses = {parameter.name: int(places[parameter.name]) for parameter in configuration.parameters}
        return ProgramPart(kernel, *stream(program, [addresses]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BuildError(f"{path} lacks addresses of the runtime parameters of {artifact.name}: {error}") from None
