"""npu-tensor kernel-source: which program is printed for which name."""

import ast
import itertools
import json
import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from paths import ROOT

import npu_tensor as nt
from npu_tensor.cli import kernel_source as command
from npu_tensor.cli import main
from npu_tensor.dataflow.design import Design
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import BuildError
from npu_tensor.kernels.offer import padded_nbytes
from npu_tensor.runtime.build.iron_program import program
from npu_tensor.runtime.devices.detect import Detected, NotDetected

EXAMPLE = ROOT / "share" / "npu_tensor" / "examples" / "example-kernel-config.json"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["kernel-source", *map(str, arguments)])


def printed(*arguments: object) -> str:
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def imports(text: str) -> set[str]:
    """The top-level names of all modules that a program imports."""
    result = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            result |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            result.add((node.module or "").partition(".")[0])
    return result


def test_the_program_stands_alone() -> None:
    text = printed("rowwise-soft_max-bf16", "--arch", "npu1")
    assert imports(text) <= {"__future__", "aie", "argparse", "collections", "ml_dtypes", "numpy", "pathlib"}
    assert "mlir-aie 1.4" in text
    assert "npu1 (aie2)" in text


@pytest.mark.parametrize(
    ("name", "extents"),
    [
        ("add-1024bf16-1024bf16-1024bf16", [(1024, "bfloat16")] * 3),
        ("relu-8192f32-8192f32", [(8192, "float32")] * 2),
        ("mul_mat-256x128i16-64x256i16-64x128i16", [(8192, "int16"), (16384, "int16"), (32768, "int16")]),
    ],
)
def test_canonical_names_are_read_back(name: str, extents: list[tuple[int, str]]) -> None:
    """Operands and the result, in any order, are the design's arguments, with room for what tiles are padded to."""
    text = printed(name, "--arch", "aie2p")
    result = re.findall(r"^    \w+: (\w+)\[([\d, x]+)\]$", text.partition('"""\n')[0], re.MULTILINE)
    sizes = [(math.prod(map(int, re.findall(r"\d+", shape))), dtype) for dtype, shape in result]
    for (size, dtype), (expected, named) in zip(sorted(sizes), sorted(extents), strict=True):
        assert dtype == named
        itemsize = as_dtype(dtype).itemsize
        assert expected <= size <= 2 * padded_nbytes(expected * itemsize) // itemsize


def test_names_of_a_configuration() -> None:
    entry = json.loads(EXAMPLE.read_text())["kernels"][-1]
    assert entry["cols"] == 4
    assert "4 columns of npu2" in printed(entry["exported_name"], "--config", EXAMPLE)
    listed = printed("--list", "--config", EXAMPLE, "--arch", "npu1").split()
    assert len(listed) == 12
    assert "npu1 (aie2)" in printed("add_bf16_4096", "--config", EXAMPLE, "--arch", "npu1")
    assert "npu2 (aie2p)" in printed("add_bf16_4096", "--config", EXAMPLE, "--arch", "npu2")


def test_names_that_do_not_say_all_are_found_in_a_recording(tmp_path: Path) -> None:
    with nt.record_kernels(tmp_path / "model.json"), nt.default_device("sim:npu2"):
        x = nt.ones(1024).to(nt.bfloat16).realize()
        nt.explain((x * 2.5 + x).relu())
    names = printed("--list", "--config", tmp_path / "model.json").split()
    (fused,) = (name for name in names if "+" in name)
    assert "npu2 (aie2p)" in printed(fused, "--config", tmp_path / "model.json")
    assert "give --config FILE, written with NPU_TENSOR_RECORD=FILE" in invoke(fused, "--arch", "npu2").stderr


