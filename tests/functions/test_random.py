"""Random numbers by their distributions: moments, and frequencies by the chi-square statistic, for fixed seeds.

For other seeds, a right distribution would exceed these limits once in a million.
"""

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

MANY = 100_000


def assert_frequencies(counts: Any, probabilities: Any) -> None:
    """Test counts of independent draws by the chi-square statistic.

    It exceeds k + 2 sqrt(k x) + 2 x with a probability below exp(-x) (Laurent and Massart 2000, lemma 1).
    """
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    assert not counts[probabilities == 0].any()
    counts, expected = counts[probabilities > 0], counts.sum() * probabilities[probabilities > 0]
    freedom = len(counts) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 2 * math.sqrt(freedom * 14) + 2 * 14


def assert_moments(values: np.ndarray, mean: float, std: float, rounding: float = 0.0) -> None:
    values = values.astype(np.float64)
    assert values.mean() == pytest.approx(mean, abs=5 * std / math.sqrt(values.size) + rounding)
    assert values.std() == pytest.approx(std, rel=0.03)


@pytest.mark.covers("random_uniform", "random_normal")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_uniform_and_normal_numbers(dtype: str) -> None:
    nt.manual_seed(0)
    uniform = nt.rand(MANY, dtype=dtype).double().numpy()
    assert 0 <= uniform.min() <= uniform.max() < 1
    assert_moments(uniform, 0.5, 1 / math.sqrt(12), 0.002)
    assert_moments(nt.randn(MANY, dtype=dtype).double().numpy(), 0.0, 1.0, 0.002)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_are_independent_and_the_tails_normal(dtype: str) -> None:
    uniform = nt.rand(MANY, dtype=dtype, generator=nt.Generator(1)).numpy()
    pairs = (uniform.reshape(-1, 2) * 16).astype(int) @ [16, 1]
    assert_frequencies(np.bincount(pairs, minlength=256), [1 / 256] * 256)
    normal = nt.randn(MANY * 10, dtype=dtype, generator=nt.Generator(2)).numpy()
    edges = [-math.inf, *np.arange(-16, 17) / 4, math.inf]
    below = [(1 + math.erf(edge / math.sqrt(2))) / 2 for edge in edges]
    assert_frequencies(np.histogram(normal, edges)[0], np.diff(below))
    assert_frequencies(np.bincount((normal.reshape(-1, 2) > 0) @ [2, 1]), [0.25] * 4)


@pytest.mark.covers("random_integers", "random_order", "randint_like")
def test_integers() -> None:
    nt.manual_seed(1)
    drawn = nt.randint_like(nt.zeros(MANY), -2, 3)
    assert not drawn.is_realized
    assert drawn.dtype is nt.float32
    assert_frequencies(np.bincount(drawn.int().numpy() + 2), [0.2] * 5)
    orders = [nt.randperm(3, dtype=nt.int32).tolist() for _ in range(600)]
    assert_frequencies([orders.count(list(order)) for order in permutations(range(3))], [1 / 6] * 6)


@pytest.mark.parametrize(("dtype", "largest"), [("float16", 65504), ("bfloat16", 1 << 20), ("int8", 127), ("bool", 1)])
def test_integers_stay_finite_up_to_the_largest_number(dtype: str, largest: int) -> None:
    assert nt.randint(largest, largest + 1, (3,), dtype=dtype).tolist() == [largest] * 3


WEIGHTS = np.array([0.0, 1.0, 4.0, 0.5, 0.0, 2.5, 2.0, 0.0], np.float32)


@pytest.mark.covers("multinomial")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_multinomial_with_replacement(dtype: str) -> None:
    weights = nt.from_numpy(WEIGHTS).to(dtype)
    drawn = nt.multinomial(weights, MANY, True, generator=nt.Generator(1))
    assert (drawn.dtype, drawn.shape) == (nt.int64, (MANY,))
    assert_frequencies(np.bincount(drawn.numpy(), minlength=8), WEIGHTS / WEIGHTS.sum())


