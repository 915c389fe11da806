"""What an object file defines, what it needs, and what of it goes into memory.

ELF is read, the format on Linux and, because llvmlite asks for it, on Windows. On macOS (Mach-O) only the functions
*declared* in the IR can be checked: calls that the code generator introduces are not seen there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from npu_tensor.errors import BuildError

__all__ = ["Image", "Symbols", "read_image", "read_symbols"]

# Sizes and codes of the ELF64 format, and of its form for x86-64.
_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_MACHINE_OFFSET = 0x12
_SECTION_HEADER_TABLE_OFFSET = 0x28
_SECTION_COUNT_OFFSET = 0x3C
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_ADDRESS = struct.Struct("<Q")
_X86_64 = 62
_PROGRAM_BITS, _SYMBOL_TABLE, _RELOCATIONS = 1, 2, 4
_UNWINDING = 0x70000001  # SHT_X86_64_UNWIND: for exceptions, of which there are none
_WRITABLE, _IN_MEMORY = 1, 2
_UNDEFINED_SECTION = 0
_LOCAL_BINDING = 0
_ABSOLUTE_64 = 1  # R_X86_64_64


class Symbols(NamedTuple):
    """The global symbols of one object file."""

    defined: frozenset[str]
    undefined: frozenset[str]


class Image(NamedTuple):
    """Machine code and constants that may lie anywhere in memory.

    content: to be put at an address that is a multiple of `alignment`. pointers: where in it the address of another
    place in it belongs, and that place. functions: where those that are seen from outside begin.
    """

    content: bytes
    alignment: int
    pointers: tuple[tuple[int, int], ...]
    functions: dict[str, int]

    def placed_at(self, address: int) -> bytes:
        """The content, for an address."""
        placed = bytearray(self.content)
        for position, target in self.pointers:
            _ADDRESS.pack_into(placed, position, address + target)
        return bytes(placed)


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    about: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    local: bool
    section: int
    value: int


def read_symbols(data: bytes) -> Symbols | None:
    """The global symbols of a 64-bit little-endian ELF object, or None when `data` is in another format.

    Raises BuildError when the object is cut short or its tables point outside it.
    """
    if data[:6] != _ELF64_LITTLE_ENDIAN:
        return None
    with _reading():
        symbols = [symbol for symbol in _symbols(data, _sections(data)) if symbol.name and not symbol.local]
    undefined = frozenset(symbol.name for symbol in symbols if symbol.section == _UNDEFINED_SECTION)
    defined = frozenset(symbol.name for symbol in symbols if symbol.section != _UNDEFINED_SECTION)
    return Symbols(defined, undefined)


def read_image(data: bytes) -> Image | None:
    """What an ELF object for x86-64 puts into memory; None for other formats.

    None also where it takes a linker: for variables, for what other objects define, and for addresses in any other
    form than whole ones, which are all that the code model of a just-in-time compiler uses. BuildError as above.
    """
    if data[:6] != _ELF64_LITTLE_ENDIAN:
        return None
    with _reading():
        return _image(data) if struct.unpack_from("<H", data, _MACHINE_OFFSET) == (_X86_64,) else None


def _image(data: bytes) -> Image | None:
    sections = _sections(data)
    symbols = list(_symbols(data, sections))
    content = bytearray()
    starts: dict[int, int] = {}
    for number, section in enumerate(sections):
        if section.flags & _IN_MEMORY and section.size and section.kind != _UNWINDING:
            if section.kind != _PROGRAM_BITS or section.flags & _WRITABLE:
                return None
            content.extend(bytes(-len(content) % section.alignment))
            starts[number] = len(content)
            content.extend(data[section.offset : section.offset + section.size])
    pointers = []
    for section in sections:
        if section.kind == _RELOCATIONS and section.about in starts:
            for position in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, kind, number, addend = _RELOCATION.unpack_from(data, position)
                symbol = symbols[number]
                if kind != _ABSOLUTE_64 or symbol.section not in starts:
                    return None
                pointers.append((starts[section.about] + offset, starts[symbol.section] + symbol.value + addend))
    functions = {
        symbol.name: starts[symbol.section] + symbol.value
        for symbol in symbols
        if symbol.name and not symbol.local and symbol.section in starts
    }
    alignment = max((sections[number].alignment for number in starts), default=1)
    return Image(bytes(content), alignment, tuple(pointers), functions)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (struct.error, ValueError, IndexError) as error:
        raise BuildError(f"damaged ELF object: {error}") from error


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, _SECTION_HEADER_TABLE_OFFSET)
    (count,) = struct.unpack_from("<H", data, _SECTION_COUNT_OFFSET)
    return [
        _Section(*_SECTION_HEADER.unpack_from(data, table + number * _SECTION_HEADER.size)) for number in range(count)
    ]


def _symbols(data: bytes, sections: list[_Section]) -> Iterator[_Symbol]:
    """The entries of the symbol table, of which an object has one."""
    for section in sections:
        if section.kind != _SYMBOL_TABLE:
            continue
        names = sections[section.link].offset
        for position in range(section.offset, section.offset + section.size, _SYMBOL.size):
            name, information, _, home, value, _ = _SYMBOL.unpack_from(data, position)
            start = names + name
            text = data[start : data.index(b"\0", start)].decode("utf-8", "replace")
            yield _Symbol(text, information >> 4 == _LOCAL_BINDING, home, value)
