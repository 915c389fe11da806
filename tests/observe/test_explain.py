"""`explain` shows where ops will run without running them, and measured times afterwards."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from running import heard, needs_compiler

import npu_tensor as nt
import npu_tensor.nn.functional as F
from npu_tensor import events
from npu_tensor.graph.structure import structure_of
from npu_tensor.observe.explanation import Explanation, Row, Work
from npu_tensor.ops import registry
from npu_tensor.planner.placement import Overhead
from npu_tensor.planner.plan import Placed, Plan
from npu_tensor.task import Cost, Expense, Move


def graph() -> nt.Tensor:
    x, w, b = nt.ones(8, 16), nt.ones(4, 16), nt.ones(4)
    nt.realize(x, w, b)
    return nt.linear(x, w, b).relu().argsort(0)


def test_every_op_has_a_row_and_nothing_runs() -> None:
    out = graph()
    with heard(events.KernelRan) as ran:
        table = nt.explain(out)
    assert not ran
    assert not out.is_realized
    by_op = {row.op: row for row in table}
    assert by_op["permute"] == Row("permute", "f32[16, 4]", why=by_op["permute"].why, line=by_op["permute"].line)
    assert by_op["relu"].kernel == "gemm"
    assert by_op["add"].kernel == f"fused into #{[row.op for row in table].index('relu')}"
    assert by_op["argsort"].kernel == "numpy"
    assert by_op["argsort"].origin == "none"
    assert "no compiled form" in by_op["argsort"].why
    assert by_op["argsort"].line.startswith("test_explain.py:")
    for row in table:
        assert (row.predicted is None) == (row.nbytes is None) == (row.kernel == "none" or "fused into" in row.kernel)
        assert row.predicted is None or row.predicted > 0


def test_realized_tensors_have_no_rows() -> None:
    table = nt.explain(nt.ones(3).realize())
    assert len(table) == 0
    assert str(table).startswith("nothing to run: every value has been computed")
    assert table.totals == []
    assert len(nt.explain()) == 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3, "int 3"), (None, "NoneType None"), ([nt.ones(1)] * 2, r"list \[.*\]; pass several as explain\(\*tensors\)")],
)
def test_what_is_no_tensor_is_named(value: Any, shown: str) -> None:
    with pytest.raises(nt.ArgumentError, match=f"^explain needs tensors, not {shown}$"):
        nt.explain(nt.ones(2), value)
    with pytest.raises(nt.ArgumentError, match=r"^realize needs tensors, not "):
        nt.realize(nt.ones(2), value)


def test_equal_ops_are_computed_once() -> None:
    x = nt.ones(3).realize()
    a, b = x.exp(), x.exp()
    table = nt.explain(a, b)
    assert [row.kernel == "none" for row in table] == [False, True]
    assert "computed once" in table[1].why


def test_measured_times_are_those_of_the_latest_run() -> None:
    x = nt.ones(3, 5).realize()

    def compute() -> nt.Tensor:
        return (x * 2 + 1).cumsum(0).exp()

    out = compute()
    table = nt.explain(out)
    assert [row.measured for row in table] == [None] * 4
    for _ in range(2):
        with heard(events.KernelRan) as seen, table.measure():
            out.realize()
        ran = [event.seconds for event in seen]
        assert [row.measured for row in table if row.predicted is not None] == ran
        assert [row.measured for row in table if row.predicted is None] == [None]
        (total,) = table.totals
        assert total.measured == pytest.approx(sum(ran))
        out = compute()
    first = table[-1].measured
    out.realize()
    assert table[-1].measured == first  # The times of this run were not requested.


@needs_compiler
def test_simulated_and_processor_in_one_graph() -> None:
    with nt.default_device("sim:npu2"):
        x = nt.ones(64, 64, dtype=nt.bfloat16).realize()
        table = nt.explain((x @ x).relu().argsort(0))
        there, here = (row for row in table if row.predicted is not None)
        assert (there.device, there.op, here.device, here.op) == ("sim:npu2", "relu", "cpu", "argsort")
        assert "not on sim:npu2: no NPU kernel" in here.why
        assert [total.device for total in table.totals] == ["sim:npu2", "cpu"]
        text = str(table)
        assert "for the real array" in text
        assert "the simulator itself" not in text
        with table.measure():
            (x @ x).relu().argsort(0).realize()
        assert "measured, the simulator itself:" in str(table)


def stand_in(device: str, seconds: float, context: object = None, moves: tuple[Move, ...] = ()) -> Placed:
    """Kernel with the attributes that totals read."""
    kernel = SimpleNamespace(device=device, cost=Cost(Expense(seconds, 0.0, 0.0), 1000, context, moves, moves[:1]))
    return cast(Placed, SimpleNamespace(kernel=kernel))


# --- functions captured by jit


class Layer:
    def __init__(self) -> None:
        self.weight = nt.ones(4, 4)

    @nt.jit
    def forward(self, x: nt.Tensor) -> nt.Tensor:
        return (x @ self.weight).relu()


def test_a_captured_function_explains_the_plan_that_it_runs() -> None:
    layer, x = Layer(), nt.ones(4, 4) + 0.5
    table = Layer.forward.explain(layer, x)
    assert [row.op for row in table] == ["contract", "relu"]
    assert not x.is_realized
    assert Layer.forward.captures == 0
    for _ in range(2):
        first = table[-1].measured
        with table.measure():
            layer.forward(x)
        assert table[-1].measured not in (None, first)


@needs_compiler
@pytest.mark.usefixtures("own_rates")
def test_what_a_captured_function_reads_from_outside_is_not_counted_as_copies() -> None:
    """By predicted latency, this product goes to the array only if its weights are there already, in whole tiles."""
    weight = nt.ones(4100, 4096, dtype=nt.bfloat16).realize()
    x = nt.ones(16, 4100, dtype=nt.bfloat16).realize()
    with nt.config.scope(threads=2), nt.default_device("sim:npu2", policy="latency"):
        assert nt.explain(x @ weight)[-1].device == "cpu"
        assert nt.jit(lambda x: x @ weight).explain(x)[-1].device == "sim:npu2"


def test_explaining_in_a_capture_is_refused_and_leaves_it_usable() -> None:
    inner = nt.jit(lambda x: x + 1)

    @nt.jit
    def outer(x: nt.Tensor) -> nt.Tensor:
        with pytest.raises(nt.CaptureError, match="cannot explain"):
            inner.explain(x)
        return inner(x)

    assert outer(nt.ones(1)).tolist() == [2.0]


LONG = "long " * 30 + "reason"


def small() -> Explanation:
    """Three ops in two kernels, one of which has run."""
    copy = Move(Expense(1e-6, 0.0, 0.0))
    rows = [
        Row("contract", "bf16[64, 128]", "sim:npu2", "fused into #1", "", line="a.py:3"),
        Row("relu", "bf16[64, 128]", "sim:npu2", "gemm", "cache", 3.5e-4, None, 196100, LONG, "a.py:4"),
        Row("permute", "bf16[128, 64]", why="same", line="a.py:5"),
        Row("cumsum", "bf16[128, 64]", "cpu", "numpy", "none", 6.4e-6, None, 65500, "same", "a.py:6"),
    ]
    plan = Plan((stand_in("sim:npu2", 3.5e-4, "x", (copy, copy)), stand_in("cpu", 6.4e-6)), (), (1, 1), (), 0, 0)
    work = Work(
        items=(2, 4, 5, 6),
        edges=((2, 4), (4, 5), (5, 6)),
        members=((0, 1), (3,)),
        plans=[plan],
        overheads={"sim:npu2": Overhead(2.65e-3, 3.6e-4, 3.9e-5)},
    )
    explanation = Explanation(rows, work)
    with explanation.measure():
        events.emit(events.KernelRan("cumsum", "cpu", "", 1.25e-4, plan, 1))
    return explanation


def test_text_of_a_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    expected = """\
#  op        out            device    kernel         origin  predicted  measured     bytes  why  line
0  contract  bf16[64, 128]  sim:npu2  fused into #1                                              a.py:3
1  relu      bf16[64, 128]  sim:npu2  gemm           cache    350.0 us            196.1 kB  a    a.py:4
2  permute   bf16[128, 64]  -         none           none                                   b    a.py:5
3  cumsum    bf16[128, 64]  cpu       numpy          none       6.4 us  125.0 us   65.5 kB  b    a.py:6

