"""Kernel functions compiled for this machine: errors, cache, floating-point mode."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from npu_tensor.cli import main
from npu_tensor.config import config
from npu_tensor.dataflow.design import KernelFunction, ObjectType, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.host_compiler import compile_source, reason

pytestmark = pytest.mark.skipif(reason() is not None, reason=str(reason()))

FLOATS = ObjectType("float32", (4,))

SOURCE = Source(
    "modes",
    r"""
#include <aie_api/aie.hpp>
#include <limits>

extern "C" void nt_multiply(const float *a, float *b, float factor, int32 n) {
    for (int i = 0; i < n; i++) b[i] = a[i] * factor;
}
extern "C" void nt_rounding(int32 *modes) {
    modes[0] = static_cast<int32>(aie::get_rounding());
    aie::set_rounding(aie::rounding_mode::conv_even);
    modes[1] = static_cast<int32>(aie::get_rounding());
}
extern "C" void nt_load(const int32 *p, int32 *result) { aie::store_v(result, aie::load_v<16>(p)); }
""",
)
MULTIPLY = KernelFunction("nt_multiply", (FLOATS, FLOATS, "float32", "int32"), SOURCE)
ROUNDING = KernelFunction("nt_rounding", (ObjectType("int32", (2,)),), SOURCE)
LOAD = KernelFunction("nt_load", (ObjectType("int32", (16,)), ObjectType("int32", (16,))), SOURCE)
FUNCTIONS = (MULTIPLY, ROUNDING, LOAD)


def function(text: str, *arguments: ObjectType | str, flags: tuple[str, ...] = ()) -> KernelFunction:
    return KernelFunction("nt_f", arguments, Source("wrong", text, flags))


def compile_one(kernel: KernelFunction) -> host_compiler.Entry:
    return compile_source(kernel.source, "aie2", [kernel]).entry(kernel)


def test_float32_denormals_are_flushed_in_core_code_only() -> None:
    multiply = compile_source(SOURCE, "aie2", FUNCTIONS).entry(MULTIPLY)
    smallest = np.finfo(np.float32).smallest_normal
    a = np.array([smallest, smallest / 4, 1, -smallest], np.float32)
    b = np.empty(4, np.float32)
    assert multiply(a.ctypes.data, b.ctypes.data, 0.5, 4) is None
    assert b.tolist() == [0, 0, 0.5, 0]
    assert multiply(a.ctypes.data, b.ctypes.data, 8.0, 4) is None
    assert b.tolist() == [8 * smallest, 0, 8, -8 * smallest]
    # The mode is that of the caller again.
    halves = (a * np.float32(0.5)).view(np.uint32).tolist()
    assert halves == [0x0040_0000, 0x0010_0000, 0x3F00_0000, 0x8040_0000]


def test_every_call_finds_the_modes_of_a_core_after_reset() -> None:
    rounding = compile_source(SOURCE, "aie2", FUNCTIONS).entry(ROUNDING)
    modes = np.empty(2, np.int32)
    for _ in range(2):
        assert rounding(modes.ctypes.data) is None
        assert modes.tolist() == [0, 6]  # floor, then conv_even


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
def test_a_failed_assertion_is_returned(arch: str) -> None:
    load = compile_source(SOURCE, arch, FUNCTIONS).entry(LOAD)  # type: ignore[arg-type]
    memory = np.zeros(256, np.uint8)
    start = memory.ctypes.data + -memory.ctypes.data % 64
    assert load(start, start + 64) is None
    message = load(start + 4, start + 64)
    assert message is not None
    assert b"alignment" in message
    # 512-bit accesses need 32 bytes on aie2 and 64 on aie2p.
    assert (load(start + 32, start + 128) is None) is (arch == "aie2")


def test_a_mistake_is_shown_with_its_line() -> None:
    text = '#include <cstdint>\nextern "C" void nt_f(std::int32_t *a) {\n    a[0] = undeclared + 1;\n}\n'
    with pytest.raises(BuildError) as caught:
        compile_one(function(text, ObjectType("int32", (4,))))
    message = str(caught.value)
    assert message.startswith("the source wrong does not compile for this machine:\n")
    assert "wrong.cc:3:" in message
    assert "a[0] = undeclared + 1;" in message


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ('extern "C" void nt_g() {}', (), "the source wrong has no function nt_f"),
        ("void nt_f() {}", (), 'the object of wrong has no extern "C" function nt_f'),
        ('extern "C" void nt_f(int *a) {}', (), "another number of arguments"),
        ('extern "C" void nt_f(short *a) {}', (ObjectType("int32", (4,)),), "size or kind differs"),
        ('extern "C" void nt_f(int *a) {}', ("int32",), "size or kind differs"),
        ('extern "C" void nt_f(float a) {}', ("int32",), "size or kind differs"),
        ('extern "C" int nt_f() { return 1; }', (), "a kernel function returns nothing"),
        ('extern "C" void nt_f(long a) {}', ("int64",), "nt_f: a number must be int32 or float32, not int64"),
        ('void missing(); extern "C" void nt_f() { missing(); }', (), "the object of wrong cannot be loaded"),
    ],
)
def test_declarations_must_agree_with_the_source(
    text: str, arguments: tuple[ObjectType | str, ...], words: str
) -> None:
    with pytest.raises(BuildError, match=words):
        compile_one(function(text, *arguments))


def test_flags_reach_the_compiler() -> None:
    text = '#if ROWS != 4 || __AIE_ARCH__ != 20\n#error rows\n#endif\nextern "C" void nt_f() {}'
    assert compile_one(function(text, flags=("-DROWS=4",)))() is None
    with pytest.raises(BuildError, match="#error rows"):
        compile_one(function(text, flags=("-DROWS=5",)))


@pytest.fixture
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is compiled or loaded yet."""
    monkeypatch.setattr(host_compiler, "_loaded", {})
    with config.scope(cache_path=str(tmp_path)):
        yield


