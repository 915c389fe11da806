"""Interface of libraries for workloads: tensors with + - *, and a few functions with PyTorch's conventions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, NoReturn

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

    def __getattr__(self, name: str) -> NoReturn:
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

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...]) -> Call:
        """Return a call that computes the result and waits for it. `compute` takes the library and the operands."""
        return partial(compute, self, *operands)
