"""Kernels whose results were compared with the CPU's."""

from pathlib import Path

from npu_tensor.config import config
from npu_tensor.runtime.npu.checked import CheckedKernels


def test_the_next_process_knows_the_checked_kernels_of_a_driver(tmp_path: Path) -> None:
    with config.scope(cache_path=str(tmp_path)):
        first = CheckedKernels("one driver")
        first.add("key")
        again, other = CheckedKernels("one driver"), CheckedKernels("another driver")
        assert "key" in again
        assert "key" not in other
