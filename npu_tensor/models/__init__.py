"""Language models from GGUF files, and sentence embeddings from safetensors."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

import npu_tensor as nt
from npu_tensor.models.decoder import ARCHITECTURES, Decoder, DecoderConfig
from npu_tensor.models.encoder import Encoder
from npu_tensor.models.generation import Generation
from npu_tensor.models.token_sampling import Sampling
from npu_tensor.models.tokenizer import Tokenizer

__all__ = [
    "ARCHITECTURES",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "Generation",
    "LanguageModel",
    "Sampling",
    "Tokenizer",
    "load",
]


class LanguageModel(NamedTuple):
    """A decoder and the tokenizer of its file."""

    decoder: Decoder
    tokenizer: Tokenizer

    def generation(
        self,
        prompt: str,
        tokens: int = 64,
        sampling: Sampling = Sampling(),  # noqa: B008 - immutable
        *,
        max_new_tokens: int | None = None,
        **fields: Any,
    ) -> Generation:
        """Return an iterator that computes the tokens that continue a text, up to `tokens` of them.

        max_new_tokens: another name of `tokens`. fields: of `sampling`, in place of what it has, such as temperature.
        """
        most = tokens if max_new_tokens is None else max_new_tokens
        chosen = replace(sampling, **fields)
        return Generation(self.decoder, self.tokenizer.encode(prompt), most, chosen, self.tokenizer.ends)

    def generate(self, prompt: str, tokens: int = 64, sampling: Sampling = Sampling(), **others: Any) -> str:  # noqa: B008
        """Return the text that continues a text, up to `tokens` tokens long. others: as for `generation`."""
        run = self.generation(prompt, tokens, sampling, **others)
        return self.tokenizer.decode(list(run), run.prompt)


def load(path: str | os.PathLike[str], context: int = 2048) -> LanguageModel:
    """The language model in a GGUF file, with a cache for a text of `context` tokens, or fewer if it takes fewer.

    Raises what `npu_tensor.load_gguf`, `Decoder.of` and `Tokenizer` raise.
    """
    file = nt.load_gguf(path)
    return LanguageModel(Decoder.of(file, context), Tokenizer(file.metadata))
