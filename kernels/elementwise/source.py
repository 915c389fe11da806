"""C++ of an element-wise design: one function for a tile, and one for each operand that stays in the core.

With resident operands, a core has a state: the bytes of an operand received so far and the start of the next tile in
the period of the rows. For columns it also holds the next value and the number of elements left in its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.elementwise.tiling import ElementwiseForm
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import Program

LONG: Final = 4
"""Vectors of a row from which its loop is pipelined (NT_AT_LEAST_4)."""

CAME, START, VALUE, LEFT = range(4)
"""Words of a core's state."""

INCLUDES: Final = ("#include <aie_api/aie.hpp>", "", '#include "nt/vector_math.hpp"', "")


class Formula(NamedTuple):
    """Computation of an element-wise kernel.

    Attributes:
        name: Names of the ops, for a comment.
        program: Program of the ops.
        slots: For each slot of the program, the position among the design's inputs, or ~word for a word of the runtime
            parameter.
        lanes: Elements per vector.
        precision: Precision that the outputs need.
        approximate: Array whose `emitter.APPROXIMATE_FORMS` are used.
    """

    name: str
    program: Program
    slots: tuple[int, ...]
    lanes: int
    precision: Precision
    approximate: Arch | None = None

    @property
    def words(self) -> int:
        """Number of runtime parameter words that the program reads."""
        return sum(slot < 0 for slot in self.slots)


def counts(form: ElementwiseForm) -> list[str]:
    """List the runtime parameter words that a sequence writes after those of a run; empty without resident operands.

    - rounds: tiles of a core.
    - period, start, step: period of the rows, position of the first tile in it, and distance to the next tile.
    - width: elements of a row that has one column value.
    - value, left: the first value and the elements left in its row.
    - skip_values, skip_left: rows and elements covered by the tiles of the other cores.
    - more<slot>: objects of a row operand after its first.
    """
    rows = ["period", "start", "step", *(f"more{slot}" for slot in form.rows)] if form.rows else []
    columns = ["width", "value", "left", "skip_values", "skip_left"] if form.columns else []
    return ["rounds", *rows, *columns] if form.resident else []


def _pointer(dtype: str, name: str) -> str:
    return f"const {emitter.MEMORY[dtype]} *__restrict {name}"


def _parameters(form: ElementwiseForm, formula: Formula) -> list[str]:
    """Return the C++ parameters of the tile function: input channels, resident inputs, outputs, state, words."""
    inputs = form.inputs
    declared = [
        _pointer(inputs[channel[0]], f"in{channel[0]}" if len(channel) == 1 else f"channel{number}")
        for number, channel in enumerate(form.channels)
    ]
    declared += [_pointer(inputs[slot], f"in{slot}") for slot in form.resident]
    declared += [f"{emitter.MEMORY[dtype]} *__restrict out{number}" for number, dtype in enumerate(form.outputs)]
    if form.resident:
        declared.append("int32 *__restrict state")
    if form.resident or formula.words:
        declared.append("const int32 *__restrict words")
    return declared


def chosen(form: ElementwiseForm, formula: Formula) -> emitter.Choice:
    """Choose the instructions for a vector; numbers and column operands are the same in every vector of a row."""
    given, invariant, short = [], [], []
    for number, (primitive, _, _, value) in enumerate(formula.program.instructions):
        if primitive in ("load", "scalar"):
            slot = formula.slots[value]
            given.append(number)
            invariant += [number] * (slot < 0 or slot in form.columns)
            short += [number] * (slot >= 0 and form.inputs[slot] == "bfloat16")
    return emitter.choose(
        formula.program, given, formula.precision, None, invariant, short, approximate=formula.approximate
    )


