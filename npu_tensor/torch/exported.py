"""Programs of `torch.export` as modules of ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from npu_tensor.errors import ArgumentError
from npu_tensor.interop.aten import ATEN
from npu_tensor.interop.imported_graph import ImportedGraph, ImportedInput, ImportedModule, Reference, Weight
from npu_tensor.nn.parameter import Parameter
from npu_tensor.torch.bridge import DTYPE_OF, from_pytorch
from npu_tensor.torch.graphs import imported_node


def from_torch(module: torch.nn.Module, *args: Any, **kwargs: Any) -> ImportedModule:
    """Export a module of PyTorch with `torch.export` and convert it; see `from_exported`.

    Args:
        module: Module to convert, in the mode that the result has: training or evaluation.
        *args: Example arguments. The result takes tensors of the same dtypes and shapes.
        **kwargs: Example keyword arguments.

    Raises:
        ArgumentError: `module` is not a module of PyTorch, or has operators that are not supported.
    """
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}")
    try:
        program = torch.export.export(module, args, kwargs)
    except Exception as error:  # of the user's own code
        if len(args) == 1 and isinstance(args[0], tuple):
            error.add_note("from_torch takes arguments as the module does: from_torch(module, x, y)")
        raise
    return from_exported(program)


def from_exported(program: ExportedProgram) -> ImportedModule:
    """Convert a program of `torch.export`, with copies of its parameters and buffers under their names.

    The result is a module like any other: it can be trained, captured by `jit` and explained, and does not use PyTorch.

    Raises:
        ArgumentError: The program has operators that are not supported. The message names them and their lines.
    """
    if not isinstance(program, ExportedProgram):
        raise ArgumentError(f"from_exported takes a torch.export.ExportedProgram, not {type(program).__name__}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance.treespec, LeafSpec", FutureWarning)  # PyTorch's own code.
        program = program.run_decompositions({})  # Removes writes in place.
    signature = program.graph_signature
    specs = dict(zip(program.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True))
    references = {node: _reference(node, spec) for node, spec in specs.items()}

    def reference(node: fx.Node) -> Any:
        if node.op == "get_attr":
            raise ArgumentError(f"from_exported: {node.target} is a part of the program that is not supported")
        return references.get(node, Reference(node.name))

    values = {**program.constants, **program.state_dict}
    named = {spec.target: values[spec.target] for spec in signature.input_specs if spec.target in values}
    own = {id(tensor): _weight(tensor) for tensor in named.values()}  # Paths may share a tensor.
    weights = {path: own[id(tensor)] for path, tensor in named.items()}
    results = program.graph.output_node().args[0]
    outputs = list(zip(results, signature.output_specs, strict=True))
    user_outputs = [reference(node) if isinstance(node, fx.Node) else node for node, spec in outputs if _is_user(spec)]
    graph = ImportedGraph(
        inputs=_inputs(program, specs),
        nodes=tuple(imported_node(node, reference) for node in program.graph.nodes if node.op == "call_function"),
        outputs=_nested(program.call_spec.out_spec, iter(user_outputs)),
        updates=tuple(_update(spec, specs, reference(node)) for node, spec in outputs if not _is_user(spec)),
    )
    transient = [spec.target for spec in signature.input_specs if spec.kind is InputKind.CONSTANT_TENSOR]
    transient += [spec.target for spec in signature.input_specs if spec.persistent is False]
    return ImportedModule(graph, ATEN, weights, [path for path in transient if path is not None])


def _reference(node: fx.Node, spec: InputSpec) -> Any:
    """Return the reference to an input: a user's argument by name, a parameter or buffer by its path."""
    if spec.kind is InputKind.USER_INPUT:
        return Reference(node.name)
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
        return Weight(spec.target or "")
    raise ArgumentError(f"from_exported: inputs of the kind {spec.kind.name} are not supported")


def _weight(tensor: torch.Tensor) -> Any:
    own = from_pytorch(tensor.detach().clone())
    return Parameter(own, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else own


def _is_user(spec: Any) -> bool:
    return spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)


def _update(spec: Any, specs: Mapping[fx.Node, InputSpec], value: Any) -> tuple[Any, Any]:
    """Return the target of a write, and its new value."""
    if spec.kind is OutputKind.BUFFER_MUTATION:
        return Weight(spec.target), value
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        return Reference(spec.target), value
    raise ArgumentError(f"from_exported: results of the kind {spec.kind.name} are not supported")


def _inputs(program: ExportedProgram, specs: Mapping[fx.Node, InputSpec]) -> dict[str, Any]:
    """Return the arguments of a call by name. A positional argument has the name of its tensor, if it is one."""
    leaves = iter([_input(node) for node, spec in specs.items() if spec.kind is InputKind.USER_INPUT])
    in_spec = program.call_spec.in_spec
    assert in_spec is not None
    args, kwargs = _nested(in_spec, leaves)
    names = [arg.name if isinstance(arg, ImportedInput) else f"argument_{number}" for number, arg in enumerate(args)]
    return {**dict(zip(names, args, strict=True)), **kwargs}


def _input(node: fx.Node) -> Any:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return ImportedInput(node.name) if isinstance(value, torch.SymInt) else value
    shape = tuple(extent if isinstance(extent, int) else None for extent in value.shape)
    return ImportedInput(node.name, DTYPE_OF.get(value.dtype), shape)


def _nested(spec: Any, leaves: Iterator[Any]) -> Any:
    """Return leaves in the structure of a tree. Objects of other classes become dicts of their fields, or tuples."""
    if spec.is_leaf():
        return next(leaves)
    if spec.type is None:
        return None
    parts = [_nested(child, leaves) for child in spec.children()]
    if issubclass(spec.type, (tuple, list)):
        return tuple(parts) if issubclass(spec.type, tuple) else parts
    keys = spec.context if isinstance(spec.context, list) else []
    return dict(zip(keys, parts, strict=True)) if len(keys) == len(parts) else tuple(parts)