def answer(number: int) -> KernelFunction:
    type = ObjectType("int32", (1,))
    return KernelFunction("nt_f", (type,), Source("answer", f'extern "C" void nt_f(int *a) {{ a[0] = {number}; }}'))


def call(kernel: KernelFunction) -> int:
    result = ctypes.c_int32(-1)
    assert compile_one(kernel)(ctypes.addressof(result)) is None
    return result.value


def libraries(cache: Path) -> list[Path]:
    return sorted(cache.glob("aie2-host-*/answer_*.so"))


@pytest.mark.usefixtures("_empty_cache")
def test_a_library_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert call(answer(1)) == 1
    (entry,) = libraries(tmp_path)
    monkeypatch.setattr(host_compiler, "_loaded", {})
    monkeypatch.setattr(host_compiler, "run", None)  # calling it would fail
    assert call(answer(1)) == 1
    assert libraries(tmp_path) == [entry]


def test_no_compiler_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert reason() == "this machine has no C++ compiler: CXX is not set, and there is no c++, g++ or clang++"
    with pytest.raises(BuildError, match="this machine has no C"):
        compile_one(answer(7))
    old = tmp_path / "g++"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("CXX", "")
    assert (reason() or "").startswith("no C++ compiler of this machine (g++) takes C++20 for ")


@pytest.mark.parametrize(
    ("cxx", "said"),
    [
        ("'x", "CXX='x has an open quote; unset CXX"),
        ("no-such-compiler", "CXX=no-such-compiler names no program; unset CXX"),
        ("/bin/false", "CXX=/bin/false (/bin/false) takes no C++20 for "),
    ],
)
def test_a_wrong_cxx_is_an_error_also_beside_other_compilers(
    cxx: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reason() is None
    monkeypatch.setenv("CXX", cxx)
    assert (reason() or "").startswith(said)
    with pytest.raises(BuildError, match="unset CXX"):
        compile_one(answer(7))
    doctor = CliRunner().invoke(main, ["doctor"]).output
    assert said in doctor
    assert "fix:  unset CXX, or set it to a C++ compiler" in doctor
