"""Tensors in files: NumPy's formats and safetensors. `interop/saved_function.py` has `save` and `load`.

One tensor is an .npy file, tensors by name are an .npz file, which `numpy.load` also reads (bfloat16 as two bytes).
The extension .safetensors selects that format: eight bytes with the length of a JSON header, the header, which
contains dtype, shape and position of every tensor, and their bytes (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

import numpy as np

from npu_tensor.dtypes import DTYPES, bfloat16
from npu_tensor.errors import ArgumentError, DTypeError, NpuTensorError, written
from npu_tensor.runtime.store.files import atomic_file
from npu_tensor.tensor import Tensor, from_array

File = str | os.PathLike[str] | BinaryIO
"""Path, or open binary file."""

Array = np.ndarray[Any, Any]

_SAFETENSORS: Final = {dtype.short.upper(): dtype for dtype in DTYPES}

_BYTES_OF_BFLOAT16: Final = np.dtype("V2")
"""NumPy's dtype for bfloat16 in files; NumPy's format does not know bfloat16."""

_GGUF, _NPY, _ZIP = b"GGUF", b"\x93NUMPY", b"PK\x03\x04"
"""First bytes of the formats of other functions and of NumPy."""

_METADATA: Final = "__metadata__"
"""Member of the header of a .safetensors file that is not a tensor."""

_MOST_NAME_BYTES: Final = 65_535 - len(".npy")
"""Longest name in a .zip file in bytes; its length has 16 bits."""

MOST_HEADER_BYTES: Final = 100_000_000
"""Longest header of a .safetensors file that its own library reads, in bytes."""


def save_tensors(obj: Tensor | Mapping[str, Tensor], f: File) -> None:
    """Write a tensor, or tensors by name; see `save`."""
    if isinstance(obj, Tensor):
        if is_safetensors(f):
            raise ArgumentError("a .safetensors file holds tensors by name; save {'name': tensor}")
        array = array_of(obj, "the tensor")
        with opened_to_write(f) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        return
    if not isinstance(obj, Mapping):
        raise ArgumentError(f"a .safetensors file holds tensors by name, not {type(obj).__name__}")
    arrays = {_name(name): _array(name, value) for name, value in obj.items()}
    if is_safetensors(f):
        if _METADATA in arrays:
            raise ArgumentError(f"in a .safetensors file, {_METADATA!r} is not a tensor; choose another name")
        with opened_to_write(f) as file:
            write_safetensors(arrays, file)
        return
    # np.savez has parameters, whose names tensors could not have.
    with opened_to_write(f) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load_tensors(f: File, file: BinaryIO) -> Tensor | dict[str, Tensor]:
    """Read the tensors in `file`, which is `f` opened; see `load`."""
    safetensors = is_safetensors(f)
    try:
        start = file.tell()
        begin = file.read(9)
        file.seek(start)
        if begin.startswith(_GGUF):
            raise ArgumentError(f"{name_of(f) or f!r} is a GGUF file; nt.load_gguf reads it")
        if begin[8:] == b"{":  # after the length of the header
            safetensors = not begin.startswith(_NPY)
        elif begin.startswith((_NPY, _ZIP)):
            safetensors = False
        return read_safetensors(mapped_bytes(file, start)) if safetensors else _read_numpy(file)
    except NpuTensorError:
        raise
    except Exception as error:  # errors of parsers and decompressors have no common type
        raise _unreadable(f, safetensors, error) from error


def is_safetensors(f: File) -> bool:
    return name_of(f).endswith(".safetensors")


def name_of(f: File) -> str:
    """Return the path, also of an open file, or ""."""
    return str(os.fspath(f) if isinstance(f, (str, os.PathLike)) else getattr(f, "name", ""))


class _Stream:
    """File that is written from its current position. Some, such as those of gzip, wrongly claim to be seekable."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write

    def flush(self) -> None:
        """Leave flushing to the owner of the file."""


