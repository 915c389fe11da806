"""What is thrown out of the cache: on demand, and when it has grown too large.

    removed = clear(root, "add-*")
    removed = collect(root, limit=500_000_000)

Everything but `clear_everything` removes only what `scan` sees, and leaves alone what somebody is building. A kernel
that a process uses may be removed: it is in that process's memory.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import CACHE_CLEARED, config, user_temporary_path
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.contents import File, Leftover, StoredItem, describe, scan
from npu_tensor.runtime.store.directories import SCRATCH_PREFIX, writable
from npu_tensor.runtime.store.files import DAMAGED, LOCKS, locked

__all__ = ["Removed", "clear", "clear_everything", "clear_once", "collect", "wrote"]

_CHECKED: Final = re.compile(r"checked-[0-9a-f]{16}\.txt")
"""What `xrt.checked` writes: the kernels whose results were compared with the CPU's."""
_LOCK: Final = re.compile(r"([0-9a-f]{16}|upkeep)\.lock")
_UPKEEP: Final = "upkeep"
_SCRATCH: Final = re.compile(rf"{SCRATCH_PREFIX}(\d+)-\w+")

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_LEFTOVER_AGE: Final = _HOUR  # Longer than it takes to write an entry.
_DAMAGED_AGE: Final = 7 * _DAY  # Long enough for somebody to look at it.
_SCRATCH_AGE: Final = _DAY  # Longer than any build; where the process lives in another container, its id says nothing.

_SPARED: Final = 60.0  # What was used this many seconds ago may be about to be opened.

_EVICT_DOWN_TO: Final = 0.9
_CHECK_AFTER: Final = 1 / 16  # Of the limit: what one process writes before it looks at the size again.

_written: dict[Path, int] = {}
_written_lock = new_lock()


@dataclass
class Removed:
    """What was thrown out. entries: kernels, failed builds and objects; files, and their bytes, also of what was none
    of these. busy: locks that somebody held, with the files they protect.
    """

    entries: int = 0
    files: int = 0
    bytes: int = 0
    busy: int = 0

    def unlink(self, *files: File) -> None:
        """Remove files; somebody may have been faster. Raises OSError."""
        for file in files:
            with suppress(FileNotFoundError):
                file.path.unlink()
                self.files += 1
                self.bytes += file.bytes

    def remove(self, root: Path, item: StoredItem, only_unchanged: bool = False) -> None:
        """Remove a whole item; with `only_unchanged`, not if it has been used or built anew since it was seen."""
        if item.is_object:  # One file, and without a lock.
            self.unlink(*item.files)
            self.entries += 1
            return
        first = item.files[0]
        try:
            with locked(root, first.key, wait=False):
                if not only_unchanged or _modified(first.path) == first.modified:
                    self.unlink(*item.files)
                    self.entries += 1
        except BlockingIOError:
            self.busy += 1

    def remove_leftover(self, root: Path, leftover: Leftover) -> None:
        """Remove a file unless it is part of an entry by now."""
        file, sidecar = leftover
        try:
            with locked(root, file.key, wait=False):
                if _modified(file.path) == file.modified and not (sidecar and sidecar.exists()):
                    self.unlink(file)
        except BlockingIOError:
            self.busy += 1


