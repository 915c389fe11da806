"""GGML's functions for images and diffusion models: im2col, windows, relative positions, time steps."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor import ops
from npu_tensor.errors import ShapeError
from npu_tensor.functions.convolution import Sizes, columns_of
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import pad
from npu_tensor.tensor import Tensor, from_array


@composite(method=False, ggml="IM2COL, IM2COL_3D")
def im2col(
    input: Tensor, kernel_size: tuple[int, ...], stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1
) -> Tensor:
    """Gather the elements under a kernel at each of its positions.

    Args:
        input: Tensor (batch, channels, *places).
        kernel_size: Extent of the kernel in each of one to three place dimensions.

    Returns:
        Tensor (batch, *positions, channels * elements of the kernel).

    >>> nt.im2col(nt.arange(9.0).reshape(1, 1, 3, 3), (2, 2))
    """
    places = len(kernel_size)
    if input.ndim != places + 2:
        raise ShapeError(f"needs (batch, channels, *places) with {places} places, not {list(input.shape)}")
    columns = columns_of(input, kernel_size, stride, padding, dilation)  # (batch, channels, *kernel, *positions)
    first = columns.ndim - places
    positions = columns.shape[first:]
    columns = columns.permute(0, *range(first, columns.ndim), *range(1, first))
    return columns.reshape(input.shape[0], *positions, input.shape[1] * math.prod(kernel_size))


@composite(method=False, ggml="WIN_PART")
def win_part(input: Tensor, window: int) -> Tensor:
    """Split (height, width, features) into squares, row by row: (windows, window, window, features).

    Zeros fill the last squares.

    >>> nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2).shape
    """
    if input.ndim != 3 or window < 1:
        raise ShapeError("needs (height, width, features) and a window of 1 or more")
    height, width, features = input.shape
    padded = pad(input, (0, 0, 0, -width % window, 0, -height % window))
    down, across = (extent // window for extent in padded.shape[:2])
    squares = padded.reshape(down, window, across, window, features).permute(0, 2, 1, 3, 4)
    return squares.reshape(down * across, window, window, features)


@composite(method=False, ggml="WIN_UNPART")
def win_unpart(input: Tensor, width: int, height: int, window: int) -> Tensor:
    """Join the windows of `win_part` to an image (height, width, features).

    >>> nt.win_unpart(nt.win_part(nt.arange(6.0).reshape(2, 3, 1), 2), 3, 2, 2).shape
    """
    down, across = -(-height // window), -(-width // window)
    if input.ndim != 4 or input.shape[:3] != (down * across, window, window):
        raise ShapeError(f"needs ({down * across}, {window}, {window}, features), not {list(input.shape)}")
    rows = input.reshape(down, across, window, window, input.shape[3]).permute(0, 2, 1, 3, 4)
    return rows.reshape(down * window, across * window, input.shape[3])[:height, :width]


@composite(method=False, ggml="GET_REL_POS")
def get_rel_pos(input: Tensor, queries: int, keys: int) -> Tensor:
    """Return the embedding of the distance of each query and key.

    Args:
        input: Embeddings (distances, features). There are 2 * max(queries, keys) - 1 distances, beginning with the key
            that is farthest ahead.
        queries: Number of queries.
        keys: Number of keys.

    Returns:
        Tensor (queries, keys, features).

    >>> nt.get_rel_pos(nt.arange(3.0).reshape(3, 1), 2, 2)
    """
    if input.ndim != 2 or input.shape[0] != 2 * max(queries, keys) - 1:
        raise ShapeError(f"needs ({2 * max(queries, keys) - 1}, features), not {list(input.shape)}")
    distances = np.arange(queries)[:, None] - np.arange(keys) + keys - 1
    return ops.take_op(input, from_array(distances.astype(np.int64)), 0)


@composite(method=False, ggml="ADD_REL_POS")
def add_rel_pos(input: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Add a bias for the distance in each direction to attention scores of images.

    Args:
        input: Scores (heads, queries, keys). The keys are all places (height, width), row by row.
        across: Bias (heads, query rows, query columns, width), added to every row of keys.
        down: Bias (heads, query rows, query columns, height), added to every column of keys.

    >>> nt.add_rel_pos(nt.zeros(1, 4, 4), nt.ones(1, 2, 2, 2), nt.ones(1, 2, 2, 2))
    """
    if across.ndim != 4 or down.ndim != 4 or across.shape[:3] != down.shape[:3]:
        raise ShapeError("needs biases (heads, query rows, query columns, places), alike but for the last dimension")
    heads, rows, columns, width = across.shape
    height = down.shape[3]
    if input.shape != (heads, rows * columns, height * width):
        raise ShapeError(f"input must be {[heads, rows * columns, height * width]}, not {list(input.shape)}")
    scores = input.reshape(heads, rows, columns, height, width)
    return (scores + across.unsqueeze(-2) + down.unsqueeze(-1)).reshape(input.shape)


@composite(method=False, ggml="TIMESTEP_EMBEDDING")
def timestep_embedding(timesteps: Tensor, dim: int, max_period: int = 10000) -> Tensor:
    """Return cosines and then sines of time steps at dim/2 frequencies from 1 down to 1/max_period.

    Args:
        timesteps: Floats (n).
        dim: Number of features. The last one of an odd number is 0.
        max_period: Period of the lowest frequency.

    Returns:
        Tensor (n, dim).

    >>> nt.timestep_embedding(nt.tensor([0.0, 1.0]), 4)
    """
    if timesteps.ndim != 1 or dim < 2:
        raise ShapeError(f"needs (n,) and a dim of 2 or more, not {list(timesteps.shape)} and {dim}")
    half = dim // 2
    frequencies = np.exp(-math.log(max_period) * np.arange(half) / half).astype(np.float32)
    angles = timesteps.float().unsqueeze(1) * from_array(frequencies)
    return pad(ops.concat_op(angles.cos(), angles.sin(), dim=1), (0, dim % 2))
