"""The backend of `torch.compile`: `torch.compile(model, backend="npu_tensor", options={"device": "npu"})`.

AOTAutograd gives graphs of ATen operators without writes, aliases and autocast, one for the forward and one for the
backward pass. A graph is recorded once per shapes of its arguments and replayed like a function under `jit`. Parameters
and buffers are tensors from outside of the capture. Operators that draw random numbers or that have no entry in the
table stay in PyTorch: a partitioner cuts the graph around them.
"""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.resources import default_device
from npu_tensor.graph.nodes import PLACEHOLDER, Data
from npu_tensor.interop.aten import ATEN
from npu_tensor.interop.imported_graph import ImportedGraph, ImportedInput, ImportedModule, Reference, Weight
from npu_tensor.jit import jit
from npu_tensor.jit.trace import call_traced
from npu_tensor.observe.explain import report_of_call
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, rename, wrap
from npu_tensor.torch.bridge import buffer_of, from_pytorch, spec_of, to_pytorch
from npu_tensor.torch.graphs import imported_node, operator_name, place_of_node
from npu_tensor.torch.recurrent_layers import keep_recurrent_layers


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Options of `torch.compile(..., backend="npu_tensor", options={...})`.

    Attributes:
        device: URI of a device or several, as for `npu_tensor.default_device`; None for the current default.
        fallback: "torch" leaves operators that are not supported to PyTorch; "error" raises an error for them.
        frozen: True promises that parameters and buffers do not change, so that calls do not check them.
    """

    device: str | None = None
    fallback: str = "torch"
    frozen: bool = False


def npu_tensor(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo, for `torch.compile`.

    Raises:
        ArgumentError: There is no such option, or it has another type.
        DeviceError: There is no such device.
    """
    unknown = (options or {}).keys() - {each.name for each in fields(BackendOptions)}
    chosen = BackendOptions(**{name: value for name, value in (options or {}).items() if name not in unknown})
    if unknown or chosen.fallback not in ("torch", "error") or not isinstance(chosen.frozen, bool):
        known = "device, fallback ('torch' or 'error') and frozen (a bool)"
        raise ArgumentError(f"the backend npu_tensor takes the options {known}, not {dict(options or {})}")

    def forward(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        context = TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        if metadata is None:
            return _compiled(graph, (), 0, chosen)
        return _compiled(graph, metadata.static_input_indices, metadata.num_forward_returns, chosen)

    def backward(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return _compiled(graph, (), 0, chosen)

    compiler = aot_autograd(fw_compiler=forward, bw_compiler=backward, partition_fn=min_cut_rematerialization_partition)
    keep_recurrent_layers(gm)
    with _on(chosen.device):
        compiled: Callable[..., Any] = compiler(gm, example_inputs)
    return compiled


def _on(device: str | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if device is None else default_device(device)


def _compiled(
    graph: fx.GraphModule, static_positions: Collection[int], returned: int, options: BackendOptions
) -> Callable[..., Any]:
    """Return a function that computes a graph of AOTAutograd.

    Args:
        graph: The graph.
        static_positions: Positions of parameters and buffers among the arguments.
        returned: Number of the first results that the user's function returns; the others are for the backward pass.
        options: Options of the backend.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    static = {placeholders[position] for position in static_positions}
    _view_memory_in_order(graph.graph)
    first = dict.fromkeys(_draw_masks_first(graph.graph), _RANDOM)
    reasons = {node: reason for node in graph.graph.nodes if (reason := _reason_against(graph, node))}
    reasons |= first | dict.fromkeys(_shared_views(graph.graph.output_node().args[0][:returned]), _SHARED)
    _report(reasons, options)
    left = {_left_text(node, reason): None for node, reason in reasons.items()}
    boxed: Callable[..., Any]
    if not reasons:
        boxed = make_boxed_func(CompiledGraph(graph, static, options, tuple(left)).forward)
        return boxed
    drawing = [node.name for node in graph.graph.nodes if _is_random(node)]
    unchanged = fx.GraphModule(graph, copy.deepcopy(graph.graph)) if len(drawing) > 1 else graph
    partitioner = CapabilityBasedPartitioner(graph, _Support(reasons), allows_single_node_partition=True)
    partitions = [each for each in partitioner.propose_partitions() if any(map(_computes, each.nodes))]
    whole = partitioner.fuse_partitions(partitions, prefix="npu_tensor_")
    if [node.name for node in whole.graph.nodes if _is_random(node)] != drawing:
        _require_fallback(
            "a graph draws random numbers between other operators, in an order that parts would change", options
        )
        boxed = make_boxed_func(unchanged)
        return boxed
    for node in whole.graph.find_nodes(op="call_module"):
        part = whole.get_submodule(node.target)
        inner = part.graph.find_nodes(op="placeholder")
        constant = {own for own, argument in zip(inner, node.args, strict=True) if argument in static}
        whole.add_submodule(node.target, CompiledGraph(part, constant, options, tuple(left)))
    whole.recompile()
    boxed = make_boxed_func(whole)
    return boxed


def _is_random(node: fx.Node) -> bool:
    """Return True if a node draws random numbers; attention without dropout, which is in the table, does not."""
    is_seeded = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return is_seeded and operator_name(node.target) not in ATEN


def _has_plain_mask(dropout: fx.Node) -> bool:
    """Return True if the mask of a dropout depends on nothing but its shape, which is known."""
    value = dropout.args[0].meta["val"]
    is_known = all(type(extent) is int for extent in (*value.shape, *value.stride()))
    return bool(dropout.args[2] and is_known and is_non_overlapping_and_dense_or_false(value))


def _draw_masks_first(graph: fx.Graph) -> list[fx.Node]:
    """Replace dropout by products with masks, which do not depend on other values. Return the operands of the masks.

    PyTorch draws them in the same order as in eager mode, before the rest of the graph, which stays in one part.
    Nothing changes if other random numbers are drawn between them.
    """
    aten = torch.ops.aten
    drawing = [node for node in graph.nodes if node.op == "call_function" and _is_random(node)]
    if not all(each.target is aten.native_dropout.default and _has_plain_mask(each) for each in drawing):
        return []
    operands = []
    for dropout in drawing:
        x, p, _ = dropout.args
        value = x.meta["val"]

        def record(target: Any, args: tuple[Any, ...], val: Any, meta: Mapping[str, Any] = dropout.meta) -> fx.Node:
            node = graph.call_function(target, args)
            node.meta = {**meta, "val": val}
            return node

        with graph.inserting_before(dropout):
            sizes = ([*value.shape], [*value.stride()])  # Masks are drawn in the order of the memory.
            same = graph.call_function(aten.empty_strided.default, sizes, {"dtype": value.dtype})
            same.meta = {**dropout.meta, "val": value}
            drawn = record(aten.native_dropout.default, (same, p, True), dropout.meta["val"])
            mask = record(operator.getitem, (drawn, 1), dropout.meta["val"][1])
            kept = record(aten.mul.Tensor, (x, mask), value)
            scaled = record(aten.mul.Tensor, (kept, 1 / (1 - p) if p < 1 else 0.0), value)
        for element in list(dropout.users):
            element.replace_all_uses_with((scaled, mask)[element.args[1]])
            graph.erase_node(element)
        graph.erase_node(dropout)
        operands.append(same)
    return operands


def _view_memory_in_order(graph: fx.Graph) -> None:
    """Permute operands of as_strided that are dense in another order, so that they are contiguous in PyTorch."""
    aten = torch.ops.aten
    for node in graph.find_nodes(op="call_function", target=aten.as_strided.default):
        value = node.args[0].meta["val"]
        if (order := _order_of_dimensions(value)) is not None:
            with graph.inserting_before(node):
                permuted = graph.call_function(aten.permute.default, (node.args[0], order))
            permuted.meta = {**node.meta, "val": value.permute(order)}
            node.replace_input_with(node.args[0], permuted)


class _Argument(NamedTuple):
    """Number of an argument that is a result."""

    number: int


_COMPUTED: Final = object()
"""Mark of a result that is neither an argument nor a constant."""


class _StaticArgument:
    """A parameter or buffer as a tensor from outside of the capture."""

    def __init__(self, number: int, value: torch.Tensor) -> None:
        self.number = number
        spec = _spec_of_value(value)
        self.weight = zeros(*spec.shape, dtype=spec.dtype)  # It is named before it is computed.
        self.latest: torch.Tensor | None = None
        self.state: tuple[int, int] | None = None

    def read(self, tensor: torch.Tensor, frozen: bool) -> None:
        """Rebind the weight if the argument is another object, or has other memory or contents and is not frozen.

        Writes to inference tensors are not counted, so they are read in each call.
        """
        if frozen and self.latest is tensor:
            return
        state = None if tensor.is_inference() else (tensor.data_ptr(), tensor._version)
        if self.latest is not tensor or state is None or self.state != state:
            self.latest, self.state = tensor, state
            rename(self.weight, Data(spec_of(tensor), buffer_of(tensor)))


class CompiledGraph(torch.nn.Module):  # type: ignore[misc]
    """A graph of ATen operators, all of them in the table, that is captured at its first call.

    A module, so that the rest of a graph can call it if it is a part.

    Args:
        graph: The graph.
        static: Placeholders of parameters and buffers.
        options: Options of the backend.
        left: Operators that the whole graph leaves to PyTorch, for explanations.
    """

    def __init__(
        self, graph: fx.GraphModule, static: Collection[fx.Node], options: BackendOptions, left: tuple[str, ...]
    ) -> None:
        super().__init__()
        placeholders = graph.graph.find_nodes(op="placeholder")
        numbers = {node: number for number, node in enumerate(placeholders)}

        def reference(node: fx.Node) -> Reference | Weight:
            if node.op == "get_attr" or node in static:
                return Weight(str(node.target))
            return Reference(node.name)

        results = graph.graph.output_node().args[0]
        self._is_single = isinstance(results, fx.Node)
        outputs = [results] if self._is_single else list(results)
        self._outputs = [
            each if not isinstance(each, fx.Node) else _Argument(numbers[each]) if each in numbers else _COMPUTED
            for each in outputs
        ]
        computed = [each for each in outputs if isinstance(each, fx.Node) and each not in numbers]
        self._orders = [_order_of_dimensions(each.meta["val"]) for each in computed]
        nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
        with unset_fake_temporarily():
            constants = {
                str(node.target): from_pytorch(getattr(graph, node.target).clone())
                for node in graph.graph.find_nodes(op="get_attr")
            }
        self._static = [_StaticArgument(numbers[node], node.meta["val"]) for node in static]
        self._lock = new_lock()  # Threads share the weights, which instances of one class have of their own.
        weights = {str(placeholders[each.number].target): each.weight for each in self._static}
        self._dynamic = [number for number, node in enumerate(placeholders) if node not in static]
        module = ImportedModule(
            ImportedGraph(
                inputs={
                    placeholders[number].name: ImportedInput(placeholders[number].name) for number in self._dynamic
                },
                nodes=tuple(imported_node(node, reference) for node in nodes),
                outputs=[reference(node) for node in computed],
            ),
            ATEN,
            {**weights, **constants},
        )
        self._function = jit(module)
        self._options = options
        self.left = left

    def forward(self, *args: Any) -> Any:
        """Compute the graph. The memory of the results belongs to the caller."""
        operands = [args[number] for number in self._dynamic]
        operands = [from_pytorch(each) if isinstance(each, torch.Tensor) else each for each in operands]
        with self._lock, _on(self._options.device):
            for weight in self._static:
                weight.read(args[weight.number], self._options.frozen)
            if (report := report_of_call.get()) is not None:
                report.add(self._function.explain(*operands), self.left)
            results: list[Any] = self._function(*operands)
        operands.clear()
        computed = iter([_in_order(_given(results, place), order) for place, order in enumerate(self._orders)])
        outputs = [
            next(computed) if each is _COMPUTED else args[each.number] if isinstance(each, _Argument) else each
            for each in self._outputs
        ]
        return outputs[0] if self._is_single else outputs


def _given(results: list[Any], place: int) -> Any:
    """Return a result as PyTorch's. It leaves the list, so that its memory has one owner."""
    result, results[place] = results[place], None
    return to_pytorch(result) if isinstance(result, Tensor) else result


# --- strides


def _order_of_dimensions(value: Any) -> tuple[int, ...] | None:
    """Return the dimensions by decreasing stride for a dense tensor that is not contiguous, else None.

    AOTAutograd makes views of results by strides.
    """
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    order = tuple(sorted(range(value.ndim), key=lambda dim: -guarding_hint_or_throw(value.stride(dim))))
    return order if value.permute(order).is_contiguous() else None


def _in_order(result: Any, order: tuple[int, ...] | None) -> Any:
    if order is None:
        return result
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return result.permute(order).contiguous().permute(inverse)


# --- supported operators


class _Support(OperatorSupportBase):  # type: ignore[misc]
    """Answers of the partitioner's question for a node."""

    def __init__(self, reasons: Mapping[fx.Node, str]) -> None:
        self.reasons = reasons

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.op == "call_function" and node not in self.reasons


_RANDOM: Final = "draws random numbers"

_SHARED: Final = "a view that shares memory with another result"


def _reason_against(graph: fx.GraphModule, node: fx.Node) -> str:
    """Return the reason why a node is left to PyTorch, or ""."""
    if node.op != "call_function":
        return ""
    name = operator_name(node.target)
    if name not in ATEN:
        return _RANDOM if _is_random(node) else "not supported"
    if name.startswith("aten.as_strided") and not _is_whole(node.args[0].meta["val"]):
        return "as_strided of a tensor that is not contiguous"
    try:
        call = imported_node(node, lambda operand: _stand_in(graph, operand))
        _, result, _ = call_traced(ATEN[name], call.operands, call.keywords)
        _require_equal(node.meta["val"], result)
    except Exception as error:  # Functions may refuse operands with any error.
        return str(error) or type(error).__name__
    return ""


def _shared_views(results: Sequence[Any]) -> list[fx.Node]:
    """Return the views that lead to results which share memory with other results, unless the memory is an argument's.

    PyTorch makes such views, because results have memory of their own here.
    """
    chains: dict[fx.Node, list[list[fx.Node]]] = {}
    for result in dict.fromkeys(each for each in results if isinstance(each, fx.Node)):
        node, chain = result, []
        while node.op == "call_function" and not _computes(node) and isinstance(node.args[0], fx.Node):
            chain.append(node)
            node = node.args[0]
        chains.setdefault(node, []).append(chain)
    shared = [of_base for base, of_base in chains.items() if len(of_base) > 1 and base.op == "call_function"]
    return [node for of_base in shared for chain in of_base for node in chain]


def _is_whole(value: torch.Tensor) -> bool:
    return bool(value.is_contiguous()) and value.storage_offset() == 0


def _stand_in(graph: fx.GraphModule, node: fx.Node) -> Any:
    """Return a value without contents for the result of a node."""
    value = getattr(graph, str(node.target)) if node.op == "get_attr" else node.meta["val"]
    return _replaced(value)


def _replaced(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return wrap(Data(_spec_of_value(value), PLACEHOLDER))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return guarding_hint_or_throw(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_replaced(part) for part in value])
    return value


def _spec_of_value(value: torch.Tensor) -> Spec:
    """Return the spec of a fake tensor, with the present extents of dynamic dimensions."""
    return spec_of(value, tuple(guarding_hint_or_throw(extent) for extent in value.shape))


def _require_equal(expected: Any, result: Any) -> None:
    """Raise ArgumentError if a recorded result differs in shape or dtype from PyTorch's."""
    if isinstance(expected, (tuple, list)):
        for part, own in zip(expected, result, strict=True):
            _require_equal(part, own)
    elif isinstance(expected, torch.Tensor):
        spec = _spec_of_value(expected)
        if not isinstance(result, Tensor) or result._node.spec is not spec:
            raise ArgumentError(f"the result would be {getattr(result, '_node', result)}, not {spec}")


def _computes(node: fx.Node) -> bool:
    """Return True if a node is not a view or an element of a tuple."""
    return isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view


def _left_text(node: fx.Node, reason: str) -> str:
    return f"{operator_name(node.target)} at {place_of_node(node)}: {reason}"


def _report(reasons: Mapping[fx.Node, str], options: BackendOptions) -> None:
    """Warn of operators that are left to PyTorch, or raise an error if the options ask for it."""
    named = {
        operator_name(node.target): _left_text(node, why)
        for node, why in reasons.items()
        if why not in (_RANDOM, _SHARED)
    }
    if not named:
        return
    _require_fallback(f"operators are left to PyTorch: {'; '.join(named.values())}", options)


def _require_fallback(text: str, options: BackendOptions) -> None:
    """Warn of a fallback, or raise an error if the options do not allow it."""
    if options.fallback == "error":
        raise NpuTensorError(f"{text} (fallback='error')")
    warn(text)
