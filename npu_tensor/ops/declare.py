"""What a declared op is: `Op`, and `Call` for one applied to operands of given specs. `@op` is in registry.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

from npu_tensor.dtypes import DType
from npu_tensor.errors import DTypeError
from npu_tensor.spec import Spec, contiguous_strides

__all__ = ["Attribute", "Call", "Kind", "Layout", "Op", "Resolution", "describe", "keep"]

Kind = Literal["map", "row", "matmul", "view", "data"]
"""What a kernel for the op looks like.

map: one output element from one element of each (broadcast) operand. row: like map, with reductions over rows.
matmul: contraction of two operands. view: another reading of the same memory. data: anything else, by its NumPy body.
"""

Operand = Spec | type
"""What is known of an operand while recording: a Spec, or bool, int or float for a Python number."""


class Layout(NamedTuple):
    """How a tensor lies in a buffer: extents, strides and offset, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


class Resolution(NamedTuple):
    """What a rule finds: the output, the register type of each operand, the attributes in canonical form.

    A register of None leaves the operand as it is stored. `dims` are the rows of a row op, ascending; `reduces` tells
    whether its result is one element per row.
    """

    spec: Spec
    registers: tuple[str | None, ...]
    attributes: dict[str, Any]
    dims: tuple[int, ...] = ()
    reduces: bool = False


class Attribute(NamedTuple):
    """A parameter that is not a tensor."""

    name: str
    default: Any
    kind: inspect._ParameterKind
    annotation: str


class Call:
    """An op applied to operands of given specs with given attributes: all that is known before there is data.

    There is one object per distinct call, so identity stands for structure in plan-cache keys.

    start: where the elements of a view begin in a row-major operand, if they follow each other there in row-major
    order; else None. In elements.
    """

    __slots__ = ("attributes", "dims", "op", "operands", "reduces", "registers", "spec", "start")

    def __init__(self, op: Op, operands: tuple[Operand, ...], resolution: Resolution) -> None:
        self.op: Final = op
        self.operands: Final = operands
        self.spec: Final = resolution.spec
        self.registers: Final = resolution.registers
        self.attributes: Final = resolution.attributes
        self.dims: Final = resolution.dims
        self.reduces: Final = resolution.reduces
        self.start: Final = None if op.layout is None else _start(self, op.layout)

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(str, self.operands))}) -> {self.spec}"


def _start(view: Call, follow: Callable[[Layout, tuple[int, ...], dict[str, Any]], Layout | None]) -> int | None:
    viewed, shape = view.operands[0], view.spec.shape
    assert isinstance(viewed, Spec)
    layout = follow(Layout(viewed.shape, contiguous_strides(viewed.shape)), shape, view.attributes)
    if layout is None or not view.spec.size:
        return None
    strides = zip(shape, layout.strides, contiguous_strides(shape), strict=True)
    return layout.offset if all(extent == 1 or own == whole for extent, own, whole in strides) else None


Rule = Callable[[tuple[Operand, ...], dict[str, Any]], Resolution]

# What an attribute of this annotation may be.
_NUMBERS: Final[dict[str, tuple[type, ...]]] = {"float": (int, float), "int": (int,), "bool": (bool, int)}


def _checked(attribute: Attribute, value: Any) -> Any:
    """The value as a Python number where the annotation says float, int or bool; TypeError if it is none."""
    wanted, *others = attribute.annotation.split(" | ")
    kinds = _NUMBERS.get(wanted)
    if kinds is None or attribute.kind is inspect.Parameter.VAR_POSITIONAL or (value is None and "None" in others):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, kinds):
        hint = "; read the number of a tensor with .item()" if hasattr(value, "item") else ""
        raise TypeError(f"{attribute.name} must be of type {wanted}, not {type(value).__name__}{hint}")
    return value


_VARIADIC: Final = inspect.Parameter.VAR_POSITIONAL


def _parameters(body: Callable[..., Any]) -> tuple[list[str], list[Attribute]]:
    """The tensors and the attributes of a body, from its code: inspect.signature would take most of an import."""
    code, names = body.__code__, body.__code__.co_varnames
    defaults = dict(zip(reversed(names[: code.co_argcount]), reversed(body.__defaults__ or ()), strict=False))
    defaults |= body.__kwdefaults__ or {}
    first_keyword, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    kinds = {
        **dict.fromkeys(names[code.co_posonlyargcount : first_keyword], inspect.Parameter.POSITIONAL_OR_KEYWORD),
        **(dict.fromkeys(names[end : end + 1], _VARIADIC) if code.co_flags & inspect.CO_VARARGS else {}),
        **dict.fromkeys(names[first_keyword:end], inspect.Parameter.KEYWORD_ONLY),
    }
    attributes = []
    for name, kind in kinds.items():
        # A class where the module evaluates annotations, its text where it postpones that.
        annotation = body.__annotations__.get(name, "Any")
        annotation = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        attributes.append(Attribute(name, defaults.get(name, inspect.Parameter.empty), kind, annotation))
    return list(names[: code.co_posonlyargcount]), attributes


