"""Recorded configurations: they list exactly what ran, and give the same kernels again."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import needs_compiler, python

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError
from npu_tensor.ggml_hsa import config_file, generate
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.ggml_hsa.generate import open_executor
from npu_tensor.planner import selection
from npu_tensor.planner.plan import Plan
from npu_tensor.runtime.store.requests import digest

pytestmark = pytest.mark.usefixtures("less_optimised")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    selection.reset()
    yield
    selection.reset()


def bfloat16(*shape: int, seed: int = 0) -> nt.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    with nt.default_device("cpu"):
        return nt.from_numpy(values).to(nt.bfloat16).realize()


def load(path: Path) -> list[Entry]:
    return config_file.require_valid(config_file.load(path), str(path))


def recorded(path: Path) -> list[dict[str, Any]]:
    kernels: list[dict[str, Any]] = json.loads(path.read_text())["kernels"]
    return kernels


def names(path: Path) -> list[str]:
    return [kernel["exported_name"] for kernel in recorded(path)]


def model(x: nt.Tensor, w: nt.Tensor, b: nt.Tensor) -> tuple[nt.Tensor, ...]:
    """Something of most families: a fused product, a row kernel, a number, a sum, a transposition, a concatenation."""
    hidden = (x @ w + b).relu()
    return (hidden * 0.5).softmax(-1), hidden.sum(-1), hidden.T.contiguous(), nt.cat([hidden, hidden])


@needs_compiler
@pytest.mark.parametrize(
    "uri", ["sim:npu2", "sim:npu1?cols=2&float32=emulate", "sim:npu2?bfloat16=bfp16", "sim:npu2?functions=approximate"]
)
def test_an_entry_makes_the_design_that_was_run(tmp_path: Path, uri: str) -> None:
    """The designs are taken from the plans, which know nothing of entries."""
    ran = set()

    def listen(event: events.Event) -> None:
        if isinstance(event, events.PlanBuilt):
            assert isinstance(event.plan, Plan)
            ran.update(
                (digest(placed.kernel.request.design), placed.kernel.request[:1] + placed.kernel.request[2:])
                for placed in event.plan.placed
                if placed.kernel.device == uri
            )

    x, w, b = bfloat16(32, 64), bfloat16(64, 48, seed=1), bfloat16(48, seed=2)
    with nt.default_device(uri), events.listen(listen), nt.record_kernels(tmp_path / "model.json"):
        nt.realize(*model(x, w, b))
        (x.float() * 2 + 1).realize()
        model(x, w, b)[0].realize()  # fewer results are another fusion
    requests = [entry.request() for entry in load(tmp_path / "model.json")]
    assert len(ran) >= 5
    assert {(digest(made.design), made[:1] + made[2:]) for made in requests} == ran
    assert len(requests) == len(ran)


@needs_compiler
def test_kernels_of_a_block_and_no_others(tmp_path: Path) -> None:
    x, y = bfloat16(64), bfloat16(64, seed=1)
    with nt.default_device("sim:npu2"):
        (x + y).realize()
        with nt.record_kernels(tmp_path / "a.json"):
            (x * y).realize()
            (y * x).realize()
        (x - y).realize()
    assert names(tmp_path / "a.json") == ["mul-64bf16-64bf16-64bf16"]
    assert events.listeners == []


@needs_compiler
def test_names_are_unique_and_fit_for_files(tmp_path: Path) -> None:
    x = bfloat16(8, 96)
    with nt.default_device("sim:npu2"), nt.record_kernels(tmp_path / "a.json"):
        # Both kernels have one canonical name: n stands for any strides.
        (x[:, :48] + x[:, 48:]).realize()
        with nt.default_device("sim:npu2?cols=1"):
            (x[:, :48] + x[:, 48:]).realize()
        with nt.default_device("sim:npu1"):
            (x[:, :48] + x[:, 48:]).realize()
    first, second, third = recorded(tmp_path / "a.json")
    assert second["exported_name"] == first["exported_name"] + "-2"
    assert third["exported_name"] == first["exported_name"]
    assert [first["arch"], second["arch"], third["arch"]] == ["aie2p", "aie2p", "aie2"]
    assert len(load(tmp_path / "a.json")) == 3


def test_a_machine_without_a_compiler_records_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = bfloat16(64)
    with nt.default_device("sim:npu2"), config.scope(jit=False, cache_path=str(tmp_path / "empty")):
        with nt.record_kernels(tmp_path / "a.json"):
            assert nt.explain(x / 3)[-1].device == "cpu"
        with nt.record_kernels(tmp_path / "b.json"):
            (x / 3).realize()
    (first,), (second,) = recorded(tmp_path / "a.json"), recorded(tmp_path / "b.json")
    assert first == second
    assert first["input_tensors"] == ["(64,1,1,1)/bf16"]


def test_the_file_is_written_when_the_block_fails(tmp_path: Path) -> None:
    x, y = bfloat16(64), bfloat16(64, seed=1)

    def fail() -> None:
        with nt.default_device("sim:npu2"), nt.record_kernels(tmp_path / "a.json"):
            nt.explain(x + y)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path / "a.json") == ["add-64bf16-64bf16-64bf16"]


def nothing() -> None:
    pass


def on_the_cpu() -> None:
    (bfloat16(8) + 1).realize()


def refused() -> None:
    with nt.default_device("sim:npu2"):
        for op in (nt.argsort, nt.cumsum):
            nt.explain(op(nt.from_numpy(np.ones(8, np.float32)), 0))


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (nothing, "nothing was computed"),
        (on_the_cpu, "the default device is cpu, which has none"),
        (refused, r"argsort on sim:npu2: no NPU kernel for this op; cumsum on sim:npu2: "),
    ],
)
def test_a_warning_says_why_there_are_none(tmp_path: Path, work: Callable[[], None], says: str) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.warns(RuntimeWarning, match=rf"a\.json has no kernels: {says}") as caught, nt.record_kernels(path):
        work()
    assert caught[0].filename == __file__
    assert recorded(path) == []


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no such directory"), nt.record_kernels(tmp_path / "no" / "a"):
        raise AssertionError("the block must not run")
    (tmp_path / "directory").mkdir()
    with pytest.raises(ArgumentError, match="directory cannot be written"), nt.record_kernels(tmp_path / "directory"):
        pass


# --- a whole program


PROGRAM = """
import json, os, sys
import numpy as np
import npu_tensor as nt

