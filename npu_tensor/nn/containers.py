"""Modules that hold modules or parameters."""

from __future__ import annotations

import itertools
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, ClassVar, TypeVar, overload

from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

Self = TypeVar("Self", bound="_PartList")


class _PartList(Module):
    """List of modules or parameters, whose names are their numbers."""

    _part_type: ClassVar[type] = Module

    def append(self: Self, part: Any) -> Self:
        """Add an item at the end."""
        self.add_module(str(len(self)), part)
        return self

    def extend(self: Self, parts: Iterable[Any]) -> Self:
        """Add items at the end."""
        for part in parts:
            self.append(part)
        return self

    def __iadd__(self: Self, parts: Iterable[Any]) -> Self:
        return self.extend(parts)

    def __len__(self) -> int:
        return len(self._own(self._part_type))

    def __iter__(self) -> Iterator[Any]:
        return (part for _, part in self._own(self._part_type))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        chosen = list(self)[index]
        return type(self)(chosen) if isinstance(index, slice) else chosen  # type: ignore[call-arg]

    def __setitem__(self, index: int, part: Any) -> None:
        setattr(self, self._own(self._part_type)[index][0], part)


class ModuleList(_PartList):
    """List of modules.

    Args:
        modules: Initial modules.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def _set(self, modules: Iterable[Module]) -> None:
        for name, _ in self._own(Module):
            delattr(self, name)
        self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Add a module before another one."""
        modules = list(self)
        modules.insert(index, module)
        self._set(modules)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._set(modules)

    def _parts_shown(self) -> Iterable[tuple[str, str]]:
        """Yield runs of equal modules as one entry."""
        number = 0
        for text, equal in itertools.groupby(map(repr, self)):
            count = len(list(equal))
            yield (f"({number}-{number + count - 1}): {count} x " if count > 1 else f"({number}): "), text
            number += count


class Sequential(ModuleList):
    """Chain of modules, each called with the result of the previous one.

    Args:
        modules: Modules in order, or one mapping from names to modules.
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        own = self._own(Module)[index]
        return Sequential(dict(own)) if isinstance(index, slice) else own[1]

    _parts_shown = Module._parts_shown


class ModuleDict(Module):
    """Mapping from names to modules.

    Args:
        modules: Mapping, or pairs of names and modules.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules, from a mapping or from pairs of names and modules."""
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return dict(self._own(Module)).keys()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return dict(self._own(Module)).values()

    def items(self) -> ItemsView[str, Any]:
        """Return names and modules."""
        return dict(self._own(Module)).items()

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        return dict(self._own(Module))[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del vars(self)[name]


class ParameterList(_PartList):
    """List of parameters.

    Args:
        values: Parameters, or tensors that become parameters.
    """

    _part_type = Parameter

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        self.extend(values)

    def append(self: Self, value: Tensor) -> Self:
        """Add a parameter at the end."""
        setattr(self, str(len(self)), _parameter(value))
        return self

    def __setitem__(self, index: int, value: Tensor) -> None:
        super().__setitem__(index, _parameter(value))

    def _parts_shown(self) -> Iterable[tuple[str, str]]:
        for name, value in self._own(Parameter):
            yield f"({name}): ", f"Parameter containing: [{value.dtype.name} of size {'x'.join(map(str, value.shape))}]"


def _parameter(value: Tensor) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)
