"""Figures in words."""

from __future__ import annotations

import pytest

from npu_tensor.units import quantity


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
