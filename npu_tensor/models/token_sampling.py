"""The choice of the next token by its logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_tensor.errors import ArgumentError

__all__ = ["Sampling"]


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn, with the meanings that Hugging Face's `transformers` gives these names.

    temperature: divides the logits; 0 takes the most likely token. top_k: of so many most likely tokens; 0 of all.
    top_p: of the fewest most likely tokens whose probabilities sum to so much. repetition_penalty: divides the positive
    logits of tokens that are in the text and multiplies the negative ones (Keskar et al., 2019). seed: of the draws.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, holds, needed in (
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
            ("seed", self.seed >= 0, "0 or more"),
        ):
            if not holds:
                raise ArgumentError(f"{name} must be {needed}, not {getattr(self, name)}")

    def probabilities(self, logits: np.ndarray[Any, Any], text: Sequence[int] = ()) -> np.ndarray[Any, Any]:
        """Of all tokens, as float64. logits: (vocabulary,). text: the tokens before. temperature must not be 0."""
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
        """The next token of a text. Raises ArgumentError for logits that are not all numbers."""
        if np.isnan(logits).any():
            raise ArgumentError("logits are NaN: weights of the model are no numbers, or too large for their dtype")
        if self.temperature == 0:
            return int(self._penalized(logits, text).argmax())
        return int(random.choice(len(logits), p=self.probabilities(logits, text)))

    def _penalized(self, logits: np.ndarray[Any, Any], text: Sequence[int]) -> np.ndarray[Any, Any]:
        scores = logits.astype(np.float64)
        if self.repetition_penalty != 1:
            repeated = np.unique(np.asarray(text, np.int64))
            factor = np.where(scores[repeated] > 0, 1 / self.repetition_penalty, self.repetition_penalty)
            scores[repeated] *= factor
        return scores
