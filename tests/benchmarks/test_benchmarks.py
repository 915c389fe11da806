"""The benchmarks run, compare equal work and compute correct sums. The tests check no times."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the benchmarks compare with PyTorch")

import click
import numpy as np
import torch
from click.testing import CliRunner
from running import needs_compiler, python
from torch.utils.flop_counter import FlopCounterMode

import npu_tensor as nt
from benchmarks import contention, dispatch, loops, memory, ops, placement, products, training
from benchmarks.cases import TOLERANCE, cases, disagreement
from benchmarks.peers.torch import PyTorch
from benchmarks.placement_graphs import FAMILIES


def run(command: click.Command | str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that a benchmark writes, or the one of this name in a process of its own."""
    path = tmp_path / "result.json"
    options = [*arguments, "--quick", "--json", str(path)]
    if isinstance(command, str):
        python("-m", f"benchmarks.{command}", *options)
    else:
        outcome = CliRunner().invoke(command, options, catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
    result = json.loads(path.read_text())
    assert {"date", "processor", "cores", "threads", "others", "system", "python", "versions"} <= set(result["machine"])
    return result


# --- workloads


@pytest.mark.parametrize("name", ops.INTO)
def test_preallocated_results_are_those_of_the_peer(name: str) -> None:
    peer = PyTorch(2)
    case = next(cases([name], suite="chains" if name.startswith("chain") else "ops"))
    calls = ops.contenders(case)
    assert torch.equal(calls["out"](), calls["peer"]())
    assert disagreement(peer.values(calls["out"]()), case.expected()) <= TOLERANCE[case.dtype]


# --- commands


def test_ops(tmp_path: Path) -> None:
    result = run(ops.main, tmp_path, "--only", "add,rms_norm,to_float32")
    rows = result["rows"]
    assert sorted((row["op"], row["dtype"], row["size"]) for row in rows) == [
        *(("add", dtype, size) for dtype in ("bfloat16", "float32") for size in ("1024", "1048576")),
        *(("rms_norm", dtype, "4096x1024") for dtype in ("bfloat16", "float32")),
        *(("to_float32", dtype, "1048576") for dtype in ("bfloat16", "float16")),
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
    assert set(result["summary"]) == {goal.key for goal in ops.GOALS}


def test_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "GROUPS", [group._replace(quick=1) for group in products.GROUPS])
    amount = products.QUICK_AMOUNT
    monkeypatch.setattr(products, "QUICK_AMOUNT", amount._replace(effort=amount.effort._replace(rounds=2, blocks=1)))
    result = run(products.main, tmp_path)
    assert not any(entry["failed"] for entry in result["left_out"])
    rows = result["rows"]
    ops = {(w.name, dtype) for group in products.GROUPS for w in group.workloads for dtype in group.dtypes}
    assert {(row["op"], row["dtype"]) for row in rows} == ops
    left_out = {(entry["case"], entry["dtype"]) for entry in result["left_out"] if entry["contender"] == "torch"}
    for row in rows:
        if row["peer"] is None:  # Every peer that supports this was left out, and the report states this.
            assert (row["op"], row["dtype"]) in left_out
            continue
        assert row["best_peer"] == row["peers"][row["peer"]] == min(row["peers"].values())
        assert row["speedup"] == pytest.approx(row["best_peer"] / row["ours"])
    assert [entry["dtype"] for entry in result["summary"]] == ["all", "float32", "bfloat16", "int8"]


def test_the_work_of_convolutions_is_counted_right() -> None:
    case = next(case for case in cases(["conv 7x7 stride 2"], groups=products.GROUPS) if case.dtype == "float32")
    x, weights = (torch.from_numpy(values) for values in case.values)
    with FlopCounterMode(display=False) as counter:
        result = torch.nn.functional.conv2d(x, weights, stride=2, padding=3)
    assert case.flops == counter.get_total_flops()
    assert case.nbytes == 4 * (x.numel() + weights.numel() + result.numel())


def test_dispatch(tmp_path: Path) -> None:
    rows = run(dispatch.main, tmp_path)["rows"]
    assert len({row["what"] for row in rows}) == len(rows) == 1 + 5 * 2 + 1
    for row in rows:
        assert all(row[f"{name}_us"] > 0 for name in dispatch.CONTENDERS)
        assert row["met"] == (None if row["asked_us"] is None else row["ours_us"] <= row["asked_us"])


def test_contention(tmp_path: Path) -> None:
    rows = run(contention.main, tmp_path)["rows"]
    assert {row["op"] for row in rows} == {"add", "gelu", "chain"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours_busy_us"] / row["ours_quiet_us"], rel=1e-2)
        assert row["met"] == (row["ratio"] <= row["asked"])


def test_loops(tmp_path: Path) -> None:
    rows = run(loops.main, tmp_path)["rows"]
    assert [row["what"].split()[0] for row in rows] == ["read", "write", "decode", "decode", "attend", "30", "30"]
    assert all(row[ratio] > 0 for row in rows for ratio in loops.RATIOS)


@pytest.mark.parametrize("library", [nt, torch], ids=["npu_tensor", "torch"])
def test_loops_compute_what_they_say(library: Any) -> None:
    read, write, *decoding, attending, early, late = loops.loops(quick=True)
    for loop in (read, write):
        assert loop.run(library, *map(library.from_numpy, loop.operands)) == loop.operands[0].tolist()
    for loop in decoding:
        tokens, query, key, value = (operand.astype(np.float64) for operand in loop.operands)
        scores = tokens @ query @ (tokens @ key).T / math.sqrt(tokens.shape[1])
        weights = np.tril(np.exp(scores))
        expected = weights / weights.sum(1, keepdims=True) @ (tokens @ value)
        result = np.array(loop.run(library, *map(library.from_numpy, loop.operands)))
        assert disagreement(result, expected) <= TOLERANCE["float32"]
    tokens = attending.operands[0][0].astype(np.float64)
    weights = np.tril(np.exp(tokens @ tokens.T / math.sqrt(tokens.shape[1])))
    result = np.array(attending.run(library, *map(library.from_numpy, attending.operands)))[:, 0, 0]
    assert disagreement(result, weights / weights.sum(1, keepdims=True) @ tokens) <= TOLERANCE["float32"]
    inputs, labels = (operand.astype(np.float64) for operand in early.operands)
    solution = np.zeros((inputs.shape[1] + 1, 1))
    inputs = np.hstack([inputs, np.ones_like(labels)])
    for _ in range(30):
        solution -= 0.1 * inputs.T @ (1 / (1 + np.exp(-inputs @ solution)) - labels) / len(labels)
    for loop in (early, late):
        result = np.array(loop.run(library, *map(library.from_numpy, loop.operands)))
        assert disagreement(result, solution) <= TOLERANCE["float32"]


def test_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(training.WORKLOADS) == 4
    mlp = training.WORKLOADS["mlp, batch 64"]._replace(shape=(4, 784))
    layer = training.WORKLOADS["transformer layer, 16 x 64 tokens"]._replace(shape=(2, 3, 128))
    monkeypatch.setattr(training, "WORKLOADS", {"mlp": mlp, "layer": layer})
    result = run(training.main, tmp_path, "--peer", "torch")
    assert [row["what"] for row in result["rows"]] == ["mlp", "layer"]
    for row in result["rows"]:
        assert row["speedup"] == pytest.approx(row["peer_ms"] / row["ours_ms"])
    assert result["summary"]["smallest"] <= result["summary"]["mean"]
    assert result["memory"]["steps"] == 100
    assert result["memory"]["tensors"] == 0


def test_placement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for sizes, few in (("SMALL", {1: range(2, 5), 2: range(2, 4)}), ("LARGE", (50,)), ("TIMED", (1, 9))):
        monkeypatch.setattr(placement, sizes, few)
    result = run(placement.main, tmp_path)
    assert {row["family"] for row in result["small"]} == {row["family"] for row in result["large"]} == set(FAMILIES)
    assert min(row["worst"] for row in result["small"]) >= 1 - 1e-9  # No placement beats the best of all.
    assert all(row["median_us"] > 0 for row in result["planning"])


def test_memory_counts_the_output_and_not_the_inputs() -> None:
    elements = 1 << 22
    row = memory.measure(elements, "float32")
    assert (row["inputs"], row["output"]) == (4 * 4 * elements, 4 * elements)
    # A page may be resident that the buffer shares; the output itself must be.
    assert 0.9 * row["output"] <= row["added"] < math.inf
    assert row["total"] == row["inputs"] + row["added"]
    assert row["asked"] == row["inputs"] + row["output"] + (64 << 20)


def test_compile_time(tmp_path: Path) -> None:
    result = run("compile_time", tmp_path)
    assert all(row["milliseconds"] > 0 for row in result["rows"])
    assert result["summary"]["met"] == (result["summary"]["milliseconds"] < result["summary"]["asked"])


@needs_compiler
def test_simulator(tmp_path: Path) -> None:
    rows = run("simulator", tmp_path)["rows"]
    assert [row["device"] for row in rows] == ["sim:npu1"] * 3 + ["sim:npu2"] * 3
    assert all(row["seconds"] > 0 for row in rows)
