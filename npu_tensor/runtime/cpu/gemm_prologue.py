"""Operands of a matrix product that are computed while they are packed.

A block of a few lines along K is evaluated into scratch memory in the level-1 cache, as if the operand had been
stored, and packing reads it there. The scratch has the orientation of the inputs, so that these are read in
whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.gemm_micro import byte_offset, load_number
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.primitives import emit_program
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, Value

__all__ = ["Block", "Prologue", "emit_block"]


class Prologue(NamedTuple):
    """The program of an operand and how its inputs are read.

    program   elementwise, load and scalar slot i is input i; one result
    inputs    (memory dtype, access), where access is "vector" (consecutive elements in the inner direction),
              "splat" (one element for all of them) or "number" (a run-time scalar)
    """

    program: Program
    inputs: tuple[tuple[str, str], ...]

    @property
    def tensors(self) -> list[int]:
        """Numbers of the inputs that are in memory."""
        return [number for number, (_, access) in enumerate(self.inputs) if access != "number"]


class Block(NamedTuple):
    """A part of the operand: `outer` x `inner` elements from the given positions on, all i64.

    inner_end  where the operand ends in the inner direction; the block may not, whole vectors are stored
    """

    outer_begin: Value
    outer: Value
    inner_begin: Value
    inner: Value
    inner_end: Value


def emit_block(
    emitter: Emitter,
    prologue: Prologue,
    dtype: str,
    block: Block,
    matrices: dict[int, tuple[Value, Value]],
    numbers: tuple[Value, int],
    scratch: Value,
    scratch_inner: int,
) -> None:
    """Evaluate a block into `scratch`, rounded to `dtype` once.

    matrices       input number -> address and stride in bytes of the outer direction
    numbers        array of pointer slots and the slot of input 0, for the inputs that are numbers
    scratch_inner  elements between outer positions in scratch, a multiple of the lanes
    """

    def evaluate_line(outer: Value, _: list[Value]) -> Sequence[Value]:
        position = emitter.add(block.outer_begin, outer)
        starts = {
            number: byte_offset(emitter, base, emitter.mul(position, stride))
            for number, (base, stride) in matrices.items()
        }
        line = byte_offset(emitter, scratch, emitter.mul(outer, scratch_inner * ELEMENT_SIZE[dtype]))

        def evaluate_vector(inner: Value, _: list[Value]) -> None:
            at = emitter.add(block.inner_begin, inner)
            left = emitter.sub(block.inner_end, at)
            target = emitter.address(line, inner, dtype)

            def evaluate(mask: Value | None) -> None:
                def load(slot: int) -> Value:
                    memory_dtype, access = prologue.inputs[slot]
                    if access == "splat":
                        return emitter.load_scalar(memory_dtype, starts[slot])
                    return emitter.load(memory_dtype, emitter.address(starts[slot], at, memory_dtype), mask)

                def scalar(slot: int, register: str) -> Value:
                    pointers, first = numbers
                    return load_number(emitter, pointers, first + slot, register)

                (value,) = emit_program(emitter, prologue.program, load, scalar)
                emitter.store(dtype, value, target)

            # Lanes past the end of the operand are stored as well, but packing takes no notice of them.
            whole = emitter.compare("sge", left, emitter.lanes)
            emitter.branch(whole, lambda: evaluate(None), lambda: evaluate(emitter.first_lanes(left)))

        emitter.loop(0, block.inner, emitter.lanes, (), evaluate_vector)
        return ()

    emitter.loop(0, block.outer, 1, (), evaluate_line)
