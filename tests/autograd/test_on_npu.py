"""Gradients on simulated NPUs: claimed kernels and their results."""

from collections.abc import Callable

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import nn

UNIT = 2.0**-8
"""Relative rounding unit of bfloat16."""


def mlp() -> nn.Module:
    """Build a network without ReLU, because a rounded operand may be on the other side of 0."""
    return nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 64))


def transformer_layer() -> nn.Module:
    """Build a network of attention and a perceptron."""
    return nn.TransformerEncoderLayer(64, 2, 64, 0.0, batch_first=True)


@needs_compiler
@pytest.mark.parametrize(
    ("make", "device"),
    [
        (mlp, "sim:npu1"),
        (transformer_layer, "sim:npu2"),
        pytest.param(transformer_layer, "sim:npu1", marks=pytest.mark.slow),
    ],
)
def test_a_network_in_bfloat16(make: Callable[[], nn.Module], device: str) -> None:
    """Errors are at most a unit above those of the CPU, which keeps more intermediate results in float32."""
    nt.manual_seed(0)
    model = make().bfloat16()
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
        pending = gradients("bfloat16")
        rows = nt.explain(*pending.values())
        on_npu = values(pending)
    there = {row.op for row in rows if row.device == device}
    assert {"contract", "sum"} < there
    assert there & {"relu_backward_0", "silu_backward_0"}
    assert {row.device for row in rows if row.op == "contract"} == {device}
    for name, expected in exact.items():
        differences = on_npu[name] - expected, on_cpu[name] - expected
        error, usual, size = (np.sqrt((each**2).mean()) for each in (*differences, expected))
        assert error < 1.3 * usual + UNIT * size, name