why:
  a  long long long long long long long long long long long long long long long long long long long long long long long
     long long long long long long long reason
  b  same

sim:npu2: 1 kernel, predicted 350.0 us for the real array; up to 3.0 us more for copies; 1 launch per run: 360.0 us
    more; in all 713.0 us predicted
cpu: 1 kernel, predicted 6.4 us; measured 125.0 us"""
    assert str(small()) == expected
    assert repr(small()) == expected


@pytest.mark.parametrize("columns", [80, 120, 400])
def test_text_keeps_to_the_terminal_and_to_what_it_prints(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    device = "npu://AIE-0123456789abcdef,0000:c6:00.1?cols=4&power=turbo"
    long = Row(
        "scaled_dot_product",
        "bf16[1, 32, 4096, 4096, 128]",
        device,
        "elementwise",
        "precompiled",
        1.23,
        4.56,
        10**9,
        "\x1b[31mred\nand\udcff" + " compiler" * 400,
        "a_rather_long_name_of_a_module.py:12345",
    )
    lines = str(Explanation([long] * 30)).splitlines()
    assert max(map(len, lines)) <= columns
    assert sum("elementw" in line for line in lines) == 30
    assert sum("precompiled" in line for line in lines) == (0 if columns < 400 else 30)
    assert "".join(lines).isprintable()
    reason = lines[lines.index("why:") + 1 :]
    assert reason[0].startswith("  a  ?[31mred and? compiler")
    if columns < 400:
        assert len([line for line in reason if line]) == 8
        assert reason[7].endswith("(all of it: .rows)")


def test_saved_by_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    table = small()
    starts = {
        "a.svg": "<svg ",
        "a.html": "<!DOCTYPE html>",
        "a.mmd": "flowchart TD\n",
        "a.MD": "```mermaid\nflowchart TD\n",
        "a.txt": "#  op ",
        "a.json": "[\n",
    }
    for name, start in starts.items():
        table.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8").startswith(start)
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == table.rows
    table.save(str(tmp_path / "b.svg"))
    for name in ("a.png", "a", "svg"):
        with pytest.raises(nt.ArgumentError, match=r"\.svg, \.html, \.mmd, \.md, \.txt, \.json"):
            table.save(tmp_path / name)
        assert not (tmp_path / name).exists()


# --- ops have the user's line, independent of the package's function that records them


FUNCTIONS = registry.functions()
METHODS = registry.methods()

THIS_FILE = Path(__file__).name

PUBLIC = {
    **FUNCTIONS,
    **{f"Tensor.{name}": method for name, method in METHODS.items()},
    **{f"nn.functional.{name}": getattr(F, name) for name in F.__all__},
    **{f"linalg.{name}": getattr(nt.linalg, name) for name in nt.linalg.__all__},
    **{f"Tensor.{name}": method for name, method in vars(nt.Tensor).items() if callable(method)},
}


def results(function: Callable[..., Any]) -> Iterator[nt.Tensor]:
    """Yield the results of a function for those of some common operands that it accepts."""
    # Results of ops, as views of data are data.
    matrix = nt.from_numpy(np.eye(3, dtype=np.float32)) + 0
    image = nt.from_numpy(np.ones((1, 4, 4, 4), np.float32)) + 0
    flags, indices, vector = matrix > 0, nt.tensor([0, 2, 1]) + 0, matrix.sum(0)
    for operands in (
        *((matrix,), (image,), (flags,), (indices,), (3,), ((3, 3), 1.5), ([matrix, matrix],), (matrix, matrix)),
        *((image, image), (matrix, 1), (matrix, 0, 1), (image, 2), (matrix, (3, 3)), (matrix, 0.5, 2.0)),
        *((flags, matrix, matrix), (matrix, flags, 1.0), (matrix, flags, matrix), (matrix, matrix, matrix)),
        *((matrix, indices), (indices, matrix), (matrix, 0, indices), (matrix, 0, indices, matrix), (matrix, 0, 1, 1)),
        *((indices, indices), (vector, vector), (matrix, vector), (vector, matrix, vector), (image[0], image[0])),
    ):
        try:
            result = function(*operands)
        except (nt.NpuTensorError, TypeError, ValueError, AttributeError, IndexError):
            continue
        yield from (part for part in (result if isinstance(result, tuple) else [result]) if isinstance(part, nt.Tensor))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_no_line_is_the_packages_own() -> None:
    recorded = set()
    for name, function in PUBLIC.items():
        for tensor in results(function):
            for node in structure_of([tensor._node]).nodes:
                assert node.line.startswith(f"{THIS_FILE}:"), f"{name}: {node.call} at {node.line}"
                recorded.add(name)
    assert recorded >= {"relu", "Tensor.__iadd__", "Tensor.reshape", "nn.functional.relu", "linalg.norm"}
    assert len(recorded) > 0.8 * len(PUBLIC)
