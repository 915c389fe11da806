"""GGUF, the format of ggml's model files: metadata by key and tensors by name.

The header is followed by the metadata, descriptions of the tensors, and the tensors' bytes, all little-endian
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Tensors stay in the file, which is mapped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from npu_tensor.dtypes import DTYPES, QUANTIZED, stored_shape
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.register import tensor_of
from npu_tensor.functions.serialization import replaced
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, from_array

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)  # they differ only in files of big-endian machines
_ALIGNMENT: Final = "general.alignment"
_USUAL_ALIGNMENT: Final = 32
_MOST_DIMENSIONS: Final = 4
_MOST_NAME_BYTES: Final = 63  # GGML_MAX_NAME includes a zero byte

_DTYPES: Final = {dtype.ggml_type: dtype for dtype in (*DTYPES, *QUANTIZED) if dtype.ggml_type is not None}

_NUMBERS: Final = ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", None, None, "<u8", "<i8", "<f8")
"""The types of metadata, in the order of their numbers; strings and arrays have no NumPy type."""
_STRING, _ARRAY = 8, 9
_INTEGERS: Final = ("<u4", "<i4", "<i8", "<u8")
"""The types of Python's integers in the metadata, in the order in which they are tried."""
_TYPE_OF: Final = {np.dtype(kind): number for number, kind in enumerate(_NUMBERS) if kind is not None}


class GGUF(NamedTuple):
    """Content of a GGUF file.

    Attributes:
        metadata: By key: Python numbers, bools and strings, NumPy arrays of numbers, lists of strings. Bytes of a
            string that are not UTF-8 are kept as halves of surrogate pairs, like Python's "surrogateescape".
        tensors: By name, in the order of the file. Shapes are in NumPy's order, so weights of a linear layer are (out
            features, in features).
    """

    metadata: dict[str, Any]
    tensors: Mapping[str, Tensor]


# --- reading


class _Reader:
    """Cursor over the bytes of a file."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data.data
        self.size = len(data)
        self.at = 0

    def take(self, count: int) -> int:
        """Advance by `count` bytes and return their start. Raise ValueError if the file ends before."""
        start = self.at
        if count > self.size - start:
            raise ValueError(f"the file ends at byte {self.size}, in the middle of {count} bytes from byte {start} on")
        self.at = start + count
        return start

    def number(self, form: str) -> Any:
        form = f"<{form}"
        return struct.unpack_from(form, self.data, self.take(struct.calcsize(form)))[0]

    def strings(self, count: int) -> list[str]:
        """Read strings. They are read in one loop because vocabularies have some 100,000."""
        self.require(count, 8, "strings")
        data, length_at, end, texts = self.data, struct.Struct("<Q").unpack_from, self.at, []
        for _ in range(count):
            start = end + 8
            if start <= self.size:
                end = start + length_at(data, end)[0]
            if max(start, end) > self.size:
                raise ValueError(f"a string from byte {start} on is longer than the file")
            texts.append(str(data[start:end], "utf-8", "surrogateescape"))
        self.at = end
        return texts

    def string(self) -> str:
        (text,) = self.strings(1)
        return text

    def array(self, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
        """Copy `count` numbers."""
        start = self.take(count * dtype.itemsize)
        array = np.frombuffer(self.data, dtype, count, start).copy()
        if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"a bool at byte {start} is neither 0 nor 1")
        return array

    def value(self, kind: int) -> Any:
        """Read a value of the metadata."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
            if kind == _STRING:
                return self.strings(count)
            return self.array(_number_type(kind), count)
        return self.array(_number_type(kind), 1)[0].item()

    def require(self, count: int, least: int, what: str) -> None:
        """Raise ValueError unless the rest of the file can hold `count` things of at least `least` bytes."""
        if count > (self.size - self.at) // least:
            raise ValueError(f"{count} {what} in the {self.size - self.at} bytes from byte {self.at} on")


def _number_type(kind: int) -> np.dtype[Any]:
    name = _NUMBERS[kind] if kind < len(_NUMBERS) else None
    if name is None:
        raise ValueError(f"metadata of the type {kind}, where it must be a number")
    return np.dtype(name)


class _Entry(NamedTuple):
    """Description of a tensor in a file. offset: in bytes, from the first tensor."""

    name: str
    spec: Spec
    offset: int


