"""Analyses of programs for code generators, and the code that a new primitive needs."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops import Op, analysis, rules
from npu_tensor.ops.expression import Program, ProgramBuilder, Symbol
from npu_tensor.ops.primitives import PRIMITIVES, Primitive
from npu_tensor.ops.rows import row_argmax, row_length, row_max, row_sum
from npu_tensor.tensor import record


def program(formula: Any, dtype: str = "float32", slots: int = 1) -> Program:
    builder = ProgramBuilder()
    return builder.program([formula(*(builder.load(slot, dtype) for slot in range(slots)))])


def numbers(program: Program, *primitives: str) -> list[int]:
    return [number for number, step in enumerate(program.instructions) if step.primitive in primitives]


def test_softmax_runs_in_three_stages() -> None:
    def softmax(x: Any) -> Any:
        shifted = np.exp(x - row_max(x))
        return shifted / row_sum(shifted)

    made = program(softmax)
    assert [(stage.reductions, stage.outputs) for stage in analysis.stages(made, [0])] == [
        (tuple(numbers(made, "row_max")), ()),
        (tuple(numbers(made, "row_sum")), ()),
        ((), (0,)),
    ]
    frequency = analysis.frequencies(made)
    assert [frequency[number] for number in numbers(made, "row_max", "row_sum")] == [analysis.PER_ROW] * 2
    assert frequency[made.outputs[0]] == analysis.PER_ELEMENT
    exponential = numbers(made, "exp")
    assert analysis.worth_keeping(made, made.outputs, [*exponential, *numbers(made, "sub")]) == exponential


@pytest.mark.parametrize(
    ("formula", "is_half"),
    [
        (lambda x: np.exp(x) + x * x, True),
        (lambda x: np.exp(x) - x * x, False),  # May cancel.
        (lambda x: row_max(x) + row_max(-x), False),  # Signs are tracked through reductions.
        (lambda x: row_max(np.abs(x)) * row_sum(np.exp(x)), True),
    ],
)
def test_precision_is_saved_where_no_error_grows(formula: Any, is_half: bool) -> None:
    made = program(formula)
    precisions = analysis.precisions(made, range(len(made.instructions)), "half")
    inner = {precisions[number] for number in numbers(made, "exp", "row_max", "row_sum")}
    assert inner == {"half" if is_half else "full"}


def test_values_are_rounded_where_no_relative_error_grows() -> None:
    def only_for_tanh(formula: Any) -> set[str]:
        made = program(lambda x: np.tanh(formula(x)))
        order = range(len(made.instructions))
        values = analysis.roundable(made, order, numbers(made, "tanh"))
        return {made.instructions[number].primitive for number in values} - {"constant"}

    assert only_for_tanh(lambda x: x * (1 + 0.1 * x * x)) == {"load", "mul", "add"}
    assert only_for_tanh(lambda x: x * (1 - 0.1 * x * x)) == {"mul", "sub"}
    assert only_for_tanh(lambda x: x * (1 + x * x * x)) == {"mul", "add"}
    assert only_for_tanh(lambda x: np.exp(x * 0.1)) == {"exp"}


def test_bounds_follow_from_types_and_the_length_of_rows() -> None:
    made = program(lambda x: row_sum(x.astype("int64")) * 2 - row_length(x.astype("int64")) + row_argmax(x), "int8")
    bounds = analysis.bounds(made, 100)
    assert bounds[numbers(made, "row_sum")[0]] == (-12800, 12700)
    assert bounds[numbers(made, "row_argmax")[0]] == (0, 99)
    assert bounds[numbers(made, "scalar")[0]] == (100, 100)


@pytest.mark.parametrize(
    ("formula", "steps"),
    [
        (lambda x: np.floor(x), False),  # The devices agree on the operand.
        (lambda x: np.floor(x * 0.1), True),
        (lambda x: np.maximum(-x, 1) > 0, False),
        (lambda x: np.exp(x).astype("int32"), True),
    ],
)
def test_steps_matter_on_values_that_may_differ(formula: Any, steps: bool) -> None:
    assert analysis.takes_steps_on_inexact(program(formula)) is steps


def test_a_new_primitive_needs_its_entry_alone_and_targets_without_code_refuse_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PRIMITIVES, "cbrt", Primitive(1, np.cbrt, flops=30, inexact=True, error="kept"))

    def cube_root(input: Any, /) -> Any:
        return input.builder.emit("cbrt", (input,)) if isinstance(input, Symbol) else np.cbrt(input)

    y = record(Op(cube_root, kind="map", rule=rules.floating), (nt.tensor([8.0, 27.0]),)) + 1
    steps = nt.explain(y)
    assert steps[-1].kernel == "numpy"
    assert "cbrt has no compiled form" in str(steps) or nt.config.cpu_features == "numpy"
    assert y.tolist() == pytest.approx([3.0, 4.0])
    assert emitter.refusal(program(lambda x: cube_root(x) * 2)) == "cbrt of float32"
