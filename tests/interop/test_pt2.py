"""Programs of `torch.export` in .pt2 files, read without PyTorch, against the results of PyTorch."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import python

import npu_tensor as nt
from npu_tensor.interop.imported_graph import ImportedModule
from npu_tensor.jit.trees import flatten

torch = pytest.importorskip("torch", reason="PyTorch, which writes the files, cannot be imported")

from torch_models import example  # noqa: E402

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:.*assigned during export", "ignore:No complete tensor found"),
]


class Parts(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Tied weights, buffers of each kind, a constant, bfloat16, and nested arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.table = torch.nn.Embedding(5, 4).bfloat16()
        self.register_buffer("shift", torch.arange(8.0).view(2, 4).t(), persistent=False)
        self.constant = torch.ones(2, 4)
        self.frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Any, index: Any, options: Any) -> Any:
        y = self.norm(self.second(self.first(x).relu_())) + self.shift[:, 1] + self.constant[0]
        y = y + torch.tensor([1.0, 2.0, 3.0, 4.0]) * options["scale"][0] + self.frozen
        return {"y": y, "rest": [y.split(2, -1)[1], (self.table(index).float().sum(), None), y.shape[0]]}


class Writes(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Writes in place to buffers and to results."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        self.cache[1] = x[0]
        own = torch.tensor([1.0, 2.0, 3.0])
        own.add_(1)
        y = x.clone()
        y[:, 1] *= 2
        return self.cache.sum(0) + y.clamp_(max=1) + self.count[0] + own


def exported(module: Any, *args: Any, **options: Any) -> tuple[Any, io.BytesIO]:
    """Return the program and its file."""
    torch.manual_seed(0)
    program = torch.export.export(module, args, **options)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return program, file


def parts_arguments(rows: int) -> tuple[Any, ...]:
    return torch.randn(rows, 4), torch.tensor([1, 2]), {"scale": [torch.tensor(0.5)]}


def assert_equal(found: Any, expected: Any) -> None:
    tensors: list[nt.Tensor] = []
    flatten(found, tensors)
    others = [each for each in torch.utils._pytree.tree_leaves(expected) if isinstance(each, torch.Tensor)]
    for tensor, other in zip(tensors, others, strict=True):
        assert tensor.shape == tuple(other.shape)
        assert str(other.dtype) == f"torch.{tensor.dtype.name}"
        np.testing.assert_allclose(tensor.float().numpy(), other.detach().float().numpy(), rtol=2e-5, atol=2e-6)


def test_parts_of_a_program() -> None:
    module = Parts()
    program, file = exported(module, *parts_arguments(3))
    model = nt.load_pt2(file)
    x, index, options = parts_arguments(3)
    own = nt.from_dlpack(x), nt.from_dlpack(index), {"scale": [nt.tensor(0.5)]}
    result, expected = model(*own), program.module()(x, index, options)
    assert_equal(result, expected)
    assert result["rest"][1][1] is None
    assert result["rest"][2] == 3
    assert list(model.state_dict()) == [name for name in module.state_dict() if name in model.state_dict()]
    assert set(model.state_dict()) == set(module.state_dict())
    assert model.first.weight is model.second.weight
    assert model.table.weight.dtype is nt.bfloat16
    assert not model.frozen.requires_grad
    assert model.norm.num_batches_tracked.item() == 1
    assert_equal(nt.jit(model)(x=own[0], index=own[1], options=own[2]), expected)
    with pytest.raises(nt.ShapeError, match=re.escape("'x' of the imported graph has the shape [3, 4]")):
        model(nt.ones(2, 4), *own[1:])


def test_gradients_and_training() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    _, file = exported(module, torch.ones(3, 4))
    model, x = nt.load_pt2(file), torch.randn(3, 4)
    model(nt.from_dlpack(x)).square().sum().backward()
    module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(model.get_parameter(name).grad.numpy(), parameter.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_writes_in_place() -> None:
    x = torch.randn(2, 3)
    program, file = exported(Writes(), x)
    model, compiled = nt.load_pt2(file), nt.jit(nt.load_pt2(file))
    for _ in range(2):
        expected = program.module()(x)
        assert_equal(model(nt.from_dlpack(x)), expected)
        assert_equal(compiled(nt.from_dlpack(x)), expected)
    assert model.count.tolist() == [2, 2]


def test_extents_that_vary() -> None:
    rows = torch.export.Dim("rows", min=2, max=64)
    shapes = ({0: rows}, None, {"scale": [None]})
    program, file = exported(Parts().eval(), *parts_arguments(3), dynamic_shapes=shapes)
    model = nt.load_pt2(file)
    for count in (3, 7):
        x, index, options = parts_arguments(count)
        result = model(nt.from_dlpack(x), nt.from_dlpack(index), {"scale": [nt.tensor(0.5)]})
        assert_equal(result, program.module()(x, index, options))
        assert result["rest"][2] == count


def test_another_process_reads_files_without_torch(tmp_path: Path) -> None:
    cases = ("autoencoder", "convolutional", "depthwise", "encoder", "recurrent", "unet")
    for name in cases:
        module, (x,) = example(name)
        program, file = exported(module.eval(), x)
        (tmp_path / f"{name}.pt2").write_bytes(file.getvalue())
        result = torch.utils._pytree.tree_leaves(program.module()(x))[0]
        np.savez(tmp_path / f"{name}.npz", x=x.numpy(), result=result.detach().numpy())
    program_text = """
