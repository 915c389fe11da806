"""Models of the suite, for npu_tensor and for PyTorch with the same parameters.

Example:
    model = MODELS["transformer_block"]
    x = npu_tensor.from_numpy(model.input).to("bfloat16").realize()
    call, twin = model.npu_tensor("bfloat16"), model.torch("bfloat16")
    call(x).realize()
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.examples.transformer_block import DIM, HEADS, HIDDEN, TOKENS, Block, random_tokens, random_weights

if TYPE_CHECKING:
    import torch

MLP_SIZES = (784, 512, 512, 10)


class Model(NamedTuple):
    """A model of the suite.

    Attributes:
        what: Description.
        input: float32 input, which the caller converts to the dtype.
        operations: Multiplications and additions of the matrix products.
        npu_tensor: Function from a dtype to the npu_tensor model, a callable on one tensor of that dtype.
        torch: The same for PyTorch. Raises ImportError without PyTorch.
    """

    what: str
    input: np.ndarray
    operations: int
    npu_tensor: Callable[[str], Callable[[nt.Tensor], nt.Tensor]]
    torch: Callable[[str], Callable[[torch.Tensor], torch.Tensor]]


def mlp_weights() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return float32 (weight, bias) of every layer. Rows of a weight are outputs."""
    random = np.random.default_rng(0)
    return [
        (
            random.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs)),
            np.ones(outputs, np.float32),
        )
        for inputs, outputs in pairwise(MLP_SIZES)
    ]


class Mlp:
    """Multilayer perceptron from images of 784 pixels to scores of 10 classes, with two hidden ReLU layers."""

    def __init__(self, dtype: str) -> None:
        self.layers = [
            (nt.from_numpy(weight).to(dtype).realize(), nt.from_numpy(bias).to(dtype).realize())
            for weight, bias in mlp_weights()
        ]

    @nt.jit
    def __call__(self, x: nt.Tensor) -> nt.Tensor:
        """Map (images, 784) to (images, 10)."""
        *hidden, last = self.layers
        for weight, bias in hidden:
            x = nt.linear(x, weight, bias).relu()
        return nt.linear(x, *last)


def _torch_block(dtype: str) -> Callable[[torch.Tensor], torch.Tensor]:
    from .torch_models import TorchBlock

    return TorchBlock(random_weights(), TOKENS, dtype)


def _torch_mlp(dtype: str) -> Callable[[torch.Tensor], torch.Tensor]:
    from .torch_models import TorchMlp

    return TorchMlp(mlp_weights(), dtype)


def _images(count: int) -> np.ndarray:
    return np.random.default_rng(0).random((count, MLP_SIZES[0]), np.float32)


def _mlp(images: int) -> Model:
    return Model(
        f"multilayer perceptron {'-'.join(map(str, MLP_SIZES))}, images: {images}",
        _images(images),
        2 * images * sum(inputs * outputs for inputs, outputs in pairwise(MLP_SIZES)),
        Mlp,
        _torch_mlp,
    )


MODELS = {
    "transformer_block": Model(
        f"transformer block of {DIM} features, {HEADS} heads, {TOKENS} tokens, SwiGLU {HIDDEN}",
        random_tokens(),
        2 * TOKENS * (4 * DIM * DIM + 2 * TOKENS * DIM + 3 * DIM * HIDDEN),
        Block,
        _torch_block,
    ),
    "mlp_1": _mlp(1),
    "mlp_64": _mlp(64),
}
