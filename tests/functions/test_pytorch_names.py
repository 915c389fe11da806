"""Names and arguments of PyTorch programs that have little effect here, against PyTorch's."""

import math
from typing import Any

import pytest
from comparison import TORCH_DTYPES, to_torch

import npu_tensor as nt
import npu_tensor.nn.functional as F
from npu_tensor.dtypes import DTYPES
from npu_tensor.ops import registry

FUNCTIONS = registry.functions()
METHODS = registry.methods()

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

X = nt.tensor([-1.0, 0.5, 2.0])

MAKERS: list[Any] = [
    lambda **k: nt.tensor([1.0], **k),
    lambda **k: nt.zeros(size=(2, 3), **k),
    lambda **k: nt.arange(3, **k),
    lambda **k: nt.rand(size=[2], **k),
    lambda **k: nt.randint(3, size=[2], **k),
    lambda **k: nt.randint(high=3, size=(2,), **k),
    lambda **k: nt.zeros_like(X, **k),
    lambda **k: X.new_ones(size=(2,), **k),
]


@pytest.mark.parametrize("make", MAKERS)
def test_creation_functions_accept_requires_grad(make: Any) -> None:
    made = make(requires_grad=False)
    assert made.shape == make().shape
    assert made.requires_grad is False
    if made.dtype.is_floating_point:
        assert make(requires_grad=True).requires_grad
    else:
        with pytest.raises(nt.DTypeError, match="only floats have gradients"):
            make(requires_grad=True)


def test_matrices_transposed_and_arrays_of_tensors() -> None:
    x = nt.arange(6.0).reshape(2, 3)
    assert x.H.tolist() == torch.arange(6.0).reshape(2, 3).H.tolist()
    assert nt.tensor(2.0).H.item() == 2.0
    for shape in ((2,), (1, 2, 3)):
        with pytest.raises(nt.ShapeError, match="H needs a matrix"):
            _ = nt.ones(*shape).H
    x.H[0, 1] = 9
    assert x[1, 0].item() == 9
    assert nt.ones(2, requires_grad=True).numpy(force=True).tolist() == [1.0, 1.0]
    assert nt.newaxis is torch.newaxis is None
    assert X.type() == "npu_tensor.float32"
    assert X.type(nt.int8).dtype is nt.int8


@pytest.mark.covers("no_grad", "enable_grad", "inference_mode")
def test_contexts_and_decorators_change_no_value() -> None:
    def double(x: nt.Tensor) -> nt.Tensor:
        return x * 2

    for name in ("no_grad", "enable_grad", "inference_mode"):
        context = getattr(nt, name)
        for decorated in (context()(double), context(double)):
            assert decorated(X).tolist() == (X * 2).tolist()
            assert decorated.__name__ == "double"
        with pytest.raises(KeyError), context():
            raise KeyError


def test_constants() -> None:
    assert (nt.pi, nt.e, nt.inf) == (torch.pi, torch.e, torch.inf)
    assert math.isnan(nt.nan)
    assert {"pi", "e", "inf", "nan"} <= set(dir(nt))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_limits_of_dtypes(dtype: nt.DType) -> None:
    kind, other = (nt.finfo, nt.iinfo) if dtype.is_floating_point else (nt.iinfo, nt.finfo)
    with pytest.raises(nt.DTypeError):
        other(dtype)
    if dtype is nt.bool:
        return
    ours, theirs = kind(dtype), getattr(torch, kind.__name__)(TORCH_DTYPES[dtype.name])
    assert (ours.bits, ours.max, ours.min, ours.dtype) == (theirs.bits, theirs.max, theirs.min, theirs.dtype)
    if dtype.is_floating_point:
        numbers = ("eps", "tiny", "smallest_normal")
        assert [getattr(ours, name) for name in numbers] == [getattr(theirs, name) for name in numbers]
        assert ours.resolution == pytest.approx(theirs.resolution, rel=2e-2)
        assert X.to(dtype).masked_fill(X > 0, ours.min).amin().item() == theirs.min


@pytest.mark.covers("finfo", "iinfo")
def test_limits_without_a_dtype_are_those_of_floats() -> None:
    assert nt.finfo() == nt.finfo(nt.float32)
    assert nt.finfo(float).eps == torch.finfo(torch.float64).eps
    assert nt.iinfo(int).max == torch.iinfo(torch.int64).max


@pytest.mark.covers("nelement", "type")
def test_other_names_of_methods() -> None:
    assert X.nelement() == to_torch(X).nelement() == 3
    assert X.type(nt.int32).tolist() == to_torch(X).type(torch.int32).tolist()
    assert X.to("cpu", non_blocking=True) is X
    assert X.to(nt.int64, non_blocking=True).dtype is nt.int64


def test_nn_functional_has_the_functions_of_pytorch() -> None:
    theirs = {name for name in dir(torch.nn.functional) if not name.startswith("_")}
    assert set(F.__all__) == theirs & {*FUNCTIONS, *(name for name in METHODS if name.endswith("_"))}
    assert nt.nn.functional is F
    assert F.cross_entropy is nt.cross_entropy


@pytest.mark.parametrize("name", ["relu", "silu", "leaky_relu", "hardtanh", "elu", "dropout"])
def test_activations_in_place(name: str) -> None:
    x, own = nt.tensor([-1.0, 0.5, 2.0]), torch.tensor([-1.0, 0.5, 2.0])
    options = {"training": False} if name == "dropout" else {}
    getattr(F, name)(x, **options)
    assert x.tolist() == [-1.0, 0.5, 2.0]
    getattr(torch.nn.functional, name)(own, inplace=True, **options)
    assert getattr(F, name)(x, inplace=True, **options) is x
    assert x.tolist() == pytest.approx(own.tolist())