def test_rows_of_multinomial_are_drawn_each_with_its_weights() -> None:
    weights = np.stack([WEIGHTS, WEIGHTS[::-1] * 1e-20])
    drawn = nt.from_numpy(weights).multinomial(MANY // 2, replacement=True, generator=nt.Generator(2)).numpy()
    for row, own in zip(drawn, weights, strict=True):
        assert_frequencies(np.bincount(row, minlength=8), own / own.sum())
    assert not np.array_equal(*drawn)


def test_multinomial_without_replacement() -> None:
    """The probability of each ordered pair is w1 / W * w2 / (W - w1)."""
    rows = nt.from_numpy(WEIGHTS).expand(MANY, 8)
    drawn = nt.multinomial(rows, 2, generator=nt.Generator(3)).numpy()
    total = WEIGHTS.sum()
    with np.errstate(all="ignore"):
        pairs = np.outer(WEIGHTS / total, WEIGHTS) / (total - WEIGHTS)[:, None]
    np.fill_diagonal(pairs, 0)
    assert_frequencies(np.bincount(drawn[:, 0] * 8 + drawn[:, 1], minlength=64), pairs.reshape(-1))
    positive = np.flatnonzero(WEIGHTS)
    everything = nt.multinomial(rows[:50], len(positive), generator=nt.Generator(4)).numpy()
    assert all(sorted(row) == list(positive) for row in everything)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf], [-1.0, -1.0]])
def test_invalid_weights(weights: list[float], replacement: bool) -> None:
    with pytest.raises(nt.DimensionError, match="weights must be"):
        nt.multinomial(nt.tensor(weights), 1, replacement)
    late = nt.multinomial(nt.tensor(weights) * 1, 1, replacement)
    with pytest.raises(nt.DimensionError, match="weights must be"):
        late.realize()


REFUSED: list[tuple[Callable[[], Any], Any]] = [
    (lambda: nt.multinomial(nt.tensor([1.0, 0.0, 2.0]), 3).realize(), nt.DimensionError),
    (lambda: nt.multinomial(nt.ones(3), 4), nt.ArgumentError),
    (lambda: nt.multinomial(nt.ones(2, 2, 2), 1), nt.ShapeError),
    (lambda: nt.multinomial(nt.tensor([1, 2]), 1), nt.DTypeError),
    (lambda: nt.bernoulli(nt.tensor([0, 1])), nt.DTypeError),
    (lambda: nt.zeros(2).bernoulli_(1.5), nt.ArgumentError),
    (lambda: nt.normal(0.0, 1.0), nt.ArgumentError),
    (lambda: nt.normal(nt.zeros(2), 1.0, (2,)), nt.ArgumentError),
    (lambda: nt.zeros(2).normal_(0, -1), nt.ArgumentError),
    (lambda: nt.zeros(2).uniform_(1, 0), nt.ArgumentError),
    (lambda: nt.zeros(2).exponential_(0), nt.ArgumentError),
    (lambda: nt.zeros(2).geometric_(1.0), nt.ArgumentError),
    (lambda: nt.zeros(2, dtype=nt.int32).uniform_(), nt.DTypeError),
    (lambda: nt.poisson(nt.ones(2, dtype=nt.int64)), nt.DTypeError),
]


@pytest.mark.parametrize(("call", "kind"), REFUSED)
def test_arguments_without_a_distribution(call: Callable[[], Any], kind: Any) -> None:
    with pytest.raises(kind):
        call()


@pytest.mark.covers("bernoulli")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_bernoulli(dtype: str) -> None:
    p = nt.tensor([0.0, 0.25, 0.5, 1.0], dtype=dtype).expand(MANY, 4)
    drawn = nt.bernoulli(p, generator=nt.Generator(5))
    assert drawn.dtype is p.dtype
    counts = drawn.double().sum(0).numpy()
    assert (counts[0], counts[3]) == (0, MANY)
    for count, probability in ((counts[1], 0.25), (counts[2], 0.5)):
        assert_frequencies([count, MANY - count], [probability, 1 - probability])
    assert set(np.unique(drawn.float().numpy())) == {0.0, 1.0}


