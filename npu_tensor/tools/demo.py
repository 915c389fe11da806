"""Demo on real input: classify handwritten digits with a small network, once per dtype.

`run` returns the outcome and `complaints` checks it. The command line prints both.
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
    """Held-out images and trained parameters.

    Attributes:
        pixels: float32 rows of 64 values in 0..1.
        labels: int64 label of each image.
        layers: float32 (weight, bias) per layer.
    """

    pixels: np.ndarray
    labels: np.ndarray
    layers: list[tuple[np.ndarray, np.ndarray]]


class DtypeOutcome(NamedTuple):
    """Outcome for one dtype on a device.

    Times are host times in seconds, from recording to values. For a simulated device they measure the simulation.
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
    """Classify each row of `pixels` (images, 64) lazily. Return the digits as an int64 tensor (images,)."""
    x = pixels
    for weight, bias in layers[:-1]:
        x = nt.linear(x, weight, bias).relu()
    return nt.linear(x, *layers[-1]).argmax(dim=-1)


def emulating(uri: str) -> str:
    """Return the URIs with float32 emulation on NPUs, real or simulated, that do not set the option."""
    return ",".join(with_default(parse_uri(single), "float32", "emulate").text for single in split_uris(uri))


def run(digits: Digits, dtype: str, device: str = "cpu") -> DtypeOutcome:
    """Classify the held-out images in `dtype`, once cold and `HOT_RUNS` times warm.

    The first time includes planning and compilation, but not the conversion to `dtype`, which is part of loading a
    model.

    Args:
        digits: Images and parameters.
        dtype: Dtype of weights and activations.
        device: Device URI. NPUs emulate float32 unless it sets another option.

    Raises:
        DeviceError: The device does not exist.
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
    # Explain comes last, because it plans and compiles as well.
    explanation = nt.explain(classify(pixels, layers))
    accuracy = float(np.mean(predicted == digits.labels))
    return DtypeOutcome(dtype, device, accuracy, seconds[0], statistics.median(seconds[1:]), explanation)


def complaints(results: Sequence[DtypeOutcome]) -> list[str]:
    """Return the problems of the results as sentences; empty if all is well."""
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
