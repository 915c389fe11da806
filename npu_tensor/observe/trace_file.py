"""Traces in the JSON Trace Event Format, for ui.perfetto.dev and chrome://tracing.

One process has the measured tracks of this machine: plans, compilations and each device, per thread. Each simulated
array has another process, with tracks in simulated time. They show the designs per column and, for the first run of
each design, the cores and DMA channels of the column.
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

_HOST: Final = "npu_tensor"


class _Track(NamedTuple):
    """A thread of a process. `order` sorts the tracks of the process."""

    process: str
    order: tuple[Any, ...]
    name: str


class _Slice(NamedTuple):
    """Slice of a track. `start` and `end` are in seconds."""

    track: _Track
    name: str
    category: str
    start: float
    end: float
    details: dict[str, object]


def write_trace(path: str | os.PathLike[str], happened: Spans, threads: Mapping[int, str], origin: float) -> None:
    """Write `trace_events` to a file for trace viewers."""
    content = {"traceEvents": trace_events(happened, threads, origin), "displayTimeUnit": "ms"}
    with written(path):
        Path(path).write_text(json.dumps(content), "utf-8")


def trace_events(happened: Spans, threads: Mapping[int, str], origin: float) -> list[dict[str, object]]:
    """Return complete events ("X") and metadata ("M") with process and track names. Times are in microseconds.

    `threads` has thread names by identifier, and `origin` is `time.perf_counter()` at the start.
    """
    slices = [*_host_slices(happened, threads), *_simulated_slices(happened)]
    origin = min([origin, *(slice.start for slice in slices)])  # A slice may start before the profile.
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
    """Yield the slices of a track with start and end in nanoseconds, nested or disjoint.

    Times are measured separately and rounded, so slices can overlap partially, which viewers reject. Such a slice is
    cut at the end of the other one, on the side that loses less.
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
        yield _Slice(own, event.kernel, "cold" if run.cold else "warm", event.start, event.when, _details(run))
        for phase in event.phases:
            yield _Slice(own, phase.name, "phase", max(event.start, phase.when - phase.seconds), phase.when, {})
    for phase in happened.fetches:
        own = track(2, phase.device, phase.thread)
        yield _Slice(own, f"fetch: {phase.name}", "phase", phase.when - phase.seconds, phase.when, {})


def _first_thread(happened: Spans) -> int | None:
    """Return the thread of the first event. Tracks of other threads show the thread name."""
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
    """Yield the activity of tiles in simulated time. A launch starts at its host time or after the previous launch.

    Columns show every launch. Cores and DMA channels are drawn for the first run of a design only: they behave the same
    in every run and may have thousands of slices.
    """
    free: dict[str, float] = {}
    drawn: set[tuple[str, int]] = set()
    for run in happened.runs:
        timeline = run.event.simulated.timeline if run.event.simulated is not None else None
        if not isinstance(timeline, Timeline):
            continue
        device = run.event.device
        start = max(run.event.start, free.get(device, run.event.start))
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
