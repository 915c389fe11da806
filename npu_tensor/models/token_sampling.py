"""Choice of the next token from logits."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npu_tensor.errors import ArgumentError

MOST_PENALTY: Final = 100.0
"""Upper bound on the penalty. Usual penalties are 1 to 1.5; within the bound no float32 logit overflows."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Distribution of the next token, with the meanings of Hugging Face's `transformers`.

    Attributes:
        temperature: Divisor of the logits; 0 takes the most likely token.
        top_k: Number of most likely tokens to draw from; 0 means all.
        top_p: Draw from the fewest most likely tokens whose probabilities sum to this.
        repetition_penalty: Divisor of positive logits, and factor of negative ones, of tokens that are in the text
            (Keskar et al., 2019).
        seed: Seed of the draws.

    Raises:
        ArgumentError: A value is out of range, or `top_k` or `seed` is not an integer.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("top_k", "seed"):
            try:
                operator.index(getattr(self, name))
            except TypeError:
                raise ArgumentError(f"{name} must be an integer, not {getattr(self, name)!r}") from None
        least = 1 / MOST_PENALTY
        for name, holds, needed in (
            ("temperature", 0 <= self.temperature < math.inf, "0 or more and finite"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", least <= self.repetition_penalty <= MOST_PENALTY, f"{least} to {MOST_PENALTY}"),
            ("seed", self.seed >= 0, "0 or more"),
        ):
            if not holds:
                raise ArgumentError(f"{name} must be {needed}, not {getattr(self, name)}")

    def probabilities(self, logits: np.ndarray[Any, Any], text: Sequence[int] = ()) -> np.ndarray[Any, Any]:
        """Compute the probabilities of all tokens as float64.

        Args:
            logits: Logits (vocabulary,).
            text: Previous tokens.

        Raises:
            ArgumentError: The temperature is 0, which takes one token, or the logits are invalid; see `choose`.
        """
        if self.temperature == 0:
            raise ArgumentError("temperature 0 has no probabilities; choose() takes the most likely token")
        scores = self._penalized(logits, text)
        with np.errstate(over="ignore"):
            scores = (scores - scores.max()) / self.temperature
        if 0 < self.top_k < len(scores):
            scores[scores < np.partition(scores, -self.top_k)[-self.top_k]] = -np.inf
        weights: np.ndarray[Any, Any] = np.exp(scores)
        weights /= weights.sum()
        if self.top_p < 1:
            order = np.argsort(-weights, kind="stable")
            before = np.cumsum(weights[order]) - weights[order]
            weights[order[before >= self.top_p]] = 0
            weights /= weights.sum()
        return weights

    def choose(self, logits: np.ndarray[Any, Any], text: Sequence[int], random: np.random.Generator) -> int:
        """Choose the next token of a text. A token with the logit -infinity is never chosen.

        Raises:
            ArgumentError: The logits contain NaN or have no finite maximum.
        """
        if self.temperature == 0:
            return int(self._penalized(logits, text).argmax())
        return int(random.choice(len(logits), p=self.probabilities(logits, text)))

    def _penalized(self, logits: np.ndarray[Any, Any], text: Sequence[int]) -> np.ndarray[Any, Any]:
        scores = logits.astype(np.float64)
        if self.repetition_penalty != 1:
            repeated = np.unique(np.asarray(text, np.int64))
            factor = np.where(scores[repeated] > 0, 1 / self.repetition_penalty, self.repetition_penalty)
            scores[repeated] *= factor
        if not math.isfinite(most := scores.max(initial=-math.inf)):
            logits_are = "NaN" if math.isnan(most) else f"at most {most}"
            raise ArgumentError(f"logits are {logits_are}: weights are NaN, or too large for their dtype")
        return scores