@pytest.mark.covers("bernoulli_")
def test_bernoulli_of_one_probability_and_of_none() -> None:
    drawn = nt.zeros(MANY, dtype=nt.int64).bernoulli_(0.3, generator=nt.Generator(6))
    assert_frequencies(np.bincount(drawn.numpy()), [0.7, 0.3])
    ones = nt.bernoulli(nt.zeros(MANY), p=0.1, generator=nt.Generator(6)).sum().item()
    assert_frequencies([MANY - ones, ones], [0.9, 0.1])
    rows = nt.zeros(2, 3).bernoulli_(nt.tensor([0.0, 1.0, 0.0]))
    assert rows.tolist() == [[0.0, 1.0, 0.0]] * 2
    assert nt.bernoulli(nt.tensor([-0.1, 1.5, math.nan])).isnan().all()


@pytest.mark.covers("normal")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_normal(dtype: str) -> None:
    drawn = nt.normal(3.0, 0.5, (MANY,), generator=nt.Generator(7), dtype=dtype)
    assert (str(drawn.dtype), drawn.shape) == (f"npu_tensor.{dtype}", (MANY,))
    assert_moments(drawn.float().numpy(), 3.0, 0.5, 1e-3)
    means, stds = nt.tensor([[0.0], [100.0]], dtype=dtype), nt.tensor([1.0, 5.0], dtype=dtype)
    both = nt.normal(means.expand(2, MANY).unsqueeze(-1), stds, generator=nt.Generator(8))
    assert (both.dtype, both.shape) == (means.dtype, (2, MANY, 2))
    for row, mean in enumerate((0.0, 100.0)):
        for column, std in enumerate((1.0, 5.0)):
            assert_moments(both[row, :, column].float().numpy(), mean, std, 0.02)
    assert nt.normal(0.0, stds).shape == (2,)
    assert nt.normal(means).shape == (2, 1)


@pytest.mark.covers("normal_", "uniform_", "exponential_")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_in_place(dtype: str) -> None:
    x = nt.zeros(MANY, dtype=dtype)
    assert x.normal_(-1, 2, generator=nt.Generator(9)) is x
    assert_moments(x.float().numpy(), -1, 2, 0.01)
    x.uniform_(-2, 6, generator=nt.Generator(10))
    values = x.double().numpy()
    assert_moments(values, 2, 8 / math.sqrt(12), 0.02)
    assert -2 <= values.min() <= values.max() <= 6
    if dtype != "bfloat16":  # its rounding moves numbers across the borders
        assert_frequencies(np.histogram(values, 16, (-2, 6))[0], [1 / 16] * 16)
    x.exponential_(4, generator=nt.Generator(11))
    values = x.double().numpy()
    assert_moments(values, 0.25, 0.25, 0.002)
    assert values.min() > 0
    if dtype != "bfloat16":
        inside = np.histogram(values, [0, 0.1, 0.2, 0.4, 0.8, 100])[0]
        below = 1 - np.exp(-4 * np.array([0, 0.1, 0.2, 0.4, 0.8, 100]))
        assert_frequencies(inside, np.diff(below))


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda **k: nt.rand(3, **k), marks=pytest.mark.covers("rand")),
        pytest.param(lambda **k: nt.randn(2, 2, **k), marks=pytest.mark.covers("randn")),
        pytest.param(lambda **k: nt.randint(0, 10, (9,), **k), marks=pytest.mark.covers("randint")),
        pytest.param(lambda **k: nt.randperm(20, **k), marks=pytest.mark.covers("randperm")),
        lambda **k: nt.multinomial(nt.ones(100), 20, **k),
        lambda **k: nt.multinomial(nt.ones(100), 20, True, **k),
        lambda **k: nt.bernoulli(nt.full((50,), 0.5), **k),
        lambda **k: nt.normal(0.0, 1.0, 20, **k),
        lambda **k: nt.zeros(20).normal_(**k),
        lambda **k: nt.zeros(20).uniform_(**k),
        lambda **k: nt.zeros(20).exponential_(**k),
        lambda **k: nt.zeros(50).bernoulli_(**k),
    ],
)
def test_seeds(draw: Callable[..., nt.Tensor]) -> None:
    nt.manual_seed(3)
    first, second = draw(), draw()
    nt.manual_seed(3)
    assert draw().tolist() == first.tolist() != second.tolist()
    assert draw(generator=nt.Generator(5)).tolist() == draw(generator=nt.Generator(5)).tolist()


