"""C++ for the cores from a `RowProgram`: rows that lie in a core's memory, and rows that pass through it in parts.

`rows_source` has one function that takes several whole rows. `parts_source` has one function per walk, which takes a
part of a row and keeps what it knows of the row in a core buffer, and those that turn it into results. Lengths are
arguments, so that one object file serves all shapes. Numbers of a row are vectors with the number in every lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from textwrap import indent
from typing import Final

from npu_tensor.dataflow.design import Source
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.rowwise.program import (
    VECTOR_BYTES,
    Operand,
    RowProgram,
    Walk,
    rough_values,
    row_values,
    short_loads,
    walks,
)
from npu_tensor.ops.analysis import Precision, needed
from npu_tensor.ops.rows import ROW_LENGTH_SLOT

__all__ = [
    "carrier_slot",
    "part_inputs",
    "parts_source",
    "rows_source",
    "state_bytes",
    "totals_bytes",
]

HEAD: Final = """#include <aie_api/aie.hpp>

#include "nt/rows.hpp"
#include "nt/vector_math.hpp"

"""

BEGIN: Final = "aie::set_rounding(aie::rounding_mode::conv_even);"


class _Code:
    """What both forms share: the statements of a walk, from expressions for its operands."""

    def __init__(self, row: RowProgram, whole: bool) -> None:
        self.row = row
        self.loop = f"nt::for_row<{row.lanes}, {str(whole).lower()}>"
        self.program = row.program
        self.lanes = row.lanes
        self.walks = walks(row)
        self.short = short_loads(row)
        self.rough = rough_values(row)
        self.row_values = row_values(row)

    def stored(self, operand: Operand) -> str:
        """The C++ type of an operand's elements in memory."""
        return "bfloat16" if operand.dtype == "bfloat16" else emitter.REGISTERS[operand.dtype]

    def state(self, reduction: int) -> str:
        """The C++ class of a reduction's state."""
        instruction = self.program.instructions[reduction]
        element = self.program.instructions[instruction.operands[0]].dtype
        register = "int32" if element == "bool" else emitter.REGISTERS[element]
        return f"nt::{instruction.primitive}<{register}, {self.lanes}>"

    def register(self, number: int) -> str:
        """The C++ type of an instruction's value."""
        dtype = self.program.instructions[number].dtype
        return (
            f"aie::mask<{self.lanes}>" if dtype == "bool" else f"aie::vector<{emitter.REGISTERS[dtype]}, {self.lanes}>"
        )

    def given(self, places: Mapping[int, str], start: str, known: Iterable[int]) -> tuple[dict[int, str], list[int]]:
        """Expressions for what is not computed by the program, and which of them are the same all along a row.

        places: address of an input's vector, by slot. start: position in the row. known: values of the row.
        """
        given, invariant = {number: f"row{number}" for number in known}, list(known)
        for number, (primitive, _, dtype, value) in enumerate(self.program.instructions):
            if primitive == "index":
                given[number] = f"nt::positions<{self.lanes}>({start})"
            elif primitive == "load" and value in places:
                given[number] = f"nt::load<{emitter.REGISTERS[dtype]}, {self.lanes}>({places[value]})"
                if self.row.inputs[value].access == "row":
                    invariant.append(number)
            elif primitive == "scalar":
                invariant.append(number)
                given[number] = self.number(value, dtype)
        return given, invariant

    def number(self, slot: int, dtype: str) -> str:
        """A scalar in every lane: the length of a row, or a word of the runtime parameters."""
        if slot == ROW_LENGTH_SLOT:
            length = emitter.broadcast("length", "int32", self.lanes)
            return length if dtype == "int32" else f"nt::cast<{emitter.REGISTERS[dtype]}>({length})"
        word = f"parameters[{self.row.numbers.index(slot)}]"
        if dtype == "float32":
            word = f"__builtin_bit_cast(float, {word})"
        else:
            word = f"static_cast<{emitter.REGISTERS[dtype]}>({word})"
        return emitter.broadcast(word, dtype, self.lanes)

    def walk(
        self,
        walk: Walk,
        places: Mapping[int, str],
        start: str,
        count: str,
        known: Iterable[int],
        found: Iterable[int] = (),
        kept: Iterable[int] = (),
    ) -> str:
        """The loop of a walk over `count` elements; adds to `total<n>` and stores to `places[-1 - output]`.

        found: values that an earlier walk stored in `value<n>`. kept: those that this one stores there.
        """
        given, invariant = self.given(places, start, known)
        given.update({number: f"nt::load<float, {self.lanes}>(value{number} + start)" for number in found})
        precision: Precision = "half" if self.rough.issuperset(walk.roots) else "full"
        code = emitter.statements(self.program, given, self.lanes, precision, walk.roots, invariant, self.short)
        lines = [*code.hoisted, f"{self.loop}({count}, [&](int32 start, auto lanes) {{"]
        lines += ["  " + line for line in code.body]
        for reduction in walk.reductions:
            operand = self.program.instructions[reduction].operands[0]
            value = code.values[operand]
            if self.program.instructions[operand].dtype == "bool":
                value = f"nt::cast<int32>({value})"
            lines.append(f"  total{reduction}.add({value}, {start}, lanes);")
        lines += [f"  nt::store(value{number} + start, {code.values[number]});" for number in kept]
        for output in walk.outputs:
            lines.append(f"  nt::store({places[-1 - output]}, {code.values[self.program.outputs[output]]});")
        return "\n".join([*lines, "});"])

    def after(self, number: int, places: Mapping[int, str], known: Iterable[int], state: str) -> str:
        """Declarations of the values of a row that are known after a walk, whose states are in `state`."""
        walk = self.walks[number]
        lines = [f"const auto row{reduction} = {state}total{reduction}.value();" for reduction in walk.reductions]
        new = [value for value in self.row_values[number] if value not in walk.reductions]
        if new:
            given, invariant = self.given(places, "0", [*known, *walk.reductions])
            precision: Precision = "half" if self.rough.issuperset(new) else "full"
            code = emitter.statements(
                self.program, given, self.lanes, precision, new, invariant, self.short, f"w{number}_"
            )
            lines += _called([*code.hoisted, *code.body])
            lines += [f"const auto row{value} = {code.values[value]};" for value in new]
        return "\n".join(lines)

    def store_rows(self, places: Mapping[int, str], known: Iterable[int]) -> str:
        """Statements that store the outputs with one element per row."""
        stored = [number for number, output in enumerate(self.row.outputs) if output.access == "row"]
        if not stored:
            return ""
        given, invariant = self.given(places, "0", known)
        roots = [self.program.outputs[number] for number in stored]
        code = emitter.statements(self.program, given, self.lanes, "full", roots, invariant, self.short)
        lines = _called([*code.hoisted, *code.body])
        for output in stored:
            value = code.values[self.program.outputs[output]]
            lines.append(f"nt::store_partial({places[-1 - output]}, {value}, 1);")
        return "{\n" + indent("\n".join(lines), "  ") + "\n}"

    def pointers(self, slots: Iterable[int], outputs: Iterable[int]) -> list[str]:
        """Parameters of a function for inputs, and for outputs."""
        return [f"const {self.stored(self.row.inputs[slot])} *__restrict in{slot}" for slot in slots] + [
            f"{self.stored(self.row.outputs[number])} *__restrict out{number}" for number in outputs
        ]


