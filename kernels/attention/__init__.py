"""Family of scaled dot-product attention, whose scores stay in the cores.

Operands are bfloat16. Scores, maxima and sums are float32, and weights are rounded to bfloat16 before they multiply the
values. Heads of one query are rows of one tile if they share keys.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from npu_tensor.dataflow.checks.limits import LIMITS, WORD
from npu_tensor.dataflow.columns import divide
from npu_tensor.dtypes import bfloat16, float16, float32
from npu_tensor.kernels.attention.design import (
    CORES,
    STRIP,
    AttentionOperands,
    AttentionProblem,
    AttentionTiles,
    design,
)
from npu_tensor.kernels.codegen.storage import rounding_refusal
from npu_tensor.kernels.gemm import MOST_TRANSFERS
from npu_tensor.kernels.offer import HostOperand, Located, Offer, Target, in_place, packed
from npu_tensor.ops.declare import Layout
from npu_tensor.task import Refusal, Task, TensorInput

__all__ = ["FEATURES", "claim"]

FEATURES: Final = {64: (64, 32), 96: (32, 32), 128: (32, 16)}
"""Queries of a core and keys of a block that fit its memory, by features of a head."""


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `attention` on bfloat16, and on float16 and float32 if they may be rounded to bfloat16."""
    query, key, value, *masks = task.tensors
    for each in (query, key, value):
        if (refusal := rounding_refusal("attention", each.dtype, target)) is not None:
            return refusal
    q, k, v = (each.layout for each in (query, key, value))
    features, scale = q.shape[3], float(task.attributes["scale"])
    if features not in FEATURES or v.shape[3] != features:
        sizes = ", ".join(map(str, FEATURES))
        return Refusal(f"attention: heads of {features} and {v.shape[3]} features, and kernels have {sizes}")
    if not k.shape[2]:
        return Refusal("attention: no keys")
    if not 2**-64 < scale < 2**64:
        return Refusal(f"attention: a scale of {scale:g}")
    softcap = float(task.attributes["softcap"])
    # The error of a capped score is 2^-15 of the cap.
    if softcap and not 2**-20 < softcap < 2**10:
        return Refusal(f"attention: a soft cap of {softcap:g}")
    if masks and masks[0].dtype is not float32:
        return Refusal("attention: a mask of bool, and the kernel adds float32")
    groups = k.shape[1]
    q, result = (_grouped(layout, groups) for layout in (q, _swapped(task.outputs[0].layout)))
    mask = _grouped(_expanded(masks[0].layout, q.shape, groups, k.shape[2]), groups) if masks else None
    is_causal = task.attributes["is_causal"]
    if q.shape[3] == 1 and not is_causal:
        # One query per head: the heads that share keys are rows of one tile.
        q, result = (_folded(layout) for layout in (q, result))
        mask = mask and _folded(mask)
    tiles = _tiles(task, target, features, q.shape[3], k.shape[2], bool(masks), is_causal)
    extents = (q.shape[0], groups, q.shape[2])
    problem = _problem(tiles, extents, q.shape[3], k.shape[2], scale, is_causal, softcap, target.columns)
    if problem.transfers > MOST_TRANSFERS:
        return Refusal(f"attention: {problem.transfers} transfers in one run; {MOST_TRANSFERS} are the most")
    per_key = [Layout((*x.shape[:2], 1, *x.shape[2:]), (*x.strides[:2], 0, *x.strides[2:]), x.offset) for x in (k, v)]
    rows, written_rows = (1 if problem.repeats(rows) else rows for rows in (tiles.least_queries, tiles.round_rows))
    keys = tiles.round_keys
    reads = [
        _read(number, task.tensors[number], layout, least)
        for number, (layout, least) in enumerate(zip((q, *per_key), (rows, keys, keys), strict=True))
    ]
    if mask:
        reads.append(_mask(mask, problem))
    operands, (query_heads, key_heads, value_heads, *addends) = zip(*reads, strict=True)
    written, places = _written(result, written_rows, tiles.result)
    located = AttentionOperands(query_heads, key_heads, value_heads, addends[0] if mask else None, places)
    # The longest strides lead from core to core and from block to block.
    farthest = max(each.row * 4 for each in located if each) * max(tiles.rows, keys)
    if farthest > LIMITS["shim"].stride * WORD:
        return Refusal("attention: rows lie too far apart for the DMA")
    cores = 4 * problem.tiles.columns
    reason = f"tiles of {tiles.rows} queries by {tiles.keys} keys on {cores} cores, scores stay there"
    return Offer(
        "attention",
        reason,
        partial(design, problem, located),
        (*operands, written),
        coarse=tiles.operand == "bfp16",
    )


