"""The files that the stand-in for pyxrt loads, of programs of several configurations."""

from __future__ import annotations

from pathlib import Path

import npu_images
import numpy as np
from backend import StandinBackend
from xrt_designs import ELEMENTS, add

from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.runtime.store.requests import ProgramRequest


def test_an_elf_of_a_program_has_what_its_runs_call(tmp_path: Path) -> None:
    """Both configurations call the same function of one source, with another number."""
    x, scratch, y = (HostSlice(number, 0) for number in range(3))
    runs = (DesignRun(add(1), (x, scratch)), DesignRun(add(2), (scratch, y)))
    program = ArrayProgram("add+add", runs, (4 * ELEMENTS,) * 3)
    files = StandinBackend().build(ProgramRequest(program.name, program), tmp_path)
    assert list(files) == [".elf"]
    image = npu_images.read(files[".elf"])
    assert (image.program, image.arguments, image.kernel) == (program, 3, "main:sequence")
    buffers = [np.arange(ELEMENTS, dtype=np.int32), *np.zeros((2, ELEMENTS), np.int32)]
    array = SimulatedArray(program.array)
    for run in image.program.runs:
        loaded = array.load(run.design, entries=image.entries_of(run.design))
        loaded.run([buffers[part.argument].view(np.uint8) for part in run.slices])
    assert (buffers[2] == buffers[0] + 3).all()
