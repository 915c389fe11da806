"""Pickles for other processes: tensors by value, jitted functions by name or by value, kernels by key."""

import os
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from paths import ROOT
from running import python as run_python

import npu_tensor as nt
from npu_tensor.jit import Jitted

HERE = Path(__file__).parent


@nt.jit
def doubled(x: nt.Tensor) -> nt.Tensor:
    """By name."""
    return x * 2


class Model:
    def __init__(self, weight: float) -> None:
        self.weight = nt.tensor([weight])

    @nt.jit
    def forward(self, x: nt.Tensor) -> nt.Tensor:
        return x * self.weight

    @staticmethod
    @nt.jit
    def less(x: nt.Tensor) -> nt.Tensor:
        return x - 1


def python(code: str, directory: Path, **environment: str) -> str:
    """Return the output of a program that can import this module."""
    (directory / "program.py").write_text(code)
    search_path = os.pathsep.join(map(str, (HERE, ROOT, ROOT / "tests" / "helpers")))
    return run_python("-W", "error", "program.py", cwd=directory, PYTHONPATH=search_path, **environment).stdout


# --- tensors


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_tensor_comes_back_bit_for_bit(protocol: int) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    every_bfloat16 = nt.from_numpy(bits.view(ml_dtypes.bfloat16).reshape(256, 256))
    tensors = [
        every_bfloat16,
        nt.tensor([[1.5, float("nan")], [-0.0, float("inf")]]),
        nt.tensor(7),
        nt.zeros(0, 3),
        nt.tensor([True, False]),
    ]
    for tensor, back in zip(tensors, pickle.loads(pickle.dumps(tensors, protocol)), strict=True):
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert back.numpy().tobytes() == tensor.numpy().tobytes()


def test_a_lazy_tensor_is_computed_and_a_view_takes_its_own_elements_only() -> None:
    x = nt.arange(1 << 20).to(nt.float32)
    part = x.reshape(1024, 1024)[::512, 3] + 1
    sent = pickle.dumps(part)
    assert pickle.loads(sent).tolist() == [4.0, 512 * 1024 + 4.0]
    assert len(sent) < 1000


def test_the_bytes_of_a_tensor_may_travel_apart_from_its_pickle() -> None:
    """Dask and multiprocessing send the bytes this way, without another copy."""
    tensor = nt.from_numpy(np.arange(1 << 18, dtype=np.float32).astype(ml_dtypes.bfloat16))
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    assert len(sent) < 1000
    received = bytearray(buffers[0].raw())
    back = pickle.loads(sent, buffers=[received])
    received[:] = bytes(len(received))  # the sender's memory may be used again
    assert back.numpy().tobytes() == tensor.numpy().tobytes()


# --- functions


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [doubled, Model.forward, Model.less], ids=["function", "method", "static"])
def test_a_function_that_its_name_leads_to_is_sent_by_name(function: Jitted[Any, Any], protocol: int) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="the extra dask is not installed")
    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dumps(function, protocol)) is function


def local_functions() -> dict[str, Jitted[..., nt.Tensor]]:
    offset = nt.tensor([1.0, 10.0])

    @nt.jit
    def nested(x: nt.Tensor) -> nt.Tensor:
        return x + offset

    @nt.jit
    def steps(x: nt.Tensor, count: int = 2) -> nt.Tensor:
        return steps(x + offset, count - 1) if count else x

    # The name refers to the wrapped function, not to the wrapper.
    other = nt.jit(doubled._function)
    return {"nested": nested, "lambda": nt.jit(lambda x: x + offset), "recursive": steps, "other": other}


@pytest.mark.parametrize("name", local_functions())
def test_other_functions_are_sent_by_value_with_cloudpickle(name: str) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="the extra dask is not installed")
    function = local_functions()[name]
    x = nt.tensor([0.5, 2.0])
    expected = function(x)
    back = pickle.loads(cloudpickle.dumps(function))
    assert isinstance(back, Jitted)
    assert (back.captures, back(x).tolist(), back.captures) == (0, expected.tolist(), 1)
    with pytest.raises((pickle.PicklingError, AttributeError), match=f"Can't pickle .*{function._function.__name__}"):
        pickle.dumps(function)


SCRIPT = """
import multiprocessing
import pickle
import sys
from pathlib import Path
import npu_tensor as nt

factor = nt.tensor([3.0])

@nt.jit
def scaled(x):
    return x * factor

class Scale:
    def __init__(self, by):
        self.by = nt.tensor([by])
    @nt.jit
    def forward(self, x):
        return x * self.by

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = [pool.apply(function, (nt.tensor([2.0]),)) for function in (scaled, Scale(4.0).forward)]
    print(*[tensor.tolist() for tensor in found])
    import cloudpickle
    Path("sent").write_bytes(cloudpickle.dumps((scaled, Scale(5.0).forward)))
"""


def test_what_a_program_defines_is_found_by_its_own_processes_and_sent_by_value_to_others(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle", reason="the extra dask is not installed")
    assert python(SCRIPT, tmp_path) == "[6.0] [8.0]\n"
    function, method = pickle.loads((tmp_path / "sent").read_bytes())
    assert function(nt.tensor([2.0])).tolist() == [6.0]
    assert method(nt.tensor([2.0])).tolist() == [10.0]
