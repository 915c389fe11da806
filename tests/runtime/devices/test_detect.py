"""Detection of the array: order and spellings of the sources."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.detect import detect_arch
from npu_tensor.runtime.xrt import bindings

# Relevant lines of the output of these programs on such machines.
ROCMINFO = """
*******
Agent 3
*******
  Name:                    aie2
  Uuid:                    AIE-XX
  Marketing Name:          RyzenAI-npu1
  Vendor Name:             AMD
  Device Type:             DSP
"""
XRT_SMI = """
Device(s) Present
|BDF             |Name             |
|----------------|-----------------|
|[0000:c6:00.1]  |RyzenAI-npu5     |
"""
OTHER = "Agent 1\n  Name: AMD Ryzen 9\n  Marketing Name: AMD Ryzen 9 7940HS w/ Radeon 780M Graphics\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without any of the sources; programs go into bin."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    monkeypatch.setattr(bindings, "_opened", {})
    monkeypatch.setattr(bindings, "_opener", None)
    monkeypatch.delenv("NPU_TENSOR_ARCH", raising=False)
    config.reset()
    yield tmp_path
    monkeypatch.undo()
    config.reset()


def program(machine: Path, name: str, output: str, code: int = 0) -> None:
    (machine / f"{name}.txt").write_text(output)
    path = machine / "bin" / name
    # Only builtins of the shell: there are no other programs on PATH.
    read = f"while IFS= read -r line; do echo \"$line\"; done < '{machine / name}.txt'"
    path.write_text(f"#!/bin/sh\n{read}\nexit {code}\n")
    path.chmod(0o755)


def accelerator(machine: Path, vendor: str, device: str) -> None:
    path = machine / "sys/class/accel/accel0/device"
    path.mkdir(parents=True)
    (path / "vendor").write_text(f"{vendor}\n")
    (path / "device").write_text(f"{device}\n")


def fake_pyxrt(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Device:
        def __init__(self, number: int) -> None:
            assert number == 0

        def get_info(self, kind: str) -> str:
            assert kind == "name"
            return name

    module = ModuleType("pyxrt")
    module.device = Device  # type: ignore[attr-defined]
    module.xrt_info_device = type("xrt_info_device", (), {"name": "name"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyxrt", module)


def test_sources_are_asked_in_order(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator(machine, "0x1022", "0x1502")
    assert detect_arch(root=machine) == ("aie2", "the kernel: 1022:1502")
    program(machine, "xrt-smi", XRT_SMI)
    assert detect_arch(root=machine) == ("aie2p", "xrt-smi examine: RyzenAI-npu5")
    program(machine, "rocminfo", ROCMINFO)
    assert detect_arch(root=machine) == ("aie2", "rocminfo: aie2")
    fake_pyxrt(monkeypatch, "NPU Strix Halo")
    assert detect_arch(root=machine) == ("aie2p", "pyxrt: Strix Halo")
    monkeypatch.setenv("NPU_TENSOR_ARCH", "Phoenix")
    config.reset()
    assert detect_arch(root=machine) == ("aie2", "NPU_TENSOR_ARCH")
    assert detect_arch("npu2", machine) == ("aie2p", "given as npu2")


@pytest.mark.parametrize("device", ["0x1502", "0x17f0"])
def test_sources_without_an_answer_are_skipped(machine: Path, device: str) -> None:
    program(machine, "rocminfo", OTHER)
    program(machine, "xrt-smi", XRT_SMI, code=1)
    accelerator(machine, "0x1022", device)
    assert detect_arch(root=machine).source == f"the kernel: 1022:{device[2:]}"


def test_the_error_names_every_source(machine: Path) -> None:
    program(machine, "rocminfo", OTHER)
    program(machine, "xrt-smi", "", code=3)
    accelerator(machine, "0x8086", "0x7d1d")
    with pytest.raises(DeviceError) as caught:
        detect_arch(root=machine)
    lines = str(caught.value).splitlines()
    for words in (
        "  NPU_TENSOR_ARCH: not set",
        "  pyxrt: XRT's Python module pyxrt was not found. Tried",
        "    import pyxrt: import of pyxrt halted; None in sys.modules",
        "  rocminfo: names no NPU that is known here",
        "  xrt-smi examine: exit code 3",
        "  the kernel: names no NPU that is known here",
    ):
        assert words in lines


def test_unknown_names_are_errors(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="gfx908"):
        detect_arch("gfx908", machine)
    monkeypatch.setenv("NPU_TENSOR_ARCH", "gfx1151")
    config.reset()
    with pytest.raises(DeviceError, match=r"NPU_TENSOR_ARCH.*gfx1151"):
        detect_arch(root=machine)
