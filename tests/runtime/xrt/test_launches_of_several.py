"""Launches of several kernels: one submission, intermediates in scratch, and what follows a fault."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from machine import Fault, Machine
from npu_images import Image

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.store.library import KernelLibrary

pytestmark = pytest.mark.usefixtures("_unchecked")


@pytest.fixture(autouse=True)
def _several() -> Iterator[None]:
    with config.scope(launch_milliseconds=500):
        yield


def gathered(times: int) -> tuple[nt.Tensor, np.ndarray]:
    """Rows of a matrix in another order, several times, each of which reads what the one before it has made."""
    order = np.random.default_rng(0).permutation(24).astype(np.int32)
    values = np.random.default_rng(1).standard_normal((24, 64), np.float32)
    at, value = nt.from_numpy(order), nt.from_numpy(values)
    for _ in range(times):
        value, values = value.index_select(0, at), values[order]
    return value, values


@pytest.mark.parametrize("machine_name", ["machine", "first_generation"])
def test_kernels_of_one_configuration_are_one_launch(machine_name: str, request: pytest.FixtureRequest) -> None:
    machine: Machine = request.getfixturevalue(machine_name)
    with nt.default_device("npu"):
        for _ in range(2):  # The first launch is compared with those of its kernels one by one.
            value, right = gathered(4)
            before = machine.submissions
            np.testing.assert_array_equal(value.numpy(), right)
        assert machine.submissions - before == 1
        explanation = nt.explain(gathered(4)[0])
        assert (explanation.launches, explanation.configuration_changes, explanation.context_switches) == (1, 0, 0)
    assert machine.failures == []
    assert machine.warnings == []


FAULTS = [Fault.ERROR, Fault.TIMEOUT, Fault.GARBAGE, Fault.START, Fault.LOST]


def test_a_file_that_declares_fewer_buffers_is_launched_kernel_by_kernel(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "arguments", 6)
    with nt.default_device("npu"):
        with pytest.warns(RuntimeWarning, match="has 5 host buffers, and its file declares 3"):
            both()
        before = machine.submissions
        both()
        assert machine.submissions - before == 2


def block(x: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
    """Several configurations, with values that die inside."""
    return ((x @ w).softmax(-1) @ w).relu() + x


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_several_configurations_are_one_launch_of_a_full_elf(machine: Machine, fault: Fault | None) -> None:
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    right = block(x.float(), w.float()).numpy()
    with nt.default_device("npu"):
        explanation = nt.explain(block(x, w))
        assert explanation.launches == 1
        assert explanation.configuration_changes > 1
        assert explanation.context_switches == 0
        if fault is not Fault.GARBAGE:
            np.testing.assert_allclose(block(x, w).float().numpy(), right, rtol=0.05, atol=0.1)
        before = machine.submissions
        if fault is None:
            result = block(x, w).float().numpy()
            assert machine.submissions - before == 1
        else:
            machine.inject(fault)
            with pytest.warns(RuntimeWarning, match="failed on npu"):
                result = block(x, w).float().numpy()
        np.testing.assert_allclose(result, right, rtol=0.05, atol=0.1)
    assert machine.warnings == []


def test_without_a_compiler_launches_have_one_configuration(
    machine: Machine, standin_library: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can build an ELF there; instructions of kernels that are ready are made all the same."""
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    with nt.default_device("npu"), config.scope(launch_milliseconds=0):
        nt.realize(block(x, w), gathered(2)[0])
    selection.reset()
    monkeypatch.setattr(standin_library.backend, "missing", lambda: "there is no compiler")
    with nt.default_device("npu"):
        explanation = nt.explain(block(x, w), gathered(4)[0])
        assert explanation.launches > 2
        assert explanation.context_switches == explanation.configuration_changes > 1
        assert len({row.launch for row in explanation if row.kernel == "get_rows"}) == 1
        right = block(x.float(), w.float()).numpy()
        np.testing.assert_allclose(block(x, w).float().numpy(), right, rtol=0.05, atol=0.1)
    assert machine.warnings == []


def both() -> None:
    """Two kernels that read one matrix."""
    values = np.random.default_rng(1).standard_normal((24, 64), np.float32)
    orders = [np.random.default_rng(seed).permutation(24).astype(np.int32) for seed in (2, 3)]
    matrix = nt.from_numpy(values)
    results = [matrix.index_select(0, nt.from_numpy(order)) for order in orders]
    nt.realize(*results)
    for result, order in zip(results, orders, strict=True):
        np.testing.assert_array_equal(result.numpy(), values[order])
