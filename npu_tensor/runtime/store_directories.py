"""Where compiled kernels are kept: the cache directory, or a temporary one if nothing can be written there.

root = writable(config.cache_dir)
for root in readable(config.cache_dir):
    ...
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from npu_tensor.config import user_temporary_path
from npu_tensor.forks import new_lock
from npu_tensor.user_warnings import warn

__all__ = ["SCRATCH_PREFIX", "existing", "not_kept", "process_directory", "readable", "scratch_directory", "writable"]

SCRATCH_PREFIX: Final = "npu_tensor-scratch-"
"""Directories of running builds, and of kernels that no other directory could take, begin with this and the
process id."""

_lock = new_lock()
_writable: dict[Path, Path] = {}
_warned: set[Path] = set()
_own: dict[int, Path] = {}


def readable(root: Path) -> tuple[Path, ...]:
    """The directories in which this process looks for kernels of the cache `root`, in this order."""
    found = dict.fromkeys((root, _writable.get(root), _own.get(os.getpid())))
    return tuple(path for path in found if path is not None and _is_safe(path))


def existing(root: Path) -> tuple[Path, ...]:
    """The directories in which processes of this user may have put kernels of the cache `root`, if they exist."""
    return tuple(path for path in dict.fromkeys((root, user_temporary_path())) if path.is_dir() and _is_safe(path))


def writable(root: Path) -> Path:
    """`root`, made if need be, or else the temporary directory of this user, with one warning that names both.

    Tried once per process. Raises OSError if neither can be written.
    """
    with _lock:
        if root in _writable:
            return _writable[root]
        try:
            _try(root)
            _writable[root] = root
            return root
        except OSError as error:
            reason = error
        instead = user_temporary_path()
        _try(instead)
        _writable[root] = instead
    warn(
        f"compiled kernels are not kept in {root}, where nothing can be written ({reason}), but in {instead}; "
        "set NPU_TENSOR_CACHE_DIR to a directory of yours"
    )
    return instead


def _try(directory: Path) -> None:
    """Write a file; permission bits say nothing about read-only mounts and file systems that map users."""
    private = directory == user_temporary_path()
    directory.mkdir(mode=0o700 if private else 0o777, parents=not private, exist_ok=True)
    if not _is_safe(directory):
        raise PermissionError(f"{directory} is not a directory that only this user can write")
    with tempfile.TemporaryFile(dir=directory):
        pass


def _is_safe(directory: Path) -> bool:
    """Whether kernels in it cannot be those of others, which checksums do not tell.

    Whoever names a cache directory trusts it; the name of this user's temporary one is free for everybody to take.
    """
    if directory != user_temporary_path():
        return True
    try:
        found = directory.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def process_directory() -> Path:
    """A directory that is removed when this process ends, for what cannot be written anywhere else. Raises OSError."""
    process = os.getpid()
    with _lock:
        if process not in _own:
            _own[process] = path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{process}-"))
            atexit.register(_remove_at_exit, path, process)
        return _own[process]


def _remove_at_exit(path: Path, process: int) -> None:
    if os.getpid() == process:  # A forked child inherits what its parent has registered.
        shutil.rmtree(path, ignore_errors=True)


def not_kept(root: Path, error: OSError) -> None:
    """Warn, once per process and directory, that kernels live no longer than this process."""
    if root not in _warned:
        _warned.add(root)
        warn(f"compiled kernels are not kept: cannot write to {root} ({error})")


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """An empty directory for a build. Raises OSError if there is no place for one."""
    path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
