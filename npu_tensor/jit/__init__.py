"""jit: capture a function once per signature of its arguments, then replay its plan without recording.

    @nt.jit
    def step(x, w):
        return (x @ w).relu()

Rules:
    - The first call with new shapes, dtypes or Python values captures. Python numbers are constants of the capture.
    - Results are new tensors.
    - Tensors from outside are read again at each call, and those that the function changes in place are changed at each
      call. The function keeps the tensor objects that it found during capture.
    - Values that depend only on constants and tensors from outside are computed once, and again after a change.
    - Random numbers are drawn at each call.
    - Changing an argument is an error.
    - A computed tensor leaves the function as a result only. One that is stored elsewhere has no value: reading it
      raises CaptureError.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

from npu_tensor._util.cache_sizes import CAPTURES
from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError, CaptureError
from npu_tensor.graph.history import GradMode, grad_mode
from npu_tensor.graph.nodes import PLACEHOLDER, Data
from npu_tensor.graph.structure import structure_of
from npu_tensor.graph.tracing import current_watch, watches
from npu_tensor.jit.replay import MISS, STALE, Replay, miss, replay_of
from npu_tensor.jit.trace import Trace, is_training, trace_call
from npu_tensor.jit.trees import call_text, flatten, unflatten
from npu_tensor.planner.selection import Selection, before_reset, current, selection_changed
from npu_tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from npu_tensor.observe.explanation import Explanation

P = ParamSpec("P")
R = TypeVar("R")

MANY_SIGNATURES = 8
"""Number of captures of one function after which a warning shows the arguments that keep changing."""

_NO_REPLAY: Final[tuple[bool, Replay]] = False, miss

_jitted: weakref.WeakValueDictionary[int, Jitted[Any, Any]] = weakref.WeakValueDictionary()


def _living() -> list[Jitted[Any, Any]]:
    """Return all wrapped functions."""
    # `valuerefs` copies the references in one step, so that other threads may wrap functions meanwhile.
    return [jitted for reference in _jitted.valuerefs() if (jitted := reference()) is not None]


def _forget_latest() -> None:
    """Drop the latest replay of every function, which is for the previous devices."""
    for jitted in _living():
        jitted._latest = _NO_REPLAY


def forget_plans() -> None:
    """Drop all replays, which hold plans and devices."""
    for jitted in _living():
        jitted._captured.clear()
    _forget_latest()


selection_changed.append(_forget_latest)
before_reset.append(forget_plans)


class _Capture:
    """A captured signature: its replay, and its trace until the kernels of the plan are built.

    Until then it is planned again after each build, without another call of the function.
    """

    __slots__ = ("recorded", "replay", "trace")

    def __init__(self, trace: Trace, recorded: bool) -> None:
        self.trace: Trace | None = None
        self.recorded = recorded  # True if gradients were enabled
        self._set(trace)

    def _set(self, trace: Trace) -> None:
        self.replay: Replay = miss if trace.is_tracked else replay_of(trace, self.recorded)
        # Last: without a trace, other threads take the replay for the final one.
        self.trace = trace if any(plan.provisional for plan in trace.plans) else None

    def plan_again(self) -> None:
        """Plan a provisional capture again if a build has ended since."""
        trace = self.trace
        if trace is not None and any(plan.outdated for plan in trace.plans):
            self._set(trace.planned())


class Jitted(Generic[P, R]):
    """A function or method that `jit` has wrapped. `captures` counts its signatures."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._body = _named_as_part(function)
        self._captured: dict[Any, _Capture] = {}
        self._latest = _NO_REPLAY
        self._modules: tuple[weakref.ref[Any], ...] = ()  # whose training mode some capture has read
        self._captures = 0
        self._methods: dict[int, Jitted[Any, R]] = {}
        _jitted[id(self)] = self

    def __repr__(self) -> str:
        name, captures = getattr(self, "__name__", repr(self._function)), self.captures
        return f"<jit {name}, {captures} capture{'s' if captures != 1 else ''}>"

    @property
    def captures(self) -> int:
        """Number of signatures captured so far; for a method, of all living instances."""
        return self._captures + sum(method.captures for method in tuple(self._methods.values()))

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """Pickle the function by name if the name leads to this object, else by value with cloudpickle.

        Captures and kernels are not pickled. The other process looks kernels up in its own cache.
        """
        name: str = getattr(self, "__qualname__", "")
        # Protocols below 4 pickle a part of this object as this object and the name of the part.
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
        # The hot path: signature and mode of the latest call, positional tensors only, no capture in any thread.
        recorded, replay = self._latest
        if recorded == grad_mode.enabled and not (kwargs or watches):
            try:
                result = replay(args)  # type: ignore[arg-type]
            except AttributeError:  # An argument is not a Tensor.
                return self._call(args, kwargs)
            if result is not MISS and result is not STALE:
                return result  # type: ignore[no-any-return]  # cast() would be a call
        return self._call(args, kwargs)

    @property
    def function(self) -> Callable[P, R]:
        """The wrapped function."""
        return self._function

    def traces(self) -> list[tuple[Any, Trace]]:
        """Trace all captured signatures again, with the present modes and without gradients.

        Returns:
            The (args, kwargs) of each signature, with tensors that have no values, and the trace, which has no plan.
        """
        traces: dict[Any, tuple[Any, Trace]] = {}
        for devices, _, *signature in list(self._captured):
            specs = signature[-1]
            if tuple(signature) not in traces:
                tensors = [wrap(Data(spec, PLACEHOLDER)) for spec in specs]
                call = unflatten(signature[0], tensors) if len(signature) > 1 else (tuple(tensors), {})
                with GradMode(False):
                    trace = trace_call(self._function, call[0], call[1], tensors, devices)
                traces[tuple(signature)] = call, trace
        return list(traces.values())

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Explain where a call with these arguments runs and why, in the form of `npu_tensor.explain`.

        The function is called with tensors that have no values. Only pending tensors from outside are computed. For a
        method write `Class.method.explain(instance, ...)`, with a hashable instance.

        Raises:
            CaptureError: The function cannot be captured.
        """
        from npu_tensor.observe.explain import explain_plans
        from npu_tensor.observe.explanation import Explanation

        if current_watch() is not None:
            raise CaptureError("a function that is being captured cannot explain another one")
        tensors: list[Tensor] = []
        flatten((args, kwargs), tensors)
        trace = trace_call(self._function, args, kwargs, tensors, current()).planned()
        stages = [(each.structure, each.plan) for each in (trace.preparation, trace.main) if each.plan is not None]
        if not stages:
            return Explanation()
        main = trace.main.structure
        graph = structure_of([main.nodes[position] for position in sorted(main.keep)], only_roots=True)
        prepared = {*trace.preparation.structure.nodes}.difference(main.nodes)
        return explain_plans(graph, stages, trace.devices, prepared)

    def _call_method(self, instance: Any, *args: Any, **kwargs: Any) -> R:
        """Call the method of an instance. Each instance has its own captures, which live as long as it does."""
        method = self._methods.get(id(instance))
        if method is None:
            try:
                method = self._add_method(instance)
            except TypeError:  # Tuples and objects with slots do not support weak references.
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
            return self._function(*args, **kwargs)  # It is part of another function that is captured or differentiated.
        tensors: list[Tensor] = []
        structure = flatten((args, kwargs), tensors)
        specs = tuple(tensor._node.spec for tensor in tensors)
        flat = not kwargs and len(tensors) == len(args) and all(isinstance(value, Tensor) for value in args)
        devices = current()
        recorded = grad_mode.enabled  # Independent of leaves, which appear and disappear elsewhere.
        if recorded and any(tensor._node.history is not None for tensor in tensors):
            return self._function(*args, **kwargs)  # Gradients pass through its results.
        signature = (specs,) if flat else (structure, specs)
        key = self._key(devices, recorded, signature)
        capture = self._captured.get(key)
        if capture is not None:
            capture.plan_again()
        result = STALE if capture is None else capture.replay(tuple(tensors))
        if capture is None or result is STALE:
            trace = trace_call(self._function, args, kwargs, tensors, devices).planned()
            capture = _Capture(trace, recorded)
            self._captures += 1
            self._modules = tuple(dict.fromkeys((*self._modules, *trace.modules)))
            key = self._key(devices, recorded, signature)
            if current() is devices:  # Otherwise the plan may be for other devices.
                while len(self._captured) >= CAPTURES:
                    self._captured.pop(next(iter(self._captured)), None)  # Another thread may have dropped it.
                self._captured[key] = capture
            self._warn_if_many()
            result = capture.replay(tuple(tensors))
        is_final = capture.trace is None and self._captured.get(key) is capture
        if flat and current() is devices and is_final:
            self._latest = recorded, capture.replay
        return self._function(*args, **kwargs) if result is MISS or result is STALE else cast(R, result)

    def _key(self, devices: Selection, recorded: bool, signature: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the key of a capture, which includes the training modes that captures so far have read."""
        return (devices, (recorded, *map(is_training, self._modules)), *signature)

    def _warn_if_many(self) -> None:
        if self._captures == MANY_SIGNATURES + 1:
            name = getattr(self, "__name__", type(self._function).__name__)
            shown = "; ".join(f"{name}({_arguments(*key[2:])})" for key in list(self._captured)[-3:])
            warn(
                f"{getattr(self, '__qualname__', name)} has been captured {self._captures} times. Pass what changes "
                f"as a tensor of one shape. The latest calls were: {shown}",
                UserWarning,
            )


