"""Information from the operating system and its tools."""

import sys
from pathlib import Path

import pytest

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import driver_version, pci_numbers, tool_output


def test_pci_numbers(tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("0x1022\n")
    (tmp_path / "device").write_text("0x17f0\n")
    assert pci_numbers(tmp_path) == ("1022", "17f0", "")
    (tmp_path / "revision").write_text("0x20\n")
    assert pci_numbers(tmp_path) == ("1022", "17f0", "20")


def test_the_version_of_the_driver(tmp_path: Path) -> None:
    assert driver_version(tmp_path) == ""
    module = tmp_path / "sys/module/amdxdna"
    module.mkdir(parents=True)
    (module / "version").write_bytes(b"\xff")
    assert driver_version(tmp_path) == ""
    (module / "version").write_text("2.21.0,ab12cd\n")
    assert driver_version(tmp_path) == "2.21.0,ab12cd"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import sys; print('why'); sys.exit(3)", "exit code 3: why"),
        ("import sys; print('out'); sys.exit('no\\nbecause')", "exit code 1: because"),
    ],
)
def test_a_tool_that_fails(program: str, said: str) -> None:
    with pytest.raises(DeviceError) as raised:
        tool_output(sys.executable, "-c", program)
    assert str(raised.value) == said


def test_a_tool_that_answers() -> None:
    assert tool_output(sys.executable, "-c", "print('NPU Strix')").strip() == "NPU Strix"
    with pytest.raises(DeviceError, match="No such file or directory: 'no-such-tool'"):
        tool_output("no-such-tool")
