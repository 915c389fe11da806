"""Launches of several kernels on an NPU: full ELFs, and files that do not allow it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from machine import Machine
from npu_images import Image
from npu_values import reordered

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.store.library import KernelLibrary

pytestmark = pytest.mark.usefixtures("_unchecked", "less_optimised")


@pytest.fixture(autouse=True)
def _several() -> Iterator[None]:
    with config.scope(launch_milliseconds=500):
        yield


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


def test_several_configurations_are_one_launch_of_a_full_elf(machine: Machine) -> None:
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    right = block(x.float(), w.float()).numpy()
    with nt.default_device("npu"):
        explanation = nt.explain(block(x, w))
        assert explanation.launches == 1
        assert explanation.configuration_changes > 1
        assert explanation.context_switches == 0
        for _ in range(2):  # The first is compared with those of its kernels one by one.
            before = machine.submissions
            np.testing.assert_allclose(block(x, w).float().numpy(), right, rtol=0.05, atol=0.1)
        assert machine.submissions - before == 1
    assert machine.complaints == []


def test_without_a_compiler_launches_have_one_configuration(
    machine: Machine, standin_library: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can build an ELF there; instructions of kernels that are ready are made all the same."""
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    with nt.default_device("npu"), config.scope(launch_milliseconds=0):
        nt.realize(block(x, w), reordered(2)[0])
    selection.reset()
    monkeypatch.setattr(standin_library.backend, "missing", lambda: "there is no compiler")
    with nt.default_device("npu"):
        explanation = nt.explain(block(x, w), reordered(4)[0])
        assert explanation.launches > 2
        assert explanation.context_switches == explanation.configuration_changes > 1
        assert len({row.launch for row in explanation if row.kernel == "get_rows"}) == 1
        right = block(x.float(), w.float()).numpy()
        np.testing.assert_allclose(block(x, w).float().numpy(), right, rtol=0.05, atol=0.1)
    assert machine.complaints == []


def both() -> None:
    """Two kernels that read one matrix."""
    values = np.random.default_rng(1).standard_normal((24, 64), np.float32)
    orders = [np.random.default_rng(seed).permutation(24).astype(np.int32) for seed in (2, 3)]
    matrix = nt.from_numpy(values)
    results = [matrix.index_select(0, nt.from_numpy(order)) for order in orders]
    nt.realize(*results)
    for result, order in zip(results, orders, strict=True):
        np.testing.assert_array_equal(result.numpy(), values[order])
