"""Translation of a `Program` to C++ statements that call functions of include/nt/vector_math.hpp.

    code = statements(choose(program, {0}), given={0: "nt::load<float, N>(a + i)"}, lanes=16)
    code.hoisted    # ["const auto v2 = nt::broadcast<float, 16>(0.5f);"]: before the loop
    code.body       # ["const auto v0 = nt::load<float, 16>(a + i);", "const auto v3 = nt::mul(v0, v2);"]: in the loop
    code.values[3]  # "v3"

Each register of a program becomes one variable: a vector of `lanes` elements, or a mask if the register is a bool.
Instructions that the caller computes itself (loads, scalars, row reductions) are passed in `given`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen.cycles import NO_FORMS, PrimitiveForm, has_code
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.analysis import Precision, exact_in_bfloat16, needed, nonnegative, precisions, roundable
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.ops.rows import ROW_LENGTH_SLOT

REGISTERS: Final[Mapping[str, str]] = {
    "float32": "float",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}
"""C++ element type of each register type of a core; bool stands for aie::mask."""

MEMORY: Final[Mapping[str, str]] = {
    "bfloat16": "bfloat16",
    **{dtype: name for dtype, name in REGISTERS.items() if dtype != "bool"},
}
"""C++ element type of each dtype of objects and buffers."""

VECTOR_BYTES: Final = 64
"""Bytes of a vector register (512 bits)."""

# Header functions whose names differ from the primitives, because those are keywords of C++.
FUNCTIONS: Final = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor", "not": "bit_not"}

# C++ of each cheaper form. A short number is exact in bfloat16; short_x and short_y are bfloat16 registers.
FORMS: Final[Mapping[str, str]] = {
    "short mul short": "nt::mul({short_x}, {short_y})",
    "short mul factor": "nt::mul({short_x}, {y}_{precision})",
    "mul factor": "nt::mul<nt::{precision}>({x}, {y}_{precision})",
    "square": "nt::square<nt::{precision}>({x})",
    "short maximum zero": "nt::positive_part({short_x})",
    "short neg": "nt::neg({short_x})",
    "short exp": "nt::exp({short_x})",
    "div length": "nt::mul<nt::{precision}>({x}, length_reciprocal)",
    "rsqrt": "nt::rsqrt<nt::{precision}>({x})",
    "short mul constant": "nt::mul({short_x}, nt::SplitConstant<{parts}>({constant}))",
    "add short": "nt::add({x}, {short_y})",
    "sub short": "nt::sub({x}, {short_y})",
    "mul short": "nt::mul<nt::{precision}>({x}, {short_y})",
    "mul constant": "nt::mul<nt::{precision}>({x}, nt::SplitConstant<{parts}>({constant}))",
    "short div one or more": "nt::div_by_one_or_more({short_x}, {y})",
    "div one or more": "nt::div_by_one_or_more({x}, {y})",
    "gt constant": "nt::gt({x}, {constant}f)",
    "lt constant": "nt::lt({x}, {constant}f)",
    "maximum constant": "nt::maximum({x}, {constant}f)",
    "minimum constant": "nt::minimum({x}, {constant}f)",
    **{
        f"round {dtype}": f"nt::rounded<{dtype}>({{x}}, {{least}}f, {{constant}}f)"
        for dtype in ("int8", "uint8", "int16")
    },
}

# Hoisted C++ of a factor that all vectors of a loop share, by precision.
FACTORS: Final[Mapping[str, str]] = {"half": "nt::split_alike", "full": "nt::split_below<3>"}

# C++ of the forms whose errors are larger than the rounding to bfloat16, by array.
_POLYNOMIAL_FORMS: Final = {
    "approximate tanh": "nt::approximate_tanh({x})",
    "short logistic": "nt::approximate_logistic({short_x})",
    "short div one plus exp short": "nt::approximate_logistic({short_x}, {short_y})",
    "short mul one plus erf short": "nt::approximate_one_plus_erf({short_x}, {short_y})",
}
APPROXIMATE_FORMS: Final[Mapping[Arch, Mapping[str, str]]] = {
    "aie2": _POLYNOMIAL_FORMS,
    "aie2p": {
        **_POLYNOMIAL_FORMS,
        "approximate exp": "nt::approximate_exp({x})",
        "short approximate exp": "nt::approximate_exp({short_x})",
    },
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Instructions that a core executes.

    Attributes:
        program: Program of the instructions.
        numbers: Instructions to execute, ascending. Operands that only bypassed forms read are not among them.
        precision: Precision of each instruction.
        forms: Cheaper functions, by instruction number.
        invariant: Given instructions with the same value in every iteration of the loop.
        short: Given instructions whose registers hold bfloat16.
    """

    program: Program
    numbers: tuple[int, ...]
    precision: Mapping[int, Precision]
    forms: Mapping[int, PrimitiveForm]
    invariant: Collection[int]
    short: Collection[int]


