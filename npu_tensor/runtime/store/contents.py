"""What lies in a cache directory: kernels, failed builds, objects of the CPU device, and leftovers.

    for item in scan(root).items: print(item.folder, item.stem, item.bytes, item.used)

Only files whose names the cache itself makes are seen, whatever else lies in the same directory; links are not.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from npu_tensor.runtime.store.files import (
    DAMAGED,
    FILE,
    FOLDER,
    OBJECT_SUFFIX,
    OBJECTS,
    SIDECAR,
    TEMPORARY,
    Damage,
    locked,
    read_entry,
    read_object,
)

__all__ = ["Contents", "File", "Leftover", "StoredItem", "damage", "describe", "scan"]

_OBJECT: Final = re.compile(
    rf"(?P<stem>(?P<key>[0-9a-f]{{16}})[0-9a-f]{{48}})(?P<suffix>\{OBJECT_SUFFIX}|\.so)?"
    rf"(?P<leftover>{TEMPORARY.pattern}|\{DAMAGED})?"
)
_OLD_LIBRARIES: Final = "sim"  # Where version 0.1 kept what it had compiled for the simulator, read no more.


class File(NamedTuple):
    """modified: in seconds since 1970, as of all times here."""

    path: Path
    key: str  # of the lock
    bytes: int
    modified: float


class Leftover(NamedTuple):
    """A file that belongs to no entry. sidecar: of the entry that it would belong to if there were one."""

    file: File
    sidecar: Path | None = None


class StoredItem(NamedTuple):
    """What is found and evicted as a whole: a kernel, a failed build, or an object of the CPU device.

    folder: below the cache directory. stem: how its files begin. files: the sidecar or the object first. bytes: of all.
    used: when it was last loaded.
    """

    folder: str
    stem: str
    files: tuple[File, ...]
    bytes: int
    used: float

    @property
    def is_object(self) -> bool:
        """Objects have neither name nor sidecar nor lock."""
        return self.folder == OBJECTS


class Contents(NamedTuple):
    """items: the least recently used first. leftovers: what ended processes and older versions have left behind, and
    damaged entries that were moved aside. folders: all that were looked into.
    """

    items: list[StoredItem]
    leftovers: list[Leftover]
    folders: list[Path]


def scan(root: Path) -> Contents:
    """All files of the cache `root`, except for locks; nothing if there is no such directory. Raises OSError."""
    contents = Contents([], [], [])
    for folder in _subdirectories(root):
        objects = folder.name in (OBJECTS, _OLD_LIBRARIES)
        if not objects and FOLDER.fullmatch(folder.name) is None:
            continue
        contents.folders.append(folder)
        first = SIDECAR if not objects else OBJECT_SUFFIX if folder.name == OBJECTS else None
        groups: defaultdict[str, dict[str, File]] = defaultdict(dict)
        for match, file in _files(folder, _OBJECT if objects else FILE):
            if match["leftover"]:
                contents.leftovers.append(Leftover(file))
            elif match["suffix"]:
                groups[match["stem"]][match["suffix"]] = file
        for stem, files in groups.items():
            head = None if first is None else files.pop(first, None)
            if head is None:
                sidecar = None if objects else folder / (stem + SIDECAR)
                contents.leftovers.extend(Leftover(file, sidecar) for file in files.values())
                continue
            whole = (head, *files.values())
            size = sum(file.bytes for file in whole)
            contents.items.append(StoredItem(folder.name, stem, whole, size, head.modified))
    contents.items.sort(key=lambda item: item.used)
    return contents


def _subdirectories(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            return [root / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], File]]:
    with suppress(PermissionError), os.scandir(folder) as entries:  # What cannot be read is not ours.
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # Removed meanwhile.
                    status = entry.stat(follow_symlinks=False)
                    yield match, File(Path(entry.path), match["key"], status.st_size, status.st_mtime)


def describe(item: StoredItem) -> dict[str, Any] | None:
    """What the sidecar of an item says, not verified; None for an object, or if it cannot be read."""
    if not item.is_object:
        with suppress(OSError, ValueError):
            description = json.loads(item.files[0].path.read_bytes())
            if isinstance(description, dict) and isinstance(description.get("name"), str):
                return description
    return None


def damage(item: StoredItem) -> str | None:
    """What is wrong with the files of an item, all of which are read; None if nothing is, or if it is gone by now."""
    first = item.files[0]
    if item.is_object:
        return _object_damage(first.path)
    reason = _entry_damage(first.path.parent, item.stem)
    if reason is not None:
        # Perhaps half of what another process is writing; where no lock can be made, nobody writes.
        with suppress(OSError), locked(first.path.parents[1], first.key):
            reason = _entry_damage(first.path.parent, item.stem)
    return reason


def _entry_damage(directory: Path, stem: str) -> str | None:
    try:
        read_entry(directory, stem)
    except Damage as error:
        return str(error)
    return None


def _object_damage(path: Path) -> str | None:
    try:
        read_object(path)
    except Damage as found:
        return str(found)
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return None
