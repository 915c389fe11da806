"""Discovery of NPUs, their masks, and their selection by URI."""

import hashlib

import click
import pytest
from click.testing import CliRunner
from fake_npus import MACHINE_ID, MORE_STRIX, PHOENIX, STRIX, Machine, Slot

from npu_tensor.cli.options import device_option
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, DeviceError
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.devices.discovery import discover, select
from npu_tensor.runtime.xrt import bindings


def chosen(text: str, machine: Machine) -> list[int]:
    """Return pyxrt's indices of the NPUs of a URI."""
    return [device.index for device in select(parse_uri(text), machine.root)]


def refusal(text: str, machine: Machine) -> DeviceError:
    with pytest.raises(DeviceError) as raised:
        select(parse_uri(text), machine.root)
    return raised.value


def id_of(slot: Slot, machine_id: str = MACHINE_ID) -> str:
    return "AIE-" + hashlib.sha256(f"{slot.bdf}\n{slot.pci}\n{machine_id}".encode()).hexdigest()[:16]


def test_properties_of_each_npu(machine: Machine) -> None:
    listed = [(d.index, d.ordinal, d.id, d.bdf, d.name, d.arch, d.pci) for d in discover(machine.root).devices]
    assert listed == [
        (0, 0, id_of(STRIX), "0000:c6:00.1", "NPU Strix", "aie2p", "1022:17f0:10"),
        (1, 1, id_of(PHOENIX), "0000:c5:00.1", "NPU Phoenix", "aie2", "1022:1502:00"),
        (2, 2, id_of(MORE_STRIX[0]), "0001:c4:00.1", "NPU Strix", "aie2p", "1022:17f0:10"),
        (3, 3, id_of(MORE_STRIX[1]), "0000:e6:00.1", "NPU Strix", "aie2p", "1022:17f0:10"),
    ]


def test_sysfs_and_machine_id_may_be_missing(machine: Machine) -> None:
    machine.has(STRIX._replace(pci="", bdf="0000:01:00.1"))
    (machine.root / "etc/machine-id").unlink()
    (result,) = discover(machine.root).devices
    assert (result.pci, result.id) == ("", id_of(Slot("0000:01:00.1", "", ""), ""))
    (machine.root / "var/lib/dbus").mkdir(parents=True)
    (machine.root / "var/lib/dbus/machine-id").write_text(MACHINE_ID)
    assert discover(machine.root).devices[0].id == id_of(Slot("0000:01:00.1", "", ""))


def test_a_name_that_is_new_is_known_by_its_pci_numbers(machine: Machine) -> None:
    machine.has(STRIX._replace(name="NPU Gorgon Point 1"))
    (result,) = discover(machine.root).devices
    assert (result.name, result.arch) == ("NPU Gorgon Point 1", "aie2p")


def test_other_devices_are_left_out_and_have_no_ordinals(machine: Machine) -> None:
    alveo = Slot("0000:03:00.1", "xilinx_u250_gen3x16_xdma_shell_4_1", "10ee:5005:00")
    future = Slot("0000:04:00.1", "RyzenAI-npu3", "1022:17f1:10")
    machine.has(alveo, PHOENIX, STRIX._replace(broken="XRT cannot open NPU 2: Permission denied"), future, STRIX)
    result = discover(machine.root)
    assert [(device.index, device.ordinal) for device in result.devices] == [(1, 0), (4, 1)]
    assert result.present == 2
    assert [str(device) for device in result.left_out] == [
        "XRT's device 0 (xilinx_u250_gen3x16_xdma_shell_4_1, 0000:03:00.1): 'xilinx_u250_gen3x16_xdma_shell_4_1', PCI "
        "10ee:5005:00, is not a supported NPU",
        "XRT's device 2: XRT cannot open NPU 2: Permission denied",
        "XRT's device 3 (RyzenAI-npu3, 0000:04:00.1): 'RyzenAI-npu3', PCI 1022:17f1:10, is not a supported NPU",
    ]
    assert chosen("npu:1", machine) == [4]


@pytest.mark.parametrize(
    ("entries", "left", "reason"),
    [
        ("3,0", [3, 0], "hidden by NPU_VISIBLE_DEVICES=3,0"),
        ("", [], "hidden by NPU_VISIBLE_DEVICES="),
        (f"{id_of(PHOENIX)},0", [1, 0], f"hidden by NPU_VISIBLE_DEVICES={id_of(PHOENIX)},0"),
        (id_of(PHOENIX).replace("AIE", "GPU").upper(), [1], f"={id_of(PHOENIX).replace('AIE', 'GPU').upper()}"),
        # As in ROCr, the list ends at an unknown or repeated name.
        ("1,4,0", [1], "hidden by NPU_VISIBLE_DEVICES=1,4,0, which ends at 4: it names no NPU"),
        ("1,1,0", [1], "hidden by NPU_VISIBLE_DEVICES=1,1,0, which ends at 1: it names the same NPU again"),
        ("GPU-0123456789ABCDEF", [], "which ends at GPU-0123456789ABCDEF: it names no NPU"),
    ],
)
def test_the_mask(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, entries: str, left: list[int], reason: str
) -> None:
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", entries)
    result = discover(machine.root)
    assert [device.index for device in result.devices] == left
    assert [device.ordinal for device in result.devices] == list(range(len(left)))
    assert [device.index for device in result.left_out] == sorted({0, 1, 2, 3} - set(left))
    assert all(device.reason.endswith(reason) for device in result.left_out)
    assert result.present == 4


