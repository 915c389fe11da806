"""Family of products with quantized weights, which are streamed once while the rows of x stay in the cores.

x is rounded to bfloat16 and multiplied with the codes of the weights, whose scales are bfloat16 too; sums are float32.
This is more accurate than ggml's rounding of x to 8 bits. Few rows of x take as long as the transfer of the weights.
More rows are processed in turns, each with all weights. Small ops between products share their configuration; see
between_products.py.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from npu_tensor.dtypes import bfloat16
from npu_tensor.kernels.block_order import CORES
from npu_tensor.kernels.offer import HostOperand, Offer, Target, padded_shape
from npu_tensor.kernels.quantized import between_products
from npu_tensor.kernels.quantized.design import MOST_FEATURES, MOST_UNITS, QuantizedProblem, design
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

MOST_TURNS: Final = 64
"""Upper bound on turns per run. Beyond it the processor is faster: a core multiplies few numbers at once."""


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `linear_quantized`, or the reason why there is none."""
    x, weights = task.inputs
    assert task.call is not None
    assert x.layout is not None
    assert x.dtype is not None
    assert weights.dtype is not None
    assert weights.layout is not None
    dtype = weights.dtype.name
    if x.dtype is not bfloat16 and task.call.attributes["exact"] and target.float32 != "bfloat16":
        return Refusal(f"x would be rounded to bfloat16, the policy for float32 is {target.float32}")
    rows, features = weights.layout.shape
    tokens = math.prod(task.shape[:-1])
    if not features:
        return Refusal("a sum of no products")
    if features > MOST_FEATURES:
        return Refusal(f"rows of {features} features, and a core holds {MOST_FEATURES}")
    problem = QuantizedProblem(target.array.arch, target.columns, dtype, x.dtype.name, rows, features, tokens)
    order = problem.order
    if problem.turns > MOST_TURNS:
        return Refusal(f"the weights would stream by {problem.turns} times, more than {MOST_TURNS}")
    if order.units > MOST_UNITS or any(problem.results_of(part) is None for part in problem.parts if part.units):
        return Refusal(f"rows of {rows} results lie too far apart for the DMA")
    flat = joined(x.layout)
    result = Layout((tokens, rows), (rows, 1), task.outputs[0].layout.offset)
    operands = (
        HostOperand(0, False, flat, padded_shape(flat.shape, problem.x_elements), x.dtype.name, None),
        HostOperand(1, False, weights.layout, (order.nbytes,), "uint8", None, order=order),
        HostOperand(0, True, result, (tokens, problem.padded_rows), x.dtype.name),
    )
    within = partial(between_products.claim, order.format, target) if x.dtype is bfloat16 else None
    return Offer("quantized", _reason(problem), partial(design, problem), operands, coarse=True, claim_within=within)


def _reason(problem: QuantizedProblem) -> str:
    order = problem.order
    cores = CORES * min(len(problem.parts), order.units)
    parts = [f"{problem.weights} dequantized in {cores} cores", "x by bfloat16 numbers"]
    if problem.turns > 1:
        parts.append(f"the weights stream by {problem.turns} times, for {problem.share} rows of x each")
    return f"{'; '.join(parts)}; {order.nbytes} bytes of weights"