class Statements(NamedTuple):
    """C++ of a program: lines before the loop, lines inside it, and the expression of every needed instruction.

    `stored` are the expressions to store; a number that is a register of bfloat16 is not converted.
    """

    hoisted: list[str]
    body: list[str]
    values: dict[int, str]
    stored: dict[int, str]


def refusal(program: Program, given: Collection[int] = (), roots: Iterable[int] | None = None) -> str | None:
    """Return the reason why a core cannot compute the roots (by default the outputs), or None.

    Instructions in `given` are not checked.
    """
    for number in needed(program, program.outputs if roots is None else roots, given):
        instruction = program.instructions[number]
        if number in given:
            continue
        if instruction.dtype not in REGISTERS:
            return f"{instruction.dtype} arithmetic"
        if instruction.primitive.startswith("row_") or instruction.primitive == "index":
            return f"{instruction.primitive} outside of a row"
        if instruction.operands:
            dtype = program.instructions[instruction.operands[-1]].dtype
            if not has_code(instruction.primitive, dtype):
                return f"{instruction.primitive} of {dtype}"
    return None


def lanes(program: Program) -> int:
    """Return the elements per vector: as many as fit a register in the widest type, counting 64-bit types as 32-bit."""
    sizes = (np.dtype(instruction.dtype).itemsize for instruction in program.instructions)
    return VECTOR_BYTES // min(4, max(sizes, default=1))


