"""A text continued token by token."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

import npu_tensor as nt
from npu_tensor.models.decoder import Decoder
from npu_tensor.models.token_sampling import Sampling

if TYPE_CHECKING:
    from npu_tensor.observe.explanation import Explanation

__all__ = ["Generation"]

PROMPT_SIZES: Final = (16, 64, 512)
"""Tokens of a prompt that are computed together: the most of which half are needed. Each has a capture of its own."""

FIRST_WINDOW: Final = 256
"""Positions that the first captures attend to; further ones attend to twice as many each."""


class Generation:
    """An iterator over the tokens that continue a prompt, with the time that they took.

    It ends after `tokens` of them, before one of `ends`, or where the decoder's context is full. Raises ArgumentError
    for an empty prompt, for one that leaves no room for a token, and if the decoder has begun another text meanwhile.

    count: of tokens so far. prompt_seconds: to the first of them; None before it. seconds, timed: of further tokens,
    and of how many: all but those for which the decoder had to be captured. stop_reason: "tokens" after as many tokens
    as were asked for, "end" at one of `ends`, "context" if the decoder's context is full; None before the end.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompt: Sequence[int],
        tokens: int,
        sampling: Sampling = Sampling(),  # noqa: B008 - immutable
        ends: Collection[int] = (),
    ) -> None:
        if not prompt:
            raise nt.ArgumentError("the prompt is empty; there is nothing to continue")
        if len(prompt) >= decoder.context:
            raise nt.ArgumentError(
                f"the prompt has {len(prompt)} tokens, and the context of {decoder.context} must have room for one "
                "more; shorten the prompt"
            )
        self.decoder, self.prompt, self.sampling, self.ends = decoder, list(prompt), sampling, ends
        self.most = min(tokens, decoder.context - len(prompt))
        self.stop_reason: Literal["tokens", "end", "context"] | None = None
        self._at_most: Literal["tokens", "context"] = "context" if self.most < tokens else "tokens"
        self.count, self.timed, self.seconds = 0, 0, 0.0
        self.prompt_seconds: float | None = None
        self._tokens = self._generated()

    def __iter__(self) -> Iterator[int]:
        return self._tokens

    def _generated(self) -> Iterator[int]:
        random = np.random.default_rng(self.sampling.seed)
        text = list(self.prompt)
        self.decoder.text = text
        for number in range(self.most):
            if self.decoder.text is not text:
                raise nt.ArgumentError("the decoder has begun another text, which has taken the place of this one")
            start, captures = time.perf_counter(), Decoder.step.captures
            logits = self._step(text[-1:], len(text) - 1, 0) if number else self._of_prompt()
            token = self.sampling.choose(logits.numpy()[0], text, random)
            seconds = time.perf_counter() - start
            if number == 0:
                self.prompt_seconds = seconds
            elif Decoder.step.captures == captures:
                self.seconds, self.timed = self.seconds + seconds, self.timed + 1
            if token in self.ends:
                self.stop_reason = "end"
                return
            text.append(token)
            self.count += 1
            yield token
        self.stop_reason = self._at_most

    def explain(self) -> Explanation:
        """Where the computation of a token runs, and why."""
        return Decoder.step.explain(self.decoder, *self._arguments([0], len(self.prompt), 0))

    def _of_prompt(self) -> nt.Tensor:
        """Logits of what follows the prompt, which is computed in parts of few sizes.

        What fills up a part comes later than all that is looked at, and is overwritten by what follows.
        """
        done, count, context = 0, len(self.prompt), self.decoder.context
        while True:
            size = max((size for size in PROMPT_SIZES if size <= 2 * (count - done)), default=PROMPT_SIZES[0])
            size = min(size, context)
            begin = min(done, context - size)  # Some positions are computed twice where the context would end.
            part = self.prompt[begin : begin + size]
            logits = self._step(part + [0] * (size - len(part)), begin, len(part) - 1)
            done = begin + size
            if done >= count:
                return logits

    def _step(self, tokens: Sequence[int], begin: int, last: int) -> nt.Tensor:
        logits: nt.Tensor = self.decoder.step(*self._arguments(tokens, begin, last))
        return logits

    def _arguments(self, tokens: Sequence[int], begin: int, last: int) -> tuple[nt.Tensor, nt.Tensor, nt.Tensor, int]:
        """Of `Decoder.step`, for tokens at positions from `begin` on."""
        end, window = begin + len(tokens), FIRST_WINDOW
        while window < end:
            window *= 2
        arrays = np.array(tokens, np.int32), np.arange(begin, end, dtype=np.int32), np.array([last], np.int32)
        tensors = [nt.from_numpy(array) for array in arrays]
        return tensors[0], tensors[1], tensors[2], min(window, self.decoder.context)
