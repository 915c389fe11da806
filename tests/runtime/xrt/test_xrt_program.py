"""A kernel's files as read by the runtime, and invalid files that it refuses before a launch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import marker
from npu_tensor.runtime.devices.discovery import PhysicalDevice
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.runtime.xrt.xrt_device import driver_identity
from npu_tensor.runtime.xrt.xrt_program import XrtProgram, read_program

Change = Callable[[dict[str, bytes]], Any]
ELEMENTS = 1024


def affine(words: int = 2) -> Design:
    """The transfers of y = w0 * x + w1, with both words as a runtime parameter."""
    d = Builder("affine", "aie2p", columns=1)
    tile, core, shim = ObjectType("int32", (256,)), Tile(0, 2), Tile(0, 0)
    x, y = d.host_buffer("x", "int32", ELEMENTS), d.host_buffer("y", "int32", ELEMENTS)
    if words:
        d.parameter("words", core, words)
    d.fill(d.fifo("x", tile, shim, [core]), x, AccessPattern.linear(ELEMENTS))
    d.drain(d.fifo("y", tile, core, [shim]), y, AccessPattern.linear(ELEMENTS))
    return d.build()


def artifact(directory: Path, change: Change | None = None, suffix: str = ".xclbin") -> Artifact:
    """An artifact of `affine`, whose parameter lies at 0x400 of its core."""
    contents = {suffix: b"a file", "_parameters.json": b'{"words": 1024}'}
    if suffix == ".elf":
        contents = {".elf": b"a file"}
    if change is not None:
        change(contents)
    files = {}
    for ending, content in contents.items():
        files[ending] = directory / f"kernel{ending}"
        files[ending].write_bytes(content)
    return Artifact("affine-1024", "0" * 64, files, "cache", {})


def read(directory: Path, change: Change | None = None) -> XrtProgram:
    return read_program(ArrayProgram.of(affine(), "affine-1024"), artifact(directory, change))


def test_an_xclbin(tmp_path: Path) -> None:
    program = read(tmp_path)
    assert (program.name, program.binary) == ("affine-1024", "0" * 64)
    assert program.path == tmp_path / "kernel.xclbin"
    assert not program.is_elf
    (part,) = program.parts
    assert part.instructions is not None
    assert part.instructions.tolist() == instructions(affine(), {"words": 1024}).tolist()
    assert program.sizes == (4 * ELEMENTS, 4 * ELEMENTS)
    assert not program.checked
    assert not program.refused


def test_words_are_patched_into_a_copy(tmp_path: Path) -> None:
    (part,) = read(tmp_path).parts
    assert part.instructions is not None
    before = part.instructions.tolist()
    first, second = before.index(marker(0, 0)), before.index(marker(0, 1))
    for given, expected in (([5, -2], (5, (1 << 32) - 2)), ([-(1 << 31), 0], (1 << 31, 0))):
        patched = part.patched(given).tolist()
        assert (patched[first], patched[second]) == expected
        patched[first], patched[second] = before[first], before[second]
        assert patched == before
    assert part.instructions.tolist() == before


def test_an_elf_has_its_instructions_inside(tmp_path: Path) -> None:
    program = read_program(ArrayProgram.of(affine(0), "affine-1024"), artifact(tmp_path, suffix=".elf"))
    assert program.is_elf
    assert program.path == tmp_path / "kernel.elf"
    assert [(part.instructions, part.parameters) for part in program.parts] == [(None, ())]


def test_an_elf_cannot_have_runtime_parameters(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="affine-1024 has runtime parameters, which cannot be set in a full ELF"):
        read_program(ArrayProgram.of(affine(), "affine-1024"), artifact(tmp_path, suffix=".elf"))


def test_an_xclbin_is_preferred_to_an_elf(tmp_path: Path) -> None:
    program = read(tmp_path, lambda contents: contents.update({".elf": b"another file"}))
    assert not program.is_elf
    assert program.path == tmp_path / "kernel.xclbin"


@pytest.mark.parametrize("places", [b"{}", b'{"words": "a"}', b"[]", b"", b"\xff\xfe"])
def test_invalid_places_of_parameters(tmp_path: Path, places: bytes) -> None:
    with pytest.raises(BuildError, match=r"kernel_parameters\.json lacks addresses of the runtime parameters of"):
        read(tmp_path, lambda files: files.update({"_parameters.json": places}))


@pytest.mark.parametrize("changed", ["version", "srcversion", "fw_version", "xrt", "name"])
def test_a_kernel_is_checked_again_with_another_driver(tmp_path: Path, changed: str) -> None:
    npu = PhysicalDevice(0, 0, "AIE-0", "0000:c6:00.1", "NPU Strix", "aie2p", "")
    files = {
        "version": tmp_path / "sys/module/amdxdna/version",
        "srcversion": tmp_path / "sys/module/amdxdna/srcversion",
        "fw_version": tmp_path / "sys/bus/pci/devices/0000:c6:00.1/fw_version",
    }
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1\n")
    before = driver_identity(npu, "2.25.0", tmp_path)
    if changed in files:
        files[changed].write_text("2\n")
    other = replace(npu, name="NPU Krackan") if changed == "name" else npu
    assert driver_identity(other, "2.26.0" if changed == "xrt" else "2.25.0", tmp_path) != before
