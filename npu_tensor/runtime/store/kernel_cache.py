"""The cache on disk: compiled kernels by key, whole and verified, shared by all processes.

    entry, built = store.get_or_build("aie2p-host-gcc12.2", "add-1024bf16-1024bf16-1024bf16", key, build, description)
    entry.files[".so"]

Any number of processes and threads may ask for the same kernel: one builds it, the others wait. A process that ends in
the middle of a build or of writing leaves nothing that is ever loaded. See `store_files` for what is on disk.
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
from npu_tensor.runtime.store import directories as store_directories
from npu_tensor.runtime.store import upkeep as store_upkeep
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

__all__ = ["Entry", "Failure", "Store", "store"]

Build = Callable[[Path], dict[str, Path]]
"""Makes the files of a kernel in an empty directory and returns them by suffix; compilers' output goes to build.log."""


class Entry(NamedTuple):
    """A kernel in the cache, complete and verified.

    files: by suffix, such as ".so", ".xclbin", "_insts.bin". Another process may remove them at any time to make room;
    whoever then cannot open one asks for the kernel again. description: the sidecar.
    """

    name: str
    key: str
    files: Mapping[str, Path]
    description: Mapping[str, Any]


class Failure(NamedTuple):
    """A build that failed, and would again."""

    message: str
    log: str


class _Found(NamedTuple):
    directory: Path
    stem: str
    description: dict[str, Any]

    def entry(self) -> Entry:
        files = {suffix: self.directory / (self.stem + suffix) for suffix in self.description["files"] if suffix != LOG}
        return Entry(self.description["name"], self.description["key"], MappingProxyType(files), self.description)

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

    root: None for `config.cache_dir`, asked at each use. Where nothing can be written, see `store_directories`.
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
        store_upkeep.clear_once(root)
        return root

    def find(self, folder: str, name: str, key: str) -> Entry | None:
        """The kernel, or None; a damaged one is moved aside. Its files were read a moment ago and are as written."""
        found = self._find(folder, name, key)
        return None if found is None or found.description["failure"] is not None else found.entry()

    def failure(self, folder: str, name: str, key: str) -> Failure | None:
        """How the kernel could not be built the last time, or None."""
        found = self._find(folder, name, key)
        return None if found is None else found.failure()

    def get_or_build(
        self, folder: str, name: str, key: str, build: Build, description: Mapping[str, Any], force: bool = False
    ) -> tuple[Entry, bool]:
        """The kernel, and whether it was built here and now.

        description: what the kernel is made from, as JSON; kept as "made_from" in the sidecar. force: whether to build
        it even if it is there.

        Raises BuildError if the build does, at once if the same build failed before. An error that is transient is not
        held against the next attempt. If the build needed another entry whose build failed, only that one is
        remembered: clearing it is enough to try both again.
        """
        found = None if force else self._find(folder, name, key)
        if found is None:
            with ExitStack() as stack:
                root = self._lock(key, stack)
                if not force:  # Another process may have been faster.
                    found = self._load(root, folder, name, key, held=True)
                if found is None:
                    return self._build(root, folder, name, key, build, description).entry(), True
        failed = found.failure()
        if failed is not None:
            pattern = shlex.quote(glob.escape(name))
            raise BuildError(
                f"{failed.message}\nThis build failed on {found.description['created']} and is not tried again; to try "
                f"again: npu-tensor cache clear {pattern}, or NPU_TENSOR_FORCE_RECOMPILE=1",
                remembered=True,
            )
        return found.entry(), False

    def _find(self, folder: str, name: str, key: str) -> _Found | None:
        if KEY.fullmatch(key) is None:
            raise ArgumentError(f"the key {key!r} is not 64 hexadecimal digits")
        if FOLDER.fullmatch(folder) is None:
            raise ArgumentError(f"the folder {folder!r} is not of the form aie2p-toolchain")
        for root in store_directories.readable(self.root):
            found = self._load(root, folder, name, key)
            if found is not None:
                return found
        return None

    def _load(self, root: Path, folder: str, name: str, key: str, held: bool = False) -> _Found | None:
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
        return _Found(directory, stem, description)

    def _check_again(self, root: Path, folder: str, name: str, key: str, damage: Damage, held: bool) -> _Found | None:
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
            taken = store_directories.writable(root)
            stack.enter_context(locked(taken, key))
            return taken
        except OSError as error:
            reason = error
        try:
            own = store_directories.process_directory()
            stack.enter_context(locked(own, key))
        except OSError as error:
            raise BuildError(f"there is no place for compiled kernels: {reason}; {error}", transient=True) from None
        store_directories.not_kept(root, reason)
        return own

    def _build(
        self, root: Path, folder: str, name: str, key: str, build: Build, description: Mapping[str, Any]
    ) -> _Found:
        start = time.perf_counter()
        contents: dict[str, bytes] = {}
        failed: BuildError | None = None
        try:
            with store_directories.scratch_directory() as scratch:
                try:
                    made = build(scratch)
                except BuildError as error:
                    if error.transient or error.remembered:
                        raise
                    failed = error
                else:
                    contents = {suffix: path.read_bytes() for suffix, path in made.items()}
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
        found = self._keep(root, folder, name, key, contents, sidecar)
        self._renewed.add(key)
        if failed is not None:
            failed.remembered = True
            raise failed
        return found

    def _keep(
        self, root: Path, folder: str, name: str, key: str, contents: Mapping[str, bytes], sidecar: bytes
    ) -> _Found:
        """Write an entry, for the life of this process only if `root` cannot take it."""
        stem = file_stem(name, key)
        try:
            write_entry(root / folder, stem, contents, sidecar)
        except OSError as error:
            reason = error
        else:
            store_upkeep.wrote(root, len(sidecar) + sum(map(len, contents.values())))
            return _Found(root / folder, stem, parse_sidecar(sidecar))
        try:
            own = store_directories.process_directory()
            write_entry(own / folder, stem, contents, sidecar)
        except OSError as error:
            message = f"{name} was built, but there is no place for it: {reason}; {error}"
            raise BuildError(message, transient=True) from None
        store_directories.not_kept(root, reason)
        return _Found(own / folder, stem, parse_sidecar(sidecar))


store: Final = Store()
"""The cache of this process: `config.cache_dir`."""
