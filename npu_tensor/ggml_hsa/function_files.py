"""Kernel functions in Python files: those of `npu_tensor.ggml_hsa.kernel_functions`, and users' own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from npu_tensor.errors import ArgumentError

PACKAGED: Final = Path(__file__).parent / "kernel_functions"
"""Directory of the kernel functions of this package. They are loaded like users' own."""


def find(source: str, directories: Sequence[Path]) -> Path:
    """Return the file that `kernel_source` names, from these directories or the package.

    Files are executed, so a configuration cannot name files in other directories. Raises ArgumentError, with all
    searched directories, if there is no such file.
    """
    searched = [os.path.abspath(directory) for directory in (*directories, PACKAGED)]
    outside = True
    for directory in searched:
        path = Path(os.path.abspath(os.path.join(directory, source)))
        if path.is_relative_to(directory):
            outside = False
            if os.path.isfile(path):  # False, not an error, for an impossible name
                return path.resolve()
    why = "; it is outside of them, and --kernels-dir can name its directory" if outside else ""
    raise ArgumentError(f"Kernel source not found: {source!r} (searched {', '.join(searched)}{why})")


@cache
def packaged() -> dict[str, Path]:
    """Return the file of each kernel function of this package."""
    return {name: path for path in sorted(PACKAGED.glob("[a-z]*.py")) for name in functions(path)}


def for_op(word: str) -> str | None:
    """Return this package's function for an op by GGML's name in any case, such as "add" or "GGML_UNARY_OP_GELU"."""
    word = word.lower().removeprefix("ggml_op_").removeprefix("ggml_unary_op_")
    return next((name for name in (f"ggml_op_{word}", f"ggml_unary_op_{word}") if name in packaged()), None)


def function(path: Path, name: str) -> Callable[..., Any]:
    """Return a function of a file. Raises ArgumentError, with all names, if there is none."""
    choices = functions(path)
    if name not in choices:
        raise ArgumentError(f"{path.name} has no function {name!r}; there are {', '.join(choices) or 'none'}")
    return choices[name]


def functions(path: Path) -> dict[str, Callable[..., Any]]:
    """Return the kernel functions of a file by name: its public callables except for classes.

    The file is executed once. Raises ArgumentError if that fails.
    """
    return {
        name: value
        for name, value in vars(_module(path)).items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
    }


@cache
def _module(path: Path) -> ModuleType:
    # The whole path in the name: files of one name in two directories are two modules.
    spec = importlib.util.spec_from_file_location(f"npu_tensor kernel source {path}", path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"Failed to import kernel source {path}: not a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"Failed to import kernel source {path}: {type(error).__name__}: {error}") from error
    return module
