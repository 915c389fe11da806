"""Detection of the array: order and spellings of the sources."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.detect import detect_arch
from npu_tensor.runtime.xrt import bindings


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without any of the sources."""
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    monkeypatch.setattr(bindings, "_opened", {})
    monkeypatch.setattr(bindings, "_opener", None)
    monkeypatch.delenv("NPU_TENSOR_ARCH", raising=False)
    config.reset()
    yield tmp_path
    monkeypatch.undo()
    config.reset()


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
    fake_pyxrt(monkeypatch, "NPU Strix Halo")
    assert detect_arch(root=machine) == ("aie2p", "pyxrt: NPU Strix Halo")
    monkeypatch.setenv("NPU_TENSOR_ARCH", "Phoenix")
    config.reset()
    assert detect_arch(root=machine) == ("aie2", "NPU_TENSOR_ARCH")
    assert detect_arch("npu2", machine) == ("aie2p", "given as npu2")


def test_the_pci_number_of_a_new_npu(machine: Path) -> None:
    accelerator(machine, "0x1022", "0x17f0")
    assert detect_arch(root=machine) == ("aie2p", "the kernel: 1022:17f0")


def test_the_error_names_every_source(machine: Path) -> None:
    accelerator(machine, "0x8086", "0x7d1d")
    with pytest.raises(DeviceError) as caught:
        detect_arch(root=machine)
    lines = str(caught.value).splitlines()
    for words in (
        "  NPU_TENSOR_ARCH: not set",
        "  pyxrt: XRT's Python module pyxrt was not found. Tried",
        "    import pyxrt: import of pyxrt halted; None in sys.modules",
        "  the kernel: names no NPU that is known here: 8086:7d1d",
    ):
        assert words in lines


def test_unknown_names_are_errors(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="gfx908"):
        detect_arch("gfx908", machine)
    monkeypatch.setenv("NPU_TENSOR_ARCH", "gfx1151")
    config.reset()
    with pytest.raises(DeviceError, match=r"NPU_TENSOR_ARCH.*gfx1151"):
        detect_arch(root=machine)
