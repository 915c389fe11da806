"""URIs of devices: `cpu`, `sim:npu2x2`, `npu`, `npu:0`, `npu://AIE-0123456789abcdef,0000:c6:00.1?cols=4&power=turbo`.

    SCHEME[:[//]PATH][?NAME=VALUE[&NAME=VALUE...]]

The form is that of IREE's HAL devices such as `amdgpu`. Without a path, or with the path `*`, a URI means all devices
of its scheme as one logical device.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.cpu.kind import CPU
from npu_tensor.runtime.devices.device_kind import OPTIONS, DeviceUri, bad_option
from npu_tensor.runtime.sim.kind import SIM
from npu_tensor.runtime.xrt.kind import NPU, SELECTOR

KINDS: Final = {kind.schemes[0]: kind for kind in (NPU, CPU, SIM)}
"""All kinds of devices by name, in the order of listings."""

_SCHEMES: Final = {alias: scheme for scheme, kind in KINDS.items() for alias in kind.schemes}


class DeviceName(str):
    """Name of a device as in PyTorch programs, equal to its text; `device("npu", 0)` is `device("npu:0")`.

    Any name is accepted, even "cuda". A use of the device raises DeviceError if it does not exist.
    """

    __slots__ = ()

    def __new__(cls, device: str, index: int | None = None) -> DeviceName:
        return super().__new__(cls, device if index is None else f"{device}:{index}")

    @property
    def type(self) -> str:
        """Kind of the device: "cpu", "npu" or "sim"."""
        return _scheme(self) or self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """Number after the kind, or None."""
        number = self.rpartition(":")[2]
        return int(number) if number.isdecimal() else None


def split_uris(text: str) -> list[str]:
    """Split a list of URIs at commas and strip spaces. The URIs are not validated.

    A comma in `npu://0,1` belongs to the URI: after an NPU, only a known scheme begins the next URI.

    Raises:
        DeviceError: `text` is not a string.

    >>> split_uris("npu://0,0000:c6:00.1, sim:npu2,cpu")
    ['npu://0,0000:c6:00.1', 'sim:npu2', 'cpu']
    """
    if not isinstance(text, str):
        raise DeviceError(f"a device is named by text such as 'npu:0', not by {text!r}", code="INVALID_ARGUMENT")
    uris: list[str] = []
    for part in text.split(","):
        if uris and _scheme(uris[-1]) == "npu" and _scheme(part) is None:
            uris[-1] += f",{part.rstrip()}"
        else:
            uris.append(part.strip())
    return uris


def parse_uri(text: str) -> DeviceUri:
    """Parse a URI.

    Raises:
        DeviceError: The URI is malformed (INVALID_ARGUMENT), or the device is unknown (NOT_FOUND).

    >>> parse_uri("amdgpu://0,1?cols=4").selectors
    ('0', '1')
    """
    address, mark, query = text.strip().partition("?")
    scheme = _scheme(address)
    if scheme is None:
        known = "there are cpu, sim:npu1 and sim:npu2 (simulated), and npu"
        hint = f"an NPU is written npu://{address}" if SELECTOR.fullmatch(address) else known
        raise DeviceError(f"device {text!r} does not exist; {hint}", code="NOT_FOUND")
    path = address.partition(":")[2].removeprefix("//").strip()
    selectors = KINDS[scheme].selectors(text, "" if path == "*" else path)
    return DeviceUri(scheme, selectors, _options(text, scheme, query) if mark else {}, text)


def with_default(uri: DeviceUri, name: str, value: str) -> DeviceUri:
    """Add an option to a URI unless it is given already or the kind does not have it."""
    if name in uri.options or name not in KINDS[uri.scheme].options:
        return uri
    text = f"{uri.text}{'&' if uri.options else '?'}{name}={value}"
    return replace(uri, options={**uri.options, name: value}, text=text)


def _scheme(uri: str) -> str | None:
    return _SCHEMES.get(re.split(r"[:?]", uri.strip(), maxsplit=1)[0].casefold())


def _options(text: str, scheme: str, query: str) -> dict[str, str]:
    known = KINDS[scheme].options
    options: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = map(str.strip, part.partition("="))
        if name and name not in known:
            some = f"{scheme} takes {', '.join(known)}" if known else f"{scheme} takes none"
            raise DeviceError(f"{text}: unknown option {name}; {some}", code="INVALID_ARGUMENT")
        if not (name and value):
            raise DeviceError(f"{text}: the option {part!r} is not of the form NAME=VALUE", code="INVALID_ARGUMENT")
        if name in options:
            raise DeviceError(f"{text}: the option {name} is given twice", code="INVALID_ARGUMENT")
        try:
            OPTIONS[name].read(value)
        except ValueError:
            raise bad_option(text, name, OPTIONS[name].allowed, value) from None
        options[name] = value
    return options
