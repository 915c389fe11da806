"""The namespace of the array API standard against NumPy's, which has the same names.

The public suite tests more: `python scripts/array_api_tests.py PATH`, which runs here if ARRAY_API_TESTS has the path.
"""

import inspect
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import array_api as xp

# Names of the standard. NumPy's own list is longer.
FUNCTIONS = sorted(name for name, value in vars(xp).items() if callable(value) and not name.startswith("_"))
NAMES = [name for name in FUNCTIONS if name not in ("isdtype", "of_numpy", "Tensor", "Any", "Final")]


@pytest.mark.covers("__array_namespace__", "to_device")
def test_tensors_name_it() -> None:
    x = nt.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version=xp.__array_api_version__) is xp
    with pytest.raises(nt.ArgumentError, match="version"):
        x.__array_namespace__(api_version="2099.12")
    assert x.to_device("cpu") is x
    with pytest.raises(nt.DeviceError):
        x.to_device("cuda")
    with pytest.raises(nt.ArgumentError, match="streams"):
        x.to_device("cpu", stream=1)


def test_promotion_ignores_dimensions() -> None:
    names = [*xp.__array_namespace_info__().dtypes(kind="integral"), "float32", "float64"]
    for first, second in itertools.product(names, names):
        if first.startswith("float") is not second.startswith("float"):
            continue  # Undefined in the standard.
        expected = np.result_type(first, second)
        for shape in ((), (2,)):
            a, b = xp.ones(shape, dtype=getattr(xp, first)), xp.ones((2,), dtype=getattr(xp, second))
            assert xp.add(a, b).dtype.numpy == xp.multiply(b, a).dtype.numpy == expected
            assert xp.where(a > 0, a, b).dtype.numpy == expected
        assert xp.result_type(getattr(xp, first), getattr(xp, second)).numpy == expected
    assert (nt.ones((), dtype="float64") + nt.ones(2)).dtype is nt.float32  # PyTorch's rule outside of the namespace.


@pytest.mark.parametrize("name", NAMES)
def test_functions_have_numpys_names(name: str) -> None:
    if name in xp.__array_namespace_info__().dtypes():
        assert getattr(xp, name) is getattr(nt, name)
        return
    assert inspect.getdoc(getattr(xp, name))
    assert hasattr(np, name)


def test_recorded_and_computed_results_are_tensors() -> None:
    x = nt.tensor([[3.0, 1.0], [1.0, 2.0]])
    array = x.numpy()
    for result, expected in (
        (xp.unique_values(x), np.unique_values(array)),
        (xp.unique_counts(x).counts, np.unique_counts(array).counts),
        (xp.sort(x, descending=True), -np.sort(-array)),
        (xp.argsort(x, axis=0), np.argsort(array, 0)),
        (xp.var(x, axis=0, correction=1), np.var(array, 0, correction=1)),
        (xp.clip(x, min=1.5), np.clip(array, 1.5, None)),
        (xp.linalg.inv(x), np.linalg.inv(array)),
        (xp.fft.fftshift(x), np.fft.fftshift(array)),
        (xp.fft.rfftfreq(5, d=0.5), np.fft.rfftfreq(5, 0.5)),
        (xp.fft.fftfreq(4), np.fft.fftfreq(4)),
        (xp.expand_dims(x, axis=(0, -1)), np.expand_dims(array, (0, -1))),
        (xp.meshgrid(x[0], x[1])[1], np.meshgrid(array[0], array[1])[1]),
        (xp.linalg.eigh(x).eigenvalues, np.linalg.eigh(array).eigenvalues),
        (xp.eye(3, 4, k=1), np.eye(3, 4, 1)),
        (xp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False)),
        (xp.floor_divide(xp.asarray([np.inf, -7.0]), 2.0), [np.inf, -4.0]),
        (x[xp.zeros((0,), dtype=xp.bool)], array[np.zeros(0, bool)]),
        (xp.arange(5, 0), []),
        (xp.ones(shape=(2, 1)), np.ones((2, 1))),
        (xp.broadcast_arrays(x, x[0])[1], np.broadcast_arrays(array, array[0])[1]),
    ):
        assert isinstance(result, nt.Tensor)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    assert np.signbit(xp.remainder(xp.asarray(0.0), xp.asarray(-2.0)).numpy())
    assert not xp.add(x, x).is_realized


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] is xp.float32
    assert info.dtypes(kind=("bool", "unsigned integer")) == {"bool": nt.bool, "uint8": nt.uint8}
    assert info.default_device() in info.devices()
    assert xp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert info.capabilities()["boolean indexing"]
    assert xp.finfo(xp.float64).dtype is xp.float64
    assert xp.iinfo(xp.int8).max == 127
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.int8, "signed integer")
    assert not xp.isdtype(xp.int8, (xp.bool, "real floating"))


@pytest.mark.skipif("ARRAY_API_TESTS" not in os.environ, reason="ARRAY_API_TESTS names no checkout of array-api-tests")
def test_the_public_suite_passes() -> None:
    script = Path(__file__).parents[2] / "scripts" / "array_api_tests.py"
    command = [sys.executable, script, os.environ["ARRAY_API_TESTS"], "--max-examples", "2", "--hypothesis-seed", "0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
