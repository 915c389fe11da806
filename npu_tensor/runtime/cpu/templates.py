"""LLVM IR that is kept in files beside the modules, with `$name` where a number or a name of the machine goes."""

from __future__ import annotations

from pathlib import Path
from string import Template

__all__ = ["filled"]


def filled(file: str, **values: object) -> str:
    """The text of a file with each `$name` replaced. Raises KeyError for one that has no value."""
    return Template(Path(__file__).with_name(file).read_text("utf-8")).substitute(values)
