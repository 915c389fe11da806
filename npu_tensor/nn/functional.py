"""The functions of npu_tensor that torch.nn.functional also has.

They are the same objects, except that activations also take PyTorch's `inplace=True`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from npu_tensor import functions  # noqa: F401 - enters them in the registry
from npu_tensor.errors import no_such_name
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor

_NAMES: Final = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d
elu elu_ embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d gaussian_nll_loss gelu glu grid_sample
group_norm grouped_mm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss huber_loss
instance_norm interpolate kl_div l1_loss layer_norm leaky_relu leaky_relu_ linear local_response_norm log_softmax
logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d
max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle
poisson_nll_loss prelu relu relu6 relu_ rms_norm rrelu rrelu_ scaled_dot_product_attention selu selu_ sigmoid silu
smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold threshold_
triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear upsample_nearest
"""
"""All names of torch.nn.functional, so that a new function of npu_tensor appears here without another entry."""

_PYTORCH: Final = tuple(_NAMES.split())

_INPLACE: Final = (
    *("alpha_dropout", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "feature_alpha_dropout"),
    *("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6", "rrelu", "selu", "silu"),
    "threshold",
)


def _with_inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    signature = inspect.signature(function)
    count = len(signature.parameters)  # `inplace` comes after them

    @functools.wraps(function)
    def activation(*args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if len(args) > count:
            args, inplace = args[:count], args[count]
        result = function(*args, **kwargs)
        if not inplace:
            return result
        input: Tensor = args[0] if args else kwargs["input"]
        return input._assign(result)

    activation.__module__ = __name__  # Pickle finds it by this name.
    inplace = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool")
    activation.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), inplace]
    )
    return activation


_FUNCTIONS: Final = registry.functions()
_AVAILABLE: Final[dict[str, Callable[..., Any]]] = {
    name: _with_inplace(_FUNCTIONS[name]) if name in _INPLACE else _FUNCTIONS[name]
    for name in _PYTORCH
    if name in _FUNCTIONS
}
globals().update(_AVAILABLE)

__all__ = sorted(_AVAILABLE)


def __getattr__(name: str) -> Any:
    if name in _PYTORCH:
        raise AttributeError(f"npu_tensor.nn.functional has no {name}: npu_tensor does not have it yet")
    raise no_such_name("module 'npu_tensor.nn.functional'", name, __all__)
