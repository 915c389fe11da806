"""Kernel directories: which kernels are built, which are left as they are, and the state after failures."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kernel_entries import kernel_entry
from paths import ROOT
from running import python

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.dataflow.design import Configuration, Design
from npu_tensor.errors import BuildError
from npu_tensor.ggml_hsa import config_file, generate
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.ggml_hsa.generate import Built
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Request


class FakeBackend:
    """Writes files that name the kernel. What it does is shared by all objects, as builds make their own."""

    name = "fake"
    formats: tuple[tuple[str, ...], ...] = ((".bin", "_insts.bin"),)
    built: list[str]
    version = "fake1.0"
    absent: str | None = None
    fails: str = ""

    def missing(self) -> str | None:
        return self.absent

    def toolchain(self) -> str:
        return self.version

    def unit(self, design: Design) -> Configuration:
        return design.configuration

    def ingredients(self, unit: Configuration) -> dict[str, Any]:
        return {"flags": ["-O2"]}

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        return None

    def build(self, request: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        self.built.append(request.name)
        if self.fails and request.name.startswith(self.fails):
            raise BuildError("the compiler does not like it")
        for suffix in self.formats[0]:
            (directory / f"out{suffix}").write_text(f"{suffix} of {request.name} by {self.version}")
        return {suffix: directory / f"out{suffix}" for suffix in self.formats[0]}


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[FakeBackend]]:
    """A back end of its own for each test, under the name of the target "host"."""
    fresh = type("Fresh", (FakeBackend,), {"built": []})
    monkeypatch.setattr(generate, "BACKENDS", {"host": fresh})
    with config.scope(cache_path=str(tmp_path / "cache")):
        yield fresh


def entry(op: str = "add", exported: str | None = None, arch: str = "aie2p") -> Entry:
    return config_file.entry(kernel_entry(op, arch, exported or f"my_{op}", "(1024,1,1,1)/bf16"), 0)


def run(entries: list[Entry], directory: Path, force: bool = False, jobs: int = 2) -> int:
    with ThreadPoolExecutor(jobs) as executor:
        return generate.generate(entries, directory, "host", executor, force)


def kernels(directory: Path, arch: str = "aie2p") -> list[str]:
    there = KernelDirectory(directory)
    return sorted(path.stem for path in (directory / arch).glob("*.json") if there.intact(arch, path.stem))


ADD, MUL = "add-1024bf16-1024bf16-1024bf16", "mul-1024bf16-1024bf16-1024bf16"


def test_generated_kernels_are_found_after_a_move(tmp_path: Path, backend: type[FakeBackend]) -> None:
    wanted = [entry("add", "first"), entry("mul", "second"), entry("add", "first", "aie2")]
    assert run(wanted, tmp_path / "made") == 3
    assert sorted(backend.built) == [ADD, ADD, MUL]
    assert sorted(path.name for path in (tmp_path / "made" / "aie2p").glob("[!.]*")) == [
        *("first.bin", "first.json", "first_insts.bin"),
        *("second.bin", "second.json", "second_insts.bin"),
    ]
    for path in (tmp_path / "made").rglob("*.json"):
        assert str(tmp_path) not in path.read_text()
    assert kernels(tmp_path / "made", "aie2") == ["first"]
    (tmp_path / "made").rename(tmp_path / "moved")
    backend.absent = "no compiler"
    with config.scope(kernel_dirs=(tmp_path / "moved",), jit=False, cache_path=str(tmp_path / "empty")):
        for one in wanted:
            result = KernelLibrary(backend()).find(one.request()[-1])
            assert result.origin == "precompiled"
            assert result.files[".bin"].parent == tmp_path / "moved" / one.arch
            name, kernel = ("mul", MUL) if one.exported_name == "second" else ("add", ADD)
            assert (result.name, result.files[".bin"].read_text()) == (name, f".bin of {kernel} by fake1.0")


def test_intact_kernels_are_left_as_they_are(
    tmp_path: Path, backend: type[FakeBackend], caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the cache does not know them."""

    def again(force: bool = False) -> list[str]:
        del backend.built[:]
        with config.scope(cache_path=str(tmp_path / f"cache{len(list(tmp_path.iterdir()))}")):
            config.cache_dir.mkdir()
            assert run([entry("add"), entry("mul")], tmp_path / "made", force) == 2
        return sorted(backend.built)

    folder = tmp_path / "made" / "aie2p"
    assert again() == [ADD, MUL]
    with caplog.at_level(logging.INFO, "npu_tensor.ggml_hsa"):
        assert again() == []
    assert "Already generated kernel: my_add" in caplog.messages
    assert again(force=True) == [ADD, MUL]
    (folder / "my_add.bin").write_text("damaged")
    assert again() == [ADD]
    assert (folder / "my_add.bin").read_text() == f".bin of {ADD} by fake1.0"
    (folder / "my_mul_insts.bin").unlink()
    assert again() == [MUL]
    backend.version = "fake2.0"
    assert again() == [ADD, MUL]
    assert (folder / "my_add.bin").read_text() == f".bin of {ADD} by fake2.0"


