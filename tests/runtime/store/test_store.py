"""The cache of compiled kernels: entries are whole or absent, and remembered failures fail at once."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from store_entries import (
    FOLDER,
    KEY,
    NAME,
    Builder,
    Failing,
    key_of,
    leftovers,
    names,
    put,
    touch,
    write_by_hand,
)

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.cpu.engine import ObjectCache
from npu_tensor.runtime.store import files as store_files
from npu_tensor.runtime.store.contents import scan
from npu_tensor.runtime.store.kernel_cache import Store
from npu_tensor.runtime.store.upkeep import clear

pytestmark = pytest.mark.usefixtures("own_temporary_directory")


def test_an_entry_is_its_files_and_a_description(store: Store, root: Path) -> None:
    entry, built = store.get_or_build(FOLDER, NAME, KEY, Builder(), {"design": "a", "flags": ["-O2"]})
    stem = f"{NAME}_{KEY[:16]}"
    assert built
    assert names(root / FOLDER) == {stem + ".so", stem + ".log", stem + ".json"}
    assert entry.files == {".so": root / FOLDER / (stem + ".so")}
    assert entry.files[".so"].read_bytes() == b"machine code"
    assert (root / FOLDER / (stem + ".log")).read_text() == "warning: none\n"
    assert (entry.name, entry.key) == (NAME, KEY)

    text = (root / FOLDER / (stem + ".json")).read_text()
    description = json.loads(text)
    assert entry.description == description
    assert description["made_from"] == {"design": "a", "flags": ["-O2"]}
    assert (description["name"], description["key"], description["format"]) == (NAME, KEY, 1)
    assert description["files"][".so"] == {"bytes": 12, "sha256": hashlib.sha256(b"machine code").hexdigest()}
    covered, comma, _ = text.partition(',\n "checksum"')
    assert comma
    assert description["checksum"] == hashlib.sha256(covered.encode()).hexdigest()
    assert store.get_or_build(FOLDER, NAME, KEY, Failing(AssertionError()), {}) == (entry, False)


def test_an_entry_written_by_hand_is_found(store: Store, root: Path) -> None:
    write_by_hand(root, NAME, KEY, b"by hand")
    entry = store.load(FOLDER, NAME, KEY)
    assert entry is not None
    assert entry.files[".so"].read_bytes() == b"by hand"


def test_keys_are_compared_in_full(store: Store, root: Path) -> None:
    other = KEY[:16] + key_of("b")[16:]
    path = write_by_hand(root, NAME, other, b"of another key")
    assert store.load(FOLDER, NAME, KEY) is None
    assert put(store, content=b"of this key") == path
    result = store.load(FOLDER, NAME, KEY)
    assert result is not None
    assert result.files[".so"].read_bytes() == b"of this key"
    assert store.load(FOLDER, NAME, other) is None
    assert leftovers(root) == set()


def test_an_entry_under_the_file_name_of_another_kernel_is_not_taken_for_it(store: Store, root: Path) -> None:
    path = write_by_hand(root, "other", KEY, b"other")
    for suffix in (".so", ".json"):
        path.with_suffix(suffix).rename(path.with_name(f"{NAME}_{KEY[:16]}{suffix}"))
    assert store.load(FOLDER, NAME, KEY) is None


def test_an_entry_of_another_format_is_replaced_and_not_called_damaged(
    store: Store, root: Path, emitted: list[events.Event]
) -> None:
    path = write_by_hand(root, NAME, KEY, b"x")
    covered = path.read_text().partition(',\n "checksum"')[0].replace('"format": 1', '"format": 2')
    path.write_text(f'{covered},\n "checksum": "{key_of(covered)}"\n}}\n')
    assert store.load(FOLDER, NAME, KEY) is None
    put(store)
    assert emitted == []


@pytest.mark.parametrize(
    "name",
    ["mul+add-" * 60, "a/b", "../../escape", ".hidden", "-rf", "", "ÄÖ-1024f32", "x" * 80, "x" * 81, "\ud800", "a\nb"],
)
def test_any_name_makes_a_legal_file_name(store: Store, root: Path, name: str) -> None:
    entry, _ = store.get_or_build(FOLDER, name, KEY, lambda directory: {"_insts.bin": touch(directory / "i")}, {})
    (path,) = entry.files.values()
    assert path.parent == root / FOLDER
    assert re.fullmatch(r"[A-Za-z0-9+_][A-Za-z0-9._+-]*", path.name)
    # A temporary file has the longest name; 143 bytes are what an eCryptfs home directory takes.
    assert len(path.name) + len(".01234567.temporary") <= 143
    assert len(scan(root).items) == 1
    result = store.load(FOLDER, name, KEY)
    assert result is not None
    assert result.name == name


@pytest.mark.parametrize("pair", [("n" * 300 + "1", "n" * 300 + "2"), ("a/b", "a:b"), ("a_b", "a/b"), (".a", "a")])
def test_names_that_look_alike_on_disk_are_not_mixed_up(store: Store, pair: tuple[str, str]) -> None:
    for name in pair:
        put(store, name, content=name.encode())
    for name in pair:
        entry = store.load(FOLDER, name, KEY)
        assert entry is not None
        assert (entry.name, entry.files[".so"].read_bytes()) == (name, name.encode())


@pytest.mark.parametrize("key", ["", "ab", KEY.upper(), KEY + "0", "../" + KEY[3:]])
def test_keys_are_64_digits(store: Store, key: str) -> None:
    with pytest.raises(ArgumentError, match="64"):
        store.load(FOLDER, NAME, key)


@pytest.mark.parametrize("folder", ["", "cpu", "locks", "../aie2-x", "aie2p-a/b", "aie2p-"])
def test_folders_are_an_array_and_a_toolchain(store: Store, folder: str) -> None:
    with pytest.raises(ArgumentError, match="aie2p-toolchain"):
        store.get_or_build(folder, NAME, KEY, Builder(), {})


def test_the_directory_is_asked_for_at_each_use(tmp_path: Path) -> None:
    store = Store()
    with config.scope(cache_path=str(tmp_path / "one")):
        put(store)
    with config.scope(cache_path=str(tmp_path / "two")):
        assert store.load(FOLDER, NAME, KEY) is None
    with config.scope(cache_path=str(tmp_path / "one")):
        assert store.load(FOLDER, NAME, KEY) is not None


def test_every_flipped_byte_of_every_file_is_noticed(store: Store, emitted: list[events.Event]) -> None:
    sidecar = put(store)
    good = {path: path.read_bytes() for path in sidecar.parent.iterdir()}
    assert len(good) == 3
    for path, content in good.items():
        for position in range(len(content)):
            # Another digit, another kind of space: what a JSON parser might not mind.
            path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
            assert store.load(FOLDER, NAME, KEY) is None, (path.name, position)
            assert not sidecar.exists()
            for original, bytes_ in good.items():
                original.write_bytes(bytes_)
    result = [event for event in emitted if isinstance(event, events.CacheDamaged)]
    assert len(result) == sum(map(len, good.values()))
    assert store.load(FOLDER, NAME, KEY) is not None


@pytest.mark.parametrize("suffix", [".so", ".json", ".log"])
@pytest.mark.parametrize("damage", ["emptied", "truncated", "lengthened", "zeroed"])
def test_a_damaged_entry_is_set_aside_and_built_again(
    store: Store, emitted: list[events.Event], suffix: str, damage: str
) -> None:
    path = put(store).with_suffix(suffix)
    content = path.read_bytes()
    bad = {"emptied": b"", "truncated": content[:-1], "lengthened": content + b"\n", "zeroed": bytes(len(content))}
    path.write_bytes(bad[damage])
    builder = Builder()
    entry, built = store.get_or_build(FOLDER, NAME, KEY, builder, {})
    assert built
    assert entry.files[".so"].read_bytes() == b"machine code"
    assert path.with_name(path.name + ".damaged").read_bytes() == bad[damage]
    (event,) = [event for event in emitted if isinstance(event, events.CacheDamaged)]
    assert event.kernel == NAME
    assert event.path == str(path.with_suffix(".json"))


def with_checksum(covered: str) -> str:
    return f'{covered},\n "checksum": "{hashlib.sha256(covered.encode()).hexdigest()}"\n}}\n'


@pytest.mark.parametrize("field", ["failure", "files", "key", "name"])
@pytest.mark.parametrize("value", [None, 1, [], "x", {"x": {}}, {"\0": {"bytes": 0, "sha256": ""}}])
def test_a_description_that_nobody_wrote_is_damage(store: Store, root: Path, field: str, value: object) -> None:
    for lacking in (False, True):
        path = write_by_hand(root, NAME, KEY, b"by hand")
        written = json.loads(path.read_text())
        del written["checksum"]
        changed = written | {field: value}
        if lacking:
            del changed[field]
        path.write_text(with_checksum(json.dumps(changed)[:-1]))
        assert (store.load(FOLDER, NAME, KEY) is None) is (changed != written)
        assert store.failure(FOLDER, NAME, KEY) is None


@pytest.mark.parametrize("covered", ["", "garbage", "[1", '{"a": 1}, {"format": 1', '{"format": ' + "[" * 100_000])
def test_a_checksum_makes_no_description(store: Store, root: Path, emitted: list[events.Event], covered: str) -> None:
    path = write_by_hand(root, NAME, KEY, b"by hand")
    path.write_text(with_checksum(covered))
    assert store.load(FOLDER, NAME, KEY) is None
    put(store)
    assert [type(event) for event in emitted] == [events.CacheDamaged]


def test_a_missing_file_is_damage(store: Store) -> None:
    put(store).with_suffix(".so").unlink()
    assert store.load(FOLDER, NAME, KEY) is None
    put(store)


def test_a_changed_description_is_damage(store: Store) -> None:
    path = put(store)
    path.write_text(path.read_text().replace('"design": "a"', '"design": "b"'))
    assert store.load(FOLDER, NAME, KEY) is None


def test_files_without_a_description_are_no_entry(store: Store) -> None:
    put(store).unlink()
    assert store.load(FOLDER, NAME, KEY) is None
    assert store.get_or_build(FOLDER, NAME, KEY, Builder(b"again"), {})[0].files[".so"].read_bytes() == b"again"


def test_a_reader_never_takes_a_rebuild_for_damage(store: Store, root: Path, emitted: list[events.Event]) -> None:
    """Each version writes two files of one content, so that a mixture shows."""
    stem = put(store).stem
    stop = threading.Event()

    def rewrite() -> None:
        version = 0
        while not stop.is_set():
            version += 1
            contents = {".so": b"%d" % version * 5000, ".pdi": b"%d" % version * 5000}
            sidecar = store_files.sidecar_text(NAME, KEY, {}, contents, 0.0)
            with store_files.locked(root, KEY):
                store_files.write_entry(root / FOLDER, stem, contents, sidecar)

    writer = threading.Thread(target=rewrite)
    writer.start()
    result = 0
    try:
        while result < 200:
            result += store.load(FOLDER, NAME, KEY) is not None
    finally:
        stop.set()
        writer.join()
    assert emitted == []
    assert leftovers(root) == set()


def test_a_failed_build_is_remembered_until_the_key_changes(store: Store) -> None:
    failing = Failing(BuildError("stack overflow in core 2,3"))
    with pytest.raises(BuildError) as first:
        store.get_or_build(FOLDER, NAME, KEY, failing, {})
    assert first.value is failing.error
    for again in (store, Store(store.root)):
        with pytest.raises(BuildError, match=r"stack overflow in core 2,3\n.*NPU_TENSOR_FORCE_RECOMPILE=1"):
            again.get_or_build(FOLDER, NAME, KEY, failing, {})
    assert failing.calls == 1
    assert store.load(FOLDER, NAME, KEY) is None
    failure = store.failure(FOLDER, NAME, KEY)
    assert failure == ("stack overflow in core 2,3", "warning: none\n")
    assert store.failure(FOLDER, NAME, key_of("b")) is None
    assert store.get_or_build(FOLDER, NAME, key_of("b"), Builder(), {})[1]


def test_the_message_of_a_failed_build_names_a_command_that_works(store: Store, root: Path) -> None:
    name = "odd [name]*-1f32"
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            store.get_or_build(FOLDER, name, KEY, Failing(BuildError("no")), {})
    result = re.search(r"npu-tensor cache clear (.*), or", str(caught.value))
    assert result
    (pattern,) = shlex.split(result[1])
    assert clear(root, pattern).entries == 1
    assert store.get_or_build(FOLDER, name, KEY, Builder(), {})[1]
    assert store.failure(FOLDER, name, KEY) is None


def test_what_fails_because_of_another_build_is_not_remembered_too(store: Store, root: Path) -> None:
    inner: Builder = Failing(BuildError("library.cc:1: error"))

    def outer(directory: Path) -> dict[str, Path]:
        library, _ = store.get_or_build(FOLDER, "library", key_of("library"), inner, {})
        return {".so": library.files[".so"]}

    for _ in range(2):
        with pytest.raises(BuildError, match=r"library\.cc:1: error") as caught:
            store.get_or_build(FOLDER, NAME, KEY, outer, {})
    assert inner.calls == 1
    assert [path.name[:8] for path in (root / FOLDER).glob("*.json")] == ["library_"]
    result = re.search(r"npu-tensor cache clear (.*), or", str(caught.value))
    assert result
    assert clear(root, result[1]).entries == 1
    inner = Builder()
    assert store.get_or_build(FOLDER, NAME, KEY, outer, {})[1]


def signalled() -> BuildError:
    return BuildError("the compiler was ended by signal 9", transient=True)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), BuildError),
        (MemoryError(), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (signalled(), BuildError),
    ],
)
def test_what_may_go_better_next_time_is_not_remembered(
    store: Store, own_temporary_directory: Path, error: BaseException, raised: type[BaseException]
) -> None:
    with pytest.raises(raised):
        store.get_or_build(FOLDER, NAME, KEY, Failing(error), {})
    assert store.failure(FOLDER, NAME, KEY) is None
    assert names(own_temporary_directory) == set()
    assert store.get_or_build(FOLDER, NAME, KEY, Builder(), {})[1]


def test_a_build_must_make_what_it_promises(store: Store) -> None:
    with pytest.raises(BuildError, match="gone"):
        store.get_or_build(FOLDER, NAME, KEY, lambda directory: {".so": directory / "gone"}, {})


@pytest.mark.parametrize("suffix", ["so", ".json", ".log", "/x.so", ".damaged.", ".so.00000000.temporary"])
def test_suffixes_are_not_taken_from_the_cache_itself(store: Store, suffix: str) -> None:
    with pytest.raises(ArgumentError, match="must not return"):
        store.get_or_build(FOLDER, NAME, KEY, lambda directory: {suffix: touch(directory / "x")}, {})


def test_recompiling_is_forced_once_per_store(store: Store, root: Path) -> None:
    put(store)
    with pytest.raises(BuildError):
        store.get_or_build(FOLDER, NAME, key_of("b"), Failing(BuildError("no")), {})
    for fresh in (Store(root), Store(root)):
        with config.scope(force_recompile=True):
            for key in (KEY, key_of("b")):
                assert fresh.load(FOLDER, NAME, key) is None
                assert fresh.failure(FOLDER, NAME, key) is None
                builder = Builder()
                made = [fresh.get_or_build(FOLDER, NAME, key, builder, {})[1] for _ in range(3)]
                assert (made, builder.calls) == ([True, False, False], 1)
                assert fresh.load(FOLDER, NAME, key) is not None


def _directory(path: Path) -> None:
    (path / "in it").mkdir(parents=True)


def _socket(path: Path) -> None:
    # The path of a socket is at most 107 bytes long.
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
        bound.bind("socket")
        os.replace("socket", path.name)


@pytest.mark.parametrize("make", [os.mkfifo, _socket, _directory])
def test_what_is_no_file_is_not_waited_for(
    store: Store, emitted: list[events.Event], make: Callable[[Path], object]
) -> None:
    sidecar = put(store)
    library = sidecar.with_suffix(".so")
    library.unlink()
    make(library)
    assert store.load(FOLDER, NAME, KEY) is None
    (damaged,) = emitted
    assert isinstance(damaged, events.CacheDamaged)
    assert library.name in damaged.reason
    assert put(store) == sidecar
    assert library.read_bytes() == b"machine code"
    if make is not _directory:
        sidecar.unlink()
        make(sidecar)
        assert store.load(FOLDER, NAME, KEY) is None
        assert put(store) == sidecar

    objects = ObjectCache(store.root / "cpu")
    objects.store("0" * 64, b"object")
    (path,) = (store.root / "cpu").iterdir()
    path.unlink()
    make(path)
    assert objects.load("0" * 64) is None


def test_an_interrupt_right_after_the_lock_was_taken_releases_it(root: Path) -> None:
    def interrupt(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_return" and called.__name__ == "acquire" and frame.f_code.co_name == "locked":
            raise KeyboardInterrupt

    with store_files.locked(root, KEY):
        pass
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), store_files.locked(root, KEY):
            pass
    finally:
        sys.setprofile(None)

    def take() -> str:
        try:
            with store_files.locked(root, KEY, wait=False):
                return "free"
        except BlockingIOError:
            return "held"

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(take).result() == "free"
