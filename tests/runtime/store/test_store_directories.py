"""The cache where nothing can be written, or no longer."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from store_entries import (
    FOLDER,
    KEY,
    NAME,
    PRELUDE,
    Builder,
    Failing,
    below_a_file,
    key_of,
    leftovers,
    names,
    put,
    run,
    user_directory,
    write_by_hand,
)

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.cpu.engine import Engine, ObjectCache
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.npu.checked import CheckedKernels
from npu_tensor.runtime.store import directories as store_directories
from npu_tensor.runtime.store.files import write_object
from npu_tensor.runtime.store.kernel_cache import Store
from npu_tensor.runtime.store.ready_kernels import ready_directories
from npu_tensor.runtime.store.upkeep import clear, collect

pytestmark = pytest.mark.usefixtures("own_temporary_directory")


def test_an_unwritable_directory_gives_way_to_a_temporary_one(tmp_path: Path, own_temporary_directory: Path) -> None:
    root, instead = below_a_file(tmp_path), user_directory(own_temporary_directory)
    store = Store(root)
    with pytest.warns(RuntimeWarning) as caught:
        entry, _ = store.get_or_build(FOLDER, NAME, KEY, Builder(), {})
    assert len(caught) == 1
    assert str(root) in str(caught[0].message)
    assert str(instead) in str(caught[0].message)
    assert entry.files[".so"].parent == instead / FOLDER
    assert instead.stat().st_mode & 0o777 == 0o700
    # No further warning: pytest makes errors of them.
    assert store.load(FOLDER, NAME, KEY) == entry
    put(store, "another", key_of("b"))
    assert Store(root).load(FOLDER, NAME, KEY) == entry


def test_the_next_process_finds_what_is_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = below_a_file(tmp_path)
    with pytest.warns(RuntimeWarning):
        put(Store(root))
    monkeypatch.setattr(store_directories, "_writable", {})
    with pytest.warns(RuntimeWarning):
        assert Store(root).get_or_build(FOLDER, NAME, KEY, Failing(AssertionError()), {})[1] is False


def planted_link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


def planted_open(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def planted_by_another(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("plant", [planted_link, planted_open, planted_by_another, Path.touch])
def test_a_temporary_directory_that_others_may_have_made_is_refused(
    tmp_path: Path, own_temporary_directory: Path, plant: Callable[[Path], None]
) -> None:
    instead = user_directory(own_temporary_directory)
    plant(instead)
    store = Store(below_a_file(tmp_path))
    with pytest.warns(RuntimeWarning, match="not kept"):
        entry, built = store.get_or_build(FOLDER, NAME, KEY, Builder(), {})
    assert built
    assert entry.files[".so"].read_bytes() == b"machine code"
    assert not entry.files[".so"].is_relative_to(instead)
    assert store.get_or_build(FOLDER, NAME, KEY, Failing(AssertionError()), {}) == (entry, False)
    # Also where the user has no home, and that directory is the cache itself: what others put there is not loaded.
    if instead.is_dir():
        write_by_hand(instead, "planted", KEY, b"evil")
        assert Store(instead).load(FOLDER, "planted", KEY) is None


@pytest.mark.parametrize("plant", [planted_open, planted_by_another])
def test_a_cache_of_others_is_refused_unless_it_is_trusted(
    tmp_path: Path, own_temporary_directory: Path, plant: Callable[[Path], None]
) -> None:
    root = tmp_path / "cache"
    plant(root)
    write_by_hand(root, NAME, KEY, b"evil")
    (root / "cpu").mkdir()
    object_file = root / "cpu" / f"{KEY}.object"
    write_object(object_file, b"evil")
    with config.scope(trust_cache=True):
        result = Store(root).load(FOLDER, NAME, KEY)
        assert result is not None
        assert result.files[".so"].read_bytes() == b"evil"
        assert ObjectCache(root / "cpu").load(KEY) == b"evil"
    with pytest.warns(RuntimeWarning, match=r"would run as this user.*NPU_TENSOR_TRUST_CACHE") as caught:
        entry, built = Store(root).get_or_build(FOLDER, NAME, KEY, Builder(), {})
    assert len(caught) == 1
    assert built
    assert entry.files[".so"].is_relative_to(user_directory(own_temporary_directory))
    assert ObjectCache(root / "cpu").load(KEY) is None
    with config.scope(kernel_dirs=(root,)):
        with pytest.raises(ArgumentError, match=r"kernel_dirs names .*NPU_TENSOR_TRUST_CACHE=1 allows that"):
            ready_directories()
        with config.scope(trust_cache=True):
            assert ready_directories()[0] == root


def test_a_group_of_one_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(0o775)
    user, group = pwd.getpwuid(os.geteuid()).pw_name, root.stat().st_gid
    groups = {"own": (user, []), "named by others": ("users", []), "shared": (user, [user, "somebody"])}
    result = {}
    for name, (of_group, members) in groups.items():
        entry = grp.struct_group((of_group, "x", group, members))
        monkeypatch.setattr(grp, "getgrgid", lambda number, entry=entry: entry)
        result[name] = store_directories.untrusted(root)
    others = "can be written by other users"
    assert result == {"own": None, "named by others": others, "shared": others}


def test_a_full_disk_does_not_stop_the_work(small_disk: Path) -> None:
    store = Store(small_disk / "cache")
    put(store, "first", key_of("1"), b"1" * 200_000)
    with pytest.warns(RuntimeWarning, match="not kept") as caught:
        second, _ = store.get_or_build(FOLDER, "second", key_of("2"), Builder(b"2" * 200_000), {})
    assert len(caught) == 1
    third, _ = store.get_or_build(FOLDER, "third", key_of("3"), Builder(b"3" * 200_000), {})
    for name, entry in {"second": second, "third": third}.items():
        assert entry.files[".so"].read_bytes() == (b"2" if name == "second" else b"3") * 200_000
        assert not entry.files[".so"].is_relative_to(small_disk)
        assert store.load(FOLDER, name, entry.key) == entry
    assert leftovers(small_disk) == set()
    # As soon as there is space again, it is used.
    clear(small_disk / "cache")
    assert put(store, "fourth", key_of("4"), b"4" * 200_000).is_relative_to(small_disk)


def test_a_disk_that_fills_up_in_the_middle(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch, own_temporary_directory: Path
) -> None:
    put(store, "first", key_of("1"))
    replace = os.replace

    def full(source: Path, target: Path) -> None:
        if target.suffix == ".json" and target.is_relative_to(root):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    before = names(root / FOLDER)
    with pytest.warns(RuntimeWarning, match="not kept"):
        entry, built = store.get_or_build(FOLDER, NAME, KEY, Builder(), {})
    assert built
    assert names(root / FOLDER) == before
    assert entry.files[".so"].is_relative_to(own_temporary_directory)
    assert entry.files[".so"].read_bytes() == b"machine code"


def test_what_is_not_kept_goes_with_the_process(tmp_path: Path, own_temporary_directory: Path) -> None:
    user_directory(own_temporary_directory).touch()
    program = f"""{PRELUDE}
