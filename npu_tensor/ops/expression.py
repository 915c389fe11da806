"""The scalar expression language, which every code generator reads.

The body of an element-wise or row-wise op is ordinary NumPy code. Called with arrays, it is the reference. Called with
`Symbol`s, it records the same formula in a `ProgramBuilder`, which returns a `Program`: a flat list of instructions in
SSA form, read by the CPU emitter, the NPU kernel generator and the cost model.

    builder = ProgramBuilder()
    x = builder.load(0, "float32")
    program = builder.program([1 / (1 + np.exp(-x))])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.ops.primitives import PRIMITIVES


class Parameter:
    """A number passed to an op, such as alpha or eps: a constant that a kernel may take at run time.

    It behaves as a float or an int. Numbers computed from it are Parameters too; the outcome of a comparison is part of
    the structure.
    """

    __slots__ = ()


class _FloatParameter(Parameter, float):
    __slots__ = ()


class _IntParameter(Parameter, int):
    __slots__ = ()


def as_parameter(value: Any) -> Any:
    """Convert a float or int to a Parameter; return anything else unchanged."""
    kind = {float: _FloatParameter, int: _IntParameter}.get(type(value))
    return value if kind is None else kind(value)


def _install_parameter_arithmetic() -> None:
    for kind, number in ((_FloatParameter, float), (_IntParameter, int)):
        for name in ("neg", "abs", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"):
            function = getattr(number, f"__{name}__")
            setattr(kind, f"__{name}__", lambda *operands, f=function: as_parameter(f(*operands)))


_install_parameter_arithmetic()


class Instruction(NamedTuple):
    """One step of a program.

    Attributes:
        primitive: Name of the primitive.
        operands: Indices of earlier instructions.
        dtype: Register type of the result: float32, float64, int8, int16, int32, int64, uint8 or bool.
        value: Number of a constant, which is a Parameter if it comes from an attribute of an op, or operand slot of a
            load or scalar.
    """

    primitive: str
    operands: tuple[int, ...]
    dtype: str
    value: Any = None


class Program(NamedTuple):
    """Instructions in topological order and the indices of the stored results. Hashable."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    @property
    def constants(self) -> tuple[str, ...]:
        """Constants as text, for keys: programs that differ only in the sign of a zero compare equal."""
        return tuple(repr(step.value) for step in self.instructions if step.primitive == "constant")


class ProgramBuilder:
    """Collector of instructions that shares equal ones between formulas."""

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._index: dict[Instruction, int] = {}
        self._parameters: list[Any] = []  # Keeps the objects alive whose ids are keys in _index.

    def emit(self, primitive: str, operands: Sequence[Symbol] = (), dtype: str = "", value: Any = None) -> Symbol:
        """Append an instruction, or return an equal existing one.

        `dtype` may be omitted if PRIMITIVES defines how it follows from the operands.
        """
        if not dtype:
            result = PRIMITIVES[primitive].result
            dtype = operands[0].dtype if result == "same" else "int64" if result == "position" else result
        folded = self._fold(primitive, operands, dtype)
        if folded is not None:
            return folded
        instruction = Instruction(primitive, tuple(operand.index for operand in operands), dtype, value)
        key = instruction
        if isinstance(value, Parameter):  # Parameters that are equal by chance stay distinct, so structure is stable.
            self._parameters.append(value)
            key = instruction._replace(value=id(value))
        elif primitive == "constant":  # Text distinguishes 0.0 from -0.0 and equates NaNs.
            key = instruction._replace(value=repr(value))
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._instructions)
            self._instructions.append(instruction)
        return Symbol(self, index, dtype)

    def _fold(self, primitive: str, operands: Sequence[Symbol], dtype: str) -> Symbol | None:
        if primitive == "cast" and operands[0].dtype == dtype:
            return operands[0]
        # Transcendental functions are not folded: the compiled polynomial and the host's libm may differ in the last
        # bit, and a folded constant must equal the value computed per element.
        description = PRIMITIVES[primitive]
        if not description.folds or dtype not in ("float32", "float64", "bool"):
            return None
        values = [self._instructions[operand.index] for operand in operands]
        if any(value.primitive != "constant" for value in values):
            return None
        scalar = np.dtype(operands[0].dtype).type
        with np.errstate(all="ignore"):
            result = description.function(*(scalar(value.value) for value in values)).item()
        is_parameter = any(isinstance(value.value, Parameter) for value in values)
        return self.constant(as_parameter(result) if is_parameter else result, dtype)

    def load(self, slot: int, dtype: str) -> Symbol:
        """Load the element of tensor operand `slot` as a register of type `dtype`."""
        return self.emit("load", (), dtype, slot)

    def scalar(self, slot: int, dtype: str) -> Symbol:
        """Load the run-time number in operand `slot`."""
        return self.emit("scalar", (), dtype, slot)

    def constant(self, value: float, dtype: str) -> Symbol:
        """Emit a compile-time number."""
        if dtype == "bool":
            value = bool(value)
        else:
            kind = float if dtype.startswith("float") else int
            if not isinstance(value, Parameter):
                value = kind(value)
            elif not isinstance(value, kind):
                value = as_parameter(kind(value))
        return self.emit("constant", (), dtype, value)

    def is_constant(self, symbol: Symbol) -> bool:
        """Return True if a symbol is a compile-time number."""
        return self._instructions[symbol.index].primitive == "constant"

    def before(self, symbol: Symbol, primitive: str) -> Symbol:
        """Return the operand of `symbol` if that is the unary `primitive`, else `symbol`."""
        own, operands, _, _ = self._instructions[symbol.index]
        return Symbol(self, operands[0], self._instructions[operands[0]].dtype) if own == primitive else symbol

    def program(self, outputs: Sequence[Symbol]) -> Program:
        """Return the instructions that `outputs` need, renumbered."""
        needed: set[int] = set()
        stack = [output.index for output in outputs]
        while stack:
            index = stack.pop()
            if index not in needed:
                needed.add(index)
                stack.extend(self._instructions[index].operands)
        order = sorted(needed)
        position = {index: number for number, index in enumerate(order)}
        instructions = tuple(
            self._instructions[index]._replace(
                operands=tuple(position[operand] for operand in self._instructions[index].operands)
            )
            for index in order
        )
        return Program(instructions, tuple(position[output.index] for output in outputs))


