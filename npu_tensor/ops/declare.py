"""Declarations of ops: `Op`, and `Call` for an op applied to operands of given specs. `@op` is in registry.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

from npu_tensor.dtypes import DType
from npu_tensor.errors import DTypeError
from npu_tensor.spec import Spec, contiguous_strides

Kind = Literal["map", "row", "matmul", "conv", "view", "data"]
"""Structure of a kernel for the op.

map: one output element from one element of each (broadcast) operand. row: like map, with reductions over rows.
matmul: contraction of two operands. conv: convolution of an image and a weight. view: the same memory with another
layout. data: anything else, by its NumPy body.
"""

Operand = Spec | type
"""Description of an operand while recording: a Spec, or bool, int or float for a Python number."""


class Layout(NamedTuple):
    """Position of a tensor in a buffer: extents, strides and offset, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """Positions of the first and the last element in the buffer, if there are any."""
        reaches = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = (sum(limit(reach, 0) for reach in reaches) for limit in (min, max))
        return self.offset + low, self.offset + high


@dataclass(frozen=True, slots=True)
class Resolution:
    """Result of a rule.

    Attributes:
        spec: Spec of the output.
        registers: Register type of each operand; None leaves it as it is stored.
        attributes: Attributes in canonical form.
        dims: Dimensions of the rows of a row op, ascending.
        reduces: True if the result has one element per row.
    """

    spec: Spec
    registers: tuple[str | None, ...]
    attributes: dict[str, Any]
    dims: tuple[int, ...] = ()
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """Parameter that is not a tensor."""

    name: str
    default: Any
    kind: inspect._ParameterKind
    annotation: str


class Call:
    """An op applied to operands of given specs with given attributes: everything that is known before data exists.

    There is one object per distinct call, so keys of the plan cache use its identity.

    Attributes:
        start: Offset, in elements, of a view in a row-major operand, if the view is row-major there too; else None.
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

_NUMBERS: Final[dict[str, tuple[type, ...]]] = {"float": (int, float), "int": (int,), "bool": (bool, int)}
"""Types of the values that an attribute takes, by annotation."""


def _checked(attribute: Attribute, value: Any) -> Any:
    """Convert a value to the Python number that its annotation asks for. Raises TypeError if it is not one."""
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
    """Read the tensors and attributes of a body from its code; inspect.signature would take most of an import."""
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
        # Modules that postpone the evaluation of annotations have text here, others a class.
        annotation = body.__annotations__.get(name, "Any")
        annotation = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        attributes.append(Attribute(name, defaults.get(name, inspect.Parameter.empty), kind, annotation))
    return list(names[: code.co_posonlyargcount]), attributes


@dataclass(eq=False, repr=False)
class Op:
    """Declaration of an op.

    A body whose name ends in "_op" or "_" declares the op of the name without it: Python, or a public function that is
    composed of the op, uses that name.

    Attributes:
        body: Reference meaning, in NumPy.
        kind: Structure of its kernels.
        rule: Function that resolves shapes, dtypes and attributes.
        ggml: GGML's names, separated by ", "; kernels are named after the first.
        ufunc: NumPy function that records the op when it is called with a Tensor.
        layout: Function from the layout of the operand to that of the view, for views.
        domain: Range of numbers for examples and tests.
        public: True if the op is a function and a method of its own name.
        converts: True if the op returns its operand in another dtype, to which it rounds also in a register.
        computes: False if a data op only moves elements, so that its results are values of its operands.
        updates: True if the body writes its result over its first operand, which is a copy or unused memory.
        quantized: True if operands or the result may have a quantized dtype. All other ops raise DTypeError.
        indices: Function that yields the position, lowest value and exclusive upper bound of each index operand.
        gradient: Rule for the gradients of the operands, see `npu_tensor.autograd.structured`, for ops of users.
        claim: Function from a task and a target to an offer of an NPU kernel, for ops of users.
        signature: Names of the operands, and the attributes, of a body with * and ** parameters.
        name: Name of the op.
        doc: Docstring of the body.
        operands: Names of the tensors.
        attributes: Parameters that are not tensors.
        variadic: True if the op takes any number of tensors.
        defaults: Defaults of the attributes.
        takes_floats: True if an attribute is a float.
        calls: Calls by specs and attributes.
        record: Function that `@op` returns.
    """

    body: Callable[..., Any]
    _: KW_ONLY
    kind: Kind
    rule: Rule
    ggml: str = ""
    ufunc: np.ufunc | None = None
    layout: Callable[..., Layout | None] | None = None
    domain: tuple[float, float] = (-4.0, 4.0)
    public: bool = True
    converts: bool = False
    computes: bool = True
    updates: bool = False
    quantized: bool = False
    indices: Callable[[Call], Iterator[tuple[int, int, int]]] | None = None
    gradient: Callable[..., Any] | None = None
    claim: Callable[..., Any] | None = None
    signature: tuple[Sequence[str], Sequence[Attribute]] | None = None
    name: str = field(init=False)
    doc: str = field(init=False)
    operands: tuple[str, ...] = field(init=False)
    attributes: tuple[Attribute, ...] = field(init=False)
    variadic: bool = field(init=False)
    defaults: tuple[Any, ...] = field(init=False)
    takes_floats: bool = field(init=False)
    calls: dict[Any, Call] = field(init=False, default_factory=dict)
    record: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.body.__name__.removesuffix("_op").rstrip("_")
        self.doc = inspect.cleandoc(self.body.__doc__ or "")
        operands, attributes = self.signature or _parameters(self.body)
        self.variadic = bool(attributes) and attributes[0].kind is _VARIADIC and not operands
        self.operands = tuple(operands)
        self.attributes = tuple(attributes[1:] if self.variadic else attributes)
        self.defaults = tuple([attribute.default for attribute in self.attributes])
        self.takes_floats = any(attribute.annotation.startswith("float") for attribute in self.attributes)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def module(self) -> str:
        """Module of the declaration, such as "elementwise" or "reduction"."""
        return self.body.__module__.rpartition(".")[2]

    @property
    def dtypes(self) -> str:
        """Supported dtypes, in words."""
        return str(getattr(self.rule, "dtypes", "all"))

    def call(self, operands: tuple[Operand, ...], attributes: tuple[Any, ...]) -> Call:
        """Return the Call for operands and attributes, which are in the order of declaration.

        Raises:
            ShapeError: The shapes do not fit.
            DTypeError: The op does not support a dtype.
            DimensionError: A dimension or index is out of range.
            ArgumentError: An attribute has an invalid value.
            TypeError: An attribute is not a number of the declared type.
        """
        key: Any = operands
        if attributes:
            # The key contains types because 1 == True == 1.0, and floats as text because 0.0 == -0.0 and nan != nan.
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
                f"not defined for {dtype.name}, which only linear, mul_mat, embedding and get_rows take as weights; "
                "convert it with dequantize()"
            )


def describe(operands: Sequence[Operand]) -> str:
    """Format operands for error messages: specs, and the types of Python numbers."""
    return ", ".join(o.__name__ if isinstance(o, type) else str(o) for o in operands)


Key = TypeVar("Key")
Value = TypeVar("Value")

MOST_KEPT = 1 << 14
"""Upper bound on the entries of a lookup table by shapes. A full table is cleared."""


def keep(table: dict[Key, Value], key: Key, value: Value) -> Value:
    """Store `value` unless another thread has stored one, and return the stored value. Bounded by MOST_KEPT."""
    if len(table) >= MOST_KEPT:
        table.clear()
    return table.setdefault(key, value)
