"""npu-tensor gen-kernels for NPUs, with the stand-in for mlir-aie: the documented files, and how they are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from iron_standin import PEANO, VERSION, install
from running import python

from npu_tensor.config import config
from npu_tensor.ggml_hsa import config_file
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.store.library import KernelLibrary

SUFFIXES = (".json", ".pdi", ".xclbin", "_insts.bin", "_parameters.json", "_program.py")


def test_generated_kernels_are_found_where_there_is_no_mlir_aie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "kernels"
    arguments = ("-m", "npu_tensor.cli.gen_kernels", "--config", "minimal", "--output-dir", output)
    with monkeypatch.context() as patch:
        install(patch, tmp_path)
        python(*arguments, NPU_TENSOR_CACHE_DIR=str(tmp_path / "cache"))
    for arch in ("aie2", "aie2p"):
        made = sorted(path.name for path in (output / arch).glob("[!.]*"))
        assert made == sorted(f"add_bf16_1024{suffix}" for suffix in SUFFIXES)
        described = json.loads((output / arch / "add_bf16_1024.json").read_text())
        assert described["made_from"]["toolchain"] == f"mlir_aie{VERSION}-llvm_aie{PEANO}"
        for path in (output / arch).glob("*.json"):
            assert str(tmp_path) not in path.read_text()
    entries = config_file.require_valid(config_file.load(config_file.find("minimal")), "minimal")
    with config.scope(kernel_dirs=(output,), jit=False, cache_path=str(tmp_path / "empty")):
        for entry in entries:
            result = KernelLibrary(IronBackend()).find(entry.request())
            assert result.origin == "precompiled"
            assert result.files[".xclbin"] == output / entry.arch / "add_bf16_1024.xclbin"


PROGRAM = """
import npu_tensor as nt
from npu_tensor.ggml_hsa.ahead_of_time import compile

x, w = nt.zeros(64, 128, dtype=nt.bfloat16), nt.zeros(128, 64, dtype=nt.bfloat16)
made = compile(lambda x, w: (x @ w, x * 2), x, w, target="Strix", directory="kernels")
print(*sorted(path.name for kernel in made.kernels for path in kernel.files.values()))
"""


@pytest.mark.parametrize(
    ("format", "made"),
    [
        pytest.param("xclbin", {".xclbin", ".pdi"}, marks=pytest.mark.slow),
        ("elf", {".elf", ".xclbin", ".pdi"}),
    ],
)
def test_the_kernels_of_a_function(
    format: str, made: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number in one of them is a runtime parameter, so it is an xclbin in any case."""
    install(monkeypatch, tmp_path)
    settings = {"NPU_TENSOR_CACHE_DIR": str(tmp_path / "cache"), "NPU_TENSOR_KERNEL_FORMAT": format}
    done = python("-c", PROGRAM, cwd=tmp_path, **settings)
    names = done.stdout.split()
    assert {Path(name).suffix for name in names} - {".json", ".bin", ".py"} == made
    assert set(names) <= {path.name for path in (tmp_path / "kernels" / "aie2p").iterdir()}
