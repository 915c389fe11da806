"""Training steps beside PyTorch eager: python -m benchmarks.training --peer torch --json FILE.

A step is forward, backward and Adam, in float32, from equal parameters on equal data. npu_tensor captures it with
nt.jit. Both libraries read the loss of each step, interleaved in one session. Memory is then measured over many steps.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import numpy as np
from rich.progress import track

import npu_tensor as nt

from . import peers
from .cases import disagreement
from .peers.npu_tensor import NAME
from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Call, Effort, medians

PEERS: Final = ("torch",)
ASKED_MEAN, ASKED_SMALLEST = 1.5, 1.0
TOLERANCE: Final = 1e-3
"""Tolerance of the losses of the first steps, relative."""

CLASSES: Final = 10


class Workload(NamedTuple):
    """A training workload.

    Attributes:
        model: Function that creates the model from the `nn` module of a library.
        shape: Shape of the input.
        has_classes: True if labels are classes. Other labels have the shape of the input.
    """

    model: Callable[[Any], Any]
    shape: tuple[int, ...]
    has_classes: bool = True


def _mlp(nn: Any) -> Any:
    layers = [part for sizes in pairwise((784, 512, 512)) for part in (nn.Linear(*sizes), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(512, CLASSES))


def _cnn(nn: Any) -> Any:
    convolutions = [
        part
        for channels in pairwise((1, 16, 32))
        for part in (nn.Conv2d(*channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * 7 * 7, CLASSES))


def _transformer_layer(nn: Any) -> Any:
    return nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True)


WORKLOADS: Final = {
    "mlp, batch 64": Workload(_mlp, (64, 784)),
    "mlp, batch 512": Workload(_mlp, (512, 784)),
    "cnn, batch 64": Workload(_cnn, (64, 1, 28, 28)),
    "transformer layer, 16 x 64 tokens": Workload(_transformer_layer, (16, 64, 128), has_classes=False),
}


def _step(library: Any, workload: Workload, state: Mapping[str, np.ndarray] | None = None) -> tuple[Any, Call]:
    """Create a model, optionally with the parameters in `state`, and a call that makes a step and returns the loss."""
    model = workload.model(library.nn)
    if state is not None:
        model.load_state_dict({name: library.from_numpy(value) for name, value in state.items()})
    optimizer = library.optim.Adam(model.parameters())
    drawn = np.random.default_rng(0)
    images = library.from_numpy(drawn.standard_normal(workload.shape, np.float32))
    labels: Any = drawn.standard_normal(workload.shape, np.float32)
    loss_of = library.nn.MSELoss()
    if workload.has_classes:
        labels, loss_of = drawn.integers(0, CLASSES, workload.shape[0]), library.nn.CrossEntropyLoss()
    labels = library.from_numpy(labels)

    def step(images: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = nt.jit(step) if library is nt else step
    return model, lambda: run(images, labels).item()


def rows_of(
    libraries: Mapping[str, Any], workloads: Mapping[str, Workload], effort: Effort
) -> Iterator[dict[str, Any]]:
    """Yield a row per workload. `libraries` holds ours and the peer, if available. Speedups need the peer."""
    for what, workload in track(workloads.items(), "measuring"):
        calls: dict[str, Call] = {}
        state, losses = None, []
        for name, library in libraries.items():
            model, calls[name] = _step(library, workload, state)
            if state is None:
                state = {key: value.numpy().copy() for key, value in model.state_dict().items()}
            losses.append(np.array([calls[name]() for _ in range(3)]))
        if disagreement(losses[0], losses[-1]) > TOLERANCE:
            raise AssertionError(f"{what}: losses differ: {losses}")
        ours, *others = medians(calls, effort).values()
        peer = others[0] if others else None
        milliseconds = {"ours_ms": ours * 1e3, "peer_ms": peer and peer * 1e3}
        yield {"what": what, **milliseconds, "speedup": peer and peer / ours}


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def memory(steps: int) -> dict[str, Any]:
    """Measure the growth of process memory and of tensor memory, in bytes, after the first tenth of the steps."""
    _, call = _step(nt, Workload(_mlp, (8, 784)))
    before = (0, 0)
    for number in track(range(steps), "steps"):
        if number == steps // 10:
            before = _resident(), nt.memory_stats()["in_use"]
        call()
    return {"steps": steps, "gained": _resident() - before[0], "tensors": nt.memory_stats()["in_use"] - before[1]}


@benchmark("Few rounds and steps: to see that it works, not for figures.")
@click.option("--peer", type=click.Choice(PEERS), default=PEERS[0], show_default=True, help="Library to compare with.")
@click.option("--steps", type=click.IntRange(10), default=10_000, show_default=True, help="Over which memory is flat.")
def main(peer: str, steps: int, quick: bool) -> Outcome:
    """Measure steps of training: time of PyTorch eager over that of npu_tensor."""
    names = [NAME, *(library.name for library in peers.load([peer], nt.get_num_threads())[0])]
    libraries = {name: importlib.import_module(name) for name in names}
    with nt.default_device("cpu"):
        rows = list(rows_of(libraries, WORKLOADS, QUICK_EFFORT if quick else FULL_EFFORT))
        flat = memory(min(steps, 100) if quick else steps)
    summary: dict[str, Any] = {}
    if speedups := [row["speedup"] for row in rows if row["speedup"]]:
        mean, smallest = statistics.geometric_mean(speedups), min(speedups)
        met = mean >= ASKED_MEAN and smallest >= ASKED_SMALLEST
        summary = {"mean": mean, "smallest": smallest, "met": met}
    columns = ("ms = ours_ms:.2f", "PyTorch ms = peer_ms:.2f", "speedup:.2f")
    return Outcome(
        {"rows": rows, "summary": summary, "memory": flat},
        [
            table("a step: npu_tensor inside nt.jit and PyTorch eager", rows, "network = what", *columns),
            table("speedups", [summary], "geometric mean = mean:.2f", "smallest:.2f", "met"),
            table("bytes gained after a tenth of the steps", [flat], "steps:,", "process = gained:,", "tensors:,"),
        ],
    )


if __name__ == "__main__":
    main()
