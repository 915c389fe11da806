"""Functions whose ops a template records from the third call on, which takes a fraction of the time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec

from npu_tensor._util.user_warnings import user_line
from npu_tensor.config import config
from npu_tensor.dtypes import DType
from npu_tensor.graph.history import grad_mode
from npu_tensor.graph.nodes import PLACEHOLDER, Node
from npu_tensor.graph.templates import Template, template_of
from npu_tensor.graph.tracing import watches
from npu_tensor.ops.declare import keep
from npu_tensor.planner import selection
from npu_tensor.tensor import Tensor, handle_on, recorded_result

P = ParamSpec("P")

_UNSEEN: Final = object()
_SEEN_ONCE: Final = object()
"""Entry of arguments that came once. Programs whose shapes change in every call need no templates."""


def templated(body: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Record the ops of the decorated function by a template.

    The ops must depend only on the specs of tensors, on the other arguments and on the default devices. The function
    must not draw random numbers, warn, return a view of an argument, or write to other tensors than arguments. It runs
    in calls that read values, write to arguments, fail, take lists, or return no new tensor.
    """
    templates: dict[Any, Any] = {}
    selection.before_reset.append(templates.clear)  # Specs of ops depend on the default dtype, which also resets.

    @functools.wraps(body)
    def function(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        if watches or config.eager:  # An op must note the tensors that it reads, or run at once.
            return body(*args, **kwargs)
        key: list[Any] = [selection.active.accelerators, *kwargs]
        given: list[Node] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                node = value._current or value._node
                if node in given:
                    key.append(given.index(node))
                    continue
                given.append(node)
                key.append(node.spec)
                if node.history is not None and grad_mode.enabled:
                    key.append("tracked")
            elif value is None:
                key.append(None)
            else:  # 1 == True == 1.0 and 0.0 == -0.0
                kind = type(value)
                key += (kind, repr(value) if kind is float and not value else value)
                if isinstance(value, tuple):
                    key += map(type, value)
        structure = tuple(key)
        try:
            template = templates.get(structure, _UNSEEN)
        except TypeError:  # A list cannot be part of a key.
            template = None
        if template is _UNSEEN:
            if all(map(_is_plain, (*args, *kwargs.values()))):
                keep(templates, structure, _SEEN_ONCE)
            template = None
        elif template is _SEEN_ONCE:
            template = templates[structure] = _new_template(body, args, kwargs)
        if template is None:
            return body(*args, **kwargs)
        (result,) = template.record(given, user_line(sys._getframe(1)))
        return recorded_result(result)

    return function


def _is_plain(value: Any) -> bool:
    """Return True for arguments that lead to the same ops if they are equal and of one type."""
    if isinstance(value, tuple):
        return all(type(each) is int for each in value)
    return isinstance(value, (Tensor, int, str, DType, type(None))) or (type(value) is float and value == value)


def _new_template(body: Callable[..., Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> Template | None:
    """Call a function with stand-ins for tensors. Return None if it fails or does more than record ops."""
    stand_ins: dict[Node, Tensor] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        node = value._node
        if node not in stand_ins:
            history = () if node.history is not None and grad_mode.enabled else None
            stand_ins[node] = handle_on(Node(None, (), node.spec, 0, None, PLACEHOLDER, history))
        return stand_ins[node]

    values, named = [stand_in(each) for each in args], {name: stand_in(each) for name, each in kwargs.items()}
    given = [each._node for each in stand_ins.values()]
    try:
        result = body(*values, **named)
    except Exception:  # The call itself raises it, or needs values.
        return None
    is_written = any(tensor._node is not node for tensor, node in zip(stand_ins.values(), given, strict=True))
    if is_written or not isinstance(result, Tensor) or result._node.value is not None:
        return None
    return template_of(given, [result._node])
