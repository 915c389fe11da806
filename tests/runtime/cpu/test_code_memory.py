"""Machine code in memory: freed when it is unreachable, refused if there is no memory."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import llvmlite.binding
import pytest

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu.engine import Address, Engine
from npu_tensor.runtime.cpu.target import host_target

TARGET = host_target()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def new_engine() -> Engine:
    return Engine(TARGET.create_target_machine(), "test", None)


def polynomial(constant: float, terms: int = 1) -> str:
    """f(x) is x plus `terms` times the constant; the constant lies beside the code, at an address of its own."""
    lines = [f"  %x{n + 1} = fadd double %x{n}, {constant + n:.17e}" for n in range(terms)]
    return "\n".join(["define double @f(double %x0) nounwind {", *lines, f"  ret double %x{terms}", "}"])


def call(address: Address, argument: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(argument)


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_code_that_nobody_holds_is_freed() -> None:
    engine = new_engine()
    first = engine.compile(polynomial(0.1), "f")["f"]
    before = mappings()
    for k in range(200):
        assert call(engine.compile(polynomial(k + 0.5), "f")["f"], 0.0) == k + 0.5
    assert mappings() - before < 20
    assert call(first, 1.0) == 1.1  # code in use is unchanged
    engine.compile(polynomial(0.1), "f")
    assert engine.statistics.memory_hits == 1
    engine.compile(polynomial(0.5), "f")
    assert engine.statistics.compiled == 202


def test_without_memory_for_code_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of mappings of a process has this effect."""

    def refuse(*arguments: object) -> None:
        raise RuntimeError("Cannot allocate memory")

    engine = new_engine()
    x = nt.tensor([1.0, -2.0, 4.0])
    (x + x).realize()  # the thread pool
    with config.scope(), monkeypatch.context() as patch:
        patch.setattr(llvmlite.binding.JITLibraryBuilder, "link", refuse)
        with pytest.raises(BuildError, match="cannot link the machine code"):
            engine.compile(polynomial(1.0), "f")
        y = (x * 4 - 1.75).abs() / 3
        assert y.tolist() == pytest.approx([0.75, 3.25, 4.75])
        explanation = nt.explain((x * 5 - 1.75).abs() / 7)
    assert explanation[-1].kernel == "numpy"
    assert "cannot link the machine code" in str(explanation)
    assert call(engine.compile(polynomial(1.0), "f")["f"], 1.0) == 2.0
