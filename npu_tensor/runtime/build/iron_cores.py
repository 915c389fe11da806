"""Work of the cores of a design, as Python functions that IRON's workers share.

Workers whose bodies differ in names only share one function. Its parameters are the ends of the fifos, the buffers and
the kernel functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.index import walk
from npu_tensor.dataflow.design import Acquire, Design, Element, FunctionCall, Loop, Release, Statement, Word, Worker
from npu_tensor.runtime.build.iron_names import distinct, wrapped

Number = int | float
Operand = Element | str | Word | Number


class Core(NamedTuple):
    """Function for cores: its name and its text."""

    name: str
    text: str


class PlacedWorker(NamedTuple):
    """Worker with its function, and the buffer names and symbols that follow its fifos' ends."""

    worker: Worker
    core: Core
    memory: tuple[str, ...]
    functions: tuple[str, ...]


def cores(design: Design, taken: Iterable[str]) -> list[PlacedWorker]:
    """Return the workers in order. `taken` are names that no function may have."""
    bodies = [_WorkerBody(worker) for worker in design.workers]
    groups: dict[object, list[_WorkerBody]] = {}
    for body in bodies:
        groups.setdefault(body.key, []).append(body)
    names = ["core"] if len(groups) == 1 else [f"core{number}" for number in range(len(groups))]
    functions = {
        key: Core(name, _text(name, group))
        for name, (key, group) in zip(distinct(names, taken), groups.items(), strict=True)
    }
    return [
        PlacedWorker(body.worker, functions[body.key], tuple(body.memory), tuple(body.functions)) for body in bodies
    ]


class _WorkerBody:
    """Body in terms of slots. key: the same for bodies that differ in names only."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.memory: list[str] = []
        self.functions: list[str] = []
        shape = tuple(self._shape(statement) for statement in worker.body)
        self.key = (shape, len(worker.fifos), len(self.memory), tuple(self.functions))

    def _shape(self, statement: Statement) -> object:
        if isinstance(statement, Acquire):
            return "acquire", self.worker.fifos.index(statement.fifo), statement.objects, statement.number
        if isinstance(statement, Release):
            return "release", self.worker.fifos.index(statement.fifo), statement.objects
        if isinstance(statement, Loop):
            return "loop", self._argument(statement.rounds), tuple(self._shape(inner) for inner in statement.body)
        if statement.function not in self.functions:
            self.functions.append(statement.function)
        return "call", statement.function, tuple(self._argument(argument) for argument in statement.arguments)

    def _argument(self, argument: Operand) -> object:
        if isinstance(argument, Element):
            return "element", argument.acquire, argument.position
        if isinstance(argument, Word):
            return "word", self._argument(argument.memory), argument.number
        if isinstance(argument, str):
            if argument not in self.memory:
                self.memory.append(argument)
            return "memory", self.memory.index(argument)
        return _number(argument)


# --- text

TRAILING: Final = re.compile(r"(_\d*)+$")
BUILT_IN: Final = frozenset(["float", "range_"])
"""Names that the functions use in addition to their parameters."""


def _text(name: str, group: Sequence[_WorkerBody]) -> str:
    body = group[0]
    symbols = distinct(body.functions, BUILT_IN)
    names = [_common(names) for names in zip(*(other.worker.fifos for other in group), strict=True)]
    names += [_common(names) for names in zip(*(other.memory for other in group), strict=True)]
    pointers = distinct(names, {*BUILT_IN, *symbols})
    calls = [statement for statement, _ in walk(body.worker.body) if isinstance(statement, FunctionCall)]
    used = {argument.acquire for call in calls for argument in call.arguments if isinstance(argument, Element)}
    named = (*body.worker.fifos, *body.memory, *body.functions)
    writer = _Writer(dict(zip(named, (*pointers, *symbols), strict=True)), used)
    header = f"def {name}({', '.join([*pointers, *symbols])}):"
    return "\n".join([*wrapped(header, ""), *(writer.lines(body.worker.body, "    ") or ["    pass"])])


def _common(names: Sequence[str]) -> str:
    """Return the common part of names such as in0_2_3 and in0_2_4: in0."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return TRAILING.sub("", "".join(letters[0] for letters in alike)) or "end"


def _number(number: Number) -> str:
    """Return a number as Python source, without the type of a NumPy number."""
    if not isinstance(number, float):
        return str(int(number))
    return repr(float(number)) if math.isfinite(number) else f'float("{number}")'


class _Writer:
    """Writer of the statements of a body. Every acquire whose objects calls use gets a name of its own.

    Args:
        names: Names of fifos, buffers and functions in the text.
        used: Acquires whose objects calls use.
    """

    def __init__(self, names: dict[str, str], used: set[int]) -> None:
        self._names = names
        self._used = used
        self._taken = set(names.values())
        self._objects: dict[int, list[str]] = {}

    def lines(self, statements: Sequence[Statement], indent: str) -> list[str]:
        lines = []
        for statement in statements:
            if isinstance(statement, Loop):
                lines.append(f"{indent}for _ in range_({self._argument(statement.rounds)}):")
                lines += self.lines(statement.body, indent + "    ")
            elif isinstance(statement, FunctionCall):
                arguments = ", ".join(self._argument(argument) for argument in statement.arguments)
                lines += wrapped(f"{self._names[statement.function]}({arguments})", indent)
            elif isinstance(statement, Release):
                lines.append(f"{indent}{self._names[statement.fifo]}.release({statement.objects})")
            else:
                call = f"{self._names[statement.fifo]}.acquire({statement.objects})"
                lines.append(f"{indent}{self._target(statement)}{call}")
        return lines

    def _target(self, acquire: Acquire) -> str:
        """Return the assignment of the objects, or "" if no call uses them."""
        if acquire.number not in self._used:
            return ""
        count = acquire.objects
        (name,) = distinct([f"{self._names[acquire.fifo]}_object" + "s" * (count > 1)], self._taken)
        self._taken.add(name)
        self._objects[acquire.number] = [f"{name}[{n}]" for n in range(count)] if count > 1 else [name]
        return f"{name} = "

    def _argument(self, argument: Operand) -> str:
        if isinstance(argument, Element):
            return self._objects[argument.acquire][argument.position]
        if isinstance(argument, Word):
            return f"{self._names[argument.memory]}[{argument.number}]"
        return self._names[argument] if isinstance(argument, str) else _number(argument)