def test_the_variable_of_rocr_counts_if_ours_is_unset(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "2,3")
    assert chosen("npu", machine) == [2, 3]
    assert chosen("npu:0", machine) == [2]
    assert "hidden by ROCR_VISIBLE_DEVICES=2,3" in discover(machine.root).left_out[0].reason
    config.reset()
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", "1")
    assert chosen("npu", machine) == [1]
    config.reset()
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", "")
    assert "there is no NPU to use" in str(refusal("npu", machine))
    config.reset()
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", "first")
    with pytest.raises(ArgumentError, match="NPU_VISIBLE_DEVICES='first' is not allowed"):
        discover(machine.root)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("npu", [0, 2, 3]),  # The second is another one than the first.
        ("npu:1", [1]),
        ("npu://3,0", [3, 0]),
        ("npu://0,00,0000:c6:00.1,2,c6:00.1", [0, 2]),
        ("npu://e6:00.1", [3]),
        ("npu://0000:E6:00.1", [3]),
        ("npu://00000001:c4:00.1", [2]),
        (f"npu://{id_of(STRIX)}", [0]),
        (f"hsa://{id_of(STRIX).upper()}", [0]),
        (f"npu://{id_of(STRIX).replace('AIE', 'NPU')}", [0]),
        (f"amdgpu://{id_of(STRIX).replace('AIE', 'gpu')}", [0]),
        (f"npu://{id_of(MORE_STRIX[1])},0,{id_of(MORE_STRIX[1]).replace('AIE', 'GPU')}", [3, 0]),
    ],
)
def test_selection(machine: Machine, text: str, indexes: list[int]) -> None:
    assert chosen(text, machine) == indexes


def test_npu_means_all_that_are_like_the_first(machine: Machine) -> None:
    machine.has(PHOENIX, STRIX, STRIX._replace(bdf="0000:e7:00.1", name="NPU Strix Halo"), MORE_STRIX[1])
    assert chosen("npu", machine) == [0]
    machine.has(STRIX, STRIX._replace(bdf="0000:e7:00.1", name="NPU Strix Halo"), PHOENIX, MORE_STRIX[1])
    assert chosen("npu", machine) == [0, 3]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("npu:4", "OUT_OF_RANGE", "npu:4: device ordinal 4 out of range; 4 NPU devices available"),
        ("npu://0,999999999", "OUT_OF_RANGE", "device ordinal 999999999 out of range; 4 NPU devices available"),
        ("npu://GPU-89e8bdf59a10cf6d", "NOT_FOUND", "no NPU agent with UUID `GPU-89e8bdf59a10cf6d` found"),
        ("npu://0000:c7:00.1", "NOT_FOUND", "no NPU at PCI address `0000:c7:00.1` found"),
        ("npu://0,1", "INCOMPATIBLE", "NPU Strix at 0000:c6:00.1 and NPU Phoenix at 0000:c5:00.1 cannot be one"),
    ],
)
def test_refused_selections(machine: Machine, text: str, code: str, words: str) -> None:
    error = refusal(text, machine)
    assert error.code == code
    assert words in str(error)
    if code != "INCOMPATIBLE":
        assert f"there are npu://{id_of(STRIX)}, npu://{id_of(PHOENIX)}, " in str(error)


def test_without_an_npu_the_error_says_what_to_do(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has()
    error = refusal("npu:0", machine)
    assert error.code == "NOT_FOUND"
    assert str(error) == (
        "npu:0: there is no NPU to use; `npu-tensor doctor` says what is missing and how to fix it. XRT lists no device"
    )

    def no_pyxrt() -> None:
        raise DeviceError("pyxrt was not found. Tried here and there", "NOT_FOUND")

    monkeypatch.setattr(bindings, "pyxrt", no_pyxrt)
    error = refusal("npu", machine)
    assert error.code == "NOT_FOUND"
    assert "`npu-tensor doctor`" in str(error)
    assert "pyxrt was not found. Tried here and there" in str(error)


@click.command()
@device_option()
def run_module(device: str) -> None:
    click.echo(device)


@pytest.mark.parametrize("arguments", [["--device=npu:0", "--device=1"], ["--device=npu?cols=99"], ["--device="]])
def test_every_use_of_the_option_is_a_uri(arguments: list[str]) -> None:
    result = CliRunner().invoke(run_module, arguments)
    assert result.exit_code == 2
    assert "Invalid value for '--device'" in result.output
