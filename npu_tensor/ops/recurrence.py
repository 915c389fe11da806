"""Recurrences of LSTM, GRU and RNN layers: all steps of a layer in one direction are one op, and so is their gradient.

The results of an op are the planes of one tensor (planes, steps, batch, hidden): the hidden states, the cells of an
LSTM, and with `gates` the numbers that the gradient reads. Bodies take arrays or tensors: recorded on tensors, they are
the composite form that second derivatives differentiate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tensor.errors import ShapeError
from npu_tensor.ops.declare import Resolution, Rule
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import of_tensors
from npu_tensor.spec import Spec

__all__ = ["gru", "gru_backward", "lstm", "lstm_backward", "rnn", "rnn_backward"]


def _resolved(operands: tuple[Spec, ...], shape: tuple[int, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve to a shape and the dtype of the first operand."""
    is_double = any(operand.dtype.name == "float64" for operand in operands)
    registers = ("float64" if is_double else "float32",) * len(operands)
    return Resolution(Spec.of(shape, operands[0].dtype), registers, attributes)


def _require_fit(count: int, products: Spec, weight: Spec, bias: Spec, states: tuple[Spec, ...]) -> None:
    """Raise ShapeError unless the shapes are those of a recurrence with `count` gates."""
    hidden = weight.shape[-1] if weight.ndim == 2 else -1
    rows = count * hidden
    fits = products.ndim == 3 and products.shape[2] == rows and weight.shape == (rows, hidden) and bias.shape == (rows,)
    if not fits or any(state.shape != (products.shape[1], hidden) for state in states):
        raise ShapeError(
            f"needs products (steps, batch, {count} * hidden), weight ({count} * hidden, hidden), "
            f"bias ({count} * hidden) and states (batch, hidden)"
        )
    if not products.shape[0]:
        raise ShapeError("Expected sequence length to be larger than 0")


def _states_rule(count: int, planes: int, with_gates: int) -> Rule:
    """Make the rule of a recurrence, from its numbers of gates and of planes."""

    @of_tensors("floats")
    def rule(products: Spec, weight: Spec, bias: Spec, *states: Spec, **attributes: Any) -> Resolution:
        _require_fit(count, products, weight, bias, states)
        steps, batch, _ = products.shape
        shape = (with_gates if attributes.get("gates") else planes, steps, batch, weight.shape[1])
        return _resolved((products, weight, bias, *states), shape, attributes)

    return rule


def _changes_rule(count: int, planes: int, carries: int) -> Rule:
    """Make the rule of a gradient, from the number of gates, of their gradients and of gradients of first states."""

    @of_tensors("floats")
    def rule(
        gradient: Spec, values: Spec, products: Spec, weight: Spec, bias: Spec, *states: Spec, **attributes: Any
    ) -> Resolution:
        _require_fit(count, products, weight, bias, states)
        size = planes * products.size + carries * states[0].size
        return _resolved((gradient, values, products, weight, bias, *states), (size,), attributes)

    return rule


def _order(steps: int, reverse: bool) -> range:
    return range(steps)[:: -1 if reverse else 1]


def _parts(values: Any, count: int) -> list[Any]:
    size = values.shape[-1] // count
    return [values[..., size * part : size * (part + 1)] for part in range(count)]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _in_order(by_step: dict[int, Any], axis: int = 0) -> Any:
    return np.stack([by_step[step] for step in range(len(by_step))], axis)


# --- long short-term memory


@op(kind="data", rule=_states_rule(4, 2, 6), public=False)
def lstm(products, weight, bias, hidden, cell, /, reverse: bool = False, gates: bool = False):
    """Run an LSTM. The planes are the hidden states and the cells; with `gates`, also the four gates."""
    results = {}
    for step in _order(len(products), reverse):
        enter, forget, content, leave = _parts(products[step] + hidden @ weight.T + bias, 4)
        enter, forget, content, leave = _sigmoid(enter), _sigmoid(forget), np.tanh(content), _sigmoid(leave)
        cell = forget * cell + enter * content
        hidden = leave * np.tanh(cell)
        results[step] = np.stack([hidden, cell, *((enter, forget, content, leave) if gates else ())])
    return _in_order(results, 1)


