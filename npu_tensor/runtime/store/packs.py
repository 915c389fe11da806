"""Kernel packs: a directory of ready kernels as one file, checked when it is made and before it is unpacked.

    pack(Path("model-kernels"), Path("model.ntpack"))
    unpack(Path("model.ntpack"), Path("/opt/model-kernels"))

A pack is a zip file of `pack.json`, which gives size and SHA-256 of all others, and `<arch>/<file>`. Packs of the same
files are the same bytes. Python's `python -m zipfile -e` and unzip read it too, without the checks.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.files import LONGEST_FILE_NAME, file_record
from npu_tensor.runtime.store.ready_kernels import MANIFEST, read_manifest

__all__ = ["pack", "unpack"]

FORMAT: Final = 1
CONTENTS: Final = "pack.json"

LARGEST_CONTENTS: Final = 64 << 20
LARGEST_FILE: Final = 256 << 20
"""Bytes; the files of a kernel have some hundred kilobytes."""
LARGEST_PACK: Final = 4 << 30
"""Bytes of all files together, as many as the cache keeps by default."""

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip file can hold, so that the time of packing is no part of a pack."""
_BROKEN: Final = (BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError, zlib.error)
"""What `zipfile` raises for files that are damaged, encrypted or compressed in other ways."""


def pack(directory: Path, archive: Path) -> int:
    """Put the kernels that a directory's manifests list into one file, and return how many files that are.

    Raises ArgumentError if there are none, if a file is not what a manifest says or lies elsewhere, behind a link, or
    if `unpack` would refuse the pack; OSError.
    """
    listed: dict[str, Mapping[str, Any] | None] = {}
    for arch in ARRAYS:
        if (directory / arch / MANIFEST).exists():
            listed |= {f"{arch}/{name}": record for name, record in _listed(directory, arch).items()}
    if not listed:
        raise ArgumentError(f"{directory} has no kernels: there is no {MANIFEST} in {' or '.join(ARRAYS)}")
    records: dict[str, dict[str, Any]] = {}
    temporary = archive.with_name(f".{archive.name}.{secrets.token_hex(4)}")
    try:
        with ZipFile(temporary, "x") as file:
            for name, expected in sorted(listed.items()):
                content = _inside(directory, name).read_bytes()
                records[name] = file_record(content)
                if expected is not None and any(records[name][field] != expected[field] for field in records[name]):
                    raise ArgumentError(f"{directory / name} is damaged; generate the kernels again")
                file.writestr(_member(name), content)
            file.writestr(_member(CONTENTS), json.dumps({"format": FORMAT, "files": records}, indent=1) + "\n")
        for _ in _verified(temporary):
            pass
        os.replace(temporary, archive)
    finally:
        temporary.unlink(missing_ok=True)
    return len(records)


def _listed(directory: Path, arch: str) -> dict[str, Mapping[str, Any] | None]:
    """The manifest of an arch, and what it lists: files of kernels, with size and digest, and their sidecars."""
    listed: dict[str, Mapping[str, Any] | None] = {MANIFEST: None}
    for exported, description in read_manifest(_inside(directory, f"{arch}/{MANIFEST}")).items():
        listed[f"{exported}.json"] = None
        listed |= {f"{exported}{suffix}": record for suffix, record in description["files"].items()}
    return listed


def _inside(directory: Path, name: str) -> Path:
    """A file of a directory. Raises ArgumentError if there is none, or if it is elsewhere, behind a link."""
    path = directory / name
    if not path.is_file():
        raise ArgumentError(f"{path} is missing; generate the kernels again")
    if not path.resolve().is_relative_to(directory.resolve()):
        raise ArgumentError(f"{path} is a link that leads out of {directory}")
    return path


def _member(name: str) -> ZipInfo:
    member = ZipInfo(name, _EARLIEST)
    member.compress_type = ZIP_DEFLATED
    member.create_system = 3  # Unix, where the attributes are a file mode
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


