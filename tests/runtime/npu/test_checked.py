"""Kernels whose results were compared with the CPU's."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from npu_tensor.config import config
from npu_tensor.runtime.npu.checked import CheckedKernels
from npu_tensor.runtime.store import directories


def test_the_next_process_knows_the_checked_kernels_of_a_driver(tmp_path: Path) -> None:
    with config.scope(cache_path=str(tmp_path)):
        first = CheckedKernels("one driver")
        first.add("key")
        again, other = CheckedKernels("one driver"), CheckedKernels("another driver")
        assert "key" in again
        assert "key" not in other


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(directories, "_refusals", {})
    with config.scope(cache_path=str(blocked / "cache")):
        checked = CheckedKernels("driver")
        with pytest.warns(RuntimeWarning, match="nothing can be written"):
            checked.add("key")
        assert "key" in checked
        assert "key" in CheckedKernels("driver")  # In the temporary directory.


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"nothing\n\n that is a key\n"])
def test_a_damaged_entry_is_not_read(tmp_path: Path, content: bytes) -> None:
    with config.scope(cache_path=str(tmp_path)):
        CheckedKernels("driver").add("0f3a")
        (path,) = tmp_path.glob("*/0f3a*.json")
        path.write_bytes(content)
        assert "0f3a" not in CheckedKernels("driver")
