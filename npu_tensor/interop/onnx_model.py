"""ONNX files as modules. Reading takes the `onnx` package; a loaded module does not need it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import npu_tensor as nt
from npu_tensor._util.extras import install_command
from npu_tensor.dtypes import DTYPES
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.interop.imported_graph import (
    ImportedGraph,
    ImportedInput,
    ImportedModule,
    ImportedNode,
    Reference,
    Weight,
    model_line,
)
from npu_tensor.interop.onnx_operands import DTYPE_NAMES, array_dtype
from npu_tensor.interop.onnx_operators import OPERATORS
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

_OPSETS: Final = range(13, 29)
_DOMAINS: Final = {"": "", "ai.onnx": "", "com.microsoft": "com.microsoft."}
"""Prefixes of the names of operators, by domain."""
_EXTERNAL: Final = 1  # TensorProto.EXTERNAL
_GRAPH: Final = (5, 10)  # AttributeProto.GRAPH, GRAPHS
_SUBGRAPHS: Final = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
_NATIVE: Final = {dtype.name: dtype for dtype in DTYPES}
_WIDER: Final = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8", "uint16": "int32"}
"""Dtypes for weights that only `DequantizeLinear` reads and that tensors do not have."""
_PRODUCTS: Final = ("Conv", "Gemm", "MatMul")


def load_onnx(path: str | os.PathLike[str]) -> ImportedModule:
    """Load a model from an ONNX file.

        model = nt.load_onnx("model.onnx")
        step = nt.jit(model)
        step(nt.randn(1, 3, 224, 224))

    The module takes the inputs of the file by position or by name and returns its output, or a tuple of several.
    Floating-point initializers are parameters and quantized ones are buffers, under their names in the file. Parameters
    need no gradients until `model.requires_grad_()` enables training. Weights in external files are mapped; these files
    must lie in the folder of the model or below it.

    Shapes that the graph computes are computed while it is recorded, and operators of constants by NumPy. A shape that
    depends on values of tensors is read, which `jit` does not allow. Branches and loops need conditions that are known
    while the graph is recorded, in the same way. A product of matrices that the file dequantizes is one of integers.

    Args:
        path: Path of the file. Opsets 13 to 28 are supported.

    Raises:
        ArgumentError: The file is damaged or has operators or an opset that are not supported.
        DTypeError: The file has tensors of a dtype that is not supported.
        FileNotFoundError: The file, or one of its external files, does not exist.
        ImportError: The `onnx` package is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        command = install_command("onnx")
        raise ImportError(f"nt.load_onnx needs the onnx package; install it with: {command}") from error
    name = os.fspath(path)
    with open(name, "rb") as file:
        data = file.read()
    try:
        model = onnx.ModelProto.FromString(data)
        if model.functions:
            from onnx.inliner import inline_local_functions

            model = inline_local_functions(model)
        return _Reader(model, Path(name).parent).module()
    except (ArgumentError, DTypeError) as error:
        raise type(error)(f"load_onnx: {name!r}: {error}") from error.__cause__
    except OSError:  # of external files
        raise
    except Exception as error:  # Wrong contents raise errors of many types.
        raise ArgumentError(f"load_onnx: {name!r} is not a readable ONNX file: {error}") from error


