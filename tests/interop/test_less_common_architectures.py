"""Less common architectures of PyTorch, compiled: results and gradients are those of eager."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytorch_architectures import ARCHITECTURES  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from npu_tensor.torch.backend import npu_tensor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
"""PyTorch's compiler warns of parts of itself."""

TRAINED = ("gcn",)


def largest_error(results: Any, expected: Any) -> float:
    """Return the largest difference relative to the largest element."""
    pairs = zip(tree_leaves(results), tree_leaves(expected), strict=True)
    return max(float((own - other).abs().max() / other.abs().max()) for own, other in pairs)


def gradients(module: Any, function: Any, arguments: Any) -> Any:
    """Return the gradients of all parameters in one tensor."""
    module.zero_grad()
    sum(each.square().mean() for each in tree_leaves(function(*arguments))).backward()
    return torch.cat([each.grad.flatten() for each in module.parameters()])


NAMES = ("box_head", "gan_generator", "gat", "gcn", "pointnet", "stn")


@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients(name: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, arguments = ARCHITECTURES[name]()
    compiled = torch.compile(module.eval(), backend=npu_tensor, fullgraph=True, options={"fallback": "error"})
    with torch.no_grad():
        assert largest_error(compiled(*arguments), module(*arguments)) < 1e-5
    if name in TRAINED:
        expected = gradients(module, module, arguments)
        assert largest_error(gradients(module, compiled, arguments), expected) < 1e-5
