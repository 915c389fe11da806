"""Elements stored or added at positions that tensors name; the input keeps its value."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.errors import DimensionError, ShapeError
from npu_tensor.functional.indexing import part_of, positions_along, put, require_mask, require_no_truncation
from npu_tensor.functional.register import Operand, composite, tensor_of
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import Tensor

__all__: list[str] = []


@composite()
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: bool = False) -> Tensor:
    """input with input[indices] replaced by values, or increased by them, those of equal positions by their sum."""
    if accumulate:
        require_no_truncation(input, tensor_of(values))
    return put(input, tuple(indices), values, accumulate=accumulate)


def _put_slices(input: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """input with the slices of source put at the positions `index` along dim, of which there must be one for each."""
    place = dimension(dim, input.ndim)
    if index.ndim > 1:
        raise DimensionError("index must be a vector")
    if not input.ndim and source.numel() == index.numel():  # One element is a vector too, as in PyTorch.
        return _put_slices(input.reshape(1), 0, index, source.reshape(index.numel()), accumulate).reshape(())
    expected = (*input.shape[:place], index.numel(), *input.shape[place + 1 :])
    if source.shape != expected:
        raise ShapeError(f"source must have the shape {list(expected)}, not {list(source.shape)}")
    require_no_truncation(input, source)
    places = (*[slice(None)] * place, index.reshape(index.numel()))
    return put(input, places, source, wrap=False, accumulate=accumulate)


@composite()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """input with the slices at the positions `index` along dim replaced by those of source."""
    return _put_slices(input, dim, index, source, accumulate=False)


@composite()
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """input with alpha times the slices of source added to those at the positions `index` along dim."""
    added = source if alpha == 1 else source * alpha
    return _put_slices(input, dim, index, added, accumulate=True)


@composite()
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src[i][j] added to [index[i][j]][j] for dim = 0, and likewise for the others."""
    positions = positions_along(input, dim, index)
    require_no_truncation(input, src)
    return put(input, positions, part_of(src, index), wrap=False, accumulate=True)


@composite()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in their order, where mask. Reads the mask."""
    require_mask(mask)
    require_no_truncation(input, source)
    mask = mask.expand(input.shape)
    count = int(mask.sum())
    if source.numel() < count:
        raise ShapeError(f"source has {source.numel()} elements for {count} places")
    return put(input, mask, source.reshape(source.numel()).narrow(0, 0, count))
