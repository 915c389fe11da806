"""Models as contests: idiomatic versions for npu_tensor and PyTorch, one description for other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.examples.transformer_block import DIM, EPSILON, HEADS, TOKENS, random_weights

from .cases import ITEMSIZE, size_name
from .models import MODELS, mlp_weights
from .peers.library import Lacking, Library
from .peers.npu_tensor import JITTED, NAME, NpuTensor
from .peers.numpy import Reference
from .timing import Call

FEATURES: Final = DIM // HEADS
ROPE_BASE: Final = 10000.0


class Portable(NamedTuple):
    """A model for any `Library`.

    `compute` takes library, input and float32 parameters. `result` maps the input shape to the result shape.
    """

    compute: Callable[..., Any]
    parameters: Callable[[], list[np.ndarray]]
    suite: str
    result: Callable[[tuple[int, ...]], tuple[int, ...]]


def _mlp(library: Library, x: Any, *parameters: Any) -> Any:
    *hidden, weight, bias = parameters
    for weight_before, bias_before in zip(hidden[::2], hidden[1::2], strict=True):
        x = library.relu(library.linear(x, weight_before) + bias_before)
    return library.linear(x, weight) + bias


def _mlp_parameters() -> list[np.ndarray]:
    return [parameter for layer in mlp_weights() for parameter in layer]


def _transformer_block(library: Library, x: Any, *parameters: Any) -> Any:
    norm, query, key, value, output, feed_norm, gate, up, down, cosines, sines, mask = parameters

    def heads(x: Any, weights: Any) -> Any:
        return library.swapped(library.linear(x, weights).reshape(TOKENS, HEADS, FEATURES), 0, 1)

    def rotated(x: Any) -> Any:
        turned: Any = library.concatenated(x[..., FEATURES // 2 :] * -1, x[..., : FEATURES // 2])
        return x * cosines + turned * sines

    normal = library.rms_norm(x, EPSILON) * norm
    keys = library.swapped(rotated(heads(normal, key)), 1, 2)
    scores = library.matmul(rotated(heads(normal, query)), keys) * (1 / math.sqrt(FEATURES)) + mask
    mixed = library.matmul(library.softmax(scores), heads(normal, value))
    x = x + library.linear(library.swapped(mixed, 0, 1).reshape(TOKENS, DIM), output)
    normal = library.rms_norm(x, EPSILON) * feed_norm
    return x + library.linear(library.silu(library.linear(normal, gate)) * library.linear(normal, up), down)


def _block_parameters() -> list[np.ndarray]:
    """Return the weights in order of creation, and the tables: cosines, sines and the score mask."""
    rates = ROPE_BASE ** (-np.arange(0, FEATURES, 2) / FEATURES)
    angles = np.tile(np.outer(np.arange(TOKENS), rates), (1, 2))
    later = np.triu(np.full((TOKENS, TOKENS), -1e9), 1)
    tables = (np.cos(angles), np.sin(angles), later)
    return [*random_weights().values(), *(table.astype(np.float32) for table in tables)]


PORTABLE: Final = {
    "transformer_block": Portable(_transformer_block, _block_parameters, "transformer", lambda x: x),
    **{name: Portable(_mlp, _mlp_parameters, "mlp", lambda x: (x[0], 10)) for name in ("mlp_1", "mlp_64")},
}


WRITTEN: Final = {NAME: "", JITTED: "npu_tensor", "torch": "torch"}
"""Fields of `Model` with the idiomatic version for each contender; empty if there is none."""


class ModelCase(NamedTuple):
    """A model in a dtype."""

    title: str
    dtype: str

    @property
    def suite(self) -> str:
        """Suite of the model."""
        return PORTABLE[self.title].suite

    @property
    def shapes(self) -> list[list[int]]:
        """Shape of the input, in a list."""
        return [list(MODELS[self.title].input.shape)]

    @property
    def size(self) -> str:
        """Extents of the input."""
        return size_name(MODELS[self.title].input.shape)

    @property
    def flops(self) -> int:
        """Operations of the matrix products."""
        return MODELS[self.title].operations

    @property
    def nbytes(self) -> int:
        """Bytes of input, parameters and result, each moved once."""
        first = MODELS[self.title].input
        read = first.size + sum(parameter.size for parameter in PORTABLE[self.title].parameters())
        return (read + math.prod(PORTABLE[self.title].result(first.shape))) * ITEMSIZE[self.dtype]

    def expected(self) -> np.ndarray:
        """Compute the result in float64 from the portable description."""
        reference = Reference()
        return np.asarray(PORTABLE[self.title].compute(reference, *self._operands(reference)))

    def contender(self, library: Library) -> Callable[[], Call]:
        """Return a factory of the timed call. npu_tensor and PyTorch use the version in `MODELS`."""
        written = WRITTEN.get(library.name)
        if written is None:
            return partial(library.call, PORTABLE[self.title].compute, self._operands(library))
        if written == "":
            raise Lacking(f"the model is one captured function: see {JITTED}")
        model = getattr(MODELS[self.title], written)(self.dtype)
        return partial(library.call, lambda _, x: model(x), (library.operand(MODELS[self.title].input, self.dtype),))

    def recorded(self) -> tuple[nt.Tensor, nt.Tensor]:
        """Return the pending result and the input."""
        model = MODELS[self.title].npu_tensor(self.dtype)
        x = NpuTensor().operand(MODELS[self.title].input, self.dtype)
        captured: Any = type(model).__call__  # A function under nt.jit would compute.
        return captured.__wrapped__(model, x), x

    def _operands(self, library: Library) -> tuple[Any, ...]:
        values = (MODELS[self.title].input, *PORTABLE[self.title].parameters())
        return tuple(library.operand(value, self.dtype) for value in values)


def model_cases(suite: str) -> Iterator[ModelCase]:
    """Yield the model cases of a suite."""
    for title, portable in PORTABLE.items():
        if portable.suite == suite:
            for dtype in ("float32", "bfloat16"):
                yield ModelCase(title, dtype)
