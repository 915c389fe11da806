"""Measured behaviour of pyxrt 2.25 without an NPU.

Both the stand-in and, where it is installed, the real module are held to MEASURED.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

__all__ = ["MEASURED", "NEWEST_KNOWN", "Measured", "outcome"]

NEWEST_KNOWN: Final = (2, 25)
"""The version of XRT that the stand-in follows."""


class Measured(NamedTuple):
    """An expression and what it gave: the text of a value, or the kind of an exception with how its text begins."""

    expression: str
    outcome: str


MEASURED: Final = tuple(
    Measured(*pair)
    for pair in (
        ("x.enumerate_devices()", "0"),
        ("x.device(0)", "RuntimeError:  No such device with index '0'"),
        ("x.device(-1)", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.device(1.5)", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.device(None)", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.hw_context(0, x.uuid('0'))", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.kernel('a', 'b')", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.bo()", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.xclbin('/nonexistent')", "RuntimeError: No such file '/nonexistent'"),
        ("x.xclbin('/etc/passwd')", "RuntimeError: Invalid xclbin"),
        ("x.xclbin('/dev/null')", "RuntimeError: xclbin: buffer too small to contain header"),
        ("x.xclbin('/tmp')", "MemoryError: std::bad_alloc"),
        ("x.xclbin(Path('/nonexistent'))", "TypeError: __init__(): incompatible constructor arguments."),
        ("x.elf('/nonexistent')", "RuntimeError: /nonexistent is not found or is not a valid ELF file"),
        ("x.elf('/etc/passwd')", "RuntimeError: /etc/passwd is not found or is not a valid ELF file"),
        ("x.uuid('0') == x.uuid('0')", "False"),
        ("x.ert_cmd_state(8).name", "'ERT_CMD_STATE_TIMEOUT'"),
        ("str(x.ert_cmd_state.ERT_CMD_STATE_ERROR)", "'ert_cmd_state.ERT_CMD_STATE_ERROR'"),
        ("x.bo.flags.host_only == 536870912", "False"),
        ("int(x.bo.flags.cacheable)", "16777216"),
    )
)


def outcome(module: ModuleType, expression: str) -> str:
    """Evaluate an expression with `x` as the module. Returns the value or the exception as text."""
    try:
        return repr(eval(expression, {"x": module, "Path": Path}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