@contextmanager
def opened_to_write(f: File) -> Iterator[BinaryIO]:
    if isinstance(f, (str, os.PathLike)):
        with replaced(f) as file:
            yield file
        return
    if not hasattr(f, "write") or isinstance(f, io.TextIOBase):
        raise ArgumentError(f"save needs a path or a binary file, such as open(path, 'wb'), not {f!r}")
    yield cast(BinaryIO, _Stream(f))


@contextmanager
def opened_to_read(f: File) -> Iterator[BinaryIO]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    if not hasattr(f, "read") or isinstance(f, io.TextIOBase):
        raise ArgumentError(f"load needs a path or a binary file, such as open(path, 'rb'), not {f!r}")
    if not (f.seekable() if hasattr(f, "seekable") else hasattr(f, "seek")):
        raise ArgumentError("load needs a seekable file; pass io.BytesIO(file.read())")
    yield f


@contextmanager
def replaced(f: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that replaces the file that `f` is or links to, and keeps its permissions."""
    path = Path(os.path.realpath(f))
    if os.path.exists(f) and not os.path.isfile(f):  # a pipe or /dev/null, for example, cannot be replaced
        with written(f), open(f, "wb") as file:
            yield file
        return
    with written(f), atomic_file(path) as file:
        if path.exists():
            shutil.copymode(path, file.name)
        yield file


def _unreadable(f: File, safetensors: bool, error: Exception) -> ArgumentError:
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    name = repr(name_of(f) or f)
    if safetensors:
        return ArgumentError(f"{name} is not a readable .safetensors file ({reason})")
    if "allow_pickle" in reason:  # NumPy's advice for its own function, also for files that are not pickles
        reason = "neither arrays nor tensors"
    return ArgumentError(
        f"{name} was written neither by nt.save nor by NumPy ({reason}); "
        "write old files of PyTorch again with torch.save, whose present format is read"
    )


def _name(name: object) -> str:
    """Return a name that every format can hold."""
    if not isinstance(name, str):
        raise ArgumentError(f"save needs strings as names of tensors, not {name!r}")
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ArgumentError(f"save needs names without NUL and without halves of surrogate pairs, not {name!r}")
    if len(name.encode()) > _MOST_NAME_BYTES:
        raise ArgumentError(f"save needs names of up to {_MOST_NAME_BYTES} bytes, not {name[:40]!r}...")
    return name


def _array(name: object, value: object) -> Array:
    if not isinstance(value, (Tensor, np.ndarray)):
        hint = "files with another suffix, such as .npt, hold nested values"
        raise ArgumentError(f"a .safetensors file holds tensors, not {type(value).__name__} under {name!r}; {hint}")
    return array_of(value if isinstance(value, Tensor) else from_array(value), repr(name))


def array_of(tensor: Tensor, what: str) -> Array:
    if tensor.dtype.is_quantized:
        raise DTypeError(f"save: {what} is {tensor.dtype.name}, which the file cannot hold; save_gguf stores it")
    return tensor.numpy()


def _read_numpy(file: BinaryIO) -> Tensor | dict[str, Tensor]:
    begin = file.tell()
    stored = np.load(file, allow_pickle=False)
    if isinstance(stored, np.ndarray):
        return tensor_of_array(stored)
    with stored:
        # Read by member: `stored["a.npy"]` could be the member of "a" and that of "a.npy".
        members = stored.zip.namelist()
        first = min((member.header_offset for member in stored.zip.infolist()), default=begin)
        if first != begin:
            raise ValueError(f"of several archives in one file only the last can be read, which begins at byte {first}")
        tensors = {member.removesuffix(".npy"): tensor_of_array(stored[member]) for member in members}
    if len(tensors) < len(members):
        raise ValueError("two arrays of one name")
    return tensors


def tensor_of_array(stored: object) -> Tensor:
    if not isinstance(stored, np.ndarray):  # bytes of a member of an archive that is not an array
        raise ValueError("not an array")
    if stored.dtype == _BYTES_OF_BFLOAT16:
        return from_array(stored.view(bfloat16.numpy), copy=False)
    if stored.dtype == np.bool_:
        # Compiled code relies on 0 and 1, and a file may hold any byte.
        return from_array(stored.view(np.uint8) != 0, copy=False)
    return from_array(stored, copy=False)


# --- safetensors
#
# Implemented here because safetensors.numpy does not know bfloat16, and safe_open maps paths only, not open files.


def write_safetensors(arrays: Mapping[str, Array], file: BinaryIO | IO[bytes]) -> None:
    """Write arrays by name in the safetensors format."""
    # Widest elements first, so that each begins at a multiple of its size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {}
    start = 0
    names = {dtype.numpy: name for name, dtype in _SAFETENSORS.items()}
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        file.write(arrays[name].reshape(-1).view(np.uint8).data)


def read_safetensors(content: Array) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a .safetensors file. They share its memory where they are aligned.

    Raises:
        ValueError: The bytes have another format. Other wrong contents raise other errors of the parser.
    """
    length = int.from_bytes(content[:8].tobytes(), "little")
    if not 2 <= length <= min(content.size - 8, MOST_HEADER_BYTES):
        raise ValueError(f"a header of {length} bytes in a file of {content.size}")
    header = json.loads(content[8 : 8 + length].tobytes(), object_pairs_hook=_without_duplicates)
    metadata = header.pop(_METADATA, {})  # not used here, but the library of the format requires strings
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"{_METADATA!r} must be strings by name, such as {{'step': '3'}}, and is {metadata!r:.80}")
    entries = {name: _Entry(**entry) for name, entry in header.items()}
    data = content[8 + length :]
    end = 0
    for start, stop in sorted(tuple(entry.data_offsets) for entry in entries.values()):
        if start != end:
            raise ValueError(f"bytes {min(start, end)} to {max(start, end)} of the data belong to no tensor or to two")
        end = stop
    if end != data.size:
        raise ValueError(f"the tensors have {end} bytes, and the file has {data.size}")
    return {name: _part(data, entry) for name, entry in entries.items()}


