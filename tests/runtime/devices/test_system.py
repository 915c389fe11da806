"""Information from the operating system and its tools."""

import ctypes
import fcntl
import sys
from pathlib import Path

import pytest

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import driver_clock_hz, driver_version, pci_numbers, tool_output
from npu_tensor.runtime.rates import npu_rates


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


# --- the clock from the driver, which is replaced by a function that fills the structures of Linux's amdxdna_accel.h

BDF = "0000:c6:00.1"
IDENTITY = {"npu": "AIE-0123456789abcdef", "driver": "NPU Strix 2.21", "power": "low"}


class GetInfo(ctypes.Structure):
    _fields_ = (("param", ctypes.c_uint32), ("buffer_size", ctypes.c_uint32), ("buffer", ctypes.c_uint64))


class Clock(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 16), ("freq_mhz", ctypes.c_uint32), ("pad", ctypes.c_uint32))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys/bus/pci/devices" / BDF / "accel/accel1").mkdir(parents=True)
    (tmp_path / "dev/accel").mkdir(parents=True)
    (tmp_path / "dev/accel/accel1").touch()
    return tmp_path


@pytest.mark.parametrize(("megahertz", "expected"), [(1800, 1.8e9), (0, None)])
def test_the_second_clock_is_the_arrays(
    root: Path, monkeypatch: pytest.MonkeyPatch, megahertz: int, expected: float | None
) -> None:
    def ioctl(descriptor: int, number: int, request: bytes) -> None:
        read_and_write, size, kind, command = number >> 30, number >> 16 & 0x3FFF, number >> 8 & 0xFF, number & 0xFF
        assert (read_and_write, size, kind, command) == (3, ctypes.sizeof(GetInfo), ord("d"), 0x40 + 7)
        info = GetInfo.from_buffer_copy(request)
        assert (info.param, info.buffer_size) == (3, 2 * ctypes.sizeof(Clock))
        clocks = (Clock * 2).from_address(info.buffer)
        clocks[0].name, clocks[0].freq_mhz = b"MP-NPU Clock", 1267
        clocks[1].name, clocks[1].freq_mhz = b"H Clock", megahertz

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert driver_clock_hz(BDF, root) == expected


def test_a_driver_that_does_not_report_it(root: Path) -> None:
    assert driver_clock_hz(BDF, root) is None  # A file has no such request.
    assert driver_clock_hz("0000:00:00.0", root) is None


@pytest.mark.usefixtures("own_rates")
def test_the_drivers_clock_replaces_the_prior() -> None:
    assert npu_rates("npu2", IDENTITY, 1.2e9).clock_hz == 1.2e9
    assert npu_rates("npu2", IDENTITY).clock_hz == pytest.approx(0.8e9, rel=1e-2)
