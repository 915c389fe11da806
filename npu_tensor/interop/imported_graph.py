"""Graphs of other frameworks as data, and the module that records their ops.

    graph = ImportedGraph(
        inputs={"x": ImportedInput("x")},
        nodes=(
            ImportedNode("aten.linear.default", (Reference("x"), Weight("layer.weight")), results="linear"),
            ImportedNode("aten.relu.default", (Reference("linear"),), results="relu", place="model.py:12"),
        ),
        outputs=Reference("relu"),
    )
    model = ImportedModule(graph, ATEN, {"layer.weight": nn.Parameter(w)})

A call runs the nodes in order, each with the function that a table has for its operator, so it records ops like the
`forward` of a module that is written by hand. Autograd, `jit`, `explain` and `state_dict` work as with any module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

from npu_tensor.dtypes import DType
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.observe.printing import brief
from npu_tensor.tensor import Tensor

_FRAME: Final = re.compile(r'File "([^"\0]+)", line (\d{1,9})')


def model_line(stack_trace: str, pytorch: str = "-packages/torch/") -> str:
    """Return the innermost frame of a stack trace outside PyTorch as "path/model.py:12"; "" if it has no frame.

    Args:
        stack_trace: Text of the trace.
        pytorch: Part of the paths of PyTorch's own files.
    """
    frames = _FRAME.findall(stack_trace)
    own = [frame for frame in frames if pytorch not in frame[0]] or frames
    return ":".join(own[-1]) if own else ""


@dataclass(frozen=True, slots=True)
class Reference:
    """An input of the graph or the result of a node, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter or buffer of the module, by its path in the state dict."""

    path: str


@dataclass(frozen=True, slots=True)
class ImportedInput:
    """A tensor or number that a call passes, with the name by which nodes refer to it.

    Attributes:
        name: Name for references.
        dtype: Required dtype; None accepts all.
        shape: Required extents; None for a dimension of any extent, or for any shape.
    """

    name: str
    dtype: DType | None = None
    shape: tuple[int | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """A call of an operator.

    Attributes:
        operator: Name of the operator, a key of the table.
        operands: Positional arguments: references, weights and constants, also nested in tuples and lists.
        keywords: Keyword arguments of the same kinds.
        results: Name of the result, or names of the elements of the returned sequence; "" for an unused element.
        place: Line of the model as "path/model.py:12", or name of the node, for messages and `explain`; "" if unknown.
    """

    operator: str
    operands: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    results: str | tuple[str, ...] = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class ImportedGraph:
    """A program without control flow.

    Attributes:
        inputs: Arguments of a call by the name of the parameter: `ImportedInput`s and constants, also nested in tuples,
            lists and dicts.
        nodes: Calls in the order of execution.
        outputs: Result of a call: references, weights and constants, also nested.
        updates: Weights and inputs that a call overwrites in place, each with its new value.
    """

    inputs: Mapping[str, Any]
    nodes: tuple[ImportedNode, ...]
    outputs: Any
    updates: tuple[tuple[Reference | Weight, Reference], ...] = ()


class ImportedModule(Module):
    """A module that runs an imported graph.

    Args:
        graph: The graph.
        table: Functions of tensors by operator.
        weights: Tensors by path. `Parameter`s become parameters, other tensors buffers; dots in a path make modules.
        transient: Paths of buffers that are not part of the state dict.

    Raises:
        ArgumentError: The table lacks an operator, or paths contradict each other.
    """

    def __init__(
        self,
        graph: ImportedGraph,
        table: Mapping[str, Callable[..., Any]],
        weights: Mapping[str, Tensor],
        transient: Collection[str] = (),
    ) -> None:
        missing = {node.operator: _at(node) for node in reversed(graph.nodes) if node.operator not in table}
        if missing:
            names = ", ".join(f"{operator}{place}" for operator, place in reversed(missing.items()))
            raise ArgumentError(f"the graph has operators that are not supported: {names}")
        self.graph = graph
        self._places = {
            path: place_weight(self, path, tensor, path not in transient) for path, tensor in weights.items()
        }
        last_use = {reference.name: node for node in graph.nodes for reference in _references(node)}
        for reference in _leaves((graph.outputs, graph.updates), Reference):
            last_use.pop(reference.name, None)
        dropped: dict[int, list[str]] = {}
        for name, node in last_use.items():
            dropped.setdefault(id(node), []).append(name)
        self._steps = [
            (node, table[node.operator], caller_at(node.place), dropped.get(id(node), ())) for node in graph.nodes
        ]

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """Record the ops of the graph. Arguments are passed by position or by name."""
        values: dict[str, Any] = {}
        for name, (pattern, value) in self._bind(inputs, keywords).items():
            _match(name, pattern, value, values)

        def value_of(leaf: Any) -> Any:
            if isinstance(leaf, Reference):
                return values[leaf.name]
            if isinstance(leaf, Weight):
                module, name = self._places[leaf.path]
                return vars(module)[name]
            return leaf

        for node, function, call, dropped in self._steps:
            operands, named = map_leaves(node.operands, value_of), map_leaves(node.keywords, value_of)
            try:
                result = call(function, operands, named)
                if isinstance(node.results, tuple) and any(node.results[len(result) :]):
                    raise ArgumentError(f"the operator has {len(result)} results, not {len(node.results)}")
            except Exception as error:
                error.add_note(f"in {node.operator} of the imported graph{_at(node)}")
                raise
            del operands, named
            if isinstance(node.results, str):
                values[node.results] = result
            else:
                # Functions may return more elements than the graph names.
                values.update(zip(node.results, result, strict=False))
            for name in dropped:
                del values[name]
        outputs = map_leaves(self.graph.outputs, value_of)
        for target, new in self.graph.updates:
            value_of(target).copy_(value_of(new))
        return outputs

    def _bind(self, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return pattern and argument of each parameter."""
        patterns = self.graph.inputs
        arguments = dict(zip(patterns, inputs, strict=False))
        problems = [f"{len(inputs)} positional arguments"] if len(inputs) > len(patterns) else []
        problems += [f"{name!r} twice" for name in keywords if name in arguments]
        problems += [f"an unknown {name!r}" for name in keywords if name not in patterns]
        arguments.update(keywords)
        missing = [name for name in patterns if name not in arguments]
        if problems or missing:
            found = ", ".join([*problems, *(f"no {name!r}" for name in missing)])
            raise ArgumentError(f"the imported graph takes ({', '.join(patterns)}); the call passes {found}")
        return {name: (patterns[name], value) for name, value in arguments.items()}

    def extra_repr(self) -> str:
        """Return the inputs and the number of nodes."""
        return f"({', '.join(self.graph.inputs)}), {len(self.graph.nodes)} nodes"


