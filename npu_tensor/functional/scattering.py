"""Elements stored or added at positions that tensors name; the input keeps its value."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.errors import ShapeError
from npu_tensor.functional.indexing import positions_along, put
from npu_tensor.functional.register import Operand, composite
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import Tensor

__all__: list[str] = []


@composite()
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: bool = False) -> Tensor:
    """input with input[indices] replaced by values, or increased by them, those of equal positions by their sum."""
    return put(input, tuple(indices), values, accumulate=accumulate)


@composite()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """input with the slices at the positions `index` along dim replaced by those of source."""
    return put(input, (*[slice(None)] * dimension(dim, input.ndim), index), source, wrap=False)


@composite()
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """input with alpha times the slices of source added to those at the positions `index` along dim."""
    added = source if alpha == 1 else source * alpha
    return put(input, (*[slice(None)] * dimension(dim, input.ndim), index), added, wrap=False, accumulate=True)


@composite()
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src[i][j] added to [index[i][j]][j] for dim = 0, and likewise for the others."""
    part = src[tuple(slice(extent) for extent in index.shape)]
    return put(input, positions_along(input, dim, index), part, wrap=False, accumulate=True)


@composite()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in their order, where mask. Reads the mask."""
    mask = mask.expand(input.shape)
    count = int(mask.sum())
    if source.numel() < count:
        raise ShapeError(f"source has {source.numel()} elements for {count} places")
    return put(input, mask, source.reshape(source.numel()).narrow(0, 0, count))
