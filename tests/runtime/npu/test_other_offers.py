"""A product whose best tiles have no binary, on a machine that builds none: other tiles that are ready are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.sim.kind import simulated_target


def product(m: int, n: int, k: int) -> tuple[nt.Tensor, np.ndarray]:
    """As bfloat16, and the same in float64."""
    rng = np.random.default_rng(0)
    a, b = (nt.from_numpy(rng.standard_normal(shape, np.float32)).to(nt.bfloat16) for shape in ((m, k), (k, n)))
    a.realize(), b.realize()
    return a @ b, a.float().numpy().astype(np.float64) @ b.float().numpy()


def best(result: nt.Tensor) -> Offer:
    """Of a product on the simulated npu1."""
    (task,) = cut(structure_of([result._node]), FUSION).tasks
    offer = families.claim(task, simulated_target(parse_uri("sim:npu1")))
    assert isinstance(offer, Offer)
    return offer


@needs_compiler
def test_a_product_takes_the_tiles_that_are_ready(tmp_path: Path) -> None:
    small, large = (32, 64, 64), (128, 256, 256)
    with config.scope(cache_path=str(tmp_path)), nt.default_device("sim:npu1"):
        result, expected = product(*small)
        ready = nt.explain(result)[-1]
        assert ready.device == "sim:npu1"
        tiles = next(part for part in ready.why.split("; ") if part.startswith("tiles of"))
        assert tiles not in best(product(*large)[0]).reason
        with config.scope(jit="off"):
            result, expected = product(*large)
            row = nt.explain(result)[-1]
            computed = result.float().numpy()
    assert row.device == "sim:npu1"
    assert tiles in row.why
    np.testing.assert_allclose(computed, expected, rtol=2**-7, atol=2**-6 * np.sqrt(256))


@needs_compiler
@pytest.mark.filterwarnings("ignore:.*computes on the CPU")
def test_without_any_ready_tiles_the_reason_is_that_of_the_best(tmp_path: Path) -> None:
    with config.scope(cache_path=str(tmp_path), jit="off"), nt.default_device("sim:npu1"):
        row = nt.explain(product(128, 256, 256)[0].relu())[-1]  # No other test has these.
    assert row.device == "cpu"
    assert "building is off" in row.why