values = np.random.default_rng(0).standard_normal((3, 32, 64), dtype=np.float32)
x, w, b = (nt.from_numpy(value).to(nt.bfloat16).realize() for value in values)
nt.set_default_device("sim:npu2")
hidden = (x @ w.T + b[0, :32]).relu()
results = (hidden * 0.5).softmax(-1), hidden.sum(-1)
rows = nt.explain(*results).rows
print(json.dumps([[row["device"], row["why"]] for row in rows if row["predicted"] is not None]))
print(json.dumps([result.float().tolist() for result in results]))
"""


def run_program(program: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-W", "default::RuntimeWarning", "-c", program, **environment)


@needs_compiler
def test_record_generate_and_run_without_a_compiler(tmp_path: Path) -> None:
    cache = str(config.cache_dir)
    first = run_program(NPU_TENSOR_RECORD=str(tmp_path / "model.json"), NPU_TENSOR_CACHE_DIR=cache)
    assert first.stderr == ""
    entries = load(tmp_path / "model.json")
    assert len(entries) == len(recorded(tmp_path / "model.json")) >= 3
    with open_executor() as executor:
        assert generate.generate(entries, tmp_path / "kernels", "host", executor) == len(entries)
    (tmp_path / "nothing").mkdir()
    again = run_program(
        NPU_TENSOR_KERNEL_DIR=str(tmp_path / "kernels"),
        NPU_TENSOR_JIT="0",
        NPU_TENSOR_CACHE_DIR=str(tmp_path / "empty"),
        PATH=str(tmp_path / "nothing"),
    )
    assert again.stderr == ""
    rows, results = map(json.loads, again.stdout.splitlines())
    assert len(rows) >= 3
    for device, why in rows:
        assert device == "sim:npu2"
        assert "precompiled as " in why
    assert results == json.loads(first.stdout.splitlines()[1])


def test_the_setting_warns_where_nothing_can_be_written_or_recorded(tmp_path: Path) -> None:
    program = "import npu_tensor as nt; nt.ones(3).numpy()"
    failed = run_program(program, NPU_TENSOR_RECORD=str(tmp_path / "no" / "a.json"))
    assert f"NPU_TENSOR_RECORD: there is no directory {tmp_path / 'no'}" in failed.stderr
    empty = run_program(program, NPU_TENSOR_RECORD=str(tmp_path / "a.json"), NPU_TENSOR_DEVICE="cpu")
    assert "a.json has no kernels: the default device is cpu" in empty.stderr
    assert recorded(tmp_path / "a.json") == []


def test_the_setting_is_followed(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    x, y = nt.from_numpy(np.ones(64, np.int32)), nt.from_numpy(np.zeros(64, np.int32))
    with nt.default_device("sim:npu2"), config.scope(jit="off"):
        with config.scope(record=str(first)):
            nt.explain(x + y)
            assert not first.exists()
            with config.scope(record=str(second)):
                assert names(first) == ["add-64i32-64i32-64i32"]
            nt.explain(x * y)
        nt.explain(x - y)
    assert names(first) == ["add-64i32-64i32-64i32", "mul-64i32-64i32-64i32"]
    assert not second.exists()
