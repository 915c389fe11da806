"""The cache on disk: compiled kernels by key, whole and verified, shared by all processes.

    artifact, built = store.get_or_build("aie2p-host-gcc12.2", "add-1024bf16-1024bf16-1024bf16", key, build, made_from)
    artifact.files[".so"]

Any number of processes and threads may ask for the same kernel: one builds it, the others wait. A process that ends in
the middle of a build or of writing leaves nothing that is ever loaded. See `files` for what is on disk.
"""

from __future__ import annotations

import glob
import os
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.store.directories import not_kept, process_directory, readable, scratch_directory, writable
from npu_tensor.runtime.store.files import (
    FOLDER,
    KEY,
    LOG,
    SIDECAR,
    SUFFIX,
    Damage,
    file_stem,
    locked,
    move_aside,
    parse_sidecar,
    read_entry,
    read_file,
    read_log,
    sidecar_text,
    write_entry,
)
from npu_tensor.runtime.store.requests import Artifact
from npu_tensor.runtime.store.upkeep import clear_once, wrote

__all__ = ["Failure", "Store", "store"]

Build = Callable[[Path], dict[str, Path]]
"""Makes the files of a kernel in an empty directory and returns them by suffix; compilers' output goes to build.log."""


class Failure(NamedTuple):
    """A build that failed, and would again."""

    message: str
    log: str


class _Entry(NamedTuple):
    directory: Path
    stem: str
    description: dict[str, Any]

    def artifact(self) -> Artifact:
        files = {suffix: self.directory / (self.stem + suffix) for suffix in self.description["files"] if suffix != LOG}
        name, key = self.description["name"], self.description["key"]
        return Artifact(name, key, MappingProxyType(files), "cache", self.description)

    def failure(self) -> Failure | None:
        message = self.description["failure"]
        if message is None:
            return None
        try:
            log = read_file(self.directory / (self.stem + LOG)).decode("utf-8", "replace")
        except OSError:
            log = ""
        return Failure(message, log)


