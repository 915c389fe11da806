"""The kernel that multiplies packed panels and applies the epilogue to each tile of the result."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.gemm_micro import (
    Blocking,
    Unit,
    byte_offset,
    emit_tile,
    load_number,
    load_value,
)
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.primitive_ir import emit_program
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value

__all__ = ["MULTIPLY_META", "GemmSpec", "multiply_module"]

# The leading int64 numbers of the multiply kernel's meta array. Then follow the row strides of outputs and
# tensor operands, and for every product of the batch the offsets of packed A, packed B, outputs and tensor
# operands. All sizes, strides and offsets of memory are in bytes.
MULTIPLY_META = ("m", "n", "steps", "a_panels", "b_panels", "block_panels", "blocks", "a_panel_bytes", "b_panel_bytes")


class GemmSpec(NamedTuple):
    """What the kernel that multiplies is compiled for.

    The epilogue is elementwise: load slot 0 is the sum, slot i the operand i - 1. An operand's access is "row"
    (consecutive columns), "column" (one element for all columns) or "number" (a run-time scalar).
    """

    unit: Unit
    rows: int  # of a tile
    columns: int  # of a tile
    outputs: tuple[str, ...]  # memory dtypes
    epilogue: Program
    operands: tuple[tuple[str, str], ...]  # (memory dtype, access)


class _MultiplyWriter:
    """Writes the multiply kernel. A work item is one tile of the result."""

    def __init__(self, spec: GemmSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.unit = spec.unit
        self.columns = spec.columns
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
        emitter = self.emitter
        tile_bytes = self.spec.rows * self.columns * self.unit.bytes
        self.tile = emitter.assign("ptr", f"alloca [{tile_bytes} x i8], align 64")
        packed_a, packed_b = (load_value(emitter, "ptr", self.pointers, slot) for slot in range(2))

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
            a = byte_offset(emitter, packed_a, load_value(emitter, "i64", self.table, 0))
            b = byte_offset(emitter, packed_b, load_value(emitter, "i64", self.table, 1))
            a = byte_offset(emitter, a, emitter.mul(a_panel, self.meta["a_panel_bytes"]))
            b = byte_offset(emitter, b, emitter.mul(b_panel, self.meta["b_panel_bytes"]))
            blocking = Blocking(self.unit, self.spec.rows, self.columns)
            emit_tile(emitter, blocking, a, b, self.meta["steps"], self.tile)
            self._store_tile(emitter.mul(a_panel, self.spec.rows), emitter.mul(b_panel, self.columns))

        emitter.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), compute_item)
        signature = f"@{name}(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)"
        return emitter.module(emitter.function(signature))

    def _divide(self, index: Value, field: str) -> tuple[Value, Value]:
        quotient = self.emitter.op("udiv", index, self.meta[field])
        return quotient, self.emitter.sub(index, self.emitter.mul(quotient, self.meta[field]))

    def _store_tile(self, first_row: Value, first_column: Value) -> None:
        """Apply the epilogue to the part of the tile that exists."""
        emitter = self.emitter
        rows = emitter.smaller(emitter.sub(self.meta["m"], first_row), self.spec.rows)
        columns = emitter.smaller(emitter.sub(self.meta["n"], first_column), self.columns)
        matrices = {slot: self._matrix(slot, position) for slot, position in self.memory.items()}

        def store_row(row: Value, _: list[Value]) -> None:
            matrix_row = emitter.add(first_row, row)
            starts = {
                slot: byte_offset(emitter, base, emitter.mul(matrix_row, stride))
                for slot, (base, stride) in matrices.items()
            }
            sums = byte_offset(emitter, self.tile, emitter.mul(row, self.columns * self.unit.bytes))

            def store_vector(column: Value, _: list[Value]) -> None:
                left = emitter.sub(columns, column)
                full = emitter.compare("sge", left, emitter.lanes)
                at = emitter.add(first_column, column)

                emitter.branch(
                    full,
                    lambda: self._store_vector(starts, sums, column, at, None),
                    lambda: self._store_vector(starts, sums, column, at, emitter.first_lanes(left)),
                )

            emitter.loop(0, columns, emitter.lanes, (), store_vector)

        emitter.loop(0, rows, 1, (), store_row)

    def _matrix(self, slot: int, position: int) -> tuple[Value, Value]:
        """Address and row stride of an output or tensor operand of the current product."""
        base = load_value(self.emitter, "ptr", self.pointers, slot)
        offset = load_value(self.emitter, "i64", self.table, 2 + position)
        return byte_offset(self.emitter, base, offset), load_value(self.emitter, "i64", self.row_strides, position)

    def _store_vector(
        self, starts: dict[int, Value], sums: Value, column: Value, matrix_column: Value, mask: Value | None
    ) -> None:
        emitter, outputs = self.emitter, self.spec.outputs
        first_operand = 2 + len(outputs)

        def load(slot: int) -> Value:
            if slot == 0:
                return emitter.load(self.unit.accumulate, emitter.address(sums, column, self.unit.accumulate))
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


@lru_cache(maxsize=256)
def multiply_module(name: str, spec: GemmSpec, target: CpuTarget) -> str:
    """The module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which computes some tiles.

    pointers  [packed A, packed B, outputs..., epilogue operands...]
    meta      `MULTIPLY_META` and what its comment says
    """
    return _MultiplyWriter(spec, target).module(name)
