"""Removal from the cache: removed files, and files that must stay."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from store_entries import FOLDER, KEY, NAME, PRELUDE, Builder, key_of, names, put, run, write_by_hand

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store import files as store_files
from npu_tensor.runtime.store.store import Store
from npu_tensor.runtime.store.upkeep import Removed, clear, clear_everything, collect, scan

pytestmark = pytest.mark.usefixtures("own_temporary_directory")


def foreign_files(root: Path, outside: Path) -> dict[Path, bytes]:
    """Write files of other programs into the directory, some with names like those of the cache."""
    outside.mkdir()
    ours = f"{NAME}_{KEY[:16]}"
    paths = [
        root / "notes.txt",
        root / "model.gguf",
        root / f"{ours}.so",  # not in a folder of ours
        root / FOLDER / "notes.txt",
        root / FOLDER / "libkernel.so",
        root / FOLDER / f"{NAME}_{KEY[:15]}.so",
        root / FOLDER / f"{NAME}_{KEY[:16].upper()}.so",
        root / FOLDER / f"{ours}.so.bak",
        root / FOLDER / "deeper-folder" / f"{ours}.so",
        root / "locks" / "notes.lock",
        root / "other" / f"{ours}.so",
        outside / f"{ours}.so",
        outside / f"{ours}.json",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(str(path).encode())
    (root / "aie2-linked").symlink_to(outside)
    link = root / FOLDER / f"linked_{KEY[:16]}.so"
    link.symlink_to(outside / f"{ours}.so")
    return {path: path.read_bytes() for path in [*paths, link]}


def test_clearing_removes_what_is_ours_and_nothing_else(store: Store, root: Path, tmp_path: Path) -> None:
    put(store)
    put(store, "damaged", key_of("d")).with_suffix(".so").write_bytes(b"")
    store.put("cpu-llvm", "object", KEY, {".o": b"12345"}, {})
    ours = [path for path in root.rglob("*") if path.is_file()]
    for name in (
        f"{FOLDER}/orphan_{KEY[:16]}.xclbin",
        f"{FOLDER}/killed_{KEY[:16]}_insts.bin.89abcdef.temporary",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"12345")
        ours.append(root / name)
    size = sum(path.stat().st_size for path in ours)
    locks = [path for path in ours if path.suffix == ".lock"]
    foreign = foreign_files(root, tmp_path / "outside")
    removed = clear(root)
    assert removed == Removed(entries=3, files=len(ours) - len(locks), bytes=size, busy=0)
    assert [path for path in ours if path.exists()] == []
    assert {path: path.read_bytes() for path in foreign} == foreign
    assert (root / "aie2-linked").is_symlink()
    assert store.get_or_build(FOLDER, NAME, KEY, Builder(), {})[1]


def test_entries_being_built_are_left_alone(store: Store, root: Path) -> None:
    put(store)
    put(store, "other", key_of("other"))
    with store_files.locked(root, KEY):
        removed = clear(root)
        assert (removed.entries, removed.busy) == (1, 1)
        assert store.get(FOLDER, NAME, KEY) is not None
        os.utime(next((root / FOLDER).glob("*.json")), (0, 0))
        assert collect(root, 0).entries == 0
    assert clear(root).entries == 1


@pytest.mark.parametrize("remove", [clear, clear_everything])
def test_some_directories_are_never_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Path], Removed]
) -> None:
    home, here, cache = tmp_path / "people" / "home", tmp_path / "work" / "here", tmp_path / "linked"
    for directory in (home, here):
        directory.mkdir(parents=True)
        write_by_hand(directory, NAME, KEY, b"")
        write_by_hand(directory.parent, NAME, KEY, b"")
    cache.symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    for directory in (Path("/"), home, home.parent, here, here.parent, cache, Path()):
        with pytest.raises(ArgumentError, match="not cleared"):
            remove(directory)
    if os.getuid() == 0:
        other = tmp_path / "other"
        put(Store(other))
        os.chown(other, 12345, 12345)
        with pytest.raises(ArgumentError, match="another user"):
            remove(other)
        assert len(scan(other)[0]) == 1
    assert len(scan(home)[0]) == len(scan(here)[0]) == len(scan(home.parent)[0]) == 1


CLEARING = f"""{PRELUDE}
import subprocess
print("found" if Store(root).get(FOLDER, "kernel", key_of(1)) else "absent", flush=True)
Store(root).get_or_build(FOLDER, "kernel", key_of(1), build(1), {{}})
if len(sys.argv) == 3:
    subprocess.run([sys.executable, "-c", sys.orig_argv[2], *sys.argv[1:], "child"], check=True)
