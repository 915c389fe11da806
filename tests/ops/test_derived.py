"""Every op against PyTorch. Shapes, dtypes, edge values and Python numbers are derived from one oracle per op.

Floats are compared with PyTorch's float64 result, rounded once; integers and bool with PyTorch's own.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from comparison import TORCH_DTYPES, assert_same, float64_of, to_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from op_examples import ATTRIBUTES, DIVISIONS, operands_of
from oracles import covered, recorded_ops

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES
from npu_tensor.ops import OPS, registry, rules

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")
F = torch.nn.functional
FUNCTIONS = registry.functions()


def _xielu(x: Any, alpha_n: float, alpha_p: float, beta: float, eps: float) -> Any:
    low = (torch.expm1(torch.clamp(x, max=eps)) - x) * alpha_n + beta * x
    return torch.where(x > 0, alpha_p * x * x + beta * x, low)


def _swiglu_oai(x: Any, gate: Any, alpha: float = 1.702, limit: float = 7.0) -> Any:
    x, gate = torch.clamp(x, max=limit), torch.clamp(gate, -limit, limit)
    return x * torch.sigmoid(alpha * x) * (gate + 1)


def _round_half_away(x: Any) -> Any:
    return torch.where(x < 0, -torch.floor(-x + 0.5), torch.floor(x + 0.5)) if x.is_floating_point() else x


def _integer_power(x: Any, exponent: Any) -> Any:
    if x.is_floating_point():
        raise TypeError("of integers only")
    return torch.pow(x, exponent)


def _floor_divide(x: Any, y: Any) -> Any:
    quotient = torch.floor_divide(x, y)
    if not quotient.is_floating_point():
        return quotient
    infinite = torch.isinf(torch.as_tensor(x)) | torch.isinf(torch.as_tensor(y))
    return torch.where(infinite, torch.floor(torch.true_divide(x, y)), quotient)


# Formulas for element-wise ops that PyTorch lacks, names differently or computes differently.
FORMULAS: dict[str, Callable[..., Any]] = {
    "step": lambda x: (x > 0).to(x.dtype),
    "cube": lambda x: x * x * x,
    "scale": lambda x, s=2.0, b=0.0: x * s + b,
    "round_half_away": _round_half_away,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf": F.gelu,
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
    "xielu": _xielu,
    "reglu_gate": lambda x, gate: torch.relu(x) * gate,
    "geglu_gate": lambda x, gate: F.gelu(x, approximate="tanh") * gate,
    "geglu_erf_gate": lambda x, gate: F.gelu(x) * gate,
    "geglu_quick_gate": lambda x, gate: x * torch.sigmoid(1.702 * x) * gate,
    "swiglu_gate": lambda x, gate: F.silu(x) * gate,
    "swiglu_oai_gate": _swiglu_oai,
    "glu_gate": lambda x, gate: x * torch.sigmoid(gate),
    "pow_integer": _integer_power,
    "floor_divide": _floor_divide,
}


def oracles(kind: str, *data_ops: str, **formulas: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return PyTorch's function, or a formula, for each op of a kind and for some ops declared as another kind."""
    names = {name for name, op in OPS.items() if op.kind == kind} - covered()
    theirs = {name: getattr(torch, name, getattr(F, name, None)) for name in (*sorted(names), *data_ops)}
    return {name: oracle for name, oracle in {**theirs, **formulas}.items() if oracle is not None}


MAPS = oracles("map", "remainder", "fmod", **FORMULAS)
ROWS = oracles("row", "cumsum", "cumprod", l2_norm=lambda x, dim: F.normalize(x, dim=dim))

