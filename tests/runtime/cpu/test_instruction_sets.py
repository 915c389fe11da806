"""Kernels of data ops for every instruction set: code for older processors refers to no function of a library."""

from __future__ import annotations

import itertools

import pytest
from kernel_harness import LEVELS, target

from npu_tensor.runtime.cpu import bisection, concat, row_copies, row_selection, scan
from npu_tensor.runtime.cpu.engine import Engine

SCANS = (
    ("sum", "float32", "float32"),
    ("sum", "bfloat16", "bfloat16"),
    ("product", "float16", "float16"),
    ("sum", "bool", "int64"),
    ("product", "int8", "int64"),
    ("largest", "float16", "int64"),
    ("smallest", "uint8", "int64"),
    ("sum", "int64", "float32"),
)
ROWS = (("float32", "add"), ("float64", "maximum"), ("uint8", "minimum"), ("bool", "mul"))
SELECTED = ("float32", "float64", "bfloat16", "float16", "uint8", "bool")
BOTH = (False, True)

CODE = {
    bisection: [bisection._SearchSpec(*each) for each in itertools.product(("float32", "float64", "uint8"), BOTH)],
    concat: [concat._ConcatSpec(*each, True) for each in itertools.product((1, 2, 4, 8), BOTH)],
    row_copies: [
        row_copies._RowSpec(*of, True, "contiguous", divided)
        for of, divided in itertools.product(ROWS, ("outer", "columns"))
    ],
    row_selection: [row_selection._SelectionSpec(*each, True) for each in itertools.product(SELECTED, BOTH)],
    scan: [scan._ScanSpec(*of, across) for of, across in itertools.product(SCANS, BOTH)],
}
"""Specifications by module."""


@pytest.mark.parametrize("level", LEVELS)
def test_all_instruction_sets(level: str) -> None:
    engine = Engine(target(level).create_target_machine(), level, None)
    for module, specs in CODE.items():
        for spec in specs:
            assert engine.compile(module._module(spec, target(level)), "kernel"), spec
    assert engine.compile(row_copies._check_module(None, target(level)), "kernel")
