"""Element types: names, NumPy and GGML counterparts, promotion.

bfloat16 and float16 are stored in two bytes, computed in float32, and rounded once to nearest even when stored.
Subnormals are kept. Promotion follows PyTorch 2.x: Python numbers and zero-dimensional tensors are weak.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import ml_dtypes
import numpy as np

from npu_tensor.errors import DTypeError


class Category(IntEnum):
    """Categories of dtypes, in ascending order of precedence in promotion."""

    BOOL = 0
    INTEGER = 1
    FLOAT = 2
    QUANTIZED = 3  # Never promoted: only ops that are declared for it take it.


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """An element type. There is one object per type; compare with `is` or `==`.

    Attributes:
        name: Name, such as "bfloat16".
        short: GGML's name, such as "bf16", which kernel names use.
        numpy: NumPy's dtype.
        category: Bool, integer, float or quantized.
        ggml_type: Number in GGML's enum ggml_type, or None.
        npu: Support on an NPU, in words.
        register: Name of the type that it is computed in.
        block: Number of elements that are stored together; 1 except for quantized types.
        itemsize: Size of a block in bytes.
    """

    name: str
    short: str
    numpy: np.dtype[Any]
    category: Category
    ggml_type: int | None
    npu: str
    register: str
    block: int
    itemsize: int

    def __repr__(self) -> str:
        return f"npu_tensor.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, as `numpy`. NumPy and pandas read this attribute of foreign types."""
        return self.numpy

    @property
    def is_floating_point(self) -> bool:
        """True if it is a float type."""
        return self.category is Category.FLOAT

    @property
    def is_integer(self) -> bool:
        """True if it is an integer type; bool is not one."""
        return self.category is Category.INTEGER

    @property
    def is_quantized(self) -> bool:
        """True if its elements are stored in blocks with common scales."""
        return self.category is Category.QUANTIZED

    def nbytes(self, elements: int) -> int:
        """Return the size of elements in bytes; they must be whole blocks."""
        return elements // self.block * self.itemsize


_CPU: Final = "on the CPU, unless it is converted on the way"
_NATIVE: Final = "native"


def _dtype(
    name: str,
    short: str,
    kind: Any,
    category: Category,
    ggml_type: int | None = None,
    npu: str = _CPU,
    register: str = "",
    block: int = 1,
) -> DType:
    stored = np.dtype(kind)
    return DType(name, short, stored, category, ggml_type, npu, register or name, block, stored.itemsize)


bool_ = _dtype("bool", "bool", np.bool_, Category.BOOL, npu="as bytes, and as masks of the cores")
uint8 = _dtype("uint8", "u8", np.uint8, Category.INTEGER, npu="as bytes, computed as wider integers")
int8 = _dtype("int8", "i8", np.int8, Category.INTEGER, 24, _NATIVE)
int16 = _dtype("int16", "i16", np.int16, Category.INTEGER, 25, _NATIVE)
int32 = _dtype("int32", "i32", np.int32, Category.INTEGER, 26, _NATIVE)
int64 = _dtype("int64", "i64", np.int64, Category.INTEGER, 27)
bfloat16 = _dtype("bfloat16", "bf16", ml_dtypes.bfloat16, Category.FLOAT, 30, _NATIVE, "float32")
float16 = _dtype("float16", "f16", np.float16, Category.FLOAT, 1, "by conversion to bfloat16", "float32")
float32 = _dtype("float32", "f32", np.float32, Category.FLOAT, 0, "emulated, so slower than native types")
float64 = _dtype("float64", "f64", np.float64, Category.FLOAT, 28)

DTYPES: Final = (float32, bfloat16, float16, int8, int16, int32, float64, int64, uint8, bool_)

STRUCT_CODES: Final = {dtype: dtype.numpy.char for dtype in DTYPES if dtype is not bfloat16}
"""Format characters of the module `struct` for an element, which are NumPy's. It has none for bfloat16."""


def _quantized(name: str, ggml_type: int, block: int, *fields: tuple[Any, ...], npu: str = "on the CPU") -> DType:
    return _dtype(name, name, list(fields), Category.QUANTIZED, ggml_type, npu, block=block)


