"""Programs for mlir-aie make the design that they were written for: for every family, under the stand-in for mlir-aie.

The program's text is run under the stand-in, which records what the program would say in MLIR; the design of the
record must be the original. NPU_TENSOR_TEST_ALL=1 runs every example for every array; otherwise only some run for fewer
columns.
"""

from __future__ import annotations

import os

import pytest
from designs import EXAMPLES, NARROW, WHOLE, Example, example
from iron_round_trip import compare

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.check import check
from npu_tensor.runtime.build.iron_program import program

ALL = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"

CASES = [
    pytest.param(example, arch, columns, id=f"{example.id}-{arch}-{columns}")
    for number, example in enumerate(EXAMPLES)
    for arch, columns in (*WHOLE, *NARROW)
    if ALL or (arch, columns) in WHOLE or number % 8 == 0
]


@pytest.mark.parametrize(("example", "arch", "columns"), CASES)
def test_a_program_makes_its_design(example: Example, arch: Arch, columns: int) -> None:
    original = example.make(arch, columns)
    assert check(original) == []
    compare(program(original), original)


# --- every part of a design counts


REFUSED = {
    "unknown argument": ("gelu", "depth=2", "deepness=2", "deepness"),
    "argument by place": ("window", "ObjectFifo(int32_64, name=", "ObjectFifo(int32_64, ", "positional"),
    "dims that are no tuples": ("linear-gelu", "dims_to_stream=[(4, 512)", "dims_to_stream=[[4, 512]", "bd_dim_layout"),
    "sizes that are no list": ("window", "[1, 1, 1, 2048]", "(1, 1, 1, 2048)", "copy"),
    "objects beyond the depth": ("window", "acquire(3)", "acquire(5)", "depth 4"),
    "contents in bfloat16": ("rope-factors", "], np.float32)", "], bfloat16)", "buffer"),
    "number of NumPy": ("rope", "64, 64", "np.int32(64), 64", "must all be Value"),
    "open group": ("gelu", ".finish()", "", "Failed to close"),
    "fifo without a producer": ("window", ".prod(tile=", ".cons(tile=", "Prod endpoint not set"),
}
"""Programs that mlir-aie rejects: an example, the change of its text, and words of the error."""


@pytest.mark.parametrize("case", REFUSED)
def test_the_stand_in_refuses_what_mlir_aie_refuses(case: str) -> None:
    name, old, new, words = REFUSED[case]
    original = example(name).make("aie2", 1)
    text = program(original)
    assert old in text
    with pytest.raises(Exception, match=words):
        compare(text.replace(old, new), original)
