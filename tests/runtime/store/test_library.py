"""Sources of kernels: the search order, equal kernels, and the message for a missing kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npu_tensor.config import config
from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import (
    ABI,
    AnyRequest,
    ProgramRequest,
    Request,
    Unit,
    description,
    digest,
    kernel_key,
)
from npu_tensor.runtime.store.store import Artifact

NAME = "neg-256i32-256i32"


def design(text: str = "// negate", elements: int = 256, columns: int = 1) -> Design:
    d = Builder("negate", "aie2p", columns)
    x, y = d.host_buffer("x", "int32", elements), d.host_buffer("y", "int32", elements)
    tile = ObjectType("int32", (64,))
    negate = d.function("nt_negate", [tile, tile], Source("negate", text), cycles=40)
    fx = d.fifo("x0", tile, Tile(0, 0), [Tile(0, 2)])
    fy = d.fifo("y0", tile, Tile(0, 2), [Tile(0, 0)])

    def body(source: Any, result: Any) -> None:
        a, b = source.acquire(1), result.acquire(1)
        negate(a, b)
        source.release(1)
        result.release(1)

    d.worker(Tile(0, 2), body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(elements))
    d.drain(fy, y, AccessPattern.linear(elements))
    return d.build()


def test_keys_stay_the_same() -> None:
    """Ready kernels are found by this digest; it changes with `ABI` only."""
    assert digest(design().configuration) == "65a9e407ea60812a86ab1a4a0b45d19dfc4a11d6acd6e53b3bc45758a541bc1d"
    assert ABI == 2


def request(made: Design | None = None, name: str = NAME) -> Request:
    return Request(name, made or design(), ("(256,1,1,1)/i32", "(256,1,1,1)/i32"))


class FakeBackend:
    """Writes a file that names the design, and counts."""

    name = "fake"
    formats: tuple[tuple[str, ...], ...] = ((".bin",),)

    def __init__(self) -> None:
        self.built: list[str] = []
        self.absent: str | None = None
        self.failure: str = ""
        self.version = "fake1.0"
        self.extra: dict[str, Any] = {"flags": ["-O2"], "headers": {"nt/x.hpp": "00"}}

    def missing(self) -> str | None:
        return self.absent

    def toolchain(self) -> str:
        return self.version

    def unit(self, design: Design | ArrayProgram) -> Unit:
        return design.configuration if isinstance(design, Design) else design

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        return self.extra

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        return None if ingredients.get("flags") else "this processor lacks wings"

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        self.built.append(request.name)
        if self.failure:
            raise BuildError(self.failure)
        path = directory / "out"
        path.write_text(f"made from {digest(self.unit(request.design))}")
        return {".bin": path}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Iterator[None]:
    with config.scope(cache_path=str(tmp_path / "cache"), kernel_dirs=(), jit=True, force_recompile=False):
        yield


def publish(artifact: Artifact, root: Path, exported: str, **made_from: Any) -> Path:
    """Put a kernel into a kernel directory, as `gen-kernels` does."""
    contents = {suffix: path.read_bytes() for suffix, path in artifact.files.items()}
    fields = {"name": artifact.name, "key": artifact.key, "made_from": artifact.description["made_from"] | made_from}
    KernelDirectory(root).write("aie2p", exported, contents, fields)
    return root / "aie2p"


def test_places_are_asked_in_order(tmp_path: Path) -> None:
    backend, kernel = FakeBackend(), request()
    built = KernelLibrary(backend).find(kernel)
    assert built.origin == "built"
    publish(built, tmp_path / "ready", "free_name")
    again = KernelLibrary(backend)
    assert again.find(kernel).origin == "cache"
    assert again.find(kernel).origin == "memory"
    with config.scope(kernel_dirs=(tmp_path / "ready",)):
        ready = KernelLibrary(backend).find(kernel)
    assert ready.origin == "precompiled"
    assert ready.files[".bin"] == tmp_path / "ready" / "aie2p" / "free_name.bin"
    assert ready.files[".bin"].read_text() == f"made from {digest(kernel.design.configuration)}"
    assert backend.built == [NAME]


def test_an_earlier_directory_wins_and_a_later_one_is_asked_too(tmp_path: Path) -> None:
    backend, kernel = FakeBackend(), request()
    built = KernelLibrary(backend).find(kernel)
    for name in ("one", "two"):
        publish(built, tmp_path / name, name)
    (tmp_path / "empty").mkdir()
    for order, expected in ((("one", "two"), "one"), (("two", "one"), "two"), (("empty", "two"), "two")):
        with config.scope(kernel_dirs=tuple(tmp_path / name for name in order)):
            assert KernelLibrary(backend).find(kernel).files[".bin"].stem == expected


def test_ready_kernels_need_no_compiler_and_no_building(tmp_path: Path) -> None:
    backend, kernel = FakeBackend(), request()
    publish(KernelLibrary(backend).find(kernel), tmp_path / "ready", NAME)
    backend.absent, backend.version = "no compiler: No module named 'aie'", "none"
    with config.scope(kernel_dirs=(tmp_path / "ready",), jit=False, cache_path=str(tmp_path / "other")):
        assert KernelLibrary(backend).find(kernel).origin == "precompiled"


def test_without_compiler_or_with_building_off_every_place_is_named(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.absent = "no compiler: No module named 'aie'"
    (tmp_path / "ready" / "aie2p").mkdir(parents=True)
    with config.scope(kernel_dirs=(tmp_path / "ready",)):
        with pytest.raises(BuildError, match=rf"no compiler: No module named 'aie'.*ready.* has no {NAME}"):
            KernelLibrary(backend).find(request())
        with config.scope(jit=False), pytest.raises(BuildError, match=r"NPU_TENSOR_JIT=off.*not in the cache.*ready"):
            KernelLibrary(backend).find(request())
    assert backend.built == []


def test_a_ready_kernel_of_another_design_is_not_used(tmp_path: Path) -> None:
    backend = FakeBackend()
    publish(KernelLibrary(backend).find(request()), tmp_path / "ready", "free_name")
    with config.scope(kernel_dirs=(tmp_path / "ready",), jit=False):
        with pytest.raises(BuildError, match=r"free_name.* was made from another configuration of negate"):
            KernelLibrary(backend).find(request(design("// other text")))
        other = FakeBackend()
        other.name = "iron"
        with pytest.raises(BuildError, match="was made by the back end fake, not iron"):
            KernelLibrary(other).find(request())


def test_every_flipped_byte_of_a_ready_kernel_is_noticed(tmp_path: Path) -> None:
    backend, kernel = FakeBackend(), request()
    path = publish(KernelLibrary(backend).find(kernel), tmp_path / "ready", "k") / "k.bin"
    whole = path.read_bytes()
    with config.scope(kernel_dirs=(tmp_path / "ready",), jit=False, cache_path=str(tmp_path / "other")):
        for position in range(len(whole)):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
            with pytest.warns(RuntimeWarning, match="is damaged"), pytest.raises(BuildError, match="is damaged"):
                KernelLibrary(backend).find(kernel)
        path.unlink()
        with pytest.warns(RuntimeWarning, match="is damaged"), pytest.raises(BuildError, match="cannot be read"):
            KernelLibrary(backend).find(kernel)


@pytest.mark.parametrize(
    ("formats", "reason"),
    [
        (((".bin",),), ""),
        (((".xclbin", "_insts.bin"), (".bin",)), ""),
        (((".bin", "_insts.bin"), (".elf",)), "k in .* has no _insts.bin and no .elf$"),
        (((".xclbin", "_insts.bin"),), "k in .* has no .xclbin, _insts.bin$"),
    ],
)
def test_a_ready_kernel_has_all_files_of_one_format(
    tmp_path: Path, formats: tuple[tuple[str, ...], ...], reason: str
) -> None:
    backend, kernel = FakeBackend(), request()
    directory = publish(KernelLibrary(backend).find(kernel), tmp_path / "ready", "k")
    backend.formats = formats
    result = KernelDirectory(directory.parent).look_up(kernel, backend)
    if reason:
        assert isinstance(result, str)
        assert re.fullmatch(reason, result)
    else:
        assert isinstance(result, Artifact)


def test_a_kernel_for_another_processor_is_not_loaded(tmp_path: Path) -> None:
    backend = FakeBackend()
    backend.extra = {}
    publish(KernelLibrary(backend).find(request()), tmp_path / "ready", "k")
    with (
        config.scope(kernel_dirs=(tmp_path / "ready",), jit=False, cache_path=str(tmp_path / "other")),
        pytest.raises(BuildError, match="made on another machine: this processor lacks wings"),
    ):
        KernelLibrary(backend).find(request())


def test_a_build_can_be_forced() -> None:
    backend, kernel = FakeBackend(), request()
    library = KernelLibrary(backend)
    assert [library.make(kernel, force).origin for force in (False, False, True, True)] == [
        "built",
        "cache",
        "built",
        "built",
    ]
    assert len(backend.built) == 3


@pytest.mark.parametrize("ending", [".pdi", "-9e3779b97f4a7c15.pdi", ".hsaco", "-3f000000.0.1.hsaco"])
def test_a_kernel_of_ggml_hsa_is_named_as_such(ending: str, tmp_path: Path) -> None:
    directory = tmp_path / "aie2p"
    directory.mkdir()
    (directory / f"{NAME}{ending}").write_bytes(b"\0" * 8)
    with (
        config.scope(kernel_dirs=(tmp_path,), jit=False),
        pytest.raises(BuildError, match=f"{re.escape(NAME + ending)} is a kernel of ggml-hsa, which pyxrt cannot run"),
    ):
        KernelLibrary(FakeBackend()).find(request())


def test_a_kernel_directory_that_does_not_exist_is_an_error_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_HSA_KERNEL_DIR", str(tmp_path / "nowhere"))
    config.reset()
    try:
        with pytest.raises(ArgumentError, match=r"GGML_HSA_KERNEL_DIR.*nowhere"):
            KernelLibrary(FakeBackend()).find(request())
    finally:
        monkeypatch.undo()
        config.reset()


def test_everything_that_a_kernel_follows_from_is_in_its_key() -> None:
    def key(backend: FakeBackend | None = None, wanted: Request | None = None) -> str:
        return kernel_key(description(wanted or request(), backend or FakeBackend()))

    def backend(**changes: Any) -> FakeBackend:
        made = FakeBackend()
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    base = design()
    others = [
        key(wanted=request(design("// negatf"))),
        key(wanted=request(design(columns=2))),
        key(wanted=request(replace(base, arch="aie2"))),
        key(backend(version="fake1.1")),
        key(backend(name="iron")),
        key(backend(extra={"flags": ["-O3"], "headers": {"nt/x.hpp": "00"}})),
        key(backend(extra={"flags": ["-O2"], "headers": {"nt/x.hpp": "01"}})),
    ]
    assert len({key(), *others}) == 1 + len(others)
    dearer = replace(base, functions=tuple(replace(function, cycles=99) for function in base.functions))
    for same in (dearer, design(elements=512)):
        assert key(wanted=request(same)) == key()
    # Names of the designs of a configuration.
    assert key(wanted=request(name="abs-256i32-256i32")) == key()
    assert key(wanted=request()._replace(op_params=b"\1", tensors=("(256,1,1,1)/i32",))) == key()


def test_everything_about_a_program_is_in_its_digest() -> None:
    made, other = design(), design("// another")
    where = (HostSlice(0, 0), HostSlice(1, 0))
    program = ArrayProgram("two", (DesignRun(made, where), DesignRun(other, where)), (1024, 2048))
    elsewhere = (HostSlice(0, 0), HostSlice(1, 1024))
    different = [
        replace(program, name="twice"),
        replace(program, arguments=(1024, 4096)),
        replace(program, runs=program.runs[::-1]),
        replace(program, runs=program.runs[:1]),
        replace(program, runs=(program.runs[0], DesignRun(other, elsewhere))),
        replace(program, runs=(program.runs[0], DesignRun(design("// another", 128), where))),
    ]
    assert len({digest(each) for each in (program, *different)}) == 1 + len(different)
    cheaper = replace(made, functions=(replace(made.functions[0], cycles=1),))
    same = replace(program, runs=(DesignRun(cheaper, where), DesignRun(design("// another"), where)))
    assert digest(same) == digest(program)
    described = description(ProgramRequest("add", program), FakeBackend())
    assert (described["arch"], described["columns"], described["name"]) == ("aie2p", 1, "two")


def test_a_failed_build_fails_at_once_until_the_key_changes() -> None:
    backend = FakeBackend()
    backend.failure = "negate.cc:1: error: no"
    for _ in range(3):
        with pytest.raises(BuildError, match="no"):
            KernelLibrary(backend).find(request())
    assert len(backend.built) == 1
    backend.failure, backend.version = "", "fake1.1"
    assert KernelLibrary(backend).find(request()).origin == "built"


def test_threads_build_once_and_get_the_same_files() -> None:
    backend, kernel = FakeBackend(), request()
    library = KernelLibrary(backend)
    with ThreadPoolExecutor(16) as pool:
        result = list(pool.map(lambda _: library.find(kernel), range(64)))
    assert backend.built == [NAME]
    assert len({artifact.files[".bin"] for artifact in result}) == 1


def test_kernels_of_a_plan_are_built_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    class Slow(FakeBackend):
        def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
            meeting.wait(30)  # passed only if the other build is going on
            return super().build(request, directory)

    with config.scope(build_jobs=2):
        library = KernelLibrary(Slow())
        kernel = [request(design(f"// {number}")) for number in range(2)]
        library.prepare(kernel)
        assert [library.find(one).origin for one in kernel] == ["built", "built"]
        assert [library.find(one).origin for one in kernel] == ["memory", "memory"]


def test_kernels_that_cannot_be_prepared_fail_in_find() -> None:
    backend = FakeBackend()
    backend.failure = "negate.cc:1: error: no"
    library = KernelLibrary(backend)
    kernel = [request(design(f"// {number}")) for number in range(3)]
    library.prepare(kernel)
    for one in (*kernel, *kernel):  # a plan may need a kernel several times
        with pytest.raises(BuildError, match="error: no"):
            library.find(one)
    assert len(backend.built) == 3


def test_an_accident_counts_until_the_next_plan() -> None:
    class Unlucky(FakeBackend):
        def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
            if not self.built:
                self.built.append(request.name)
                raise BuildError("killed", transient=True)
            return super().build(request, directory, force)

    backend, kernel = Unlucky(), request()
    library = KernelLibrary(backend)
    library.prepare([kernel])
    for _ in range(2):
        with pytest.raises(BuildError, match="killed"):
            library.find(kernel)
    library.prepare([kernel])
    assert library.find(kernel).origin == "built"


def test_an_interrupt_ends_builds_and_begins_no_others(tmp_path: Path) -> None:
    """In a process of its own: the signal goes to the main thread, which waits for the builds."""
    program = f"""
