"""Command `npu-tensor demo`: classifies handwritten digits with a small network, or trains networks on them.

The functions return the outcomes and check them. The command prints both.
"""

from __future__ import annotations

import linecache
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import click
import numpy as np

import npu_tensor as nt
from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.examples import train_digits
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.observe.explanation import NO_DEVICE, Explanation, Row
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris, with_default

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


class StepPart(NamedTuple):
    """Ops of one source line of the step on one device. A kernel counts for the line of its last op.

    `predicted` is the predicted time of the kernels, in seconds.
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
        rows = [row for row in result.explanation if row.device != NO_DEVICE]
        there = sum(row.device in split_uris(result.device) for row in rows)
        if 2 * there < len(rows):
            problems.append(f"{result.dtype}: only {there} of {len(rows)} ops run on {result.device}, see the table")
    accuracies = [result.accuracy for result in results]
    if max(accuracies) - min(accuracies) > LARGEST_DIFFERENCE:
        problems.append(f"accuracies differ by more than {LARGEST_DIFFERENCE:.1%}")
    return problems


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
    return TrainingOutcome(name, dtype, count, mean, accuracy, *times, complete, step_parts(explanation))


def step_parts(rows: Iterable[Row]) -> tuple[StepPart, ...]:
    """Group the rows of a step by line of examples/train_digits.py and device, in recording order."""
    parts: dict[tuple[str, str], StepPart] = {}
    for row in rows:
        if row.device != NO_DEVICE:
            text = linecache.getline(train_digits.__file__, int(row.line.rpartition(":")[2])).strip()
            part = parts.get((text, row.device), StepPart(text, row.device, 0, 0, 0.0))
            kernels, predicted = part.kernels + (row.predicted is not None), part.predicted + (row.predicted or 0)
            parts[text, row.device] = StepPart(text, row.device, part.ops + 1, kernels, predicted)
    return tuple(parts.values())


@click.command()
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "both"]),
    default="both",
    show_default=True,
    help="Element type of weights and activations.",
)
@click.option("--train", "training", is_flag=True, help="Train networks that read the digits.")
@click.option("--steps", type=click.IntRange(2), help="Training steps; by default until the accuracy is reached.")
@device_option()
@search_path_options
def demo(dtype: str, training: bool, steps: int | None, device: str) -> None:
    """Read handwritten digits with a small network.

    Prints where every node of the graph runs and why, the accuracy and the time. Exit code 1 if the accuracy
    is too low or depends on the dtype, or if most nodes run on another device.

    With --train, trains a multilayer perceptron and a convolutional network, and prints loss, accuracy, the time of a
    step, and where forward and backward ran. On a simulated NPU a step takes seconds: give --steps there. The accuracy
    is not judged then.
    """
    dtypes = DTYPE_NAMES if dtype == "both" else (dtype,)
    if "float32" in dtypes and emulating(device) != device:
        click.echo("NPUs emulate float32 in this demo (float32=emulate); ?float32=exact leaves it to the CPU\n")
    if steps is not None and not training:
        raise click.UsageError("--steps goes with --train")
    if problems := _train(dtypes, device, steps) if training else _classify(dtypes, device):
        raise click.ClickException("; ".join(problems))


def _classify(dtypes: Sequence[str], device: str) -> list[str]:
    """Classify the digits with the trained weights. Return the problems."""
    digits = load()
    with device_errors():
        results = [run(digits, name, device) for name in dtypes]
    for result in results:
        click.echo(f"{result.dtype}: where every node runs\n{result.explanation}\n")
    title = f"{len(digits.labels)} held-out images"
    headings = ["dtype", "accuracy", "first run, ms", f"median of {HOT_RUNS} more, ms"]
    rows = [
        [result.dtype, f"{result.accuracy:.4f}", f"{result.first_seconds * 1e3:.2f}", f"{result.hot_seconds * 1e3:.3f}"]
        for result in results
    ]
    if _is_simulated(device):
        title += "; times of runs are those of the simulator, predicted is for the real array"
        headings[2:] = ["first simulation, ms", f"median of {HOT_RUNS} more simulations, ms", "predicted in all, ms"]
        for row, result in zip(rows, results, strict=True):
            row.append(f"{result.explanation.predicted * 1e3:.3f}")
    print_table(title, headings, rows)
    return complaints(results)


def _train(dtypes: Sequence[str], device: str, steps: int | None) -> list[str]:
    """Train every network in every dtype. Return the problems."""
    from rich.console import Console
    from rich.progress import Progress

    counts = step_counts()
    if steps is not None and steps > min(counts.values()):
        known = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise click.BadParameter(
            f"{steps} is more than a whole training ({known}); give at most {min(counts.values())}",
            param_hint="--steps",
        )
    console = Console(stderr=True)
    outcomes = []
    for dtype in dtypes:
        for name in train_digits.NETWORKS:
            with Progress(console=console, transient=True, disable=not console.is_terminal) as bar, device_errors():
                task = bar.add_task("", total=1.0)

                def report(done: float, loss: float) -> None:
                    bar.update(task, completed=done, description=f"{name} {dtype}, loss {loss:.3f}")  # noqa: B023

                outcomes.append(train(name, dtype, device, report, steps))
    for outcome in outcomes:
        print_table(
            f"{outcome.network}, {outcome.dtype}: where the ops of a step run",
            ("line", "device", "ops", "kernels", "predicted, us"),
            ((*part[:4], f"{part.predicted * 1e6:.0f}") for part in outcome.parts),
            ("ops", "kernels", "predicted, us"),
        )
    headings = ("steps", "loss", "accuracy", "first step, ms", "median of the others, ms")
    simulated = "; steps take the time of the simulator" if _is_simulated(device) else ""
    print_table(
        f"trained networks, and their accuracy on images that were held out{simulated}",
        ("network", "dtype", *headings),
        (
            (
                outcome.network,
                outcome.dtype,
                outcome.steps,
                f"{outcome.loss:.4f}",
                f"{outcome.accuracy:.4f}",
                f"{outcome.first_seconds * 1e3:.2f}",
                f"{outcome.step_seconds * 1e3:.3f}",
            )
            for outcome in outcomes
        ),
        headings,
    )
    return [
        f"{outcome.network}, {outcome.dtype}: accuracy {outcome.accuracy:.4f} is not above {LEAST_ACCURACY}"
        for outcome in outcomes
        if outcome.complete and not outcome.accuracy > LEAST_ACCURACY
    ]


def _is_simulated(device: str) -> bool:
    return any(parse_uri(uri).scheme == "sim" for uri in split_uris(device))
