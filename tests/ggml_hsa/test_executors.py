"""Builds in threads and on a Dask cluster: the same files, and errors that say what to do."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_entries import kernel_entry
from running import needs_compiler

from npu_tensor.errors import ArgumentError, BuildError, DeviceError
from npu_tensor.ggml_hsa import config_file, generate
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.ggml_hsa.generate import open_executor


def entries() -> list[Entry]:
    wanted = (("aie2", "add"), ("aie2p", "add"), ("aie2p", "sub"))
    return config_file.read({"kernels": [kernel_entry(op, arch, op, "(64,1,1,1)/bf16") for arch, op in wanted]})


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


# --- addresses


@pytest.mark.parametrize(
    "address",
    ["", "dask", "dask://", "dask://host", "dask://:1", "tcp://h:1", "dask://h:x", "dask://h:1/p", "dask://h:0"],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ArgumentError, match="there is dask://HOST:PORT"), open_executor(address):
        pass


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(DeviceError, match=r"-m pip install 'dask\[array\]' distributed"),
        open_executor("dask://127.0.0.1:8786"),
    ):
        pass


# --- a cluster of two workers on this machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NPU_TENSOR_CACHE_DIR", str(tmp_path_factory.mktemp("workers")))
        made = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
    with made:
        yield made.scheduler_address.replace("tcp://", "dask://")


@needs_compiler
def test_a_cluster_makes_the_same_files_as_threads(cluster: str, tmp_path: Path) -> None:
    with open_executor(jobs=2) as executor:
        assert generate.generate(entries(), tmp_path / "threads", "host", executor) == 3
    with open_executor(cluster) as executor:
        assert generate.generate(entries(), tmp_path / "cluster", "host", executor) == 3
    expected = contents(tmp_path / "threads")
    assert len(expected) == 3 * 2 + 2
    assert contents(tmp_path / "cluster") == expected


def _end(number: int) -> None:
    os._exit(number)


@pytest.mark.filterwarnings("ignore")  # distributed warns about the worker that ended.
def test_errors_and_workers_that_end_come_back_as_errors(cluster: str) -> None:
    with open_executor(cluster) as executor:
        with pytest.raises(BuildError, match="KeyError: 'no target'"):
            generate._result(executor.submit(generate.build, entries()[0].request(), "no target"))
        with pytest.raises(BuildError, match="KilledWorker"):
            generate._result(executor.submit(_end, 3))
        assert "the worker has npu-tensor" in str(generate._result(executor.submit(generate.missing, "host", "0")))


def test_a_cluster_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(generate, "PATIENCE", 0.2)
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as made:
        address = made.scheduler_address.replace("tcp://", "dask://")
        with pytest.raises(DeviceError, match=r"127\.0\.0\.1:\d+ has no workers"), open_executor(address):
            pass
    with pytest.raises(DeviceError, match=r"no Dask scheduler answers at 127\.0\.0\.1:"), open_executor(address):
        pass
