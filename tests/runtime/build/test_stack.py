"""The stack that functions of an object take, and cores that have less of it."""

from __future__ import annotations

import math
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import Builder, Design, ObjectType, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.stack import OUTSIDE, call_depths, check_stacks

MODULE = """
target triple = "riscv32"
@.str = private constant [2 x i32] [i32 1, i32 2]
declare i32 @__divsf3(i32)
define internal i32 @helper(i32 %x) noinline section ".text.helper" {
  %y = call i32 @__divsf3(i32 %x)
  ret i32 %y
}
define i32 @wrapper(i32 %x) noinline section ".text.wrapper" {
  %a = call i32 @helper(i32 %x)
  %b = call i32 @helper(i32 %a)
  ret i32 %b
}
define i32 @nt_map(i32 %x) section ".text.nt_map" {
  %p = getelementptr i32, ptr @.str, i32 %x
  %v = load i32, ptr %p
  %a = call i32 @wrapper(i32 %v)
  %b = call i32 @helper(i32 %a)
  ret i32 %b
}
define i32 @nt_clear(i32 %x) section ".text.nt_clear" {
  ret i32 %x
}
define i32 @nt_again(i32 %x) section ".text.nt_again" {
  %a = call i32 @nt_again_too(i32 %x)
  %b = add i32 %a, 1
  ret i32 %b
}
define i32 @nt_again_too(i32 %x) section ".text.nt_again_too" {
  %a = call i32 @nt_again(i32 %x)
  %b = add i32 %a, 1
  ret i32 %b
}
"""
FRAMES = {"helper": 100, "wrapper": 200, "nt_map": 1000, "nt_clear": 0, "nt_again": 16, "nt_again_too": 16}


@pytest.fixture
def object_file(tmp_path: Path) -> Path:
    """Object file of another 32-bit processor, with the frames of the file beside it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("riscv32").create_target_machine(reloc="static", codemodel="small")
    path = tmp_path / "source.o"
    path.write_bytes(machine.emit_object(llvm.parse_assembly(MODULE)))
    lines = [f"source.cc:{line}:{name}\t{nbytes}\tstatic\n" for line, (name, nbytes) in enumerate(FRAMES.items())]
    path.with_suffix(".su").write_text("".join(lines))
    return path


def test_the_deepest_calls(object_file: Path) -> None:
    assert call_depths(object_file) == {
        "helper": 100,
        "wrapper": 300,
        "nt_map": 1300,
        "nt_clear": 0,
        "nt_again": math.inf,
        "nt_again_too": math.inf,
    }


def test_without_figures_nothing_is_said(object_file: Path) -> None:
    object_file.with_suffix(".su").unlink()
    assert call_depths(object_file) == {}


def calling(*functions: str, stack_size: int) -> Design:
    d = Builder("calls", "aie2p", 1)
    tile = ObjectType("int32", (64,))
    called = [d.function(name, [tile], Source("source", "")) for name in functions]
    fifo = d.fifo("x0", tile, producer=Tile(0, 2), consumers=[Tile(0, 0)])

    def body(result: object) -> None:
        element = result.acquire(1)  # type: ignore[attr-defined]
        for function in called:
            function(element)
        result.release(1)  # type: ignore[attr-defined]

    d.worker(Tile(0, 2), body, [fifo], stack_size=stack_size)
    return d.build()


def test_a_stack_that_just_suffices() -> None:
    depths = {"nt_map": 1300, "nt_clear": 0, "not_called": 5000}
    check_stacks(calling("nt_map", "nt_clear", stack_size=1300 + OUTSIDE), depths)
    with pytest.raises(BuildError, match=rf"core \(0,2\) has {1299 + OUTSIDE} bytes, and nt_map takes 1300 with"):
        check_stacks(calling("nt_map", "nt_clear", stack_size=1299 + OUTSIDE), depths)
    check_stacks(calling("nt_map", stack_size=OUTSIDE), {})


def test_a_function_that_calls_itself() -> None:
    with pytest.raises(BuildError, match="nt_again takes inf"):
        check_stacks(calling("nt_again", stack_size=32768), {"nt_again": math.inf})
