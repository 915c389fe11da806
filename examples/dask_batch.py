"""A model over a dask.array. Every worker is a process with one device, one runtime and its own copy of the model.

    python dask_batch.py                                   # two workers that share this machine's cores
    python dask_batch.py --devices npu:0,npu:1             # one worker per NPU
    python dask_batch.py --scheduler tcp://10.0.0.5:8786   # the workers of a cluster

Needs Dask: pip install "dask[array]" distributed. Sizing: docs/beyond_one_machine.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import numpy as np

try:
    import dask.array as da
    from distributed import Client, LocalCluster, Worker, WorkerPlugin, get_worker
except ModuleNotFoundError as error:
    sys.exit(f'{error}; to install it: "{sys.executable}" -m pip install "dask[array]" distributed')

import npu_tensor as nt
from npu_tensor.examples.train_digits import load, trained_layers

ROWS = 128
"""Images per chunk. All chunks except the last have the same shape, so a worker plans at most twice."""


class Classifier:
    """Network of `npu-tensor demo`. `layers` holds weight and bias of each layer as NumPy arrays."""

    def __init__(self, layers: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        self.layers = [(nt.from_numpy(weight), nt.from_numpy(bias)) for weight, bias in layers]

    @nt.jit
    def scores(self, pixels: nt.Tensor) -> nt.Tensor:
        """Return the scores of the digits, (images, 10), for pixels (images, 64)."""
        *hidden, last = self.layers
        for weight, bias in hidden:
            pixels = nt.linear(pixels, weight, bias).relu()
        return nt.linear(pixels, *last)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Apply `scores` to NumPy arrays."""
        return self.scores(nt.from_numpy(pixels)).numpy()


class Runtime(WorkerPlugin):  # type: ignore[misc]  # distributed has no types
    """Shared state of all tasks in a worker process: a device, CPU threads and the model.

    Worker number i uses device i. Named workers use the first one, among the NPUs visible by NPU_VISIBLE_DEVICES.
    `threads` is 0 for all cores.
    """

    name = "npu-tensor"

    def __init__(self, model: Classifier, devices: Sequence[str], threads: int) -> None:
        self.model = model
        self.devices = devices
        self.threads = threads

    def setup(self, worker: Worker) -> None:
        """Set up a worker. Called once in every worker, including later ones, which report its exceptions."""
        number = worker.name if isinstance(worker.name, int) else 0
        nt.set_default_device(self.devices[number % len(self.devices)])
        nt.set_num_threads(self.threads)


def predict(pixels: np.ndarray) -> np.ndarray:
    """Compute the scores of one chunk with the worker's model."""
    scores: np.ndarray = get_worker().plugins[Runtime.name].model(pixels)
    return scores


def classify(client: Client, runtime: Runtime, pixels: da.Array) -> da.Array:
    """Compute the scores of all images lazily, in the chunks of `pixels`, which must contain whole rows."""
    client.register_plugin(runtime)
    return pixels.map_blocks(
        predict, chunks=(pixels.chunks[0], (10,)), dtype=np.float32, meta=np.empty((0, 10), np.float32)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--devices", default="cpu,cpu", help="one per worker, separated by commas")
    parser.add_argument("--scheduler", help="address of a cluster; without one, workers are started here")
    given = parser.parse_args(arguments)
    devices = given.devices.split(",")
    _, digits = load()
    with ExitStack() as stack:
        if given.scheduler:
            cluster, threads = given.scheduler, 0
        else:
            # One task per worker: a device has one queue, and CPU kernels use their own threads.
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=len(devices), threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
                )
            )
            threads = max(1, (os.cpu_count() or 1) // len(devices))
        client = stack.enter_context(Client(cluster))
        runtime = Runtime(Classifier(trained_layers()), devices, threads)
        scores = classify(client, runtime, da.from_array(digits.images.reshape(-1, 64), chunks=(ROWS, -1))).compute()
        workers = len(client.scheduler_info()["workers"])
    accuracy = np.mean(scores.argmax(axis=1) == digits.labels)
    print(f"{len(scores)} images on {workers} workers: {accuracy:.1%} right")


if __name__ == "__main__":
    main()
