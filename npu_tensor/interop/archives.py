"""Members of zip archives that are stored without compression, so that their bytes can be mapped."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, Final
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from npu_tensor.functions.serialization import (
    Array,
    mapped_bytes,
    read_safetensors,
    tensor_of_array,
    write_safetensors,
)
from npu_tensor.tensor import Tensor

_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
"""Header before a member, with the lengths of its name and of the extra field that follow."""

_WEIGHTS: Final = "weights.safetensors"

_ALIGNMENT: Final = 64
_ZIP64_BYTES: Final = 20
"""Length of the field that zipfile adds to members whose size is not known in advance."""


class MappedArchive:
    """A zip archive whose uncompressed members share the memory of the mapped file.

    Raises:
        zipfile.BadZipFile: The file is not an archive or damaged. Damaged fields also raise errors of other types.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._zip = ZipFile(file)
        self._content = mapped_bytes(file, 0)
        self.names = self._zip.namelist()

    def member(self, name: str) -> Array:
        """Return the bytes of a member. Their checksum is not verified, as that would read all of them.

        Raises:
            KeyError: There is no such member.
            ValueError: It is compressed or encrypted, or the archive is damaged.
        """
        info, content = self._zip.getinfo(name), self._content
        if info.compress_type != ZIP_STORED or info.flag_bits & 1:
            raise ValueError(f"{name!r} is compressed or encrypted")
        header = content[info.header_offset : info.header_offset + _LOCAL_HEADER.size].tobytes()
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise ValueError(f"{name!r} has no header")
        _, *lengths = _LOCAL_HEADER.unpack(header)
        start = info.header_offset + _LOCAL_HEADER.size + sum(lengths)
        if start + info.file_size > content.size:
            raise ValueError(f"{name!r} ends after the file")
        return content[start : start + info.file_size]

    def verified(self, name: str) -> bytes:
        """Return a copy of a member, whose checksum is verified; raises errors as `member` and BadZipFile."""
        self.member(name)
        return self._zip.read(name)

    def parsed(self, name: str) -> Any:
        """Return a verified member that is JSON."""
        return json.loads(self.verified(name))


def strided_tensor(stored: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """Return a tensor of the elements in a member, which shares their memory if it is contiguous.

    Raises:
        ValueError: The tensor exceeds the member.
    """
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if min(*shape, *strides, offset, 0) < 0 or (0 not in shape and offset + reach >= stored.size):
        raise ValueError(f"a tensor of shape {shape} in {stored.size} elements")
    if 0 in shape:
        return tensor_of_array(np.zeros(shape, stored.dtype))
    steps = [stride * stored.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(stored[offset:], shape, steps, writeable=False)
    return tensor_of_array(np.require(view, requirements=["C", "ALIGNED"]))


def write_weights(archive: ZipFile, arrays: Mapping[str, Array]) -> None:
    """Add a member with arrays by name, whose first byte has an aligned position in the file."""
    assert archive.fp is not None
    info = ZipInfo(_WEIGHTS)
    start = archive.fp.tell() + _LOCAL_HEADER.size + len(_WEIGHTS) + _ZIP64_BYTES + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x544E, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=True) as member:
        write_safetensors(arrays, member)


def read_weights(archive: MappedArchive) -> dict[str, Tensor]:
    """Return the tensors by name that `write_weights` has added."""
    return read_safetensors(archive.member(_WEIGHTS))