def test_names_of_pytorch_that_are_missing() -> None:
    with pytest.raises(AttributeError, match="npu_tensor does not have it yet"):
        F.fractional_max_pool2d  # noqa: B018
    with pytest.raises(AttributeError, match="reluu"):
        F.reluu  # noqa: B018
    with pytest.raises(AttributeError, match=r"npu_tensor\.nn has no LazyLinear"):
        nt.nn.LazyLinear  # noqa: B018


def test_numbers_are_given_once() -> None:
    x = nt.ones(2, 3)
    for call in (
        lambda: x.reshape(3, 2, shape=(3, 2)),
        lambda: x.reshape(shape=(3, 2), size=(3, 2)),
        lambda: x.flip(0, dims=[0]),
        lambda: nt.zeros(2, size=(2,)),
        lambda: x.split(1, split_size=1),
        lambda: x.flip(repeats=(0,)),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.mark.covers("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_")
def test_views_in_place_share_the_memory() -> None:
    def changed(x: Any) -> list[Any]:
        whole = x.clone()
        part = whole[:1]
        shapes = []
        for name, arguments in (
            *(("unsqueeze_", (1,)), ("squeeze_", (0,)), ("squeeze_", ()), ("unsqueeze_", (0,)), ("t_", ())),
            *(("transpose_", (0, 1)), ("swapaxes_", (0, -1)), ("swapdims_", (1, 0))),
        ):
            assert getattr(part, name)(*arguments) is part
            shapes.append(tuple(part.shape))
        part += 1
        return [whole.tolist(), part.tolist(), shapes]

    x = nt.arange(6.0).reshape(2, 3)
    assert changed(x) == changed(to_torch(x))
    with pytest.raises(nt.GradientError, match="leaf"):
        nt.ones(2, 3, requires_grad=True).t_()


@pytest.mark.covers("fill_diagonal_")
@pytest.mark.parametrize(
    ("shape", "wrap"), [((3, 4), False), ((7, 3), True), ((7, 3), False), ((3, 3, 3), False)], ids=str
)
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    assert nt.zeros(shape).fill_diagonal_(2.5, wrap).tolist() == torch.zeros(shape).fill_diagonal_(2.5, wrap).tolist()


def test_out_is_written_to() -> None:
    x = nt.tensor([[3.0, 1.0], [2.0, 4.0]])
    for call in (
        lambda m, x, out: m.add(x, 1, out=out),
        lambda m, x, out: m.matmul(x, x, out=out),
        lambda m, x, out: m.cumsum(x, 0, out=out),
        lambda m, x, out: m.cat([x, x], 1, out=out),
    ):
        for shape in ((2, 2), (0,), (2, 4)):
            expected = call(torch, to_torch(x), torch.empty(0))
            ours = nt.empty(shape)
            if ours.numel() and ours.shape != tuple(expected.shape):
                with pytest.raises(nt.ShapeError):
                    call(nt, x, ours)
                continue
            assert call(nt, x, ours) is ours
            assert ours.tolist() == expected.tolist()
    values, places = nt.empty(0), nt.empty(0, dtype=nt.int64)
    result = nt.sort(x, out=(values, places))
    assert result.values is values
    assert places.tolist() == torch.sort(to_torch(x)).indices.tolist()
    whole = nt.zeros(3, 2)
    nt.exp(nt.zeros(2), out=whole[1])
    assert whole.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(TypeError, match="out must be a tensor"):
        nt.max(x, 0, out=(nt.empty(0), 3))


def test_devices_and_sizes_as_objects() -> None:
    device = nt.device("cuda" if nt.cuda.is_available() else "cpu")
    assert (device.type, device.index, str(device)) == ("cpu", None, "cpu")
    assert X.device == device == "cpu"
    assert nt.zeros(2, device=device).device.type == "cpu"
    theirs = torch.device("cpu", 1)
    assert (nt.device("cpu", 1).type, nt.device("cpu", 1).index) == (theirs.type, theirs.index)
    assert str(nt.device("cpu", 1)) == str(theirs)
    assert nt.cuda.device_count() == 0
    assert isinstance(X.shape, nt.Size)
    assert X.shape.numel() == 3
    assert nt.Size([2, 3]) == (2, 3) == nt.zeros(nt.Size([2, 3])).shape
    assert isinstance(X.dtype, nt.dtype)


@pytest.mark.covers("get_default_dtype", "set_default_dtype")
def test_the_default_dtype() -> None:
    def dtypes(module: Any) -> list[str]:
        numbers = [module.tensor(1.5), module.tensor([1, 2]) / 2, module.arange(3).exp(), module.full((1,), 2.0)]
        numbers += [module.arange(0.0, 1.0), module.linspace(0, 1, 2), module.rand(1), module.hann_window(4)]
        return [str(each.dtype) for each in numbers]

    assert nt.get_default_dtype() is nt.float32
    before = dtypes(nt)
    try:
        for dtype in ("float64", "float32", "bfloat16"):
            nt.set_default_dtype(dtype)
            torch.set_default_dtype(TORCH_DTYPES[dtype])
            ours = [name.removeprefix("npu_tensor.") for name in dtypes(nt)]
            assert ours == [name.removeprefix("torch.") for name in dtypes(torch)]
    finally:
        nt.set_default_dtype("float32")
        torch.set_default_dtype(torch.float32)
    assert dtypes(nt) == before
    with pytest.raises(nt.DTypeError, match="a float dtype"):
        nt.set_default_dtype("int64")


@pytest.mark.covers("seed", "initial_seed")
def test_seeds() -> None:
    seed = nt.seed()
    assert nt.initial_seed() == seed
    first = nt.rand(3).tolist()
    nt.manual_seed(seed)
    assert nt.rand(3).tolist() == first
