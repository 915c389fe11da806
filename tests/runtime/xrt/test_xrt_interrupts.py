"""Ctrl-C in the driver of real NPUs, wherever Python may deliver it: nothing of XRT is misused afterwards."""

import sys
from pathlib import Path
from types import CodeType

import pytest
from interrupted_work import PREPARE, interrupt_everywhere, ready
from machine import Machine
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.runtime.xrt import engines, xrt_driver

pytestmark = needs_compiler

DRIVER = str(Path(engines.__file__).parent)


def in_driver(code: CodeType) -> bool:
    return code.co_filename.startswith(DRIVER)


@pytest.mark.parametrize("name", PREPARE)
def test_an_interrupt_at_any_place(machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)  # See tests/runtime/npu/test_interrupts.py
    with nt.default_device("npu"), ready(machine, engines._engines.values, xrt_driver.release) as work:
        interrupt_everywhere(work, name, in_driver)
