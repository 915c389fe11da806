"""Gradients on simulated NPUs: which kernels they claim, and what these compute."""

from __future__ import annotations

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import nn


@needs_compiler
@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_a_transformer_layer_in_bfloat16(device: str) -> None:
    """Its second half is a perceptron. Errors are those of bfloat16 on the CPU, where each sum is float32, too."""
    nt.manual_seed(0)
    model = nn.TransformerEncoderLayer(64, 2, 64, 0.0, batch_first=True).bfloat16()
    drawn = np.random.default_rng(0)
    x, weights = (nt.from_numpy(drawn.standard_normal((1, 64, 64))).to("bfloat16") for _ in range(2))

    def gradients(dtype: str) -> dict[str, nt.Tensor]:
        parameters = {name: each.detach().to(dtype) for name, each in model.named_parameters()}
        own, scale = x.to(dtype), weights.to(dtype)
        result: dict[str, nt.Tensor] = nt.grad(lambda p: (nn.functional_call(model, p, own) * scale).sum())(parameters)
        return result

    def values(tensors: dict[str, nt.Tensor]) -> dict[str, np.ndarray]:
        return {name: each.to("float32").numpy() for name, each in tensors.items()}

    exact, on_cpu = values(gradients("float32")), values(gradients("bfloat16"))
    with nt.default_device(device):
        there = gradients("bfloat16")
        rows = nt.explain(*there.values())
        on_npu = values(there)
    assert {"contract", "relu_backward_0", "sum"} <= {row.op for row in rows if row.device == device}
    assert {row.device for row in rows if row.op == "contract"} == {device}
    for name, expected in exact.items():
        error, usual = (np.sqrt(((each[name] - expected) ** 2).mean()) for each in (on_npu, on_cpu))
        assert error < 1.3 * usual + 1e-6, name
