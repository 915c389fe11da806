"""Programs for mlir-aie make the design that they were written for: for every family, under the stand-in for mlir-aie.

The program's text is run under the stand-in, which records what the program would say in MLIR; the design of the
record must be the original. NPU_TENSOR_TEST_ALL=1 runs every example for every array; otherwise only some run for fewer
columns.
"""

from __future__ import annotations

import os

import pytest
from designs import EXAMPLES, NARROW, WHOLE, Example
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
