"""Members of zip archives that are stored without compression, so that their bytes can be mapped."""

from __future__ import annotations

import json
import struct
from typing import IO, Any, BinaryIO, Final
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from npu_tensor.functions.serialization import Array, mapped_bytes

__all__ = ["aligned_member", "mapped_member", "opened_archive", "parsed_member"]

_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""Header before a member, with the lengths of its name and of the extra field that follow."""

_ALIGNMENT: Final = 64
_ZIP64_BYTES: Final = 20
"""Length of the field that zipfile adds to members whose size is not known in advance."""


def opened_archive(file: BinaryIO) -> ZipFile | None:
    """Open a zip archive, or return None for a file that is not one or is damaged."""
    try:
        return ZipFile(file)
    except Exception:  # Damaged fields raise errors of many types.
        return None


def mapped_member(archive: ZipFile, name: str) -> Array:
    """Return the bytes of a member, mapped if the archive is a file on a disk.

    Raises:
        KeyError: There is no such member.
        ValueError: It is compressed or encrypted, or the archive is damaged.
    """
    info, file = archive.getinfo(name), _file(archive)
    if info.compress_type != ZIP_STORED or info.flag_bits & 1:
        raise ValueError(f"{name!r} is compressed or encrypted")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
        raise ValueError(f"{name!r} has no header")
    _, *lengths = _LOCAL_HEADER.unpack(header)
    return mapped_bytes(file, info.header_offset + _LOCAL_HEADER.size + sum(lengths), info.file_size)


def parsed_member(archive: ZipFile, name: str) -> Any:
    """Return a member that is JSON, with its checksum verified. A compressed one is refused: its size has no bound.

    Raises:
        KeyError: There is no such member.
        ValueError: It is not JSON, or compressed.
        zipfile.BadZipFile: It is damaged.
    """
    mapped_member(archive, name)
    return json.loads(archive.read(name))


def aligned_member(archive: ZipFile, name: str) -> IO[bytes]:
    """Open a new member to be written, whose first byte has an aligned position in the file."""
    member = ZipInfo(name)
    start = _file(archive).tell() + _LOCAL_HEADER.size + len(name.encode()) + _ZIP64_BYTES + 4
    padding = -start % _ALIGNMENT
    member.extra = struct.pack("<HH", 0x544E, padding) + bytes(padding)
    return archive.open(member, "w", force_zip64=True)


def _file(archive: ZipFile) -> BinaryIO:
    assert archive.fp is not None
    return archive.fp  # type: ignore[return-value]
