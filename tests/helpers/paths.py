"""Paths of the source tree."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples"
GOLDEN: Final = ROOT / "tests" / "golden"
