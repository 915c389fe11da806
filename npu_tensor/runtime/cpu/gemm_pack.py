"""Kernels that copy an operand of a matrix product into the panels that the micro-kernel reads.

The operand is seen as *lines* (rows of A, columns of B) along K. Which of its two strides is one element
decides how a panel is copied: along K, square blocks are transposed in registers; across lines, vectors are
copied and the elements of a unit interleaved; otherwise, and for remainders, elements are copied one by
one. Elements past the end of K are zero in both operands, so they never add anything, not even to NaN or
infinity. An operand that has to be computed is computed block by block, into scratch memory from which
each block is copied in the same ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.gemm_micro import Elements, Unit, first_of, unit_lanes
from npu_tensor.runtime.cpu.ir_emitter import META, POINTERS, Emitter
from npu_tensor.runtime.cpu.primitive_ir import emit_program
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, Value


class PackPrologue(NamedTuple):
    """The program of an operand and how its inputs are read.

    The access of an input is "vector" (consecutive elements in the inner direction), "splat" (one element for all of
    them) or "number" (a run-time scalar).
    """

    program: Program  # elementwise, load and scalar slot i is input i; one result
    inputs: tuple[tuple[str, str], ...]  # (memory dtype, access)

    @property
    def tensors(self) -> list[int]:
        return [number for number, (_, access) in enumerate(self.inputs) if access != "number"]


class _Block(NamedTuple):
    """A part of the operand: `outer` x `inner` elements from some position on, all i64.

    inner_end  where the operand ends in the inner direction; the block may not, whole vectors are stored
    """

    outer_begin: Value
    outer: Value
    inner_begin: Value
    inner: Value
    inner_end: Value


# The stride that is one element: along K, across lines, or neither. Scattered lines and elements of K are where tables
# say: lines of some vectors are neighbours, or runs of elements of K.
LAYOUTS = ("along_k", "across_lines", "strided", "scattered", "runs")

# The leading int64 numbers of a pack kernel's meta array; strides and offsets are in bytes. The offset of
# each matrix inside the operand follows. With a prologue, the strides here are not used; there follow, for each
# of its tensors, the stride across its vectors, and then for every matrix the offset inside each of these tensors.
# For a scattered operand, the addresses of two tables come before the offsets, those of every k and of every line, and
# the address of a third, see `neighbours`; with runs, the elements of a run.
PACK_META = ("k", "steps", "lines", "panels", "line_stride", "k_stride", "panel_bytes")

_CACHE_LINE = 64  # bytes, and the size of the largest vector register
# Elements that a prologue computes at a time: they fit in the level-1 cache with its inputs and a part of the panel.
_SCRATCH_BYTES = 8 << 10


class PackSpec(NamedTuple):
    """Parameters of a pack kernel."""

    dtype: str
    unit: Unit
    layout: str  # one of LAYOUTS
    width: int  # lines per panel
    flip_sign: bool = False  # add 128 to int8 elements: A of an unsigned x signed product
    correct: bool = False  # begin each panel with -128 times the sum of each line: B of such a product
    rest: int = 0  # elements of K in the last unit, if that is not full, of a scattered operand
    prologue: PackPrologue | None = None  # computes the operand as if stored as `dtype`, with vectors along `layout`


def panel_bytes(spec: PackSpec, steps: int, target: CpuTarget) -> int:
    """Return the size of a packed panel: whole cache lines, with padding for stores after the last step."""
    lanes = unit_lanes(spec.unit, target)
    block_steps = steps + lanes if spec.layout == "runs" else -(-steps // lanes) * lanes
    used = (block_steps + int(spec.correct)) * spec.width * spec.unit.bytes
    return -(-(used + _CACHE_LINE) // _CACHE_LINE) * _CACHE_LINE


def _vector(lanes: int, element: str) -> str:
    return f"<{lanes} x {element}>"


def _block_size(line_bytes: int, multiple: int) -> int:
    """Return the largest power of two of elements along K that fits the scratch memory, at least `multiple`."""
    return max(multiple, 1 << ((_SCRATCH_BYTES // line_bytes).bit_length() - 1))


def neighbours(offsets: NDArray[np.int64], spec: PackSpec, target: CpuTarget) -> NDArray[np.bool_]:
    """Return True for each vector of each panel whose lines are neighbours, given the offset of every line."""
    panels = -(-offsets.size // spec.width)
    exists = (np.arange(panels * spec.width) < offsets.size).reshape(panels, spec.width)
    follows = np.zeros_like(exists)
    follows.reshape(-1)[1 : offsets.size] = np.diff(offsets) == ELEMENT_SIZE[spec.dtype]
    pieces = _pieces(spec.width, unit_lanes(spec.unit, target))
    columns = [exists[:, first] & follows[:, first + 1 : first + size].all(1) for first, size in pieces]
    return np.stack(columns, axis=1)


def _pieces(width: int, lanes: int) -> list[tuple[int, int]]:
    """Return (first line, lines) of vectors that cover a panel: whole registers, then smaller powers of two."""
    pieces, first = [], 0
    while first < width:
        size = min(lanes, 1 << ((width - first).bit_length() - 1))
        pieces.append((first, size))
        first += size
    return pieces


class _PackWriter:
    """Writes one pack kernel."""

    def __init__(self, spec: PackSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.unit = spec.unit
        self.lanes = unit_lanes(spec.unit, target)
        self.element_bytes = ELEMENT_SIZE[spec.dtype]
        self.emitter = Emitter(target)
        self.elements = Elements(self.emitter, spec.unit, spec.dtype, spec.flip_sign)
        # Without AVX512, LLVM makes a branch per element of most masked loads.
        self.masked = target.has_avx512
        self.meta = self.emitter.named_numbers(PACK_META)

    def text(self) -> str:
        emitter = self.emitter
        packed, operand = emitter.addresses(2)
        self.table = table = emitter.byte_offset(META, 8 * len(PACK_META))
        if self.spec.layout in ("scattered", "runs"):
            self.k_offsets, self.line_offsets = (emitter.load_value("ptr", table, i) for i in range(2))
            if self.spec.layout == "runs":
                self.run_length = emitter.load_value("i64", table, 2)
            else:
                self.neighbours = emitter.load_value("ptr", table, 2)
            table = emitter.byte_offset(table, 8 * 3)
        if self.spec.prologue is not None:
            self.scratch = emitter.assign("ptr", f"alloca [{_SCRATCH_BYTES} x i8], align 64")

        def pack_panel(index: Value, _: list[Value]) -> None:
            matrix = emitter.op("udiv", index, self.meta["panels"])
            first = emitter.mul(emitter.op("urem", index, self.meta["panels"]), self.spec.width)
            self.valid = emitter.smaller(emitter.sub(self.meta["lines"], first), self.spec.width)
            self.panel = destination = emitter.byte_offset(packed, emitter.mul(index, self.meta["panel_bytes"]))
            if self.spec.correct:
                self.panel = emitter.byte_offset(destination, self.spec.width * self.unit.bytes)
            if self.spec.prologue is not None:
                self._compute_blocks(self.spec.prologue, matrix, first)
            else:
                offset = emitter.load_value("i64", emitter.address(table, matrix, "int64"))
                self.source = emitter.byte_offset(operand, offset)
                if self.spec.layout == "scattered":
                    self._copy_scattered(emitter.op("urem", index, self.meta["panels"]), first)
                elif self.spec.layout == "runs":
                    self._copy_runs(first)
                else:
                    self.source = emitter.byte_offset(self.source, emitter.mul(first, self.meta["line_stride"]))
                    self._copy()
            if self.spec.correct:
                self._store_correction(destination)

        return emitter.kernel_of_items(pack_panel)

    def _compute_blocks(self, prologue: PackPrologue, matrix: Value, first: Value) -> None:
        """Compute and copy the panel that begins at line `first`, block by block along K."""
        emitter, spec, whole, panel, valid = self.emitter, self.spec, self.meta, self.panel, self.valid
        along_k = spec.layout == "along_k"
        lines = -(-spec.width // emitter.lanes) * emitter.lanes
        size = _block_size(lines * self.element_bytes, self.lanes * self.unit.count)
        steps = size // self.unit.count
        tensors = prologue.tensors
        offsets = emitter.byte_offset(self.table, emitter.mul(emitter.add(matrix, 1), 8 * len(tensors)))
        matrices = {}
        for position, number in enumerate(tensors):
            pointer = emitter.load_value("ptr", POINTERS, 1 + number)
            start = emitter.byte_offset(pointer, emitter.load_value("i64", offsets, position))
            matrices[number] = start, emitter.load_value("i64", self.table, position)

        def compute_block(step: Value, _: list[Value]) -> None:
            k_begin = emitter.mul(step, self.unit.count)
            k = emitter.smaller(emitter.sub(whole["k"], k_begin), size)
            if along_k:
                block, inner = _Block(first, valid, k_begin, k, whole["k"]), size
            else:
                block, inner = _Block(k_begin, k, first, valid, whole["lines"]), lines
            self._compute_block(prologue, block, matrices, inner)
            self.meta = whole | {
                "k": k,
                "steps": emitter.smaller(emitter.sub(whole["steps"], step), steps),
                "line_stride": emitter.constant((inner if along_k else 1) * self.element_bytes, "i64"),
                "k_stride": emitter.constant((1 if along_k else inner) * self.element_bytes, "i64"),
            }
            self.source = self.scratch
            self.panel = emitter.byte_offset(panel, emitter.mul(step, spec.width * self.unit.bytes))
            # The scratch memory has room for all lines of a panel.
            self.valid = emitter.constant(spec.width, "i64")
            self._copy()

        emitter.loop(0, whole["steps"], steps, (), compute_block)
        self.meta, self.panel, self.valid = whole, panel, valid

    def _compute_block(
        self, prologue: PackPrologue, block: _Block, matrices: dict[int, tuple[Value, Value]], scratch_inner: int
    ) -> None:
        """Compute a block in scratch memory, rounded to the dtype once.

        Args:
            prologue: Program of the operand.
            block: The block.
            matrices: By number of an input, its address and its stride in bytes of the outer direction.
            scratch_inner: Elements between outer positions in scratch memory, a multiple of the lanes.
        """
        emitter, dtype = self.emitter, self.spec.dtype

        def compute_line(outer: Value, _: list[Value]) -> None:
            position = emitter.add(block.outer_begin, outer)
            starts = {
                number: emitter.byte_offset(base, emitter.mul(position, stride))
                for number, (base, stride) in matrices.items()
            }
            line = emitter.byte_offset(self.scratch, emitter.mul(outer, scratch_inner * self.element_bytes))

            def compute_vector(inner: Value, _: list[Value]) -> None:
                at = emitter.add(block.inner_begin, inner)
                left = emitter.sub(block.inner_end, at)

                def compute(mask: Value | None) -> None:
                    def load(slot: int) -> Value:
                        memory_dtype, access = prologue.inputs[slot]
                        if access == "splat":
                            return emitter.load_scalar(memory_dtype, starts[slot])
                        return emitter.load(memory_dtype, emitter.address(starts[slot], at, memory_dtype), mask)

                    def scalar(slot: int, register: str) -> Value:
                        return emitter.load_number(POINTERS, 1 + slot, register)

                    (value,) = emit_program(emitter, prologue.program, load, scalar)
                    emitter.store(dtype, value, emitter.address(line, inner, dtype))

                # Lanes past the end of the operand are stored as well, but packing ignores them.
                whole = emitter.compare("sge", left, emitter.lanes)
                emitter.branch(whole, lambda: compute(None), lambda: compute(emitter.first_lanes(left)))

            emitter.loop(0, block.inner, emitter.lanes, (), compute_vector)

        emitter.loop(0, block.outer, 1, (), compute_line)

    def _copy(self) -> None:
        """Copy all lines of the first steps by vectors, and of the others element by element."""
        if self.spec.layout == "along_k":
            first_step = self._copy_along_k()
        elif self.spec.layout == "across_lines":
            first_step = self._copy_across_lines()
        else:
            first_step = self.emitter.constant(0, "i64")
        self._copy_elements(first_step)

    def _whole_steps(self, multiple: int) -> Value:
        blocks = self.emitter.op("udiv", self.meta["k"], multiple * self.unit.count)
        return self.emitter.mul(blocks, multiple)

    def _unit_address(self, step: Value, line: Value | int) -> Value:
        position = self.emitter.add(self.emitter.mul(step, self.spec.width), line)
        return self.emitter.byte_offset(self.panel, self.emitter.mul(position, self.unit.bytes))

    def _store(self, value: Value, address: Value) -> None:
        self.emitter.statement(
            f"store {value.type} {value.name}, ptr {address.name}, align {self.unit.bytes // self.unit.count}"
        )

    def _copy_along_k(self) -> Value:
        """Transpose along K. Without masks, leave the remainder of a unit or block over."""
        emitter = self.emitter
        stop = self.meta["steps"]
        if not self.masked:
            whole = self._whole_steps(1)
            stop = emitter.select(emitter.compare("sge", whole, self.lanes), whole, 0)

        def start(line: Value) -> Value:
            return emitter.byte_offset(self.source, emitter.mul(line, self.meta["line_stride"]))

        def transpose(sources: list[Value], first: Value) -> None:
            self._transpose(sources, first, emitter.constant(0, "i64"), self.meta["k"], stop)

        self._by_lines(start, transpose)
        return stop

    def _copy_runs(self, panel_line: Value) -> None:
        emitter, count = self.emitter, self.unit.count
        steps = emitter.op("udiv", self.run_length, count)

        def start(line: Value) -> Value:
            return self._scattered(self.source, self.line_offsets, emitter.add(panel_line, line))

        def transpose(sources: list[Value], first: Value) -> None:
            def run(k: Value, _: list[Value]) -> None:
                moved = [self._scattered(source, self.k_offsets, k) for source in sources]
                self._transpose(moved, first, emitter.op("udiv", k, count), self.run_length, steps)

            emitter.loop(0, self.meta["k"], self.run_length, (), run)

        self._by_lines(start, transpose)

    def _by_lines(self, start: Callable[[Value], Value], transpose: Callable[[list[Value], Value], None]) -> None:
        """Call `transpose` for blocks of as many lines of a panel as there are lanes, with their addresses.

        A block of fewer lines is stored with whole vectors too:
        they write past the panel's width to the first lines of the next step, which are written later, or to the
        padding after the last step.
        """
        emitter = self.emitter

        def group(first: Value, lines: int) -> None:
            transpose([start(line) for line in emitter.up_to(first, lines, self.valid)], first)

        whole = self.spec.width // self.lanes * self.lanes
        if whole < self.spec.width:
            group(emitter.constant(whole, "i64"), self.spec.width - whole)
        if whole:
            emitter.loop(0, whole, self.lanes, (), lambda first, _: group(first, self.lanes))

    def _transpose(self, sources: list[Value], first: Value, begin: Value, k: Value, stop: Value) -> None:
        """Transpose blocks of `lanes` steps of the lines from `first` on, to `stop` steps from step `begin` on.

        The last block is loaded with a mask of what is inside `k`, or, if there are no masks, overlaps the one before.
        """
        emitter, lanes, count = self.emitter, self.lanes, self.unit.count

        def transpose_block(step: Value, _: list[Value]) -> None:
            if self.masked:
                mask = first_of(emitter, emitter.sub(k, emitter.mul(step, count)), lanes * count)
            else:
                mask, step = None, emitter.smaller(step, emitter.sub(stop, lanes))
            offset = emitter.mul(step, count * self.element_bytes)
            rows = []
            for source in sources:
                units = self.elements.load(lanes * count, emitter.byte_offset(source, offset), mask)
                rows.append(self.elements.units(units))
            rows += [Value("poison", rows[0].type)] * (lanes - len(sources))
            base = self._unit_address(emitter.add(begin, step), first)
            for i, column in enumerate(emitter.transpose(rows)):
                self._store(column, emitter.byte_offset(base, i * self.spec.width * self.unit.bytes))

        emitter.loop(0, stop, lanes, (), transpose_block)

    def _copy_across_lines(self) -> Value:
        """Copy whole vectors of lines, step by step, interleaving the elements of a unit.

        A panel at the edge of the matrix is read past its valid lines, which fills unused lines.
        """
        emitter = self.emitter
        stop = emitter.op("udiv", self._readable_k(), self.unit.count)

        def copy_step(step: Value, _: list[Value]) -> None:
            offset = emitter.mul(emitter.mul(step, self.unit.count), self.meta["k_stride"])
            rows = [emitter.byte_offset(self.source, offset)]
            for _i in range(1, self.unit.count):
                rows.append(emitter.byte_offset(rows[-1], self.meta["k_stride"]))
            base = self._unit_address(step, 0)
            for first, size in _pieces(self.spec.width, self.lanes):
                places = [emitter.byte_offset(row, first * self.element_bytes) for row in rows]
                units = self.elements.interleave([self.elements.load(size, place) for place in places])
                self._store(units, emitter.byte_offset(base, first * self.unit.bytes))

        emitter.loop(0, stop, 1, (), copy_step)
        return stop

    def _scattered(self, start: Value, table: Value, number: Value) -> Value:
        """Return an address plus an entry of a table of offsets."""
        offset = self.emitter.load_value("i64", self.emitter.address(table, number, "int64"))
        return self.emitter.byte_offset(start, offset)

    def _copy_scattered(self, panel: Value, panel_line: Value) -> None:
        """Copy the vectors of a panel whose lines are neighbours by vectors, and the others element by element."""
        emitter, pieces = self.emitter, _pieces(self.spec.width, self.lanes)
        for number, (first, size) in enumerate(pieces):
            entry = emitter.address(self.neighbours, emitter.add(emitter.mul(panel, len(pieces)), number), "int8")
            are_neighbours = emitter.compare("ne", emitter.load_value("i8", entry, align=1), 0)
            copy = partial(self._copy_neighbours, emitter.add(panel_line, first), first, size)
            emitter.branch(are_neighbours, copy, partial(self._copy_lines, panel_line, first, size))

    def _copy_neighbours(self, line: Value, first: int, size: int) -> None:
        emitter, count = self.emitter, self.unit.count
        source = self._scattered(self.source, self.line_offsets, line)

        def copy_step(step: Value, existing: int) -> None:
            k = emitter.mul(step, count)
            places = [self._scattered(source, self.k_offsets, emitter.add(k, i)) for i in range(existing)]
            rows = [self.elements.load(size, place) for place in places]
            rows += [Value("zeroinitializer", rows[0].type)] * (count - existing)
            self._store(self.elements.interleave(rows), self._unit_address(step, first))

        stop = emitter.op("udiv", self.meta["k"], count)
        emitter.loop(0, stop, 1, (), lambda step, _: copy_step(step, count))
        if self.spec.rest:
            copy_step(stop, self.spec.rest)

    def _copy_lines(self, panel_line: Value, first: int, size: int) -> None:
        emitter, count = self.emitter, self.unit.count
        k_end = emitter.mul(self.meta["steps"], count)

        def copy_line(line: Value, _: list[Value]) -> None:
            start = self._scattered(self.source, self.line_offsets, emitter.add(panel_line, line))

            def store(k: Value, value: Value) -> None:
                address = self._unit_address(emitter.op("udiv", k, count), line)
                part = emitter.mul(emitter.op("urem", k, count), self.unit.bytes // count)
                self._store(value, emitter.byte_offset(address, part))

            def copy_element(k: Value, _: list[Value]) -> None:
                store(k, self.elements.load(1, self._scattered(start, self.k_offsets, k)))

            emitter.loop(0, self.meta["k"], 1, (), copy_element)
            zero = Value("zeroinitializer", self.unit.element)
            emitter.loop(self.meta["k"], k_end, 1, (), lambda k, _: store(k, zero))

        emitter.loop(first, emitter.smaller(self.valid, first + size), 1, (), copy_line)

    def _readable_k(self) -> Value:
        """Return the number of k that can be read over the panel's full width without passing the end of the matrix.

        Memory in between belongs to the operand: other columns of a view, or the next k.
        """
        emitter, k, k_stride = self.emitter, self.meta["k"], self.meta["k_stride"]
        excess = emitter.mul(emitter.sub(self.spec.width, self.valid), self.element_bytes)
        ascending = emitter.compare("sgt", k_stride, 0)
        divisor = emitter.select(ascending, k_stride, 1)
        unreadable = emitter.op("udiv", emitter.sub(emitter.add(excess, divisor), 1), divisor)
        unreadable = emitter.select(ascending, unreadable, emitter.mul(excess, k))
        return emitter.larger(emitter.sub(k, unreadable), 0)

    def _copy_elements(self, first_step: Value) -> None:
        """Copy the remaining steps element by element; elements past the end are zero."""
        emitter, count = self.emitter, self.unit.count
        element_bytes = self.unit.bytes // count
        zero = Value("zeroinitializer", self.unit.element)

        def copy_element(step: Value, line: Value, part: Value) -> None:
            k = emitter.add(emitter.mul(step, count), part)
            exists = emitter.op(
                "and", emitter.compare("slt", k, self.meta["k"]), emitter.compare("slt", line, self.valid)
            )

            def load() -> Sequence[Value]:
                source = emitter.byte_offset(self.source, emitter.mul(line, self.meta["line_stride"]))
                source = emitter.byte_offset(source, emitter.mul(k, self.meta["k_stride"]))
                return (self.elements.load(1, source),)

            (value,) = emitter.branch(exists, load, lambda: (zero,))
            address = self._unit_address(step, line)
            self._store(value, emitter.byte_offset(address, emitter.mul(part, element_bytes)))

        def copy_unit(step: Value, line: Value) -> None:
            emitter.loop(0, count, 1, (), lambda part, _: copy_element(step, line, part))

        def copy_step(step: Value, _: list[Value]) -> None:
            emitter.loop(0, self.spec.width, 1, (), lambda line, _: copy_unit(step, line))

        emitter.loop(first_step, self.meta["steps"], 1, (), copy_step)

    def _store_correction(self, destination: Value) -> None:
        """Store -128 times the sum of each line, which corrects products with 128 added to every element of A."""
        emitter, lanes = self.emitter, self.lanes
        type_ = _vector(lanes, "i32")
        vectors = self.spec.width // lanes
        quad_of_128 = emitter.constant(int.from_bytes(b"\x80" * 4, "little", signed=True), type_)

        def sum_step(step: Value, totals: list[Value]) -> Sequence[Value]:
            base = self._unit_address(step, 0)
            name, quads = "llvm.x86.avx512.vpdpbusd.512", partial(emitter.load_value, type_, base, align=64)
            return [
                emitter.intrinsic(name, total, quad_of_128, quads(index=j), overloads=())
                for j, total in enumerate(totals)
            ]

        initial = [Value("zeroinitializer", type_)] * vectors
        totals = emitter.loop(0, self.meta["steps"], 1, initial, sum_step)
        for j, total in enumerate(totals):
            self._store(emitter.neg(total), emitter.byte_offset(destination, j * lanes * 4))


def pack_module(spec: PackSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that packs panels.

    pointers  [packed, operand], or with a prologue [packed, its inputs...]; packed is aligned to 64 bytes and
              has room for matrices x panels panels
    meta      `PACK_META` and the fields in its comment
    """
    return _PackWriter(spec, target).text()
