"""Imported graphs as modules: arguments, weights, updates, gradients, lines and errors."""

import linecache

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.interop.imported_graph import (
    ImportedGraph,
    ImportedInput,
    ImportedModule,
    ImportedNode,
    Reference,
    Weight,
)

TABLE = {"matmul": nt.matmul, "add": nt.add, "relu": nt.relu, "split": nt.split}
X = ImportedInput("x", nt.float32, (None, 2))


def linear(place: str = "") -> ImportedModule:
    graph = ImportedGraph(
        inputs={"x": X},
        nodes=(
            ImportedNode("matmul", (Reference("x"), Weight("block.0.weight")), results="y", place=place),
            ImportedNode("add", (Reference("y"), Weight("block.0.shift")), results="z"),
            ImportedNode("relu", (Reference("z"),), results="r"),
        ),
        outputs={"result": Reference("r"), "parts": [Reference("y"), 3]},
        updates=((Weight("block.0.shift"), Reference("z")),),
    )
    weights = {"block.0.weight": nn.Parameter(nt.eye(2) * 2), "block.0.shift": nt.ones(1, 2)}
    return ImportedModule(graph, TABLE, weights)


def test_weights_are_those_of_nested_modules() -> None:
    model = linear()
    assert [name for name, _ in model.named_parameters()] == ["block.0.weight"]
    assert list(model.state_dict()) == ["block.0.weight", "block.0.shift"]
    model.load_state_dict({"block.0.weight": nt.ones(2, 2), "block.0.shift": nt.zeros(1, 2)})
    assert model(nt.ones(1, 2))["result"].tolist() == [[2, 2]]
    assert repr(model).startswith("ImportedModule(\n  (x), 3 nodes")


def test_results_updates_and_gradients() -> None:
    model = linear()
    result = model(x=nt.tensor([[1.0, -2.0]]))
    assert result["result"].tolist() == [[3, 0]]
    assert result["parts"][0].tolist() == [[2, -4]]
    assert result["parts"][1] == 3
    assert model.get_buffer("block.0.shift").tolist() == [[3, -3]]
    result["result"].sum().backward()
    assert model.get_parameter("block.0.weight").grad.tolist() == [[1, 0], [-2, 0]]


def test_jit_and_explain_see_the_ops() -> None:
    model = linear()
    compiled = nt.jit(model)
    x = nt.tensor([[1.0, -2.0]])
    assert compiled(x)["result"].tolist() == [[3, 0]]
    assert compiled(x)["result"].tolist() == [[5, 0]]  # The shift is that of the previous call.
    assert compiled.captures == 1


def test_elements_of_results() -> None:
    nodes = (
        ImportedNode("split", (Reference("x"), 1), {"dim": 1}, results=("", "second")),
        ImportedNode("add", (Reference("second"), 1.0), results="y"),
    )
    model = ImportedModule(ImportedGraph({"x": (X, "mode")}, nodes, Reference("y")), TABLE, {})
    assert model((nt.tensor([[1.0, 2.0]]), "mode")).tolist() == [[3]]
    with pytest.raises(nt.ArgumentError, match=r"'x\[1\]' of the imported graph is always 'mode', not 'other'"):
        model((nt.tensor([[1.0, 2.0]]), "other"))


@pytest.mark.parametrize(
    ("place", "line"), [("folder/model.py:2", "model.py:2"), ("/encoder/MatMul", "/encoder/MatMul")]
)
def test_ops_have_the_lines_of_the_model(place: str, line: str) -> None:
    linecache.cache["folder/model.py"] = (0, None, ["import torch\n", "y = x @ w\n"], "folder/model.py")
    model = linear(place)
    assert nt.explain(model(nt.ones(1, 2))["parts"][0])[-1].line == line
    model.get_parameter("block.0.weight").data = nt.ones(3, 2)
    with pytest.raises(nt.ShapeError, match=rf"matmul\(float32\[1, 2\], .*recorded at {line}") as caught:
        model(nt.ones(1, 2))
    assert caught.value.__notes__ == [f"in matmul of the imported graph at {place}"]


@pytest.mark.parametrize(
    ("args", "keywords", "error", "message"),
    [
        ((), {}, nt.ArgumentError, r"takes \(x\); the call passes no 'x'"),
        ((nt.ones(1, 2), 1), {"y": 2, "x": 3}, nt.ArgumentError, "2 positional arguments, 'x' twice, an unknown 'y'"),
        (
            (np.ones((1, 2)),),
            {},
            nt.ArgumentError,
            "'x' .* is a tensor of npu_tensor, not numpy.ndarray; convert",
        ),
        ((nt.ones(1, 2, dtype=nt.int32),), {}, nt.DTypeError, r"is float32, not int32\[1, 2\]"),
        ((nt.ones(1, 3),), {}, nt.ShapeError, r"has the shape \[any, 2\], not float32\[1, 3\]"),
    ],
)
def test_wrong_arguments(args: tuple, keywords: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        linear()(*args, **keywords)


def test_wrong_graphs() -> None:
    nodes = (ImportedNode("fft", (Reference("x"),), results="y", place="a.py:1"), ImportedNode("stft"))
    with pytest.raises(nt.ArgumentError, match=r"operators that are not supported: fft at a.py:1, stft$"):
        ImportedModule(ImportedGraph({"x": X}, nodes, None), TABLE, {})
    for path in ("forward", "a..b", "weight.x"):
        with pytest.raises(nt.ArgumentError, match="has another meaning"):
            ImportedModule(ImportedGraph({}, (), None), TABLE, {"weight": nt.ones(1), path: nt.ones(1)})