# Rounding inside one op may cost more than a unit compared with PyTorch's float64: for sums that cancel, and quotients
# of rounded functions. Absolute, for values of about 1.
CANCELS = {
    **dict.fromkeys(("lerp", "frac", "logsigmoid", "mish", "softsign", "tan", "scale"), 1e-6),
    **dict.fromkeys(("gelu_tanh", "gelu_erf", "gelu_quick", "silu", "xielu", "elu", "selu", "softplus"), 1e-6),
    **dict.fromkeys(("geglu_gate", "geglu_erf_gate", "geglu_quick_gate", "swiglu_gate", "swiglu_oai_gate"), 4e-6),
    **dict.fromkeys(("hardswish", "hardsigmoid", "add", "sub", "fmod", "remainder"), 1e-6),
    **dict.fromkeys(("var", "std", "mean", "sum", "prod", "logsumexp", "log_softmax", "cumsum", "l2_norm"), 4e-6),
    **dict.fromkeys(("logaddexp", "logaddexp2", "lgamma", "digamma", "logit"), 4e-6),
    **dict.fromkeys(("sinc", "tanhshrink", "softshrink"), 1e-6),
    "cumprod": 4e-6,
}
ULPS = {"float32": 8, "bfloat16": 1, "float16": 1, "float64": 16}

EDGES = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-40, 1.2e-38, 1e-30),
    *(0.5, -0.5, 1.0, -1.0, 1.5, 2.5, 3.0, -3.0, 20.0, 88.0, -88.0, 100.0, -104.0),
    *(1e4, 16777217.0, -1e10, 3e38),
)


def expected_of(oracle: Callable[..., Any], operands: list[Any], attributes: dict[str, Any]) -> tuple[Any, Any]:
    """Return PyTorch's result dtype, and its result in float64 or the integer type. Raises PyTorch's errors."""
    own = oracle(*operands, **attributes)
    if not own.is_floating_point():
        return own.dtype, own
    inputs = [float64_of(operand) for operand in operands]
    if not any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs):
        inputs = [x.to(torch.float64) if isinstance(x, torch.Tensor) else x for x in inputs]
    return own.dtype, oracle(*inputs, **attributes)


def dtypes_of(operands: list[Any]) -> set[Any]:
    return {nt.tensor(operand).dtype for operand in operands}


def check(
    name: str, oracle: Callable[..., Any], operands: list[Any], attributes: dict[str, Any], values: bool = True
) -> bool:
    """Compare a result with PyTorch's, and return True unless PyTorch does not take the dtypes.

    values=False compares shapes and dtypes only, which compiles nothing.
    """
    theirs = [to_torch(x) if isinstance(x, nt.Tensor) else x for x in operands]
    try:
        dtype, expected = expected_of(oracle, theirs, attributes)
    except (RuntimeError, TypeError, IndexError):
        return False
    function = FUNCTIONS.get(name, OPS[name].record)
    refuses_bool = OPS[name].dtypes == rules.numeric.dtypes and name != "clamp"
    if (refuses_bool or name == "pow") and dtypes_of(operands) == {nt.bool}:
        with pytest.raises(nt.DTypeError, match="bool"):  # PyTorch takes bool in some of these ops only.
            function(*operands, **attributes)
        return True
    ours = function(*operands, **attributes)
    shown = ", ".join(str(x._node.spec) if isinstance(x, nt.Tensor) else repr(x) for x in operands)
    what = f"{name}({shown}, {attributes})"
    assert TORCH_DTYPES[ours.dtype.name] is dtype, f"{what} gives {ours.dtype}, PyTorch {dtype}"
    atol = CANCELS.get(name, 0.0) if ours.dtype.itemsize >= 4 else 0.0
    if ours.dtype is nt.float64:
        atol *= 1e-8
    assert tuple(ours.shape) == tuple(expected.shape), f"{what} gives {ours.shape}, PyTorch {expected.shape}"
    if values:
        assert_same(ours, expected, ULPS.get(ours.dtype.name, 0), atol, what)
    return True


def test_every_op_has_an_oracle() -> None:
    """Other ops need explicit arguments; the tests that cover them are marked."""
    assert len({*MAPS, *ROWS}) == len(MAPS) + len(ROWS)
    assert {*MAPS, *ROWS} <= set(OPS)
    missing = set(OPS) - {*MAPS, *ROWS} - covered()
    assert not missing, f'{missing}: add a formula to FORMULAS, or mark a test with @pytest.mark.covers("name")'


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_powers_of_their_base_are_exact(dtype: str) -> None:
    for function, base, exponents in ((nt.log2, 2.0, np.arange(-149, 128)), (nt.log10, 10.0, np.arange(0, 11))):
        powers = (base**exponents).astype(dtype)
        assert function(nt.from_numpy(powers)).tolist() == exponents.tolist()


