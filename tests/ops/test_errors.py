"""Invalid arguments: classes that PyTorch and NumPy users catch, and messages with op, operands and line."""

import math
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

X = nt.zeros(2, 3)
V = nt.zeros(4)
I = nt.zeros(2, 3, dtype=nt.int32)  # noqa: E741
B = nt.zeros(2, 3, dtype=nt.bool)

CALLS: list[tuple[Callable[[], Any], type[nt.NpuTensorError]]] = [
    (lambda: X + V, nt.ShapeError),
    (lambda: X @ X, nt.ShapeError),
    (lambda: X @ nt.zeros(3, 2, dtype=nt.float64), nt.DTypeError),
    (lambda: B @ B.T, nt.DTypeError),
    (lambda: nt.mm(X, V), nt.ShapeError),
    (lambda: nt.bmm(X, X), nt.ShapeError),
    (lambda: nt.matmul(X, nt.tensor(1.0)), nt.ShapeError),
    (lambda: nt.linear(X, nt.zeros(2, 2)), nt.ShapeError),
    (lambda: nt.einsum("ij,jk", X, V), nt.ShapeError),
    (lambda: nt.einsum("ii", X), nt.ShapeError),
    (lambda: nt.tensor(300, dtype=nt.int8), nt.ArgumentError),
    (lambda: nt.tensor([[1, 2], [3, 2**40]], dtype=nt.int32), nt.ArgumentError),
    (lambda: nt.full((2,), 300, dtype=nt.int8), nt.ArgumentError),
    (lambda: I.masked_fill(B, 2**31), nt.ArgumentError),
    (lambda: I.clamp(max=2**31), nt.ArgumentError),
    (lambda: I.where(B, -(2**31) - 1), nt.ArgumentError),
    (lambda: nt.pad(I, (1, 1), value=2**31), nt.ArgumentError),
    (lambda: I.add(I, alpha=2.5), nt.ArgumentError),
    (lambda: nt.randint(0, 129, (2,), dtype=nt.int8), nt.ArgumentError),
    (lambda: nt.randint(0, 1 << 20, (2,), dtype=nt.float16), nt.ArgumentError),
    (lambda: nt.arange(0, math.inf), nt.ArgumentError),
    (lambda: +B, nt.DTypeError),
    (lambda: X.reshape(5), nt.ShapeError),
    (lambda: X.reshape(-1, -1), nt.ShapeError),
    (lambda: X.permute(0, 0), nt.ArgumentError),
    (lambda: X.expand(2, 4), nt.ShapeError),
    (lambda: X.sum(2), nt.DimensionError),
    (lambda: X.sum((0, 0)), nt.ArgumentError),
    (lambda: X.unsqueeze(4), nt.DimensionError),
    (lambda: X.unflatten(1, (2, 2)), nt.ShapeError),
    (lambda: X.narrow(0, 1, 5), nt.ShapeError),
    (lambda: X.select(0, 2), nt.DimensionError),
    (lambda: X.split([1, 2]), nt.ArgumentError),
    (lambda: X.chunk(0), nt.ArgumentError),
    (lambda: X.topk(4), nt.DimensionError),
    (lambda: nt.cat([]), nt.ArgumentError),
    (lambda: nt.cat([X, V]), nt.ShapeError),
    (lambda: nt.cat([nt.tensor(1), nt.tensor(2)]), nt.ShapeError),
    (lambda: nt.stack([X, V]), nt.ShapeError),
    (lambda: nt.pad(X, (1,)), nt.ArgumentError),
    (lambda: nt.pad(X, (1, 1), "mirror"), nt.ArgumentError),
    (lambda: nt.pad(X, (3, 0), "reflect"), nt.ShapeError),
    (lambda: I.softmax(0), nt.DTypeError),
    (lambda: I.mean(), nt.DTypeError),
    (lambda: -B, nt.DTypeError),
    (lambda: X & X, nt.DTypeError),
    (lambda: nt.where(X, X, X), nt.DTypeError),
    (lambda: I**-1, nt.ArgumentError),
    (lambda: nt.clamp(X), nt.ArgumentError),
    (lambda: nt.zeros(3).amax(0) + nt.zeros(0).amax(), nt.DimensionError),
    (lambda: nt.gather(X, 0, nt.zeros(2, 3)), nt.DTypeError),
    (lambda: nt.gather(X, 0, nt.zeros(4, dtype=nt.int64)), nt.ShapeError),
    (lambda: nt.embedding(X, X), nt.DTypeError),
    (lambda: nt.layer_norm(X, (2,)), nt.ShapeError),
    (lambda: nt.group_norm(X, 2), nt.ShapeError),
    (lambda: nt.gelu(X, "fast"), nt.ArgumentError),
    (lambda: nt.glu(X), nt.ShapeError),
    (lambda: nt.swiglu(X), nt.ShapeError),
    (lambda: nt.cross_entropy(X, nt.zeros(3, dtype=nt.int64)), nt.ShapeError),
    (lambda: nt.mse_loss(X, X, "average"), nt.ArgumentError),
    (lambda: nt.cross_entropy(X, nt.zeros(2, dtype=nt.int64), reduce=False), nt.ArgumentError),
    (lambda: nt.scaled_dot_product_attention(X, X, X, B, is_causal=True), nt.ArgumentError),
    (lambda: nt.conv2d(X, X), nt.ShapeError),
    (lambda: nt.conv2d(nt.zeros(1, 3, 5, 5), nt.zeros(2, 4, 3, 3)), nt.ShapeError),
    (lambda: nt.conv2d(nt.zeros(1, 3, 2, 2), nt.zeros(2, 3, 3, 3)), nt.ShapeError),
    (lambda: nt.conv2d(nt.zeros(1, 3, 5, 5), nt.zeros(2, 3, 3, 3), stride=0), nt.ArgumentError),
    (lambda: nt.conv2d(nt.zeros(1, 3, 5, 5), nt.zeros(2, 3, 3, 3), stride=2, padding="same"), nt.ArgumentError),
    (lambda: nt.max_pool2d(nt.zeros(1, 3, 5, 5), 3, padding=2), nt.ArgumentError),
    (lambda: nt.max_pool2d(nt.zeros(1, 3, 2, 2), 3), nt.ShapeError),
    (lambda: nt.avg_pool2d(nt.zeros(3, 5, 5, dtype=nt.int32), 3), nt.DTypeError),
    (lambda: nt.interpolate(nt.zeros(1, 1, 4, 4)), nt.ArgumentError),
    (lambda: nt.interpolate(nt.zeros(1, 1, 4, 4), size=2, mode="cubic"), nt.ArgumentError),
    (lambda: nt.pixel_shuffle(nt.zeros(1, 3, 4, 4), 2), nt.ShapeError),
    (lambda: nt.zeros(3).masked_scatter(nt.tensor([True, True, False]), nt.ones(1)), nt.ShapeError),
    (lambda: nt.zeros(3).masked_scatter(nt.tensor([1, 0, 1]), nt.ones(3)), nt.DTypeError),
    (lambda: nt.scatter_add(X, 0, nt.zeros(3, dtype=nt.int64), X), nt.ShapeError),
    (lambda: nt.scatter(X, 0, nt.zeros(2, 3, dtype=nt.int64), nt.ones(2, 1)), nt.ShapeError),
    (lambda: I.scatter_add(0, nt.zeros(2, 3, dtype=nt.int64), X), nt.DTypeError),
    (lambda: I.index_add(0, nt.tensor([0, 1]), X), nt.DTypeError),
    (lambda: I.index_add(0, nt.tensor([0, 1]), I, alpha=1.5), nt.DTypeError),
    (lambda: I.index_put((nt.tensor([0, 1]),), X, accumulate=True), nt.DTypeError),
    (lambda: X.scatter_(0, nt.zeros(2, 3, dtype=nt.int64), 1.0, reduce="mean"), nt.ArgumentError),
    (lambda: X.scatter(0, nt.zeros(2, 4, dtype=nt.int64), 1.0), nt.ShapeError),
    *(
        (lambda call=call, index=index: call(nt.ones(3), index), nt.DTypeError)  # type: ignore[misc]
        for index in (nt.tensor([True, False, True]), nt.zeros(3, dtype=nt.int16))
        for call in (
            lambda x, index: x.scatter(0, index, x),
            lambda x, index: x.scatter_add(0, index, x),
            lambda x, index: x.index_add(0, index, x),
            lambda x, index: x.index_copy(0, index, x),
            lambda x, index: x.index_fill(0, index, 1.0),
        )
    ),
    (lambda: nt.linspace(0, 1, 3, dtype=bool), nt.DTypeError),
    (lambda: nt.randperm(200, dtype=nt.int8), nt.ArgumentError),
    (lambda: X.index_add(0, nt.tensor([0, 1]), nt.ones(1, 3)), nt.ShapeError),
    (lambda: X.index_copy(0, nt.tensor([[0, 1]]), X), nt.DimensionError),
    (lambda: nt.binary_cross_entropy(X, nt.zeros(3)), nt.ShapeError),
    (lambda: nt.smooth_l1_loss(X, X, beta=-1.0), nt.ArgumentError),
    (lambda: nt.huber_loss(I, X), nt.DTypeError),
    (lambda: nt.avg_pool2d(nt.zeros(1, 4, 4), 2, divisor_override=0), nt.ArgumentError),
    (lambda: nt.one_hot(nt.zeros(0, dtype=nt.int64)), nt.ArgumentError),
    *(
        (lambda factor=factor: nt.interpolate(nt.zeros(1, 1, 4, 4), scale_factor=factor), nt.ArgumentError)
        for factor in (0, math.nan, math.inf, -1.0, (2.0,), (1, 2, 3), ())
    ),
    *(
        (lambda size=size: nt.adaptive_avg_pool2d(nt.zeros(1, 4, 4), size), nt.ArgumentError)
        for size in (-1, (2, -1), (1, 2, 3), (2,), ())
    ),
    (lambda: nt.zeros(3).index_add(0, nt.tensor([3]), nt.ones(1)).numpy(), nt.DimensionError),
    (lambda: nt.bincount(nt.tensor([1, -1])).numpy(), nt.DimensionError),
    (lambda: nt.bincount(V), nt.DTypeError),
    (lambda: nt.searchsorted(X, V), nt.ShapeError),
    (lambda: nt.meshgrid(V, indexing="yx"), nt.ArgumentError),
    (lambda: nt.trace(V), nt.ShapeError),
    (lambda: I.nanmean(), nt.DTypeError),
    (lambda: nt.quantile(X, 0.5, interpolation="cubic"), nt.ArgumentError),
    (lambda: nt.quantile(X, 1.5), nt.ArgumentError),
    *(
        (lambda q=q, name=name: nt.quantile(X, nt.tensor([q]), interpolation=name).numpy(), nt.DimensionError)
        for q in (1.05, -0.05, math.nan)
        for name in ("linear", "lower")
    ),
    (lambda: nt.diff(nt.tensor(1.0)), nt.ShapeError),
    (lambda: X.diff(dim=2), nt.DimensionError),
    (lambda: nt.quantile(nt.zeros(0), 0.5), nt.DimensionError),
    (lambda: nt.cdist(X, nt.zeros(2, 4)), nt.ShapeError),
    (lambda: nt.huber_loss(X, X, delta=0.0), nt.ArgumentError),
    (lambda: nt.rope(X, V), nt.ShapeError),
    (lambda: nt.get_rows(X, X), nt.ShapeError),
    (lambda: nt.mul_mat(nt.zeros(2, 4, 3), nt.zeros(3, 5, 3)), nt.ShapeError),
    (lambda: nt.zeros(-1), nt.ShapeError),
    (lambda: nt.tensor([[1], [1, 2]]), nt.ShapeError),
    (lambda: nt.tensor(["a"]), nt.DTypeError),
    (lambda: nt.zeros(1, dtype="float33"), nt.DTypeError),
    (lambda: nt.arange(0, 3, 0), nt.ArgumentError),
    (lambda: nt.rand(2, dtype=nt.int32), nt.DTypeError),
    (lambda: nt.randint(3, 3, (2,)), nt.ArgumentError),
    (lambda: X.to("cuda"), nt.DeviceError),
    (lambda: nt.zeros(2, device="npu:0"), nt.DeviceError),
    (lambda: X.item(), nt.ShapeError),
    (lambda: bool(X), nt.ArgumentError),
    (lambda: nt.tensor([1, 2]).div_(2), nt.ArgumentError),
    (lambda: nt.zeros(3).add_(X), nt.ShapeError),
    (lambda: X.T.T.mT.T + nt.zeros(1).mT, nt.ShapeError),
]


