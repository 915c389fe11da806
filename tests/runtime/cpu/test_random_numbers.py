"""Numbers that follow from a seed and the position: the same on every processor, in every order."""

import numpy as np
import pytest
from kernel_harness import LEVELS, run

from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.ops.random_numbers import normal_numbers, uniform_numbers

SEED = 0x1234_5678_9ABC_DEF0

# Counter, key and result of Threefry-2x32 with 20 rounds, each the low word first: known answers of its authors.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: tuple[int, int], key: tuple[int, int], words: tuple[int, int]) -> None:
    position, seed = (np.array(pair, np.uint32).view(np.int64) for pair in (counter, key))
    first, second = words
    assert uniform_numbers(seed, position, "float64") * 2**53 == (first >> 6 << 27 | second >> 5)
    assert uniform_numbers(seed, position, "float32") * 2**24 == first >> 8


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_agree_with_numpy(level: str, dtype: str) -> None:
    positions = np.arange(1003)
    for numbers, tolerance in ((uniform_numbers, 0.0), (normal_numbers, 4 * np.finfo(dtype).eps)):
        builder = ProgramBuilder()
        program = builder.program([numbers(builder.scalar(0, "int64"), builder.emit("index"), dtype)])
        result = np.empty(len(positions), dtype)
        for begin, end in ((500, 1003), (0, 500)):
            run(level, program, [result, SEED], begin, end)
        expected = numbers(np.array([SEED]), positions, dtype)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=2 * tolerance)
