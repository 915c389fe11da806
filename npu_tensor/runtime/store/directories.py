"""Where compiled kernels are kept: the cache directory, or a temporary one if nothing can be written there.

root = writable(config.cache_dir)
for root in readable(config.cache_dir):
    ...
"""

from __future__ import annotations

import atexit
import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config, user_temporary_path

__all__ = [
    "SCRATCH_PREFIX",
    "existing",
    "not_kept",
    "process_directory",
    "readable",
    "scratch_directory",
    "untrusted",
    "writable",
]

SCRATCH_PREFIX: Final = "npu_tensor-scratch-"
"""Directories of running builds, and of kernels that no other directory could take, begin with this and the
process id."""

_lock = new_lock()
_writable: dict[Path, Path] = {}
_warned: set[Path] = set()
_own: dict[int, Path] = {}


def readable(root: Path) -> tuple[Path, ...]:
    """The directories in which this process looks for kernels of the cache `root`, in this order."""
    directories = dict.fromkeys((root, _writable.get(root), _own.get(os.getpid())))
    return tuple(path for path in directories if path is not None and _is_used(path))


def existing(root: Path) -> tuple[Path, ...]:
    """The directories in which processes of this user may have put kernels of the cache `root`, if they exist."""
    return tuple(path for path in dict.fromkeys((root, user_temporary_path())) if path.is_dir() and _is_used(path))


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
    if _is_used(root):
        warn(
            f"compiled kernels are not kept in {root}, where nothing can be written ({reason}), but in {instead}; "
            "set NPU_TENSOR_CACHE_DIR to a directory of yours"
        )
    return instead


def _try(directory: Path) -> None:
    """Write a file; permission bits say nothing about read-only mounts and file systems that map users."""
    private = directory == user_temporary_path()
    directory.mkdir(mode=0o700 if private else 0o777, parents=not private, exist_ok=True)
    if reason := untrusted(directory):
        raise PermissionError(f"{directory} {reason}")
    with tempfile.TemporaryFile(dir=directory):
        pass


def untrusted(directory: Path) -> str | None:
    """Why kernels in it may be those of others, which checksums do not tell; None if they cannot, or may by a setting.

    Others are all users but this one and root. The name of this user's temporary directory is free for everybody to
    take, so that one must be a directory of this very user.
    """
    private = directory == user_temporary_path()
    if config.trust_cache and not private:
        return None
    try:
        status = directory.lstat() if private else directory.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory" if private else None
    user = os.geteuid()
    if status.st_uid not in ((user,) if private else (user, 0)):
        return f"belongs to another user, {_user_name(status.st_uid)}"
    if status.st_mode & 0o002 or (status.st_mode & 0o020 and (private or not _is_own_group(status.st_gid, user))):
        return "can be written by other users"
    return None


def _user_name(user: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)


def _is_own_group(group: int, user: int) -> bool:
    """Whether nobody else is in a group: many systems give each user one, for which their files are writable."""
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == _user_name(user) and set(entry.gr_mem) <= {entry.gr_name}


def _is_used(directory: Path) -> bool:
    """Whether kernels are loaded from a directory; warns of one that is there and refused, once per process."""
    reason = untrusted(directory)
    if reason and directory not in _warned and directory != user_temporary_path():
        _warned.add(directory)
        warn(
            f"{directory} {reason}, and kernels that lie there would run as this user: it is not used; set "
            "NPU_TENSOR_CACHE_DIR to a directory of yours, or NPU_TENSOR_TRUST_CACHE=1 if you trust who can write there"
        )
    return reason is None


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
