"""t[...] and t[...] = value against PyTorch; what PyTorch lacks (negative steps) against NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest
from comparison import from_torch, to_torch
from hypothesis import given, settings
from hypothesis import strategies as st

import npu_tensor as nt

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

X = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
MASK = torch.arange(4) % 2 == 0
ROWS = torch.tensor([2, 0, -1, 2])
GRID = torch.tensor([[0, 1], [1, 0]])
AGAIN = ROWS % 2

INDICES: list[Any] = [
    *(0, -1, (1, -2), (0, 1, 2, 3), Ellipsis, True, False, None, ()),
    *(slice(None), slice(1, None), slice(0, 0), slice(5, 1), (slice(None), slice(0, 3, 2))),
    *((Ellipsis, 0), (0, Ellipsis, slice(1, 3)), (slice(None), True), (1, True, [0, 2]), (None, 0, None)),
    *((Ellipsis, None), (slice(None), None, 1)),
    # integer tensors, in one or several dimensions, beside each other or apart
    AGAIN,
    (slice(None), slice(None), ROWS),
    (slice(None), ROWS, ROWS),
    (slice(None), ROWS, slice(None), ROWS),
    (ROWS % 2, slice(None), ROWS),
    (ROWS % 2, slice(None), 1),
    (0, slice(None), ROWS),
    (slice(None), 1, ROWS),
    (slice(None), GRID, torch.tensor([3, 1])),
    (GRID, slice(1, 3), slice(None), GRID),
    (None, Ellipsis, ROWS),
    (slice(None), slice(1, 1), ROWS),
    ROWS.to(torch.int32) % 2,
    torch.zeros(0, dtype=torch.int64),
    # masks
    (1, slice(None), MASK),
    (X[:, :, :, 0] > 30,),
    X > 50,
    (X[:, :, 0, 0] > 30, slice(None), 1),
    (slice(None), slice(None), MASK, torch.tensor([4, 1])),
    *(torch.tensor(True), torch.tensor(False), np.array([True, False])),
    # lists, ranges and arrays
    *([1, 0], (slice(None), [0, 2], [1, 1]), ((0, 1),), ([0, 1], (0, 2)), (slice(None), ((0, 1), (1, 0)))),
    *(([],), (slice(None), [], 1), ((True, False),), ([True, False], (0,)), range(0), (range(2), range(1, -1, -1))),
    *(np.array(1), np.int64(-1), np.uint8(1), (slice(None), np.array([0, 1], np.uint16))),
    # tensors of zero dimensions
    torch.tensor(1),
    (slice(None), torch.tensor(2)),
    (slice(None), torch.tensor(-1), slice(None), [0, 2]),
    (slice(None), [0, 2], torch.tensor(1), [3, 1]),
    ([0, 1], torch.tensor(1), slice(None), [3, 1]),
    (torch.tensor(1, dtype=torch.int16), None, torch.tensor(2)),
    (torch.tensor(0), slice(None), MASK),
    (np.array(1), slice(None), [0, 2]),
]
NUMBERS = [
    index for index in INDICES if isinstance(index, tuple) and any(hasattr(i, "ndim") and not i.ndim for i in index)
]
"""Indices with zero-dimensional integer tensors, arrays or scalars."""


def shown(index: Any) -> str:
    return str(index).replace("\n", "")[:60]


def ours_of(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(ours_of, index))
    return from_torch(index) if isinstance(index, torch.Tensor) else index


@pytest.mark.covers("__getitem__")
@pytest.mark.parametrize("index", INDICES, ids=shown)
def test_get(index: Any) -> None:
    expected = X[index]
    ours = from_torch(X)[ours_of(index)]
    assert ours.shape == tuple(expected.shape)
    np.testing.assert_array_equal(ours.numpy(), expected.numpy())


@pytest.mark.covers("__setitem__")
@pytest.mark.parametrize("index", INDICES, ids=shown)
@pytest.mark.parametrize("kind", ["number", "full", "row", "int"])
def test_set(index: Any, kind: str) -> None:
    expected = X.clone()
    shape = X[index].shape
    value: Any = {
        "number": 7.5,
        "full": -torch.arange(X[index].numel(), dtype=torch.float32).reshape(shape),
        "row": -torch.arange(shape[-1] if shape else 1, dtype=torch.float32).reshape(shape[-1:]),
        "int": torch.tensor(3),
    }[kind]
    expected[index] = value.float() if kind == "int" else value  # PyTorch converts in some assignments only
    # Positions given twice keep one of the values, which is undefined.
    unique = kind in ("number", "int") or not any(i is ROWS for i in (index if isinstance(index, tuple) else (index,)))
    ours = from_torch(X)
    before = ours.clone()
    ours[ours_of(index)] = value if isinstance(value, float) else from_torch(value)
    assert before.tolist() == X.tolist()
    if unique and index is not AGAIN:
        np.testing.assert_array_equal(ours.numpy(), expected.numpy())
    else:
        untouched = X.clone()
        untouched[index] = -1e9
        np.testing.assert_array_equal(ours.numpy()[untouched.numpy() != -1e9], X.numpy()[untouched.numpy() != -1e9])


@pytest.mark.parametrize("index", NUMBERS, ids=shown)
def test_integer_tensors_in_a_capture_give_the_same_elements(index: Any) -> None:
    tensors = {place: part for place, part in enumerate(index) if isinstance(part, torch.Tensor) and not part.ndim}

    def written(x: nt.Tensor, *numbers: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        parts = [*ours_of(index)]
        for place, number in zip(tensors, numbers, strict=True):
            parts[place] = number
        part = x[tuple(parts)]
        x = x * 1
        x[tuple(parts)] = -part
        return part, x

    part, x = nt.jit(written)(from_torch(X), *map(from_torch, tensors.values()))
    expected = X.clone()
    expected[index] = -X[index]
    assert part.shape == tuple(X[index].shape)
    np.testing.assert_array_equal(part.numpy(), X[index].numpy())
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


@pytest.mark.parametrize("one", [lambda: nt.tensor([1])[0], lambda: nt.tensor(1, dtype=nt.int32), lambda: np.array(1)])
def test_slices_at_integer_tensors_are_views(one: Any) -> None:
    x = nt.zeros(3, 2)
    row = x[one()]
    row += 5
    x[:, one()][2] = 7
    x[one()] *= 2
    assert x.tolist() == [[0, 0], [10, 10], [0, 7]]


def test_lists_are_one_index_as_in_numpy() -> None:
    """PyTorch splits lists of sequences, and warns that this will change."""
    array = np.arange(60).reshape(3, 4, 5)
    ours = nt.from_numpy(array)
    for index in ([[0, 1], [1, 0]], [(0, 1)], [range(2)], [np.array([0, 1]), [1, 0]], np.array([[1, 0]], ">i8")):
        np.testing.assert_array_equal(ours[index].numpy(), array[index])  # type: ignore[index]
    np.testing.assert_array_equal(ours[[nt.tensor([0, 1]), nt.tensor([1, 0])]].numpy(), array[[[0, 1], [1, 0]]])
    np.testing.assert_array_equal(ours[np.bool_(True)].numpy(), array[np.bool_(True)])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([None, 0], "for slices and None write a tuple"),
        ([slice(1), 0], "for slices and None write a tuple"),
        ([[0, 1], [1]], "lists as an index must be rectangular"),
        ([0, (0, 1)], "lists as an index must be rectangular"),
        ([0.5], "must be integers or masks, not float64"),
        (((0.5,), 0), "must be integers or masks, not float64"),
        (nt.tensor([1, 0], dtype=nt.uint8), r"\.bool\(\) for a mask, \.long\(\) for positions"),
        (np.array([1, 0], np.uint8), r"\.bool\(\) for a mask, \.long\(\) for positions"),
    ],
    ids=str,
)
def test_index_types_with_a_hint(index: Any, message: str) -> None:
    x = nt.zeros(2, 3)
    with pytest.raises(nt.DimensionError, match=message):
        x[index]
    with pytest.raises(nt.DimensionError, match=message):
        x[index] = 1
    assert x.sum().item() == 0


SLICES = list(itertools.product((None, 0, 3, -1, 9), (None, 0, 2, -2, -9), (-1, -2, 2, 7)))


@pytest.mark.parametrize(("start", "stop", "step"), SLICES)
def test_any_step(start: Any, stop: Any, step: int) -> None:
    array = np.arange(20).reshape(4, 5)
    tensor = nt.from_numpy(array)
    part = slice(start, stop, step)
    np.testing.assert_array_equal(tensor[part].numpy(), array[part])
    np.testing.assert_array_equal(tensor[1:, part].numpy(), array[1:, part])
    np.testing.assert_array_equal((tensor[:, part] * 2 + 1).numpy(), array[:, part] * 2 + 1)
    tensor[part] = 0
    array[part] = 0
    np.testing.assert_array_equal(tensor.numpy(), array)


PARTS = st.one_of(
    st.integers(-2, 1),
    st.none(),
    st.builds(slice, st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 3), st.none() | st.integers(1, 3)),
    st.just(Ellipsis),
    st.lists(st.integers(-2, 1), min_size=1, max_size=3).map(torch.tensor),
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(parts=st.lists(PARTS, max_size=4).filter(lambda parts: sum(part is Ellipsis for part in parts) < 2))
def test_any_index(parts: list[Any]) -> None:
    x = X[:, :2, :2, :2]
    index = tuple(parts)
    try:
        expected = x[index]
    except (IndexError, ValueError):
        with pytest.raises((IndexError, ValueError)):
            from_torch(x)[ours_of(index)]
        return
    ours = from_torch(x)[ours_of(index)]
    assert ours.shape == tuple(expected.shape)
    np.testing.assert_array_equal(ours.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "float64"])
def test_dtypes_stay(dtype: str) -> None:
    x = nt.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    assert x[1].dtype is x[:, [0, 2]].dtype is x[x > 1].dtype is x.dtype
    x[0] = nt.tensor([1.0, 0.0, 1.0])
    x[:, 1] = True
    assert x.dtype.name == dtype
    assert to_torch(x)[0].tolist() == [1, 1, 1]


def test_setting_converts_and_rounds_once() -> None:
    x = nt.zeros(2, dtype=nt.bfloat16)
    x[0] = 1.01
    assert x.float().tolist() == [torch.tensor(1.01).bfloat16().item(), 0.0]
    y = nt.zeros(2, dtype=nt.int32)
    y[1] = 2.9
    assert y.tolist() == [0, 2]


def test_indexing_is_lazy_but_for_masks() -> None:
    x = nt.tensor([[1.0, 2.0], [3.0, 4.0]]) * 2
    assert not x[0, ::-1].is_realized
    assert not x[[1, 0]].is_realized
    assert not x.is_realized
    x[0] = 1
    assert not x.is_realized
    x[x > 5] = 0  # one number under a mask of the same shape is a where
    assert not x.is_realized
    assert x.tolist() == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.covers("__iter__")
def test_iteration() -> None:
    x = from_torch(X[0, :, :, 0])
    assert [row.tolist() for row in x] == X[0, :, :, 0].tolist()
    first, *rest = x
    assert len(rest) == 2
    assert 4.0 not in first
    with pytest.raises(TypeError, match="0-d"):
        iter(nt.tensor(1))


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (2, IndexError),
        (-3, IndexError),
        ((0, 0, 0, 0, 0), IndexError),
        ((Ellipsis, Ellipsis), IndexError),
        (nt.tensor([0.5]), IndexError),
        (nt.tensor([True, False, True]), IndexError),
        ("a", TypeError),
        (1.5, TypeError),
        (slice(0, 2, 0), ValueError),
        ((nt.tensor([0, 1]), nt.tensor([0, 1, 2])), ValueError),
    ],
    ids=shown,
)
def test_bad_indices(index: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        from_torch(X)[index]
    x = from_torch(X)
    with pytest.raises(kind):
        x[index] = 0


@pytest.mark.parametrize("index", [(), Ellipsis, None, (None, Ellipsis), (Ellipsis, None, None)], ids=shown)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_setting_zero_dimensions(index: Any, dtype: str) -> None:
    x = nt.tensor(0, dtype=dtype)
    x[index] = 1
    assert x.shape == ()
    assert x.tolist() == 1
    assert x.dtype.name == dtype


def test_scatter_refuses_negative_indices() -> None:
    x = nt.zeros(3)
    with pytest.raises(IndexError, match="out of range"):
        x.scatter(0, nt.tensor([-1]), 1.0).numpy()
    x[nt.tensor([-1])] = 1.0
    assert x.tolist() == [0.0, 0.0, 1.0]


WRONG: dict[str, Any] = {
    "realized": lambda: nt.tensor([0, 7]),
    "int32": lambda: nt.tensor([0, 7], dtype=nt.int32),
    "negative": lambda: nt.tensor([0, -7]),
    "slice": lambda: nt.tensor([0, 1, 7, 1])[::2],
    "shifted": lambda: nt.tensor([1, 8]) - 1,
    "mixed": lambda: nt.where(nt.tensor([True, False]), 0, nt.tensor([0, 7])),
}
"""Indices whose values exist, or are cheap to compute, when an op on them is recorded."""


@pytest.mark.parametrize("index", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize(
    "use",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x.gather(0, i.long().unsqueeze(1)),
        lambda x, i: x.index_select(1, i),
        lambda x, i: nt.embedding(i, x),
        lambda x, i: nt.one_hot(i, 3),
        lambda x, i: nt.cross_entropy(x[:2], i.long()),
        lambda x, i: nt.get_rows(x, i),
        lambda x, i: x.__setitem__(i, 5.0),
        lambda x, i: x.index_add_(0, i, nt.ones(2, 3)),
        lambda x, i: x.index_put_((i,), nt.ones(3)),
        lambda x, i: x.scatter_(0, i.long().unsqueeze(1), 5.0),
    ],
)
def test_a_wrong_index_is_an_error_at_once_and_changes_nothing(use: Any, index: Any) -> None:
    x, i = nt.ones(3, 3) * 2, index()
    with pytest.raises(nt.DimensionError, match=r"-?\d+ is out of range for extent .*recorded at test_indexing"):
        use(x, i)
    assert x.tolist() == [[2.0] * 3] * 3


def _late(*values: int) -> Any:
    """Return indices whose values are not known when an op on them is recorded."""
    return (nt.tensor([float(value) for value in values]).exp().log() + 0.5).long()


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_failing_step_leaves_the_parameters_before(momentum: float) -> None:
    model, twin = nt.nn.Embedding(3, 2), torch.nn.Embedding(3, 2)
    twin.load_state_dict({"weight": torch.tensor(model.weight.tolist())})
    ours = nt.optim.SGD(model.parameters(), lr=0.5, momentum=momentum)
    theirs = torch.optim.SGD(twin.parameters(), lr=0.5, momentum=momentum)
    for row in (0, 7, 1, 2, 1):
        ours.zero_grad()
        model(_late(row)).square().sum().backward()
        if row >= 3:
            with pytest.raises(IndexError, match=r"index 7 is out of range for extent 3 \(recorded at test_indexing"):
                ours.step()
            continue
        ours.step()
        theirs.zero_grad()
        twin(torch.tensor([row])).square().sum().backward()
        theirs.step()
    np.testing.assert_allclose(model.weight.detach().numpy(), twin.weight.detach().numpy(), rtol=1e-6)


def test_element_writes_in_place_are_seen_by_views_only() -> None:
    """Elements are written in place once nothing but the tensor shows them; everything else keeps its value."""
    tensor, expected = nt.zeros(40), np.zeros(40, np.float32)
    for i in range(40):
        tensor[i] += i
        expected[i] += i
        if i == 15:
            double, former = tensor * 2, expected * 2
        if i == 20:
            array, read = tensor.numpy(), expected.copy()
    part, same = tensor[28:32], tensor.detach()
    tensor[29] = 7
    part[0] += 3
    expected[28:30] = expected[28] + 3, 7
    assert part.tolist() == expected[28:32].tolist()
    assert same.tolist() == tensor.tolist() == expected.tolist()
    assert double.tolist() == former.tolist()
    assert array.tolist() == read.tolist()


@pytest.mark.parametrize("shared", [False, True])
def test_rows_written_in_place(shared: bool) -> None:
    tensor, expected = nt.zeros(30, 2000).realize(), np.zeros((30, 2000), np.float32)
    row, other = nt.arange(2000.0).realize(), tensor[3] if shared else None
    for i in range(30):
        tensor[i] = row
        tensor[i] += 1
        tensor[i, 2], tensor[-1, i] = np.float32(0.5), True
        expected[i] = np.arange(2000) + 1
        expected[i, 2], expected[-1, i] = 0.5, 1
    assert np.array_equal(tensor.numpy(), expected)
    if other is not None:
        assert np.array_equal(other.numpy(), expected[3])


def test_numbers_that_do_not_fit_an_element() -> None:
    tensor = nt.tensor([1, 2], dtype="int8").realize()
    tensor[0] = 3.9
    with pytest.raises(nt.errors.ArgumentError, match=r"__setitem__.*value 300 does not fit int8"):
        tensor[1] = 300
    assert tensor.tolist() == [3, 2]
    floats = nt.zeros(2).realize()
    floats[1] = 1e300
    assert floats.tolist() == [0.0, float("inf")]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(_late(9), 5.0),
        lambda x: x.copy_(nt.arange(4.0)[_late(1, 2, 3, 4)]),
        lambda x: x.add_(nt.ones(3)[_late(7)]),
        lambda x: x[1:].mul_(nt.ones(3)[_late(3)]),
        lambda x: x.index_fill_(0, _late(4), 2.0),
    ],
    ids=["setitem", "copy", "add", "view", "index_fill"],
)
@pytest.mark.parametrize("has_view", [False, True])
@pytest.mark.parametrize("steps", [1, 3000])
def test_a_failing_write_among_others(write: Any, has_view: bool, steps: int) -> None:
    x = nt.arange(4.0) + 1
    view = x[1:3] if has_view else None
    x += 1
    write(x)

    def count() -> None:
        nonlocal x
        for _ in range(steps):
            x += 1
        x.numpy()

    with pytest.raises(IndexError, match="out of range"):
        count()
    if steps == 1:  # The loop of many steps fails when the chain is too long, and ends.
        assert x.tolist() == [3.0, 4.0, 5.0, 6.0]
        assert view is None or view.tolist() == [4.0, 5.0]
    else:
        assert (x - x[0]).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_failing_value_that_was_written_fails_again_where_it_is_read() -> None:
    value, x = nt.arange(4.0)[_late(4)], nt.zeros(1)
    x.copy_(value)
    for tensor in (x, value, value):
        with pytest.raises(IndexError, match="out of range"):
            tensor.tolist()
    assert x.tolist() == [0.0]


def test_a_division_by_zero_leaves_the_value_before() -> None:
    x = nt.tensor([4])
    x //= _late(0)
    with pytest.raises(ZeroDivisionError):
        x.tolist()
    assert x.tolist() == [4]


def test_checks_of_an_index_compute_nothing_that_is_pending() -> None:
    x, i = nt.ones(3), nt.tensor([0, 1])
    pending, known = (nt.tensor([0.0, 7.0]) + 0).long(), i + 1
    late = x[pending]
    assert not pending.is_realized
    x[known].realize()
    assert not nt.tensor([1]).add(1).is_realized
    with pytest.raises(IndexError, match="index 7 is out of range for extent 3"):
        late.realize()


def test_indices_that_are_captured_are_checked_when_they_run() -> None:
    i = nt.tensor([0])
    taken = nt.jit(lambda x: x[i])
    assert taken(nt.ones(2)).tolist() == [1.0]
    i += 5
    with pytest.raises(IndexError, match="index 5 is out of range for extent 2"):
        taken(nt.ones(2)).realize()
    i -= 4
    assert taken(nt.ones(2)).tolist() == [1.0]


def test_values_that_do_not_fit() -> None:
    x = nt.zeros(2, 3)
    with pytest.raises(ValueError, match="does not fit"):
        x[0] = nt.ones(2)
    with pytest.raises(ValueError, match="does not fit"):
        x[:, 0] = nt.ones(2, 2)
