"""The element-wise family on the simulated array: every op, every way of broadcasting, both generations.

Results are compared with the ops' formulas in NumPy, in float64 and rounded once, or in the integer type itself.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npu_tensor as nt
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import Call, Design, Loop, Source, Statement, Transfer
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.fuse import share_common, tasks
from npu_tensor.graph import capture, digraph
from npu_tensor.kernels import elementwise
from npu_tensor.kernels.offer import Float32, Offer, Target
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Builder
from npu_tensor.runtime.sim.array import SimulatedArray
from npu_tensor.runtime.sim.device import pack, unpack
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Fusion, Input, Output, Refusal, Task
from npu_tensor.tensor import RECORDERS, Tensor

Array = np.ndarray[Any, Any]
ARCHS = ("aie2", "aie2p")


def target(arch: str, columns: int | None = None, float32: Float32 = "exact") -> Target:
    return Target(ARRAYS[arch], columns or ARRAYS[arch].columns, float32)


def tasks_of(*results: Tensor) -> list[Task]:
    """What the scheduler makes of lazy tensors."""
    graph = digraph(capture([result._node for result in results]))
    share_common(graph)
    return tasks(graph, Fusion(inputs=4, prologues=False)).tasks


def task_of(*results: Tensor) -> Task:
    (task,) = tasks_of(*results)
    return task


def claimed(task: Task, target: Target) -> Offer:
    offer = elementwise.claim(task, target)
    assert isinstance(offer, Offer), offer
    return offer


def flat(values: Array) -> Array:
    return np.ascontiguousarray(values).ravel()


def run(task: Task, offer: Offer, design: Design, inputs: Sequence[Any], runs: int = 1) -> list[Array]:
    """The results of a task, in its shape, from the whole buffers of its tensors (flat) and its numbers."""
    array = SimulatedArray(ARRAYS[design.arch])
    loaded = array.load(design)
    memory = [np.full(math.prod(o.padded) * as_dtype(o.dtype).itemsize, 0xA5, np.uint8) for o in offer.operands]
    for operand, host in zip(offer.operands, memory, strict=True):
        if not operand.output:
            assert operand.number is not None
            pack(operand, inputs[operand.number], host)
    words = [int(np.array(inputs[number], kind).view(np.int32)) for number, kind in offer.scalars]
    for _ in range(runs):
        loaded.run(memory, words)
    results = []
    for operand, host in zip(offer.operands, memory, strict=True):
        if operand.output:
            assert operand.number is not None
            output = task.outputs[operand.number]
            result = np.zeros(output.nbytes // output.dtype.itemsize, output.dtype.numpy)
            unpack(operand, host, result)
            results.append(result.reshape(task.shape))
    return results


def renamed(design: Design, number: int) -> Design:
    """The same design with a number in the names of its functions."""
    names = {function.symbol: f"{function.symbol}_{number}" for function in design.functions}

    def statements(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            step._replace(function=names[step.function])
            if isinstance(step, Call)
            else step._replace(body=statements(step.body))
            if isinstance(step, Loop)
            else step
            for step in body
        )

    source = design.functions[0].source
    text = re.sub(r"\bnt_(map|keep\d)\b", rf"nt_\1_{number}", source.text)
    functions = tuple(
        dataclasses.replace(function, symbol=names[function.symbol], source=Source(source.name, text))
        for function in design.functions
    )
    workers = tuple(dataclasses.replace(worker, body=statements(worker.body)) for worker in design.workers)
    return dataclasses.replace(design, functions=functions, workers=workers)


def together(designs: Sequence[Design]) -> list[Design]:
    """The same designs with the functions of all in one source, so that the compiler runs once."""
    designs = [renamed(design, number) for number, design in enumerate(designs)]
    source = Source("all", "".join(design.functions[0].source.text for design in designs))
    functions = [dataclasses.replace(f, source=source) for design in designs for f in design.functions]
    return [dataclasses.replace(design, functions=tuple(functions)) for design in designs]


# --- every op


class Case(NamedTuple):
    """An op with operands: what it is called with, and what it should give."""

    task: Task
    inputs: list[Any]
    expected: Array


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "add": {"alpha": 2},
    "sub": {"alpha": 3},
    "clamp": {"min": 1, "max": 3},
    "scale": {"s": -0.5, "b": 3.0},
    "elu": {"alpha": 0.5},
    "xielu": {"alpha_n": 0.8, "alpha_p": 0.5, "beta": 0.5, "eps": -1e-6},
}
NUMERIC = (nt.bfloat16, nt.int32, nt.int16, nt.int8, nt.uint8, nt.bool, nt.float16, nt.float32)
SHAPE = (3, 37)

# What NumPy does not define, and a bound that is no number of the dtype.
UNDEFINED = {("lerp", "bool"), ("hardtanh", "uint8")}

# Ops of the registry's kind "map" that need other operands than some tensors of one dtype; see the tests below.
ELSEWHERE = {"where", "convert", "fill"}
MAPS = [name for name, op in OPS.items() if op.kind == "map" and name not in ELSEWHERE]


def sample(random: np.random.Generator, dtype: DType, domain: tuple[float, float], shape: tuple[int, ...]) -> Array:
    low, high = domain
    if dtype.is_floating_point:
        return random.uniform(low, high, shape).astype(dtype.numpy)
    if dtype is nt.bool:
        return random.integers(0, 2, shape).astype(bool)
    low = 0 if dtype is nt.uint8 or low >= 0 else -9
    return random.integers(low, 7 if (low, high) == (0, 7) else 20, shape).astype(dtype.numpy)


def through_bfloat16(values: Array) -> Array:
    return values.astype(nt.bfloat16.numpy).astype(values.dtype) if values.dtype == np.float16 else values


def case(name: str, dtype: DType, operands: int | None = None) -> Case | None:
    """None if the op does not take the dtype."""
    op = OPS[name]
    if (name, dtype.name) in UNDEFINED:
        return None
    random = np.random.default_rng(list(map(ord, name)))
    values = [sample(random, dtype, op.domain, SHAPE) for _ in op.operands]
    attributes = ATTRIBUTES.get(name, {})
    tensors = [nt.from_numpy(value).realize() for value in values]
    try:
        result = RECORDERS[name](*tensors, **attributes)
    except nt.DTypeError:
        return None
    arguments = {attribute.name: attributes.get(attribute.name, attribute.default) for attribute in op.attributes}
    call = op.call(tuple(tensor._node.spec for tensor in tensors), tuple(arguments.values()))
    found = tasks_of(result)
    if not found:  # the result is the operand itself
        return None
    assert len(found) == 1
    registers = [register or dtype.register for register in call.registers]
    wide = ["float64" if register == "float32" else register for register in registers]
    with np.errstate(all="ignore"):
        exact = [through_bfloat16(value).astype(kind) for value, kind in zip(values, wide, strict=True)]
        expected = np.broadcast_to(np.asarray(op.body(*exact, **arguments)), SHAPE).astype(call.spec.dtype.numpy)
    inputs: list[Any] = []
    for operand in found[0].inputs:  # equal operands are one, so find each by what it holds
        inputs.append(None if operand.layout is None else flat(values[len(inputs)]))
    return Case(found[0], inputs, expected)


def normalized_error(result: Array, expected: Array) -> float:
    result, expected = (values.astype(np.float64) for values in (result, expected))
    assert np.array_equal(np.isfinite(result), np.isfinite(expected))
    finite = np.isfinite(expected)
    difference = np.square(result[finite] - expected[finite]).sum()
    return float(difference / max(np.square(expected[finite]).sum(), 1e-30))


def assert_close(result: Array, expected: Array, what: object) -> None:
    assert result.dtype == expected.dtype, what
    if as_dtype(expected.dtype).is_floating_point:
        assert normalized_error(result, expected) <= (1e-11 if expected.dtype == np.float32 else 1e-6), what
    else:
        np.testing.assert_array_equal(result, expected, str(what))


@cache
def cases(arch: str) -> dict[tuple[str, str], tuple[Case, Offer, Design]]:
    """Every op with every dtype that it takes."""
    found = {(name, dtype.name): case(name, dtype) for name in MAPS for dtype in NUMERIC}
    offers = {key: (made, claimed(made.task, target(arch, 1, "emulate"))) for key, made in found.items() if made}
    designs = together([offer.design() for _, offer in offers.values()])
    return {key: (made, offer, design) for (key, (made, offer)), design in zip(offers.items(), designs, strict=True)}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", MAPS)
def test_every_op(name: str, arch: str) -> None:
    found = [dtype for op, dtype in cases(arch) if op == name]
    assert found
    for dtype in found:
        made, offer, design = cases(arch)[name, dtype]
        (result,) = run(made.task, offer, design, made.inputs)
        assert_close(result, made.expected, (name, dtype))
