"""Configurations: JSON that lists kernels, in the format of ggml-hsa's pregeneration tool.

    {"kernels": [{"kernel_name": "ggml_op_add", "kernel_source": "binary_ops.py", "arch": "aie2",
                  "input_tensors": ["(1024,1,1,1)/f32", "(1024,1,1,1)/f32"], "output_tensor": "(1024,1,1,1)/f32",
                  "exported_name": "add_f32_1024"}]}

Besides its six fields an entry may have `op_params`, keywords of the function; `cols`, the number of columns of the
array; `float32`, `bfloat16` and `functions`, their precision on the array; and `ops`, see `ops_json`. Everything is
checked before the first kernel is built. Errors name the place in the file by a JSON pointer (RFC 6901).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from npu_tensor._util.forks import cached_property
from npu_tensor._util.user_warnings import warn
from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa import function_files as kernel_source
from npu_tensor.ggml_hsa.ops_json import DEFAULT_FLOAT32, replay
from npu_tensor.ggml_hsa.single_task import capture_task, request_for
from npu_tensor.kernels.offer import Bfloat16, Float32, Functions, Offer, Target
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.runtime.store.kernel_directory import EXPORTED_NAME
from npu_tensor.runtime.store.requests import Request
from npu_tensor.task import Refusal, Task

logger = logging.getLogger("npu_tensor.ggml_hsa")

EXAMPLES: Final = ("minimal", "example")
"""Names of the installed configurations."""

REQUIRED: Final = ("kernel_name", "kernel_source", "arch", "input_tensors", "output_tensor", "exported_name")
OPTIONAL: Final = ("op_params", "cols", "float32", "bfloat16", "functions", "ops")
LONGEST_NAME: Final = 230
"""Length limit of an exported name, in characters; a file name may have 255 bytes, and the longest suffix has 16."""


class Planned(NamedTuple):
    """Task of an entry, and the offer of a kernel family for it."""

    task: Task
    offer: Offer


@dataclass(frozen=True)
class Entry:
    """A kernel to be made.

    Attributes:
        kernel_name: Function in `source`; only a label if there are `ops`.
        source: Python file.
        arch: Generation of the array.
        input_tensors: Descriptors of the operands.
        output_tensor: Descriptor of the result.
        exported_name: Name of the files.
        op_params: Keywords of the function.
        cols: Number of columns of the array; 0 for all.
        float32: Precision of float32 on the array.
        bfloat16: Precision of bfloat16 on the array.
        functions: Precision of exp, tanh and sigmoids on the array.
        ops: Recorded ops in place of a function; see `ops_json`.
    """

    kernel_name: str
    source: Path | None
    arch: Arch
    input_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    exported_name: str
    op_params: Mapping[str, Any] = field(default_factory=dict)
    cols: int = 0
    float32: Float32 = DEFAULT_FLOAT32
    bfloat16: Bfloat16 = "exact"
    functions: Functions = "exact"
    ops: tuple[Mapping[str, Any], ...] = ()

    @property
    def target(self) -> Target:
        """The array that the kernel is for."""
        array = ARRAYS[self.arch]
        return Target(array, self.cols or array.columns, self.float32, self.bfloat16, self.functions)

    @cached_property
    def planned(self) -> Planned:
        """The task and the offer of a kernel family, without the design. Raises ArgumentError if there is no kernel."""
        try:
            task, answer = self._task()
        except NpuTensorError:
            raise
        except Exception as error:  # attributes come from a file, and only the bodies of ops check them
            raise ArgumentError(f"{type(error).__name__}: {error}") from error
        if isinstance(answer, Refusal):
            raise ArgumentError(f"no NPU kernel for {self.kernel_name} on {self.arch}: {answer.reason}")
        return Planned(task, answer)

    def _task(self) -> tuple[Task, Offer | Refusal]:
        if self.ops:
            return replay(self.ops, self.input_tensors, self.output_tensor, self.target)
        assert self.source is not None
        function = kernel_source.function(self.source, self.kernel_name)
        return capture_task(function, self.input_tensors, self.target, self.output_tensor, self.op_params)

    def request(self) -> Request:
        """Return the request for the kernel library. Raises ArgumentError."""
        return request_for(*self.planned)


class Problem(ArgumentError):
    """An error in a kernel of a configuration. `pointer` is its place in the file."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}" if pointer else message)
        self.pointer = pointer
        self.message = message


