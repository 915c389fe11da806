"""Output of each level of NPU_TENSOR_DEBUG."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from told import Teller, made

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.design import KernelFunction, Source
from npu_tensor.observe import debugging
from npu_tensor.planner.plan import Placed
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.task import Expense, Refusal

pytestmark = pytest.mark.usefixtures("_no_plans")


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    debugging._sources.clear()
    yield
    assert debugging._listener not in events.listeners


def placed_plan() -> Any:
    """One kernel of the processor, and one of an NPU with a C++ source."""
    plan = made(("add", "cpu", 2_000_000), ("mul", "sim:npu2", 64))
    output = SimpleNamespace(dtype=nt.float32, layout=SimpleNamespace(shape=(8, 4)))
    for number, (task, kernel) in enumerate((placed.task, placed.kernel) for placed in plan.placed):
        task.ops, task.outputs = (task.name,), (output,)
        kernel.name, kernel.reason = ("loop", "elementwise")[number], f"reason {number}"
        kernel.cost.expense = Expense(1e-6 * (number + 1), 0, 0)
    function = KernelFunction("nt_mul", (), Source("elementwise", "void nt_mul() {}\n"))
    kernel.request = SimpleNamespace(design=SimpleNamespace(functions=[function, function]))
    refusals = ((Refusal("too small"),), ())
    plan.placed = [
        Placed(placed.task, placed.kernel, lambda values: None, refused)
        for placed, refused in zip(plan.placed, refusals, strict=True)
    ]
    return plan


def told() -> list[events.Event]:
    t = Teller()
    plan = placed_plan()
    t.built("gemm", 2.0)
    t.built("softmax", 1.0, error="no such file")
    t.plan(plan, 0.004, 0.003, {})
    t.ran("add", 0.001, plan, 0)
    t.simulated(0.5)
    t.ran("mul", 2.0, plan, 1, device="sim:npu2", after=0.0)
    return t.events


FIRST = [
    "build: gemm by iron, 2.00 s",
    "build: softmax by iron failed after 1.00 s: no such file",
    "plan: 4 ops in 2 kernels on cpu, sim:npu2, 4.00 ms, of which kernels 3.00 ms",
]
SECOND = [
    "cpu add f32[8] 1.000 ms 2.00 GB/s",
    "sim:npu2 mul f32[8] 2000.000 ms to simulate, predicted for the array: 500.000 ms",
]
THIRD = [
    "  #0 add f32[8, 4]: loop on cpu, predicted 1.0 us",
    "       reason 0",
    "       too small",
    "  #1 mul f32[8, 4]: elementwise on sim:npu2, predicted 2.0 us",
    "       reason 1",
]
FOURTH = ["--- C++ of elementwise, 1 lines", "void nt_mul() {}", "---"]


@pytest.mark.parametrize(
    ("level", "lines"),
    [
        (0, []),
        (1, FIRST),
        (2, FIRST + SECOND),
        (3, FIRST + THIRD + SECOND),
        (4, FIRST + THIRD + FOURTH + SECOND),
        (5, FIRST + THIRD + FOURTH + SECOND),
    ],
)
def test_each_level_prints_more(level: int, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(debug=level):
        for event in told():
            debugging.show(event)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == lines
    assert printed.out == ""


def test_the_setting_is_followed_also_by_what_was_planned_before(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(events.listeners)
    x = nt.ones(3, 61).realize()
    (x + 1).realize()
    for _ in range(2):
        with config.scope(debug=2):
            with config.scope(debug=1):
                assert events.listeners == [*before, debugging._listener]
            (x + 1).realize()
        (x + 1).realize()
        assert events.listeners == before
        (line,) = capsys.readouterr().err.splitlines()
        assert re.fullmatch(r"cpu add f32\[3, 61\] \d+\.\d{3} ms \d+\.\d{2} GB/s", line)
    with config.scope(debug=1):
        (x * 61).realize()
    assert capsys.readouterr().err.startswith("plan: 1 ops in 1 kernels on cpu, ")


def test_code_for_the_processor_is_printed_when_it_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    text = "define i32 @answer() {\n  ret i32 42\n}\n"
    engine = Engine(host_target().create_target_machine(), "test", None)
    with config.scope(debug=4):
        kept = engine.compile(text, "answer")
        assert engine.compile(text, "answer") == kept
    assert capsys.readouterr().err == f"--- LLVM IR of answer, 3 lines\n{text}---\n"
    with config.scope(debug=3):
        engine.compile(text.replace("42", "43"), "answer")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("level", [4, 5])
def test_what_compilers_say(level: int, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(debug=level):
        run(["echo", "warning: unused"], tmp_path, tmp_path / "build.log", 10)
    assert ("warning: unused\n" in capsys.readouterr().err) is (level == 5)
