"""Profile a block by op, by source line and by device.

Example:
    with nt.profile() as p:
        for batch in batches:
            model(batch).realize()
    print(p)                    # by op
    print(p.by("line"))         # by the lines that recorded the ops
    print(p.by("plan"))         # whole runs instead of kernels
    p.trace("trace.json")       # for ui.perfetto.dev or chrome://tracing
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from npu_tensor import events
from npu_tensor._util.units import duration
from npu_tensor.errors import ArgumentError
from npu_tensor.observe.drawing import page, text
from npu_tensor.observe.spans import Spans, StepRun, spans
from npu_tensor.observe.trace_file import write_trace
from npu_tensor.runtime.sim.timeline import recorded


class ProfileRow(NamedTuple):
    """All runs with one name on one device. Times are in seconds and summed over the runs, except percentiles.

    Fields are None if their value is not known.

    Attributes:
        name: Op, source line, device or plan.
        device: URI of the device.
        start: "cold" for the first run of a plan that was made during this profile, "warm" for all others.
        runs: Number of runs of kernels or plans.
        total: Total time, including `plan` and `compile`.
        plan: Planning time.
        compile: Time to look up or compile kernels.
        convert: Time of this phase; see `events.Phase`.
        sync: Time of this phase; see `events.Phase`.
        dispatch: Time of this phase; see `events.Phase`.
        run: Time of this phase; see `events.Phase`.
        p50: Median time of one run, without planning and compilation.
        p95: 95th percentile of the time of one run, without planning and compilation.
        nbytes: Memory traffic in bytes.
        bytes_per_second: Achieved memory throughput during `run`.
        operations_per_second: Achieved rate of multiplications and additions in matrix products during `run`.
        predicted: Predicted time on the real array if the device was simulated. The other times are then those of the
            simulation.
    """

    name: str
    device: str
    start: Literal["cold", "warm"]
    runs: int
    total: float
    plan: float
    compile: float
    convert: float
    sync: float
    dispatch: float
    run: float
    p50: float
    p95: float
    nbytes: int | None
    bytes_per_second: float | None
    operations_per_second: float | None
    predicted: float | None


_PHASES: Final = ("convert", "sync", "dispatch", "run")
_TIMES: Final = ("total", "plan", "compile", *_PHASES, "p50", "p95", "predicted")
_RATES: Final = {"bytes_per_second": "GB/s", "operations_per_second": "GFLOP/s"}
LEAST_RATE: Final = 0.01
"""Lower bound on displayed rates, in GB/s or GFLOP/s. Launch overhead dominates below it."""
_SHOWN: Final = ("name", "device", "start", "runs", *_TIMES, *_RATES)
_ALWAYS_SHOWN: Final = ("name", "device", "start", "runs", "total")
_FIGURES: Final = frozenset(("runs", *_TIMES, *_RATES.values()))


NOTHING: Final = "nothing ran"


class Table(tuple[ProfileRow, ...]):
    """Rows sorted by descending total time. Prints as a table; `rows` has them as dicts."""

    @property
    def rows(self) -> list[dict[str, object]]:
        """Rows as dicts, for example for pandas.DataFrame."""
        return [row._asdict() for row in self]

    def __str__(self) -> str:
        if not self:
            return NOTHING
        return "\n".join((*text.table(self._columns(), _FIGURES), *self._notes()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self:
            return page.paragraph(NOTHING)
        return page.table(self._columns(), _FIGURES, {}) + "".join(map(page.paragraph, self._notes()))

    def _columns(self) -> list[list[str]]:
        """Return headings and cells as text, without empty columns."""
        columns = [(name, [_text(name, getattr(row, name)) for row in self]) for name in _SHOWN]
        return [[_RATES.get(name, name), *cells] for name, cells in columns if any(cells) or name in _ALWAYS_SHOWN]

    def _notes(self) -> list[str]:
        if all(row.predicted is None for row in self):
            return []
        return ["Times of a simulated NPU are those of the simulation; predicted ones are for the real array."]


def _text(column: str, value: object) -> str:
    if value is None or (column in _TIMES and not value):
        return ""
    if column in _RATES:
        billions = value / 1e9  # type: ignore[operator]
        return f"{billions:.3g}" if billions >= LEAST_RATE else ""
    return duration(value) if column in _TIMES else str(value)  # type: ignore[arg-type]


Key = Callable[[StepRun], str]

_KEYS: Final[dict[str, Key]] = {
    "op": lambda run: run.event.kernel,
    # A kernel may cover several lines. Its time cannot be attributed to one of them.
    "line": lambda run: ", ".join(run.event.lines) or "(not known)",
    "device": lambda run: run.event.device,
}


class Profile:
    """Events recorded by `profile`. Tables are computed on access."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.end: float | None = None
        self._heard: list[events.Event] = []
        self._sorted: tuple[int, Spans] = 0, Spans()
        self._threads: dict[int, str] = {}

    def hear(self, event: events.Event) -> None:
        """Record an event from any thread."""
        self._heard.append(event)
        if event.thread not in self._threads and event.thread == threading.get_ident():
            self._threads[event.thread] = threading.current_thread().name

    @property
    def _spans(self) -> Spans:
        """Spans of the events so far."""
        if self._sorted[0] != len(self._heard):
            heard = tuple(self._heard)
            self._sorted = len(heard), spans(heard)
        return self._sorted[1]

    @property
    def seconds(self) -> float:
        """Duration of the block so far, in seconds."""
        return (time.perf_counter() if self.end is None else self.end) - self.start

    def by(self, what: Literal["op", "line", "device", "plan"]) -> Table:
        """Group the times by op, source line, device or plan.

        Ops fused into one kernel count as one. The row "(plan)" holds costs that cannot be attributed to a step:
        planning, and concurrent compilation of several kernels. The row "(fetch)" holds transfers of results from
        other devices to the reader.

        Args:
            what: "op", "line" (lines that recorded ops), "device" or "plan" (whole runs).

        Raises:
            ArgumentError: `what` has another value.
        """
        happened = self._spans
        if what == "plan":
            rows = [*_plans(happened)]
        elif what in _KEYS:
            rows = [*_steps(happened.runs, _KEYS[what]), *_planning(happened.plans)]
        else:
            raise ArgumentError(f"a profile is by {', '.join(_KEYS)}, plan, not by {what!r}")
        return Table(sorted((*rows, *_fetching(happened.fetches)), key=lambda row: -row.total))

    @property
    def rows(self) -> list[dict[str, object]]:
        """Rows of `by("op")` as dicts, for example for pandas.DataFrame."""
        return self.by("op").rows

    def __str__(self) -> str:
        return f"{self.heading}\n{self.by('op')}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{page.paragraph(self.heading)}{self.by('op')._repr_html_()}"

    @property
    def heading(self) -> str:
        """Summary of all times in one line."""
        happened = self._spans
        compiling = sum(built.compile_seconds for built in happened.plans)
        plan = sum(built.seconds for built in happened.plans) - compiling
        kernels = sum(run.event.seconds for run in happened.runs)
        runs = "run" if len(happened.runs) == 1 else "runs"
        builds = f"; built: {len(happened.builds)}" if happened.builds else ""
        return (
            f"{duration(self.seconds)}: planning {duration(plan)}, compiling {duration(compiling)}, "
            f"kernels {duration(kernels)} in {len(happened.runs)} {runs}{builds}"
        )

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON trace for ui.perfetto.dev or chrome://tracing. See `trace_file.trace_events`."""
        write_trace(path, self._spans, self._threads, self.start)


