"""Counts of instructions against a fresh run and hand counts, and the cycles that follow from them."""

import json
import shutil

import pytest

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen import cycles
from npu_tensor.ops.expression import Program, ProgramBuilder
from npu_tensor.tools.counts import counted

ARCHS: tuple[Arch, ...] = ("aie2", "aie2p")


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
@pytest.mark.parametrize("arch", ARCHS)
def test_counts_are_those_of_the_headers(arch: Arch) -> None:
    assert counted(arch) == json.loads(cycles.COUNTS_FILE.read_text("utf-8"))[arch]


def program_of(primitive: str, dtype: str, operands: int = 2) -> Program:
    builder = ProgramBuilder()
    return builder.program([builder.emit(primitive, tuple(builder.load(slot, dtype) for slot in range(operands)))])


def test_a_float_addition_takes_two_converting_loads() -> None:
    """Port A converts both operands, the vector unit adds, the store converts: bundles 1, 8 and 14."""
    work = cycles.work(program_of("add", "float32"), "aie2", 16)
    assert work == cycles.LoopWork(load_a=2, store=1, vector=1, latency=14)
    assert work.loop(64) == 14 + 5 + 63 * 2


def test_widths_differ_between_arrays() -> None:
    """64 bytes are two loads on aie2 and one on aie2p. Each operand has a port."""
    program = program_of("add", "int16")
    assert cycles.work(program, "aie2", 32) == cycles.LoopWork(load_a=2, load_b=2, store=2, move=1, latency=9)
    assert cycles.work(program, "aie2p", 32) == cycles.LoopWork(load_a=1, load_b=1, store=1, move=1, latency=9)


def test_registers_of_another_kind_take_a_move() -> None:
    """A maximum compares integers, an addition takes accumulators: one move between them and one before the store."""
    builder = ProgramBuilder()
    x, y = builder.load(0, "float32"), builder.load(1, "float32")
    apart = cycles.work(program_of("maximum", "float32"), "aie2", 16)
    both = cycles.work(builder.program([builder.emit("maximum", (x + y, y))]), "aie2", 16)
    assert (apart.move, both.move - apart.move, both.vector) == (13, 0, 1)


def test_a_sum_of_a_row_waits_for_its_last_round() -> None:
    """vmac.f reads its accumulator in stage 3 and writes it in stage 6: a round every 4 cycles on aie2, 3 on aie2p."""
    program = program_of("row_sum", "float32", 1)
    assert [cycles.work(program, arch, 16, numbers=[0, 1]).carried for arch in ARCHS] == [4, 3]


def test_long_loops_are_not_pipelined() -> None:
    assert cycles.LoopWork(vector=30, latency=100).loop(10) == 100 + 5 + 9 * 100


def test_loops_of_long_rounds_overlap_three() -> None:
    """A chain of 48 cycles was traced at 17 a round (mlir-aie's q4nx_dequant)."""
    assert cycles.LoopWork(move=12, latency=48).round == 16
    assert cycles.LoopWork(vector=1, latency=48).round == 1
    assert cycles.LoopWork(vector=1, latency=48).overlapped(4) == 12


def test_vectors_side_by_side_start_one_after_the_other() -> None:
    """mlir-aie's product of 1,024 bfloat16 on aie2p has 8 rounds of 4 vectors; 142 cycles were traced (levers.md)."""
    program = program_of("mul", "float32")
    forms = {2: cycles.PrimitiveForm("short mul short", 0, 1)}
    round = cycles.work(program, "aie2p", 32, forms=forms).times(4)
    assert cycles.LOOP_CYCLES + 8 * round.overlapped(1) == pytest.approx(142, rel=0.05)


def test_half_precision_is_shorter() -> None:
    program = program_of("exp", "float32", 1)
    half = cycles.work(program, "aie2", 16, {1: "half"})
    assert half.loop(16) < cycles.work(program, "aie2", 16).loop(16)
    assert cycles.program_bytes(program, {1: "half"}) < cycles.program_bytes(program)
