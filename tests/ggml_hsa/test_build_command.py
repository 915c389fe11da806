"""python -m npu_tensor.ggml_hsa.build: one kernel from arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_tensor.config import config
from npu_tensor.ggml_hsa.build import main
from npu_tensor.runtime.sim import host_compiler

KERNEL = ("--arch", "aie2", "--exported_name", "k", "--input_tensors", "(1024,1,1,1)/bf16")
RESULT = ("--output_tensor", "(1024,1,1,1)/bf16")


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
def test_a_kernel_with_op_params_is_built(tmp_path: Path) -> None:
    place = ("--output_directory", str(tmp_path / "out"))
    parameters = ("--op-params", '{"alpha": 0.5}')
    with config.scope(cache_path=str(tmp_path / "cache")):
        built = CliRunner().invoke(
            main, ["--op_name", "ELU", *KERNEL, *RESULT, *place, *parameters, "--target", "host"]
        )
    assert built.exit_code == 0, built.output
    described = json.loads((tmp_path / "out" / "aie2" / "manifest.json").read_text())["kernels"]["k"]
    assert described["name"].startswith("elu-1024bf16-1024bf16-")
    assert (tmp_path / "out" / "aie2" / "k.so").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--op_name", "NOTHING"), "no kernel function for the op 'NOTHING'; there are ABS, ADD, "),
        (("--op_name", "GELU", "--op-params", "{"), "--op-params is not JSON"),
        (("--op_name", "GELU", "--arch", "gfx908"), "gfx908"),
        (("--op_name", "GELU", "--output_tensor", "(1,2)/bf16"), "Shape must have exactly 4 dimensions"),
        (("--op_name", "GGML_UNARY_OP_GELU"), "No module named 'aie'"),
    ],
)
def test_mistakes_are_said_and_exit_with_one(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    failed = CliRunner().invoke(main, [*KERNEL, *RESULT, "--output_directory", str(tmp_path), *arguments])
    assert failed.exit_code == 1
    assert words in failed.stderr


def test_inputs_follow_one_option_or_one_each(tmp_path: Path) -> None:
    desc, place = "(1024,1,1,1)/bf16", ("--output_directory", str(tmp_path), "--op-params", "{")
    for inputs in (("--input_tensors", desc, desc), ("--input-tensors", desc, "--input_tensors", desc)):
        failed = CliRunner().invoke(main, ["--op_name", "ADD", *KERNEL[:4], *inputs, *RESULT, *place])
        assert (failed.exit_code, "--op-params is not JSON" in failed.stderr) == (1, True)
