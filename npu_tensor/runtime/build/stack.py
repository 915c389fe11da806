"""Check of the stacks of a design's cores against the compiler's figures.

    depths = call_depths(Path("source.o"))   # {"nt_map": 1408}, from source.o and source.su in the same directory
    check_stacks(design, depths)

Buffers begin at the end of a stack, so a stack that is too small only shows in wrong results. aiecc makes the same
comparison since mlir-aie#3613, which is newer than 1.4.1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from npu_tensor.dataflow.checks.index import walk
from npu_tensor.dataflow.design import Design, FunctionCall
from npu_tensor.errors import BuildError

FLAGS: Final = ("-fstack-usage", "-ffunction-sections")
"""Compiler flags that write frames to NAME.su, and give each function a section, so that every call is a relocation."""

OUTSIDE: Final = 256
"""Stack in bytes for code outside of our objects.

That is up to 64 for `_main_init` (aiecc's StackSizeAnalysis.cpp), the core's own loop over the calls, and two frames of
64 if C++ divides or multiplies numbers in compiler-rt (mlir-air#1354).
"""


def _layout(**fields: str) -> np.dtype[Any]:
    return np.dtype([(name, f"<{kind}") for name, kind in fields.items()])


# Layouts of 32-bit ELF, the format of cores.
_HEADER: Final = _layout(start="V32", sections="u4", middle="V12", number="u2", names="u2")
_SECTION: Final = _layout(
    name="u4", type="u4", flags="u4", address="u4", offset="u4", size="u4", link="u4", info="u4", end="V8"
)
_SYMBOL: Final = _layout(name="u4", value="u4", size="u4", info="u1", other="u1", section="u2")
_RELOCATION: Final = _layout(offset="u4", symbol="u4", addend="i4")
_SYMBOLS, _RELOCATIONS, _EXECUTABLE, _FUNCTION = 2, 4, 4, 2


def call_depths(object_file: Path) -> dict[str, float]:
    """Return the stack of each function of an object with its callees, in bytes; infinity for recursive functions.

    The result is empty if there is no .su file.
    """
    usage = object_file.with_suffix(".su")
    if not usage.is_file():
        return {}
    lines = [line.split("\t") for line in usage.read_text("utf-8").splitlines()]
    frames = {place.rpartition(":")[2]: int(nbytes) for place, nbytes, *_ in lines}
    data = object_file.read_bytes()
    header = np.frombuffer(data, _HEADER, 1)[0]
    sections = np.frombuffer(data, _SECTION, header["number"], header["sections"])

    def table(section: Any, layout: np.dtype[Any]) -> np.ndarray[Any, Any]:
        return np.frombuffer(data, layout, section["size"] // layout.itemsize, section["offset"])

    symbols = next(table(section, _SYMBOL) for section in sections if section["type"] == _SYMBOLS)
    names = next(sections[section["link"]] for section in sections if section["type"] == _SYMBOLS)
    functions: dict[int, list[str]] = defaultdict(list)  # by section, usually one
    for symbol in symbols[(symbols["info"] & 15) == _FUNCTION]:
        start = int(names["offset"]) + int(symbol["name"])
        functions[int(symbol["section"])].append(data[start : data.index(b"\0", start)].decode())
    calls: dict[int, set[int]] = defaultdict(set)
    for section in sections[sections["type"] == _RELOCATIONS]:
        source = int(section["info"])
        if sections[source]["flags"] & _EXECUTABLE:
            targets = symbols[table(section, _RELOCATION)["symbol"] >> 8]["section"].tolist()
            calls[source].update(target for target in targets if target in functions and target != source)

    def depth(section: int, callers: tuple[int, ...] = ()) -> float:
        if section in callers:
            return math.inf
        own = sum(frames.get(name, 0) for name in functions[section])
        return own + max((depth(callee, (*callers, section)) for callee in calls[section]), default=0)

    return {name: depth(section) for section in functions for name in functions[section] if section}


def check_stacks(design: Design, depths: Mapping[str, float]) -> None:
    """Raise BuildError with the core and the function if a call may need more stack than a core has."""
    for worker in design.workers:
        called = {statement.function for statement, _ in walk(worker.body) if isinstance(statement, FunctionCall)}
        deepest = max(called, key=lambda name: depths.get(name, 0), default="")
        needed = depths.get(deepest, 0) + OUTSIDE
        if needed > worker.stack_size:
            raise BuildError(
                f"the stack of core {worker.tile} has {worker.stack_size} bytes, and {deepest} takes"
                f" {needed - OUTSIDE} with what it calls, besides {OUTSIDE} for the code around it"
            )
