"""The files of one entry of the cache: their names, how they are written, and how they are checked.

    root/aie2p-host-gcc12.2/add-1024bf16_0123456789abcdef.so        what was built
                            add-1024bf16_0123456789abcdef.log       what the compiler said
                            add-1024bf16_0123456789abcdef.json      the sidecar: all about it; written last
    root/locks/0123456789abcdef.lock
    root/cpu/<64 hexadecimal digits of the key>.object              the CPU device's: a SHA-256, then the object file

An entry exists when its sidecar does. A failed build is an entry too, of a message and a log. Nothing is synchronised
with the disk: what a power cut leaves half written does not have its checksum.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from npu_tensor._util.forks import new_lock
from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.version import VERSION
from npu_tensor.errors import BuildError

__all__ = [
    "DAMAGED",
    "FILE",
    "FOLDER",
    "FORMAT",
    "KEY",
    "LOCKS",
    "LOG",
    "LONGEST_FILE_NAME",
    "OBJECTS",
    "OBJECT_SUFFIX",
    "SIDECAR",
    "SUFFIX",
    "TEMPORARY",
    "Damage",
    "atomic_file",
    "file_record",
    "file_stem",
    "locked",
    "move_aside",
    "parse_sidecar",
    "read_entry",
    "read_file",
    "read_log",
    "read_object",
    "sidecar_text",
    "write_atomically",
    "write_entry",
    "write_object",
]

FORMAT: Final = 1
SIDECAR: Final = ".json"
LOG: Final = ".log"
DAMAGED: Final = ".damaged"
LOCKS: Final = "locks"
OBJECTS: Final = "cpu"
"""The folder of the CPU device's objects."""
OBJECT_SUFFIX: Final = ".object"

KEY: Final = re.compile(r"[0-9a-f]{64}")
FOLDER: Final = re.compile(r"[a-z0-9]+-[A-Za-z0-9._+-]+")
SUFFIX: Final = re.compile(r"(?:_[a-z0-9]{1,12})?\.[a-z0-9]+")
TEMPORARY: Final = re.compile(r"\.[0-9a-f]{8}\.temporary")
FILE: Final = re.compile(
    rf"(?P<stem>[A-Za-z0-9._+-]+_(?P<key>[0-9a-f]{{16}}))(?P<suffix>{SUFFIX.pattern})"
    rf"(?P<leftover>{TEMPORARY.pattern}|\{DAMAGED})?"
)

# With key, suffix and ".temporary" below 143 bytes, the longest file name in a home directory encrypted by eCryptfs.
LONGEST_FILE_NAME: Final = 255
"""Length limit of a file name on Linux, in bytes."""

_LONGEST_NAME: Final = 80
_LONGEST_LOG: Final = 1 << 20
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
_CHECKSUM_START: Final = b',\n "checksum": "'
_CHECKSUM_END: Final = b'"\n}\n'
_CHECKSUM_BYTES: Final = len(_CHECKSUM_START) + 64 + len(_CHECKSUM_END)

_thread_locks: Final[dict[Path, threading.RLock]] = {}


class Damage(Exception):
    """An entry is not what was written."""


def file_stem(name: str, key: str) -> str:
    """How the files of a kernel begin: its name, made fit for file systems, and the first 16 digits of its key."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", name).lstrip(".-")[:_LONGEST_NAME] or "kernel"
    if safe != name:
        safe += f"-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{safe}_{key[:16]}"


@contextmanager
def locked(root: Path, key: str, wait: bool = True) -> Iterator[None]:
    """Hold the lock of everything whose key begins like `key`, between threads and between processes.

    Raises OSError if the lock cannot be made; BlockingIOError, one of these, if `wait` is false and it is held.
    """
    import_whole("filelock")
    from filelock import FileLock, Timeout

    from npu_tensor.runtime.build.process import is_cancelled

    path = root / LOCKS / f"{key[:16]}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Processes poll; the threads of one need not.
    mine = _thread_locks.get(path) or _thread_locks.setdefault(path, new_lock(of_builds=True))
    try:
        if not mine.acquire(blocking=wait):
            raise BlockingIOError(f"{path} is held by somebody else")
        lock = FileLock(path, timeout=-1 if wait else 0, poll_interval=0.01)
        try:
            lock.acquire(cancel_check=is_cancelled)
        except Timeout:
            if is_cancelled():
                raise BuildError(f"{path} was not waited for any longer", transient=True) from None
            raise BlockingIOError(f"{path} is held by somebody else") from None
        try:
            yield
        finally:
            lock.release()
    finally:
        if mine._is_owned():  # type: ignore[attr-defined]  # An interrupt may come as soon as the lock is taken.
            mine.release()


def read_file(path: Path) -> bytes:
    """The content of a file. Raises OSError, also for named pipes and devices, whose readers may wait for ever."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read()