def _arguments(*signature: Any) -> str:
    """Format the arguments of a call from its key: specs alone, or a structure and specs."""
    return call_text(*signature) if len(signature) > 1 else ", ".join(map(str, signature[0]))


def _named_as_part(function: Callable[P, R]) -> Callable[P, R]:
    """Copy a function under a name by which pickle finds it as an attribute of its wrapper."""
    if not isinstance(function, FunctionType):
        return function
    body = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    body.__kwdefaults__, body.__module__ = function.__kwdefaults__, function.__module__
    body.__qualname__ = f"{function.__qualname__}._body"
    return body


def _jitted_again(body: Callable[P, R]) -> Jitted[P, R]:
    """Return the wrapper of a function in this process, or a new one for a function pickled by value."""
    name: str = getattr(body, "__qualname__", "").removesuffix("._body")
    jitted = _at(body.__module__, name)
    if isinstance(jitted, Jitted) and jitted._body is body:
        return jitted
    if isinstance(body, FunctionType):
        body.__qualname__ = name
    return Jitted(body)


def _at(module: str, qualified_name: str) -> Any:
    """Resolve a name as pickle does. Return None if it does not exist."""
    value: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        value = getattr(value, name, None)
    return value


def _is_of_pytorch(function: Callable[..., Any]) -> bool:
    torch = sys.modules.get("torch")  # Loaded if there is a module of it.
    return torch is not None and isinstance(function, torch.nn.Module)