def _swapped(layout: Layout) -> Layout:
    """Return the layout of the result (batch, queries, heads, features) with the heads before the queries."""
    (a, b, c, d), (i, j, k, m) = layout.shape, layout.strides
    return Layout((a, c, b, d), (i, k, j, m), layout.offset)


def _grouped(layout: Layout, groups: int) -> Layout:
    """Split the heads into those of each key head: (batch, key head, head, row, column)."""
    (batch, heads, rows, columns), (i, j, k, m) = layout.shape, layout.strides
    return Layout((batch, groups, heads // groups, rows, columns), (i, j * (heads // groups), j, k, m), layout.offset)


def _expanded(layout: Layout, shape: tuple[int, ...], groups: int, keys: int) -> Layout:
    """Return the layout of a mask that is broadcast to the scores."""
    full = (shape[0], groups * shape[2], shape[3], keys)
    strides = tuple(0 if extent == 1 else stride for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return Layout(full, strides, layout.offset)


def _folded(layout: Layout) -> Layout:
    """Make the heads of a key head rows of one."""
    (batch, groups, heads, _, columns), (i, j, k, _, m) = layout.shape, layout.strides
    return Layout((batch, groups, 1, heads, columns), (i, j, 0, k, m), layout.offset)


def _tiles(
    task: Task, target: Target, features: int, rows: int, keys: int, masked: bool, is_causal: bool
) -> AttentionTiles:
    most, block = FEATURES[features]
    capped = bool(task.attributes["softcap"])
    # The program memory has no room for merging beside a mask and a cap.
    splits = rows <= STRIP and keys >= 4 * block and not is_causal and not (masked and capped)
    operand = "bfp16" if target.bfloat16 == "bfp16" and "bfp16" in target.array.blocks else "bfloat16"
    result = "float32" if task.outputs[0].dtype in (float32, float16) else "bfloat16"
    # With fewer rows than four cores compute at once, the host would pad the operands.
    height = STRIP if rows < CORES * most else most
    return AttentionTiles(target.array.arch, operand, result, features, height, block, masked, capped, splits, 0)


def _problem(
    tiles: AttentionTiles,
    batch: tuple[int, int, int],
    queries: int,
    keys: int,
    scale: float,
    is_causal: bool,
    softcap: float,
    columns: int,
) -> AttentionProblem:
    """Divide the columns among heads and queries."""
    heads, shares = map(int, divide(columns, math.prod(batch), -(-queries // tiles.round_rows)))
    tiles = tiles._replace(columns=heads * shares)
    return AttentionProblem(tiles, batch, queries, keys, scale, is_causal, softcap, heads)


def _read(number: int, operand: TensorInput, layout: Layout, least: int) -> tuple[HostOperand, Located]:
    """Return the host buffer of an operand, in place if the DMA can walk it and there are enough rows."""
    *_, rows, features = layout.shape
    *steps, row, column = layout.strides
    even = all(step >= 0 and step % 2 == 0 for step in (layout.offset, row, *steps))
    host = HostOperand(number, False, layout, (*layout.shape[:3], max(rows, least), features), "bfloat16")
    if operand.dtype is bfloat16 and column == 1 and even and rows >= least:
        return in_place(host)
    return _packed(host)


def _packed(host: HostOperand) -> tuple[HostOperand, Located]:
    """Return a buffer that the host packs. A head that serves several queries has an extent of 1."""
    host, located = packed(host)
    heads = [step if extent > 1 else 0 for extent, step in zip(host.padded[:3], located.strides, strict=False)]
    return host, located._replace(strides=(*heads, located.row))


def _mask(layout: Layout, problem: AttentionProblem) -> tuple[HostOperand, Located]:
    """Return the host buffer of the mask. Broadcast dimensions are stored once, and rows extend to whole objects."""
    held = Layout(
        tuple(extent if step else 1 for extent, step in zip(layout.shape[:3], layout.strides, strict=False))
        + layout.shape[3:],
        layout.strides,
        layout.offset,
    )
    tiles = problem.tiles
    width = problem.block_start(problem.blocks - 1) + tiles.round_keys - tiles.keys + tiles.mask_row
    padded = (*held.shape[:3], max(layout.shape[3], tiles.least_queries), -(-max(width, problem.keys) // 4) * 4)
    return _packed(HostOperand(3, False, held, padded, "float32"))


def _written(layout: Layout, least: int, dtype: str) -> tuple[HostOperand, Located]:
    """Return the host buffer of the result, whose rows are contiguous: (batch, key head, head, row, features)."""
    batch, groups, heads, rows, features = layout.shape
    if rows >= least:
        size = math.prod(layout.shape)
        host = HostOperand(0, True, Layout((size,), (1,), layout.offset), (size,), dtype)
        return host, Located(0, layout.strides[:4], size)
    return _packed(HostOperand(0, True, layout, (batch, groups, heads, least, features), dtype))
