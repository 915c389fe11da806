"""The fuzzers of this directory, each for a bounded number of inputs from a fixed seed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize(("script", "runs"), [("fuzz_tensor_desc.py", 20_000), ("fuzz_config.py", 2_000)])
def test_fuzz(script: str, runs: int, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / script), f"-runs={runs}", "-seed=1", "-max_len=120", "-timeout=20"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {runs} " in done.stderr
