"""Networks that learn to read handwritten digits, on a device: what `npu-tensor demo --train` prints."""

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
    """What a line of the step has recorded, as far as one device runs it. predicted: seconds of its kernels.

    A kernel counts for the line of its last op.
    """

    line: str
    device: str
    ops: int
    kernels: int
    predicted: float


class TrainingOutcome(NamedTuple):
    """A network that was trained. loss: mean of the last epoch. accuracy: on the images that were held out.

    complete: whether with all steps that lead to the accuracy.
    first_seconds, step_seconds: host time of the first step, with planning and compiling, and the median of the others;
    on a simulated device that of the simulation.
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
    """Return the steps of a whole training by network."""
    epoch = len(train_digits.load()[0].labels) // train_digits.BATCH_SIZE
    return {name: network.epochs * epoch for name, network in train_digits.NETWORKS.items()}


def train(
    name: str, dtype: str, device: str, report: Callable[[float, float], None], steps: int | None = None
) -> TrainingOutcome:
    """Train a network of examples/train_digits.py with parameters in `dtype`. NPUs emulate float32 as in the demo.

    report: called after each step with the share of the steps that are done, and the loss. steps: the most, 2 or more.
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
    """The rows of a step by line and device, in the order of recording. Lines are those of examples/train_digits.py."""
    parts: dict[tuple[str, str], StepPart] = {}
    for row in rows:
        if row.device != NO_DEVICE:
            text = linecache.getline(train_digits.__file__, int(row.line.rpartition(":")[2])).strip()
            part = parts.get((text, row.device), StepPart(text, row.device, 0, 0, 0.0))
            kernels, predicted = part.kernels + (row.predicted is not None), part.predicted + (row.predicted or 0)
            parts[text, row.device] = StepPart(text, row.device, part.ops + 1, kernels, predicted)
    return tuple(parts.values())


def complaints(outcomes: Iterable[TrainingOutcome]) -> list[str]:
    """What is wrong, in words; empty if every network that was trained to the end has learned to read."""
    return [
        f"{outcome.network}, {outcome.dtype}: accuracy {outcome.accuracy:.4f} is not above {LEAST_ACCURACY}"
        for outcome in outcomes
        if outcome.complete and not outcome.accuracy > LEAST_ACCURACY
    ]