def _called(lines: Iterable[str]) -> list[str]:
    """Declarations with the functions of nt::once, for what is computed once for a row."""
    return [line.replace(" = nt::", " = nt::once::", 1) for line in lines]


def _function(name: str, parameters: Iterable[str], body: str) -> str:
    return f'extern "C" void {name}({", ".join(parameters)}) {{\n{indent(body, "  ")}\n}}\n'


def _keep(code: _Code, slot: int, carrier: int) -> str:
    """nt_keep<slot>(object, kept, bytes, at): copies what stays in the core out of the object that brings it."""
    own = code.stored(code.row.inputs[slot])
    parameters = [f"const {code.stored(code.row.inputs[carrier])} *__restrict object", f"{own} *__restrict kept"]
    body = ["const auto *from = reinterpret_cast<const int32 *>(object);"]
    body.append("auto *to = reinterpret_cast<int32 *>(kept) + at / 4;")
    body.append("for (int32 i = 0; i < bytes / 4; i += 16)")
    body.append("  aie::store_v(to + i, aie::load_v<16>(from + i));")
    return _function(f"nt_keep{slot}", [*parameters, "int32 bytes", "int32 at"], "\n".join(body))


@lru_cache(maxsize=1024)
def rows_source(row: RowProgram, whole: bool, carrier: int, values: tuple[int, ...]) -> Source:
    """nt_rows(in..., out..., value..., parameters, rows, length, pitch, slot): whole rows, one after the other.

    nt_keep<slot>(object, kept, bytes, at): copies an input that is the same for all rows out of objects of `carrier`.
    Inputs and outputs are in order; numbers are words of `parameters`. pitch: elements from row to row. slot: bytes
    from one output with one element per row to the next. An input of that kind has it in every lane of a vector.
    values: instructions whose values the first walk that has them keeps for the others. whole: whether the length is
    always a multiple of the lanes.
    """
    code = _Code(row, whole)
    places: dict[int, str] = {}
    for slot, operand in enumerate(row.inputs):
        position = {"full": "row * pitch + start", "same": "start", "row": f"row * {operand.vector}"}
        if operand.access != "number":
            places[slot] = f"in{slot} + {position[operand.access]}"
    for number, operand in enumerate(row.outputs):
        step = "row * pitch + start" if operand.access == "full" else f"row * (slot / {operand.itemsize})"
        places[-1 - number] = f"out{number} + {step}"
    body, known, found = [], list[int](), list[int]()
    for number, walk in enumerate(code.walks):
        evaluated = needed(row.program, walk.roots, known)
        kept = [value for value in values if value in evaluated and value not in found]
        body += [f"{code.state(reduction)} total{reduction};" for reduction in walk.reductions]
        body += ["{", indent(code.walk(walk, places, "start", "length", known, found, kept), "  "), "}"]
        found += kept
        body.append(code.after(number, places, known, ""))
        known += [*walk.reductions, *code.row_values[number]]
    body.append(code.store_rows(places, known))
    loop = "for (int32 row = 0; row < rows; ++row) {\n" + indent("\n".join(body), "  ") + "\n}"
    slots = [slot for slot, operand in enumerate(row.inputs) if operand.access != "number"]
    numbers = ["const int32 *parameters"] if row.numbers else []
    arguments = [
        *code.pointers(slots, range(len(row.outputs))),
        *(f"float *__restrict value{number}" for number in values),
        *numbers,
        *("int32 rows", "int32 length", "int32 pitch", "int32 slot"),
    ]
    copies = [_keep(code, slot, carrier) for slot in row.kept]
    return Source("rows", "\n".join([HEAD, *copies, _function("nt_rows", arguments, f"{BEGIN}\n{loop}")]))