def _steps(runs: Sequence[StepRun], key: Key) -> Iterator[ProfileRow]:
    """Yield kernel rows, one per key, device and start."""
    groups: defaultdict[tuple[str, str, bool], list[StepRun]] = defaultdict(list)
    for run in runs:
        groups[key(run), run.event.device, run.cold].append(run)
    for (name, device, cold), members in groups.items():
        yield _row(name, device, cold, members)


def _planning(plans: Sequence[events.PlanBuilt]) -> Iterator[ProfileRow]:
    """Yield the row "(plan)". Its compile time excludes compilations attributed to the cold runs of steps."""
    if plans:
        planning = [built.seconds - built.compile_seconds for built in plans]
        kernels = [sum(kernel.seconds for kernel in built.kernels) for built in plans]
        rest = [max(0.0, built.compile_seconds - sum_) for built, sum_ in zip(plans, kernels, strict=True)]
        each = [plan + compiling for plan, compiling in zip(planning, rest, strict=True)]
        yield _empty("(plan)", "cpu", "cold", each)._replace(plan=sum(planning), compile=sum(rest))


def _fetching(fetches: Sequence[events.Phase]) -> Iterator[ProfileRow]:
    by_device: defaultdict[str, list[events.Phase]] = defaultdict(list)
    for phase in fetches:
        by_device[phase.device].append(phase)
    for device, phases in by_device.items():
        times: dict[str, Any] = dict.fromkeys({phase.name for phase in phases}, 0.0)
        for phase in phases:
            times[phase.name] += phase.seconds
        yield _empty("(fetch)", device, "warm", [phase.seconds for phase in phases])._replace(**times)


