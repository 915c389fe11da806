"""Command `npu-tensor demo`: classifies handwritten digits with a small network, or trains networks on them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris

__all__ = ["demo"]


@click.command()
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "both"]),
    default="both",
    show_default=True,
    help="Element type of weights and activations.",
)
@click.option("--train", is_flag=True, help="Train networks that read the digits.")
@click.option("--steps", type=click.IntRange(2), help="Of each training; as many as lead to the accuracy if not given.")
@device_option()
@search_path_options
def demo(dtype: str, train: bool, steps: int | None, device: str) -> None:
    """Read handwritten digits with a small network.

    Prints where every node of the graph runs and why, the accuracy and the time. Exit code 1 if the accuracy
    is too low or depends on the dtype, or if most nodes run on another device.

    With --train, trains a multilayer perceptron and a convolutional network, and prints loss, accuracy, the time of a
    step, and where forward and backward ran. On a simulated NPU a step takes seconds: give --steps there. The accuracy
    is not judged then.
    """
    from npu_tensor.tools.demo import DTYPE_NAMES, emulating

    dtypes = DTYPE_NAMES if dtype == "both" else (dtype,)
    if "float32" in dtypes and emulating(device) != device:
        click.echo("NPUs emulate float32 in this demo (float32=emulate); ?float32=exact leaves it to the CPU\n")
    if steps is not None and not train:
        raise click.UsageError("--steps goes with --train")
    if found := _train(dtypes, device, steps) if train else _read(dtypes, device):
        raise click.ClickException("; ".join(found))


def _read(dtypes: Sequence[str], device: str) -> list[str]:
    """Classify the digits with the trained weights. Return the problems."""
    from npu_tensor.tools import demo as digits_demo

    digits = digits_demo.load()
    with device_errors():
        results = [digits_demo.run(digits, name, device) for name in dtypes]
    for result in results:
        click.echo(f"{result.dtype}: where every node runs\n{result.explanation}\n")
    title = f"{len(digits.labels)} held-out images"
    headings = ["dtype", "accuracy", "first run, ms", f"median of {digits_demo.HOT_RUNS} more, ms"]
    rows = [
        [
            result.dtype,
            f"{result.accuracy:.4f}",
            f"{result.first_seconds * 1e3:.2f}",
            f"{result.hot_seconds * 1e3:.3f}",
        ]
        for result in results
    ]
    if _is_simulated(device):
        title += "; times of runs are those of the simulator, predicted is for the real array"
        headings[2:] = ["first simulation, ms", f"median of {digits_demo.HOT_RUNS} more simulations, ms"]
        headings.append("predicted in all, ms")
        for row, result in zip(rows, results, strict=True):
            row.append(f"{result.explanation.predicted * 1e3:.3f}")
    print_table(title, headings, rows)
    return digits_demo.complaints(results)


def _train(dtypes: Sequence[str], device: str, steps: int | None) -> list[str]:
    """Train every network in every dtype. Return the problems."""
    from rich.console import Console
    from rich.progress import Progress

    from npu_tensor.examples.train_digits import NETWORKS
    from npu_tensor.tools.demo_training import complaints, step_counts, train

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
        for name in NETWORKS:
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
    return complaints(outcomes)


def _is_simulated(device: str) -> bool:
    return any(parse_uri(uri).scheme == "sim" for uri in split_uris(device))
