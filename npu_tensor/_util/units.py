"""Formatting of quantities with units."""

from __future__ import annotations

_PREFIXES = {-4: "p", -3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T"}
"""Prefixes by powers of 1000."""


def duration(seconds: float) -> str:
    """Format a time, such as "12.3 us", "4.56 ms" and "7.89 s"."""
    if round(seconds * 1e6, 1) < 1000:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if round(seconds * 1e3, 2) < 1000 else f"{seconds:.2f} s"


def size(nbytes: float) -> str:
    """Format a size, such as "512 B", "4.0 kB" and "1.5 MB", in multiples of 1000."""
    for unit, digits in (("B", 0), ("kB", 1), ("MB", 1), ("GB", 1), ("TB", 1), ("PB", 1)):
        if round(nbytes, digits) < 1000:
            return f"{nbytes:.{digits}f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} EB"


def quantity(value: float, unit: str) -> str:
    """Format a positive value with three digits and a prefixed unit, such as "38.9 GB/s", "600 ns" and "1.64 W"."""
    digits, _, exponent = f"{value:.2e}".partition("e")
    power = min(max(int(exponent) // 3, min(_PREFIXES)), max(_PREFIXES))
    return f"{float(digits) * 10.0 ** (int(exponent) - 3 * power):.3g} {_PREFIXES[power]}{unit}"