def examples() -> Path:
    """Return the directory of the examples: in an installed package, or share/npu_tensor/examples in a source tree."""
    try:
        return Path(str(resources.files("npu_tensor.ggml_hsa.examples")))
    except ModuleNotFoundError:
        return Path(__file__).resolve().parents[2] / "share" / "npu_tensor" / "examples"


def find(name: str) -> Path:
    """Return the file of an installed example, or the text as a path."""
    return examples() / f"{name}-kernel-config.json" if name in EXAMPLES else Path(name)


def load(path: Path, kernels_dir: Path | None = None) -> list[Entry | Problem]:
    """Load the kernels of a configuration file, with the problem in place of each kernel that cannot be made.

    Kernel sources are searched in `kernels_dir`, beside the file and in the package. Warns of unknown fields. Raises
    ArgumentError if the file is not a configuration.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ArgumentError(f"Failed to load configuration: {path} does not exist") from None
    except OSError as error:
        raise ArgumentError(f"Failed to load configuration: {path}: {error.strerror}") from None
    return parse(content, [path.parent] if kernels_dir is None else [kernels_dir, path.parent], str(path))


def load_for(name: str, kernels_dir: Path | None, arches: Sequence[str]) -> tuple[list[Entry], list[Problem]]:
    """Load the kernels for these arrays, or for all, and the problems in the file, which are logged.

    `name` is a file or an installed example. Raises ArgumentError if the file is not a configuration.
    """
    kernels = load(find(name), kernels_dir)
    problems = [value for value in kernels if isinstance(value, Problem)]
    for problem in problems:
        logger.error("%s", problem)
    entries = [value for value in kernels if isinstance(value, Entry)]
    return [entry for entry in entries if not arches or entry.arch in arches], problems


def require_valid(kernels: Sequence[Entry | Problem], file: str) -> list[Entry]:
    """Return the kernels of a file. Raises ArgumentError with all problems if there are some."""
    problems = [str(value) for value in kernels if isinstance(value, Problem)]
    if problems:
        raise ArgumentError(f"{file}: {'; '.join(problems)}")
    return [value for value in kernels if isinstance(value, Entry)]


def parse(content: bytes, directories: Sequence[Path] = (), file: str = "-") -> list[Entry | Problem]:
    """Load the kernels of a file's content, as `load` does. `directories` are searched before the package."""
    try:
        document = json.loads(content, object_pairs_hook=_without_twins)
    except json.JSONDecodeError as error:
        place, said = f"{file}:{error.lineno}:{error.colno}", f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ArgumentError(f"Failed to load configuration: {place}: not JSON: {said}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"Failed to load configuration: {file}: {error}") from None
    return read(document, directories)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of the file. Without this hook, json keeps the last of several fields of one name."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twin = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the field {twin!r} is there twice")
    return fields


