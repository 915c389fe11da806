"""Which elements of a tensor a transfer moves."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from .._standin.signatures import checked

__all__ = ["TensorAccessPattern"]


class TensorAccessPattern:
    """Nested loops from an offset. Leading dimensions of size 1 lose their stride."""

    @checked("TensorAccessPattern")
    def __init__(self, tensor_dims: Any, offset: int, sizes: Any, strides: Any) -> None:
        if len(tensor_dims) == 0 or any(extent <= 0 for extent in tensor_dims):
            raise ValueError(f"Each tensor dimension must be >= 1 (dimensions={tensor_dims})")
        if offset < 0 or offset >= np.prod(tensor_dims):
            raise ValueError(f"Offset {offset} is outside of the tensor {tensor_dims}")
        if not sizes or not strides or len(sizes) != len(strides):
            raise ValueError(f"len(sizes) ({len(sizes)}) != len(strides) ({len(strides)}), or they are empty")
        if any(size < 1 for size in sizes):
            raise ValueError(f"All sizes must be >= 1, but got {sizes}")
        if any(stride < 0 for stride in strides):
            raise ValueError(f"All strides must be >= 0, but got {strides}")
        self.tensor_dims = deepcopy(tensor_dims)
        self.offset = offset
        self._sizes = deepcopy(sizes)
        self._strides = deepcopy(strides)
        for position in range(len(sizes) - 1):
            if sizes[position] != 1:
                break
            if isinstance(self._strides, tuple):
                self._strides = list(self._strides)
            self._strides[position] = 0

    @property
    def sizes(self) -> Sequence[int]:
        """Outermost first."""
        return deepcopy(self._sizes)

    @property
    def strides(self) -> Sequence[int]:
        """Of the same order, in elements."""
        return deepcopy(self._strides)
