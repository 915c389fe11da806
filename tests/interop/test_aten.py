"""Every entry of the table of ATen operators beside PyTorch's operator, on small arguments."""

import math
from typing import Any

import numpy as np
import pytest

from npu_tensor.interop.aten import ATEN, IGNORED

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_map  # noqa: E402

from npu_tensor.torch.bridge import DTYPE_OF, from_pytorch  # noqa: E402

pytestmark = pytest.mark.usefixtures("less_optimised")

Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


_GENERATOR = torch.Generator().manual_seed(0)


def r(*shape: int) -> Any:
    """Return floats from 0.1 to 0.9, where most functions are defined."""
    return torch.rand(*shape, generator=_GENERATOR) * 0.8 + 0.1


def n(*shape: int) -> Any:
    return torch.randn(*shape, generator=_GENERATOR)


def i(*shape: int, high: int = 3) -> Any:
    return torch.randint(0, high, shape, generator=_GENERATOR)


X, Y, INDICES, MASK = r(2, 3), r(2, 3), i(2, 3) + 1, torch.tensor([[True, False, True], [False, False, True]])
IMAGE, BATCH, ROWS = n(2, 4, 6, 5), n(2, 4, 6), n(3, 4)
WIDE = n(2, 4, 8, 8)
W2 = n(6, 2, 3, 3)
CONVOLUTION = ([2, 1], [1, 1], [1, 2], False, [0, 0], 2)
TRANSPOSED = ([2, 2], [1, 1], [1, 1], True, [1, 1], 1)
HEADS = tuple(n(1, 2, 5, 4) for _ in range(3))
BAGS = torch.tensor([0, 2, 3])
POOL = ([3, 2], [2, 2], [1, 1])
STATISTICS = n(4), r(4)

