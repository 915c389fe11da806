"""Cycles of kernel functions in hardware traces, beside those of the model and those counted for ours.

traced.json describes each traced kernel by its loops, as read in its public source: `rounds`, `vectors` side by side in
a round, and instructions. "y = 2 lanes x" stands for two instructions of the move slot that read x; the names are those
of counts.json. `table` is a load on both ports. A name that a round reads before it writes it comes from the round
before. `overlap` is the number of rounds that the compiler may overlap, if the source limits it: 1 where loads must
wait for the stores of the round before, else the number of rounds it is promised. Conversions in loads and stores
belong to them.

The model predicts a traced kernel from its description alone: no instruction outside of the loops is known except for
reductions and norms, and calls of division are left out. Rows in which a rule of the model was noticed are marked with
`fit`; no number was fitted to any.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen.cycles import LOOP_CYCLES, LoopWork, function
from npu_tensor.runtime.sim.kind import SIMULATED

from .report import Table, table

SLOWER: Final = 1.5
"""Ratio of our cycles to the traced ones from which a kernel counts as slower."""

_PORTS: Final = {
    "load": (),
    "load_a": ("load_a",),
    "table": ("load_a", "load_b"),
    "store": ("store",),
}
_ACCUMULATING: Final = ("mac", "sum")
"""Instructions that read their first operand as an accumulator, in a later stage than the others."""


def round_work(instructions: Sequence[str], arch: Arch) -> LoopWork:
    """Count the instructions of a round by slot, and its longest chain."""
    slots: Counter[str] = Counter()
    loads: list[int] = []
    ready: dict[str, int] = {}
    carried = end = 0
    accumulate = function("accumulate", arch)
    for text in instructions:
        name, _, right = text.rpartition(" = ")
        words = right.split()
        count = int(words.pop(0)) if words[0].isdigit() else 1
        kind, *operands = words
        if kind in _PORTS:
            latency, step = (1 if kind == "store" else function("load", arch).latency), 1
            slots.update(dict.fromkeys(_PORTS[kind], count))
            loads += [count] * (kind == "load")
        else:
            counted = function("product" if kind == "mac" else kind, arch)
            latency, step = counted.latency, max(1, counted.carried)
            slots.update({slot: count * number for slot, number in zip(counted._fields, counted.slots, strict=False)})
        early = accumulate.latency - accumulate.carried if kind in _ACCUMULATING else 0
        start = 0
        for place, operand in enumerate(operands):
            late = 0 if place else early
            if operand in ready:
                start = max(start, ready[operand] - late)
            elif operand == name:
                carried = max(carried, latency - late)
        finish = start + (count - 1) * step + latency
        end = max(end, finish)
        if name:
            ready[name] = finish
    for count in sorted(loads, reverse=True):
        slots["load_b" if slots["load_b"] <= slots["load_a"] else "load_a"] += count
    return LoopWork(**slots, latency=end, carried=carried)


def loop_cycles(loop: Mapping[str, Any], arch: Arch) -> int:
    """Predict the cycles of a described loop. Vectors of a round have their own accumulators."""
    single = round_work(loop["round"], arch)
    work = single.times(loop.get("vectors", 1))._replace(carried=single.carried)
    rounds = int(loop["rounds"])
    if rounds == 1:
        return work.straight
    if "overlap" in loop:
        return work.straight + LOOP_CYCLES + (rounds - 1) * work.overlapped(loop["overlap"])
    return work.loop(rounds)


def compared() -> Iterator[dict[str, Any]]:
    """Yield the traced cycles of each kernel, those of the model for its loops, and those counted for ours."""
    for row in json.loads(Path(__file__).with_name("traced.json").read_text("utf-8"))["rows"]:
        predicted = sum(loop_cycles(loop, SIMULATED[row["array"]].arch) for loop in row["loops"])
        yield {
            "array": row["array"],
            "work": f"{row['op']} {row['dtype']}",
            "op": row["op"],
            "dtype": row["dtype"],
            "shape": row["shape"],
            "size": "x".join(map(str, row["shape"])),
            "traced": row["cycles"],
            "predicted": predicted,
            "error": predicted / row["cycles"] - 1,
            "fit": row.get("fit", False),
            "design": row.get("design"),
        }


def summaries(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Summarize the errors of the model over all rows and over those that gave no rule to it."""
    kept = [row for row in rows if not row["fit"]]
    return [
        {
            "of": name,
            "rows": len(chosen),
            "median": median(abs(row["error"]) for row in chosen),
            "within_2": sum(abs(math.log2(row["predicted"] / row["traced"])) <= 1 for row in chosen) / len(chosen),
        }
        for name, chosen in (("all kernels", rows), ("kept out", kept))
    ]


def tables(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return the tables of the traced kernels, of the errors, and of our kernels for the same work."""
    ours = [row for row in rows if "ours" in row]
    return [
        table(
            "kernels that were traced: cycles of a call, and those of the model for the same loops",
            rows,
            *("array", "work", "size", "traced:,", "predicted:,", "error:+.0%", "fit"),
        ),
        table(
            "errors of the model",
            summaries(rows),
            *("of", "rows", "median:.0%", "within a factor of 2 = within_2:.0%"),
        ),
        table(
            f"our kernels beside them: {sum(row['ratio'] > SLOWER for row in ours)} of {len(ours)} take more than "
            f"{SLOWER} x the traced cycles",
            ours,
            *("array", "work", "size", "traced:,", "ours:,.0f", "ratio:.2f", "code = design"),
        ),
    ]
