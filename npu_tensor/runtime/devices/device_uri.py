"""URIs of devices: `cpu`, `sim:npu2x2`, `npu`, `npu:0`, `npu://AIE-0123456789abcdef,0000:c6:00.1?cols=4&power=turbo`.

    SCHEME[:[//]PATH][?NAME=VALUE[&NAME=VALUE...]]

The form is that of IREE's HAL devices, of which `amdgpu` is one: without a path, or with the path `*`, a URI means all
devices of its scheme as one logical device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

from npu_tensor.dataflow.array import ARRAYS, Array
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Float32, Target

__all__ = [
    "OPTIONS",
    "SIMULATED",
    "DeviceOption",
    "DeviceUri",
    "Scheme",
    "device_option",
    "parse_uri",
    "split_uris",
    "target",
]

Scheme = Literal["cpu", "sim", "npu"]

SCHEMES: Final[Mapping[str, Scheme]] = MappingProxyType(
    {"cpu": "cpu", "sim": "sim", "npu": "npu", "amdgpu": "npu", "amdxdna": "npu", "xdna": "npu", "hsa": "npu"}
)
"""What a URI may begin with. The aliases of `npu`: IREE's driver, Linux's driver, the architecture, ROCm's runtime."""

SIMULATED: Final = {array.device: array for array in ARRAYS.values()}
"""The arrays there is a simulator for, by the names that follow `sim:`."""

MOST_SIMULATED: Final = 16
"""Simulated NPUs in one logical device; each takes memory and a thread."""

_SELECTOR: Final = re.compile(
    r"[0-9]{1,9}"  # ordinal
    r"|(?:aie|npu|gpu)-[0-9a-z]+"  # identifier
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",  # PCI address: [domain:]bus:device.function
    re.IGNORECASE,
)


class DeviceUri(NamedTuple):
    """What a URI asks for; its options have been read and are allowed.

    selectors: of the physical NPUs, ordinals, identifiers and PCI addresses as given, or nothing for all of them; of
    simulated ones the name of the array, once per simulated NPU, so that `sim:npu2x2` has ("npu2", "npu2").
    options: name -> text; `device_option` has the value. text: the URI as given.
    """

    scheme: Scheme
    selectors: tuple[str, ...]
    options: Mapping[str, str]
    text: str

    def with_default(self, name: str, value: str) -> DeviceUri:
        """The same with an option of OPTIONS, unless it is given already or its scheme has no such option."""
        if name in self.options or self.scheme not in OPTIONS[name].schemes:
            return self
        text = f"{self.text}{'&' if self.options else '?'}{name}={value}"
        return self._replace(options={**self.options, name: value}, text=text)


class DeviceOption(NamedTuple):
    """What is known about an option. read: text -> value, raises ValueError; allowed: that in words."""

    read: Callable[[str], Any]
    allowed: str
    default: Any
    schemes: tuple[Scheme, ...]
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
            ("npu", "sim"),
            "columns of the array that designs are made for; default: all that the array has",
        ),
        "rows": DeviceOption(
            _number(_ROWS, _ROWS),
            str(_ROWS),
            _ROWS,
            ("npu", "sim"),
            f"rows of cores; designs use all {_ROWS}, so there is nothing to choose",
        ),
        "float32": DeviceOption(
            _word(*get_args(Float32)),
            f"one of {', '.join(get_args(Float32))}",
            "exact",
            ("npu", "sim"),
            "what becomes of float32 and float16: exact leaves them to the CPU, emulate uses several bfloat16 products "
            "for float32, bfloat16 rounds float32 operands; with both of these float16 becomes bfloat16",
        ),
        "power": DeviceOption(
            _word(*_POWER),
            f"one of {', '.join(_POWER)}",
            "default",
            ("npu",),
            "power mode that the driver is asked for; some drivers let only root change it",
        ),
        "keepalive": DeviceOption(
            _number(0, _LONGEST_KEEPALIVE),
            f"0 to {_LONGEST_KEEPALIVE} seconds",
            0,
            ("npu",),
            "seconds after the last launch during which the NPU is kept from its power gate; 0: not at all",
        ),
    }
)


def split_uris(text: str) -> list[str]:
    """The URIs of a list separated by commas, in order, without spaces around them; not checked further.

    A comma in `npu://0,1` belongs to the URI: after an NPU, only what begins with a known scheme is the next URI.
    Raises DeviceError for what is no text.

    >>> split_uris("npu://0,0000:c6:00.1, sim:npu2,cpu")
    ['npu://0,0000:c6:00.1', 'sim:npu2', 'cpu']
    """
    if not isinstance(text, str):
        raise DeviceError(f"a device is named by text such as 'npu:0', not by {text!r}", code="INVALID_ARGUMENT")
    found: list[str] = []
    for part in text.split(","):
        if found and _scheme(found[-1]) == "npu" and _scheme(part) is None:
            found[-1] += f",{part.rstrip()}"
        else:
            found.append(part.strip())
    return found


