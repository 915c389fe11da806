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
    """Decoder and tokenizer of a file."""

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
        """Return an iterator over the tokens that continue a text.

        Args:
            prompt: Text to continue.
            tokens: Maximum number of tokens.
            sampling: Choice of tokens.
            max_new_tokens: Synonym of `tokens`.
            fields: Fields of `sampling` to replace, such as temperature.
        """
        most = tokens if max_new_tokens is None else max_new_tokens
        chosen = replace(sampling, **fields)
        return Generation(self.decoder, self.tokenizer.encode(prompt), most, chosen, self.tokenizer.ends)

    def generate(self, prompt: str, tokens: int = 64, sampling: Sampling = Sampling(), **others: Any) -> str:  # noqa: B008
        """Return the continuation of a text. The arguments are those of `generation`."""
        run = self.generation(prompt, tokens, sampling, **others)
        return self.tokenizer.decode(list(run), run.prompt)


def load(path: str | os.PathLike[str], context: int = 2048) -> LanguageModel:
    """Load a language model from a GGUF file.

    Raises the errors of `npu_tensor.load_gguf`, `Decoder.of` and `Tokenizer`.

    Args:
        path: GGUF file.
        context: Maximum number of tokens of a text, limited to the context of the model.
    """
    file = nt.load_gguf(path)
    return LanguageModel(Decoder.of(file, context), Tokenizer(file.metadata))
