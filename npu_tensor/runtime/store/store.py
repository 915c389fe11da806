"""The cache on disk: compiled files by key, verified when they are read, shared by all processes.

    artifact, built = store.get_or_build("aie2p-host-gcc12.2", "add-1024bf16-1024bf16-1024bf16", key, build, made_from)
    artifact.files[".so"]

Any number of processes and threads may ask for the same entry: one builds it, the others wait. A process that ends in
the middle of a build or of writing leaves nothing that is loaded later. `files` describes the format on disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from npu_tensor import events
from npu_tensor._util.version import VERSION
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.directories import process_directory, readable, scratch_directory, warn_once, writable
from npu_tensor.runtime.store.files import (
    DESCRIPTION,
    LOG,
    Damage,
    file_stem,
    locked,
    read_entry,
    read_shared_entry,
    write_entry,
)
from npu_tensor.runtime.store.upkeep import clear_once, wrote

_LONGEST_LOG: Final = 1 << 20

Origin = Literal["memory", "precompiled", "cache", "built"]
"""Place that a kernel came from, in the order of the search."""

Build = Callable[[Path], Mapping[str, Path]]
"""Function that makes the files of an entry in an empty directory and returns them by suffix.

It writes the output of compilers to build.log there.
"""


class Artifact(NamedTuple):
    """The verified files of an entry.

    Attributes:
        name: Name of the kernel's configuration.
        key: 64 hexadecimal digits.
        files: Files by suffix, such as ".so", ".xclbin", "_insts.bin" or ".elf". Another process may evict cached files
            at any time: if one cannot be opened, ask for the kernel again.
        origin: Place that the kernel came from.
        description: The JSON description.
    """

    name: str
    key: str
    files: Mapping[str, Path]
    origin: Origin
    description: Mapping[str, Any]


class Store:
    """One cache directory. Safe to use from several threads and processes.

    Every method that finds or makes an entry takes its folder (generation of the array or "cpu", a dash, and the
    toolchain), its name (any text), and its key: 64 hexadecimal digits of a SHA-256 of everything that its files
    depend on.

    If the directory cannot be written, entries live in a temporary directory until the process ends.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._failures: dict[tuple[Path, str], str] = {}

    @property
    def root(self) -> Path:
        """The directory, by default that of the settings; cleared if `NPU_TENSOR_CACHE_CLEAR` is set."""
        root = (config.cache_dir if self._root is None else self._root).absolute()
        clear_once(root)
        return root

    def get(self, folder: str, name: str, key: str) -> Artifact | None:
        """Return an entry whose files have just been read and verified, or None."""
        for root in readable(self.root):
            try:
                artifact = self._load(root, folder, name, key)
            except Damage as damage:
                path = root / folder / (file_stem(name, key) + DESCRIPTION)
                events.emit(events.CacheDamaged(name, str(path), str(damage)))
                continue
            if artifact is not None:
                return artifact
        return None

    def put(
        self,
        folder: str,
        name: str,
        key: str,
        contents: Mapping[str, bytes],
        made_from: Mapping[str, Any],
        build_seconds: float = 0.0,
    ) -> Artifact:
        """Write an entry and return it. A caller that might write other bytes under this key holds its lock.

        Raises OSError if no directory can be written.
        """
        fields = {
            "name": name,
            "key": key,
            "made_from": made_from,
            "build_seconds": round(build_seconds, 3),
            "package": VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        stem, root = file_stem(name, key), self.root
        try:
            directory = writable(root) / folder
            description, size = write_entry(directory, stem, contents, fields)
            wrote(root, size)
        except OSError as error:
            _not_kept(root, error)
            directory = process_directory() / folder
            description, _ = write_entry(directory, stem, contents, fields)
        return _artifact(directory, stem, description)

    def get_or_build(
        self, folder: str, name: str, key: str, build: Build, made_from: Mapping[str, Any], force: bool = False
    ) -> tuple[Artifact, bool]:
        """Return an entry, and True if this call built it. `force` builds even if there is an entry.

        Raises BuildError if the build fails. Unless the error is transient, later calls in this process fail at once.
        """
        artifact = None if force else self.get(folder, name, key)
        if artifact is not None:
            return artifact, False
        failure = self._failures.get((self.root, key))
        if failure is not None and not force:
            raise BuildError(failure)
        try:
            root = self._root_for_new()
            with locked(root, key):
                with suppress(Damage):  # Another process may have been faster.
                    artifact = None if force else self._load(root, folder, name, key, is_locked=True)
                    if artifact is not None:
                        return artifact, False
                start = time.perf_counter()
                contents = _built(build)
                return self.put(folder, name, key, contents, made_from, time.perf_counter() - start), True
        except OSError as error:
            raise BuildError(f"{name} could not be built or written: {error}", transient=True) from error
        except BuildError as error:
            if not error.transient:
                self._failures[self.root, key] = str(error)
            raise

    def _load(self, root: Path, folder: str, name: str, key: str, is_locked: bool = False) -> Artifact | None:
        """Return a verified entry of one directory, or None. Raises Damage."""
        directory, stem = root / folder, file_stem(name, key)
        entry = read_entry(directory, stem) if is_locked else read_shared_entry(root, folder, stem)
        if entry is None or (entry[0]["name"], entry[0]["key"]) != (name, key):
            return None
        with suppress(OSError):  # A read-only directory has no order of eviction.
            os.utime(directory / (stem + DESCRIPTION))
        return _artifact(directory, stem, entry[0])

    def _root_for_new(self) -> Path:
        """Return the directory for new entries. Raises OSError."""
        root = self.root
        try:
            return writable(root)
        except OSError as error:
            _not_kept(root, error)
            return process_directory()


def _built(build: Build) -> dict[str, bytes]:
    with scratch_directory() as scratch:
        contents = {suffix: path.read_bytes() for suffix, path in build(scratch).items()}
        log = scratch / "build.log"
        if log.exists():
            contents[LOG] = log.read_bytes()[-_LONGEST_LOG:]
    return contents


def _artifact(directory: Path, stem: str, description: Mapping[str, Any]) -> Artifact:
    files = {suffix: directory / (stem + suffix) for suffix in description["files"] if suffix != LOG}
    return Artifact(description["name"], description["key"], MappingProxyType(files), "cache", description)


def _not_kept(root: Path, error: OSError) -> None:
    warn_once(
        root,
        f"compiled kernels are not kept in {root}, where nothing can be written ({error}); set NPU_TENSOR_CACHE_DIR to "
        "a directory of yours",
    )


store: Final = Store()
"""Cache of this process, in `config.cache_dir`."""
