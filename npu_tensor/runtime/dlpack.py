"""DLPack for arrays of every dtype: NumPy speaks it, but not for bfloat16.

torch.from_dlpack(x), np.from_dlpack(x)     # x: a Tensor
nt.from_dlpack(torch.ones(3).bfloat16())

The layout of the structures is that of dlpack.h (https://dmlc.github.io/dlpack/latest/c_api.html).
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, Protocol

import numpy as np

from npu_tensor.dtypes import bfloat16

CPU: Final = (1, 0)
"""kDLCPU and the number of the processor, as `__dlpack_device__` gives them."""

_UNSIGNED, _BFLOAT = 1, 4  # kDLUInt, kDLBfloat


# Offset of the type code, DLTensor.dtype.code, by name of the capsule. It comes after data, device and
# ndim, and these in a versioned capsule after version, manager_ctx, deleter and flags.
_CODE_OFFSETS = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer.restype = ctypes.c_void_p


class Exporter(Protocol):
    """An array of any library that speaks DLPack."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def capsule_of(
    array: np.ndarray[Any, Any],
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return the result of `__dlpack__` for a read-only array: a copy, or with copy=False the memory itself.

    The memory is marked as read-only. Versions of DLPack before 1.0 have no such mark and PyTorch ignores it, so
    consumers that pass copy=False must not write.

    Raises:
        BufferError: `dl_device` is not the processor.
    """
    is_bfloat16 = array.dtype == bfloat16.numpy
    words = array.view(np.uint16) if is_bfloat16 else array
    if copy is False and (max_version is None or max_version < (1, 0)):
        words = np.asarray(_Unmarked(words))  # NumPy exports no read-only array without the mark
    capsule = words.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy is not False)
    if is_bfloat16:
        _type_code(capsule).value = _BFLOAT
    return capsule


class _Unmarked:
    """The memory of a read-only array as writable memory. Keeps the array alive."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        return {**interface, "data": (interface["data"][0], False)}


def as_array(external: Exporter) -> np.ndarray[Any, Any]:
    """Return another library's array as a NumPy array without a copy. Raises BufferError if it is on a device."""
    if getattr(external, "requires_grad", False):  # PyTorch does not export a tensor that requires a gradient.
        external = external.detach()  # type: ignore[attr-defined]
    words = _Words(external)
    array = np.from_dlpack(words)
    return array.view(bfloat16.numpy) if words.bfloat16 else array


class _Words:
    """Export of another library with bfloat16 as unsigned integers, because NumPy does not know bfloat16."""

    def __init__(self, external: Exporter) -> None:
        self.external = external
        self.bfloat16 = False

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.external.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = self.external.__dlpack__(**keywords)
        code = _type_code(capsule)
        if code.value == _BFLOAT:
            code.value = _UNSIGNED
            self.bfloat16 = True
        return capsule


def _type_code(capsule: Any) -> ctypes.c_uint8:
    name = next(name for name in _CODE_OFFSETS if _is_valid(capsule, name))
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_OFFSETS[name])