def parse_uri(text: str) -> DeviceUri:
    """What a URI asks for. Raises DeviceError, INVALID_ARGUMENT if it cannot be read, NOT_FOUND for an unknown device.

    >>> parse_uri("amdgpu://0,1?cols=4")[:3]
    ('npu', ('0', '1'), {'cols': '4'})
    """
    address, mark, query = text.strip().partition("?")
    scheme = _scheme(address)
    if scheme is None:
        known = "there are cpu, sim:npu1 and sim:npu2 (simulated), and npu"
        hint = f"an NPU is written npu://{address}" if _SELECTOR.fullmatch(address) else known
        raise DeviceError(f"device {text!r} does not exist; {hint}", code="NOT_FOUND")
    path = address.partition(":")[2].removeprefix("//").strip()
    selectors = _SELECTORS_OF[scheme](text, "" if path == "*" else path)
    return DeviceUri(scheme, selectors, _options(text, scheme, query) if mark else {}, text)


def device_option(uri: DeviceUri, name: str) -> Any:
    """The value of an option of OPTIONS, or its default."""
    option = OPTIONS[name]
    return option.read(uri.options[name]) if name in uri.options else option.default


def target(uri: DeviceUri, array: Array) -> Target:
    """What kernels are claimed for on an array. Raises DeviceError if the array has fewer columns than asked for."""
    columns = device_option(uri, "cols") or array.columns
    if columns > array.columns:
        raise _not_allowed(uri.text, "cols", f"1 to {array.columns}", uri.options["cols"])
    return Target(array, columns, device_option(uri, "float32"))


def _scheme(uri: str) -> Scheme | None:
    return SCHEMES.get(re.split(r"[:?]", uri.strip(), maxsplit=1)[0].casefold())


def _cpu(text: str, path: str) -> tuple[str, ...]:
    if path:
        raise DeviceError(f"{text}: there is one CPU device, cpu", code="INVALID_ARGUMENT")
    return ()


def _simulated(text: str, path: str) -> tuple[str, ...]:
    names = "|".join(SIMULATED)
    asked = re.fullmatch(rf"({names})(?:x([0-9]{{1,3}}))?", path.casefold())
    if asked is None:
        known = ", ".join(f"sim:{name}" for name in SIMULATED)
        raise DeviceError(
            f"{text}: there is no simulated {path or 'device without a name'}; there are {known}, and sim:npu2x2 for "
            "two as one device",
            code="NOT_FOUND",
        )
    count = int(asked[2] or 1)
    if not 1 <= count <= MOST_SIMULATED:
        raise DeviceError(f"{text}: 1 to {MOST_SIMULATED} simulated NPUs make a device", code="OUT_OF_RANGE")
    return (asked[1],) * count


def _physical(text: str, path: str) -> tuple[str, ...]:
    selectors = tuple(map(str.strip, path.split(","))) if path else ()
    for selector in selectors:
        if not _SELECTOR.fullmatch(selector):
            raise DeviceError(
                f"{text}: invalid device specifier `{selector}`; expected an ordinal (`0`) or a device UUID "
                "(`NPU-XX...`) or a PCI address (`0000:c6:00.1`)",
                code="INVALID_ARGUMENT",
            )
    return selectors


_SELECTORS_OF: Final[Mapping[Scheme, Callable[[str, str], tuple[str, ...]]]] = MappingProxyType(
    {"cpu": _cpu, "sim": _simulated, "npu": _physical}
)


def _options(text: str, scheme: Scheme, query: str) -> dict[str, str]:
    known = [name for name, option in OPTIONS.items() if scheme in option.schemes]
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = map(str.strip, part.partition("="))
        if name and name not in known:
            some = f"{scheme} takes {', '.join(known)}" if known else f"{scheme} takes none"
            raise DeviceError(f"{text}: unknown option {name}; {some}", code="INVALID_ARGUMENT")
        if not (name and value):
            raise DeviceError(f"{text}: the option {part!r} is not of the form NAME=VALUE", code="INVALID_ARGUMENT")
        if name in found:
            raise DeviceError(f"{text}: the option {name} is given twice", code="INVALID_ARGUMENT")
        try:
            OPTIONS[name].read(value)
        except ValueError:
            raise _not_allowed(text, name, OPTIONS[name].allowed, value) from None
        found[name] = value
    return found


def _not_allowed(text: str, name: str, allowed: str, value: str) -> DeviceError:
    return DeviceError(f"{text}: {name} must be {allowed}, not {value!r}", code="INVALID_ARGUMENT")
