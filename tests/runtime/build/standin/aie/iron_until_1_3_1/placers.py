"""The placer that was there up to 1.3.1: takes the next free core, and the nearest tile with free DMA channels."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from .._standin.signatures import checked
from .dataflow import ObjectFifoLink
from .device import AIETileType, AnyComputeTile, AnyMemTile, AnyShimTile, Tile, tile_kind

__all__ = ["SequentialPlacer"]

CHANNELS = {AIETileType.CoreTile: 2, AIETileType.MemTile: 6, AIETileType.ShimNOCTile: 2}
"""DMA channels of a tile in each direction."""

KINDS = {AnyComputeTile: AIETileType.CoreTile, AnyMemTile: AIETileType.MemTile, AnyShimTile: AIETileType.ShimNOCTile}


class Placer:
    """What resolve_program takes."""


class SequentialPlacer(Placer):
    """Workers in order over the device's columns, then everything else near them."""

    @checked("SequentialPlacer")
    def __init__(self) -> None:
        self._used: Counter[tuple[Tile, bool]] = Counter()
        """Channels by tile and whether they lead out of it."""

    def make_placement(self, device: Any, rt: Any, workers: Any, object_fifos: Any) -> None:
        """Give every Any tile a place; ValueError if there is none."""
        self._used.clear()
        free = [Tile(col, row) for col in range(device.cols) for row in range(2, device.rows)]
        for worker in workers:
            if isinstance(worker.tile, Tile):
                if worker.tile not in free:
                    raise ValueError(
                        f"Partial Placement Error: Tile {worker.tile} not available on device {device} or has already"
                        " been used."
                    )
                free.remove(worker.tile)
        cores = list(free)
        for worker in workers:
            if worker.tile == AnyComputeTile:
                if not cores:
                    raise ValueError("Ran out of compute tiles for placement!")
                worker.place(cores.pop(0))
            for buffer in worker.buffers:
                buffer.place(worker.tile)
            for handle in worker.fifos:
                self._used[worker.tile, handle._is_prod] += 1
        for handle in object_fifos:
            self._place_ends(handle, free, device)

    def _place_ends(self, handle: Any, free: list[Tile], device: Any) -> None:
        columns = [end.tile.col for end in handle.all_of_endpoints() if end.tile in free]
        column = round(statistics.mean(columns)) if columns else 0
        ends = handle._object_fifo.endpoints(handle._is_prod)
        links = [end for end in handle.all_of_endpoints() if isinstance(end, ObjectFifoLink)]
        for end in (*ends, *links):
            if end.tile in (AnyMemTile, AnyShimTile):
                self._place(end, handle._is_prod, column, device)

    def _place(self, end: Any, producing: bool, column: int, device: Any) -> None:
        kind = KINDS[end.tile]
        if isinstance(end, ObjectFifoLink):
            needed = {False: len(end.sources), True: len(end.results)}
        else:
            needed = {producing: 1}
        row = next(row for row in range(device.rows) if tile_kind(row) is kind)
        for candidate in (Tile(col, row) for col in range(column, device.cols)):
            if all(self._used[candidate, way] + count <= CHANNELS[kind] for way, count in needed.items()):
                end.place(candidate)
                for way, count in needed.items():
                    self._used[candidate, way] += count
                return
        raise ValueError(
            f"Failed to find a tile matching column {column}: tried until column {device.cols}."
            " Try using a device with more columns."
        )
