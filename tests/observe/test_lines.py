"""What is recorded names the user's line, whichever of the package's functions has recorded it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
import npu_tensor.nn.functional as F
from npu_tensor.graph.nodes import capture
from npu_tensor.ops import registry

FUNCTIONS = registry.functions()
METHODS = registry.methods()

THIS_FILE = Path(__file__).name

PUBLIC = {
    **FUNCTIONS,
    **{f"Tensor.{name}": method for name, method in METHODS.items()},
    **{f"nn.functional.{name}": getattr(F, name) for name in F.__all__},
    **{f"linalg.{name}": getattr(nt.linalg, name) for name in nt.linalg.__all__},
    **{f"Tensor.{name}": method for name, method in vars(nt.Tensor).items() if callable(method)},
}


def results(function: Callable[..., Any]) -> Iterator[nt.Tensor]:
    """What a function returns for the operands that it takes of a few that fit many functions."""
    # Results of ops, as views of data are data.
    matrix = nt.from_numpy(np.eye(3, dtype=np.float32)) + 0
    image = nt.from_numpy(np.ones((1, 4, 4, 4), np.float32)) + 0
    flags, indices, vector = matrix > 0, nt.tensor([0, 2, 1]) + 0, matrix.sum(0)
    for operands in (
        *((matrix,), (image,), (flags,), (indices,), (3,), ((3, 3), 1.5), ([matrix, matrix],), (matrix, matrix)),
        *((image, image), (matrix, 1), (matrix, 0, 1), (image, 2), (matrix, (3, 3)), (matrix, 0.5, 2.0)),
        *((flags, matrix, matrix), (matrix, flags, 1.0), (matrix, flags, matrix), (matrix, matrix, matrix)),
        *((matrix, indices), (indices, matrix), (matrix, 0, indices), (matrix, 0, indices, matrix), (matrix, 0, 1, 1)),
        *((indices, indices), (vector, vector), (matrix, vector), (vector, matrix, vector), (image[0], image[0])),
    ):
        try:
            found = function(*operands)
        except (nt.NpuTensorError, TypeError, ValueError, AttributeError, IndexError):
            continue
        yield from (part for part in (found if isinstance(found, tuple) else [found]) if isinstance(part, nt.Tensor))


def test_no_line_is_the_packages_own() -> None:
    recorded = set()
    for name, function in PUBLIC.items():
        for tensor in results(function):
            for _, node in capture([tensor._node]).nodes:
                assert node.line.startswith(f"{THIS_FILE}:"), f"{name}: {node.call} at {node.line}"
                recorded.add(name)
    assert recorded >= {"relu", "Tensor.__iadd__", "Tensor.reshape", "nn.functional.relu", "linalg.norm"}
    assert len(recorded) > 0.8 * len(PUBLIC)


def test_activations_that_can_be_in_place_name_the_users_line() -> None:
    (relu,) = (row for row in nt.explain(F.relu(nt.ones(2, 3))) if row.op == "relu")
    assert relu.line.startswith(f"{THIS_FILE}:")
    with pytest.raises(nt.NpuTensorError, match=rf"recorded at {THIS_FILE}:"):
        F.relu(nt.ones(2) > 0)
