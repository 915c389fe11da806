"""The cache of compiled kernels: entries are whole or absent, and a damaged one is built again."""

import errno
import hashlib
import json
import re
import threading
from pathlib import Path

import pytest
from store_entries import FOLDER, KEY, NAME, Builder, Failing, key_of, leftovers, names, put, touch, write_by_hand

from npu_tensor import events
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store import files as store_files
from npu_tensor.runtime.store.store import Store
from npu_tensor.runtime.store.upkeep import scan

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


def test_keys_are_compared_in_full(store: Store, root: Path) -> None:
    other = KEY[:16] + key_of("b")[16:]
    path = write_by_hand(root, NAME, other, b"of another key")
    assert store.get(FOLDER, NAME, KEY) is None
    assert put(store, content=b"of this key") == path
    result = store.get(FOLDER, NAME, KEY)
    assert result is not None
    assert result.files[".so"].read_bytes() == b"of this key"
    assert store.get(FOLDER, NAME, other) is None
    assert leftovers(root) == set()


@pytest.mark.parametrize(
    "name",
    ["mul+add-" * 60, "a/b", "../../escape", ".hidden", "-rf", "", "ÄÖ-1024f32", "x" * 80, "x" * 81, "a\nb"],
)
def test_any_name_makes_a_legal_file_name(store: Store, root: Path, name: str) -> None:
    entry, _ = store.get_or_build(FOLDER, name, KEY, lambda directory: {"_insts.bin": touch(directory / "i")}, {})
    (path,) = entry.files.values()
    assert path.parent == root / FOLDER
    assert re.fullmatch(r"[A-Za-z0-9+_][A-Za-z0-9._+-]*", path.name)
    # A temporary file has the longest name; 143 bytes are what an eCryptfs home directory takes.
    assert len(path.name) + len(".01234567.temporary") <= 143
    assert len(scan(root)[0]) == 1
    result = store.get(FOLDER, name, KEY)
    assert result is not None
    assert result.name == name


@pytest.mark.slow
def test_every_flipped_byte_of_every_file_is_noticed(store: Store, emitted: list[events.Event]) -> None:
    sidecar = put(store)
    good = {path: path.read_bytes() for path in sidecar.parent.iterdir()}
    assert len(good) == 3
    for path, content in good.items():
        for position in range(len(content)):
            # Another digit, another kind of space: changes that a JSON parser might accept.
            path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
            assert store.get(FOLDER, NAME, KEY) is None, (path.name, position)
            for original, bytes_ in good.items():
                original.write_bytes(bytes_)
    result = [event for event in emitted if isinstance(event, events.CacheDamaged)]
    assert len(result) == sum(map(len, good.values()))
    assert store.get(FOLDER, NAME, KEY) is not None


@pytest.mark.parametrize(
    ("suffix", "damage"), [(".so", "zeroed"), (".json", "emptied"), (".json", "truncated"), (".log", "lengthened")]
)
def test_a_damaged_entry_is_built_again(store: Store, emitted: list[events.Event], suffix: str, damage: str) -> None:
    path = put(store).with_suffix(suffix)
    content = path.read_bytes()
    bad = {"emptied": b"", "truncated": content[:-1], "lengthened": content + b"\n", "zeroed": bytes(len(content))}
    path.write_bytes(bad[damage])
    builder = Builder()
    entry, built = store.get_or_build(FOLDER, NAME, KEY, builder, {})
    assert built
    assert entry.files[".so"].read_bytes() == b"machine code"
    (event,) = [event for event in emitted if isinstance(event, events.CacheDamaged)]
    assert event.kernel == NAME
    assert event.path == str(path.with_suffix(".json"))


def test_a_reader_never_takes_a_rebuild_for_damage(store: Store, root: Path, emitted: list[events.Event]) -> None:
    """Each version writes two files of one content, so that a mixture shows."""
    stem = put(store).stem
    stop = threading.Event()

    def rewrite() -> None:
        version = 0
        while not stop.is_set():
            version += 1
            contents = {".so": b"%d" % version * 5000, ".pdi": b"%d" % version * 5000}
            fields = {"name": NAME, "key": KEY, "made_from": {}}
            with store_files.locked(root, KEY):
                store_files.write_entry(root / FOLDER, stem, contents, fields)

    writer = threading.Thread(target=rewrite)
    writer.start()
    result = 0
    try:
        while result < 200:
            result += store.get(FOLDER, NAME, KEY) is not None
    finally:
        stop.set()
        writer.join()
    assert emitted == []
    assert leftovers(root) == set()


def test_a_failed_build_fails_at_once_in_this_process(store: Store) -> None:
    failing = Failing(BuildError("stack overflow in core 2,3"))
    for _ in range(3):
        with pytest.raises(BuildError, match="stack overflow in core 2,3"):
            store.get_or_build(FOLDER, NAME, KEY, failing, {})
    assert failing.calls == 1
    with pytest.raises(BuildError):
        store.get_or_build(FOLDER, NAME, KEY, failing, {}, force=True)
    assert failing.calls == 2
    assert store.get_or_build(FOLDER, NAME, key_of("b"), Builder(), {})[1]
    assert Store(store.root).get_or_build(FOLDER, NAME, KEY, Builder(), {})[1]


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
def test_a_transient_failure_is_tried_again(
    store: Store, own_temporary_directory: Path, error: BaseException, raised: type[BaseException]
) -> None:
    with pytest.raises(raised):
        store.get_or_build(FOLDER, NAME, KEY, Failing(error), {})
    assert names(own_temporary_directory) == set()
    assert store.get_or_build(FOLDER, NAME, KEY, Builder(), {})[1]


def test_a_build_must_make_what_it_promises(store: Store) -> None:
    with pytest.raises(BuildError, match="gone"):
        store.get_or_build(FOLDER, NAME, KEY, lambda directory: {".so": directory / "gone"}, {})
