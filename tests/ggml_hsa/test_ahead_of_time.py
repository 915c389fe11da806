"""`nt.compile` builds exactly the kernels that a program needs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.ggml_hsa.ahead_of_time import compile
from npu_tensor.runtime.build.iron import IronBackend

pytestmark = pytest.mark.usefixtures("less_optimised")

DEVICE = "sim:npu2?cols=4&float32=emulate"
rng = np.random.default_rng(7)
WEIGHTS = rng.standard_normal((64, 32), dtype=np.float32)


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path) -> Iterator[None]:
    with config.scope(cache_path=str(tmp_path / "cache"), arch="", kernel_dirs=(), jit=True):
        yield


def layer(weights: Any) -> Callable[..., Any]:
    return lambda x: (x @ weights).relu() + (weights[0] + 1)  # The second operand is prepared under jit.


@needs_compiler
@pytest.mark.parametrize("wrap", [lambda function: function, nt.jit], ids=["plain", "jitted"])
def test_a_program_needs_no_other_kernels(tmp_path: Path, wrap: Callable[..., Any]) -> None:
    """With building off, nothing in the cache and no leave to fall back to the CPU."""
    weights = nt.from_numpy(WEIGHTS)
    x = rng.standard_normal((16, 64), dtype=np.float32)
    function = wrap(layer(weights))
    made = compile(function, nt.zeros(16, 64), target=DEVICE, directory=tmp_path / "made")
    assert made.refused == ()
    assert made.kernels
    with (
        config.scope(kernel_dirs=(tmp_path / "made",), jit=False, cache_path=str(tmp_path / "empty"), fallback="error"),
        nt.default_device(DEVICE),
    ):
        schedule_knows_nothing()
        results = [call(nt.from_numpy(x)).numpy() for call in (layer(weights), nt.jit(layer(weights)))]
    for result in results:
        np.testing.assert_allclose(result, np.maximum(x @ WEIGHTS, 0) + WEIGHTS[0] + 1, rtol=1e-4, atol=1e-4)


@needs_compiler
def test_a_refused_task_is_compiled_in_parts() -> None:
    """A placement by cost may leave the activation and softmax to the CPU, so the product alone is there as well."""
    operands = [nt.zeros(64, 64, dtype=nt.bfloat16)] * 2
    made = compile(lambda x, w: (x @ w).tanh().softmax(-1), *operands, target="sim:npu2")
    assert [kernel.ops for kernel in made.kernels] == [("contract",), ("contract", "tanh"), ("softmax",)]
    assert made.refused == ()


def schedule_knows_nothing() -> None:
    """Drop the kernels that earlier tests have loaded."""
    from npu_tensor.planner import selection
    from npu_tensor.runtime.sim import simulated_device as device

    selection.reset_plans()
    device.library.cache_clear()


@needs_compiler
def test_the_result_names_kernels_and_files(tmp_path: Path) -> None:
    made = compile(lambda x, y: (x + y, x.argsort()), *[nt.zeros(1024, dtype=nt.bfloat16)] * 2, target="sim:npu1")
    (kernel,) = made.kernels
    assert (kernel.name, kernel.ops) == ("add-1024bf16-1024bf16-1024bf16", ("add",))
    assert kernel.files[".so"].is_relative_to(tmp_path / "cache")
    assert kernel.reason
    (refused,) = made.refused
    assert refused.startswith("argsort: no NPU kernel for this op")


@needs_compiler
def test_a_directory_keeps_kernels_of_one_name_apart(tmp_path: Path) -> None:
    half = nt.zeros(1 << 20, dtype=nt.bfloat16)

    def built(columns: int) -> str:
        made = compile(lambda x, y: x * y, half, half, target=f"sim:npu2?cols={columns}", directory=tmp_path)
        return made.kernels[0].files[".so"].name

    assert [built(columns) for columns in (8, 2, 8, 2)] == ["mul.so", "mul-2.so"] * 2


def test_functions_that_cannot_be_compiled() -> None:
    x, state = nt.zeros(4), nt.ones(4)

    def changes() -> Callable[..., Any]:
        def function(y: Any) -> Any:
            nonlocal state
            state += y
            return state

        return function

    with pytest.raises(nt.CaptureError):
        compile(lambda y: y.item(), nt.zeros(1), target="sim:npu2")
    with pytest.raises(nt.CaptureError, match="cannot change its arguments"):
        compile(changes(), x, target="sim:npu2")
    assert state.tolist() == [1, 1, 1, 1]
    with pytest.raises(nt.ArgumentError, match="must return tensors, not int"):
        compile(lambda y: 7, x, target="sim:npu2")
    with pytest.raises(ZeroDivisionError):
        compile(lambda y: 1 / 0, x, target="sim:npu2")


def test_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IronBackend, "missing", lambda _: "no compiler: none")
    x = nt.zeros(4, dtype=nt.bfloat16)
    for target in ("aie2p", "npu1", "Strix Halo", "npu2?cols=2&float32=bfloat16"):
        with pytest.raises(nt.BuildError, match="no compiler: none"):
            compile(lambda y: y + y, x, target=target)
    with config.scope(arch="npu2"), pytest.raises(nt.BuildError, match="no compiler"):
        compile(lambda y: y + y, x)
    for target, says in (("npu9", "no array"), ("npu2?cols=9", "cols must be"), ("npu1?x=1", "unknown option x")):
        with pytest.raises(nt.DeviceError, match=says):
            compile(lambda y: y + y, x, target=target)
    with pytest.raises(nt.ArgumentError, match="needs a target"):
        compile(lambda y: y + y, x)


def test_all_others_are_built_before_one_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def build(backend: Any, request: Any, directory: Path, force: bool = False) -> dict[str, Path]:
        begun.append(request.name)
        raise nt.BuildError(f"{request.name} is not for me")

    monkeypatch.setattr(IronBackend, "missing", lambda _: None)
    monkeypatch.setattr(IronBackend, "build", build)
    x = nt.zeros(64, dtype=nt.bfloat16)
    with pytest.raises(nt.BuildError, match=r"2 of 2 kernels cannot be built: .* is not for me; .* is not for me"):
        compile(lambda y: (y + y, y.sum()), x, target="aie2p")
    assert len(begun) == 2