_WEIGHTS: Final = "as weights of products"
# The blocks of ggml-common.h. d: scale. m: value of code 0. qs: low bits of the codes. qh: high bits.
_D, _M, _NIBBLES, _FIFTH = ("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16), ("qh", "u1", 4)
_K_SCALES = (_D, ("dmin", "<f2"), ("scales", "u1", 12))
q4_0 = _quantized("q4_0", 2, 32, _D, _NIBBLES, npu=_WEIGHTS)
q4_1 = _quantized("q4_1", 3, 32, _D, _M, _NIBBLES, npu=_WEIGHTS)
q5_0 = _quantized("q5_0", 6, 32, _D, _FIFTH, _NIBBLES)
q5_1 = _quantized("q5_1", 7, 32, _D, _M, _FIFTH, _NIBBLES)
q8_0 = _quantized("q8_0", 8, 32, _D, ("qs", "i1", 32), npu=_WEIGHTS)
q4_k = _quantized("q4_k", 12, 256, *_K_SCALES, ("qs", "u1", 128))
q5_k = _quantized("q5_k", 13, 256, *_K_SCALES, ("qh", "u1", 32), ("qs", "u1", 128))
q6_k = _quantized("q6_k", 14, 256, ("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _D)
iq4_nl = _quantized("iq4_nl", 20, 32, _D, ("indices", "u1", 16))
mxfp4 = _quantized("mxfp4", 39, 32, ("e", "u1"), ("qs", "u1", 16))

QUANTIZED: Final = (q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, iq4_nl, mxfp4)
"""Quantized dtypes: weights in blocks with common scales, in ggml's formats; see `npu_tensor.ops.quantized`."""

FORMATS: Final = ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format", "strided")
"""Memory formats and layout of PyTorch, which functions accept and ignore."""


def stored_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Return the shape of the stored array. The last dimension of a quantized tensor counts blocks."""
    return shape if dtype.block == 1 else (*shape[:-1], shape[-1] // dtype.block)


_LOOKUP: dict[Any, DType] = {
    **{dtype.name: dtype for dtype in DTYPES},
    **{dtype.short: dtype for dtype in DTYPES},
    **{dtype.numpy: dtype for dtype in DTYPES},
    **{dtype: dtype for dtype in DTYPES},
    **{key: dtype for dtype in QUANTIZED for key in (dtype, dtype.name, dtype.numpy)},
    float: float64,  # PyTorch and NumPy do the same, although Python floats become float32.
    "float": float32,  # The C type of that name; NumPy's "float" is float64.
    int: int64,
    bool: bool_,
}

_NUMBER = {bool: bool_, int: int64, float: float32}
"""Dtypes of Python numbers without tensor operands."""


def as_dtype(value: Any) -> DType:
    """Return the DType for a DType, a name ("bf16", "float32"), a NumPy dtype or type, or float, int, bool.

    The byte order is ignored, because tensors have the processor's. As in PyTorch, Python's float is float64; the name
    "float" is float32.

    Raises:
        DTypeError: The value is none of these.
    """
    try:
        return _LOOKUP[value]
    except (KeyError, TypeError):
        pass
    try:
        return _LOOKUP[np.dtype(value).newbyteorder("=")]
    except (KeyError, TypeError, ValueError):  # ValueError comes from objects that NumPy inspects for a dtype.
        names = ", ".join(dtype.name for dtype in (*DTYPES, *QUANTIZED))
        raise DTypeError(f"{value!r} is not a dtype of npu_tensor; choose one of {names}") from None


def dtypes_table() -> str:
    """Return all dtypes, with their GGML names and their support on an NPU, as a Markdown table."""
    lines = ["| dtype | GGML | number | on an NPU |", "|---|---|---|---|"]
    for dtype in (*DTYPES, *QUANTIZED):
        name, ggml, number, npu = dtype.name, f"GGML_TYPE_{dtype.short.upper()}", dtype.ggml_type, dtype.npu
        lines.append(f"| {name} | {'' if number is None else ggml} | {'' if number is None else number} | {npu} |")
    return "\n".join(lines)


def default_dtype(number: type) -> DType:
    """Return the dtype of a Python bool, int or float without tensor operands."""
    return _NUMBER[number]


def set_default_float(dtype: DType) -> None:
    """Set the dtype of Python floats. The caller must drop cached calls."""
    _NUMBER[float] = dtype


_INTEGER_ORDER = (uint8, int8, int16, int32, int64)
_FLOAT_ORDER = (bfloat16, float16, float32, float64)


def promote_pair(a: DType, b: DType) -> DType:
    """Return the result dtype of two tensors with dimensions."""
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    pair = {a, b}
    if pair == {uint8, int8}:
        return int16
    if pair == {bfloat16, float16}:
        return float32
    order = _FLOAT_ORDER if a.is_floating_point else _INTEGER_ORDER
    return max(a, b, key=order.index)


def promote(tensors: Iterable[tuple[DType, int]], numbers: Iterable[type] = ()) -> DType:
    """Return the result dtype of tensors and Python numbers.

    Tensors with dimensions decide. Zero-dimensional tensors and numbers count only if their category (bool, integer,
    float) is higher, as in torch.result_type.

    Args:
        tensors: Dtype and number of dimensions of each tensor.
        numbers: Types of the Python numbers.

    Raises:
        DTypeError: There are no operands.
    """
    strong: DType | None = None
    zero_dimensional: DType | None = None
    for dtype, ndim in tensors:
        if ndim:
            strong = dtype if strong is None else promote_pair(strong, dtype)
        else:
            zero_dimensional = dtype if zero_dimensional is None else promote_pair(zero_dimensional, dtype)
    number: DType | None = None
    for kind in numbers:
        candidate = _NUMBER[kind]
        number = candidate if number is None else promote_pair(number, candidate)
    result = strong
    for weaker in (zero_dimensional, number):
        if weaker is not None and (result is None or weaker.category > result.category):
            result = weaker
    if result is None:
        raise DTypeError("promotion needs at least one operand")
    return result