def test_one_failure_does_not_stop_the_others(
    tmp_path: Path, backend: type[FakeBackend], caplog: pytest.LogCaptureFixture
) -> None:
    backend.fails = "mul"
    with caplog.at_level(logging.INFO, "npu_tensor.ggml_hsa"):
        assert run([entry("sub"), entry("mul"), entry("add")], tmp_path / "made") == 2
    assert kernels(tmp_path / "made") == ["my_add", "my_sub"]
    assert not list((tmp_path / "made" / "aie2p").glob("my_mul*"))
    assert caplog.messages == [
        "[1/3] Processing kernel: my_sub",
        "Successfully generated kernel: my_sub",
        "[2/3] Processing kernel: my_mul",
        "Failed to generate kernel my_mul: the compiler does not like it",
        "[3/3] Processing kernel: my_add",
        "Successfully generated kernel: my_add",
    ]


def test_errors_of_other_classes_are_failures_too(
    tmp_path: Path, backend: type[FakeBackend], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build = generate.build

    def unreliable(request: Request, *rest: Any) -> Built | None:
        if request.name == ADD:
            raise ZeroDivisionError("a worker vanished")
        return build(request, *rest)

    monkeypatch.setattr(generate, "build", unreliable)
    assert run([entry("add"), entry("mul")], tmp_path / "made") == 1
    assert "Failed to generate kernel my_add: ZeroDivisionError: a worker vanished" in caplog.messages
    assert kernels(tmp_path / "made") == ["my_mul"]


def test_kernels_made_before_an_interruption_are_kept(
    tmp_path: Path, backend: type[FakeBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = generate.build

    def interrupted(request: Request, *rest: Any) -> Built | None:
        if request.name == MUL:
            raise KeyboardInterrupt
        return build(request, *rest)

    monkeypatch.setattr(generate, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([entry("add"), entry("mul"), entry("sub")], tmp_path / "made", jobs=1)
    assert kernels(tmp_path / "made") == ["my_add"]


def test_more_kernels_than_wait_at_once(
    tmp_path: Path, backend: type[FakeBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "MOST_WAITING", 2)
    wanted = [entry(op) for op in ("add", "sub", "mul", "div", "minimum", "maximum")]
    assert run(wanted, tmp_path / "made") == 6
    assert kernels(tmp_path / "made") == sorted(one.exported_name for one in wanted)


def test_files_of_two_kernels_have_different_names(
    tmp_path: Path, backend: type[FakeBackend], caplog: pytest.LogCaptureFixture
) -> None:
    assert run([entry("add", "a"), entry("mul", "a_insts")], tmp_path / "made") == 1
    message = "Failed to generate kernel {}: its file {} is a file of {} too; choose another exported_name"
    assert message.format("a_insts", "a_insts.bin", "a") in caplog.messages
    assert (tmp_path / "made" / "aie2p" / "a_insts.bin").read_text() == f"_insts.bin of {ADD} by fake1.0"
    caplog.clear()
    assert run([entry("mul", "a_insts")], tmp_path / "made") == 0
    assert message.format("a_insts", "a_insts.bin", "a") in caplog.messages


def test_files_that_a_kernel_no_longer_has_are_removed(tmp_path: Path, backend: type[FakeBackend]) -> None:
    run([entry()], tmp_path / "made")
    backend.formats, backend.version = ((".bin",),), "fake2.0"
    run([entry()], tmp_path / "made")
    assert sorted(path.name for path in (tmp_path / "made" / "aie2p").glob("my*")) == ["my_add.bin", "my_add.json"]


def test_without_a_compiler_nothing_is_begun(tmp_path: Path, backend: type[FakeBackend]) -> None:
    backend.absent = "no compiler: install one"
    with pytest.raises(BuildError, match="no compiler: install one"):
        run([entry()], tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert backend.built == []


def test_a_worker_of_another_version_is_refused(backend: type[FakeBackend]) -> None:
    assert generate.missing("host", "0.0.1") == f"the worker has npu-tensor {nt.__version__} instead of 0.0.1"
    assert generate.missing("host", nt.__version__) is None


def test_sources_that_are_not_installed_know_their_version(tmp_path: Path) -> None:
    """A copy of the package beside no distribution of it: recording, generating and the cache all name a version."""
    shutil.copytree(ROOT / "npu_tensor", tmp_path / "npu_tensor", ignore=shutil.ignore_patterns("__pycache__"))
    program = f"""
import sys
from importlib import metadata
sys.path.insert(0, {str(tmp_path)!r})
def distribution(name, found=metadata.Distribution.from_name):
    if name == "npu-tensor":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.Distribution.from_name = distribution
import npu_tensor as nt
from npu_tensor.ggml_hsa.generate import missing
from npu_tensor.runtime.store.store import Store
assert nt.__file__.startswith({str(tmp_path)!r})
with nt.record_kernels("r.json"), nt.default_device("sim:npu2"):
    nt.explain(nt.ones(64).to(nt.bfloat16))
print(missing("iron", "0.0.1"))
print(Store().put("aie2-x", "n", "0" * 64, {{}}, {{}}).description["package"])
"""
    done = python("-c", program, cwd=tmp_path, NPU_TENSOR_CACHE_DIR=str(tmp_path / "cache"))
    assert f"the worker has npu-tensor {nt.__version__}" in done.stdout
    assert done.stdout.splitlines()[-1] == nt.__version__
    assert nt.__version__ in json.loads((tmp_path / "r.json").read_text())["description"]


def test_a_directory_that_cannot_be_written(tmp_path: Path, backend: type[FakeBackend]) -> None:
    (tmp_path / "made").write_text("a file")
    with pytest.raises(OSError, match="made"):
        run([entry()], tmp_path / "made")
