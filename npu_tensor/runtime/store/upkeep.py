"""Upkeep of the cache: its size, clearing on demand, and eviction of the least recently used entries.

    removed = clear(root, "add-*")
    removed = collect(root, limit=500_000_000)

All functions except `clear_everything` remove only files with names that the cache itself makes. They follow no links
and skip entries that another process is building. A kernel in use can be removed, because its process has loaded it.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import CACHE_CLEARED, config
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.directories import writable
from npu_tensor.runtime.store.files import (
    DESCRIPTION,
    LOCKS,
    SUFFIX,
    TEMPORARY,
    Damage,
    lock_path,
    locked,
    read_shared_entry,
)

FOLDER: Final = re.compile(r"[a-z0-9]+-[A-Za-z0-9._+-]+")
"""Names of the folders in a cache: generation of the array or "cpu", and toolchain."""
_FILE: Final = re.compile(
    rf"(?P<stem>[A-Za-z0-9._+-]+_(?P<key>[0-9a-f]{{16}}))(?:{SUFFIX.pattern})(?:{TEMPORARY.pattern})?"
)
_UPKEEP: Final = "upkeep"

_LEFTOVER_SECONDS: Final = 3600.0
"""Age of files without a description that no process is still writing, in seconds."""

_SPARED_SECONDS: Final = 60.0
"""Entries used within these seconds stay: a process may be about to open their files."""

_EVICT_DOWN_TO: Final = 0.9
_CHECK_AFTER: Final = 1 / 16
"""Fraction of the limit that a process writes before it looks at the size again."""

_written: dict[Path, int] = {}
_written_lock = new_lock()


@dataclass(frozen=True, slots=True)
class StoredItem:
    """Files of one stem in a cache: an entry, or what a process that was killed has left of one.

    Attributes:
        folder: Directory of the files.
        stem: Start of their names.
        key: First digits of the key.
        files: Size and modification time, in seconds since 1970, by path.
        used: Time of the last use; None without a description.
    """

    folder: Path
    stem: str
    key: str
    files: dict[Path, tuple[int, float]]
    used: float | None

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(size for size, _ in self.files.values())

    @property
    def description(self) -> Path:
        """File of the description."""
        return self.folder / (self.stem + DESCRIPTION)


def scan(root: Path) -> tuple[list[StoredItem], list[StoredItem]]:
    """Return the entries of a cache, the least recently used first, and the leftovers. Raises OSError."""
    entries: list[StoredItem] = []
    leftovers: list[StoredItem] = []
    for folder in _folders(root):
        groups: defaultdict[tuple[str, str, bool], dict[Path, tuple[int, float]]] = defaultdict(dict)
        with suppress(PermissionError):
            for found in os.scandir(folder):
                match = _FILE.fullmatch(found.name)
                if match and found.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # Another process has removed it.
                        status = found.stat(follow_symlinks=False)
                        is_temporary = TEMPORARY.search(found.name) is not None
                        group = groups[match["stem"], match["key"], is_temporary]
                        group[Path(found.path)] = status.st_size, status.st_mtime
        for (stem, key, is_temporary), files in groups.items():
            described = None if is_temporary else files.get(folder / (stem + DESCRIPTION))
            item = StoredItem(folder, stem, key, files, None if described is None else described[1])
            (leftovers if described is None else entries).append(item)
    entries.sort(key=lambda item: item.used or 0.0)
    return entries, leftovers


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return [
        Path(found.path)
        for found in os.scandir(root)
        if FOLDER.fullmatch(found.name) and found.is_dir(follow_symlinks=False)
    ]


def describe(item: StoredItem) -> dict[str, Any]:
    """Return the description of an entry without verifying it; only its stem if it cannot be read."""
    with suppress(OSError, ValueError):
        described = json.loads(item.description.read_bytes())
        if isinstance(described, dict) and isinstance(described.get("name"), str):
            return described
    return {"name": item.stem}


def verify(root: Path, item: StoredItem) -> str | None:
    """Read all files of an entry; return what is wrong with them, or None. An entry that is gone is not wrong."""
    try:
        read_shared_entry(root, item.folder.name, item.stem)
    except Damage as damage:
        return str(damage)
    return None


@dataclass(slots=True)
class Removed:
    """Count of what was removed: entries, files and their bytes. `busy` counts entries whose locks were held."""

    entries: int = 0
    files: int = 0
    bytes: int = 0
    busy: int = 0

    def unlink(self, path: Path, size: int) -> None:
        """Remove a file, which another process may have removed already. Raises OSError."""
        with suppress(FileNotFoundError):
            path.unlink()
            self.files += 1
            self.bytes += size

    def remove(self, root: Path, item: StoredItem, only_unchanged: bool = True) -> None:
        """Remove all files of an item, and the lock of its key.

        With `only_unchanged`, an item stays if it has been used, built or completed since it was seen.
        """
        try:
            with locked(root, item.key, wait=False):
                is_temporary = item.used is None and any(TEMPORARY.search(path.name) for path in item.files)
                if only_unchanged and not is_temporary and _modified(item.description) != item.used:
                    return
                # The description first: without it, the other files do not form an entry.
                for path, (size, _) in sorted(item.files.items(), key=lambda file: file[0] != item.description):
                    self.unlink(path, size)
                self.entries += item.used is not None
                # A process that has the lock file open sees that it is gone and makes another.
                lock_path(root, item.key).unlink(missing_ok=True)
        except BlockingIOError:
            self.busy += 1


def _modified(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return None


def clear(root: Path, pattern: str | None = None) -> Removed:
    """Remove the entries whose name matches a glob pattern, or everything that the cache has written.

    Raises ArgumentError for a directory that is never cleared, and OSError if it cannot be written.
    """
    _refuse(root)
    removed = Removed()
    entries, leftovers = scan(root)
    for item in entries:
        if pattern is None or fnmatch.fnmatchcase(describe(item)["name"], pattern):
            removed.remove(root, item, only_unchanged=False)
    if pattern is None:
        for item in leftovers:
            removed.remove(root, item)
        with suppress(OSError):
            lock_path(root, _UPKEEP).unlink()
        for folder in (*_folders(root), root / LOCKS):
            with suppress(OSError):  # Not empty.
                folder.rmdir()
    return removed


def clear_everything(root: Path) -> Removed:
    """Remove all files below a directory, also those of other programs. Raises as `clear` does."""
    _refuse(root)
    removed = Removed()
    for directory, folders, files in os.walk(root, topdown=False):
        for name in files:
            path = Path(directory, name)
            removed.unlink(path, path.lstat().st_size)
        for name in folders:
            path = Path(directory, name)
            path.unlink() if path.is_symlink() else path.rmdir()
    return removed


def _refuse(root: Path) -> None:
    root = root.resolve()
    needed = [Path(root.anchor)]
    with suppress(RuntimeError):  # A user without a home.
        needed.append(Path.home().resolve())
    with suppress(OSError):  # Removed by now.
        needed.append(Path.cwd())
    for path in needed:
        if path.is_relative_to(root):
            raise ArgumentError(f"{root} is not cleared: {path} is in use; the cache needs a directory of its own")
    if root.exists() and root.stat().st_uid != os.geteuid():
        raise ArgumentError(f"{root} is not cleared: it belongs to another user")


def clear_once(root: Path) -> None:
    """Clear the cache if `NPU_TENSOR_CACHE_CLEAR` is set and neither this process nor its parents did it yet."""
    if not config.cache_clear:
        return
    cleared = os.environ.get(CACHE_CLEARED, "")
    if str(root) in cleared.split(os.pathsep):
        return
    os.environ[CACHE_CLEARED] = f"{cleared}{os.pathsep}{root}" if cleared else str(root)
    try:
        removed = clear(writable(root))
    except (ArgumentError, OSError) as error:
        warn(f"NPU_TENSOR_CACHE_CLEAR: {error}")
    else:
        events.emit(events.CacheEvicted(removed.entries, removed.bytes))


def wrote(root: Path, size: int) -> None:
    """Count bytes that this process adds to a cache, and keep the cache below its limit.

    The size is looked at when this process has written a noticeable part of the limit, and once a day, which covers
    short processes.
    """
    limit = config.cache_bytes
    with _written_lock:
        due = root not in _written and (_modified(lock_path(root, _UPKEEP)) or 0.0) < time.time() - 24 * 3600
        _written[root] = _written.get(root, 0) + size
        if not due and _written[root] <= limit * _CHECK_AFTER:
            return
        _written[root] = 0
    with suppress(OSError):  # Another process does the same, or nothing can be removed here.
        collect(root, limit, _SPARED_SECONDS)


def collect(root: Path, limit: int, spared: float = 0.0) -> Removed:
    """Remove old leftovers, and the least recently used entries if all together exceed a limit in bytes.

    Entries go until nine tenths of the limit are left; those used within the last `spared` seconds stay. Raises OSError
    if the directory cannot be written, and BlockingIOError if another process collects at the moment.
    """
    removed = Removed()
    with locked(root, _UPKEEP, wait=False):
        os.utime(lock_path(root, _UPKEEP))
        entries, leftovers = scan(root)
        now = time.time()
        for item in leftovers:
            if all(modified < now - _LEFTOVER_SECONDS for _, modified in item.files.values()):
                removed.remove(root, item)
        size = sum(item.bytes for item in entries)
        if size <= limit:
            return removed
        surplus = removed.bytes + size - _EVICT_DOWN_TO * limit
        before = removed.bytes
        for item in entries:
            if removed.bytes >= surplus:
                break
            # A use after now was before the clock was set back.
            if item.used is None or not now - spared < item.used <= now:
                removed.remove(root, item)
    if removed.entries:
        events.emit(events.CacheEvicted(removed.entries, removed.bytes - before))
    return removed
