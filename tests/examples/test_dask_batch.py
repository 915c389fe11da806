"""examples/dask_batch.py: a batch on the workers of a cluster gives the numbers of one process."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from paths import EXAMPLES
from running import python

import npu_tensor as nt
from npu_tensor.cli.demo import load

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array", reason="the extra dask is not installed")

from npu_tensor.examples.dask_batch import Classifier, Runtime, classify  # noqa: E402


@pytest.fixture(scope="module")
def model() -> Classifier:
    return Classifier(load().layers)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with made, distributed.Client(made) as client:
        yield client


def own_result(model: Classifier, pixels: np.ndarray) -> tuple[int, bytes, int, str]:
    """Return the number of this process, the bits of its result, its captures, and its device."""
    return os.getpid(), model(pixels).tobytes(), Classifier.scores.captures, nt.get_default_device()


def _on_worker(pixels: np.ndarray) -> tuple[int, bytes, int, str]:
    return own_result(distributed.get_worker().plugins[Runtime.name].model, pixels)


@pytest.mark.parametrize("rows", [500, 128, 100])
def test_two_workers_and_one_process_give_the_same_bits(client: Any, model: Classifier, rows: int) -> None:
    pixels = load().pixels
    with nt.default_device("cpu"):
        expected = model(pixels)
    runtime = Runtime(model, ["cpu", "cpu"], threads=1)
    scores = classify(client, runtime, da.from_array(pixels, chunks=(rows, -1)))
    assert (scores.shape, scores.dtype, scores.numblocks) == ((500, 10), np.float32, (-(-500 // rows), 1))
    result = scores.compute()
    assert result.tobytes() == expected.tobytes()
    assert np.mean(result.argmax(axis=1) == load().labels) > 0.95


def test_every_worker_has_one_model_and_captures_once(client: Any, model: Classifier) -> None:
    pixels = load().pixels[:64]
    client.register_plugin(Runtime(model, ["cpu"], threads=1))
    workers = list(client.scheduler_info()["workers"])
    own = own_result(model, pixels)
    numbers = set()
    for worker in workers:
        first, second = (
            client.submit(_on_worker, pixels, workers=[worker], pure=False).result(timeout=60) for _ in range(2)
        )
        assert first == second
        assert first[1] == own[1]
        numbers.add(first[0])
    assert len(numbers) == 2
    assert own[0] not in numbers


def test_each_worker_takes_its_device(model: Classifier) -> None:
    before, threads = nt.get_default_device(), nt.get_num_threads()
    runtime = Runtime(model, ["cpu", "sim:npu2"], threads=1)
    with nt.config.scope(threads=0):
        try:
            for name, expected in ((0, "cpu"), (1, "sim:npu2"), (3, "sim:npu2"), ("tcp://127.0.0.1:1", "cpu")):
                runtime.setup(SimpleNamespace(name=name))
                assert (nt.get_default_device(), nt.get_num_threads()) == (expected, 1)
        finally:
            nt.set_default_device(before)
            nt.set_num_threads(threads)


def test_the_program_runs_and_closes_cleanly() -> None:
    """Its functions are those of __main__, which the workers do not have."""
    done = python("-W", "error", EXAMPLES / "dask_batch.py")
    assert done.stdout == "500 images on 2 workers: 98.4% right\n"
    # Workers of a busy machine may be slow to end, of which distributed warns.
    assert [line for line in done.stderr.splitlines() if "still alive after" not in line] == []
