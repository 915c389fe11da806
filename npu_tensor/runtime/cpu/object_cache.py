"""The object files that the CPU device has compiled, kept for the next process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from npu_tensor.runtime.store.directories import not_kept, readable, writable
from npu_tensor.runtime.store.files import DAMAGED, OBJECT_SUFFIX, Damage, read_object, write_object
from npu_tensor.runtime.store.upkeep import clear_once, wrote

__all__ = ["ObjectCache"]


class ObjectCache:
    """Object files by key, in a directory below that of the cache. directory: None to keep nothing.

    damaged: how many files were found that were not what had been written.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = None if directory is None else directory.absolute()
        self.damaged = 0

    def load(self, key: str) -> bytes | None:
        """The object, or None when there is none or it is damaged; a damaged file is moved aside."""
        if self._directory is None:
            return None
        clear_once(self._directory.parent)
        for root in readable(self._directory.parent):
            path = root / self._directory.name / (key + OBJECT_SUFFIX)
            try:
                data = read_object(path)
            except OSError:
                continue
            except Damage:
                self.damaged += 1
                with suppress(OSError):  # Another process was faster, or the directory is read-only.
                    os.replace(path, path.with_suffix(DAMAGED))
                continue
            with suppress(OSError):  # For the order of eviction. Read-only, or just removed.
                os.utime(path)
            return data
        return None

    def store(self, key: str, data: bytes) -> None:
        """Keep the object; give up the cache on failure."""
        if self._directory is None:
            return
        root = self._directory.parent
        try:
            root = writable(root)
            write_object(root / self._directory.name / (key + OBJECT_SUFFIX), data)
        except OSError as error:
            self._directory = None
            not_kept(root, error)
        else:
            wrote(root, len(data))
