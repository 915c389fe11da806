"""Modules whose forward is one function of torch.nn.functional, with the module's attributes as its options.

A class names the function; its constructor has the function's options, with the same defaults.
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
"""Parameters of functions that are no options of modules: training is the mode of the module, others are deprecated,
would change what a module returns, or are no options of PyTorch's modules."""


class _Function(Module):
    """of: the function. inputs: how many tensors it takes. shown: the options that `repr` shows; if None, all but
    `inplace`. defaults: those of options that are not the function's.
    """

    __signature__: ClassVar[inspect.Signature]
    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, of: str = "", inputs: int = 1, shown: str | None = None, **defaults: Any) -> None:
        if not of:
            return
        function = getattr(functional, of) if of in functional.__all__ else registry.functions()[of]
        options = list(inspect.signature(function).parameters.values())[inputs:]
        own = [each for each in options if each.name not in _NO_OPTIONS]
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
        cls.__doc__ = function.__doc__

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        """The function of the inputs."""
        return self._function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        """The options."""
        names = self.shown.split()
        if getattr(self, "inplace", False) and "inplace" not in names:
            names.append("inplace")
        return ", ".join(f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None)


class _Pool(_Function):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride: Any = self.kernel_size


# Activations.
class ELU(_Function, of="elu"): ...


class GELU(_Function, of="gelu"): ...


class GLU(_Function, of="glu"): ...


class Hardsigmoid(_Function, of="hardsigmoid"): ...


class Hardswish(_Function, of="hardswish"): ...


class Hardtanh(_Function, of="hardtanh"): ...


class LeakyReLU(_Function, of="leaky_relu"): ...


class LogSigmoid(_Function, of="logsigmoid"): ...


class LogSoftmax(_Function, of="log_softmax"): ...


class Mish(_Function, of="mish"): ...


class ReLU(_Function, of="relu"): ...


class ReLU6(_Function, of="relu6"): ...


class SELU(_Function, of="selu"): ...


class Sigmoid(_Function, of="sigmoid"): ...


class SiLU(_Function, of="silu"): ...


class Softmax(_Function, of="softmax"): ...


class Softmin(_Function, of="softmin"): ...


class Softplus(_Function, of="softplus"): ...


class Softsign(_Function, of="softsign"): ...


class Tanh(_Function, of="tanh"): ...


# Dropout, which is inactive in eval mode.
class Dropout(_Function, of="dropout", shown="p inplace"): ...


class Dropout1d(_Function, of="dropout1d", shown="p inplace"): ...


class Dropout2d(_Function, of="dropout2d", shown="p inplace"): ...


# Pools and other changes of the shape.
class AdaptiveAvgPool1d(_Function, of="adaptive_avg_pool1d"): ...


class AdaptiveAvgPool2d(_Function, of="adaptive_avg_pool2d"): ...


class AvgPool1d(_Pool, of="avg_pool1d", shown="kernel_size stride padding"): ...


class AvgPool2d(_Pool, of="avg_pool2d", shown="kernel_size stride padding"): ...


class MaxPool1d(_Pool, of="max_pool1d"): ...


class MaxPool2d(_Pool, of="max_pool2d"): ...


class Flatten(_Function, of="flatten", start_dim=1): ...


class PixelShuffle(_Function, of="pixel_shuffle"): ...


class PixelUnshuffle(_Function, of="pixel_unshuffle"): ...


class Unfold(_Function, of="unfold"): ...


class Upsample(_Function, of="interpolate", shown="size scale_factor mode"): ...


# Of two tensors.
class BCELoss(_Function, of="binary_cross_entropy", inputs=2, shown=""): ...


class BCEWithLogitsLoss(_Function, of="binary_cross_entropy_with_logits", inputs=2, shown=""): ...


class CosineSimilarity(_Function, of="cosine_similarity", inputs=2, shown=""): ...


class CosineEmbeddingLoss(_Function, of="cosine_embedding_loss", inputs=3, shown=""): ...


class CrossEntropyLoss(_Function, of="cross_entropy", inputs=2, shown=""): ...


class HuberLoss(_Function, of="huber_loss", inputs=2, shown=""): ...


class KLDivLoss(_Function, of="kl_div", inputs=2, shown=""): ...


class L1Loss(_Function, of="l1_loss", inputs=2, shown=""): ...


class MSELoss(_Function, of="mse_loss", inputs=2, shown=""): ...


class NLLLoss(_Function, of="nll_loss", inputs=2, shown=""): ...


class SmoothL1Loss(_Function, of="smooth_l1_loss", inputs=2, shown=""): ...
