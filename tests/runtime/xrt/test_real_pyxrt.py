"""The stand-in against the real pyxrt, where that is installed; it needs no NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from machine import Machine, install
from pybind_signatures import ALL
from signatures import MEASURED, NEWEST_KNOWN, Measured, documented, enumerations, outcome

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.xrt import bindings


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


@pytest.mark.parametrize("name", sorted(ALL))
def test_signature(real: ModuleType, name: str) -> None:
    """What the stand-in accepts the real module accepts, and there is nothing that only the real one refuses."""
    assert set(ALL[name].texts()) <= set(documented(real)[name])


def test_enumerations(real: ModuleType) -> None:
    with install(Machine()) as standin:
        ours = enumerations(standin)
    theirs = enumerations(real)
    assert {name: theirs[name] for name in ours} == ours


def test_nothing_but_the_real_names(real: ModuleType) -> None:
    """The stand-in has no name that the real module lacks."""
    with install(Machine()) as standin:
        for name in standin.__all__:
            ours, theirs = getattr(standin, name), getattr(real, name)
            names = {key for key in vars(ours) if not key.startswith("_")} if hasattr(ours, "__dict__") else set()
            assert names <= set(dir(theirs)), name


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.expression)
def test_measured(real: ModuleType, measured: Measured) -> None:
    """MEASURED is still what the real module does on a machine without an NPU."""
    if real.enumerate_devices():
        pytest.skip("there is an NPU, and this was measured without one")
    assert outcome(real, measured.expression).startswith(measured.outcome)


@pytest.mark.parametrize("expression", ["x.run().state()", "x.runlist().wait()"])
def test_empty_handles_end_the_process(real: ModuleType, expression: str) -> None:
    """Why the stand-in raises Crash for them."""
    path = str(Path(real.__file__ or "").parent)
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({path!r}); import pyxrt as x; {expression}"],
        env={**os.environ, "PYTHONFAULTHANDLER": ""},
        capture_output=True,
        check=False,
    )
    assert ended.returncode < 0, ended.stderr
