"""jit: capture a function once per kind of arguments, then replay its plan without recording.

    @nt.jit
    def step(x, w):
        return (x @ w).relu()

Rules: the first call with new shapes, dtypes or Python values captures; what the function computes comes back as fresh
tensors; tensors that it reads from outside are read again at each call, through the handle that it found when it was
captured, and those that it changes in place are changed at each call; random numbers are drawn anew; Python numbers are
frozen. To change an argument is an error.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError, CaptureError
from npu_tensor.graph.history import Tracked, active, grad_mode
from npu_tensor.graph.tracing import current_watch, watches
from npu_tensor.jit.replay import MISS, STALE, Replay, miss, replay_of
from npu_tensor.jit.trace import Trace, trace_call
from npu_tensor.jit.trees import call_text, flatten
from npu_tensor.planner.selection import before_reset, current, selection_changed
from npu_tensor.tensor import Tensor

if TYPE_CHECKING:
    from npu_tensor.observe.explanation import Explanation

__all__ = ["Jitted", "forget_plans", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

MANY_SIGNATURES = 8
"""Captures of one function after which a warning says which arguments keep changing."""

MAX_SIGNATURES = 256
"""Captures of one function that are kept; the oldest goes first."""

_jitted: weakref.WeakValueDictionary[int, Jitted[Any, Any]] = weakref.WeakValueDictionary()


def _living() -> list[Jitted[Any, Any]]:
    """All functions that are wrapped at this moment."""
    # Copies the references in one step, so that other threads may wrap functions meanwhile.
    return [jitted for reference in _jitted.valuerefs() if (jitted := reference()) is not None]


def _forget_latest() -> None:
    """The latest replay of every function is for the devices of before; its table of replays knows all devices."""
    for jitted in _living():
        jitted._latest = miss


def forget_plans() -> None:
    """Forget all replays, which hold their plans and the devices that they are for."""
    for jitted in _living():
        jitted._replays.clear()
        jitted._provisional.clear()
    _forget_latest()


selection_changed.append(_forget_latest)
before_reset.append(forget_plans)


class Jitted(Generic[P, R]):
    """A function or method that `jit` has wrapped. `captures` counts its signatures."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._body = _named_as_part(function)
        self._replays: dict[Any, Replay] = {}
        # Those whose plans lack kernels that are being built: the function is not called again when these are there.
        self._provisional: dict[Any, Trace] = {}
        self._latest: Replay = miss
        self._captures = 0
        self._methods: dict[int, Jitted[Any, R]] = {}
        _jitted[id(self)] = self

    def __repr__(self) -> str:
        name, captures = getattr(self, "__name__", repr(self._function)), self.captures
        return f"<jit {name}, {captures} capture{'s' if captures != 1 else ''}>"

    @property
    def captures(self) -> int:
        """The number of signatures captured so far; of a method, those of all instances that still live."""
        return self._captures + sum(method.captures for method in tuple(self._methods.values()))

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """By its function, which goes as functions do: by name where that leads here, else by value with cloudpickle.

        Captures stay behind. So do kernels, which the other side finds by key in its cache.
        """
        name: str = getattr(self, "__qualname__", "")
        # To older protocols a part of this object is this object and the name of the part.
        if (protocol < 4 or self._body is self._function) and _at(self.__module__, name) is self:
            return name
        return _jitted_again, (self._body,)

    @overload
    def __get__(self, instance: None, owner: type) -> Jitted[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else functools.partial(self._call_method, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # The hot path: the signature of the latest call again, positional tensors only, no capture in any thread.
        if not (kwargs or watches or active):
            try:
                result = self._latest(args)  # type: ignore[arg-type]
            except AttributeError:  # an argument that is no Tensor
                return self._call(args, kwargs)
            if result is not MISS and result is not STALE:
                return result  # type: ignore[no-any-return]  # cast() would be a call
        return self._call(args, kwargs)

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Where what a call with these arguments computes will run, and why, as `npu_tensor.explain` says it.

        Calls the function with tensors that have no values. Of tensors from outside, those without a value are
        computed, nothing else is. For a method write `Class.method.explain(instance, ...)`, with an instance that can
        be hashed. Raises what a call would, as CaptureError.
        """
        from npu_tensor.observe.explain import explain_plans
        from npu_tensor.observe.explanation import Explanation

        if current_watch() is not None:
            raise CaptureError("a function that is being captured cannot explain another one")
        tensors: list[Tensor] = []
        flatten((args, kwargs), tensors)
        trace = trace_call(self._function, args, kwargs, tensors, current())
        if trace.plan is None:
            return Explanation()
        return explain_plans(trace.structure, [(trace.structure, trace.plan)], trace.devices)

    def _call_method(self, instance: Any, *args: Any, **kwargs: Any) -> R:
        """A call with the instance as the first argument. An instance has captures of its own and takes them along."""
        method = self._methods.get(id(instance))
        if method is None:
            try:
                method = self._add_method(instance)
            except TypeError:  # tuples, and objects with slots, which cannot be referred to weakly
                return self(instance, *args, **kwargs)
        return method(*args, **kwargs)

    def _add_method(self, instance: Any) -> Jitted[Any, R]:
        number = id(instance)
        methods = self._methods
        reference = weakref.ref(instance, lambda _: methods.pop(number, None))
        function: Callable[..., R] = self._function

        @functools.wraps(function)
        def bound(*args: Any, **kwargs: Any) -> R:
            return function(reference(), *args, **kwargs)

        methods[number] = method = Jitted(bound)
        return method

    def _call(self, args: Any, kwargs: Any) -> R:
        if current_watch() is not None:
            return self._function(*args, **kwargs)  # part of another function that is captured or differentiated
        tensors: list[Tensor] = []
        structure = flatten((args, kwargs), tensors)
        specs = tuple(tensor._node.spec for tensor in tensors)
        flat = not kwargs and len(tensors) == len(args) and all(isinstance(value, Tensor) for value in args)
        devices = current()
        recorded = grad_mode.enabled  # also where nothing requires a gradient now: leaves come and go anywhere
        if recorded and any(isinstance(tensor._node, Tracked) for tensor in tensors):
            return self._function(*args, **kwargs)  # Gradients pass through what it records.
        key = (devices, recorded, specs) if flat else (devices, recorded, structure, specs)
        replay = self._replay(key)
        result = STALE if replay is None else replay(tuple(tensors))
        if replay is None or result is STALE:
            trace = trace_call(self._function, args, kwargs, tensors, devices)
            replay = miss if trace.is_tracked else replay_of(trace)
            self._captures += 1
            if current() is devices:  # else the plan may be for either
                while len(self._replays) >= MAX_SIGNATURES:
                    oldest = next(iter(self._replays))
                    self._replays.pop(oldest, None)  # Another thread may have taken the same one.
                    self._provisional.pop(oldest, None)
                self._keep(key, trace, replay)
            self._warn_if_many()
            result = replay(tuple(tensors))
        is_final = key not in self._provisional and self._replays.get(key) is replay
        if flat and not active and current() is devices and is_final:
            self._latest = replay
        return self._function(*args, **kwargs) if result is MISS or result is STALE else cast(R, result)

    def _keep(self, key: Any, trace: Trace, replay: Replay) -> None:
        if trace.plan is not None and trace.plan.provisional:
            self._provisional[key] = trace  # With its graph, which holds the nodes that were recorded.
        self._replays[key] = replay

    def _replay(self, key: Any) -> Replay | None:
        """The replay for a signature, if there is one; planned again if more of its kernels may be there."""
        trace = self._provisional.get(key)
        if trace is not None and trace.plan is not None and trace.plan.outdated:
            trace = trace.planned_again()
            self._keep(key, trace, replay_of(trace))
            if trace.plan is not None and not trace.plan.provisional:
                self._provisional.pop(key, None)  # Last: without the entry, other threads read the final replay.
        return self._replays.get(key)

    def _warn_if_many(self) -> None:
        if self._captures == MANY_SIGNATURES + 1:
            name = getattr(self, "__name__", type(self._function).__name__)
            shown = "; ".join(f"{name}({_arguments(*key[2:])})" for key in list(self._replays)[-3:])
            warn(
                f"{getattr(self, '__qualname__', name)} has been captured {self._captures} times. Pass what changes "
                f"as a tensor of one shape. The latest calls were: {shown}",
                UserWarning,
            )


def _arguments(*signature: Any) -> str:
    """The arguments of a call, from its key: specs alone, or a structure and specs."""
    return call_text(*signature) if len(signature) > 1 else ", ".join(map(str, signature[0]))


def _named_as_part(function: Callable[P, R]) -> Callable[P, R]:
    """A copy of a function, which pickle finds by name as part of the object that wraps the function."""
    if not isinstance(function, FunctionType):
        return function
    body = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    body.__kwdefaults__, body.__module__ = function.__kwdefaults__, function.__module__
    body.__qualname__ = f"{function.__qualname__}._body"
    return body


def _jitted_again(body: Callable[P, R]) -> Jitted[P, R]:
    """The object that has a function as its body here, or a new one for a function that has come by value."""
    name: str = getattr(body, "__qualname__", "").removesuffix("._body")
    jitted = _at(body.__module__, name)
    if isinstance(jitted, Jitted) and jitted._body is body:
        return jitted
    if isinstance(body, FunctionType):
        body.__qualname__ = name
    return Jitted(body)


def _at(module: str, qualified_name: str) -> Any:
    """What a name leads to, as pickle follows it; None if that is nothing."""
    value: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        value = getattr(value, name, None)
    return value


_NOT_CAPTURED: Final = {
    "generator function": inspect.isgeneratorfunction,
    "coroutine function": inspect.iscoroutinefunction,
    "asynchronous generator function": inspect.isasyncgenfunction,
}
"""Functions whose body runs after they have returned."""


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Capture `function` once per input signature and replay it afterwards.

    Arguments and results may be nested tuples, lists and dicts of tensors and hashable Python values; the latter are
    part of an argument's signature, by type and by all that they are made of: 1, 1.0 and True differ, also inside.
    Objects whose class says nothing about equality, or says itself how it is pickled, are told apart by identity.
    Subclasses, such as OrderedDict, stay what they are. Raises CaptureError where the function reads a value or changes
    an argument; then tensors keep their values. A method is captured for each instance;
    attributes that are no tensors are frozen.
    """
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not {function!r}")
    body = inspect.unwrap(functools.partial(function).func)
    for kind, is_kind in _NOT_CAPTURED.items():
        if is_kind(body) or is_kind(type(body).__call__):
            raise TypeError(f"jit takes a function that returns tensors, not a {kind}: {function!r}")
    return Jitted(function)
