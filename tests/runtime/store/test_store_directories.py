"""The cache where nothing can be written, or where other users can write."""

import grp
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from store_entries import (
    FOLDER,
    KEY,
    NAME,
    Builder,
    Failing,
    key_of,
    leftovers,
    put,
    write_by_hand,
)

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.store import directories as store_directories
from npu_tensor.runtime.store.kernel_directory import kernel_directories
from npu_tensor.runtime.store.store import Store
from npu_tensor.runtime.store.upkeep import clear

pytestmark = pytest.mark.usefixtures("own_temporary_directory")


def planted_open(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def planted_by_another(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("plant", [planted_open, planted_by_another])
def test_a_cache_of_other_users_is_refused_unless_it_is_trusted(
    tmp_path: Path, own_temporary_directory: Path, plant: Callable[[Path], None]
) -> None:
    root = tmp_path / "cache"
    plant(root)
    write_by_hand(root, NAME, KEY, b"evil")
    with config.scope(trust_cache=True):
        result = Store(root).get(FOLDER, NAME, KEY)
        assert result is not None
        assert result.files[".so"].read_bytes() == b"evil"
    with pytest.warns(RuntimeWarning, match=r"would run as this user.*NPU_TENSOR_TRUST_CACHE") as caught:
        entry, built = Store(root).get_or_build(FOLDER, NAME, KEY, Builder(), {})
    assert len(caught) == 1
    assert built
    assert entry.files[".so"].is_relative_to(own_temporary_directory)
    with config.scope(kernel_dirs=(root,)):
        with pytest.raises(ArgumentError, match=r"kernel_dirs names .*NPU_TENSOR_TRUST_CACHE=1 allows that"):
            kernel_directories()
        with config.scope(trust_cache=True):
            assert kernel_directories()[0] == root


def test_a_group_of_one_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(0o775)
    user, group = pwd.getpwuid(os.geteuid()).pw_name, root.stat().st_gid
    groups = {"own": (user, []), "named by others": ("users", []), "shared": (user, [user, "another"])}
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
    assert second.files[".so"].read_bytes() == b"2" * 200_000
    assert not second.files[".so"].is_relative_to(small_disk)
    assert store.get(FOLDER, "second", second.key) == second
    assert leftovers(small_disk) == set()
    # Free space is used again immediately.
    clear(small_disk / "cache")
    assert put(store, "third", key_of("3"), b"3" * 200_000).is_relative_to(small_disk)


def test_a_cache_that_can_only_be_read_is_read(
    small_disk: Path, own_temporary_directory: Path, emitted: list[events.Event]
) -> None:
    root = small_disk / "cache"
    described = put(Store(root))
    damaged = put(Store(root), "damaged", key_of("damaged"))
    damaged.with_suffix(".so").write_bytes(b"")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store_directories._refusals.clear()
    store = Store(root)
    entry = store.get(FOLDER, NAME, KEY)
    assert entry is not None
    assert entry.files[".so"].parent == described.parent
    assert store.get_or_build(FOLDER, NAME, KEY, Failing(AssertionError()), {}) == (entry, False)
    assert emitted == []
    with pytest.warns(RuntimeWarning, match="Read-only") as caught:
        new, built = store.get_or_build(FOLDER, "new", key_of("new"), Builder(), {})
    assert built
    assert len(caught) == 1
    assert new.files[".so"].is_relative_to(own_temporary_directory)
    again, built = store.get_or_build(FOLDER, "damaged", key_of("damaged"), Builder(), {})
    assert built
    assert again.files[".so"].read_bytes() == b"machine code"
    assert any(isinstance(event, events.CacheDamaged) for event in emitted)


def test_objects_of_the_cpu_device_are_entries_too(store: Store, root: Path, emitted: list[events.Event]) -> None:
    text = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"

    def compile_once() -> Engine:
        engine = Engine(host_target().create_target_machine(), "test", root)
        engine.compile(text, "f")
        return engine

    assert compile_once().statistics.compiled == 1
    (path,) = root.glob("cpu-*/object_*.o")
    os.utime(path.with_suffix(".json"), (0, 0))
    assert compile_once().statistics.disk_hits == 1
    assert path.with_suffix(".json").stat().st_mtime > 0  # For the order of eviction.
    path.write_bytes(b"damaged")
    assert compile_once().statistics.compiled == 1
    assert [type(event) for event in emitted if isinstance(event, events.CacheDamaged)] == [events.CacheDamaged]
    assert compile_once().statistics.disk_hits == 1
