"""Comparison with the CPU, which reports broken results and accepts roundings."""

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.cli.selftest import kernel_cases
from npu_tensor.errors import ArgumentError
from npu_tensor.ggml_hsa import representative
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.host import allocator, host_step
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import ACCURATE, EXACT, SANE, Tolerance, as_read, disagreement, tolerance
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Kernel, Refusal, Task

Array = np.ndarray[Any, Any]
BFLOAT16 = ml_dtypes.bfloat16

ENTRIES = {entry.exported_name: entry for entry in representative.entries("aie2p")}
SMALL = [name for name, entry in ENTRIES.items() if max(desc.span for desc in entry.input_tensors) <= 100_000]


def on_host(task: Task, items: list[Any]) -> list[Array]:
    ReferenceKernel(task, ReferenceDevice(allocator())).bind()(items := [*items])
    return [flat(items[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize] for output in task.outputs]


# --- what must be found


def zeros(right: Array, other: Array) -> Array:
    return np.zeros_like(right)


def noise(right: Array, other: Array) -> Array:
    return np.random.default_rng(0).integers(0, 256, right.nbytes, np.uint8).view(right.dtype)


def shifted(right: Array, other: Array) -> Array:
    return np.roll(right, 1)


def stale(right: Array, other: Array) -> Array:
    return other


def last_tile_stale(right: Array, other: Array) -> Array:
    """A sixteenth of the result is not written."""
    last = max(1, right.size // 16)
    return np.concatenate([right[:-last], other[-last:]])


@cache
def results(name: str, number: int) -> list[Array]:
    entry = ENTRIES[name]
    return on_host(entry.planned.task, kernel_cases._operands(entry, entry.planned.offer, number))


DAMAGES = (zeros, noise, shifted, stale, last_tile_stale)


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_broken_results_are_found_in_every_kernel(damage: Callable[[Array, Array], Array], chosen: bool) -> None:
    for name in SMALL:
        for number, (right, other) in enumerate(zip(results(name, 0), results(name, 1), strict=True)):
            allowed = tolerance(ENTRIES[name].planned.task, number, chosen=chosen)
            assert disagreement(right.copy(), right, allowed) is None, name
            damaged = damage(right, other)
            if right.size > 1 or damage is not shifted:
                assert disagreement(damaged, right, allowed) is not None, name


@pytest.mark.parametrize("chosen", [True, False])
def test_block_floats_may_be_coarse_and_not_broken(chosen: bool) -> None:
    for name in (name for name in SMALL if name.startswith("gemm") and name.endswith("-bf16")):
        task = ENTRIES[name].planned.task
        allowed, strict = (tolerance(task, chosen=chosen, coarse=coarse) for coarse in (True, False))
        (right,), (other,) = results(name, 0), results(name, 1)
        # Errors of a hundredth of the root mean square, as others have measured them on silicon.
        noise_of = np.random.default_rng(3).standard_normal(right.size)
        values = right.astype(np.float64)
        coarse = (values + 0.0094 * np.sqrt(np.mean(values**2)) * noise_of).astype(right.dtype)
        assert disagreement(coarse, right, allowed) is None, name
        assert not chosen or disagreement(coarse, right, strict) is not None, name
        for damage in DAMAGES:
            assert disagreement(damage(right, other), right, allowed) is not None, (name, damage)


# --- what must not be found

DRAWS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "wide": lambda rng, n: 10 * rng.standard_normal(n),
    "offset": lambda rng, n: 1000 + rng.standard_normal(n),
    "many magnitudes": lambda rng, n: np.exp(rng.uniform(-40, 40, n)),
    "tiny": lambda rng, n: 1e-39 * rng.standard_normal(n),
    "not finite": lambda rng, n: np.where(
        rng.random(n) < 0.02, rng.choice([np.nan, np.inf, -np.inf], n), rng.standard_normal(n)
    ),
}
# Angles divided by zero, which cannot be reduced; an infinity that emulated float32 turns into NaN, and relu into 0;
# numbers whose scale ggml cannot store; NaN among values that the kernel skips, and the CPU multiplies by zero.
SENSELESS = {"rope-factors", "gemm-bias_relu", "quantized-q4_1", "attention-causal"}


@pytest.mark.slow
@pytest.mark.usefixtures("_compiler", "less_optimised")
def test_roundings_of_the_simulated_npu_are_not_found() -> None:
    kernels: dict[str, Kernel] = {}
    for name in kernel_cases.case_names(dtypes=["f16", "f32"], quick=True):
        task, _ = ENTRIES[name].planned
        if name.rpartition("-")[0] not in SENSELESS and any(s.dtype and s.dtype.is_floating_point for s in task.inputs):
            device = SimulatedDevice("sim:npu2", ENTRIES[name].target, allocator(), host_step)
            claimed = device.claim(task)
            assert not isinstance(claimed, Refusal)
            kernels[name] = claimed
    device.prepare([*kernels.values()])
    compared = 0
    for name, kernel in kernels.items():
        entry, step = ENTRIES[name], kernel.bind()
        task, offer = entry.planned
        floats = [number for number, s in enumerate(task.inputs) if s.dtype and s.dtype.is_floating_point]
        hosts = {host.number: host for host in offer.operands if not host.output}
        for drawn, draw in DRAWS.items():
            given, read = kernel_cases._operands(entry, offer), kernel_cases._operands(entry, offer)
            for number in floats:
                item, dtype, *_ = task.inputs[number]
                assert dtype is not None
                with np.errstate(all="ignore"):
                    values = draw(np.random.default_rng(2), given[item].nbytes // dtype.itemsize).astype(dtype.numpy)
                given[item], read[item] = Buffer.from_array(values), Buffer.from_array(as_read(hosts[number], values))
            step(given)
            for number, (output, right) in enumerate(zip(task.outputs, on_host(task, read), strict=True)):
                got = flat(given[output.item], output.dtype)[: right.size]
                assert disagreement(got, right, tolerance(task, number, coarse=offer.coarse)) is None, (name, drawn)
                compared += 1
    assert compared > 50


def test_the_other_neighbour_is_within_tolerance() -> None:
    values = np.random.default_rng(3).standard_normal(1000).astype(BFLOAT16)
    neighbours = (values.view(np.uint16) + 1).view(BFLOAT16)
    few = np.where(np.arange(1000) % 10 == 0, neighbours, values)
    assert disagreement(few, values, ACCURATE[nt.bfloat16]) is None
    assert disagreement(neighbours, values, ACCURATE[nt.bfloat16])
    assert disagreement(neighbours, values, SANE[nt.bfloat16]) is None


# --- single rules


FLOATS = np.array([1.0, np.nan, np.inf, -np.inf, 2.0], np.float32)


@pytest.mark.parametrize(
    ("place", "value", "accurate", "sane"),
    [
        (1, 1.0, False, False),
        (1, np.inf, False, True),
        (2, -np.inf, False, True),
        (2, 3e38, False, False),
        (0, np.nan, False, False),
        (0, np.inf, False, False),
        (4, 2.0, True, True),
    ],
)
def test_non_finite_elements(place: int, value: float, accurate: bool, sane: bool) -> None:
    got = FLOATS.copy()
    got[place] = value
    assert (disagreement(got, FLOATS, ACCURATE[nt.float32]) is None) is accurate
    assert (disagreement(got, FLOATS, SANE[nt.float32]) is None) is sane


def test_integers_are_equal_or_not() -> None:
    large = np.array([2**60, 2**60 + 1], np.int64)
    assert disagreement(large.copy(), large, EXACT) is None
    assert disagreement(large[::-1].copy(), large, EXACT)  # float64 would not tell them apart
    assert disagreement(np.array([True, False]), np.array([True, True]), EXACT)


def test_the_reason_in_words() -> None:
    right = np.ones((4, 8), np.float32)
    got = right.copy()
    got[2, 5:] = 0
    reason = disagreement(got, right, SANE[nt.float32])
    assert reason == "3 of 32 elements differ (9.38%), NMSE 0.094; the first is 0.0 instead of 1.0 at [2, 5]"
    slightly = right * np.float32(1.0001)
    assert "at most 1e-09 is allowed (float32 from" in (disagreement(slightly, right, ACCURATE[nt.float32]) or "")


def test_nothing_to_compare_and_nothing_comparable() -> None:
    empty = np.empty((0, 3), np.float32)
    assert disagreement(empty, empty, EXACT) is None
    with pytest.raises(ArgumentError, match=r"float32\[0, 3\] cannot be compared with float32\[3, 0\]"):
        disagreement(empty, empty.T, EXACT)
    with pytest.raises(ArgumentError, match=r"int8\[2\] cannot be compared with uint8\[2\]"):
        disagreement(np.zeros(2, np.int8), np.zeros(2, np.uint8), EXACT)


def only_task(result: nt.Tensor) -> Task:
    (task,) = cut(structure_of([result._node]), SimulatedDevice.fusion).tasks
    return task


X = nt.from_numpy(np.ones((4, 64), np.float32)).realize()
Y = nt.from_numpy(np.ones((4, 64), np.float32)).realize()
N = nt.from_numpy(np.ones((4, 64), np.int16)).realize()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: X * Y, SANE[nt.float32]),
        (lambda: N * N, EXACT),
        (lambda: nt.cat([X, Y]), EXACT),
        (lambda: X.t().contiguous(), EXACT),
        (lambda: X > Y, EXACT),
        (lambda: X.argmax(-1), EXACT),
        (lambda: X * Y > 1, None),
        (lambda: (X * Y).argmax(-1), None),
        (lambda: nt.exp(X).to(nt.int32), None),
        (lambda: X.to(nt.int32), EXACT),
    ],
)
def test_tolerance_of_a_task(make: Callable[[], nt.Tensor], expected: Tolerance | None) -> None:
    """None: integers that a rounded float decides."""
    result = tolerance(only_task(make()))
    if expected is None:
        assert (result.element, result.nmse) == (0, 0)
        assert 0 < result.share < 0.1
    else:
        assert result == expected
