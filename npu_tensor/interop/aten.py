"""ATen, the operators of PyTorch's graphs: a table from their names to functions of tensors.

`ATEN["aten.add.Tensor"]` takes the arguments of the operator's schema, with dtypes of ours. Graphs of `torch.compile`,
programs of `torch.export` and .pt2 files consist of these operators. Where a function of ours has the same name and
arguments, it is the entry. Operators that draw random numbers are not in the table, except `dropout`.

Gradients are operators of their own in PyTorch. Most entries differentiate the entry of the forward operator.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import linalg, nn, ops
from npu_tensor.autograd.structured import RULES, Recording
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.dot_product_attention import is_fused
from npu_tensor.functions.indexing import get, put
from npu_tensor.functions.register import wide
from npu_tensor.tensor import Tensor

IGNORED: Final = frozenset({"device", "implicit", "layout", "memory_format", "non_blocking", "pin_memory"})
"""Keywords of operators that have no meaning here. Importers drop them."""

Operator = Callable[..., Any]

_REDUCTIONS: Final = ("none", "mean", "sum")
"""Reductions of losses by PyTorch's numbers."""


# --- gradients


def _pulled_back(function: Operator, gradient: Any, *primals: Tensor) -> Any:
    """Return the vector-Jacobian product of a function."""
    return nt.vjp(function, *primals)[1](gradient)


def _backward(function: Operator) -> Operator:
    """Make the operator (gradient, x, ...) from the forward operator (x, ...)."""
    return lambda gradient, x, *args, **kwargs: _pulled_back(lambda each: function(each, *args, **kwargs), gradient, x)[
        0
    ]


def _masked(mask: Sequence[bool], *values: Any) -> tuple[Any, ...]:
    """Return the values that an operator's `output_mask` asks for, and None for the others."""
    return tuple(value if wanted else None for wanted, value in zip(mask, values, strict=True))


def _log_softmax_backward(gradient: Tensor, output: Tensor, dim: int, dtype: Any) -> Any:
    return (gradient - output.exp() * gradient.sum(dim, True)).to(dtype)


def _softmax_backward(gradient: Tensor, output: Tensor, dim: int, dtype: Any) -> Tensor:
    product = gradient * output
    return (product - output * product.sum(dim, True)).to(dtype)


def _elu_backward(gradient: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor) -> Any:
    below = (x + alpha * scale) * input_scale if is_result else (x * input_scale).exp() * (input_scale * alpha * scale)
    return gradient * nt.where(x <= 0, below, scale)


def _embedding_backward(gradient: Tensor, indices: Tensor, rows: int, padding_idx: int, by_frequency: bool) -> Tensor:
    if by_frequency:
        raise ArgumentError("scale_grad_by_freq is not supported")
    if padding_idx >= 0:
        gradient = nt.where((indices == padding_idx).unsqueeze(-1), 0.0, gradient)
    zeros = nt.zeros(rows, gradient.shape[-1], dtype=gradient.dtype)
    return zeros.index_add(0, indices.flatten(), gradient.reshape(-1, gradient.shape[-1]))


