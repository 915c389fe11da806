"""Values that go to NumPy and PyTorch by DLPack and come back."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES, DType


class Old:
    """An array whose library speaks DLPack as before version 1.0, with no arguments but the stream."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, stream: None = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_pytorch_reads_and_gives_every_dtype(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    x = nt.tensor([[0.0, 1.0, 3.0], [7.0, 0.0, 2.0]]).to(dtype)
    theirs = torch.from_dlpack(x)
    assert str(theirs.dtype) == f"torch.{dtype.name}"
    assert theirs.tolist() == x.tolist()
    for back in (nt.from_dlpack(theirs.T), nt.tensor(theirs.T), nt.as_tensor(theirs.T)):
        assert back.dtype is dtype
        assert back.tolist() == x.T.tolist()


def test_numpy_gets_a_copy_unless_it_asks_for_the_memory() -> None:
    x = nt.arange(6).reshape(2, 3)
    for copied in (np.from_dlpack(x), np.from_dlpack(x, copy=True)):
        assert not np.shares_memory(copied, x.numpy())
        copied[0] = 7
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    shared = np.from_dlpack(x, copy=False)
    assert np.shares_memory(shared, x.numpy())
    assert not shared.flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pytorch_cannot_change_a_tensor(dtype: str) -> None:
    """It ignores that memory is read-only."""
    torch = pytest.importorskip("torch")
    x = nt.arange(4).to(dtype)
    view = x.reshape(2, 2).realize()
    torch.from_dlpack(x).fill_(9)
    torch.utils.dlpack.from_dlpack(x).fill_(9)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert view.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert torch.from_dlpack(x, copy=False).data_ptr() == x.numpy().ctypes.data


def test_who_cannot_be_told_that_memory_is_read_only_gets_a_copy() -> None:
    x = nt.arange(3)
    theirs = np.from_dlpack(Old(x))
    assert not np.shares_memory(theirs, x.numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 0)])
@pytest.mark.parametrize("shape", [(), (3, 2), (0, 2)])
def test_memory_is_shared_with_a_consumer_that_asks_for_it(
    dtype: str, version: tuple[int, int] | None, shape: tuple[int, ...]
) -> None:
    """The array API standard lets any consumer ask, also one that cannot be told that memory is read-only."""
    torch = pytest.importorskip("torch")
    x = nt.ones(*shape).to(dtype)
    shared = torch.utils.dlpack.from_dlpack(x.__dlpack__(max_version=version, copy=False))
    assert str(shared.dtype) == f"torch.{dtype}"
    assert shared.tolist() == x.tolist()
    assert not x.numel() or shared.data_ptr() == x.numpy().ctypes.data
    address, values = shared.data_ptr(), x.tolist()
    del x
    others = [nt.zeros(*shape).to(dtype).realize() for _ in range(20)]
    assert others
    assert shared.tolist() == values
    assert shared.data_ptr() == address


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_old_exporters_are_understood(dtype: str) -> None:
    x = nt.tensor([1.5, -2.0], dtype=dtype)
    back = nt.from_dlpack(Old(x))
    assert back.dtype.name == dtype
    assert back.tolist() == [1.5, -2.0]


@pytest.mark.covers("from_dlpack")
def test_from_dlpack_copies() -> None:
    array = np.ones(3)
    x = nt.from_dlpack(array)
    array[:] = 7
    assert x.dtype is nt.float64
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="__dlpack__, not list"):
        nt.from_dlpack([1])
    with pytest.raises(nt.DTypeError, match="complex"):
        nt.from_dlpack(np.ones(2, np.complex64))
    with pytest.raises(BufferError, match="streams"):
        nt.ones(2).__dlpack__(stream=1)
    with pytest.raises(BufferError):
        nt.ones(2).__dlpack__(max_version=(1, 0), dl_device=(2, 0))