SHAPES = ((), (1,), (13,), (5, 17), (2, 3, 4), (0,), (3, 0, 2), (2, 1, 3, 5))
PAIRS = (
    ((5, 17), ()),
    ((), (5, 17)),
    ((5, 17), (17,)),
    ((5, 17), (5, 1)),
    ((5, 1), (17,)),
    ((1, 17), (5, 1)),
    ((2, 3, 4), (3, 1)),
    ((2, 1, 3, 5), (4, 1, 5)),
    ((3, 0, 2), (2,)),
)


@pytest.mark.parametrize("name", MAPS)
def test_shapes_and_broadcasting(name: str) -> None:
    """Values of broadcast operands are computed for one of the pairs, which differs from op to op."""
    op = OPS[name]
    dtype = nt.int32 if name in DIVISIONS or name.startswith("bitwise") else nt.float32
    count = len(op.operands)
    shapes = [((shape,) * count, True) for shape in SHAPES]
    if count > 1:
        turns = enumerate(PAIRS, [*MAPS].index(name))
        shapes += [((*pair, *pair[:1])[:count], turn % len(PAIRS) == 0) for turn, pair in turns]
    with recorded_ops() as recorded:
        for chosen, values in shapes:
            for attributes in ATTRIBUTES.get(name, [{}]):
                assert check(name, MAPS[name], operands_of(op, chosen, dtype), attributes, values)
    assert name in recorded


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MAPS)
def test_dtypes(name: str, turn: int) -> None:
    """Values are computed in every second dtype; which one comes first alternates from op to op."""
    op = OPS[name]
    compared = [
        check(name, MAPS[name], operands_of(op, ((3, 11),) * len(op.operands), dtype), attributes, number % 2 == turn)
        for number, dtype in enumerate(DTYPES, [*MAPS].index(name))
        for attributes in ATTRIBUTES.get(name, [{}])
    ]
    assert sum(compared) >= 4


BINARY = [name for name in MAPS if len(OPS[name].operands) == 2 and name in FUNCTIONS]


# Pairs whose result is also computed, each by a third of the ops: every kernel takes milliseconds to compile.
COMPUTED_PAIRS = (
    *(("float32", "int32"), ("bfloat16", "float32"), ("bfloat16", "float16"), ("int8", "int64"), ("uint8", "int8")),
    *(("bool", "int16"), ("bool", "bfloat16"), ("float64", "float16"), ("int64", "float16")),
)


@pytest.mark.parametrize("name", BINARY)
def test_mixed_dtypes(name: str) -> None:
    op = OPS[name]
    computed = COMPUTED_PAIRS[BINARY.index(name) % 3 :: 3]
    compared = 0
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = operands_of(op, ((3, 4),), a, 1)[0], operands_of(op, ((4,),), b, 2)[0]
        compared += check(name, MAPS[name], [x, y], {}, values=(a.name, b.name) in computed)
        compared += check(name, MAPS[name], [x, y[0]], {}, values=False)
    assert compared >= (
        len(DTYPES) if name == "heaviside" else 50
    )  # PyTorch's heaviside takes operands of one dtype only.


NUMBERS = (2, 3, -1, 0.5, 2.5, True)
COMPUTED_WITH_NUMBERS = (nt.float32, nt.bfloat16, nt.int32, nt.uint8, nt.bool)