import sys
sys.modules["torch"] = None
import numpy as np, npu_tensor as nt
for path in sys.argv[1:]:
    model, data = nt.load_pt2(path + ".pt2"), np.load(path + ".npz")
    assert path + ".pt2" in open("/proc/self/maps").read()
    compiled, x = nt.jit(model), nt.from_numpy(data["x"])
    compiled(x)
    nt.save(compiled, path + ".npt")
    for function in (model, nt.load(path + ".npt")):
        result = function(x)
        result = result[0] if isinstance(result, tuple) else result
        np.testing.assert_allclose(result.numpy(), data["result"], rtol=2e-5, atol=2e-6)
    print("is equal")
"""
    done = python("-c", program_text, *(tmp_path / name for name in cases))
    assert done.stdout.count("is equal") == len(cases)


def test_lines_of_the_model() -> None:
    module, (x,) = example("unet")
    explained = nt.jit(nt.load_pt2(exported(module, x)[1])).explain(nt.from_dlpack(x))
    assert {row.line.partition(":")[0] for row in explained} == {"torch_models.py"}


def changed(file: io.BytesIO, change: Any) -> io.BytesIO:
    """Return the file with another program: `change` gets its JSON, or the members by the end of their names."""
    other = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        name = next(name for name in members if name.endswith("models/model.json"))
        program = json.loads(members[name])
        change(program, members)
        members[name] = json.dumps(program).encode()
        for each, content in members.items():
            new.writestr(each, content)
    other.seek(0)
    return other


def graph(program: Any) -> Any:
    return program["graph_module"]["graph"]


def configure(members: dict[str, bytes], **values: Any) -> None:
    """Change the description of the first weight."""
    name = next(name for name in members if name.endswith("weights_config.json"))
    config = json.loads(members[name])
    config["config"]["0.weight"].update(values)
    members[name] = json.dumps(config).encode()


META = {"dtype": 7, "sizes": [{"as_int": 8}, {"as_int": 4}], "strides": [{"as_int": 4}, {"as_int": 1}],
        "requires_grad": True, "storage_offset": {"as_int": 0}}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, m: p["schema_version"].update(major=9), "its schema has version 9"),
        (lambda p, m: graph(p)["nodes"][0].update(target="torch.ops.my.op"), "not supported: my.op at .*linear.py"),
        (lambda p, m: graph(p)["nodes"][0]["inputs"][0].update(arg={"as_tensor": {"name": "no"}}), "'no' is not comp"),
        (lambda p, m: graph(p)["nodes"][0]["inputs"][0].update(arg={"as_graph": {}}), "the kind graph are not"),
        (lambda p, m: graph(p)["tensor_values"]["input"].update(dtype=10), "the number 10"),
        (lambda p, m: p.update(graph_module=[]), "TypeError"),
        (lambda p, m: graph(p).update(nodes=[3]), "TypeError"),
        (lambda p, m: p["graph_module"]["signature"]["input_specs"].pop(), "ValueError"),
        (lambda p, m: p["graph_module"].update(module_call_graph=[]), "StopIteration"),
        (lambda p, m: configure(m, use_pickle=True), "'0.weight' is a pickled object"),
        (lambda p, m: configure(m, path_name="../../../../etc/passwd"), "There is no item named"),
        (lambda p, m: configure(m, tensor_meta={**META, "sizes": [{"as_int": 9}, {"as_int": 4}]}), "in 32 elements"),
        (lambda p, m: configure(m, tensor_meta={**META, "strides": [{"as_int": 1 << 60}] * 2}), "in 32 elements"),
        (lambda p, m: configure(m, tensor_meta={**META, "strides": [{"as_int": -4}, {"as_int": 1}]}), "in 32 elements"),
        (lambda p, m: configure(m, tensor_meta={**META, "storage_offset": {"as_int": -1}}), "in 32 elements"),
        (lambda p, m: configure(m, tensor_meta={**META, "dtype": "float"}), "the number 'float'"),
        (lambda p, m: m.update({next(n for n in m if n.endswith("byteorder")): b"big"}), "not little-endian"),
        (lambda p, m: m.update({"other/models/model.json": b"{}"}), "2 programs"),
    ],
)
def test_files_that_are_not_valid(change: Any, message: str) -> None:
    _, file = exported(torch.nn.Sequential(torch.nn.Linear(4, 8)), torch.ones(3, 4))
    with pytest.raises(nt.ArgumentError, match=message):
        nt.load_pt2(changed(file, change))


def test_load_names_the_function_for_programs() -> None:
    _, file = exported(torch.nn.Linear(4, 8), torch.ones(3, 4))
    with pytest.raises(nt.ArgumentError, match=r"program of torch\.export, which nt\.load_pt2 reads"):
        nt.load(file)


def test_truncated_and_flipped_files_raise_our_errors() -> None:
    whole = exported(torch.nn.Sequential(torch.nn.Linear(4, 8)), torch.ones(3, 4))[1].getvalue()
    rng = np.random.default_rng(0)
    for end in {0, 1, 4, len(whole) - 1, *rng.integers(0, len(whole), 30).tolist()}:
        with pytest.raises(nt.ArgumentError, match="cannot be read"):
            nt.load_pt2(io.BytesIO(whole[:end]))
    for place in rng.integers(0, len(whole), 100):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        try:
            assert isinstance(nt.load_pt2(io.BytesIO(damaged)), ImportedModule)
        except nt.ArgumentError:
            continue
