"""Nested values with tensors in files: checkpoints of `save`, and those that `torch.save` has written.

A checkpoint of `save` is a zip archive with the value as JSON and its tensors as safetensors. The archive of PyTorch
has a pickle of the value, which refers to the bytes of tensors in other members. Only tensors, plain containers,
numbers and strings are built from it, so that reading it runs none of its code.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

import numpy as np

from npu_tensor._util.version import VERSION
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.serialization import Array, File, array_of, opened_to_write
from npu_tensor.interop.archives import MappedArchive, read_weights, strided_tensor, write_weights
from npu_tensor.interop.encoded_values import decoded_value, encoded_value
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor, from_array

CHECKPOINT: Final = "checkpoint.json"
TORCH_PICKLE: Final = "/data.pkl"
"""Members with the values of both formats. The second is in a folder that is named like the file."""

_STORAGES: Final = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
"""Dtypes of PyTorch's classes of memory."""


def write_checkpoint(obj: Any, f: File) -> None:
    """Write a nested value; see `save`."""
    arrays: dict[str, Array] = {}

    def stored(tensor: Tensor) -> dict[str, str]:
        name = str(len(arrays))
        arrays[name] = array_of(tensor, "a tensor in the checkpoint")
        return {"tensor": name}

    try:
        value = encoded_value(_plain(obj), stored)
    except RecursionError as error:
        raise ArgumentError("save: the value contains itself, or is nested too deeply") from error
    text = json.dumps({"version": VERSION, "value": value}, separators=(",", ":"))
    with opened_to_write(f) as file, ZipFile(file, "w") as archive:
        write_weights(archive, arrays)
        archive.writestr(CHECKPOINT, text)


def read_checkpoint(archive: MappedArchive) -> Any:
    """Return the value in a checkpoint of `save`."""
    tensors = read_weights(archive)
    return decoded_value(archive.parsed(CHECKPOINT)["value"], lambda _, name: tensors[name])


def read_torch_checkpoint(archive: MappedArchive) -> Any:
    """Return the value in a file of `torch.save`.

    Raises:
        ArgumentError: The value has objects other than tensors, plain containers, numbers and strings.
    """
    (name,) = (name for name in archive.names if name.endswith(TORCH_PICKLE))
    root = name.removesuffix(TORCH_PICKLE)
    order = f"{root}/byteorder"
    if order in archive.names and archive.verified(order) != b"little":
        raise ArgumentError("its bytes are in big-endian order")
    pickled = archive.verified(name)
    _require_small_memo(pickled)
    value = _Unpickler(io.BytesIO(pickled)).load()
    return _Builder(archive, root).built(value)


class _Builder:
    """Values in place of the objects in a pickle. An object that is stored once is built once.

    A class, because functions that call each other would keep the tensors until the next collection of cycles.
    """

    def __init__(self, archive: MappedArchive, root: str) -> None:
        self._archive = archive
        self._root = root
        self._values: dict[int, Any] = {}  # by the id of the object

    def built(self, part: Any) -> Any:
        """Return the value of an object and of those in it."""
        if id(part) not in self._values:
            self._values[id(part)] = self._new(part)
        return self._values[id(part)]

    def _new(self, part: Any) -> Any:
        if isinstance(part, _Stored):
            return part.tensor(self._archive, self._root)
        if isinstance(part, _Weight):
            return Parameter(self.built(part.stored), bool(part.requires_grad))
        if isinstance(part, _Dtype):
            return as_dtype(part.name)
        if isinstance(part, dict):
            return {self.built(key): self.built(each) for key, each in part.items()}
        return type(part)(map(self.built, part)) if isinstance(part, (list, tuple)) else part


def _require_small_memo(pickled: bytes) -> None:
    """Raise ValueError if an index into the memo, which is as long as its largest index, exceeds the pickle."""
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("PUT", "LONG_BINPUT") and (argument or 0) > len(pickled):
            raise ValueError(f"the index {argument} into the memo of a pickle of {len(pickled)} bytes")


def _plain(value: Any) -> Any:
    """Return a nested value with its subclasses of dict as dicts, and NumPy's arrays and numbers as ours."""
    if isinstance(value, np.ndarray):
        return from_array(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(part) for key, part in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


# A pickle can change the attributes of all that it gets. So it gets tuples, builtin types, and these objects without
# attributes.


class _Dtype(NamedTuple):
    """A dtype of PyTorch."""

    name: str


class _Stored(NamedTuple):
    """A tensor whose bytes are in another member of the archive."""

    storage: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, archive: MappedArchive, root: str) -> Tensor:
        """Return the tensor, which shares the mapped memory if it is contiguous."""
        kind, storage, key, *_ = self.storage
        if kind != "storage" or not isinstance(storage, _Dtype):
            raise ArgumentError(f"its memory {self.storage!r:.80} is of an unknown kind")
        stored = archive.member(f"{root}/data/{key}").view(as_dtype(storage.name).numpy)
        return strided_tensor(stored, self.offset, self.shape, self.strides)


class _Weight(NamedTuple):
    """A parameter."""

    stored: _Stored
    requires_grad: Any


class _MakeStored:
    __slots__ = ()

    def __call__(
        self, storage: Any, offset: Any, shape: Any, strides: Any, _grad: Any, _hooks: Any, bits: Any = None
    ) -> _Stored:
        if bits:  # such as "neg", which a part of a conjugate has
            raise ArgumentError("PyTorch has not negated a tensor in it yet; save tensor.resolve_neg() instead")
        return _Stored(storage, offset, shape, strides)


class _MakeDevice:
    __slots__ = ()

    def __call__(self, *parts: Any) -> str:
        return ":".join(map(str, parts))


class _MakeWeight:
    __slots__ = ()

    def __call__(self, stored: Any, requires_grad: Any, *_: Any) -> _Weight:
        return _Weight(stored, requires_grad)


_GLOBALS: Final[Mapping[tuple[str, str], Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    ("torch", "device"): _MakeDevice(),
    ("torch._utils", "_rebuild_tensor_v2"): _MakeStored(),
    ("torch._utils", "_rebuild_parameter"): _MakeWeight(),
    **{("torch", name): _Dtype(dtype) for name, dtype in _STORAGES.items()},
    **{("torch", dtype): _Dtype(dtype) for dtype in _STORAGES.values()},
}
"""Objects in place of those that pickles of PyTorch name."""


class _Unpickler(pickle.Unpickler):
    """Reader of a pickle that knows the names in `_GLOBALS` alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _GLOBALS:
            raise ArgumentError(
                f"it has an object of {module}.{name}, and only tensors, plain containers, numbers and strings are "
                "read; save these with torch.save, such as model.state_dict()"
            )
        return _GLOBALS[module, name]

    def persistent_load(self, pid: Any) -> Any:
        return pid
