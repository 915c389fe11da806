"""Tensors in files, read by NumPy and by a reader of the safetensors format, and damaged files."""

import errno
import gzip
import io
import json
import os
import re
import signal
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES

pytestmark = pytest.mark.once

VALUES = np.array([[0.0, 1.0, -2.0], [3.5, 100.0, 1.0]], np.float32)

# Names as in the published description of the format.
NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}


def tensors() -> dict[str, nt.Tensor]:
    """Return one tensor of every dtype, with zero-dimensional, empty and lazy ones."""
    made = {f"layer.{dtype.name}": nt.from_numpy(VALUES).abs().to(dtype) for dtype in DTYPES}
    return {**made, "file": nt.tensor(2.5), "nothing/at all": nt.zeros(0, 3)}


def assert_equal(found: dict[str, nt.Tensor], expected: dict[str, nt.Tensor]) -> None:
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype is tensor.dtype
        assert found[name].shape == tensor.shape
        assert found[name].tolist() == tensor.tolist()


def parsed(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return header and data of a .safetensors file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def written(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
def test_one_tensor_is_a_file_of_numpy(dtype: str, tmp_path: Path) -> None:
    tensor = nt.from_numpy(VALUES).abs().to(dtype)
    path = tmp_path / "tensor.pt"
    nt.save(tensor, path)
    stored = np.load(path)
    if dtype == "bfloat16":
        stored = stored.view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(stored, np.abs(VALUES).astype(tensor.dtype.numpy))
    assert_equal({"": nt.load(path)}, {"": tensor})


def test_tensors_by_name_are_an_archive_of_numpy(tmp_path: Path) -> None:
    nt.save(tensors(), str(tmp_path / "weights"))
    assert_equal(nt.load(str(tmp_path / "weights")), tensors())
    with np.load(tmp_path / "weights") as archive:
        np.testing.assert_array_equal(archive["layer.float32"], np.abs(VALUES))


def test_safetensors_have_the_published_layout(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    nt.save(tensors(), path)
    header, data = parsed(path)
    assert (path.stat().st_size - len(data)) % 8 == 0
    end = 0
    for name, entry in header.items():  # in the order of the data, without gaps
        start, stop = entry["data_offsets"]
        tensor = tensors()[name]
        assert (start, entry["dtype"], entry["shape"]) == (end, NAMES[tensor.dtype.name], list(tensor.shape))
        np.testing.assert_array_equal(np.frombuffer(data[start:stop], tensor.dtype.numpy), tensor.numpy().reshape(-1))
        assert start % tensor.itemsize == 0
        end = stop
    assert end == len(data)
    assert_equal(nt.load(path), tensors())


def test_safetensors_of_others_are_read(tmp_path: Path) -> None:
    """The file has metadata, data in another order, and an element that is not aligned."""
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
        "a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
    }
    data = b"\x07" + np.array([1.5, -2.0], np.float32).tobytes()
    result = nt.load(written(tmp_path / "m.safetensors", header, data))
    assert {name: tensor.tolist() for name, tensor in result.items()} == {"a": 7, "b": [1.5, -2.0]}
    assert (result["b"] * 2).tolist() == [3.0, -4.0]


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


ENTRY = json.dumps(entry()).encode()


@pytest.mark.parametrize(
    "header",
    [
        entry(data_offsets=[0, 16]),
        entry(data_offsets=[-8, 0]),
        entry(shape=[3]),
        entry(shape=[-1, -2]),
        entry(dtype="F8_E4M3"),
        entry(extra=1),
        entry(shape=[2**70, 0], data_offsets=[0, 0]),
        {**entry(), "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        {},
        ENTRY[:-1] + b"," + ENTRY[1:],
        [1],
        b"\xff\xff",
        b"[" * 100_000,
    ],
    ids=lambda header: str(header)[:60],
)
def test_damaged_safetensors(header: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "m.safetensors", header, bytes(8))
    with pytest.raises(nt.ArgumentError, match=r"m\.safetensors"):
        nt.load(path)


@pytest.mark.parametrize("content", [b"", b"\1\0\0\0\0\0\0\0", b"\xff" * 8 + b"{}", b"\x40" + bytes(7) + b"{}"])
def test_files_that_are_too_short(content: bytes, tmp_path: Path) -> None:
    for name in ("m.safetensors", "m.npy"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(nt.ArgumentError, match=r"m\."):
            nt.load(tmp_path / name)


def test_the_content_says_which_format_a_file_has(tmp_path: Path) -> None:
    expected = {"a": nt.ones(2)}
    nt.save(expected, tmp_path / "m.pt")
    nt.save(expected, tmp_path / "m.safetensors")
    nt.save(expected["a"], tmp_path / "m.npy")
    (tmp_path / "m.npz").write_bytes((tmp_path / "m.safetensors").read_bytes())
    (tmp_path / "m.safetensors").write_bytes((tmp_path / "m.pt").read_bytes())
    for name in ("m.pt", "m.npz", "m.safetensors"):
        assert_equal(nt.load(tmp_path / name), expected)
    (tmp_path / "m.safetensors").write_bytes((tmp_path / "m.npy").read_bytes())
    assert nt.load(tmp_path / "m.safetensors").tolist() == [1.0, 1.0]


def test_files_of_another_function_are_refused_with_its_name(tmp_path: Path) -> None:
    nt.save_gguf(tmp_path / "m.npz", {"a": nt.ones(2)})
    with pytest.raises(nt.ArgumentError, match=r"m\.npz' is a GGUF file; nt\.load_gguf reads it"):
        nt.load(tmp_path / "m.npz")
    nt.save({"a": nt.ones(2)}, tmp_path / "m.gguf")
    with pytest.raises(nt.ArgumentError, match=r"does not begin with GGUF; nt\.load reads"):
        nt.load_gguf(tmp_path / "m.gguf")


def test_files_with_pickled_objects_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(nt.ArgumentError, match="written neither"):
        nt.load(tmp_path / "objects.npy")
    torch = pytest.importorskip("torch", reason="PyTorch writes the file of this test")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(nt.ArgumentError, match=r"\(neither arrays nor tensors\).*again with torch\.save"):
        nt.load(tmp_path / "old.pt")


@pytest.mark.parametrize("value", [[nt.ones(2)], 3, nt.ones(2), {"a": 3}, {1: nt.ones(2)}], ids=repr)
def test_safetensors_are_tensors_by_name(value: Any, tmp_path: Path) -> None:
    with pytest.raises(nt.ArgumentError, match=r"holds tensors|strings as names"):
        nt.save(value, tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors"])
def test_quantized_tensors_belong_to_another_format(name: str, tmp_path: Path) -> None:
    weights = nt.quantize(nt.ones(2, 32), "q4_0")
    with pytest.raises(nt.DTypeError, match=r"save: 'up.weight' is q4_0, .*; save_gguf stores it"):
        nt.save({"up.weight": weights}, tmp_path / name)
    if name == "x.npy":
        with pytest.raises(nt.DTypeError, match=r"save: the tensor is q4_0, .*; save_gguf stores it"):
            nt.save(weights, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_loaded_weights_are_saved_to_their_own_file(tmp_path: Path) -> None:
    """Loaded tensors are memory of the file; reading from a truncated file would kill the process."""
    path = tmp_path / "m.safetensors"
    values = np.arange(1 << 16, dtype=np.float32)  # several pages
    nt.save({"a": nt.from_numpy(values), "b": nt.ones(3)}, path)
    loaded = nt.load(path)
    nt.save({"a": loaded["a"], "c": loaded["b"] + 1}, path)
    np.testing.assert_array_equal(loaded["a"].numpy(), values)
    np.testing.assert_array_equal(nt.load(path)["a"].numpy(), values)
    assert nt.load(path)["c"].tolist() == [2.0, 2.0, 2.0]
    nt.save(loaded["a"], path.with_suffix(".npy"))
    assert {other.name for other in tmp_path.iterdir()} == {"m.safetensors", "m.npy"}


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors"])
@pytest.mark.parametrize("at", ["computing", "writing"])
def test_a_save_that_fails_leaves_the_file_as_it_was(
    name: str, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left")

    path = tmp_path / name
    path.write_bytes(b"as it was")
    tensor = nt.tensor([1.0, 2.0])
    owner, function = (nt.Tensor, "numpy") if at == "computing" else (os, "replace")
    monkeypatch.setattr(owner, function, fail)
    with pytest.raises(OSError, match="no space left"):
        nt.save(tensor if name == "x.npy" else {"a": tensor}, path)
    assert path.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["x", "x.npy", "x.safetensors"])
def test_a_missing_directory_is_named_by_the_path_of_the_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"missing/{name}"
    with pytest.raises(FileNotFoundError) as caught:
        nt.save({"a": nt.ones(2)} if "safetensors" in name else nt.ones(2), path)
    assert caught.value.filename == path
    assert str(caught.value) == f"[Errno 2] No such file or directory: {path!r}"


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x.npy", tmp_path / "link.npy"
    nt.save(nt.ones(2), path)
    path.chmod(0o600)
    link.symlink_to(path)
    nt.save(nt.zeros(3), link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert nt.load(path).tolist() == [0.0, 0.0, 0.0]


def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file mounted into a container can be opened for writing, but renaming another file to it raises EBUSY."""

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    path = tmp_path / "x.safetensors"
    nt.save({"a": nt.zeros(100)}, path)
    monkeypatch.setattr(os, "replace", busy)
    before = path.stat().st_ino
    nt.save({"a": nt.arange(3.0)}, path)
    assert nt.load(path)["a"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["x.safetensors"]
    assert path.stat().st_ino == before


def test_pipes_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        nt.save({"a": nt.ones(2)}, pipe)
        content = os.read(reader, 4096)
    finally:
        os.close(reader)
    assert np.load(io.BytesIO(content))["a"].tolist() == [1.0, 1.0]
    with pytest.raises(IsADirectoryError):
        nt.save(nt.ones(2), tmp_path)


def test_tensors_go_to_files_that_are_open_and_come_back(tmp_path: Path) -> None:
    expected = tensors()
    memory = io.BytesIO()
    nt.save(expected, memory)
    memory.seek(0)
    assert_equal(nt.load(memory), expected)
    memory.seek(0)
    assert np.load(memory)["file"] == 2.5
    for name in ("x.npz", "x.safetensors", "x"):
        with open(tmp_path / name, "wb") as file:
            nt.save(expected, file)
            assert not file.closed
        with open(tmp_path / name, "rb") as file:
            loaded = nt.load(file)
            assert not file.closed
        assert_equal(loaded, expected)
        assert_equal(nt.load(tmp_path / name), expected)
    with gzip.open(tmp_path / "x.gz", "wb") as packed:
        nt.save(expected, packed)
    with gzip.open(tmp_path / "x.gz", "rb") as packed:
        assert_equal(nt.load(packed), expected)


@pytest.mark.parametrize("on_disk", [True, False])
def test_tensors_follow_each_other_in_a_file(on_disk: bool, tmp_path: Path) -> None:
    with open(tmp_path / "x", "w+b") if on_disk else io.BytesIO() as file:
        file.write(b"12345")
        for tensor in (nt.arange(3), nt.ones(2, 2).to(nt.float64)):
            nt.save(tensor, file)
        nt.save({"a": nt.arange(4)}, file)
        file.seek(5)
        assert nt.load(file).tolist() == [0, 1, 2]
        assert nt.load(file).tolist() == [[1, 1], [1, 1]]
        start = file.tell()
        assert nt.load(file)["a"].tolist() == [0, 1, 2, 3]
        file.seek(0, os.SEEK_END)
        nt.save({"a": nt.arange(5)}, file)
        file.seek(start)
        with pytest.raises(nt.ArgumentError, match="of several archives in one file only the last can be read"):
            nt.load(file)


def test_files_for_text_and_streams_are_refused_with_the_way_out(tmp_path: Path) -> None:
    for file in (io.StringIO(), 7, None):
        with pytest.raises(nt.ArgumentError, match=r"save needs a path or a binary file.*'wb'"):
            nt.save(nt.ones(2), file)  # type: ignore[arg-type]
        with pytest.raises(nt.ArgumentError, match=r"load needs a path or a binary file.*'rb'"):
            nt.load(file)  # type: ignore[arg-type]
    read, write = os.pipe()
    with open(write, "wb") as file:
        nt.save({"a": nt.ones(2)}, file)
    with open(read, "rb") as file:
        with pytest.raises(nt.ArgumentError, match=r"io\.BytesIO\(file\.read\(\)\)"):
            nt.load(file)
        assert nt.load(io.BytesIO(file.read()))["a"].tolist() == [1, 1]


@pytest.mark.parametrize("metadata", [{"step": 3}, {"step": None}, ["step"], "step", 3])
def test_metadata_are_strings_by_name(metadata: Any, tmp_path: Path) -> None:
    """The library of the format has the same rule."""
    nt.load(written(tmp_path / "x.safetensors", {"__metadata__": {"step": "3"}}))
    with pytest.raises(nt.ArgumentError, match=r"'__metadata__' must be strings by name, such as \{'step': '3'\}"):
        nt.load(written(tmp_path / "x.safetensors", {"__metadata__": metadata}))


def test_arrays_of_another_byte_order_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES.astype(">f4"))
    loaded = nt.load(tmp_path / "x.npy")
    assert loaded.dtype is nt.float32
    assert loaded.tolist() == VALUES.tolist()


@pytest.mark.parametrize("path", ["x.npz", "x.safetensors"])
def test_names_are_kept_as_they_are(path: str, tmp_path: Path) -> None:
    names = ["a", "a.npy", "a.npy.npy", "", ".npy", "__init__", "file", "ä/../é", "\U0001f600", "a\nb", "a\\b"]
    expected = {name: nt.tensor(number) for number, name in enumerate(names)}
    nt.save(expected, tmp_path / path)
    assert_equal(nt.load(tmp_path / path), expected)


@pytest.mark.parametrize("path", ["x.npz", "x.safetensors"])
@pytest.mark.parametrize("name", ["a\0b", "\udc80", "ä" * 40_000], ids=["NUL", "surrogate", "long"])
def test_names_that_files_cannot_hold(name: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(nt.ArgumentError, match="save needs names"):
        nt.save({name: nt.ones(2)}, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_the_metadata_is_not_that_of_a_tensor(tmp_path: Path) -> None:
    weights = {"__metadata__": nt.ones(2)}
    with pytest.raises(nt.ArgumentError, match="__metadata__"):
        nt.save(weights, tmp_path / "x.safetensors")
    nt.save(weights, tmp_path / "x.npz")
    assert_equal(nt.load(tmp_path / "x.npz"), weights)


def test_an_archive_with_two_arrays_of_one_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("a", archive.read("a.npy"))
    with pytest.raises(nt.ArgumentError, match=r"x\.npz"):
        nt.load(tmp_path / "x.npz")


def test_any_byte_but_zero_is_true(tmp_path: Path) -> None:
    header = {"a": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}
    result = [nt.load(written(tmp_path / "m.safetensors", header, b"\0\2\xff"))["a"]]
    np.save(tmp_path / "m.npy", np.frombuffer(b"\0\2\xff", np.bool_))
    result.append(nt.load(tmp_path / "m.npy"))
    for tensor in result:
        assert tensor.numpy().view(np.uint8).tolist() == [0, 1, 1]
        assert tensor.sum().item() == 2


def npy(header: str) -> bytes:
    """Return the bytes of an .npy file of version 1.0 with this header."""
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode()


def descr(shape: str) -> str:
    return f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n"


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f4', 'fortran_order': "),
        npy("[" * 5000),
        npy(descr("(10000000000000000000000,)")),
        npy(descr(f"({2**50}, 8)")),
        npy(descr("(2,)")),
    ],
    ids=lambda content: str(content)[:60],
)
@pytest.mark.parametrize("archive", [False, True], ids=["npy", "npz"])
def test_damaged_arrays_of_numpy(content: bytes, archive: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    if archive:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(nt.ArgumentError, match=r"m\.npy"):
        nt.load(path)


def archive_of(path: Path, method: int) -> bytearray:
    """Return the bytes of an archive of one array, of several kilobytes."""
    content = io.BytesIO()
    np.save(content, np.random.default_rng(0).standard_normal(2000))
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a.npy", content.getvalue())
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_archives(method: int, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    content = archive_of(path, method)
    for position in range(0, len(content), 397):
        changed = content.copy()
        changed[position : position + 40] = bytes([0xFF]) * len(changed[position : position + 40])
        path.write_bytes(changed)
        with pytest.raises(nt.ArgumentError, match=r"m\.npz"):
            nt.load(path)


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
def test_a_folder_and_another_dtype_have_their_own_errors(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m.{suffix}"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        nt.load(path)
    np.save(tmp_path / "complex.npy", np.ones(2, np.complex64))
    with pytest.raises(nt.DTypeError, match="complex"):
        nt.load(tmp_path / "complex.npy")


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, suffix: str) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / f"weights.{suffix}"
    tensor = nt.zeros(100, 100).realize()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(nt.FileError, match=re.escape(f"{str(path)!r} could not be written: ")) as caught:
            nt.save(tensor if suffix == "npy" else {"x": tensor}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert isinstance(caught.value, OSError)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        nt.save(tensor, tmp_path / "nowhere" / "x.npy")
