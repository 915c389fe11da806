"""From a development machine to one in production, and many processes that begin there at once; with a real compiler.

Kernels are those of the simulated NPU: none of this ran on an NPU.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from paths import GOLDEN

from npu_tensor.runtime.sim import host_compiler

pytestmark = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))

# Both examples of the documentation of ggml-hsa's tool, unedited.
FORMAT_EXAMPLE = (GOLDEN / "ggml_hsa_format.json").read_text()
DEPLOYMENT_EXAMPLE = (GOLDEN / "ggml_hsa_deployment.json").read_text()

APPLICATION = """
import json
import numpy as np
import npu_tensor as nt

values = np.random.default_rng(3).standard_normal((2, 4096), dtype=np.float32)
with nt.default_device("cpu"):
    x, y = (nt.from_numpy(value) for value in values)
    half_x, half_y = x.to(nt.bfloat16).realize(), y.to(nt.bfloat16).realize()
results = half_x + half_y, x[:1024] + y[:1024]
print(json.dumps([[row["op"], row["device"], row["why"]] for row in nt.explain(*results).rows]))
nt.realize(*results)
nt.set_default_device("cpu")
print(json.dumps([result.to(nt.float32).tolist() for result in results]))
"""
DEVICE = "sim:npu1?float32=emulate"


def run_application(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without a compiler, without building, with nothing in the cache, and with an error where an NPU does not do."""
    (tmp_path / "production").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", APPLICATION],
        env={
            "PATH": "",
            "HOME": str(tmp_path / "production" / "home"),
            "GGML_HSA_JIT_COMPILE": "0",
            "NPU_TENSOR_DEVICE": DEVICE,
            "NPU_TENSOR_FALLBACK": "error",
            **environment,
        },
        cwd=tmp_path / "production",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_kernels_made_in_development_are_all_that_production_needs(tmp_path: Path) -> None:
    """Generate, tar, unpack elsewhere, run."""
    development, opt = tmp_path / "development", tmp_path / "opt"
    development.mkdir()
    opt.mkdir()
    tool = Path(sysconfig.get_path("scripts"), "ggml-hsa-gen-kernels")
    for name, text in (("my-kernels.json", FORMAT_EXAMPLE), ("model-kernels.json", DEPLOYMENT_EXAMPLE)):
        (development / name).write_text(text)
        subprocess.run(
            [tool, "--config", name, "--output-dir", "./model-kernels", "--verbose", "--target", "host"],
            env={**os.environ, "NPU_TENSOR_CACHE_DIR": str(development / "cache")},
            cwd=development,
            check=True,
            capture_output=True,
        )
    subprocess.run(["tar", "czf", "model-kernels.tar.gz", "model-kernels/"], cwd=development, check=True)
    (development / "model-kernels.tar.gz").rename(opt / "model-kernels.tar.gz")
    shutil.rmtree(development)
    subprocess.run(["tar", "xzf", "model-kernels.tar.gz"], cwd=opt, check=True)

    without = run_application(tmp_path)
    assert without.returncode == 1
    assert "building is off" in without.stderr
    done = run_application(tmp_path, GGML_HSA_KERNEL_DIR=str(opt / "model-kernels"))
    assert done.returncode == 0, done.stderr
    rows, (halves, floats) = map(json.loads, done.stdout.splitlines())
    kernels = [why.partition("precompiled as ")[2].partition(";")[0] for _, device, why in rows if device != "-"]
    assert sorted(kernels) == ["add_bf16_4096_model", "add_f32_1024"]
    assert {device for _, device, _ in rows} <= {DEVICE, "-"}
    assert [op for op, device, _ in rows if device == DEVICE] == ["add", "add"]

    x, y = np.random.default_rng(3).standard_normal((2, 4096), dtype=np.float32)
    exact = (x.astype(ml_dtypes.bfloat16) + y.astype(ml_dtypes.bfloat16)).astype(np.float32)
    np.testing.assert_array_equal(np.array(halves, np.float32), exact)
    np.testing.assert_allclose(np.array(floats, np.float32), x[:1024] + y[:1024], rtol=2.0**-22, atol=2.0**-24)
