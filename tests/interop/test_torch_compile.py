"""`torch.compile` with the backend npu_tensor: models, training, aliases, weights, and operators left to PyTorch."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import npu_tensor as nt

torch = pytest.importorskip("torch")

from pytorch_architectures import ARCHITECTURES  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch_models import EXAMPLES, Attention, example  # noqa: E402

from npu_tensor.torch.backend import npu_tensor  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("less_optimised"),
]
"""PyTorch's compiler warns of parts of itself."""


@pytest.fixture(autouse=True)
def _without_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    """Compile a function that must not have graph breaks and run on our kernels only."""
    return torch.compile(function, backend=npu_tensor, fullgraph=True, options={"fallback": "error", **options})


def assert_equal(result: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Compare tensors, also nested, relative to the largest element."""
    for own, theirs in zip(tree_leaves(result), tree_leaves(expected), strict=True):
        assert own.shape == theirs.shape
        assert own.dtype == theirs.dtype
        error = (own.double() - theirs.double()).abs().max()
        assert error <= tolerance * theirs.double().abs().max().clamp(min=1e-30)


LESS_COMMON = ("box_head", "gan_generator", "gat", "gcn", "pointnet", "stn")


def architecture(name: str) -> Any:
    """Return one of the common or less common architectures with its arguments."""
    torch.manual_seed(0)
    return ARCHITECTURES[name]() if name in LESS_COMMON else example(name)


@pytest.mark.parametrize("name", [*EXAMPLES, *LESS_COMMON])
def test_architectures(name: str) -> None:
    module, arguments = architecture(name)
    module.eval()
    with torch.no_grad():
        assert_equal(compiled(module)(*arguments), module(*arguments))


@pytest.mark.parametrize("name", ["convolutional", "decoder", "recurrent", "translator", "unet", "gcn"])
def test_gradients(name: str) -> None:
    module, arguments = architecture(name)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    other = copy.deepcopy(module)
    compiled(module)(*arguments).square().sum().backward()
    other(*arguments).square().sum().backward()
    largest = max(parameter.grad.abs().max() for parameter in other.parameters())
    for own, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert (own.grad - theirs.grad).abs().max() <= 1e-5 * largest


def test_training_updates_weights_and_running_statistics() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()
    module = torch.nn.Sequential(*layers, torch.nn.Linear(288, 3))
    other = copy.deepcopy(module)
    pairs = [(run, torch.optim.SGD(run.parameters(), 0.1, momentum=0.9)) for run in (module, other)]
    step = compiled(module)
    for _ in range(4):
        x, target = torch.randn(4, 3, 8, 8), torch.tensor([0, 2, 1, 1])
        for function, (_, optimizer) in zip((step, other), pairs, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(function(x), target).backward()
            optimizer.step()
    assert_equal([*module.state_dict().values()], [*other.state_dict().values()])
    module.eval()
    with torch.no_grad():
        assert_equal(step(x), other.eval()(x))


def test_dropout_draws_the_masks_of_pytorch() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.4), torch.nn.GELU(), torch.nn.Dropout(0.2))
    other, x = copy.deepcopy(module), torch.randn(5, 8)
    results = []
    for function in (compiled(module), other):
        torch.manual_seed(3)
        results.append(function(x))
        results[-1].sum().backward()
    assert_equal(*results)
    assert_equal(module[0].weight.grad, other[0].weight.grad)
    assert not torch.equal(compiled(module)(x), results[0])


def test_dynamic_shapes() -> None:
    module = Attention(24, 3, True).eval()
    function = torch.compile(module, backend=npu_tensor, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for count in (5, 9):
            x = torch.randn(2, count, 24)
            assert_equal(function(x), module(x))


def test_writes_in_place_reach_arguments_and_buffers() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            x[1].mul_(10)
            self.total += x.sum(0)
            return self.total * 2

    module, x = Counter(), torch.ones(2, 3)
    function = compiled(module)
    assert function(x).tolist() == [22, 22, 22]
    assert x.tolist() == [[1, 1, 1], [10, 10, 10]]
    assert function(x).tolist() == [2 * 112] * 3
    assert module.total.tolist() == [112] * 3


def test_results_share_memory_as_in_pytorch() -> None:
    def function(x: Any, y: Any) -> Any:
        z = (x * 2).T.contiguous().T
        return x[0], z, z[1:], y, x + y

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    first, z, rest, same, added = compiled(function)(x, y)
    assert_equal([first, z, rest, same, added], function(x, y))
    first.zero_()
    assert not x[0].any()
    rest.zero_()
    assert not z[1:].any()
    assert same is y
    assert z.stride() == (1, 3)
    assert added.is_contiguous()
    added.zero_()
    assert y.any()


def test_strided_views_of_values_in_another_order() -> None:
    def function(x: Any) -> Any:
        return (x * 2).transpose(1, 2).as_strided((2, 2, 2), (12, 4, 1)) + 1

    x = torch.randn(2, 3, 4)
    assert_equal(compiled(function)(x), function(x))


def test_overlapping_arguments() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    base, expected = torch.arange(6.0), torch.arange(6.0)
    result = compiled(function)(base[:4], base[2:])
    assert_equal(result, function(expected[:4], expected[2:]))
    assert_equal(base, expected)


def test_weights_are_read_again_when_they_change() -> None:
    module, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    function, frozen = compiled(module), compiled(torch.nn.Sequential(module), frozen=True)
    with torch.no_grad():
        before = frozen(x)
        for _ in range(2):
            assert_equal(function(x), module(x))
            module.weight.mul_(2)
        assert_equal(function(x), module(x))
        module.weight = torch.nn.Parameter(torch.ones(4, 4))
        assert_equal(function(x), module(x))
        assert_equal(before, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_floats(dtype: Any) -> None:
    torch.manual_seed(0)
    module, x = Attention(24, 3, False).eval().to(dtype), torch.randn(2, 6, 24).to(dtype)
    with torch.no_grad():
        assert_equal(compiled(module)(x), module(x), 1e-12 if dtype == torch.float64 else 3e-2)


def test_autocast() -> None:
    module, x = torch.nn.Linear(8, 8), torch.randn(4, 8)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return module(x).float()

    with torch.no_grad():
        assert_equal(compiled(function)(x), function(x), 1e-2)


def spectrum(x: Any) -> Any:
    y = torch.tanh(x) * 2
    return (torch.fft.rfft(y).abs() + 1).sqrt()


def test_unsupported_operators_run_in_pytorch_after_one_warning() -> None:
    x = torch.randn(3, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = torch.compile(spectrum, backend=npu_tensor)
        assert_equal(function(x), spectrum(x))
        report = nt.explain(function, x)
    ours = [each for each in caught if "left to PyTorch" in str(each.message)]
    assert len(ours) == 1
    assert "aten._fft_r2c.default at" in str(ours[0].message)
    assert "test_torch_compile.py:" in str(ours[0].message)
    assert [row.op for explanation in report for row in explanation][:2] == ["tanh", "mul"]
    assert any("aten._fft_r2c.default" in each for each in report.left)
    assert "left to PyTorch: aten._fft_r2c" in str(report)


def test_unsupported_operators_as_errors() -> None:
    with pytest.raises(Exception, match=r"operators are left to PyTorch: aten\._fft_r2c\.default"):
        compiled(spectrum)(torch.randn(3, 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallback": "inductor"}, r"takes the options device, fallback .* not \{'fallback': 'inductor'\}"),
        ({"frozen": 1}, r"frozen \(a bool\), not \{'frozen': 1\}"),
        ({"device": "gpu"}, "gpu"),
        ({"device": 3}, "3"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message) as caught:
        torch.compile(spectrum, backend=npu_tensor, options=options)(torch.randn(3, 8))
    assert isinstance(caught.value.inner_exception, nt.NpuTensorError)


def test_only_compiled_functions_are_explained_by_a_call() -> None:
    with pytest.raises(nt.ArgumentError, match="runs no graph that torch"):
        nt.explain(torch.nn.Linear(2, 2), torch.ones(1, 2))


def test_explanations_and_profiles_name_lines_of_the_model() -> None:
    module, arguments = example("vision")
    function = compiled(module.eval())
    with torch.no_grad():
        (explanation,) = nt.explain(function, *arguments)
        with nt.profile() as profile:
            function(*arguments)
    assert {row.line.partition(":")[0] for row in explanation} == {"torch_models.py"}
    assert "torch_models.py:" in str(profile.by("line"))


def test_devices() -> None:
    x = torch.randn(16, 16, dtype=torch.bfloat16)

    def function(x: Any) -> Any:
        return torch.relu(x * 2)

    simulated = compiled(function, device="sim:npu2")
    assert_equal(simulated(x), function(x), 1e-2)
    (explanation,) = nt.explain(simulated, x)
    assert {row.device.partition("?")[0] for row in explanation if row.device != "-"} <= {"sim:npu2", "cpu"}


def test_the_name_is_an_entry_point() -> None:
    from importlib.metadata import entry_points

    found = [each for each in entry_points(group="torch_dynamo_backends") if each.name == "npu_tensor"]
    assert not found or found[0].value == "npu_tensor.torch.backend:npu_tensor"


def test_sums_of_no_elements() -> None:
    compiled = torch.compile(lambda x: (x.sum(0), x.any(0)), backend=npu_tensor)
    total, any_ = compiled(torch.ones(0, 3))
    assert total.tolist() == [0.0] * 3
    assert any_.tolist() == [False] * 3


def test_dropout_of_transposed_values_draws_the_masks_of_eager_mode() -> None:
    torch.manual_seed(0)
    model = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    compiled = torch.compile(model, backend=npu_tensor)
    x, y = torch.randn(2, 5, 16), torch.randn(2, 4, 16)
    results = []
    for each in (model, compiled):
        torch.manual_seed(1)
        results.append(each(x, y))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:a graph is left to PyTorch")
def test_random_numbers_of_several_kinds_are_those_of_eager_mode() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(x.sin(), 0.5) * torch.rand(4, 4)
        return torch.nn.functional.dropout(x.cos(), 0.5) + torch.rand(4, 4).exp()

    results = []
    for each in (function, torch.compile(function, backend=npu_tensor)):
        torch.manual_seed(1)
        results.append(each(torch.ones(4, 4)))
    torch.testing.assert_close(results[1], results[0])


def test_frozen_instances_of_one_class_have_weights_of_their_own() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4)
    for model in (torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)):
        compiled = torch.compile(model, backend=npu_tensor, options={"frozen": True})
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))


def test_parameters_with_other_memory_or_strides_are_read_again() -> None:
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    compiled = torch.compile(model, backend=npu_tensor)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))
        model.weight.data = model.weight.data.T
    torch.nn.utils.vector_to_parameters(torch.arange(20.0), model.parameters())
    torch.testing.assert_close(compiled(x), model(x))


def test_a_recurrent_layer_under_autocast() -> None:
    torch.manual_seed(0)
    linear, layer, x = torch.nn.Linear(6, 8), torch.nn.LSTM(8, 5, batch_first=True), torch.randn(3, 4, 6)

    def run(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return layer(linear(x))[0]

    try:
        expected = run(x)
    except RuntimeError as error:
        pytest.skip(f"PyTorch: {error}")
    result = torch.compile(run, backend="npu_tensor")(x)
    assert result.dtype is expected.dtype
    torch.testing.assert_close(result, expected, rtol=0.02, atol=0.02)
