"""`npu-tensor run`."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import npu_tensor as nt
from npu_tensor.cli import main

onnx = pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    before = nt.get_default_device()
    yield
    nt.set_default_device(before)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def saved(path: Path, operator: str = "Add") -> Path:
    """Write a model of x (batch, 3) and an operand."""
    helper, kinds = onnx.helper, onnx.TensorProto
    second = ("shape", kinds.INT64, [1]) if operator == "Reshape" else ("ids", kinds.FLOAT, [3])
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", second[0]], ["total"], name="the node")],
        "model",
        [helper.make_tensor_value_info(*each) for each in (("x", kinds.FLOAT, ["batch", 3]), second)],
        [onnx.ValueInfoProto(name="total")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(model.SerializeToString())
    return path


def test_outputs_times_and_files(tmp_path: Path) -> None:
    model, inputs, outputs = saved(tmp_path / "m.onnx"), tmp_path / "in.npz", tmp_path / "out.npz"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(inputs, x=x)
    first, second = (run(model, "--inputs", inputs, "--output", outputs, "--explain", "--profile") for _ in range(2))
    assert first.exit_code == 0, first.output
    for part in ("total", "float32", "[2, 3]", "first run", "median of 10 more", "the node", "kernels"):
        assert part in first.output
    table = re.compile(r"total.*")
    assert table.findall(first.output)[0] == table.findall(second.output)[0]
    result = np.load(outputs)["total"]
    assert result.shape == (2, 3)
    assert np.ptp(result - x, axis=0).max() < 1e-5


def test_shapes_that_the_file_leaves_open(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx")
    assert "[1, 3]" in run(model).output
    assert "[5, 3]" in run(model, "--shape", "x=5,3").output


def test_a_model_that_reads_values_runs_without_jit(tmp_path: Path) -> None:
    model, inputs = saved(tmp_path / "m.onnx", "Reshape"), tmp_path / "in.npz"
    np.savez(inputs, shape=np.array([-1]))
    result = run(model, "--inputs", inputs, "--explain")
    assert result.exit_code == 0, result.output
    assert "without jit: operand 1" in result.stderr
    assert "[3]" in result.stdout


def test_saved_functions_with_nested_inputs(tmp_path: Path) -> None:
    @nt.jit
    def total(x: nt.Tensor, parts: dict[str, list[nt.Tensor]], *, last: nt.Tensor) -> nt.Tensor:
        return (x + parts["p"][0] * 2 + last).sum()

    model, inputs = tmp_path / "m.npt", tmp_path / "in.npz"
    for size in (2, 3):
        x = nt.ones(size)
        total(x, {"p": [x]}, last=x)
    nt.save(total, model)
    arrays = dict.fromkeys(("argument_0", "argument_1['p'][0]", "last"), np.ones(3, np.float32))
    np.savez(inputs, **arrays)
    result = run(model, "--inputs", inputs)
    assert result.exit_code == 0, result.output
    assert re.search(r"output_0 .* 12 ", result.output)
    assert "float32" in run(model).output
    message = "the model has no input 'x'; it has argument_0, argument_1['p'][0], last"
    assert message in " ".join(run(model, "--shape", "x=2").output.split())
    nt.save({"w": nt.ones(2)}, model)
    assert "m.npt holds tensors, not a function" in run(model).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "x"], "is not of the form NAME=N,N"),
        (["--shape", "z=1"], "the model has no input 'z'; it has x, ids"),
        (["--shape", "x=2,4"], "has the shape [any, 3], not float32[2, 4]"),
        (["--device", "tpu"], "tpu"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run(saved(tmp_path / "m.onnx"), *arguments)
    assert result.exit_code
    assert message in " ".join(result.output.split())


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("x")
    (tmp_path / "m.txt").write_text("x")
    assert "load_onnx: " in run(tmp_path / "m.onnx").output
    assert "m.txt is not one of *.npt, *.onnx, *.pt2" in run(tmp_path / "m.txt").output
