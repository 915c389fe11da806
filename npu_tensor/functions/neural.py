"""Building blocks of neural networks: norms, activations with modes, losses, embedding.

Composites of 16-bit floats convert once, compute in float32 and round once, as the ops do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError, DimensionError, ShapeError
from npu_tensor.functions.creation import arange, rand
from npu_tensor.functions.register import composite, require_float, wide
from npu_tensor.functions.templated import templated
from npu_tensor.graph.history import GradMode
from npu_tensor.graph.index_checks import known_value
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor, record

# --- norms


def _normalized(input: Tensor, dims: tuple[int, ...], weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    if weight is None and bias is None:
        return ops.norm_rows(input, dims, eps)
    return ops.layer_norm_op(input, *_affine(weight, bias), dims, eps)


def _affine(weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor | float, Tensor | float]:
    return 1.0 if weight is None else weight, 0.0 if bias is None else bias


def _normalized_dims(input: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape) :] != shape:
        raise ShapeError(f"normalized_shape {list(shape)} is not the end of {list(input.shape)}")
    return tuple(range(input.ndim - len(shape), input.ndim))


@composite(method=False, ggml="NORM")
@templated
def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Return (input - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias.

    Args:
        input: Floats of any shape.
        weight: Scale of shape `normalized_shape`; None for 1.
        bias: Offset of shape `normalized_shape`; None for 0.

    Raises:
        ShapeError: `normalized_shape` is not the end of the input's shape.
        DTypeError: `input` is not floating point.
    """
    require_float(input)
    return _normalized(input, _normalized_dims(input, normalized_shape), weight, bias, eps)


@composite(method=False, ggml="RMS_NORM")
@templated
def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Return input / sqrt(mean(input^2) + eps) over the last dimensions, times weight.

    Args:
        input: Floats of any shape.
        weight: Scale of shape `normalized_shape`; None for 1.
        eps: Added to the mean; None for the machine epsilon of the dtype of the computation.

    Raises:
        ShapeError: `normalized_shape` is not the end of the input's shape.
        DTypeError: `input` is not floating point.
    """
    dtype = require_float(input)
    dims = _normalized_dims(input, normalized_shape)
    if eps is None:
        eps = float(np.finfo(dtype.register).eps)
    return ops.rms_norm_rows(input, dims, eps) if weight is None else ops.rms_norm_op(input, weight, dims, eps)


@composite(method=False, ggml="GROUP_NORM")
@templated
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    """Normalize groups of channels (dimension 1).

    Args:
        input: Floats (batch, channels, ...).
        num_groups: Number of groups; it must divide the number of channels.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.

    >>> nt.group_norm(nt.arange(8.0).reshape(1, 4, 2), 2)
    """
    require_float(input)
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError(f"{num_groups} groups do not divide the channels of {list(input.shape)}")
    groups = num_groups, input.shape[1] // num_groups
    rows = input.reshape(input.shape[0], *groups, *input.shape[2:])
    weight, bias = _per_channel(weight, input, groups), _per_channel(bias, input, groups)
    return _normalized(rows, tuple(range(2, rows.ndim)), weight, bias, eps).reshape(input.shape)


def _per_channel(values: Tensor | None, input: Tensor, groups: tuple[int, ...] | None = None) -> Tensor | None:
    if values is None:
        return None
    _require_per_channel((values,), input)
    return _as_channels(values, groups or values.shape, input)


def _as_channels(values: Tensor, groups: tuple[int, ...], input: Tensor) -> Tensor:
    """Return one value per channel as a tensor that broadcasts to `input`, or to its groups of channels."""
    return record(ops.reshape.op, (values,), (groups + (1,) * (input.ndim - 2),))


def _require_per_channel(every: Iterable[Tensor | None], input: Tensor) -> None:
    shape = (input.shape[1],)
    for values in every:
        if values is not None and values.shape != shape:
            raise ShapeError(f"needs one element per channel, ({shape[0]},), not {list(values.shape)}")


@composite(method=False)
@templated
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Normalize each channel (dimension 1) with running statistics, or with its own statistics in training.

    Args:
        input: Floats (batch, channels, ...).
        running_mean: Mean of each channel. Training updates it in place if it is given.
        running_var: Variance of each channel. Training updates it in place if it is given.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.
        training: True to use the statistics of `input`.
        momentum: Weight of the present statistics in an update.

    Raises:
        ArgumentError: Running statistics are missing outside of training.
        ShapeError: Training with a single value per channel, or fewer than two dimensions.

    >>> nt.batch_norm(nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.zeros(2), nt.ones(2))
    """
    require_float(input)
    if input.ndim < 2:
        raise ShapeError("needs two dimensions or more")
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("needs running_mean and running_var unless training")
        _require_per_channel((running_mean, running_var, weight, bias), input)
        weights, offsets = _affine(weight, bias)
        # Statistics stay vectors until the end: a view of each would cost as much as an op.
        scale = record(ops.channel_scale.op, (running_var, weights), (eps,))
        shift = ops.channel_shift(running_mean, scale, offsets)
        channels = running_var.shape
        return ops.batch_norm_op(input, _as_channels(scale, channels, input), _as_channels(shift, channels, input))
    affine = _affine(_per_channel(weight, input), _per_channel(bias, input))
    count = math.prod((input.shape[0], *input.shape[2:]))
    if count == 1:
        raise ShapeError(f"expected more than 1 value per channel when training, not {list(input.shape)}")
    rows = tuple(axis for axis in range(input.ndim) if axis != 1)
    with GradMode(False):  # the gradient of the input includes its statistics
        mean = ops.mean(input, rows, True, dtype=input.dtype.register)
        variance = ops.mean_square(input, mean, rows)
        scale = ops.inverse_deviation(variance, eps)
        if running_mean is not None and running_var is not None:
            statistics = mean.reshape(-1), variance.reshape(-1) * (count / (count - 1))
            moved = _moved(running_mean, statistics[0], momentum) + _moved(running_var, statistics[1], momentum)
            scale = _beside(scale, _per_channel(moved, input))
    return ops.standardize(input, mean, scale, *affine, rows, eps)


