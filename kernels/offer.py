"""Offers of kernel families: a design for a task, and the mapping of its tensors to host buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import numpy as np

from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Fusion, Refusal

if TYPE_CHECKING:
    from npu_tensor.dataflow.array import Array
    from npu_tensor.dataflow.design import Design
    from npu_tensor.task import Task

FUSION: Final = Fusion(inputs=4, streams=2, prologues=False, residuals=("conv",))
"""Limits of fusion.

A design has at most five host buffers, one of them for the result, and a core two input channels.
"""

Float32 = Literal["exact", "emulate", "bfloat16"]
"""Policy for float32 and float16 on an array without arithmetic for them.

- exact: the CPU computes them.
- emulate: products are sums of several bfloat16 products, with errors of a few float32 ulps.
- bfloat16: operands are rounded to bfloat16, results are float32.

float16 is converted to bfloat16 unless the policy is exact.
"""

Bfloat16 = Literal["exact", "bfp16"]
"""Policy for matrix products of bfloat16 numbers.

- exact: multiply them unchanged, with float32 sums.
- bfp16: on the generation with block floats, eight numbers along K share an exponent, with 8-bit mantissas. This is
  several times as fast. The older generation always multiplies exactly.
"""

Functions = Literal["exact", "approximate"]
"""Policy for exp, tanh, sigmoids and gelu, whose results element-wise kernels round to bfloat16.

- exact: compute polynomials of float32.
- approximate: compute short polynomials of bfloat16 numbers, with errors of about one in a hundred. The generation with
  instructions for exp2 and tanh uses these, with errors of a few in a hundred. Exponentials of the older one are exact.
"""

LEAST_ROOM: Final = 32 << 10
MOST_ROOM: Final = 512 << 10
"""Minimum and maximum granularity of host buffers in bytes, for small and for large tensors."""


def padded_nbytes(nbytes: int) -> int:
    """Compute the bytes of the host buffer for a tensor of `nbytes` in an NPU's memory.

    A kernel may access this range without copying the tensor, even if another kernel produced it.
    """
    granule = min(max(1 << max(nbytes, 1).bit_length() - 1, LEAST_ROOM), MOST_ROOM)
    return -(-nbytes // granule) * granule


def padded_shape(shape: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Return a shape whose outermost extent is increased until it has at least `elements`."""
    return (max(shape[0], -(-elements // math.prod(shape[1:]))), *shape[1:])


class Target(NamedTuple):
    """Target of a claim: generation of the array, number of columns, policies for dtypes and functions."""

    array: Array
    columns: int
    float32: Float32 = "exact"
    bfloat16: Bfloat16 = "exact"
    functions: Functions = "exact"


class Order(Protocol):
    """Hashable order of elements in a host buffer, which the host applies."""

    def write(self, elements: np.ndarray[Any, Any], memory: np.ndarray[Any, Any], /) -> None:
        """Fill the host buffer (bytes) from the flat buffer of the tensor."""


class HostOperand(NamedTuple):
    """Mapping between a tensor of a task and a host buffer of a design.

    Attributes:
        number: Index among the task's inputs, or its outputs if `output`; None for a scratch buffer.
        output: True if the tensor is an output of the task.
        layout: Location of the elements in the tensor's own buffer. Its shape is the shape of the copied part.
        padded: Extents of the host buffer in C order, each at least that of `layout`.
        dtype: Dtype of the host buffer. Values are converted, rounding to nearest even.
        padding: Value of the elements outside of `layout.shape`; None if it does not matter.
        indexes: Name and extent if the values are indices. An index outside [0, extent) is an IndexError.
        order: Order of the elements if it is not that of `layout`.
    """

    number: int | None
    output: bool
    layout: Layout
    padded: tuple[int, ...]
    dtype: str
    padding: float | None = 0
    indexes: tuple[str, int] | None = None
    order: Order | None = None


class Located(NamedTuple):
    """Location of a tensor in its host buffer, in elements. Its last dimension is contiguous.

    Attributes:
        offset: Position of the first element.
        strides: Distances along the dimensions before the last; 0 for one that is repeated.
        elements: Elements of the buffer.
    """

    offset: int
    strides: tuple[int, ...]
    elements: int

    @property
    def row(self) -> int:
        """Distance between rows."""
        return self.strides[-1]

    def at(self, *place: int) -> int:
        """Return the position of an element. Places along the last dimensions may be left out."""
        return self.offset + sum(number * stride for number, stride in zip(place, self.strides, strict=False))


def in_place(host: HostOperand, elements: int = 0) -> tuple[HostOperand, Located]:
    """Use the tensor's own buffer, of at least `elements`, in place of one that the host packs."""
    used, layout = host.layout.bounds[1] + 1, host.layout
    host = host._replace(layout=Layout((used,), (1,)), padded=(max(used, elements),), padding=None)
    return host, Located(layout.offset, layout.strides[:-1], host.padded[0])


def packed(host: HostOperand) -> tuple[HostOperand, Located]:
    """Return a host buffer that the host packs, and the location of the tensor there."""
    return host, Located(0, contiguous_strides(host.padded)[:-1], math.prod(host.padded))


Word = Literal["int32", "bool", "float32"]
"""Type in which a core reads a number: an integer, a truth value, or a float."""


class Offer(NamedTuple):
    """Kernel that a family has for a task.

    Attributes:
        family: Name of the kernel family.
        reason: Description of the kernel for `explain`.
        design: Factory of the design, which passes every check. A partial with hashable arguments lets equal offers
            build it once.
        operands: One operand per host buffer of the design, in order.
        scalars: Inputs of the task that are numbers. Each becomes a word of every runtime parameter of the design: an
            integer, 0 or 1, or the bits of a float32.
        coarse: True if operands lose digits of their dtype, as block floats do in the core, and a product with
            quantized weights does on the CPU; or if functions are approximate.
        others: Factories of slower offers with other configurations, fastest first, for a missing binary that cannot be
            built.
        claim_within: Claim of other tasks, such as those between two products, in the configuration of this offer. None
            if it computes nothing else.
    """

    family: str
    reason: str
    design: Callable[[], Design]
    operands: tuple[HostOperand, ...]
    scalars: tuple[tuple[int, Word], ...] = ()
    coarse: bool = False
    others: tuple[Callable[[], Offer | Refusal], ...] = ()
    claim_within: Callable[[Task], Offer | None] | None = None


def first_offer(factories: Iterable[Callable[[], Offer | Refusal]]) -> Offer | Refusal:
    """Return the first offer, with the other factories in its `others`; a refusal of the first one is final."""
    first, *others = factories
    offer = first()
    return offer._replace(others=tuple(others)) if isinstance(offer, Offer) else offer