def mapped_bytes(file: BinaryIO, start: int, nbytes: int | None = None) -> Array:
    """Return bytes of a file, by default up to its end, mapped if possible.

    Raises:
        ValueError: The file ends earlier.
    """
    rest = file.seek(0, os.SEEK_END) - start
    nbytes = rest if nbytes is None else nbytes
    if not 0 <= nbytes <= rest:
        raise ValueError(f"the file ends after {rest} of {nbytes} bytes")
    if not nbytes:
        return np.zeros(0, np.uint8)
    try:
        return np.memmap(file, np.uint8, "r", start, (nbytes,))
    except (AttributeError, io.UnsupportedOperation):
        file.seek(start)
        return np.frombuffer(file.read(nbytes), np.uint8)


def _without_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) < len(members):
        raise ValueError("two members of one name in the header")
    return unique


class _Entry(NamedTuple):
    """Description of a tensor in the header."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def _part(data: Array, entry: _Entry) -> Tensor:
    """Return the tensor of an entry of the header. It shares the file's memory if its address is a multiple of 8."""
    start, stop = entry.data_offsets
    kind = _SAFETENSORS.get(entry.dtype)
    if kind is None:
        raise ValueError(f"the dtype {entry.dtype}, which is not one of {', '.join(_SAFETENSORS)}")
    extents = entry.shape
    if min(extents, default=0) < 0 or not start <= stop or math.prod(extents) * kind.itemsize != stop - start:
        raise ValueError(f"{entry.dtype} of shape {extents} at bytes {start} to {stop}")
    stored = np.asarray(data[start:stop]).view(kind.numpy).reshape(extents)
    return tensor_of_array(np.require(stored, requirements=["C", "ALIGNED"]))