def _entry(reader: _Reader) -> _Entry:
    name, ndim = reader.string(), reader.number("I")
    if len(name.encode("utf-8", "surrogateescape")) > _MOST_NAME_BYTES:
        raise ValueError(f"the name {name[:20]!r}... of a tensor has more than {_MOST_NAME_BYTES} bytes")
    if ndim > _MOST_DIMENSIONS:
        raise ValueError(f"tensor {name!r} of {ndim} dimensions, of which there can be {_MOST_DIMENSIONS}")
    shape = tuple(reader.number("Q") for _ in range(ndim))[::-1]
    kind, offset = reader.number("I"), reader.number("Q")
    dtype = _DTYPES.get(kind)
    if dtype is None:
        names = ", ".join(f"{each.name} ({number})" for number, each in sorted(_DTYPES.items()))
        raise ValueError(f"tensor {name!r} of ggml's type {kind}; those that can be read are {names}")
    try:
        return _Entry(name, Spec.of(shape, dtype), offset)
    except ShapeError as error:
        raise ValueError(f"tensor {name!r}: {error}") from error


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _alignment(metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get(_ALIGNMENT, _USUAL_ALIGNMENT)
    if type(alignment) not in (int, np.uint32) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"{_ALIGNMENT} must be a power of two, and is {alignment!r:.80}")
    return int(alignment)


def _read(data: np.ndarray[Any, Any]) -> GGUF:
    reader = _Reader(data)
    if reader.size < 4 or bytes(reader.data[reader.take(4) : 4]) != _MAGIC:
        raise ValueError("it does not begin with GGUF; nt.load reads NumPy's formats and safetensors")
    version = reader.number("I")
    if version not in _VERSIONS:
        hint = ", as files of big-endian machines have it" if version & 0xFFFF == 0 else ""
        raise ValueError(f"version {version}{hint}; versions 2 and 3 can be read")
    count, entries = reader.number("Q"), reader.number("Q")
    # The shortest entry has a length, a type and a byte; the shortest tensor two numbers of each size.
    reader.require(entries, 8 + 4 + 1, "entries")
    reader.require(count, 8 + 4 + 4 + 8, "tensors")
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        key = reader.string()
        if key in metadata:
            raise ValueError(f"the key {key!r} twice")
        metadata[key] = reader.value(reader.number("I"))
    alignment = _alignment(metadata)
    listed = [_entry(reader) for _ in range(count)]
    if len({entry.name for entry in listed}) < count:
        raise ValueError("two tensors of one name")
    start, end = _aligned(reader.at, alignment), 0
    for name, spec, offset in listed:  # ggml also requires this order.
        if offset != end:
            raise ValueError(f"tensor {name!r} begins at byte {offset} of the data instead of byte {end}")
        if start + end + spec.nbytes > reader.size:
            raise ValueError(f"the file ends at byte {reader.size}, and tensor {name!r} at {start + end + spec.nbytes}")
        end = _aligned(end + spec.nbytes, alignment)
    tensors = {name: _tensor(data[start + offset :], spec) for name, spec, offset in listed}
    return GGUF(metadata, MappingProxyType(tensors))


def _tensor(data: np.ndarray[Any, Any], spec: Spec) -> Tensor:
    """Return the tensor at the beginning of `data`, which it shares if its elements are aligned."""
    stored = np.asarray(data[: spec.nbytes]).view(spec.dtype.numpy)
    array = stored.reshape(stored_shape(spec.shape, spec.dtype))
    return from_array(np.require(array, requirements=["C", "ALIGNED"]), copy=False)


def load_gguf(path: str | os.PathLike[str]) -> GGUF:
    """Read the metadata and the tensors of a GGUF file, such as a language model.

    The file is mapped: bytes of tensors are read when they are used, and quantized ones stay quantized. The file must
    not be changed in place meanwhile; `save_gguf` to its path replaces it. All parts of a split file, such as
    `model-00001-of-00003.gguf`, are read; the metadata is that of the first part.

    Args:
        path: Path of the file, or of any part of a split file.

    Raises:
        ArgumentError: The file is damaged, of a version other than 2 and 3, or has tensors of a type other than F32,
            F16, BF16, F64, I8 to I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4.
        FileNotFoundError: The file, or another part of it, does not exist.
    """
    file = _mapped(path)
    count, number = _integer(file, "split.count"), _integer(file, "split.no")
    if count is None or count < 2:
        return file
    name = os.fsdecode(path)
    start = name if number is None else name.removesuffix(_part_ending(number, count))
    if start == name:
        raise ArgumentError(f"load_gguf: {name!r} is one of {count} parts, and its name has no part number")
    return _joined([_mapped(f"{start}{_part_ending(part, count)}") for part in range(count)], name)


def _integer(file: GGUF, key: str) -> int | None:
    """Return an integer of the metadata, or None."""
    value = file.metadata.get(key)
    return value if type(value) is int else None


def _part_ending(number: int, count: int) -> str:
    """Return the end of llama.cpp's name of a part; `number` counts from 0."""
    return f"-{number + 1:05}-of-{count:05}.gguf"


