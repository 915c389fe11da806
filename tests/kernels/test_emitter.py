"""C++ of programs: where cheaper functions and less precision are enough, and numbers as literals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import ProgramBuilder


def body(formula: Callable[..., Any], operands: int = 1, precision: Precision = "half", short: bool = False) -> str:
    """Return the C++ of a formula of float32 operands. short: True if they are bfloat16 in memory."""
    builder = ProgramBuilder()
    program = builder.program([formula(*(builder.load(slot, "float32") for slot in range(operands)))])
    loads = {number: "load" for number, step in enumerate(program.instructions) if step.primitive == "load"}
    code = emitter.statements(emitter.choose(program, loads, precision, short=set(loads) if short else ()), loads, 16)
    return "\n".join(code.body)


def test_half_precision_stops_at_differences() -> None:
    """A sum of positive numbers has the relative error of its terms, a difference may have any."""
    assert "nt::exp<nt::half>" in body(lambda a: 1 + np.exp(a))
    assert "nt::exp<nt::full>" in body(lambda a: 1 - np.exp(a))


def test_products_of_bfloat16_take_half_the_work() -> None:
    assert "nt::mul(nt::brief(" in body(lambda a, b: abs(a) * -b, 2, "full", short=True)
    assert "nt::mul<nt::full>" in body(lambda a, b: abs(a) * -(b + 1), 2, "full", short=True)


def test_divisors_of_one_or_more_take_half_the_work() -> None:
    """This needs a quotient that is rounded to bfloat16, and a divisor that cannot be smaller or negative."""
    assert "nt::div_by_one_or_more(v0, " in body(lambda a: a / (1 + np.exp(-a)))
    assert "nt::div_by_one_or_more(nt::brief(" in body(lambda a: 1 / (1 + np.exp(-a)))
    assert "nt::div<nt::half>" in body(lambda a: a / (0.5 + np.exp(-a)))
    assert "nt::div<nt::half>" in body(lambda a: a / (1 + a))
    assert "nt::div<nt::full>" in body(lambda a: a / (1 + np.exp(-a)), precision="full")


@pytest.mark.parametrize("swapped", [False, True])
def test_rounding_to_narrow_integers_is_one_function(swapped: bool) -> None:
    """The function has bounds, those of the type or narrower ones, on both sides of the rounding, and NaN is 0."""

    def text(low: float, high: float) -> str:
        def formula(a: Any) -> Any:
            steps = [np.rint, lambda x: np.minimum(np.maximum(x, low), high)]
            for step in steps[::-1] if swapped else steps:
                a = step(a)
            return a.astype("int8")

        return body(formula)

    assert text(-128, 200).splitlines()[1:] == ["const auto v6 = nt::rounded<int8>(v0, -128.0f, 127.0f);"]
    assert text(-127, 127).splitlines()[1:] == ["const auto v6 = nt::rounded<int8>(v0, -127.0f, 127.0f);"]
    assert "nt::maximum" in text(-0.5, 127)
    assert "nt::maximum" in text(200, 300)
    assert "nt::maximum" in text(5, 127)
    assert "nt::minimum" in text(-127, -1)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1e-7, "float32", "1e-07f"),
        (1e39, "float32", "__builtin_inff()"),
        (-(2**31), "int32", "-2147483647 - 1"),
        (True, "bool", "true"),
    ],
)
def test_literals(value: float, dtype: str, text: str) -> None:
    assert emitter.literal(value, dtype) == text
