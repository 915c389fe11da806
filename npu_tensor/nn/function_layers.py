"""Modules whose forward is one function of torch.nn.functional, with the module's attributes as options.

A line names the class, the function and its meaning. The constructor has the function's options and defaults.
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
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Flatten",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "NLLLoss",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Unfold",
    "Upsample",
]

_NO_OPTIONS = ("training", "dtype", "size_average", "reduce", "return_indices", "recompute_scale_factor", "antialias")
"""Parameters of functions that are not options of modules: training is the mode of the module; others are deprecated,
would change the result type of a module, or are not options of PyTorch's modules."""


class _Function(Module):
    """Module that applies a function."""

    __signature__: ClassVar[inspect.Signature]
    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        if getattr(self, "stride", 0) is None:
            self.stride: Any = self.kernel_size

    def forward(self, *inputs: Any) -> Any:
        return self._function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        names = self.shown.split()
        if getattr(self, "inplace", False) and "inplace" not in names:
            names.append("inplace")
        return ", ".join(f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None)


def _layer(name: str, of: str, doc: str, inputs: int = 1, shown: str | None = None, **defaults: Any) -> type[_Function]:
    """Create the class of a layer.

    Args:
        name: Name of the class.
        of: Name of the function.
        doc: First line of the docstring; the function's own text follows.
        inputs: Number of tensors that the function takes.
        shown: Options that `repr` shows; None means all but `inplace`, for functions of one tensor.
        defaults: Defaults of options that differ from the function's.
    """
    function = getattr(functional, of) if of in functional.__all__ else registry.functions()[of]
    options = list(inspect.signature(function).parameters.values())[inputs:]
    own = [
        each.replace(
            default=defaults.get(each.name, each.default),
            kind=each.POSITIONAL_OR_KEYWORD if each.name == "inplace" else each.kind,  # nn.ReLU(True)
        )
        for each in options
        if each.name not in _NO_OPTIONS
    ]
    names = [each.name for each in own]
    if shown is None:
        shown = " ".join(each for each in names if each != "inplace") if inputs == 1 else ""
    attributes = {
        "__doc__": f"{doc}\n\n{function.__doc__}",
        "__module__": __name__,
        "__signature__": inspect.Signature(own),
        "_function": staticmethod(function),
        "_options": tuple(each.name for each in options if each.name in (*names, "training")),
        "shown": shown,
    }
    return type(name, (_Function,), attributes)


# Activations.
ELU = _layer("ELU", "elu", "Exponential linear unit.")
GELU = _layer("GELU", "gelu", "Gaussian error linear unit.")
GLU = _layer("GLU", "glu", "Gated linear unit.")
Hardsigmoid = _layer("Hardsigmoid", "hardsigmoid", "Piecewise linear sigmoid.")
Hardswish = _layer("Hardswish", "hardswish", "Piecewise form of `SiLU`.")
Hardtanh = _layer("Hardtanh", "hardtanh", "Limit to a range.")
LeakyReLU = _layer("LeakyReLU", "leaky_relu", "Rectifier with a slope below zero.")
LogSigmoid = _layer("LogSigmoid", "logsigmoid", "Logarithm of the sigmoid.")
LogSoftmax = _layer("LogSoftmax", "log_softmax", "Logarithm of the softmax.")
Mish = _layer("Mish", "mish", "Activation x * tanh(softplus(x)).")
ReLU = _layer("ReLU", "relu", "Rectified linear unit.")
ReLU6 = _layer("ReLU6", "relu6", "Rectified linear unit with the upper limit 6.")
SELU = _layer("SELU", "selu", "Scaled exponential linear unit.")
Sigmoid = _layer("Sigmoid", "sigmoid", "Logistic sigmoid.")
SiLU = _layer("SiLU", "silu", "Activation x * sigmoid(x).")
Softmax = _layer("Softmax", "softmax", "Softmax.")
Softmin = _layer("Softmin", "softmin", "Softmax of the negated input.")
Softplus = _layer("Softplus", "softplus", "Smooth form of `ReLU`.")
Softsign = _layer("Softsign", "softsign", "Activation x / (1 + |x|).")
Tanh = _layer("Tanh", "tanh", "Hyperbolic tangent.")

# Dropout. It is inactive in eval mode.
Dropout = _layer("Dropout", "dropout", "Dropout of elements.", shown="p inplace")
Dropout1d = _layer("Dropout1d", "dropout1d", "Dropout of channels of (batch, channels, width).", shown="p inplace")
Dropout2d = _layer(
    "Dropout2d", "dropout2d", "Dropout of channels of (batch, channels, height, width).", shown="p inplace"
)

# Pooling and changes of shape.
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", "adaptive_avg_pool1d", "Mean pooling to a fixed width.")
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", "adaptive_avg_pool2d", "Mean pooling to a fixed height and width.")
AvgPool1d = _layer(
    "AvgPool1d", "avg_pool1d", "Mean pooling over windows of one dimension.", shown="kernel_size stride padding"
)
AvgPool2d = _layer(
    "AvgPool2d", "avg_pool2d", "Mean pooling over windows of two dimensions.", shown="kernel_size stride padding"
)
MaxPool1d = _layer("MaxPool1d", "max_pool1d", "Maximum pooling over windows of one dimension.")
MaxPool2d = _layer("MaxPool2d", "max_pool2d", "Maximum pooling over windows of two dimensions.")
Flatten = _layer("Flatten", "flatten", "Merge of neighbouring dimensions.", start_dim=1)
PixelShuffle = _layer("PixelShuffle", "pixel_shuffle", "Rearrangement of channels to pixels.")
PixelUnshuffle = _layer("PixelUnshuffle", "pixel_unshuffle", "Rearrangement of pixels to channels.")
Unfold = _layer("Unfold", "unfold", "Extraction of windows as columns.")
Upsample = _layer("Upsample", "interpolate", "Resizing of images.", shown="size scale_factor mode")

# Functions of two tensors or more.
BCELoss = _layer("BCELoss", "binary_cross_entropy", "Binary cross entropy of probabilities.", inputs=2)
BCEWithLogitsLoss = _layer(
    "BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "Binary cross entropy of logits.", inputs=2
)
CosineSimilarity = _layer("CosineSimilarity", "cosine_similarity", "Cosine of the angle between vectors.", inputs=2)
CosineEmbeddingLoss = _layer(
    "CosineEmbeddingLoss", "cosine_embedding_loss", "Loss on the cosine of two embeddings.", inputs=3
)
CrossEntropyLoss = _layer("CrossEntropyLoss", "cross_entropy", "Cross entropy of logits.", inputs=2)
HuberLoss = _layer("HuberLoss", "huber_loss", "Huber loss.", inputs=2)
KLDivLoss = _layer("KLDivLoss", "kl_div", "Kullback-Leibler divergence.", inputs=2)
L1Loss = _layer("L1Loss", "l1_loss", "Absolute error.", inputs=2)
MSELoss = _layer("MSELoss", "mse_loss", "Squared error.", inputs=2)
NLLLoss = _layer("NLLLoss", "nll_loss", "Negative log likelihood.", inputs=2)
SmoothL1Loss = _layer("SmoothL1Loss", "smooth_l1_loss", "Smooth absolute error.", inputs=2)