def _joined(parts: list[GGUF], path: str) -> GGUF:
    """Merge the parts of a split file. Raise ArgumentError if they do not belong together."""
    tensors: dict[str, Tensor] = {}
    for number, part in enumerate(parts):
        if (_integer(part, "split.no"), _integer(part, "split.count")) != (number, len(parts)):
            raise ArgumentError(f"load_gguf: part {number + 1} of {path!r} belongs to another file")
        tensors |= part.tensors
    found, expected = sum(len(part.tensors) for part in parts), _integer(parts[0], "split.tensors.count")
    if len(tensors) < found or expected not in (None, found):
        raise ArgumentError(f"load_gguf: {path!r} has {expected} tensors, and {found} are in its {len(parts)} parts")
    metadata = {key: value for key, value in parts[0].metadata.items() if not key.startswith("split.")}
    return GGUF(metadata, MappingProxyType(tensors))


def _mapped(path: str | os.PathLike[str]) -> GGUF:
    """Map one file. Raise ArgumentError if it cannot be read."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = np.memmap(file, np.uint8, "r") if size else np.zeros(0, np.uint8)
    try:
        return _read(data)
    except (ValueError, OverflowError, MemoryError) as error:
        raise ArgumentError(f"load_gguf: {os.fspath(path)!r} is not a readable GGUF file: {error}") from error


# --- writing


def save_gguf(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None
) -> None:
    """Compute the tensors and write them with metadata to a GGUF file. An existing file is replaced.

    NumPy's scalars and arrays keep their type. Python's floats, and lists with one, become float32; integers, and lists
    of them, become the first of uint32, int32, int64 and uint64 that holds all. `load_gguf` returns numbers as
    Python's, so a round trip stores them in these types; arrays keep theirs.

    Args:
        path: Path of the file.
        tensors: Tensors by name.
        metadata: Strings, bools, numbers, and one-dimensional arrays or lists of one of these, by key.

    Raises:
        ArgumentError: The format cannot hold a value, key or name, or a Python float is beyond float32; numpy.float64
            stores it.
    """
    metadata = dict(metadata or {})
    try:
        alignment = _alignment(metadata)
        entries = [_stored_entry(name, tensor) for name, tensor in tensors.items()]
        head = b"".join(_described(entries, metadata, alignment))
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"save_gguf: {error}") from error
    with replaced(path) as file:
        file.write(head)
        _pad(file, len(head), alignment)
        for _, _, array in entries:
            file.write(array.reshape(-1).view(np.uint8).data)
            _pad(file, array.nbytes, alignment)


def _pad(file: BinaryIO, written: int, alignment: int) -> None:
    file.write(bytes(_aligned(written, alignment) - written))


_Stored = tuple[bytes, Tensor, np.ndarray[Any, Any]]
"""A tensor with its name and its elements."""


def _stored_entry(name: Any, value: Any) -> _Stored:
    tensor = tensor_of(value)
    if not isinstance(name, str) or not len(encoded := _bytes(name)) <= _MOST_NAME_BYTES:
        raise ValueError(f"names of tensors are strings of at most {_MOST_NAME_BYTES} bytes, not {name!r:.80}")
    if tensor.dtype.ggml_type is None or tensor.ndim > _MOST_DIMENSIONS:
        raise ValueError(f"{name!r} is {tensor._node.spec}; the format has no bool and uint8, and 4 dimensions at most")
    return encoded, tensor, tensor._stored()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _counted(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _described(entries: list[_Stored], metadata: Mapping[str, Any], alignment: int) -> Iterator[bytes]:
    yield _MAGIC + struct.pack("<IQQ", _VERSIONS[-1], len(entries), len(metadata))
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError(f"keys of the metadata are strings, not {key!r:.80}")
        yield _counted(_bytes(key))
        yield _typed(key, value)
    offset = 0
    for name, tensor, array in entries:
        yield _counted(name)
        yield struct.pack(f"<I{tensor.ndim}QIQ", tensor.ndim, *tensor.shape[::-1], tensor.dtype.ggml_type, offset)
        offset = _aligned(offset + array.nbytes, alignment)


def _typed(key: str, value: Any) -> bytes:
    """Encode the type and the value of an entry of the metadata."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _counted(_bytes(value))
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return b"".join([struct.pack("<IIQ", _ARRAY, _STRING, len(value)), *(_counted(_bytes(text)) for text in value)])
    array = _array(value)
    kind = _TYPE_OF.get(array.dtype.newbyteorder("<"))
    if kind is None or array.ndim > 1:
        raise ValueError(f"the format has no metadata such as {value!r:.80}, of key {key!r}")
    contents = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return (struct.pack("<I", kind) if array.ndim == 0 else struct.pack("<IIQ", _ARRAY, kind, array.size)) + contents


def _array(value: Any) -> np.ndarray[Any, Any]:
    """Return numbers in the type in which they are stored; an array of another type if there is none."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if all(type(number) is int for number in numbers):
        for dtype in _INTEGERS:
            limits = np.iinfo(dtype)
            if all(limits.min <= number <= limits.max for number in numbers):
                return np.array(value, dtype)
        return np.array(value, np.object_)
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if (np.isinf(narrow) & np.isfinite(array)).any():
        raise ValueError(f"{value!r:.80} is too large for float32; pass numpy.float64")
    return narrow