def _moved(running: Tensor, present: Tensor, momentum: float | Tensor) -> Tensor:
    """Move a running statistic towards the present one."""
    return running._assign(wide(running) * (1 - momentum) + present * momentum)


def _beside(value: Tensor | float, statistics: Tensor | None) -> Tensor:
    """Return a value that depends on statistics, so that they are computed with it and keep no graph alive."""
    result: Tensor = ops.where_op(True, value, statistics)
    return result


@composite(method=False)
@templated
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Normalize each channel of each sample with its own statistics.

    Args:
        input: Floats (batch, channels, ...).
        running_mean: Mean of each channel, updated in place towards the mean over the samples if given.
        running_var: Variance of each channel, updated in place towards the mean over the samples if given.
        weight: Scale with one element per channel; None for 1.
        bias: Offset with one element per channel; None for 0.
        use_input_stats: False to normalize with the running statistics.
        momentum: Weight of the present statistics in an update.

    >>> nt.instance_norm(nt.arange(4.0).reshape(1, 2, 2))
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(input.shape[2:]) == 1:
        raise ShapeError(f"expected more than 1 value per channel and sample, not {list(input.shape)}")
    require_float(input)
    rows = tuple(range(2, input.ndim))
    weight, bias = _per_channel(weight, input), _per_channel(bias, input)
    if running_mean is None or running_var is None:
        return _normalized(input, rows, weight, bias, eps)
    with GradMode(False):
        mean = ops.mean(input, rows, True, dtype=input.dtype.register)
        count = math.prod(input.shape[2:])
        variance = ops.mean_square(input, mean, rows) * (count / (count - 1))
        statistics = (each.mean(0).reshape(-1) for each in (mean, variance))
        moved = [_moved(*each, momentum) for each in zip((running_mean, running_var), statistics, strict=True)]
    weight = _beside(1.0 if weight is None else weight, _per_channel(moved[0] + moved[1], input))
    return _normalized(input, rows, weight, bias, eps)


