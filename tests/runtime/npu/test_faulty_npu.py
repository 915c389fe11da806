"""Checks of the faulty NPU, which must notice misuse of a driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faulty_npu import FaultyNpu
from npu_memory import FREED
from npu_values import compute
from running import needs_compiler

from npu_tensor.runtime.npu.driver import RunRequest

pytestmark = needs_compiler


class Launch:
    """Launch of the program that ran before, which concatenates two vectors."""

    def __init__(self, npu: FaultyNpu) -> None:
        engine = npu.engine
        (program,) = engine.programs.values()
        self.context: Any = engine.contexts.get(program)
        self.memories: list[Any] = [engine.driver.allocate(size) for size in program.sizes]
        for memory, value in zip(self.memories, (1, 2, 3), strict=True):
            memory.bytes[:] = value
            memory.to_device()
        self.submission = self.context.prepare([RunRequest(self.context.run(program), self.memories, ())])

    @property
    def found(self) -> list[int]:
        """The bytes of the result, of which each vector has four."""
        self.memories[2].from_device()
        return [int(value) for value in self.memories[2].bytes[:8]]


@pytest.fixture
def launch(npu: FaultyNpu) -> Launch:
    compute(0)
    return Launch(npu)


def test_memory_freed_in_flight(npu: FaultyNpu, launch: Launch) -> None:
    launch.submission.start()
    view = launch.memories[0].bytes
    launch.memories.clear()
    assert np.all(view == FREED)
    assert launch.submission.ended()
    assert npu.complaints.pop() == "memory was freed before its launch had ended"


def test_a_context_closed_in_flight(npu: FaultyNpu, launch: Launch) -> None:
    launch.submission.start()
    launch.context.close()
    assert npu.complaints.pop() == "a context is closed in which something runs that somebody waits for"
