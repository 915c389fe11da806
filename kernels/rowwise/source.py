"""C++ for the cores from a `RowProgram`, for whole rows in a core's memory and for rows in chunks.

`rows_source` has one function that processes several whole rows. `chunks_source` has one function per pass, which
processes a chunk of a row and keeps its partial results in a core buffer, and functions that turn these into results.
Lengths are arguments, so that one object file serves all shapes. Numbers of a row are vectors with the number in every
lane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from textwrap import indent
from typing import Final

from npu_tensor.dataflow.design import Source
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.rowwise.cost import RowLoop
from npu_tensor.kernels.rowwise.program import (
    VECTOR_BYTES,
    RowOperand,
    RowProgram,
    RowWalk,
    rough_values,
    row_values,
    short_loads,
    walks,
)
from npu_tensor.ops.analysis import Precision, needed
from npu_tensor.ops.rows import ROW_LENGTH_SLOT

HEAD: Final = """#include <aie_api/aie.hpp>

#include "nt/rows.hpp"
#include "nt/vector_math.hpp"

"""

BEGIN: Final = "aie::set_rounding(aie::rounding_mode::conv_even);"


class _Code:
    """Common part of both forms: the statements of a pass, from expressions for its operands."""

    def __init__(self, row: RowProgram, whole: bool, by_reciprocal: bool = False) -> None:
        self.row = row
        self.by_reciprocal = by_reciprocal
        self.whole = whole
        self.program = row.program
        self.lanes = row.lanes
        self.walks = walks(row)
        self.short = short_loads(row)
        self.rough = rough_values(row)
        self.row_values = row_values(row)
        self.per_row = [number for number, output in enumerate(row.outputs) if output.access == "row"]
        self.words = ["const int32 *parameters"] if row.numbers else []

    def stored(self, operand: RowOperand) -> str:
        """Return the C++ type of an operand's elements in memory."""
        return "bfloat16" if operand.dtype == "bfloat16" else emitter.REGISTERS[operand.dtype]

    def state(self, reduction: int) -> str:
        """Return the C++ class of a reduction's state."""
        instruction = self.program.instructions[reduction]
        element = self.program.instructions[instruction.operands[0]].dtype
        register = "int32" if element == "bool" else emitter.REGISTERS[element]
        return f"nt::{instruction.primitive}<{register}, {self.lanes}>"

    def register(self, number: int) -> str:
        """Return the C++ type of an instruction's value."""
        dtype = self.program.instructions[number].dtype
        type = "aie::mask<" if dtype == "bool" else f"aie::vector<{emitter.REGISTERS[dtype]}, "
        return f"{type}{self.lanes}>"

    def operands(self, places: Mapping[int, str], start: str, known: Iterable[int]) -> tuple[dict[int, str], list[int]]:
        """Return expressions for the operands of the program, and which of them are constant along a row.

        places: address of an input's vector, by slot. start: position in the row. known: values of the row.
        """
        expressions, invariant = {number: f"row{number}" for number in known}, list(known)
        for number, (primitive, _, dtype, value) in enumerate(self.program.instructions):
            if primitive == "index":
                expressions[number] = f"nt::positions<{self.lanes}>({start})"
            elif primitive == "load" and value in places:
                register = "bfloat16" if number in self.short else emitter.REGISTERS[dtype]
                expressions[number] = f"nt::load<{register}, {self.lanes}>({places[value]})"
                if self.row.inputs[value].access == "row":
                    invariant.append(number)
            elif primitive == "scalar":
                invariant.append(number)
                expressions[number] = self.number(value, dtype)
        return expressions, invariant

    def number(self, slot: int, dtype: str) -> str:
        """Return the C++ for a scalar in every lane: the length of a row, or a word of the runtime parameters."""
        if slot == ROW_LENGTH_SLOT:
            length = emitter.broadcast("length", "int32", self.lanes)
            return length if dtype == "int32" else f"nt::cast<{emitter.REGISTERS[dtype]}>({length})"
        return emitter.broadcast_word("parameters", self.row.numbers.index(slot), dtype, self.lanes)

    def statements(
        self,
        roots: Sequence[int],
        expressions: Mapping[int, str],
        invariant: Collection[int],
        precision: Precision,
        prefix: str = "v",
    ) -> emitter.Statements:
        """Generate the statements that compute `roots`."""
        choice = emitter.choose(self.program, expressions, precision, roots, invariant, self.short, self.by_reciprocal)
        return emitter.statements(choice, expressions, self.lanes, prefix)

    def precision(self, roots: Collection[int]) -> Precision:
        """Return half precision if small errors of `roots` vanish."""
        return "half" if self.rough.issuperset(roots) else "full"

    def walk(
        self,
        walk: RowWalk,
        places: Mapping[int, str],
        start: str,
        count: str,
        known: Iterable[int],
        loaded: Iterable[int] = (),
        stored: Iterable[int] = (),
        *,
        form: RowLoop,
    ) -> str:
        """Generate the loop of a pass, which adds to `total<n>` and stores to `places[-1 - output]`.

        Args:
            walk: Pass over the row.
            places: Addresses of inputs by slot, and of outputs by -1 - output.
            start: Position in the row.
            count: Number of elements, and how many of them are in the row.
            known: Values of the row.
            loaded: Values that an earlier pass stored in `value<n>`.
            stored: Values that this pass stores there.
            form: Form of the loop.
        """
        expressions, invariant = self.operands(places, start, known)
        expressions.update({number: f"nt::load<float, {self.lanes}>(value{number} + start)" for number in loaded})
        code = self.statements(walk.roots, expressions, invariant, self.precision(walk.roots))
        loop = f"nt::for_row<{self.lanes}, {str(self.whole).lower()}, {form.parts}, {form.rounds}>"
        lines = [*code.hoisted, f"{loop}({count}, [&](int32 start, auto lanes, auto part) {{"]
        lines += ["  " + line for line in code.body]
        for reduction in walk.reductions:
            operand = self.program.instructions[reduction].operands[0]
            value = code.values[operand]
            if self.program.instructions[operand].dtype == "bool":
                value = f"nt::cast<int32>({value})"
            total = f"total{reduction}" if form.parts == 1 else f"parts{reduction}[part]"
            lines.append(f"  {total}.add({value}, {start}, lanes);")
        lines += [f"  nt::store(value{number} + start, {code.values[number]});" for number in stored]
        for output in walk.outputs:
            lines.append(f"  nt::store({places[-1 - output]}, {code.stored[self.program.outputs[output]]});")
        return "\n".join([*lines, "});"])

    def after(self, number: int, places: Mapping[int, str], known: Iterable[int], state: str) -> str:
        """Declare the values of a row that are known after a pass, whose states are in `state`."""
        walk = self.walks[number]
        lines = [f"const auto row{reduction} = {state}total{reduction}.value();" for reduction in walk.reductions]
        new = [value for value in self.row_values[number] if value not in walk.reductions]
        if new:
            expressions, invariant = self.operands(places, "0", [*known, *walk.reductions])
            code = self.statements(new, expressions, invariant, self.precision(new), f"w{number}_")
            lines += _called([*code.hoisted, *code.body])
            lines += [f"const auto row{value} = {code.values[value]};" for value in new]
        return "\n".join(lines)

    def store_rows(self, places: Mapping[int, str], known: Iterable[int]) -> str:
        """Generate statements that store the outputs with one element per row."""
        if not self.per_row:
            return ""
        expressions, invariant = self.operands(places, "0", known)
        roots = [self.program.outputs[number] for number in self.per_row]
        code = self.statements(roots, expressions, invariant, "full")
        lines = _called([*code.hoisted, *code.body])
        for output in self.per_row:
            value = code.values[self.program.outputs[output]]
            lines.append(f"nt::store_partial({places[-1 - output]}, {value}, 1);")
        return "{\n" + indent("\n".join(lines), "  ") + "\n}"

    def keep(self, carrier: int) -> list[str]:
        """Generate nt_keep<slot>(object, kept, bytes, at), which copy a part of a resident input from its object."""
        source = self.stored(self.row.inputs[carrier])
        return [
            f"""extern "C" void nt_keep{slot}(const {source} *__restrict object, \
{self.stored(self.row.inputs[slot])} *__restrict kept, int32 bytes, int32 at) {{
  const auto *from = reinterpret_cast<const int32 *>(object);
  auto *to = reinterpret_cast<int32 *>(kept) + at / 4;
  for (int32 i = 0; i < bytes / 4; i += 16)
    aie::store_v(to + i, aie::load_v<16>(from + i));
}}
"""
            for slot in self.row.kept
        ]

    def pointers(self, slots: Iterable[int], outputs: Iterable[int]) -> list[str]:
        """Return the C++ pointer parameters of a function for inputs and outputs."""
        return [f"const {self.stored(self.row.inputs[slot])} *__restrict in{slot}" for slot in slots] + [
            f"{self.stored(self.row.outputs[number])} *__restrict out{number}" for number in outputs
        ]


