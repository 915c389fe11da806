"""What is measured beside npu_tensor: one module per library, loaded only if it is asked for."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Final

from .library import Library

__all__ = ["PEERS", "first_line", "load"]

PEERS: Final[Mapping[str, str]] = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "jax": "JAX",
    "tinygrad": "TinyGrad",
    "ggml": "GGML",
}
"""Modules of this package, which are called as what they import, and the classes in them."""


def load(names: Iterable[str], threads: int) -> tuple[list[Library], dict[str, str]]:
    """The peers that can be had, on so many threads, and why the others cannot, by name."""
    # Libraries read these once, when they are loaded: JAX and tinygrad.
    os.environ.update(NPROC=str(threads), NUM_CPU_THREADS=str(threads))
    libraries: list[Library] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            module = importlib.import_module(f".{name}", __package__)
            libraries.append(getattr(module, PEERS[name])(threads))
        except Exception as error:  # A library may fail in any way when it is loaded; the others are measured.
            missing[name] = f"{type(error).__name__}: {first_line(error)}"
    return libraries, missing


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message, or as much of it as a table has room for."""
    return str(error).partition("\n")[0][:MOST_CHARACTERS]


MOST_CHARACTERS: Final = 120
