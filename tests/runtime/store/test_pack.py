"""Kernel packs: what goes in comes out, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tensor.cli import pack as commands
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.packs import pack, unpack


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def kernel_directory(root: Path) -> Path:
    """A directory of ready kernels for two arrays; what is no part of a kernel lies there too."""
    for arch, exported, suffixes in (("aie2", "add", [".so"]), ("aie2p", "mul", [".xclbin", "_insts.bin", ".pdi"])):
        folder = root / arch
        folder.mkdir(parents=True)
        contents = {suffix: f"{exported}{suffix} ".encode() * 50 for suffix in suffixes}
        for suffix, content in contents.items():
            (folder / f"{exported}{suffix}").write_bytes(content)
        files = {suffix: {"bytes": len(content), "sha256": sha256(content)} for suffix, content in contents.items()}
        made_from = {"arch": arch, "backend": "host", "design": "0" * 64}
        description = {"name": exported, "key": "0" * 64, "made_from": made_from, "files": files}
        (folder / f"{exported}.json").write_text(json.dumps(description))
        (folder / "manifest.json").write_text(json.dumps({"format": 1, "kernels": {exported: description}}))
        (folder / ".manifest.json.lock").touch()
        (folder / f"{exported}-artifacts").mkdir()
        (folder / f"{exported}.xclbin.bak").write_text("not listed")
    (root / "notes.txt").write_text("not a kernel")
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    pack(kernel_directory(tmp_path / "kernels"), tmp_path / "model.ntpack")
    return tmp_path / "model.ntpack"


def test_round_trip(tmp_path: Path, packed: Path) -> None:
    assert unpack(packed, tmp_path / "far" / "away") == 8
    expected = contents(tmp_path / "kernels")
    unlisted = ("aie2/add.xclbin.bak", "aie2p/mul.xclbin.bak", "notes.txt")
    for name in (*unlisted, "aie2/.manifest.json.lock", "aie2p/.manifest.json.lock"):
        del expected[name]
    assert contents(tmp_path / "far" / "away") == expected
    assert os.listdir(tmp_path / "far") == ["away"]


def test_the_same_files_make_the_same_bytes(tmp_path: Path, packed: Path) -> None:
    copy = kernel_directory(tmp_path / "copy")
    for path in copy.rglob("*"):
        os.utime(path, (1e9, 1e9))
    (copy / "aie2" / "add.so").chmod(0o700)
    pack(copy, tmp_path / "again.ntpack")
    assert (tmp_path / "again.ntpack").read_bytes() == packed.read_bytes()


def test_other_tools_read_a_pack(tmp_path: Path, packed: Path) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-e", packed, tmp_path / "other"], check=True)
    listed = json.loads((tmp_path / "other" / "pack.json").read_text())
    for name, record in listed["files"].items():
        assert record["sha256"] == sha256((tmp_path / "other" / name).read_bytes())


def test_what_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has no kernels: there is no manifest\.json in aie2 or aie2p"):
        pack(tmp_path / "nowhere", tmp_path / "x")
    kernels = kernel_directory(tmp_path / "kernels")
    (kernels / "aie2p" / "mul_insts.bin").write_bytes(b"other")
    with pytest.raises(ArgumentError, match=r"aie2p/mul_insts\.bin is damaged"):
        pack(kernels, tmp_path / "x")
    (kernels / "aie2p" / "mul_insts.bin").unlink()
    with pytest.raises(ArgumentError, match=r"aie2p/mul_insts\.bin is missing"):
        pack(kernels, tmp_path / "x")
    assert os.listdir(tmp_path) == ["kernels"]


@pytest.mark.parametrize("name", ["mul.pdi", "mul.json", "manifest.json", ""])
def test_links_that_lead_elsewhere_are_not_followed(tmp_path: Path, packed: Path, name: str) -> None:
    path = tmp_path / "kernels" / "aie2p" / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArgumentError, match=r"aie2p/\S+ is a link that leads out of "):
        pack(tmp_path / "kernels", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_links_within_the_directory_are_files(tmp_path: Path, packed: Path) -> None:
    kernels = tmp_path / "kernels"
    (kernels / "aie2" / "add.so").rename(kernels / "shared")
    (kernels / "aie2" / "add.so").symlink_to("../shared")
    pack(kernels, tmp_path / "again.ntpack")
    assert (tmp_path / "again.ntpack").read_bytes() == packed.read_bytes()


def test_an_existing_directory_is_left_alone(tmp_path: Path, packed: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    unpack(packed, mine)  # empty: taken
    before = contents(mine)
    with pytest.raises(ArgumentError, match="exists and is not an empty directory"):
        unpack(packed, mine)
    with pytest.raises(ArgumentError, match="exists and is not an empty directory"):
        unpack(packed, packed)
    assert contents(mine) == before


# --- packs that others made


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.create_system = 3
    made.external_attr = mode << 16
    return made


def archive(
    path: Path, files: dict[str, bytes], listed: dict[str, Any] | None = None, mode: int = stat.S_IFREG | 0o644
) -> Path:
    """A pack of these files, which lists them rightly unless `listed` says other things."""
    right = {name: {"bytes": len(content), "sha256": sha256(content)} for name, content in files.items()}
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(entry("pack.json"), json.dumps({"format": 1, "files": right | (listed or {})}))
        for name, content in files.items():
            made.writestr(entry(name, mode), content)
    return path


def refusal(path: Path, tmp_path: Path) -> str:
    """What is said against a pack, of which nothing may be written."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArgumentError) as caught:
        unpack(path, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before
    return str(caught.value)


def test_a_pack_by_hand_is_taken(tmp_path: Path) -> None:
    assert unpack(archive(tmp_path / "x", {"aie2/a.so": b"1"}), tmp_path / "out") == 1
    assert contents(tmp_path / "out") == {"aie2/a.so": b"1"}


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "aie2/../../a",
        "/etc/a",
        "aie2//etc/a",
        "aie2/..",
        "aie2/",
        "aie2/.bashrc",
        "aie2/b/c",
        "aie2/..\\a",
        "C:\\a",
        "aie2p/\n",
        "a",
        "aie3/a",
    ],
)
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    said = refusal(archive(tmp_path / "x", {name: b"1"}), tmp_path)
    assert f"{name!r} is not a file in aie2 or aie2p" in said


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_what_is_no_regular_file(tmp_path: Path, kind: int) -> None:
    said = refusal(archive(tmp_path / "x", {"aie2/a": b"/etc/passwd"}, mode=kind | 0o777), tmp_path)
    assert "'aie2/a' is not a regular file" in said


