"""Tasks out of NumPy views, and runs of the designs that kernel families offer, on the simulated array."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from npu_tensor import ops
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import count
from npu_tensor.dataflow.design import Design
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import Float32, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.npu.packing import pack, unpack
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Fusion, Input, Output, Refusal, Task, TensorInput
from npu_tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


def target(name: str, columns: int = 0, float32: Float32 = "exact") -> Target:
    """The first columns of an array or of a simulated NPU, by default all."""
    array = SIMULATED.get(name) or ARRAYS[name]  # type: ignore[index]
    return Target(array, columns or array.columns, float32)


WHOLE = {arch: target(arch) for arch in ARRAYS}
TARGETS = [target(arch, columns) for arch, array in ARRAYS.items() for columns in range(1, 1 + array.columns)]
"""Every number of columns of both arrays."""

arrays = pytest.mark.parametrize("where", WHOLE.values(), ids=list(WHOLE))


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
    return TensorInput(item, as_dtype(base.dtype), layout_of(view, base))


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


def task_of(result: Tensor, fusion: Fusion = SimulatedDevice.fusion) -> Task:
    """Return the only task of a recorded result."""
    (task,) = cut(structure_of([result._node]), fusion).tasks
    return task


def conv_of(result: Tensor) -> Task:
    """Return the task of the only convolution among those of a recorded result."""
    (task,) = (each for each in cut(structure_of([result._node]), SimulatedDevice.fusion).tasks if each.kind == "conv")
    return task


def nmse(found: Array, expected: Array) -> float:
    """Normalized mean square error; results must be zeros if those expected are."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    error, power = float(((found - expected) ** 2).sum()), float((expected**2).sum())
    return error / power if power else math.inf if error else 0.0


def clipped(values: Array, least: int = -128) -> Array:
    """Round numbers to int8, and bound them by `least` and 127."""
    return np.clip(np.rint(values), least, 127).astype(np.int8)


def accepted(answer: Offer | Refusal) -> Design:
    """Return the design of an offer, which must pass every check and have the host buffers of its operands."""
    assert isinstance(answer, Offer), answer
    design = answer.design()
    assert check(design) == []
    for operand, buffer in zip(answer.operands, design.host_buffers, strict=True):
        assert math.prod(operand.padded) * as_dtype(operand.dtype).itemsize == buffer.type.nbytes
    return design


def simulate(task: Task, answer: Offer | Refusal, where: Target, buffers: Sequence[Any]) -> list[Array]:
    """Return the results of a task from the buffers of its tensors, and its numbers, on the simulated array.

    The design runs twice, because fifos and cores keep their state. What is counted must be what `count` predicts.
    """
    assert isinstance(answer, Offer), answer
    design = accepted(answer)
    loaded = SimulatedArray(where.array, where.columns).load(design)
    memories = [np.full(buffer.type.nbytes, 0xA5, np.uint8) for buffer in design.host_buffers]
    for operand, memory in zip(answer.operands, memories, strict=True):
        if operand.number is not None and not operand.output:
            pack(operand, np.asarray(buffers[operand.number]).reshape(-1), memory)
    words = [int(np.array(buffers[number], kind).view(np.int32)) for number, kind in answer.scalars]
    outputs = [pair for pair in zip(answer.operands, memories, strict=True) if pair[0].output]
    for _ in range(2):
        for _, memory in outputs:
            memory[:] = 0x5A
        assert loaded.run(memories, words) == count(design)
    results = []
    for operand, memory in outputs:
        assert operand.number is not None
        output = task.outputs[operand.number]
        result = np.zeros(output.nbytes // output.dtype.itemsize, output.dtype.numpy)
        unpack(operand, memory, result)
        results.append(result.reshape(output.layout.shape))
    return results


def computed(task: Task, where: Target, buffers: Sequence[Any]) -> Array:
    """Return the only result of a task, as the kernel of its family computes it on the simulated array."""
    (result,) = simulate(task, families.claim(task, where), where, buffers)
    return result
