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
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

import numpy as np

from npu_tensor.errors import ArgumentError, CaptureError
from npu_tensor.events import listeners
from npu_tensor.explain import explain_plan
from npu_tensor.explanation import Explanation
from npu_tensor.graph import PLACEHOLDER, Capture, Data, Node, Watch, capture, source_line, source_text, watches
from npu_tensor.plan import Plan
from npu_tensor.schedule import USER_ERRORS, launch_error, plan
from npu_tensor.schedule import realize as realize_nodes
from npu_tensor.selection import Selection, before_reset, current, selection_changed
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, internal_files, wrap
from npu_tensor.user_warnings import warn

__all__ = ["Jitted", "jit"]

internal_files.update((__file__, "<npu_tensor.jit replay>"))

P = ParamSpec("P")
R = TypeVar("R")

MANY_SIGNATURES = 8
"""Captures of one function after which a warning says which arguments keep changing."""

MAX_SIGNATURES = 256
"""Captures of one function that are kept; the oldest goes first."""


class _Slot(NamedTuple):
    """The place of a tensor in flattened arguments or results."""

    number: int


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable description of nested tuples, lists and dicts in which tensors, appended to the list, are slots."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if isinstance(value, (tuple, list)):
        return (type(value), *(_flatten(part, tensors) for part in value))
    if isinstance(value, dict):
        if getattr(value, "__dict__", None):
            raise TypeError(f"jit does not follow the attributes of a {type(value).__name__}; use a plain dict")
        items = ((key, _flatten(part, tensors)) for key, part in value.items())
        return (type(value), getattr(value, "default_factory", None), *items)
    # As values 0.0 and -0.0 are equal, NaN is not even equal to itself, and NumPy numbers equal those of other types.
    if isinstance(value, np.generic):
        return (type(value), value.tobytes())
    if isinstance(value, float):
        return (type(value), float.__repr__(value))
    hash(value)  # raises the TypeError that names the type
    return (type(value), value)


def _rebuild(value: Any, tensors: list[Tensor]) -> Any:
    """The nested value, from its original, with other tensors in order."""
    return _replace(value, iter(tensors))


def _replace(part: Any, remaining: Iterator[Tensor]) -> Any:
    if isinstance(part, Tensor):
        return next(remaining)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(_replace(value, remaining) for value in part))
    if isinstance(part, (tuple, list)):
        return type(part)(_replace(value, remaining) for value in part)
    if isinstance(part, dict):
        items = {key: _replace(value, remaining) for key, value in part.items()}
        return type(part)(part.default_factory, items) if isinstance(part, defaultdict) else type(part)(items)
    return part


# Marks the places of tensors in a stored result, whose own nodes would keep data alive.
_BLANK = Tensor.__new__(Tensor)


class _Recorded(NamedTuple):
    """What stays of a node: where it was recorded."""

    line: str


class _Graph(NamedTuple):
    """What a function has recorded, and what it is planned for. lasting: see `Costs`."""

    found: Capture
    devices: Selection
    lasting: frozenset[int]

    def plan(self) -> Plan:
        """From the cache, unless that one is outdated."""
        return plan(*self)


class _Captured(NamedTuple):
    """What one signature's replay needs.

    specs: of the arguments. template: the plan's list of values with constants filled in. arguments: (item, number
    of the tensor argument). outside: (item, tensor from outside the function). results: (item, spec); the node of a
    constant that the function made; the tensor itself where the function returns one from outside, or the number of an
    argument that it returns. result: what the function returned. recorded: the items of the ops. graph: what the plan
    was made for.
    """

    specs: tuple[Spec, ...]
    plan: Plan | None
    template: list[Any]
    arguments: tuple[tuple[int, int], ...]
    outside: tuple[tuple[int, Tensor], ...]
    results: tuple[tuple[int, Spec] | Node | Tensor | int, ...]
    result: Any
    recorded: tuple[tuple[int, _Recorded], ...]
    graph: _Graph | None = None


