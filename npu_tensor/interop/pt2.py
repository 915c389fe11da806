"""Files of `torch.export.save`, read without PyTorch.

    model = nt.load_pt2("model.pt2")
    model(x)

A .pt2 file is a zip archive with uncompressed members below one folder:

    models/model.json                            the program, by PyTorch's torch/_export/serde/schema.py
    data/weights/model_weights_config.json       parameters and buffers: their files, dtypes and layouts
    data/weights/weight_0                        bytes of one of them
    data/constants/model_constants_config.json   the same for constants and for buffers that are not in the state dict
    byteorder                                    "little"

Weights are mapped, so that opening a file reads the program alone. Members that hold pickled objects are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError, message_of
from npu_tensor.functions.serialization import File, name_of, opened_to_read
from npu_tensor.interop.archives import MappedArchive, strided_tensor
from npu_tensor.interop.aten import ATEN, IGNORED
from npu_tensor.interop.imported_graph import (
    ImportedGraph,
    ImportedInput,
    ImportedModule,
    ImportedNode,
    Reference,
    Weight,
    model_line,
)
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

MAJOR_VERSION: Final = 8
"""Version of PyTorch's schema, which grows with incompatible changes."""

_DTYPES: Final = {
    **dict(enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"), 1)),
    12: "bool",
    13: "bfloat16",
}
"""Dtypes by the numbers of the schema. Complex numbers and 8-bit floats have no counterpart."""

_MODEL: Final = re.compile(r"([^/]+)/models/([^/]+)\.json")

_VALUES: Final = frozenset(
    ("as_bool", "as_bools", "as_int", "as_int_lists", "as_ints", "as_string", "as_strings")
)  # fmt: skip
"""Kinds of arguments that JSON holds as they are."""

_NOTHING: Final = frozenset(("as_none", "as_device", "as_layout", "as_memory_format"))

_SYMBOLS: Final = frozenset(("as_sym_bool", "as_sym_float", "as_sym_int"))
_LISTS: Final = {
    "as_nested_tensors": "as_tensors",
    "as_optional_tensors": "as_optional_tensor",
    "as_sym_bools": "as_sym_bool",
    "as_sym_floats": "as_sym_float",
    "as_sym_ints": "as_sym_int",
    "as_tensors": "as_tensor",
}
"""Kinds of lists, with the kind of their elements."""


def load_pt2(f: File) -> ImportedModule:
    """Read a program that `torch.export.save` has written. PyTorch is not needed.

    The result is a module with the parameters and buffers of the exported one under their names: it can be called,
    trained, captured by `jit`, explained and saved. The values of weights are read when they are used, so the file must
    not be changed in place.

    Args:
        f: Path, or object with `read` and `seek` for bytes.

    Raises:
        ArgumentError: The file is not such a program or is damaged, another version of PyTorch has written it, or it
            has operators that are not supported. The message names them and the lines of the model.
    """
    with opened_to_read(f) as file:
        try:
            return _Reader(MappedArchive(file)).module()
        except Exception as error:  # Wrong contents raise errors of many types.
            raise ArgumentError(f"load_pt2: {name_of(f) or f!r} cannot be read: {message_of(error)}") from error


class _Reader:
    """Reader of the program in an archive."""

    def __init__(self, archive: MappedArchive) -> None:
        self.archive = archive
        models = [match for name in archive.names if (match := _MODEL.fullmatch(name))]
        if len(models) != 1:
            raise ArgumentError(f"it has {len(models)} programs of torch.export, not one")
        self.root, self.name = models[0].groups()
        order = f"{self.root}/byteorder"
        if order in archive.names and archive.verified(order) != b"little":
            raise ArgumentError("its numbers are not little-endian")
        program = archive.parsed(models[0][0])
        version = program["schema_version"]
        if version["major"] != MAJOR_VERSION:
            raise ArgumentError(
                f"its schema has version {version['major']}.{version['minor']}, and this is a reader of version "
                f"{MAJOR_VERSION}; torch {program.get('torch_version')} wrote it"
            )
        module = program["graph_module"]
        self.graph, self.signature = module["graph"], module["signature"]
        self.call = next(each["signature"] for each in module["module_call_graph"] if each["fqn"] == "")
        self.values: dict[str, Reference | Weight] = {}

    def module(self) -> ImportedModule:
        """Return the program as a module."""
        configurations = {
            kind: self.archive.parsed(f"{self.root}/data/{kind}/{self.name}_{kind}_config.json")["config"]
            for kind in ("weights", "constants")
        }
        places = {path: (kind, meta) for kind, each in configurations.items() for path, meta in each.items()}
        tensors: dict[str, Tensor] = {}
        known: dict[str, Tensor] = {}
        transient: list[str] = []
        leaves: list[Any] = []
        for argument, spec in zip(self.graph["inputs"], self.signature["input_specs"], strict=True):
            ((kind, entry),) = spec.items()
            if kind == "user_input":
                leaves.append(self._input(argument))
            elif kind == "constant_input":
                ((_, value),) = entry["value"].items()
                leaves.append(value)
            elif kind in ("parameter", "buffer", "tensor_constant"):
                path = entry[f"{kind}_name"]
                folder, meta = places[path]
                same = f"{folder} {meta}"
                if same not in known:  # Tied weights are one tensor.
                    tensor = self._tensor(folder, meta, path)
                    known[same] = (
                        Parameter(tensor, meta["tensor_meta"]["requires_grad"]) if meta["is_param"] else tensor
                    )
                tensors[path] = known[same]
                self.values[entry["arg"]["name"]] = Weight(path)
                if kind == "tensor_constant" or not entry.get("persistent", True):
                    transient.append(path)
            else:
                raise ArgumentError(f"inputs of the kind {kind} are not supported")
        inputs = self._arguments(leaves)
        nodes = tuple([self._node(node) for node in self.graph["nodes"]])
        outputs: list[Any] = []
        updates: list[tuple[Reference | Weight, Reference]] = []
        for argument, spec in zip(self.graph["outputs"], self.signature["output_specs"], strict=True):
            ((kind, entry),) = spec.items()
            value = self._argument(argument)
            if kind in ("user_output", "loss_output"):
                outputs.append(value)
            elif kind in ("buffer_mutation", "parameter_mutation"):
                path = entry[f"{kind.removesuffix('_mutation')}_name"]
                if path not in tensors:
                    raise ValueError(f"an update of {path!r}")
                updates.append((Weight(path), value))
            elif kind == "user_input_mutation":
                updates.append((self._value(entry["user_input_name"]), value))
            else:
                raise ArgumentError(f"results of the kind {kind} are not supported")
        result = _nested(_tree(self.call["out_spec"]), iter(outputs))
        return ImportedModule(ImportedGraph(inputs, nodes, result, tuple(updates)), ATEN, tensors, transient)

    def _tensor(self, folder: str, payload: Mapping[str, Any], path: str) -> Tensor:
        meta = payload["tensor_meta"]
        if payload["use_pickle"] or meta is None:
            raise ArgumentError(f"{path!r} is a pickled object, which is not read")
        dtype = _dtype(meta["dtype"])
        shape, strides = _extents(meta["sizes"]), _extents(meta["strides"])
        offset = meta["storage_offset"]["as_int"]
        stored = self.archive.member(f"{self.root}/data/{folder}/{payload['path_name']}").view(dtype.numpy)
        return strided_tensor(stored, offset, shape, strides)

    def _input(self, argument: Mapping[str, Any]) -> Any:
        """Return an argument that the caller passes: a tensor, a number of any value, or a constant."""
        ((kind, content),) = argument.items()
        if kind == "as_tensor":
            name = content["name"]
            meta = self.graph["tensor_values"][name]
            shape = tuple(size.get("as_int") for size in meta["sizes"])
            self.values[name] = Reference(name)
            return ImportedInput(name, _dtype(meta["dtype"]), shape)
        if kind in _SYMBOLS and "as_name" in content:
            name = content["as_name"]
            self.values[name] = Reference(name)
            return ImportedInput(name)
        return self._argument(argument)

    def _arguments(self, leaves: list[Any]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        args, keywords = _nested(_tree(self.call["in_spec"]), iter(leaves))
        names = self.call.get("forward_arg_names") or [f"argument_{number}" for number in range(len(args))]
        return {**dict(zip(names, args, strict=False)), **keywords}

    def _node(self, node: Mapping[str, Any]) -> ImportedNode:
        operands, keywords = [], {}
        for each in node["inputs"]:
            if each["name"] not in IGNORED or each["kind"] != 2:
                value = self._argument(each["arg"])
                if each["kind"] == 2:
                    keywords[each["name"]] = value
                else:
                    operands.append(value)
        results: list[Any] = []
        for output in node["outputs"]:
            ((kind, content),) = output.items()
            results.append([each["name"] for each in content] if kind == "as_tensors" else _result_name(kind, content))
        names = results[0] if len(results) == 1 else results or ""
        names = tuple(names) if isinstance(names, list) else names
        self.values |= {name: Reference(name) for name in ([names] if isinstance(names, str) else names) if name}
        return ImportedNode(
            operator=node["target"].removeprefix("torch.ops."),
            operands=tuple(operands),
            keywords=keywords,
            results=names,
            place=_place(node),
        )

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        ((kind, content),) = argument.items()
        if kind in _LISTS:
            return [self._argument({_LISTS[kind]: each}) for each in content]
        if kind == "as_tensor":
            return self._value(content["name"])
        if kind in _SYMBOLS:
            ((form, value),) = content.items()
            return self._value(value) if form == "as_name" else value
        if kind == "as_optional_tensor":
            return self._argument(content)
        if kind in _VALUES:
            return content
        if kind in _NOTHING:
            return None
        if kind == "as_float":  # Infinity and NaN are strings.
            return float(content)
        if kind in ("as_floats", "as_float_lists"):
            return [self._argument({"as_floats" if isinstance(each, list) else "as_float": each}) for each in content]
        if kind == "as_scalar_type":
            return _dtype(content)
        if kind == "as_string_to_argument":
            return {name: self._argument(each) for name, each in content.items()}
        raise ArgumentError(f"arguments of the kind {kind.removeprefix('as_')} are not supported")

    def _value(self, name: str) -> Reference | Weight:
        if name not in self.values:
            raise ValueError(f"the value {name!r} is not computed before it is read")
        return self.values[name]


def _result_name(kind: str, content: Any) -> str:
    if kind in ("as_none", "as_tensor", *_SYMBOLS):
        name = "" if kind == "as_none" else content.get("name" if kind == "as_tensor" else "as_name", "")
        if isinstance(name, str):
            return name
    raise ArgumentError(f"results of the kind {kind.removeprefix('as_')} are not supported")


def _dtype(number: Any) -> DType:
    if number not in _DTYPES:
        raise ArgumentError(f"the dtype with the number {number!r} in PyTorch's schema has no counterpart")
    return as_dtype(_DTYPES[number])


def _extents(sizes: list[Any]) -> tuple[int, ...]:
    extents = tuple(size["as_int"] for size in sizes)
    if not all(type(extent) is int for extent in extents):
        raise ValueError(f"the extents {extents}")
    return extents


def _place(node: Mapping[str, Any]) -> str:
    """Return the innermost line of the model that recorded a node, outside PyTorch; the node's name if none did."""
    return model_line(node["metadata"].get("stack_trace") or "") or str(node.get("name") or node["target"])


# --- nested arguments and results


def _tree(text: str) -> Any:
    version, spec = json.loads(text)
    if version != 1:
        raise ArgumentError(f"its descriptions of nested values have version {version}, not 1")
    return spec


def _nested(spec: Mapping[str, Any], leaves: Iterator[Any]) -> Any:
    """Return leaves in the structure of a tree. Objects of other classes become dicts of their fields, or tuples."""
    kind = spec["type"]
    if kind is None:
        return next(leaves)
    parts = [_nested(child, leaves) for child in spec["children_spec"]]
    if kind in ("builtins.tuple", "builtins.list"):
        return tuple(parts) if kind == "builtins.tuple" else parts
    context = json.loads(spec["context"]) if isinstance(spec["context"], str) else None
    keys = context if isinstance(context, list) else []
    return dict(zip(keys, parts, strict=True)) if len(keys) == len(parts) else tuple(parts)
