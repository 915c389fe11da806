"""Memory of the simulated NPU: tile memory, and buffers with separate copies for host and array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ALIGNMENT: Final = 64
"""Alignment in bytes that the widest vector access of a core needs."""

UNDEFINED: Final = 0xFF
"""Initial byte of memory: NaN as a float, -1 as an integer, so that reading it is noticed."""

_GUARD_BYTES: Final = 64


def _aligned(nbytes: int) -> Bytes:
    memory: Bytes = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


class DeviceBuffer:
    """Buffer with separate copies for host and array, as without coherent caches. Both start as zeros.

    Writes of one side become visible to the other only after a sync.

    Attributes:
        bytes: Copy of the host, aligned to 64 bytes.
        address: Address of that copy.
        device: Copy of the array, aligned to 64 bytes.
    """

    def __init__(self, nbytes: int) -> None:
        self.bytes = _aligned(nbytes)
        self.address = self.bytes.ctypes.data
        self.device = _aligned(nbytes)

    def to_device(self) -> None:
        """Copy the host's data to the array."""
        self.device[:] = self.bytes

    def from_device(self) -> None:
        """Copy the array's data to the host."""
        self.bytes[:] = self.device


class TileMemory:
    """Memory of all tiles of one loaded design. Guard bytes after every block reveal writes beyond its end."""

    _CHUNK: Final = 1 << 20

    def __init__(self) -> None:
        self._chunks: list[Bytes] = []
        self._used = self._CHUNK
        self._guards: list[tuple[Bytes, bytes, str]] = []

    def allocate(self, nbytes: int, owner: str) -> Bytes:
        """Allocate a block of `nbytes`, aligned to 64, filled with UNDEFINED. owner: its name in messages."""
        needed = -(-nbytes // ALIGNMENT) * ALIGNMENT + _GUARD_BYTES
        if not self._chunks or self._used + needed > len(self._chunks[-1]):
            # A guard at the start of every chunk, too.
            self._chunks.append(_aligned(max(self._CHUNK, needed + _GUARD_BYTES)))
            self._used = _GUARD_BYTES
            self._guard(0, _GUARD_BYTES, owner)
        chunk, start = self._chunks[-1], self._used
        self._used += needed
        block = chunk[start : start + nbytes]
        block[:] = UNDEFINED
        self._guard(start + nbytes, start + needed, owner)
        return block

    def _guard(self, start: int, stop: int, owner: str) -> None:
        # Guards differ, so that copying one block and the bytes after it over another is noticed.
        content = bytes([len(self._guards) % 251]) * (stop - start)
        guard = self._chunks[-1][start:stop]
        guard[:] = np.frombuffer(content, np.uint8)
        self._guards.append((guard, content, owner))

    def overwritten(self) -> str | None:
        """Return the owner of a block next to which data was written, or None if there is none."""
        for guard, content, owner in self._guards:
            if guard.tobytes() != content:
                return owner
        return None
