"""Modules: parts and their names, state dicts and their errors, dtypes, copies, text."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # From PyTorch's TransformerEncoder.


def network(lib: Any) -> Any:
    """Model with every kind of nesting, two names of one layer, and tied weights."""

    class Block(lib.Module):
        def __init__(self, size: int, attend: bool) -> None:
            super().__init__()
            self.norm = lib.BatchNorm1d(size)
            self.layers = lib.ModuleList([lib.Linear(size, size), lib.Linear(size, size), lib.ReLU()])
            self.again = self.layers[0]
            self.bias = None
            self.heads = lib.ModuleDict({"a": lib.Linear(size, 2), "b": lib.Identity()}) if attend else None

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.norm(self.again(x))

    model = lib.Sequential(lib.Linear(4, 6), lib.GELU(), Block(6, True), lib.Sequential(Block(6, False), lib.Flatten()))
    model.append(lib.Linear(6, 6, bias=False))
    model[4].weight = model[2].layers[1].weight
    model.register_buffer("scale", (nt if lib is nn else torch).ones(2))
    model.register_buffer("hidden", (nt if lib is nn else torch).ones(3), persistent=False)
    return model


def both() -> tuple[Any, Any]:
    theirs, ours = network(torch.nn), network(nn)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


def test_names_and_text_are_those_of_pytorch() -> None:
    theirs, ours = both()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert list(ours.state_dict("a.")) == list(theirs.state_dict(prefix="a."))
    for method in ("named_parameters", "named_buffers", "named_modules"):
        assert names(getattr(ours, method)()) == names(getattr(theirs, method)())
        options: Any = {"prefix": "p", "remove_duplicate": False}
        assert names(getattr(ours, method)(**options)) == names(getattr(theirs, method)(**options))
    assert names(ours[2].named_parameters(recurse=False)) == []
    assert names(ours[2].named_children()) == names(theirs[2].named_children())
    assert len(list(ours.children())) == 5
    assert len(list(ours.modules())) == len(list(theirs.modules()))
    assert [tuple(each.shape) for each in theirs.parameters()] == [each.shape for each in ours.parameters()]
    assert len(list(ours.buffers())) == len(list(theirs.buffers()))
    encoders = [
        lib.TransformerEncoder(lib.TransformerEncoderLayer(8, 2, 16), 3, lib.LayerNorm(8)) for lib in (torch.nn, nn)
    ]
    assert repr(encoders[1]) == repr(encoders[0]).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert list(encoders[1].state_dict()) == list(encoders[0].state_dict())


def test_networks_compute_the_same() -> None:
    theirs, ours = both()
    x = np.random.default_rng(0).standard_normal((5, 4), np.float32)
    for training in (True, False):
        expected = theirs.train(training)(torch.from_numpy(x))
        result = ours.train(training)(nt.from_numpy(x))
        np.testing.assert_allclose(result.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)
    assert not any(module.training for module in ours.modules())


def test_state_from_arrays_files_and_other_dtypes(tmp_path: Path) -> None:
    theirs, ours = both()
    expected = {name: each.numpy() for name, each in theirs.state_dict().items()}
    nt.save(ours.state_dict(), tmp_path / "model.safetensors")
    states = (
        expected,
        ours.state_dict(),
        nt.load(tmp_path / "model.safetensors"),
        {name: each.astype(np.float64) for name, each in expected.items()},
    )
    for state in states:
        model = network(nn)
        before = dict(model.named_parameters())
        model.load_state_dict(state)
        assert dict(model.named_parameters()) == before  # The same tensors with new values.
        for name, tensor in model.state_dict().items():
            np.testing.assert_array_equal(tensor.numpy(), expected[name])
            assert tensor.dtype.name == expected[name].dtype.name
    half = theirs.bfloat16()
    model = network(nn).bfloat16()
    model.load_state_dict(half.state_dict())
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.double().numpy(), half.state_dict()[name].double().numpy())


def test_what_is_loaded_is_a_copy() -> None:
    own = torch.nn.Linear(3, 2)
    ours = nn.Linear(3, 2)
    ours.load_state_dict(own.state_dict())
    expected = own.weight.detach().clone()
    with torch.no_grad():
        own.weight += 1
    np.testing.assert_array_equal(ours.weight.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("0.weight"),
        lambda state: state.update(extra=state["0.bias"]),
        lambda state: state.update({"0.bias": state["0.weight"], "2.norm.running_mean": state["scale"]}),
        lambda state: (state.pop("4.weight"), state.pop("scale"), state.update({"5.x": state["0.bias"]})),
    ],
)
def test_state_that_does_not_fit(change: Any) -> None:
    theirs, ours = both()
    state = {name: each.clone() for name, each in theirs.state_dict().items()}
    change(state)
    with pytest.raises(RuntimeError) as expected:
        theirs.load_state_dict(state)
    before = {name: each.numpy() for name, each in ours.state_dict().items()}
    changed = {name: each + 1 for name, each in state.items()}
    with pytest.raises(ArgumentError) as caught:
        ours.load_state_dict(changed)
    assert str(caught.value) == re.sub(r"torch\.Size\((\[.*?\])\)", r"\1", str(expected.value))
    for name, tensor in ours.state_dict().items():  # Nothing was written.
        np.testing.assert_array_equal(tensor.numpy(), before[name])
    if "size mismatch" not in str(caught.value):
        result, own = ours.load_state_dict(state, strict=False), theirs.load_state_dict(state, strict=False)
        assert (result.missing_keys, result.unexpected_keys) == (own.missing_keys, own.unexpected_keys)


def test_other_dtypes() -> None:
    model = network(nn)
    tied = model[4].weight is model[2].layers[1].weight
    assert tied
    assert model.bfloat16() is model
    kinds = {name: each.dtype.name for name, each in model.state_dict().items()}
    assert {kinds.pop(name) for name in list(kinds) if name.endswith("tracked")} == {"int64"}
    assert set(kinds.values()) == {"bfloat16"}
    assert all(isinstance(each, nn.Parameter) for each in model.parameters())
    assert model[4].weight is model[2].layers[1].weight
    before = list(model.parameters())
    assert all(each is other for each, other in zip(before, model.to("cpu").parameters(), strict=True))
    assert {each.dtype for each in model.double().parameters()} == {nt.float64}
    assert {each.dtype for each in model.half().parameters()} == {nt.float16}
    assert {each.dtype for each in model.float().parameters()} == {nt.float32}
    with pytest.raises(DTypeError, match="must be floats, not int32"):
        model.to(nt.int32)
    assert nn.Linear(2, 3, dtype=nt.float64).weight.dtype is nt.float64


def test_a_function_that_was_captured_before_is_not_disturbed_by_another_dtype() -> None:
    layer = nn.Linear(3, 2)
    run = nt.jit(lambda x: layer(x))
    x = nt.ones(1, 3)
    with nt.no_grad():
        expected = run(x).numpy()
        layer.bfloat16()
        np.testing.assert_array_equal(run(x).numpy(), expected)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies(how: Any) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    layer.tied = layer.linear1.weight
    other = how(layer)
    assert repr(other) == repr(layer)
    assert other.tied is other.linear1.weight
    assert list(other.state_dict()) == list(layer.state_dict())
    expected = layer.norm1.weight.numpy()
    with nt.no_grad():
        other.norm1.weight += 1
    np.testing.assert_array_equal(layer.norm1.weight.numpy(), expected)
    np.testing.assert_array_equal(other.norm1.weight.numpy(), expected + 1)


def test_a_parameter_is_a_tensor() -> None:
    data = nt.arange(6.0).reshape(2, 3)
    parameter = nn.Parameter(data)
    assert isinstance(parameter, nt.Tensor)
    assert repr(parameter).startswith("Parameter containing:\nTensor([[0., 1., 2.],")
    assert type(parameter * 2) is nt.Tensor
    with nt.no_grad():
        parameter[0].zero_()  # Through a view.
        parameter.T[2] = 7
    assert parameter.tolist() == [[0, 0, 7], [3, 4, 7]]
    assert data.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(copy.deepcopy(parameter), nn.Parameter)
    assert pickle.loads(pickle.dumps(parameter)).tolist() == parameter.tolist()
    assert nn.Parameter([1.0, 2.0]).tolist() == [1.0, 2.0]


W = nt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "compute",
    [
        lambda w: w,
        lambda w: w[:1],
        lambda w: w * 0.9 + w.detach() * 0.1,
        lambda w: w.double(),
        lambda w: nt.nn.Parameter(w),
        lambda w: copy.deepcopy(nt.nn.Parameter(w)),
        lambda w: pickle.loads(pickle.dumps(nt.nn.Parameter(w))),
    ],
)
def test_a_parameter_of_a_computed_tensor_is_a_leaf(compute: Any, enabled: bool) -> None:
    with nt.set_grad_enabled(enabled):
        computed = compute(W)
        parameter, frozen = nn.Parameter(computed), nn.Parameter(computed, requires_grad=False)
    expected = computed.tolist()
    assert (parameter.is_leaf, parameter.requires_grad, frozen.requires_grad) == (True, True, False)
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == nt.full(parameter.shape, 3.0).tolist()
    assert (W.grad, frozen.grad) == (None, None)
    with nt.no_grad():
        parameter += 1
        frozen.zero_()
    assert computed.tolist() == expected
    assert parameter.requires_grad_(False).tolist() == (computed.detach() + 1).tolist()


def test_a_parameter_stays_one() -> None:
    layer = nn.Linear(2, 3)
    with pytest.raises(TypeError, match=r"cannot assign 'Tensor' as parameter 'weight' \(Parameter or None expected\)"):
        layer.weight = layer.weight * 2
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"]
    layer.register_parameter("bias", nn.Parameter(nt.zeros(3)))
    assert list(layer.state_dict()) == ["weight", "bias"]
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        nn.ModuleDict({"forward": layer})
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_containers() -> None:
    first, second, third = nn.ReLU(), nn.Tanh(), nn.GELU()
    for kind in (nn.ModuleList, lambda modules: nn.Sequential(*modules)):
        several = kind([first, second])
        several.insert(1, third)
        assert list(several) == [first, third, second]
        assert several[-1] is second
        assert list(several[1:]) == [third, second]
        assert type(several[1:]) is type(several)
        del several[0]
        several[0] = first
        several.extend([third])
        assert [name for name, _ in several.named_children()] == ["0", "1", "2"]
        assert list(several) == [first, second, third]
    named = nn.Sequential({"a": first, "b": second})
    assert [name for name, _ in named[1:].named_children()] == ["b"]
    assert named(nt.tensor([-1.0])).item() == 0
    by_name = nn.ModuleDict({"a": first})
    by_name["b"] = second
    by_name.update({"a": third})
    assert list(by_name) == ["a", "b"]
    assert list(by_name.values()) == [third, second]
    assert dict(by_name.items())["b"] is by_name["b"]
    del by_name["a"]
    assert "a" not in by_name
    assert len(by_name) == 1
    assert repr(nn.ModuleList()) == repr(torch.nn.ModuleList())


def test_parts_by_path_and_other_spellings() -> None:
    for lib in (nn, torch.nn):
        model = lib.Sequential(lib.Linear(2, 3), lib.ModuleList([lib.BatchNorm1d(3)]))
        model[1] += [lib.ReLU()]
        model.register_module("other", lib.ModuleDict([["a", lib.Tanh()], ("b", lib.GELU())]))
        assert list(model.other.keys()) == ["a", "b"]
        assert len(model[1]) == 2
        assert model.get_submodule("1.0") is model[1][0]
        assert model.get_submodule("") is model
        assert model.get_parameter("0.weight") is model[0].weight
        assert model.get_buffer("1.0.running_mean") is model[1][0].running_mean
        for get, target in (
            (model.get_submodule, "1.7"),
            (model.get_submodule, "0.weight"),
            (model.get_parameter, "0.running_mean"),
            (model.get_buffer, "1.0.weight"),
        ):
            with pytest.raises(AttributeError):
                get(target)
        assert model.cpu() is model
        kept = model.state_dict(keep_vars=True)
        assert kept["0.weight"] is model[0].weight
        assert model.type((nt if lib is nn else torch).float64)[0].weight.dtype == (nt if lib is nn else torch).float64


def test_a_list_of_parameters() -> None:
    for lib, module in ((nt, nn), (torch, torch.nn)):
        several = module.ParameterList([lib.ones(2), module.Parameter(lib.zeros(1, 3))])
        several.append(lib.ones(1))
        several += [lib.ones(4)]
        several[0] = module.Parameter(lib.zeros(2))
        assert [tuple(each.shape) for each in several] == [(2,), (1, 3), (1,), (4,)]
        assert list(several.state_dict()) == ["0", "1", "2", "3"]
        assert [name for name, _ in several.named_parameters()] == ["0", "1", "2", "3"]
        assert len(several[1:]) == 3
        assert several[-1] is several[3]
        assert several[0].tolist() == [0, 0]
        assert len(copy.deepcopy(several)) == 4
        sum((each * each).sum() for each in several).backward()
        assert several[3].grad.tolist() == [2] * 4
        assert "  (0): Parameter containing: [" in repr(several)


def test_apply_goes_from_inside_to_outside() -> None:
    seen: list[str] = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


def test_zero_grad_drops_or_clears_gradients() -> None:
    layer, gradient = nn.Linear(2, 1), nt.tensor([[np.nan, 1.0]])
    layer.weight.grad = gradient
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is gradient
    assert gradient.tolist() == [[0, 0]]
    layer.zero_grad()
    assert layer.weight.grad is None


def test_functional_call() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].tied = model[0].weight
    values = {"0.weight": nt.eye(2), "1.running_mean": nt.zeros(2)}
    before = {name: each.numpy() for name, each in model.state_dict().items()}
    x = nt.tensor([[1.0, 2.0], [3.0, 5.0]])
    with nt.no_grad():
        model[0].bias.zero_()
    model.eval()
    np.testing.assert_allclose(nn.functional_call(model, values, x).numpy(), x.numpy() / np.sqrt(1 + 1e-5), rtol=1e-6)
    model.train()
    parts = (dict(model.named_parameters()), dict(model.named_buffers()) | values)
    nn.functional_call(model, parts, (x,))
    np.testing.assert_allclose(
        values["1.running_mean"].numpy(), [0.2, 0.35], rtol=1e-6
    )  # The passed tensors are updated.
    with pytest.raises(ShapeError):
        nn.functional_call(model, values, nt.ones(3))
    assert isinstance(model[0].weight, nn.Parameter)
    for name, each in model.state_dict().items():
        if name not in ("0.bias", "1.running_var", "1.num_batches_tracked"):
            np.testing.assert_array_equal(each.numpy(), before[name])
    with pytest.raises(ArgumentError, match=r"Sequential has no parameter or buffer '0\.other'"):
        nn.functional_call(model, {"0.other": x}, x)


def test_training_in_one_plan() -> None:
    """Train with batch norm and dropout, with the state as arguments and results of one step."""
    nt.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
    x = nt.randn(64, 4).realize()
    labels = (x.sum(1) > 0).long().realize()

    @nt.jit
    def step(parameters: Any, buffers: Any) -> Any:
        buffers = {name: each.clone() for name, each in buffers.items()}

        def loss(parameters: Any) -> Any:
            return nn.CrossEntropyLoss()(nn.functional_call(model, (parameters, buffers), x), labels)

        value, gradients = nt.value_and_grad(loss)(parameters)
        return value, {name: each - 0.5 * gradients[name] for name, each in parameters.items()}, buffers

    state = dict(model.named_parameters()), dict(model.named_buffers())
    for _ in range(60):
        value, *state = step(*state)
    assert step.captures <= 2
    assert value.item() < 0.2
    model.load_state_dict({**state[0], **state[1]})
    assert model[1].num_batches_tracked.item() == 60
    assert (model.eval()(x).argmax(1) == labels).float().mean().item() > 0.95
    with nt.no_grad():
        nt.jit(lambda x: model.train()(x))(x)
    assert model[1].num_batches_tracked.item() == 61


def test_a_row_of_padding_is_zero() -> None:
    layer = nn.Embedding(4, 3, padding_idx=1)
    assert layer.weight[1].tolist() == [0, 0, 0]
    pretrained = nn.Embedding.from_pretrained(nt.ones(4, 3))
    assert pretrained(nt.tensor([1])).tolist() == [[1, 1, 1]]


def test_dropout_between_recurrent_layers_and_in_attention() -> None:
    layer, x = nn.LSTM(3, 4, 2, dropout=0.5), nt.ones(5, 2, 3)
    assert (layer(x)[0] != layer(x)[0]).any()
    layer.eval()
    assert (layer(x)[0] == layer(x)[0]).all()
    attention, y = nn.MultiheadAttention(4, 2, dropout=0.5), nt.randn(5, 2, 4)
    for needed in (True, False):
        attention.train()
        assert (attention(y, y, y, need_weights=needed)[0] != attention(y, y, y, need_weights=needed)[0]).any()
        attention.eval()
        assert (attention(y, y, y, need_weights=needed)[0] == attention(y, y, y, need_weights=needed)[0]).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.MultiheadAttention(7, 2), "embed_dim 7 must be divisible by num_heads 2"),
        (lambda: nn.GroupNorm(2, 3), r"num_channels \(3\) must be divisible by num_groups \(2\)"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "2 groups do not divide 3 input"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "padding_mode must be"),
        (lambda: nn.Embedding(3, 4, padding_idx=3), "padding_idx 3"),
        (lambda: nn.LSTM(3, 0), "must be greater than zero"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), "Unknown nonlinearity"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"), "activation should be relu/gelu, not tanh"),
        (lambda: nn.BatchNorm2d(3)(nt.ones(2, 3)), r"expected 4D input \(got 2D input\)"),
        (lambda: nn.LSTM(3, 4)(nt.ones(5, 2, 4)), r"needs \(steps, batch, 3\)"),
        (lambda: nn.GRU(3, 4)(nt.ones(5, 2, 3), nt.ones(1, 2, 3)), r"Expected hidden size \[1, 2, 4\]"),
        (lambda: nn.CrossEntropyLoss(nt.ones(4))(nt.ones(2, 3), nt.tensor([0, 1])), r"must have the shape \[3\]"),
        (lambda: nn.CrossEntropyLoss(label_smoothing=2.0)(nt.ones(2, 3), nt.ones(2, 3)), "between 0 and 1, not 2"),
        (lambda: nn.MultiheadAttention(4, 2)(*[nt.ones(3, 2, 4)] * 3, is_causal=True), "Need attn_mask"),
    ],
)
def test_invalid_arguments_of_layers(make: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        make()


def test_the_page_of_layers_names_all() -> None:
    text = (ROOT / "docs" / "layers.md").read_text("utf-8")
    listed = {name for line in text.splitlines() if line.startswith("| ") for name in re.findall(r"`(\w+)`", line)}
    # The row of layers of one dimension says that there are the same of two and three.
    more = {name.replace("1d", others) for name in listed for others in ("2d", "3d") if name.endswith("1d")}
    assert (listed | more) - {"2d", "3d"} == {name for name in nn.__all__ if name[0].isupper()}


def test_assigned_tensors_take_the_place_of_parameters_and_buffers() -> None:
    module = nn.BatchNorm1d(3).requires_grad_(False)
    module.weight.requires_grad_(True)
    state = {name: nt.ones(each.shape, dtype=nt.bfloat16) for name, each in module.state_dict().items()}
    module.load_state_dict(state, assign=True)
    assert isinstance(module.weight, nn.Parameter)
    assert (module.weight.requires_grad, module.bias.requires_grad) == (True, False)
    assert module.weight.dtype is module.running_mean.dtype is nt.bfloat16
    assert module.running_var is state["running_var"]
    with pytest.raises(nt.ArgumentError, match="size mismatch for weight"):
        module.load_state_dict(state | {"weight": nt.ones(4)}, assign=True)
    assert module.weight.dtype is nt.bfloat16


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("ReLU", ("input",)),
        ("Dropout", ("input",)),
        ("MSELoss", ("input", "target")),
        ("CosineSimilarity", ("x1", "x2")),
    ],
)
def test_inputs_of_functions_have_names(name: str, inputs: list[str]) -> None:
    values = [np.full((1, 2), number, np.float32) for number in range(len(inputs))]
    module, theirs = getattr(nn, name)().eval(), getattr(torch.nn, name)().eval()
    expected = theirs(**dict(zip(inputs, map(torch.from_numpy, values), strict=True)))
    actual = module(**dict(zip(inputs, map(nt.from_numpy, values), strict=True)))
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-6)


def test_linear_takes_arrays_and_names_other_types() -> None:
    layer = nt.nn.Linear(2, 3)
    assert layer(np.ones((4, 2), np.float32)).shape == (4, 3)
    with pytest.raises(TypeError, match="expected a Tensor, a NumPy array or a Python number, not list"):
        layer([1.0, 2.0])


def _doubled_input(module: Any, args: Any) -> Any:
    return args[0] * 2


def _scale_of_keywords(module: Any, args: Any, kwargs: Any) -> Any:
    return args, {"scale": kwargs["scale"] + 1}


def _shifted_output(module: Any, args: Any, output: Any) -> Any:
    return output + args[0]


def _scaled_output(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
    return output * kwargs["scale"]


def _ignored(*seen: Any) -> None:
    """Replace nothing."""


class _HookedPart(nn.Module):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return x * scale + 1


def _with_hooks(model: Any) -> Any:
    model.register_forward_hook(_scaled_output, with_kwargs=True)
    model.register_forward_pre_hook(_ignored)
    model.register_forward_hook(_shifted_output)
    model.register_forward_pre_hook(_doubled_input)
    model.register_forward_pre_hook(_scale_of_keywords, with_kwargs=True)
    model.register_forward_hook(_ignored, with_kwargs=True)
    return model


def test_forward_hooks_are_those_of_pytorch() -> None:
    class Theirs(torch.nn.Module):
        forward = _HookedPart.forward

    values = np.array([1.0, -2.0, 0.5], np.float32)
    model = _with_hooks(_HookedPart())
    expected = _with_hooks(Theirs())(torch.from_numpy(values), scale=3.0).numpy()
    x = nt.tensor(values)
    np.testing.assert_array_equal(model(x, scale=3.0).numpy(), expected)
    for how in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        np.testing.assert_array_equal(how(model)(x, scale=3.0).numpy(), expected)
    captured = nt.jit(lambda x: model(x, scale=3.0))
    for _ in range(2):
        np.testing.assert_array_equal(captured(x).numpy(), expected)
    assert model.state_dict() == {}
    assert repr(nn.Sequential(model)) == repr(nn.Sequential(_HookedPart()))


def test_a_hook_is_removed_by_its_handle() -> None:
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    x = nt.ones(1, 2)

    def once(module: Any, args: Any) -> None:
        seen.append("once")
        first.remove()

    first = model[0].register_forward_pre_hook(once)
    second = model[1].register_forward_hook(lambda module, args, output: seen.append(module))
    copied = copy.deepcopy(model)
    model(x), model(x)
    assert seen == ["once", model[1], model[1]]
    with second as handle:
        assert handle is second
    first.remove()
    second.remove()
    model(x)
    assert len(seen) == 3
    copied[1](x)
    assert seen[3:] == [copied[1]]


def test_a_module_may_keep_handles_of_its_parts() -> None:
    class Watched(nn.Module):
        def __init__(self) -> None:
            self.part, self.seen = nn.ReLU(), []
            self._hooks = [self.part.register_forward_hook(lambda module, args, output: self.seen.append(output))]

        def forward(self, x: Any) -> Any:
            return self.part(x)

    model = Watched()
    model(nt.ones(1))
    model._hooks.pop().remove()
    model(nt.ones(1))
    assert len(model.seen) == 1


def test_a_hook_runs_while_a_call_is_captured() -> None:
    model, seen = nn.Linear(2, 2), []
    model.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    captured = nt.jit(model)
    with nt.no_grad():  # A result that requires a gradient is not replayed.
        captured(nt.ones(1, 2)), captured(nt.zeros(1, 2))
    assert seen == [(1, 2)]


def test_a_pre_hook_with_keywords_replaces_both() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    with pytest.raises(ArgumentError, match=r"returns None or \(args, kwargs\), not \(Tensor"):
        model(nt.ones(1, 2))
