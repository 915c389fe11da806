"""Errors name the user's line, the problem and the remedy."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import npu_tensor as nt
from npu_tensor.errors import reworded

X, N = nt.tensor([1.5]), nt.tensor([1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: N + 2**63,
        lambda: 2**64 - N,
        lambda: N * -(2**63) - (-(2**63) - 1),
        lambda: N < 2**63,
        lambda: nt.tensor([1], dtype=nt.int8) // 2**70,
        lambda: X * 10**400,
        lambda: nt.maximum(X, -(10**400)),
    ],
)
def test_numbers_that_are_too_large_fail_where_they_are_recorded(call: Callable[[], Any]) -> None:
    with pytest.raises(nt.ArgumentError, match=r"does not fit (int8|int64|float32).*recorded at test_messages\.py"):
        call()


@pytest.mark.parametrize("flag", ["transient", "pending"])
def test_build_errors_keep_what_is_known_about_them(flag: str) -> None:
    error = nt.BuildError("it failed", **{flag: True})
    flags = {name: name == flag for name in ("transient", "pending")}
    for copied in (error, pickle.loads(pickle.dumps(error)), reworded(error, "it failed, in line 3")):
        assert {name: getattr(copied, name) for name in flags} == flags
    assert str(copied) == "it failed, in line 3"


@pytest.mark.parametrize("data", [2**63, [1, 2**63], [2**63, -1], [[-(2**63) - 1]], 2**64])
def test_integers_that_do_not_fit_a_tensor(data: Any) -> None:
    with pytest.raises(nt.ArgumentError, match="does not fit int64"):
        nt.tensor(data)


def test_integers_that_fit_floats() -> None:
    assert nt.tensor(2**63, dtype=nt.float64).item() == 2.0**63
    assert nt.tensor([2**63, 0.5]).dtype is nt.float32
    assert nt.tensor([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]


def branches(x: nt.Tensor) -> nt.Tensor:
    if x.sum() > 0:  # branch
        return x
    return -x


def converts(x: nt.Tensor) -> nt.Tensor:
    return x * float(x.amax())  # number


def reads(x: nt.Tensor) -> nt.Tensor:
    return x + x.numpy()  # array


def inside(x: nt.Tensor) -> nt.Tensor:
    return reads(x)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (branches, "if x.sum() > 0:  # branch"),
        (converts, "return x * float(x.amax())  # number"),
        (reads, "return x + x.numpy()  # array"),
        (inside, "return x + x.numpy()  # array"),
    ],
)
def test_values_that_a_captured_function_reads_are_named_by_their_line(
    function: Callable[[nt.Tensor], nt.Tensor], line: str
) -> None:
    with open(__file__, encoding="utf-8") as file:
        number = [text.strip() for text in file].index(line) + 1
    with pytest.raises(nt.CaptureError) as caught:
        nt.jit(function)(nt.ones(2))
    assert f"at test_messages.py:{number}: {line}" in str(caught.value)


def _ctc_loss(t: Any, times: tuple[int, int], labels: tuple[int, int], targets: tuple[int, ...] = (2, 2)) -> Any:
    lengths = (t.tensor(each) for each in (times, labels))
    return t.nn.functional.ctc_loss(t.zeros(3, 2, 4), t.ones(targets).long(), *lengths)


def _failures(t: Any) -> list[Callable[[], object]]:
    """Mistakes, with the functions of `t`."""
    x = t.ones(2, 3)
    return [
        lambda: x + t.ones(4),
        lambda: x @ x,
        lambda: x.view(7),
        lambda: t.cat([x, t.ones(3, 4)]),
        lambda: x.item(),
        lambda: bool(x),
        lambda: t.arange(3) @ t.ones(3),
        lambda: x.permute(0, 0),
        lambda: (t.tensor([1]) // t.tensor([0])).tolist(),
    ]


@pytest.mark.parametrize(
    ("call", "expected", "text"),
    [
        (lambda t: t.trapezoid(t.tensor(1.0)), IndexError, "trapezoid"),
        (lambda t: t.cumulative_trapezoid(t.tensor(1.0)), IndexError, "cumulative_trapezoid"),
        (lambda t: t.vander(t.tensor(1.0)), RuntimeError, "vander"),
        (lambda t: t.vander(t.ones(2, 2), 3), RuntimeError, "vander"),
        (lambda t: t.combinations(t.tensor(1.0)), RuntimeError, "combinations"),
        (lambda t: t.combinations(t.ones(2, 2)), RuntimeError, "combinations"),
        (lambda t: t.combinations(t.ones(2), -1), RuntimeError, "combinations"),
        (lambda t: t.vander(t.ones(2), -1), RuntimeError, "vander"),
        (lambda t: _ctc_loss(t, (3, -1), (1, 1)), RuntimeError, "ctc_loss"),
        (lambda t: _ctc_loss(t, (3, 3), (1, -1)), RuntimeError, "ctc_loss"),
        (lambda t: _ctc_loss(t, (3, 4), (1, 1)), RuntimeError, "ctc_loss"),
        (lambda t: _ctc_loss(t, (3, 3), (1, 3)), RuntimeError, "ctc_loss"),
        (lambda t: _ctc_loss(t, (3, 3), (1, 1), ()), RuntimeError, "ctc_loss"),
        (lambda t: _ctc_loss(t, (3, 3), (1, 1), (2, 2, 1)), RuntimeError, "ctc_loss"),
    ],
)
def test_operands_that_a_function_rejects(call: Callable[[Any], object], expected: type[Exception], text: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(expected):
        call(torch)
    with pytest.raises(expected, match=rf"^{text}\(") as caught:
        call(nt)
    assert isinstance(caught.value, nt.errors.NpuTensorError)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nt.ones(2).cuda(), "'Tensor' object has no attribute 'cuda': tensors go where they are needed"),
        (lambda: nt.ones(2).register_hook, "'register_hook': change x.grad after backward()"),
        (lambda: nt.nn.ReLU().cuda(), "'ReLU' object has no attribute 'cuda': tensors go where they are needed"),
        (lambda: nt.nn.ReLU().register_full_backward_hook, "call retain_grad() of a result in a forward hook"),
        (lambda: nt.autograd.Function, "has no attribute 'Function': z + (y - z).detach()"),
    ],
)
def test_names_of_pytorch_that_are_missing_have_hints(call: Callable[[], object], text: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(text)):
        call()


def test_a_property_of_a_module_raises_its_own_error() -> None:
    class Module(nt.nn.Module):
        @property
        def size(self) -> int:
            return self.extent  # type: ignore[no-any-return]

    with pytest.raises(AttributeError, match="no attribute 'extent'"):
        _ = Module().size
    assert not hasattr(Module(), "cuda")


def test_slices_of_sizes_are_sizes() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nt.ones(2, 3, 4).shape, torch.ones(2, 3, 4).shape
    for part in (slice(1, None), slice(None, -1), slice(None, None, -1), slice(3, None)):
        assert type(ours[part]) is type(ours)
        assert ours[part] == tuple(theirs[part])
        assert ours[part].numel() == theirs[part].numel()
    assert type(ours[-1]) is int


@pytest.mark.parametrize("number", range(9))
def test_what_pytorch_raises_is_raised(number: int) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError):
        _failures(torch)[number]()
    with pytest.raises(RuntimeError):
        _failures(nt)[number]()