def totals_bytes(row: RowProgram, walk: Walk) -> int:
    """Bytes of the state of a walk's reductions, a power of two."""
    units = sum(1 + row.program.instructions[number].primitive.startswith("row_arg") for number in walk.reductions)
    return VECTOR_BYTES << (max(units, 1) - 1).bit_length()


@lru_cache(maxsize=1024)
def parts_source(row: RowProgram, whole: bool) -> Source:
    """Functions for rows that pass through a core in parts, and are known only by their state between these.

    nt_walk<w>(in..., out..., state, parameters, begin, step, length, count): the next `count` elements of the core's
    part of a row, which begins at `begin` of `length`; the one after them begins `step` further on. Inputs that are the
    same for all rows lie in memory as a whole. nt_total<w>(in..., state, parameters, length):
    completes the reductions of a walk. Where several
    cores have parts of a row, nt_give<w>(state, out) hands the state of a walk over, and
    nt_merge<w>(in, state, count) takes in that of `count` others. nt_store(in..., out..., state, parameters, length):
    the outputs with one element per row. whole: whether lengths are multiples of the lanes.
    """
    code = _Code(row, whole)
    lines = ["namespace {"]
    for number, walk in enumerate(code.walks):
        members = "".join(f"  {code.state(reduction)} total{reduction};\n" for reduction in walk.reductions)
        lines.append(f"struct Totals{number} {{\n{members}}};")
        if walk.reductions:
            lines.append(f"static_assert(sizeof(Totals{number}) <= {totals_bytes(row, walk)});")
    fields = ["  int32 position;\n"]
    fields += [f"  Totals{number} totals{number};\n" for number in range(len(code.walks))]
    fields += [f"  {code.register(value)} row{value};\n" for values in code.row_values for value in values]
    lines += [f"struct Row {{\n{''.join(fields)}}};", f"static_assert(sizeof(Row) <= {state_bytes(row)});"]
    lines += ["} // namespace", ""]
    lines += [_keep(code, slot, carrier_slot(row)) for slot in row.kept]
    known: list[int] = []
    for number, walk in enumerate(code.walks):
        lines += _walk_functions(code, number, walk, known)
        known += code.row_values[number]
    stored = [number for number, output in enumerate(row.outputs) if output.access == "row"]
    if stored:
        slots = [slot for slot, operand in enumerate(row.inputs) if operand.access == "row"]
        places = {**{slot: f"in{slot}" for slot in slots}, **{-1 - output: f"out{output}" for output in stored}}
        text = "\n".join([BEGIN, "const Row &row = *reinterpret_cast<const Row *>(state);", *_rows_known(known)])
        text += "\n" + code.store_rows(places, known)
        parameters = [*code.pointers(slots, stored), "const int32 *state", *_parameters(row), "int32 length"]
        lines.append(_function("nt_store", parameters, text))
    return Source("parts", HEAD + "\n".join(lines))