@op(kind="data", rule=_changes_rule(4, 1, 1), public=False)
def lstm_backward(gradient, values, products, weight, bias, hidden, cell, /, reverse: bool = False):
    """Compute the gradients of `products` and of `cell` from those of hidden states and cells, one after the other."""
    order, results = _order(len(products), reverse), {}
    of_hidden: Any = 0
    of_cell: Any = 0
    for number in reversed(range(len(products))):
        step = order[number]
        before = values[1][order[number - 1]] if number else cell
        enter, forget, content, leave = (values[2 + gate][step] for gate in range(4))
        bounded = np.tanh(values[1][step])
        of_hidden = of_hidden + gradient[0][step]
        of_cell = of_cell + gradient[1][step] + of_hidden * leave * (1 - bounded * bounded)
        of_gates = (
            of_cell * content * enter * (1 - enter),
            of_cell * before * forget * (1 - forget),
            of_cell * enter * (1 - content * content),
            of_hidden * bounded * leave * (1 - leave),
        )
        results[step] = np.concatenate(of_gates, -1)
        of_hidden, of_cell = results[step] @ weight, of_cell * forget
    return np.concatenate([_in_order(results).reshape(-1), of_cell.reshape(-1)])


# --- gated recurrent units


@op(kind="data", rule=_states_rule(3, 1, 5), public=False)
def gru(products, weight, bias, hidden, /, reverse: bool = False, gates: bool = False):
    """Run gated recurrent units.

    The plane is that of the hidden states; with `gates`, there follow the three gates, and the products of the hidden
    state in the third.
    """
    results = {}
    for step in _order(len(products), reverse):
        (r, z, n), (reset, keep, content) = _parts(products[step], 3), _parts(hidden @ weight.T + bias, 3)
        reset, keep = _sigmoid(r + reset), _sigmoid(z + keep)
        new = np.tanh(n + reset * content)
        hidden = new + keep * (hidden - new)
        results[step] = np.stack([hidden, *((reset, keep, new, content) if gates else ())])
    return _in_order(results, 1)


@op(kind="data", rule=_changes_rule(3, 2, 1), public=False)
def gru_backward(gradient, values, products, weight, bias, hidden, /, reverse: bool = False):
    """Compute the gradients of `products`, of the products of hidden states, and the part of `hidden` beside these."""
    order, results = _order(len(products), reverse), {}
    of_hidden: Any = 0
    through_keep: Any = 0
    for number in reversed(range(len(products))):
        step = order[number]
        before = values[0][order[number - 1]] if number else hidden
        reset, keep, new, content = (values[1 + gate][step] for gate in range(4))
        of_hidden = of_hidden + through_keep + gradient[0][step]
        of_new = of_hidden * (1 - keep) * (1 - new * new)
        of_keep = of_hidden * (before - new) * keep * (1 - keep)
        of_reset = of_new * content * reset * (1 - reset)
        results[step] = np.stack([np.concatenate([of_reset, of_keep, last], -1) for last in (of_new, of_new * reset)])
        of_hidden, through_keep = results[step][1] @ weight, of_hidden * keep
    return np.concatenate([_in_order(results, 1).reshape(-1), through_keep.reshape(-1)])


# --- without gates


@op(kind="data", rule=_states_rule(1, 1, 1), public=False)
def rnn(products, weight, bias, hidden, /, nonlinearity: str = "tanh", reverse: bool = False):
    """Run a recurrence of tanh or relu. The plane is that of the hidden states."""
    results = {}
    for step in _order(len(products), reverse):
        total = products[step] + hidden @ weight.T + bias
        results[step] = hidden = np.tanh(total) if nonlinearity == "tanh" else np.maximum(total, 0)
    return _in_order(results)[None]


@op(kind="data", rule=_changes_rule(1, 1, 0), public=False)
def rnn_backward(
    gradient, values, products, weight, bias, hidden, /, nonlinearity: str = "tanh", reverse: bool = False
):
    """Compute the gradient of `products`."""
    order, results, of_hidden = _order(len(products), reverse), {}, 0
    for number in reversed(range(len(products))):
        step = order[number]
        after, of_hidden = values[0][step], of_hidden + gradient[0][step]
        is_tanh = nonlinearity == "tanh"
        results[step] = of_hidden * (1 - after * after) if is_tanh else np.where(after <= 0, 0, of_hidden)
        of_hidden = results[step] @ weight
    return _in_order(results).reshape(-1)
