"""Traces against the rules of the Trace Event Format, and against the emitted events."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from running import in_threads, needs_compiler
from told import Teller, made

import npu_tensor as nt
from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.observe.profiling import profile
from npu_tensor.observe.spans import spans
from npu_tensor.observe.trace_file import trace_events
from npu_tensor.runtime.sim.timeline import Span, Timeline

pytestmark = pytest.mark.usefixtures("_no_plans")

Entry = Mapping[str, Any]


def checked(entries: Iterable[Entry]) -> dict[str, dict[str, list[Entry]]]:
    """The slices by process and track. Asserts what the format asks of metadata ("M") and complete events ("X").

    Those of one track may lie inside each other, but must not overlap in part: viewers draw one below the other.
    """
    processes: dict[int, str] = {}
    tracks: dict[tuple[int, int], str] = {}
    slices: defaultdict[tuple[int, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        assert {"name", "ph", "pid", "tid"} <= set(entry)
        assert all(isinstance(entry[key], int) for key in ("pid", "tid"))
        assert isinstance(entry["name"], str)
        if entry["ph"] == "M":
            if entry["name"] == "process_name":
                assert entry["pid"] not in processes
                processes[entry["pid"]] = entry["args"]["name"]
            elif entry["name"] == "thread_name":
                assert (entry["pid"], entry["tid"]) not in tracks
                tracks[entry["pid"], entry["tid"]] = entry["args"]["name"]
            else:
                assert entry["name"] in ("process_sort_index", "thread_sort_index")
                assert isinstance(entry["args"]["sort_index"], int)
            continue
        assert entry["ph"] == "X"
        assert entry["ts"] >= 0
        assert entry["dur"] >= 0
        assert isinstance(entry["cat"], str)
        assert isinstance(entry["args"], dict)
        slices[entry["pid"], entry["tid"]].append(entry)
    assert set(slices) == set(tracks)
    for own in slices.values():
        ends: list[int] = []
        for start, end in sorted(map(nanoseconds, own), key=lambda times: (times[0], -times[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)
    result: defaultdict[str, dict[str, list[Entry]]] = defaultdict(dict)
    for (pid, tid), own in slices.items():
        name = tracks[pid, tid]
        assert name not in result[processes[pid]]
        result[processes[pid]][name] = own
    return dict(result)


def nanoseconds(entry: Entry) -> tuple[int, int]:
    """Start and end."""
    return round(entry["ts"] * 1000), round((entry["ts"] + entry["dur"]) * 1000)


def times(own: Iterable[Entry]) -> list[tuple[str, float, float]]:
    return [(entry["name"], round(entry["ts"], 3), round(entry["dur"], 3)) for entry in own]


def traced(*tellers: Teller, threads: Mapping[int, str] | None = None) -> dict[str, dict[str, list[Entry]]]:
    result = spans(event for teller in tellers for event in teller.events)
    entries = trace_events(result, threads or {}, origin=100.0)
    return checked(json.loads(json.dumps(entries)))


def test_tracks_of_a_plan_that_is_made_and_run() -> None:
    t = Teller()
    plan = made(("add", "cpu", 12), ("mul", "npu", 0))
    t.plan(plan, 10e-6, 5e-6, {"add": 4e-6})
    t.pass_by(1e-6)
    t.ran("add", 20e-6, plan, 0, lines=("a.py:3", "a.py:4"))
    t.phase("sync", 3e-6)
    t.phase("run", 5e-6)
    t.ran("mul", 10e-6, plan, 1, device="npu", after=2e-6)
    t.plan_ran(31e-6, plan)
    t.pass_by(9e-6)
    t.phase("convert", 1e-6)
    tracks = traced(t)["npu_tensor"]
    assert list(tracks) == ["plan", "compile", "cpu", "npu"]
    assert times(tracks["plan"]) == [("plan", 0, 10), ("run the plan", 10, 31)]
    assert times(tracks["compile"]) == [("add", 6, 4)]
    assert times(tracks["cpu"]) == [("add", 11, 20)]
    assert tracks["cpu"][0]["args"] == {"out": "f32[8]", "lines": "a.py:3, a.py:4", "bytes": 12}
    assert tracks["cpu"][0]["cat"] == "cold"
    assert times(tracks["npu"]) == [("mul", 31, 10), ("sync", 31, 3), ("run", 34, 5), ("fetch: convert", 50, 1)]


def test_threads_and_builds_in_the_background_have_tracks_of_their_own() -> None:
    first, second, builder = Teller(), Teller(now=100 + 1e-6, thread=2), Teller(thread=3)
    first.ran("add", 5e-6)
    second.ran("add", 5e-6)
    builder.built("gemm", 100e-6)
    builder.built("softmax", 50e-6, error="no luck")
    tracks = traced(first, second, builder, threads={1: "MainThread", 2: "worker", 3: "builds"})["npu_tensor"]
    assert list(tracks) == ["compile (builds)", "cpu", "cpu (worker)"]
    assert times(tracks["compile (builds)"]) == [("gemm", 0, 100), ("softmax", 100, 50)]
    assert tracks["compile (builds)"][1]["args"]["error"] == "no luck"


def test_what_tiles_did_is_in_simulated_time() -> None:
    spans = (
        Span(Tile(0, 2), "core", "wait", "x0", 0, 100),
        Span(Tile(0, 2), "core", "compute", "nt_add", 100, 300),
        Span(Tile(1, 0), "x1 out", "out", "x1", 0, 100),
    )
    timeline = Timeline("add", ARRAYS["aie2"], 1000, spans)
    t = Teller()
    for _ in range(2):
        t.pass_by(0.25e-6)
        t.simulated(1e-6, timeline)
        t.ran("add", 0.5e-6, device="sim:npu1", after=0.25e-6)
    processes = traced(t)
    assert list(processes) == ["npu_tensor", "sim:npu1 (simulated time)"]
    tracks = processes["sim:npu1 (simulated time)"]
    assert list(tracks) == ["column 0", "column 0: core 2 core", "column 1", "column 1: shim 0 x1 out"]
    # 1000 cycles at 1 GHz; the second run begins when the first has ended, as arrays do one thing at a time.
    (_, start, _), _ = times(tracks["column 0"])
    assert times(tracks["column 0"]) == [("add", start, 1), ("add", round(start + 1, 3), 1)]
    assert [entry["args"]["cycles"] for entry in tracks["column 0"] + tracks["column 1"]] == [200, 200, 0, 0]
    assert times(tracks["column 0: core 2 core"]) == [("x0", start, 0.1), ("nt_add", round(start + 0.1, 3), 0.2)]


@needs_compiler
def test_a_profile_of_a_simulated_npu_has_a_track_per_column(tmp_path: Path) -> None:
    x = nt.ones(256, 256).to(nt.bfloat16).realize()
    with nt.default_device("sim:npu2?cols=2", policy="always"), profile() as p:
        for _ in range(3):
            y = (x * x).realize()
        in_threads((x * 2).realize, (x * 3).realize)
        (y.to(nt.float32) + 1).sum().item()
    path = tmp_path / "trace.json"
    p.trace(path)
    content = json.loads(path.read_text("utf-8"))
    assert set(content) == {"traceEvents", "displayTimeUnit"}
    processes = checked(content["traceEvents"])
    assert {"plan", "compile", "sim:npu2?cols=2"} <= set(processes["npu_tensor"])
    tracks = processes["sim:npu2?cols=2 (simulated time)"]
    assert [name for name in tracks if ":" not in name] == ["column 0", "column 1"]
    for column in (0, 1):
        (core, *_) = (own for name, own in tracks.items() if name.startswith(f"column {column}: core 2 core"))
        assert {entry["cat"] for entry in core} == {"compute", "wait"}
    launches = [run for run in spans(p._heard).runs if run.event.simulated is not None]
    assert len(launches) >= 5
    for column in (0, 1):
        assert len(tracks[f"column {column}"]) == len(launches)
