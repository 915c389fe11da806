"""Kernel directories: which kernels are built, which are left as they are, and the state after failures."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_backend import FakeBackend
from kernel_entries import kernel_entry

from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.ggml_hsa import config_file, generate
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.ggml_hsa.generate import Built
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Request, digest


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeBackend]:
    """A back end for the target "host"."""
    made = FakeBackend()
    made.formats = ((".bin", "_insts.bin"),)
    monkeypatch.setattr(generate, "BACKENDS", {"host": lambda: made})
    with config.scope(cache_path=str(tmp_path / "cache")):
        yield made


def entry(op: str = "add", exported: str | None = None, arch: str = "aie2p") -> Entry:
    return config_file.entry(kernel_entry(op, arch, exported or f"my_{op}", "(1024,1,1,1)/bf16"), 0)


def run(entries: list[Entry], directory: Path, force: bool = False, jobs: int = 2) -> int:
    with ThreadPoolExecutor(jobs) as executor:
        return generate.generate(entries, directory, "host", executor, force)


def kernels(directory: Path, arch: str = "aie2p") -> list[str]:
    there = KernelDirectory(directory)
    return sorted(path.stem for path in (directory / arch).glob("*.json") if there.intact(arch, path.stem))


ADD, MUL = "add-1024bf16-1024bf16-1024bf16", "mul-1024bf16-1024bf16-1024bf16"


def test_generated_kernels_are_found_after_a_move(tmp_path: Path, backend: FakeBackend) -> None:
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
            result = KernelLibrary(backend).find(one.request())
            assert result.origin == "precompiled"
            assert result.files[".bin"].parent == tmp_path / "moved" / one.arch
            name, kernel = ("mul", MUL) if one.exported_name == "second" else ("add", ADD)
            text = f".bin of {kernel} by fake1.0 from {digest(one.request().design.configuration)}"
            assert (result.name, result.files[".bin"].read_text()) == (name, text)


def test_intact_kernels_are_left_as_they_are(
    tmp_path: Path, backend: FakeBackend, caplog: pytest.LogCaptureFixture
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
    assert (folder / "my_add.bin").read_text().startswith(f".bin of {ADD} by fake1.0 ")
    (folder / "my_mul_insts.bin").unlink()
    assert again() == [MUL]
    backend.version = "fake2.0"
    assert again() == [ADD, MUL]
    assert (folder / "my_add.bin").read_text().startswith(f".bin of {ADD} by fake2.0 ")


def test_one_failure_does_not_stop_the_others(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build = backend.build

    def failing(request: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        if request.name == MUL:
            raise BuildError("the compiler does not like it")
        return build(request, directory, force)

    monkeypatch.setattr(backend, "build", failing)
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


def test_kernels_made_before_an_interruption_are_kept(
    tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
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


def test_files_that_a_kernel_no_longer_has_are_removed(tmp_path: Path, backend: FakeBackend) -> None:
    run([entry()], tmp_path / "made")
    backend.formats, backend.version = ((".bin",),), "fake2.0"
    run([entry()], tmp_path / "made")
    assert sorted(path.name for path in (tmp_path / "made" / "aie2p").glob("my*")) == ["my_add.bin", "my_add.json"]


def test_without_a_compiler_nothing_is_begun(tmp_path: Path, backend: FakeBackend) -> None:
    backend.absent = "no compiler: install one"
    with pytest.raises(BuildError, match="no compiler: install one"):
        run([entry()], tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert backend.built == []
