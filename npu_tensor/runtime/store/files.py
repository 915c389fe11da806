"""Entries, the format of all compiled files on disk, and how files are written so that readers see all or nothing.

    root/aie2p-host-gcc12.2/add-1024bf16_0123456789abcdef.so        what was built
                            add-1024bf16_0123456789abcdef.log       output of the compiler
                            add-1024bf16_0123456789abcdef.json      description with checksums; written last
    root/locks/0123456789abcdef.lock

An entry exists when its description does. Files are not flushed to the disk: after a power cut, a half-written file
does not match its checksum.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from npu_tensor.errors import BuildError

FORMAT: Final = 1
DESCRIPTION: Final = ".json"
LOG: Final = ".log"
LOCKS: Final = "locks"

SUFFIX: Final = re.compile(r"(?:_[a-z0-9]{1,12})?\.[a-z0-9]+")
TEMPORARY: Final = re.compile(r"\.[0-9a-f]{8}\.temporary")

# With key, suffix and ".temporary" below 143 bytes, the longest file name in a home directory encrypted by eCryptfs.
_LONGEST_NAME: Final = 80
_LONGEST_FILE_NAME: Final = 255
"""Length limit of a file name on Linux, in bytes."""

_CHECKSUM_START: Final = b',\n "checksum": "'
_CHECKSUM_END: Final = b'"\n}\n'
_CHECKSUM_BYTES: Final = len(_CHECKSUM_START) + 64 + len(_CHECKSUM_END)


class Damage(Exception):
    """An entry differs from what was written."""


# --- files


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all. Raises OSError and then leaves nothing."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` after the block, and is removed if the block fails.

    Other processes see it whole, except where the file system cannot replace `path`: then it is copied into it.
    """
    suffix = f".{secrets.token_hex(4)}.temporary"
    start = os.fsencode(path.name)[: _LONGEST_FILE_NAME - len(suffix)]
    temporary = path.with_name(os.fsdecode(start) + suffix)
    try:
        with open(temporary, "xb") as file:
            yield file
        try:
            os.replace(temporary, path)
        except OSError as error:
            if error.errno != errno.EBUSY:  # of a file that is a mount point, as in containers
                raise
            shutil.copyfile(temporary, path)
            temporary.unlink()
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def locked(root: Path, key: str, wait: bool = True) -> Iterator[None]:
    """Hold the lock of all keys with the same first 16 digits, between threads and between processes.

    Raises:
        OSError: The lock cannot be created.
        BlockingIOError: `wait` is False, and another thread or process holds the lock.
        BuildError: The build that waits for the lock is cancelled.
    """
    from filelock import FileLock, Timeout

    from npu_tensor.runtime.build.process import is_cancelled

    path = lock_path(root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=-1 if wait else 0, poll_interval=0.01)
    try:
        lock.acquire(cancel_check=is_cancelled)
    except Timeout:
        if is_cancelled():
            raise BuildError(f"waiting for {path} was cancelled", transient=True) from None
        raise BlockingIOError(f"another thread or process holds {path}") from None
    try:
        yield
    finally:
        lock.release()


def lock_path(root: Path, key: str) -> Path:
    """Return the file of a key's lock."""
    return root / LOCKS / f"{key[:16]}.lock"


# --- entries


def file_stem(name: str, key: str) -> str:
    """Return the start of an entry's file names: `name` without special characters, and 16 digits of `key`."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", name).lstrip(".-")[:_LONGEST_NAME] or "kernel"
    if safe != name:
        safe += f"-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{safe}_{key[:16]}"


def write_entry(
    directory: Path, stem: str, contents: Mapping[str, bytes], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], int]:
    """Write the files of an entry, its description last. Return the description, and the bytes written.

    The caller holds a lock, or always writes the same bytes under this stem. `fields` are members of the description:
    "name", "key", "made_from" and others. Raises OSError, and then there is no entry.
    """
    described = {"format": FORMAT, **fields, "files": {suffix: _record(data) for suffix, data in contents.items()}}
    start = json.dumps(described, indent=1).removesuffix("\n}").encode()
    text = start + _CHECKSUM_START + hashlib.sha256(start).hexdigest().encode() + _CHECKSUM_END
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / (stem + suffix) for suffix in (DESCRIPTION, *contents)]
    paths[0].unlink(missing_ok=True)  # No reader combines old and new files.
    try:
        for path, content in zip(paths[1:], contents.values(), strict=True):
            write_atomically(path, content)
        write_atomically(paths[0], text)
    except BaseException:
        for path in paths:
            with suppress(OSError):
                path.unlink()
        raise
    return parse_description(text), len(text) + sum(map(len, contents.values()))


def _record(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def parse_description(text: bytes) -> dict[str, Any]:
    """Return a description, with its checksum verified. Raises Damage if it is not what was written."""
    start = text[:-_CHECKSUM_BYTES]
    if text[-_CHECKSUM_BYTES:] != _CHECKSUM_START + hashlib.sha256(start).hexdigest().encode() + _CHECKSUM_END:
        raise Damage("the description does not have its checksum")
    try:
        described: dict[str, Any] = json.loads(text)
        format, suffixes = described["format"], tuple(described["files"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damage(f"the description is not one of an entry: {error!r}") from None
    if format != FORMAT:
        raise Damage(f"the description is not of format {FORMAT}")
    if not all(map(SUFFIX.fullmatch, suffixes)):
        raise Damage("the description names other files")
    return described


def read_entry(directory: Path, stem: str) -> tuple[dict[str, Any], dict[str, bytes]] | None:
    """Return the description and the verified files of an entry by suffix; None if there is no description.

    Raises Damage if they differ from what was written, or a file cannot be read.
    """
    try:
        text = (directory / (stem + DESCRIPTION)).read_bytes()
    except OSError:
        return None
    described = parse_description(text)
    contents = {}
    for suffix, record in described["files"].items():
        try:
            contents[suffix] = (directory / (stem + suffix)).read_bytes()
        except OSError as error:
            raise Damage(f"{stem}{suffix} cannot be read: {error.strerror}") from None
        if _record(contents[suffix]) != record:
            raise Damage(f"{stem}{suffix} does not have its size and checksum")
    return described, contents


def read_shared_entry(root: Path, folder: str, stem: str) -> tuple[dict[str, Any], dict[str, bytes]] | None:
    """Return an entry of a cache as `read_entry` does; another process may be writing it."""
    try:
        return read_entry(root / folder, stem)
    except Damage:
        with ExitStack() as stack:
            with suppress(OSError):  # No process writes to a read-only directory.
                stack.enter_context(locked(root, stem.rpartition("_")[2]))
            return read_entry(root / folder, stem)
