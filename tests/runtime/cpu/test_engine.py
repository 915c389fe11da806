"""The JIT engine: modules that are kept, their keys and memory, and compilation in several threads."""

from __future__ import annotations

import ast
import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import llvmlite.binding
import pytest

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.cpu import engine as engine_module
from npu_tensor.runtime.cpu.engine import Engine, source_version
from npu_tensor.runtime.cpu.target import CpuTarget, host_target


def new_engine(cache_dir: Path | None = None, key: str = "test") -> Engine:
    return Engine(host_target().create_target_machine(), key, cache_dir)


def add_constant(constant: int, name: str = "f") -> str:
    return f"define i64 @{name}(i64 %x) {{\n  %y = add i64 %x, {constant}\n  ret i64 %y\n}}\n"


def call(address: int, argument: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(argument)


class Generator:
    """Generator of modules that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.__qualname__ = "add_constant"

    def __call__(self, spec: float, target: CpuTarget) -> str:
        self.calls += 1
        return add_constant(int(10 * spec) if spec else int(str(spec).startswith("-")), "kernel")


def test_generated_modules_need_no_text_if_they_are_cached(tmp_path: Path) -> None:
    target, generator = host_target(), Generator()
    engine = new_engine(tmp_path)
    addresses = [engine.generated(generator, spec, target) for spec in (0.5, 0.0, -0.0, 0.5)]
    assert [call(address, 1) for address in addresses] == [6, 1, 2, 6]
    assert generator.calls == 3
    other = new_engine(tmp_path)
    assert call(other.generated(generator, -0.0, target), 1) == 2
    assert (generator.calls, other.statistics.disk_hits) == (3, 1)
    new_engine(tmp_path, "another processor").generated(generator, 0.5, target)
    assert generator.calls == 4


def test_version_follows_the_sources_of_generators(tmp_path: Path) -> None:
    def version() -> str:
        source_version.cache_clear()
        return source_version(tmp_path, imported)

    sources = [tmp_path / "runtime" / "cpu" / "kernel.py", tmp_path / "ops" / "op.py", tmp_path / "dtypes.py"]
    imported, seen = time.time() + 3600, set()
    for source in sources:
        source.parent.mkdir(parents=True, exist_ok=True)
        for text in ("x = 1", "x = 2"):
            source.write_text(text)
            seen.add(version())
            os.utime(source)
            assert version() in seen
    assert len(seen) == 6
    imported = time.time() - 3600
    assert version() != version(), "the code that runs may be older than its source"


def test_generators_depend_on_the_hashed_sources() -> None:
    hashed = ("npu_tensor.runtime.cpu", "npu_tensor.ops", "npu_tensor.dtypes", "npu_tensor.spec")
    without_text = {f"npu_tensor.{name}" for name in ("_util.cache_sizes", "_util.forks", "errors", "runtime.memory")}
    for path in Path(engine_module.__file__).parent.glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        if any(module.endswith("ir_emitter") for module in modules):
            ours = {name for name in modules if name.startswith("npu_tensor.") and not name.startswith(hashed)}
            assert ours <= without_text | {"npu_tensor.task"}, path


def test_threads_may_compile_at_once() -> None:
    engine = new_engine()
    results: dict[int, int] = {}

    def work(first: int) -> None:
        for constant in range(first, first + 6):
            results[first * 100 + constant] = call(engine.compile(add_constant(constant), "f")["f"], 0) - constant

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 24
    assert set(results.values()) == {0}


def add_float(constant: float) -> str:
    """The constant is beside the code, at an address of its own."""
    return f"define double @f(double %x) {{\n  %y = fadd double %x, {constant:.17e}\n  ret double %y\n}}"


def call_float(address: int, argument: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(argument)


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_code_that_nobody_holds_is_freed() -> None:
    engine = new_engine()
    first = engine.compile(add_float(0.1), "f")["f"]
    before = mappings()
    for k in range(200):
        assert call_float(engine.compile(add_float(k + 0.5), "f")["f"], 0.0) == k + 0.5
    assert mappings() - before < 20
    assert call_float(first, 1.0) == 1.1  # code in use is unchanged
    engine.compile(add_float(0.1), "f")
    assert engine.statistics.memory_hits == 1
    engine.compile(add_float(0.5), "f")
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
            engine.compile(add_float(1.0), "f")
        y = (x * 4 - 1.75).abs() / 3
        assert y.tolist() == pytest.approx([0.75, 3.25, 4.75])
        explanation = nt.explain((x * 5 - 1.75).abs() / 7)
    assert explanation[-1].kernel == "numpy"
    assert "cannot link the machine code" in str(explanation)
    assert call_float(engine.compile(add_float(1.0), "f")["f"], 1.0) == 2.0
