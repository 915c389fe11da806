"""Arrays that designs are made for: geometry, limits and rates, one record per generation.

All rates of NPUs are in rates.json, each with its source. Where a figure is a range, the value is inside it and the
source names the chosen end. Limits come from the compilers' own checks and the AIE-ML architecture manual (AM020). A
core's data memory, DMA channels, buffer descriptors and locks are the same in both generations; geometry, rates and
clocks are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from npu_tensor.config import config
from npu_tensor.errors import DeviceError

Arch = Literal["aie2", "aie2p"]
TileKind = Literal["shim", "memtile", "core"]


class Tile(NamedTuple):
    """Position in the array: row 0 is the shim (host memory), row 1 the memtile, rows 2 to 5 are cores."""

    column: int
    row: int

    @property
    def kind(self) -> TileKind:
        """Kind of tile at this position."""
        return "shim" if self.row == 0 else "memtile" if self.row == 1 else "core"

    def __str__(self) -> str:
        return f"{self.kind} ({self.column},{self.row})"


class Blocks(NamedTuple):
    """Block product of a core, r x s by s x t, and the results kept in registers, rows x columns blocks."""

    r: int
    s: int
    t: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Array:
    """One generation of the array.

    Attributes:
        arch: Name of the generation.
        device: Name of the device.
        columns: Number of columns.
        macs_per_cycle: Multiply-accumulates of one core per cycle by operand dtype. "bfp16" are bfloat16 numbers of
            which eight share an exponent during the multiplication, and "bfloat16_lanes" those that are multiplied lane
            by lane. float32 is emulated with bfloat16 products.
        blocks: Block shapes of matrix products by operand dtype, those of aie_api for two operands of one type. The
            sums of one register block fill 8192 bits.
        block_cycles: Cycles of a 4x8x4 product of bfloat16, with which float32 is emulated.
        vector_bytes: Alignment of the widest vector in bytes (aie_api, ld_st.hpp).
        load_bytes: Bytes loaded per cycle and core: two loads of 256 bits (AM020) or 512.
        store_bytes: Bytes stored per cycle and core: one store of 256 bits (AM020) or 512.
        full_elfs: True if several configurations are stored in a full ELF, which mlir-aie calls a feature of NPU2 and
            tests there only. Otherwise they are stored in an xclbin of several kernels.
        clock_hz: Clock of cores and streams.
        ddr_bytes_per_second: Host memory bandwidth of all columns together in long runs.
        read_start_cycles: Cycles that the first transfer of a shim channel from host memory waits for its data.
        read_cycles: The same for each further transfer of the channel.
        write_start_cycles: Cycles before the first transfer of a shim channel to host memory.
        write_cycles: The same for each further transfer of the channel.
        queue_start_cycles: Cycles until the controller has queued the first transfer of a run.
        queue_cycles: The same for each further transfer.
        wait_cycles: Cycles from the end of a transfer until the controller, which waits for it, goes on.
        parameter_seconds: Time to write one word of a runtime parameter.
        dispatch_seconds: Time from the start of an empty kernel until the host sees its end, measured from C++.
        core_rows: Number of core rows.
    """

    arch: Arch
    device: str
    columns: int
    macs_per_cycle: Mapping[str, int] = field(hash=False)
    blocks: Mapping[str, Blocks] = field(hash=False)
    block_cycles: int
    vector_bytes: int
    load_bytes: int
    store_bytes: int
    full_elfs: bool
    clock_hz: float
    ddr_bytes_per_second: float
    read_start_cycles: int
    read_cycles: int
    write_start_cycles: int
    write_cycles: int
    queue_start_cycles: int
    queue_cycles: int
    wait_cycles: int
    parameter_seconds: float
    dispatch_seconds: float
    core_rows: int = 4

    def tiles(self, columns: int) -> list[Tile]:
        """Return the core tiles of the first `columns` columns, column by column."""
        return [Tile(column, row) for column in range(columns) for row in range(2, 2 + self.core_rows)]

    def most_macs(self, dtype: str) -> int:
        """Return the multiply-accumulates of a core per cycle in the fastest product of a dtype; 1 without one."""
        rates = self.macs_per_cycle
        return rates.get(f"{dtype}_lanes", rates.get(dtype, 1))


RATES: Final[Mapping[str, Mapping[str, Any]]] = {
    section: {name: figure["value"] for name, figure in figures.items()}
    for section, figures in json.loads(Path(__file__).with_name("rates.json").read_text("utf-8")).items()
}
"""Values of rates.json: rates of both arrays and of each by device, clocks by processor, and shares by power mode."""

STREAM_BYTES_PER_CYCLE: Final[int] = RATES["both"]["stream_bytes_per_cycle"]
"""Bytes per cycle on every DMA channel."""


def _rates(device: str) -> dict[str, Any]:
    names = {each.name for each in fields(Array)}
    return {name: value for name, value in RATES[device].items() if name in names}


ARRAYS: Final[Mapping[str, Array]] = MappingProxyType(
    {
        "aie2": Array(
            "aie2",
            "npu1",
            columns=4,
            macs_per_cycle=MappingProxyType({"int8": 256, "int16": 64, "bfloat16": 128, "int32": 16, "float32": 14}),
            blocks=MappingProxyType(
                {
                    "bfloat16": Blocks(4, 8, 4, 4, 4),
                    "int8": Blocks(4, 8, 8, 4, 2),
                    "int16": Blocks(4, 4, 4, 4, 2),
                    "float32": Blocks(4, 8, 4, 2, 2),
                }
            ),
            block_cycles=1,
            vector_bytes=32,
            load_bytes=64,
            store_bytes=32,
            full_elfs=False,
            **_rates("npu1"),
        ),
        "aie2p": Array(
            "aie2p",
            "npu2",
            columns=8,
            macs_per_cycle=MappingProxyType(
                {
                    "int8": 512,
                    "int16": 128,
                    # aie_api has no instruction for 4x8x8. It computes the product as 8 element products (mac_elem_32)
                    # of operands that 17 shuffles and broadcasts spread from A's block and 8 from B's. One unit
                    # executes those. A register block of 4 x 2 shares them among 2 and 4 products: 10.5 cycles for 256.
                    # amd/IRON measures 25 with one column (2048 cubed in 47.8 ms).
                    "bfloat16": 24,
                    # Element products of a broadcast number and 32 numbers of a row.
                    "bfloat16_lanes": 32,
                    # 4 of 6 cycles multiply 8x8x8, and 2 widen blocks of B, before both operands are converted.
                    "bfp16": 341,
                    "int32": 32,
                    "float32": 28,
                }
            ),
            blocks=MappingProxyType(
                {
                    "bfloat16": Blocks(4, 8, 8, 4, 2),
                    "bfloat16_lanes": Blocks(4, 2, 16, 4, 2),
                    "bfp16": Blocks(8, 8, 8, 2, 2),
                    "int8": Blocks(8, 8, 8, 2, 2),
                    "int16": Blocks(4, 4, 8, 2, 2),
                    "float32": Blocks(4, 8, 4, 2, 2),
                }
            ),
            block_cycles=8,  # aie_api's products of 32 lanes, half of them unused
            vector_bytes=64,
            load_bytes=128,
            store_bytes=64,
            full_elfs=True,
            **_rates("npu2"),
        ),
    }
)

ARRAY_NAMES: Final[Mapping[Arch, tuple[str, ...]]] = MappingProxyType(
    {
        "aie2": ("aie2", "npu1", "Phoenix", "Hawk Point", "1022:1502"),
        "aie2p": (
            "aie2p",
            "npu2",
            "npu4",
            "npu5",
            "npu6",
            "Strix",
            "Strix Point",
            "Strix Halo",
            "Krackan",
            "Krackan 1",
            "Krackan 2",
            "Gorgon Point 1",
            "Gorgon Point 2",
            "Gorgon Point 3",
            "1022:17f0",
        ),
    }
)
"""Names of each generation used by compilers, by the driver (one number per processor), for processors, and on PCI."""


def arch_of(name: str) -> Arch:
    """Return the generation of a name.

    Case does not matter. XRT's spellings "NPU Strix" and "RyzenAI-npu4" are accepted too.

    Raises:
        DeviceError: The name is unknown. The message lists the known names.
    """
    plain = _plain(name)
    spelled = {plain, plain.removeprefix("npu"), plain.removeprefix("ryzenai")}
    for arch, names in ARRAY_NAMES.items():
        if not spelled.isdisjoint(map(_plain, names)):
            return arch
    known = "; ".join(f"{arch}: {', '.join(names)}" for arch, names in ARRAY_NAMES.items())
    raise DeviceError(f"there is no array {name!r}; there are {known}")


def configured_arch() -> Arch | None:
    """Return the generation set by NPU_TENSOR_ARCH, or None.

    Raises:
        DeviceError: The name is unknown. The message contains the variable.
    """
    if not config.arch:
        return None
    try:
        return arch_of(config.arch)
    except DeviceError as error:
        raise DeviceError(f"{config.origin('arch')}: {error}") from None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())