def unpack(archive: Path, directory: Path) -> int:
    """Verify a pack, write its files below `directory`, which must not exist or be empty, and return how many.

    Nothing is written unless everything is right, and others see the directory complete or not at all. Raises
    ArgumentError for whatever is wrong with the pack; OSError.
    """
    directory = directory.resolve()
    if directory.exists() and not (directory.is_dir() and next(directory.iterdir(), None) is None):
        raise ArgumentError(f"{directory} exists and is not an empty directory; unpack into a new one")
    number = sum(1 for _ in _verified(archive))
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as temporary:
        kernels = Path(temporary, "kernels")
        for name, content in _verified(archive):
            path = kernels / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        os.rename(kernels, directory)
    return number


def _verified(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file of a pack, if it has exactly those that it lists. Raises ArgumentError."""
    try:
        with ZipFile(archive) as file:
            yield from _checked(file)
    except ArgumentError as error:
        raise ArgumentError(f"{archive} is refused: {error}") from None
    except _BROKEN as error:
        if isinstance(error, OSError) and error.filename is not None:  # It cannot be opened.
            raise
        raise ArgumentError(f"{archive} is no kernel pack, or damaged: {error or type(error).__name__}") from None


def _checked(file: ZipFile) -> Iterator[tuple[str, bytes]]:
    members = {member.filename: member for member in file.infolist()}
    if len(members) != len(file.infolist()):
        raise ArgumentError("two of its files have the same name")
    for member in members.values():
        _check_member(member)
    records = _records(file, members.pop(CONTENTS, None))
    for name in members.keys() ^ records.keys():
        raise ArgumentError(f"{name!r} is in the pack, but not listed" if name in members else f"{name!r} is missing")
    if sum(member.file_size for member in members.values()) > LARGEST_PACK:
        raise ArgumentError(f"its files have more than {LARGEST_PACK} bytes")
    for name, member in members.items():
        content = _read(file, member, LARGEST_FILE)
        if records[name] != file_record(content):
            raise ArgumentError(f"{name!r} is not what the pack lists")
        yield name, content


def _check_member(member: ZipInfo) -> None:
    """Raise ArgumentError for what is not a plain file directly below the directory of an arch."""
    name = member.filename
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        raise ArgumentError(f"{name!r} is not a regular file")
    if member.flag_bits & 1 or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ArgumentError(f"{name!r} is encrypted or compressed in an unknown way")
    if name == CONTENTS:
        return
    arch, _, rest = name.partition("/")
    if arch not in ARRAYS or not rest or rest.startswith(".") or not rest.isprintable() or set(rest) & {"/", "\\"}:
        raise ArgumentError(f"{name!r} is not a file in {' or '.join(ARRAYS)}")
    if len(rest.encode()) > LONGEST_FILE_NAME:
        raise ArgumentError(f"{name[:40]!r}... is longer than {LONGEST_FILE_NAME} bytes")


def _records(file: ZipFile, member: ZipInfo | None) -> dict[str, dict[str, Any]]:
    if member is None:
        raise ArgumentError(f"it has no {CONTENTS}")
    try:
        value = json.loads(_read(file, member, LARGEST_CONTENTS))
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{CONTENTS} is not JSON: {error}") from None
    records = value.get("files") if isinstance(value, dict) and value.get("format") == FORMAT else None
    if not isinstance(records, dict) or not all(isinstance(record, dict) for record in records.values()):
        raise ArgumentError(f"{CONTENTS} is no list of files of format {FORMAT}")
    if not records:
        raise ArgumentError(f"{CONTENTS} lists no files")
    return records


def _read(file: ZipFile, member: ZipInfo, limit: int) -> bytes:
    """The content, of which no more is made than the limit, whatever the pack says about its size."""
    with file.open(member) as stream:
        content = stream.read(min(member.file_size, limit) + 1)
    if len(content) > limit or member.file_size > limit:
        raise ArgumentError(f"{member.filename!r} has more than {limit} bytes")
    if len(content) != member.file_size:
        raise ArgumentError(f"{member.filename!r} does not have the size that the pack says")
    return content
