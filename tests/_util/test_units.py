"""Figures in words: no number is rounded up to the next unit's size."""

import pytest

from npu_tensor._util.units import duration, quantity, size


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 us"),
        (1.23e-5, "12.3 us"),
        (9.9994e-4, "999.9 us"),
        (9.9999e-4, "1.00 ms"),
        (4.56e-3, "4.56 ms"),
        (0.99999, "999.99 ms"),
        (0.999999, "1.00 s"),
        (7.89, "7.89 s"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [
        *((512, "512 B"), (999.7, "1.0 kB"), (4000, "4.0 kB"), (999_960, "1.0 MB"), (1.5e6, "1.5 MB")),
        *((7e10, "70.0 GB"), (2e12, "2.0 TB"), (1 << 55, "36.0 PB"), (1 << 63, "9.2 EB"), (1 << 80, "1208925.8 EB")),
    ],
)
def test_size(nbytes: float, words: str) -> None:
    assert size(nbytes) == words


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.6e-6, "s", "600 ns"),
        (38.9e9, "B/s", "38.9 GB/s"),
        (999.6, "B", "1 kB"),
        (1048576, "B", "1.05 MB"),
        (1.64, "W", "1.64 W"),
        (15e-12, "s/B", "15 ps/B"),
        (5e15, "B/s", "5e+03 TB/s"),
        (2e-15, "s", "0.002 ps"),
    ],
)
def test_quantities(value: float, unit: str, words: str) -> None:
    assert quantity(value, unit) == words
