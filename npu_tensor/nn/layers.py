"""Layers with weights: linear, convolutions, norms, embedding.

Initial weights have PyTorch's distributions, from other random streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.convolution import Sizes, each_place
from npu_tensor.functions.creation import full, ones, tensor, zeros
from npu_tensor.nn import functional, init
from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "EmbeddingBag",
    "GroupNorm",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "Linear",
    "PReLU",
    "RMSNorm",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Unflatten",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]
F: Any = functional


class Identity(Module):
    """Module that returns its input. The constructor ignores its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def forward(self, input: Any) -> Any:
        return input


class Unflatten(Module):
    """Split of one dimension into several.

    Args:
        dim: Dimension to split.
        unflattened_size: Extents of the new dimensions.
    """

    shown = "dim unflattened_size"

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


class PReLU(Module):
    """Rectifier with trained slopes below zero.

    Args:
        num_parameters: Number of slopes: 1, or one per channel.
        init: Initial slope.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = "num_parameters"

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        self.num_parameters = num_parameters
        self.weight = _weights(init, (num_parameters,), True, device, dtype)

    def forward(self, input: Tensor) -> Any:
        return F.prelu(input, self.weight)


def _weights(value: float, shape: tuple[int, ...], wanted: bool, device: Any, dtype: Any) -> Parameter | None:
    return Parameter(full(shape, value, device=device, dtype=dtype)) if wanted else None


def _reset(weight: Parameter, bias: Parameter | None) -> None:
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    inputs = math.prod(weight.shape[1:])
    if bias is not None and inputs:
        init.uniform_(bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))


class Linear(Module):
    """Linear layer: input @ weight.T + bias, with the weight (out_features, in_features).

    Args:
        in_features: Features of the input.
        out_features: Features of the result.
        bias: Add a bias.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = "in_features out_features bias"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros(out_features, in_features, device=device, dtype=dtype))
        self.bias = _weights(0.0, (out_features,), bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new random weights."""
        _reset(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        return F.linear(input, self.weight, self.bias)


class Bilinear(Module):
    """Bilinear form of two inputs, with a weight (out_features, in1_features, in2_features).

    Args:
        in1_features: Features of the first input.
        in2_features: Features of the second input.
        out_features: Features of the result.
        bias: Add a bias.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = ": in1_features in2_features out_features bias"

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(zeros(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.bias = _weights(0.0, (out_features,), bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new random weights."""
        bound = 1 / math.sqrt(self.in1_features)
        for each in self.parameters():
            init.uniform_(each, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)


class _Pad(Module):
    """Padding of the last dimensions by one width, or by (before, after) of each, the last dimension first."""

    places: ClassVar[int]
    mode: ClassVar[str]
    value: float = 0.0

    def __init_subclass__(cls, places: int = 0, mode: str = "") -> None:
        if places:
            cls.places, cls.mode = places, mode

    def __init__(self, padding: Sizes) -> None:
        self.padding = (padding,) * 2 * self.places if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Any:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad, places=1, mode="constant"):
    """Padding with a value of the last dimension."""


class ConstantPad2d(_ConstantPad, places=2, mode="constant"):
    """Padding with a value of the last two dimensions."""


class ConstantPad3d(_ConstantPad, places=3, mode="constant"):
    """Padding with a value of the last three dimensions."""


class ZeroPad1d(_Pad, places=1, mode="constant"):
    """Padding with zeros of the last dimension."""


class ZeroPad2d(_Pad, places=2, mode="constant"):
    """Padding with zeros of the last two dimensions."""


class ZeroPad3d(_Pad, places=3, mode="constant"):
    """Padding with zeros of the last three dimensions."""


class ReflectionPad1d(_Pad, places=1, mode="reflect"):
    """Padding with the mirrored input of the last dimension."""


class ReflectionPad2d(_Pad, places=2, mode="reflect"):
    """Padding with the mirrored input of the last two dimensions."""


class ReflectionPad3d(_Pad, places=3, mode="reflect"):
    """Padding with the mirrored input of the last three dimensions."""


class ReplicationPad1d(_Pad, places=1, mode="replicate"):
    """Padding with the outermost elements of the last dimension."""


class ReplicationPad2d(_Pad, places=2, mode="replicate"):
    """Padding with the outermost elements of the last two dimensions."""


class ReplicationPad3d(_Pad, places=3, mode="replicate"):
    """Padding with the outermost elements of the last three dimensions."""


class CircularPad1d(_Pad, places=1, mode="circular"):
    """Padding with the opposite elements of the last dimension."""


class CircularPad2d(_Pad, places=2, mode="circular"):
    """Padding with the opposite elements of the last two dimensions."""


class CircularPad3d(_Pad, places=3, mode="circular"):
    """Padding with the opposite elements of the last three dimensions."""


class _Conv(Module):
    places: ClassVar[int]
    is_transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_sizes(kernel_size=kernel_size, stride=stride, dilation=dilation)
        self.padding = padding if isinstance(padding, str) else each_place("padding", padding, self.places, 0)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ArgumentError(f"padding_mode must be zeros, reflect, replicate or circular, not {padding_mode!r}")
        self.padding_mode = padding_mode
        self._set_weights(in_channels, out_channels, groups, bias, device, dtype)

    def _set_sizes(self, **sizes: Sizes) -> None:
        for name, value in sizes.items():
            setattr(self, name, each_place(name, value, self.places))

    def _set_weights(
        self, in_channels: int, out_channels: int, groups: int, bias: bool, device: Any, dtype: Any
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{groups} groups do not divide {in_channels} input and {out_channels} output channels")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        first, second = (in_channels, out_channels) if self.is_transposed else (out_channels, in_channels)
        self.weight = Parameter(zeros(first, second // groups, *self.kernel_size, device=device, dtype=dtype))
        self.bias = _weights(0.0, (out_channels,), bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new random weights."""
        _reset(self.weight, self.bias)

    def forward(self, input: Tensor) -> Any:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            total = [gap * (size - 1) for gap, size in zip(self.dilation, self.kernel_size, strict=True)]
            before = [each // 2 for each in total] if padding == "same" else padding
            after = [each - each // 2 for each in total] if padding == "same" else padding
            widths = [width for pair in zip(reversed(before), reversed(after), strict=True) for width in pair]
            input, padding = F.pad(input, widths, self.padding_mode), 0
        convolve = getattr(F, f"conv{self.places}d")
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zero, one = (0,) * self.places, (1,) * self.places
        text += self._changed_options(padding=zero, dilation=one, output_padding=zero, groups=1)
        text += ", bias=False" if self.bias is None else ""
        return text + self._changed_options(padding_mode="zeros")


class Conv1d(_Conv):
    """Convolution in one dimension, with a weight (out_channels, in_channels / groups, width).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Extents of the kernel, one number or one per spatial dimension.
        stride: Step between positions.
        padding: Elements added around the input, or "same" or "valid".
        dilation: Step between kernel elements.
        groups: Number of groups of channels.
        bias: Add a bias per output channel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    places = 1


class Conv2d(_Conv):
    """Convolution in two dimensions, with a weight (out_channels, in_channels / groups, height, width).

    The arguments are those of `Conv1d`.
    """

    places = 2


class Conv3d(_Conv):
    """Convolution in three dimensions, with a weight (out_channels, in_channels / groups, depth, height, width).

    The arguments are those of `Conv1d`.
    """

    places = 3


class _ConvTranspose(_Conv):
    is_transposed = True
    padding_mode = "zeros"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_sizes(kernel_size=kernel_size, stride=stride, dilation=dilation)
        self.padding = each_place("padding", padding, self.places, 0)
        self.output_padding = each_place("output_padding", output_padding, self.places, 0)
        self._set_weights(in_channels, out_channels, groups, bias, device, dtype)

    def forward(self, input: Tensor) -> Any:
        convolve = getattr(F, f"conv_transpose{self.places}d")
        options = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return convolve(input, self.weight, self.bias, *options)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution in one dimension, with a weight (in_channels, out_channels / groups, width).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Extents of the kernel, one number or one per spatial dimension.
        stride: Step between results of neighbouring inputs.
        padding: Elements removed around the result.
        output_padding: Elements added at the end of each dimension of the result.
        groups: Number of groups of channels.
        bias: Add a bias per output channel.
        dilation: Step between kernel elements.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    places = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution in two dimensions, with a weight (in_channels, out_channels / groups, height, width).

    The arguments are those of `ConvTranspose1d`.
    """

    places = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution in three dimensions.

    The weight is (in_channels, out_channels / groups, depth, height, width), the arguments are those of
    `ConvTranspose1d`.
    """

    places = 3


class LayerNorm(Module):
    """Layer norm over the last dimensions.

    Args:
        normalized_shape: Extents of these dimensions.
        eps: Number added to the variance.
        elementwise_affine: Scale and shift the result by trained weights.
        bias: Shift the result if `elementwise_affine` is set.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = "normalized_shape : eps elementwise_affine bias"

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-05,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = _weights(1.0, self.normalized_shape, elementwise_affine, device, dtype)
        self.bias = _weights(0.0, self.normalized_shape, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """RMS norm over the last dimensions.

    Args:
        normalized_shape: Extents of these dimensions.
        eps: Number added to the mean square; None uses the default of `rms_norm`.
        elementwise_affine: Scale the result by trained weights.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = "normalized_shape : eps elementwise_affine"

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = _weights(1.0, self.normalized_shape, elementwise_affine, device, dtype)

    def forward(self, input: Tensor) -> Any:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Norm over groups of channels.

    Args:
        num_groups: Number of groups, which must divide `num_channels`.
        num_channels: Number of channels.
        eps: Number added to the variance.
        affine: Scale and shift the result by trained weights.
        bias: Shift the result if `affine` is set.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    shown = "num_groups num_channels : eps affine bias"

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-05,
        affine: bool = True,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = _weights(1.0, (num_channels,), affine, device, dtype)
        self.bias = _weights(0.0, (num_channels,), affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(Module):
    """Base of batch norms. The running statistics are buffers."""

    shown = "num_features : eps momentum affine bias track_running_stats"
    dims: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self.weight = _weights(1.0, (num_features,), affine, device, dtype)
        self.bias = _weights(0.0, (num_features,), affine and bias, device, dtype)
        statistics = {
            "running_mean": zeros(num_features, device=device, dtype=dtype),
            "running_var": ones(num_features, device=device, dtype=dtype),
            "num_batches_tracked": tensor(0),
        }
        for name, value in statistics.items():
            self.register_buffer(name, value if track_running_stats else None)

    def forward(self, input: Tensor) -> Any:
        """Apply `batch_norm`, in training mode with the statistics of the batch."""
        self._require_dims(input)
        momentum: Any = self.momentum
        if self.training and self.track_running_stats:
            batches = self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1 / batches.double()
        statistics = self.running_mean, self.running_var
        by_batch = self.training or self.running_mean is None
        return F.batch_norm(input, *statistics, self.weight, self.bias, by_batch, momentum, self.eps)

    def _require_dims(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            expected = " or ".join(f"{each}D" for each in self.dims)
            raise ShapeError(f"expected {expected} input (got {input.ndim}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch norm of (batch, channels) or (batch, channels, width).

    Args:
        num_features: Number of channels.
        eps: Number added to the variance.
        momentum: Weight of the batch in the running statistics; None averages over all batches.
        affine: Scale and shift the result by trained weights.
        track_running_stats: Keep running statistics for eval mode.
        bias: Shift the result if `affine` is set.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (batch, channels, height, width). The arguments are those of `BatchNorm1d`."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (batch, channels, depth, height, width). The arguments are those of `BatchNorm1d`."""

    dims = (5,)


class _InstanceNorm(_BatchNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, bias=bias, device=device, dtype=dtype
        )

    def forward(self, input: Tensor) -> Any:
        """Apply `instance_norm`; in eval mode with running statistics, if there are any."""
        self._require_dims(input)
        images = input if input.ndim == self.dims[-1] else input.unsqueeze(0)
        statistics, own = (self.running_mean, self.running_var), self.training or self.running_mean is None
        momentum = 0.0 if self.momentum is None else self.momentum
        result = F.instance_norm(images, *statistics, self.weight, self.bias, own, momentum, self.eps)
        return result if images is input else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Norm of each channel of each sample of (batch, channels, width) or (channels, width).

    The arguments are those of `BatchNorm1d`; there are no trained weights and running statistics by default.
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Norm of each channel of each image of (batch, channels, height, width), as `InstanceNorm1d`."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Norm of each channel of each volume of (batch, channels, depth, height, width), as `InstanceNorm1d`."""

    dims = (4, 5)


class _Rows(Module):
    """Base of embeddings, whose weight has a row for each index."""

    def _set_rows(self, rows: int, features: int, padding_idx: int | None, device: Any, dtype: Any) -> None:
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ArgumentError(f"padding_idx {padding_idx} must be within num_embeddings {rows}")
        self.num_embeddings, self.embedding_dim = rows, features
        self.padding_idx = None if padding_idx is None else padding_idx % rows
        self.weight = Parameter(zeros(rows, features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new random weights, with zeros at `padding_idx`."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight[self.padding_idx])


class Embedding(_Rows):
    """Lookup of rows of the weight (num_embeddings, embedding_dim) by index.

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Features of a row.
        padding_idx: Index of a row that is not trained, or None.
        max_norm: Upper bound on the norm of the rows that are used. Longer rows are scaled in place.
        norm_type: Order of the norm.
        scale_grad_by_freq: True is not supported.
        sparse: Has no effect; gradients are dense.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set_rows(num_embeddings, embedding_dim, padding_idx, device, dtype)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """Make an embedding of existing rows, which are not trained if `freeze` is set."""
        layer = cls(embeddings.shape[0], embeddings.shape[1], padding_idx, dtype=embeddings.dtype)
        layer.weight = Parameter(embeddings, not freeze)
        return layer

    def forward(self, input: Tensor) -> Any:
        limits = self.max_norm, self.norm_type, self.scale_grad_by_freq
        return F.embedding(input, self.weight, self.padding_idx, *limits, self.sparse)

    def extra_repr(self) -> str:
        changed = self._changed_options(padding_idx=None, max_norm=None, norm_type=2.0, sparse=False)
        return f"{self.num_embeddings}, {self.embedding_dim}{changed}"


class EmbeddingBag(_Rows):
    """Sum, mean or maximum of the rows of each bag of indices, with the weight (num_embeddings, embedding_dim).

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Features of a row.
        max_norm: Upper bound on the norm of the rows that are used. Longer rows are scaled in place.
        norm_type: Order of the norm.
        scale_grad_by_freq: True is not supported.
        mode: "sum", "mean" or "max".
        sparse: Has no effect; gradients are dense.
        include_last_offset: True if the offsets end with the number of indices.
        padding_idx: Index of a row that is left out and not trained, or None.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        *,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.max_norm, self.norm_type, self.mode = max_norm, norm_type, mode
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.include_last_offset = include_last_offset
        self._set_rows(num_embeddings, embedding_dim, padding_idx, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Any:
        limits = self.max_norm, self.norm_type, self.scale_grad_by_freq
        bags = self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx
        return F.embedding_bag(input, self.weight, offsets, *limits, *bags)

    def extra_repr(self) -> str:
        limits, padding = self._changed_options(max_norm=None, norm_type=2.0), self._changed_options(padding_idx=None)
        return f"{self.num_embeddings}, {self.embedding_dim}{limits}, mode={self.mode!r}{padding}"
