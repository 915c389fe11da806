"""Contenders compute the same result, or are left out with a reason. The tests check no times."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from benchmarks import peers
from benchmarks.cases import GROUPS, TOLERANCE, Case, Group, Workload, cases, disagreement
from benchmarks.peers.library import Lacking, Library
from benchmarks.peers.npu_tensor import Jitted, NpuTensor
from benchmarks.peers.numpy import NumPy, Reference
from benchmarks.predicted import GENERATIONS, Prediction, predicted
from benchmarks.results import LeftOut, Row
from benchmarks.session import Amount, measured
from benchmarks.timing import Effort

LITTLE = Amount(Effort(rounds=2, block_seconds=1e-6, blocks=15), slowest=100.0, pause=1e-3, npu_pause=0.0, pauses=1)


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
        result = library.values(case.contender(library)()())
        assert disagreement(result, expected) <= TOLERANCE[dtype]


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
            result = library.values(case.contender(library)()())
        except Lacking:
            continue
        taking_part += 1
        # GGML looks gelu up in a table of float16 values, and is left out of it and of chains with it.
        if library.name != "ggml" or name not in ("gelu", "chain", "5 ops on 1,024 elements"):
            assert disagreement(result, expected) <= TOLERANCE[dtype], library.name
    if any(library.name == "torch" for library in installed):
        assert taking_part


def case_of(compute: Callable[..., Any], values: np.ndarray) -> Case:
    workload = Workload("made up", 1, compute, lambda x: 1, lambda x: x)
    return Case("ops", workload, "float32", (values,))


VALUES = np.linspace(-1, 1, 64, dtype=np.float32)


def found_for(case: Case, *libraries: Library) -> tuple[list[Row], list[LeftOut]]:
    result = list(measured(case, libraries, LITTLE))
    return [row for row in result if isinstance(row, Row)], [row for row in result if isinstance(row, LeftOut)]


def test_a_row_says_what_was_measured() -> None:
    case = smallest("add", "float32")
    rows, left_out = found_for(case, NpuTensor(), Jitted(), NumPy(2))
    assert left_out == []
    assert [row.contender for row in rows] == ["npu_tensor", "npu_tensor jit", "numpy"]
    for row in rows:
        assert (row.suite, row.case, row.dtype, row.size) == ("ops", "add", "float32", "1024")
        assert (row.device, row.kind, row.iterations) == ("cpu", "measured", 30)
        assert (row.shapes, row.flops, row.bytes) == ([[1024], [1024]], 1024, 3 * 4096)
        assert 0 < row.p50 <= row.p95 <= row.p99
        assert min(row.cold, row.idle) > 0
        assert row.idle_seconds == LITTLE.pause


class Wrong(NumPy):
    name = "wrong"
    exp = staticmethod(lambda x: np.exp(x) + np.float32(1e-3))


class Broken(NumPy):
    name = "broken"

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Callable[[], Any]:
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


def differs(library: Library, x: Any) -> Any:
    return x * 2 if isinstance(library, Reference) else x * 3


def raises(library: Library, x: Any) -> Any:
    if isinstance(library, NpuTensor):
        raise nt.BuildError("no such instruction")
    return x


@pytest.mark.parametrize(
    ("compute", "reason"),
    [(differs, "results differ by 5.0e-01, more than 1e-05"), (raises, "BuildError: no such instruction")],
)
def test_defects_of_npu_tensor_are_named_and_the_others_measured(compute: Callable[..., Any], reason: str) -> None:
    rows, left_out = found_for(case_of(compute, VALUES), NpuTensor(), NumPy(2))
    assert [row.contender for row in rows] == (["numpy"] if compute is raises else [])
    assert (left_out[0].contender, left_out[0].reason, left_out[0].failed) == ("npu_tensor", reason, True)
    assert not any(entry.failed for entry in left_out[1:])


# --- predictions and simulations


def test_predictions_grow_with_the_work() -> None:
    def seconds(case: Case, generation: str) -> float:
        result = predicted(generation, *case.recorded())
        assert isinstance(result, Prediction)
        assert result.note == "kernels on the NPU: 1 of 1"
        return result.seconds

    sizes = [next(cases(["linear"], [f"{n}x{n}"], "matmul"))._replace(dtype="bfloat16") for n in (256, 1024)]
    for generation in GENERATIONS:
        little, much = (seconds(case, generation) for case in sizes)
        assert 0 < little < much
    # npu2 has four times the multipliers of npu1 at a higher clock.
    assert seconds(sizes[1], "npu2") < seconds(sizes[1], "npu1")