_BAGS: Final = ("sum", "mean")
"""Modes of bags by PyTorch's numbers, without the maximum, whose gradient needs positions."""


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Tensor | None = None,
    include_last: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bags, the bag of each index and, for means, the counts of the bags, which PyTorch returns twice."""
    if mode >= len(_BAGS):
        raise ArgumentError("the maximum of bags is not supported")
    padding = None if padding_idx < 0 else padding_idx
    result = nt.embedding_bag(
        indices, weight, offsets, None, 2, by_frequency, _BAGS[mode], sparse, factors, include_last, padding
    )
    bags = result.shape[0]
    bag = nt.searchsorted(offsets[:bags], nt.arange(len(indices), dtype=offsets.dtype), right=True) - 1
    counts = nt.zeros(bags, dtype=offsets.dtype)
    if mode:
        counts = counts.index_add(0, bag, (indices != padding_idx).to(offsets.dtype))
    elif padding is None and weight.dtype in (nt.float16, nt.float32):
        bag = bag[:0]  # PyTorch's kernel for this case does not need it.
    return result, bag.to(offsets.dtype), counts, counts


def _embedding_bag_backward(gradient: Tensor, indices: Tensor, offsets: Tensor, *args: Any) -> Any:
    _bag, _counts, _positions, rows, by_frequency, mode, sparse, factors, *padding_idx = args
    attributes = by_frequency, mode, sparse, factors, False, *padding_idx
    return _pulled_back(
        lambda weight: _embedding_bag(weight, indices, offsets[: len(gradient)], *attributes)[0],
        gradient,
        nt.zeros(rows, gradient.shape[1], dtype=gradient.dtype),
    )[0]


def _grid_sampler_backward(gradient: Tensor, x: Tensor, grid: Tensor, *args: Any) -> tuple[Any, ...]:
    *attributes, mask = args
    return _masked(mask, *_pulled_back(lambda x, grid: _grid_sampler(x, grid, *attributes), gradient, x, grid))


def _nll_backward(gradient: Tensor, x: Tensor, *args: Any) -> Tensor:
    *attributes, _ = args
    return _pulled_back(lambda x: _nll_loss(x, *attributes)[0], gradient, x)[0]  # type: ignore[no-any-return]


def _part_backward(scatter: Operator) -> Operator:
    """Make the operator (gradient, shape of x, ...) of a function that takes a part of x."""
    return lambda gradient, shape, *args: scatter(nt.zeros(shape, dtype=gradient.dtype), gradient, *args)


def _resized_backward(function: Operator) -> Operator:
    def backward(gradient: Tensor, output_size: Any, input_size: Any, *args: Any) -> Any:
        zeros = nt.zeros(input_size, dtype=gradient.dtype)
        return _pulled_back(lambda x: function(x, output_size, *args), gradient, zeros)[0]

    return backward


# --- convolutions


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    places = weight.ndim - 2
    if transposed:
        convolve = (nt.conv_transpose1d, nt.conv_transpose2d, nt.conv_transpose3d)[places - 1]
        return convolve(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return (nt.conv1d, nt.conv2d, nt.conv3d)[places - 1](x, weight, bias, stride, padding, dilation, groups)


def _convolution_backward(gradient: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, *args: Any) -> tuple[Any, ...]:
    *attributes, mask = args
    of_x, of_weight = _pulled_back(lambda x, weight: _convolution(x, weight, None, *attributes), gradient, x, weight)
    of_bias = gradient.sum([axis for axis in range(gradient.ndim) if axis != 1]) if mask[2] else None
    return _masked(mask, of_x, of_weight, of_bias)


# --- norms


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    mean = ops.mean(x, dims, True, dtype=x.dtype.register)
    scale = ops.inverse_deviation(ops.mean_square(x, mean, dims), eps)
    return nt.layer_norm(x, shape, weight, bias, eps), mean.to(x.dtype), scale.to(x.dtype)


def _layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Any, ...]:
    count = x.ndim - len(shape)
    dims, rows = tuple(range(count, x.ndim)), tuple(range(count))
    of_x = ops.layer_norm_gradient(x, mean, scale, 1.0 if weight is None else weight, gradient, dims)
    return _masked(mask, of_x, *_of_weight_and_bias(gradient, x, mean, scale, rows, tuple(shape), weight))


def _of_weight_and_bias(
    gradient: Tensor, x: Tensor, mean: Any, scale: Any, rows: tuple[int, ...], shape: Any, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the weight and the bias of a norm, summed over `rows`."""
    dtype = x.dtype if weight is None else weight.dtype
    of_weight = ops.norm_weight_gradient(x, mean, scale, gradient, rows) if rows else (x - mean) * scale * gradient
    of_bias = gradient.sum(rows) if rows else gradient
    return of_weight.reshape(*shape).to(dtype), of_bias.reshape(*shape).to(dtype)


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, places: int, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    _, mean, scale = _layer_norm(x.reshape(n, groups, -1), (c // groups * places,), None, None, eps)
    return nt.group_norm(x, groups, weight, bias, eps), mean.reshape(n, groups), scale.reshape(n, groups)


def _group_norm_backward(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    n: int,
    c: int,
    places: int,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Any, ...]:
    shape = n, groups, c // groups, places
    rows, gradients = x.reshape(shape), gradient.reshape(shape)
    mean, scale = mean.reshape(n, groups, 1, 1), scale.reshape(n, groups, 1, 1)
    factor = 1.0 if weight is None else weight.reshape(groups, c // groups, 1)
    of_x = ops.layer_norm_gradient(rows, mean, scale, factor, gradients, (2, 3)).reshape(x.shape)
    return _masked(mask, of_x, *_of_weight_and_bias(gradients, rows, mean, scale, (0, 3), (c,), weight))


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Return the result, saved mean and scale, and the new running statistics."""
    if not training:
        result = nt.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        nothing = nt.zeros(0, dtype=x.dtype)
        return result, nothing, nothing, running_mean, running_var
    rows = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean = ops.mean(x, rows, True, dtype=x.dtype.register)
    variance = ops.mean_square(x, mean, rows)
    scale = ops.inverse_deviation(variance, eps)
    factor, offset = 1.0 if weight is None else _per_channel(weight, x), 0.0 if bias is None else _per_channel(bias, x)
    result = ops.standardize(x, mean, scale, factor, offset, rows, eps)
    count = x.numel() // x.shape[1]
    statistics = mean.reshape(-1), variance.reshape(-1) * (count / (count - 1))
    moved = [
        None if old is None else (old * (1 - momentum) + new * momentum).to(old.dtype)
        for old, new in zip((running_mean, running_var), statistics, strict=True)
    ]
    return result, mean.reshape(-1), scale.reshape(-1), *moved


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(-1, *(1 for _ in x.shape[2:]))


def _batch_norm_in_place(x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *args: Any) -> tuple[Any, ...]:
    """Compute a batch norm that overwrites its running statistics."""
    *results, new_mean, new_variance = _batch_norm(x, weight, bias, mean, variance, *args)
    for old, new in ((mean, new_mean), (variance, new_variance)):
        if new is not old:
            old.copy_(new)
    return tuple(results)


def _batch_norm_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Any,
    scale: Any,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, ...]:
    rows = tuple(axis for axis in range(x.ndim) if axis != 1)
    if not training:
        assert running_mean is not None
        assert running_var is not None
        mean, scale = running_mean, ops.inverse_deviation(running_var, eps)
    mean, scale = _per_channel(mean, x), _per_channel(scale, x)
    factor = 1.0 if weight is None else _per_channel(weight, x)
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    of_weight, of_bias = _of_weight_and_bias(gradient, x, mean, scale, rows, (x.shape[1],), weight)
    if training:
        sums = of_weight.reshape(shape), of_bias.reshape(shape)
        of_x = ops.standardize_gradient(x, mean, scale, factor, gradient, *sums, x.numel() // x.shape[1])
    else:
        of_x = (gradient * (scale * factor)).to(x.dtype)
    return _masked(mask, of_x, of_weight, of_bias)


def _fused_rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None) -> tuple[Tensor, Tensor]:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    least = nt.finfo(x.dtype).eps if eps is None else eps
    return nt.rms_norm(x, shape, weight, least), ops.inverse_deviation(ops.mean_square(x, 0.0, dims), least)


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    norm = linalg.vector_norm(v, 2, [axis for axis in range(v.ndim) if axis != dim], True)
    return v * (g / norm), norm


# --- attention and recurrence


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return attention, and NaN as the logarithms of sums, which only PyTorch's own gradient would read."""
    if dropout_p:
        raise ArgumentError("random numbers are left to PyTorch")
    result = nt.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale)
    return result, nt.full(query.shape[:-1], math.nan, dtype=wide(query).dtype)


def _attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    _sums: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    if not is_fused(query, key, value, attn_mask, False):
        attributes: dict[str, Any] = {"attn_mask": attn_mask, "scale": scale}
        forward = partial(_attention, dropout_p=dropout_p, is_causal=is_causal, **attributes)
        return _pulled_back(lambda *each: forward(*each)[0], gradient, query, key, value)
    operands = query, key, value, *(() if attn_mask is None else (wide(attn_mask),))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    again = ops.attention(*operands, scale=factor, is_causal=is_causal)  # It is never computed: `out` is its result.
    assert again._node.call is not None
    of = Recording(again._node.call, operands, out.transpose(1, 2), gradient.transpose(1, 2))
    return [RULES["attention"](of, number) for number in range(3)]


def _safe_softmax(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Return softmax, and 0 in rows of minus infinity."""
    return nt.where(x.amax(dim, True) == -math.inf, 0.0, x.softmax(dim, dtype))  # type: ignore[no-any-return]


def _recurrent(kind: type[nn.Module], **attributes: Any) -> Operator:
    """Make an operator from a layer: (x, states, weights, ...) -> (result, *last states)."""

    def run(
        x: Tensor,
        states: Any,
        weights: Sequence[Tensor],
        bias: bool,
        layers: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        layer = kind.__new__(kind)  # Its own weights would be random.
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if bias else 2]
        suffixes = ("", "_reverse")[: 1 + bidirectional]
        paths = [f"{name}_l{number}{suffix}" for number in range(layers) for suffix in suffixes for name in names]
        if len(paths) != len(weights):
            raise ArgumentError("projections of states are not supported")
        size = weights[1].shape[-1]
        vars(layer).update(
            attributes, input_size=x.shape[-1], hidden_size=size, num_layers=layers, bias=bias, batch_first=batch_first,
            dropout=dropout, bidirectional=bidirectional, training=training, **dict(zip(paths, weights, strict=True)),
        )  # fmt: skip
        result, last = layer(x, tuple(states) if isinstance(states, (tuple, list)) else states)
        return (result, *last) if isinstance(last, tuple) else (result, last)

    return run


_RECURRENT: Final = {
    "gru": _recurrent(nn.GRU),
    "lstm": _recurrent(nn.LSTM),
    "rnn_relu": _recurrent(nn.RNN, nonlinearity="relu"),
    "rnn_tanh": _recurrent(nn.RNN, nonlinearity="tanh"),
}


def _recurrent_layers(
    kind: str, x: Tensor, states: Sequence[Tensor], weights: Any, bias: bool, layers: int, *attributes: bool
) -> tuple[Tensor, ...]:
    """Run layers without dropout. The attributes are `bidirectional` and `batch_first`."""
    run = _RECURRENT[kind]
    hidden = states if kind == "lstm" else states[0]
    return run(x, hidden, weights, bias, layers, 0.0, False, *attributes)  # type: ignore[no-any-return]


def _recurrent_layers_backward(
    gradients: Sequence[Tensor], kind: str, x: Tensor, states: Sequence[Tensor], weights: Any, *attributes: Any
) -> Any:
    count = len(states)
    return _pulled_back(
        lambda x, *rest: _recurrent_layers(kind, x, rest[:count], rest[count:], *attributes),
        tuple(gradients), x, *states, *weights,
    )  # fmt: skip


def _lstm_layer(
    x: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
    hx: Tensor,
    cx: Tensor,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    *_: Any,
) -> tuple[Tensor, ...]:
    """Run one direction of a layer of an LSTM. The last result is an empty workspace for the gradient."""
    if batch_sizes or mode != _LSTM:
        raise ArgumentError("packed sequences and other layers than LSTM are not supported")
    weights = (weight_ih, weight_hh, bias_ih, bias_hh)
    result, *last = _RECURRENT["lstm"](
        x.flip(0) if reverse else x, (hx, cx), weights, True, 1, 0.0, False, False, False
    )
    return (result.flip(0) if reverse else result, *last, nt.zeros(0, dtype="uint8"))


_LSTM: Final = 2
"""PyTorch's number of the LSTM among the recurrent layers."""


# --- elements and images


def _sliced(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return get(x, (*[slice(None)] * (dim % x.ndim), slice(start, end, step)))


def _indices(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


def _put(x: Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    return put(x, _indices(indices), values, reduce="add" if accumulate else "")


def _places(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    """Return the places of a strided view in the memory of a contiguous tensor."""
    place = nt.tensor(offset or 0)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        place = place + (nt.arange(extent) * step).reshape(-1, *(1 for _ in size[axis + 1 :]))
    return place


def _as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    """Take elements of a tensor that is contiguous in PyTorch."""
    return x.flatten().take(_places(size, stride, offset))


def _as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    """Write elements of a tensor that is contiguous in PyTorch."""
    return put(x.flatten(), (_places(size, stride, offset),), src).reshape(x.shape)


def _encoder_layer(
    x: Tensor,
    _size: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
) -> Tensor:
    """Compute the layer that `nn.TransformerEncoderLayer` runs in evaluation; a mask is True where nothing attends."""
    norm_weight, norm_bias, last_weight, last_bias, up, up_bias, down, down_bias, *masks = weights

    def normed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return nt.layer_norm(x, x.shape[-1], weight, bias, eps)

    def attended(x: Tensor) -> Tensor:
        parts = nt.linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, heads, -1))
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        mask = None if not masks or masks[0] is None else ~_broadcast_mask(*masks)
        result = nt.scaled_dot_product_attention(query, key, value, mask)
        return nt.linear(result.transpose(1, 2).flatten(2), out_weight, out_bias)

    def widened(x: Tensor) -> Tensor:
        h = nt.linear(x, up, up_bias)
        return nt.linear(nt.gelu(h) if use_gelu else nt.relu(h), down, down_bias)

    if norm_first:
        x = x + attended(normed(x, norm_weight, norm_bias))
        return x + widened(normed(x, last_weight, last_bias))
    x = normed(x + attended(x), norm_weight, norm_bias)
    return normed(x + widened(x), last_weight, last_bias)


def _broadcast_mask(mask: Tensor, kind: int | None = None) -> Tensor:
    """Return a mask of queries and keys (kind 0), of keys of each sample (1) or of all, as one for every head."""
    return mask.reshape(mask.shape[0], 1, 1, -1) if kind == 1 else mask


def _grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    names = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return nt.grid_sample(x, grid, *names, align_corners)


def _resized(mode: str, has_corners: bool, antialias: bool = False) -> Operator:
    """Make the operator (x, output_size, [align_corners,] *scales)."""

    def resize(x: Tensor, counts: Sequence[int], *args: Any) -> Tensor:
        corners, scales = (args[0], args[1:]) if has_corners else (False, args)
        given = (*scales, *(None for _ in counts[len(scales) :]))
        steps = tuple(
            extent / count if scale is None else 1 / scale
            for extent, count, scale in zip(x.shape[2:], counts, given, strict=True)
        )
        result: Tensor = ops.upscale(x, mode, tuple(counts), steps, corners, antialias)
        return result

    return resize


def _resized_by_factors(function: Operator) -> Operator:
    """Make the overload (x, output_size or None, [align_corners,] factors or None)."""

    def resize(x: Tensor, counts: Any, *args: Any) -> Any:
        *corners, factors = args
        if counts is None:
            counts = [math.floor(extent * factor) for extent, factor in zip(x.shape[2:], factors, strict=True)]
        return function(x, counts, *corners, *(factors or ()))

    return resize


def _max_pool_backward(function: Operator) -> Operator:
    """Make the operator (gradient, x, ..., positions)."""
    return lambda gradient, x, *args: _backward(function)(gradient, x, *args[:-1])


def _log_sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    return nt.logsigmoid(x), (-x.abs()).exp()


# --- losses


def _loss(function: Operator) -> Operator:
    """Make the operator (input, target, reduction, ...) of a loss."""
    return lambda x, target, reduction=1, *args: function(x, target, _REDUCTIONS[reduction], *args)


def _nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> tuple[Any, Any]:
    """Return the loss, and the sum of the weights of its targets, 0 without a reduction."""
    loss = nt.nll_loss(x, target, weight, None, ignore_index, None, _REDUCTIONS[reduction])
    if not reduction:
        return loss, nt.zeros((), dtype=x.dtype)
    counted = target != ignore_index
    weights = 1.0 if weight is None else weight[nt.where(counted, target, 0)]
    return loss, nt.where(counted, weights, 0.0).sum().to(x.dtype)


def _cross_entropy(
    x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignore_index: int = -100, smoothing: float = 0.0
) -> Any:
    return nt.cross_entropy(x, target, weight, None, ignore_index, None, _REDUCTIONS[reduction], smoothing)


# --- the table


_SAME: Final = """
abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d=adaptive_avg_pool2d adaptive_avg_pool3d
_adaptive_avg_pool3d=adaptive_avg_pool3d add.Scalar add.Tensor addbmm addcdiv addcmul addmm addmv addr
affine_grid_generator=affine_grid all all.dim all.dims amax amin aminmax any any.dim any.dims arange arange.start
arange.start_step argmax argmin argsort argsort.stable asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d
baddbmm bilinear bitwise_and.Scalar bitwise_and.Tensor bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar
bitwise_not bitwise_or.Scalar bitwise_or.Tensor bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar
bitwise_xor.Scalar bitwise_xor.Tensor bmm bucketize.Tensor cat ceil celu channel_shuffle chunk clamp clamp.Tensor
clamp_max clamp_max.Tensor clamp_min clamp_min.Tensor clone col2im=fold column_stack constant_pad_nd conv1d
conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_transpose1d conv_transpose2d.input
conv_transpose3d.input copysign.Scalar copysign.Tensor cos cosh cosine_similarity count_nonzero cross cummax cummin
cumprod cumsum deg2rad diag diag_embed diagonal diagonal_scatter digamma div.Scalar div.Scalar_mode div.Tensor
div.Tensor_mode dot dropout empty.memory_format=zeros empty_like=zeros_like eq.Scalar eq.Tensor erf erfc erfinv exp exp2
expand expm1 eye eye.m fill.Scalar=full_like flatten.using_ints flip floor floor_divide floor_divide.Scalar fmax fmin
fmod.Scalar fmod.Tensor frac full full_like gather gcd ge.Scalar ge.Tensor gelu glu gt.Scalar gt.Tensor hardshrink
hardsigmoid hardswish hardtanh heaviside histc hypot im2col=unfold index_add index_copy index_fill.int_Scalar
index_select isfinite isin.Tensor_Tensor isinf isnan isneginf isposinf kron kthvalue le.Scalar le.Tensor leaky_relu
lerp.Scalar lerp.Tensor lgamma lift_fresh_copy=clone linear linspace log log10 log1p log2 log_sigmoid=logsigmoid
log_softmax.int logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logsumexp
lt.Scalar lt.Tensor masked_fill.Scalar masked_fill.Tensor masked_scatter matmul max max.dim max.other=maximum max_pool1d
max_pool2d max_pool3d maximum mean mean.dim median median.dim meshgrid min min.dim min.other=minimum minimum mish mm
mode movedim.int mul.Scalar mul.Tensor mv nan_to_num nansum narrow ne.Scalar ne.Tensor neg nextafter one_hot ones
ones_like outer pad permute pixel_shuffle pixel_unshuffle positive pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prelu
prod prod.dim_int rad2deg reciprocal relu relu6 remainder.Scalar remainder.Scalar_Tensor remainder.Tensor renorm
repeat_interleave.self_int reshape rms_norm roll rot90 round rsqrt rsub.Scalar rsub.Tensor scalar_tensor
scaled_dot_product_attention scatter.reduce scatter.src scatter.value scatter.value_reduce scatter_add
scatter_reduce.two select.int select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh slice_scatter softmax.int
softplus softshrink sort split split.Tensor split.sizes split_with_sizes sqrt square squeeze squeeze.dim squeeze.dims
stack std std.correction std.dim std_mean std_mean.correction std_mean.dim sub.Scalar sub.Tensor sum sum.dim_IntList t
take tan tanh tensor_split.indices tensor_split.sections threshold tile topk trace transpose.int tril triu trunc
unbind.int unflatten.int unsafe_split.Tensor=split _unsafe_view=reshape unsqueeze var var.correction var.dim var_mean
var_mean.correction var_mean.dim view=reshape vstack where where.Scalar where.ScalarOther where.ScalarSelf where.self
xlogy.Tensor zeros zeros_like
"""
"""Operators that are functions of the same name, or of the name after "=". The overload is `default` unless named."""

_METHODS: Final = "copy_ fill_.Scalar fill_.Tensor new_full new_ones new_zeros repeat type_as unfold zero_"
"""Operators that are methods of the same name."""


def _named(names: str, functions: object) -> dict[str, Operator]:
    """Return the entries of operators that have the names of functions."""
    entries = {}
    for entry in names.split():
        name, _, other = entry.partition("=")
        base, _, overload = name.partition(".")
        entries[f"aten.{base}.{overload or 'default'}"] = getattr(functions, other or base)
    return entries


def _in_place(entries: Mapping[str, Operator]) -> dict[str, Operator]:
    """Return the in-place forms of operators, which are methods."""
    names = ((name, *name.split(".")[1:]) for name in entries)
    return {
        f"aten.{base}_.{overload}": getattr(Tensor, f"{base}_")
        for name, base, overload in names
        if entries[name].__name__ == base and hasattr(Tensor, f"{base}_")
    }


_DIRECT: Final = {**_named(_SAME, nt), **_named(_METHODS, Tensor)}

_FORWARD: Final[dict[str, Operator]] = {
    "aten._cdist_forward.default": lambda x1, x2, p, _mode: nt.cdist(x1, x2, p),
    "aten._log_softmax.default": lambda x, dim, _half: x.log_softmax(dim),
    "aten._prelu_kernel.default": lambda x, weight: nt.where(x > 0, x, x * weight),
    "aten._safe_softmax.default": _safe_softmax,
    "aten._softmax.default": lambda x, dim, _half: x.softmax(dim),
    "aten._to_copy.default": lambda x, dtype=None: x.clone() if dtype is None else x.to(dtype),
    "aten._weight_norm_interface.default": _weight_norm,
    "aten._transformer_encoder_layer_fwd.default": _encoder_layer,
    "aten.as_strided.default": _as_strided,
    "aten.as_strided_scatter.default": _as_strided_scatter,
    "aten.binary_cross_entropy.default": lambda x, target, weight=None, reduction=1: nt.binary_cross_entropy(
        x, target, weight, reduction=_REDUCTIONS[reduction]
    ),
    "aten.binary_cross_entropy_with_logits.default": lambda x, target, weight=None, pos_weight=None, reduction=1: (
        nt.binary_cross_entropy_with_logits(x, target, weight, pos_weight=pos_weight, reduction=_REDUCTIONS[reduction])
    ),
    "aten.convolution.default": _convolution,
    "aten.copy.default": lambda x, src: src.to(x.dtype).expand(x.shape),
    "aten.fill.Tensor": lambda x, value: value.to(x.dtype).expand(x.shape),
    "aten.cross_entropy_loss.default": _cross_entropy,
    "aten.einsum.default": lambda equation, tensors, path=None: nt.einsum(equation, *tensors),
    "aten.elu.default": lambda x, alpha=1.0, scale=1.0, input_scale=1.0: nt.where(
        x > 0, x * scale, (x * input_scale).expm1() * (alpha * scale)
    ),
    "aten.embedding.default": lambda weight, indices, *_: nt.embedding(indices, weight),
    "aten._embedding_bag.default": _embedding_bag,
    "aten.new_empty_strided.default": lambda x, size, _stride, dtype=None: nt.zeros(size, dtype=dtype or x.dtype),
    "aten.expand_as.default": lambda x, other: x.expand(other.shape),
    "aten.grid_sampler_2d.default": _grid_sampler,
    "aten.grid_sampler_3d.default": _grid_sampler,
    "aten.group_norm.default": lambda x, groups, weight=None, bias=None, eps=1e-5, _=True: nt.group_norm(
        x, groups, weight, bias, eps
    ),
    **dict.fromkeys(
        ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"),
        lambda x, weight, offs=None: nt.grouped_mm(x, weight, offs=offs),
    ),
    **dict.fromkeys(("aten.index.Tensor", "aten._unsafe_index.Tensor"), lambda x, indices: get(x, _indices(indices))),
    **dict.fromkeys(("aten.index_put.default", "aten._unsafe_index_put.default"), _put),
    "aten.index_put_.default": lambda x, *args: x.copy_(_put(x, *args)),
    "aten.instance_norm.default": lambda x, weight, bias, mean, variance, use_input, momentum, eps, _: nt.instance_norm(
        x, mean, variance, weight, bias, use_input, momentum, eps
    ),
    "aten.layer_norm.default": lambda x, shape, weight=None, bias=None, eps=1e-5, _=True: nt.layer_norm(
        x, shape, weight, bias, eps
    ),
    "aten.linalg_vector_norm.default": linalg.vector_norm,
    "aten.norm.Scalar": linalg.vector_norm,
    "aten.norm.ScalarOpt_dim": lambda x, p, *args: linalg.vector_norm(x, 2 if p is None else p, *args),
    "aten.log_sigmoid_forward.default": _log_sigmoid,
    **{f"aten.{kind}.input": run for kind, run in _RECURRENT.items()},
    "npu_tensor.recurrent.default": _recurrent_layers,
    "aten.mkldnn_rnn_layer.default": _lstm_layer,
    "aten.max_pool2d_with_indices.default": partial(nt.max_pool2d, return_indices=True),
    "aten.max_pool3d_with_indices.default": partial(nt.max_pool3d, return_indices=True),
    **{f"aten.{name}_loss.default": _loss(getattr(nt, f"{name}_loss")) for name in ("huber", "l1", "mse", "smooth_l1")},
    "aten.native_dropout_backward.default": lambda gradient, mask, scale: gradient * mask * scale,
    "aten.nll_loss_forward.default": _nll_loss,
    "aten.nll_loss2d_forward.default": _nll_loss,
    "aten.nll_loss_nd.default": lambda *args: _nll_loss(*args)[0],
    "aten.numpy_T.default": lambda x: x.T,
    **{f"aten.reflection_pad{n}d.default": lambda x, widths: nt.pad(x, widths, "reflect") for n in (1, 2, 3)},
    **{f"aten.replication_pad{n}d.default": lambda x, widths: nt.pad(x, widths, "replicate") for n in (1, 2, 3)},
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "aten.slice.Tensor": _sliced,
    "aten.to.device": lambda x, device, dtype, *_, **kwargs: x.to(dtype),
    "aten.to.dtype": lambda x, dtype, *_, **kwargs: x.to(dtype),
    "aten.to.dtype_layout": lambda x, dtype=None, **kwargs: x if dtype is None else x.to(dtype),
    "aten.tril_indices.default": lambda *args, dtype=nt.int64: nt.tril_indices(*args).to(dtype),
    "aten.triu_indices.default": lambda *args, dtype=nt.int64: nt.triu_indices(*args).to(dtype),
    **dict.fromkeys(
        ("aten.alias.default", "aten.contiguous.default", "aten.detach.default", "aten.detach_.default"),
        lambda x: x,
    ),
    **dict.fromkeys(
        (
            *("aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default"),
            *("aten._assert_tensor_metadata.default", "aten.sym_constrain_range_for_size.default"),
        ),
        lambda *args, **kwargs: None,
    ),
    # norms
    "aten._fused_rms_norm.default": _fused_rms_norm,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_group_norm.default": _group_norm,
    "aten.native_batch_norm.default": _batch_norm_in_place,
    "aten._native_batch_norm_legit.default": _batch_norm_in_place,
    "aten._native_batch_norm_legit.no_stats": lambda x, weight, bias, *args: _batch_norm(
        x, weight, bias, None, None, *args
    )[:3],
    "aten._native_batch_norm_legit_functional.default": _batch_norm,
    "aten._native_batch_norm_legit_no_training.default": lambda x, weight, bias, mean, variance, momentum, eps: (
        _batch_norm(x, weight, bias, mean, variance, False, momentum, eps)[:3]
    ),
    "aten.batch_norm.default": lambda *args: _batch_norm_in_place(*args[:8])[0],
    # resized images
    **{
        f"aten.{name}.{overload}": make(_resized(*attributes))  # type: ignore[arg-type]
        for name, attributes in {
            **{f"upsample_nearest{n}d": ("nearest", False) for n in (1, 2, 3)},
            **{f"_upsample_nearest_exact{n}d": ("nearest-exact", False) for n in (1, 2, 3)},
            "upsample_linear1d": ("linear", True),
            "upsample_bilinear2d": ("linear", True),
            "upsample_trilinear3d": ("linear", True),
            "upsample_bicubic2d": ("cubic", True),
            "_upsample_bilinear2d_aa": ("linear", True, True),
            "_upsample_bicubic2d_aa": ("cubic", True, True),
        }.items()
        for overload, make in (("default", lambda function: function), ("vec", _resized_by_factors))
    },
}

_BACKWARD: Final[dict[str, Operator]] = {
    "aten._log_softmax_backward_data.default": _log_softmax_backward,
    "aten._softmax_backward_data.default": _softmax_backward,
    "aten._adaptive_avg_pool2d_backward.default": lambda gradient, x: _backward(nt.adaptive_avg_pool2d)(
        gradient, x, gradient.shape[-2:]
    ),
    "aten._adaptive_avg_pool3d_backward.default": lambda gradient, x: _backward(nt.adaptive_avg_pool3d)(
        gradient, x, gradient.shape[-3:]
    ),
    "aten._prelu_kernel_backward.default": lambda gradient, x, weight: (
        nt.where(x > 0, gradient, weight * gradient),
        nt.where(x > 0, 0.0, x * gradient),
    ),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": _attention_backward,
    "aten._weight_norm_interface_backward.default": lambda gradient, v, g, norms, dim: _pulled_back(
        lambda v, g: _weight_norm(v, g, dim)[0], gradient, v, g
    ),
    "aten.convolution_backward.default": _convolution_backward,
    "aten.diagonal_backward.default": _part_backward(nt.diagonal_scatter),
    "aten.elu_backward.default": _elu_backward,
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten._embedding_bag_backward.default": _embedding_bag_backward,
    "aten.grid_sampler_2d_backward.default": _grid_sampler_backward,
    "aten.grid_sampler_3d_backward.default": _grid_sampler_backward,
    "transformers.grouped_mm_fallback_backward.default": lambda x, weight, offs, gradient: _pulled_back(
        lambda x, weight: nt.grouped_mm(x, weight, offs=offs), gradient, x, weight
    ),
    "aten.leaky_relu_backward.default": lambda gradient, x, slope, _: gradient * nt.where(x > 0, 1.0, slope),
    "aten.log_sigmoid_backward.default": lambda gradient, x, _: gradient * (-x).sigmoid(),
    "aten.max_pool2d_with_indices_backward.default": _max_pool_backward(nt.max_pool2d),
    "aten.max_pool3d_with_indices_backward.default": _max_pool_backward(nt.max_pool3d),
    "aten.native_batch_norm_backward.default": _batch_norm_backward,
    "aten.native_group_norm_backward.default": _group_norm_backward,
    "aten.native_layer_norm_backward.default": _layer_norm_backward,
    "aten.nll_loss_backward.default": _nll_backward,
    "aten.nll_loss2d_backward.default": _nll_backward,
    "npu_tensor.recurrent_backward.default": _recurrent_layers_backward,
    "aten.select_backward.default": _part_backward(nt.select_scatter),
    "aten.sigmoid_backward.default": lambda gradient, output: gradient * output * (1 - output),
    "aten.slice_backward.default": _part_backward(nt.slice_scatter),
    "aten.tanh_backward.default": lambda gradient, output: gradient * (1 - output * output),
    "aten.threshold_backward.default": lambda gradient, x, threshold: nt.where(x <= threshold, 0.0, gradient),
    "aten.unfold_backward.default": lambda gradient, shape, *args: _pulled_back(
        lambda x: x.unfold(*args), gradient, nt.zeros(shape, dtype=gradient.dtype)
    )[0],
    **{
        f"aten.{name}_backward.default": _resized_backward(_FORWARD[f"aten.{name}.default"])
        for name in (entry.split(".")[1] for entry in _FORWARD if "upsample" in entry)
    },
    **{
        f"aten.{name}_backward.default": _backward({**_DIRECT, **_FORWARD}[f"aten.{name}.default"])
        for name in (
            *("avg_pool2d", "avg_pool3d", "binary_cross_entropy"),
            *("gelu", "glu", "hardsigmoid", "hardswish", "hardtanh", "hardshrink", "huber_loss", "logit", "mish"),
            *("mse_loss", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d"),
            *("replication_pad2d", "replication_pad3d", "silu", "smooth_l1_loss", "softplus", "softshrink"),
        )
    },
}

_NUMBERS: Final[dict[str, Operator]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "le", "lt", "mod", "mul", "ne", "neg", "or_"),
            *("pow", "sub", "truediv"),
        )
    },
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "torch.sym_float": float,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_not": operator.not_,
    "aten.sym_numel.default": lambda x: x.numel(),
    "aten.sym_size.int": lambda x, dim: x.shape[dim],
}
"""Arithmetic of extents, which are Python numbers."""

ATEN: Final[Mapping[str, Operator]] = {**_DIRECT, **_in_place(_DIRECT), **_FORWARD, **_BACKWARD, **_NUMBERS}
