"""Memory of which host and NPU have a copy each, as with caches that are not coherent.

The model: the host copy is a write-back cache of lines of 64 bytes. A line is dirty if it is not what the last sync
left there. A sync flushes lines whichever its direction is (clflush_data in xdna-driver, src/shim/buffer.cpp), and a
cache may also write dirty lines back whenever it likes. The least convenient moments are taken:

- the NPU reads the device copy only: what was not synced to the device it does not see;
- when the NPU has written a buffer, its dirty lines are written back over the result at once;
- a sync from the device first writes dirty lines back, then reads the device copy;
- a sync to the device copies everything, also lines that the NPU has changed since.

New memory has a host copy of zeros, all dirty, and a device copy of 0xFF. Freed memory becomes 0xDB.
"""

import itertools
import weakref
from typing import Any, Final

import numpy as np

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
    """A buffer. bytes, device: for host and NPU. A view of `bytes` does not keep it from being freed.

    living: the sizes of all memories that are not freed yet, by a number of their own.
    """

    _numbers = itertools.count()

    def __init__(self, nbytes: int, living: dict[int, int]) -> None:
        self.nbytes = nbytes
        self._host, self._device = _pages(nbytes), _pages(nbytes)
        self._device[:] = UNWRITTEN
        self.address = self._host.ctypes.data
        # Differs from the zeros of the host copy everywhere.
        self._clean = self._device.copy()
        self.bytes, self.device = self._host[:nbytes], self._device[:nbytes]
        # Not by __del__ or a weak reference to this: the garbage collector calls those of all that is in a cycle, also
        # of what another __del__ then keeps alive. It does not look at arrays.
        self._token = np.empty(0, np.uint8)
        number = next(self._numbers)
        living[number] = nbytes
        weakref.finalize(self._token, _free, self._host, number, living).atexit = False

    def to_device(self) -> None:
        """Flush all lines."""
        self._device[:] = self._host
        self._clean[:] = self._host

    def from_device(self) -> None:
        """Flush dirty lines, then read all lines again."""
        self.written_by_npu()
        self._host[:] = self._device
        self._clean[:] = self._host

    def fill_with_garbage(self, seed: int) -> None:
        """Fill the device copy with garbage."""
        self.device[:] = np.frombuffer(np.random.default_rng(seed).bytes(self.nbytes), np.uint8)

    def written_by_npu(self) -> bool:
        """Write dirty lines back over the data of the NPU. Return True if there were any."""
        if self._host.tobytes() == self._clean.tobytes():
            return False
        host, clean, device = (memory.reshape(-1, LINE) for memory in (self._host, self._clean, self._device))
        dirty = (host != clean).any(axis=1)
        device[dirty] = host[dirty]
        # They are in memory now. The cache keeps them: clean, but possibly older than the next write of the NPU.
        clean[dirty] = host[dirty]
        return True


def _free(host: Bytes, number: int, living: dict[int, int]) -> None:
    """Takes no lock, as it may run inside of any other call, in any thread."""
    host.fill(FREED)
    del living[number]
