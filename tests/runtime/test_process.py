"""The library inside a process: threads, fork, missing compiler, settings, memory."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.config import config


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_threads_realize_at_once() -> None:
    failures: list[BaseException] = []
    shared = nt.from_numpy(np.arange(40_000, dtype=np.float32).reshape(200, 200) / 40_000)
    expected = np.tanh(shared.numpy().astype(np.float64) * 2).sum(1)

    def work(number: int) -> None:
        try:
            for step in range(20):
                out = (shared * 2).tanh().sum(1) * (number + step)
                np.testing.assert_allclose(out.numpy(), expected * (number + step), rtol=1e-4)
                product = shared[: 10 + number] @ shared
                np.testing.assert_allclose(product.numpy(), shared.numpy()[: 10 + number] @ shared.numpy(), rtol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_without_llvmlite_numpy_runs_everything() -> None:
    code = """
import sys, warnings
sys.modules["llvmlite"] = None
sys.modules["llvmlite.binding"] = None
warnings.simplefilter("always")
import npu_tensor as nt
with warnings.catch_warnings(record=True) as seen:
    a = nt.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = (a @ a + 1).relu().softmax(-1)
    print({row.kernel for row in nt.explain(y) if row.device == "cpu"})
    print(y.sum().item())
print(any("compiler cannot be used" in str(w.message) for w in seen))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    kernels, total, warned = done.stdout.split("\n")[:3]
    assert "numpy" in kernels
    assert abs(float(total) - 2) < 1e-6
    assert warned == "True"


def test_threads_are_settable() -> None:
    before = nt.get_num_threads()
    with config.scope(threads=0):
        try:
            nt.set_num_threads(1)
            assert nt.get_num_threads() == 1
            a = nt.ones(1 << 18)
            assert float((a + 1).sum()) == 2 << 18
            nt.set_num_threads(2)
            assert float((a + 1).sum()) == 2 << 18
            with pytest.raises(ValueError, match="0 or more"):
                nt.set_num_threads(-1)
        finally:
            nt.set_num_threads(before)


def test_memory_is_freed_with_the_handle_and_given_back() -> None:
    gc.collect()  # Leftovers of other tests must not be freed during this test.
    nt.empty_cache()
    start = nt.memory_stats()
    a = (nt.zeros(1 << 22) + 1).realize()
    assert nt.memory_stats()["in_use"] - start["in_use"] >= a.nbytes
    del a
    assert nt.memory_stats()["in_use"] == start["in_use"]
    assert nt.empty_cache() >= 1 << 24
    assert nt.memory_stats()["cached"] <= start["cached"]


def test_errors_while_running_name_the_op_its_operands_and_the_line() -> None:
    index = nt.tensor([0.0, 5.0]).argmax(keepdim=True) + 4  # not known when the op is recorded
    with pytest.raises(IndexError, match=r"take_points\(float32\[3\], int64\[1\]\).*recorded at test_process.py:\d+"):
        nt.zeros(3)[index].tolist()
    with pytest.raises(ZeroDivisionError, match=r"floor_divide\(int64\[2\], int64\[2\]\).*test_process.py:\d+"):
        (nt.tensor([1, 2]) // nt.tensor([0, 1])).tolist()