@pytest.mark.covers("poisson", "binomial", "random_poisson", "random_binomial")
def test_counts_of_events() -> None:
    nt.manual_seed(3)
    rates = nt.full((MANY,), 3.5)
    assert_moments(nt.poisson(rates).numpy(), 3.5, math.sqrt(3.5))
    drawn = nt.binomial(nt.full((MANY,), 20.0), nt.full((MANY,), 0.3)).numpy()
    assert_moments(drawn, 6.0, math.sqrt(20 * 0.3 * 0.7))
    assert drawn.dtype == np.float32


@pytest.mark.covers("random_", "cauchy_", "geometric_", "log_normal_")
def test_more_in_place() -> None:
    nt.manual_seed(4)
    drawn = nt.empty(MANY, dtype="int32").random_(3, 8).numpy()
    assert_frequencies(np.bincount(drawn, minlength=8), [0] * 3 + [0.2] * 5)
    assert set(nt.empty(99, dtype="bool").random_().tolist()) == {True, False}
    assert nt.empty(MANY, dtype="int8").random_().numpy().max() == 127
    assert nt.empty(9).random_().numpy().max() > 1000
    quartiles = np.quantile(nt.empty(MANY).cauchy_(median=1.0, sigma=2.0).numpy(), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [-1.0, 1.0, 3.0], atol=0.06)
    trials = np.bincount(nt.empty(MANY, dtype="int64").geometric_(p=0.4).numpy(), minlength=30)[:30]
    assert_frequencies(trials, [0.0, *(0.4 * 0.6**k for k in range(29))])
    assert_moments(np.log(nt.empty(MANY).log_normal_(0.5, 0.25).numpy()), 0.5, 0.25)


@pytest.mark.covers("gumbel_softmax")
def test_gumbel_softmax_draws_by_its_probabilities() -> None:
    nt.manual_seed(5)
    logits = nt.tensor([[0.0, 1.0, -1.0]])
    hard = nt.gumbel_softmax(logits.expand(MANY, 3), hard=True)
    assert_frequencies(hard.sum(0).round().numpy(), logits.softmax(-1).numpy()[0])
    soft = nt.nn.functional.gumbel_softmax(logits.expand(100, 3), tau=0.5)
    np.testing.assert_allclose(soft.sum(-1).numpy(), 1, rtol=1e-5)
    x = nt.zeros(4, 3, requires_grad=True)
    (nt.nn.functional.gumbel_softmax(x, hard=True) * nt.arange(3)).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())


def test_dropout_that_keeps_the_moments_and_random_slopes() -> None:
    nt.manual_seed(6)
    x = nt.randn(MANY)
    assert_moments(nt.nn.functional.alpha_dropout(x, 0.3, training=True).numpy(), 0.0, 1.0)
    slopes = nt.nn.functional.rrelu(nt.full((MANY,), -1.0), 0.1, 0.5, training=True).numpy()
    assert -0.5 <= slopes.min() < slopes.max() <= -0.1
    assert_moments(slopes, -0.3, 0.4 / math.sqrt(12))
    whole = nt.nn.functional.dropout3d(nt.ones(50, 8, 2, 3, 4), training=True).numpy().reshape(400, -1)
    assert set(np.ptp(whole, 1)) == {0.0}
