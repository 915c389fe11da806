"""Programs of `torch.export` as modules: results, names of weights, gradients, buffers, dynamic shapes and errors."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import nn

torch = pytest.importorskip("torch")

from torch_models import example  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:The tensor attr")
"""PyTorch warns of parts of itself, and of the weights of its recurrent layers."""


def own(tensor: Any) -> nt.Tensor:
    return nt.from_dlpack(tensor)


def assert_equal(result: nt.Tensor, expected: Any) -> None:
    expected = expected.detach().numpy()
    assert result.shape == expected.shape
    assert np.abs(result.numpy() - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["recurrent", "translator", "decoder"])
def test_architectures(name: str) -> None:
    module, arguments = example(name)
    module.eval()
    result = nt.from_torch(module, *arguments)
    assert {name for name, _ in result.named_parameters()} == {name for name, _ in module.named_parameters()}
    assert_equal(result(*map(own, arguments)), module(*arguments))


def test_recurrent_layers_are_single_ops() -> None:
    module, arguments = example("recurrent")
    rows = nt.explain(nt.from_torch(module.eval(), *arguments)(*map(own, arguments)))
    assert [row.op for row in rows].count("lstm") == 4
    assert "torch_models.py" in {row.line.partition(":")[0] for row in rows}


def test_gradients_buffers_and_nested_arguments() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)
            self.register_buffer("calls", torch.zeros(()))
            self.scale = torch.full((4,), 2.0)

        def forward(self, pair: Any, *, options: Any) -> Any:
            self.calls += 1
            h = self.norm(self.layer(pair[0]) + pair[1]) * self.scale
            return {"sum": h.sum(), "parts": (h * options["factor"], self.calls)}

    torch.manual_seed(0)
    module, pair = Model(), (torch.randn(5, 3), torch.randn(4))
    options = {"factor": torch.tensor(3.0)}
    result = nt.from_torch(module, pair, options=options)
    for _ in range(2):
        expected = module(pair, options=options)
        values = result(tuple(map(own, pair)), options={"factor": nt.tensor(3.0)})
    assert_equal(values["parts"][0], expected["parts"][0])
    assert values["parts"][1].item() == result.get_buffer("calls").item() == 2
    assert_equal(result.get_buffer("norm.running_var"), module.norm.running_var)
    assert set(result.state_dict()) == set(module.state_dict())
    (values["parts"][0] ** 3).sum().backward()
    (expected["parts"][0] ** 3).sum().backward()
    assert_equal(result.get_parameter("layer.weight").grad, module.layer.weight.grad)


def test_dynamic_shapes() -> None:
    module, (tokens,) = example("decoder")
    length = torch.export.Dim("length", min=2, max=16)
    program = torch.export.export(module.eval(), (tokens,), dynamic_shapes=({1: length},))
    result = nt.from_exported(program)
    for count in (3, 9):
        other = torch.randint(0, 50, (2, count))
        assert_equal(result(own(other)), module(other))
    with pytest.raises(
        nt.ShapeError, match=r"'tokens' of the imported graph has the shape \[2, any\], not int64\[3, 9\]"
    ):
        result(nt.zeros(3, 9, dtype=nt.int64))


def test_weights_are_copies() -> None:
    layer = torch.nn.Linear(2, 2)
    result = nt.from_torch(layer, torch.ones(1, 2))
    before = result(nt.ones(1, 2)).tolist()
    with torch.no_grad():
        layer.weight.zero_()
    assert result(nt.ones(1, 2)).tolist() == before
    assert isinstance(result.get_parameter("weight"), nn.Parameter)


def test_unsupported_operators() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x).abs()

    with pytest.raises(nt.ArgumentError, match=r"not supported: aten\.fft_rfft\.default at .*test_exported\.py:\d+"):
        nt.from_torch(Model(), torch.ones(4))


def test_importing_npu_tensor_does_not_import_pytorch() -> None:
    program = "import sys, npu_tensor, npu_tensor.interop.aten; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_other_objects_are_refused() -> None:
    with pytest.raises(nt.ArgumentError, match=r"from_torch converts a torch\.nn\.Module"):
        nt.jit(torch.nn.Linear(2, 3))
    with pytest.raises(nt.ArgumentError, match=r"from_torch takes a torch.nn.Module, not int"):
        nt.from_torch(3)
    with pytest.raises(Exception, match="linear") as raised:
        nt.from_torch(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    assert any("from_torch(module, x, y)" in note for note in raised.value.__notes__)
    with pytest.raises(nt.ArgumentError, match=r"from_exported takes a torch.export.ExportedProgram, not int"):
        nt.from_exported(3)
