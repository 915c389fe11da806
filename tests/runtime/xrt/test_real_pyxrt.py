"""The stand-in against the real pyxrt, where that is installed; it needs no NPU."""

from types import ModuleType

import pytest
from machine import Machine, install
from pybind import texts
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


def test_signatures(real: ModuleType) -> None:
    """The real module accepts all arguments that the stand-in accepts."""
    theirs = documented(real)
    assert {name: ours for name, ours in texts().items() if not set(ours) <= set(theirs.get(name, ()))} == {}


def test_enumerations(real: ModuleType) -> None:
    with install(Machine()) as standin:
        ours = enumerations(standin)
    theirs = enumerations(real)
    assert {name: ours[name] | theirs[name] for name in ours} == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.expression)
def test_measured(real: ModuleType, measured: Measured) -> None:
    """MEASURED still describes the real module on a machine without an NPU."""
    if real.enumerate_devices():
        pytest.skip("there is an NPU, and this was measured without one")
    assert outcome(real, measured.expression).startswith(measured.outcome)
