"""Element-wise ops of one operand."""

from __future__ import annotations

from functools import partial

import npu_tensor as nt

ggml_unary_op_abs = nt.abs
ggml_unary_op_sgn = nt.sgn
ggml_unary_op_neg = nt.neg
ggml_unary_op_step = nt.step
ggml_unary_op_tanh = nt.tanh
ggml_unary_op_elu = nt.elu
ggml_unary_op_relu = nt.relu
ggml_unary_op_sigmoid = nt.sigmoid
ggml_unary_op_gelu = partial(nt.gelu, approximate="tanh")
ggml_unary_op_gelu_quick = nt.gelu_quick
ggml_unary_op_silu = nt.silu
ggml_unary_op_hardswish = nt.hardswish
ggml_unary_op_hardsigmoid = nt.hardsigmoid
ggml_unary_op_exp = nt.exp
ggml_unary_op_gelu_erf = nt.gelu_erf

# Those that the list of ggml-hsa's tool does not have.
ggml_unary_op_expm1 = nt.expm1
ggml_unary_op_softplus = nt.softplus
ggml_unary_op_xielu = nt.xielu
ggml_unary_op_floor = nt.floor
ggml_unary_op_ceil = nt.ceil
ggml_unary_op_round = nt.round_half_away
ggml_unary_op_trunc = nt.trunc
ggml_op_sqr = nt.square
ggml_op_sqrt = nt.sqrt
ggml_op_log = nt.log
ggml_op_sin = nt.sin
ggml_op_cos = nt.cos
ggml_op_scale = nt.scale
ggml_op_clamp = nt.clamp
ggml_op_leaky_relu = nt.leaky_relu
