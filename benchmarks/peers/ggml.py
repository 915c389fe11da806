"""GGML through the package ggml-python: graphs recorded once and computed by its CPU back end."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import ggml
import numpy as np

from ..timing import Call
from .library import Library

NODES = 2048
"""Maximum number of nodes in a graph."""


@dataclass(frozen=True)
class _Node:
    """A tensor and the context that records the ops on it."""

    tensor: Any
    graph: Any

    def __add__(self, other: _Node) -> _Node:
        return self._with(ggml.ggml_add, other)

    def __sub__(self, other: _Node) -> _Node:
        return self._with(ggml.ggml_sub, other)

    def __mul__(self, other: _Node) -> _Node:
        return self._with(ggml.ggml_mul, other)

    def _with(self, function: Callable[..., Any], *others: Any) -> _Node:
        operands = (other.tensor if isinstance(other, _Node) else other for other in others)
        return _Node(function(self.graph, self.tensor, *operands), self.graph)


class _Held:
    """A tensor and its memory, which is freed with this object. `needs` are objects that must live as long."""

    def __init__(self, tensor: Any, needs: tuple[Any, ...], *frees: Callable[[], Any]) -> None:
        self.tensor = tensor
        self.needs = needs
        for free in frees:
            # ggml may be unloaded at the end of the process.
            weakref.finalize(self, free).atexit = False


def _unary(name: str) -> Any:
    function = getattr(ggml, f"ggml_{name}")
    return staticmethod(lambda x: x._with(function))


def _context() -> Any:
    """Create a context with memory for tensor descriptions, not for elements."""
    size = NODES * ggml.ggml_tensor_overhead() + ggml.ggml_graph_overhead_custom(NODES, False)
    return ggml.ggml_init(ggml.ggml_init_params(mem_size=size, mem_buffer=None, no_alloc=True))


class GGML(Library):
    """GGML in float32 only. Results are always float32, and its custom functions support nothing else."""

    name = "ggml"
    version = metadata.version("ggml-python")
    dtypes = frozenset({"float32"})

    exp = _unary("exp")
    tanh = _unary("tanh")
    gelu = _unary("gelu")
    gelu_erf = _unary("gelu_erf")
    relu = _unary("relu")
    silu = _unary("silu")
    softmax = _unary("soft_max")

    def __init__(self, threads: int) -> None:
        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)

    @staticmethod
    def rms_norm(x: _Node, epsilon: float) -> _Node:
        return x._with(ggml.ggml_rms_norm, epsilon)

    @staticmethod
    def linear(x: _Node, weights: _Node, bias: _Node | None = None) -> _Node:
        product = weights._with(ggml.ggml_mul_mat, x)
        return product if bias is None else product + bias

    def operand(self, values: np.ndarray, dtype: str) -> Any:
        context = _context()
        tensor = ggml.ggml_new_tensor(
            context, ggml.GGML_TYPE_F32, values.ndim, (ctypes.c_int64 * 4)(*reversed(values.shape))
        )
        elements = ggml.ggml_backend_alloc_ctx_tensors(context, self.backend)
        data = np.ascontiguousarray(values, np.float32)
        ggml.ggml_backend_tensor_set(tensor, data.ctypes.data_as(ctypes.c_void_p), 0, data.nbytes)
        return _Held(tensor, (), partial(ggml.ggml_free, context), partial(ggml.ggml_backend_buffer_free, elements))

    def values(self, result: Any) -> np.ndarray:
        tensor = result.tensor
        shape = tensor.contents.ne[: ggml.ggml_n_dims(tensor)][::-1]
        data = np.empty(shape, np.float32)
        ggml.ggml_backend_tensor_get(tensor, data.ctypes.data_as(ctypes.c_void_p), 0, data.nbytes)
        return data

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        context = _context()
        computed = compute(self, *(_Node(operand.tensor, context) for operand in operands)).tensor
        graph = ggml.ggml_new_graph_custom(context, NODES, False)
        ggml.ggml_build_forward_expand(graph, computed)
        memory = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(self.backend))
        ggml.ggml_gallocr_alloc_graph(memory, graph)
        result = _Held(computed, operands, partial(ggml.ggml_free, context), partial(ggml.ggml_gallocr_free, memory))

        def run() -> Any:
            ggml.ggml_backend_graph_compute(self.backend, graph)
            return result

        return run
