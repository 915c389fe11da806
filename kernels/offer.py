"""What a kernel family answers to a task: a design for it and how tensors become its host buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from npu_tensor.kernels.block_order import BlockOrder
from npu_tensor.ops.declare import Layout
from npu_tensor.task import Fusion, Refusal

if TYPE_CHECKING:
    from npu_tensor.dataflow.array import Array
    from npu_tensor.dataflow.design import Design

__all__ = ["FUSION", "Bfloat16", "Float32", "HostOperand", "Offer", "Target", "Word", "padded_nbytes"]

FUSION: Final = Fusion(inputs=4, streams=2, prologues=False, residuals=False)
"""A design has at most five host buffers, one of them for the result, and a core two input channels."""

Float32 = Literal["exact", "emulate", "bfloat16"]
"""What may become of float32 and float16 on an array without arithmetic for them.

exact: nothing, the CPU computes it. emulate: products from several bfloat16 products, errors of a few float32 ulps.
bfloat16: operands are rounded to bfloat16, results are float32. float16 becomes bfloat16 unless it is exact.
"""

Bfloat16 = Literal["exact", "bfp16"]
"""How matrix products multiply bfloat16 numbers.

exact: as they are, with float32 sums. bfp16: on the generation that has block floats, eight numbers along K share an
exponent, with mantissas of 8 bits, which is several times as fast; the older one multiplies exactly in any case.
"""


LEAST_ROOM: Final = 32 << 10
MOST_ROOM: Final = 512 << 10
"""Bytes of whose multiples the host buffers of small and of large tensors are."""


def padded_nbytes(nbytes: int) -> int:
    """Bytes of the host buffer that a tensor of `nbytes` gets in an NPU's memory.

    A kernel may read and write so far without a copy of the tensor, also where another kernel has made it.
    """
    granule = min(max(1 << max(nbytes, 1).bit_length() - 1, LEAST_ROOM), MOST_ROOM)
    return -(-nbytes // granule) * granule


class Target(NamedTuple):
    """What a claim is for: a generation of the array, how many of its columns, policies for float32 and bfloat16."""

    array: Array
    columns: int
    float32: Float32 = "exact"
    bfloat16: Bfloat16 = "exact"


class HostOperand(NamedTuple):
    """How a tensor of a task fills a host buffer of a design, or comes from it.

    number: which of the task's inputs, or of its outputs if `output`; None for a scratch buffer.
    layout: where the elements lie in the tensor's own buffer; its shape is the shape of what is copied.
    padded: extents of the host buffer, C order, each at least that of `layout`. dtype: of the host buffer's elements;
    values are converted, rounding to nearest even. padding: value of the elements outside of `layout.shape`; None if
    it does not matter.
    indexes: name and extent where the values are indices; one that is not in [0, extent) is an IndexError.
    order: of the blocks of a quantized tensor, which the host brings into it. Then `padded` and `dtype` are bytes.
    """

    number: int | None
    output: bool
    layout: Layout
    padded: tuple[int, ...]
    dtype: str
    padding: float | None = 0
    indexes: tuple[str, int] | None = None
    order: BlockOrder | None = None


Word = Literal["int32", "bool", "float32"]
"""What a core reads a number as: an integer, whether it is not 0, or a float."""


class Offer(NamedTuple):
    """A kernel for a task.

    family: name of the kernel family. reason: how it does it, in words, for `explain`. design: makes the design, which
    passes every check; a partial with hashable arguments, if equal offers are to make it once. operands: one per host
    buffer of the design, in order. scalars: inputs of the task that are numbers; each becomes a word of every runtime
    parameter of the design, as an integer, as 0 or 1, or as the bits of a float32. coarse: whether operands lose digits
    that their dtype has, as block floats do in the core, and a product with quantized weights does on the CPU. others:
    make slower offers with other configurations, the faster ones first, for where this one's binary is missing and
    cannot be built.
    """

    family: str
    reason: str
    design: Callable[[], Design]
    operands: tuple[HostOperand, ...]
    scalars: tuple[tuple[int, Word], ...] = ()
    coarse: bool = False
    others: tuple[Callable[[], Offer | Refusal], ...] = ()
