"""The ops of npu_tensor. Importing this package fills the registry `OPS`."""

from npu_tensor.ops import activation, contraction, elementwise, hyperbolic, movement, reduction
from npu_tensor.ops.declare import OPS, Call, Layout, Op

__all__ = [
    "OPS",
    "Call",
    "Layout",
    "Op",
    "activation",
    "contraction",
    "elementwise",
    "hyperbolic",
    "movement",
    "reduction",
]