class Store:
    """One cache directory. Safe to use from several threads and processes.

    root: None for `config.cache_dir`, asked at each use. Where nothing can be written, see `directories`.
    folder: generation of the array and toolchain in one word with a dash. name: of a kernel, any text. key: 64
    hexadecimal digits over everything that the kernel's files follow from.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._asked = root
        self._renewed: set[str] = set()

    @property
    def root(self) -> Path:
        """The directory that was asked for, cleared if that was asked for too."""
        root = (config.cache_dir if self._asked is None else self._asked).absolute()
        clear_once(root)
        return root

    def load(self, folder: str, name: str, key: str) -> Artifact | None:
        """The kernel, or None; a damaged one is moved aside. Its files were read a moment ago and are as written."""
        entry = self._entry(folder, name, key)
        return None if entry is None or entry.description["failure"] is not None else entry.artifact()

    def failure(self, folder: str, name: str, key: str) -> Failure | None:
        """How the kernel could not be built the last time, or None."""
        entry = self._entry(folder, name, key)
        return None if entry is None else entry.failure()

    def get_or_build(
        self, folder: str, name: str, key: str, build: Build, description: Mapping[str, Any], force: bool = False
    ) -> tuple[Artifact, bool]:
        """The kernel, and whether it was built here and now.

        description: what the kernel is made from, as JSON; kept as "made_from" in the sidecar. force: whether to build
        it even if it is there.

        Raises BuildError if the build does, at once if the same build failed before. An error that is transient is not
        held against the next attempt. If the build needed another entry whose build failed, only that one is
        remembered: clearing it is enough to try both again.
        """
        entry = None if force else self._entry(folder, name, key)
        if entry is None:
            with ExitStack() as stack:
                root = self._lock(key, stack)
                if not force:  # Another process may have been faster.
                    entry = self._load(root, folder, name, key, held=True)
                if entry is None:
                    return self._build(root, folder, name, key, build, description).artifact(), True
        failed = entry.failure()
        if failed is not None:
            pattern = shlex.quote(glob.escape(name))
            raise BuildError(
                f"{failed.message}\nThis build failed on {entry.description['created']} and is not tried again; to try "
                f"again: npu-tensor cache clear {pattern}, or NPU_TENSOR_FORCE_RECOMPILE=1",
                remembered=True,
            )
        return entry.artifact(), False

    def _entry(self, folder: str, name: str, key: str) -> _Entry | None:
        if KEY.fullmatch(key) is None:
            raise ArgumentError(f"the key {key!r} is not 64 hexadecimal digits")
        if FOLDER.fullmatch(folder) is None:
            raise ArgumentError(f"the folder {folder!r} is not of the form aie2p-toolchain")
        for root in readable(self.root):
            entry = self._load(root, folder, name, key)
            if entry is not None:
                return entry
        return None

    def _load(self, root: Path, folder: str, name: str, key: str, held: bool = False) -> _Entry | None:
        """What `root` has for the kernel; `held`: the caller holds its lock."""
        if config.force_recompile and key not in self._renewed:
            return None
        directory, stem = root / folder, file_stem(name, key)
        try:
            description = read_entry(directory, stem)
        except Damage as damage:
            return self._check_again(root, folder, name, key, damage, held)
        if description is None or (description["name"], description["key"]) != (name, key):
            return None
        with suppress(OSError):  # For the order of eviction. Read-only, or just removed.
            os.utime(directory / (stem + SIDECAR))
        return _Entry(directory, stem, description)

    def _check_again(self, root: Path, folder: str, name: str, key: str, damage: Damage, held: bool) -> _Entry | None:
        """Without the lock, what looked damaged may be half of what another process is writing."""
        path = root / folder / (file_stem(name, key) + SIDECAR)
        try:
            if not held:
                with locked(root, key):
                    return self._load(root, folder, name, key, held=True)
            move_aside(path.parent, path.stem)
        except OSError:  # A directory that can only be read.
            pass
        events.emit(events.CacheDamaged(name, str(path), str(damage)))
        return None

    def _lock(self, key: str, stack: ExitStack) -> Path:
        """Enter the lock of a key in the first directory that takes one, and return that directory."""
        root = self.root
        try:
            directory = writable(root)
            stack.enter_context(locked(directory, key))
            return directory
        except OSError as error:
            reason = error
        try:
            own = process_directory()
            stack.enter_context(locked(own, key))
        except OSError as error:
            raise BuildError(f"there is no place for compiled kernels: {reason}; {error}", transient=True) from None
        not_kept(root, reason)
        return own

    def _build(
        self, root: Path, folder: str, name: str, key: str, build: Build, description: Mapping[str, Any]
    ) -> _Entry:
        start = time.perf_counter()
        contents: dict[str, bytes] = {}
        failed: BuildError | None = None
        try:
            with scratch_directory() as scratch:
                try:
                    paths = build(scratch)
                except BuildError as error:
                    if error.transient or error.remembered:
                        raise
                    failed = error
                else:
                    contents = {suffix: path.read_bytes() for suffix, path in paths.items()}
                log = read_log(scratch)
        except OSError as error:
            raise BuildError(f"{name} could not be built: {error}", transient=True) from error
        for suffix in contents:
            if SUFFIX.fullmatch(suffix) is None or suffix in (SIDECAR, LOG):
                raise ArgumentError(f"a build must not return a file {suffix!r}")
        message = None if failed is None else str(failed)
        if log is not None:
            contents[LOG] = log
        sidecar = sidecar_text(name, key, description, contents, time.perf_counter() - start, message)
        entry = self._keep(root, folder, name, key, contents, sidecar)
        self._renewed.add(key)
        if failed is not None:
            failed.remembered = True
            raise failed
        return entry

    def _keep(
        self, root: Path, folder: str, name: str, key: str, contents: Mapping[str, bytes], sidecar: bytes
    ) -> _Entry:
        """Write an entry, for the life of this process only if `root` cannot take it."""
        stem = file_stem(name, key)
        try:
            write_entry(root / folder, stem, contents, sidecar)
        except OSError as error:
            reason = error
        else:
            wrote(root, len(sidecar) + sum(map(len, contents.values())))
            return _Entry(root / folder, stem, parse_sidecar(sidecar))
        try:
            own = process_directory()
            write_entry(own / folder, stem, contents, sidecar)
        except OSError as error:
            message = f"{name} was built, but there is no place for it: {reason}; {error}"
            raise BuildError(message, transient=True) from None
        not_kept(root, reason)
        return _Entry(own / folder, stem, parse_sidecar(sidecar))


store: Final = Store()
"""The cache of this process: `config.cache_dir`."""
