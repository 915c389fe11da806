"""The models of the benchmark suite against PyTorch in float64, and the example as a program."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import EXAMPLES
from running import python

import npu_tensor as nt
from npu_tensor.examples.transformer_block import Block, random_tokens

torch = pytest.importorskip("torch", reason="PyTorch is what the models are compared with")

from benchmarks.models import MODELS, Model  # noqa: E402

# Relative to the largest result, about 5. A bfloat16 has 8 bits: half a unit in the last place of 5 is 2^-7.
TOLERANCE = {"float32": 1e-5, "bfloat16": 4e-2}


def as_float64(value: Any) -> np.ndarray:
    return value.numpy().astype(np.float64)


def exact_result(model: Model) -> np.ndarray:
    return model.torch("float64")(torch.from_numpy(model.input).to(torch.float64)).numpy()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_numbers_as_pytorch(name: str, dtype: str) -> None:
    model = MODELS[name]
    exact = exact_result(model)
    result = as_float64(model.npu_tensor(dtype)(nt.from_numpy(model.input).to(dtype)))
    assert np.abs(exact).max() > 1
    np.testing.assert_allclose(result, exact, atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_loses_no_more_than_pytorch_does(name: str) -> None:
    model = MODELS[name]
    exact = exact_result(model)
    ours = as_float64(model.npu_tensor("bfloat16")(nt.from_numpy(model.input).to("bfloat16")))
    theirs = as_float64(model.torch("bfloat16")(torch.from_numpy(model.input).to(torch.bfloat16)).float())
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
