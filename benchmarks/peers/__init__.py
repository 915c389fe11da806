"""Peers of npu_tensor: one module per library, loaded only if selected."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Final

from .library import Library

PEERS: Final[Mapping[str, str]] = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "jax": "JAX",
    "tinygrad": "TinyGrad",
    "ggml": "GGML",
}
"""Classes of the peers by module. Each module has the name of the library that it imports."""


def load(names: Iterable[str], threads: int) -> tuple[list[Library], dict[str, str]]:
    """Load the peers for a number of threads. Return them, and the reasons for missing ones by name."""
    # JAX and tinygrad read these variables once, when they are loaded.
    os.environ.update(NPROC=str(threads), NUM_CPU_THREADS=str(threads))
    libraries: list[Library] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            module = importlib.import_module(f".{name}", __package__)
            libraries.append(getattr(module, PEERS[name])(threads))
        except Exception as error:  # Loading a library may raise any exception. The others are measured.
            missing[name] = f"{type(error).__name__}: {first_line(error)}"
    return libraries, missing


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message, truncated for a table."""
    return str(error).partition("\n")[0][:MOST_CHARACTERS]


MOST_CHARACTERS: Final = 120
