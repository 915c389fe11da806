"""A Python builtin in machine code that launches kernels, made without a C compiler.

`launcher_ir` is LLVM IR text for a function of CPython's METH_FASTCALL kind; `make_builtin` turns its address
into a callable. Calling a kernel this way takes about 100 ns, a quarter of a call through ctypes. The text
uses functions of the C API only, no struct of a particular CPython version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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
    return f"""
{messages}
@PyExc_TypeError = external global ptr
@PyExc_ValueError = external global ptr
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Store the 64 bits of a Python int or, where allowed, float. Returns 1, or 0 with an exception set.
define internal i1 @convert(ptr %object, ptr %target, i1 %allow_float) {{
entry:
  %type.at = getelementptr i8, ptr %object, i64 {type_offset}
  %type = load ptr, ptr %type.at
  %is_int = icmp eq ptr %type, @PyLong_Type
  %only_int = xor i1 %allow_float, true
  %as_int = or i1 %is_int, %only_int
  br i1 %as_int, label %integer, label %other
other:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %float, label %derived
derived:
  ; NumPy's float64 is a subclass of float. Anything else must know how to be an int (__index__).
  %subtype = call i32 @PyType_IsSubtype(ptr %type, ptr @PyFloat_Type)
  %is_derived = icmp ne i32 %subtype, 0
  br i1 %is_derived, label %float, label %integer
integer:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %value, ptr %target
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %inspect, label %good
float:
  %number = call double @PyFloat_AsDouble(ptr %object)
  store double %number, ptr %target
  %suspect.float = fcmp oeq double %number, -1.0
  br i1 %suspect.float, label %inspect, label %good
inspect:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  ret i1 %fine
good:
  ret i1 true
}}

define ptr @launch(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %values = alloca [{4 + MAX_SLOTS} x i64], align 64
  %too_few = icmp slt i64 %count, 4
  %too_many = icmp sgt i64 %count, {4 + MAX_SLOTS}
  %bad_count = or i1 %too_few, %too_many
  br i1 %bad_count, label %refuse_count, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %argument.at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument.at
  %value.at = getelementptr i64, ptr %values, i64 %i
  %is_slot = icmp sge i64 %i, 4
  %converted = call i1 @convert(ptr %argument, ptr %value.at, i1 %is_slot)
  br i1 %converted, label %next, label %raise
next:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %count
  br i1 %more, label %loop, label %check
check:
  %meta.at = getelementptr i64, ptr %values, i64 1
  %n.at = getelementptr i64, ptr %values, i64 2
  %grain.at = getelementptr i64, ptr %values, i64 3
  %slots = getelementptr i64, ptr %values, i64 4
  %kernel = load ptr, ptr %values
  %meta = load ptr, ptr %meta.at
  %n = load i64, ptr %n.at
  %grain = load i64, ptr %grain.at
  %no_kernel = icmp eq ptr %kernel, null
  br i1 %no_kernel, label %refuse_kernel, label %check_range
check_range:
  %bad_n = icmp slt i64 %n, 0
  %bad_grain = icmp slt i64 %grain, 1
  %bad_range = or i1 %bad_n, %bad_grain
  br i1 %bad_range, label %refuse_range, label %check_work
check_work:
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %done, label %choose
choose:
  %large = icmp sgt i64 %n, %grain
  br i1 %large, label %run_large, label %run_small
run_small:
  ; Not worth letting another Python thread in.
  call void %kernel(ptr %slots, ptr %meta, i64 0, i64 %n)
  br label %done
run_large:
  %thread_state = call ptr @PyEval_SaveThread()
  call void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain)
  call void @PyEval_RestoreThread(ptr %thread_state)
  br label %done
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
refuse_count:
  %type_error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type_error, ptr @message.count)
  ret ptr null
refuse_kernel:
  %value_error.kernel = load ptr, ptr @PyExc_ValueError
  call void @PyErr_SetString(ptr %value_error.kernel, ptr @message.kernel)
  ret ptr null
refuse_range:
  %value_error.range = load ptr, ptr @PyExc_ValueError
  call void @PyErr_SetString(ptr %value_error.range, ptr @message.range)
  ret ptr null
raise:
  ret ptr null
}}
"""


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