entry, _ = Store(root).get_or_build(FOLDER, "kernel", key_of(1), build(1), {{}})
check(entry, 1)
if os.fork() == 0:
    sys.exit()
os.wait()
check(entry, 1)
print(entry.files[".so"])
"""
    process = run(
        program, below_a_file(tmp_path), tmp_path / "log", TMPDIR=str(own_temporary_directory), PYTHONWARNINGS="ignore"
    )
    path, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert path.startswith(str(own_temporary_directory))
    assert names(own_temporary_directory) == {user_directory(own_temporary_directory).name}


def test_without_any_place_the_error_says_so(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such directory"))
    with pytest.raises(BuildError, match="no such directory"):
        store.get_or_build(FOLDER, NAME, KEY, Builder(), {})
    with pytest.raises(BuildError, match="no place"):
        Store(below_a_file(tmp_path)).get_or_build(FOLDER, NAME, KEY, Builder(), {})


def test_a_cache_that_can_only_be_read_is_read(
    small_disk: Path, own_temporary_directory: Path, emitted: list[events.Event]
) -> None:
    root = small_disk / "cache"
    sidecar = put(Store(root))
    damaged = put(Store(root), "damaged", key_of("damaged"))
    damaged.with_suffix(".so").write_bytes(b"")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store_directories._writable.clear()
    store = Store(root)
    entry = store.load(FOLDER, NAME, KEY)
    assert entry is not None
    assert entry.files[".so"].parent == sidecar.parent
    assert store.get_or_build(FOLDER, NAME, KEY, Failing(AssertionError()), {}) == (entry, False)
    assert emitted == []
    with pytest.warns(RuntimeWarning, match="Read-only") as caught:
        new, built = store.get_or_build(FOLDER, "new", key_of("new"), Builder(), {})
    assert built
    assert len(caught) == 1
    assert new.files[".so"].is_relative_to(user_directory(own_temporary_directory))
    again, built = store.get_or_build(FOLDER, "damaged", key_of("damaged"), Builder(), {})
    assert built
    assert again.files[".so"].read_bytes() == b"machine code"
    assert any(isinstance(event, events.CacheDamaged) for event in emitted)


def test_checked_kernels_are_known_to_the_next_process_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with config.scope(cache_path=str(below_a_file(tmp_path))):
        with pytest.warns(RuntimeWarning, match="nothing can be written"):
            CheckedKernels("a driver").add(KEY)
        monkeypatch.setattr(store_directories, "_writable", {})
        assert KEY in CheckedKernels("a driver")  # Without a warning: nothing is to be written.
        assert KEY not in CheckedKernels("another driver")


def test_checked_kernels_in_a_cache_that_can_only_be_read(small_disk: Path) -> None:
    with config.scope(cache_path=str(small_disk / "cache")):
        CheckedKernels("a driver").add(KEY)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        store_directories._writable.clear()
        with pytest.warns(RuntimeWarning, match="Read-only"):
            CheckedKernels("a driver").add(key_of("b"))
        assert all(key in CheckedKernels("a driver") for key in (KEY, key_of("b")))


def test_objects_of_the_cpu_device_go_the_same_way(tmp_path: Path, own_temporary_directory: Path) -> None:
    directory = below_a_file(tmp_path) / "cpu"
    text = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"

    def compile_once() -> Engine:
        engine = Engine(host_target().create_target_machine(), "test", directory)
        engine.compile(text, "f")
        return engine

    with pytest.warns(RuntimeWarning, match="not kept") as caught:
        assert compile_once().statistics.compiled == 1
    assert len(caught) == 1
    assert compile_once().statistics.disk_hits == 1
    (path,) = (user_directory(own_temporary_directory) / "cpu").glob("*.object")
    os.utime(path, (0, 0))
    assert compile_once().statistics.disk_hits == 1
    assert path.stat().st_mtime > 0


@pytest.fixture
def _no_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where no directory for temporary files can be written."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


@pytest.mark.usefixtures("_no_temporary_directory")
def test_without_a_directory_for_temporary_files_what_is_there_is_used(store: Store, root: Path) -> None:
    write_by_hand(root, NAME, KEY, b"by hand")
    assert store.load(FOLDER, NAME, KEY) is not None
    with pytest.raises(BuildError, match="No usable temporary directory"):
        store.get_or_build(FOLDER, "another", key_of("b"), Builder(), {})
    assert collect(root, 0).entries == 1
    with config.scope(cache_path=""):
        assert config.cache_dir == Path(f"/tmp/npu_tensor-{os.getuid()}")


@pytest.mark.usefixtures("_no_temporary_directory")
def test_the_cpu_device_needs_no_directory_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = below_a_file(tmp_path)
    monkeypatch.setattr(store_directories, "user_temporary_path", lambda: nowhere / "temporary")
    engine = Engine(host_target().create_target_machine(), "test", nowhere / "cpu")
    with pytest.warns(RuntimeWarning, match="not kept"):
        assert engine.compile("define i64 @f() {\n  ret i64 41\n}\n", "f")["f"] != 0
