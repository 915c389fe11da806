"""Placement by predicted cost on an NPU, behind the stand-in: what it is asked for, and what stays there."""

from __future__ import annotations

import numpy as np
from machine import Machine
from running import heard

import npu_tensor as nt
from npu_tensor import events


def ran(*tensors: nt.Tensor) -> list[str]:
    """The devices of the kernels of a realize."""
    with heard(events.KernelRan) as seen:
        nt.realize(*tensors)
    return [event.device for event in seen]


def test_products_go_to_the_npu_from_a_size_on_and_results_stay(machine: Machine) -> None:
    generator = np.random.default_rng(0)
    x = nt.from_numpy(generator.standard_normal((1024, 1024), np.float32) / 32).to(nt.bfloat16).realize()
    with nt.default_device("npu", policy="latency"):
        small = x[:16, :64].realize()
        assert ran(small @ small.transpose(0, 1)) == ["cpu"]
        assert machine.launches == 0
        y = (x @ x).relu()
        assert ran(y) == ["npu"]
        assert y.device == "npu"
        assert x.to(y) is x
        assert nt.zeros(2, device=y.device).tolist() == [0.0, 0.0]
        expected = np.maximum(x.numpy().astype(np.float32) @ x.numpy().astype(np.float32), 0)
        z = y + 1  # far less work than bringing it there or back would be worth a switch of the context for
        assert ran(z) == ["cpu"]
        np.testing.assert_allclose(z.numpy().astype(np.float32), expected + 1, rtol=0.02, atol=0.02)


def test_real_npus_are_placed_by_latency_unless_told_otherwise(machine: Machine) -> None:
    x = nt.ones(64, dtype=nt.bfloat16).realize()
    with nt.default_device("npu", policy="auto"):
        assert nt.explain(x + x)[-1].device == "cpu"
    with nt.default_device("npu", policy="always"):
        assert nt.explain(x + x)[-1].device == "npu"