def place_weight(root: Module, path: str, tensor: Tensor, persistent: bool = True) -> tuple[Module, str]:
    """Add a weight to a module, with the modules of its path. Return its module and its name there.

    Raises:
        ArgumentError: A name in the path has another meaning.
    """
    module = root
    *parents, name = path.split(".")
    for parent in parents:
        if not isinstance(vars(module).get(parent), Module):
            _require_free(module, parent, path)
            module.add_module(parent, Module())
        module = vars(module)[parent]
    _require_free(module, name, path)
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor, persistent)
    return module, name


def _require_free(module: Module, name: str, path: str) -> None:
    if not name or hasattr(module, name):
        raise ArgumentError(
            f"a weight of the imported graph cannot have the path {path!r}: {name!r} has another meaning"
        )


def _at(node: ImportedNode) -> str:
    return f" at {node.place}" if node.place else ""


def _match(name: str, pattern: Any, value: Any, values: dict[str, Any]) -> None:
    """Store the parts of an argument by the names of its pattern. Raise an error if it has another form."""
    if isinstance(pattern, ImportedInput):
        if pattern.dtype is not None or pattern.shape is not None:
            _check(name, pattern, value)
        values[pattern.name] = value
    elif isinstance(pattern, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(pattern):
            raise ArgumentError(f"argument {name!r} of the imported graph is a sequence of {len(pattern)} elements")
        for number, (inner, part) in enumerate(zip(pattern, value, strict=True)):
            _match(f"{name}[{number}]", inner, part, values)
    elif isinstance(pattern, dict):
        if not isinstance(value, Mapping) or value.keys() != pattern.keys():
            raise ArgumentError(f"argument {name!r} of the imported graph is a dict with the keys {list(pattern)}")
        for key, inner in pattern.items():
            _match(f"{name}[{key!r}]", inner, value[key], values)
    elif type(value) is not type(pattern) or value != pattern:
        raise ArgumentError(f"argument {name!r} of the imported graph is always {pattern!r}, not {brief(value)}")


def _check(name: str, pattern: ImportedInput, value: Any) -> None:
    """Raise an error unless an argument has the dtype and shape of the input."""
    dtype, shape = pattern.dtype, pattern.shape
    if not isinstance(value, Tensor):
        kind = f"{type(value).__module__}.{type(value).__name__}"
        hint = "convert arrays with nt.from_numpy and other tensors with nt.from_dlpack"
        raise ArgumentError(f"argument {name!r} of the imported graph is a tensor of npu_tensor, not {kind}; {hint}")
    if dtype is not None and value.dtype is not dtype:
        raise DTypeError(f"argument {name!r} of the imported graph is {dtype.name}, not {brief(value)}")
    if shape is not None and not (
        len(shape) == value.ndim and all(a in (None, b) for a, b in zip(shape, value.shape, strict=True))
    ):
        text = ", ".join("any" if extent is None else str(extent) for extent in shape)
        raise ShapeError(f"argument {name!r} of the imported graph has the shape [{text}], not {brief(value)}")


def _leaves(value: Any, kind: type) -> Iterator[Any]:
    """Yield the leaves of a type in a nested value."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part, kind)
    elif isinstance(value, Mapping):
        yield from _leaves(tuple(value.values()), kind)
    elif isinstance(value, kind):
        yield value


def _references(node: ImportedNode) -> Iterator[Any]:
    """Yield the references of a node, and its results, which may have no reader."""
    results = (node.results,) if isinstance(node.results, str) else node.results
    yield from map(Reference, results)
    yield from _leaves((node.operands, node.keywords), Reference)


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a copy of nested tuples, lists and dicts with their leaves replaced."""
    if isinstance(value, (tuple, list)):
        kind = tuple if isinstance(value, tuple) else list  # FX has lists of its own.
        return kind(map_leaves(part, function) for part in value)
    if isinstance(value, Mapping):
        return {key: map_leaves(part, function) for key, part in value.items()}
    return function(value)


_CALL: Final = lambda function, operands, keywords: function(*operands, **keywords)  # noqa: E731


def caller_at(place: str) -> Callable[..., Any]:
    """Return a function that calls another one in a frame at a place of the model.

    Recorded ops, errors, warnings and tracebacks then find the model's line as they find that of a program.
    """
    if not place:
        return _CALL
    path, _, line = place.rpartition(":")
    path, number = (path, int(line)) if line.isdecimal() else (place, 0)
    code = _CALL.__code__.replace(co_filename=path, co_firstlineno=number, co_name="forward", co_qualname="forward")
    return FunctionType(code, globals())