class _Reader:
    """Reader of one model."""

    def __init__(self, model: Any, folder: Path) -> None:
        from onnx import checker

        self.folder = folder
        self.opsets = {each.domain: each.version for each in model.opset_import}
        opset = self.opsets.get("", self.opsets.get("ai.onnx"))
        if not model.HasField("graph") or opset is None:
            raise ArgumentError("it has no graph or names no opset; it may be another kind of file")
        if opset not in _OPSETS:
            hint = "onnx.version_converter.convert_version converts older files"
            raise ArgumentError(f"opset {opset}; {_OPSETS[0]} to {_OPSETS[-1]} are supported, and {hint}")
        self.context = checker.C.CheckerContext()
        self.context.ir_version, self.context.opset_imports = model.ir_version, {"": opset, "ai.onnx": opset}
        self.graph = model.graph
        self.weights: dict[str, Tensor] = {}
        self.values: dict[str, Any] = {}
        self.constants: dict[str, np.ndarray[Any, Any]] = {}

    def module(self) -> ImportedModule:
        """Return the model as a module."""
        if self.graph.sparse_initializer:
            raise ArgumentError("sparse initializers are not supported")
        self._add_initializers(self.graph)
        return ImportedModule(self._graph(self.graph, {}), OPERATORS, self.weights)

    # --- weights

    def _add_initializers(self, graph: Any) -> None:
        arrays = {each.name: self._array(each) for each in graph.initializer}
        readers: dict[str, set[tuple[str, int]]] = {}
        for node in _all_nodes(graph):
            for position, name in enumerate(node.input):
                readers.setdefault(name, set()).add((node.op_type, position))
        paths = _paths(arrays)
        for name, array in arrays.items():
            reads = readers.get(name, set())
            is_dequantized = bool(reads) and all(operator == "DequantizeLinear" for operator, _ in reads)
            if array.dtype.name in _WIDER and is_dequantized:
                array = array.astype(_WIDER[array.dtype.name])
            self.constants[name] = array
            is_float = array.dtype.kind not in "biu"
            is_data = is_float or array.dtype.name in ("int8", "uint8") or is_dequantized
            is_shape = bool(reads) and all(
                operator in OPERATORS and n in OPERATORS[operator].constants for operator, n in reads
            )
            if array.ndim == 0 or array.dtype.name not in _NATIVE or is_shape or not is_data:
                self.values[name] = array
                continue
            tensor = nt.from_numpy(array, copy=False)
            self.weights[paths[name]] = Parameter(tensor, requires_grad=False) if is_float else tensor
            self.values[name] = Weight(paths[name])

    def _array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return the array of a tensor of the file. That of an external file is mapped."""
        from onnx import numpy_helper

        shape, name = tuple(tensor.dims), tensor.name
        if any(size < 0 for size in shape):
            raise ArgumentError(f"tensor {name!r} has the shape {list(shape)}")
        if tensor.data_location != _EXTERNAL:
            try:
                array = np.asarray(numpy_helper.to_array(tensor))
            except Exception as error:
                kind = _dtype_name(tensor.data_type)
                raise ArgumentError(f"tensor {name!r} of {kind}{list(shape)}: {error}") from error
            if array.shape != shape:
                raise ArgumentError(f"tensor {name!r} of the shape {list(shape)} has {array.size} elements")
            return array
        entries = {each.key: each.value for each in tensor.external_data}
        location, dtype = entries.get("location", ""), array_dtype(tensor.data_type)
        folder = self.folder.resolve()
        file = (folder / location).resolve()
        if not location or not file.is_relative_to(folder):
            raise ArgumentError(f"tensor {name!r} lies in {location!r}, outside of the folder of the model")
        if file.is_dir():
            raise ArgumentError(f"tensor {name!r} lies in {location!r}, which is a folder")
        offset, length = int(entries.get("offset") or 0), entries.get("length")
        if dtype.name not in _NATIVE:
            raise ArgumentError(f"tensor {name!r} of {dtype.name} in an external file is not supported")
        count = int(np.prod(shape, dtype=object))
        end, size = offset + count * dtype.itemsize, file.stat().st_size
        if offset < 0 or end > size or (length and int(length) != count * dtype.itemsize):
            raise ArgumentError(f"tensor {name!r} needs bytes {offset} to {end} of {location!r}, which has {size}")
        if not count:
            return np.zeros(shape, dtype)
        array = np.asarray(np.memmap(file, np.uint8, "r", offset, (end - offset,))).view(dtype).reshape(shape)
        return np.require(array, requirements="A")

    # --- nodes

    def _graph(self, graph: Any, outer: Mapping[str, Any], captured: Iterable[str] = ()) -> ImportedGraph:
        """Return a graph. `outer` are the values of the graphs around it; those that it reads are inputs too."""
        values = dict(self.values) if not outer else {**outer, **self.values}
        initial = {each.name for each in graph.initializer}
        inputs: dict[str, Any] = {}
        for each in graph.input:
            if each.name not in initial:
                inputs[each.name] = self._input(each) if not outer else ImportedInput(each.name)
                values[each.name] = Reference(each.name)
        inputs |= {name: ImportedInput(name) for name in captured}
        values |= {name: Reference(name) for name in captured}
        nodes: list[ImportedNode] = []
        products = _Products(graph, self.constants) if not outer else None
        for position, node in enumerate(graph.node):
            place = _place(node, position)
            operands = tuple(self._value(name, values, node, place) for name in node.input)
            if node.op_type == "Constant" and not _DOMAINS.get(node.domain, node.domain):
                values[node.output[0]] = self.constants[node.output[0]] = _constant(node, self._array)
                continue
            added = self._node(node, operands, values, place)
            nodes += (products.product(node, added, values) if products else None) or [added]
            for name in node.output:
                if name in values and name:
                    raise ArgumentError(f"{node.op_type} at {place}: there is another value of the name {name!r}")
                values[name] = Reference(name)
        outputs = []
        for each in graph.output:
            if each.name not in values:
                raise ArgumentError(f"no node computes the output {each.name!r}")
            outputs.append(values[each.name])
        names = tuple(each.name for each in graph.output)
        if not outer:  # Outputs may be shapes or constants.
            nodes.append(ImportedNode("tensors", tuple(outputs), results=names, place="the outputs"))
            outputs = [Reference(name) for name in names]
        is_single = len(outputs) == 1 and not outer
        return ImportedGraph(inputs, tuple(nodes), outputs[0] if is_single else tuple(outputs))

    def _value(self, name: str, values: Mapping[str, Any], node: Any, place: str) -> Any:
        if not name:
            return None
        if name not in values:
            raise ArgumentError(f"{node.op_type} at {place}: no input and no earlier node has the name {name!r}")
        return values[name]

    def _node(self, node: Any, operands: tuple[Any, ...], values: Mapping[str, Any], place: str) -> ImportedNode:
        operator = f"{_DOMAINS.get(node.domain, node.domain + '.')}{node.op_type}"
        known = OPERATORS.get(operator)
        if known is None:
            version = self.opsets.get(node.domain, "unknown")
            domain = node.domain or "ai.onnx"
            raise ArgumentError(f"{node.op_type} at {place} (domain {domain}, opset {version}) is not supported")
        if not all(isinstance(each.name, str) for each in node.attribute):  # protobuf returns other bytes as bytes.
            raise ArgumentError(f"{node.op_type} at {place} has an attribute whose name is not UTF-8")
        keywords = {each.name: self._attribute(each) for each in node.attribute if each.type not in _GRAPH}
        if operator in _SUBGRAPHS:
            bodies = {each.name: each.g for each in node.attribute if each.name in _SUBGRAPHS[operator]}
            if sorted(bodies) != sorted(_SUBGRAPHS[operator]):
                raise ArgumentError(f"{node.op_type} at {place} lacks a graph")
            names = dict.fromkeys(name for body in bodies.values() for name in _free_names(body) if name in values)
            keywords |= {key: self._body(body, values, list(names)) for key, body in bodies.items()}
            keywords["captured"] = tuple(values[name] for name in names)
        if operator == "RoiAlign" and self.context.opset_imports[""] < 16:  # It had no attribute for this mode.
            keywords["coordinate_transformation_mode"] = "output_half_pixel"
        results: Any = tuple(node.output)
        if known.counts:
            keywords["count"] = max(position + 1 for position, name in enumerate(results) if name)
        elif len(results) == 1:
            results = results[0]
        self._check(node, operands, keywords, place)
        return ImportedNode(operator, operands, keywords, results, place)

    def _check(self, node: Any, operands: tuple[Any, ...], keywords: Mapping[str, Any], place: str) -> None:
        """Raise ArgumentError unless operands and attributes are those of the operator."""
        from onnx import checker, defs

        operator, version = f"{_DOMAINS[node.domain]}{node.op_type}", self.context.opset_imports[""]
        try:
            # The checker knows no values from outside of a subgraph, and refuses GroupNormalization before opset 21.
            is_known = operator not in _SUBGRAPHS and defs.has(operator, version)
            if is_known and not defs.get_schema(operator, version).deprecated:
                checker.check_node(node, self.context)
            inspect.signature(OPERATORS[operator].function).bind(*operands, **keywords)
        except (checker.ValidationError, TypeError) as error:
            raise ArgumentError(f"{node.op_type} at {place}: {str(error).strip().splitlines()[0]}") from error

    def _body(self, graph: Any, values: Mapping[str, Any], names: list[str]) -> ImportedModule:
        """Return the module of a branch or of a loop, whose last inputs are values of the graphs around it."""
        for each in graph.initializer:
            self.values[each.name] = self.constants[each.name] = self._array(each)
        return ImportedModule(self._graph(graph, {"": None}, names), OPERATORS, {})

    def _attribute(self, attribute: Any) -> Any:
        from onnx import helper

        value = helper.get_attribute_value(attribute)
        if attribute.type == 4:  # AttributeProto.TENSOR
            return self._array(value)
        if attribute.type in (6, 7, 8):  # FLOATS, INTS, STRINGS
            return list(value)
        if attribute.type not in (1, 2, 3):  # FLOAT, INT, STRING
            raise ArgumentError(f"attribute {attribute.name!r} has a type that is not supported")
        return value

    def _input(self, value: Any) -> ImportedInput:
        kind = value.type.tensor_type
        name = _dtype_name(kind.elem_type)
        if not value.type.HasField("tensor_type") or name not in _NATIVE:
            raise DTypeError(f"input {value.name!r} is {name}; tensors cannot be that")
        shape = None
        if kind.HasField("shape"):
            # Some exporters write -1 for any extent.
            extents = [each.dim_value if each.HasField("dim_value") else -1 for each in kind.shape.dim]
            shape = tuple(None if extent < 0 else extent for extent in extents)
        return ImportedInput(value.name, _NATIVE[name], shape)


class _Products:
    """Products and convolutions of dequantized tensors, which are computed as integers."""

    def __init__(self, graph: Any, constants: dict[str, np.ndarray[Any, Any]]) -> None:
        self.constants = constants
        self.nodes = {name: node for node in graph.node for name in node.output if name}

    def product(self, node: Any, plain: ImportedNode, values: Mapping[str, Any]) -> list[ImportedNode] | None:
        """Return the nodes of a product or convolution of 8-bit tensors, or None if the node is another one."""
        if plain.operator not in _PRODUCTS:
            return None
        a, b = (self._find_dequantization(name) for name in node.input[:2])
        if a is None or b is None or self._size(a) != 1:
            return None
        keywords = plain.keywords
        dimensions = self.constants[b.input[0]].ndim if b.input[0] in self.constants else 0
        axis = next((each.i for each in b.attribute if each.name == "axis"), 1)
        axis += dimensions * (axis < 0)
        operands = [*self._operands(a, values), *self._operands(b, values)]
        bias = plain.operands[2] if len(plain.operands) > 2 else None
        if plain.operator == "Conv":
            if keywords.get("group", 1) != 1 or dimensions < 3 or (self._size(b) != 1 and axis):
                return None
            return [replace(plain, operator="QuantizedConv", operands=(*operands, bias))]
        transposed = keywords.get("transB", 0)
        if keywords.get("alpha", 1) != 1 or keywords.get("beta", 1) != 1 or keywords.get("transA", 0):
            return None
        if dimensions != 2 or (self._size(b) != 1 and axis != (0 if transposed else 1)):
            return None
        nodes, name, place = [], node.output[0], plain.place
        if transposed:
            nodes.append(ImportedNode("Transpose", (operands[3],), {}, f"{name} transposed", place))
            operands[3] = Reference(f"{name} transposed")
        product = name if bias is None else f"{name} product"
        nodes.append(ImportedNode("QuantizedMatMul", tuple(operands), {}, product, place))
        if bias is not None:
            nodes.append(ImportedNode("Add", (Reference(product), bias), {}, name, place))
        return nodes

    def _find_dequantization(self, name: str) -> Any:
        """Return the node that dequantizes a value of 8 bits with constant parameters, or None."""
        node = self.nodes.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        if any(each.name in ("block_size", "output_dtype") and each.i for each in node.attribute):
            return None
        if any(each not in self.constants for each in node.input[1:] if each):
            return None
        return node if self._quantized_dtype(node) in ("int8", "uint8") else None

    def _quantized_dtype(self, node: Any) -> str:
        """Return the dtype of the integers that a node makes or takes; "" if it is not known."""
        if len(node.input) > 2 and node.input[2]:
            return self.constants[node.input[2]].dtype.name if node.input[2] in self.constants else ""
        if node.op_type == "QuantizeLinear":
            return _dtype_name(next((each.i for each in node.attribute if each.name == "output_dtype"), 0) or 2)
        source = self.nodes.get(node.input[0])
        if source is not None and source.op_type == "QuantizeLinear":
            return self._quantized_dtype(source)
        return self.constants[node.input[0]].dtype.name if node.input[0] in self.constants else ""

    def _size(self, node: Any) -> int:
        return int(self.constants[node.input[1]].size)

    def _operands(self, node: Any, values: Mapping[str, Any]) -> list[Any]:
        zero = node.input[2] if len(node.input) > 2 else ""
        stored = self.constants.get(zero, np.ones(1))
        is_zero = not zero or (stored.dtype == np.int8 and not stored.any())
        return [values[node.input[0]], values[node.input[1]], None if is_zero else values[zero]]


def _dtype_name(number: int) -> str:
    return DTYPE_NAMES[number] if 0 <= number < len(DTYPE_NAMES) else f"dtype number {number}"


def _constant(node: Any, array: Any) -> Any:
    from onnx import helper

    for each in node.attribute:
        if each.name == "value":
            return array(each.t)
        if each.name in ("value_int", "value_ints"):
            return np.array(helper.get_attribute_value(each), np.int64)
        if each.name in ("value_float", "value_floats"):
            return np.array(helper.get_attribute_value(each), np.float32)
    raise ArgumentError(f"the constant {node.output[0]!r} has a kind of value that is not supported")


def _place(node: Any, position: int) -> str:
    """Return the line that PyTorch's exporter notes for a node, or its name."""
    for entry in node.metadata_props:
        if entry.key.endswith("stack_trace") and (line := model_line(entry.value)):
            return line
    return node.name or next((name for name in node.output if name), "") or f"node {position}"


