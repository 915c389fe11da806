"""The version of the package: here, and in pyproject.toml, so that it is also known where only the sources are."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
