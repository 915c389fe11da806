"""Buffers at one end of an object fifo, used in turn by one producer and one consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tensor.dataflow.array import Tile
from npu_tensor.runtime.sim.coroutines import Gate, Scheduler
from npu_tensor.runtime.sim.tile_memory import Bytes


class Ring:
    """Buffers in the memory of `tile`, which hold `produced - consumed` objects of `fifo`.

    Producer and consumer are each a worker or a DMA. Objects are numbered from 0 since the design was loaded; object i
    is stored in slots[i % depth].
    """

    def __init__(self, scheduler: Scheduler, fifo: str, tile: Tile, slots: Sequence[Bytes]) -> None:
        self.fifo = fifo
        self.tile = tile
        self.slots = slots
        self.addresses = [slot.ctypes.data for slot in slots]
        self.depth = len(slots)
        self.produced = 0
        self.consumed = 0
        self._objects = Gate(scheduler)
        self._room = Gate(scheduler)

    @property
    def held(self) -> int:
        """Objects in the ring that the consumer has not returned."""
        return self.produced - self.consumed

    def wait_for_objects(self, objects: int, matters: Callable[[], bool] | None = None) -> None:
        """Wait as the consumer until `objects` are available.

        matters: returns True if a deadlock should report this wait.
        """
        while self.produced - self.consumed < objects:
            self._objects.wait(lambda: self._says("consumer", objects) if matters is None or matters() else None)

    def wait_for_room(self, objects: int) -> None:
        """Wait as the producer until there is room for `objects` more."""
        while self.depth - (self.produced - self.consumed) < objects:
            self._room.wait(lambda: self._says("producer", objects))

    def produce(self, objects: int) -> None:
        """Pass the next objects on as the producer."""
        self.produced += objects
        self._objects.open()

    def consume(self, objects: int) -> None:
        """Return the first objects as the consumer."""
        self.consumed += objects
        self._room.open()

    def _says(self, role: str, objects: int) -> str:
        request = f", it asks for {objects}" if objects > 1 else ""
        return f"fifo {self.fifo}: {role} waits, {self.held} of {self.depth} objects held in {self.tile}{request}"
