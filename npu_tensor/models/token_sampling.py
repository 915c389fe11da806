"""The choice of the next token by its logits."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npu_tensor.errors import ArgumentError

__all__ = ["Sampling"]

MOST_PENALTY: Final = 100.0
"""Usual penalties are 1 to 1.5; with these bounds no logit of float32 overflows."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn, with the meanings that Hugging Face's `transformers` gives these names.

    temperature: divides the logits; 0 takes the most likely token. top_k: of so many most likely tokens; 0 of all.
    top_p: of the fewest most likely tokens whose probabilities sum to so much. repetition_penalty: divides the positive
    logits of tokens that are in the text and multiplies the negative ones (Keskar et al., 2019). seed: of the draws.
    Raises ArgumentError for values that are out of range, and for top_k and seed that are no integers.
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
        """Of all tokens, as float64. logits: (vocabulary,). text: the tokens before.

        Raises ArgumentError for the temperature 0, which takes one token, and as `choose` does.
        """
        if self.temperature == 0:
            raise ArgumentError("with the temperature 0 there are no probabilities; choose() takes the likeliest token")
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
        """The next token of a text. Raises ArgumentError for logits with NaN or without a finite maximum.

        A logit may be -infinity: that token is not taken.
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
            raise ArgumentError(f"logits are {logits_are}: weights are no numbers, or too large for their dtype")
        return scores
