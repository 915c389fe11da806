"""Functions of object files that cores call."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from .._standin.record import Call, Function, MLIRError, current, type_of
from .._standin.signatures import checked
from .._standin.types import MemRef, Scalar, Value
from .buffer import Buffer

__all__ = ["ExternalFunction", "Kernel"]


class Kernel:
    """A function of an object file that somebody else compiles."""

    @checked("Kernel")
    def __init__(self, name: str, object_file_name: str, arg_types: Any) -> None:
        self._make(name, object_file_name, arg_types)

    def _make(self, name: str, object_file_name: str, arg_types: Any) -> None:
        if not name:
            raise ValueError("Kernel name cannot be empty.")
        self._name = name
        self._object_file_name = object_file_name
        self._arg_types = [] if arg_types is None else arg_types
        self._op: Function | None = None

    @property
    def object_file_name(self) -> str:
        """What a core that calls it links."""
        return self._object_file_name

    def resolve(self) -> None:
        """Once. The list of argument types that was given is changed: its types become those of this module."""
        if self._op is not None:
            return
        for position, given in enumerate(self._arg_types):
            found = type_of(given)
            if found is not given:
                self._arg_types[position] = found  # TypeError for a tuple, as in mlir-aie
            elif isinstance(found, (MemRef, Scalar)) and found.module is not current():
                raise MLIRError(f"{self._name}: the list of argument types was resolved in another module")
            elif not isinstance(found, (MemRef, Scalar)):
                raise TypeError(f"{self._name}: {given!r} is no type of an argument")
        self._op = Function(self._name, list(self._arg_types), self._object_file_name)
        current().functions.append(self._op)

    def __call__(self, *args: Any) -> None:
        if self._op is None:
            raise ValueError("Kernel must be resolved before it can be called.")
        expected = len(self._op.arguments)
        if len(args) != expected:
            raise ValueError(f"Kernel '{self._name}' expects {expected} argument(s), but {len(args)} were provided.")
        given = tuple(a.op if isinstance(a, Buffer) else a for a in args)
        for value in given:
            if not isinstance(value, (Value, int, float)):
                raise ValueError(f"{given} must all be Value, Operation, or OpView")
        for value, type in zip(given, self._op.arguments, strict=True):
            if isinstance(value, (int, float)):
                _check_number(value, type)
        current().add(Call(self._name, given))


def _check_number(value: float, expected: Any) -> None:
    if isinstance(expected, MemRef):
        raise ValueError(f"{value!r} is no {expected}")
    if isinstance(value, float) and "int" in expected.dtype:
        raise TypeError(f"an attribute of type {expected} cannot be made of {value!r}")


class ExternalFunction(Kernel):
    """A function and its C++, which `compile_external_kernel` compiles."""

    _instances: ClassVar[set[ExternalFunction]] = set()

    @checked("ExternalFunction")
    def __init__(
        self,
        name: str,
        object_file_name: str | None,
        source_file: str | None,
        source_string: str | None,
        arg_types: Any,
        include_dirs: Any,
        compile_flags: Any,
    ) -> None:
        self._make(name, object_file_name or f"{name}.o", arg_types)
        if source_file is None and source_string is None:
            raise ValueError("source_file or source_string must be provided.")
        self._source_file = source_file
        self._source_string = None if source_file is not None else source_string
        self._include_dirs = include_dirs or []
        self._compile_flags = compile_flags or []
        self._compiled = False
        self._refuse_clash(object_file_name is not None)
        ExternalFunction._instances.add(self)

    def _content(self) -> Any:
        text = self._source_string
        if self._source_file is not None and os.path.exists(self._source_file):
            with open(self._source_file) as file:
                text = file.read()
        return text, [str(type) for type in self._arg_types], list(self._compile_flags), list(self._include_dirs)

    def _refuse_clash(self, explicit: bool) -> None:
        """Another one of the same object file and other contents gets another file, unless the name was given."""
        for other in ExternalFunction._instances:
            same = (other._name, other._object_file_name) == (self._name, self._object_file_name)
            if same and other._content() != self._content():
                if explicit:
                    raise ValueError(
                        f"ExternalFunction '{self._name}' would collide with an already-registered instance"
                    )
                self._object_file_name = f"{self._name}_{len(ExternalFunction._instances):08x}.o"
                break

    def __call__(self, *args: Any) -> None:
        if len(args) != len(self._arg_types):
            raise ValueError(
                f"ExternalFunction '{self._name}' expects {len(self._arg_types)} argument(s),"
                f" but {len(args)} were provided."
            )
        for position, (value, expected) in enumerate(zip(args, self._arg_types, strict=True)):
            scalar = isinstance(expected, type) and issubclass(expected, np.generic)
            if scalar and not isinstance(value, (int, float)):
                raise ValueError(f"Argument {position}: expected scalar, got {type(value).__name__}")
        super().__call__(*args)
