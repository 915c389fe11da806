"""Operands of ONNX's operators: tensors, and arrays that are known while the graph is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES
from npu_tensor.errors import ArgumentError, CaptureError, DTypeError, NpuTensorError
from npu_tensor.nn import functional
from npu_tensor.observe.printing import brief
from npu_tensor.tensor import Tensor

F: Any = functional
Array = np.ndarray[Any, Any]
Value = Tensor | Array | None
"""An operand: a tensor, an array if it is known while the graph is recorded, or None if it is left out."""

MOST_FOLDED: Final = 1 << 22
"""Elements of an array that is created while the graph is recorded. Larger values are tensors."""

DTYPE_NAMES: Final = (
    *("undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16"),
    *("float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2"),
)
"""Names of ONNX's dtypes, by number."""


def array_dtype(number: int) -> np.dtype[Any]:
    """Return NumPy's dtype of one of ONNX's."""
    name = DTYPE_NAMES[number] if 0 <= number < len(DTYPE_NAMES) else f"number {number}"
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise DTypeError(f"there is no dtype {name}") from None


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ONNX.

    Attributes:
        function: Function of tensors, with attributes as keywords.
        constants: Positions of operands that determine shapes. The function gets them as arrays; tensors are read.
        fold: Function of arrays. It computes the result while the graph is recorded if all operands are arrays.
        numbers: True if the function takes Python numbers in place of arrays without dimensions.
        counts: True if the function takes the number of results as keyword `count` and returns a tuple.
    """

    function: Callable[..., Any]
    constants: tuple[int, ...] = ()
    fold: Callable[..., Any] | None = None
    numbers: bool = False
    counts: bool = False

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Compute the result: a tensor, an array, or a tuple.

        Raises:
            ArgumentError: Operands or attributes do not fit the operator.
            CaptureError: A shape depends on values, which `jit` does not have.
        """
        try:
            if self.fold is not None and not any(isinstance(each, Tensor) for each in operands):
                with np.errstate(all="ignore"):
                    return _wrap_folded(self.fold(*operands, **attributes))
            values = [
                as_array(each, position) if position in self.constants else self._convert(each)
                for position, each in enumerate(operands)
            ]
            if self.numbers and not any(isinstance(each, Tensor) for each in values):
                values = [None if each is None else as_tensor(each) for each in operands]
            return self.function(*values, **attributes)
        except NpuTensorError:
            raise
        except _UNFIT as error:
            shown = ", ".join(brief(each) for each in operands)
            raise ArgumentError(f"operands ({shown}) or attributes {sorted(attributes)} do not fit: {error}") from error

    def _convert(self, value: Value) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        is_number = self.numbers and value.ndim == 0 and value.dtype.name in ("float32", "int64", "bool")
        return value.item() if is_number else as_tensor(value)


_UNFIT: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors of operators whose operands or attributes are not those that ONNX requires."""


def _wrap_folded(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_wrap_folded(each) for each in result)
    return result if isinstance(result, Tensor) else np.asarray(result)


def as_tensor(value: Any) -> Tensor:
    """Return a value as a tensor. Python floats are those of float32 arrays."""
    if isinstance(value, Tensor):
        return value
    dtype = np.float32 if isinstance(value, float) else None
    return nt.from_numpy(np.asarray(value, dtype, order="C"), copy=False)


def as_array(value: Value, position: int) -> Array | None:
    """Return an operand that determines a shape, as an array. Raise CaptureError under `jit` if it is a tensor."""
    if not isinstance(value, Tensor):
        return value
    try:
        return value.numpy()
    except CaptureError as error:
        text = f"operand {position} must be known while the graph is recorded, and depends on values of tensors"
        raise CaptureError(f"{text}; call the model without jit, or make the operand a constant of the file") from error


def ints(value: Any, count: int = 0, default: int = 1) -> list[int]:
    """Return an attribute or constant as a list; `count` defaults if it is left out."""
    return [default] * count if value is None else [int(each) for each in np.ravel(value)]


def text_of(value: Any) -> str:
    """Return an attribute as a string."""
    return value.decode() if isinstance(value, bytes) else str(value)


def dtype_name(x: Tensor) -> str:
    """Return the name of the dtype of a tensor."""
    return str(x.dtype.name)


def tensor_dtype(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype. Raise DTypeError if tensors do not have it."""
    if all(dtype.name != each.name for each in DTYPES):
        raise DTypeError(f"tensors cannot be {dtype.name}")
    return dtype.name


def padded(x: Tensor, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> Tensor:
    """Pad the last dimensions; negative widths crop."""
    pairs = [width for pair in zip(reversed(before), reversed(after), strict=True) for width in pair]
    return F.pad(x, pairs, "constant", value) if any(pairs) else x
