"""Gradients of all element-wise and row-wise ops against central differences and PyTorch."""

import inspect
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.autograd.structured import RULES
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Op
from npu_tensor.spec import Spec
from npu_tensor.tensor import record

torch = pytest.importorskip("torch")

ROWS, COLUMNS = 3, 5
STEP = 1e-6
GIVEN: dict[str, Any] = {"dim": 1, "correction": 1.0, "shape": (ROWS, COLUMNS), "dtype": "float64", "ignore_index": 0}
"""Values of attributes without a default, or whose default makes no row."""


def attributes_of(op: Op) -> tuple[Any, ...]:
    empty = inspect.Parameter.empty
    return tuple(GIVEN.get(a.name, 0.3) if a.default is empty or a.name == "dim" else a.default for a in op.attributes)


def operands_of(op: Op) -> list[np.ndarray]:
    """Draw operands inside the op's domain, away from the kinks of formulas at integers."""
    low, high = max(op.domain[0], -3.3), min(op.domain[1], 3.7)
    generator = np.random.default_rng(len(op.name))
    arrays = [generator.uniform(low, high, (ROWS, COLUMNS)) for _ in op.operands]
    return [array + 0.01 * (abs(array - array.round()) < 0.01) for array in arrays]


def programs() -> list[Op]:
    """Return all ops that are programs and map floats to floats."""
    result = []
    for op in OPS.values():
        if op.kind in ("map", "row") and op.name not in ("where", "fill", "standardize"):
            try:
                call = op.call((Spec.of((ROWS, COLUMNS), nt.float64),) * len(op.operands), attributes_of(op))
            except nt.DTypeError:
                continue
            if call.spec.dtype.is_floating_point:
                result.append(op)
    return result


PROGRAMS = programs()


@pytest.mark.parametrize("op", PROGRAMS, ids=lambda op: op.name)
def test_central_differences(op: Op) -> None:
    arrays, attributes = operands_of(op), attributes_of(op)
    if op.name == "pow":
        arrays[0] = abs(arrays[0]) + 0.1

    def compute(*operands: np.ndarray) -> np.ndarray:
        return record(op, operands, attributes).numpy()

    gradient = np.random.default_rng(0).standard_normal(compute(*arrays).shape)
    _, pull_back = nt.vjp(lambda *operands: record(op, operands, attributes), *map(nt.from_numpy, arrays))
    for number, result in enumerate(pull_back(nt.from_numpy(gradient))):
        expected = np.zeros((ROWS, COLUMNS))
        for place in np.ndindex(ROWS, COLUMNS):
            steps = []
            for step in (STEP, -STEP):
                moved = [array.copy() for array in arrays]
                moved[number][place] += step
                steps.append(compute(*moved))
            expected[place] = ((steps[0] - steps[1]) / (2 * STEP) * gradient).sum()
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6, atol=1e-7 * max(1, abs(expected).max()))


CREATES = {"arange_from", "eye_matrix", "linspace_between", "random_integers", "random_normal", "random_uniform"}
CREATES |= {"random_binomial", "random_order", "random_poisson"}
INTEGERS = {"argsort", "frexp_part", "gcd", "lcm", "pow_integer", "running_extreme", "search_places", "top_indices"}
INTEGERS |= {"max_pool_positions", "floor_divide", "remainder", "fmod"}
ONCE = {"samples_at_backward_0", "samples_at_backward_1"}
BY_STEPS = {"nextafter", "quantize", "dequantize", "bits_as"}


def test_every_other_op_has_a_rule() -> None:
    """The rules themselves are tested in tests/autograd/test_transforms.py."""
    others = {op.name for op in OPS.values() if op.kind not in ("map", "row")}
    assert others - set(RULES) == CREATES | INTEGERS | BY_STEPS | ONCE


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("op", PROGRAMS, ids=lambda op: op.name)
def test_second_derivatives(op: Op) -> None:
    """Compare the gradient of a directional derivative with central differences of the first gradient."""
    arrays, attributes = operands_of(op), attributes_of(op)
    weights = nt.from_numpy(np.random.default_rng(1).standard_normal(record(op, arrays, attributes).shape))
    direction = np.random.default_rng(2).standard_normal((ROWS, COLUMNS))

    def first(x: Any) -> nt.Tensor:
        rest = map(nt.from_numpy, arrays[1:])
        result: nt.Tensor = nt.grad(lambda y: (record(op, (y, *rest), attributes) * weights).sum())(x)
        return result

    along = nt.from_numpy(direction)
    second = nt.grad(lambda x: (first(x) * along).sum())(nt.from_numpy(arrays[0]))
    ahead, behind = (first(nt.from_numpy(arrays[0] + step * direction)).numpy() for step in (STEP, -STEP))
    np.testing.assert_allclose(second.numpy(), (ahead - behind) / (2 * STEP), rtol=1e-5, atol=1e-6)


