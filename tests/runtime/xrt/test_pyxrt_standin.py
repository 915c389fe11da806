"""The stand-in for pyxrt behaves like the real module without an NPU, as measured."""

import pytest
from machine import Machine, install
from signatures import MEASURED, Measured, outcome


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.expression)
def test_measured(measured: Measured) -> None:
    with install(Machine([])) as standin:
        assert outcome(standin, measured.expression).startswith(measured.outcome)
