"""Ctrl-C during work on an NPU: at many places in the runtime, and at random places elsewhere."""

import sys
from pathlib import Path
from types import CodeType

import pytest
from faulty_npu import FaultyNpu
from interrupted_work import PREPARE, interrupt_everywhere, ready
from running import needs_compiler

import npu_tensor
from npu_tensor.runtime.npu import npu_engine
from npu_tensor.runtime.sim import simulated_driver

pytestmark = [needs_compiler, pytest.mark.usefixtures("clock")]

PACKAGE, RUNTIME, DRIVER = (
    str(Path(str(module.__file__)).parent) for module in (npu_tensor, npu_engine, simulated_driver)
)


@pytest.fixture(autouse=True)
def _forgotten_in_destructors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints and forgets what is raised in a destructor; pytest keeps it, with all that its frames refer to.

    An interrupt between __new__ and __init__ leaves an object whose destructor fails.
    """
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)


def in_runtime(code: CodeType) -> bool:
    return code.co_filename.startswith(RUNTIME) and code.co_name != "__del__"


@pytest.mark.parametrize("name", PREPARE)
def test_an_interrupt_at_any_place_leaves_everything_usable(npu: FaultyNpu, name: str) -> None:
    with ready(npu, lambda: npu.engines, npu.run_abandoned) as work:
        interrupt_everywhere(work, name, in_runtime)
