"""Launches of several kernels on the simulated array: as few as asked, and with the results of single ones."""

import numpy as np
import pytest
from running import heard, needs_compiler

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.examples.transformer_block import Block, random_tokens

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]


@pytest.fixture(scope="module")
def block() -> tuple[Block, nt.Tensor]:
    """128 tokens of 512 features; 1,376 hidden features, which are not a multiple of the widest tiles."""
    return Block("bfloat16"), nt.from_numpy(random_tokens()).to(nt.bfloat16).realize()


def computed(block: tuple[Block, nt.Tensor], device: str) -> tuple[np.ndarray, list[events.KernelRan]]:
    model, x = block
    with nt.default_device(device, policy="always"), heard(events.KernelRan) as ran:
        return model.forward(x).float().numpy(), ran


def test_a_transformer_block_is_one_launch(block: tuple[Block, nt.Tensor]) -> None:
    model, x = block
    with nt.default_device("sim:npu2", policy="always"):
        explanation = nt.explain(model.forward(x))
    assert (explanation.launches, explanation.context_switches) == (1, 0)
    assert {row.launch for row in explanation if row.device == "sim:npu2" and row.predicted is not None} == {1}
    total = next(total for total in explanation.totals if total.device == "sim:npu2")
    assert total.predicted + total.switching <= 2 * total.predicted
    result, ran = computed(block, "sim:npu2")
    # Kernels inside the launch have separate events.
    on_npu = [event for event in ran if event.device == "sim:npu2"]
    assert len(on_npu) == total.kernels
    assert all(event.simulated is not None for event in on_npu)
    exact = Block("float32").forward(x.float()).numpy()
    assert np.square(result - exact).sum() / np.square(exact).sum() < 1e-3


def test_the_older_array_has_a_launch_for_each_change(block: tuple[Block, nt.Tensor]) -> None:
    model, x = block
    with nt.default_device("sim:npu1", policy="always"):
        explanation = nt.explain(model.forward(x))
    assert explanation.launches <= explanation.configuration_changes + 1


def test_a_launch_gives_what_its_kernels_give_one_by_one(block: tuple[Block, nt.Tensor]) -> None:
    together, _ = computed(block, "sim:npu2")
    model, x = block
    # The URI is another one, so that the plan of the other test is not taken.
    with config.scope(launch_milliseconds=0), nt.default_device("sim:npu2?cols=8", policy="always"):
        assert nt.explain(model.forward(x)).launches > 1
        single = model.forward(x).float().numpy()
    np.testing.assert_array_equal(together, single)


def test_numbers_that_change_are_heeded() -> None:
    """A launch of several configurations is made for the numbers of its first run."""
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    launches = []
    with nt.default_device("sim:npu2", policy="always"):
        for scale in (0.125, 0.125, 3.0, -1.0):
            result = ((x @ w) * scale).softmax(-1)
            launches.append(nt.explain(result).launches)
            wide = scale * (x.float() @ w.float()).to(nt.bfloat16).float()
            np.testing.assert_allclose(result.float().numpy(), wide.softmax(-1).numpy(), atol=0.01)
    assert launches == [1, 1, 1, 1]


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2", "sim:npu2x2"])
def test_values_that_are_read_later_leave_the_launch(device: str) -> None:
    x = nt.from_numpy(np.linspace(-4, 4, 4096, dtype=np.float32)).to(nt.bfloat16).realize()
    with nt.default_device(device, policy="always"):
        first = x.reshape(64, 64) @ x.reshape(64, 64)
        second = first.softmax(-1)
        third = second @ second
        nt.realize(first, third)
        right = (x.float().reshape(64, 64) @ x.float().reshape(64, 64)).to(nt.bfloat16).float()
        np.testing.assert_allclose(first.float().numpy(), right.numpy(), rtol=0.01)
        probabilities = right.softmax(-1)
        np.testing.assert_allclose(third.float().numpy(), (probabilities @ probabilities).numpy(), atol=0.02)
        np.testing.assert_allclose(second.float().numpy(), probabilities.numpy(), atol=0.01)
