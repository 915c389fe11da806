"""Interface of libraries for workloads: tensors with + - *, and a few functions with PyTorch's conventions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..timing import Call


class Lacking(Exception):
    """Error for a library that lacks a feature of a workload."""


class Library(ABC):
    """A contender. Workloads that need a function which a subclass does not define leave it out.

    Functions of one tensor: exp, tanh, gelu (with tanh), gelu_erf, relu, silu, softmax(x) and rms_norm(x, epsilon) of
    the last dimension, to(x, dtype), swapped(x, axis, axis). Functions of several tensors: matmul; linear(x, weights)
    and linear(x, weights, bias), with one row of weights per output; linear_int8, from int8 to int32; concatenated
    along the last dimension; conv2d(x, weights, stride=, padding=, groups=).

    Attributes:
        name: Name in the results.
        dtypes: Supported element types.
        device: Device in the results.
    """

    name: ClassVar[str]
    version: str
    dtypes: frozenset[str] = frozenset({"float32", "bfloat16", "float16"})
    device: str = "cpu"

    def __getattr__(self, name: str) -> Any:
        raise Lacking(f"{type(self).__name__} has no {name}")

    def around(self) -> AbstractContextManager[Any]:
        """Return a context manager around calls, entered once for many of them."""
        return nullcontext()

    @abstractmethod
    def operand(self, values: np.ndarray, dtype: str) -> Any:
        """Create a tensor in memory from float32 values, or from int8 values if that is the dtype."""

    @abstractmethod
    def values(self, result: Any) -> np.ndarray:
        """Return the values of a result: floats as float32, integers unchanged."""

    def scaled_rms_norm(self, x: Any, weight: Any, epsilon: float) -> Any:
        """Normalize the last dimension and multiply by a weight per element."""
        return self.rms_norm(x, epsilon) * weight

    def rotated(self, *tensors: Any, cosines: Any, sines: Any) -> list[Any]:
        """Rotate the halves of the features of each (tokens, heads, features) by the angles of the positions."""
        half = tensors[0].shape[-1] // 2
        return [x * cosines + self.concatenated(x[..., half:] * -1, x[..., :half]) * sines for x in tensors]

    def attention(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
        """Compute the attention of (heads, tokens, features) with a mask of causal scores."""
        scores = self.matmul(query, self.swapped(key, 1, 2)) * (1 / math.sqrt(query.shape[-1])) + mask
        return self.matmul(self.softmax(scores), value)

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        """Return a call that computes the result and waits for it. `compute` takes the library and the operands.

        The last `constants` operands are the parameters of a model, which a library may capture.
        """
        return partial(compute, self, *operands)
