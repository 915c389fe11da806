"""PyTorch's backward(), which adds gradients to the leaves of a graph."""

from __future__ import annotations

from npu_tensor import ops
from npu_tensor.autograd.transforms import gradients_of, require_like
from npu_tensor.errors import GradientError
from npu_tensor.graph.history import FREED, GradMode, Leaf, leaf_of, reached
from npu_tensor.graph.tracing import current_watch
from npu_tensor.tensor import Tensor

__all__ = ["backward"]


def backward(output: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add gradients to the leaves of a tensor; see `Tensor.backward`."""
    node = output._node
    if node.history is None:
        raise GradientError(f"{node.spec} does not require a gradient: nothing it was computed from does")
    if gradient is None:
        if node.spec.size != 1:
            raise GradientError(f"backward of {node.spec}, which is not a single element, needs the argument gradient")
        gradient = ops.fill(1, output.shape, output.dtype)
    require_like("backward", output, gradient)
    through = reached([node])
    leaves = [each for each in through if leaf_of(each) is not None]
    with GradMode(False):
        for target, computed in zip(leaves, gradients_of([output], [gradient], leaves, through), strict=True):
            leaf = leaf_of(target)
            assert leaf is not None
            if not leaf.is_frozen:
                _add(leaf, computed)
    if not retain_graph:
        for each in through:
            if leaf_of(each) is None:
                each.history = FREED


def _add(leaf: Leaf, gradient: Tensor) -> None:
    if leaf.gradient is not None:
        leaf.gradient._assign(leaf.gradient + gradient)
        return
    if (watch := current_watch()) is not None:
        watch.gradients.setdefault(leaf, (None, True))
    leaf.gradient = gradient
