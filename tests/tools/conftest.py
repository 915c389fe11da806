"""What the tests of the doctor share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_system import FAKE_HSA, FAKE_XRT, Machine, library, source_of

from npu_tensor.config import config
from npu_tensor.runtime.devices.shared_libraries import HSA, XRT


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what stands for XRT 2.25.0 and for an HSA runtime."""
    directory = tmp_path_factory.mktemp("libraries")
    version = {"xrtVersionMajor": 2, "xrtVersionMinor": 25, "xrtVersionPatch": 0}
    library(directory / FAKE_XRT.names[0], source_of(XRT, **version), "-Wl,--build-id=0x0123456789abcdef")
    library(directory / FAKE_HSA.names[0], source_of(HSA))
    (directory / "libxrt_driver_xdna.so.2").touch()
    return directory


@pytest.fixture
def machine(tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for variable in ("NPU_TENSOR_XRT_PATH", "XILINX_XRT", "NPU_TENSOR_LIBHSA_PATH", "ROCM_PATH"):
        monkeypatch.delenv(variable, raising=False)
    config.reset()
    with config.scope(cache_path=str(tmp_path / "cache")):
        yield Machine(tmp_path / "root", libraries)
    monkeypatch.undo()
    config.reset()