_NOT_CAPTURED: Final = {
    "generator function": inspect.isgeneratorfunction,
    "coroutine function": inspect.iscoroutinefunction,
    "asynchronous generator function": inspect.isasyncgenfunction,
}
"""Functions whose body runs after they have returned."""


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Capture `function` once per input signature and replay it afterwards.

    Arguments and results may be nested tuples, lists and dicts of tensors and hashable Python values. Python values are
    part of the signature, compared by type and contents: 1, 1.0 and True differ, also inside containers. Objects of
    classes that do not define equality, or that define their own pickling, are compared by identity. Subclasses of
    containers, such as OrderedDict, are preserved. A method is captured for each instance; attributes that are not
    tensors are constants of the capture.

    A tensor that the function computes must be returned. One that it stores elsewhere has no value, and reading it
    raises CaptureError.

    Args:
        function: Function that returns tensors.

    Returns:
        Callable with the same signature.

    Raises:
        ArgumentError: `function` is not callable, or a module of PyTorch.
        TypeError: The function is a generator or asynchronous.

    A call raises CaptureError if the function reads a value or changes an argument. Tensors then keep their values.
    """
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not {function!r}")
    if _is_of_pytorch(function):
        raise ArgumentError("jit takes functions of npu_tensor's tensors; from_torch converts a torch.nn.Module")
    body = inspect.unwrap(functools.partial(function).func)
    for kind, is_kind in _NOT_CAPTURED.items():
        if is_kind(body) or is_kind(type(body).__call__):
            raise TypeError(f"jit takes a function that returns tensors, not a {kind}: {function!r}")
    return Jitted(function)
