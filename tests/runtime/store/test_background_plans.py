"""Placement during background builds: on the CPU immediately, on the NPU once the kernels are built.

The NPU is a simulated one, with the C++ compiler of this machine; its builds wait until a test lets them go on.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from fakes import SECONDS, HeldBackend

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.planner import selection
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim import simulated_device as device
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Request

pytestmark = [
    pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason())),
    pytest.mark.usefixtures("_in_background"),
]
NPU = "sim:npu2"


class HeldCompiler(HeldBackend):
    """The back end of the simulated NPU, which waits before it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.host = HostBackend()
        self.name, self.formats = self.host.name, self.host.formats
        self.toolchain, self.ingredients, self.unfit = (  # type: ignore[method-assign]
            self.host.toolchain,
            self.host.ingredients,
            self.host.unfit,
        )

    def build(self, request: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        super().build(request, directory, force)
        return self.host.build(request, directory, force)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldCompiler]:
    """The default device is a simulated NPU, whose kernels this back end makes."""
    made = HeldCompiler()
    library = KernelLibrary(made)
    monkeypatch.setattr(device, "library", lambda: library)
    selection.reset()
    with nt.default_device(NPU):
        yield made
    made.go.set()
    finish_builds()
    selection.reset()


def bfloat16(*shape: int) -> nt.Tensor:
    values = np.random.default_rng(7).uniform(-2, 2, shape).astype(ml_dtypes.bfloat16)
    return nt.from_numpy(values)


def devices(*results: nt.Tensor) -> set[str]:
    return {row.device for row in nt.explain(*results)} - {"-"}


def why(result: nt.Tensor) -> str:
    return nt.explain(result)[-1].why


def test_the_cpu_computes_at_once_and_the_npu_from_the_next_run_on(compiler: HeldCompiler) -> None:
    x = bfloat16(256)
    first = (x * 2).numpy()
    assert compiler.begun.get(timeout=SECONDS)
    assert devices(x * 2) == {"cpu"}
    assert "is being built in the background" in why(x * 2)
    compiler.go.set()
    finish_builds()
    row = nt.explain(x * 2)[-1]
    assert row.device == NPU
    ran: list[events.Event] = []
    with events.listen(ran.append):
        again = (x * 2).numpy()
    assert [event.device for event in ran if isinstance(event, events.KernelRan)] == [NPU]
    np.testing.assert_array_equal(first, again)  # a product by two is exact
    assert len(compiler.built) == 1


def test_a_function_of_jit_moves_without_being_called_again(compiler: HeldCompiler) -> None:
    calls: list[int] = []
    outside = bfloat16(256)

    @nt.jit
    def f(x: nt.Tensor) -> nt.Tensor:
        calls.append(len(calls))
        return x * outside + 1

    x = bfloat16(256)
    first = f(x).numpy()
    assert f(x).numpy().tobytes() == first.tobytes()
    compiler.go.set()
    finish_builds()
    ran: list[events.Event] = []
    with events.listen(ran.append):
        again = [f(x).numpy() for _ in range(3)]
    assert NPU in {event.device for event in ran if isinstance(event, events.KernelRan)}
    assert (calls, f.captures) == ([0], 1)
    for result in again:
        # One rounding to bfloat16 less or more, between the product and the sum.
        np.testing.assert_allclose(result.astype(np.float32), first.astype(np.float32), rtol=2**-7, atol=2**-7)


def test_a_failure_leaves_it_on_the_cpu_with_one_warning_and_the_reason(compiler: HeldCompiler) -> None:
    compiler.failure = BuildError("error: this compiler has no wings")
    x = bfloat16(256)
    first = (x + x).numpy()
    compiler.go.set()
    finish_builds()
    with pytest.warns(RuntimeWarning, match="could not be built in the background.*no wings") as caught:
        second = (x + x).numpy()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert (x + x).numpy().tobytes() == second.tobytes() == first.tobytes()
        assert devices(x + x) == {"cpu"}
        assert "error: this compiler has no wings" in why(x + x)
        compiler.go.clear()
        (x + x + 1).numpy()  # another plan, with a kernel of its own
    compiler.go.set()
    finish_builds()
    assert len(compiler.built) == 2


@pytest.mark.parametrize("ask", ["forced", "setting"])
def test_the_program_waits_if_the_cpu_must_not_stand_in(compiler: HeldCompiler, ask: str) -> None:
    x = bfloat16(256)
    compiler.go.set()
    ran: list[events.Event] = []
    with events.listen(ran.append):
        if ask == "forced":
            (x.exp() + 1).realize(device=NPU)
        else:
            with config.scope(fallback="error"):
                (x.exp() + 1).realize()
    assert [event.device for event in ran if isinstance(event, events.KernelRan)] == [NPU]
