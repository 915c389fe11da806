"""What is compared computes the same, or is left out with the reason. No test looks at a time."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from benchmarks import peers
from benchmarks.cases import GROUPS, TOLERANCE, Case, Group, Workload, cases, disagreement
from benchmarks.model_cases import PORTABLE, ModelCase
from benchmarks.peers.library import Lacking, Library
from benchmarks.peers.npu_tensor import Jitted, NpuTensor
from benchmarks.peers.numpy import NumPy, Reference
from benchmarks.predicted import GENERATIONS, predicted_seconds
from benchmarks.results import LeftOut, Row
from benchmarks.session import Amount, WrongResult, measured, simulated
from benchmarks.timing import Effort, after_pauses, percentiles
from npu_tensor.runtime.sim import host_compiler

LITTLE = Amount(Effort(rounds=2, block_seconds=1e-6, blocks=15), slowest=100.0, pause=0.0, npu_pause=0.0, pauses=1)


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    with nt.default_device("cpu"):
        yield


def small(group: Group) -> tuple[str, ...]:
    """The size with the fewest elements."""
    shape = min((shapes[0] for shapes in group.shapes), key=math.prod)
    return ("x".join(map(str, shape)),)


def smallest(name: str, dtype: str) -> Case:
    """A case of a workload on as few elements as there are."""
    (group,) = (g for g in GROUPS for w in g.workloads if w.name == name and dtype in g.dtypes)
    return next(case for case in cases([name], small(group), group.suite) if case.dtype == dtype)


WORKLOADS = sorted({(w.name, dtype) for group in GROUPS for w in group.workloads for dtype in group.dtypes})


@pytest.mark.parametrize(("name", "dtype"), WORKLOADS)
def test_npu_tensor_computes_what_the_reference_does(name: str, dtype: str) -> None:
    case = smallest(name, dtype)
    expected = case.expected()
    for library in (NpuTensor(), Jitted()):
        found = library.values(case.contender(library)()())
        assert disagreement(found, expected) <= TOLERANCE[dtype]


@pytest.fixture(scope="module")
def installed() -> list[Library]:
    return peers.load(peers.PEERS, threads=2)[0]


# Compiling hundreds of ops takes some libraries long, and their ops are among the others.
@pytest.mark.parametrize(("name", "dtype"), [entry for entry in WORKLOADS if not entry[0].startswith("384 ops")])
def test_peers_compute_what_the_reference_does(name: str, dtype: str, installed: list[Library]) -> None:
    case = smallest(name, dtype)
    expected = case.expected()
    taking_part = 0
    for library in installed:
        if dtype not in library.dtypes:
            continue
        try:
            found = library.values(case.contender(library)()())
        except Lacking:
            continue
        taking_part += 1
        # GGML looks gelu up in a table of float16 values, and is left out of it.
        if (library.name, name) not in {("ggml", "gelu"), ("ggml", "chain")}:
            assert disagreement(found, expected) <= TOLERANCE[dtype], library.name
    if any(library.name == "torch" for library in installed):
        assert taking_part


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("title", PORTABLE)
def test_models_compute_what_the_portable_description_does(title: str, dtype: str) -> None:
    """The descriptions that the peers run are not the models' own code."""
    case = ModelCase(title, dtype)
    expected = case.expected()
    libraries: list[Library] = [Jitted()]
    libraries += peers.load(["torch"], threads=2)[0]
    for library in libraries:
        assert disagreement(library.values(case.contender(library)()()), expected) <= TOLERANCE[dtype], library.name


def case_of(compute: Callable[..., Any], values: np.ndarray) -> Case:
    workload = Workload("made up", 1, compute, lambda x: 1, lambda x: x)
    return Case("ops", workload, "float32", (values,))


VALUES = np.linspace(-1, 1, 64, dtype=np.float32)


def found_for(case: Case, *libraries: Library) -> tuple[list[Row], list[LeftOut]]:
    found = list(measured(case, libraries, LITTLE))
    return [row for row in found if isinstance(row, Row)], [row for row in found if isinstance(row, LeftOut)]


def test_a_row_says_what_was_measured() -> None:
    case = smallest("add", "float32")
    rows, left_out = found_for(case, NpuTensor(), Jitted(), NumPy(2))
    assert left_out == []
    assert [row.contender for row in rows] == ["npu_tensor", "npu_tensor jit", "numpy"]
    for row in rows:
        assert (row.suite, row.case, row.dtype, row.size) == ("ops", "add", "float32", "1024")
        assert (row.device, row.kind, row.iterations) == ("cpu", "measured", 30)
        assert (row.shapes, row.flops, row.bytes) == ([[1024], [1024]], 1024, 3 * 4096)
        assert row.p95 is not None
        assert row.p99 is not None
        assert 0 < row.p50 <= row.p95 <= row.p99
        assert row.cold is not None
        assert row.cold > 0
        assert row.idle is not None
        assert row.idle > 0


class Wrong(NumPy):
    name = "wrong"
    exp = staticmethod(lambda x: np.exp(x) + np.float32(1e-3))


class Broken(NumPy):
    name = "broken"

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...]) -> Callable[[], Any]:
        raise RuntimeError("no compiler\nand a long explanation")


