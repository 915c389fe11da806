"""The JIT engine: compilation, refusals, and the cache of object files."""

from __future__ import annotations

import ast
import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

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


def test_compiles_and_runs() -> None:
    addresses = new_engine().compile(add_constant(41) + add_constant(-3, "g"), "f", "g")
    assert call(addresses["f"], 1) == 42
    assert call(addresses["g"], 1) == -2


UNDEFINED_CALL = "declare void @no_such_symbol()\ndefine void @f() {\n  call void @no_such_symbol()\n  ret void\n}"


def test_undefined_symbols_are_refused() -> None:
    engine = new_engine()
    with pytest.raises(BuildError, match="no_such_symbol"):
        engine.compile(UNDEFINED_CALL, "f")
    assert call(engine.compile(add_constant(1), "f")["f"], 1) == 2


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("this is not IR", ["f"]),
        ("define i64 @f(i64 %x) {\n  ret i32 0\n}", ["f"]),
        (
            # Use before definition: only the verifier notices.
            "define i64 @f(i64 %x) {\n  %y = add i64 %z, 1\n  %z = add i64 %x, 1\n  ret i64 %y\n}",
            ["f"],
        ),
        (add_constant(1), ["f", "missing"]),
    ],
)
def test_bad_modules_raise(text: str, names: list[str]) -> None:
    with pytest.raises(BuildError):
        new_engine().compile(text, *names)


def test_object_cache_serves_a_new_engine(tmp_path: Path) -> None:
    cache = tmp_path / "made" / "when needed"
    new_engine(cache).compile(add_constant(9), "f")
    engine = new_engine(cache)
    assert call(engine.compile(add_constant(9), "f")["f"], 1) == 10
    assert (engine.statistics.compiled, engine.statistics.disk_hits) == (0, 1)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_damaged_entry_is_compiled_again(tmp_path: Path, damage: str) -> None:
    new_engine(tmp_path).compile(add_constant(9), "f")
    (entry,) = tmp_path.glob("cpu-*/*.o")
    good = entry.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    bad = {"truncated": good[:-7], "flipped": bytes(flipped), "empty": b""}[damage]
    entry.write_bytes(bad)
    engine = new_engine(tmp_path)
    assert call(engine.compile(add_constant(9), "f")["f"], 1) == 10
    assert engine.statistics.compiled == 1
    assert entry.read_bytes() == good


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


def test_specifications_need_a_complete_text() -> None:
    with pytest.raises(TypeError, match="no stable text"):
        new_engine().generated(Generator(), object(), host_target())


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
