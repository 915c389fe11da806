"""Facts of the machine that the operating system and its tools tell.

Example:
    driver_version()                                            # "2.21.0,ab12cd"
    pci_numbers(Path("/sys/bus/pci/devices/0000:c6:00.1"))      # ("1022", "17f0", "20")
    tool_output("xrt-smi", "examine")
"""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from npu_tensor.errors import DeviceError

__all__ = ["driver_version", "file_text", "pci_numbers", "processor_fields", "processor_name", "tool_output"]

SECONDS: Final = 10
"""Time for a tool to answer."""


def driver_version(root: Path = Path("/")) -> str:
    """What the driver amdxdna says, below `root`/sys; "" if it is not loaded or has no version of its own."""
    return file_text(root / "sys/module/amdxdna/version")


def pci_numbers(directory: Path) -> tuple[str, str, str]:
    """Vendor, device and revision of a device by its directory in /sys, without "0x"; "" for what is not there."""
    vendor, device, revision = (
        file_text(directory / name).removeprefix("0x") for name in ("vendor", "device", "revision")
    )
    return vendor, device, revision


def file_text(file: Path) -> str:
    """The text of a small file without space around it; "" if it cannot be read."""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


@cache
def processor_fields() -> dict[str, str]:
    """What /proc/cpuinfo says of the last processor, by name; empty where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def processor_name() -> str:
    """Of this machine, as its maker calls it, or the architecture where nothing says that."""
    return processor_fields().get("model name") or platform.processor() or platform.machine()


def tool_output(*command: str) -> str:
    """What a tool prints. Raises DeviceError with the reason if it is not there, fails or takes longer than 10 s."""
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except OSError as error:
        raise DeviceError(f"{error.strerror}: {command[0]!r}") from None
    except subprocess.TimeoutExpired:
        raise DeviceError(f"no answer within {SECONDS} s") from None
    if process.returncode:
        lines = (process.stderr.strip() or process.stdout.strip()).splitlines()
        raise DeviceError(": ".join([f"exit code {process.returncode}", *lines[-1:]]))
    return process.stdout