Replay = Callable[[tuple[Tensor, ...]], Any]


MISS = object()
"""What a replay returns for tensors of another signature."""


def _miss(tensors: tuple[Tensor, ...]) -> Any:
    return MISS


_jitted: weakref.WeakValueDictionary[int, Jitted[Any, Any]] = weakref.WeakValueDictionary()


def _living() -> list[Jitted[Any, Any]]:
    """All functions that are wrapped at this moment."""
    # Copies the references in one step, so that other threads may wrap functions meanwhile.
    return [jitted for reference in _jitted.valuerefs() if (jitted := reference()) is not None]


def _forget_latest() -> None:
    """The latest replay of every function is for the devices of before; its table of replays knows all devices."""
    for jitted in _living():
        jitted._latest = _miss


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
        self._provisional: dict[Any, _Captured] = {}
        self._latest: Replay = _miss
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
        """Where what a call with these arguments computes will run, and why, as `npu_tensor.explain` says it.

        Calls the function with tensors that have no values. Of tensors from outside, those without a value are
        computed, nothing else is. For a method write `Class.method.explain(instance, ...)`, with an instance that can
        be hashed. Raises what a call would, as CaptureError.
        """
        if watches and threading.get_ident() in watches:
            raise CaptureError("a function that is being captured cannot explain another one")
        tensors: list[Tensor] = []
        _flatten((args, kwargs), tensors)
        captured = self._capture(args, kwargs, tensors, current())
        if captured.plan is None or captured.graph is None:
            return Explanation()
        return explain_plan(captured.graph.found, captured.plan, captured.graph.devices)

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
        structure = _flatten((args, kwargs), tensors)
        specs = tuple(tensor._node.spec for tensor in tensors)
        flat = not kwargs and len(tensors) == len(args) and all(isinstance(value, Tensor) for value in args)
        devices = current()
        key = (devices, specs) if flat else (devices, structure, specs)
        replay = self._replay(key)
        if replay is None:
            captured = self._capture(args, kwargs, tensors, devices)
            replay = _compile_replay(captured)
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

    def _keep(self, key: Any, captured: _Captured, replay: Replay) -> None:
        if captured.plan is not None and captured.plan.provisional:
            self._provisional[key] = captured  # With its graph, which holds the nodes that were recorded.
        self._replays[key] = replay

    def _replay(self, key: Any) -> Replay | None:
        """The replay for a signature, if there is one; planned again if more of its kernels may be there."""
        captured = self._provisional.get(key)
        if captured is not None and captured.graph is not None and cast(Plan, captured.plan).outdated:
            made = captured.graph.plan()
            captured = captured._replace(plan=made)
            replay = _compile_replay(captured)
            self._keep(key, captured, replay)
            if not made.provisional:
                self._provisional.pop(key, None)  # Last: who finds it gone finds the replay that stays.
        return self._replays.get(key)

    def _warn_if_many(self) -> None:
        if self._captures == MANY_SIGNATURES + 1:
            shown = "; ".join(str(arguments) for _, *arguments in list(self._replays)[-3:])
            warn(
                f"{self._function.__qualname__} has been captured {self._captures} times. Pass what changes "
                f"as a tensor of one shape. The latest arguments were: {shown}",
                UserWarning,
            )

    def _capture(self, args: Any, kwargs: Any, tensors: list[Tensor], devices: Selection) -> _Captured:
        placeholders = [wrap(Data(t._node.spec, PLACEHOLDER)) for t in tensors]
        specs = tuple(tensor._node.spec for tensor in tensors)
        numbers = {placeholder._node: number for number, placeholder in enumerate(placeholders)}
        watch, result = _watched(self._function, _rebuild(args, placeholders), _rebuild(kwargs, placeholders))
        outputs: list[Tensor] = []
        _flatten(result, outputs)
        result = _rebuild(result, [_BLANK] * len(outputs))
        _realize_older([tensor._node for tensor in outputs], watch)
        given = {tensor: _given(tensor, numbers, watch) for tensor in outputs if tensor._node.value is not None}
        roots = [tensor._node for tensor in outputs if tensor not in given]
        if not roots:
            return _Captured(specs, None, [], (), (), tuple(map(given.__getitem__, outputs)), result, ())
        found = _capture_results(roots)
        items = {node: item for item, node in found.nodes}
        lasting = frozenset(item for item, leaf in found.leaves if isinstance(leaf, Node) and leaf not in numbers)
        graph = _Graph(found, devices, lasting)
        made = graph.plan()
        template: list[Any] = [None] * made.size
        arguments: list[tuple[int, int]] = []
        outside: list[tuple[int, Tensor]] = []
        # Who gets such a result may change the handle that is captured, and only that; the constant stays.
        constants = {tensor for tensor, value in given.items() if isinstance(value, Node)}
        for item, leaf in found.leaves:
            if not isinstance(leaf, Node):
                template[item] = leaf
            elif leaf in numbers:
                arguments.append((item, numbers[leaf]))
            elif (handle := leaf.tensor) is not None and handle not in constants:
                outside.append((item, handle))
            else:
                template[item] = leaf.value
        recorded = tuple((item, _Recorded(node.line)) for item, node in found.nodes)
        results = tuple(given[t] if t in given else (items[t._node], t._node.spec) for t in outputs)
        return _Captured(specs, made, template, tuple(arguments), tuple(outside), results, result, recorded, graph)


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


