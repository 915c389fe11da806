"""Modules whose forward is one function of torch.nn.functional, with the module's attributes as options.

A class names the function. Its constructor has the function's options, with the same defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from npu_tensor.nn import functional
from npu_tensor.nn.module import Module
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "ChannelShuffle",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "GaussianNLLLoss",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LeakyReLU",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PairwiseDistance",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unfold",
    "Upsample",
]

_NO_OPTIONS = ("training", "dtype", "size_average", "reduce", "return_indices", "recompute_scale_factor", "antialias")
"""Parameters of functions that are not options of modules: training is the mode of the module; others are deprecated,
would change the result type of a module, or are not options of PyTorch's modules."""


class _Function(Module):
    """Module that applies a function.

    Arguments of the class statement:
        of: Name of the function.
        inputs: Number of its tensors.
        shown: Options that `repr` shows; None means all but `inplace`.
        omitted: Parameter of the function that is not an option of the module.
        defaults: Defaults of options that differ from the function's.
    """

    __signature__: ClassVar[inspect.Signature]
    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]]

    def __init_subclass__(
        cls, of: str = "", inputs: int = 1, shown: str | None = None, omitted: str = "", **defaults: Any
    ) -> None:
        if not of:
            return
        function = getattr(functional, of) if of in functional.__all__ else registry.functions()[of]
        options = list(inspect.signature(function).parameters.values())[inputs:]
        own = [each for each in options if each.name not in (*_NO_OPTIONS, omitted)]
        cls._function = staticmethod(function)
        cls._options = tuple(each.name for each in options if each in own or each.name == "training")
        cls.__signature__ = inspect.Signature(
            [
                each.replace(
                    default=defaults.get(each.name, each.default),
                    kind=each.POSITIONAL_OR_KEYWORD if each.name == "inplace" else each.kind,  # nn.ReLU(True)
                )
                for each in own
            ]
        )
        cls.shown = " ".join(each.name for each in own if each.name != "inplace") if shown is None else shown
        cls.__doc__ = f"{cls.__doc__}\n\n{function.__doc__}"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Apply the function to the inputs, which have the names of the function's parameters."""
        return self._function(*inputs, **named, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        plain, _, named = self.shown.rpartition(":")
        names = named.split()
        if getattr(self, "inplace", False) and "inplace" not in names:
            names.append("inplace")
        texts = [f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None]
        return ", ".join([*(repr(getattr(self, name)) for name in plain.split()), *texts])


class _Pool(_Function):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride: Any = self.kernel_size


# Activations.
class ELU(_Function, of="elu"):
    """Exponential linear unit."""


class GELU(_Function, of="gelu"):
    """Gaussian error linear unit."""


class GLU(_Function, of="glu"):
    """Gated linear unit."""


class Hardsigmoid(_Function, of="hardsigmoid"):
    """Piecewise linear sigmoid."""


class Hardswish(_Function, of="hardswish"):
    """Piecewise form of `SiLU`."""


class Hardtanh(_Function, of="hardtanh"):
    """Limit to a range."""


class LeakyReLU(_Function, of="leaky_relu"):
    """Rectifier with a slope below zero."""


class LogSigmoid(_Function, of="logsigmoid"):
    """Logarithm of the sigmoid."""


class LogSoftmax(_Function, of="log_softmax"):
    """Logarithm of the softmax."""


class Mish(_Function, of="mish"):
    """Activation x * tanh(softplus(x))."""


class ReLU(_Function, of="relu"):
    """Rectified linear unit."""


class ReLU6(_Function, of="relu6"):
    """Rectified linear unit with the upper limit 6."""


class SELU(_Function, of="selu"):
    """Scaled exponential linear unit."""


class CELU(_Function, of="celu"):
    """Continuously differentiable exponential linear unit."""


class Hardshrink(_Function, of="hardshrink", shown="lambd :"):
    """Zero for elements near zero."""


class RReLU(_Function, of="rrelu"):
    """Rectifier with random slopes below zero in training."""


class Softshrink(_Function, of="softshrink", shown="lambd :"):
    """Shift of elements towards zero."""


class Tanhshrink(_Function, of="tanhshrink"):
    """Activation x - tanh(x)."""


class Threshold(_Function, of="threshold", shown="threshold value"):
    """Replacement of elements up to a threshold."""


class Sigmoid(_Function, of="sigmoid"):
    """Logistic sigmoid."""


class SiLU(_Function, of="silu"):
    """Activation x * sigmoid(x)."""


class Softmax(_Function, of="softmax"):
    """Softmax."""


class Softmin(_Function, of="softmin"):
    """Softmax of the negated input."""


class Softplus(_Function, of="softplus"):
    """Smooth form of `ReLU`."""


class Softsign(_Function, of="softsign"):
    """Activation x / (1 + |x|)."""


class Tanh(_Function, of="tanh"):
    """Hyperbolic tangent."""


# Dropout. It is inactive in eval mode.
class Dropout(_Function, of="dropout", shown="p inplace"):
    """Dropout of elements."""


class Dropout1d(_Function, of="dropout1d", shown="p inplace"):
    """Dropout of channels of (batch, channels, width)."""


class Dropout2d(_Function, of="dropout2d", shown="p inplace"):
    """Dropout of channels of (batch, channels, height, width)."""


class Dropout3d(_Function, of="dropout3d", shown="p inplace"):
    """Dropout of channels of (batch, channels, depth, height, width)."""


class AlphaDropout(_Function, of="alpha_dropout", shown="p inplace"):
    """Dropout that keeps mean and variance, for `SELU`."""


class FeatureAlphaDropout(_Function, of="feature_alpha_dropout", shown="p inplace"):
    """Dropout of channels that keeps mean and variance."""


# Pooling and changes of shape.
class AdaptiveAvgPool1d(_Function, of="adaptive_avg_pool1d"):
    """Mean pooling to a fixed width."""


class AdaptiveAvgPool2d(_Function, of="adaptive_avg_pool2d"):
    """Mean pooling to a fixed height and width."""


class AdaptiveAvgPool3d(_Function, of="adaptive_avg_pool3d"):
    """Mean pooling to fixed extents."""


class AdaptiveMaxPool1d(_Function, of="adaptive_max_pool1d"):
    """Maximum pooling to a fixed width."""


class AdaptiveMaxPool2d(_Function, of="adaptive_max_pool2d"):
    """Maximum pooling to a fixed height and width."""


class AdaptiveMaxPool3d(_Function, of="adaptive_max_pool3d"):
    """Maximum pooling to fixed extents."""


class AvgPool1d(_Pool, of="avg_pool1d", shown="kernel_size stride padding"):
    """Mean pooling over windows of one dimension."""


class AvgPool2d(_Pool, of="avg_pool2d", shown="kernel_size stride padding"):
    """Mean pooling over windows of two dimensions."""


class AvgPool3d(_Pool, of="avg_pool3d", shown="kernel_size stride padding"):
    """Mean pooling over windows of three dimensions."""


class LPPool1d(_Function, of="lp_pool1d"):
    """Pooling of a power mean over windows of one dimension."""


class LPPool2d(_Function, of="lp_pool2d"):
    """Pooling of a power mean over windows of two dimensions."""


class LPPool3d(_Function, of="lp_pool3d"):
    """Pooling of a power mean over windows of three dimensions."""


class MaxPool1d(_Pool, of="max_pool1d"):
    """Maximum pooling over windows of one dimension."""


class MaxPool2d(_Pool, of="max_pool2d"):
    """Maximum pooling over windows of two dimensions."""


class MaxPool3d(_Pool, of="max_pool3d"):
    """Maximum pooling over windows of three dimensions."""


class LocalResponseNorm(_Function, of="local_response_norm", shown="size : alpha beta k"):
    """Division by a power of the mean square over neighbouring channels."""


class ChannelShuffle(_Function, of="channel_shuffle"):
    """Interleaving of groups of channels."""


class Flatten(_Function, of="flatten", start_dim=1):
    """Merge of neighbouring dimensions."""


class PixelShuffle(_Function, of="pixel_shuffle"):
    """Rearrangement of channels to pixels."""


class PixelUnshuffle(_Function, of="pixel_unshuffle"):
    """Rearrangement of pixels to channels."""


class Unfold(_Function, of="unfold"):
    """Extraction of windows as columns."""


class Fold(_Function, of="fold"):
    """Sum of columns into the windows they come from."""


class Upsample(_Function, of="interpolate", shown="size scale_factor mode"):
    """Resizing of images."""


# Functions of two tensors or more.
class BCELoss(_Function, of="binary_cross_entropy", inputs=2, shown=""):
    """Binary cross entropy of probabilities."""


class BCEWithLogitsLoss(_Function, of="binary_cross_entropy_with_logits", inputs=2, shown=""):
    """Binary cross entropy of logits."""


class CosineSimilarity(_Function, of="cosine_similarity", inputs=2, shown=""):
    """Cosine of the angle between vectors."""


class CosineEmbeddingLoss(_Function, of="cosine_embedding_loss", inputs=3, shown=""):
    """Loss on the cosine of two embeddings."""


class CrossEntropyLoss(_Function, of="cross_entropy", inputs=2, shown=""):
    """Cross entropy of logits."""


class HuberLoss(_Function, of="huber_loss", inputs=2, shown="", omitted="weight"):
    """Huber loss."""


class KLDivLoss(_Function, of="kl_div", inputs=2, shown=""):
    """Kullback-Leibler divergence."""


class L1Loss(_Function, of="l1_loss", inputs=2, shown="", omitted="weight"):
    """Absolute error."""


class MSELoss(_Function, of="mse_loss", inputs=2, shown="", omitted="weight"):
    """Squared error."""


class NLLLoss(_Function, of="nll_loss", inputs=2, shown=""):
    """Negative log likelihood."""


class SmoothL1Loss(_Function, of="smooth_l1_loss", inputs=2, shown=""):
    """Smooth absolute error."""


class CTCLoss(_Function, of="ctc_loss", inputs=4, shown=""):
    """Connectionist temporal classification."""


class GaussianNLLLoss(_Function, of="gaussian_nll_loss", inputs=3, shown=""):
    """Negative log likelihood of normal distributions."""


class HingeEmbeddingLoss(_Function, of="hinge_embedding_loss", inputs=2, shown=""):
    """Hinge loss of distances."""


class MarginRankingLoss(_Function, of="margin_ranking_loss", inputs=3, shown=""):
    """Loss on the order of two inputs."""


class MultiLabelMarginLoss(_Function, of="multilabel_margin_loss", inputs=2, shown=""):
    """Margin loss with several classes per sample."""


class MultiLabelSoftMarginLoss(_Function, of="multilabel_soft_margin_loss", inputs=2, shown=""):
    """Binary cross entropy of each class."""


class MultiMarginLoss(_Function, of="multi_margin_loss", inputs=2, shown=""):
    """Margin loss with one class per sample."""


class PairwiseDistance(_Function, of="pairwise_distance", inputs=2, shown=""):
    """Distance of vectors."""


class PoissonNLLLoss(_Function, of="poisson_nll_loss", inputs=2, shown=""):
    """Negative log likelihood of Poisson distributions."""


class SoftMarginLoss(_Function, of="soft_margin_loss", inputs=2, shown=""):
    """Logistic loss of signs."""


class TripletMarginLoss(_Function, of="triplet_margin_loss", inputs=3, shown=""):
    """Margin between the distances of an anchor to two vectors."""


class TripletMarginWithDistanceLoss(_Function, of="triplet_margin_with_distance_loss", inputs=3, shown=""):
    """Margin between distances that a function computes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.distance_function is None:
            self.distance_function: Any = PairwiseDistance()
