"""Kernel packs: unpacking restores exactly the packed files."""

import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tensor.cli import main
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.files import write_entry
from npu_tensor.runtime.store.packs import pack, unpack


def kernel_directory(root: Path) -> Path:
    """Kernels for two arrays, and files that do not belong to any kernel."""
    for arch, exported, suffixes in (
        ("aie2", "add", [".so"]),
        ("aie2p", "mul", [".xclbin", "_parameters.json", ".pdi"]),
    ):
        data = {suffix: f"{exported}{suffix} ".encode() * 50 for suffix in suffixes}
        made_from = {"arch": arch, "backend": "host", "design": "0" * 64}
        write_entry(root / arch, exported, data, {"name": exported, "key": "0" * 64, "made_from": made_from})
        (root / arch / f"{exported}.xclbin.bak").write_text("not listed")
    (root / "notes.txt").write_text("not a kernel")
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    pack(kernel_directory(tmp_path / "kernels"), tmp_path / "model.ntpack")
    return tmp_path / "model.ntpack"


def test_round_trip(tmp_path: Path, packed: Path) -> None:
    assert unpack(packed, tmp_path / "far" / "away") == 6
    expected = contents(tmp_path / "kernels")
    for name in ("aie2/add.xclbin.bak", "aie2p/mul.xclbin.bak", "notes.txt"):
        del expected[name]
    assert contents(tmp_path / "far" / "away") == expected
    assert os.listdir(tmp_path / "far") == ["away"]
    subprocess.run([sys.executable, "-m", "zipfile", "-e", packed, tmp_path / "other"], check=True)
    assert contents(tmp_path / "other") == expected


def test_the_same_files_make_the_same_bytes(tmp_path: Path, packed: Path) -> None:
    copy = kernel_directory(tmp_path / "copy")
    for path in copy.rglob("*"):
        os.utime(path, (1e9, 1e9))
    (copy / "aie2" / "add.so").rename(copy / "shared")
    (copy / "aie2" / "add.so").symlink_to("../shared")  # A link within the directory is a file.
    (copy / "shared").chmod(0o700)
    pack(copy, tmp_path / "again.ntpack")
    assert (tmp_path / "again.ntpack").read_bytes() == packed.read_bytes()


def test_damaged_kernels_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has no kernels in aie2 or aie2p"):
        pack(tmp_path / "nowhere", tmp_path / "x")
    kernels = kernel_directory(tmp_path / "kernels")
    (kernels / "aie2p" / "mul.pdi").write_bytes(b"other")
    with pytest.raises(ArgumentError, match=r"aie2p/mul is damaged: mul\.pdi"):
        pack(kernels, tmp_path / "x")
    (kernels / "aie2p" / "mul.pdi").unlink()
    with pytest.raises(ArgumentError, match=r"mul\.pdi cannot be read"):
        pack(kernels, tmp_path / "x")
    (kernels / "aie2p" / "mul.json").write_text("{}")
    with pytest.raises(ArgumentError, match="does not have its checksum"):
        pack(kernels, tmp_path / "x")
    assert os.listdir(tmp_path) == ["kernels"]


def test_an_existing_directory_is_left_alone(tmp_path: Path, packed: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    unpack(packed, mine)  # An empty directory is replaced.
    before = contents(mine)
    for path in (mine, packed):
        with pytest.raises(ArgumentError, match="exists and is not an empty directory"):
            unpack(packed, path)
    assert contents(mine) == before


# --- packs of other programs


def archive(path: Path, packed: Path, files: dict[str, bytes]) -> Path:
    """Copy a pack and add files."""
    path.write_bytes(packed.read_bytes())
    with zipfile.ZipFile(path, "a") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return path


def refusal(path: Path, tmp_path: Path) -> str:
    """Return the error for a pack, of which nothing may be written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArgumentError) as caught:
        unpack(path, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["../a", "aie2/../../a", "/etc/a", "aie2/..", "aie2/", "aie2/.bashrc", "aie2/..\\a", "C:\\a", "aie3/a"],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, packed: Path, name: str) -> None:
    message = refusal(archive(tmp_path / "x", packed, {name: b"1"}), tmp_path)
    assert f"{name!r} is not a file in aie2 or aie2p" in message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_that_do_not_belong_to_a_kernel_are_refused(tmp_path: Path, packed: Path) -> None:
    for files, message in (
        ({"aie2/a": b"1"}, "'aie2/a' does not belong to a kernel"),
        ({"aie2/add.so": b"2"}, "aie2/add is damaged"),
        ({"aie2/more.json": b"{}"}, "does not have its checksum"),
    ):
        assert message in refusal(archive(tmp_path / "x", packed, files), tmp_path)
    (tmp_path / "x").write_bytes(b"PK\x05\x06" + bytes(18))  # an empty zip file
    assert "has no kernels" in refusal(tmp_path / "x", tmp_path)
    (tmp_path / "x").write_bytes(b"#!/bin/sh\n")
    assert "is not a kernel pack, or damaged" in refusal(tmp_path / "x", tmp_path)
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "y", tmp_path / "out")


def test_packs_that_unpack_to_more_than_the_limit_are_refused(
    tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("npu_tensor.runtime.store.packs.LARGEST_PACK", 1000)
        assert "its files have more than 1000 bytes" in refusal(packed, tmp_path)
    # The zip directory gives less than the real size.
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("aie2/a", bytes(1 << 20))
    content = bytearray((tmp_path / "x").read_bytes())
    place = content.rindex(struct.pack("<L", 1 << 20))
    content[place : place + 4] = struct.pack("<L", 500)
    (tmp_path / "x").write_bytes(content)
    assert "x is " in refusal(tmp_path / "x", tmp_path)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("damaged")
    made_from = {"arch": "aie2", "backend": "host", "design": "0" * 64}
    write_entry(scratch / "in/aie2", "a", {".so": b"12345"}, {"name": "a", "key": "0" * 64, "made_from": made_from})
    pack(scratch / "in", scratch / "good")
    return scratch


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_damage_is_an_error_of_ours_or_has_no_effect(scratch: Path, data: st.DataObject) -> None:
    content = bytearray((scratch / "good").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    (scratch / "x").write_bytes(content)
    out = scratch / "out"
    try:
        unpack(scratch / "x", out)
    except ArgumentError:
        assert not out.exists()
        return
    assert contents(out) == contents(scratch / "in")
    subprocess.run(["rm", "-r", out], check=True)


# --- commands


def test_the_commands(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["pack", "kernels"])
    assert done.exit_code == 0
    assert (tmp_path / "kernels.ntpack").read_bytes() == packed.read_bytes()
    assert done.stdout == f"kernels.ntpack: 6 files, {packed.stat().st_size} bytes\n"
    done = CliRunner().invoke(main, ["unpack", "model.ntpack", "-d", "a place"])
    assert done.exit_code == 0
    assert done.stdout == f"export NPU_TENSOR_KERNEL_DIR='{tmp_path}/a place'\n"
    assert (tmp_path / "a place" / "aie2" / "add.json").is_file()
    failed = CliRunner().invoke(main, ["unpack", "model.ntpack", "-d", "a place"])
    assert failed.exit_code == 1
    assert failed.stderr.startswith("Error: ")
    for command, name in (("unpack", "nothing.ntpack"), ("pack", "nothing")):
        failed = CliRunner().invoke(main, [command, name])
        assert failed.exit_code == 2
        assert f"'{name}' does not exist" in failed.stderr