def _modified(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return None


def clear(root: Path, pattern: str | None = None) -> Removed:
    """Remove the kernels and failed builds whose name matches a glob pattern, or all files of the cache.

    Raises ArgumentError if nothing is ever cleared in such a directory, OSError if it cannot be written.
    """
    _refuse(root)
    removed, contents = Removed(), scan(root)
    for item in contents.items:
        if pattern is None or fnmatch.fnmatchcase((describe(item) or {}).get("name", ""), pattern):
            removed.remove(root, item)
    if pattern is None:
        for leftover in contents.leftovers:
            removed.remove_leftover(root, leftover)
        for path in root.glob("checked-*.txt"):
            if _CHECKED.fullmatch(path.name):
                removed.unlink(File(path, "", path.lstat().st_size, 0.0))
        _remove_locks(root, math.inf)
        for folder in (*contents.folders, root / LOCKS):
            with suppress(OSError):  # Not empty.
                folder.rmdir()
    return removed


def clear_everything(root: Path) -> Removed:
    """Remove whatever is below a directory, whoever made it. Raises as `clear` does."""
    _refuse(root)
    removed = Removed()
    for directory, folders, files in os.walk(root, topdown=False):
        for name in files:
            path = Path(directory, name)
            removed.unlink(File(path, "", path.lstat().st_size, 0.0))
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
    """Clear the cache if NPU_TENSOR_CACHE_CLEAR asks for that and neither this process nor its parents did it yet."""
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
    """Count what this process adds to a cache, in bytes, and keep the cache below its limit.

    The size is looked at when that much has been written that it may matter, and once a day for the sake of short
    processes.
    """
    limit = config.cache_bytes
    with _written_lock:
        due = root not in _written and (_modified(root / LOCKS / f"{_UPKEEP}.lock") or 0.0) < time.time() - _DAY
        _written[root] = _written.get(root, 0) + size
        if not due and _written[root] <= limit * _CHECK_AFTER:
            return
        _written[root] = 0
    with suppress(OSError):  # Another process is at it, or nothing can be removed here.
        collect(root, limit, _SPARED)


def collect(root: Path, limit: int, spared: float = 0.0) -> Removed:
    """Remove old leftovers, and the least recently used items if all are larger than `limit`, in bytes.

    spared: items used within the last so many seconds stay in any case.

    Raises OSError if the directory cannot be written; BlockingIOError, one of these, if another process does the same.
    """
    removed = Removed()
    with locked(root, _UPKEEP, wait=False):
        os.utime(root / LOCKS / f"{_UPKEEP}.lock")
        contents = scan(root)
        now = time.time()
        for leftover in contents.leftovers:
            age = _DAMAGED_AGE if leftover.file.path.name.endswith(DAMAGED) else _LEFTOVER_AGE
            if leftover.file.modified < now - age:
                removed.remove_leftover(root, leftover)
        size = sum(item.bytes for item in contents.items)
        if size > limit:
            _evict(root, contents.items, size - _EVICT_DOWN_TO * limit, now - spared, removed)
        _remove_locks(root, now - _DAY)
        _remove_scratch(now - _SCRATCH_AGE)
    return removed


def _evict(root: Path, items: Iterable[StoredItem], surplus: float, before: float, removed: Removed) -> None:
    """Remove the first items, in all `surplus` bytes, but none that was used between `before` and now.

    What was used in the future was used before the clock was set back.
    """
    entries, size, now = removed.entries, removed.bytes, time.time()
    for item in items:
        if removed.bytes - size >= surplus:
            break
        if before < item.used <= now:  # Those of the future come last.
            continue
        removed.remove(root, item, only_unchanged=True)
    if removed.entries > entries:
        events.emit(events.CacheEvicted(removed.entries - entries, removed.bytes - size))


def _remove_locks(root: Path, before: float) -> None:
    """Remove lock files that nobody holds. A process that has one open sees that it is gone, and makes another."""
    for path in (root / LOCKS).glob("*.lock"):
        match = _LOCK.fullmatch(path.name)
        if match and (_modified(path) or before) < before:
            with suppress(BlockingIOError), locked(root, match[1], wait=False):
                path.unlink(missing_ok=True)


def _remove_scratch(before: float) -> None:
    """Remove directories of builds whose process was killed."""
    for path in user_temporary_path().parent.glob(f"{SCRATCH_PREFIX}*"):
        match = _SCRATCH.fullmatch(path.name)
        modified = _modified(path)
        if match and modified is not None and modified < before and not _is_alive(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)  # Fails where it belongs to another user; follows no link.


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
