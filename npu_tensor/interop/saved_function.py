"""`nt.save` and `nt.load`: tensors, checkpoints, and functions that `jit` has captured, in files without code.

    compiled = nt.jit(model)
    compiled(x)                                  # captures
    nt.save(compiled, "model.npt")
    nt.load("model.npt")(x)                      # on a machine without the source of the model

The file of a function is a zip archive. Its members are stored without compression, so that weights are mapped:

    weights.safetensors     weights by their paths in the state dict, and constants
    program.json            recorded ops
    kernels.ntpack          NPU kernels, if a kernel directory was passed; see `runtime/store/packs.py`

Kernels for the CPU are compiled when the function is called, or found in the machine's own cache. A program has the
format number, and for each capture its arguments, ops and result. Values are numbered: tensors among the arguments,
weights, seeds of random numbers, then results of the ops in order. For `lambda x: (x @ w).relu()`:

    {
      "format": 1,
      "version": "0.1.0",
      "weights": [{"name": "#0"}],
      "captures": [{
        "arguments": [[{"tensor": ["float32", [2, 3]]}], {"dict": []}],
        "seeds": 0,
        "ops": [
          ["contract", [0, 1], {"out_dtype": {"dtype": "float32"}}, "model.py:12"],
          ["relu", [2], {}, "model.py:12"]
        ],
        "result": {"value": 3},
        "updates": []
      }]
    }

An operand is the number of a value, or a list that contains a Python number. JSON lists stand for tuples. Objects with
one member stand for other Python values; see `encoded_values`. Ops are found by name, and their rules check each one
when the file is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn
from zipfile import ZipFile

import numpy as np

from npu_tensor._util.version import VERSION
from npu_tensor.errors import ArgumentError, message_of
from npu_tensor.functions.creation import draw
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.functions.serialization import (
    Array,
    File,
    array_of,
    is_safetensors,
    load_tensors,
    name_of,
    opened_to_read,
    opened_to_write,
    save_tensors,
)
from npu_tensor.graph.nodes import PLACEHOLDER, Data, Node
from npu_tensor.interop.archives import MappedArchive, read_weights, write_weights
from npu_tensor.interop.checkpoints import (
    CHECKPOINT,
    TORCH_PICKLE,
    read_checkpoint,
    read_torch_checkpoint,
    write_checkpoint,
)
from npu_tensor.interop.encoded_values import (
    attributes_of,
    checked_call,
    decoded_value,
    encoded_attributes,
    encoded_value,
    refuse_tensors,
    require_op,
    spec_named,
)
from npu_tensor.interop.imported_graph import caller_at, place_weight
from npu_tensor.jit import Jitted
from npu_tensor.jit.trace import BLANK, Derived, PlannedResult, Result, Trace, TracedPart
from npu_tensor.jit.trees import call_text, flatten, rebuild, unflatten
from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.store.directories import process_directory
from npu_tensor.runtime.store.kernel_directory import KernelDirectory, unpacked_directories
from npu_tensor.runtime.store.packs import pack, unpack
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, named, record, views_of, wrap

FORMAT: Final = 1
"""Number of the format, which grows with incompatible changes."""

_PROGRAM, _KERNELS = "program.json", "kernels.ntpack"

_LINE: Final = re.compile(r"[^/\\\0]{1,200}:[0-9]{1,9}|", re.ASCII)
"""Line that recorded an op, as "file.py:12", or nothing."""


def save(obj: Any, f: File, kernels: Any = None) -> None:
    """Write a tensor, tensors by name, a nested value such as a checkpoint, or a captured function to a file.

    An existing file at a path is replaced once the new one is complete, so tensors that were loaded from it can be
    saved to it.

    A function of `nt.jit` is saved with all signatures that it has captured, as it records them now, and with the
    tensors that it uses. The weights of a module keep their names. The file has no code for the CPU.

    Args:
        obj: Tensor; tensors by name such as the weights of a model; nested dicts, lists and tuples of tensors, numbers,
            strings and dtypes; function of `nt.jit` that has been called; or a function that `load` has read, with its
            present weights.
        f: Path, or object with `write` for bytes, which is written from its current position. A name that ends in
            .safetensors selects that format for tensors by name. Other tensors are written in NumPy's formats.
        kernels: Kernel directory, as `nt.compile` writes it, with NPU kernels for the file of a function.

    Raises:
        ArgumentError: The format cannot hold a name, a part of a nested value or an argument of the function, the
            function has no capture, or it computes gradients.
        DTypeError: A tensor is quantized; `save_gguf` stores it.
    """
    if not isinstance(obj, (Jitted, SavedFunction)):
        if callable(obj) and not isinstance(obj, Tensor):
            hint = "save(nt.jit(function)) after a call saves the function; save(model.state_dict()) saves weights"
            raise ArgumentError(f"save takes tensors and functions of nt.jit, not {type(obj).__name__}; {hint}")
        if isinstance(obj, Tensor) or is_safetensors(f) or _are_tensors_by_name(obj):
            save_tensors(obj, f)
        else:
            write_checkpoint(obj, f)
        return
    text, arrays = _contents(obj) if isinstance(obj, SavedFunction) else _Writer(obj).contents()
    packed = None if kernels is None else _pack_kernels(Path(kernels))
    with opened_to_write(f) as file, ZipFile(file, "w") as archive:
        write_weights(archive, arrays)
        archive.writestr(_PROGRAM, text)
        if packed is not None:
            archive.writestr(_KERNELS, packed)


def _are_tensors_by_name(obj: Any) -> bool:
    return isinstance(obj, Mapping) and all(
        isinstance(name, str) and isinstance(part, (Tensor, np.ndarray)) for name, part in obj.items()
    )


def load(f: File, map_location: object = None, *, weights_only: bool = True) -> Any:
    """Read the tensor, the tensors by name, the nested value, or the function in a file.

    Reads files of `save`, of NumPy, of safetensors and of `torch.save`. The content determines the format, whatever the
    suffix of the name. No code in a file runs. The values in .safetensors files and in archives without compression are
    read when they are used: the file must not be changed in place meanwhile; `save` to its path replaces it.

    Args:
        f: Path, or object with `read` and `seek` for bytes, which is read from its current position.
        map_location: Accepted for compatibility, without effect: values go where they are needed.
        weights_only: Accepted for compatibility, without effect: no file runs code.

    Returns:
        The tensor, the dict, or the nested value; for a function, a `SavedFunction`.

    Raises:
        ArgumentError: The file has another format, is damaged, has ops that this version does not have, or comes from
            PyTorch and has other objects than tensors, plain containers, numbers and strings.
    """
    with opened_to_read(f) as file:
        start = file.tell()
        archive = None
        if file.read(2) == b"PK":
            with suppress(Exception):  # A damaged archive raises errors of many types, as it does in `load_tensors`.
                archive = MappedArchive(file)
        for name, read in _READERS.items():
            if archive is not None and any(member.endswith(name) for member in archive.names):
                try:
                    return read(archive)
                except Exception as error:  # errors of parsers and of rules with invalid attributes have no common type
                    notes = "; ".join(("", *getattr(error, "__notes__", ())))
                    message = f"{name_of(f) or f!r} cannot be loaded: {message_of(error)}{notes}"
                    raise ArgumentError(message) from error
        file.seek(start)
        return load_tensors(f, file)


# --- writing


class _Writer:
    """Converter of a captured function.

    Attributes:
        weights: Entries of the weights.
        arrays: Values of the weights by name.
        captures: Entries of the captures.
    """

    def __init__(self, jitted: Jitted[..., Any]) -> None:
        traces = jitted.traces()
        if not traces:
            raise ArgumentError(f"save: {jitted!r} has no capture; call it with inputs of each shape first")
        self.weights: list[dict[str, Any]] = []
        self.arrays: dict[str, Array] = {}
        self._numbers: dict[int, int] = {}
        self._living: list[Tensor | Node] = []  # so that identities are not reused
        function = jitted.function
        module = function if isinstance(function, Module) else getattr(function, "__self__", None)
        if isinstance(module, Module):
            for path, (tensor, kind) in _named_weights(module).items():
                if id(tensor) in self._numbers:
                    self.weights[self._numbers[id(tensor)]]["paths"].append(path)
                else:
                    self._add(path, tensor, paths=[path], kind=kind)
        for _, trace in traces:  # All weights have numbers before the first op.
            for each in _outside(trace):
                if id(each) not in self._numbers:
                    self._add(f"#{len(self.weights)}", each)
        self.captures = [self._capture(call, trace) for call, trace in traces]

    def contents(self) -> tuple[str, dict[str, Array]]:
        """Return the program, and the weights by name."""
        entries = {"format": FORMAT, "version": VERSION, "weights": self.weights, "captures": self.captures}
        return json.dumps(entries, separators=(",", ":")), self.arrays

    def _add(self, name: str, weight: Tensor | Node, **entry: Any) -> None:
        self._numbers[id(weight)] = len(self.weights)
        self._living.append(weight)
        self.weights.append({"name": name, **entry})
        tensor = named(weight.spec, weight.value) if isinstance(weight, Node) else weight
        self.arrays[name] = array_of(tensor, repr(name))

    def _capture(self, arguments: Any, trace: Trace) -> dict[str, Any]:
        count = len(trace.specs)
        first = count + len(self.weights)
        seeds = {item: first + number for number, (_, items) in enumerate(trace.draws) for item in items}
        first += len(trace.draws)
        ops: list[Any] = []

        def number(source: Any) -> int:
            return source if isinstance(source, int) else count + self._numbers[id(source)]

        def values_of(part: TracedPart, values: dict[int, Any], earlier: Mapping[int, Any]) -> dict[int, Any]:
            values |= dict(part.arguments)
            values |= {item: number(tensor) for item, tensor in part.outside}
            values |= {item: earlier[there] for item, there in part.prepared}
            for item, leaf in enumerate(part.structure.leaves):
                if item not in values:
                    values[item] = number(leaf) if isinstance(leaf, Node) else [leaf]
            recorded_ops = zip(part.recorded, part.structure.operands, strict=True)
            for item, (recorded, operands) in enumerate(recorded_ops, len(part.structure.leaves)):
                call = recorded.call
                assert call is not None
                require_op(call.op.name)
                attributes = encoded_attributes(call, _no_tensor)
                line = recorded.line if _LINE.fullmatch(recorded.line) else ""  # Not a name of an ONNX node.
                ops.append([call.op.name, [values[each] for each in operands], attributes, line])
                values[item] = first + len(ops) - 1
            return values

        values = values_of(trace.main, seeds, values_of(trace.preparation, {}, {}))
        entries: dict[int, list[Any]] = {}
        ranks = {Derived: 1, Result: 2}  # Views follow their sources, and results that are returned again follow both.
        for position, result in sorted(enumerate(trace.results), key=lambda each: ranks.get(type(each[1]), 0)):
            if isinstance(result, PlannedResult):
                entries[position] = [values[result.item]]
            elif isinstance(result, Result):
                entries[position] = entries[result.position]
            elif isinstance(result, Derived):
                source = result.source
                start = entries[source.position] if isinstance(source, Result) else [number(source)]
                entries[position] = [*start, *(encoded_value(view, _no_tensor) for view in result.views)]
            else:
                entries[position] = [number(result)]
        in_order = iter(sorted(entries.items()))
        return {
            "arguments": encoded_value(arguments, lambda tensor: encoded_value(tensor._node.spec, _no_tensor)),
            "seeds": len(trace.draws),
            "ops": ops,
            "result": encoded_value(trace.result, lambda _: {"value": next(in_order)[1]}),
            "updates": [
                [self._numbers[id(each.target)], values[each.item]] for each in trace.updates if each.item is not None
            ],
        }


def _named_weights(module: Module) -> dict[str, tuple[Tensor, str]]:
    """Return the parameters and buffers by path, each with the kind of its entry."""
    weights: dict[str, tuple[Tensor, str]] = {
        path: (parameter, "parameter" if parameter.requires_grad else "frozen")
        for path, parameter in module.named_parameters(remove_duplicate=False)
    }
    state = module.state_dict(keep_vars=True)
    for path, buffer in module.named_buffers(remove_duplicate=False):
        weights[path] = buffer, "buffer" if path in state else "transient"
    return weights


def _outside(trace: Trace) -> Iterator[Tensor | Node]:
    """Yield the tensors from outside that a trace reads, changes or returns, and its constants."""
    for part in (trace.preparation, trace.main):
        yield from (tensor for _, tensor in part.outside)
        for item, leaf in enumerate(part.structure.leaves):
            if isinstance(leaf, Node) and part.template[item] is not None:
                yield leaf
    for result in trace.results:
        source = result.source if isinstance(result, Derived) else result
        if isinstance(source, (Tensor, Node)):
            yield source
    for update in trace.updates:
        target = update.target
        if not isinstance(target, Tensor):
            raise ArgumentError("save: the function sets gradients; a saved function only computes results")
        if update.spec is not target._node.spec:
            raise ArgumentError(f"save: the function changes {target._node.spec} to {update.spec}")
        yield target


def _no_tensor(tensor: Tensor) -> Any:
    raise ArgumentError(f"save: the attribute of an op is a tensor, {tensor._node.spec}")


def _pack_kernels(directory: Path) -> bytes:
    """Return the kernel pack of a directory. Raises ArgumentError."""
    _require_npu(directory)
    with TemporaryDirectory() as temporary:
        archive = Path(temporary, _KERNELS)
        pack(directory, archive)
        return archive.read_bytes()


def _require_npu(directory: Path) -> None:
    """Raise ArgumentError if a kernel directory has code for the CPU, as simulated NPUs run it."""
    kernels = KernelDirectory(directory)
    for folder in directory.iterdir():
        for name, described in kernels.kernels(folder).items() if folder.is_dir() else ():
            if not isinstance(described, str) and described["made_from"]["backend"] == "host":
                raise ArgumentError(f"the kernel {name} of a simulated NPU is code for the CPU; files have none")


# --- reading


@dataclass(frozen=True, slots=True)
class _Step:
    """An op of a program.

    Attributes:
        call: The op with its attributes.
        operands: Numbers of values, and Python numbers in tuples.
        caller: Function that calls another one on the line that recorded the op.
        dropped: Values that no later step reads.
    """

    call: Call
    operands: tuple[Any, ...]
    caller: Callable[..., Any]
    dropped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Signature:
    """The program of one combination of arguments.

    Attributes:
        key: Structure of the arguments, and specs of their tensors.
        seeds: Number of random seeds that each call draws.
        steps: The ops.
        result: Result of a call, without its tensors.
        results: For each tensor of the result, the number of a value and views of it.
        updates: Weights that each call overwrites, with their new values, by number.
    """

    key: tuple[Any, tuple[Spec, ...]]
    seeds: int
    steps: tuple[_Step, ...]
    result: Any
    results: tuple[tuple[int, tuple[Call, ...]], ...]
    updates: tuple[tuple[int, int], ...]


class SavedFunction(Module):
    """A function that `nt.load` has read. It is planned at the first call of a signature and replayed afterwards.

    The weights of a saved module are parameters and buffers under the same paths, so that `state_dict`,
    `load_state_dict` and training work. Modes such as `train()` have no effect: the recorded ops are those of the mode
    in which the function was saved.
    """

    def __init__(
        self,
        weights: Sequence[tuple[Tensor, Sequence[str], str]],
        signatures: Sequence[_Signature],
        program: str,
    ) -> None:
        self._program = program
        self._specs = [tensor._node.spec for tensor, _, _ in weights]
        self._places: list[Tensor | tuple[Module, str]] = []
        for tensor, paths, kind in weights:
            weight = Parameter(tensor, kind == "parameter") if kind in ("parameter", "frozen") else tensor
            places = [place_weight(self, path, weight, kind != "transient") for path in paths]
            self._places.append(places[0] if places else tensor)
        self._signatures = {signature.key: signature for signature in signatures}
        self._replay = Jitted(self._record)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """Return the result for arguments of a saved signature.

        Raises:
            ArgumentError: The arguments have another structure, shape or dtype.
        """
        return self._replay(*inputs, **keywords)

    def extra_repr(self) -> str:
        """Return the signatures."""
        return "; ".join(f"({call_text(*key)})" for key in self._signatures)

    def _weights(self) -> list[Tensor]:
        places = self._places
        return [vars(place[0])[place[1]] if isinstance(place, tuple) else place for place in places]

    def _record(self, *inputs: Any, **keywords: Any) -> Any:
        tensors: list[Tensor] = []
        structure = flatten((inputs, keywords), tensors)
        key = structure, tuple(tensor._node.spec for tensor in tensors)
        signature = self._signatures.get(key)
        if signature is None:
            raise ArgumentError(
                f"the loaded function was not saved for ({call_text(*key)}), but for {self.extra_repr()}; call the "
                "original function with such arguments before nt.save"
            )
        weights = self._weights()
        values: list[Any] = [*tensors, *weights, *(draw(None) for _ in range(signature.seeds))]
        for step in signature.steps:
            call = step.call
            operands = [values[each] if type(each) is int else each[0] for each in step.operands]
            values.append(step.caller(record, (call.op, operands, attributes_of(call)), {}))
            del operands
            for number in step.dropped:
                values[number] = None
        with no_grad():
            for target, new in signature.updates:
                weights[target].copy_(values[new])
        return rebuild(signature.result, [views_of(values[number], views) for number, views in signature.results])


def saved_calls(function: SavedFunction) -> list[Any]:
    """Return the arguments (args, keywords) of each signature, with a spec in place of each tensor."""
    return [unflatten(*key) for key in function._signatures]


def _contents(function: SavedFunction) -> tuple[str, dict[str, Array]]:
    """Return the program, and the present weights by name."""
    arrays = {}
    entries = json.loads(function._program)["weights"]
    for entry, tensor, spec in zip(entries, function._weights(), function._specs, strict=True):
        name, present = entry["name"], tensor._node.spec
        if present is not spec:
            raise ArgumentError(f"save: the weight {name!r} of the loaded function is {spec}, not {present}")
        arrays[name] = array_of(tensor, repr(name))
    return function._program, arrays


def _read(archive: MappedArchive) -> SavedFunction:
    text = archive.verified(_PROGRAM).decode()
    program = json.loads(text)
    if program["format"] != FORMAT:
        raise ArgumentError(
            f"npu-tensor {program['version']} wrote it in format {program['format']}; npu-tensor {VERSION} reads "
            f"format {FORMAT}"
        )
    tensors = read_weights(archive)
    weights = [(tensors[each["name"]], each.get("paths", ()), each.get("kind", "")) for each in program["weights"]]
    signatures = [_signature(each, [tensor._node.spec for tensor, _, _ in weights]) for each in program["captures"]]
    function = SavedFunction(weights, signatures, text)
    if _KERNELS in archive.names:
        _unpack_kernels(archive.verified(_KERNELS))
    return function


def _signature(capture: Mapping[str, Any], weights: Sequence[Spec]) -> _Signature:
    """Return a capture, whose ops are checked by their rules."""
    arguments: list[Tensor] = []

    def argument(kind: str, content: Any) -> Tensor:
        return wrap(Data(spec_named(*content), PLACEHOLDER))

    args, keywords = decoded_value(capture["arguments"], argument)
    structure = flatten((tuple(args), dict(keywords)), arguments)
    specs: list[Any] = [tensor._node.spec for tensor in arguments]
    key = structure, tuple(specs)
    seeds = len(range(capture["seeds"]))
    if seeds > len(capture["ops"]) + 1:
        raise ValueError(f"{seeds} seeds for {len(capture['ops'])} ops")
    specs += [*weights, *[int] * seeds]
    first = len(specs)

    def number(value: Any) -> int:
        if type(value) is not int or not 0 <= value < len(specs):
            raise ValueError(f"the number {value!r} of a value, before {len(specs)}")
        return value

    parsed: list[tuple[Call, tuple[Any, ...], str]] = []
    for position, (name, operands, attributes, line) in enumerate(capture["ops"]):
        try:
            kinds = [each if isinstance(each, list) else specs[number(each)] for each in operands]
            call = checked_call(name, kinds, attributes)
        except Exception as error:
            error.add_note(f"in op {position}, {name!r:.80}")
            raise
        if not _LINE.fullmatch(line):
            raise ValueError(f"the line {line!r:.80}")
        parsed.append((call, tuple(each if isinstance(each, int) else tuple(each) for each in operands), line))
        specs.append(call.spec)
    results: list[tuple[int, tuple[Call, ...]]] = []

    def result_of(kind: str, content: Any) -> Tensor:
        start, *encoded = content
        spec, views = specs[number(start)], tuple(decoded_value(each, refuse_tensors) for each in encoded)
        for view in views:
            if not isinstance(view, Call) or view.op.kind != "view" or view.operands != (spec,):
                raise ValueError(f"the view {view} of {spec}")
            spec = view.spec
        if not isinstance(spec, Spec):
            raise ValueError("a seed as a result")
        results.append((start, views))
        return BLANK

    result = decoded_value(capture["result"], result_of)
    updates = tuple((target, number(new)) for target, new in capture["updates"])
    for target, new in updates:
        if not 0 <= target < len(weights) or weights[target] is not specs[new]:
            raise ValueError(f"the weight {target!r} with the new value {specs[new]}")
    kept = {*range(first), *(start for start, _ in results), *(new for _, new in updates)}
    steps: list[_Step] = []
    for position, (call, operands, line) in reversed([*enumerate(parsed, first)]):
        used = {each for each in (*operands, position) if type(each) is int} - kept
        steps.append(_Step(call, operands, caller_at(line), tuple(used)))
        kept |= used
    return _Signature(key, seeds, tuple(reversed(steps)), result, tuple(results), updates)


def _refuse_exported(archive: MappedArchive) -> NoReturn:
    raise ArgumentError("it is a program of torch.export, which nt.load_pt2 reads")


_READERS: Final[Mapping[str, Callable[[MappedArchive], Any]]] = {
    _PROGRAM: _read,
    CHECKPOINT: read_checkpoint,
    TORCH_PICKLE: read_torch_checkpoint,
    "/archive_format": _refuse_exported,
}
"""Readers of archives by the end of the name of a member."""


def _unpack_kernels(content: bytes) -> None:
    """Unpack kernels for this process, which then finds them as in a kernel directory."""
    directory = process_directory() / f"kernels-{sha256(content).hexdigest()[:16]}"
    if directory not in unpacked_directories:
        with TemporaryDirectory() as temporary:
            archive = Path(temporary, _KERNELS)
            archive.write_bytes(content)
            unpack(archive, directory)
        _require_npu(directory)
        unpacked_directories.append(directory)