def _all_nodes(graph: Any) -> Iterable[Any]:
    for node in graph.node:
        yield node
        for each in node.attribute:
            if each.HasField("g"):
                yield from _all_nodes(each.g)


def _free_names(graph: Any) -> Iterable[str]:
    """Yield the names that a graph reads and does not define."""
    own = {each.name for each in (*graph.input, *graph.initializer)} | {n for node in graph.node for n in node.output}
    inner = (
        name for node in graph.node for each in node.attribute if each.HasField("g") for name in _free_names(each.g)
    )
    reads = (name for node in graph.node for name in node.input)
    return dict.fromkeys(name for name in (*reads, *inner, *(o.name for o in graph.output)) if name and name not in own)


def _paths(names: Iterable[str]) -> dict[str, str]:
    """Return a path in the module for each initializer: its name, unless a module cannot have that."""
    taken, paths = set(names), dict[str, str]()
    used = set[str]()
    for name in taken:
        parts = name.split(".")
        inside = any(".".join(parts[:count]) in taken for count in range(1, len(parts)))
        parts = [name.replace(".", "_")] if inside or not all(parts) else parts
        path = ".".join(f"{part}_" if hasattr(ImportedModule, part) or part == "graph" else part for part in parts)
        while path in used or (path != name and path in taken):
            path += "_"
        used.add(path)
        paths[name] = path
    return paths
