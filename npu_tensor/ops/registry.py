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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, cast

import numpy as np

from npu_tensor.ops.declare import Op
from npu_tensor.ops.recorders import operator_recorder, recorder
from npu_tensor.ops.rules import comparison

if TYPE_CHECKING:
    from npu_tensor.tensor import Tensor

__all__ = ["OPS", "PUBLIC", "UFUNCS", "Public", "functions", "methods", "op", "operators", "publish", "watch"]

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

_watchers: Final[list[Callable[[str, Public], None]]] = []


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by name."""
    return {name: entry.function for name, entry in PUBLIC.items() if entry.function is not None}


def methods() -> dict[str, Callable[..., Any]]:
    """The methods of Tensor that are in the registry, by name."""
    return {name: entry.method for name, entry in PUBLIC.items() if entry.method is not None}


def watch(install: Callable[[str, Public], None]) -> None:
    """Call `install` with the name and the entry of all that is public, and of what is published later."""
    _watchers.append(install)
    for name, entry in [*PUBLIC.items()]:
        install(name, entry)


def publish(name: str, entry: Public, aliases: tuple[str, ...] = ()) -> None:
    """Make a function or a method public, or both. ValueError if there is one of that name."""
    for each in (name, *aliases):
        other = PUBLIC.get(each, Public(None, None))
        if (entry.function and other.function) or (entry.method and other.method):
            raise ValueError(f"{each} is public already")
        function, method = entry.function or other.function, entry.method or other.method
        PUBLIC[each] = replace(entry, function=function, method=method)
        for install in _watchers:
            install(each, PUBLIC[each])


def op(**declaration: Any) -> Callable[[Callable[P, Any]], Recorder[P]]:
    """Declare an op; see the module's text and `Op`. Returns the function that records it."""

    def decorate(body: Callable[P, Any]) -> Recorder[P]:
        declared = Op(body, **declaration)
        if declared.name in OPS:
            raise ValueError(f"op {declared.name} is declared twice")
        record = recorder(declared)
        declared.record = record
        if declared.public:
            method = record if declared.operands else None
            publish(
                declared.name, Public(record, method, declared, declared.ggml, declared.in_place), declared.aliases
            )
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