def map_text(form: ElementwiseForm, formula: Formula, unrolled: int = 1) -> str:
    """Generate the function nt_map for one tile. Column operands add a loop over rows around the loop over vectors.

    unrolled: vectors of a round. Chains of several vectors fill a loop that is too long to be pipelined.
    """
    program, lanes = formula.program, formula.lanes
    expressions: dict[int, str] = {}
    choice = chosen(form, formula)
    for number, instruction in enumerate(program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        slot, dtype = formula.slots[instruction.value], instruction.dtype
        register = "bfloat16" if number in choice.short else emitter.REGISTERS[dtype]
        if slot < 0:
            expressions[number] = emitter.broadcast_word("words", ~slot, dtype, lanes)
        elif slot in form.columns:
            expressions[number] = f"nt::broadcast<{register}, {lanes}>({register}(in{slot}[value]))"
        else:
            place = "start + i" if slot in form.rows else "i"
            expressions[number] = f"nt::load<{register}, {lanes}>(in{slot} + {place})"
    code = emitter.statements(choice, expressions, lanes)
    stores = [f"nt::store(out{number} + i, {code.stored[root]});" for number, root in enumerate(program.outputs)]
    word = {name: f"words[{formula.words + place}]" for place, name in enumerate(counts(form))}
    vector = _indented(1, [*code.body, *stores])
    body = ["aie::set_rounding(aie::rounding_mode::conv_even);", *_views(form)]
    if form.rows:
        body.append(f"const int32 start = state[{START}];")
    hint = [f"NT_UNROLL_BY({unrolled})"] if unrolled > 1 else []
    if form.columns:
        rest = [*hint, f"for (int32 i = begin; i < end; i += {lanes}) {{", *vector, "}"]
        if unrolled == 1:
            rest = [
                f"if (end - begin >= {LONG * lanes}) {{",
                *_indented(1, ["NT_AT_LEAST_4", *rest]),
                "} else {",
                *_indented(1, rest),
                "}",
            ]
        body += [
            f"int32 value = state[{VALUE}], left = state[{LEFT}];",
            f"for (int32 begin = 0; begin < {form.tile};) {{",
            f"  const int32 end = begin + left < {form.tile} ? begin + left : {form.tile};",
            *_indented(1, [*code.hoisted, *rest]),
            "  left -= end - begin;",
            "  begin = end;",
            "  if (left == 0) {",
            f"    left = {word['width']};",
            "    ++value;",
            "  }",
            "}",
            f"value += {word['skip_values']};",
            f"left -= {word['skip_left']};",
            "if (left <= 0) {",
            f"  left += {word['width']};",
            "  ++value;",
            "}",
            f"state[{VALUE}] = value;",
            f"state[{LEFT}] = left;",
        ]
    else:
        body += [*code.hoisted, *hint, f"for (unsigned i = 0; i < {form.tile}; i += {lanes}) {{", *vector, "}"]
    if form.rows:
        body += [
            f"const int32 next = start + {word['step']};",
            f"state[{START}] = next < {word['period']} ? next : next - {word['period']};",
        ]
    head = f'extern "C" void nt_map({", ".join(_parameters(form, formula))}) {{'
    return "\n".join([*INCLUDES, f"// {formula.name}", head, *_indented(1, body), "}", ""])


def _indented(levels: int, lines: Sequence[str]) -> list[str]:
    return ["  " * levels + line for line in lines]


def _views(form: ElementwiseForm) -> list[str]:
    """Declare pointers to the operands that share an object."""
    lines = []
    for number, channel in enumerate(form.channels):
        if len(channel) == 1:
            continue
        for part, slot in enumerate(channel):
            dtype = form.inputs[slot]
            tile = f"channel{number} + {part * form.tile}"
            if dtype != form.inputs[channel[0]]:
                tile = f"reinterpret_cast<const {emitter.MEMORY[dtype]} *>({tile})"
            lines.append(f"{_pointer(dtype, f'in{slot}')} = {tile};")
    return lines


def keep_text(form: ElementwiseForm, formula: Formula, slot: int) -> str:
    """Generate the function that copies a resident input from its carrier object and sets the core's start position."""
    carrier = emitter.MEMORY[form.inputs[form.channels[form.carrier][0]]]
    word = {name: f"words[{formula.words + place}]" for place, name in enumerate(counts(form))}
    if slot in form.rows:
        nbytes = form.object_bytes
        end = f"{nbytes} * (1 + {word[f'more{slot}']})"
        begin = [f"state[{CAME}] = at + {nbytes} < {end} ? at + {nbytes} : 0;", f"state[{START}] = {word['start']};"]
    else:
        nbytes = form.kept_bytes(slot)
        begin = [f"state[{VALUE}] = {word['value']};", f"state[{LEFT}] = {word['left']};"]
    return f"""extern "C" void nt_keep{slot}(const {carrier} *__restrict object, \
{emitter.MEMORY[form.inputs[slot]]} *__restrict kept, int32 *__restrict state, const int32 *__restrict words) {{
  const int32 at = state[{CAME}];
  const auto *from = reinterpret_cast<const int32 *>(object);
  auto *to = reinterpret_cast<int32 *>(kept) + at / 4;
  for (int32 i = 0; i < {nbytes // 4}; i += 16)
    aie::store_v(to + i, aie::load_v<16>(from + i));
  {chr(10).join(begin).replace(chr(10), chr(10) + "  ")}
}}
"""