def _called(lines: Iterable[str]) -> list[str]:
    """Use the functions of nt::once in declarations that are computed once per row."""
    return [line.replace(" = nt::", " = nt::once::", 1) for line in lines]


def _function(name: str, parameters: Iterable[str], body: str) -> str:
    return f'extern "C" void {name}({", ".join(parameters)}) {{\n{indent(body, "  ")}\n}}\n'


@lru_cache(maxsize=1024)
def rows_source(
    row: RowProgram, whole: bool, loops: tuple[RowLoop, ...], carrier: int, values: tuple[int, ...]
) -> Source:
    """Generate nt_rows(in..., out..., value..., parameters, rows, length, pitch, slot), which processes whole rows.

    nt_keep<slot> copies an input that is the same for all rows out of objects of `carrier`. Inputs and outputs are in
    order; numbers are words of `parameters`. In C++, `pitch` is the distance between rows in elements, and `slot` the
    distance in bytes between elements of an output with one element per row. An input of that kind has its element in
    every lane of a vector.

    Args:
        row: Program to translate.
        whole: True if the length is always a multiple of the lanes.
        loops: For each pass, the form of its loop.
        carrier: Input whose objects bring the resident inputs.
        values: Instructions whose values are kept for later passes by the first pass that computes them.
    """
    code = _Code(row, whole, row.is_rounded)
    places: dict[int, str] = {}
    for slot, operand in enumerate(row.inputs):
        position = {"full": "row * pitch + start", "same": "start", "row": f"row * {operand.vector}"}
        if operand.access != "number":
            places[slot] = f"in{slot} + {position[operand.access]}"
    for number, operand in enumerate(row.outputs):
        step = "row * pitch + start" if operand.access == "full" else f"row * (slot / {operand.itemsize})"
        places[-1 - number] = f"out{number} + {step}"
    body, known, kept = [], list[int](), list[int]()
    for number, walk in enumerate(code.walks):
        evaluated = needed(row.program, walk.roots, known)
        stored = [value for value in values if value in evaluated and value not in kept]
        form = loops[number]
        parts = form.parts
        body += [f"{code.state(reduction)} total{reduction};" for reduction in walk.reductions if parts == 1]
        body += [f"{code.state(reduction)} parts{reduction}[{parts}];" for reduction in walk.reductions if parts > 1]
        text = code.walk(walk, places, "start", "length, length", known, kept, stored, form=form)
        body += ["{", indent(text, "  "), "}"]
        for reduction in walk.reductions if parts > 1 else ():
            body += [f"parts{reduction}[0].merge(parts{reduction}[{part}]);" for part in range(1, parts)]
            body.append(f"const auto &total{reduction} = parts{reduction}[0];")
        kept += stored
        body.append(code.after(number, places, known, ""))
        known += [*walk.reductions, *code.row_values[number]]
    body.append(code.store_rows(places, known))
    loop = "for (int32 row = 0; row < rows; ++row) {\n" + indent("\n".join(body), "  ") + "\n}"
    if "length_reciprocal" in loop:
        loop = f"const auto length_reciprocal = nt::reciprocal({code.number(ROW_LENGTH_SLOT, 'float32')});\n{loop}"
    slots = [slot for slot, operand in enumerate(row.inputs) if operand.access != "number"]
    arguments = [
        *code.pointers(slots, range(len(row.outputs))),
        *(f"float *__restrict value{number}" for number in values),
        *code.words,
        *("int32 rows", "int32 length", "int32 pitch", "int32 slot"),
    ]
    return Source("rows", "\n".join([HEAD, *code.keep(carrier), _function("nt_rows", arguments, f"{BEGIN}\n{loop}")]))


