"""Training of networks on handwritten digits, for `npu-tensor demo --train`."""

from __future__ import annotations

import linecache
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

import npu_tensor as nt
from npu_tensor.examples import train_digits
from npu_tensor.observe.explanation import NO_DEVICE, Row
from npu_tensor.tools.demo import LEAST_ACCURACY, emulating

__all__ = ["StepPart", "TrainingOutcome", "complaints", "parts_of", "step_counts", "train"]


class StepPart(NamedTuple):
    """Ops of one source line of the step on one device. A kernel counts for the line of its last op.

    Attributes:
        line: Text of the source line.
        device: URI of the device.
        ops: Number of ops.
        kernels: Number of kernels.
        predicted: Predicted time of the kernels, in seconds.
    """

    line: str
    device: str
    ops: int
    kernels: int
    predicted: float


class TrainingOutcome(NamedTuple):
    """Outcome of a training. Times are host times; for a simulated device they measure the simulation.

    Attributes:
        network: Name of the network.
        dtype: Dtype of the parameters.
        steps: Number of steps.
        loss: Mean loss of the last epoch.
        accuracy: Accuracy on the held-out images.
        first_seconds: Time of the first step, with planning and compilation.
        step_seconds: Median time of the other steps.
        complete: True if all steps of a whole training were done.
        parts: Ops and kernels of a step by source line and device.
    """

    network: str
    dtype: str
    steps: int
    loss: float
    accuracy: float
    first_seconds: float
    step_seconds: float
    complete: bool
    parts: tuple[StepPart, ...]


def step_counts() -> dict[str, int]:
    """Return the number of steps of a whole training, by network."""
    epoch = len(train_digits.load()[0].labels) // train_digits.BATCH_SIZE
    return {name: network.epochs * epoch for name, network in train_digits.NETWORKS.items()}


def train(
    name: str, dtype: str, device: str, report: Callable[[float, float], None], steps: int | None = None
) -> TrainingOutcome:
    """Train a network of examples/train_digits.py.

    Args:
        name: Name of the network.
        dtype: Dtype of the parameters.
        device: Device URI. NPUs emulate float32 as in the demo.
        report: Callback after each step, with the completed share of the steps and the loss.
        steps: Upper bound on the steps, at least 2; None for a whole training.
    """
    training, held_out = train_digits.load()
    with nt.default_device(emulating(device)):
        trainer = train_digits.Trainer(train_digits.NETWORKS[name], training, dtype)
        losses, seconds, start = [], [], time.perf_counter()
        count = trainer.steps if steps is None else min(steps, trainer.steps)
        for loss in islice(trainer.losses(), count):
            losses.append(loss)
            seconds.append(time.perf_counter() - start)
            report(len(losses) / count, loss)
            start = time.perf_counter()
        explanation = train_digits.Trainer.step.explain(trainer, *next(trainer.batches()))
        accuracy = trainer.accuracy(held_out)
    mean = statistics.fmean(losses[-trainer.epoch :])
    times = seconds[0], statistics.median(seconds[1:])
    complete = count == trainer.steps
    return TrainingOutcome(name, dtype, count, mean, accuracy, *times, complete, parts_of(explanation))


def parts_of(rows: Iterable[Row]) -> tuple[StepPart, ...]:
    """Group the rows of a step by line of examples/train_digits.py and device, in recording order."""
    parts: dict[tuple[str, str], StepPart] = {}
    for row in rows:
        if row.device != NO_DEVICE:
            text = linecache.getline(train_digits.__file__, int(row.line.rpartition(":")[2])).strip()
            part = parts.get((text, row.device), StepPart(text, row.device, 0, 0, 0.0))
            kernels, predicted = part.kernels + (row.predicted is not None), part.predicted + (row.predicted or 0)
            parts[text, row.device] = StepPart(text, row.device, part.ops + 1, kernels, predicted)
    return tuple(parts.values())


def complaints(outcomes: Iterable[TrainingOutcome]) -> list[str]:
    """Return a sentence for each complete training with too low an accuracy."""
    return [
        f"{outcome.network}, {outcome.dtype}: accuracy {outcome.accuracy:.4f} is not above {LEAST_ACCURACY}"
        for outcome in outcomes
        if outcome.complete and not outcome.accuracy > LEAST_ACCURACY
    ]
