"""Tilings of products: the best ones, or others that are ready, loaded, or shared with neighbours."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer
from npu_tensor.planner import selection
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.npu.npu_device import NpuDevice
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.sim import simulated_device
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.store.library import KernelLibrary


def multiplied(m: int, n: int, k: int) -> tuple[nt.Tensor, np.ndarray]:
    """Return a product in bfloat16, and the same in float64."""
    rng = np.random.default_rng(0)
    a, b = (nt.from_numpy(rng.standard_normal(shape, np.float32)).to(nt.bfloat16) for shape in ((m, k), (k, n)))
    a.realize(), b.realize()
    return a @ b, a.float().numpy().astype(np.float64) @ b.float().numpy()


pytestmark = pytest.mark.usefixtures("less_optimised")

SHAPES = ((64, 512, 512), (128, 256, 256), (512, 256, 256), (512, 512, 512))
"""M, N and K of products with different best tiles."""


@pytest.fixture(autouse=True)
def _nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulated NPUs that have loaded nothing, and no kernels from other tests."""
    library = KernelLibrary(HostBackend())
    monkeypatch.setattr(simulated_device, "library", lambda: library)
    selection.reset()
    with config.scope(cache_path=str(tmp_path)):
        yield
    selection.reset()


@pytest.fixture
def devices() -> dict[str, NpuDevice]:
    """Both generations."""
    return {uri: opened(uri) for uri in ("sim:npu1", "sim:npu2")}


def opened(uri: str) -> NpuDevice:
    (device,) = selection.accelerators(selection.selection_of(uri, "latency"))
    assert isinstance(device, NpuDevice)
    return device


def claimed(device: NpuDevice, *shapes: tuple[int, int, int]) -> list[NpuKernel]:
    """The kernels with the best tiles for products of these M, N and K."""
    kernels = []
    for shape in shapes:
        (task,) = cut(structure_of([multiplied(*shape)[0]._node]), FUSION).tasks
        kernel = device.claim(task)
        assert isinstance(kernel, NpuKernel)
        kernels.append(kernel)
    return kernels


def forms(kernel: NpuKernel) -> list[object]:
    """In which it reads and writes its operands."""
    return [move.form for move in (*kernel.cost.reads, *kernel.cost.writes)]


def seconds(kernels: Sequence[NpuKernel], change: float) -> float:
    """Return the time of kernels and reconfigurations."""
    changes = sum(a.cost.context != b.cost.context for a, b in pairwise(kernels))
    return change * changes + sum(kernel.cost.expense.seconds for kernel in kernels)


@pytest.mark.parametrize("uri", ["sim:npu1", "sim:npu2"])
def test_kernels_that_follow_each_other_share_tiles_where_that_takes_less(
    devices: dict[str, NpuDevice], uri: str
) -> None:
    device = devices[uri]
    change = (device.reconfiguration_cost or device.switch_cost).seconds
    for shapes in (SHAPES[1:], (SHAPES[3], SHAPES[0], SHAPES[3])):
        kernels = claimed(device, *shapes)
        best = [kernel.reason for kernel in kernels]
        alike = [[kernel, *(o for o in kernel.others if forms(o) == forms(kernel))] for kernel in kernels]
        ways = [*product(*alike)]
        least = min(seconds(way, change) for way in ways)
        device.share_configurations(kernels, once=False)
        assert seconds(kernels, change) == pytest.approx(least, rel=1e-12)
        for kernel, reason in zip(kernels, best, strict=True):
            assert ("differ from the configurations" in kernel.reason) == (kernel.reason != reason)


@needs_compiler
def test_tiles_that_are_ready_are_taken_for_one_run_unless_they_are_much_slower(
    devices: dict[str, NpuDevice],
) -> None:
    device = devices["sim:npu2"]
    (kernel,) = claimed(device, SHAPES[3])
    near, *_, far = kernel.others
    assert near.cost.expense.seconds < 2 * kernel.cost.expense.seconds < far.cost.expense.seconds
    device.library.find(far.request)
    for once, ready, tiles in ((True, None, kernel), (False, near, kernel), (True, near, near)):
        if ready is not None:
            device.library.find(ready.request)
        (chosen,) = claimed(device, SHAPES[3])
        device.share_configurations([chosen], once)
        assert chosen.cost.context == tiles.cost.context
        assert ("would have to be built first" in chosen.reason) == (tiles is not kernel)


@needs_compiler
def test_a_configuration_that_is_loaded_is_taken_for_one_run(devices: dict[str, NpuDevice]) -> None:
    first, second = SHAPES[0], SHAPES[3]
    result, _ = multiplied(*first)
    with nt.default_device("sim:npu1", "always"):
        result.realize()
        (device,) = selection.accelerators(selection.current())
    assert isinstance(device, NpuDevice)
    loaded, best = claimed(device, first, second)
    device.library.find(best.request)
    assert best.cost.context != loaded.cost.context
    for once in (False, True):
        (chosen,) = claimed(device, second)
        device.share_configurations([chosen], once)
        assert (chosen.cost.context == loaded.cost.context) == once
    assert "better tiles are not loaded" in chosen.reason


def best(result: nt.Tensor) -> Offer:
    """Return the best offer for a product on the simulated npu1."""
    (task,) = cut(structure_of([result._node]), FUSION).tasks
    offer = families.claim(task, simulated_target(parse_uri("sim:npu1")))
    assert isinstance(offer, Offer)
    return offer


@needs_compiler
def test_a_product_takes_the_tiles_that_are_ready() -> None:
    small, large = (32, 64, 64), (128, 256, 256)
    with nt.default_device("sim:npu1"):
        assert nt.explain(multiplied(*small)[0])[-1].device == "sim:npu1"
        with config.scope(jit="off"):
            result, expected = multiplied(*large)
            tiles = best(result).reason
            row = nt.explain(result)[-1]
            computed = result.float().numpy()
    assert row.device == "sim:npu1"
    assert tiles not in row.why
    assert "better tiles have no binary: building is off" in row.why
    np.testing.assert_allclose(computed, expected, rtol=2**-7, atol=2**-6 * np.sqrt(256))
