"""The kernel that multiplies packed panels and applies the epilogue to each tile of the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from npu_tensor._util.cache_sizes import MODULES
from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.gemm_micro import byte_offset, load_number, load_value
from npu_tensor.runtime.cpu.gemm_tile import TileSpec, emit_sums
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.primitive_ir import emit_program
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value

__all__ = ["MULTIPLY_META", "GemmSpec", "multiply_module"]

# The leading int64 numbers of the multiply kernel's meta array. Then follow the row strides of outputs and tensor
# operands, and for every product of the batch the offsets of A, B, outputs and tensor operands. All sizes, strides and
# offsets of memory are in bytes. Panels are the rows of A and the columns of B that a tile reads. The sizes of panels
# are for packed operands. For others there are the strides of lines (rows of A, columns of B; in the outer form one
# element along K of B) and of the steps of A; in the inner form, `rest` elements along K are left after the steps.
MULTIPLY_META = (
    *("m", "n", "steps", "rest", "a_panels", "b_panels", "block_panels", "blocks"),
    *("a_panel_bytes", "b_panel_bytes", "a_line_bytes", "b_line_bytes", "a_step_bytes"),
    *("pack", "pack_meta"),  # of a product that packs B panel by panel: see `_compute_strips`
)

# A longer epilogue is not written once for each vector of a tile.
_SHORT_PROGRAM = 6


class GemmSpec(NamedTuple):
    """Parameters of the kernel that multiplies.

    The epilogue is elementwise: load slot 0 is the sum, slot i the operand i - 1. An operand's access is "row"
    (consecutive columns), "column" (one element for all columns) or "number" (a run-time scalar).
    """

    tile: TileSpec
    outputs: tuple[str, ...]  # memory dtypes
    epilogue: Program
    operands: tuple[tuple[str, str], ...]  # (memory dtype, access)
    strips: bool = False  # panels of B are packed when they are needed


class _MultiplyWriter:
    """Writes the multiply kernel. A work item is one tile of the result."""

    def __init__(self, spec: GemmSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.shape = spec.tile
        self.unit = spec.tile.unit
        self.emitter = Emitter(target)
        meta, pointers = Value("%meta", "ptr"), Value("%pointers", "ptr")
        self.pointers = pointers
        self.meta = {field: load_value(self.emitter, "i64", meta, i) for i, field in enumerate(MULTIPLY_META)}
        # Slots of tensors, in the order of the row strides and the offsets of the meta array.
        tensors = [i for i, (_, access) in enumerate(spec.operands) if access != "number"]
        first_operand = 2 + len(spec.outputs)
        slots = [*range(2, first_operand), *(first_operand + i for i in tensors)]
        self.memory = {slot: position for position, slot in enumerate(slots)}
        self.row_strides = byte_offset(self.emitter, meta, 8 * len(MULTIPLY_META))
        self.offsets = byte_offset(self.emitter, self.row_strides, 8 * len(slots))

    def module(self, name: str) -> str:
        emitter, tile = self.emitter, self.shape
        # Columns of the sums in memory, which are read by whole vectors even if a tile has fewer columns.
        self.row_bytes = max(tile.columns, emitter.lanes) * self.unit.bytes
        self.sums = emitter.assign("ptr", f"alloca [{tile.rows * self.row_bytes} x i8], align 64")
        self.matrices = [load_value(emitter, "ptr", self.pointers, slot) for slot in range(2)]

        def compute_item(index: Value, _: list[Value]) -> None:
            rest, in_block = self._divide(index, "block_panels")
            rest, b_panel = self._divide(rest, "b_panels")
            product, block = self._divide(rest, "blocks")
            a_panel = emitter.add(emitter.mul(block, self.meta["block_panels"]), in_block)
            exists = emitter.compare("slt", a_panel, self.meta["a_panels"])
            emitter.branch(exists, lambda: compute_tile(product, a_panel, b_panel), lambda: ())

        def compute_tile(product: Value, a_panel: Value, b_panel: Value) -> None:
            row_of_table = emitter.mul(product, 8 * (2 + len(self.memory)))
            self.table = byte_offset(emitter, self.offsets, row_of_table)
            a, b = (
                byte_offset(emitter, matrix, load_value(emitter, "i64", self.table, position))
                for position, matrix in enumerate(self.matrices)
            )
            sums = emit_sums(emitter, tile, self.meta, a, b, a_panel, b_panel)
            self._store_tile(sums, emitter.mul(a_panel, tile.rows), emitter.mul(b_panel, tile.columns))

        if self.spec.strips:
            self._compute_strips(compute_tile)
        else:
            emitter.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), compute_item)
        signature = f"@{name}(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)"
        return emitter.module(emitter.function(signature))

    def _compute_strips(self, compute_tile: Callable[[Value, Value, Value], None]) -> None:
        """Compute the products of blocks of panels of A with one panel of B each, which is packed before.

        The panel is on the stack, and so in the caches while a thread computes one item after the other.
        """
        emitter, panel_bytes, operand = self.emitter, self.meta["b_panel_bytes"], self.matrices[1]
        panel = emitter.assign("ptr", f"alloca i8, i64 {panel_bytes.name}, align 64")
        pointers = emitter.assign("ptr", "alloca [2 x ptr], align 8")
        emitter.statement(f"store ptr {operand.name}, ptr {byte_offset(emitter, pointers, 8).name}")
        numbers = (self.meta["pack"], self.meta["pack_meta"])
        kernel, meta = (emitter.assign("ptr", f"inttoptr i64 {number.name} to ptr") for number in numbers)

        def compute_strip(strip: Value, _: list[Value]) -> None:
            rest, b_panel = self._divide(strip, "b_panels")
            product, block = self._divide(rest, "blocks")
            offset = emitter.mul(product, 8 * (2 + len(self.memory)))
            matrix = load_value(emitter, "i64", byte_offset(emitter, self.offsets, offset), 1)
            number = emitter.add(emitter.op("udiv", matrix, panel_bytes), b_panel)
            # Address of packed B if all of it were packed.
            self.matrices[1] = byte_offset(emitter, panel, emitter.sub(0, emitter.mul(number, panel_bytes)))
            emitter.statement(f"store ptr {self.matrices[1].name}, ptr {pointers.name}")
            items = f"i64 {number.name}, i64 {emitter.add(number, 1).name}"
            emitter.statement(f"call void {kernel.name}(ptr {pointers.name}, ptr {meta.name}, {items})")
            first = emitter.mul(block, self.meta["block_panels"])
            last = emitter.smaller(emitter.add(first, self.meta["block_panels"]), self.meta["a_panels"])
            emitter.loop(first, last, 1, (), lambda a_panel, _: compute_tile(product, a_panel, b_panel))

        emitter.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), compute_strip)

    def _divide(self, index: Value, field: str) -> tuple[Value, Value]:
        quotient = self.emitter.op("udiv", index, self.meta[field])
        return quotient, self.emitter.sub(index, self.emitter.mul(quotient, self.meta[field]))

    def _store_tile(self, sums: list[Value], first_row: Value, first_column: Value) -> None:
        """Apply the epilogue to the part of the tile that exists."""
        emitter = self.emitter
        matrices = {slot: self._matrix(slot, position) for slot, position in self.memory.items()}

        def starts(row: Value) -> dict[int, Value]:
            matrix_row = emitter.add(first_row, row)
            return {
                slot: byte_offset(emitter, base, emitter.mul(matrix_row, stride))
                for slot, (base, stride) in matrices.items()
            }

        rows_left = emitter.sub(self.meta["m"], first_row)
        columns_left = emitter.sub(self.meta["n"], first_column)

        def from_memory() -> None:
            self._keep_sums(sums)
            rows = emitter.smaller(rows_left, self.shape.rows)
            columns = emitter.smaller(columns_left, self.shape.columns)

            def store_row(row: Value, _: list[Value]) -> None:
                places, kept = starts(row), byte_offset(emitter, self.sums, emitter.mul(row, self.row_bytes))

                def store_vector(column: Value, _: list[Value]) -> None:
                    left = emitter.sub(columns, column)
                    full = emitter.compare("sge", left, emitter.lanes)
                    at = emitter.add(first_column, column)
                    address = emitter.address(kept, column, self.unit.accumulate)

                    def store(mask: Value | None) -> None:
                        self._store_vector(places, emitter.load(self.unit.accumulate, address), at, mask)

                    emitter.branch(full, lambda: store(None), lambda: store(emitter.first_lanes(left)))

                emitter.loop(0, columns, emitter.lanes, (), store_vector)

            emitter.loop(0, rows, 1, (), store_row)

        def from_registers() -> None:
            vectors = self.shape.columns // emitter.lanes
            for row in range(self.shape.rows):
                places = starts(emitter.constant(row, "i64"))
                for j in range(vectors):
                    at = emitter.add(first_column, j * emitter.lanes)
                    self._store_vector(places, sums[row * vectors + j], at, None)

        if self.unit.bytes != 4 or len(self.spec.epilogue.instructions) > _SHORT_PROGRAM:
            from_memory()
            return
        whole = emitter.op(
            "and",
            emitter.compare("sge", rows_left, self.shape.rows),
            emitter.compare("sge", columns_left, self.shape.columns),
        )
        emitter.branch(whole, from_registers, from_memory)

    def _keep_sums(self, sums: list[Value]) -> None:
        """Put the accumulators into memory."""
        per_row = len(sums) // self.shape.rows
        for number, value in enumerate(sums):
            row, position = divmod(number, per_row)
            bytes_ = self.unit.bytes * (self.shape.columns // per_row)
            address = byte_offset(self.emitter, self.sums, row * self.row_bytes + position * bytes_)
            self.emitter.statement(f"store {value.type} {value.name}, ptr {address.name}, align {bytes_}")

    def _matrix(self, slot: int, position: int) -> tuple[Value, Value]:
        """Return address and row stride of an output or tensor operand of the current product."""
        base = load_value(self.emitter, "ptr", self.pointers, slot)
        offset = load_value(self.emitter, "i64", self.table, 2 + position)
        return byte_offset(self.emitter, base, offset), load_value(self.emitter, "i64", self.row_strides, position)

    def _store_vector(self, starts: dict[int, Value], sums: Value, matrix_column: Value, mask: Value | None) -> None:
        emitter, outputs = self.emitter, self.spec.outputs
        first_operand = 2 + len(outputs)

        def load(slot: int) -> Value:
            if slot == 0:
                return sums
            dtype, access = self.spec.operands[slot - 1]
            start = starts[first_operand + slot - 1]
            if access == "column":
                return emitter.load_scalar(dtype, start)
            return emitter.load(dtype, emitter.address(start, matrix_column, dtype), mask)

        def scalar(slot: int, dtype: str) -> Value:
            return load_number(emitter, self.pointers, first_operand + slot - 1, dtype)

        for output, value in enumerate(emit_program(emitter, self.spec.epilogue, load, scalar)):
            address = emitter.address(starts[2 + output], matrix_column, outputs[output])
            emitter.store(outputs[output], value, address, mask)


@lru_cache(maxsize=MODULES)
def multiply_module(name: str, spec: GemmSpec, target: CpuTarget) -> str:
    """Return the module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which computes some tiles.

    pointers  [A, B, outputs..., epilogue operands...]; A and B are packed or not; with strips, B is not
    meta      `MULTIPLY_META` and the fields in its comment
    """
    return _MultiplyWriter(spec, target).module(name)
