"""profile: where the time of a block goes, by op, by line of the program and by device.

Example:
    with nt.profile() as p:
        for batch in batches:
            model(batch).realize()
    print(p)                    # by op
    print(p.by("line"))         # by the lines that recorded the ops
    print(p.by("plan"))         # whole runs, not one kernel
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

__all__ = ["Profile", "ProfileRow", "Table", "profile"]


class ProfileRow(NamedTuple):
    """What is known of all runs with one name on one device; times in seconds, of all runs together.

    name: op, line, device or plan. start: "cold", of the first run of a plan that was made under this profile, or
    "warm", of all others. runs: how many, of kernels or of plans. total: with plan and compile. plan: making plans.
    compile: finding or compiling kernels. convert, sync, dispatch, run: as in `events.Phase`. p50, p95: percentiles of
    one run without plan and compile. nbytes: read and written in memory. bytes_per_second, operations_per_second:
    achieved while it ran; operations are multiplications and additions of matrix products. None where something is not
    known. predicted: for the real array, where it was simulated; the other times are then those of the simulation.
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
"""The least GB/s or GFLOP/s that is shown: kernels that do less are done with their launch."""
_SHOWN: Final = ("name", "device", "start", "runs", *_TIMES, *_RATES)
_ALWAYS_SHOWN: Final = ("name", "device", "start", "runs", "total")
_FIGURES: Final = frozenset(("runs", *_TIMES, *_RATES.values()))


NOTHING: Final = "nothing ran"


class Table(tuple[ProfileRow, ...]):
    """Rows, those that took most first. Prints as a table; `rows` has them as dicts."""

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts, as pandas.DataFrame takes them."""
        return [row._asdict() for row in self]

    def __str__(self) -> str:
        if not self:
            return NOTHING
        return "\n".join((*text.table(self._columns(), _FIGURES, text.line_width()), *self._notes()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self:
            return page.paragraph(NOTHING)
        return page.table(self._columns(), _FIGURES, {}) + "".join(map(page.paragraph, self._notes()))

    def _columns(self) -> list[list[str]]:
        """Headings and cells as text, without the columns in which there is nothing."""
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
    # One kernel may cover several lines; its time cannot be divided between them.
    "line": lambda run: ", ".join(run.event.lines) or "(not known)",
    "device": lambda run: run.event.device,
}


class Profile:
    """What `profile` has heard so far. Everything is worked out when it is asked for."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.end: float | None = None
        self._heard: list[events.Event] = []
        self._sorted: tuple[int, Spans] = 0, Spans()
        self._threads: dict[int, str] = {}

    def hear(self, event: events.Event) -> None:
        """Listen, in whichever thread."""
        self._heard.append(event)
        if event.thread not in self._threads and event.thread == threading.get_ident():
            self._threads[event.thread] = threading.current_thread().name

    @property
    def _spans(self) -> Spans:
        """What was heard until now."""
        if self._sorted[0] != len(self._heard):
            heard = tuple(self._heard)
            self._sorted = len(heard), spans(heard)
        return self._sorted[1]

    @property
    def seconds(self) -> float:
        """How long the block took, or has taken until now."""
        return (time.perf_counter() if self.end is None else self.end) - self.start

    def by(self, what: Literal["op", "line", "device", "plan"]) -> Table:
        """The times by op (those of one kernel are one), by line that recorded ops, by device, or of whole plans.

        "(plan)" is what cannot be told apart by step: making plans, and compiling several kernels at once. "(fetch)"
        is bringing results of other devices to the one who looks at them. Raises ArgumentError.
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
        """The rows of `by("op")` as dicts, as pandas.DataFrame takes them."""
        return self.by("op").rows

    def __str__(self) -> str:
        return f"{self.heading}\n{self.by('op')}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{page.paragraph(self.heading)}{self.by('op')._repr_html_()}"

    @property
    def heading(self) -> str:
        """All times in one line."""
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
        """Write a trace for ui.perfetto.dev or chrome://tracing, as JSON. See `trace_file.trace_events`."""
        write_trace(path, self._spans, self._threads, self.start)


def _steps(runs: Sequence[StepRun], key: Key) -> Iterator[ProfileRow]:
    """Of kernels, one row per key, device and start."""
    groups: defaultdict[tuple[str, str, bool], list[StepRun]] = defaultdict(list)
    for run in runs:
        groups[key(run), run.event.device, run.cold].append(run)
    for (name, device, cold), members in groups.items():
        yield _row(name, device, cold, members)


def _planning(plans: Sequence[events.PlanBuilt]) -> Iterator[ProfileRow]:
    """compile: of kernels, besides what the cold runs of their steps account for."""
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
    """Of whole runs, one row per plan and start. What is between the kernels is in the total only."""
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
    """A row without phases of what took `each` seconds."""
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
    """What was done per second while it ran; None where an array was simulated, which takes any time."""
    runs = [run for run in runs if run.event.simulated is None]
    seconds = sum(run.event.phase("run") for run in runs)
    return sum(amount(run) or 0 for run in runs) / seconds if seconds else None


@contextmanager
def profile(tiles: bool = True) -> Iterator[Profile]:
    """Note where the time of a with block goes, in all threads. Asynchronous devices are waited for step by step.

    tiles: whether the first run of every design on a simulated array also records what each tile does when, for
    `Profile.trace`; simulating that run then takes two to four times as long. Profiles may overlap. Every event is
    kept until the profile is dropped, some hundred bytes per kernel that runs.
    """
    result = Profile()
    with recorded() if tiles else nullcontext(), events.listen(result.hear):
        try:
            yield result
        finally:
            result.end = time.perf_counter()
