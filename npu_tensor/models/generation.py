"""Generation of text, token by token."""

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

PROMPT_SIZES: Final = (16, 64, 512)
"""Sizes in which the tokens of a prompt are computed, each with its own capture. The largest one that is at least half
full is used."""

FIRST_WINDOW: Final = 256
"""Positions that the first captures attend to. Each further capture attends to twice as many."""


class Generation:
    """Iterator over the tokens that continue a prompt, with their times.

    It ends after `tokens` tokens, before one of `ends`, or when the decoder's context is full.

    Args:
        decoder: Decoder, which holds one text at a time.
        prompt: Tokens of the prompt.
        tokens: Maximum number of tokens.
        sampling: Choice of tokens.
        ends: Tokens that end a text.

    Attributes:
        count: Number of tokens so far.
        prompt_seconds: Time to the first token, or None before it.
        seconds: Time of the further tokens for which the decoder did not have to be captured.
        timed: Number of these tokens.
        stop_reason: "tokens" after the maximum number of tokens, "end" at one of `ends`, "context" if the decoder's
            context is full; None before the end.

    Raises:
        ArgumentError: The prompt is empty or leaves no room for a token, or the decoder has started another text.
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
                raise nt.ArgumentError("the decoder has started another text, which replaces this one")
            start, captures = time.perf_counter(), Decoder.step.captures
            logits = self._step(text[-1:], len(text) - 1, 0) if number else self._prompt_logits()
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
        """Explain where the computation of a token runs, and why."""
        return Decoder.step.explain(self.decoder, *self._arguments([0], len(self.prompt), 0))

    def _prompt_logits(self) -> nt.Tensor:
        """Return the logits of the token after the prompt, computing the prompt in parts of a few sizes.

        Padding of a part has later positions than all attended tokens, and following tokens overwrite it.
        """
        done, count, context = 0, len(self.prompt), self.decoder.context
        while True:
            size = max((size for size in PROMPT_SIZES if size <= 2 * (count - done)), default=PROMPT_SIZES[0])
            size = min(size, context)
            begin = min(done, context - size)  # At the end of the context, some positions are computed twice.
            part = self.prompt[begin : begin + size]
            logits = self._step(part + [0] * (size - len(part)), begin, len(part) - 1)
            done = begin + size
            if done >= count:
                return logits

    def _step(self, tokens: Sequence[int], begin: int, last: int) -> nt.Tensor:
        logits: nt.Tensor = self.decoder.step(*self._arguments(tokens, begin, last))
        return logits

    def _arguments(self, tokens: Sequence[int], begin: int, last: int) -> tuple[nt.Tensor, nt.Tensor, nt.Tensor, int]:
        """Return the arguments of `Decoder.step` for tokens at positions from `begin` on."""
        end, window = begin + len(tokens), FIRST_WINDOW
        while window < end:
            window *= 2
        arrays = np.array(tokens, np.int32), np.arange(begin, end, dtype=np.int32), np.array([last], np.int32)
        tensors = [nt.from_numpy(array) for array in arrays]
        return tensors[0], tensors[1], tensors[2], min(window, self.decoder.context)
