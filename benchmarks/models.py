"""Models of the suite as functions of a `Library`, an input and parameters, with reproducible values of both."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np

from npu_tensor.examples.transformer_block import DIM, EPSILON, HEADS, TOKENS, random_tokens, random_weights

from .peers.library import Library

MLP_SIZES: Final = (784, 512, 512, 10)
FEATURES: Final = DIM // HEADS
ROPE_BASE: Final = 10000.0


def mlp(library: Library, x: Any, *parameters: Any) -> Any:
    """Map images of 784 pixels to scores of 10 classes, with two hidden ReLU layers."""
    *hidden, weight, bias = parameters
    for hidden_weight, hidden_bias in zip(hidden[::2], hidden[1::2], strict=True):
        x = library.relu(library.linear(x, hidden_weight, hidden_bias))
    return library.linear(x, weight, bias)


def mlp_values(images: int) -> list[np.ndarray]:
    """Return images, and weight and bias of every layer. Rows of a weight are outputs."""
    random = np.random.default_rng(0)
    parameters = [
        parameter
        for inputs, outputs in pairwise(MLP_SIZES)
        for parameter in (
            random.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs)),
            np.ones(outputs, np.float32),
        )
    ]
    return [np.random.default_rng(0).random((images, MLP_SIZES[0]), np.float32), *parameters]


def transformer_block(library: Library, x: Any, *parameters: Any) -> Any:
    """Compute the block of examples/transformer_block.py, in the ops that a user of the library would choose."""
    norm, query, key, value, output, feed_norm, gate, up, down, cosines, sines, mask = parameters
    normal = library.scaled_rms_norm(x, norm, EPSILON)
    projected = [library.linear(normal, weights) for weights in (query, key, value)]
    queries, keys, values = (each.reshape(TOKENS, HEADS, FEATURES) for each in projected)
    queries, keys = library.rotated(queries, keys, cosines=cosines, sines=sines)
    queries, keys, values = (library.swapped(each, 0, 1) for each in (queries, keys, values))
    mixed = library.attention(queries, keys, values, mask)
    x = x + library.linear(library.swapped(mixed, 0, 1).reshape(TOKENS, DIM), output)
    normal = library.scaled_rms_norm(x, feed_norm, EPSILON)
    gated = library.silu(library.linear(normal, gate)) * library.linear(normal, up)
    return x + library.linear(gated, down)


def block_values() -> list[np.ndarray]:
    """Return tokens, the weights in order of creation, and tables: cosines, sines and the mask of the scores."""
    rates = ROPE_BASE ** (-np.arange(0, FEATURES, 2) / FEATURES)
    angles = np.tile(np.outer(np.arange(TOKENS), rates), (1, 2))[:, None]
    later = np.triu(np.full((TOKENS, TOKENS), -1e9), 1)
    tables = (table.astype(np.float32) for table in (np.cos(angles), np.sin(angles), later))
    return [random_tokens(), *random_weights().values(), *tables]


def product_flops(x: tuple[int, ...], *parameters: tuple[int, ...]) -> int:
    """Return the flops of the products of rows with the weights."""
    return 2 * x[0] * sum(math.prod(shape) for shape in parameters if len(shape) == 2)
