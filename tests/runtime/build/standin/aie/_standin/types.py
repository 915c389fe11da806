"""Types of MLIR and the values that have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, get_origin

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from .record import Module

__all__ = ["MemRef", "Scalar", "Value", "converted"]


@dataclass(frozen=True)
class Scalar:
    """A number's type. `module` is where it was made: types of one module cannot be used in another."""

    dtype: str
    module: Module = field(compare=False, repr=False)

    def __str__(self) -> str:
        return MLIR_NAMES[self.dtype]


@dataclass(frozen=True)
class MemRef:
    """The type of a piece of memory."""

    dtype: str
    shape: tuple[int, ...]
    module: Module = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"memref<{''.join(f'{extent}x' for extent in self.shape)}{MLIR_NAMES[self.dtype]}>"


DTYPES: dict[Any, str] = {
    np.int8: "int8",
    np.int16: "int16",
    np.int32: "int32",
    np.int64: "int64",
    np.uint8: "uint8",
    np.uint16: "uint16",
    np.uint32: "uint32",
    np.uint64: "uint64",
    np.float16: "float16",
    np.float32: "float32",
    np.float64: "float64",
    ml_dtypes.bfloat16: "bfloat16",
}
MLIR_NAMES = {
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
}


def converted(given: Any, module: Module) -> Any:
    """What NumPy's ndarray types and scalar types become; anything else stays as it is."""
    if get_origin(given) is np.ndarray:
        shape, element = get_args(given)
        assert isinstance(shape, tuple), "np.ndarray shape must be a tuple of integers"
        for extent in shape:
            assert isinstance(extent, (int, np.integer)), "np.ndarray shape must be a tuple of integers"
        dtype = get_args(element)[0]
        if dtype not in DTYPES:  # e.g. bool, which mlir-aie's table has not; its look-up ends in this error
            raise TypeError("'NoneType' object is not callable")
        return MemRef(DTYPES[dtype], tuple(int(extent) for extent in shape), module)
    if isinstance(given, type) and given in DTYPES:
        return Scalar(DTYPES[given], module)
    return given


class Value:
    """The result of an operation: an object of a fifo, a core's buffer, a loop's index."""

    def __init__(self, type: Any, name: Any) -> None:
        self.type = type
        self.name = name

    @property
    def shape(self) -> Any:
        """As kernels compare it."""
        return self.type.shape
