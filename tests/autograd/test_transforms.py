"""Function transforms against torch.autograd, their guarantees, and bugs known from other libraries.

tests/functions/test_gradients.py has the gradients of single functions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.errors import ArgumentError, DTypeError, GradientError
from npu_tensor.graph.history import active

torch = pytest.importorskip("torch")
F = torch.nn.functional

PLACES = np.array([[0, 2, 1], [1, 1, 0]])
FACTORS = np.array([[1.0, 0, 2, 3], [0, 2, 0, 4], [1, 2, 3, 0]])

Shapes = tuple[tuple[int, ...], ...]


def both(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile one expression for both libraries, with the names `lib` and `array`."""
    return lambda *x: function(nt, nt.from_numpy, *x), lambda *x: function(torch, torch.from_numpy, *x)


def functional(name: str) -> Callable[[Any], Any]:
    return lambda lib: getattr(F if lib is torch else lib, name)


CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "product": (lambda lib, array, x, w: x @ w, ((4, 5), (5, 3))),
    "batched product": (lambda lib, array, x, w: x @ w, ((2, 3, 4, 5), (3, 5, 2))),
    "network": (
        lambda lib, array, x, w, b, v: ((x @ w + b).relu() @ v).log_softmax(-1),
        ((4, 5), (5, 6), (6,), (6, 3)),
    ),
    "broadcast": (lambda lib, array, x, y, z: x * y + z, ((3, 1, 4), (2, 1), ())),
    "repeated operand": (lambda lib, array, x: x * x + x, ((3, 4),)),
    "read twice": (lambda lib, array, x: (lambda s: s.exp() * s + s.sum())(x.tanh()), ((3, 4),)),
    "transpose": (lambda lib, array, x: x.T @ x, ((3, 4),)),
    "slices": (lambda lib, array, x: x[1:, ::2] * x[:2, 1::2], ((3, 6),)),
    "overlapping slices": (lambda lib, array, x: x[:, :4] * x[:, 2:] + x[:, 1:5].exp() * x.sum(), ((3, 6),)),
    "transposed weights": (lambda lib, array, x, w: x @ w.transpose(1, 2) * w.sum(), ((2, 4, 5), (1, 3, 5))),
    "rows": (lambda lib, array, x: x[1] * x[-1] + x[0, 2], ((3, 6),)),
    "windows of each channel": (
        lambda lib, array, x, w: (
            w @ x.unfold(3, 2, 1).unfold(4, 2, 1).permute(0, 1, 2, 5, 6, 3, 4).reshape(2, 3, 4, 16)
        ),
        ((2, 1, 3, 5, 5), (3, 4, 4)),
    ),
    "windows of all groups": (
        lambda lib, array, x, w: (
            w @ x.unfold(3, 2, 1).unfold(4, 2, 1).permute(0, 1, 2, 5, 6, 3, 4).reshape(2, 3, 8, 16)
        ),
        ((2, 3, 2, 5, 5), (1, 4, 8)),
    ),
    "cumprod with zeros": (lambda lib, array, x: (x * array(FACTORS)).cumprod(1), ((3, 4),)),
    "index": (lambda lib, array, x: x[array(PLACES)] * x[0], ((5, 4),)),
    "points": (lambda lib, array, x: x[array(PLACES), array(PLACES)], ((5, 4, 2),)),
    "remainder": (lambda lib, array, x, y: x.remainder(y) + lib.fmod(x, y), ((3, 4), (3, 4))),
    "norm": (lambda lib, array, x: x.norm() + lib.linalg.norm(x, dim=1).sum(), ((3, 4),)),
    "convolution inside": (
        lambda lib, array, x, w: functional("conv2d")(lib)(x * 2, w, None, 1, 0),
        ((2, 3, 7, 11), (4, 3, 3, 3)),
    ),
    "convolution far outside": (
        lambda lib, array, x, w: functional("conv1d")(lib)(x, w, None, 1, 4, 2),
        ((2, 3, 9), (4, 3, 2)),
    ),
    "uneven padding": (
        lambda lib, array, x, w: functional("conv1d")(lib)(functional("pad")(lib)(x, (1, 2)), w),
        ((2, 3, 9), (4, 3, 4)),
    ),
    "convolution of one image twice": (
        lambda lib, array, x, w: functional("conv2d")(lib)(functional("conv2d")(lib)(x, w), w) * x[..., 2:5, 2:5],
        ((1, 3, 7, 7), (3, 3, 3, 3)),
    ),
}
TOLERANCE = {"float64": 1e-10, "float32": 3e-5, "bfloat16": 0.12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name: str, dtype: str) -> None:
    function, shapes = CASES[name]
    ours, theirs = both(function)
    generator = np.random.default_rng(len(name))
    arrays = [generator.standard_normal(shape) for shape in shapes]
    operands = [nt.from_numpy(array).to(dtype).realize() for array in arrays]
    # In float64, from numbers that the dtype can hold.
    leaves = [torch.from_numpy(each.to("float64").numpy().copy()).requires_grad_() for each in operands]
    expected = theirs(*leaves)
    seed = nt.from_numpy(generator.standard_normal(tuple(expected.shape))).to(dtype)
    expected.backward(torch.from_numpy(seed.to("float64").numpy().copy()))
    result, pull_back = nt.vjp(ours, *operands)
    gradients = pull_back(seed.to(result.dtype))
    for gradient, leaf, operand in zip(gradients, leaves, operands, strict=True):
        assert gradient.dtype is operand.dtype
        actual, exact = gradient.to("float64").numpy(), leaf.grad.numpy()
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(actual, exact, rtol=tolerance, atol=tolerance * max(1, abs(exact).max()))


