"""Initial values against the distributions of PyTorch's formulas, and functions of parameters."""

import math
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch")


def sample(lib: Any, name: str, shape: tuple[int, ...], arguments: dict[str, Any]) -> np.ndarray:
    tensor = (nt if lib is nn else torch).empty(*shape)
    result = getattr(lib.init, name)(tensor, **arguments)
    assert result is tensor
    return np.asarray(tensor.numpy()).reshape(-1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("uniform_", {"a": -2.0, "b": 1.0}),
        ("normal_", {"mean": 3.0, "std": 0.5}),
        ("trunc_normal_", {}),
        ("trunc_normal_", {"mean": 1.0, "std": 0.3, "a": 0.9, "b": 1.5}),
        ("xavier_uniform_", {"gain": 2.0}),
        ("xavier_normal_", {}),
        ("kaiming_uniform_", {"a": math.sqrt(5)}),
        ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "relu"}),
        ("kaiming_normal_", {"nonlinearity": "tanh"}),
        ("kaiming_normal_", {"mode": "fan_out", "a": 0.2}),
    ],
)
def test_distributions(name: str, arguments: dict[str, Any]) -> None:
    """Assert that two samples pass the Kolmogorov-Smirnov test, which fails by chance in one case of 10^8."""
    nt.manual_seed(1)
    torch.manual_seed(1)
    shape = (200, 30, 50)
    ours, theirs = (np.sort(sample(lib, name, shape, arguments)) for lib in (nn, torch.nn))
    everything = np.concatenate([ours, theirs])
    difference = np.abs(
        np.searchsorted(ours, everything, side="right") - np.searchsorted(theirs, everything, side="right")
    ).max()
    assert difference / ours.size < math.sqrt(-math.log(1e-8 / 2) / ours.size)
    if "uniform" in name or "trunc" in name:  # Compare the ends.
        assert abs(ours[0] - theirs[0]) < 1e-3 * (theirs[-1] - theirs[0])
        assert abs(ours[-1] - theirs[-1]) < 0.02 * (theirs[-1] - theirs[0])


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = sample(nn, "orthogonal_", shape, {"gain": 2.0}).reshape(shape[0], -1).astype(np.float64)
    product = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains(name: str) -> None:
    assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert nn.init.calculate_gain("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))


def test_what_initial_values_are_not_for() -> None:
    with pytest.raises(ArgumentError, match="Unsupported nonlinearity gelu"):
        nn.init.calculate_gain("gelu")
    with pytest.raises(ArgumentError, match="Mode fan_avg not supported"):
        nn.init.kaiming_normal_(nt.empty(2, 2), mode="fan_avg")
    for function in (nn.init.xavier_uniform_, nn.init.kaiming_normal_, nn.init.orthogonal_, nn.init.eye_):
        with pytest.raises(ShapeError):
            function(nt.empty(3))


LAYERS: list[tuple[str, tuple[Any, ...]]] = [
    ("Linear", (60, 70)),
    ("Conv1d", (30, 40, 5)),
    ("Conv2d", (16, 40, 3)),
    ("ConvTranspose2d", (16, 40, 3)),
    ("Embedding", (50, 60)),
    ("MultiheadAttention", (64, 4)),
    ("LSTM", (40, 30)),
    ("GRU", (40, 30)),
    ("LayerNorm", (20,)),
    ("BatchNorm2d", (20,)),
    ("PReLU", (20,)),
]


@pytest.mark.parametrize(("name", "arguments"), LAYERS)
def test_layers_begin_as_those_of_pytorch(name: str, arguments: tuple[Any, ...]) -> None:
    """Compare mean and extremes of every parameter, within the variation of random numbers."""
    nt.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    for (key, own), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        a, b = own.numpy(), other.detach().numpy()
        spread = max(b.std(), 1e-6)
        assert a.std() == pytest.approx(b.std(), rel=0.4 if a.size < 1000 else 0.08), key
        assert abs(a.mean() - b.mean()) < 6 * spread / math.sqrt(a.size), key
        if name != "Embedding":  # Its weights are normal, those of others uniform.
            assert abs(a).max() == pytest.approx(abs(b).max(), rel=0.15 if a.size < 1000 else 0.03), key


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clip_grad_norm(norm_type: float, max_norm: float) -> None:
    generator = np.random.default_rng(0)
    arrays = [np.asarray(generator.standard_normal(shape)) for shape in ((3, 4), (5,), ())]
    results = []
    for lib in (nt, torch):
        leaves = [lib.zeros(array.shape, dtype=lib.float64, requires_grad=True) for array in arrays]
        gradients = [lib.from_numpy(array.copy()) for array in arrays]
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.grad = gradient
        without = lib.zeros(1, requires_grad=True)
        total = lib.nn.utils.clip_grad_norm_([*leaves, without], max_norm, norm_type)
        results.append([total, *gradients])  # Scaled in place.
    for own, other in zip(*results, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-12)


def test_clip_grad_norm_of_no_gradients_and_of_infinite_ones() -> None:
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    tensor = nt.zeros(1, requires_grad=True)
    tensor.grad = nt.tensor([math.inf])
    with pytest.raises(ArgumentError, match="total norm"):
        nn.utils.clip_grad_norm_(tensor, 1.0, error_if_nonfinite=True)


def test_clip_grad_value() -> None:
    array = np.random.default_rng(0).standard_normal((3, 4))
    results = []
    for lib in (nt, torch):
        leaf, without = lib.zeros(3, 4, dtype=lib.float64, requires_grad=True), lib.zeros(1, requires_grad=True)
        leaf.grad = lib.from_numpy(array.copy())
        lib.nn.utils.clip_grad_value_([leaf, without], 0.5)
        lib.nn.utils.clip_grad_value_(leaf, 0.4)
        results.append(leaf.grad.numpy())
    np.testing.assert_array_equal(*results)


def test_vectors_become_parameters() -> None:
    layer, again = nn.Linear(2, 3), nn.Linear(2, 3)
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(layer.parameters()), again.parameters())
    assert again.weight.tolist() == layer.weight.tolist()
    assert again.bias.tolist() == layer.bias.tolist()
    assert again.weight.requires_grad
    with pytest.raises(ArgumentError, match=r"9 elements .*, not \[8\]"):
        nn.utils.vector_to_parameters(nt.zeros(8), again.parameters())


def test_parameters_to_vector() -> None:
    layer = nn.Linear(2, 3)
    expected = np.concatenate([layer.weight.numpy().reshape(-1), layer.bias.numpy()])
    np.testing.assert_array_equal(nn.utils.parameters_to_vector(layer.parameters()).numpy(), expected)


def test_constants() -> None:
    assert nn.init.constant_(nt.empty(2), 3.5).tolist() == [3.5, 3.5]
    assert nn.init.ones_(nt.empty(2)).tolist() == [1, 1]
    assert nn.init.zeros_(nt.ones(2)).tolist() == [0, 0]
    assert nn.init.eye_(nt.empty(2, 3)).tolist() == torch.nn.init.eye_(torch.empty(2, 3)).tolist()
