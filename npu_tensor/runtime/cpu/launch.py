"""A Python builtin in machine code that launches kernels, made without a C compiler.

`launcher_ir` is LLVM IR text for a function of CPython's METH_FASTCALL kind; `make_builtin` turns its address
into a callable. Calling a kernel this way takes about 100 ns, a quarter of a call through ctypes. The text
uses functions of the C API only, no struct of a particular CPython version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

__all__ = ["MAX_SLOTS", "launcher_ir", "make_builtin", "python_symbols", "symbol_addresses"]

MAX_SLOTS = 64
"""The largest number of slots that one launch takes."""

_MESSAGES = {
    "count": f"launch(kernel, meta, n, grain, *slots) takes 4 to {4 + MAX_SLOTS} arguments",
    "kernel": "launch: the kernel address is 0",
    "range": "launch: n must be >= 0 and grain >= 1",
}


def launcher_ir() -> str:
    """`PyObject *launch(PyObject *self, PyObject **arguments, Py_ssize_t count)`, called as METH_FASTCALL.

    Calls the function `parallel_for` of the module that the text becomes part of.
    """
    # The object header ends with the type pointer in every build of CPython, with and without the GIL.
    type_offset = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
    constants = []
    for name, message in _MESSAGES.items():
        text = message.encode()
        constants.append(f'@message.{name} = private constant [{len(text) + 1} x i8] c"{message}\\00"')
    messages = "\n".join(constants)
    template = Template(Path(__file__).with_name("launch.ll").read_text("utf-8"))
    return template.substitute(messages=messages, type_offset=type_offset, most_arguments=4 + MAX_SLOTS)


_PYTHON_SYMBOLS = (
    "PyExc_TypeError",
    "PyExc_ValueError",
    "PyFloat_Type",
    "PyLong_Type",
    "_Py_NoneStruct",
    "PyLong_AsLongLong",
    "PyFloat_AsDouble",
    "PyType_IsSubtype",
    "PyErr_Occurred",
    "PyErr_SetString",
    "Py_IncRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)


def symbol_addresses(library: ctypes.CDLL, names: tuple[str, ...]) -> dict[str, int]:
    """Where the functions and variables of a loaded library are."""
    return {name: ctypes.addressof(ctypes.c_char.in_dll(library, name)) for name in names}


def python_symbols() -> dict[str, int]:
    """What `launcher_ir` needs from the interpreter, by name."""
    return symbol_addresses(ctypes.pythonapi, _PYTHON_SYMBOLS)


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of the C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80

# A builtin points to its definition for as long as it lives, and anybody may keep the builtin.
_definitions: list[_MethodDefinition] = []


def make_builtin(name: str, address: int, documentation: str) -> Callable[..., Any]:
    """A Python callable for the address of a METH_FASTCALL function."""
    definition = _MethodDefinition(name.encode(), address, _METH_FASTCALL, documentation.encode())
    _definitions.append(definition)
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    builtin: Callable[..., Any] = create(ctypes.addressof(definition), None, None)
    return builtin
