"""Sampling of single tokens."""

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.examples import made_up_model
from npu_tensor.models import Sampling, load

LOGITS = np.array([2.0, -1.0, 0.5, 3.0, 0.5], np.float32)


def softmax(logits: list[float]) -> np.ndarray:
    weights = [np.exp(float(each)) for each in logits]
    return np.array(weights) / sum(weights)


def test_greedy() -> None:
    assert Sampling().choose(LOGITS, [], np.random.default_rng(0)) == 3
    assert Sampling(repetition_penalty=2.0).choose(LOGITS, [3, 3], np.random.default_rng(0)) == 0  # 3 / 2 < 2


def test_generate_takes_the_fields_of_sampling() -> None:
    pytest.importorskip("tokenizers")
    model = load(made_up_model.FILE, context=64)
    sampling = Sampling(temperature=0.9, top_k=20, seed=1)
    expected = model.generate("the thing", tokens=7, sampling=sampling)
    assert model.generate("the thing", max_new_tokens=7, temperature=0.9, top_k=20, seed=1) == expected
    assert model.generate("the thing", 7, sampling, seed=1) == expected
    assert model.generate("the thing", 7, sampling, temperature=0) == model.generate("the thing", 7) != expected
    assert model.generation("the thing", max_new_tokens=3, top_p=0.5).sampling == Sampling(top_p=0.5)
    with pytest.raises(nt.ArgumentError, match="top_p must be above 0"):
        model.generate("the thing", top_p=0)
    with pytest.raises(TypeError, match="temprature"):
        model.generate("the thing", temprature=1)


def test_temperature() -> None:
    result = Sampling(temperature=0.5).probabilities(LOGITS)
    np.testing.assert_allclose(result, softmax(list(LOGITS / 0.5)))


def test_the_penalty_makes_tokens_of_the_text_less_likely() -> None:
    result = Sampling(temperature=1, repetition_penalty=2.0).probabilities(LOGITS, [0, 1])
    np.testing.assert_allclose(result, softmax([1.0, -2.0, 0.5, 3.0, 0.5]))


def test_top_k() -> None:
    result = Sampling(temperature=1, top_k=2).probabilities(LOGITS)
    np.testing.assert_allclose(result[[0, 3]], softmax([2.0, 3.0]))
    assert not result[[1, 2, 4]].any()
    np.testing.assert_allclose(Sampling(temperature=1, top_k=9).probabilities(LOGITS), softmax(list(LOGITS)))


@pytest.mark.parametrize(("top_p", "kept"), [(0.1, [3]), (0.7, [3, 0]), (0.92, [3, 0, 2]), (1.0, [0, 1, 2, 3, 4])])
def test_top_p(top_p: float, kept: list[int]) -> None:
    """The probabilities of all tokens are 0.237, 0.012, 0.053, 0.644, 0.053."""
    result = Sampling(temperature=1, top_p=top_p).probabilities(LOGITS)
    assert sorted(np.flatnonzero(result)) == sorted(kept)
    np.testing.assert_allclose(result[kept], softmax(list(LOGITS[kept])))


def test_draws_have_the_probabilities_and_follow_from_the_seed() -> None:
    sampling = Sampling(temperature=1)
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    draws = [sampling.choose(LOGITS, [], one) for _ in range(4000)]
    assert draws == [sampling.choose(LOGITS, [], other) for _ in range(4000)]
    shares = np.bincount(draws, minlength=5) / 4000
    np.testing.assert_allclose(shares, softmax(list(LOGITS)), atol=0.03)


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        ([1, np.nan], "NaN"),
        ([np.nan, -np.inf], "NaN"),
        ([1, np.inf], "at most inf"),
        ([-np.inf, -np.inf], "at most -inf"),
        ([], "at most -inf"),
    ],
)
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1, top_k=1, top_p=0.5)], ids=["greedy", "drawn"])
def test_invalid_logits(logits: list[float], said: str, sampling: Sampling) -> None:
    with pytest.raises(nt.ArgumentError, match=f"logits are {said}:"):
        sampling.choose(np.array(logits, np.float32), [], np.random.default_rng(0))


def test_tokens_that_are_ruled_out() -> None:
    logits = np.array([-np.inf, 2, 1, -np.inf], np.float32)
    sampling = Sampling(temperature=0.5, top_k=3, repetition_penalty=2.0)
    np.testing.assert_allclose(sampling.probabilities(logits, [0, 1]), [0, 0.5, 0.5, 0])
    assert Sampling().choose(logits, [], np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": np.inf},
        {"top_k": -1},
        {"top_k": 2.5},
        {"top_p": 0},
        {"top_p": 1.5},
        {"repetition_penalty": 0},
        {"repetition_penalty": np.inf},
        {"seed": -1},
    ],
    ids=str,
)
def test_invalid_values(wrong: dict[str, float]) -> None:
    with pytest.raises(nt.ArgumentError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]
