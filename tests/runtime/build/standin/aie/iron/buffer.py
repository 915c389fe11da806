"""Memory of a core that a program names."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .._standin.record import BufferOp, Load, MLIRError, WriteParameter, current, type_of
from .._standin.signatures import checked
from .._standin.types import Scalar, Value
from .dataflow import ObjectFifoEndpoint

__all__ = ["Buffer"]


class Buffer(ObjectFifoEndpoint):
    """With `use_write_rtp`, the runtime sequence writes into it by index."""

    _numbers = itertools.count()

    @checked("Buffer")
    def __init__(self, type: Any, initial_value: Any, name: str | None, tile: Any, use_write_rtp: bool) -> None:
        if type is None and initial_value is None:
            raise ValueError("Must provide either type, initial value, or both.")
        if type is None:
            type = np.ndarray[initial_value.shape, np.dtype[initial_value.dtype.type]]
        super().__init__(tile)
        self._arr_type = type
        self._initial_value = initial_value
        self._name = name or f"buf_{next(Buffer._numbers)}"
        self._use_write_rtp = use_write_rtp
        self._explicit_tile = tile is not None
        self._owner_worker: Any = None
        self._op: BufferOp | None = None

    @property
    def op(self) -> Value:
        """What kernels take."""
        if self._op is None:
            raise RuntimeError("Cannot get operation; class not resolved.")
        return Value(self._op.type, self._op.name)

    def tiles(self) -> list[Any]:
        """What must be resolved before it."""
        return [self._tile] if self._tile is not None else []

    def resolve(self) -> None:
        """Once."""
        if self._op is not None:
            return
        if not self._tile:
            raise ValueError("Cannot resolve buffer until it has been placed.")
        memory = type_of(self._arr_type)
        self._op = BufferOp(self._name, self._tile.op, memory, self._initial(memory), self._use_write_rtp)
        current().buffers.append(self._op)

    def _initial(self, memory: Any) -> bytes | None:
        """The bytes, as MLIR reads them: through the buffer protocol, which knows no bfloat16 (ValueError)."""
        if self._initial_value is None:
            return None
        assert isinstance(self._initial_value, np.ndarray)
        found = memoryview(np.ascontiguousarray(self._initial_value)).tobytes()
        expected = np.dtype("uint16" if memory.dtype == "bfloat16" else memory.dtype).itemsize * np.prod(memory.shape)
        if len(found) != expected:
            raise MLIRError(f"{len(found)} initial bytes for {self._name}: {memory}")
        return found

    def __getitem__(self, index: Any) -> Value:
        """A word that is loaded, where a core runs."""
        if self._op is None:
            raise AttributeError("Cannot index into Buffer before it has been resolved.")
        if not isinstance(index, int) or len(self._op.type.shape) != 1:
            raise NotImplementedError("the stand-in models loads of single words only")
        if not 0 <= index < self._op.type.shape[0]:
            raise MLIRError(f"{self._op.name} has no word {index}")
        if current().core is None:
            raise MLIRError("'memref.load' op belongs into a core, not into the runtime sequence")
        return Value(Scalar(self._op.type.dtype, current()), Load(self._op.name, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._op is None:
            raise AttributeError("Cannot index into Buffer before it has been resolved.")
        if not self._use_write_rtp:
            raise NotImplementedError("the stand-in does not model stores into a Buffer without use_write_rtp")
        if not isinstance(index, int) or len(self._op.type.shape) != 1:
            raise ValueError("Buffer slicing not supported, only indexing supported")
        if not isinstance(value, int):  # an attribute or a constant is made of it, which NumPy's numbers are not
            raise TypeError(f"rtp_write: {value!r} of type {type(value).__name__} is no int")
        if not -(2**31) <= value < 2**31:
            raise ValueError(f"rtp_write: {value} does not fit into 32 bits")
        if current().core is not None:
            raise MLIRError("'aiex.npu.rtp_write' op belongs into the runtime sequence, not into a core")
        current().add(WriteParameter(self._op.name, index, value))