def test_a_pack_without_files(tmp_path: Path) -> None:
    assert "pack.json lists no files" in refusal(archive(tmp_path / "x", {}), tmp_path)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    assert "is longer than 255 bytes" in refusal(archive(tmp_path / "x", {f"aie2/{'a' * 300}": b"1"}), tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name(tmp_path: Path) -> None:
    path = archive(tmp_path / "x", {"aie2/a": b"1"})
    with zipfile.ZipFile(path, "a") as made:
        made.writestr(entry("aie2/a"), b"2")
    assert "two of its files have the same name" in refusal(path, tmp_path)


def test_contents_and_list_must_agree(tmp_path: Path) -> None:
    right = {"bytes": 1, "sha256": sha256(b"1")}
    for listed, said in (
        ({"aie2/b": right}, "'aie2/b' is missing"),
        ({"aie2/a": {**right, "sha256": "0" * 64}}, "'aie2/a' is not what the pack lists"),
        ({"aie2/a": {**right, "bytes": 2}}, "'aie2/a' is not what the pack lists"),
        ({"aie2/a": 1}, "pack.json is no list of files of format 1"),
    ):
        assert said in refusal(archive(tmp_path / "x", {"aie2/a": b"1"}, listed), tmp_path)
    path = archive(tmp_path / "x", {"aie2/a": b"1"})
    with zipfile.ZipFile(path, "a") as made:
        made.writestr(entry("aie2/b"), b"2")
    assert "'aie2/b' is in the pack, but not listed" in refusal(path, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 2, "files": {}}', '{"format": 1}', "[" * 100_000, b"\xff"])
def test_a_list_that_is_none(tmp_path: Path, text: str | bytes) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as made:
        made.writestr(entry("pack.json"), text)
    assert "pack.json is no" in refusal(tmp_path / "x", tmp_path)


def test_no_pack_at_all(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK\x05\x06" + bytes(18))  # an empty zip file
    assert "it has no pack.json" in refusal(tmp_path / "x", tmp_path)
    (tmp_path / "x").write_bytes(b"#!/bin/sh\n")
    assert "is no kernel pack, or damaged" in refusal(tmp_path / "x", tmp_path)
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "y", tmp_path / "out")


def test_more_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        zeros = bytes(1 << 20)
        for name in ("pack.json", "aie2/a"):
            listed = {"format": 1, "files": {"aie2/a": {"bytes": len(zeros), "sha256": sha256(zeros)}}}
            made.writestr(name, json.dumps(listed) if name == "pack.json" else zeros)
    for limit, said in (("LARGEST_FILE", "'aie2/a' has more than"), ("LARGEST_PACK", "its files have more than")):
        with monkeypatch.context() as patch:
            patch.setattr(f"npu_tensor.runtime.store.packs.{limit}", 1000)
            assert f"{said} 1000 bytes" in refusal(path, tmp_path)
    # The directory of the file says that less comes out than does.
    content = bytearray(path.read_bytes())
    place = content.rindex(struct.pack("<L", 1 << 20))
    content[place : place + 4] = struct.pack("<L", 500)
    path.write_bytes(content)
    assert "x is " in refusal(path, tmp_path)


@pytest.fixture(scope="module")
def small_pack(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "x"
    archive(path, {"aie2/a.so": b"12345", "aie2p/b.so": b"6789"})
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_damage_is_an_error_of_ours_or_has_no_effect(small_pack: bytes, scratch: Path, data: st.DataObject) -> None:
    content = bytearray(small_pack)
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
    assert contents(out) == {"aie2/a.so": b"12345", "aie2p/b.so": b"6789"}
    subprocess.run(["rm", "-r", out], check=True)


# --- commands


def test_the_commands(tmp_path: Path, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(commands.pack, ["kernels"])
    assert done.exit_code == 0
    assert (tmp_path / "kernels.ntpack").read_bytes() == packed.read_bytes()
    assert done.stdout == f"kernels.ntpack: 8 files, {packed.stat().st_size} bytes\n"
    done = CliRunner().invoke(commands.unpack, ["model.ntpack", "-d", "a place"])
    assert done.exit_code == 0
    assert done.stdout == f"export NPU_TENSOR_KERNEL_DIR='{tmp_path}/a place'\n"
    assert (tmp_path / "a place" / "aie2" / "manifest.json").is_file()
    failed = CliRunner().invoke(commands.unpack, ["model.ntpack", "-d", "a place"])
    assert failed.exit_code == 1
    assert failed.stderr.startswith("Error: ")
    for command, name in ((commands.unpack, "nothing.ntpack"), (commands.pack, "nothing")):
        failed = CliRunner().invoke(command, [name])
        assert failed.exit_code == 2
        assert f"'{name}' does not exist" in failed.stderr