X = np.array([0.3, -1.2, 2.0])


def test_values_and_structures() -> None:
    def loss(parameters: dict[str, Any], x: nt.Tensor) -> nt.Tensor:
        return ((x * parameters["w"] + parameters["b"][0]) ** 2).sum()

    parameters = {"w": nt.from_numpy(X), "b": [nt.tensor(0.5, dtype=nt.float64)]}
    value, gradient = nt.value_and_grad(loss)(parameters, nt.from_numpy(X))
    inner = X * X + 0.5
    np.testing.assert_allclose(value.item(), (inner**2).sum())
    np.testing.assert_allclose(gradient["w"].numpy(), 2 * inner * X)
    np.testing.assert_allclose(gradient["b"][0].item(), 2 * inner.sum())


def test_argnums_and_aux() -> None:
    def function(a: nt.Tensor, b: nt.Tensor) -> tuple[nt.Tensor, str]:
        return (a * b * b).sum(), "aux"

    a, b = nt.from_numpy(X), nt.from_numpy(X + 1)
    (by_b, by_a), aux = nt.grad(function, argnums=(1, 0), has_aux=True)(a, b)
    assert aux == "aux"
    np.testing.assert_allclose(by_a.numpy(), (X + 1) ** 2)
    np.testing.assert_allclose(by_b.numpy(), 2 * X * (X + 1))
    (value, aux), by_last = nt.value_and_grad(function, argnums=-1, has_aux=True)(a, b)
    np.testing.assert_allclose(by_last.numpy(), by_b.numpy())
    assert value.item() == pytest.approx((X * (X + 1) ** 2).sum())


def test_vjp_of_several_results() -> None:
    results, pull_back, aux = nt.vjp(lambda x: ((x * 2, {"s": x.sum()}), 7), nt.from_numpy(X), has_aux=True)
    assert aux == 7
    (gradient,) = pull_back((nt.from_numpy(X), {"s": nt.tensor(3.0, dtype=nt.float64)}))
    np.testing.assert_allclose(gradient.numpy(), 2 * X + 3)
    np.testing.assert_allclose(results[0].numpy(), 2 * X)
    with pytest.raises(ArgumentError, match="structure of the result"):
        pull_back(nt.from_numpy(X))
    with pytest.raises(ArgumentError, match=r"vjp: .*the gradient of float64\[3\] cannot be float32\[3\]"):
        pull_back((nt.ones(3), {"s": nt.tensor(3.0, dtype=nt.float64)}))


def test_inside_jit() -> None:
    @nt.jit
    def step(w: nt.Tensor, x: nt.Tensor) -> nt.Tensor:
        _, gradient = nt.value_and_grad(lambda w: ((x @ w - 1) ** 2).mean())(w)
        return w - 0.1 * gradient

    x = np.random.default_rng(0).standard_normal((16, 4))
    w, theirs = nt.zeros(4, 1, dtype=nt.float64), torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    for _ in range(20):  # In tinygrad, replays from the second on were once wrong.
        w = step(w, nt.from_numpy(x))
        (gradient,) = torch.autograd.grad(((torch.from_numpy(x) @ theirs - 1) ** 2).mean(), theirs)
        theirs = (theirs - 0.1 * gradient).detach().requires_grad_()
        np.testing.assert_allclose(w.numpy(), theirs.detach().numpy(), rtol=1e-12)
    assert step.captures == 1