# PyTorch's functions take tensors only; a zero-dimensional one has the same effect on the result dtype.
OF_TENSORS_ONLY = (
    *("maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "atan2", "heaviside", "ldexp"),
    *("logical_and", "logical_or", "logical_xor"),
)


@pytest.mark.parametrize("name", BINARY)
def test_python_numbers(name: str) -> None:
    op = OPS[name]

    def oracle(x: Any, number: float) -> Any:
        return MAPS[name](x, torch.tensor(number) if name in OF_TENSORS_ONLY else number)

    compared = 0
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if "shift" in name and not (type(number) is int and number >= 0):
            continue
        if dtype is nt.uint8 and number == -1:
            continue  # A negative number does not fit; PyTorch wraps or raises, depending on the op.
        x = operands_of(op, ((3, 5),), dtype)[0]
        compared += check(name, oracle, [x, number], {}, values=dtype in COMPUTED_WITH_NUMBERS)
    if name != "heaviside":
        assert compared >= (12 if "shift" in name else 23 if name.startswith("bitwise") else 36)


@pytest.mark.parametrize("name", [n for n in MAPS if len(OPS[n].operands) == 1])
def test_edge_values_of_one_operand(name: str) -> None:
    for attributes in ATTRIBUTES.get(name, [{}]):
        assert check(name, MAPS[name], [nt.tensor(EDGES)], attributes) or name == "bitwise_not"


@pytest.mark.parametrize("name", [n for n in BINARY if not n.startswith(("bitwise", "pow"))])
def test_edge_values_of_two_operands(name: str) -> None:
    values = np.array(EDGES, np.float32)
    a, b = (nt.from_numpy(x.ravel().copy()) for x in np.meshgrid(values, values))
    assert check(name, MAPS[name], [a, b], {})


@pytest.mark.parametrize(
    "name", ["neg", "abs", "mul", "div", "minimum", "maximum", "floor", "ceil", "trunc", "round", "sqrt"]
)
def test_signed_zero(name: str) -> None:
    operands = [nt.tensor([0.0, -0.0, -0.3, 0.3])] * len(OPS[name].operands)
    expected = MAPS[name](*map(to_torch, operands)).numpy()
    got = FUNCTIONS[name](*operands).numpy()
    np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(expected) & ~np.isnan(expected))


INTEGER_LIMITS = {
    dtype.name: [np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max, 0, 1, 7] for dtype in DTYPES if dtype.is_integer
}


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "neg", "abs", "square", "cube", "maximum", "minimum", "lt", "sign", "clamp"]
)
@pytest.mark.parametrize("dtype", INTEGER_LIMITS)
def test_integers_wrap(name: str, dtype: str) -> None:
    values = nt.tensor(np.array(INTEGER_LIMITS[dtype], dtype))
    operands = [values] if len(OPS[name].operands) == 1 else [values.reshape(5, 1), values]
    assert check(name, MAPS[name], operands, {"min": -5, "max": 100} if name == "clamp" else {})


# --- row-wise


ALONG_ONE = ("softmax", "log_softmax", "l2_norm", "cumsum", "cumprod")
EMPTY_REFUSED = ("amax", "amin", "argmax", "argmin")


def dims_of(name: str, ndim: int) -> list[Any]:
    single = list(range(-ndim, ndim)) if ndim else [0, -1]
    if name in ALONG_ONE:
        return single
    several = [] if name in ("argmax", "argmin", "prod") or ndim < 2 else [(0, 1), (0, -1)]
    return single + several if name == "logsumexp" else [None, *single, *several]


def row_cases(name: str, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = []
    for dim in dims_of(name, len(shape)):
        keywords = {} if dim is None else {"dim": dim}
        cases.append(keywords)
        if dim is not None and name not in ALONG_ONE:
            cases.append({**keywords, "keepdim": True})
        if name in ("var", "std"):
            cases.append({**keywords, "correction": 0})
    return cases


@pytest.mark.filterwarnings("ignore:.*degrees of freedom.*")
@pytest.mark.parametrize("name", ROWS)
def test_row_shapes(name: str) -> None:
    op = OPS[name]
    for shape in SHAPES:
        x = operands_of(op, (shape,), nt.float32)[0]
        for case in row_cases(name, shape):
            if not check(name, ROWS[name], [x], case):
                assert name in EMPTY_REFUSED
                assert 0 in shape
                with pytest.raises(IndexError):
                    FUNCTIONS[name](x, **case)


@pytest.mark.parametrize("name", ROWS)
def test_row_dtypes(name: str) -> None:
    op = OPS[name]
    compared = 0
    for number, dtype in enumerate(DTYPES, [*ROWS].index(name)):
        x = operands_of(op, ((4, 9),), dtype)[0]
        for dim in (0, -1):
            compared += check(name, ROWS[name], [x], {"dim": dim}, values=number % 2 == -dim)
    assert compared >= 8


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "softmax", "log_softmax"])
def test_row_result_dtype_is_a_choice(name: str) -> None:
    for dtype in (nt.float32, nt.bfloat16, nt.int32):
        x = operands_of(OPS[name], ((4, 9),), dtype)[0]
        ours = FUNCTIONS[name](x, 1, dtype=nt.float64)
        assert_same(ours, ROWS[name](to_torch(x), 1, dtype=torch.float64), 64, what=name)


