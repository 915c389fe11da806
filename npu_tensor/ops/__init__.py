"""The ops of npu_tensor, each a function that records it: `ops.silu(x)`, whose declaration is `ops.silu.op`."""

# ruff: noqa: F403 - one name for all families
from npu_tensor.ops.activation import *
from npu_tensor.ops.class_losses import *
from npu_tensor.ops.contraction import *
from npu_tensor.ops.conv import *
from npu_tensor.ops.declare import Call, Layout, Op
from npu_tensor.ops.elementwise import *
from npu_tensor.ops.fused_attention import *
from npu_tensor.ops.movement import *
from npu_tensor.ops.norms import *
from npu_tensor.ops.optimization import *
from npu_tensor.ops.places import *
from npu_tensor.ops.quantized import *
from npu_tensor.ops.random_numbers import *
from npu_tensor.ops.recurrence import *
from npu_tensor.ops.reduction import *
from npu_tensor.ops.registry import OPS, op
from npu_tensor.ops.samples import *
from npu_tensor.ops.special import *

__all__ = ["OPS", "Call", "Layout", "Op", "op"]  # Plus every op.
