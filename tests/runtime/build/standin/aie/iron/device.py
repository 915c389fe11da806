"""Tiles and devices. Up to 1.3.1 tiles are equal by place, later every Tile is one of its own."""

from __future__ import annotations

import enum
from typing import Any

from .._standin import since
from .._standin.record import TileOp, current
from .._standin.signatures import checked

__all__ = ["AnyComputeTile", "AnyMemTile", "AnyShimTile", "Device", "Tile", "tile_kind", "typed"]


class AIETileType(enum.Enum):
    """As in aie.dialects."""

    CoreTile = "core"
    MemTile = "memtile"
    ShimNOCTile = "shim"


class Tile:
    """A place in the array."""

    @checked("Tile")
    def __init__(
        self, col: int | None, row: int | None, tile_type: AIETileType | None = None, allocation_scheme: Any = None
    ) -> None:
        self.col = col
        self.row = row
        self.tile_type = tile_type
        self.allocation_scheme = allocation_scheme
        self._op: TileOp | None = None

    @property
    def op(self) -> TileOp:
        """What it resolved to."""
        if self._op is None:
            raise ValueError("Cannot get op before it is set.")
        return self._op

    @op.setter
    def op(self, op: TileOp) -> None:
        if self._op is not None and self._op is not op:
            raise ValueError("Cannot change operation once it is set.")
        self._op = op

    if since("1.3.2"):

        def copy(self) -> Tile:
            """Another one of the same place."""
            return Tile(self.col, self.row, tile_type=self.tile_type)

    else:

        def __eq__(self, other: object) -> bool:
            return (self.col, self.row) == (other.col, other.row) if isinstance(other, Tile) else NotImplemented

        def __hash__(self) -> int:
            return hash((self.col, self.row))

    def __str__(self) -> str:
        return f"Tile({self.col}, {self.row})"


def typed(tile: Tile, tile_type: AIETileType) -> Tile:
    """Another one of the same place and that type, from 1.3.2 on; ValueError if it has another."""
    if tile.tile_type not in (None, tile_type):
        raise ValueError(f"Expected a {tile_type} tile, but got tile_type={tile.tile_type}")
    return Tile(tile.col, tile.row, tile_type=tile_type)


if since("1.3.2"):
    AnyShimTile: Any = Tile(tile_type=AIETileType.ShimNOCTile)
    AnyMemTile: Any = Tile(tile_type=AIETileType.MemTile)
    AnyComputeTile: Any = Tile(tile_type=AIETileType.CoreTile)
else:

    class AnyShimTile:  # type: ignore[no-redef]
        """To be placed by a placer."""

    class AnyMemTile:  # type: ignore[no-redef]
        """To be placed by a placer."""

    class AnyComputeTile:  # type: ignore[no-redef]
        """To be placed by a placer."""

    PlacementTile = Tile | AnyShimTile | AnyMemTile | AnyComputeTile


ROWS = 6


def tile_kind(row: int) -> AIETileType:
    """Row 0 is the shim, row 1 the memtile, the others are cores."""
    return (AIETileType.ShimNOCTile, AIETileType.MemTile)[row] if row < 2 else AIETileType.CoreTile


class Device:
    """A device: its name in MLIR and its columns. Made anew by every resolve, so it has no arguments."""

    name: str
    cols: int
    rows = ROWS

    def __init__(self) -> None:
        self._resolved: dict[Any, TileOp] = {}

    def get_tile_type(self, col: int, row: int) -> AIETileType:
        """What stands there; ValueError outside of the device."""
        if not (0 <= col < self.cols and 0 <= row < ROWS):
            raise ValueError(f"Coordinates ({col}, {row}) are out of range for device ({self.cols} cols x {ROWS} rows)")
        return tile_kind(row)

    def resolve_tile(self, tile: Any) -> None:
        """Give the tile its operation: one per place up to 1.3.2, one per Tile later."""
        if not since("1.3.2"):
            place = (tile.col, tile.row)  # an Any tile has none: AttributeError
            kinds = [[tile_kind(row) for row in range(ROWS)] for _ in range(self.cols)]
            kind = kinds[place[0]][place[1]]  # IndexError outside of the device
            tile.op = self._resolved.setdefault(place, TileOp(kind.value, *place))
        elif id(tile) in self._resolved:
            tile.op = self._resolved[id(tile)]
        else:
            tile.op = self._resolved[id(tile)] = self._logical(tile)
        if tile.op not in current().tiles:
            current().tiles.append(tile.op)

    def _logical(self, tile: Tile) -> TileOp:
        placed = tile.col is not None and tile.row is not None
        shared = not since("1.3.4") and placed
        if shared and (tile.col, tile.row) in self._resolved:
            return self._resolved[tile.col, tile.row]
        kind = tile.tile_type
        if kind is None:
            if tile.col is None or tile.row is None:
                raise ValueError(f"Cannot resolve {tile}: tile_type must be set or inferred from coordinates.")
            kind = self.get_tile_type(tile.col, tile.row)
        elif shared and kind != self.get_tile_type(tile.col, tile.row):  # type: ignore[arg-type]
            raise ValueError(f"Tile at ({tile.col}, {tile.row}) has tile_type={kind}, but coordinates indicate another")
        op = TileOp(kind.value, tile.col, tile.row)
        if shared:
            self._resolved[tile.col, tile.row] = op
        return op


def _devices() -> dict[str, type[Device]]:
    found = {}
    for family, columns in (("NPU1", 4), ("NPU2", 8)):
        for cols in range(1, columns + 1):
            name = family if cols == columns else f"{family}Col{cols}"
            mlir = family.lower() if cols == columns else f"{family.lower()}_{cols}col"
            found[name] = type(name, (Device,), {"name": mlir, "cols": cols})
    return found


globals().update(_devices())

if since("1.3.4"):

    @checked("from_name", method=False)
    def from_name(name: str, n_cols: int | None) -> Device:
        """The device of a name such as "npu2"; ValueError if there is none."""
        family = {"npu": "NPU1", "npu1": "NPU1", "npu2": "NPU2"}.get(name.lower())
        if family is None:
            raise ValueError(f"Unknown device name {name!r}")
        columns = globals()[family].cols
        if n_cols is not None and not 1 <= n_cols <= columns:
            raise ValueError(f"n_cols must be in 1..{columns} (or None for max) for {family}, got {n_cols}")
        made: Device = globals()[family if n_cols in (None, columns) else f"{family}Col{n_cols}"]()
        return made
