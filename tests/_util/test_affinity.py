"""Counts of cores and threads."""

import math
from pathlib import Path

import pytest

from npu_tensor._util import affinity


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/a/b", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ("0::/of/the/host", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/", {}, math.inf),
        (
            "4:memory:/x\n1:cpu,cpuacct:/a:b\n0::/",
            {"cpu,cpuacct/a:b/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/a:b/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "0"}, math.inf),
    ],
)
def test_quotas_of_control_groups(tmp_path: Path, membership: str, files: dict[str, str], cores: float) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "membership").write_text(membership)
    assert affinity._cpu_quota(tmp_path / "membership", tmp_path) == cores
    assert affinity._cpu_quota(tmp_path / "missing", tmp_path) == math.inf


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "4096\n", "memory.max": "8192\n"}, 4096),
        ("4:memory:/x\n0::/", {"memory/x/memory.limit_in_bytes": "1024\n", "x/memory.max": "5"}, 1024),
        ("1:cpu:/", {"cpu/memory.limit_in_bytes": "1"}, math.inf),
    ],
)
def test_memory_limits_of_control_groups(tmp_path: Path, membership: str, files: dict[str, str], limit: float) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "membership").write_text(membership)
    assert affinity._memory_limit(tmp_path / "membership", tmp_path) == limit


@pytest.mark.parametrize(
    ("value", "threads"), [("3", 3), (" 2 ,4", 2), ("100", 8), ("0", 8), ("-1", 8), ("many", 8), ("", 8)]
)
def test_omp_num_threads(monkeypatch: pytest.MonkeyPatch, value: str, threads: int) -> None:
    monkeypatch.setattr(affinity, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert affinity.default_threads() == threads
