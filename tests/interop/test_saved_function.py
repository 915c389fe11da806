"""Captured functions in files: results, weights, kernels, and files that are damaged or written to do harm."""

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import needs_compiler, python

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.interop.saved_function import SavedFunction
from npu_tensor.jit.trees import flatten
from npu_tensor.nn import functional as F
from npu_tensor.runtime.store.kernel_directory import KernelDirectory, kernel_directories, unpacked_directories

pytestmark = pytest.mark.once


class Net(nn.Module):
    """Layers with buffers, tied weights and random numbers."""

    def __init__(self) -> None:
        self.inner = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.outer = nn.Linear(8, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = nn.Parameter(self.tied.weight.detach())
        self.again = nn.Linear(4, 4, bias=False)
        self.again.weight = self.tied.weight
        self.drop = nn.Dropout(0.5)
        self.register_buffer("shift", nt.arange(4.0), persistent=False)

    def forward(self, x: nt.Tensor) -> nt.Tensor:
        y = self.outer(self.norm(self.inner(x)).relu()) + self.shift
        return self.drop(self.again(self.tied(y)).softmax(-1))


class Images(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, stride=2, groups=8)
        self.back = nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1)

    def forward(self, x: nt.Tensor) -> tuple[nt.Tensor, ...]:
        y, places = F.max_pool2d(self.first(x).relu(), 2, ceil_mode=True, return_indices=True)
        y = self.back(F.gelu(self.depthwise(y)))
        resized = F.interpolate(y, scale_factor=1.5, mode="bilinear")
        return resized, F.adaptive_avg_pool2d(y, 3), F.avg_pool2d(F.pad(y, (1, 1), "reflect"), 3, 2, 1), places


class Words(nn.Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(11, 16)
        self.layer = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, index: nt.Tensor, mask: nt.Tensor) -> dict[str, Any]:
        y, (hidden, _) = self.layer(self.table(index))
        top = self.encoder(y, src_key_padding_mask=mask).topk(3, -1)
        return {"values": top.values, "hidden": [hidden, top.indices], "rows": y[:, ::2].flip(1)}


def functions() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    image, index = nt.randn(2, 3, 9, 10), nt.tensor([[1, 2, 10, 0], [3, 3, 0, 5]])
    half = nt.nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).bfloat16()

    def plain(x: nt.Tensor, places: nt.Tensor) -> tuple[nt.Tensor, ...]:
        table = x.clone()
        table[1:, ::2] = 3
        table.index_put_((places,), nt.ones(2, 10))
        return table.scatter(0, places[:, None], 5.0), nt.arange(5) * 2, (x**2).cumsum(0), x.argsort(-1), nt.eye(2)

    return {
        "net": (Net().eval(), (nt.randn(3, 4),)),
        "images": (Images(), (image,)),
        "words": (Words().eval(), (index, index == 0)),
        "half": (half, (nt.randn(2, 8).bfloat16(),)),
        "plain": (plain, (nt.randn(4, 10), nt.tensor([0, 3]))),
    }


def numbers(value: Any) -> list[np.ndarray[Any, Any]]:
    tensors: list[nt.Tensor] = []
    flatten(value, tensors)
    return [tensor.float().numpy() for tensor in tensors]


def saved(function: Callable[..., Any], *args: Any, **kwargs: Any) -> SavedFunction:
    """Return the function after a round trip."""
    compiled = nt.jit(function)
    compiled(*args, **kwargs)
    file = io.BytesIO()
    nt.save(compiled, file)
    file.seek(0)
    loaded = nt.load(file)
    assert isinstance(loaded, SavedFunction)
    return loaded


