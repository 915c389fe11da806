"""Which elements of a tensor a transfer moves."""

from __future__ import annotations

import math


class TensorAccessPattern:
    """Nested loops from an offset. Leading dimensions of size 1 lose their stride."""

    def __init__(self, tensor_dims: tuple[int, ...], offset: int, sizes: list[int], strides: list[int]) -> None:
        if not 0 <= offset < math.prod(tensor_dims):
            raise ValueError(f"Offset {offset} is outside of the tensor {tensor_dims}")
        if not sizes or len(sizes) != len(strides):
            raise ValueError(f"len(sizes) ({len(sizes)}) != len(strides) ({len(strides)}), or they are empty")
        if any(size < 1 for size in sizes) or any(stride < 0 for stride in strides):
            raise ValueError(f"All sizes must be >= 1 and all strides >= 0, but got {sizes} and {strides}")
        self.offset = offset
        # Transfers copy them with a method that tuples do not have.
        self.sizes = sizes.copy()
        self.strides = strides.copy()
        for position, size in enumerate(sizes[:-1]):
            if size != 1:
                break
            self.strides[position] = 0