@pytest.mark.parametrize(("call", "kind"), CALLS, ids=[str(number) for number in range(len(CALLS))])
def test_bad_arguments(call: Callable[[], Any], kind: type[nt.NpuTensorError]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert len(str(caught.value)) > 10
    standard = {
        nt.ShapeError: ValueError,
        nt.DTypeError: TypeError,
        nt.DimensionError: IndexError,
        nt.ArgumentError: ValueError,
        nt.DeviceError: RuntimeError,
    }
    assert isinstance(caught.value, standard[kind])


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.sum("0"),
        lambda: X.sum(keepdim="yes"),
        lambda: nt.leaky_relu(X, "a"),
        lambda: nt.scale(X, nt.tensor(2.0)),
        lambda: nt.layer_norm(X, 3, eps="a"),
        lambda: X.tril(0.5),
        lambda: X.topk(1.5),
        lambda: nt.arange("a"),
        lambda: nt.rand(3, generator=5),
        lambda: X.sum(0.5),
        lambda: X + "a",
        lambda: X + [1, 2, 3],  # noqa: RUF005
        lambda: X.reshape("a"),
        lambda: nt.zeros(2.5),
        lambda: nt.softmax(X),
        lambda: X.softmax(0, dims=1),
        lambda: nt.from_numpy([1, 2]),
        lambda: X.repeat_interleave(1.5),
        lambda: len(nt.tensor(1)),
        lambda: range(nt.tensor(1.5)),
    ],
)
def test_wrong_types_are_type_errors(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_attributes_are_numbers() -> None:
    with pytest.raises(
        TypeError, match=r"leaky_relu\(float32\[2, 3\]\): negative_slope must be of type float, not str"
    ):
        nt.leaky_relu(X, "a")
    with pytest.raises(TypeError, match=r"scale\(.*\.item\(\)"):
        nt.scale(X, nt.tensor(2.0))
    assert nt.scale(V, np.float32(2), b=1).tolist() == [1.0] * 4
    assert V.clamp(np.int64(1), None).tolist() == [1.0] * 4
    assert V.sum(keepdim=np.True_).shape == (1,)


@pytest.mark.parametrize(
    "call",
    [
        lambda **dim: X.sum(**dim),
        lambda **dim: nt.softmax(X, **dim),
        lambda **dim: nt.cat([X, X], **dim),
        lambda **dim: X.max(**dim)[0],
        lambda **dim: X.unsqueeze(**dim),
    ],
)
def test_axis_is_another_name_of_dim(call: Callable[..., nt.Tensor]) -> None:
    assert call(axis=1).tolist() == call(dim=1).tolist() != call(dim=0).tolist()
    with pytest.raises(TypeError, match="dim and axis mean the same"):
        call(dim=0, axis=1)


def test_keepdims_is_another_name_of_keepdim() -> None:
    for reduce in (nt.sum, nt.logsumexp):
        assert reduce(X, axis=0, keepdims=True).shape == (1, 3)
    with pytest.raises(TypeError, match="keepdim and keepdims mean the same"):
        X.sum(0, True, keepdims=True)
    with pytest.raises(TypeError, match=r"softmax\(\) missing 1 required argument: 'dim'"):
        nt.softmax(X)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.rstrip().endswith(text))


