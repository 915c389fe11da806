"""GGUF files, compared with the package gguf, and damaged files."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES

pytestmark = pytest.mark.once

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "negative": -3,
    "large": 1 << 40,
    "rate": 0.5,
    "flag": True,
    "byte": np.uint8(7),
    "wide": np.float64(0.1),
    "tokens": ["<s>", "", "Ġé", "\udcff"],
    "scores": np.arange(3, dtype=np.float32),
    "types": np.arange(4, dtype=np.int32),
    "flags": np.array([True, False]),
    "none": [],
    "huge": (1 << 64) - 1,
    "counts": [1, 2],
    "signs": (-1, 2),
    "offsets": [-1, 1 << 31],
    "rates": [0.5, 0.25],
    "mixed": [1, 0.5],
    "choices": [True, False],
}


KINDS = {
    "llama.block_count": "UINT32",
    "negative": "INT32",
    "large": "INT64",
    "huge": "UINT64",
    "rate": "FLOAT32",
    "byte": "UINT8",
    "counts": "ARRAY UINT32",
    "signs": "ARRAY INT32",
    "offsets": "ARRAY INT64",
    "rates": "ARRAY FLOAT32",
    "mixed": "ARRAY FLOAT32",
    "choices": "ARRAY BOOL",
}
"""Names of the written types in the package gguf."""


def tensors() -> dict[str, nt.Tensor]:
    """Return one tensor of every dtype that the format has."""
    rows = nt.from_numpy(np.random.default_rng(5).standard_normal((3, 64), np.float32))
    plain = {dtype.name: (rows * 9).to(dtype) for dtype in DTYPES if dtype.ggml_type is not None}
    made = {name: nt.quantize(rows, name) for name in ("q8_0", "q4_0", "q4_1")}
    stored = np.random.default_rng(6).integers(0, 256, (2, 2 * nt.q6_k.itemsize), np.uint8)
    return {**plain, **made, "q6_k": nt.from_numpy(stored.view(nt.q6_k.numpy)), "number": nt.tensor(2.5)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    nt.save_gguf(path, tensors(), METADATA)
    return path


def test_saved_files_are_loaded(path: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(path, tmp_path))
    metadata, loaded = nt.load_gguf(path)
    assert list(metadata) == list(METADATA)
    for key, value in METADATA.items():
        assert np.array_equal(metadata[key], value)
        is_list = isinstance(value, (list, tuple)) and key not in ("tokens", "none")
        assert isinstance(value, np.generic) or type(metadata[key]) is (np.ndarray if is_list else type(value))
    assert metadata["types"].dtype == np.int32
    for name, tensor in tensors().items():
        assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape)
        assert loaded[name]._stored().tobytes() == tensor._stored().tobytes()
    nt.save_gguf(path, loaded, metadata)  # in place of the file that is mapped
    assert list(nt.load_gguf(path).tensors) == list(loaded)


def test_the_package_gguf_reads_it(path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    read = gguf.GGUFReader(path)
    expected = tensors()
    assert {tensor.name for tensor in read.tensors} == set(expected)
    for tensor in read.tensors:
        ours = expected[tensor.name]
        assert tensor.tensor_type == ours.dtype.ggml_type
        assert tuple(map(int, reversed(tensor.shape))) == ours.shape
        assert tensor.data.tobytes() == ours._stored().tobytes()
    for key, kinds in KINDS.items():
        assert [kind.name for kind in read.fields[key].types] == kinds.split()
    assert read.fields["general.architecture"].contents() == "llama"
    assert read.fields["scores"].contents() == [0, 1, 2]


@pytest.mark.parametrize("alignment", [32, 128])
def test_files_of_the_package_gguf(tmp_path: Path, alignment: int) -> None:
    gguf = pytest.importorskip("gguf")
    rows = np.random.default_rng(7).standard_normal((5, 32), np.float32)
    writer = gguf.GGUFWriter(tmp_path / "theirs.gguf", "test")
    writer.add_custom_alignment(alignment)
    writer.add_array("words", ["a", "b"])
    writer.add_array("numbers", [1, 2])
    for kind in ("Q4_0", "Q8_0", "BF16"):
        number = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(kind, gguf.quants.quantize(rows, number), raw_dtype=number)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    metadata, loaded = nt.load_gguf(tmp_path / "theirs.gguf")
    assert metadata["general.alignment"] == alignment
    assert metadata["words"] == ["a", "b"]
    assert metadata["numbers"].tolist() == [1, 2]
    assert [(name, tensor.dtype.name) for name, tensor in loaded.items()] == [
        ("Q4_0", "q4_0"),
        ("Q8_0", "q8_0"),
        ("BF16", "bfloat16"),
    ]
    read = gguf.quants.dequantize(gguf.quants.quantize(rows, gguf.GGMLQuantizationType.Q4_0), 2)
    assert np.array_equal(loaded["Q4_0"].dequantize().numpy(), read)


# --- split files


def split(folder: Path, count: int = 5, most: int = 2) -> list[Path]:
    """Write parts of at most the given number of tensors with the package gguf."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama", split_max_tensors=most)
    writer.add_array("words", ["a", "b"])
    for number in range(count):
        writer.add_tensor(f"blk.{number}", np.full((2, 3), number, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return sorted(folder.iterdir())


def test_all_parts_of_a_split_file_are_read(tmp_path: Path) -> None:
    parts = split(tmp_path)
    assert [part.name for part in parts] == [f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for path in (*parts, str(parts[0])):
        metadata, loaded = nt.load_gguf(path)
        assert metadata == {"general.architecture": "llama", "words": ["a", "b"]}
        assert {name: tensor.sum().item() for name, tensor in loaded.items()} == {f"blk.{n}": 6.0 * n for n in range(5)}
    nt.save_gguf(tmp_path / "whole.gguf", loaded, metadata)
    assert list(nt.load_gguf(tmp_path / "whole.gguf").tensors) == list(loaded)


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second, third = split(tmp_path)[:3]
    other = split(tmp_path / "other", 6)
    renamed = tmp_path / "renamed.gguf"
    shutil.copy(first, renamed)
    with pytest.raises(nt.ArgumentError, match="is one of 3 parts, and its name has no part number"):
        nt.load_gguf(renamed)
    shutil.copy(third, second)
    with pytest.raises(nt.ArgumentError, match=r"part 2 of .* belongs to another file"):
        nt.load_gguf(first)
    shutil.copy(other[2], third)
    shutil.copy(other[1], second)
    with pytest.raises(nt.ArgumentError, match="has 5 tensors, and 6 are in its 3 parts"):
        nt.load_gguf(first)
    second.unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of-00003"):
        nt.load_gguf(first)


@pytest.mark.parametrize("metadata", [{"split.count": 1}, {"split.count": "3"}, {"split.count": [2]}, {"split.no": 1}])
def test_files_that_are_not_split(tmp_path: Path, metadata: dict[str, Any]) -> None:
    nt.save_gguf(tmp_path / "x.gguf", {"a": nt.ones(1)}, metadata)
    assert list(nt.load_gguf(tmp_path / "x.gguf").tensors) == ["a"]


def file(*parts: bytes, tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + b"".join(parts)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: bytes, shape: list[int], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


HOSTILE = {
    "empty": (b"", "begin with GGUF"),
    "magic": (b"GGML" + bytes(40), "begin with GGUF"),
    "version": (file(version=1), "version 1;"),
    "big endian": (file(version=3 << 24), "big-endian"),
    "tensors": (file(bytes(24), tensors=1 << 62), "tensors in the 24 bytes"),
    "entries": (file(bytes(24), entries=1 << 63), "entries in the 24 bytes"),
    "key": (file(struct.pack("<Q", 1 << 63) + bytes(8), entries=1), "longer than the file"),
    "type": (file(entry(b"k", 13, bytes(8)), entries=1), "metadata of the type 13"),
    "nested": (file(entry(b"k", 9, struct.pack("<IQ", 9, 1)), entries=1), "metadata of the type 9"),
    "array": (file(entry(b"k", 9, struct.pack("<IQ", 10, 1 << 61)), entries=1), "the file ends"),
    "strings": (file(entry(b"k", 9, struct.pack("<IQ", 8, 1 << 61)), entries=1), "strings in the 0 bytes"),
    "bool": (file(entry(b"k", 7, b"\x02") + bytes(9), entries=1), "neither 0 nor 1"),
    "twice": (file(entry(b"k", 0, b"\0") * 2, entries=2), "'k' twice"),
    "alignment": (file(entry(b"general.alignment", 4, struct.pack("<I", 48)), entries=1), "power of two"),
    "alignment type": (file(entry(b"general.alignment", 8, text(b"32")), entries=1), "power of two"),
    "name": (file(tensor(b"n" * 64, [1], 0, 0), bytes(99), tensors=1), "more than 63 bytes"),
    "dimensions": (file(tensor(b"a", [1] * 5, 0, 0), bytes(99), tensors=1), "5 dimensions"),
    "kind": (file(tensor(b"a", [256], 10, 0), bytes(99), tensors=1), "ggml's type 10; .*q8_0"),
    "blocks": (file(tensor(b"a", [40], 8, 0), bytes(99), tensors=1), "tensor 'a': q8_0 has blocks of 32"),
    "scalar block": (file(tensor(b"a", [], 8, 0), bytes(99), tensors=1), "tensor 'a': q8_0 has blocks of 32"),
    "count": (file(tensor(b"a", [1 << 32, 1 << 32], 0, 0), bytes(99), tensors=1), "64 bits"),
    "short": (file(tensor(b"a", [64], 0, 0), bytes(99), tensors=1), "the file ends at byte"),
    "offset": (file(tensor(b"a", [1], 0, 4), bytes(99), tensors=1), "instead of byte 0"),
    "overlap": (file(tensor(b"a", [1], 0, 0) + tensor(b"b", [1], 0, 0), bytes(99), tensors=2), "instead of byte 32"),
    "same name": (file(tensor(b"a", [1], 0, 0) + tensor(b"a", [1], 0, 32), bytes(99), tensors=2), "of one name"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    with pytest.raises(nt.ArgumentError, match=rf"load_gguf: .*hostile\.gguf.*{message}"):
        nt.load_gguf(path)


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Change some bytes, or numbers of 64 bits, or cut the end off."""
    changed = bytearray(content)
    for _ in range(random.integers(1, 4)):
        place = int(random.integers(0, len(changed)))
        if random.random() < 0.3:
            number = (0, 1, 1 << 31, 1 << 63, (1 << 64) - 1, len(content))[random.integers(6)]
            changed[place : place + 8] = struct.pack("<Q", number)
        else:
            changed[place] = int(random.integers(256))
    return bytes(changed[: random.integers(len(changed))] if random.random() < 0.2 else changed)


def refused_of(count: int, path: Path, directory: Path) -> int:
    """Return the number of damaged files that raise ArgumentError; others are readable with other content."""
    content, file = path.read_bytes(), directory / "damaged.gguf"
    head = content[: 24 + content.index(b"number") + 6]  # all but most bytes of the tensors
    random = np.random.default_rng(8)
    refused = 0
    for _ in range(count):
        file.write_bytes(damaged(head, random) + content[len(head) :])
        try:
            for loaded in nt.load_gguf(file).tensors.values():
                loaded._stored().tobytes()
        except nt.ArgumentError as error:
            assert str(error).startswith("load_gguf: ")  # noqa: PT017
            refused += 1
    return refused


def test_damaged_files(path: Path, tmp_path: Path) -> None:
    """To test more files, run python tests/functions/test_gguf.py 100000 DIRECTORY."""
    assert 200 < refused_of(400, path, tmp_path) < 400


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({"a": nt.tensor([True])}, {}, "no bool and uint8"),
        ({"a" * 64: nt.tensor([1.0])}, {}, "at most 63 bytes"),
        ({"a": nt.zeros(1, 1, 1, 1, 1)}, {}, "4 dimensions"),
        ({}, {"k": None}, "no metadata such as None, of key 'k'"),
        ({}, {"k": [[1], [2]]}, "no metadata"),
        ({}, {"k": 1 << 70}, "no metadata such as 11805"),
        ({}, {"k": [-1, 1 << 63]}, "no metadata such as "),
        ({}, {"k": 1e39}, r"1e\+39 is too large for float32; pass numpy.float64"),
        ({}, {"k": [0.5, -1e300]}, "too large for float32"),
        ({}, {3: 1}, "keys of the metadata are strings, not 3"),
        ({}, {"general.alignment": 3}, "power of two"),
        ({}, {"general.alignment": np.float32(32)}, "power of two"),
    ],
    ids=str,
)
def test_unsupported_values_are_refused(tmp_path: Path, tensors: Any, metadata: Any, message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=f"save_gguf: .*({message})"):
        nt.save_gguf(tmp_path / "x.gguf", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


def test_tensors_stay_in_the_file(tmp_path: Path) -> None:
    """Resident memory grows by the part that is read, a hundredth here."""
    path = tmp_path / "large.gguf"
    nt.save_gguf(path, {f"t{i}": nt.zeros(1 << 20, dtype=nt.float32) for i in range(100)}, {})
    code = """
import resource, sys
import npu_tensor as nt
nt.ones(1).numpy()
def resident(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
import npu_tensor.functions.gguf
before = resident()
tensors = nt.load_gguf(sys.argv[1]).tensors
assert tensors["t7"].numpy().sum() == 0
print(resident() - before)
"""
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 0.1 * os.path.getsize(path)


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    nt.save_gguf(directory / "model.gguf", tensors(), METADATA)
    print(refused_of(int(sys.argv[1]), directory / "model.gguf", directory), "refused")
