"""jit: capture a function once per kind of arguments, then replay its plan without recording.

    @nt.jit
    def step(x, w):
        return (x @ w).relu()

Rules: the first call with new shapes, dtypes or Python values captures; results are always fresh tensors; tensors
that the function reads from outside are read again at each call; Python numbers and random seeds are frozen.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

from npu_tensor.config import config
from npu_tensor.errors import CaptureError
from npu_tensor.events import listeners
from npu_tensor.graph import PLACEHOLDER, Data, Node, capture, current_order
from npu_tensor.schedule import USER_ERRORS, Plan, launch_error, plan
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, internal_files, realize, wrap

__all__ = ["Jitted", "jit"]

internal_files.update((__file__, "<npu_tensor.jit replay>"))

P = ParamSpec("P")
R = TypeVar("R")

MANY_SIGNATURES = 8
"""Captures of one function after which a warning says which arguments keep changing."""


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
        return (dict, *((key, _flatten(part, tensors)) for key, part in value.items()))
    hash(value)  # raises the TypeError that names the type
    return (type(value), value) if isinstance(value, (int, float)) else value


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
        return {key: _replace(value, remaining) for key, value in part.items()}
    return part


# Marks the places of tensors in a stored result, whose own nodes would keep data alive.
_BLANK = Tensor.__new__(Tensor)


class _Captured(NamedTuple):
    """What one signature's replay needs.

    specs: of the arguments. template: the plan's list of values with constants filled in. arguments: (item, number
    of the tensor argument).
    outside: (item, tensor from outside the function). results: (item, spec), or the tensor itself where the function
    returns one that it read, or the number of an argument that it returns. result: what the function returned.
    lines: where the ops were recorded.
    """

    specs: tuple[Spec, ...]
    plan: Plan | None
    template: list[Any]
    arguments: tuple[tuple[int, int], ...]
    outside: tuple[tuple[int, Tensor], ...]
    results: tuple[tuple[int, Spec] | Tensor | int, ...]
    result: Any
    lines: tuple[str, ...]


Replay = Callable[[tuple[Tensor, ...]], Any]


MISS = object()
"""What a replay returns for tensors of another signature."""


def _miss(tensors: tuple[Tensor, ...]) -> Any:
    return MISS


class Jitted(Generic[P, R]):
    """A function that `jit` has wrapped. `captures` counts its signatures."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._replays: dict[Any, Replay] = {}
        self._latest: Replay = _miss

    @property
    def captures(self) -> int:
        """The number of signatures captured so far."""
        return len(self._replays)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # The hot path: the signature of the latest call again, positional tensors only.
        if not kwargs:
            try:
                result = self._latest(args)  # type: ignore[arg-type]
            except AttributeError:  # an argument that is no Tensor
                return self._call(args, kwargs)
            except CaptureError:  # called while another function is captured: becomes part of that
                return self._function(*args, **kwargs)
            if result is not MISS:
                return cast(R, result)
        return self._call(args, kwargs)

    def _call(self, args: Any, kwargs: Any) -> R:
        tensors: list[Tensor] = []
        structure = _flatten((args, kwargs), tensors)
        specs = tuple(tensor._node.spec for tensor in tensors)
        flat = not kwargs and len(tensors) == len(args) and all(isinstance(value, Tensor) for value in args)
        key = specs if flat else (structure, specs)
        if any(tensor._node.value is PLACEHOLDER for tensor in tensors):
            return self._function(*args, **kwargs)  # inside another capture: becomes part of it
        replay = self._replays.get(key)
        if replay is None:
            replay = self._replays[key] = _compile_replay(self._capture(args, kwargs, tensors))
            self._warn_if_many()
        if flat:
            self._latest = replay
        return cast(R, replay(tuple(tensors)))

    def _warn_if_many(self) -> None:
        if len(self._replays) == MANY_SIGNATURES + 1:
            shown = "; ".join(str(key) for key in list(self._replays)[-3:])
            warnings.warn(
                f"{self._function.__qualname__} has been captured {len(self._replays)} times. Pass what changes "
                f"as a tensor of one shape. The latest arguments were: {shown}",
                stacklevel=4,
            )

    def _capture(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> _Captured:
        placeholders = [wrap(Data(t._node.spec, PLACEHOLDER)) for t in tensors]
        specs = tuple(tensor._node.spec for tensor in tensors)
        before = current_order()
        result = self._function(*_rebuild(args, placeholders), **_rebuild(kwargs, placeholders))
        outputs: list[Tensor] = []
        _flatten(result, outputs)
        roots = [tensor._node for tensor in outputs if tensor._node.value is None]
        _realize_older(roots, before)
        numbers = {placeholder._node: number for number, placeholder in enumerate(placeholders)}
        if not roots:
            result = _rebuild(result, [_BLANK] * len(outputs))
            given = tuple(numbers.get(tensor._node, tensor) for tensor in outputs)
            return _Captured(specs, None, [], (), (), given, result, ())
        found = capture(roots)
        items = {node: item for item, node in found.nodes}
        _refuse_escapes([node for item, node in found.nodes if item in found.keep], roots)
        made = plan(found)
        template: list[Any] = [None] * made.size
        arguments: list[tuple[int, int]] = []
        outside: list[tuple[int, Tensor]] = []
        for item, leaf in found.leaves:
            if not isinstance(leaf, Node):
                template[item] = leaf
            elif leaf in numbers:
                arguments.append((item, numbers[leaf]))
            elif leaf.wanted and leaf.handle is not None:
                outside.append((item, cast(Tensor, leaf.handle())))
            else:
                template[item] = leaf.value
        result = _rebuild(result, [_BLANK] * len(outputs))
        lines = tuple(node.line for _, node in found.nodes)
        results = tuple(
            (items[t._node], t._node.spec) if t._node in items else numbers.get(t._node, t) for t in outputs
        )
        return _Captured(specs, made, template, tuple(arguments), tuple(outside), results, result, lines)


def _realize_older(roots: list[Node], before: int) -> None:
    """Compute what was recorded before the capture, so that it counts as data read from outside."""
    seen = set(roots)
    stack = list(roots)
    older = []
    while stack:
        node = stack.pop()
        if node.value is not None:
            continue
        if node.order < before:
            older.append(node)
            continue
        for operand in node.inputs:
            if isinstance(operand, Node) and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    tensors = [wrap(node) if not node.wanted else node.handle() for node in older]  # type: ignore[misc]
    realize(*cast("list[Tensor]", tensors))


def _refuse_escapes(kept: list[Node], roots: list[Node]) -> None:
    for node in kept:
        if node not in roots and node.wanted:
            raise CaptureError(
                f"jit cannot replay a change of a tensor outside the function, at {node.line}: {node.source}. "
                "Return the new value instead"
            )


def _run_lines(made: Plan, namespace: dict[str, Any]) -> list[str]:
    """Plan.run spelled out."""
    lines = ["    try:", "        if listeners or config.debug: plan.run(values)", "        else:"]
    for number, (step, last_uses) in enumerate(made.steps):
        namespace[f"step{number}"] = step
        lines.append(f"            step{number}(values)")
        lines += [f"            values[{item}] = None" for item in last_uses]
    lines += [f"            values[{item}] = values[{base}]" for item, base in made.aliases] + ["            pass"]
    return [
        *lines,
        "    except USER_ERRORS:",
        "        raise",
        "    except Exception as error:",
        "        raise launch_error(error, lines) from error",
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
        "config": config,
        "launch_error": launch_error,
        "listeners": listeners,
        "plan": found.plan,
        "lines": found.lines,
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
            f"    if value{item} is None: value{item} = tensors[{number}].realize()._node.value",
        ]
    for item, tensor in found.outside:
        names[item] = f"outside{item}.realize()._node.value"
        namespace[f"outside{item}"] = tensor
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
            item, namespace[f"spec{position}"] = result
            lines += [
                f"    result{position} = new(Tensor)",
                f"    node = Data(spec{position}, values[{item}])",
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

    Arguments may be nested tuples, lists and dicts of tensors and hashable Python values; the latter are part of the
    signature. Raises CaptureError where the function reads a value or changes a tensor outside itself.
    """
    return Jitted(function)