WIDE = {"channel_scale", "channel_shift", "convert", "mean_square", "norm_weight_gradient"}


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        pytest.param(op, dtype, marks=[pytest.mark.slow] if turn % 3 else [], id=f"{op.name}-{dtype}")
        for number, op in enumerate(PROGRAMS)
        if op.name not in WIDE
        for turn, dtype in enumerate(("float32", "bfloat16", "float16"), number)
    ],
)
def test_results_have_the_dtype_of_the_operand(op: Op, dtype: str) -> None:
    """Arithmetic is done in float32 and rounded once. Without the slow tests, the dtypes take turns."""
    arrays = [nt.from_numpy(abs(array)).to(dtype).to("float64").numpy() for array in operands_of(op)]
    results = {}
    for each in (dtype, "float64"):
        operands = [nt.from_numpy(array).to(each) for array in arrays]
        result, pull_back = nt.vjp(lambda *x: record(op, x, attributes_of(op)), *operands)
        results[each] = pull_back(nt.ones(result.shape, dtype=each))
        assert all(gradient.dtype.name == each for gradient in results[each])
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    for actual, exact in zip(results[dtype], results["float64"], strict=True):
        np.testing.assert_allclose(actual.to("float64").numpy(), exact.numpy(), rtol=tolerance, atol=tolerance)


TINY, LARGEST = np.finfo(np.float32).tiny, np.finfo(np.float32).max
EDGES = np.array([0, TINY, 1e-3, 0.5, 1, 2, 3, 6, 10, 30, 100, 1000, 1e10, LARGEST], np.float32)
EDGES = np.concatenate([EDGES, -EDGES])
UNARY = [op for op in PROGRAMS if op.kind == "map" and len(op.operands) == 1 and op.name != "clamp"]


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_edges_as_in_pytorch(op: Op) -> None:
    functional = torch.nn.functional
    others = {
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_erf": functional.gelu,
        "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
        "cube": lambda x: x**3,
        "sinc": lambda x: torch.sinc(x.double()),  # Its float32 version loses all digits near 0.
        "threshold": lambda x: torch.threshold(x, 0.3, 0.3),
    }
    theirs = others.get(op.name) or getattr(torch, op.name, None) or getattr(functional, op.name, None)
    if theirs is None or op.name in ("convert", "scale", "bitwise_not"):
        pytest.skip("PyTorch has no such function")
    x = torch.from_numpy(EDGES.copy()).requires_grad_()
    y = theirs(x)
    if y.requires_grad:
        y.backward(torch.ones_like(y))
    expected = np.zeros_like(EDGES) if x.grad is None else x.grad.numpy(force=True)
    _, pull_back = nt.vjp(lambda each: record(op, (each,), attributes_of(op)), nt.from_numpy(EDGES))
    (gradient,) = pull_back(nt.ones(EDGES.size))
    # At the poles of digamma PyTorch returns large numbers instead of infinity.
    compared = EDGES >= 0 if op.name == "digamma" else np.isfinite(EDGES)
    if op.name == "logit":  # The sign of infinity at -0 depends on the vector instructions that PyTorch uses.
        compared &= ~((EDGES == 0) & np.signbit(EDGES))
    actual, expected = gradient.numpy()[compared], expected[compared]
    assert not np.isnan(actual[~np.isnan(expected)]).any(), "NaN where PyTorch has none"
    np.testing.assert_allclose(actual, expected, rtol=3e-4, atol=1e-6)


