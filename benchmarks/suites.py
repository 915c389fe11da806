"""Suites: workloads, contenders and the resulting rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import npu_tensor as nt

from . import cache, published
from .cases import GROUPS, Case, cases
from .language import CASES, language_rows
from .peers.library import Lacking, Library
from .peers.npu_tensor import NAME
from .predicted import GENERATIONS, predicted, predicted_on_cpu
from .results import Kind, LeftOut, Row
from .session import Amount, Failed, Found, left_out, measured, row, simulated
from .timing import percentiles


class Task(NamedTuple):
    """Options of a suite.

    Attributes:
        libraries: Contenders that are timed.
        simulators: URIs of simulated NPUs.
        amount: Amount of measurements.
        quick: True for a quick run.
        only: Selected workloads; empty for all.
    """

    libraries: list[Library]
    simulators: tuple[str, ...]
    amount: Amount
    quick: bool
    only: frozenset[str]


class Suite(NamedTuple):
    """A suite. `workloads` are the names for --only; `run` yields rows and omissions."""

    what: str
    workloads: tuple[str, ...]
    run: Callable[[Task], Iterator[Found]]


def _predictions(case: Case) -> Iterator[Found]:
    """Predict a case for every generation of NPUs, and for the processor if an NPU supports it.

    NPU predictions are then compared with a CPU prediction.
    """
    try:
        recorded = case.recorded()
        answers = {generation: predicted(generation, *recorded) for generation in GENERATIONS}
        on_cpu = predicted_on_cpu(recorded[0])
    except nt.NpuTensorError as error:
        yield left_out(case, Failed(f"no prediction: {error}"), "", NAME)
        return
    has_rows = False
    for generation, answer in answers.items():
        if isinstance(answer, str):
            yield left_out(case, Lacking(answer), generation, NAME)
        else:
            has_rows = True
            yield row(case, generation, NAME, "predicted", answer.seconds)._replace(note=answer.note)
    if has_rows:
        yield row(case, "cpu", NAME, "predicted", on_cpu)


def _cases(suite: str, what: str, for_npus: bool = True) -> Suite:
    """Create a suite that measures cases on all contenders. Those for NPUs are also predicted and simulated."""

    def run(task: Task) -> Iterator[Found]:
        for case in cases(only=task.only, suite=suite, quick=task.quick):
            yield from measured(case, task.libraries, task.amount)
            if for_npus:
                yield from _predictions(case)
                yield from (simulated(case, uri) for uri in task.simulators)

    names = dict.fromkeys(workload.name for group in GROUPS if group.suite == suite for workload in group.workloads)
    return Suite(what, tuple(names), run)


LOOKUPS: Final = 100
QUICK_LOOKUPS: Final = 30


def _cache(task: Task) -> Iterator[Found]:
    """Measure the lookup time of a kernel in each location. Kernels for the simulator need a compiler."""
    from npu_tensor.runtime.sim import host_compiler

    if reason := host_compiler.reason():
        yield LeftOut(str(reason), "cache", contender=NAME)
        return
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryDirectory() as ready,
        nt.config.scope(cache_path=empty),
    ):
        looked_up, build = cache.look_ups(Path(ready), QUICK_LOOKUPS if task.quick else LOOKUPS)
    for place, samples in looked_up.items():
        if not task.only or place in task.only:
            yield Row(
                "cache", place, "bfloat16", [[4096]], "4096", cache.DEVICE, NAME, "measured",
                *percentiles(samples), cold=build, iterations=len(samples), note="cold: built",
            )  # fmt: skip


def _title(row: published.Measurement) -> str:
    columns = f"{row.columns} column{'s' if row.columns > 1 else ''}"
    return f"{row.kind} {row.operand}, {'x'.join(map(str, row.extents))}, {columns} of {row.array.device}: {row.name}"


def _kernel_model(task: Task) -> Iterator[Found]:
    """Compare the cost model with published times of matrix products with known tiles."""
    for product in PRODUCTS:
        title = _title(product)
        if task.only and title not in task.only:
            continue
        m, k, n = product.extents
        figures: tuple[tuple[str, Kind, float], ...] = (
            (product.source["where"], "published", product.seconds),
            (NAME, "predicted", published.predicted(product)),
        )
        for contender, kind, seconds in figures:
            yield Row(
                "kernel_model", title, product.stored, [[m, k], [k, n]], f"{m}x{k}", product.array.device,
                contender, kind, seconds, flops=2 * product.macs, note=product.source["kernel"],
            )  # fmt: skip


PRODUCTS: Final = tuple(row for row in published.measurements() if row.tile is not None and row.name.startswith("taka"))
"""Products of arXiv 2512.13282: one kernel per dtype and array."""

SUITES: Final = {
    "dispatch": _cases("dispatch", "what calls cost on 16 and 1,024 elements", for_npus=False),
    "ops": _cases("ops", "single ops"),
    "chains": _cases("chains", "ops that fuse into one kernel"),
    "matmul": _cases("matmul", "matrix products by size, and from which size on an NPU takes less"),
    "mlp": _cases("mlp", "inference of a multilayer perceptron"),
    "transformer": _cases("transformer", "a transformer block"),
    "language": Suite(
        "language models: a prompt, and each further token", CASES, lambda task: language_rows(task.only, task.quick)
    ),
    "cache": Suite("finding kernels", cache.PLACES, _cache),
    "kernel_model": Suite(
        "predicted and published times of NPU kernels", tuple(dict.fromkeys(map(_title, PRODUCTS))), _kernel_model
    ),
}