import os, signal, sys, threading, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_library import FakeBackend, design, request
from npu_tensor.config import config
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store.library import KernelLibrary

class Endless(FakeBackend):
    def build(self, request, directory, force=False):
        self.built.append(request.name)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        run([sys.executable, "-c", "import time; time.sleep(600)"], directory, directory / "build.log", 600)

config.build_jobs, config.cache_path = 1, {str(tmp_path)!r}
backend = Endless()
wanted = [request(design(f"// {{n}}")) for n in range(4)]
try:
    KernelLibrary(backend).prepare(wanted)
except KeyboardInterrupt:
    print("interrupted", len(backend.built))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("interrupted 1\n", 0), done.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"abi": {}}, "has ABI {}"),
        ({"ingredients": 5}, "made on another machine"),
        ({"ingredients": {"flags": []}}, "another machine"),
        ({"columns": 2}, "its key is not"),
        ({"backend": 3}, "'made_from' lacks arch, backend, design"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is damaged")
def test_a_description_that_does_not_fit_is_a_reason(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    backend = FakeBackend()
    built = KernelLibrary(backend).find(request())
    publish(built, tmp_path / "ready", "k", **changes)
    with config.scope(kernel_dirs=(tmp_path / "ready",), jit=False, cache_path=str(tmp_path / "other")):
        with pytest.raises(BuildError, match=message):
            KernelLibrary(backend).find(request())
        publish(built, tmp_path / "ready", "k")
        assert KernelLibrary(backend).find(request()).origin == "precompiled"


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
@pytest.mark.filterwarnings("ignore:.* is damaged")
def test_a_damaged_description_hides_no_other_kernel(tmp_path: Path, text: str) -> None:
    directory = publish(KernelLibrary(FakeBackend()).find(request()), tmp_path / "ready", "k")
    (directory / "a.json").write_text(text)
    (directory / "b_parameters.json").write_text("{}")
    (directory / os.fsdecode(b"\xff.json")).write_text("{")  # not the name of a kernel
    with config.scope(kernel_dirs=(tmp_path / "ready",), jit=False, cache_path=str(tmp_path / "other")):
        assert KernelLibrary(FakeBackend()).find(request()).origin == "precompiled"
        (directory / "k.json").unlink()
        with pytest.raises(BuildError, match=r"a\.json: the description does not have its checksum"):
            KernelLibrary(FakeBackend()).find(request())


def test_two_processes_may_write_one_directory(tmp_path: Path) -> None:
    """Both write the same kernels with other bytes; each kernel is of one of them afterwards."""
    program = """
import sys
from pathlib import Path
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
directory = KernelDirectory(Path(sys.argv[1]))
for number in range(30):
    contents = {suffix: sys.argv[2].encode() * 10_000 for suffix in (".xclbin", ".pdi")}
    made_from = {"arch": "aie2", "backend": "fake", "design": str(number)}
    directory.write("aie2", f"k{number}", contents, {"name": "n", "key": "k", "made_from": made_from})
"""
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), text]) for text in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    directory = KernelDirectory(tmp_path)
    assert all(directory.intact("aie2", f"k{number}") for number in range(30))
