"""Enumerations that behave as those of pybind11's py::enum_: members have a name and a value, but are no integers.

Measured on pyxrt 2.25: an unknown value is accepted and named "???"; members are not ordered, and are equal to an int
only where the C++ enumeration is unscoped.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["PybindEnum", "define"]


class PybindEnum:
    """Base of all enumerations here. `convertible` ones are equal to their int."""

    __slots__ = ("__weakref__", "_name", "_value")
    __members__: ClassVar[dict[str, Any]] = {}
    _convertible: ClassVar[bool] = False

    def __init__(self, value: int) -> None:
        self._value = value.__index__()
        known = next((name for name, member in self.__members__.items() if member._value == self._value), "???")
        self._name = known

    @property
    def name(self) -> str:
        """Of the member, without that of the enumeration."""
        return self._name

    @property
    def value(self) -> int:
        """The member as a number."""
        return self._value

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is type(self):
            return self._value == other._value
        return self._convertible and isinstance(other, int) and self._value == other

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self._name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self._name}: {self._value}>"


def define(name: str, members: dict[str, int], convertible: bool = False) -> Any:
    """An enumeration. A second name for a value gives the member that has it."""
    body = {"__slots__": (), "__members__": {}, "_convertible": convertible, "__module__": "pyxrt"}
    enumeration: Any = type(name, (PybindEnum,), body)
    for member, value in members.items():
        same = [known for known in enumeration.__members__.values() if known._value == value]
        made = same[0] if same else enumeration(value)
        if not same:
            made._name = member
        enumeration.__members__[member] = made
        setattr(enumeration, member, made)
    return enumeration