UNARY = """
abs acos acosh asin asinh atan atanh ceil clone cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
gelu hardshrink hardsigmoid hardswish hardtanh isfinite isinf isnan isneginf isposinf leaky_relu lgamma log log10 log1p
log2 log_sigmoid logical_not logit mish nan_to_num neg positive rad2deg reciprocal relu relu6 round rsqrt selu sgn
sigmoid sign signbit silu sin sinc sinh softplus softshrink sqrt square tan tanh trunc celu elu alias contiguous detach
detach_ lift_fresh_copy log_sigmoid_forward numpy_T t sum mean prod amax amin aminmax any all argmax argmin max min
median count_nonzero nansum ones_like zeros_like argsort sort trace diag tril triu std var std_mean var_mean
empty_like
"""
BINARY = (
    "atan2 fmax fmin heaviside hypot logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum nextafter"
)
MIXED = "add sub mul div rsub remainder fmod eq ne lt le gt ge copysign pow.Tensor_"
INTEGERS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
WITH_BACKWARD: dict[str, tuple[Any, ...]] = {
    "gelu": (X - 0.5,),
    "glu": (n(2, 4), -1),
    "hardshrink": (n(2, 3), 0.5),
    "hardsigmoid": (n(2, 3) * 4,),
    "hardswish": (n(2, 3) * 4,),
    "hardtanh": (n(2, 3), -0.5, 0.7),
    "huber_loss": (X, Y * 3, 1, 0.5),
    "logit": (X, None),
    "mish": (n(2, 3),),
    "mse_loss": (X, Y, 2),
    "binary_cross_entropy": (X, Y, None, 1),
    "reflection_pad1d": (BATCH, [1, 2]),
    "reflection_pad2d": (IMAGE, [1, 2, 0, 1]),
    "reflection_pad3d": (n(1, 2, 3, 3, 4), [1, 1, 0, 1, 2, 1]),
    "replication_pad1d": (BATCH, [1, 2]),
    "replication_pad2d": (IMAGE, [1, 2, 0, 1]),
    "replication_pad3d": (n(1, 2, 3, 3, 4), [1, 1, 0, 1, 2, 1]),
    "silu": (n(2, 3),),
    "smooth_l1_loss": (X, Y * 3, 0, 0.5),
    "softplus": (n(2, 3), 2, 1),
    "softshrink": (n(2, 3), 0.5),
    "avg_pool2d": (IMAGE, *POOL, False, True, None),
    "avg_pool3d": (n(1, 2, 4, 4, 4), [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None),
}
"""Operators whose gradient takes the same arguments after the gradient of the result."""

RESIZED = {
    "upsample_nearest1d": (BATCH, [9]),
    "upsample_nearest2d": (IMAGE, [9, 4]),
    "upsample_nearest3d": (n(1, 2, 3, 3, 4), [5, 3, 2]),
    "_upsample_nearest_exact1d": (BATCH, [9]),
    "_upsample_nearest_exact2d": (IMAGE, [9, 4]),
    "_upsample_nearest_exact3d": (n(1, 2, 3, 3, 4), [5, 3, 2]),
    "upsample_linear1d": (BATCH, [9], False),
    "upsample_bilinear2d": (IMAGE, [9, 4], True),
    "upsample_trilinear3d": (n(1, 2, 3, 3, 4), [5, 3, 2], False),
    "upsample_bicubic2d": (IMAGE, [9, 4], False),
    "_upsample_bilinear2d_aa": (IMAGE, [4, 3], False),
    "_upsample_bicubic2d_aa": (IMAGE, [4, 3], False),
}


def _recurrent(gates: int, states: int) -> tuple[Any, ...]:
    shapes = [(5 * gates, size) for size in (3, 5, 0, 0)]
    weights = [n(*shape) if shape[1] else n(shape[0]) for _ in range(2) for shape in shapes]
    first = [n(2, 2, 5) for _ in range(states)]
    return n(4, 2, 3), first if states > 1 else first[0], weights, True, 1, 0.0, False, True, False


def _norm_operands() -> dict[str, Call]:
    """Return the calls of norms and of their gradients, with the statistics that the forward pass saved."""
    aten = torch.ops.aten
    weight, bias = r(4), n(4)
    mean, variance = STATISTICS
    image, flat = IMAGE, ROWS
    _, layer_mean, layer_scale = aten.native_layer_norm(flat, [4], weight, bias, 1e-5)
    _, group_mean, group_scale = aten.native_group_norm(image, weight, bias, 2, 4, 30, 2, 1e-5)
    _, batch_mean, batch_scale = aten._native_batch_norm_legit.no_stats(image, weight, bias, True, 0.1, 1e-5)
    masks = [True, True, True]
    batch = n(2, 4, 6, 5), image, weight, mean, variance
    return {
        "native_layer_norm.default": call(flat, [4], weight, bias, 1e-5),
        "native_layer_norm_backward.default": call(n(3, 4), flat, [4], layer_mean, layer_scale, weight, bias, masks),
        "layer_norm.default": call(flat, [4], weight, bias),
        "native_group_norm.default": call(image, weight, bias, 2, 4, 30, 2, 1e-5),
        "native_group_norm_backward.default": call(
            n(2, 4, 6, 5), image, group_mean, group_scale, weight, 2, 4, 30, 2, masks
        ),
        "group_norm.default": call(image, 2, weight, bias),
        "_native_batch_norm_legit_functional.default": call(image, weight, bias, mean, variance, True, 0.1, 1e-5),
        "_native_batch_norm_legit_no_training.default": call(image, weight, bias, mean, variance, 0.1, 1e-5),
        "_native_batch_norm_legit.no_stats": call(image, weight, bias, True, 0.1, 1e-5),
        "_native_batch_norm_legit.default": call(image, weight, bias, mean.clone(), variance.clone(), True, 0.1, 1e-5),
        "native_batch_norm.default": call(image, weight, bias, mean.clone(), variance.clone(), True, 0.1, 1e-5),
        "batch_norm.default": call(image, weight, bias, mean.clone(), variance.clone(), True, 0.1, 1e-5, True),
        "native_batch_norm_backward.default": call(*batch, batch_mean, batch_scale, True, 1e-5, masks),
        "instance_norm.default": call(image, weight, bias, None, None, True, 0.1, 1e-5, True),
        "rms_norm.default": call(flat, [4], weight, 1e-5),
        "_fused_rms_norm.default": call(flat, [4], weight, 1e-5),
    }


def _calls() -> dict[str, Call]:
    """Return arguments of every operator."""
    calls: dict[str, Call] = {f"{name}.default": call(X * 1.0) for name in UNARY.split()}
    calls |= {f"{name}.default": call(X, Y) for name in BINARY.split()}
    for name in MIXED.split():
        base, _, prefix = name.partition(".")
        calls |= {f"{base}.{prefix}Tensor": call(X, Y), f"{base}.{prefix}Scalar": call(X, 0.3)}
    for name in INTEGERS.split():
        suffix = "Tensor_Scalar" if "shift" in name else "Scalar"
        calls |= {f"{name}.Tensor": call(INDICES, i(2, 3)), f"{name}.{suffix}": call(INDICES, 2)}
    calls |= {f"{name}.default": (arguments, {}) for name, arguments in {**WITH_BACKWARD, **RESIZED}.items()}
    for name, (x, *rest) in WITH_BACKWARD.items():
        forward = getattr(torch.ops.aten, name).default
        calls[f"{name}_backward.default"] = call(torch.randn_like(forward(x, *rest)), x, *rest)
    for name, (x, counts, *rest) in RESIZED.items():
        scales = [None] * len(counts)
        calls[f"{name}_backward.default"] = call(torch.randn(*x.shape[:2], *counts), counts, [*x.shape], *rest, *scales)
        calls[f"{name}.vec"] = call(x, None, *rest, [0.6] * len(counts) if "aa" in name else [1.7] * len(counts))
    for name in ("std", "var", "std_mean", "var_mean"):
        calls |= {f"{name}.correction": call(X, [1], correction=0), f"{name}.dim": call(X, [0], False, True)}
    for name in ("all", "any"):
        calls |= {f"{name}.dim": call(MASK, 1), f"{name}.dims": call(MASK, [0, 1], True)}
    for name in ("max", "min", "median", "mode.default", "cummax.default", "kthvalue.default"):
        calls[name if "." in name else f"{name}.dim"] = call(ROWS, *((2,) if "kth" in name else ()), 1)
    convolved = torch.ops.aten.convolution(IMAGE, W2, None, *CONVOLUTION)
    pooled, places = torch.ops.aten.max_pool2d_with_indices(IMAGE, *POOL)
    cube = n(1, 2, 4, 4, 4)
    pooled_cube, cube_places = torch.ops.aten.max_pool3d_with_indices(cube, [2, 2, 2])
    grid = torch.rand(2, 3, 3, 2, generator=_GENERATOR) * 2 - 1
    targets, scores = torch.tensor([1, 0, -100]), ROWS.log_softmax(1)
    images = n(2, 4, 2, 2).log_softmax(1), i(2, 2, 2, high=4)
    attended, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*HEADS, 0.0, True)
    mask = torch.ops.aten.native_dropout(X, 0.5, True)[1]
    v, g = n(3, 4), r(3, 1)
    norms = torch.ops.aten._weight_norm_interface(v, g)[1]
    softmaxed = ROWS.softmax(1)
    bagged = torch.ops.aten._embedding_bag(ROWS, torch.tensor([1, 2, 0]), BAGS, False, 1)[1:]
    kernel = n(4, 3, 2, 3)
    vector, pixels, windows = n(4), n(1, 3, 4, 5), ([2, 2], [1, 1], [0, 1], [2, 2])
    columns = torch.ops.aten.im2col(pixels, *windows)
    layer = (n(2, 5, 8), 8, 2, n(24, 8), n(24), n(8, 8), n(8))
    feed = (r(8), n(8), r(8), n(8), n(16, 8), n(16), n(8, 16), n(8))
    calls |= {
        "_adaptive_avg_pool2d.default": call(IMAGE, [3, 2]),
        "_adaptive_avg_pool2d_backward.default": call(n(2, 4, 3, 2), IMAGE),
        "_adaptive_avg_pool3d.default": call(cube, [2, 1, 3]),
        "_adaptive_avg_pool3d_backward.default": call(n(1, 2, 2, 1, 3), cube),
        "adaptive_avg_pool1d.default": call(BATCH, [4]),
        "adaptive_avg_pool2d.default": call(IMAGE, [3, 2]),
        "adaptive_avg_pool3d.default": call(cube, [2, 1, 3]),
        "_cdist_forward.default": call(ROWS, n(2, 4), 2.0, None),
        "_log_softmax.default": call(ROWS, 1, False),
        "_log_softmax_backward_data.default": call(n(3, 4), scores, 1, torch.float32),
        "_prelu_kernel.default": call(IMAGE, r(1, 4, 1, 1)),
        "_prelu_kernel_backward.default": call(n(2, 4, 6, 5), IMAGE, r(1, 4, 1, 1)),
        "prelu.default": call(IMAGE, r(4)),
        "_safe_softmax.default": call(torch.tensor([[1.0, -math.inf], [-math.inf, -math.inf]]), -1),
        "_scaled_dot_product_flash_attention_for_cpu.default": call(*HEADS, attn_mask=n(1, 1, 5, 5), scale=0.3),
        "_scaled_dot_product_flash_attention_for_cpu_backward.default": call(
            n(1, 2, 5, 4), *HEADS, attended, sums, 0.0, True
        ),
        "scaled_dot_product_attention.default": call(*HEADS, None, 0.0, True),
        "_softmax.default": call(ROWS, 0, False),
        "_softmax_backward_data.default": call(n(3, 4), softmaxed, 1, torch.float32),
        "_to_copy.default": call(X, dtype=torch.float64),
        "_transformer_encoder_layer_fwd.default": call(*layer, True, True, 1e-5, *feed),
        "_unsafe_index.Tensor": call(ROWS, [None, torch.tensor([2, 0])]),
        "_unsafe_index_put.default": call(ROWS, [torch.tensor([2, 2])], n(2, 4), True),
        "_unsafe_view.default": call(X, [3, 2]),
        "_weight_norm_interface.default": call(v, g),
        "_weight_norm_interface_backward.default": call(n(3, 4), v, g, norms, 0),
        "addbmm.default": call(n(2, 4), n(3, 2, 5), n(3, 5, 4), alpha=2),
        "addcdiv.default": call(X, Y, X + 1, value=2),
        "addcmul.default": call(X, Y, X, value=2),
        "addmm.default": call(vector, n(2, 3), n(3, 4), beta=0.5),
        "addmv.default": call(n(3), n(3, 4), vector),
        "addr.default": call(n(3, 4), n(3), vector),
        "affine_grid_generator.default": call(n(2, 2, 3), [2, 3, 4, 5], False),
        "arange.default": call(5, dtype=torch.int32),
        "arange.start": call(1.5, 5),
        "arange.start_step": call(1, 9, 3),
        "argsort.stable": call(ROWS, stable=True, dim=0),
        "as_strided.default": call(ROWS, [2, 3], [1, 4], 1),
        "as_strided_scatter.default": call(ROWS, n(2, 3), [2, 3], [1, 4], 1),
        "avg_pool1d.default": call(BATCH, [3], []),
        "baddbmm.default": call(n(2, 4), n(3, 2, 5), n(3, 5, 4)),
        "bilinear.default": call(n(3, 2), ROWS, n(5, 2, 4)),
        "binary_cross_entropy_with_logits.default": call(ROWS, r(3, 4), None, r(4), 0),
        "bitwise_not.default": call(INDICES),
        "bmm.default": call(n(3, 2, 5), n(3, 5, 4)),
        "bucketize.Tensor": call(ROWS, torch.tensor([-0.5, 0.0, 0.7])),
        "cat.default": call([X, Y], 1),
        "channel_shuffle.default": call(IMAGE, 2),
        "chunk.default": call(ROWS, 3, 1),
        "clamp.default": call(ROWS, -0.5, None),
        "clamp.Tensor": call(X, Y, Y + 0.1),
        "clamp_max.default": call(ROWS, 0.5),
        "clamp_max.Tensor": call(X, Y),
        "clamp_min.default": call(ROWS, 0.5),
        "clamp_min.Tensor": call(X, Y),
        "col2im.default": call(columns, [4, 5], *windows),
        "column_stack.default": call([X, Y]),
        "constant_pad_nd.default": call(X, [1, -1, 0, 2], 0.5),
        "conv1d.default": call(BATCH, n(3, 4, 3), n(3), [2], [1]),
        "conv1d.padding": call(BATCH, n(3, 4, 3), None, [1], "same"),
        "conv2d.default": call(IMAGE, W2, n(6), *CONVOLUTION[:3], 2),
        "conv2d.padding": call(IMAGE, W2, None, [1, 1], "valid", [1, 1], 2),
        "conv3d.default": call(cube, n(3, 2, 2, 2, 2)),
        "conv3d.padding": call(cube, n(3, 2, 3, 3, 3), None, [1, 1, 1], "same"),
        "conv_transpose1d.default": call(BATCH, n(4, 3, 3), n(3), [2]),
        "conv_transpose2d.input": call(IMAGE, n(4, 3, 2, 3), None, [2, 2], [1, 1], [1, 1]),
        "conv_transpose3d.input": call(cube, n(2, 3, 2, 2, 2)),
        "convolution.default": call(IMAGE, W2, n(6), *CONVOLUTION),
        "convolution_backward.default": call(
            torch.randn_like(convolved), IMAGE, W2, [6], *CONVOLUTION, [True, True, True]
        ),
        "convolution_backward.default, transposed": call(
            torch.randn_like(torch.ops.aten.convolution(IMAGE, kernel, None, *TRANSPOSED)),
            *(IMAGE, kernel, None, *TRANSPOSED, [True, True, False]),
        ),
        "native_batch_norm_backward.default, evaluation": call(
            n(2, 4, 6, 5), IMAGE, r(4), *STATISTICS, None, None, False, 1e-5, [True, True, True]
        ),
        "copy.default": call(X, torch.ones(3, dtype=torch.int64)),
        "cosine_similarity.default": call(X, Y, 1),
        "cross.default": call(X, Y, 1),
        "cross_entropy_loss.default": call(ROWS, targets, r(4), 1, -100, 0.1),
        "cummin.default": call(ROWS, 0),
        "cumprod.default": call(X, 1),
        "cumsum.default": call(X, 0, dtype=torch.float64),
        "diag_embed.default": call(X),
        "diagonal.default": call(n(3, 4), 1),
        "diagonal_backward.default": call(n(3), [3, 4], 1, 0, 1),
        "diagonal_scatter.default": call(n(3, 4), n(3), 1),
        "div.Scalar_mode": call(ROWS, 0.3, rounding_mode="floor"),
        "div.Tensor_mode": call(INDICES, i(2, 3) + 1, rounding_mode="trunc"),
        "dot.default": call(vector, r(4)),
        "dropout.default": call(X, 0.5, False),
        "einsum.default": call("ij,kj->ik", [X, Y]),
        "elu_backward.default": call(n(3, 4), 1.5, 1.0, 1.0, False, ROWS),
        "_embedding_bag.default": call(ROWS, torch.tensor([1, 2, 0, 2, 1]), BAGS, False, 1, False, None, False, 1),
        "_embedding_bag.default, sum": call(ROWS, torch.tensor([1, 2, 0]), BAGS, False, 0, False, r(3), True),
        "_embedding_bag_backward.default": call(
            n(3, 4), torch.tensor([1, 2, 0]), BAGS, *bagged, 5, False, 1, False, None
        ),
        "_grouped_mm.default": call(n(9, 8), n(3, 8, 4), torch.tensor([2, 2, 9], dtype=torch.int32)),
        "embedding.default": call(ROWS, i(2, 3), 1),
        "embedding_dense_backward.default": call(n(2, 3, 4), INDICES, 5, 1, False),
        "empty.memory_format": call([0, 2]),
        "expand.default": call(vector, [3, -1]),
        "expand_as.default": call(vector, ROWS),
        "eye.default": call(3),
        "eye.m": call(2, 3),
        "flatten.using_ints": call(IMAGE, 1, 2),
        "flip.default": call(X, [0, 1]),
        "floor_divide.default": call(INDICES, i(2, 3) + 1),
        "floor_divide.Scalar": call(INDICES, 2),
        "full.default": call([2, 3], 7),
        "full_like.default": call(X, 2),
        "gather.default": call(ROWS, 1, INDICES),
        "gcd.default": call(INDICES, INDICES + 2),
        "grid_sampler_2d.default": call(IMAGE, grid, 0, 1, False),
        "grid_sampler_2d.default, cubic": call(IMAGE, grid, 2, 0, True),
        "grid_sampler_2d_backward.default": call(n(2, 4, 3, 3), IMAGE, grid, 0, 0, False, [True, True]),
        "grid_sampler_3d.default": call(cube, n(1, 2, 2, 2, 3).tanh(), 0, 0, True),
        "grid_sampler_3d_backward.default": call(
            n(1, 2, 2, 2, 2), cube, n(1, 2, 2, 2, 3).tanh(), 0, 0, True, [True, True]
        ),
        "gru.input": call(*_recurrent(3, 1)),
        "histc.default": call(ROWS, 5, -1, 2),
        "im2col.default": call(pixels, *windows),
        "index.Tensor": call(ROWS, [torch.tensor([[0, 2]]), torch.tensor([1, -1])]),
        "index_add.default": call(ROWS, 0, torch.tensor([2, 2]), n(2, 4), alpha=2),
        "index_copy.default": call(ROWS, 0, torch.tensor([2, 0]), n(2, 4)),
        "index_fill.int_Scalar": call(ROWS, 1, torch.tensor([2, 0]), 3.0),
        "index_put.default": call(ROWS, [None, torch.tensor([2, 0])], n(3, 2)),
        "index_put_.default": call(ROWS.clone(), [torch.tensor([2, 2])], n(2, 4), True),
        "index_select.default": call(ROWS, 1, torch.tensor([3, 0, 3])),
        "isin.Tensor_Tensor": call(INDICES, torch.tensor([1, 3])),
        "kron.default": call(X, Y),
        "l1_loss.default": call(X, Y),
        "leaky_relu_backward.default": call(n(3, 4), ROWS, 0.1, False),
        "lerp.Scalar": call(X, Y, 0.3),
        "lerp.Tensor": call(X, Y, r(2, 3)),
        "linalg_vector_norm.default": call(ROWS, 3, [1], True),
        "linear.default": call(X, n(4, 3), vector),
        "linspace.default": call(0.0, 2.0, 5),
        "log_sigmoid_backward.default": call(n(3, 4), ROWS, (-ROWS.abs()).exp()),
        "log_softmax.int": call(ROWS, -1),
        "logcumsumexp.default": call(ROWS, 1),
        "logsumexp.default": call(ROWS, [1], True),
        "lstm.input": call(*_recurrent(4, 2)),
        "masked_fill.Scalar": call(X, MASK, 2),
        "masked_fill.Tensor": call(X, MASK, torch.tensor(2.0)),
        "masked_scatter.default": call(X, MASK, n(6)),
        "matmul.default": call(n(2, 3, 4), n(4, 5)),
        "max.other": call(X, Y),
        "max_pool1d.default": call(BATCH, [3], [2], [1]),
        "max_pool2d.default": call(IMAGE, *POOL),
        "max_pool2d_with_indices.default": call(IMAGE, *POOL),
        "max_pool2d_with_indices_backward.default": call(torch.randn_like(pooled), IMAGE, *POOL, [1, 1], False, places),
        "max_pool3d.default": call(cube, [2, 2, 2]),
        "max_pool3d_with_indices.default": call(cube, [2, 2, 2]),
        "max_pool3d_with_indices_backward.default": call(
            torch.randn_like(pooled_cube), cube, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, cube_places
        ),
        "mean.dim": call(X, [1], True),
        "meshgrid.default": call([vector, n(3)]),
        "min.other": call(X, Y),
        "mm.default": call(X, n(3, 4)),
        "movedim.int": call(IMAGE, 1, -1),
        "mv.default": call(X, n(3)),
        "narrow.default": call(ROWS, 1, 1, 2),
        "native_dropout_backward.default": call(X, mask, 2.0),
        "new_full.default": call(X, [2], 3),
        "new_ones.default": call(X, [2], dtype=torch.int64),
        "new_zeros.default": call(X, [2, 1]),
        "nll_loss_backward.default": call(torch.tensor(2.0), scores, targets, None, 1, -100, torch.tensor(2.0)),
        "nll_loss_forward.default": call(scores, targets, r(4), 2, -100),
        "nll_loss2d_backward.default": call(n(2, 2, 2), *images, None, 0, -100, torch.tensor(0.0)),
        "nll_loss2d_forward.default": call(*images, None, 1, -100),
        "nll_loss_nd.default": call(scores, targets),
        "one_hot.default": call(INDICES, 5),
        "ones.default": call([2, 1], dtype=torch.bool),
        "outer.default": call(vector, n(3)),
        "pad.default": call(BATCH, [1, 2], "circular"),
        "permute.default": call(IMAGE, [0, 2, -1, 1]),
        "pixel_shuffle.default": call(IMAGE, 2),
        "pixel_unshuffle.default": call(WIDE, 2),
        "pow.Scalar": call(2, X),
        "prod.dim_int": call(X, 1, True),
        "remainder.Scalar_Tensor": call(3.5, X),
        "renorm.default": call(ROWS, 2.0, 0, 1.0),
        "repeat.default": call(X, [2, 1, 2]),
        "repeat_interleave.self_int": call(X, 2, 1),
        "reshape.default": call(X, [3, -1]),
        "rnn_relu.input": call(*_recurrent(1, 1)),
        "rnn_tanh.input": call(*_recurrent(1, 1)),
        "roll.default": call(X, [1, 2], [0, 1]),
        "rot90.default": call(X),
        "scalar_tensor.default": call(2.5),
        "scatter.reduce": call(ROWS, 1, INDICES, X, reduce="add"),
        "scatter.src": call(ROWS, 1, torch.tensor([[0, 3, 2]]), X),
        "scatter.value": call(ROWS, 1, INDICES, 2.0),
        "scatter.value_reduce": call(ROWS, 1, INDICES, 2.0, reduce="multiply"),
        "scatter_add.default": call(ROWS, 1, INDICES, X),
        "scatter_reduce.two": call(ROWS, 1, INDICES, X, "amax"),
        "select.int": call(ROWS, 1, -1),
        "select_backward.default": call(n(3), [3, 4], 1, -1),
        "select_scatter.default": call(ROWS, n(3), 1, -1),
        "sigmoid_backward.default": call(X, Y),
        "slice.Tensor": call(ROWS, -1, 1, 2**63 - 1, 2),
        "slice_backward.default": call(n(3, 2), [3, 4], 1, 1, 2**63 - 1, 2),
        "slice_scatter.default": call(ROWS, n(3, 2), 1, 1, 2**63 - 1, 2),
        "softmax.int": call(ROWS, 0),
        "split.default": call(ROWS, [1, 3], 1),
        "split.sizes": call(ROWS, [1, 3], 1),
        "split.Tensor": call(ROWS, 3, 1),
        "split_with_sizes.default": call(ROWS, [1, 3], 1),
        "squeeze.default": call(n(1, 3, 1)),
        "squeeze.dim": call(n(1, 3, 1), -1),
        "squeeze.dims": call(n(1, 3, 1), [0, 1]),
        "stack.default": call([X, Y], 1),
        "sum.dim_IntList": call(MASK, [1]),
        "take.default": call(ROWS, INDICES),
        "tanh_backward.default": call(X, Y),
        "tensor_split.indices": call(ROWS, [1, 3], 1),
        "tensor_split.sections": call(ROWS, 3, 1),
        "threshold.default": call(ROWS, 0.1, 2.0),
        "threshold_backward.default": call(n(3, 4), ROWS, 0.1),
        "tile.default": call(X, [2]),
        "to.device": call(X, torch.device("cpu"), torch.float64),
        "to.dtype": call(X, torch.bfloat16),
        "to.dtype_layout": call(X, dtype=torch.int32),
        "topk.default": call(ROWS, 2, 1),
        "transpose.int": call(IMAGE, 1, -1),
        "type_as.default": call(INDICES, X),
        "unbind.int": call(X, 1),
        "unflatten.int": call(ROWS, 1, [2, -1]),
        "unfold.default": call(ROWS, 1, 2, 1),
        "unfold_backward.default": call(n(3, 3, 2), [3, 4], 1, 2, 1),
        "unsafe_split.Tensor": call(ROWS, 3, 1),
        "unsqueeze.default": call(X, -1),
        "view.default": call(X, [6]),
        "vstack.default": call([X, Y]),
        "where.default": call(MASK),
        "where.Scalar": call(MASK, 1.0, 2.0),
        "where.ScalarOther": call(MASK, X, 2.0),
        "where.ScalarSelf": call(MASK, 1.0, X),
        "where.self": call(MASK, X, Y),
        "xlogy.Tensor": call(X, Y),
        "zeros.default": call([2, 1], dtype=torch.int16),
        "copy_.default": call(X.clone(), vector[:3]),
        "fill_.Scalar": call(X.clone(), 2),
        "fill_.Tensor": call(X.clone(), torch.tensor(2.0)),
        "zero_.default": call(X.clone()),
        "sym_numel.default": call(X),
        "sym_size.int": call(X, 1),
        "_assert_async.default": call(torch.tensor(True)),
        "_assert_async.msg": call(torch.tensor(True), "text"),
        "_assert_scalar.default": call(True, "text"),
        "_assert_tensor_metadata.default": call(X),
        "sym_constrain_range_for_size.default": call(3),
        "fill.Scalar": call(INDICES, 2.0),
        "fill.Tensor": call(X, torch.tensor(2.0)),
        "mkldnn_rnn_layer.default": call(
            *(n(5, 2, 3), n(16, 3), n(16, 4), n(16), n(16), n(1, 2, 4), n(1, 2, 4)),
            *(True, [], 2, 4, 1, True, False, False, False),
        ),
        "new_empty_strided.default": call(X, [3, 2], [1, 3]),
        "norm.Scalar": call(X, 3),
        "norm.ScalarOpt_dim": call(X, None, [1], True),
        "tril_indices.default": call(3, 4, -1, dtype=torch.int32),
        "triu_indices.default": call(3, 4, 1),
        **_norm_operands(),
    }
    return calls


