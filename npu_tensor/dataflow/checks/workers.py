"""Rules for the statements of a core: acquires, releases, calls, runtime parameters."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.index import Index, Violation, dtype_name, walk
from npu_tensor.dataflow.checks.limits import LIMITS
from npu_tensor.dataflow.design import (
    Acquire,
    Element,
    FunctionCall,
    Loop,
    ObjectType,
    Release,
    Statement,
    Word,
    Worker,
)

PATIENCE: Final = 64
"""Upper bound on simulated iterations of a loop. Later ones find nothing new: more objects are never held for long."""

INTEGERS: Final = {"int32": 32, "int64": 64}
"""Bits of the integers that can be passed by value."""


def stacks(index: Index) -> Iterator[Violation]:
    """Check that a stack leaves memory for other data."""
    limit = LIMITS["core"].memory
    for worker in index.design.workers:
        if worker.stack_size >= limit:
            message = f"the stack of {worker.tile} has {worker.stack_size} bytes, and the memory {limit}."
            yield Violation("stack", str(worker.tile), message)


def acquires(index: Index) -> Iterator[Violation]:
    """Check that no more objects are acquired than the depth of the fifo."""
    for (name, tile), objects in index.largest_acquire.items():
        depth = index.fifos[name].depth
        if objects > depth:
            message = f"{tile} acquires {objects} objects of fifo {name}, whose depth is {depth}; make it {objects}."
            yield Violation("acquire", str(tile), message)


class _Held(NamedTuple):
    """State of a fifo. released: objects released since the start of the body. held: objects held now."""

    released: int
    held: int


class _Body:
    """Interpreter of a body's fifo operations, with numbers instead of objects."""

    def __init__(self, index: Index, worker: Worker) -> None:
        self.tile = worker.tile
        self.fifos = {name: _Held(0, 0) for name in worker.fifos}
        self.acquired: dict[int, tuple[Acquire, int]] = {}  # by number, with the number of objects before its first
        self.violations: dict[Violation, None] = {}

    def run(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, Acquire):
                released, held = self.fifos[statement.fifo]
                self.fifos[statement.fifo] = _Held(released, max(held, statement.objects))
                self.acquired[statement.number] = (statement, released)
            elif isinstance(statement, Release):
                self._release(statement)
            elif isinstance(statement, FunctionCall):
                for argument in statement.arguments:
                    if isinstance(argument, Element):
                        self._use(argument, statement.function)
            elif isinstance(statement.rounds, Word):
                self._run_any_number(statement.rounds, statement.body)
            else:
                # Errors become visible once every object that was held before has been released.
                for _ in range(min(statement.rounds, PATIENCE)):
                    before = self._state()
                    self.run(statement.body)
                    if self._state() == before:
                        break

    def _run_any_number(self, rounds: Word, body: tuple[Statement, ...]) -> None:
        """Run a loop with unknown iterations: it must leave the number of held objects unchanged."""
        before = {name: state.held for name, state in self.fifos.items()}
        self.run(body)
        for name, (_, held) in self.fifos.items():
            if held != before[name]:
                message = (
                    f"{self.tile} holds {held} objects of fifo {name} after a loop whose rounds are word"
                    f" {rounds.number} of {rounds.memory}, and {before[name]} before; they must be as many."
                )
                self._report("loop", message)

    def _state(self) -> tuple[object, ...]:
        """Return the state that determines the next iteration: objects held, and which elements are still held."""
        held = tuple(state.held for state in self.fifos.values())
        gone = tuple(
            min(self.fifos[acquire.fifo].released - first, acquire.objects) for acquire, first in self.acquired.values()
        )
        return held, gone

    def _release(self, statement: Release) -> None:
        released, held = self.fifos[statement.fifo]
        if statement.objects > held:
            message = (
                f"{self.tile} releases {statement.objects} objects of fifo {statement.fifo} while it holds {held}."
            )
            self._report("release", message)
        count = min(statement.objects, held)
        self.fifos[statement.fifo] = _Held(released + count, held - count)

    def _use(self, element: Element, function: str) -> None:
        acquire, first = self.acquired[element.acquire]
        released, held = self.fifos[acquire.fifo]
        position = first + element.position
        if not released <= position < released + held:
            message = (
                f"{self.tile} calls {function} with object {element.position} of an acquire of fifo {acquire.fifo}, "
                f"which it does not hold there; it holds {held}."
            )
            self._report("element", message)

    def _report(self, rule: str, message: str) -> None:
        self.violations[Violation(rule, str(self.tile), message)] = None


