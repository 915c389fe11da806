"""Figures in words."""

from __future__ import annotations

__all__ = ["duration", "size"]


def duration(seconds: float) -> str:
    """As in "12.3 us", "4.56 ms" and "7.89 s"."""
    if round(seconds * 1e6, 1) < 1000:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if round(seconds * 1e3, 2) < 1000 else f"{seconds:.2f} s"


def size(nbytes: float) -> str:
    """As in "512 B", "4.0 KB" and "1.5 MB": multiples of 1000, as bandwidths are given."""
    for unit, digits in (("B", 0), ("KB", 1), ("MB", 1)):
        if round(nbytes, digits) < 1000:
            return f"{nbytes:.{digits}f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} GB"