def test_columns_and_float32() -> None:
    name = "gemm-by_columns-f32"
    assert "in 8 columns of npu2" in printed(name, "--arch", "npu2")
    assert "in 2 columns of npu2" in printed(name, "--arch", "npu2", "--columns", 2)
    assert printed(name, "--arch", "npu2", "--float32", "bfloat16") != printed(name, "--arch", "npu2")
    for arguments, says, exit_code in (
        (["--columns", 5, "--arch", "npu1"], "aie2 has 4 columns, not 5", 2),
        (["--float32", "exact", "--arch", "npu2"], "float32 is exact on the CPU", 1),
    ):
        failed = invoke(name, *arguments)
        assert failed.exit_code == exit_code
        assert says in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rowwise-softmax-bf16", "--arch", "aie2"], "near are rowwise-soft_max-bf16"),
        (["add-1024bf16-1024bf16-1024bf16n", "--arch", "aie2"], "there is no kernel 'add-1024bf16-1024bf16-1024bf16n'"),
        (["add-1024bf16-512bf16-1024bf16", "--arch", "aie2"], "there is no kernel 'add-1024bf16-512bf16-1024bf16'"),
        (["add-1024bf16-1024bf16-1024bf16n", "--arch", "aie2"], "give --config FILE"),
        (["mul+add-64f32-64f32-number-23dccfe9da6f4f4c", "--arch", "aie2"], "give --config FILE"),
        (["scale-64f32-64f32-23dccfe9da6f4f4c", "--arch", "aie2"], "give --config FILE"),
        (["neg-32x32bf16-32x32bf16", "--arch", "aie2"], "of this op for these tensors is neg-1024bf16-1024bf16"),
        (["add-1x2x3x4x5f32", "--arch", "aie2"], "there is no kernel"),
        (["add-1024q4-1024q4-1024q4", "--arch", "aie2"], "no dtype 'q4'"),
        (["rowwise-soft_max-bf16", "--arch", "npu9"], "there is no array 'npu9'"),
    ],
)
def test_what_there_is_not(arguments: list[str], says: str) -> None:
    failed = invoke(*arguments)
    assert failed.exit_code == 1
    assert isinstance(failed.exception, SystemExit)
    assert says in failed.stderr


def test_without_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_knows(arch: str) -> Detected:
        raise NotDetected("no NPU was found. Tried\n  pyxrt: not there")

    monkeypatch.setattr(command, "detect_arch", nobody_knows)
    for arguments in (["rowwise-soft_max-bf16"], ["add-64f32-64f32-64f32"], ["--list"]):
        failed = invoke(*arguments)
        assert failed.exit_code == 1
        assert failed.stderr == (
            "Error: which array? Give --arch aie2 or --arch aie2p, or set NPU_TENSOR_ARCH (no NPU was found here)\n"
        )
    monkeypatch.setattr(command, "detect_arch", lambda arch: Detected("aie2", "a test"))
    assert "npu1 (aie2)" in printed("rowwise-soft_max-bf16")


@pytest.mark.parametrize(
    "arguments", [[], ["x", "--list"], ["x", "--all"], ["--all"], ["x", "--out", "."], ["--list", "--out", "."]]
)
def test_options_that_do_not_go_together(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_all_programs_with_their_headers(tmp_path: Path) -> None:
    names = printed("--list", "--arch", "aie2").split()
    said = printed("--all", "--arch", "aie2", "--out", tmp_path / "out")
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == sorted([*(f"{name}{suffix}" for name in names for suffix in (".py", ".insts")), "include"])
    headers = {path.name: path.read_bytes() for path in (tmp_path / "out" / "include" / "nt").iterdir()}
    assert headers == {path.name: path.read_bytes() for path in (ROOT / "kernels" / "include" / "nt").glob("*.hpp")}
    counts = f"{len(names)} programs, {len(names)} instruction streams and {len(headers)} headers"
    assert said == f"{counts} in {tmp_path / 'out'}\n"
    # All that the C++ includes comes from there or from mlir-aie.
    text = (tmp_path / "out" / "rowwise-soft_max-bf16.py").read_text()
    assert text == printed("rowwise-soft_max-bf16", "--arch", "aie2")
    texts = [path.read_text() for path in (tmp_path / "out").glob("*.py")]
    assert {name for text in texts for name in re.findall(r'#include "nt/(.+)"', text)} <= headers.keys()


def test_kernels_without_a_program_are_named_and_the_rest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def refuse(design: Design) -> str:
        if next(calls) == 0:
            raise BuildError("not with this version")
        return program(design)

    monkeypatch.setattr(command, "program", refuse)
    done = invoke("--all", "--arch", "aie2", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert ": not with this version" in done.stderr
    names = printed("--list", "--arch", "aie2").split()
    assert f"Error: 1 of {len(names)} " in done.stderr
    assert [path.stem for path in (tmp_path / "out").glob("*.py")].count(names[0]) == 0
    assert (tmp_path / "out" / f"{names[1]}.py").is_file()