CALLS = _calls()

_UNDEFINED = {"empty.memory_format", "empty_like.default", "new_empty_strided.default"}
"""Operators whose result has any elements."""


def _own(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return from_pytorch(value.clone())
    if isinstance(value, torch.dtype):
        return DTYPE_OF[value]
    return value


def assert_same(own: Any, theirs: Any, values: bool = True) -> None:
    """Compare an entry's result with PyTorch's, also nested."""
    if isinstance(theirs, torch.Tensor):
        assert own.dtype is DTYPE_OF[theirs.dtype]
        assert own.shape == theirs.shape
        if values:
            number = own.double().numpy()
            expected = theirs.double().numpy()
            largest = np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)).max(initial=1e-30)
            np.testing.assert_allclose(number, expected, rtol=1e-5, atol=2e-6 * largest)
    elif isinstance(theirs, (tuple, list)):
        for each, expected in zip(own, theirs, strict=True):
            assert_same(each, expected, values)
    else:
        assert own == theirs


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_entries_compute_what_the_operators_compute(name: str) -> None:
    args, kwargs = CALLS[name]
    name = name.partition(",")[0]
    theirs = _operator(name)(*tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, args), **kwargs)
    named = {key: _own(value) for key, value in kwargs.items() if key not in IGNORED}
    own = ATEN[f"aten.{name}"](*tree_map(_own, args), **named)
    if "flash_attention_for_cpu.d" in name:
        own, theirs = own[0], theirs[0]  # The logarithms of sums are only for the gradient.
    if name.startswith("mkldnn"):
        own, theirs = own[:-1], theirs[:-1]  # The workspace is only for the gradient.
    assert_same(own, theirs, name not in _UNDEFINED)


def _in_place(name: str) -> str:
    base, _, overload = name.partition(".")
    return f"aten.{base}_.{overload}"


@pytest.mark.parametrize("name", sorted(name for name in CALLS if _in_place(name) in ATEN))
def test_forms_in_place(name: str) -> None:
    args, kwargs = CALLS[name]
    own = tree_map(_own, args)
    expected = ATEN[f"aten.{name}"](*tree_map(_own, args), **{key: _own(value) for key, value in kwargs.items()})
    if not hasattr(own[0], "shape") or expected.shape != own[0].shape:
        pytest.skip("the result has another shape")
    result = ATEN[_in_place(name)](*own, **{key: _own(value) for key, value in kwargs.items()})
    assert result is own[0]
    np.testing.assert_array_equal(result.numpy(), expected.to(result.dtype).numpy())


def test_every_entry_has_a_call() -> None:
    named = {f"aten.{name}" for name in CALLS} | {_in_place(name) for name in CALLS}
    assert sorted(name for name in ATEN if name.startswith("aten.") and name not in named) == []


def test_numbers() -> None:
    assert ATEN["_operator.floordiv"](7, 2) == 3
    assert ATEN["torch.sym_max"](7, 2) == 7
    assert ATEN["math.ceil"](1.5) == 2
