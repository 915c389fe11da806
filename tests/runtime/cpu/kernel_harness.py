"""Harness of the tests of generated kernels: targets, and running a kernel on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from npu_tensor.config import config
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.cpu_device import CpuDevice
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.loop_kernel import loop_kernel
from npu_tensor.runtime.cpu.map_kernel import LoopOperand, LoopSpec, tile_count
from npu_tensor.runtime.cpu.target import CpuTarget, host_target
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.reference import view
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Output, Refusal, Task, TensorInput

# All of this processor, and as if it were an older one.
LEVELS = ["", "avx2", "sse2"]

AARCH64 = CpuTarget("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"}))
AVX512 = CpuTarget(
    "x86_64-unknown-linux-gnu",
    "skylake-avx512",
    frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c", "ssse3", "64bit"}),
)

# Stride along the lanes -> access.
_ACCESS = {1: "contiguous", 0: "row"}

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@cache
def target(level: str) -> CpuTarget:
    return host_target(level)


@cache
def engine(level: str) -> Engine:
    return Engine(target(level).create_target_machine(), level, config.cache_dir)


def launch(level: str, text: str, slots: Sequence[Any], meta: Any, begin: int, end: int) -> None:
    """Run some items of the kernel of a module. Slots are arrays, whose addresses it gets, and floats."""
    bits = [np.array(slot).view(np.int64).item() if isinstance(slot, float) else slot.ctypes.data for slot in slots]
    pointers = np.array(bits, np.int64)
    KERNEL(engine(level).compile(text, "kernel")["kernel"])(pointers.ctypes.data, meta.ctypes.data, begin, end)


def assembly(text: str, made_for: CpuTarget) -> str:
    """Return the instructions of a module for another processor."""
    module = llvm.parse_assembly(text)
    module.verify()
    return str(made_for.create_target_machine().emit_assembly(module))


@cache
def _compiled(
    level: str, program: Program, operands: tuple[LoopOperand, ...], outer: int, options: tuple[Any, ...]
) -> Any:
    text = loop_kernel(LoopSpec(program, operands, outer, **dict(options)), target(level))
    address = engine(level).compile(text, "kernel")["kernel"]
    function = KERNEL(address)
    function.address = address  # keeps the code
    return function


def run(
    level: str,
    program: Program,
    arrays: Sequence[np.ndarray | float | int],
    begin: int = 0,
    end: int | None = None,
    *,
    accesses: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    columns: bool = False,
    shape: tuple[int, ...] | None = None,
    runs: int = 0,
    **options: Any,
) -> None:
    """Run a kernel.

    Arrays have the shape of the iteration, with stride 0 where they do not vary; plain numbers are
    run-time scalars. `shape` is needed if the first array lacks the inner dimension, as results of reductions
    do.
    """
    shape = shape or np.asarray(arrays[0]).shape
    *outer, inner = shape
    lane_axis = len(shape) - 2 if columns else len(shape) - 1
    operands, meta, slots = [], [inner, *outer], []
    for number, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            floating = isinstance(array, float)
            operands.append(LoopOperand("float64" if floating else "int64", "scalar"))
            slots.append(np.array(array, np.float64 if floating else np.int64).view(np.int64).item())
            meta += [0] * (len(outer) + 2)
            continue
        strides = [stride // array.itemsize for stride in array.strides]
        strides += [0] * (len(shape) - len(strides))
        stride = strides[lane_axis]
        access = accesses[number] if accesses else _ACCESS.get(stride, "strided")
        if access == "row" and any(strides[len(outer) - runs : len(outer)]):
            access = "run"
        operands.append(LoopOperand(dtypes[number] if dtypes else str(array.dtype), access))
        slots.append(array.ctypes.data)
        meta += [0, *strides]
    reduces = any(instruction.primitive.startswith("row_") for instruction in program.instructions)
    count = int(np.prod(outer[: len(outer) - runs], dtype=np.int64)) * (1 if reduces else inner)
    if any(operand.access == "transposed" for operand in operands):
        count = tile_count(outer, inner)
    options |= {"columns": columns, "runs": runs}
    kernel = _compiled(level, program, tuple(operands), len(outer), tuple(sorted(options.items())))
    pointers, numbers = np.array(slots, np.int64), np.array(meta, np.int64)
    kernel(pointers.ctypes.data, numbers.ctypes.data, begin, count if end is None else end)


def run_op(level: str, call: Any, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Run the kernel of a data op for a level on arrays, which may have strides."""
    monkeypatch.setattr("npu_tensor.runtime.cpu.processor.host_target", lambda _: target(level))
    device = CpuDevice(Allocator())
    inputs, values = [], list[Any]()
    for item, (array, spec) in enumerate(zip(arrays, call.operands, strict=True)):
        base = array if array.base is None else array.base
        strides = tuple(stride // array.itemsize for stride in array.strides)
        offset = (array.ctypes.data - base.ctypes.data) // array.itemsize
        inputs.append(TensorInput(item, spec.dtype, Layout(array.shape, strides, offset)))
        values.append(Buffer.from_array(base))
    shape, dtype = call.spec.shape, call.spec.dtype
    layout = Layout(shape, contiguous_strides(shape))
    output = Output(len(arrays), dtype, layout, call.spec.size * dtype.itemsize)
    name = (call.op.name,)
    kernel = device.claim(Task("data", (0,), name, tuple(inputs), (output,), shape, call=call, calls=(call,)))
    assert not isinstance(kernel, Refusal)
    values.append(None)
    kernel.bind()(values)
    return np.array(view(values[-1], dtype, layout))