class Op:
    """One declared op.

    A body whose name ends in "_op" or "_" declares the op of the name without it: Python or a public function that is
    made of the op has that name.
    """

    record: Callable[..., Any]
    """The function that `@op` gives for it."""

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        kind: Kind,
        rule: Rule,
        ggml: str = "",
        operators: tuple[str, ...] = (),
        ufunc: np.ufunc | None = None,
        layout: Callable[..., Layout | None] | None = None,
        domain: tuple[float, float] = (-4.0, 4.0),
        public: bool = True,
        aliases: tuple[str, ...] = (),
        in_place: bool | None = None,
        converts: bool = False,
        computes: bool = True,
        updates: bool = False,
        quantized: bool = False,
        indices: Callable[[Call], Iterator[tuple[int, int, int]]] | None = None,
    ) -> None:
        """
        ggml: its name there; several are separated by ", ", and kernels go by the first.
        public: whether it is a function and a method of its own name and of `aliases`.
        in_place: whether there is a method <name>_, too, that writes to its tensor; by default for each public map.
        converts: whether it gives its operand in another dtype, to which it rounds also where the value stays in a
        register.
        computes: whether the elements of a data op's result are other numbers than those of its operands; False if it
        only puts them elsewhere.
        updates: whether the body writes its result over its first operand, which is a copy or memory that nobody else
        needs.
        quantized: whether operands or the result may be of a quantized dtype; DTypeError for all other ops.
        indices: of each operand that is an index, its position, the lowest value, and the first that is too large.
        """
        self.body: Final = body
        self.name: Final = body.__name__.removesuffix("_op").rstrip("_")
        self.doc: Final = inspect.cleandoc(body.__doc__ or "")
        self.kind: Final = kind
        self.rule: Final = rule
        self.ggml: Final = ggml
        self.operators: Final = operators
        self.ufunc: Final = ufunc
        self.layout: Final = layout
        self.domain: Final = domain
        self.public: Final = public
        self.aliases: Final = aliases
        self.in_place: Final = public and kind == "map" if in_place is None else in_place
        self.converts: Final = converts
        self.computes: Final = computes
        self.updates: Final = updates
        self.quantized: Final = quantized
        self.indices: Final = indices
        operands, attributes = _parameters(body)
        self.variadic: Final = bool(attributes) and attributes[0].kind is _VARIADIC and not operands
        if self.variadic:
            del attributes[0]
        self.operands: Final = tuple(operands)
        self.attributes: Final = tuple(attributes)
        self.takes_floats: Final = any(attribute.annotation.startswith("float") for attribute in attributes)
        self.calls: Final[dict[Any, Call]] = {}

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def module(self) -> str:
        """The family it is declared in: elementwise, activation, reduction, ..."""
        return self.body.__module__.rpartition(".")[2]

    @property
    def dtypes(self) -> str:
        """The dtypes it takes, in words."""
        return str(getattr(self.rule, "dtypes", "all"))

    def call(self, operands: tuple[Operand, ...], attributes: tuple[Any, ...]) -> Call:
        """The Call for these operands; attributes in the order of declaration.

        Raises ShapeError, DTypeError, DimensionError or ArgumentError if they do not fit, TypeError for an attribute
        that is not the number it is declared to be.
        """
        key: Any = operands
        if attributes:
            # The types are part of the key because 1 == True == 1.0, and floats are text: 0.0 == -0.0, and nan != nan.
            exact = attributes
            if self.takes_floats:
                exact = tuple([repr(value) if type(value) is float else value for value in attributes])
            key = (operands, exact, tuple(map(type, attributes)))
        try:
            call = self.calls.get(key)
        except TypeError as error:
            raise TypeError(f"{self.name}() got an attribute of the wrong type: {error}") from None
        if call is None:
            named = {a.name: _checked(a, value) for a, value in zip(self.attributes, attributes, strict=True)}
            _refuse_quantized(self, *(each.dtype for each in operands if isinstance(each, Spec)))
            resolution = self.rule(operands, named)
            _refuse_quantized(self, resolution.spec.dtype)
            call = keep(self.calls, key, Call(self, operands, resolution))
        return call


def _refuse_quantized(op: Op, *dtypes: DType) -> None:
    for dtype in () if op.quantized else dtypes:
        if dtype.is_quantized:
            raise DTypeError(
                f"not defined for {dtype.name}, of which linear, mul_mat, embedding and get_rows take weights; "
                "dequantize() makes float32 of it, and quantize() the other way round"
            )


def describe(operands: Sequence[Operand]) -> str:
    """Operands as error messages show them: specs, and the types of Python numbers."""
    return ", ".join(o.__name__ if isinstance(o, type) else str(o) for o in operands)


Key = TypeVar("Key")
Value = TypeVar("Value")

MOST_KEPT = 1 << 14
"""Entries of a look-up table by shapes; programs with ever new shapes start it anew."""


def keep(table: dict[Key, Value], key: Key, value: Value) -> Value:
    """Enter `value` unless another thread was faster; returns what is in the table. Bounded by MOST_KEPT."""
    if len(table) >= MOST_KEPT:
        table.clear()
    return table.setdefault(key, value)
