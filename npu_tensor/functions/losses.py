"""Losses of probabilities, of scores and of distances with a bend; those of classes are in `nn`."""

from __future__ import annotations

from npu_tensor import ops
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.neural import l1_loss, reduced, require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.tensor import Tensor

__all__: list[str] = []


@composite(method=False)
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Half the squared distance over beta up to beta, beyond it the distance minus half of beta. beta=0 is l1_loss."""
    if not beta >= 0:
        raise ArgumentError(f"beta must not be negative: {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    distance = (wide(input) - wide(target)).abs()
    losses = ops.where_op(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)
    return reduced(losses, reduction).to(ops.sub(input, target).dtype)


@composite(method=False)
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared distance up to delta, beyond it delta times the distance minus half of delta."""
    if not delta > 0:
        raise ArgumentError(f"delta must be positive, not {delta}")
    dtype, distance = require_float(input), (wide(input) - wide(target)).abs()
    losses = ops.where_op(distance < delta, distance * distance * 0.5, delta * (distance - 0.5 * delta))
    return reduced(losses, reduction).to(dtype)


def _weighted(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses if weight is None else losses * wide(weight)


def _require_target_for_each(input: Tensor, target: Tensor) -> None:
    """ShapeError for targets that would be broadcast, which is more often a mistake than meant."""
    if target.shape != input.shape:
        raise ShapeError(f"target must have the shape {list(input.shape)}, not {list(target.shape)}")


@composite(method=False)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)) of probabilities, with logarithms of at least -100."""
    _require_target_for_each(input, target)
    dtype, x, expected = require_float(input), wide(input), wide(target)
    losses = -(expected * x.log().clamp(min=-100) + (1 - expected) * (-x).log1p().clamp(min=-100))
    return reduced(_weighted(losses, weight), reduction).to(dtype)


@composite(method=False)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of sigmoid(input), without overflow; pos_weight multiplies the part of positive targets.

    The result has the dtype of target, as in PyTorch, or that of input if target is not of floats.
    """
    _require_target_for_each(input, target)
    dtype, x, expected = require_float(input), wide(input), wide(target)
    positive = expected if pos_weight is None else expected * wide(pos_weight)
    losses = (1 - expected) * x - (1 - expected + positive) * ops.logsigmoid(x)
    return reduced(_weighted(losses, weight), reduction).to(target.dtype if target.is_floating_point() else dtype)


@composite(method=False)
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input) with log-probabilities as input; log_target: the target is given as them, too.

    reduction "batchmean" divides the sum by the extent of the first dimension.
    """
    dtype, x, expected = require_float(input), wide(input), wide(target)
    if log_target:
        losses = expected.exp() * (expected - x)
    else:
        losses = ops.where_op(expected == 0, 0.0, expected * expected.log()) - expected * x
    if reduction == "batchmean":
        return (losses.sum() / input.shape[0]).to(dtype)
    return reduced(losses, reduction).to(dtype)


@composite(method=False)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cosine of the angle between two rows where target is 1, max(cosine - margin, 0) where it is -1.

    >>> nt.cosine_embedding_loss(nt.ones(2, 3), nt.ones(2, 3), nt.tensor([1, -1]))
    """
    if input1.ndim != target.ndim + 1:
        raise ShapeError(f"{list(target.shape)} targets do not fit rows of {list(input1.shape)}")
    a, b = wide(input1), wide(input2)
    # PyTorch adds 1e-12 to the squared lengths.
    cosine = (a * b).sum(-1) * (((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12)).rsqrt()
    apart = ops.where_op(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduced(ops.where_op(target == 1, 1 - cosine, apart), reduction).to(ops.mul(input1, input2).dtype)
