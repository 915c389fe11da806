"""Kinds of devices: their URIs, their options, and functions that list and open devices.

Each kind is a `DeviceKind` in the file `kind.py` of its folder, and an entry of `device_uri.KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

from npu_tensor.dataflow.array import ARRAYS, Array
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Bfloat16, Float32, Functions, Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task

ARRAY_OPTIONS: Final = ("cols", "float32", "bfloat16", "functions")
"""Options of devices with an array of cores."""


@dataclass(frozen=True, slots=True)
class DeviceUri:
    """A parsed device URI with valid options.

    Attributes:
        selectors: For real NPUs, ordinals, identifiers and PCI addresses as written; empty for all NPUs. For simulated
            ones the name of the array, once per NPU: `sim:npu2x2` has ("npu2", "npu2").
        options: Text of each given option. `device_option` returns the value.
    """

    scheme: str
    selectors: tuple[str, ...]
    options: Mapping[str, str]
    text: str


class ListedDevice(NamedTuple):
    """A device with the URI for `nt.set_default_device`.

    Attributes:
        id: Identifier of a real NPU, otherwise empty.
        ordinal: N of npu:N, or None.
        pci_address: PCI address of a real NPU, otherwise empty.
        arch: Generation of the array, or architecture of the processor.
        columns: Columns of the array, 0 for the CPU.
    """

    uri: str
    id: str
    ordinal: int | None
    pci_address: str
    name: str
    arch: str
    columns: int


class Listing(NamedTuple):
    """Devices, a line for each unused device of XRT, and why there is no NPU (empty if there is one)."""

    devices: list[ListedDevice]
    left_out: list[str]
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of devices. Its functions import heavy modules when they are called.

    Attributes:
        schemes: Schemes of its URIs; the first one is its name.
        options: Names of its options, see OPTIONS.
        selectors: Function of URI and path that returns `DeviceUri.selectors` or raises DeviceError.
        list: Function that lists the devices of this machine.
        information: Function that returns versions and names for a report on the device of a URI.
        open: Function of URI, host memory and step factory of the CPU that opens a device or raises DeviceError. None
            for the CPU.
        close: Function that releases all resources of this process.
    """

    schemes: tuple[str, ...]
    options: tuple[str, ...]
    selectors: Callable[[str, str], tuple[str, ...]]
    list: Callable[[], Listing]
    information: Callable[[DeviceUri], dict[str, str]]
    open: Callable[[DeviceUri, Allocator, Callable[[Task], Step]], Accelerator] | None = None
    close: Callable[[], Any] = lambda: None


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """An option with its valid values: numbers or words."""

    values: range | tuple[str, ...]
    default: Any
    doc: str

    @property
    def allowed(self) -> str:
        """Description of the valid texts."""
        values = self.values
        return f"{values[0]} to {values[-1]}" if isinstance(values, range) else f"one of {', '.join(values)}"

    def read(self, text: str) -> Any:
        """Convert the text of a URI. Raises ValueError if it is not valid."""
        value = int(text) if isinstance(self.values, range) and re.fullmatch(r"[0-9]{1,9}", text) else text
        if value not in self.values:
            raise ValueError
        return value


_MOST_COLUMNS: Final = max(array.columns for array in ARRAYS.values())

OPTIONS: Final[Mapping[str, DeviceOption]] = MappingProxyType(
    {
        "cols": DeviceOption(
            range(1, _MOST_COLUMNS + 1),
            None,
            "columns of the array that designs use; default: all columns",
        ),
        "float32": DeviceOption(
            get_args(Float32),
            "exact",
            "treatment of float32 and float16: exact leaves them to the CPU, emulate uses several bfloat16 products "
            "for float32, bfloat16 rounds float32 operands; the latter two convert float16 to bfloat16",
        ),
        "bfloat16": DeviceOption(
            get_args(Bfloat16),
            "exact",
            "format in which matrix products multiply bfloat16: exact keeps it, bfp16 uses block floats, which XDNA2 "
            "multiplies several times as fast, with errors of about one in a hundred",
        ),
        "functions": DeviceOption(
            get_args(Functions),
            "exact",
            "precision of exp, tanh, sigmoid, silu and gelu with bfloat16 results: exact rounds float32, approximate "
            "uses short polynomials and instructions of XDNA2, several times as fast, with errors of a few in a "
            "hundred",
        ),
        "power": DeviceOption(
            ("default", "low", "medium", "high", "turbo"),
            "default",
            "power mode requested from the driver; some drivers let only root change it",
        ),
    }
)


def device_option(uri: DeviceUri, name: str) -> Any:
    """Return the value of an option, or its default."""
    option = OPTIONS[name]
    return option.read(uri.options[name]) if name in uri.options else option.default


def target(uri: DeviceUri, array: Array) -> Target:
    """Return the target of kernels on an array. Raises DeviceError if the array has fewer columns than requested."""
    columns = device_option(uri, "cols") or array.columns
    if columns > array.columns:
        raise bad_option(uri.text, "cols", f"1 to {array.columns}", uri.options["cols"])
    float32, bfloat16, functions = (device_option(uri, name) for name in ("float32", "bfloat16", "functions"))
    return Target(array, columns, float32, bfloat16, functions)


def bad_option(text: str, name: str, allowed: str, value: str) -> DeviceError:
    """Create the error for an invalid value of an option."""
    return DeviceError(f"{text}: {name} must be {allowed}, not {value!r}", code="INVALID_ARGUMENT")