def _watched(function: Callable[..., R], args: Any, kwargs: Any) -> tuple[Watch, R]:
    """Call a function on placeholders. CaptureError if it changes handles from outside, which keep their values."""
    thread = threading.get_ident()
    watch = watches[thread] = Watch()
    try:
        result = function(*args, **kwargs)
    finally:
        del watches[thread]
        watch.restore()
    if watch.changes:
        _, _, where = watch.changes[0]
        raise _outside_change(where)
    return watch, result


def _outside_change(where: tuple[CodeType, int] | None) -> CaptureError:
    line = f", at {source_line(*where)}: {source_text(*where)}" if where else ""
    return CaptureError(
        f"jit cannot replay a change of a tensor outside the function, or of an argument{line}. "
        "Return the new value instead"
    )


def _given(tensor: Tensor, numbers: dict[Node, int], watch: Watch) -> Node | Tensor | int:
    """What `_Captured.results` says of a result that is not computed by the plan."""
    node = tensor._node
    if node in numbers:
        return numbers[node]
    return tensor if watch.is_outside(node) else node


def _realize_older(roots: list[Node], watch: Watch) -> None:
    """Compute what was recorded before the capture, so that it counts as data read from outside."""
    seen = set(roots)
    stack = list(roots)
    older = []
    while stack:
        node = stack.pop()
        if node.value is not None:
            continue
        if watch.is_outside(node):
            older.append(node)
            continue
        for operand in node.inputs:
            if isinstance(operand, Node) and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    realize_nodes(older)


def _capture_results(roots: list[Node]) -> Capture:
    """What a function has recorded for its results. CaptureError if a tensor outside the function names a part of it.

    For some moments, that may be a frame of the function itself: sampling profilers hold the frames of other threads.
    """
    escaped: list[Node] = []
    for seconds in (0, 1e-3, 1e-2, 1e-1):
        if seconds:
            time.sleep(seconds)
        found = capture(roots)
        kept = [node for item, node in found.nodes if item in found.keep and node not in roots]
        escaped = [node for node in kept if node.tensor is not None]
        if not escaped:
            return found
    raise _outside_change(escaped[0].where)