def holds(index: Index) -> Iterator[Violation]:
    """Check that only held objects are used or released, and that none is held at the end of the body."""
    for worker in index.design.workers:
        body = _Body(index, worker)
        body.run(worker.body)
        yield from body.violations
        for name, (_, held) in body.fifos.items():
            if held:
                message = (
                    f"{worker.tile} still holds {held} objects of fifo {name} at the end of its body; release them."
                )
                yield Violation("release", str(worker.tile), message)


def calls(index: Index) -> Iterator[Violation]:
    """Check that arguments match the declared number and types of the function exactly, shapes included."""
    for worker in index.design.workers:
        fifo_of: dict[int, str] = {}
        for statement, _ in walk(worker.body):
            if isinstance(statement, Acquire):
                fifo_of[statement.number] = statement.fifo
            elif isinstance(statement, FunctionCall):
                yield from _call(index, worker, statement, fifo_of)


def _call(index: Index, worker: Worker, call: FunctionCall, fifo_of: dict[int, str]) -> Iterator[Violation]:
    function = index.functions[call.function]
    where = f"{worker.tile}: {function.symbol}"
    takes, gets = len(function.arguments), len(call.arguments)
    if takes != gets:
        yield Violation("call", function.symbol, f"{where} takes {takes} arguments, and gets {gets}.")
        return
    for position, (declared, argument) in enumerate(zip(function.arguments, call.arguments, strict=True)):
        actual: ObjectType | str
        if isinstance(argument, Element):
            actual = index.fifos[fifo_of[argument.acquire]].type
        elif isinstance(argument, str):
            item = index.memory[argument]
            actual = item.type
            if item.tile != worker.tile:
                message = f"{where} gets buffer {argument} of {item.tile}; a core can only use its own."
                yield Violation("call", argument, message)
        elif isinstance(argument, Word):
            actual = "int32"
        else:
            actual = _number_type(argument, declared)
        if _canonical(actual) != _canonical(declared):
            message = f"{where} takes {declared} as argument {position}, and gets {actual}."
            yield Violation("call", function.symbol, message)


def _canonical(type: ObjectType | str) -> object:
    if isinstance(type, ObjectType):
        return dtype_name(type.dtype), tuple(type.shape)
    return dtype_name(type)


def _number_type(number: object, declared: ObjectType | str) -> str:
    """Return the dtype that a Python number is passed as: the declared one if it fits."""
    natural = {int: "int64", float: "float64"}.get(type(number), type(number).__name__)
    if isinstance(declared, ObjectType):
        return natural
    bits = INTEGERS.get(dtype_name(declared))
    if isinstance(number, float):
        return natural if bits else declared
    if natural == "int64" and isinstance(number, int) and bits:
        return declared if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else "a larger integer"
    return natural


def parameters(index: Index) -> Iterator[Violation]:
    """Check that a runtime parameter is only read after an object of the same run has arrived.

    Nothing else tells the core that the host has written it: the core may still be waiting in a body that began in the
    previous run.
    """
    names = {parameter.name for parameter in index.design.parameters}
    if not names:
        return
    filled = _filled(index)
    for worker in index.design.workers:
        arrived = False
        for statement, _ in walk(worker.body):
            if isinstance(statement, Acquire) and statement.fifo in filled and index.consumes(worker, statement.fifo):
                arrived = True
            for name in () if arrived else _read(statement, names):
                reader = statement.function if isinstance(statement, FunctionCall) else "a loop"
                message = (
                    f"{worker.tile} gives parameter {name} to {reader} before it has acquired "
                    "an object that the run brings; acquire one first."
                )
                yield Violation("runtime parameter", str(worker.tile), message)


def _read(statement: Statement, parameters: Container[str]) -> set[str]:
    """Return the runtime parameters that a statement reads. A loop reads its number of iterations first."""
    operands: tuple[object, ...] = ()
    if isinstance(statement, FunctionCall):
        operands = statement.arguments
    elif isinstance(statement, Loop):
        operands = (statement.rounds,)
    names = {operand.memory if isinstance(operand, Word) else operand for operand in operands}
    return {name for name in names if isinstance(name, str) and name in parameters}


def _filled(index: Index) -> set[str]:
    """Return the fifos whose objects come, through links and workers, from transfers of the same run."""
    filled = {fifo.name for fifo in index.design.fifos if fifo.producer.kind == "shim"}
    passes = [(set(link.inputs), set(link.outputs)) for link in index.design.links]
    for worker in index.design.workers:
        inputs = {name for name in worker.fifos if index.consumes(worker, name)}
        passes.append((inputs, set(worker.fifos) - inputs))
    grown = True
    while grown:
        grown = False
        for inputs, outputs in passes:
            if inputs & filled and not outputs <= filled:
                filled |= outputs
                grown = True
    return filled
