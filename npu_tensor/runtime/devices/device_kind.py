"""What is known of a kind of devices: how its URIs are read, which devices there are, and how one is opened.

Each kind is a `DeviceKind` in the file `kind.py` of its folder, and a line of `device_uri.KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

from npu_tensor.dataflow.array import ARRAYS, Array
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Bfloat16, Float32, Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task

__all__ = [
    "ARRAY_OPTIONS",
    "OPTIONS",
    "DeviceKind",
    "DeviceOption",
    "DeviceUri",
    "ListedDevice",
    "Listing",
    "bad_option",
    "device_option",
    "target",
]

ARRAY_OPTIONS = ("cols", "rows", "float32", "bfloat16")
"""Options of devices with an array of cores."""


class DeviceUri(NamedTuple):
    """What a URI asks for; its options have been read and are allowed.

    scheme: the first one of its kind.
    selectors: of the physical NPUs, ordinals, identifiers and PCI addresses as written, or nothing for all of them; of
        simulated ones the name of the array, once per simulated NPU: `sim:npu2x2` has ("npu2", "npu2").
    options: name -> text; `device_option` has the value.
    text: the URI as written.
    """

    scheme: str
    selectors: tuple[str, ...]
    options: Mapping[str, str]
    text: str


class ListedDevice(NamedTuple):
    """A device and the URI that `nt.set_default_device` takes for it.

    id, pci_address: of an NPU, else "".
    ordinal: N of npu:N, else None.
    arch: generation of the array, or the processor's architecture.
    columns: of the array, 0 for the CPU.
    """

    uri: str
    id: str
    ordinal: int | None
    pci_address: str
    name: str
    arch: str
    columns: int


class Listing(NamedTuple):
    """Devices; what XRT lists and is not used, a line each; and why there is no NPU, "" if there is one."""

    devices: list[ListedDevice]
    left_out: list[str]
    reason: str


class DeviceKind(NamedTuple):
    """A kind of devices. Heavy modules are imported by the functions, not by the file of the record.

    schemes: what its URIs begin with; the first one is its name.
    options: names of OPTIONS.
    selectors: (URI, path of the URI) -> `DeviceUri.selectors`, or DeviceError.
    list: what this machine has.
    information: versions and names for a report on the device of a URI.
    open: (URI, memory of the processor, the step that computes a task on the CPU) -> device, or DeviceError.
    close: gives back what drivers have for this process.
    """

    schemes: tuple[str, ...]
    options: tuple[str, ...]
    selectors: Callable[[str, str], tuple[str, ...]]
    list: Callable[[], Listing]
    information: Callable[[DeviceUri], dict[str, str]]
    open: Callable[[DeviceUri, Allocator, Callable[[Task], Step]], Accelerator] | None = None
    close: Callable[[], Any] = lambda: None


class DeviceOption(NamedTuple):
    """An option. read: text -> value, raises ValueError. allowed: that in words."""

    read: Callable[[str], Any]
    allowed: str
    default: Any
    doc: str


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (re.fullmatch(r"[0-9]{1,9}", text) and least <= int(text) <= most):
            raise ValueError
        return int(text)

    return read


def _word(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


_MOST_COLUMNS: Final = max(array.columns for array in ARRAYS.values())
_ROWS: Final = max(array.core_rows for array in ARRAYS.values())
_POWER: Final = ("default", "low", "medium", "high", "turbo")
_LONGEST_KEEPALIVE: Final = 86_400

OPTIONS: Final[Mapping[str, DeviceOption]] = MappingProxyType(
    {
        "cols": DeviceOption(
            _number(1, _MOST_COLUMNS),
            f"1 to {_MOST_COLUMNS}",
            None,
            "columns of the array that designs are made for; default: all that the array has",
        ),
        "rows": DeviceOption(
            _number(_ROWS, _ROWS),
            str(_ROWS),
            _ROWS,
            f"rows of cores; designs use all {_ROWS}, so there is nothing to choose",
        ),
        "float32": DeviceOption(
            _word(*get_args(Float32)),
            f"one of {', '.join(get_args(Float32))}",
            "exact",
            "what becomes of float32 and float16: exact leaves them to the CPU, emulate uses several bfloat16 products "
            "for float32, bfloat16 rounds float32 operands; with both of these float16 becomes bfloat16",
        ),
        "bfloat16": DeviceOption(
            _word(*get_args(Bfloat16)),
            f"one of {', '.join(get_args(Bfloat16))}",
            "exact",
            "how matrix products multiply bfloat16: exact as it is, bfp16 as block floats, which XDNA2 multiplies "
            "several times as fast, with errors of about one in a hundred",
        ),
        "power": DeviceOption(
            _word(*_POWER),
            f"one of {', '.join(_POWER)}",
            "default",
            "power mode that the driver is asked for; some drivers let only root change it",
        ),
        "keepalive": DeviceOption(
            _number(0, _LONGEST_KEEPALIVE),
            f"0 to {_LONGEST_KEEPALIVE} seconds",
            0,
            "seconds after the last launch during which the NPU is kept from its power gate; 0: not at all",
        ),
    }
)


def device_option(uri: DeviceUri, name: str) -> Any:
    """The value of an option of OPTIONS, or its default."""
    option = OPTIONS[name]
    return option.read(uri.options[name]) if name in uri.options else option.default


def target(uri: DeviceUri, array: Array) -> Target:
    """What kernels are claimed for on an array. Raises DeviceError if the array has fewer columns than asked for."""
    columns = device_option(uri, "cols") or array.columns
    if columns > array.columns:
        raise bad_option(uri.text, "cols", f"1 to {array.columns}", uri.options["cols"])
    return Target(array, columns, device_option(uri, "float32"), device_option(uri, "bfloat16"))


def bad_option(text: str, name: str, allowed: str, value: str) -> DeviceError:
    """The error for a value that an option does not take."""
    return DeviceError(f"{text}: {name} must be {allowed}, not {value!r}", code="INVALID_ARGUMENT")
