"""Losses of probabilities, scores and distances; those of classes are in `neural`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, default_dtype
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import arange, full_like, zeros
from npu_tensor.functions.neural import l1_loss, reduced, warn_of_broadcast
from npu_tensor.functions.products import pairwise_distance
from npu_tensor.functions.register import composite, require_float, wide
from npu_tensor.functions.shape import joined, pad, stack
from npu_tensor.functions.templated import templated
from npu_tensor.tensor import Tensor, from_array


@composite(method=False)
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return half the squared distance over beta up to beta, and the distance minus half of beta beyond.

    With beta=0 it is `l1_loss`.
    """
    if not beta >= 0:
        raise ArgumentError(f"beta must not be negative: {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    warn_of_broadcast(input, target)
    distance = (wide(input) - wide(target)).abs()
    losses = ops.where_op(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)
    return reduced(losses, reduction).to(ops.sub(input, target).dtype)


@composite(method=False)
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return half the squared distance up to delta, and delta times the distance minus half of delta beyond.

    Args:
        weight: Factor of the losses; None for 1.
    """
    if not delta > 0:
        raise ArgumentError(f"delta must be positive, not {delta}")
    warn_of_broadcast(input, target)
    dtype, distance = require_float(input), (wide(input) - wide(target)).abs()
    losses = ops.where_op(distance < delta, distance * distance * 0.5, delta * (distance - 0.5 * delta))
    return reduced(_weighted(losses, weight), reduction).to(dtype)


def _float_of(dtype: DType) -> DType:
    """Return the dtype of losses of operands of a dtype: the default one for integers."""
    return dtype if dtype.is_floating_point else default_dtype(float)


def _weighted(losses: Tensor, weight: Tensor | None) -> Tensor:
    return losses if weight is None else losses * wide(weight)


def _require_target_for_each(input: Tensor, target: Tensor) -> None:
    """Raise ShapeError for targets that would be broadcast, which is more often a mistake than intended."""
    if target.shape != input.shape:
        raise ShapeError(f"target must have the shape {list(input.shape)}, not {list(target.shape)}")


@composite(method=False)
@templated
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Return -(target log(input) + (1 - target) log(1 - input)), with logarithms of at least -100.

    Args:
        input: Probabilities of any shape. Values outside of [0, 1] give NaN; PyTorch raises an error.
        target: Probabilities of the same shape.
        weight: Factor of the losses; None for 1.
    """
    _require_target_for_each(input, target)
    dtype, x, expected = require_float(input), wide(input), wide(target)
    losses = -(expected * x.log().clamp(min=-100) + (1 - expected) * (-x).log1p().clamp(min=-100))
    return reduced(_weighted(losses, weight), reduction).to(dtype)


@composite(method=False)
@templated
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross-entropy of sigmoid(input), computed without overflow.

    The result has the dtype of target, as in PyTorch, or that of input if target is not floating point.

    Args:
        input: Logits of any shape.
        target: Probabilities of the same shape.
        weight: Factor of the losses; None for 1.
        pos_weight: Factor of the part of positive targets; None for 1.
    """
    _require_target_for_each(input, target)
    dtype, x, expected = require_float(input), wide(input), wide(target)
    positive = expected if pos_weight is None else expected * wide(pos_weight)
    losses = (1 - expected) * x - (1 - expected + positive) * ops.logsigmoid(x)
    return reduced(_weighted(losses, weight), reduction).to(target.dtype if target.is_floating_point() else dtype)


@composite(method=False)
@templated
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return target * (log(target) - input).

    Args:
        input: Log-probabilities.
        target: Probabilities.
        reduction: "mean", "sum", "none", or "batchmean" for the sum divided by the extent of the first dimension.
        log_target: True if `target` holds log-probabilities.
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
    """Return 1 - cosine of two rows where target is 1, and max(cosine - margin, 0) where it is -1.

    >>> nt.cosine_embedding_loss(nt.ones(2, 3), nt.ones(2, 3), nt.tensor([1, -1]))
    """
    if input1.ndim != target.ndim + 1:
        raise ShapeError(f"{list(target.shape)} targets do not fit rows of {list(input1.shape)}")
    a, b = (wide(each) if each.is_floating_point() else each.float() for each in (input1, input2))
    # PyTorch adds 1e-12 to the squared lengths.
    cosine = (a * b).sum(-1) * (((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12)).rsqrt()
    apart = ops.where_op(target == -1, (cosine - margin).clamp(min=0), 0.0)
    losses = ops.where_op(target == 1, 1 - cosine, apart)
    return reduced(losses, reduction).to(_float_of(ops.mul(input1, input2).dtype))


@composite(method=False)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """Return a distance where target is 1, and max(margin - distance, 0) where it is -1."""
    x, expected = wide(input), wide(target)
    losses = ops.where_op(expected == 1, 0.0, (margin - x).clamp(min=0)) + ops.where_op(expected == -1, 0.0, x)
    return reduced(losses, reduction).to(require_float(input))


@composite(method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """Return max(margin - target * (input1 - input2), 0).

    Targets are 1 where input1 should be larger, else -1.

    >>> nt.margin_ranking_loss(nt.tensor([1.0]), nt.tensor([3.0]), nt.tensor([1.0]))
    """
    losses = (-wide(target) * (wide(input1) - wide(input2)) + margin).clamp(min=0)
    return reduced(losses, reduction).to(_float_of(ops.sub(input1, input2).dtype))


@composite(method=False)
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return log(1 + exp(-target * input)) with targets of 1 or -1."""
    losses = -ops.logsigmoid(wide(target) * wide(input))
    return reduced(losses, reduction).to(require_float(input))


@composite(method=False)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Return the binary cross-entropy of sigmoid(input) with targets of 0 or 1, averaged over the last dimension."""
    x, expected = wide(input), wide(target)
    losses = -(expected * ops.logsigmoid(x) + (1 - expected) * ops.logsigmoid(-x))
    return reduced(_weighted(losses, weight).mean(-1), reduction).to(require_float(input))


@composite(method=False)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over the other classes i of max(margin - input[target] + input[i], 0) ** p; classes come last.

    >>> nt.multi_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([1]))
    """
    x, index = wide(input), target.reshape(*input.shape[:-1], 1)
    x = x if x.ndim else x.reshape(1)
    losses = (margin - ops.gather_along(x, index, -1, "target") + x).clamp(min=0) ** p
    if weight is not None:
        losses = losses * ops.take_op(wide(weight), index, 0, "target")
    others = ops.where_op(index == arange(x.shape[-1]), 0.0, losses)
    return reduced(others.mean(-1), reduction).to(require_float(input))


@composite(method=False)
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Return the sum of max(1 - input[i] + input[j], 0) over classes i of a sample and others j, per class.

    The classes of a sample are those in its row of target before the first -1.

    >>> nt.multilabel_margin_loss(nt.tensor([[0.1, 0.8]]), nt.tensor([[1, -1]]))
    """
    _require_target_for_each(input, target)
    x, target = (wide(each).reshape(each.shape or (1,)) for each in (input, target))
    classes = arange(x.shape[-1])
    counts = (target < 0).long().cumsum(-1) == 0
    safe = ops.where_op(counts, target, 0)
    is_target = ((safe.unsqueeze(-1) == classes) & counts.unsqueeze(-1)).any(-2)
    margins = (1 - ops.gather_along(x, safe, -1, "target").unsqueeze(-1) + x.unsqueeze(-2)).clamp(min=0)
    losses = ops.where_op(counts.unsqueeze(-1) & ~is_target.unsqueeze(-2), margins, 0.0).sum(-1).sum(-1)
    return reduced(losses / x.shape[-1], reduction).to(require_float(input))


@composite(method=False)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return max(distance to positive - distance to negative + margin, 0) of rows, by their p-norms.

    Args:
        anchor: Rows to compare.
        positive: Rows that should be near.
        negative: Rows that should be far.
        margin: Required difference of the distances.
        p: Order of the norm.
        eps: Added to the differences.
        swap: True to use the distance of positive and negative if it is smaller than that of anchor and negative.

    >>> nt.triplet_margin_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))
    """

    def distance(x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


@composite(method=False)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return the triplet loss for another function of the distance, by default `pairwise_distance`.

    >>> nt.triplet_margin_with_distance_loss(nt.zeros(1, 2), nt.zeros(1, 2), nt.ones(1, 2))
    """
    distance = distance_function or pairwise_distance
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced((distance(anchor, positive) - far + margin).clamp(min=0), reduction)


@composite(method=False)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Return exp(input) - target * input.

    Args:
        input: Logarithms of rates, or rates.
        target: Counts.
        log_input: False if `input` holds rates: the loss is input - target * log(input + eps).
        full: True to add Stirling's approximation of log(target!) for targets above 1.
        eps: Added to rates.
    """
    x, expected = wide(input), wide(target)
    losses = x.exp() - expected * x if log_input else x - expected * (x + eps).log()
    if full:
        stirling = expected * expected.log() - expected + 0.5 * (2 * math.pi * expected).log()
        losses = losses + ops.where_op(expected > 1, stirling, 0.0)
    return reduced(losses, reduction).to(_float_of(input.dtype))


@composite(method=False)
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, *, reduction: str = "mean"
) -> Tensor:
    """Return (log(var) + (input - target)^2 / var) / 2.

    Args:
        input: Means.
        target: Samples.
        var: Variances.
        full: True to add log(2 pi) / 2.
        eps: Lower limit of the variances.

    >>> nt.gaussian_nll_loss(nt.zeros(2), nt.ones(2), nt.ones(2))
    """
    x, expected = wide(input), wide(target)
    spread = wide(var) if var.ndim in (0, input.ndim) else wide(var).unsqueeze(-1)
    limited = spread + (spread.clamp(min=eps) - spread).detach()  # its gradient is that of var
    losses = 0.5 * (limited.log() + (x - expected) ** 2 / limited) + (0.5 * math.log(2 * math.pi) if full else 0.0)
    return reduced(losses, reduction).to(require_float(input))


@composite(method=False)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the log-probability of all alignments of targets (Graves et al., 2006). Reads the lengths.

    Args:
        log_probs: Log-probabilities (time, batch, classes) or (time, classes).
        targets: Labels (batch, length), or those of all samples concatenated.
        input_lengths: Number of time steps of each sample.
        target_lengths: Number of labels of each sample.
        blank: Class of the blank.
        reduction: "mean", "sum" or "none". "mean" divides by the target lengths first.
        zero_infinity: True to return 0 for targets that are too long.

    >>> nt.ctc_loss(nt.zeros(3, 1, 2).log_softmax(2), nt.tensor([[1]]), [3], [1])
    """
    single = log_probs.ndim == 2
    scores = wide(log_probs).unsqueeze(1) if single else wide(log_probs)
    times, goals = (np.asarray(each, np.int64).reshape(-1) for each in (input_lengths, target_lengths))
    batch, longest = scores.shape[1], int(goals.max(initial=0))
    if len(times) != batch or len(goals) != batch or times.max(initial=0) > scores.shape[0]:
        raise ShapeError(f"{len(times)} input and {len(goals)} target lengths do not fit {list(log_probs.shape)}")
    if min(times.min(initial=0), goals.min(initial=0)) < 0:
        raise ArgumentError("lengths must not be negative")
    needed = goals.sum() if targets.ndim == 1 else longest
    if targets.ndim not in (1, 2) or needed > targets.shape[-1]:
        raise ShapeError(f"{needed} labels do not fit targets of shape {list(targets.shape)}")
    if targets.ndim == 1 and not single:  # concatenated
        starts = np.cumsum(goals) - goals
        places = np.minimum(starts[:, None] + np.arange(longest), max(targets.shape[0] - 1, 0))
        targets = ops.take_op(targets, from_array(places), 0)
    labels = targets.reshape(batch, -1)[:, :longest]
    # Blanks before, between and after the labels: the states of an alignment.
    path = stack([full_like(labels, blank), labels], -1).reshape(batch, 2 * longest)
    path = joined([path, full_like(path[:, :1] if longest else zeros(batch, 1, dtype=path.dtype), blank)], 1)
    states = arange(2 * longest + 1)
    skips = (path != blank) & (path != path.roll(2, 1)) & (states > 1)
    # A finite number stands for log(0): logaddexp of two infinities has no gradient. Sums do not overflow float32.
    never = -1e30
    emitted = ops.gather_along(scores, path.expand(scores.shape[0], *path.shape), 2, "target").clamp(min=never)
    alpha = ops.where_op(states < 2, emitted[0], never)
    if not times.all():  # Without time steps, only the empty target is possible.
        alpha = ops.where_op(from_array(times[:, None] > 0), alpha, ops.where_op(states < 1, 0.0, never))
    # A state follows itself, the one before, and perhaps the one before that.
    allowed = pad(ops.where_op(skips, 0.0, never).unsqueeze(1), (0, 0, 0, 2))
    rows = emitted.unbind()
    for time in range(1, times.max(initial=0)):
        sources = ops.windows(pad(alpha, (2, 0), value=never), 1, 3, alpha.shape[1], 1, 1)
        present = ops.logsumexp(sources + allowed, 1) + rows[time]
        running = times > time
        alpha = present if running.all() else ops.where_op(from_array(running[:, None]), present, alpha)
    ends = ops.gather_along(alpha, from_array(np.stack([2 * goals, np.maximum(2 * goals - 1, 0)], 1)), 1)
    likelihood = ops.where_op(from_array(goals) == 0, ends[:, 0], ops.logaddexp(ends[:, 0], ends[:, 1]))
    losses = ops.where_op(likelihood <= 0.5 * never, 0.0 if zero_infinity else math.inf, -likelihood)
    if reduction == "mean":
        losses = losses / from_array(np.maximum(goals, 1))
    return reduced(losses.reshape(()) if single else losses, reduction).to(require_float(log_probs))