@pytest.mark.parametrize("name", ["float99", "cuda", "npu"])
def test_errors_for_unknown_devices_explain_the_choice(name: str) -> None:
    with pytest.raises(nt.DeviceError, match=f"'{name}' is neither a dtype nor a device .*nt.set_default_device"):
        X.to(name)
    with pytest.raises(nt.DeviceError, match=f"'{name}' is not a device .*nt.set_default_device"):
        nt.ones(2, device=name)


def test_devices_in_use_are_accepted_and_choose_nothing() -> None:
    with nt.default_device("sim:npu2"):
        assert X.to("sim:npu2") is X
        assert nt.zeros(2, device="sim:npu2").device == "cpu"
    assert X.to("sim:npu2", nt.int32).dtype is nt.int32


def test_messages_name_op_operands_and_line() -> None:
    with pytest.raises(nt.ShapeError) as caught:
        X * 2 + nt.zeros(5)  # mark: operator
    assert re.search(r"add\(float32\[2, 3\], float32\[5\]\)", str(caught.value))
    assert f"test_errors.py:{line_of('# mark: ' + 'operator')}" in str(caught.value)
    with pytest.raises(nt.ShapeError) as caught:
        nt.scaled_dot_product_attention(X, nt.zeros(3, 4), X)  # mark: nested
    operands = "float32[2, 3], float32[3, 4], float32[2, 3]"
    assert str(caught.value).startswith(f"scaled_dot_product_attention({operands}): inner dimensions differ: 3 and 4")
    assert f"test_errors.py:{line_of('# mark: ' + 'nested')}" in str(caught.value)
    with pytest.raises(nt.DimensionError) as caught:
        X.unsqueeze(7)  # mark: composite
    assert str(caught.value).startswith("unsqueeze(float32[2, 3], 7): dimension 7 is out of range")
    assert f"test_errors.py:{line_of('# mark: ' + 'composite')}" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (lambda: nt.linear(X, nt.zeros(5, 4)), "linear(float32[2, 3], float32[5, 4]): inner dimensions differ: 3"),
        (lambda: nt.linear(X, weight=nt.zeros(5, 4)), "linear(float32[2, 3], weight=float32[5, 4]): inner dimensions"),
        (
            lambda: nt.conv2d(nt.zeros(1, 3, 8, 8), nt.zeros(4, 3, 3, 3), nt.zeros(3)),
            "conv2d(float32[1, 3, 8, 8], float32[4, 3, 3, 3], float32[3]): bias must have the shape [4]",
        ),
        (
            lambda: nt.stack([np.zeros(2, np.float32), V]),
            "stack([array float32[2], float32[4]]): shapes differ: [[2], [4]]",
        ),
        (lambda: nt.embedding(nt.tensor([9]), X), "embedding(int64[1], float32[2, 3]): index 9 is out of range for"),
        (lambda: nt.nll_loss(X, nt.tensor([0, -1])), "nll_loss(float32[2, 3], int64[2]): class -1 is out of range for"),
        (lambda: nt.embedding(nt.ones(1).long() * 9, X).numpy(), "embedding: index 9 is out of range for extent 2"),
        (lambda: nt.nll_loss(X, (nt.ones(2) * -1).long()).item(), "nll_loss: class -1 is out of range for extent 3"),
    ],
)
def test_errors_are_those_of_the_function_that_was_called(call: Callable[[], Any], start: str) -> None:
    with pytest.raises(nt.NpuTensorError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert str(caught.value).count("recorded at test_errors.py") == 1


def test_unknown_names_get_a_suggestion() -> None:
    for module, name, near in ((nt, "softmx", "softmax"), (nt, "Tensr", "Tensor"), (nt.nn.functional, "rleu", "relu")):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'; did you mean '{near}'\?$"):
            getattr(module, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzzzzz'$"):
        _ = nt.zzzzzz


@pytest.mark.parametrize("name", sorted(nt._HINTS))  # type: ignore[attr-defined]
def test_hints_are_for_names_that_are_not_here(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"module 'npu_tensor' has no attribute '{name}': \w+"):
        getattr(nt, name)


def test_hints_for_names_of_numpy_arrays() -> None:
    x = nt.ones(2, 3)
    for name, hint in (("astype", "to(dtype)"), ("copy", "clone()"), ("strides", "stride()"), ("tobytes", "numpy()")):
        with pytest.raises(AttributeError, match=re.escape(hint)) as caught:
            getattr(x, name)
        assert "Did you mean" not in "".join(
            traceback.format_exception(caught.value)
        )  # Python itself would suggest copy_.
    assert x.stride() == (3, 1)
    assert len(x.numpy().tobytes()) == 24


def test_graph_nodes_carry_the_line() -> None:
    x, w = nt.tensor([[1.0, 2.0]]), nt.tensor([[3.0, 4.0]])
    y = nt.linear(x, w).relu()  # mark: graph
    lines = {data["line"] for _, data in y.graph.nodes(data=True) if data["op"] not in ("data", "number")}
    assert lines == {f"test_errors.py:{line_of('# mark: ' + 'graph')}"}


MANY = (1,) * 64


@pytest.mark.parametrize(
    "call",
    [
        lambda: nt.ones(*MANY, 1),
        lambda: nt.ones(1).expand(*MANY, 1),
        lambda: nt.ones(1)[(None,) * 64],
        lambda: nt.ones(MANY).unsqueeze(0),
        lambda: nt.stack([nt.ones(MANY), nt.ones(MANY)]),
        lambda: nt.ones(64, 1)[(None,) * 63 + (nt.tensor([[1]]),)],
    ],
)
def test_more_dimensions_than_numpy_has(call: Callable[[], Any]) -> None:
    with pytest.raises(nt.ShapeError, match=r"has at most 64 dimensions, not 6[5-9] \(recorded at test_errors"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: nt.zeros(2**62, 4),
        lambda: nt.ones(1).expand(2**62, 4),
        lambda: nt.zeros(2**60).to(nt.float64),
        lambda: nt.zeros(2**40, 1) + nt.zeros(2**40),
        lambda: nt.arange(2**63),
    ],
)
def test_more_bytes_than_can_be_counted(call: Callable[[], Any]) -> None:
    with pytest.raises(nt.ShapeError, match=r" \d+\.\d EB, more than 64 bits can address \(recorded at test_errors"):
        call()


HUGE = 1 << 54
"""Number of floats that exceeds a 48-bit address space, so that no system can allocate it."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nt.zeros(HUGE), r"fill(float): out of memory: the result float32[18014398509481984] needs 72.1 PB"),
        (
            lambda: nt.ones(2, 1) + nt.ones(1).expand(HUGE),
            "add(float32[2, 1], float32[18014398509481984]): out of memory: "
            "the result float32[2, 18014398509481984] needs 144.1 PB",
        ),
        (lambda: (nt.ones(3).exp().sum() + 1).expand(HUGE).exp() * 2, "the result float32[18014398509481984] needs"),
        (lambda: nt.rand(HUGE), "random_uniform(int): out of memory: the result float32[18014398509481984] needs"),
        (lambda: nt.ones(1).expand(HUGE).nonzero(), "nonzero: expand(float32[1]): out of memory: the result"),
        (
            lambda: nt.jit(lambda x: x.sum() + x.expand(HUGE))(nt.ones(1)),
            "out of memory: the result float32[18014398509481984] needs 72.1 PB",
        ),
    ],
)
def test_no_memory_names_op_size_and_line(call: Callable[[], nt.Tensor], message: str) -> None:
    with pytest.raises(MemoryError) as caught:
        call().numpy()
    assert isinstance(caught.value, nt.OutOfMemoryError)
    assert message in str(caught.value)
    assert str(caught.value).count("(recorded at test_errors.py:") == 1
    assert nt.ones(2).sum().item() == 2


@pytest.mark.parametrize("create", [nt.tensor, nt.from_numpy, nt.Tensor, lambda array: nt.ones(1) + array])
def test_no_memory_for_an_array(create: Callable[[Any], nt.Tensor]) -> None:
    array = np.broadcast_to(np.float32(1), (HUGE,))
    with pytest.raises(nt.OutOfMemoryError, match=r"out of memory: float32\[\d+\], a copy of an array, needs 72\.1 PB"):
        create(array)


def test_a_failed_run_leaves_tensors_usable() -> None:
    x = nt.tensor([1, 2])
    y = x // nt.tensor([1, 0])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            y.numpy()
    assert (x + 1).tolist() == [2, 3]


def test_values_cannot_be_changed_from_outside() -> None:
    x = nt.ones(2)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    copied = np.array(x)
    copied[0] = 5
    assert x.tolist() == [1.0, 1.0]


def test_a_format_is_for_one_number() -> None:
    assert f"{nt.tensor(2.5):.2f}" == "2.50"
    assert f"{nt.ones(2)}" == str(nt.ones(2))
    with pytest.raises(TypeError, match="format string"):
        format(nt.ones(2), ".2f")


@pytest.mark.parametrize(("data", "culprit"), [([1, "a"], "str"), ([[1.5, 2], [3, 1j]], "complex"), ([1, None], "No")])
def test_what_is_no_number_is_named(data: Any, culprit: str) -> None:
    with pytest.raises(nt.DTypeError, match=f"cannot make a tensor of {culprit}"):
        nt.tensor(data)


def test_arrays_of_other_libraries_are_not_operands() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, the other library of this test, cannot be imported")
    theirs, ours = torch.ones(3), nt.ones(3)
    calls: list[Callable[[], Any]] = [
        lambda: ours + theirs,
        lambda: theirs - ours,
        lambda: ours.__imul__(theirs),
        lambda: nt.add(ours, theirs),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"Tensor of torch; convert it with nt\.from_dlpack"):
            call()
