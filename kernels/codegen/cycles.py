"""Predicted cycles and code size of loops over a vector program on a core.

counts.json holds what each function of include/nt needs: instructions per slot of a bundle, and the latency from its
operands to its result. `python -m npu_tensor.tools.counts` counts them while the functions run on the host.

The model: a loop of one block is pipelined. A further round starts after as many cycles as its busiest slot has
instructions, or after the chain that carries a value from round to round. Above DEEP_INTERVAL, at most MOST_STAGES
rounds overlap; above LONGEST_INTERVAL none do, and every round takes its latency. Vectors that a round computes side by
side start one interval apart. A round ends when it issues its last store. Loads of one operand are issued one by one:
they have one pointer, and one bank.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import Program

COUNTS_FILE: Final = Path(__file__).with_name("counts.json")

LOOP_CYCLES: Final = 5
"""Cycles around a loop: cycles = bundles + 5 + (trips - 1) * interval, within 1 to 5 % of traces (mlir-aie's skill
aie-kernel-opt-static, 01673e2f).
"""
LONGEST_INTERVAL: Final = 27
"""Interval above which Peano does not pipeline a loop (the same source)."""
MOST_STAGES: Final = 3
"""Upper bound on the rounds that overlap in a loop with a long interval: the default of llvm-aie's option
aie-pipeliner-max-stagecount. mlir-aie's q4nx_dequant has a chain of about 48 cycles and takes 17 a round.
"""
DEEP_INTERVAL: Final = 11
"""Interval up to which Peano's later pipeliner may overlap more rounds (aie-postpipeliner-cutoff)."""
MOST_UNROLLED: Final = 4
"""Upper bound on the vectors of a round, which the source requests by NT_UNROLL_BY. Assumed: more do not fit into the
12 vector registers of 512 bits.
"""
SCALAR_LATENCY: Final = 7
"""Latency of a scalar load on aie2, measured by ignite-xdna's SILICON.md; 6 on aie2p (tnzr.org)."""
SCALAR_COPY: Final = SCALAR_LATENCY + 5
"""Cycles to copy one element: a load and, one latency later, a store, which writes 5 cycles after its issue (llvm-aie's
schedules). Such loops are not pipelined.
"""
SCALAR_STEP: Final = SCALAR_LATENCY + 4
"""Cycles of a scalar loop's round that loads, compares and branches: a latency and the slots of a jump. Assumed."""

_BRIEF_FORMS: Final = (
    "short maximum zero",
    "short neg",
    "approximate exp",
    "short approximate exp",
    "approximate tanh",
)

ACCUMULATOR, BRIEF = 2, 4
"""Kinds of registers, as bits; 1 are vectors. A value with none was just loaded and goes where it is needed first."""


class PrimitiveForm(NamedTuple):
    """Cheaper form of an instruction.

    Attributes:
        name: Name of the form.
        x: First operand.
        y: Last operand, in the order of the form.
        constant: Constant factor, or upper bound of a rounding.
        least: Lower bound of a rounding.
    """

    name: str
    x: int
    y: int
    constant: float | None = None
    least: float | None = None

    @property
    def brief(self) -> bool:
        """True if the result is a register of bfloat16."""
        return self.name in _BRIEF_FORMS

    @property
    def briefs(self) -> tuple[int, ...]:
        """Places of the operands that the form reads as registers of bfloat16. A form of one operand has it twice."""
        first = self.name.startswith("short")
        return (0,) * first + (1,) * (self.name.endswith("short") or (first and self.x == self.y))


