"""The registry of ops. `@op` turns one function into a declaration and returns the function that records the op.

    @op(kind="map", rule=rules.floating, ggml="SILU")
    def silu(input, /):
        '''Return x * sigmoid(x).'''
        return input / (1 + np.exp(-input))

Positional-only parameters are tensors (or Python numbers). All others are attributes, with PyTorch's names and
defaults. The body defines the reference meaning. `silu(x)` and `x.silu()` record the op; `silu.op` is its declaration.
The rest of the package iterates over `OPS`, the declarations, and `PUBLIC`, the public names.
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

P = ParamSpec("P")


class Recorder(Protocol[P]):
    """A function that records an op on tensors, arrays and numbers."""

    op: Op

    def __call__(self, *operands: P.args, **attributes: P.kwargs) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Public:
    """Function `npu_tensor.<name>` and method `Tensor.<name>` of a public name.

    Attributes:
        function: Public function, or None.
        method: Method of Tensor, or None.
        op: The op that it records, unless it is composed of several.
        ggml: GGML's names.
        in_place: True if there is also a method <name>_ that writes to its tensor.
    """

    function: Callable[..., Any] | None
    method: Callable[..., Any] | None
    op: Op | None = None
    ggml: str = ""
    in_place: bool = False


OPS: Final[dict[str, Op]] = {}
"""Declared ops by name."""

UFUNCS: Final[dict[np.ufunc, Callable[..., Any]]] = {}
"""Recorders by the NumPy function that calls them when a Tensor is among its operands."""

PUBLIC: Final[dict[str, Public]] = {}
"""Public entries by name. An entry with aliases appears under each name."""

_installers: Final[list[Callable[[str, Public], None]]] = []
_reserved_functions: Final[set[str]] = set()
_reserved_methods: Final[set[str]] = set()


def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions by name."""
    return {name: entry.function for name, entry in PUBLIC.items() if entry.function is not None}


def methods() -> dict[str, Callable[..., Any]]:
    """Return the methods of Tensor in the registry by name."""
    return {name: entry.method for name, entry in PUBLIC.items() if entry.method is not None}


def on_publish(install: Callable[[str, Public], None]) -> None:
    """Call `install` with the name and entry of everything that is public now or is published later."""
    _installers.append(install)
    for name, entry in [*PUBLIC.items()]:
        install(name, entry)


def reserve(functions: Iterable[str], methods: Iterable[str]) -> None:
    """Refuse to publish these names from now on: the package and Tensor define them outside the registry."""
    _reserved_functions.update(functions)
    _reserved_methods.update(methods)


def _refuse_taken(names: Iterable[str], function: bool, method: bool) -> None:
    """Raise ValueError if a function or method of one of the names exists."""
    for name in names:
        other = PUBLIC.get(name)
        if function and (name in _reserved_functions or (other and other.function)):
            raise ValueError(f"npu_tensor.{name} is public already")
        if method and (name in _reserved_methods or (other and other.method)):
            raise ValueError(f"Tensor.{name} is public already")


def publish(name: str, entry: Public, aliases: tuple[str, ...] = ()) -> None:
    """Make a function, a method or both public.

    Raises:
        ValueError: A name is taken or given twice. Nothing is published then.
    """
    names = (name, *aliases)
    if len({*names}) < len(names):
        raise ValueError(f"{name}: a name appears twice in {', '.join(names)}")
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


def op(
    *, operators: tuple[str, ...] = (), aliases: tuple[str, ...] = (), in_place: bool | None = None, **declaration: Any
) -> Callable[[Callable[P, Any]], Recorder[P]]:
    """Declare an op and publish the function that records it.

    Args:
        operators: Python operators of the op, such as "add".
        aliases: Further public names.
        in_place: Add a method <name>_ that writes to its tensor. By default, every public map op has one.
        declaration: Further arguments of `Op`.

    Returns:
        Decorator of the op's body that returns the recording function.
    """

    def decorate(body: Callable[P, Any]) -> Recorder[P]:
        declared = Op(body, **declaration)
        if declared.name in OPS:
            raise ValueError(f"op {declared.name} is declared twice")
        if declared.ufunc in UFUNCS:
            raise ValueError(f"op {declared.name}: numpy.{declared.ufunc.__name__} belongs to another op")
        _refuse_taken([f"__{name}__" for name in operators], function=False, method=True)
        record = recorder(declared)
        declared.record = record
        if declared.public:
            method = record if declared.operands else None
            writes = declared.kind == "map" if in_place is None else in_place
            publish(declared.name, Public(record, method, declared, declared.ggml, writes), aliases)
        OPS[declared.name] = declared
        if declared.ufunc is not None:
            UFUNCS[declared.ufunc] = record
        for name in operators:
            forward = operator_recorder(declared, f"__{name}__")
            if len(declared.operands) == 1 or declared.rule is comparison:
                publish(f"__{name}__", Public(None, forward, declared))
            else:
                publish_operator(name, forward, operator_recorder(declared, f"__r{name}__", reflected=True))
        return cast(Recorder[P], record)

    return decorate


def publish_operator(name: str, forward: Callable[..., Any], reflected: Callable[..., Any]) -> None:
    """Publish `x + y`, its reflected form, and `x += y`."""

    def in_place(self: Tensor, other: Any) -> Any:
        result = forward(self, other)
        return result if result is NotImplemented else self._assign(result)

    in_place.__doc__ = reflected.__doc__ = forward.__doc__
    for dunder, function in {f"__{name}__": forward, f"__r{name}__": reflected, f"__i{name}__": in_place}.items():
        function.__name__, function.__qualname__, function.__module__ = dunder, f"Tensor.{dunder}", "npu_tensor"
        publish(dunder, Public(None, function))
