"""Elements stored or added at positions that tensors name; the input keeps its value."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.errors import DimensionError, ShapeError
from npu_tensor.functions.indexing import put, require_mask, require_same_dtype, scatter, with_dimension
from npu_tensor.functions.register import Operand, composite, tensor_of
from npu_tensor.ops.rules import dimension, index_dtype
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor

__all__: list[str] = []


@composite(in_place=True)
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: bool = False) -> Tensor:
    """input with input[indices] replaced by values, or increased by them, those of equal positions by their sum.

    >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))
    """
    if accumulate or isinstance(values, Tensor):
        require_same_dtype(input, tensor_of(values))
    return put(input, tuple(indices), values, reduce="add" if accumulate else "")


def _put_slices(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str = "") -> Tensor:
    """input with the slices of source put at the positions `index` along dim, of which there must be one for each."""
    shape, input, source = input.shape, with_dimension(input), with_dimension(source)
    place = dimension(dim, input.ndim)
    if index.ndim > 1:
        raise DimensionError("index must be a vector")
    expected = (*input.shape[:place], index.numel(), *input.shape[place + 1 :])
    if source.shape != expected:
        raise ShapeError(f"source must have the shape {list(expected)}, not {list(source.shape)}")
    require_same_dtype(input, source)
    index_dtype(index.dtype)
    places = (*[slice(None)] * place, index.reshape(index.numel()))
    result = put(input, places, source, wrap=False, reduce=reduce)
    return result if shape else result.reshape(shape)


@composite(in_place=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """input with the slices at the positions `index` along dim replaced by those of source.

    >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))
    """
    return _put_slices(input, dim, index, source)


@composite(in_place=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """input with alpha times the slices of source added to those at the positions `index` along dim.

    >>> nt.index_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))
    """
    added = source if alpha == 1 else source * alpha
    return _put_slices(input, dim, index, added, "add")


@composite(in_place=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src[i][j] added to [index[i][j]][j] for dim = 0, and likewise for the others.

    >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))
    """
    return scatter(input, dim, index, src, reduce="add")


@composite(in_place=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """input with the elements of source, in their order, where mask. Reads the mask.

    >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))
    """
    require_mask(mask)
    require_same_dtype(input, source)
    shape = broadcast_shapes(input.shape, mask.shape)
    input, mask = input.expand(shape), mask.expand(shape)
    count = int(mask.sum())
    if source.numel() < count:
        raise ShapeError(f"source has {source.numel()} elements for {count} places")
    return put(input, mask, source.reshape(source.numel()).narrow(0, 0, count))