def literal(value: float, dtype: str) -> str:
    """Format a number as C++ of a register type."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype != "float32":
        # The smallest int32 has no literal of its own: its digits exceed the range before the minus applies.
        return "-2147483647 - 1" if value == -(2**31) else str(int(value))
    number = _float32(value)
    if np.isnan(number):
        return '__builtin_nanf("")'
    if np.isinf(number):
        return "-__builtin_inff()" if number < 0 else "__builtin_inff()"
    return f"{number!s}f"


def _float32(value: float) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(value)


def broadcast(expression: str, dtype: str, lanes: int) -> str:
    """Return a C++ expression with the same number in every lane of a register."""
    return f"nt::broadcast<{REGISTERS[dtype]}, {lanes}>({expression})"


def word_dtype(program: Program, slot: int) -> Word | None:
    """Return the dtype in which the number in a slot is passed, or None if the program reads it in two ways."""
    words: set[Word] = {
        "float32" if step.dtype == "float32" else "bool" if step.dtype == "bool" else "int32"
        for step in program.instructions
        if step.primitive == "scalar" and step.value == slot
    }
    if len(words) > 1:
        return None
    return words.pop() if words else "float32"


def broadcast_word(words: str, number: int, dtype: str, lanes: int) -> str:
    """Return the C++ for a register with a word of the runtime parameters `words` in every lane."""
    cast = "__builtin_bit_cast(float, " if dtype == "float32" else f"static_cast<{REGISTERS[dtype]}>("
    return broadcast(f"{cast}{words}[{number}])", dtype, lanes)


def choose(
    program: Program,
    given: Collection[int] = (),
    precision: Precision = "full",
    roots: Iterable[int] | None = None,
    invariant: Collection[int] = (),
    short: Collection[int] = (),
    by_reciprocal: bool = False,
    approximate: Arch | None = None,
) -> Choice:
    """Choose the instructions that compute `roots`, their precision and their cheaper forms.

    Args:
        program: Program to translate.
        given: Instructions that the caller computes itself.
        precision: Precision that the roots need; "half" if they are rounded to bfloat16 afterwards. An inner
            instruction is less exact only if its error does not grow on the way to the roots.
        roots: Instructions to compute; by default the outputs.
        invariant: Members of `given` that are the same in every iteration of the loop. Statements that depend only on
            these are hoisted.
        short: Members of `given` whose expressions are bfloat16 registers, which are cheaper to multiply.
        by_reciprocal: True if the C++ variable length_reciprocal replaces divisions by the length of a row.
        approximate: Array whose APPROXIMATE_FORMS are used.
    """
    roots = list(program.outputs if roots is None else roots)
    order = needed(program, roots, given)
    coarse = approximate_forms(program, order, approximate, short)
    precision_of = precisions(program, order, precision, short, _tolerant(program, order, coarse))
    forms = _cheaper(program, order, precision_of, short, invariant, by_reciprocal, coarse)
    skipped = _unread(program, order, forms) - set(roots)
    numbers = tuple([number for number in order if number not in skipped])
    return Choice(program, numbers, precision_of, forms, invariant, short)


def statements(choice: Choice, given: Mapping[int, str], lanes: int, prefix: str = "v") -> Statements:
    """Generate the statements of the chosen instructions from the expressions in `given`.

    Args:
        choice: Instructions to translate.
        given: C++ expressions of instructions that the caller computes itself.
        lanes: Elements per vector.
        prefix: Prefix of the variable names.

    Raises:
        KeyError: The program has a `refusal`.
    """
    program, forms = choice.program, choice.forms
    hoisted: list[str] = []
    body: list[str] = []
    values: dict[int, str] = {}
    brief: dict[int, str] = {}
    stored: dict[int, str] = {}
    constant: set[int] = set()
    for number in choice.numbers:
        instruction = program.instructions[number]
        if number in given:
            expression = given[number]
            same = number in choice.invariant
        else:
            form = forms.get(number)
            if form is not None and form.name.endswith("mul factor"):
                factor, parts = values[form.y], choice.precision[number]
                line = f"const auto {factor}_{parts} = {FACTORS[parts]}({factor});"
                hoisted += [line] if line not in hoisted else []
            expression = _expression(program, instruction, values, brief, lanes, choice.precision[number], form)
            same = all(operand in constant for operand in instruction.operands)
        values[number] = f"{prefix}{number}"
        if same:
            constant.add(number)
        lines = hoisted if same else body
        is_brief = number in forms and forms[number].brief
        stored[number] = f"{prefix}{number}_short" if is_brief else values[number]
        if is_brief or (number in choice.short and number in given):
            brief[number] = f"nt::brief({prefix}{number}_short)"
            lines.append(f"const auto {prefix}{number}_short = {expression};")
            expression = f"nt::widened({prefix}{number}_short)"
        else:
            brief[number] = f"nt::brief({values[number]})"
        lines.append(f"const auto {values[number]} = {expression};")
    return Statements(hoisted, body, values, stored)


def _unread(program: Program, order: Sequence[int], forms: Mapping[int, PrimitiveForm]) -> set[int]:
    """Return the instructions that nothing reads, because forms read their operands instead."""
    read, bypassed, result = set(program.outputs), set[int](), set[int]()
    for number in reversed(order):
        operands = program.instructions[number].operands
        if number in bypassed and number not in read:
            result.add(number)
            bypassed.update(operands)
        elif number in forms:
            read.update(forms[number][1:3])
            bypassed.update(operands)
        else:
            read.update(operands)
    return result


def _expression(
    program: Program,
    instruction: Instruction,
    values: Mapping[int, str],
    brief: Mapping[int, str],
    lanes: int,
    precision: Precision,
    form: PrimitiveForm | None,
) -> str:
    primitive, operands, dtype, value = instruction
    if form is not None:
        constant = None if form.constant is None else _float32(form.constant)
        parts = "" if constant is None else str(_parts(constant, 2 if precision == "half" else 3))
        factors = {"x": values[form.x], "y": values[form.y], "short_x": brief[form.x], "short_y": brief[form.y]}
        text = FORMS.get(form.name) or APPROXIMATE_FORMS["aie2p"][form.name]
        return text.format(precision=precision, constant=constant, least=form.least, parts=parts, **factors)
    if primitive == "constant":
        return broadcast(literal(value, dtype), dtype, lanes)
    template = ""
    if primitive == "cast":
        template = f"<{REGISTERS[dtype]}>"
    elif PRIMITIVES[primitive].inexact and dtype == "float32":
        template = f"<nt::{precision}>"
    arguments = ", ".join(values[operand] for operand in operands)
    return f"nt::{FUNCTIONS.get(primitive, primitive)}{template}({arguments})"


def _cheaper(
    program: Program,
    order: Sequence[int],
    precision_of: Mapping[int, Precision],
    short: Collection[int],
    invariant: Collection[int],
    by_reciprocal: bool,
    coarse: Mapping[int, PrimitiveForm],
) -> dict[int, PrimitiveForm]:
    """Find the instructions of `order` for which the header has a function cheaper than the general one.

    The arguments are those of `choose`, and the forms found by `approximate_forms`.
    """
    exact = exact_in_bfloat16(program, order, short)
    if coarse:
        exact |= roundable(program, order, _tolerant(program, order, coarse))
    positive = nonnegative(program, order)
    same = set(invariant)
    for number in order:
        operands = program.instructions[number].operands
        if program.instructions[number].primitive == "constant" or (operands and same.issuperset(operands)):
            same.add(number)
    brief = set(short)
    forms: dict[int, PrimitiveForm] = {}
    for number in order:
        primitive, operands, _, _ = program.instructions[number]
        if not 1 <= len(operands) <= 2 or program.instructions[operands[-1]].dtype != "float32" or number in short:
            continue
        x, y = operands[0], operands[-1]
        if number in coarse:
            forms[number] = coarse[number]
            if coarse[number].brief:
                brief.add(number)
                exact.add(number)
            continue
        if len(operands) == 1:
            if primitive == "cast" and (rounding := _rounding(program, number)) is not None:
                forms[number] = rounding
            if (primitive == "neg" and x in brief) or (
                primitive == "exp" and x in exact and precision_of[number] == "half"
            ):
                forms[number] = PrimitiveForm(f"short {primitive}", x, x)
                brief.update([number] if primitive == "neg" else [])
            continue
        if primitive in ("gt", "lt") and _constant(program, x) is not None:
            primitive, x, y = {"gt": "lt", "lt": "gt"}[primitive], y, x
        is_better_second = _constant(program, x) is not None or (y not in exact and _constant(program, y) is None)
        if primitive in ("mul", "maximum", "minimum") and is_better_second:
            x, y = y, x  # the operand that makes it cheaper comes second
        if primitive == "add" and y not in short:
            x, y = y, x
        constant = _constant(program, y)
        form = None
        if primitive in ("add", "sub") and y in short and (x in exact or precision_of[number] == "half"):
            form = PrimitiveForm(f"{primitive} short", x, y)
        elif primitive == "mul" and exact.issuperset(operands):
            form = PrimitiveForm("short mul short", x, y)
        elif primitive == "mul" and constant is not None and _splits(constant):
            form = PrimitiveForm("short mul constant" if x in exact else "mul constant", x, y, constant)
        elif primitive == "mul" and y in exact:
            is_factor = x in same and y not in same and precision_of[number] == "half"
            form = PrimitiveForm("short mul factor", y, x) if is_factor else PrimitiveForm("mul short", x, y)
        elif primitive == "mul" and x == y:
            form = PrimitiveForm("square", x, x)
        elif primitive == "mul" and (x in same) != (y in same):
            form = PrimitiveForm("mul factor", *((y, x) if x in same else (x, y)))
        elif primitive == "maximum" and constant == 0 and x in brief:
            form = PrimitiveForm("short maximum zero", x, y)
        elif (
            primitive in ("gt", "lt", "maximum", "minimum") and constant is not None and np.isfinite(_float32(constant))
        ):
            form = PrimitiveForm(f"{primitive} constant", x, y, constant)
        elif primitive == "div" and by_reciprocal and _is_length(program, y):
            form = PrimitiveForm("div length", x, y)
        elif primitive == "div" and precision_of[number] == "half":
            if (square := _square(program, y)) in precision_of and _constant(program, x) == 1:
                form = PrimitiveForm("rsqrt", square, square)
            elif constant is not None and _splits(constant):
                form = PrimitiveForm("short mul constant" if x in exact else "mul constant", x, y, 1 / constant)
            elif _is_one_or_more(program, y, positive):
                form = PrimitiveForm("short div one or more" if x in exact else "div one or more", x, y)
        if form is not None:
            forms[number] = form
            brief.update([number] if form.brief else [])
    return forms


def approximate_forms(
    program: Program, order: Iterable[int], arch: Arch | None, short: Collection[int] = ()
) -> Mapping[int, PrimitiveForm]:
    """Find the instructions of `order` that have a form among APPROXIMATE_FORMS; none for no array."""
    if arch is None:
        return NO_FORMS
    exact = exact_in_bfloat16(program, order, short)
    forms = ((number, _approximate(program, number, exact)) for number in order)
    return {number: form for number, form in forms if form is not None and form.name in APPROXIMATE_FORMS[arch]}


def _tolerant(program: Program, order: Sequence[int], coarse: Mapping[int, PrimitiveForm]) -> set[int]:
    """Return the instructions that never need full operands because `coarse` forms replace them.

    The errors of hyperbolic tangents and of erf hardly depend on those of their operands. The relative error of an
    exponential is the absolute one of its operand, which grows with it.
    """
    return _unread(program, order, coarse) | {
        number for number, form in coarse.items() if not form.name.endswith("exp")
    }


def _approximate(program: Program, number: int, exact: Collection[int]) -> PrimitiveForm | None:
    """Return the form of an instruction among APPROXIMATE_FORMS, if there is one."""
    primitive, operands, _, _ = program.instructions[number]
    if primitive == "exp":
        is_short = operands[0] in exact
        return PrimitiveForm("short approximate exp" if is_short else "approximate exp", operands[0], operands[0])
    if primitive == "tanh":
        return PrimitiveForm("approximate tanh", operands[0], operands[0])
    if primitive == "div" and (power := _one_plus(program, operands[1], "exp")) is not None:
        if _constant(program, operands[0]) == 1:
            return PrimitiveForm("short logistic", power, power)
        return PrimitiveForm("short div one plus exp short", operands[0], power)
    for factor, total in (operands, operands[::-1]) if primitive == "mul" else ():
        if (angle := _one_plus(program, total, "erf")) is not None:
            return PrimitiveForm("short mul one plus erf short", factor, angle)
    return None


def _one_plus(program: Program, number: int, function: str) -> int | None:
    """Return x if an instruction is 1 + function(x)."""
    primitive, operands, _, _ = program.instructions[number]
    for one, other in (operands, operands[::-1]) if primitive == "add" else ():
        if _constant(program, one) == 1 and program.instructions[other].primitive == function:
            return program.instructions[other].operands[0]
    return None


def _rounding(program: Program, number: int) -> PrimitiveForm | None:
    """Return the form of a conversion to an integer that is one of rint(x), with or without integral bounds."""
    name = f"round {program.instructions[number].dtype}"
    if name not in FORMS:
        return None
    limits, is_rounded = np.iinfo(program.instructions[number].dtype), False
    least, most = float(limits.min), float(limits.max)
    (x,) = program.instructions[number].operands
    while True:
        primitive, operands, _, _ = program.instructions[x]
        if primitive == "rint":
            is_rounded, x = True, operands[0]
            continue
        if primitive not in ("maximum", "minimum"):
            break
        clipped, last = operands if _constant(program, operands[0]) is None else operands[::-1]
        bound = _constant(program, last)
        if bound is None or np.isnan(bound):
            break
        low, high = (max(least, bound), most) if primitive == "maximum" else (least, min(most, bound))
        # The function returns 0 for NaN.
        if not (low <= 0 <= high and low.is_integer() and high.is_integer()):
            break
        least, most, x = low, high, clipped
    return PrimitiveForm(name, x, x, most, least) if is_rounded else None


def _is_length(program: Program, number: int) -> bool:
    """Return True if an instruction is the length of a row, in any dtype."""
    primitive, operands, _, value = program.instructions[number]
    if primitive == "cast":
        return _is_length(program, *operands)
    return primitive == "scalar" and value == ROW_LENGTH_SLOT


def _square(program: Program, number: int) -> int:
    """Return the operand of a square root; -1 for other instructions."""
    primitive, operands, _, _ = program.instructions[number]
    return operands[0] if primitive == "sqrt" else -1


def _constant(program: Program, number: int) -> float | None:
    primitive, _, _, value = program.instructions[number]
    return float(value) if primitive == "constant" else None


def _splits(value: float) -> bool:
    """Return True if the parts of a constant, and of its reciprocal, are normal bfloat16 numbers."""
    return 2.0**-100 < abs(value) < 2.0**100


def _parts(value: np.float32, most: int) -> int:
    """Count the truncated bfloat16 numbers that make up a constant; see nt::SplitConstant."""
    rest = float(str(value))
    for count in range(1, most):
        rest -= float((np.float32(rest).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))
        if rest == 0:
            return count
    return most


def _is_one_or_more(program: Program, number: int, positive: Collection[int]) -> bool:
    primitive, operands, _, _ = program.instructions[number]
    constants = [_constant(program, operand) for operand in operands]
    return (
        primitive == "add"
        and all(operand in positive for operand in operands)
        and any(constant is not None and constant >= 1 for constant in constants)
    )
