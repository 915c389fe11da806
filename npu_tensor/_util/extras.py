"""Optional packages."""

from __future__ import annotations

import sys


def install_command(*packages: str) -> str:
    """Return the shell command that installs packages for the running interpreter."""
    return f'"{sys.executable}" -m pip install {" ".join(packages)}'