NOT_IN_PYTORCH = {"heaviside"}
"""Points without a derivative."""
BINARY = [
    op
    for op in PROGRAMS
    if op.kind == "map" and len(op.operands) == 2 and hasattr(torch, op.name) and op.name not in NOT_IN_PYTORCH
]
PAIRS = [pair.ravel() for pair in np.meshgrid(EDGES, EDGES)]
NOTED = {
    "fmax": lambda x, y: x == y,  # Ties share as in maximum; PyTorch gives all to the first.
    "fmin": lambda x, y: x == y,
    "hypot": lambda x, y: (
        ((x == 0) & (y == 0)) | (abs(x) == abs(y))
    ),  # 0 instead of NaN at 0; finite where x * x is not.
}


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_edges_of_two_operands_as_in_pytorch(op: Op) -> None:
    leaves = [torch.from_numpy(each.copy()).requires_grad_() for each in PAIRS]
    getattr(torch, op.name)(*leaves).sum().backward()
    compared = ~NOTED.get(op.name, lambda x, y: x != x)(*PAIRS)
    _, pull_back = nt.vjp(lambda *x: record(op, x, attributes_of(op)), *map(nt.from_numpy, PAIRS))
    for actual, leaf in zip(pull_back(nt.ones(PAIRS[0].size)), leaves, strict=True):
        np.testing.assert_allclose(actual.numpy()[compared], leaf.grad.numpy()[compared], rtol=3e-4, atol=1e-6)


EDGE_ROWS = np.array(
    [[0] * 4, [1] * 4, [1000, -1000, 30, 0], [100, 100, -30, -100], [1e10, -1e10, 0, 1], [LARGEST, -LARGEST, 0, 1],
     [-1000] * 4, [0, 2, 0, 3], [2, 0, 3, 4], [TINY, 0, 0, 0]],
    np.float32,
)  # fmt: skip
OF_ROWS = {
    **{name: lambda x, name=name: getattr(x, name)(-1) for name in ("sum", "mean", "prod", "amax", "amin", "var")},
    **{name: lambda x, name=name: getattr(x, name)(-1) for name in ("std", "logsumexp", "softmax", "log_softmax")},
    "norm_rows": lambda x: functional_of(x).layer_norm(x, (4,)),
    "rms_norm_rows": lambda x: functional_of(x).rms_norm(x, (4,), eps=1e-5),
    "l2_norm": lambda x: functional_of(x).normalize(x, dim=-1),
    "layer_norm": lambda x: functional_of(x).layer_norm(x, (4,), like(x, [2, -1, 0, 1]), like(x, [1, 0, 0, 3])),
    "rms_norm": lambda x: functional_of(x).rms_norm(x, (4,), like(x, [2, -1, 0, 1]), 1e-5),
    "norm": lambda x: x.norm(dim=-1),
}
OF_GRADIENTS = {"mean_square", "layer_norm_gradient", "rms_norm_gradient", "norm_weight_gradient"}
"""Row ops that other ops and their gradients record."""


def like(x: Any, numbers: list[float]) -> Any:
    return nt.tensor(numbers, dtype=x.dtype) if isinstance(x, nt.Tensor) else torch.tensor(numbers, dtype=x.dtype)


def functional_of(x: Any) -> Any:
    return nt.nn.functional if isinstance(x, nt.Tensor) else torch.nn.functional


def test_every_row_op_has_edges() -> None:
    assert {op.name for op in PROGRAMS if op.kind == "row"} - OF_GRADIENTS == set(OF_ROWS)


@pytest.mark.parametrize("name", OF_ROWS)
def test_edges_of_rows_as_in_pytorch(name: str) -> None:
    # These ops are made of squares, which in float32 are 0 and infinity for the smallest and largest number.
    norms = dict.fromkeys(("l2_norm", "norm_rows", "rms_norm_rows", "layer_norm", "rms_norm"), LARGEST)
    without = {"std": TINY, **norms}.get(name, np.nan)
    rows = EDGE_ROWS[~(without == EDGE_ROWS).any(1)]
    x = torch.from_numpy(rows.copy()).requires_grad_()
    y = OF_ROWS[name](x)
    weights = np.array([1, 2, -3, 0.5], np.float32)[: y.shape[-1] if y.ndim == 2 else 1]
    (y * torch.from_numpy(weights)).sum().backward()
    actual = nt.grad(lambda x: (OF_ROWS[name](x) * nt.from_numpy(weights)).sum())(nt.from_numpy(rows))
    for own, other in zip(actual.numpy(), x.grad.numpy(), strict=True):
        largest = abs(other[np.isfinite(other)]).max(initial=1)
        np.testing.assert_allclose(own, other, rtol=3e-4, atol=1e-6 * largest)


def test_a_chain_and_its_gradient_are_one_kernel() -> None:
    x = nt.randn(64, 128).realize()
    gradient = nt.grad(lambda x: (x.silu() * 2 + 1).tanh().sum())(x)
    rows = nt.explain(gradient)
    assert [row.op for row in rows if row.kernel == "fused map"] == ["fill", "silu_backward_0"]
