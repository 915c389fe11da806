"""Requests for power modes, and work after a refusal."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from machine import Machine
from npu_values import compute

import npu_tensor as nt
from npu_tensor.runtime.devices.device_kind import OPTIONS
from npu_tensor.runtime.xrt.xrt_device import set_power_mode

BDF = "0000:c6:00.1"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only program on PATH, which notes its arguments in a file beside it."""
    path = tmp_path / "xrt-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def write(tool: Path, ending: str) -> None:
    tool.write_text(f'#!/bin/sh\necho "$@" >> "{tool}.arguments"\n{ending}\n')
    tool.chmod(0o755)


# The names on the right are those that XRT's OO_Performance.cpp takes.
@pytest.mark.parametrize(
    ("mode", "name"), [("low", "powersaver"), ("medium", "balanced"), ("high", "performance"), ("turbo", "turbo")]
)
def test_modes_have_the_names_of_the_tool(tool: Path, mode: str, name: str) -> None:
    write(tool, "exit 0")
    set_power_mode(BDF, mode)
    assert Path(f"{tool}.arguments").read_text() == f"configure --device {BDF} --pmode {name}\n"
    OPTIONS["power"].read(mode)


def test_work_goes_on_after_a_refusal(machine: Machine, tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tool, "exit 3")
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.defpath}")  # with a C++ compiler
    with ExitStack() as stack:
        with pytest.warns(RuntimeWarning, match=f"{BDF} is not turbo: exit code 3"):
            stack.enter_context(nt.default_device("npu?power=turbo"))
        compute(0)
        compute(1)
    assert machine.launches == 2
    assert Path(f"{tool}.arguments").read_text() == f"configure --device {BDF} --pmode turbo\n"
