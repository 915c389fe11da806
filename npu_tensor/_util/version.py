"""Version of the package, also in pyproject.toml. It is known here without an installation."""

from typing import Final

VERSION: Final = "0.1.0"
