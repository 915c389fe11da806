"""C++ outside a design: compiled once, loaded once, called with arrays."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from running import needs_compiler

from npu_tensor import dtypes
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, BuildError, DeviceError
from npu_tensor.ggml_hsa.core_functions import CacheManager, Family, KernelManager, Module, symbol

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cache")
    with config.scope(cache_path=str(path)):
        yield path


def aligned(values: Array) -> Array:
    memory = np.zeros(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start : start + values.nbytes].view(values.dtype)
    made[...] = values
    return made


ORACLES = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("op", Family.BINARY.value)
def test_binary_functions_agree_with_numpy(op: str) -> None:
    module = KernelManager("sim:npu2").get_or_compile_module(Family.BINARY)
    random = np.random.default_rng(7)
    x, y = random.uniform(0.5, 4, (2, 256))
    for dtype, tolerance in ((dtypes.float32, 1e-6), (dtypes.bfloat16, 2**-8)):
        a, b = aligned(x.astype(dtype.numpy)), aligned(y.astype(dtype.numpy))
        out = aligned(np.zeros(256, dtype.numpy))
        module.function(symbol(op, dtype))(a, b, out, 256)
        expected = ORACLES[op](a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(out.astype(np.float64), expected, rtol=tolerance)


def test_unary_functions_are_those_of_the_pregeneration_tool() -> None:
    names = set(re.findall(r"void nt_(\w+)_bfloat16", Family.UNARY.text()))
    seed = {"abs", "sgn", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu_quick", "silu", "hardswish"}
    assert names == seed | {"hardsigmoid", "exp", "gelu_tanh", "gelu_erf"}
    module = KernelManager("sim:npu1").get_or_compile_module(Family.UNARY)
    x = aligned(np.linspace(-3, 3, 64).astype(ml_dtypes.bfloat16))
    out = aligned(np.zeros(64, ml_dtypes.bfloat16))
    module.function(symbol("tanh", dtypes.bfloat16))(x, out, 64)
    np.testing.assert_allclose(out.astype(np.float64), np.tanh(x.astype(np.float64)), atol=2**-7)


def test_threads_share_one_module_and_one_file(own_cache: Path) -> None:
    manager = KernelManager("aie2p")
    with ThreadPoolExecutor(16) as pool:
        modules = set(pool.map(lambda _: manager.get_or_compile_module(Family.BINARY), range(64)))
    assert modules == {KernelManager("npu2").get_or_compile_module(Family.BINARY)}
    files = list(own_cache.glob("aie2p-host-*/binary_*.so"))
    assert len(files) == 1
    assert re.fullmatch(r"binary_[0-9a-f]{16}\.so", files[0].name)


def test_a_binary_of_ones_own(own_cache: Path) -> None:
    text = 'extern "C" void nt_two(int *x) { x[0] = 2; }'
    first, second = (CacheManager("sim:npu1").get_or_compile("two", text) for _ in range(2))
    assert first == second
    assert first.path.parent.name.startswith("aie2-host-")
    assert CacheManager("sim:npu2").get_or_compile("two", text).path.parent.name.startswith("aie2p-host-")
    assert CacheManager("sim:npu1").get_or_compile("two", text + "\n").path != first.path
    assert Module.load_data(first.path.read_bytes()) is not None


def test_mistakes_are_errors_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="expected"):
        CacheManager().get_or_compile("wrong", "void {")
    with pytest.raises(ArgumentError, match=r"letters, digits"):
        CacheManager().get_or_compile("../x", "")
    with pytest.raises(DeviceError, match="gfx908"):
        CacheManager("gfx908")
    module = KernelManager().get_or_compile_module(Family.BINARY)
    with pytest.raises(ArgumentError, match="without a function nt_nothing"):
        module.function("nt_nothing")
    with pytest.raises(ArgumentError, match="aligned to 64 bytes"):
        module.function("nt_add_float32")(aligned(np.zeros(65, np.float32))[1:], 64)
    (tmp_path / "no.so").write_bytes(b"no library")
    with pytest.raises(BuildError, match="cannot be loaded"):
        Module.load(tmp_path / "no.so")