class Half(NumPy):
    name = "half"
    dtypes = frozenset({"float16"})


class Poor(NumPy):
    name = "poor"

    def __getattribute__(self, name: str) -> Any:
        return self.__getattr__(name) if name == "exp" else super().__getattribute__(name)


def test_who_cannot_take_part_is_left_out_with_the_reason() -> None:
    case = case_of(lambda library, x: library.exp(x), VALUES)
    rows, left_out = found_for(case, NpuTensor(), NumPy(2), Wrong(2), Broken(2), Half(2), Poor(2))
    assert [row.contender for row in rows] == ["npu_tensor", "numpy"]
    reasons = {entry.contender: entry.reason for entry in left_out}
    assert reasons.pop("wrong").startswith("results differ by 3.7e-04")  # of e, the largest value
    assert reasons == {
        "broken": "RuntimeError: no compiler",
        "half": "does not compute in float32 here",
        "poor": "Poor has no exp",
    }


def test_who_takes_too_long_is_left_out() -> None:
    (entry,) = measured(smallest("add", "float32"), [NumPy(2)], LITTLE._replace(slowest=0.0))
    assert isinstance(entry, LeftOut)
    assert "one call takes" in entry.reason


def test_a_wrong_result_of_npu_tensor_ends_the_session() -> None:
    def differs(library: Library, x: Any) -> Any:
        return x * 2 if isinstance(library, Reference) else x * 3

    with pytest.raises(WrongResult, match="results differ by 5"):
        list(measured(case_of(differs, VALUES), [NpuTensor()], LITTLE))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.array([1.0, 2.0]), 0.0),
        (np.array([1.0, 2.5]), 0.25),
        (np.array([[1.0], [2.0]]), 0.0),  # GGML does not count dimensions of one element
        (np.array([1.0]), math.inf),
        (np.array([1.0, math.nan]), math.inf),
    ],
)
def test_disagreement(found: np.ndarray, expected: float) -> None:
    assert disagreement(found, np.array([1.0, 2.0])) == expected


@pytest.mark.parametrize("count", [30, 31, 100])
def test_percentiles_interpolate_between_samples(count: int) -> None:
    samples = np.random.default_rng(count).lognormal(size=count).tolist()
    # 99 cuts of the inclusive method divide the samples at the percentiles 1 to 99.
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    assert percentiles(samples) == pytest.approx((cuts[49], cuts[94], cuts[98]))
    assert percentiles([7.0] * count) == (7.0, 7.0, 7.0)


def test_pauses_come_before_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr("benchmarks.timing.time.sleep", done.append)
    after_pauses({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, {"a": 0.5, "b": 12.0}, 2)
    assert done == 2 * [0.5, "a", 12.0, "b"]


def test_missing_peers_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.jax", raising=False)
    found, missing = peers.load(["numpy", "jax"], threads=2)
    assert [library.name for library in found] == ["numpy"]
    assert missing.keys() == {"jax"}
    assert "jax" in missing["jax"]


# --- predictions and simulations


def test_predictions_grow_with_the_work() -> None:
    def seconds(case: Case, generation: str) -> float:
        found = predicted_seconds(generation, *case.recorded())
        assert isinstance(found, float)
        return found

    sizes = [next(cases(["linear"], [f"{n}x{n}"], "matmul"))._replace(dtype="bfloat16") for n in (256, 1024)]
    for generation in GENERATIONS:
        little, much = (seconds(case, generation) for case in sizes)
        assert 0 < little < much
    # npu2 has four times the multipliers of npu1 at a higher clock.
    assert seconds(sizes[1], "npu2") < seconds(sizes[1], "npu1")


def test_what_no_kernel_takes_has_no_prediction() -> None:
    case = next(cases(["linear"], ["64x64"], "matmul"))
    assert case.dtype == "float32"
    assert "float32 is exact on the CPU" in str(predicted_seconds("npu2", *case.recorded()))


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
def test_what_falls_back_to_the_processor_is_no_time_of_a_device() -> None:
    """The simulated NPU stands for a real one, which is measured in the same way."""
    case = next(cases(["linear"], ["64x64"], "matmul"))
    (refused,) = measured(case, [NpuTensor("sim:npu2")], LITTLE)  # float32
    assert isinstance(refused, LeftOut)
    assert refused.reason == "no kernel of this device takes it"
    (row,) = measured(case._replace(dtype="bfloat16"), [NpuTensor("sim:npu2")], LITTLE)
    assert isinstance(row, Row)
    assert (row.device, row.note) == ("sim:npu2", "kernels on the device: 1 of 1")


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
def test_a_simulated_row_is_what_the_simulator_counted() -> None:
    case = next(cases(["linear"], ["64x64"], "matmul"))._replace(dtype="bfloat16")
    row = simulated(case, "sim:npu2")
    assert isinstance(row, Row)
    assert row.contender == "npu_tensor jit"
    assert (row.kind, row.device, row.iterations, row.cold, row.idle) == ("simulated", "sim:npu2", 0, None, None)
    # The clock is that of the array: the simulation takes far longer than the run it stands for.
    assert 1e-6 < row.p50 < 1e-2
    assert isinstance(simulated(case._replace(dtype="float32"), "sim:npu2"), LeftOut)