def partial_bytes(row: RowProgram, walk: RowWalk) -> int:
    """Return the bytes of the state of a walk's reductions, a power of two."""
    units = sum(1 + row.program.instructions[number].primitive.startswith("row_arg") for number in walk.reductions)
    return VECTOR_BYTES << (max(units, 1) - 1).bit_length()


@lru_cache(maxsize=1024)
def chunks_source(row: RowProgram, whole: bool, loop: RowLoop) -> Source:
    """Generate functions for rows that pass through a core in chunks, with their partial results in `state`.

    - nt_walk<w>(in..., out..., state, parameters, begin, step, length, count): one pass over the next `count` elements.
      The core's first chunk begins at `begin` of `length`, and each further one `step` later. Resident inputs lie in
      memory as a whole.
    - nt_total<w>(in..., state, parameters, length): completes the reductions of a pass.
    - nt_give<w>(state, out): emits the partial results of a pass if cores share a row.
    - nt_merge<w>(in, state, count): adds the partial results of `count` cores.
    - nt_store(in..., out..., state, parameters, length): stores the outputs with one element per row.

    Args:
        row: Program to translate.
        whole: True if all chunks are full.
        loop: Form of the loops over the vectors of a chunk.
    """
    code = _Code(row, whole)
    lines = ["namespace {"]
    for number, walk in enumerate(code.walks):
        members = "".join(f"  {code.state(reduction)} total{reduction};\n" for reduction in walk.reductions)
        lines.append(f"struct Totals{number} {{\n{members}}};")
        if walk.reductions:
            lines.append(f"static_assert(sizeof(Totals{number}) <= {partial_bytes(row, walk)});")
    fields = ["  int32 position;\n"]
    fields += [f"  Totals{number} totals{number};\n" for number in range(len(code.walks))]
    fields += [f"  {code.register(value)} row{value};\n" for values in code.row_values for value in values]
    lines += [f"struct Row {{\n{''.join(fields)}}};", f"static_assert(sizeof(Row) <= {state_bytes(row)});"]
    lines += ["} // namespace", ""]
    lines += code.keep(first_stream(row))
    known: list[int] = []
    for number, walk in enumerate(code.walks):
        lines += _walk_functions(code, number, walk, known, loop)
        known += code.row_values[number]
    if code.per_row:
        slots = [slot for slot, operand in enumerate(row.inputs) if operand.access == "row"]
        places = {**{slot: f"in{slot}" for slot in slots}, **{-1 - output: f"out{output}" for output in code.per_row}}
        text = "\n".join([BEGIN, "const Row &row = *reinterpret_cast<const Row *>(state);", *_rows_known(known)])
        text += "\n" + code.store_rows(places, known)
        parameters = [*code.pointers(slots, code.per_row), "const int32 *state", *code.words, "int32 length"]
        lines.append(_function("nt_store", parameters, text))
    return Source("chunks", HEAD + "\n".join(lines))


