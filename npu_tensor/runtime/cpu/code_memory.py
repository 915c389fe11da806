"""Memory for machine code: many functions in few mappings of the process, freed when nobody can call them any more.

A process may have some 65,000 mappings (`vm.max_map_count`), and a linker needs two or three for each object file. Here
pages of one large mapping after the other are filled. A page is writable or executable, never both.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from functools import cache
from typing import Any, Final

from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu.object_file import Image

__all__ = ["Address", "Code", "CodeMemory"]

# Room for about 130 kernels, most of which take two pages.
_ARENA_PAGES: Final = 256


class Code:
    """The functions of one module, in memory for as long as this lives. functions: their addresses."""

    __slots__ = ("__weakref__", "_memory", "functions")

    def __init__(self, functions: dict[str, int], memory: object) -> None:
        self.functions = functions
        self._memory = memory

    def addresses(self) -> dict[str, Address]:
        """The functions by name."""
        return {name: Address(address, self) for name, address in self.functions.items()}


class Address(int):
    """Where a function begins. Whoever holds it keeps its code in memory."""

    _code: Code

    def __new__(cls, address: int, code: Code) -> Address:
        """code: what the function is part of."""
        self = super().__new__(cls, address)
        self._code = code
        return self


class _Arena:
    """One mapping. runs: the pages that have been given away, in order: first, one past the last, and the code."""

    def __init__(self, pages: int) -> None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a forked process has a copy
        self.memory = mmap.mmap(-1, pages * mmap.PAGESIZE, private, mmap.PROT_READ | mmap.PROT_WRITE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.pages = pages
        self.runs: list[tuple[int, int, weakref.ref[Code]]] = []

    def in_use(self) -> bool:
        """Whether somebody still holds code that is in it."""
        # Nothing runs when code goes, in whatever thread or moment that is: it is noticed here.
        self.runs = [run for run in self.runs if run[2]() is not None]
        return bool(self.runs)

    def room(self, pages: int) -> tuple[int, int] | None:
        """Where there is room for so many pages, and where in `runs` it belongs."""
        first = 0
        for position, (start, end, _) in enumerate(self.runs):
            if start - first >= pages:
                return first, position
            first = end
        return (first, len(self.runs)) if self.pages - first >= pages else None


class CodeMemory:
    """Puts images into memory. Not for several threads at once; code may go at any time in any thread."""

    available = sys.platform == "linux"

    def __init__(self) -> None:
        self._arenas: list[_Arena] = []

    @property
    def mappings(self) -> int:
        """Large mappings in use."""
        return len(self._arenas)

    def load(self, image: Image, names: dict[str, str]) -> Code:
        """The functions of an image, by name, and what each is called there. BuildError where there is no memory."""
        pages = max(1, -(-len(image.content) // mmap.PAGESIZE))
        if image.alignment > mmap.PAGESIZE:
            raise BuildError(f"machine code that is to be aligned to {image.alignment} bytes")
        try:
            arena, first, position = self._room(pages)
            address = arena.address + first * mmap.PAGESIZE
            functions = {name: address + image.functions[unique] for name, unique in names.items()}
            content = image.placed_at(address)
            _protect(address, pages, mmap.PROT_READ | mmap.PROT_WRITE)
            ctypes.memmove(address, content, len(content))
            _protect(address, pages, mmap.PROT_READ | mmap.PROT_EXEC)
        except (OSError, MemoryError) as error:  # such as too many mappings
            raise BuildError(f"no memory for machine code: {error}") from error
        code = Code(functions, arena)
        arena.runs.insert(position, (first, first + pages, weakref.ref(code)))
        return code

    def _room(self, pages: int) -> tuple[_Arena, int, int]:
        self._arenas = [arena for arena in self._arenas if arena.in_use()]
        for arena in self._arenas:
            found = arena.room(pages)
            if found is not None:
                return arena, *found
        arena = _Arena(max(pages, _ARENA_PAGES))
        self._arenas.append(arena)
        return arena, 0, 0


@cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _protect(address: int, pages: int, protection: int) -> None:
    if _mprotect()(address, pages * mmap.PAGESIZE, protection):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
