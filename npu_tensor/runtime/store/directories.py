"""Directories of compiled files: which ones this process trusts, and where it can write."""

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
from npu_tensor.config import config

SCRATCH_PREFIX: Final = "npu_tensor-scratch-"
"""Start of the names of temporary directories; the process id follows."""

_lock = new_lock()
_refusals: dict[Path, str | None] = {}
_warned: set[Path] = set()
_own: dict[int, Path] = {}


def readable(root: Path) -> tuple[Path, ...]:
    """Return the directories with entries of the cache `root`: itself if it is trusted, and that of this process."""
    reason = untrusted(root)
    if reason:
        warn_once(
            root,
            f"{root} {reason}, and kernels that lie there would run as this user: it is not used; set "
            "NPU_TENSOR_CACHE_DIR to a directory of yours, or NPU_TENSOR_TRUST_CACHE=1 if you trust everybody who can "
            "write there",
        )
    own = _own.get(os.getpid())
    return tuple(path for path in (None if reason else root, own) if path is not None)


def writable(root: Path) -> Path:
    """Return `root`, which is made if it does not exist. Tried once per process.

    Raises:
        OSError: Nothing can be written there, or other users can write there.
    """
    with _lock:
        if root not in _refusals:
            try:
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                if reason := untrusted(root):
                    raise PermissionError(f"{root} {reason}")
                # Permission bits say nothing about read-only mounts and file systems that map users.
                with tempfile.TemporaryFile(dir=root):
                    pass
                _refusals[root] = None
            except OSError as error:
                _refusals[root] = str(error)
        if (refusal := _refusals[root]) is not None:
            raise OSError(refusal)
        return root


def untrusted(directory: Path) -> str | None:
    """Return why files in a directory may be those of other users than this one and root; None if they are not.

    Checksums do not tell who wrote a file. `NPU_TENSOR_TRUST_CACHE` trusts every directory.
    """
    if config.trust_cache:
        return None
    try:
        status = directory.stat()
    except OSError:
        return None
    user = os.geteuid()
    if not stat.S_ISDIR(status.st_mode):
        return None
    if status.st_uid not in (user, 0):
        return f"belongs to another user, {_user_name(status.st_uid)}"
    if status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_own_group(status.st_gid, user)):
        return "can be written by other users"
    return None


def _user_name(user: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)


def _is_own_group(group: int, user: int) -> bool:
    """Many systems give each user a group without other members, which may write to the user's files."""
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == _user_name(user) and set(entry.gr_mem) <= {entry.gr_name}


def warn_once(root: Path, message: str) -> None:
    """Warn of a cache directory that cannot be used, once per process."""
    if root not in _warned:
        _warned.add(root)
        warn(message)


def process_directory() -> Path:
    """Return a directory that is removed when this process ends. Raises OSError."""
    process = os.getpid()
    with _lock:
        if process not in _own:
            _own[process] = path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{process}-"))
            atexit.register(_remove_at_exit, path, process)
        return _own[process]


def _remove_at_exit(path: Path, process: int) -> None:
    if os.getpid() == process:  # A forked child inherits the functions that its parent has registered.
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yield an empty directory for a build, and remove it afterwards. Raises OSError."""
    path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