class LoopWork(NamedTuple):
    """Instructions of a round by slot, its latency, and the latency that a value takes from one round to the next."""

    load_a: int = 0
    load_b: int = 0
    load: int = 0
    store: int = 0
    vector: int = 0
    move: int = 0
    latency: int = 0
    carried: int = 0

    @property
    def slots(self) -> tuple[int, ...]:
        """Instructions by slot, in the order of the fields."""
        return self[:6]

    @property
    def interval(self) -> int:
        """Cycles from round to round in a pipelined loop."""
        loads = -(-(self.load_a + self.load_b + self.load) // 2)
        return max(1, self.load_a, self.load_b, loads, self.store, self.vector, self.move, self.carried)

    @property
    def straight(self) -> int:
        """Cycles of a single round."""
        return max(self.latency, self.interval)

    @property
    def round(self) -> int:
        """Cycles of a round among many."""
        if self.interval > LONGEST_INTERVAL:
            return self.straight
        return max(self.interval, -(-self.latency // MOST_STAGES)) if self.interval > DEEP_INTERVAL else self.interval

    def overlapped(self, rounds: int) -> int:
        """Return the cycles of a round if no more than some rounds may overlap: those that the source promises."""
        return max(self.round, -(-self.straight // rounds))

    @property
    def unrolled(self) -> int:
        """Vectors to compute side by side in a round, so that they take the fewest cycles."""
        return min(range(1, MOST_UNROLLED + 1), key=lambda vectors: self.times(vectors).round / vectors)

    def times(self, vectors: int) -> LoopWork:
        """Return the work of several vectors side by side."""
        latency = self.straight + (vectors - 1) * self.interval
        return LoopWork._make([*(vectors * count for count in self.slots), latency, vectors * self.carried])

    def loop(self, trips: int) -> int:
        """Return the cycles of a loop."""
        return self.straight + LOOP_CYCLES + (trips - 1) * self.round if trips else 0


class CountedFunction(NamedTuple):
    """Work of a function of the headers, and the kinds of registers of its operands and of its result."""

    work: LoopWork
    takes: int = 0
    gives: int = 0


FIELDS: Final = len(LoopWork._fields) + len(CountedFunction._fields) - 1
"""Numbers of an entry of counts.json: the fields of LoopWork, then the other ones of CountedFunction."""
NO_FORMS: Final[Mapping[int, PrimitiveForm]] = MappingProxyType({})

_OF_MASKS: Final = frozenset(
    (
        *("and", "or", "xor", "not", "select", "cast", "eq", "ne", "lt", "le", "gt", "ge"),
        *("add", "mul", "maximum", "minimum"),
    )
)
# A bundle of the processor has up to 128 bits; a loop has some more around its body.
_BUNDLE_BYTES: Final = 16
_LOOP_BUNDLES: Final = 40


def counting_flags(arch: Arch) -> tuple[str, ...]:
    """Return the compiler options with which the host version of aie_api counts instructions."""
    macs = ARRAYS[arch].macs_per_cycle
    dtypes = ("bfloat16", "bfp16", "int8", "int16", "int32")
    return ("-DNT_HOST_COUNT", *(f"-DNT_HOST_{dtype.upper()}={macs.get(dtype, 1)}" for dtype in dtypes))


@cache
def _counts(arch: str) -> Mapping[str, CountedFunction]:
    counts: Mapping[str, Sequence[int]] = json.loads(COUNTS_FILE.read_text("utf-8"))[arch]
    size = len(LoopWork._fields)
    return {name: CountedFunction(LoopWork(*entry[:size]), *entry[size:]) for name, entry in counts.items()}


def function(name: str, arch: str) -> LoopWork:
    """Return the work of one round of a loop in the headers, by its name in counts.json."""
    return _counts(arch)[name].work


def has_code(primitive: str, dtype: str) -> bool:
    """Return True if the header has a function for a primitive with operands of a register type."""
    if dtype == "bool":
        return primitive in _OF_MASKS
    return primitive == "cast" or _entry("aie2", primitive, dtype, "full") is not None


_LANES: Final = {
    "row_sum": ("sum_lanes",),
    "row_prod": ("mul",) * 4,
    "row_max": ("max_lanes",),
    "row_min": ("min_lanes",),
    "row_argmax": ("max_lanes", "eq"),
    "row_argmin": ("min_lanes", "eq"),
}
"""Operations that combine the lanes of a reduction at the end of a row."""


def lanes_cycles(reduction: str, dtype: str, arch: Arch) -> int:
    """Predict the cycles to combine the lanes of a reduction at the end of a row."""
    entries = (_entry(arch, step, dtype, "full") for step in _LANES[reduction])
    return sum(entry.work.straight for entry in entries if entry is not None)


def _entry(arch: Arch, name: str, dtype: str, precision: str) -> CountedFunction | None:
    counts = _counts(arch)
    return counts.get(f"{name} {dtype}") or counts.get(f"{name} {dtype} {precision}")


def work(
    program: Program,
    arch: Arch,
    lanes: int,
    precision: Mapping[int, Precision] = MappingProxyType({}),
    numbers: Collection[int] | None = None,
    forms: Mapping[int, PrimitiveForm] = NO_FORMS,
    memory: Mapping[int, str] = MappingProxyType({}),
) -> LoopWork:
    """Count the work of one vector.

    Outputs count as stored if they are among the chosen instructions.

    Args:
        program: Program of the op.
        arch: Generation of the array.
        lanes: Elements per vector.
        precision: Precision of the instructions; "full" for those without one.
        numbers: Chosen instructions; by default all of them. The others are known before the loop.
        forms: Cheaper forms found by `emitter.cheaper`.
        memory: Dtypes in memory of loads and outputs; bfloat16 for float32 registers without one.

    Raises:
        KeyError: A core has no code for an instruction or dtype, such as float64.
    """
    array = ARRAYS[arch]
    slots = [0] * 6
    load_a, load_b, store, move = 0, 1, 3, 5
    loads: list[int] = []
    latency = {name: function(name, arch).latency for name in ("load", "move", "narrow")}
    ready: dict[int, int] = {}
    places: dict[int, int] = {}
    carried = 0

    def stored(number: int) -> tuple[int, bool]:
        """Return the bytes of a value in memory, and True if they are converted."""
        register = _register(program.instructions[number].dtype)
        dtype = memory.get(number, "bfloat16" if register == "float32" else register)
        return lanes * (2 if dtype == "bfloat16" else np.dtype(dtype).itemsize), dtype == "bfloat16"

    def use(number: int, takes: int, brief: bool = False) -> int:
        """Return the cycle at which a value is in registers of some kind, or is a register of bfloat16."""
        if number not in ready:  # a constant
            return 0
        have = places.get(number, 0)
        if program.instructions[number].primitive == "load":
            size, converted = stored(number)
            needed = BRIEF if brief and converted else ACCUMULATOR if converted else takes or 1
            if not have & needed:
                instructions = -(-2 * size // array.load_bytes)
                if needed & ACCUMULATOR:
                    slots[load_a] += instructions
                else:
                    loads.append(instructions)
                have |= needed
                places[number] = have
            if needed == BRIEF:
                return ready[number]
        if brief:
            if have & BRIEF:
                return ready[number]
            slots[store] += 1
            return use(number, ACCUMULATOR) + latency["narrow"]
        if have and takes and not have & takes:
            slots[move] += 1
            ready[number] += latency["move"]
        places[number] = have | takes
        return ready[number]

    for number in range(len(program.instructions)) if numbers is None else numbers:
        instruction = program.instructions[number]
        if instruction.primitive == "load":
            ready[number] = latency["load"]
        elif instruction.operands:
            counted = _of_instruction(program, number, arch, precision, forms)
            form = forms.get(number)
            operands = instruction.operands if form is None else (form.x, form.y)
            briefs = () if form is None else form.briefs
            start = max(use(operand, counted.takes, place in briefs) for place, operand in enumerate(operands))
            slots = [a + b for a, b in zip(slots, counted.work.slots, strict=True)]
            ready[number] = start + counted.work.latency
            places[number] = BRIEF if form is not None and form.brief else counted.gives
            carried = max(carried, counted.work.carried)
        if number in program.outputs:
            size, converted = stored(number)
            narrows = converted and places.get(number) != BRIEF
            ready[number] = use(number, ACCUMULATOR if narrows else 0) + 1
            slots[store] += -(-size // array.store_bytes)
    for instructions in sorted(loads, reverse=True):
        slots[load_a if slots[load_a] < slots[load_b] else load_b] += instructions
    return LoopWork._make([*slots, max(ready.values(), default=0), carried])


def program_bytes(
    program: Program,
    precision: Mapping[int, Precision] = MappingProxyType({}),
    numbers: Collection[int] | None = None,
    forms: Mapping[int, PrimitiveForm] = NO_FORMS,
    arch: Arch = "aie2",
) -> int:
    """Estimate the machine code of a loop over a vector: a bundle per instruction of functions, load and store."""
    chosen = range(len(program.instructions)) if numbers is None else numbers
    bundles = _LOOP_BUNDLES
    for number in chosen:
        bundles += 1
        if program.instructions[number].operands:
            bundles += sum(_of_instruction(program, number, arch, precision, forms).work.slots)
    return bundles * _BUNDLE_BYTES


def _register(dtype: str) -> str:
    """Return the register type of a dtype. Positions are int64 in a program and int32 in a core."""
    return "int32" if dtype == "int64" else dtype


def _of_instruction(
    program: Program,
    number: int,
    arch: Arch,
    precision: Mapping[int, Precision],
    forms: Mapping[int, PrimitiveForm],
) -> CountedFunction:
    instruction = program.instructions[number]
    dtype = _register(program.instructions[instruction.operands[-1]].dtype)
    if instruction.primitive == "cast" and number not in forms:
        return _counts(arch)[f"{_register(instruction.dtype)} {dtype} cast"]
    if dtype == "bool":
        return CountedFunction(LoopWork(latency=1))  # scalar instructions
    name = forms[number].name if number in forms else instruction.primitive
    entry = _entry(arch, name, dtype, precision.get(number, "full"))
    if entry is None:
        raise KeyError((name, dtype))
    return entry
