"""jit: capture a function once per kind of arguments, then replay its plan without recording.

    @nt.jit
    def step(x, w):
        return (x @ w).relu()

Rules: the first call with new shapes, dtypes or Python values captures; what the function computes comes back as fresh
tensors; tensors that it reads from outside are read again at each call, through the handle that it found when it was
captured; Python numbers and random seeds are frozen. Changing a handle from outside, arguments included, is an error.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError, CaptureError
from npu_tensor.graph.nodes import watches
from npu_tensor.jit.replay import MISS, Replay, compile_replay, miss
from npu_tensor.jit.trace import Captured, capture_call
from npu_tensor.jit.trees import call_text, flatten
from npu_tensor.observe.explain import explain_plans
from npu_tensor.observe.explanation import Explanation
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.selection import before_reset, current, selection_changed
from npu_tensor.tensor import Tensor

__all__ = ["Jitted", "jit"]

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


def _forget_all() -> None:
    """Replays hold the devices that they are for."""
    for jitted in _living():
        jitted._replays.clear()
        jitted._provisional.clear()
    _forget_latest()


selection_changed.append(_forget_latest)
before_reset.append(_forget_all)


class Jitted(Generic[P, R]):
    """A function or method that `jit` has wrapped. `captures` counts its signatures."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._replays: dict[Any, Replay] = {}
        # Those whose plans lack kernels that are being built: the function is not called again when these are there.
        self._provisional: dict[Any, Captured] = {}
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

    def __reduce__(self) -> str | tuple[Any, ...]:
        """As functions are pickled: by name where that leads here, else by value, which takes cloudpickle.

        Captures stay behind. So do kernels, which the other side finds by key in its cache.
        """
        # CPython's pickler is written in C, so the frame is that of the Python code that called its `dump`: pickle's
        # caller, or `CloudPickler.dump` in cloudpickle and in copies of it, such as Ray's. Under a pickler in Python,
        # and where Dask tries pickle first, the function goes by name; Dask then asks cloudpickle where that matters.
        by_value = _goes_by_value(self.__module__, sys._getframe(1).f_globals)
        name: str = getattr(self, "__qualname__", "")
        return name if not by_value and _found(self.__module__, name) is self else (jit, (self._function,))

    @overload
    def __get__(self, instance: None, owner: type) -> Jitted[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else functools.partial(self._call_method, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # The hot path: the signature of the latest call again, positional tensors only, no capture in any thread.
        if not (kwargs or watches):
            try:
                result = self._latest(args)  # type: ignore[arg-type]
            except AttributeError:  # an argument that is no Tensor
                return self._call(args, kwargs)
            if result is not MISS:
                return result  # type: ignore[no-any-return]  # cast() would be a call
        return self._call(args, kwargs)

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Where what a call with these arguments computes will run, and why, as `npu_tensor.observe.explain` says it.

        Calls the function with tensors that have no values. Of tensors from outside, those without a value are
        computed, nothing else is. For a method write `Class.method.explain(instance, ...)`, with an instance that can
        be hashed. Raises what a call would, as CaptureError.
        """
        if watches and threading.get_ident() in watches:
            raise CaptureError("a function that is being captured cannot explain another one")
        tensors: list[Tensor] = []
        flatten((args, kwargs), tensors)
        captured = capture_call(self._function, args, kwargs, tensors, current())
        if captured.plan is None or captured.graph is None:
            return Explanation()
        found = captured.graph.found
        return explain_plans(found, [(found, captured.plan)], captured.graph.devices)

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
        if watches and threading.get_ident() in watches:
            return self._function(*args, **kwargs)  # inside another capture: becomes part of it
        tensors: list[Tensor] = []
        structure = flatten((args, kwargs), tensors)
        specs = tuple(tensor._node.spec for tensor in tensors)
        flat = not kwargs and len(tensors) == len(args) and all(isinstance(value, Tensor) for value in args)
        devices = current()
        key = (devices, specs) if flat else (devices, structure, specs)
        replay = self._replay(key)
        if replay is None:
            captured = capture_call(self._function, args, kwargs, tensors, devices)
            replay = compile_replay(captured)
            self._captures += 1
            if current() is devices:  # else the plan may be for either
                while len(self._replays) >= MAX_SIGNATURES:
                    oldest = next(iter(self._replays))
                    self._replays.pop(oldest, None)  # Another thread may have taken the same one.
                    self._provisional.pop(oldest, None)
                self._keep(key, captured, replay)
            self._warn_if_many()
        if flat and current() is devices and key not in self._provisional and self._replays.get(key) is replay:
            self._latest = replay
        return cast(R, replay(tuple(tensors)))

    def _keep(self, key: Any, captured: Captured, replay: Replay) -> None:
        if captured.plan is not None and captured.plan.provisional:
            self._provisional[key] = captured  # With its graph, which holds the nodes that were recorded.
        self._replays[key] = replay

    def _replay(self, key: Any) -> Replay | None:
        """The replay for a signature, if there is one; planned again if more of its kernels may be there."""
        captured = self._provisional.get(key)
        if captured is not None and captured.graph is not None and cast(Plan, captured.plan).outdated:
            made = captured.graph.plan()
            captured = captured._replace(plan=made)
            replay = compile_replay(captured)
            self._keep(key, captured, replay)
            if not made.provisional:
                self._provisional.pop(key, None)  # Last: who finds it gone finds the replay that stays.
        return self._replays.get(key)

    def _warn_if_many(self) -> None:
        if self._captures == MANY_SIGNATURES + 1:
            name = self._function.__name__
            shown = "; ".join(f"{name}({_arguments(*key[1:])})" for key in list(self._replays)[-3:])
            warn(
                f"{self._function.__qualname__} has been captured {self._captures} times. Pass what changes "
                f"as a tensor of one shape. The latest calls were: {shown}",
                UserWarning,
            )


def _arguments(*signature: Any) -> str:
    """The arguments of a call, from its key: specs alone, or a structure and specs."""
    return call_text(*signature) if len(signature) > 1 else ", ".join(map(str, signature[0]))


def _goes_by_value(module: str, caller: dict[str, Any]) -> bool:
    """Whether the caller of a pickler, whose globals these are, is cloudpickle and takes a module's functions by value.

    It does so for __main__, which is another module on the other side, and for modules that were registered with it
    and what is in these packages.
    """
    if "cloudpickle" not in caller.get("__name__", ""):
        return False
    registered = caller.get("list_registry_pickle_by_value", set)()
    return any(f"{module}.".startswith(f"{name}.") for name in ("__main__", *registered))


def _found(module: str, qualified_name: str) -> Any:
    """What a name leads to, as pickle follows it; None if that is nothing."""
    found: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Capture `function` once per input signature and replay it afterwards.

    Arguments and results may be nested tuples, lists and dicts of tensors and hashable Python values; the latter are
    part of an argument's signature, by type and by all that they are made of: 1, 1.0 and True differ, also inside.
    Objects whose class says nothing about equality, or says itself how it is pickled, are told apart by identity.
    Subclasses, such as OrderedDict, stay what they are. Raises CaptureError where the function reads a value or changes
    a tensor outside itself or an argument; such tensors keep their values. A method is captured for each instance;
    attributes that are no tensors are frozen.
    """
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not {function!r}")
    return Jitted(function)