def _run_lines(made: Plan, namespace: dict[str, Any]) -> list[str]:
    """Plan.run spelled out."""
    lines = ["    try:", "        if listeners or timings.wanted: plan.run(values, True, recorded)", "        else:"]
    for number, (step, last_uses) in enumerate(made.steps):
        namespace[f"step{number}"] = step
        lines.append(f"            step{number}(values)")
        lines += [f"            values[{item}] = None" for item in last_uses]
    lines += [f"            values[{item}] = values[{base}]" for item, base in made.aliases] + ["            pass"]
    for number, device in enumerate(made.asynchronous):
        namespace[f"synchronize{number}"] = device.synchronize
        lines.append(f"            synchronize{number}()")
    return [
        *lines,
        "    except USER_ERRORS:",
        "        raise",
        "    except Exception as error:",
        "        raise launch_error(error, [op.line for _, op in recorded]) from error",
    ]


def _compile_replay(found: _Captured) -> Replay:
    """The function that fills in the values, runs the plan and wraps the results, without loops or look-ups."""
    namespace: dict[str, Any] = {
        "MISS": MISS,
        "Data": Data,
        "Tensor": Tensor,
        "USER_ERRORS": USER_ERRORS,
        "new": Tensor.__new__,
        "ref": weakref.ref,
        "launch_error": launch_error,
        "listeners": listeners,
        "plan": found.plan,
        "timings": None if found.plan is None else found.plan.timings,
        "recorded": found.recorded,
        "realize": realize_nodes,
        "build": functools.partial(_rebuild, found.result),
    }
    names = [f"constant{item}" for item in range(len(found.template))]
    namespace.update(zip(names, found.template, strict=True))
    lines = ["def replay(tensors):", f"    if len(tensors) != {len(found.specs)}: return MISS"]
    for number, spec in enumerate(found.specs):
        namespace[f"argument_spec{number}"] = spec
        lines += [
            f"    node{number} = tensors[{number}]._node",
            f"    if node{number}.spec is not argument_spec{number}: return MISS",
        ]
    for item, number in found.arguments:
        names[item] = f"value{item}"
        lines += [
            f"    value{item} = node{number}.value",
            f"    if value{item} is None:",
            f"        realize((node{number},))",
            f"        value{item} = node{number}.value",
        ]
    for item, tensor in found.outside:
        names[item] = f"value{item}"
        namespace[f"outside{item}"] = tensor
        # Another thread may let the handle name another node at any time, so it is asked once.
        lines += [
            f"    node = outside{item}._node",
            f"    value{item} = node.value",
            f"    if value{item} is None:",
            "        realize((node,))",
            f"        value{item} = node.value",
        ]
    if found.plan is not None:
        lines += [f"    values = [{', '.join(names)}]", *_run_lines(found.plan, namespace)]
    results = []
    for position, result in enumerate(found.results):
        if isinstance(result, Tensor):
            namespace[f"result{position}"] = result
            results.append(f"result{position}")
        elif isinstance(result, int):
            results.append(f"tensors[{result}]")
        else:
            if isinstance(result, Node):
                namespace[f"spec{position}"], namespace[f"given{position}"] = result.spec, result.value
                value = f"given{position}"
            else:
                item, namespace[f"spec{position}"] = result
                value = f"values[{item}]"
            lines += [
                f"    result{position} = new(Tensor)",
                f"    node = Data(spec{position}, {value})",
                f"    result{position}._node = node",
                f"    node.handle = ref(result{position})",
            ]
            results.append(f"result{position}")
    single = isinstance(found.result, Tensor)
    lines.append(f"    return {results[0] if single else 'build([' + ', '.join(results) + '])'}")
    exec(compile("\n".join(lines), "<npu_tensor.jit replay>", "exec"), namespace)
    return cast(Replay, namespace["replay"])


def jit(function: Callable[P, R]) -> Jitted[P, R]:
    """Capture `function` once per input signature and replay it afterwards.

    Arguments and results may be nested tuples, lists and dicts of tensors and hashable Python values; the latter are
    part of an argument's signature. Subclasses, such as OrderedDict, stay what they are. Raises CaptureError where the
    function reads a value or changes a tensor outside itself or an argument; such tensors keep their values. A method
    is captured for each instance; attributes that are no tensors are frozen.
    """
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not {function!r}")
    return Jitted(function)