@pytest.mark.parametrize("name", ROWS)
def test_row_edge_values(name: str) -> None:
    rows = [
        [1.0, math.nan, 2.0],
        [math.inf, 1.0, 2.0],
        [-math.inf, 1.0, 2.0],
        [-math.inf, -math.inf, -math.inf],
        [math.inf, -math.inf, 0.0],
        [math.nan, math.nan, 1.0],
        [1e18, 1e18, -1e18],
        [100.0, 100.0, 100.0],
        [-0.0, -0.0, -0.0],
        [-1000.0, 0.0, 88.0],
    ]
    for dim in (0, 1):
        assert check(name, ROWS[name], [nt.tensor(rows)], {"dim": dim})


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin"])
def test_ties_and_empty_rows(name: str) -> None:
    tied = nt.tensor([[3, 1, 3, 1], [2, 2, 2, 2]])
    for dim in (0, 1):
        assert check(name, ROWS[name], [tied], {"dim": dim})
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 3), 1)):
        if shape == (0, 3):
            assert FUNCTIONS[name](nt.zeros(shape), dim).shape == ROWS[name](torch.zeros(shape), dim).shape
            continue
        with pytest.raises(IndexError):
            ROWS[name](torch.zeros(shape), dim)
        with pytest.raises(IndexError):
            FUNCTIONS[name](nt.zeros(shape), dim)


# --- random shapes

EXTENTS = st.lists(st.integers(0, 7), max_size=4)


@st.composite
def broadcastable(draw: Any, count: int) -> list[tuple[int, ...]]:
    """Draw shapes that broadcast: each drops leading dimensions of one shape and sets others to 1."""
    full = draw(EXTENTS)
    shapes = []
    for _ in range(count):
        kept = full[draw(st.integers(0, len(full))) :]
        shapes.append(tuple(1 if draw(st.booleans()) else extent for extent in kept))
    return shapes


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(shapes=broadcastable(2), name=st.sampled_from(["add", "mul", "div", "maximum", "lt", "pow"]))
def test_any_two_shapes(shapes: list[tuple[int, ...]], name: str) -> None:
    assert check(name, MAPS[name], operands_of(OPS[name], shapes, nt.float32), {})


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(shapes=broadcastable(3), data=st.data())
def test_any_chain(shapes: list[tuple[int, ...]], data: Any) -> None:
    """A fused chain returns the same values as its ops one by one."""
    a, b, c = (operands_of(OPS["add"], (shape,), nt.float32, seed)[0] for seed, shape in enumerate(shapes))
    x, y, z = map(to_torch, (a, b, c))
    ours, theirs = (a * b + c).tanh() - a, torch.tanh(x.double() * y.double() + z.double()) - x.double()
    assert_same(ours, theirs, 8, 4e-6)
    if ours.ndim:
        dim = data.draw(st.integers(-ours.ndim, ours.ndim - 1))
        assert_same(ours.sum(dim), theirs.sum(dim), 8, 2e-5)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(shape=EXTENTS, name=st.sampled_from(["sum", "amax", "argmin", "softmax", "mean"]), data=st.data())
def test_any_row(shape: list[int], name: str, data: Any) -> None:
    ndim = len(shape)
    dim = data.draw(st.integers(-max(ndim, 1), max(ndim, 1) - 1))
    compared = check(name, ROWS[name], operands_of(OPS[name], (tuple(shape),), nt.float32), {"dim": dim})
    assert compared or (name in EMPTY_REFUSED and shape[dim] == 0)
