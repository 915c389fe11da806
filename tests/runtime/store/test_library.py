"""Sources of kernels: the search order, equal kernels, and the message for a missing kernel."""

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from fake_backend import FakeBackend
from fakes import NAME, design, request

from npu_tensor.config import config
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.build import process
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import (
    ABI,
    AnyRequest,
    ProgramRequest,
    Request,
    description,
    digest,
    kernel_key,
)
from npu_tensor.runtime.store.store import Artifact


def test_keys_stay_the_same() -> None:
    """Ready kernels are found by this digest; it changes with `ABI` only."""
    assert digest(design().configuration) == "65a9e407ea60812a86ab1a4a0b45d19dfc4a11d6acd6e53b3bc45758a541bc1d"
    assert ABI == 2


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Iterator[None]:
    with config.scope(cache_path=str(tmp_path / "cache"), kernel_dirs=(), jit=True):
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
    assert ready.files[".bin"].read_text() == f".bin of {NAME} by fake1.0 from {digest(kernel.design.configuration)}"
    assert backend.built == [NAME]


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


def test_kernels_of_a_plan_are_built_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    class Slow(FakeBackend):
        def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
            meeting.wait(30)  # passed only if the other build is going on
            return super().build(request, directory)

    with patch.object(process, "available_cores", return_value=2):
        library = KernelLibrary(Slow())
        kernel = [request(design(f"// {number}")) for number in range(2)]
        library.prepare(kernel)
        assert [library.find(one).origin for one in kernel] == ["built", "built"]
        assert [library.find(one).origin for one in kernel] == ["memory", "memory"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"abi": 1}, "has ABI 1"),
        ({"ingredients": {"flags": []}}, "another machine"),
        ({"columns": 2}, "its key is not"),
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
