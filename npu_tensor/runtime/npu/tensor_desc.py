"""TensorDesc: extents, dtype and strides of a tensor in GGML's notation, `(1024,768,1,1)/bf16`.

    TensorDesc.parse("(4,8,1,1)/f32/(8,1,1,1)").nb == (32, 4, 32, 32)

The text is that of ggml-hsa's kernel configurations: four extents, innermost first, a dtype and, unless the tensor is
contiguous, four strides. Strides are in elements in the text and in bytes in `nb`, as in GGML.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor._util.user_warnings import warn
from npu_tensor.dtypes import DTYPES, QUANTIZED, DType
from npu_tensor.errors import ArgumentError, ShapeError

DIMENSIONS: Final = 4
"""Dimensions of every GGML tensor. Unused ones have extent 1."""

MAX_BYTES: Final = 1 << 37
"""Maximum span of a tensor: 128 GiB, the memory of the largest machines with such an NPU."""

LONGEST_TEXT: Final = 200
"""Maximum characters of a descriptor. One with four strides of MAX_BYTES has about 120."""

_DTYPES: Final = {dtype.short: dtype for dtype in (*DTYPES, *QUANTIZED)}

Four = tuple[int, int, int, int]


class TensorDesc(NamedTuple):
    """Description of a tensor in GGML's terms. Create it with `of` or `parse`.

    Attributes:
        ne: Extents, innermost first, each at least 1.
        dtype: Dtype of the elements.
        nb: Strides in bytes, each at least one element (quantized dtypes: one block). Along extents of 1 they are those
            of a contiguous tensor.
    """

    ne: Four
    dtype: DType
    nb: Four

    @classmethod
    def of(cls, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> TensorDesc:
        """Create a descriptor from a shape and strides in elements, both in NumPy's order.

        Args:
            shape: Extents.
            dtype: Dtype of the elements.
            strides: Strides in elements; contiguous without them.

        Raises:
            ShapeError: There are more than four dimensions, or another number of strides.
            ArgumentError: An extent or stride is not an integer of at least 1, a row is not a multiple of the block,
                or the tensor spans more than MAX_BYTES.
        """
        shape = _integers("extents", shape)
        strides = strides if strides is None else _integers("strides", strides)
        if strides is not None and len(strides) != len(shape):
            raise ShapeError(f"{list(shape)} needs as many strides, not {list(strides)}")
        if len(shape) > DIMENSIONS:
            raise ShapeError(f"GGML tensors have at most {DIMENSIONS} dimensions, {list(shape)} has {len(shape)}")
        if min(shape, default=1) < 1:
            raise ArgumentError(f"GGML tensors have extents of 1 or more, not {list(shape)}")
        ne = [*reversed(shape), *(1,) * (DIMENSIONS - len(shape))]
        explicit = [*reversed(strides), *(1,) * (DIMENSIONS - len(shape))] if strides is not None else None
        steps: list[int] = []
        for axis, extent in enumerate(ne):
            dense = steps[-1] * ne[axis - 1] if steps else 1
            step = explicit[axis] if explicit is not None and extent > 1 else dense
            if step < 1:
                raise ArgumentError(f"GGML tensors have strides of one element or more, not {step}")
            steps.append(step)
        if any(rows % dtype.block for rows in (ne[0], *steps[1:])):
            raise ArgumentError(f"the rows of {list(shape)} {dtype.name} are not whole blocks of {dtype.block}")
        span = 1 + sum((extent - 1) * step for extent, step in zip(ne, steps, strict=True))
        if dtype.nbytes(max(span, math.prod(ne))) > MAX_BYTES:
            raise ArgumentError(f"a tensor of {list(shape)} {dtype.name} spans more than {MAX_BYTES} bytes")
        second, third, fourth = map(dtype.nbytes, steps[1:])
        return cls((ne[0], ne[1], ne[2], ne[3]), dtype, (steps[0] * dtype.itemsize, second, third, fourth))

    @classmethod
    def parse(cls, text: str) -> TensorDesc:
        """Parse `(dim0,dim1,dim2,dim3)/dtype[/(stride0,stride1,stride2,stride3)]`.

        Spaces around numbers and parts are allowed. Elements may overlap, as in GGML; strides are positive. Warns if
        strides look like bytes.

        Raises:
            ArgumentError: The text is malformed.
        """
        return _parsed(text)

    @property
    def shape(self) -> Four:
        """Extents in NumPy's order, outermost first."""
        return self.ne[3], self.ne[2], self.ne[1], self.ne[0]

    @property
    def strides(self) -> Four:
        """Strides in elements, in NumPy's order."""
        first, second, third = (step // self.dtype.itemsize * self.dtype.block for step in reversed(self.nb[1:]))
        return first, second, third, self.nb[0] // self.dtype.itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.ne)

    @property
    def span(self) -> int:
        """Elements of the buffer from the first to the last element of the tensor."""
        return 1 + sum((extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True))

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are contiguous. Strides along extents of 1 are ignored."""
        return self.nb == TensorDesc.of(self.shape, self.dtype).nb

    @property
    def short(self) -> str:
        """Notation in kernel names: extents up to the last one above 1, dtype, and n if it is not contiguous."""
        used = max((axis for axis, extent in enumerate(self.ne) if extent > 1), default=0)
        extents = "x".join(map(str, self.ne[: used + 1]))
        return f"{extents}{self.dtype.short}{'' if self.is_contiguous else 'n'}"

    def __str__(self) -> str:
        text = f"({','.join(map(str, self.ne))})/{self.dtype.short}"
        return text if self.is_contiguous else f"{text}/({','.join(map(str, reversed(self.strides)))})"


def _integers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise ArgumentError(f"the {what} of a tensor are integers, one for each dimension, not {values!r}") from None


# --- parsing


_NUMBER: Final = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*", re.ASCII)


def _parsed(text: str) -> TensorDesc:
    if not isinstance(text, str):
        raise ArgumentError(f"a tensor descriptor is a text such as (1024,768,1,1)/bf16, not {text!r}")
    shown = text if text.isprintable() else ascii(text)[1:-1]
    if len(shown) > LONGEST_TEXT:
        raise ArgumentError(f"Invalid tensor descriptor: {shown[:40]}... (longer than {LONGEST_TEXT} characters)")
    parts = [part.strip(" \t") for part in text.split("/")]
    if len(parts) not in (2, 3):
        raise ArgumentError(f"Invalid tensor descriptor: {shown} (expected format: (dim0,dim1,dim2,dim3)/dtype)")
    shape = _four("Shape", parts[0], shown)
    name = parts[1]
    if not name:
        raise ArgumentError(f"Invalid tensor descriptor: {shown} (missing dtype)")
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise ArgumentError(f"Invalid tensor descriptor: {shown} (no dtype {name!r}; there are {', '.join(_DTYPES)})")
    strides = _four("Stride", parts[2], shown) if len(parts) == 3 else None
    try:
        desc = TensorDesc.of(shape[::-1], dtype, strides and strides[::-1])
    except ArgumentError as error:
        raise ArgumentError(f"Invalid tensor descriptor: {shown} ({error})") from None
    if strides is not None and strides[0] == dtype.itemsize != 1:
        warn(
            f"{shown}: strides are in elements; the first one, {strides[0]}, is the size of one {name} in bytes, so "
            "these may be bytes",
            UserWarning,
        )
    return desc


def _four(kind: str, part: str, shown: str) -> list[int]:
    """Parse four positive integers in parentheses."""
    if not (len(part) > 1 and part[0] == "(" and part[-1] == ")"):
        raise ArgumentError(f"Invalid {kind.lower()} format in {shown}: {kind.lower()} must be enclosed in parentheses")
    values = []
    for number in part[1:-1].split(","):
        if _NUMBER.fullmatch(number) is None:
            problem = f"{number.strip()!r} is not an integer"
            raise ArgumentError(f"Invalid {kind.lower()} values in {shown}: {problem}")
        value = int(number)
        if not 1 <= value <= MAX_BYTES:
            raise ArgumentError(f"Invalid {kind.lower()} values in {shown}: {value} is not in 1 to {MAX_BYTES}")
        values.append(value)
    if len(values) != DIMENSIONS:
        raise ArgumentError(f"{kind} must have exactly {DIMENSIONS} dimensions, got {len(values)} in {shown}")
    return values