def test_reading_a_value_cuts_nothing() -> None:
    before = {*active}  # Left by other tests.

    def function(x: nt.Tensor) -> nt.Tensor:
        y = x * 2
        assert y.sum().item() == pytest.approx(2 * X.sum())
        assert x[0].item() == X[0]
        y.realize()
        return (y[1:] * y[:-1]).sum() * y.tolist()[0]

    np.testing.assert_allclose(
        nt.grad(function)(nt.from_numpy(X)).numpy(), 2 * X[0] * 4 * np.array([X[1], X[0] + X[2], X[1]])
    )
    assert not {*active} - before


def test_equal_gradients_are_distinct_tensors() -> None:
    x, seed = nt.from_numpy(X), nt.from_numpy(X)
    _, pull_back = nt.vjp(lambda a, b: a + b, x, x)
    by_a, by_b = pull_back(seed)
    by_a += 1
    assert by_b.tolist() == seed.tolist() == X.tolist()
    by_a, by_b = nt.grad(lambda a, b: (a.reshape(3, 1).T + b).sum(), (0, 1))(x, x)
    by_a.zero_()
    assert by_b.tolist() == [1, 1, 1]


def test_sums_of_halves_do_not_saturate() -> None:
    """Guard against pytorch#68048: the gradient of a bias was 256 instead of 1600."""
    x, bias = nt.ones(1600, 4, dtype=nt.bfloat16), nt.zeros(4, dtype=nt.bfloat16)
    assert nt.grad(lambda b: (x + b).sum())(bias).tolist() == [1600.0] * 4


def test_random_numbers_are_those_of_the_result() -> None:
    nt.manual_seed(3)
    x = nt.ones(1000)
    value, gradient = nt.value_and_grad(lambda x: (x * nt.rand(1000)).sum())(x)
    assert gradient.sum().item() == pytest.approx(value.item(), rel=1e-5)


def test_constants_have_no_gradient() -> None:
    x = nt.from_numpy(X)
    np.testing.assert_allclose(nt.grad(lambda x: (x * x.detach()).sum())(x).numpy(), X)

    def function(x: nt.Tensor) -> nt.Tensor:
        with nt.no_grad():
            scale = x.exp()
        return (x * scale).sum()

    np.testing.assert_allclose(nt.grad(function)(x).numpy(), np.exp(X))
    np.testing.assert_allclose(nt.grad(lambda x: (x * nt.no_grad()(nt.exp)(x)).sum())(x).numpy(), np.exp(X))
    with nt.no_grad():  # It only matters inside the function.
        np.testing.assert_allclose(nt.grad(lambda x: (x * x).sum())(x).numpy(), 2 * X)
    assert nt.grad(lambda x: (x.argmax() * 1.0 + x.floor().sum()).sum())(x).tolist() == [0, 0, 0]
    assert nt.grad(lambda x: nt.ones(1).sum())(x).tolist() == [0, 0, 0]


# --- errors