def _plans(happened: Spans) -> Iterator[ProfileRow]:
    """Yield rows of whole runs, one per plan and start. Time between kernels counts only for the total."""
    built = {id(each.plan): each for each in happened.plans}
    steps: defaultdict[tuple[int, bool], list[StepRun]] = defaultdict(list)
    for run in happened.runs:
        steps[id(run.event.plan), run.cold].append(run)
    groups: defaultdict[tuple[int, bool], list[events.PlanRan]] = defaultdict(list)
    for ran in happened.plan_runs:
        plan = id(ran.plan)
        groups[plan, plan in built and (plan, True) not in groups].append(ran)
    for (plan, cold), runs in groups.items():
        members = steps[plan, cold]
        names = list(dict.fromkeys(run.event.kernel for run in members))
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" if names else "(no kernel)"
        devices = ", ".join(dict.fromkeys(run.event.device for run in members)) or "cpu"
        whole = _empty(name, devices, "cold" if cold else "warm", [run.seconds for run in runs])
        if members:
            row = _row(name, devices, cold, members)
            whole = row._replace(runs=whole.runs, total=whole.total, p50=whole.p50, p95=whole.p95)
        if cold:
            seconds, compiling = built[plan].seconds, built[plan].compile_seconds
            whole = whole._replace(total=whole.total + seconds, plan=seconds - compiling, compile=compiling)
        yield whole


def _empty(name: str, device: str, start: Literal["cold", "warm"], each: Sequence[float]) -> ProfileRow:
    """Create a row without phases from the seconds of each run."""
    p50, p95 = np.percentile(each, (50, 95)).tolist()
    return ProfileRow(name, device, start, len(each), sum(each), 0, 0, 0, 0, 0, 0, p50, p95, None, None, None, None)


def _row(name: str, device: str, cold: bool, runs: Sequence[StepRun]) -> ProfileRow:
    row = _empty(name, device, "cold" if cold else "warm", [run.event.seconds for run in runs])
    phases: dict[str, Any] = {name: sum(run.event.phase(name) for run in runs) for name in _PHASES}
    compiling = sum(run.compile_seconds or 0.0 for run in runs)
    counted = [run.event.simulated.seconds for run in runs if run.event.simulated is not None]
    known = [run for run in runs if run.nbytes is not None]
    return row._replace(
        **phases,
        compile=compiling,
        total=row.total + compiling,
        nbytes=sum(run.nbytes or 0 for run in known) if known else None,
        bytes_per_second=_rate(known, lambda run: run.nbytes),
        operations_per_second=_rate([run for run in runs if run.operations is not None], lambda run: run.operations),
        predicted=sum(counted) if counted else None,
    )


def _rate(runs: Sequence[StepRun], amount: Callable[[StepRun], int | None]) -> float | None:
    """Return the amount per second of the phase "run". None for simulated arrays, whose run time means nothing."""
    runs = [run for run in runs if run.event.simulated is None]
    seconds = sum(run.event.phase("run") for run in runs)
    return sum(amount(run) or 0 for run in runs) / seconds if seconds else None


@contextmanager
def profile(tiles: bool = True) -> Iterator[Profile]:
    """Profile a `with` block, in all threads. Profiles may overlap.

    Asynchronous devices synchronize after every step. The profile keeps every event, some hundred bytes per kernel run.

    Args:
        tiles: True to record the activity of each tile for `Profile.trace`, in the first run of every design on a
            simulated array. Simulating that run takes two to four times as long.
    """
    result = Profile()
    with recorded() if tiles else nullcontext(), events.listen(result.hear):
        try:
            yield result
        finally:
            result.end = time.perf_counter()
