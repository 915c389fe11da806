"""What an object file defines and what it needs.

ELF is read, the format on Linux and, because llvmlite asks for it, on Windows. On macOS (Mach-O) only the functions
*declared* in the IR can be checked: calls that the code generator introduces are not seen there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from npu_tensor.errors import BuildError

__all__ = ["Symbols", "read_symbols"]

# Sizes and codes of the ELF64 format.
_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_SECTION_HEADER_TABLE_OFFSET = 0x28
_SECTION_COUNT_OFFSET = 0x3C
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE_SECTION = 2
_UNDEFINED_SECTION = 0
_LOCAL_BINDING = 0


class Symbols(NamedTuple):
    """The global symbols of one object file."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(data: bytes) -> Symbols | None:
    """The global symbols of a 64-bit little-endian ELF object, or None when `data` is in another format.

    Raises BuildError when the object is cut short or its tables point outside it.
    """
    if data[:6] != _ELF64_LITTLE_ENDIAN:
        return None
    defined, undefined = set(), set()
    try:
        for name, information, section in _elf_symbols(data):
            if section == _UNDEFINED_SECTION:
                undefined.add(name)
            elif information >> 4 != _LOCAL_BINDING:
                defined.add(name)
    except (struct.error, ValueError, IndexError) as error:
        raise BuildError(f"damaged ELF object: {error}") from error
    return Symbols(frozenset(defined), frozenset(undefined))


def _elf_symbols(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, st_info, section index) of every named symbol."""
    (table,) = struct.unpack_from("<Q", data, _SECTION_HEADER_TABLE_OFFSET)
    (count,) = struct.unpack_from("<H", data, _SECTION_COUNT_OFFSET)
    headers = [_SECTION_HEADER.unpack_from(data, table + i * _SECTION_HEADER.size) for i in range(count)]
    for header in headers:
        _, kind, _, _, offset, size, names_section, *_ = header
        if kind != _SYMBOL_TABLE_SECTION:
            continue
        names_offset = headers[names_section][4]
        for position in range(offset, offset + size, _SYMBOL.size):
            name, information, _, section, _, _ = _SYMBOL.unpack_from(data, position)
            start = names_offset + name
            text = data[start : data.index(b"\0", start)].decode("utf-8", "replace")
            if text:
                yield text, information, section
