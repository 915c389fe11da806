"""The stand-in for pyxrt against the real module where that is installed, and against MEASURED. No NPU is needed."""

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from machine import Machine, install
from pybind import texts

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.xrt import bindings

NEWEST_KNOWN: Final = (2, 25)
"""The version of XRT that the stand-in follows."""

MEASURED: Final = {
    "x.enumerate_devices()": "0",
    "x.device(0)": "RuntimeError:  No such device with index '0'",
    "x.device(-1)": "TypeError: __init__(): incompatible constructor arguments.",
    "x.device(1.5)": "TypeError: __init__(): incompatible constructor arguments.",
    "x.device(None)": "TypeError: __init__(): incompatible constructor arguments.",
    "x.hw_context(0, x.uuid('0'))": "TypeError: __init__(): incompatible constructor arguments.",
    "x.kernel('a', 'b')": "TypeError: __init__(): incompatible constructor arguments.",
    "x.bo()": "TypeError: __init__(): incompatible constructor arguments.",
    "x.xclbin('/nonexistent')": "RuntimeError: No such file '/nonexistent'",
    "x.xclbin('/etc/passwd')": "RuntimeError: Invalid xclbin",
    "x.xclbin('/dev/null')": "RuntimeError: xclbin: buffer too small to contain header",
    "x.xclbin('/tmp')": "MemoryError: std::bad_alloc",
    "x.xclbin(Path('/nonexistent'))": "TypeError: __init__(): incompatible constructor arguments.",
    "x.elf('/nonexistent')": "RuntimeError: /nonexistent is not found or is not a valid ELF file",
    "x.elf('/etc/passwd')": "RuntimeError: /etc/passwd is not found or is not a valid ELF file",
    "x.uuid('0') == x.uuid('0')": "False",
    "x.ert_cmd_state(8).name": "'ERT_CMD_STATE_TIMEOUT'",
    "str(x.ert_cmd_state.ERT_CMD_STATE_ERROR)": "'ert_cmd_state.ERT_CMD_STATE_ERROR'",
    "x.bo.flags.host_only == 536870912": "False",
    "int(x.bo.flags.cacheable)": "16777216",
}
"""Expressions, and what they gave with pyxrt 2.25 without an NPU: the text of a value, or the kind of an exception with
how its text begins."""


@pytest.fixture(scope="module")
def real() -> ModuleType:
    try:
        module: ModuleType = bindings.pyxrt()
    except DeviceError as error:
        pytest.skip(f"no pyxrt here: {str(error).splitlines()[0]}")
    version = tuple(int(part) for part in bindings.xrt_version().split(".")[:2] if part)
    if version and version < NEWEST_KNOWN:
        pytest.skip(f"this is XRT {version}, and the stand-in follows {NEWEST_KNOWN}")
    return module


def outcome(module: ModuleType, expression: str) -> str:
    """Evaluate an expression with `x` as the module. Returns the value or the exception as text."""
    try:
        return repr(eval(expression, {"x": module, "Path": Path}))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("expression", MEASURED)
def test_the_stand_in_behaves_as_measured(expression: str) -> None:
    with install(Machine([])) as standin:
        assert outcome(standin, expression).startswith(MEASURED[expression])


@pytest.mark.parametrize("expression", MEASURED)
def test_the_real_module_behaves_as_measured(real: ModuleType, expression: str) -> None:
    if real.enumerate_devices():
        pytest.skip("there is an NPU, and this was measured without one")
    assert outcome(real, expression).startswith(MEASURED[expression])


# --- signatures


_SAME: Final = (
    (r"typing\.SupportsInt \| typing\.SupportsIndex|typing\.SupportsInt|typing\.SupportsIndex", "int"),
    (r"\bList\[", "list["),
    # A class that was bound after the function that mentions it has its C++ name there.
    (r"\bxrt::(device|xclbin|elf|kernel|bo|run|hw_context|module)\b", r"pyxrt.\1"),
)
"""The same in several versions of pybind11."""


def documented(module: ModuleType) -> dict[str, list[str]]:
    """The overloads of every function by its name without the module's, as the docstrings list them."""
    result: dict[str, list[str]] = {}
    _collect(module, "", result)
    return result


def _collect(owner: Any, prefix: str, result: dict[str, list[str]]) -> None:
    for name, member in vars(owner).items():
        inner = f"{prefix}{name}"
        if inspect.ismodule(member) or inspect.isclass(member):
            if inspect.ismodule(member) or (member.__module__ or "").partition(".")[0] == "pyxrt":
                _collect(member, f"{inner}.", result)
        elif name == "__init__" or (callable(member) and not name.startswith("_")):
            result[inner] = _overloads(name, member.__doc__ or "")


def _overloads(name: str, text: str) -> list[str]:
    result = []
    for line in text.splitlines():
        line = re.sub(r"^\d+\. ", "", line.strip())
        if re.match(rf"{re.escape(name)}\(.*\) -> ", line) and "*args, **kwargs" not in line:
            for pattern, same in _SAME:
                line = re.sub(pattern, same, line)
            result.append(line)
    return result


def enumerations(module: ModuleType) -> dict[str, dict[str, int]]:
    """The members of every enumeration with their values."""
    result: dict[type[Any], str] = {}
    for prefix, owner in (("bo.", module.bo), ("", module)):
        for name, member in vars(owner).items():
            if hasattr(member, "__members__") and member.__module__.partition(".")[0] == "pyxrt":
                result.setdefault(member, f"{prefix}{name}")
    return {name: {key: int(value) for key, value in kind.__members__.items()} for kind, name in result.items()}


def test_signatures(real: ModuleType) -> None:
    """The real module accepts all arguments that the stand-in accepts."""
    theirs = documented(real)
    assert {name: ours for name, ours in texts().items() if not set(ours) <= set(theirs.get(name, ()))} == {}


def test_enumerations(real: ModuleType) -> None:
    with install(Machine()) as standin:
        ours = enumerations(standin)
    theirs = enumerations(real)
    assert {name: ours[name] | theirs[name] for name in ours} == {name: theirs[name] for name in ours}
