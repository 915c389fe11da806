"""Gradients on simulated NPUs: which kernels they claim, and what these compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import nn


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), (64, 64)


def transformer_layer() -> tuple[nn.Module, tuple[int, ...]]:
    return nn.TransformerEncoderLayer(64, 2, 64, 0.0, batch_first=True), (1, 64, 64)


@needs_compiler
@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
@pytest.mark.parametrize("make", [mlp, transformer_layer])
def test_a_network_in_bfloat16(make: Any, device: str) -> None:
    nt.manual_seed(0)
    model, shape = make()
    model.bfloat16()
    drawn = np.random.default_rng(0)
    x, weights = (nt.from_numpy(drawn.standard_normal(shape)).to("bfloat16") for _ in range(2))
    names = dict(model.named_parameters())

    def gradients(dtype: str) -> dict[str, nt.Tensor]:
        parameters = {name: each.detach().to(dtype) for name, each in names.items()}
        own, scale = x.to(dtype), weights.to(dtype)
        result: dict[str, nt.Tensor] = nt.grad(lambda p: (nn.functional_call(model, p, own) * scale).sum())(parameters)
        return result

    exact = {name: each.numpy() for name, each in gradients("float32").items()}
    with nt.default_device(device):
        rounded = gradients("bfloat16")
        rows = nt.explain(*rounded.values())
        values = {name: each.to("float32").numpy() for name, each in rounded.items()}
    there = [row.op for row in rows if row.device == device]
    assert {"contract", "relu_backward_0", "sum"} <= {*there}  # what norms compute in float32 stays on the CPU
    assert {row.device for row in rows if row.op == "contract"} == {device}
    for name, expected in exact.items():
        difference = values[name] - expected
        assert np.sqrt((difference**2).mean()) < 0.02 * np.sqrt((expected**2).mean()), name