def test_another_process_computes_the_same_without_torch_and_sources(tmp_path: Path) -> None:
    for name, (function, args) in functions().items():
        compiled = nt.jit(function)
        expected = numbers(compiled(*args))
        nt.save(compiled, tmp_path / f"{name}.npt")
        arrays = [each.float().numpy() if each.is_floating_point() else each.numpy() for each in args]
        np.savez(tmp_path / f"{name}.npz", *arrays, **{f"result_{n}": each for n, each in enumerate(expected)})
    program = """
        import sys
        sys.modules["torch"] = sys.modules["onnx"] = None
        import numpy as np, npu_tensor as nt
        from npu_tensor.jit.trees import flatten
        for path in sys.argv[1:]:
            model, data, results = nt.load(path + ".npt"), np.load(path + ".npz"), []
            args = [nt.from_numpy(data[name]) for name in data if name.startswith("arr_")]
            for _ in range(2):
                flatten(model(*(arg.bfloat16() if "half" in path else arg for arg in args)), results)
            for number, result in enumerate(results):
                expected = data[f"result_{number % (len(results) // 2)}"]
                np.testing.assert_allclose(result.float().numpy(), expected, rtol=1e-5, atol=1e-6)
            print(path, "is equal")
    """
    lines = python(
        "-c", "\n".join(line[8:] for line in program.splitlines()), *(tmp_path / name for name in functions())
    )
    assert lines.stdout.count("is equal") == len(functions())


def test_nested_arguments_and_results_keep_their_structure() -> None:
    def function(x: nt.Tensor, *, options: dict[str, Any], flag: bool = True) -> Any:
        return {"a": (x + options["b"][0], [x, 3.5, None, "text"]), 7: nt.tensor([1, 2]), (1, 2): x.T}

    x, options = nt.tensor([[1.0, 2.0]]), {"b": [nt.tensor([1.0])], "scale": 2}
    loaded = saved(function, x, options=options)
    result, expected = loaded(x, options=options), function(x, options=options)
    assert str(result) == str(expected)
    assert result["a"][1][0] is x
    result[1, 2][0] = 9  # a view of the argument
    assert x.tolist() == [[9, 2]]
    assert result[7].tolist() == loaded(x, options=options)[7].tolist() == [1, 2]
    with pytest.raises(
        nt.ArgumentError,
        match=re.escape("not saved for (float32[1, 2], options={'b': [float32[1]], 'scale': 3}), but for (float32[1"),
    ):
        loaded(x, options={**options, "scale": 3})


def test_weights_of_modules_are_those_of_the_loaded_function() -> None:
    model = Net().eval()
    x = nt.randn(3, 4)
    loaded = saved(model, x)
    assert list(loaded.state_dict()) == list(model.state_dict())
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert loaded.tied.weight is loaded.again.weight
    loaded.load_state_dict({name: value * 2 for name, value in model.state_dict().items()})
    model.load_state_dict(loaded.state_dict())
    np.testing.assert_allclose(loaded(x).numpy(), model(x).numpy(), rtol=1e-6)
    for each in (model, loaded):
        each(x).square().sum().backward()
    np.testing.assert_allclose(loaded.inner.weight.grad.numpy(), model.inner.weight.grad.numpy(), rtol=1e-5)
    again = saved(loaded, x)
    np.testing.assert_array_equal(again(x).numpy(), loaded(x).numpy())


def test_a_loaded_function_is_saved_with_its_present_weights(tmp_path: Path) -> None:
    net = Net().eval()
    compiled, x = nt.jit(net), nt.randn(3, 4)
    expected = compiled(x)
    nt.save(compiled, tmp_path / "first.npt")
    loaded = nt.load(tmp_path / "first.npt")
    nt.save(loaded, tmp_path / "second.npt")
    again = nt.load(tmp_path / "second.npt")
    np.testing.assert_array_equal(again(x).numpy(), expected.numpy())
    with nt.no_grad():
        again.outer.weight.zero_()
    nt.save(again, tmp_path / "second.npt")
    assert nt.load(tmp_path / "second.npt").outer.weight.abs().sum().item() == 0
    with pytest.raises(nt.ArgumentError, match=r"the weight .* of the loaded function is float32"):
        nt.save(again.double(), tmp_path / "third.npt")


def test_calls_draw_random_numbers_and_update_buffers() -> None:
    model = Net()
    x = nt.randn(3, 4)
    compiled = nt.jit(model)
    loaded = saved(model, x)
    nt.manual_seed(5)
    expected = compiled(x), compiled(x)
    nt.manual_seed(5)
    for each in expected:
        np.testing.assert_array_equal(loaded(x).numpy(), each.numpy())
    assert loaded.norm.num_batches_tracked.item() == model.norm.num_batches_tracked.item() == 3
    np.testing.assert_array_equal(loaded.norm.running_var.numpy(), model.norm.running_var.numpy())


