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

__all__ = ["find", "for_op", "function", "functions", "packaged"]

PACKAGED: Final = Path(__file__).parent / "kernel_functions"
"""Where the kernel functions of this package are. They are loaded like users' own, which use the whole package."""

FORMER_NAMES: Final = {"copies.py": "copy_ops.py", "rows.py": "row_ops.py"}
"""Files of this package as configurations that were recorded with version 0.1 name them."""


def find(source: str, directories: Sequence[Path]) -> Path:
    """The file that `kernel_source` names: in the first of the directories that has it, or in the package.

    Files are run, so a configuration cannot name those elsewhere. Raises ArgumentError with all that were searched.
    """
    searched = [os.path.abspath(directory) for directory in (*directories, PACKAGED)]
    outside = True
    for directory in searched:
        path = Path(os.path.abspath(os.path.join(directory, source)))
        if path.is_relative_to(directory):
            outside = False
            if os.path.isfile(path):  # a name that no file can have is no error here
                return path.resolve()
    if source in FORMER_NAMES:
        return PACKAGED / FORMER_NAMES[source]
    why = "; it is outside of them, and --kernels-dir can name its directory" if outside else ""
    raise ArgumentError(f"Kernel source not found: {source!r} (searched {', '.join(searched)}{why})")


@cache
def packaged() -> dict[str, Path]:
    """Function -> file, of all kernel functions of this package."""
    return {name: path for path in sorted(PACKAGED.glob("[a-z]*.py")) for name in functions(path)}


def for_op(word: str) -> str | None:
    """The function of this package for an op by GGML's name, in any case, such as "add" or "UNARY_GELU"."""
    word = word.lower().removeprefix("ggml_op_").removeprefix("ggml_unary_op_")
    return next((name for name in (f"ggml_op_{word}", f"ggml_unary_op_{word}") if name in packaged()), None)


def function(path: Path, name: str) -> Callable[..., Any]:
    """The function `name` of a file. ArgumentError if there is none, with those that there are."""
    choices = functions(path)
    if name not in choices:
        raise ArgumentError(f"{path.name} has no function {name!r}; there are {', '.join(choices) or 'none'}")
    return choices[name]


def functions(path: Path) -> dict[str, Callable[..., Any]]:
    """The kernel functions of a file by name: all that is callable, is no class and has no _ in front.

    The file is run once. Raises ArgumentError if that fails.
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
        raise ArgumentError(f"Failed to import kernel source {path}: it is no Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"Failed to import kernel source {path}: {type(error).__name__}: {error}") from error
    return module
