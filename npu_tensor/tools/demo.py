"""The main job on real input: read handwritten digits with a small network, once per dtype.

`run` returns what happened; `complaints` judges it; the command line prints both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.examples import train_digits
from npu_tensor.observe.explanation import Explanation
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris, with_default

__all__ = ["DTYPE_NAMES", "Digits", "DtypeOutcome", "classify", "complaints", "emulating", "load", "run"]

DTYPE_NAMES = ("float32", "bfloat16")
LEAST_ACCURACY = 0.95
LARGEST_DIFFERENCE = 0.005
HOT_RUNS = 20

Layers = Sequence[tuple[nt.Tensor, nt.Tensor]]


class Digits(NamedTuple):
    """The held-out images as rows of 64 values in 0..1, their labels, and (weight, bias) per layer.

    Pixels and parameters are float32, labels int64.
    """

    pixels: np.ndarray
    labels: np.ndarray
    layers: list[tuple[np.ndarray, np.ndarray]]


class DtypeOutcome(NamedTuple):
    """One dtype's outcome on a device. Times are seconds of host time from recording to values.

    On a simulated device that is the time of the simulation, not of the device.
    """

    dtype: str
    device: str
    accuracy: float
    first_seconds: float
    hot_seconds: float
    explanation: Explanation


def load() -> Digits:
    """Read the images and the trained weights."""
    _, held_out = train_digits.load()
    return Digits(held_out.images.reshape(-1, 64), held_out.labels, train_digits.trained_layers())


def classify(pixels: nt.Tensor, layers: Layers) -> nt.Tensor:
    """The digit of each row of `pixels` (images, 64), as a lazy int64 tensor (images,)."""
    x = pixels
    for weight, bias in layers[:-1]:
        x = nt.linear(x, weight, bias).relu()
    return nt.linear(x, *layers[-1]).argmax(dim=-1)


def emulating(uri: str) -> str:
    """The URIs with float32 emulated by NPUs, real or simulated, that do not say what to do with it."""
    return ",".join(with_default(parse_uri(single), "float32", "emulate").text for single in split_uris(uri))


def run(digits: Digits, dtype: str, device: str = "cpu") -> DtypeOutcome:
    """Classify the held-out images with weights and activations in `dtype`, once and `HOT_RUNS` times more.

    The first time includes planning and compiling. The conversion to `dtype` comes before it, as in loading a
    model. NPUs emulate float32 unless the URI says otherwise. Raises DeviceError if there is no such device.
    """
    device = emulating(device)
    with nt.default_device(device):
        return _run(digits, dtype, device)


def _run(digits: Digits, dtype: str, device: str) -> DtypeOutcome:
    pixels = nt.from_numpy(digits.pixels).to(dtype).realize()
    layers = [
        (nt.from_numpy(weight).to(dtype).realize(), nt.from_numpy(bias).to(dtype).realize())
        for weight, bias in digits.layers
    ]
    seconds = []
    for _ in range(1 + HOT_RUNS):
        start = time.perf_counter()
        predicted = classify(pixels, layers).numpy()
        seconds.append(time.perf_counter() - start)
    # Only now: explain plans and compiles as well.
    explanation = nt.explain(classify(pixels, layers))
    accuracy = float(np.mean(predicted == digits.labels))
    return DtypeOutcome(dtype, device, accuracy, seconds[0], statistics.median(seconds[1:]), explanation)


def complaints(results: Sequence[DtypeOutcome]) -> list[str]:
    """What is wrong with the results, in words; empty if the job was done."""
    problems = [
        f"{result.dtype}: accuracy {result.accuracy:.4f} is not above {LEAST_ACCURACY}"
        for result in results
        if not result.accuracy > LEAST_ACCURACY
    ]
    for result in results:
        rows = [row for row in result.explanation if row.device != "-"]
        elsewhere = [row for row in rows if row.device not in split_uris(result.device)]
        if 2 * len(elsewhere) > len(rows):
            there = len(rows) - len(elsewhere)
            problems.append(f"{result.dtype}: only {there} of {len(rows)} ops run on {result.device}, see the table")
    accuracies = [result.accuracy for result in results]
    if max(accuracies) - min(accuracies) > LARGEST_DIFFERENCE:
        problems.append(f"accuracies differ by more than {LARGEST_DIFFERENCE:.1%}")
    return problems