def test_errors_name_the_op_without_derivative() -> None:
    before = {*active}  # Left by other tests.
    x = nt.from_numpy(X)
    with pytest.raises(
        GradientError, match=r"scatter_along with reduce='multiply' has no derivative \(recorded at test_trans"
    ):
        nt.grad(lambda x: x.scatter(0, nt.tensor([0, 1]), x[:2], reduce="multiply").sum())(x)
    matrix = nt.eye(3, dtype=nt.float64) * 2
    recorded = {"cross", "diagonal", "matmul", "norm", "vander", "vecdot", "vector_norm"}
    functions = {f"linalg.{name}": getattr(nt.linalg, name) for name in sorted({*nt.linalg.__all__} - recorded)}
    functions["linalg.lu_solve"] = lambda x: nt.linalg.lu_solve(x, nt.tensor([1, 2, 3]), x)
    functions["linalg.matrix_power"] = lambda x: nt.linalg.matrix_power(x, 2)
    functions["linalg.multi_dot"] = lambda x: nt.linalg.multi_dot([x, x])
    functions["linalg.solve_triangular"] = lambda x: nt.linalg.solve_triangular(x, x, upper=True)
    named_by = {"linalg.eigvalsh": "linalg.eigh", "linalg.matrix_norm": "linalg.norm"}
    functions |= {name: getattr(nt, name) for name in ("qr", "svd", "unique", "unique_consecutive")}
    for name, function in functions.items():
        operands = 2 if name in ("linalg.solve", "linalg.solve_ex", "linalg.lstsq", "linalg.tensorsolve") else 1
        refused = rf"{named_by.get(name, name)} has no derivative; pass x.detach\(\).*test_transforms.py:"
        with pytest.raises(GradientError, match=refused):
            nt.grad(lambda x, f=function, count=operands: f(*[x * 2] * count))(matrix)
    assert nt.grad(lambda x: (nt.linalg.inv(x.detach()) * x).sum())(matrix).tolist()[0] == [0.5, 0, 0]
    with pytest.raises(GradientError, match=r"must return a tensor of one float, not float64\[3\]"):
        nt.grad(lambda x: x * 2)(x)
    with pytest.raises(GradientError, match="must return a tensor of one float, not int"):
        nt.grad(lambda x: 3)(x)
    with pytest.raises(DTypeError, match=r"grad: only floats have gradients, not int64\[2\]"):
        nt.grad(lambda x: x.sum())(nt.tensor([1, 2]))
    with pytest.raises(ArgumentError, match="argnums 2 do not fit 1 arguments"):
        nt.grad(lambda x: x.sum(), argnums=2)(x)
    with pytest.raises(ArgumentError, match=r"must return \(result, aux\)"):
        nt.grad(lambda x: x.sum(), has_aux=True)(x)
    assert not {*active} - before


@pytest.mark.parametrize("place", [7, -1])
def test_invalid_indices_are_errors_if_only_the_gradient_is_read(place: int) -> None:
    x, target = nt.ones(3, 4), nt.tensor([1.0, place, 2.0]).long()
    for function in (lambda x: nt.cross_entropy(x, target), lambda x: x.gather(1, target.reshape(3, 1)).sum()):
        with pytest.raises(IndexError, match=f"{place} is out of range for extent 4"):
            nt.grad(function)(x).realize()


def test_a_function_that_calls_backward_itself_is_an_error() -> None:
    def loss(x: nt.Tensor) -> nt.Tensor:
        total = (x * x).sum()
        total.backward()
        return total

    with pytest.raises(nt.GradientError, match="a graph that was freed"):
        nt.grad(loss)(nt.ones(3))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm"])
def test_second_derivatives_of_norms_by_their_weights(name: str) -> None:
    shape = (2, 4, 3)
    drawn = np.random.default_rng(0)
    x, g = drawn.standard_normal((2, *shape))
    w = drawn.standard_normal(4 if name == "group_norm" else 3)

    def norm(lib: Any, x: Any, w: Any) -> Any:
        functions = lib.nn.functional
        return functions.group_norm(x, 2, w) if name == "group_norm" else getattr(functions, name)(x, (3,), w)

    def squares(x: Any) -> Any:
        of_weight = nt.grad(lambda w: (norm(nt, x, w) * nt.from_numpy(g)).sum())(nt.from_numpy(w))
        return (of_weight**2).sum()

    theirs, weight = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    (inner,) = torch.autograd.grad((norm(torch, theirs, weight) * torch.from_numpy(g)).sum(), weight, create_graph=True)
    (inner**2).sum().backward()
    np.testing.assert_allclose(nt.grad(squares)(nt.from_numpy(x)), theirs.grad, 1e-9, 1e-9)


def test_attention_with_a_soft_cap_and_a_boolean_mask() -> None:
    arrays = np.random.default_rng(0).standard_normal((3, 1, 2, 5, 4), np.float32)
    allowed = np.tri(5, dtype=bool)[None, None]
    leaves = [torch.tensor(each, requires_grad=True) for each in arrays]
    scores = 2 * (leaves[0] @ leaves[1].mT / 4).tanh()
    mixed = scores.masked_fill(~torch.from_numpy(allowed), -torch.inf).softmax(-1) @ leaves[2]
    (mixed**2).sum().backward()

    def loss(*operands: nt.Tensor) -> nt.Tensor:
        return (ops.attention(*operands, nt.from_numpy(allowed), scale=0.5, softcap=2.0) ** 2).sum()

    for own, leaf in zip(nt.grad(loss, (0, 1, 2))(*map(nt.from_numpy, arrays)), leaves, strict=True):
        np.testing.assert_allclose(own.numpy(), leaf.grad.numpy(), 1e-4, 1e-5)
