"""JAX: compiled by XLA for the processor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from ..timing import Call
from .library import Library


class JAX(Library):
    """JAX with one jitted function per workload. `load` sets the number of threads before the import."""

    name = "jax"
    version = jax.__version__
    dtypes = frozenset({"float32", "bfloat16", "float16", "int8"})

    exp = staticmethod(jnp.exp)
    tanh = staticmethod(jnp.tanh)
    gelu = staticmethod(jax.nn.gelu)
    gelu_erf = staticmethod(partial(jax.nn.gelu, approximate=False))
    relu = staticmethod(jax.nn.relu)
    silu = staticmethod(jax.nn.silu)
    softmax = staticmethod(jax.nn.softmax)
    matmul = staticmethod(jnp.matmul)

    def __init__(self, threads: int) -> None:
        self.processor = jax.devices("cpu")[0]

    @staticmethod
    def rms_norm(x: Any, epsilon: float) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)).astype(x.dtype)

    @staticmethod
    def linear(x: Any, weights: Any, bias: Any = 0) -> Any:
        return x @ weights.T + bias

    @staticmethod
    def linear_int8(x: Any, weights: Any) -> Any:
        return jnp.matmul(x, weights.T, preferred_element_type=jnp.int32)

    @staticmethod
    def conv2d(x: Any, weights: Any, stride: int, padding: int, groups: int) -> Any:
        return jax.lax.conv_general_dilated(
            x, weights, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups
        )

    @staticmethod
    def to(x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    @staticmethod
    def concatenated(*parts: Any) -> Any:
        return jnp.concatenate(parts, -1)

    swapped = staticmethod(jnp.swapaxes)

    def operand(self, values: np.ndarray, dtype: str) -> Any:
        return jax.device_put(jnp.asarray(values, dtype), self.processor)

    def values(self, result: Any) -> np.ndarray:
        return np.asarray(result if result.dtype == jnp.int32 else result.astype(jnp.float32))

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        function = jax.jit(partial(compute, self))
        return lambda: function(*operands).block_until_ready()
