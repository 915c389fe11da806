"""Memory of buffer objects, of which host and NPU have a copy each, as with caches that are not coherent.

The model: the host copy is a write-back cache of lines of 64 bytes. A line is dirty if it is not what the last sync
left there. A sync flushes lines whichever its direction is (clflush_data in xdna-driver, src/shim/buffer.cpp), and a
cache may also write dirty lines back whenever it likes. The least convenient moments are taken:

- the NPU reads the device copy only: what was not synced to the device it does not see;
- when the NPU has written a buffer, its dirty lines are written back over the result at once;
- a sync from the device first writes dirty lines back, then reads the device copy;
- a sync to the device copies everything, also lines that the NPU has changed since.

A new buffer has a host copy of zeros, all dirty, and a device copy of 0xFF. Freed memory becomes 0xDB.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Final

import numpy as np

__all__ = ["FREED", "UNWRITTEN", "Memory", "Owner"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

LINE: Final = 64
PAGE: Final = 4096
UNWRITTEN: Final = 0xFF
FREED: Final = 0xDB


def _pages(nbytes: int) -> Bytes:
    """Zeros from the start of a page to the end of a line, so that lines are whole."""
    lines = -(-nbytes // LINE) * LINE
    memory: Bytes = np.zeros(lines + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    return memory[start : start + lines]


class Memory:
    """Of one buffer object.

    address: on the device, which sees that of the process. slot: of the context that its group names; 0 for none.
    """

    __slots__ = ("_clean", "_device", "_host", "address", "alive", "device", "host", "nbytes", "slot")

    def __init__(self, nbytes: int, slot: int) -> None:
        self.nbytes = nbytes
        self.slot = slot
        self.alive = True
        self._host, self._device = _pages(nbytes), _pages(nbytes)
        self._device[:] = UNWRITTEN
        self.address = self._host.ctypes.data
        # Differs from the zeros of the host copy everywhere.
        self._clean = self._device.copy()
        self.host, self.device = self._host[:nbytes], self._device[:nbytes]

    def to_device(self) -> None:
        """Flush all lines."""
        self._device[:] = self._host
        self._clean[:] = self._host

    def from_device(self) -> None:
        """Flush what is dirty, then read it all anew."""
        self.written_by_npu()
        self._host[:] = self._device
        self._clean[:] = self._host

    def written_by_npu(self) -> bool:
        """Let the cache write dirty lines back over what the NPU wrote there. Whether there were any."""
        if self._host.tobytes() == self._clean.tobytes():
            return False
        host, clean, device = (memory.reshape(-1, LINE) for memory in (self._host, self._clean, self._device))
        dirty = (host != clean).any(axis=1)
        device[dirty] = host[dirty]
        # They are in memory now, and the cache keeps them: clean, but perhaps older than what the NPU writes next.
        clean[dirty] = host[dirty]
        return True

class Owner:
    """Keeps the memory of a buffer object, which is freed when this goes."""

    __slots__ = ("_token",)

    def __init__(self, memory: Memory, freed: Any) -> None:
        # Not by __del__: when the garbage collector finds a cycle it calls that of everything in it, also of what
        # another __del__ then keeps alive. It does neither look at arrays nor at pybind's objects.
        self._token = np.empty(0, np.uint8)
        key = next(_keys)

        def free(_: object) -> None:
            # No lock: this may run inside of any other call, in any thread.
            del _living[key]
            memory.alive = False
            memory.host.fill(FREED)
            freed.append(memory.nbytes)

        _living[key] = weakref.ref(self._token, free)


_keys: Final = itertools.count()
_living: Final[dict[int, weakref.ref[Bytes]]] = {}
