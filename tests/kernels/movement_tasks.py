"""Tasks out of NumPy views, and their runs on the simulated array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.kernels.offer import Float32, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.runtime.npu.packing import pack, unpack
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Input, Output, Task

Array = np.ndarray[Any, Any]


def target(arch: str, columns: int, float32: Float32 = "exact") -> Target:
    """The first columns of an array."""
    return Target(ARRAYS[arch], columns, float32)  # type: ignore[index]


def random_bits(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Elements of any bits, NaNs and infinities among them; bools are 0 or 1."""
    generator = np.random.default_rng(seed)
    if dtype.name == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    return np.frombuffer(generator.bytes(math.prod(shape) * dtype.itemsize), dtype.numpy).reshape(shape)


def layout_of(view: Array, base: Array) -> Layout:
    """Return the layout of a view in the buffer of `base`."""
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return Layout(view.shape, tuple(step // base.itemsize for step in view.strides), offset // base.itemsize)


def _input(item: int, view: Array, base: Array) -> Input:
    return Input(item, as_dtype(base.dtype), layout_of(view, base))


def _output(item: int, shape: tuple[int, ...], dtype: DType) -> Output:
    return Output(item, dtype, Layout(shape, contiguous_strides(shape)), math.prod(shape) * dtype.itemsize)


def copy_task(view: Array, base: Array) -> Task:
    """Make a view contiguous."""
    dtype = as_dtype(base.dtype)
    program = Program((Instruction("load", (), dtype.register, 0),), (0,))
    outputs = (_output(1, view.shape, dtype),)
    return Task("map", (1,), ("copy",), (_input(0, view, base),), outputs, view.shape, program=program)


def data_task(name: str, views: list[Array], bases: list[Array], *attributes: Any) -> Task:
    """A data op on views, each of which reads one of the base arrays."""
    specs = tuple(Spec.of(view.shape, as_dtype(view.dtype)) for view in views)
    call = ops.OPS[name].call(specs, attributes)
    inputs = tuple(_input(number, view, base) for number, (view, base) in enumerate(zip(views, bases, strict=True)))
    output = _output(len(views), call.spec.shape, call.spec.dtype)
    return Task("data", (len(views),), (name,), inputs, (output,), call.spec.shape, call=call)


def simulate(task: Task, offer: Offer, where: Target, buffers: list[Array]) -> Array:
    """Return the result of the offered design for the buffers. It runs twice because fifos keep their state."""
    design = offer.design()
    loaded = SimulatedArray(where.array, where.columns).load(design)
    memories = []
    for operand in offer.operands:
        memory = np.full(math.prod(operand.padded) * np.dtype(operand.dtype).itemsize, 0xA5, np.uint8)
        if not operand.output:
            assert operand.number is not None
            pack(operand, buffers[operand.number].reshape(-1), memory)
        memories.append(memory)
    output = task.outputs[0]
    result = np.zeros(math.prod(task.shape), output.dtype.numpy)
    for _ in range(2):
        memories[-1][:] = 0x5A
        loaded.run(memories)
        unpack(offer.operands[-1], memories[-1], result)
    return result.reshape(task.shape)
