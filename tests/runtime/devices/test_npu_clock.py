"""Clock from the driver, which is replaced by a function that fills the structures of Linux's amdxdna_accel.h."""

import ctypes
from pathlib import Path

import pytest

from npu_tensor.runtime.devices.npu_clock import driver_clock_hz
from npu_tensor.runtime.rates import npu_rates

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

    monkeypatch.setattr("npu_tensor.runtime.devices.npu_clock.fcntl.ioctl", ioctl)
    assert driver_clock_hz(BDF, root) == expected


def test_a_driver_that_does_not_report_it(root: Path) -> None:
    assert driver_clock_hz(BDF, root) is None  # A file has no such request.
    assert driver_clock_hz("0000:00:00.0", root) is None


@pytest.mark.usefixtures("own_rates")
def test_the_drivers_clock_replaces_the_prior() -> None:
    assert npu_rates("npu2", IDENTITY, 1.2e9).clock_hz == 1.2e9
    assert npu_rates("npu2", IDENTITY).clock_hz == pytest.approx(0.8e9, rel=1e-2)
