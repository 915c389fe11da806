"""The transformer block against NumPy in float64 and PyTorch, and the example as a program."""

from pathlib import Path

import numpy as np
import pytest
from paths import EXAMPLES
from running import python

import npu_tensor as nt
from benchmarks import peers
from benchmarks.cases import TOLERANCE, Case, cases, disagreement
from npu_tensor.examples.transformer_block import Block, random_tokens


def block(dtype: str) -> tuple[np.ndarray, Case]:
    """The values of the example, and the same block as a case of the benchmarks, which has a reference."""
    case = next(case for case in cases(["transformer_block"]) if case.dtype == dtype)
    return Block(dtype)(nt.from_numpy(random_tokens()).to(dtype)).numpy().astype(np.float64), case


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_numbers_as_numpy(dtype: str) -> None:
    result, case = block(dtype)
    assert disagreement(result, case.expected()) <= TOLERANCE[dtype]


def test_bfloat16_loses_no_more_than_pytorch_does() -> None:
    pytest.importorskip("torch", reason="the rounding errors are compared with PyTorch's")
    ours, case = block("bfloat16")
    (torch,), _ = peers.load(["torch"], threads=2)
    exact, theirs = case._replace(dtype="float32").expected(), torch.values(case.contender(torch)()())
    assert 0 < np.abs(ours - exact).mean() < 1.1 * np.abs(theirs - exact).mean()


def test_later_tokens_do_not_change_earlier_ones() -> None:
    block, tokens = Block(), random_tokens()
    changed = tokens.copy()
    changed[64:] += 1
    before, after = (block(nt.from_numpy(x)).numpy() for x in (tokens, changed))
    np.testing.assert_array_equal(before[:64], after[:64])
    assert np.abs(before[64:] - after[64:]).min(axis=1).max() > 0


def test_the_example_as_a_program(tmp_path: Path) -> None:
    done = python(EXAMPLES / "transformer_block.py", cwd=tmp_path, NPU_TENSOR_CACHE_DIR=str(tmp_path))
    assert "contract" in done.stdout
    difference = float(done.stdout.split()[-1])
    assert 0 < difference < 0.1
