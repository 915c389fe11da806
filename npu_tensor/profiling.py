"""profile: where the time of a block goes, by op, by line of the program and by device.

    with nt.profile() as p:
        for batch in batches:
            model(batch).realize()
    print(p)                    # by op
    print(p.by("line"))         # by the lines that recorded the ops
    p.trace("trace.json")       # for ui.perfetto.dev or chrome://tracing
"""

from __future__ import annotations

import html
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from npu_tensor import events
from npu_tensor.errors import ArgumentError
from npu_tensor.observed import Observed, StepRun, observed
from npu_tensor.runtime.sim.timeline import recorded
from npu_tensor.trace import write_trace
from npu_tensor.units import duration

__all__ = ["Profile", "Row", "Table", "profile"]


class Row(NamedTuple):
    """What is known of all runs with one name on one device; times in seconds.

    name: op, line or device. start: "cold", of the first run of a plan, or "warm", of the others. runs: how many.
    total: of everything. plan: making plans. compile: finding or compiling kernels. convert, sync, dispatch, run: as in
    `events.Phase`. p50, p95: percentiles of one run without plan and compile. nbytes: read and written in memory, of
    all runs. bytes_per_second, operations_per_second: achieved while it ran; operations are multiplications and
    additions of matrix products. None where something is not known. predicted: for the real array, where it was
    simulated; the other times are then those of the simulation.
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
_SHOWN: Final = ("name", "device", "start", "runs", *_TIMES, *_RATES)


class Table(tuple[Row, ...]):
    """Rows, those that took most first. Prints as a table; `rows` has them as dicts."""

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts, as pandas.DataFrame takes them."""
        return [row._asdict() for row in self]

    def __str__(self) -> str:
        header, *cells = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        numbers = [column >= 3 for column in range(len(header))]
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, numbers, strict=True)
            ).rstrip()
            for line in (header, *cells)
        ]
        return "\n".join((*lines, *self._notes()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, *cells = self._cells()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in cells
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<table style='white-space: nowrap'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def _cells(self) -> list[tuple[str, ...]]:
        """Headings and cells as text, without the columns in which there is nothing."""
        columns = [(name, [_text(name, getattr(row, name)) for row in self]) for name in _SHOWN]
        shown = [(_RATES.get(name, name), *cells) for name, cells in columns if any(cells) or name in Row._fields[:5]]
        return list(zip(*shown, strict=True))

    def _notes(self) -> list[str]:
        if all(row.predicted is None for row in self):
            return []
        return ["Times of a simulated NPU are those of the simulation; `predicted` is for the real array."]


def _text(column: str, value: object) -> str:
    if value is None or (column in _TIMES and not value):
        return ""
    if column in _RATES:
        return f"{value / 1e9:.3g}"  # type: ignore[operator]
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
        self._threads: dict[int, str] = {}

    def hear(self, event: events.Event) -> None:
        """Listen, in whichever thread."""
        self._heard.append(event)
        if event.thread not in self._threads and event.thread == threading.get_ident():
            self._threads[event.thread] = threading.current_thread().name

    @property
    def seconds(self) -> float:
        """How long the block took, or has taken until now."""
        return (time.perf_counter() if self.end is None else self.end) - self.start

    def by(self, what: Literal["op", "line", "device"]) -> Table:
        """The times by op (those of one kernel are one), by line that recorded ops, or by device.

        "(plan)" is what cannot be told apart by step: making plans, and compiling several kernels at once. "(fetch)"
        is bringing results of other devices to the one who looks at them. Raises ArgumentError.
        """
        if what not in _KEYS:
            raise ArgumentError(f"a profile is by {', '.join(_KEYS)}, not by {what!r}")
        return _table(observed(self._heard), _KEYS[what])

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows of `by("op")` as dicts, as pandas.DataFrame takes them."""
        return self.by("op").rows

    def __str__(self) -> str:
        return f"{self.heading}\n{self.by('op')}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.heading)}</p>{self.by('op')._repr_html_()}"

    @property
    def heading(self) -> str:
        """All times in one line."""
        found = observed(self._heard)
        plan = sum(made.plan_seconds for made in found.plans)
        compiling = sum(made.event.compile_seconds for made in found.plans)
        kernels = sum(run.event.seconds for run in found.runs)
        told = f"{duration(self.seconds)}: planning {duration(plan)}, compiling {duration(compiling)}, "
        built = f"; built: {len(found.builds)}" if found.builds else ""
        return f"{told}kernels {duration(kernels)} in {len(found.runs)} runs{built}"

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ui.perfetto.dev or chrome://tracing, as JSON. See `trace.trace_events`."""
        write_trace(path, observed(self._heard), self._threads, self.start)


def _table(found: Observed, key: Key) -> Table:
    groups: defaultdict[tuple[str, str, bool], list[StepRun]] = defaultdict(list)
    for run in found.runs:
        groups[key(run), run.event.device, run.cold].append(run)
    rows = [_row(name, device, cold, runs) for (name, device, cold), runs in groups.items()]
    if found.plans:
        each = [made.plan_seconds + made.compile_seconds for made in found.plans]
        plan, compiling = (sum(column) for column in zip(*(made[1:] for made in found.plans), strict=True))
        rows.append(_empty("(plan)", "cpu", "cold", each)._replace(plan=plan, compile=compiling))
    fetched: defaultdict[str, list[events.Phase]] = defaultdict(list)
    for phase in found.fetches:
        fetched[phase.device].append(phase)
    for device, phases in fetched.items():
        times: dict[str, Any] = dict.fromkeys({phase.name for phase in phases}, 0.0)
        for phase in phases:
            times[phase.name] += phase.seconds
        rows.append(_empty("(fetch)", device, "warm", [phase.seconds for phase in phases])._replace(**times))
    return Table(sorted(rows, key=lambda row: -row.total))


def _empty(name: str, device: str, start: Literal["cold", "warm"], each: Sequence[float]) -> Row:
    """A row without phases of what took `each` seconds."""
    p50, p95 = np.percentile(each, (50, 95)).tolist()
    return Row(name, device, start, len(each), sum(each), 0, 0, 0, 0, 0, 0, p50, p95, None, None, None, None)


def _row(name: str, device: str, cold: bool, runs: Sequence[StepRun]) -> Row:
    row = _empty(name, device, "cold" if cold else "warm", [run.event.seconds for run in runs])
    phases: dict[str, Any] = {name: sum(run.phase(name) for run in runs) for name in _PHASES}
    compiling = sum(run.compile_seconds for run in runs)
    counted = [run.simulated.seconds for run in runs if run.simulated is not None]
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
    runs = [run for run in runs if run.simulated is None]
    seconds = sum(run.phase("run") for run in runs)
    return sum(amount(run) or 0 for run in runs) / seconds if seconds else None


@contextmanager
def profile(tiles: bool = True) -> Iterator[Profile]:
    """Note where the time of a with block goes, in all threads. Asynchronous devices are waited for step by step.

    tiles: whether the first run of every design on a simulated array also records what each tile does when, for
    `Profile.trace`; simulating that run then takes two to four times as long. Profiles may overlap. Every event is
    kept until the profile is dropped, some hundred bytes per kernel that runs.
    """
    found = Profile()
    with recorded() if tiles else nullcontext(), events.listen(found.hear):
        try:
            yield found
        finally:
            found.end = time.perf_counter()
