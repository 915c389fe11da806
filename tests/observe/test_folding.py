"""Long tables: a repeated block is shown once, with the right count."""

import random
import re

import pytest

from npu_tensor.observe.folding import MOST_ROWS, folded

HEADINGS = ("#", "op", "out", "kernel", "measured")


def table(ops: list[str]) -> list[list[str]]:
    rows = [(str(number), op, "f32[2]", "map", f"{number} us") for number, op in enumerate(ops)]
    return [[heading, *cells] for heading, *cells in zip(HEADINGS, *rows, strict=True)]


def unfolded(columns: list[list[str]]) -> list[str]:
    """The ops that a folded table stands for, by doing what its lines say."""
    ops: list[str] = []
    starts: dict[str, int] = {}
    for number, op, out in zip(*(column[1:] for column in columns[:3]), strict=True):
        if number:
            starts[number] = len(ops)
            ops.append(op)
        else:
            first = starts[re.findall(r"#(\d+)", out)[0]]
            ops += ops[first:] * int(op.split()[0])
    return ops


@pytest.mark.parametrize(
    ("ops", "lines"),
    [
        (["a"] * 1000, 2),
        (["start", *(["mul", "add"] * 500), "end"], 5),
        ([*(["a", "a", "a", "b"] * 100)], 4),
        ([*((["a", "b"] * 10 + ["c"]) * 20), "d"], 6),
        ([str(number) for number in range(100)], 100),
        (["a", "b"] * (MOST_ROWS // 2), MOST_ROWS),
    ],
)
def test_repeated_parts_are_shown_once(ops: list[str], lines: int) -> None:
    columns = folded(table(ops))
    assert len(columns[0]) - 1 == lines
    assert unfolded(columns) == ops


@pytest.mark.parametrize("seed", range(20))
def test_a_folded_table_says_the_same(seed: int) -> None:
    draw = random.Random(seed)
    ops: list[str] = []
    while len(ops) < 300:
        part = draw.choices("abc", k=draw.randint(1, 6))
        ops += part * draw.randint(1, 12)
        ops += ops[-draw.randint(1, 30) :] * draw.randint(0, 3)
    columns = folded(table(ops))
    assert unfolded(columns) == ops
    assert [column[0] for column in columns] == [*HEADINGS]