def test_all_signatures_are_saved_in_the_present_mode() -> None:
    model = Net()
    compiled = nt.jit(model)
    compiled(nt.ones(2, 4))
    model.eval()
    compiled(nt.ones(3, 4))
    file = io.BytesIO()
    nt.save(compiled, file)
    file.seek(0)
    loaded = nt.load(file)
    for rows in (2, 3):
        np.testing.assert_array_equal(loaded(nt.ones(rows, 4)).numpy(), model(nt.ones(rows, 4)).numpy())
    assert "(float32[2, 4]); (float32[3, 4])" in repr(loaded)


def test_explain_names_lines_of_the_model() -> None:
    loaded = saved(Net().eval(), nt.ones(3, 4))
    assert {row.line.partition(":")[0] for row in nt.jit(loaded).explain(nt.ones(3, 4))} == {Path(__file__).name}


def test_weights_are_mapped(tmp_path: Path) -> None:
    compiled = nt.jit(nn.Linear(256, 256))
    compiled(nt.ones(1, 256))
    nt.save(compiled, tmp_path / "model.npt")
    loaded = nt.load(tmp_path / "model.npt")
    assert "model.npt" in Path("/proc/self/maps").read_text()
    assert loaded.weight.shape == (256, 256)
    with zipfile.ZipFile(tmp_path / "model.npt") as archive, archive.open("weights.safetensors") as member:
        assert json.loads(member.read(8 + 1000)[8:].partition(b"}}")[0] + b"}}")["weight"]["shape"] == [256, 256]


def gradients(x: nt.Tensor) -> nt.Tensor:
    return nt.grad(lambda y: F.avg_pool1d(y, 2).sum())(x)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    leaf = nt.ones(1, 1, 4, requires_grad=True)

    def backward(x: nt.Tensor) -> nt.Tensor:
        with nt.enable_grad():
            loss = (leaf * x).sum()
            loss.backward()
        return loss

    for function, argument, message in (
        (lambda x: x, None, "has no capture"),
        (lambda x, y: x, object(), "cannot hold <object"),
        (gradients, None, "gradients"),
        (backward, None, "gradients"),
    ):
        compiled = nt.jit(function)
        if message != "has no capture":
            compiled(nt.ones(1, 1, 4), *([] if argument is None else [argument]))
        with pytest.raises(nt.ArgumentError, match=message):
            nt.save(compiled, tmp_path / "model.npt")
    with pytest.raises(nt.ArgumentError, match=re.escape("save(nt.jit(function)) after a call")):
        nt.save(Net(), tmp_path / "model.npt")
    assert not list(tmp_path.iterdir())


# --- kernels


def kernels(directory: Path, backend: str = "iron", suffix: str = ".xclbin") -> Path:
    fields = {"name": "add", "key": "0" * 64, "made_from": {"arch": "aie2p", "backend": backend, "design": "0" * 64}}
    KernelDirectory(directory).write("aie2p", "add", {suffix: b"binary"}, fields)
    return directory


def test_kernels_are_in_the_file_and_found(tmp_path: Path) -> None:
    compiled = nt.jit(nt.relu)
    compiled(nt.ones(2))
    nt.save(compiled, tmp_path / "model.npt", kernels=kernels(tmp_path / "kernels"))
    before = len(unpacked_directories)
    for _ in range(2):
        nt.load(tmp_path / "model.npt")
    assert len(unpacked_directories) == before + 1
    found = unpacked_directories.pop()
    assert KernelDirectory(found).intact("aie2p", "add") is not None
    assert found not in kernel_directories()


def test_code_for_the_cpu_is_refused(tmp_path: Path) -> None:
    compiled = nt.jit(nt.relu)
    compiled(nt.ones(2))
    with pytest.raises(nt.ArgumentError, match="code for the CPU"):
        nt.save(compiled, tmp_path / "model.npt", kernels=kernels(tmp_path / "kernels", "host", ".so"))
    with pytest.raises(nt.ArgumentError, match="no kernels"):
        nt.save(compiled, tmp_path / "model.npt", kernels=tmp_path)


@needs_compiler
def test_a_loaded_function_runs_on_a_simulated_npu() -> None:
    x = nt.arange(256).bfloat16()
    loaded = saved(lambda x: x * 2 + 1, x)
    with nt.default_device("sim:npu2", policy="always"):
        assert loaded(x).tolist() == (x * 2 + 1).tolist()
        assert any(row.device == "sim:npu2" for row in nt.jit(loaded).explain(x))


