"""URIs of devices: `cpu`, `sim:npu2x2`, `npu`, `npu:0`, `npu://AIE-0123456789abcdef,0000:c6:00.1?cols=4&power=turbo`.

    SCHEME[:[//]PATH][?NAME=VALUE[&NAME=VALUE...]]

The form is that of IREE's HAL devices, of which `amdgpu` is one: without a path, or with the path `*`, a URI means all
devices of its scheme as one logical device.
"""

from __future__ import annotations

import re
from typing import Final

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.cpu.kind import CPU
from npu_tensor.runtime.devices.device_kind import OPTIONS, DeviceUri, bad_option
from npu_tensor.runtime.sim.kind import SIM
from npu_tensor.runtime.xrt.kind import NPU, SELECTOR

__all__ = ["KINDS", "DeviceName", "parse_uri", "split_uris", "with_default"]

KINDS: Final = {kind.schemes[0]: kind for kind in (NPU, CPU, SIM)}
"""All kinds of devices, in the order in which they are listed."""

_SCHEMES: Final = {alias: scheme for scheme, kind in KINDS.items() for alias in kind.schemes}


class DeviceName(str):
    """The name of a device as PyTorch programs use it, equal to its text; `device("npu", 0)` is `device("npu:0")`.

    Any name is one, "cuda" as well: whether there is such a device shows where it is used.
    """

    __slots__ = ()

    def __new__(cls, device: str, index: int | None = None) -> DeviceName:
        return super().__new__(cls, device if index is None else f"{device}:{index}")

    @property
    def type(self) -> str:
        """The kind: "cpu", "npu" or "sim"."""
        return _scheme(self) or self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number behind the kind, None without one."""
        number = self.rpartition(":")[2]
        return int(number) if number.isdecimal() else None


def split_uris(text: str) -> list[str]:
    """The URIs of a list separated by commas, in order, without spaces around them; not checked further.

    A comma in `npu://0,1` belongs to the URI: after an NPU, only what begins with a known scheme is the next URI.
    Raises DeviceError for what is no text.

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
    """What a URI asks for. Raises DeviceError, INVALID_ARGUMENT if it cannot be read, NOT_FOUND for an unknown device.

    >>> parse_uri("amdgpu://0,1?cols=4")[:3]
    ('npu', ('0', '1'), {'cols': '4'})
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
    """The URI with an option of OPTIONS, unless it is given already or devices of this kind have no such option."""
    if name in uri.options or name not in KINDS[uri.scheme].options:
        return uri
    text = f"{uri.text}{'&' if uri.options else '?'}{name}={value}"
    return uri._replace(options={**uri.options, name: value}, text=text)


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
