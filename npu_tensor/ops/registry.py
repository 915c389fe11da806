"""The registry: `@op` makes one function all that the package knows of an op, and gives back what records it.

    @op(kind="map", rule=rules.floating, ggml="SILU")
    def silu(input, /):
        '''x * sigmoid(x).'''
        return input / (1 + np.exp(-input))

Positional-only parameters are tensors (or Python numbers); all others are attributes, with PyTorch's names and
defaults. The body is the reference meaning. `silu(x)` and `x.silu()` record the op; `silu.op` is its declaration.
Everything else in the package is a loop over `OPS`, the declarations, and `PUBLIC`, the names that users have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, cast

import numpy as np

from npu_tensor.ops.declare import Op
from npu_tensor.ops.recorders import operator_recorder, recorder
from npu_tensor.ops.rules import comparison

if TYPE_CHECKING:
    from npu_tensor.tensor import Tensor

__all__ = [
    "OPS",
    "PUBLIC",
    "UFUNCS",
    "Public",
    "functions",
    "methods",
    "on_publish",
    "op",
    "operators",
    "publish",
    "reserve",
]

P = ParamSpec("P")


class Recorder(Protocol[P]):
    """A function that records an op on tensors, arrays and numbers."""

    op: Op

    def __call__(self, *operands: P.args, **attributes: P.kwargs) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Public:
    """What `npu_tensor.<name>` and `Tensor.<name>` are; None where there is no such function or method."""

    function: Callable[..., Any] | None
    method: Callable[..., Any] | None
    op: Op | None = None
    ggml: str = ""
    in_place: bool = False


OPS: Final[dict[str, Op]] = {}
"""The declared ops by name."""

UFUNCS: Final[dict[np.ufunc, Callable[..., Any]]] = {}
"""What NumPy's functions of arrays do with a Tensor among their operands."""

PUBLIC: Final[dict[str, Public]] = {}
"""What users call, by name; an entry with other names is there under each."""

_installers: Final[list[Callable[[str, Public], None]]] = []
_reserved_functions: Final[set[str]] = set()
_reserved_methods: Final[set[str]] = set()


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by name."""
    return {name: entry.function for name, entry in PUBLIC.items() if entry.function is not None}


def methods() -> dict[str, Callable[..., Any]]:
    """The methods of Tensor that are in the registry, by name."""
    return {name: entry.method for name, entry in PUBLIC.items() if entry.method is not None}


def on_publish(install: Callable[[str, Public], None]) -> None:
    """Call `install` with the name and the entry of all that is public, and of what is published later."""
    _installers.append(install)
    for name, entry in [*PUBLIC.items()]:
        install(name, entry)


def reserve(functions: Iterable[str], methods: Iterable[str]) -> None:
    """Names that nothing may be published by from now on: what the package and Tensor have besides the registry."""
    _reserved_functions.update(functions)
    _reserved_methods.update(methods)


def _refuse_taken(names: Iterable[str], function: bool, method: bool) -> None:
    """ValueError if there is a function, or a method, of one of the names."""
    for name in names:
        other = PUBLIC.get(name)
        if function and (name in _reserved_functions or (other and other.function)):
            raise ValueError(f"npu_tensor.{name} is public already")
        if method and (name in _reserved_methods or (other and other.method)):
            raise ValueError(f"Tensor.{name} is public already")


def publish(name: str, entry: Public, aliases: tuple[str, ...] = ()) -> None:
    """Make a function or a method public, or both. ValueError, and nothing is, if one of the names is taken."""
    names = (name, *aliases)
    if len({*names}) < len(names):
        raise ValueError(f"{name}: a name is given twice, {', '.join(names)}")
    _refuse_taken(names, entry.function is not None, entry.method is not None)
    if entry.in_place:
        _refuse_taken([f"{each}_" for each in names], function=False, method=True)
    for each in names:
        whole = entry
        if (other := PUBLIC.get(each)) is not None:
            whole = replace(other, function=entry.function or other.function, method=entry.method or other.method)
        PUBLIC[each] = whole
        for install in _installers:
            install(each, whole)


def op(**declaration: Any) -> Callable[[Callable[P, Any]], Recorder[P]]:
    """Declare an op; see the module's text and `Op`. Returns the function that records it."""

    def decorate(body: Callable[P, Any]) -> Recorder[P]:
        declared = Op(body, **declaration)
        if declared.name in OPS:
            raise ValueError(f"op {declared.name} is declared twice")
        if declared.ufunc in UFUNCS:
            raise ValueError(f"op {declared.name}: numpy.{declared.ufunc.__name__} is that of another op")
        _refuse_taken([f"__{name}__" for name in declared.operators], function=False, method=True)
        record = recorder(declared)
        declared.record = record
        if declared.public:
            method = record if declared.operands else None
            publish(declared.name, Public(record, method, declared, declared.ggml, declared.in_place), declared.aliases)
        OPS[declared.name] = declared
        if declared.ufunc is not None:
            UFUNCS[declared.ufunc] = record
        for name in declared.operators:
            forward = operator_recorder(declared, f"__{name}__")
            if len(declared.operands) == 1 or declared.rule is comparison:
                publish(f"__{name}__", Public(None, forward, declared))
            else:
                operators(name, forward, operator_recorder(declared, f"__r{name}__", reflected=True))
        return cast(Recorder[P], record)

    return decorate


def operators(name: str, forward: Callable[..., Any], reflected: Callable[..., Any]) -> None:
    """Publish `x + y`, its form for the right operand, and `x += y`."""

    def in_place(self: Tensor, other: Any) -> Any:
        result = forward(self, other)
        return result if result is NotImplemented else self._assign(result)

    in_place.__doc__ = reflected.__doc__ = forward.__doc__
    for dunder, function in {f"__{name}__": forward, f"__r{name}__": reflected, f"__i{name}__": in_place}.items():
        function.__name__, function.__qualname__, function.__module__ = dunder, f"Tensor.{dunder}", "npu_tensor"
        publish(dunder, Public(None, function))