class Symbol:
    """A value in a `ProgramBuilder` whose operators and ufuncs record instructions instead of computing."""

    __slots__ = ("builder", "dtype", "index")
    __hash__ = None  # type: ignore[assignment]  # == records a comparison

    def __init__(self, builder: ProgramBuilder, index: int, dtype: str) -> None:
        self.builder = builder
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Symbol({self.dtype} %{self.index})"

    def __bool__(self) -> bool:
        raise TypeError("an op's body branches on its operands; use np.where instead of if")

    def astype(self, dtype: str) -> Symbol:
        """Convert to another register type."""
        return self.builder.emit("cast", (self,), dtype)

    def _apply(self, primitive: str, *others: Any, reverse: bool = False) -> Symbol:
        operands = [self._lift(other) for other in others]
        ordered = [*operands, self] if reverse else [self, *operands]
        return self.builder.emit(primitive, ordered)

    def _lift(self, other: Any) -> Symbol:
        if isinstance(other, Symbol):
            if other.dtype != self.dtype:
                raise TypeError(f"operands of an expression differ in type: {self.dtype} and {other.dtype}")
            return other
        return self.builder.constant(other, self.dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = _UFUNCS.get(ufunc)
        if method != "__call__" or kwargs or function is None:
            raise TypeError(f"{ufunc.__name__} is not part of the expression language")
        anchor = next(value for value in inputs if isinstance(value, Symbol))
        return function(*(anchor._lift(value) for value in inputs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is not np.where or kwargs:
            raise TypeError(f"np.{func.__name__} is not part of the expression language")
        condition, yes, no = args
        anchor = yes if isinstance(yes, Symbol) else no
        if not isinstance(anchor, Symbol):
            raise TypeError("np.where needs an operand beside the condition")
        return self.builder.emit("select", (condition, anchor._lift(yes), anchor._lift(no)), anchor.dtype)


def _install_operators() -> None:
    """Define the Python operators of Symbol in a loop instead of thirty methods."""
    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div",
        "and": "and", "or": "or", "xor": "xor", "lshift": "shift_left", "rshift": "shift_right",
    }  # fmt: skip
    for dunder, primitive in binary.items():
        setattr(Symbol, f"__{dunder}__", lambda a, b, p=primitive: a._apply(p, b))
        setattr(Symbol, f"__r{dunder}__", lambda a, b, p=primitive: a._apply(p, b, reverse=True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Symbol, f"__{name}__", lambda a, b, p=name: a._apply(p, b))
    for dunder, primitive in {"neg": "neg", "abs": "abs", "invert": "not"}.items():
        setattr(Symbol, f"__{dunder}__", lambda a, p=primitive: a._apply(p))


_install_operators()


def _emit(primitive: str) -> Callable[..., Symbol]:
    return lambda *operands: operands[0].builder.emit(primitive, operands)


def _rounding(primitive: str) -> Callable[[Symbol], Symbol]:
    """Return a function that rounds floats and returns integers and bools unchanged, as in NumPy."""
    return lambda x: x.builder.emit(primitive, (x,)) if x.dtype.startswith("float") else x


_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    **{p.function: _emit(name) for name, p in PRIMITIVES.items() if isinstance(p.function, np.ufunc)},
    **{getattr(np, name): _rounding(name) for name in ("floor", "ceil", "trunc", "rint")},
    np.log10: _emit("log10"),
    np.left_shift: _emit("shift_left"),
    np.right_shift: _emit("shift_right"),
    np.logical_and: _emit("and"),
    np.logical_or: _emit("or"),
    np.logical_xor: _emit("xor"),
    np.logical_not: _emit("not"),
    np.isnan: lambda x: x != x,
    np.isinf: lambda x: abs(x) == math.inf,
    np.isfinite: lambda x: abs(x) < math.inf,
}
