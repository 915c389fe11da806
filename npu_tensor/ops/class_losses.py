"""Cross-entropy of rows of scores with class indices, its mean and its gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npu_tensor.dtypes import as_dtype, int64
from npu_tensor.errors import ShapeError
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Operand, Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import cast, constant_like, row_max, row_positions, row_sum
from npu_tensor.spec import Spec


def _resolved(operands: tuple[Operand, ...], attributes: dict[str, Any], reduces: bool) -> Resolution:
    """Resolve scores, a class index per row, and perhaps a gradient per row; `dim` is the row."""
    x, target, *others = map(rules.require_tensor, operands)
    dim = rules.dimension(attributes["dim"], x.ndim)
    per_row = tuple(1 if axis == dim else extent for axis, extent in enumerate(x.shape))
    rules.index_dtype(target.dtype)
    if any(each.shape != per_row for each in (target, *others)):
        raise ShapeError(f"needs one class per row, in the shape {list(per_row)}")
    register = x.dtype.register
    spec = Spec.of(per_row, as_dtype(register)) if reduces else x
    registers = (register, int64.register, *(register for _ in others))  # `row_positions` are int64.
    return Resolution(spec, registers, {**attributes, "dim": dim}, (dim,), reduces)


def _mean_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve losses and targets of one shape to a scalar."""
    losses, target = map(rules.require_tensor, operands)
    rules.index_dtype(target.dtype)
    if losses.shape != target.shape:
        raise ShapeError("losses and targets must have one shape")
    dims = tuple(range(losses.ndim))
    registers = (losses.dtype.register, int64.register)  # `ignore_index` may exceed int32.
    return Resolution(Spec.of((), losses.dtype), registers, attributes, dims, True)


@op(kind="row", rule=partial(_resolved, reduces=True), public=False)
def cross_entropy_rows(input, target, /, dim: int, ignore_index: int):
    """Return -log_softmax(input)[target] of each row, and 0 where target is `ignore_index`.

    The indices are not checked. 16-bit floats give float32.
    """
    shifted, zero = input - row_max(input), constant_like(input, 0.0)
    chosen = row_sum(np.where(row_positions(input) == target, shifted, zero))
    return np.where(target == ignore_index, zero, np.log(row_sum(np.exp(shifted))) - chosen)


@op(kind="row", rule=partial(_resolved, reduces=False), public=False)
def cross_entropy_rows_gradient(input, target, gradient, /, dim: int, ignore_index: int):
    """Return gradient * (softmax(input) - one_hot(target)), and 0 where target is `ignore_index`."""
    e, zero = np.exp(input - row_max(input)), constant_like(input, 0.0)
    hit = np.where(row_positions(input) == target, constant_like(input, 1.0), zero)
    return np.where(target == ignore_index, zero, gradient * (e * (1 / row_sum(e)) - hit))


@op(kind="row", rule=_mean_rule, public=False)
def counted_mean(losses, target, /, ignore_index: int):
    """Return the sum of all losses divided by the number of targets other than `ignore_index`."""
    return row_sum(losses) / row_sum(cast(target != ignore_index, str(losses.dtype)))
