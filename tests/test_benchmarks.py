"""The benchmarks run, compare equal things and add up right. No test looks at a time."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the benchmarks compare with PyTorch")

import torch
from click.testing import CliRunner

import npu_tensor as nt
from benchmarks import contention, dispatch, memory, ops
from benchmarks.cases import BATCH, GROUPS, Case, Workload, cases, disagreement, size_name
from benchmarks.timing import QUICK, Effort, interleaved
from npu_tensor.runtime.sim import host_compiler

ROOT = Path(__file__).resolve().parents[1]

WORKLOADS = [workload.name for group in GROUPS for workload in group.workloads]
SMALLEST = {size_name(group.shapes[0][0]) for group in GROUPS}


def run(command, tmp_path, *arguments):
    """The JSON that a benchmark writes."""
    path = tmp_path / "result.json"
    outcome = CliRunner().invoke(
        command, [*arguments, "--quick", "--json", str(path)], catch_exceptions=False
    )
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(path.read_text())
    assert {"date", "processor", "cores", "threads", "others", "system", "python", "versions"} <= set(
        found["machine"]
    )
    return found


# --- workloads


@pytest.mark.parametrize("name", dict.fromkeys(WORKLOADS))
def test_both_sides_compute_the_same(name):
    found = {case.dtype: disagreement(case) for case in cases([name], SMALLEST)}
    assert found
    for dtype, difference in found.items():
        assert difference <= ops.TOLERANCE[dtype], dtype


def test_the_workloads_that_are_asked_for_are_there():
    have = {
        (w.name, dtype, size_name(s[0]))
        for g in GROUPS
        for w in g.workloads
        for dtype in g.dtypes
        for s in g.shapes
    }
    floats = ("float32", "bfloat16")
    elementwise = ("add", "mul", "exp", "tanh", "gelu", "gelu_erf", "silu", "chain", "chain_erf")
    wanted = {(op, dtype, str(n)) for op in elementwise for dtype in floats for n in (2**10, 2**20, 2**24)}
    wanted |= {(op, dtype, "4096x1024") for op in ("softmax", "rms_norm") for dtype in floats}
    wanted |= {("matmul", dtype, f"{n}x{n}") for dtype in floats for n in (256, 1024, 2048)}
    wanted |= {("matvec", dtype, "4096x4096") for dtype in floats} | {("matmul_int8", "int8", "1024x1024")}
    for n in ("1048576", "16777216"):
        wanted |= {("to_bfloat16", "float32", n), ("to_float16", "float32", n)}
        wanted |= {("to_float32", "bfloat16", n), ("to_float32", "float16", n)}
    assert have == wanted


def doubled(x):
    return x * 2


def test_a_row_that_compares_different_things_is_refused():
    values = torch.linspace(-1, 1, 64)
    workload = Workload("double", 1, doubled, lambda x: x * 3, None)
    case = Case(workload, "float32", (nt.from_numpy(values.numpy()),), (values,))
    with pytest.raises(AssertionError, match="results differ by 3"):
        ops.measure(case, QUICK)


def test_results_of_another_dtype_are_refused():
    values = torch.ones(4)
    workload = Workload("double", 1, doubled, lambda x: x.double() * 2, None)
    with pytest.raises(AssertionError, match=r"torch\.float64"):
        disagreement(Case(workload, "float32", (nt.from_numpy(values.numpy()),), (values,)))


def test_every_contender_returns_the_result():
    values = torch.linspace(-1, 1, 64)
    workload = Workload("double", 1, doubled, doubled, lambda x, out: torch.mul(x, 2, out=out))
    found = Case(workload, "float32", (nt.from_numpy(values.numpy()),), (values,)).contenders()
    assert set(found) == {"ours", "jit", "peer", "out", "jit_batch"}
    batch = found.pop("jit_batch")()
    assert len(batch) == BATCH
    assert len({tuple(result.tolist()) for result in batch}) == BATCH
    for name, call in found.items():
        assert call().tolist() == (2 * values).tolist(), name


# --- timing and summary


def test_contenders_take_turns_and_every_round_counts():
    turns = []
    calls = {name: lambda name=name: turns.append(name) for name in "ab"}
    samples = interleaved(calls, Effort(rounds=4, block_seconds=1e-6))
    assert {name: len(found) for name, found in samples.items()} == {"a": 4, "b": 4}
    changes = [name for name, previous in zip(turns, [None, *turns], strict=False) if name != previous]
    assert "".join(changes) == "ab" + "ababa"  # calibration; then a b, b a, a b, b a


def test_summary_of_known_rows():
    rows = [
        {"large": True, "speedup": 2.0, "out_speedup": 1.0, "jit_speedup": 9.0},
        {"large": True, "speedup": 8.0},
        {"large": False, "speedup": 0.5, "jit_speedup": 1.5, "jit_batch_speedup": 0.9},
        {"large": False, "speedup": 0.25, "jit_speedup": 1.25, "jit_batch_speedup": 3.0},
    ]
    found = ops.summary(rows)
    assert {key: (goal["value"], goal["met"]) for key, goal in found.items()} == {
        "large_eager": (pytest.approx(4.0), True),
        "large_eager_minimum": (2.0, True),
        "large_out": (1.0, False),
        "small_minimum": (0.25, False),
        "small_jit_minimum": (1.25, True),
        "small_jit_batch_minimum": (0.9, False),
    }
    assert ops.summary(rows[:1]).keys() == {"large_eager", "large_eager_minimum", "large_out"}


# --- commands


def test_ops(tmp_path):
    found = run(ops.main, tmp_path, "--only", "add,rms_norm,to_float32")
    rows = found["rows"]
    assert [(row["op"], row["dtype"], row["size"]) for row in rows] == [
        ("add", "float32", "1024"),
        ("add", "float32", "1048576"),
        ("add", "bfloat16", "1024"),
        ("add", "bfloat16", "1048576"),
        ("to_float32", "bfloat16", "1048576"),
        ("to_float32", "float16", "1048576"),
        ("rms_norm", "float32", "4096x1024"),
        ("rms_norm", "bfloat16", "4096x1024"),
    ]
    for row in rows:
        assert row["large"] == (row["size"] != "1024")
        assert ("jit_batch_us" in row) != row["large"]
        assert ("out_us" in row) == (row["op"] != "rms_norm")
        # Times are rounded to nanoseconds.
        assert row["speedup"] == pytest.approx(row["peer_us"] / row["ours_us"], rel=1e-2)
        assert row["jit_speedup"] == pytest.approx(row["peer_us"] / row["jit_us"], rel=1e-2)
        if "out_us" in row:
            assert row["out_speedup"] == pytest.approx(row["out_us"] / row["ours_us"], rel=1e-2)
    assert set(found["summary"]) == {goal.key for goal in ops.GOALS}


def test_ops_refuses_an_unknown_workload():
    outcome = CliRunner().invoke(ops.main, ["--only", "add,no_such_op"])
    assert outcome.exit_code == 2
    assert "no_such_op" in outcome.output


def test_dispatch(tmp_path):
    rows = run(dispatch.main, tmp_path)["rows"]
    assert len({row["what"] for row in rows}) == len(rows) == 4 + 2 * len(dispatch.GRAPHS)
    for row in rows:
        assert all(row[f"{name}_us"] > 0 for name in dispatch.CONTENDERS)
        assert row["met"] == (None if row["asked_us"] is None else row["ours_us"] <= row["asked_us"])


@pytest.mark.parametrize("graph", dispatch.GRAPHS, ids=lambda graph: graph.what)
def test_dispatch_graphs_have_the_ops_they_claim_and_agree(graph):
    x, a, b = dispatch.operands()
    recorded = graph.run(*map(nt.from_numpy, (x, a, b)), lambda x: x.softmax(-1))
    assert len(recorded.graph) - 3 == graph.ops  # the three operands are nodes as well
    expected = graph.run(x, a, b, dispatch.numpy_softmax)
    assert abs(recorded.numpy() - expected).max() <= 1e-5 * abs(expected).max()


def test_contention(tmp_path):
    rows = run(contention.main, tmp_path)["rows"]
    assert {row["op"] for row in rows} == {"add", "gelu", "chain"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours_busy_us"] / row["ours_quiet_us"], rel=1e-2)
        assert row["met"] == (row["ratio"] <= row["asked"])


def test_the_busy_process_ends_with_its_block():
    with contention.busy_core() as process:
        assert process.poll() is None
    assert process.poll() is not None


def test_memory_counts_the_output_and_not_the_inputs():
    elements = 1 << 22
    row = memory.measure(elements, "float32")
    assert (row["inputs"], row["output"]) == (4 * 4 * elements, 4 * elements)
    # A page may be resident that the buffer shares; the output itself must be.
    assert 0.9 * row["output"] <= row["added"] < math.inf
    assert row["total"] == row["inputs"] + row["added"]
    assert row["asked"] == row["inputs"] + row["output"] + (64 << 20)


def test_compile_time(tmp_path):
    path = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.compile_time", "--quick", "--json", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = json.loads(path.read_text())
    assert all(row["milliseconds"] > 0 for row in found["rows"])
    assert found["summary"]["met"] == (found["summary"]["milliseconds"] < found["summary"]["asked"])


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
def test_simulator(tmp_path):
    path = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.simulator", "--quick", "--json", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    found = json.loads(path.read_text())
    assert [row["device"] for row in found["rows"]] == ["sim:npu1"] * 3 + ["sim:npu2"] * 3
    assert all(row["seconds"] > 0 for row in found["rows"])