def file_record(content: bytes) -> dict[str, Any]:
    """What descriptions say of a file: its size in bytes and its SHA-256 in hexadecimal."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_atomically(path: Path, content: bytes) -> None:
    """Make a file that others see whole or not at all. Raises OSError and leaves nothing behind."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` after the block, and is removed if the block fails.

    Other processes see it whole, except where the file system cannot replace `path`: then it is copied into it.
    """
    suffix = f".{secrets.token_hex(4)}.temporary"
    start = os.fsencode(path.name)[: LONGEST_FILE_NAME - len(suffix)]
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


def sidecar_text(
    name: str,
    key: str,
    made_from: Mapping[str, Any],
    contents: Mapping[str, bytes],
    build_seconds: float,
    failure: str | None = None,
) -> bytes:
    """The sidecar of an entry: JSON whose last member is the SHA-256 of everything before that member."""
    rest = {
        "format": FORMAT,
        "name": name,
        "key": key,
        "failure": failure,
        "made_from": made_from,
        "files": {suffix: file_record(content) for suffix, content in contents.items()},
        "build_seconds": round(build_seconds, 3),
        "package": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    start = json.dumps(rest, indent=1).removesuffix("\n}").encode()
    return start + _CHECKSUM_START + hashlib.sha256(start).hexdigest().encode() + _CHECKSUM_END


def parse_sidecar(content: bytes) -> dict[str, Any]:
    """What a sidecar says. Raises Damage if one byte differs from what was written, or if that was no JSON object."""
    start = content[:-_CHECKSUM_BYTES]
    if content[-_CHECKSUM_BYTES:] != _CHECKSUM_START + hashlib.sha256(start).hexdigest().encode() + _CHECKSUM_END:
        raise Damage("the description does not have its checksum")
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Damage(f"the description is not JSON: {error}") from None
    if not isinstance(description, dict):
        raise Damage("the description is not a JSON object")
    return description


def _is_complete(description: Mapping[str, Any]) -> bool:
    """Whether a description has all that is read of it to find an entry, or to say how a build failed."""
    files, failure = description.get("files"), description.get("failure", "?")
    texts = ("name", "key") if failure is None else ("name", "key", "failure", "created")
    return (
        all(isinstance(description.get(field), str) for field in texts)
        and isinstance(files, dict)
        and all(
            SUFFIX.fullmatch(suffix) and isinstance(record, dict) and record.keys() >= {"bytes", "sha256"}
            for suffix, record in files.items()
        )
    )


def read_entry(directory: Path, stem: str) -> dict[str, Any] | None:
    """The description of an entry all of whose files have their checksums; None if there is none that can be read.

    Raises Damage.
    """
    try:
        content = read_file(directory / (stem + SIDECAR))
    except OSError:
        return None
    description = parse_sidecar(content)
    if description.get("format") != FORMAT:
        return None
    if not _is_complete(description):
        raise Damage("the description lacks fields, or they are of other types")
    for suffix, expected in description["files"].items():
        try:
            data = read_file(directory / (stem + suffix))
        except OSError as error:
            raise Damage(f"{stem}{suffix} cannot be read: {error.strerror}") from None
        if len(data) != expected["bytes"]:
            raise Damage(f"{stem}{suffix} has {len(data)} bytes instead of {expected['bytes']}")
        if hashlib.sha256(data).hexdigest() != expected["sha256"]:
            raise Damage(f"{stem}{suffix} does not have its checksum")
    return description


def write_entry(directory: Path, stem: str, contents: Mapping[str, bytes], sidecar: bytes) -> None:
    """Write all files of an entry, whose lock the caller holds. Raises OSError and leaves no entry behind."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / (stem + suffix) for suffix in (SIDECAR, *contents)]
    # Without a sidecar nobody takes the new files for the old ones, or both for an entry.
    paths[0].unlink(missing_ok=True)
    try:
        for path, content in zip(paths[1:], contents.values(), strict=True):
            write_atomically(path, content)
        write_atomically(paths[0], sidecar)
    except BaseException:
        for path in paths:
            with suppress(OSError):
                path.unlink()
        raise


def read_object(path: Path) -> bytes:
    """Return the code in an object file of the CPU device.

    Raises Damage if the checksum is that of another content or of another name, and OSError.
    """
    content = read_file(path)
    checksum, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if _object_digest(path, code) != checksum:
        raise Damage(f"{path.name} does not have its checksum")
    return code


def _object_digest(path: Path, code: bytes) -> bytes:
    """Return the SHA-256 of the file's name, which is the key of the code, and the code."""
    return hashlib.sha256(path.name.encode() + b"\0" + code).digest()


def write_object(path: Path, code: bytes) -> None:
    """Write an object file so that other processes see all of it or nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _object_digest(path, code) + code)


def move_aside(directory: Path, stem: str) -> None:
    """Keep the files of a damaged entry, the sidecar first, under names that nobody looks up. Raises OSError."""
    names = [path.name for path in directory.iterdir() if path.name.startswith(stem)]
    for name in sorted(names, key=lambda name: name != stem + SIDECAR):
        match = FILE.fullmatch(name)
        if match and match["stem"] == stem and not match["leftover"]:
            os.replace(directory / name, directory / (name + DAMAGED))


def read_log(directory: Path) -> bytes | None:
    """What a build has written to build.log, its end if that is long."""
    try:
        return (directory / "build.log").read_bytes()[-_LONGEST_LOG:]
    except OSError:
        return None
