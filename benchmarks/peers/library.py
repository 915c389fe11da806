"""What a workload asks of a library: tensors with + - *, and a few functions, called as in PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..timing import Call

__all__ = ["Lacking", "Library"]


class Lacking(Exception):
    """A library does not have what a workload needs."""


class Library(ABC):
    """A contender. What a subclass does not define, it lacks, and workloads that need it leave it out.

    name: as in the results. dtypes: element types it computes in. device: where, as in the results.

    Functions of one tensor: exp, tanh, gelu (with tanh), gelu_erf, relu, silu, softmax(x) and rms_norm(x, epsilon) of
    the last dimension, to(x, dtype), swapped(x, axis, axis). Of several: matmul; linear(x, weights), whose weights have
    a row per output, and linear(x, weights, bias); linear_int8, the former from int8 to int32; concatenated along the
    last dimension; conv2d(x, weights, stride=, padding=, groups=).
    """

    name: ClassVar[str]
    version: str
    dtypes: frozenset[str] = frozenset({"float32", "bfloat16", "float16"})
    device: str = "cpu"

    def __getattr__(self, name: str) -> NoReturn:
        raise Lacking(f"{type(self).__name__} has no {name}")

    def around(self) -> AbstractContextManager[Any]:
        """What calls are made inside of, which is entered once for many of them."""
        return nullcontext()

    @abstractmethod
    def operand(self, values: np.ndarray, dtype: str) -> Any:
        """A tensor of that dtype, in memory, from float32 values, or from int8 values if that is the dtype."""

    @abstractmethod
    def values(self, result: Any) -> np.ndarray:
        """The numbers of a result: float32, or integers as they are."""

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...]) -> Call:
        """A function that computes anew and returns when the result is there. compute: takes library and operands."""
        return partial(compute, self, *operands)