def read(document: Any, directories: Sequence[Path] = ()) -> list[Entry | Problem]:
    """Load the kernels of parsed JSON, as `load` does."""
    if not isinstance(document, dict) or "kernels" not in document:
        raise ArgumentError("Configuration must contain 'kernels' key")
    kernels = document["kernels"]
    if not isinstance(kernels, list):
        raise ArgumentError("/kernels: 'kernels' must be a list")
    _warn_of_unknown(document, ("description", "kernels"), "")
    results: list[Entry | Problem] = []
    names: dict[tuple[str, str], int] = {}
    for number, value in enumerate(kernels):
        one = entry(value, number, directories)
        if isinstance(one, Entry):
            first = names.setdefault((one.arch, one.exported_name), number)
            if first != number:
                pointer = f"/kernels/{number}/exported_name"
                one = Problem(pointer, f"{one.exported_name!r} is the name of kernel {first} for {one.arch} too")
        results.append(one)
    return results


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Turn errors in the block into problems at a place in the entry."""
    try:
        yield
    except ArgumentError as error:
        raise Problem(place, str(error)) from None


def entry(value: Any, number: int, directories: Sequence[Path] = ()) -> Entry | Problem:
    """Return the kernel that an element of `kernels` describes, or the problem with it."""
    pointer = f"/kernels/{number}"
    try:
        return _checked(value, number, directories)
    except Problem as error:
        return Problem(pointer + error.pointer, error.message)
    except NpuTensorError as error:
        return Problem(pointer, str(error))


def _checked(value: Any, number: int, directories: Sequence[Path]) -> Entry:
    if not isinstance(value, dict):
        raise Problem("", f"Kernel {number} must be an object, not {_kind(value)}")
    for key in REQUIRED:
        if key not in value:
            raise Problem("", f"Kernel {number} missing '{key}'")
    _warn_of_unknown(value, (*REQUIRED, *OPTIONAL), f"/kernels/{number}")
    name = _text(value, "kernel_name")
    arch = _choice(value, "arch", tuple(ARRAYS))
    inputs = value["input_tensors"]
    if not isinstance(inputs, list):
        raise Problem("/input_tensors", f"must be a list of tensor descriptors, not {_kind(inputs)}")
    ops = tuple(_ops(value.get("ops")))
    params = value.get("op_params", {})
    if not isinstance(params, dict):
        raise Problem("/op_params", f"must be an object, not {_kind(params)}")
    source = None
    if not ops:
        file = _text(value, "kernel_source")
        with _at("/kernel_source"):
            source = kernel_source.find(file, directories)
            kernel_source.functions(source)
        with _at("/kernel_name"):
            kernel_source.function(source, name)
    kernel = Entry(
        kernel_name=name,
        source=source,
        arch=arch,
        input_tensors=tuple(_desc(text, f"/input_tensors/{place}") for place, text in enumerate(inputs)),
        output_tensor=_desc(value["output_tensor"], "/output_tensor"),
        exported_name=_exported_name(value),
        op_params=params,
        cols=_columns(value, ARRAYS[arch].columns),
        float32=_choice(value, "float32", get_args(Float32), DEFAULT_FLOAT32),
        bfloat16=_choice(value, "bfloat16", get_args(Bfloat16), "exact"),
        functions=_choice(value, "functions", get_args(Functions), "exact"),
        ops=ops,
    )
    kernel.planned  # noqa: B018  # raises the problems of the entry as a whole
    return kernel


def _kind(value: Any) -> str:
    """Return JSON's word for the type of a value."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names[type(value)]


def _text(value: dict[str, Any], key: str) -> str:
    text = value[key]
    if not isinstance(text, str) or not text:
        raise Problem(f"/{key}", f"must be a string that is not empty, not {text!r}")
    return text


def _choice(value: dict[str, Any], key: str, choices: Sequence[str], default: str = "") -> Any:
    choice = value.get(key, default)
    if choice not in choices:
        raise Problem(f"/{key}", f"{choice!r} is not one of {', '.join(choices)}")
    return choice


def _columns(value: dict[str, Any], most: int) -> int:
    columns = value.get("cols", most)
    if type(columns) is not int or not 1 <= columns <= most:
        raise Problem("/cols", f"must be 1 to {most} for {value['arch']}, not {columns!r}")
    return columns


def _desc(text: Any, place: str) -> TensorDesc:
    if not isinstance(text, str):
        raise Problem(place, f"Invalid tensor descriptor: must be a string, not {_kind(text)}")
    with _at(place):
        return TensorDesc.parse(text)


def _exported_name(value: dict[str, Any]) -> str:
    name = _text(value, "exported_name")
    if len(name) > LONGEST_NAME:
        raise Problem("/exported_name", f"has {len(name)} characters; {LONGEST_NAME} are the most")
    if EXPORTED_NAME.fullmatch(name) is None:
        allowed = "letters, digits and _ . + @ = , - without a dot in front"
        raise Problem("/exported_name", f"{name!r} is not fit for a file name: {allowed}")
    return name


def _ops(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not value:
        raise Problem("/ops", "must be a list of recorded ops that is not empty")
    for number, recorded in enumerate(value):
        if not isinstance(recorded, dict):
            raise Problem(f"/ops/{number}", f"must be an object, not {_kind(recorded)}")
    return value


def _warn_of_unknown(value: dict[str, Any], known: Sequence[str], pointer: str) -> None:
    for key in value.keys() - set(known):
        warn(f"{pointer or 'configuration'}: unknown key {key!r}; there are {', '.join(known)}", UserWarning)