@composite(method=False)
@templated
def local_response_norm(input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return input / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta.

    Channels are dimension 1.

    >>> nt.local_response_norm(nt.ones(1, 3, 2), 2)
    """
    if input.ndim < 3:
        raise ShapeError(f"needs three dimensions or more, not {list(input.shape)}")
    x = wide(input)
    around = [(0, 0)] * input.ndim
    around[1] = (size // 2, (size - 1) // 2)
    squares = ops.windows(ops.pad_widths(x * x, tuple(around)), 1, input.shape[1], size, 1, 1)
    means = squares.mean(-1) if x.is_floating_point() else squares.sum(-1) // size
    result = x / (means * alpha + k) ** beta
    return result.to(input.dtype) if input.is_floating_point() else result


@composite(method=False)
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Return input / max(p-norm over dim, eps)."""
    if p == 2:
        return ops.l2_norm(input, dim, eps)
    return (wide(input) / wide(input).norm(p, dim, True).clamp(min=eps)).to(input.dtype)


@composite(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norms over all dimensions except one, or over all for dim=-1, with extents of 1.

    >>> nt.norm_except_dim(nt.ones(3, 4))
    """
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, tuple(axis for axis in range(v.ndim) if axis != dim), True)


@composite("_weight_norm", method=False)
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Return v scaled to the norms g along a dimension, as PyTorch's parametrization of weights does.

    >>> nt._weight_norm(nt.tensor([[3.0, 4.0]]), nt.tensor([[10.0]]))
    """
    return (wide(v) * (wide(g) / norm_except_dim(wide(v), 2, dim))).to(v.dtype)


# --- activations with modes


@composite(ggml="UNARY_GELU")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Apply the Gaussian error linear unit: exactly, or as GGML's gelu with approximate="tanh"."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"approximate must be 'none' or 'tanh', not {approximate!r}")
    return ops.gelu_erf(input) if approximate == "none" else ops.gelu_tanh(input)


@composite(method=False)
def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Return softmax(-input) over dim."""
    return (-input).softmax(dim, dtype)


@composite()
@templated
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, else input * weight, of one element or one per channel (dimension 1).

    >>> nt.prelu(nt.tensor([-2.0, 3.0]), nt.tensor(0.1))
    """
    factor = _per_channel(weight, input) if weight.numel() != 1 else weight.reshape(())
    return ops.where_op(input > 0, input, input * factor)


# --- dropout


@composite(method=False)
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability p in training and scale the others by 1 / (1 - p).

    Args:
        p: Probability in [0, 1].
        training: False to return `input` itself.
    """
    return dropped(input, p, training, input.shape)


def _channel_dropout(count: int, places: str) -> None:
    def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return dropped(input, p, training, (*input.shape[:-count], *[1] * count))

    dropout.__doc__ = f"Drop whole channels of (batch, channels, {places}), like `dropout`."
    composite(f"dropout{count}d", method=False)(dropout)


_channel_dropout(1, "width")
_channel_dropout(2, "height, width")
_channel_dropout(3, "depth, height, width")


def dropped(input: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    """Apply dropout with one random number per element of `shape`, which is broadcast to the input's."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"p must be from 0 to 1, not {p}")
    if not training or p == 0:
        return input
    require_float(input)
    return ops.where_op(rand(shape) < p, 0.0, input * (1 / (1 - p) if p < 1 else 0.0))


# --- losses


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return the losses ("none"), their mean or their sum. Raise ArgumentError for other reductions."""
    if reduction == "none":
        return losses
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    raise ArgumentError(f"reduction must be 'none', 'mean' or 'sum', not {reduction!r}")


def _refuse_deprecated(size_average: bool | None, reduce: bool | None) -> None:
    """Raise ArgumentError for arguments that preceded `reduction` in PyTorch."""
    for name, value in (("size_average", size_average), ("reduce", reduce)):
        if value is not None:
            raise ArgumentError(f"{name} is deprecated in PyTorch; pass reduction='none', 'mean' or 'sum' instead")


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """Warn of targets that are broadcast, which is more often a mistake than intended, as PyTorch does."""
    if input.shape != target.shape:
        warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
        )


def _mean_weighted(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Return the losses times their weights; divide their sum by that of the weights for the mean."""
    if weight is None:
        return reduced(losses, reduction)
    weights = wide(weight).expand(losses.shape)
    return _weighted(losses * weights, weights, reduction)


def _elementwise_loss(
    difference: Callable[[Tensor], Tensor], input: Tensor, target: Tensor, reduction: str, weight: Tensor | None
) -> Tensor:
    warn_of_broadcast(input, target)
    losses = difference(wide(input) - wide(target))
    return _mean_weighted(losses, weight, reduction).to(ops.sub(input, target).dtype)


@composite(method=False)
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return the squared differences of input and target, times weight, reduced. The mean is weighted."""
    return _elementwise_loss(Tensor.square, input, target, reduction, weight)


@composite(method=False)
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return the absolute differences of input and target, times weight, reduced. The mean is weighted."""
    return _elementwise_loss(Tensor.abs, input, target, reduction, weight)


def _require_target_per_row(scores: Tensor, target: Tensor, classes: int) -> None:
    """Raise ShapeError unless there is one class index for each row of scores."""
    expected = scores.shape[:classes] + scores.shape[classes + 1 :]
    if target.shape != expected:
        raise ShapeError(f"target must have the shape {list(expected)}, not {list(target.shape)}")


def _class_losses(
    log_probabilities: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, smoothing: float, caller: str
) -> tuple[Tensor, Tensor]:
    """Return loss and weight of every target; both are 0 for ignored targets."""
    classes = 0 if log_probabilities.ndim == 1 else 1
    _require_target_per_row(log_probabilities, target, classes)
    _require_class_weights(weight, log_probabilities, classes)
    counts = target != ignore_index
    safe = ops.where_op(counts, target, 0)
    chosen = ops.gather_along(log_probabilities, safe.unsqueeze(classes), classes, "class", caller).squeeze(classes)
    per_class = None if weight is None else wide(weight)
    weights = counts.to(log_probabilities.dtype)
    if per_class is not None:
        weights = weights * ops.take_op(per_class, safe, 0, "class", caller)
    losses = -chosen * weights
    if smoothing:
        spread = log_probabilities if per_class is None else log_probabilities * _along(per_class, log_probabilities)
        smooth = -spread.sum(classes) * counts.to(log_probabilities.dtype)
        losses = losses * (1 - smoothing) + smooth * (smoothing / log_probabilities.shape[classes])
    return ops.where_op(counts, losses, 0.0), weights


def _require_class_weights(weight: Tensor | None, scores: Tensor, classes: int) -> None:
    """Raise ShapeError unless there is one weight for each class."""
    if weight is not None and weight.shape != (scores.shape[classes],):
        raise ShapeError(f"weight must have the shape [{scores.shape[classes]}], not {list(weight.shape)}")


def _along(per_class: Tensor, scores: Tensor) -> Tensor:
    return per_class.reshape(per_class.shape[0], *(1 for _ in scores.shape[2:]))


def _weighted(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    return losses.sum() / weights.sum() if reduction == "mean" else reduced(losses, reduction)


def _checked_classes(target: Tensor, extent: int, ignore_index: int) -> Tensor:
    """Return targets that have been checked: at once if their values are known, else by a kernel."""
    known = known_value(target._node)
    if known is None:
        safe = ops.where_op(target == ignore_index, 0, target)
        checked = ops.take_op(arange(extent), safe, 0, "class", "cross_entropy")
        return ops.where_op(target != ignore_index, checked, target)  # Another comparison, so that it is fused.
    if known.size and (known.min() < 0 or known.max() >= extent):
        wrong = known[(known != ignore_index) & ((known < 0) | (known >= extent))]
        if wrong.size:
            raise DimensionError(f"class {wrong[0]} is out of range for extent {extent}")
    return target


@templated
def _cross_entropy(scores: Tensor, target: Tensor, classes: int, ignore_index: int, reduction: str) -> Tensor:
    """Return the cross-entropy with checked class indices, without weights and smoothing, as one op and its mean."""
    target, dtype = target.unsqueeze(classes), scores.dtype
    losses = record(ops.cross_entropy_rows.op, (scores, target), (classes, ignore_index))
    if reduction == "mean":
        return record(ops.counted_mean.op, (losses, target), (ignore_index,)).to(dtype)
    return reduced(losses.squeeze(classes), reduction).to(dtype)


@composite(method=False)
@templated
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the log-probability of the target class. The mean is weighted.

    Args:
        input: Log-probabilities (batch, classes, ...).
        target: Class indices (batch, ...).
        weight: Weight of each class; None for 1.
        ignore_index: Target that does not count.
        reduce: Not supported; `reduction` has replaced it.

    >>> nt.nll_loss(nt.tensor([[-0.1, -2.3], [-1.6, -0.2]]), nt.tensor([0, 1]))
    """
    _refuse_deprecated(size_average, reduce)
    dtype = require_float(input)
    losses = _class_losses(wide(input), target, weight, ignore_index, 0.0, "nll_loss")
    return _weighted(*losses, reduction).to(dtype)


@composite(method=False)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of scores with class indices or probabilities.

    Args:
        input: Scores (batch, classes, ...).
        target: Class indices (batch, ...), or probabilities of the shape of `input`.
        weight: Weight of each class; None for 1.
        ignore_index: Class index that does not count.
        reduce: Not supported; `reduction` has replaced it.
        label_smoothing: Share of the target that is spread evenly over all classes, in [0, 1].
    """
    _refuse_deprecated(size_average, reduce)
    dtype = require_float(input)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"label_smoothing must be between 0 and 1, not {label_smoothing}")
    classes = 0 if input.ndim == 1 else 1
    if not (target.is_floating_point() or label_smoothing) and weight is None:
        _require_target_per_row(input, target, classes)
        target = _checked_classes(target, input.shape[classes], ignore_index)
        return _cross_entropy(input, target, classes, ignore_index, reduction)
    scores = wide(input).log_softmax(classes)
    if not target.is_floating_point():
        losses = _class_losses(scores, target, weight, ignore_index, label_smoothing, "cross_entropy")
        return _weighted(*losses, reduction).to(dtype)
    if target.shape != input.shape:
        raise ShapeError(f"probabilities must have the shape {list(input.shape)}, not {list(target.shape)}")
    distribution = wide(target)
    if label_smoothing:
        distribution = distribution * (1 - label_smoothing) + label_smoothing / input.shape[classes]
    if weight is not None:
        _require_class_weights(weight, scores, classes)
        scores = scores * _along(wide(weight), scores)
    total = -(scores * distribution).sum(classes)
    if reduction == "mean":
        return (total.sum() / max(total.numel(), 1)).to(dtype)
    return reduced(total, reduction).to(dtype)


# --- embedding


def limit_rows(
    weight: Tensor, index: Tensor, max_norm: float | None, norm_type: float, scale_grad_by_freq: bool
) -> None:
    """Scale the rows at the indices to a largest norm, in place. Raise ArgumentError for gradients by frequency."""
    if scale_grad_by_freq:
        raise ArgumentError("scale_grad_by_freq=True is not supported; divide the gradients by the counts instead")
    if max_norm is not None:
        with GradMode(False):
            positions = index.reshape(index.numel())
            rows = ops.take_op(weight, positions, 0, "index", "embedding").renorm(norm_type, 0, max_norm)
            weight._assign(weight.index_copy(0, positions, rows))


@composite(method=False, ggml="GET_ROWS")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of weight at the indices in input. Rows of quantized weights are float32.

    Args:
        input: Integer indices of any shape.
        weight: Matrix (entries, features).
        padding_idx: Index of a row without gradient.
        norm_type: Order of the norm that `max_norm` limits.

    Returns:
        Tensor of shape (*input.shape, features).

    >>> nt.embedding(nt.tensor([2, 0]), nt.arange(6.0).reshape(3, 2))
    """
    if weight.ndim != 2:
        raise ShapeError(f"weight must have two dimensions, not {weight.ndim}")
    limit_rows(weight, input, max_norm, norm_type, scale_grad_by_freq)
    rows = ops.take_op(weight, input, 0, "index", "embedding")
    if weight.dtype.is_quantized:
        return ops.dequantize(rows)
    if padding_idx is None:
        return rows
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError(f"padding_idx {padding_idx} is not one of {weight.shape[0]} entries")
    constant = rows.detach()
    if constant is rows:  # no gradients are recorded
        return rows
    return ops.where_op((input == padding_idx % weight.shape[0]).unsqueeze(-1), constant, rows)


@composite(method=False)
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Encode indices as int64 vectors with a 1 at the index.

    Args:
        input: Integer indices of any shape.
        num_classes: Extent of the new last dimension; -1 for the largest index plus 1, which reads the value.

    Raises:
        ArgumentError: `num_classes` is -1 and `input` is empty.
        DimensionError: An index is outside [0, num_classes). Raised where the value is read.

    >>> nt.one_hot(nt.tensor([0, 2]), 3)
    """
    if num_classes == -1:
        if not input.numel():
            raise ArgumentError("num_classes cannot be derived from an empty tensor; give num_classes")
        num_classes = int(input.max()) + 1
    classes = arange(num_classes)
    checked = ops.take_op(classes, input, 0, "index", "one_hot")  # the index itself, if it is in range
    return (checked.unsqueeze(-1) == classes).long()


@composite(method=False)
@templated
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """Return the cosine of the angle between x1 and x2 over dim."""
    shape = broadcast_shapes(x1.shape, x2.shape)
    a, b = wide(x1).expand(shape), wide(x2).expand(shape)
    lengths = a.norm(2, dim, True).clamp(min=eps), b.norm(2, dim, True).clamp(min=eps)
    return (a / lengths[0] * (b / lengths[1])).sum(dim).to(ops.mul(x1, x2).dtype)
