"""Upper bounds on the entries of the caches in memory.

A cache drops its oldest or least recently used entry at its bound. The values are chosen, not measured: a program that
exceeds one computes entries again and stays correct.
"""

from __future__ import annotations

from typing import Final

CALLS: Final = 4096
"""Gradient ops by recorded call and operand."""

CAPTURES: Final = 256
"""Captures of one function under jit."""

KERNELS: Final = 1024
"""Bound products and compiled loops of a processor, which keep their machine code."""

LAYOUTS: Final = 4096
"""Layouts by shape, for each function of layouts."""

LINES: Final = 4096
"""Source lines of recorded ops."""

PLANS: Final = 4096
"""Plans of one selection of devices."""

PROGRAMS: Final = 256
"""Programs of data ops and tables of places, for each function that makes them."""

TEMPLATES: Final = 256
"""Recorded gradients by the structure of the differentiated graph."""
