"""Nested values in files: those of `nt.save`, and those of `torch.save` against PyTorch's own reader."""

import gc
import io
import pickle
import random
import weakref
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import nn

pytestmark = pytest.mark.once


def equal(value: Any, expected: Any) -> bool:
    """Compare nested values; tensors by dtype and bytes, and dicts also by their order."""
    if hasattr(expected, "detach"):
        array = nt.from_dlpack(expected.detach().contiguous()) if type(expected) is not nt.Tensor else expected
        return value.dtype is array.dtype and np.array_equal(value.numpy(), array.numpy())
    if isinstance(expected, dict):
        return list(value) == list(expected) and all(equal(value[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(equal, value, expected))
    return type(value) is type(expected) and bool(value == expected)


def train(model: nn.Module, optimizer: nt.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        (model(nt.full((2, 3), float(step))) ** 2).sum().backward()
        optimizer.step()


def test_training_continues_from_a_checkpoint(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = nt.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = nt.optim.lr_scheduler.StepLR(optimizer, 2)
    train(model, optimizer, 3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    nt.save(state, tmp_path / "checkpoint.npt")
    train(model, optimizer, 3)

    again = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    resumed = nt.optim.AdamW(again.parameters())
    loaded = nt.load(tmp_path / "checkpoint.npt")
    again.load_state_dict(loaded["model"])
    resumed.load_state_dict(loaded["optimizer"])
    nt.optim.lr_scheduler.StepLR(resumed, 5).load_state_dict(loaded["scheduler"])
    train(again, resumed, 3)
    assert equal(again.state_dict(), model.state_dict())


def saved(value: Any) -> Any:
    file = io.BytesIO()
    nt.save(value, file)
    file.seek(0)
    return nt.load(file)


def test_values_of_all_kinds() -> None:
    value = {
        "numbers": [1, -(2**70), 2.5, float("inf"), True, None],
        "text": ("a\nä", ""),
        3: {(1, "x"): nt.arange(3), "nested": [[], {}, ()]},
        "dtype": nt.bfloat16,
        "tensors": [nt.ones(2, dtype=dtype) for dtype in (nt.bfloat16, nt.bool, nt.int64)] + [nt.zeros(0, 2)],
    }
    assert equal(saved(value), value)


def test_arrays_and_subclasses_become_tensors_and_dicts() -> None:
    loaded = saved({"weights": OrderedDict(a=np.float32([1, 2])), "loss": np.float64(0.5)})
    assert type(loaded["weights"]) is dict
    assert loaded["weights"]["a"].tolist() == [1, 2]
    assert type(loaded["loss"]) is float


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value, message in (
        ({"model": object()}, "cannot hold <object"),
        ([nn.Linear(1, 1)], "cannot hold Linear"),
        ({1, 2}, "cannot hold {1, 2}"),
        (endless, "contains itself"),
    ):
        with pytest.raises(nt.ArgumentError, match=message):
            nt.save(value, tmp_path / "checkpoint.npt")
    with pytest.raises(nt.ArgumentError, match="holds tensors, not dict under 'model'; files with another suffix"):
        nt.save({"model": {"weight": nt.ones(2)}}, tmp_path / "checkpoint.safetensors")
    assert not list(tmp_path.iterdir())


# --- files of PyTorch


def checkpoint() -> dict[str, Any]:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(1, 3, 5, 5)).sum().backward()
    optimizer.step()
    table = torch.arange(12).reshape(3, 4)
    names = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "plain": (1, -(2**40), 2.5, "x", None, True, [float("inf")]),
        "views": [table.t(), table[1:, ::2], table[2, 3], table, torch.ones(1).expand(3), torch.zeros(0, 3)],
        "weight": torch.nn.Parameter(torch.randn(2)),
        "dtypes": {name: torch.tensor([0, 1, 3]).to(getattr(torch, name)) for name in names},
    }


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    expected = checkpoint()
    torch = pytest.importorskip("torch")
    others = {
        "shape": torch.ones(2, 3).shape,
        "devices": [torch.device("cpu"), torch.device("cuda", 1)],
        torch.float32: torch.int8,
    }
    torch.save(expected | others, tmp_path / "checkpoint.pt")
    loaded = nt.load(tmp_path / "checkpoint.pt", map_location="cpu", weights_only=True)
    assert loaded.pop("shape") == (2, 3)
    assert loaded.pop("devices") == ["cpu", "cuda:1"]
    assert loaded.pop(nt.float32) is nt.int8
    assert equal(loaded, expected)
    assert isinstance(loaded["weight"], nn.Parameter)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model.load_state_dict(loaded["model"])
    nt.optim.Adam(model.parameters()).load_state_dict(loaded["optimizer"])


def test_values_that_pytorch_stores_once_are_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")
    weights = [torch.ones(2), torch.nn.Parameter(torch.ones(2))]
    nested: list[Any] = weights
    for _ in range(50):
        nested = [nested, nested]  # 2**50 lists if each is built again
    torch.save({"a": weights, "b": [*weights], "nested": nested}, tmp_path / "tied.pt")
    loaded = nt.load(tmp_path / "tied.pt")
    assert all(one is other for one, other in zip(loaded["a"], loaded["b"], strict=True))
    assert loaded["nested"][0] is loaded["nested"][1]


def test_tensors_of_pytorch_end_with_their_last_reader(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")
    torch.save([torch.ones(2)], tmp_path / "checkpoint.pt")
    gc.disable()
    try:
        loaded = nt.load(tmp_path / "checkpoint.pt")
        tensor = weakref.ref(loaded[0])
        del loaded
        assert tensor() is None
    finally:
        gc.enable()


def test_tensors_that_are_still_to_be_negated_are_errors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")
    imaginary = torch.tensor([1 + 2j]).conj().imag
    torch.save([imaginary.resolve_neg()], tmp_path / "checkpoint.pt")
    assert nt.load(tmp_path / "checkpoint.pt")[0].tolist() == [-2]
    torch.save([imaginary], tmp_path / "checkpoint.pt")
    with pytest.raises(nt.ArgumentError, match="resolve_neg"):
        nt.load(tmp_path / "checkpoint.pt")


def archive_of(pickled: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key in range(2):
            archive.writestr(f"archive/data/{key}", bytes(64))
    file.seek(0)
    return file


class Runs:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        pytest.param(pickle.dumps(Runs(), 2), "an object of __builtin__.exec", id="code"),
        pytest.param(pickle.dumps(Path("x"), 2), "an object of pathlib", id="class"),
        pytest.param(b"ctorch\nFloatStorage\n(dVx\nI1\nsb.", "cannot be loaded", id="attribute of a dtype"),
        pytest.param(b"ctorch._utils\n_rebuild_tensor_v2\n(dVx\nI1\nsb.", "cannot be loaded", id="of a function"),
        pytest.param(b"ccollections\nOrderedDict\n(N(dVx\nI1\nstb.", "cannot be loaded", id="of a class"),
        pytest.param(b"]r\xff\xff\xff\x00.", "the index 16777215", id="memo"),
        pytest.param(b"]p16777215\n.", "the index 16777215", id="memo by text"),
    ],
)
def test_pickles_can_build_and_change_nothing_else(pickled: bytes, message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        nt.load(archive_of(pickled))


def test_damaged_pickles_are_errors() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")
    file = io.BytesIO()
    torch.save({"a": torch.ones(4, 4), "b": [torch.nn.Parameter(torch.ones(2)), 1, "x"]}, file)
    with zipfile.ZipFile(file) as archive:
        pickled = archive.read("archive/data.pkl")
    assert nt.load(archive_of(pickled))["a"].shape == (4, 4)
    generator = random.Random(0)
    failed = 0
    for _ in range(2000):
        changed = bytearray(pickled)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        try:
            nt.load(archive_of(bytes(changed)))
        except nt.ArgumentError:
            failed += 1
    assert 500 < failed < 2000
