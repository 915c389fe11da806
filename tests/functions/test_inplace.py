"""Every in-place form against its function, against PyTorch's in-place form, and through a view."""

from typing import Any

import pytest
from comparison import to_torch
from op_examples import ATTRIBUTES, operands_of
from test_functional import CASES, IN_PLACE, ours_of

import npu_tensor as nt
from npu_tensor.ops import OPS

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")
F = torch.nn.functional

Arguments = tuple[list[Any], dict[str, Any]]
DTYPES = (nt.float32, nt.bfloat16, nt.int32, nt.bool)


def examples(name: str) -> list[Arguments]:
    """Operands, with PyTorch's tensors, and attributes."""
    cases = [([*args], kwargs) for case, args, kwargs in CASES if case.lstrip(".") == name and args]
    if cases:
        return cases
    op = OPS[name]
    shapes = ((3, 4), *(((3, 4), (4,), ())[: len(op.operands) - 1]))
    return [
        ([*map(to_torch, operands_of(op, shapes, dtype))], attributes)
        for dtype in DTYPES
        for attributes in ATTRIBUTES.get(name, [{}])
    ]


def pytorch_in_place(name: str, x: Any, rest: list[Any], kwargs: dict[str, Any]) -> Any:
    """What PyTorch's form gives; None where PyTorch has none, the error where it refuses the result."""
    try:
        if hasattr(x, f"{name}_"):
            return getattr(x, f"{name}_")(*rest, **kwargs)
        if hasattr(F, f"{name}_"):
            return getattr(F, f"{name}_")(x, *rest, **kwargs)
    except NotImplementedError:  # for this dtype
        return None
    except (RuntimeError, TypeError, IndexError) as error:
        return error
    return None


@pytest.mark.parametrize("name", IN_PLACE)
def test_every_in_place_form_equals_its_function(name: str) -> None:
    compared = 0
    for (operand, *rest), kwargs in examples(name):
        if not isinstance(operand, torch.Tensor):
            continue
        x = ours_of(operand)
        others, options = ours_of(rest), {key: ours_of(value) for key, value in kwargs.items()}
        theirs = pytorch_in_place(name, operand.clone(), rest, kwargs)
        what = f"{name}_({x.dtype}, {rest}, {kwargs}) in PyTorch gives {theirs!r}"
        changed = x.clone()
        try:
            expected = getattr(nt, name)(x, *others, **options).realize()
            fits = expected.shape == x.shape and expected.dtype.category <= x.dtype.category
            assert fits or theirs is None or isinstance(theirs, Exception), what
        except nt.NpuTensorError:
            fits = False
        if not fits:
            with pytest.raises(nt.NpuTensorError):
                getattr(changed, f"{name}_")(*others, **options).realize()
            continue
        compared += 1
        view = changed.reshape(-1)
        assert getattr(changed, f"{name}_")(*others, **options) is changed
        assert changed.dtype is x.dtype
        values = expected.to(x.dtype).reshape(-1).numpy()
        for part in (changed.reshape(-1), view):
            assert part.numpy().tobytes() == values.tobytes(), what
        if theirs is not None:
            assert isinstance(theirs, torch.Tensor), what
            torch.testing.assert_close(to_torch(changed), theirs, equal_nan=True, msg=what)
    assert compared