# --- damage


def contents(function: Callable[..., Any], *args: Any) -> dict[str, bytes]:
    compiled = nt.jit(function)
    compiled(*args)
    file = io.BytesIO()
    nt.save(compiled, file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    file.seek(0)
    return file


def test_truncated_and_flipped_files_raise_our_errors() -> None:
    compiled = nt.jit(Net().eval())
    compiled(nt.ones(1, 4))
    file = io.BytesIO()
    nt.save(compiled, file)
    whole = file.getvalue()
    rng = np.random.default_rng(0)
    for end in {0, 1, 2, 4, len(whole) - 1, *rng.integers(0, len(whole), 60).tolist()}:
        with pytest.raises(nt.NpuTensorError):
            nt.load(io.BytesIO(whole[:end]))
    for place in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        try:
            nt.load(io.BytesIO(damaged))(nt.ones(1, 4))
        except nt.NpuTensorError:
            continue


WRITE = ["write_strided", [0, 1, [0]], {"strides": [1], "add": False}, ""]
SLICE = ["slice", [0], {"bounds": [[0, 4, 1]]}, ""]
POOL = {"mode": "max", "kernel": [2], "stride": [2], "padding": [[0, 0]], "dilation": [1], "counts": [2],
        "count_include_pad": True, "divisor": None, "channels_last": False}  # fmt: skip


def program(ops: list[Any], shape: list[int] = [4], **changes: Any) -> io.BytesIO:  # noqa: B006
    """Return a function of two tensors of one shape."""
    tensor = {"tensor": ["float32", shape]}
    capture = {
        "arguments": [[tensor, tensor], {"dict": []}],
        "seeds": 0,
        "ops": ops,
        "result": {"value": [0]},
        "updates": [],
        **changes,
    }
    written = {"format": 1, "version": "0", "weights": [], "captures": [capture]}
    return archived({"weights.safetensors": b"\x02\0\0\0\0\0\0\0{}", "program.json": json.dumps(written).encode()})


def test_a_program_by_hand_is_loaded() -> None:
    three = [1, 1, 4]
    pooled = nt.load(program([["pool_1d", [0], POOL, "model.py:3"]], three, result={"value": [2]}))
    assert pooled(nt.arange(4.0).reshape(three), nt.ones(three)).tolist() == [[[1, 3]]]
    written = nt.load(program([WRITE, SLICE], result={"value": [2]}))
    assert written(nt.zeros(4), nt.ones(4)).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([["no_such_op", [0], {}, ""]], "needs the op 'no_such_op', which npu-tensor"),
        ([["relu", [5], {}, ""]], "the number 5 of a value"),
        ([["relu", [-1], {}, ""]], "the number -1 of a value"),
        ([["relu", ["x"], {}, ""]], "the number 'x' of a value"),
        ([["relu", [["x"]], {}, ""]], "operands of the types"),
        ([["relu", [0, 1], {}, ""]], "2 operands"),
        ([["relu", [0], {"alpha": 1}, ""]], "the attributes"),
        ([["relu", [0], {}, "/etc/passwd:1"]], "the line"),
        ([["softmax", [0], {"dim": 7, "dtype": None}, ""]], "out of range"),
        ([["softmax", [0], {"dim": 0, "dtype": {"dtype": "float7"}}, ""]], "float7"),
        ([["fill", [[1.0]], {"shape": [2.0], "dtype": {"dtype": "float32"}}, ""]], "shape = "),
        ([["fill", [[1.0]], {"shape": [1 << 62, 2], "dtype": {"dtype": "float32"}}, ""]], "64 bits"),
        ([["fill", [[1.0]], {"shape": {"list": [[[[]]]]}, "dtype": {"dtype": "float32"}}, ""]], "Error"),
        ([["slice", [0], {"bounds": [[0, 5, 1]]}, ""]], "with the attributes"),
        ([["slice", [0], {"bounds": [[-1, 3, 1]]}, ""]], "with the attributes"),
        ([["slice", [0], {"bounds": [[0, -4, 1]]}, ""]], "bounds = "),
        ([["windows", [0], {"dim": 0, "count": 4, "size": 2, "step": 1, "gap": 1}, ""]], "with the attributes"),
        ([["windows", [0], {"dim": 0, "count": -2, "size": -2, "step": 1, "gap": 1}, ""]], "shape"),
        ([["write_strided", [0, 1, [1]], {"strides": [1], "add": False}, ""]], "with the attributes"),
        ([["write_strided", [0, 1, 1], {"strides": [1], "add": False}, ""]], "with the attributes"),
        ([["layer_norm_gradient", [0, 1, 1], {"dim": 0}, ""]], "computes gradients"),
        ([["max_pool_positions", [0], {"of": {"call": ["relu", ["float"], {}]}}, ""]], "attributes"),
        ([["relu", [0], {}]], "ValueError"),
        (7, "TypeError"),
    ],
)  # fmt: skip
def test_ops_that_are_not_valid(ops: Any, message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        nt.load(program(ops))


@pytest.mark.parametrize(
    "changes",
    [{"counts": [3]}, {"stride": [0]}, {"kernel": [-1]}, {"divisor": 0}, {"mode": "min"}, {"channels_last": 1},
     {"padding": [[-1, 0]]}, {"padding": [[2, 0]]}, {"dilation": [0]}],
)  # fmt: skip
def test_windows_outside_an_image(changes: dict[str, Any]) -> None:
    with pytest.raises(nt.ArgumentError, match="with the attributes"):
        nt.load(program([["pool_1d", [0], POOL | changes, ""]], [1, 1, 4]))


@pytest.mark.parametrize("scale", [-1.0, 0.0, float("nan"), float("inf"), 1e300])
def test_distances_in_resized_images(scale: float) -> None:
    attributes = {"mode": "linear", "counts": [3], "scales": [scale], "align_corners": False, "antialias": False}
    with pytest.raises(nt.ArgumentError, match="with the attributes"):
        nt.load(program([["upscale", [0], {**attributes, "channels_last": False}, ""]], [1, 1, 4]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 1 << 80}, "OverflowError"),
        ({"seeds": "3"}, "TypeError"),
        ({"result": {"value": [9]}}, "the number 9"),
        ({"result": {"value": []}}, "ValueError"),
        ({"seeds": 1, "result": {"value": [2]}}, "a seed as a result"),
        ({"result": {"value": [0, {"call": ["relu", [{"tensor": ["float32", [4]]}], {}]}]}}, "the view"),
        ({"result": {"code": "import os"}}, "a value of the kind 'code'"),
        ({"updates": [[0, 0]]}, "the weight 0 with"),
        ({"updates": [[-1, 0]]}, "the weight -1 with"),
        ({"seeds": 10**9}, "1000000000 seeds for 0 ops"),
        ({"arguments": [[{"tensor": ["float32", [-1]]}], {"dict": []}]}, "the shape"),
        ({"arguments": [[{"tensor": ["float32", [1 << 70]]}], {"dict": []}]}, "64 bits"),
        ({"arguments": None}, "TypeError"),
    ],
)
def test_captures_that_are_not_valid(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        nt.load(program([], **changes))


def test_archives_that_are_not_valid() -> None:
    members = contents(nt.relu, nt.ones(2))
    entries = json.loads(members["program.json"])

    def load(**changes: bytes) -> None:
        names = {"program": "program.json", "weights": "weights.safetensors", "kernels": "kernels.ntpack"}
        nt.load(archived({**members, **{names[key]: value for key, value in changes.items()}}))

    load()
    for changes, message in (
        ({"program": json.dumps({**entries, "format": 2, "version": "9.9"}).encode()}, "npu-tensor 9.9 wrote it"),
        ({"program": b"[" * 100_000}, "RecursionError"),
        ({"program": b"{}"}, "KeyError"),
        ({"program": b"[]"}, "TypeError"),
        ({"program": b"\xff\xfe"}, "cannot be loaded"),
        ({"weights": b""}, "a header of 0 bytes"),
        ({"kernels": b"no archive"}, "not a kernel pack"),
        ({"kernels": archived({"../../outside": b"x"}).getvalue()}, "is not a file in"),
        ({"kernels": archived({"aie2p/../../outside": b"x"}).getvalue()}, "is not a file in"),
    ):
        with pytest.raises(nt.ArgumentError, match=message):
            load(**changes)
    with pytest.raises(nt.ArgumentError, match="compressed"):
        nt.load(archived(members, zipfile.ZIP_DEFLATED))
