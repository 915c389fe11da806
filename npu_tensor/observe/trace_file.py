"""A trace of what was observed, for ui.perfetto.dev and chrome://tracing: the Trace Event Format, as JSON.

One process has the tracks of this machine, where all times were measured: plans, compilations, and each device, per
thread. One more process per simulated array has tracks in simulated time: one per column with the designs that ran
there, and below it one per core and DMA channel of the column, for the first run of each design.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from npu_tensor import events
from npu_tensor.errors import written
from npu_tensor.observe.spans import Spans, StepRun
from npu_tensor.runtime.sim.timeline import Timeline

__all__ = ["trace_events", "write_trace"]

_HOST: Final = "npu_tensor"


class _Track(NamedTuple):
    """A process, and a thread of it. order: among the tracks of the process."""

    process: str
    order: tuple[Any, ...]
    name: str


class _Slice(NamedTuple):
    """start, end: in seconds."""

    track: _Track
    name: str
    category: str
    start: float
    end: float
    details: dict[str, object]


def write_trace(path: str | os.PathLike[str], happened: Spans, threads: Mapping[int, str], origin: float) -> None:
    """Write `trace_events` as a file that trace viewers open."""
    content = {"traceEvents": trace_events(happened, threads, origin), "displayTimeUnit": "ms"}
    with written(path):
        Path(path).write_text(json.dumps(content), "utf-8")


def trace_events(happened: Spans, threads: Mapping[int, str], origin: float) -> list[dict[str, object]]:
    """Complete events ("X"), and metadata ("M") that names processes and tracks. Times are microseconds.

    threads: names by number; origin: time.perf_counter at the start.
    """
    slices = [*_host_slices(happened, threads), *_simulated_slices(happened)]
    origin = min([origin, *(slice.start for slice in slices)])  # What ran when the profile began may have begun before.
    processes = {name: number for number, name in enumerate(dict.fromkeys(slice.track.process for slice in slices), 1)}
    on_track: defaultdict[_Track, list[_Slice]] = defaultdict(list)
    for slice in slices:
        on_track[slice.track].append(slice)
    tracks = {track: number for number, track in enumerate(sorted(on_track), 1)}
    entries: list[dict[str, object]] = []
    for process, pid in processes.items():
        entries.append(_metadata("process_name", pid, 0, name=process))
        entries.append(_metadata("process_sort_index", pid, 0, sort_index=pid))
    for track, tid in tracks.items():
        pid = processes[track.process]
        entries.append(_metadata("thread_name", pid, tid, name=track.name))
        entries.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
    for track, tid in tracks.items():
        for start, end, each in _nested(on_track[track], origin):
            entries.append(
                {
                    "name": each.name,
                    "cat": each.category,
                    "ph": "X",
                    "ts": start / 1000,
                    "dur": (end - start) / 1000,
                    "pid": processes[track.process],
                    "tid": tid,
                    "args": each.details,
                }
            )
    return entries


def _metadata(what: str, pid: int, tid: int, **args: object) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}


def _nested(slices: list[_Slice], origin: float) -> Iterator[tuple[int, int, _Slice]]:
    """The slices of a track with start and end in nanoseconds; each lies inside another one or outside of it.

    Their times are measured one after another and rounded, and viewers refuse what overlaps in part. Such a slice
    begins where the other one ends, or ends there, whichever takes less of it away.
    """
    open_until: list[int] = []
    for each in sorted(slices, key=lambda slice: (slice.start, -slice.end)):
        start, end = (round((time - origin) * 1e9) for time in (each.start, each.end))
        while open_until and (open_until[-1] <= start or end - open_until[-1] > open_until[-1] - start):
            start = max(start, open_until.pop())
        end = max(start, min([end, *open_until[-1:]]))
        open_until.append(end)
        yield start, end, each


def _host_slices(happened: Spans, threads: Mapping[int, str]) -> Iterator[_Slice]:
    first = _first_thread(happened)

    def track(order: int, name: str, thread: int) -> _Track:
        where = "" if thread == first else f" ({threads.get(thread, f'thread {thread}')})"
        return _Track(_HOST, (order, name, where), f"{name}{where}")

    def plan(name: str, event: events.PlanBuilt | events.PlanRan, **details: object) -> _Slice:
        return _Slice(track(0, "plan", event.thread), name, "plan", event.when - event.seconds, event.when, details)

    def build(kind: str, event: events.KernelBuilt | events.BuildFinished, **details: object) -> _Slice:
        own = track(1, "compile", event.thread)
        return _Slice(own, event.kernel, kind, event.when - event.seconds, event.when, details)

    for built in happened.plans:
        yield plan("plan", built, ops=built.nodes, kernels=built.steps)
        for kernel in built.kernels:
            yield build("compile", kernel, device=kernel.device)
    for ran in happened.plan_runs:
        yield plan("run the plan", ran)
    for compiled in happened.builds:
        yield build("build", compiled, backend=compiled.backend, key=compiled.key, error=compiled.error)
    for run in happened.runs:
        event = run.event
        own = track(2, event.device, event.thread)
        yield _Slice(own, event.kernel, "cold" if run.cold else "warm", run.start, event.when, _details(run))
        for phase in event.phases:
            yield _Slice(own, phase.name, "phase", max(run.start, phase.when - phase.seconds), phase.when, {})
    for phase in happened.fetches:
        own = track(2, phase.device, phase.thread)
        yield _Slice(own, f"fetch: {phase.name}", "phase", phase.when - phase.seconds, phase.when, {})


def _first_thread(happened: Spans) -> int | None:
    """The thread of the first thing that happened; the tracks of others say their name."""
    both = [*happened.plans, *(run.event for run in happened.runs)]
    return min(both, key=lambda event: event.when).thread if both else None


def _details(run: StepRun) -> dict[str, object]:
    details: dict[str, object] = {"out": run.event.out, "lines": ", ".join(run.event.lines)}
    if run.nbytes is not None:
        details["bytes"] = run.nbytes
    if run.operations is not None:
        details["operations"] = run.operations
    if run.event.simulated is not None:
        details["predicted microseconds on the array"] = run.event.simulated.seconds * 1e6
    return details


def _simulated_slices(happened: Spans) -> Iterator[_Slice]:
    """What tiles did, at the pace of the array. A launch begins when it did, or after the one before it.

    Columns have every launch. What is below them is the same whenever a design runs, and drawn once: it may be
    thousands of slices.
    """
    free: dict[str, float] = {}
    drawn: set[tuple[str, int]] = set()
    for run in happened.runs:
        timeline = run.event.simulated.timeline if run.event.simulated is not None else None
        if not isinstance(timeline, Timeline):
            continue
        device = run.event.device
        start = max(run.start, free.get(device, run.start))
        free[device] = start + timeline.seconds
        process = f"{device} (simulated time)"
        cycle = timeline.seconds / timeline.cycles if timeline.cycles else 0.0
        for column, busy in timeline.columns().items():
            own = _Track(process, (column,), f"column {column}")
            yield _Slice(own, run.event.kernel, "design", start, start + timeline.seconds, {"cycles": busy})
        if (device, id(timeline)) in drawn:
            continue
        drawn.add((device, id(timeline)))
        for span in timeline.spans:
            column, row = span.tile
            own = _Track(process, (column, row, span.lane), f"column {column}: {span.tile.kind} {row} {span.lane}")
            yield _Slice(
                own, span.what, span.kind, start + span.start * cycle, start + span.end * cycle, {"cycles": span.cycles}
            )