def first_stream(row: RowProgram) -> int:
    """Return the first input with separate elements for each row. Its stream also carries all other data for a core."""
    return next(slot for slot, operand in enumerate(row.inputs) if operand.access == "full")


def pass_inputs(row: RowProgram, walk: RowWalk) -> list[int]:
    """Return the inputs of a pass over chunks; at least one is a stream, which the pass waits for."""
    slots = set(walk.inputs)
    if all(row.inputs[slot].access != "full" for slot in slots):
        slots.add(first_stream(row))
    return sorted(slots)


def state_bytes(row: RowProgram) -> int:
    """Return the bytes of the state that a core keeps of a row between its chunks."""
    partial = [partial_bytes(row, walk) for walk in walks(row)]
    return 2 * VECTOR_BYTES + sum(partial) + VECTOR_BYTES * sum(map(len, row_values(row)))


def _rows_known(known: Iterable[int]) -> list[str]:
    return [f"const auto row{value} = row.row{value};" for value in known]


def _walk_functions(code: _Code, number: int, walk: RowWalk, known: list[int], loop: RowLoop) -> list[str]:
    row = code.row
    slots = pass_inputs(row, walk)
    places = {-1 - output: f"out{output} + start" for output in walk.outputs}
    for slot in slots:
        step = {"full": " + start", "same": " + row.position + start", "row": ""}[row.inputs[slot].access]
        places[slot] = f"in{slot}{step}"
    state = "Row &row = *reinterpret_cast<Row *>(state);"
    body = [BEGIN, state, "const int32 first = begin + row.position;"]
    body += _rows_known(known)
    body += [f"{code.state(reduction)} total{reduction};" for reduction in walk.reductions]
    count = "count, length - first"
    body += ["{", indent(code.walk(walk, places, "first + start", count, known, form=loop), "  "), "}"]
    if walk.reductions:
        totals = f"row.totals{number}"
        merges = " ".join(f"{totals}.total{r}.merge(total{r});" for r in walk.reductions)
        copies = " ".join(f"{totals}.total{r} = total{r};" for r in walk.reductions)
        body += ["if (row.position == 0) {", f"  {copies}", "} else {", f"  {merges}", "}"]
    body.append("row.position += step;")
    parameters = [*code.pointers(slots, walk.outputs), "int32 *state", *code.words]
    parameters += ["int32 begin", "int32 step", "int32 length", "int32 count"]
    functions = [_function(f"nt_walk{number}", parameters, "\n".join(body))]
    rows = [slot for slot, operand in enumerate(row.inputs) if operand.access == "row"]
    values = code.after(number, {slot: f"in{slot}" for slot in rows}, known, f"row.totals{number}.")
    total = [BEGIN, state, *_rows_known(known), values]
    total += [f"row.row{value} = row{value};" for value in code.row_values[number]]
    parameters = [*code.pointers(rows, ()), "int32 *state", *code.words, "int32 length"]
    functions.append(_function(f"nt_total{number}", parameters, "\n".join([*total, "row.position = 0;"])))
    if walk.reductions:
        give = [state, f"*reinterpret_cast<Totals{number} *>(out) = {totals};", f"{totals} = Totals{number}();"]
        parameters = ["int32 *state", f"{code.stored(row.outputs[0])} *out"]
        functions.append(_function(f"nt_give{number}", parameters, "\n".join(give)))
        carrier = code.stored(row.inputs[first_stream(row)])
        merge = [state, "const char *part = reinterpret_cast<const char *>(in);"]
        merge.append(f"for (int32 i = 0; i < count; ++i, part += {partial_bytes(row, walk)}) {{")
        merge.append(f"  const auto &other = *reinterpret_cast<const Totals{number} *>(part);")
        merge += [f"  {totals}.total{r}.merge(other.total{r});" for r in walk.reductions]
        merge.append("}")
        parameters = [f"const {carrier} *in", "int32 *state", "int32 count"]
        functions.append(_function(f"nt_merge{number}", parameters, "\n".join(merge)))
    return functions