"""


@pytest.mark.slow
def test_the_cache_is_cleared_once_per_program(root: Path, tmp_path: Path) -> None:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "foreign.txt").write_text("stays")

    def output(**environment: str) -> list[str]:
        process = run(CLEARING, root, tmp_path / "log", **environment)
        text, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        return text.split()

    assert output() == ["absent", "found"]
    assert output() == ["found", "found"]
    assert output(NPU_TENSOR_CACHE_CLEAR="1") == ["absent", "found"]
    assert (root / FOLDER / "foreign.txt").exists()


def fill(store: Store, root: Path, count: int, size: int = 10_000) -> list[str]:
    """Entries of about `size` bytes; the first was used longest ago, all more than an hour."""
    keys = [key_of(str(n)) for n in range(count)]
    for age, key in zip(range(count, 0, -1), keys, strict=True):
        path = put(store, "kernel", key, b"x" * size)
        os.utime(path, (time.time() - 3600 * (age + 1),) * 2)
    return keys


def kept(store: Store, keys: list[str]) -> list[bool]:
    """Which entries are complete; looked up by file so that nothing counts as used."""
    return [(store.root / FOLDER / f"kernel_{key[:16]}.json").exists() for key in keys]


def test_the_least_recently_used_go_first_and_whole(store: Store, root: Path, emitted: list[events.Event]) -> None:
    keys = fill(store, root, 10)
    assert store.get(FOLDER, "kernel", keys[1]) is not None  # used now: the last to go
    total = sum(item.bytes for item in scan(root)[0])
    # Below the limit means at most nine tenths of it: of 9.5 entries 8 are left, of 6.5 entries 5.
    removed = collect(root, total * 95 // 100)
    assert kept(store, keys) == [False, True, False] + [True] * 7
    assert (removed.entries, removed.files) == (2, 6)
    collect(root, total * 65 // 100)
    assert kept(store, keys) == [False, True, False, False, False, False] + [True] * 4
    assert {name.split(".")[0] for name in names(root / FOLDER)} == {
        f"kernel_{key[:16]}" for key, is_kept in zip(keys, kept(store, keys), strict=True) if is_kept
    }
    assert [event.entries for event in emitted if isinstance(event, events.CacheEvicted)] == [2, 3]
    assert collect(root, total) == Removed()


def test_the_cache_stays_below_its_limit_while_it_is_filled(store: Store, root: Path) -> None:
    with config.scope(cache_bytes=100_000):
        keys = fill(store, root, 30, 5_000)
        total = sum(item.bytes for item in scan(root)[0])
    # Looked at whenever a sixteenth was added.
    assert 90_000 - 6_000 < total < 100_000 + 100_000 / 16
    assert kept(store, keys)[-15:] == [True] * 15


def test_old_leftovers_are_collected(store: Store, root: Path) -> None:
    put(store)
    stem = f"kernel_{key_of('gone')[:16]}"
    ages = {
        root / FOLDER / f"{stem}.xclbin": 3600,
        root / FOLDER / f"{stem}.xclbin.01234567.temporary": 3600,
        root / "locks" / f"{key_of('gone')[:16]}.lock": 24 * 3600,
    }
    for path in ages:
        path.touch()
    for margin, remain in ((-100, True), (100, False)):
        for path, age in ages.items():
            os.utime(path, (time.time() - age - margin,) * 2)
        collect(root, 1 << 40)
        assert {path.name: path.exists() for path in ages} == {path.name: remain for path in ages}
    assert store.get(FOLDER, NAME, KEY) is not None
