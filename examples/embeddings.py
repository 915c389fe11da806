"""Sentence embeddings with a BERT-class encoder such as all-MiniLM-L6-v2.

    python embeddings.py DIRECTORY "a sentence" "another one" ...

prints the similarities: 1 for the same meaning, about 0 for unrelated sentences. The directory contains config.json,
model.safetensors and tokenizer.json, as written by Hugging Face's `transformers`.
Needs tokenizers: pip install tokenizers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import npu_tensor as nt
from npu_tensor.models import Encoder

__all__ = ["embeddings"]

MULTIPLE = 16
"""Granularity of padded text lengths, in tokens. Few lengths then need a capture."""


def embeddings(directory: str | Path, texts: Sequence[str]) -> nt.Tensor:
    """Return unit vectors (texts, features). Texts are truncated to the encoder's number of positions."""
    from tokenizers import Tokenizer

    encoder = Encoder.load(directory)
    tokenizer = Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))
    tokenizer.enable_truncation(len(encoder.embeddings.position_embeddings.weight) // MULTIPLE * MULTIPLE)
    tokenizer.enable_padding(pad_to_multiple_of=MULTIPLE)
    encoded = tokenizer.encode_batch(list(texts))
    tokens, mask = (np.array([getattr(each, name) for each in encoded], np.int32) for name in ("ids", "attention_mask"))
    vectors: nt.Tensor = encoder.embed(nt.from_numpy(tokens), nt.from_numpy(mask).bool())
    return vectors


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit('usage: python embeddings.py DIRECTORY "a sentence" "another one" ...')
    directory, *texts = sys.argv[1:]
    try:
        vectors = embeddings(directory, texts)
    except ModuleNotFoundError as error:
        sys.exit(f'{error}; to install it: "{sys.executable}" -m pip install tokenizers')
    similar = (vectors @ vectors.T).numpy()
    for text, row in zip(texts, similar, strict=True):
        print(*(f"{value:6.3f}" for value in row), text)


if __name__ == "__main__":
    main()