def carrier_slot(row: RowProgram) -> int:
    """The input whose stream brings whatever else a core needs: the first with elements of its own."""
    return next(slot for slot, operand in enumerate(row.inputs) if operand.access == "full")


def part_inputs(row: RowProgram, walk: Walk) -> list[int]:
    """The inputs that a walk over parts takes; one stream at least, which it waits for."""
    slots = set(walk.inputs)
    if all(row.inputs[slot].access != "full" for slot in slots):
        slots.add(carrier_slot(row))
    return sorted(slots)


def state_bytes(row: RowProgram) -> int:
    """Bytes of what a core knows of a row between its parts."""
    found = [totals_bytes(row, walk) for walk in walks(row)]
    return 2 * VECTOR_BYTES + sum(found) + VECTOR_BYTES * sum(map(len, row_values(row)))


def _parameters(row: RowProgram) -> list[str]:
    return ["const int32 *parameters"] if row.numbers else []


def _rows_known(known: Iterable[int]) -> list[str]:
    return [f"const auto row{value} = row.row{value};" for value in known]


def _walk_functions(code: _Code, number: int, walk: Walk, known: list[int]) -> list[str]:
    row = code.row
    slots = part_inputs(row, walk)
    places = {-1 - output: f"out{output} + start" for output in walk.outputs}
    for slot in slots:
        step = {"full": " + start", "same": " + row.position + start", "row": ""}[row.inputs[slot].access]
        places[slot] = f"in{slot}{step}"
    state = "Row &row = *reinterpret_cast<Row *>(state);"
    body = [BEGIN, state, "const int32 first = begin + row.position;"]
    body += _rows_known(known)
    body += [f"{code.state(reduction)} total{reduction};" for reduction in walk.reductions]
    body += [
        "{",
        indent(
            code.walk(walk, places, "first + start", "(length - first < count ? length - first : count)", known), "  "
        ),
        "}",
    ]
    if walk.reductions:
        totals = f"row.totals{number}"
        merges = " ".join(f"{totals}.total{r}.merge(total{r});" for r in walk.reductions)
        copies = " ".join(f"{totals}.total{r} = total{r};" for r in walk.reductions)
        body += ["if (row.position == 0) {", f"  {copies}", "} else {", f"  {merges}", "}"]
    body.append("row.position += step;")
    parameters = [*code.pointers(slots, walk.outputs), "int32 *state", *_parameters(row)]
    parameters += ["int32 begin", "int32 step", "int32 length", "int32 count"]
    functions = [_function(f"nt_walk{number}", parameters, "\n".join(body))]
    rows = [slot for slot, operand in enumerate(row.inputs) if operand.access == "row"]
    total = [
        BEGIN,
        state,
        *_rows_known(known),
        code.after(number, {slot: f"in{slot}" for slot in rows}, known, f"row.totals{number}."),
    ]
    total += [f"row.row{value} = row{value};" for value in code.row_values[number]]
    parameters = [*code.pointers(rows, ()), "int32 *state", *_parameters(row), "int32 length"]
    functions.append(_function(f"nt_total{number}", parameters, "\n".join([*total, "row.position = 0;"])))
    if walk.reductions:
        totals = f"row.totals{number}"
        give = [state, f"*reinterpret_cast<Totals{number} *>(out) = {totals};", f"{totals} = Totals{number}();"]
        parameters = ["int32 *state", f"{code.stored(row.outputs[0])} *out"]
        functions.append(_function(f"nt_give{number}", parameters, "\n".join(give)))
        carrier = code.stored(row.inputs[carrier_slot(row)])
        merge = [state, "const char *part = reinterpret_cast<const char *>(in);"]
        merge.append(f"for (int32 i = 0; i < count; ++i, part += {totals_bytes(row, walk)}) {{")
        merge.append(f"  const auto &other = *reinterpret_cast<const Totals{number} *>(part);")
        merge += [f"  {totals}.total{r}.merge(other.total{r});" for r in walk.reductions]
        merge.append("}")
        functions.append(
            _function(f"nt_merge{number}", [f"const {carrier} *in", "int32 *state", "int32 count"], "\n".join(merge))
        )
    return functions
