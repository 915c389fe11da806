"""Names and arguments that PyTorch programs use although they mean little here, against PyTorch's."""

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
    lambda **k: nt.zeros(2, 3, **k),
    lambda **k: nt.zeros(size=(2, 3), **k),
    lambda **k: nt.ones((2, 3), **k),
    lambda **k: nt.full((2,), 1.5, **k),
    lambda **k: nt.arange(3, **k),
    lambda **k: nt.linspace(0, 1, 3, **k),
    lambda **k: nt.eye(2, **k),
    lambda **k: nt.rand(size=[2], **k),
    lambda **k: nt.randn(2, **k),
    lambda **k: nt.randint(3, (2,), **k),
    lambda **k: nt.zeros_like(X, **k),
    lambda **k: X.new_ones(size=(2,), **k),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_makes_tensors_takes_requires_grad(make: Any) -> None:
    made = make(requires_grad=False)
    assert made.shape == make().shape
    assert made.requires_grad is False
    if made.dtype.is_floating_point:
        assert make(requires_grad=True).requires_grad
    else:
        with pytest.raises(nt.DTypeError, match="only floats have gradients"):
            make(requires_grad=True)


def test_requires_grad_of_a_tensor() -> None:
    assert X.requires_grad_(False) is X
    X.requires_grad = False
    assert X.data.tolist() == X.detach().tolist() == X.tolist()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("no_grad", marks=pytest.mark.covers("no_grad")),
        pytest.param("enable_grad", marks=pytest.mark.covers("enable_grad")),
        pytest.param("inference_mode", marks=pytest.mark.covers("inference_mode")),
    ],
)
def test_contexts_and_decorators_change_no_value(name: str) -> None:
    context = getattr(nt, name)
    with context():
        assert (X + 1).tolist() == [0.0, 1.5, 3.0]

    def double(x: nt.Tensor) -> nt.Tensor:
        return x * 2

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


def test_nn_functional_has_what_there_is_of_pytorchs() -> None:
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


def test_what_there_is_not_of_pytorch() -> None:
    with pytest.raises(AttributeError, match="does not have this function of PyTorch"):
        F.ctc_loss  # noqa: B018
    with pytest.raises(AttributeError, match="no such function"):
        F.reluu  # noqa: B018
    with pytest.raises(AttributeError, match=r"npu_tensor\.nn has no Bilinear"):
        nt.nn.Bilinear  # noqa: B018


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
