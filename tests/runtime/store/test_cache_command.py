"""`npu-tensor cache`."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from store_entries import FOLDER, NAME, key_of, put

from npu_tensor.cli.cache import cache
from npu_tensor.config import config
from npu_tensor.runtime.store.store import Store

CPU = "cpu-llvmlite0.1"


@pytest.fixture(autouse=True)
def _cache_of_the_command(store: Store, root: Path) -> Iterator[None]:
    with config.scope(cache_path=str(root)):
        yield


def invoke(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(cache, arguments, env={"COLUMNS": "200"}, input=answer)


def fill(store: Store, root: Path) -> list[str]:
    """Make three kernels and an object of the CPU device; return the names in the order of use."""
    now = time.time()
    for age, name in ((7200, "add-1f32"), (200, "mul-2bf16"), (100, "sub-1f32")):
        os.utime(put(store, name, key_of(name), b"x" * 2000), (now - age, now - age))
    path = store.put(CPU, "object", key_of("object"), {".o": b"code"}, {}).files[".o"]
    os.utime(path.with_suffix(".json"), (now - 9000, now - 9000))
    return ["object", "add-1f32", "mul-2bf16", "sub-1f32"]


def test_path_is_the_directory(root: Path) -> None:
    assert invoke("path").output == f"{root}\n"


def test_ls_as_json(store: Store, root: Path) -> None:
    order = fill(store, root)
    result = invoke("ls", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.output)
    assert [row["name"] for row in rows] == order
    assert [row["kind"] for row in rows] == ["object", "kernel", "kernel", "kernel"]
    assert [row["folder"] for row in rows] == [CPU, FOLDER, FOLDER, FOLDER]
    for row in rows:
        assert row["bytes"] == sum(Path(file).stat().st_size for file in row["files"])
    assert rows[1]["key"] == key_of("add-1f32")
    assert {Path(file) for file in rows[1]["files"]} == set((root / FOLDER).glob("add-1f32_*"))


def test_ls_as_a_table(store: Store, root: Path) -> None:
    fill(store, root)
    result = invoke("ls")
    assert result.exit_code == 0
    rows = [re.split("  +", line) for line in result.output.splitlines()[2:-1]]
    sizes = {row[0]: row[3] for row in rows}
    kilobytes = sum(path.stat().st_size for path in (root / FOLDER).glob("add-*")) / 1000
    assert [row[0] for row in rows] == ["add-1f32", "mul-2bf16", "sub-1f32", "objects of the CPU device: 1"]
    assert sizes["add-1f32"] == f"{kilobytes:.1f} kB"
    assert [row[5] for row in rows[:2]] == ["2 h", "3 min"]
    assert str(root) in result.output


def test_ls_of_nothing(root: Path) -> None:
    result = invoke("ls")
    assert result.exit_code == 0
    assert result.output == f"{root}: nothing\n"
    for arguments in (["clear"], ["clear", NAME], ["gc"]):
        assert invoke(*arguments).output == f"{root}: nothing\n"
    assert not root.exists()
    assert json.loads(invoke("ls", "--json").output) == []


def test_show_prints_the_description_and_the_end_of_the_log(store: Store, root: Path) -> None:
    path = put(store)
    log = "\n".join(f"line {n}" for n in range(100))
    path.with_suffix(".log").write_text(log)
    for how in (NAME, "add-*", key_of("a kernel"), key_of("a kernel")[:8]):
        result = invoke("show", how)
        assert result.exit_code == 0
        assert '"design": "a"' in result.output
        assert "line 99" in result.output
        assert "line 80" in result.output
        assert "line 79" not in result.output
    (shown,) = json.loads(invoke("show", NAME, "--json").output)
    assert shown == json.loads(path.read_text()) | {"log": log}


@pytest.mark.parametrize("name", ["nothing", key_of("a kernel")[:7], ""])
def test_show_of_what_is_not_there(store: Store, name: str) -> None:
    put(store)
    result = invoke("show", name)
    assert result.exit_code == 1
    assert result.output == f"Error: no kernel matches {name!r}; npu-tensor cache ls lists them\n"


@pytest.mark.parametrize("pattern", ["*/add-1f32_*.so", "*/mul-2bf16_*.json", "*/sub-1f32_*.log", "cpu-*/*.o"])
def test_verify_finds_damage(store: Store, root: Path, pattern: str) -> None:
    fill(store, root)
    (path,) = root.glob(pattern)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    result = invoke("verify")
    assert result.exit_code == 1
    assert "1 of 4 entries are damaged" in result.output
    assert str(path.parent / path.stem) in result.output
    assert path.exists()


def test_clear_by_name_and_all_of_ours(store: Store, root: Path) -> None:
    fill(store, root)
    (root / "notes.txt").write_text("mine")
    result = invoke("clear", "*1f32")
    assert result.exit_code == 0
    assert "removed 2 entries" in result.output
    assert [row["name"] for row in json.loads(invoke("ls", "--json").output)] == ["object", "mul-2bf16"]
    assert "removed 1 entry, 3 files, " in invoke("clear", "mul-*").output
    assert "removed 1 entry, 2 files, " in invoke("clear").output
    assert [path.name for path in root.iterdir()] == ["notes.txt"]


def test_clear_all_asks(store: Store, root: Path) -> None:
    fill(store, root)
    (root / "notes.txt").write_text("mine")
    for answer in ("n\n", "\n", ""):
        assert invoke("clear", "--all", answer=answer).exit_code == 1
        assert len(list(root.iterdir())) == 4
    assert invoke("clear", "--all", answer="y\n").exit_code == 0
    assert list(root.iterdir()) == []
    (root / "notes.txt").write_text("mine")
    assert invoke("clear", "--all", "--yes").exit_code == 0
    assert list(root.iterdir()) == []


def test_gc_makes_room(store: Store, root: Path) -> None:
    fill(store, root)
    assert "removed 0 entries" in invoke("gc").output
    result = invoke("gc", "--max-size", "4kB")
    assert "removed 3 entries" in result.output
    assert [row["name"] for row in json.loads(invoke("ls", "--json").output)] == ["sub-1f32"]
    assert "removed 1 entry" in invoke("gc", "--max-size", "0").output


@pytest.mark.parametrize(
    ("text", "largest"),
    [("8192", 8192), ("8kB", 8000), ("8KiB", 8192), ("0.008 MB", 8000), ("0.0078125MiB", 8192), ("0.000008g", 8000)],
)
def test_sizes(root: Path, text: str, largest: int) -> None:
    """An entry of this size stays, a larger one goes."""
    path = root / FOLDER / f"kernel_{key_of('kernel')[:16]}.json"
    path.parent.mkdir(parents=True)
    for nbytes in (largest, largest + 1):
        path.write_bytes(bytes(nbytes))
        assert invoke("gc", "--max-size", text).exit_code == 0
        assert path.exists() == (nbytes == largest)


@pytest.mark.parametrize("text", ["", "much", "-1", "1TBs", "1e3", "5 5", "nan"])
def test_sizes_that_are_none(text: str) -> None:
    result = invoke("gc", f"--max-size={text}")
    assert result.exit_code == 2
    assert "is not a size such as 500MB" in result.output
