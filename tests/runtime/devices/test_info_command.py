"""`npu-tensor info` and `nt.list_devices`: the tables of devices and arrays."""

import json
import platform
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fake_npus import PHOENIX, STRIX, Machine

from npu_tensor.cli.info import info
from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.backends import list_devices
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.devices.discovery import select
from npu_tensor.runtime.xrt import bindings

HERE = [
    ("cpu", "-", "-", "this machine's processor", platform.machine(), "-"),
    ("sim:npu1", "-", "-", "simulated npu1", "aie2", "4"),
    ("sim:npu2", "-", "-", "simulated npu2", "aie2p", "8"),
]


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(info, arguments, env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    return result


def rows(output: str, table: str = "devices") -> list[tuple[str, ...]]:
    """The cells of a table below its headings, identifiers as AIE-ID."""
    text = re.sub("AIE-[0-9a-f]{16}", "AIE-ID", output)
    _title, _headings, *lines = text[text.index(f"{table}\n") :].partition("\n\n")[0].splitlines()
    return [tuple(re.split("  +", line)) for line in lines]


@pytest.fixture
def without_pyxrt(monkeypatch: pytest.MonkeyPatch, _own_settings: None) -> None:
    def not_found() -> None:
        raise DeviceError("pyxrt was not found. Tried\n  import pyxrt: not found", "NOT_FOUND")

    monkeypatch.setattr(bindings, "pyxrt", not_found)


def test_the_table(machine: Machine) -> None:
    output = invoke().output
    assert rows(output) == [
        ("npu", "-", "-", "3 x NPU Strix", "aie2p", "8"),
        ("npu://AIE-ID", "npu:0", "0000:c6:00.1", "NPU Strix", "aie2p", "8"),
        ("npu://AIE-ID", "npu:1", "0000:c5:00.1", "NPU Phoenix", "aie2", "4"),
        ("npu://AIE-ID", "npu:2", "0001:c4:00.1", "NPU Strix", "aie2p", "8"),
        ("npu://AIE-ID", "npu:3", "0000:e6:00.1", "NPU Strix", "aie2p", "8"),
        *HERE,
    ]
    assert "no NPU" not in output
    assert "not used" not in output


def test_the_json(machine: Machine) -> None:
    machine.has(PHOENIX, STRIX._replace(broken="no permission"))
    result = json.loads(invoke("--json").output)
    assert result["left_out"] == ["XRT's device 1: no permission"]
    assert result["reason"] == ""
    everything, npu, *others = result["devices"]
    assert everything == {
        "uri": "npu",
        "id": "",
        "ordinal": None,
        "pci_address": "",
        "name": "1 x NPU Phoenix",
        "arch": "aie2",
        "columns": 4,
    }
    assert npu["uri"] == f"npu://{npu['id']}"
    assert (npu["ordinal"], npu["pci_address"], npu["name"]) == (0, "0000:c5:00.1", "NPU Phoenix")
    assert [other["uri"] for other in others] == ["cpu", "sim:npu1", "sim:npu2"]


def test_every_uri_in_the_list_can_be_used(machine: Machine) -> None:
    listed = list_devices()
    selected = {device.uri: select(parse_uri(device.uri)) for device in listed if device.uri.startswith("npu")}
    assert [device.index for device in selected.pop("npu")] == [0, 2, 3]
    assert [device.index for (device,) in selected.values()] == [0, 1, 2, 3]
    assert [parse_uri(device.uri).scheme for device in listed[5:]] == ["cpu", "sim", "sim"]


def test_hidden_npus_are_shown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1")
    output = invoke().output
    assert [row[1] for row in rows(output)] == ["-", "npu:0", "-", "-", "-"]
    assert output.count("hidden by ROCR_VISIBLE_DEVICES=1") == 3
    config.reset()
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", "")
    output = invoke().output
    assert rows(output) == HERE
    assert output.count("hidden by NPU_VISIBLE_DEVICES=\n") == 4
    assert "no NPU: XRT lists no NPU that can be used" in output


def test_kinds_that_are_not_allowed_are_not_listed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_HSA", "0")
    output = invoke().output
    assert rows(output) == HERE
    assert "no NPU: GGML_HSA allows no devices of the kind npu" in output
    config.reset()
    monkeypatch.setenv("NPU_TENSOR_BACKEND", "npu")
    assert [row[1] for row in rows(invoke().output)] == ["-", "npu:0", "npu:1", "npu:2", "npu:3", "-"]


def test_arrays_are_listed_whatever_this_machine_has(machine: Machine) -> None:
    output = invoke().output
    assert [row[:3] for row in rows(output, "arrays")] == [("aie2", "4", "16"), ("aie2p", "8", "32")]
    assert "here: aie2p (pyxrt: " in output
    result = json.loads(invoke("--json").output)
    assert [array["arch"] for array in result["arrays"]] == ["aie2", "aie2p"]
    assert "Strix" in result["arrays"][1]["names"]


@pytest.mark.usefixtures("without_pyxrt")
def test_without_pyxrt_the_rest_is_listed_with_the_reason() -> None:
    output = invoke().output
    assert rows(output) == HERE
    assert "no NPU: pyxrt was not found. Tried\n  import pyxrt: not found\n`npu-tensor doctor` says" in output
    result = json.loads(invoke("--json").output)
    assert result["reason"] == "pyxrt was not found. Tried\n  import pyxrt: not found"
    assert [device["uri"] for device in result["devices"]] == ["cpu", "sim:npu1", "sim:npu2"]


@pytest.mark.usefixtures("without_pyxrt")
@pytest.mark.parametrize("option", ["--libhsa-search-path", "--amdgpu_libhsa_search_path"])
def test_search_paths(option: str, tmp_path: Path) -> None:
    invoke("--xrt-search-path", "/one", f"{option}={tmp_path}", option, "/three")
    assert config.xrt_path == (Path("/one"), tmp_path, Path("/three"))
