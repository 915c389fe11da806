"""Gradients of every function made of ops, with the arguments of its cases, against torch.autograd."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from comparison import TORCH_DTYPES, from_torch
from op_examples import Case
from test_functional import CASES, IN_PLACE, identifier, mapped, resolve
from test_pytorch_arguments import VIEWS

import npu_tensor as nt
from npu_tensor.ops import OPS, registry

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")
pytestmark = [
    pytest.mark.once,  # Gradients record ops, which other tests run with every device.
    pytest.mark.usefixtures("less_optimised"),
    pytest.mark.filterwarnings("ignore:(?s).*(deprecated|in beta):UserWarning"),  # of PyTorch
]


def floats_in(value: Any) -> Iterator[Any]:
    """Return the float tensors, of either library, inside arguments or results."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from floats_in(item)
    elif isinstance(value, dict):
        yield from floats_in(list(value.values()))
    elif isinstance(value, (torch.Tensor, nt.Tensor)) and value.dtype.is_floating_point:
        yield value


def filled(value: Any, floats: Iterator[Any], convert: Callable[[Any], Any]) -> Any:
    """Replace the float tensors in the value and convert its other tensors."""
    if isinstance(value, dict):
        return {key: filled(each, floats, convert) for key, each in value.items()}

    def replaced(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return next(floats) if each.dtype.is_floating_point else convert(each)

    return mapped(replaced, value)


SCALED = "PyTorch does not use this scale_factor backward as it does forward"
PYTORCH_DIFFERS = {
    "quantile([3,3] 0.5 1)": "PyTorch gives something to a number in a row with NaN, whose quantile is NaN",
    "nanmean([2,3] 1)": "PyTorch gives NaN to a row without numbers, whose elements change nothing",
    "median([3,3])": "PyTorch lets equal elements share",
    "binary_cross_entropy([3] [3] reduction=none)": "PyTorch divides by 1e-12 where the logarithm is clamped",
    "interpolate([1,1,5] scale_factor=1.1 mode=nearest)": SCALED,
    "interpolate([1,1,5] scale_factor=2.1 mode=nearest)": SCALED,
    "interpolate([1,1,2,2,2] scale_factor=1.4)": SCALED,
    "interpolate([1,1,2,2,2] scale_factor=2.3)": SCALED,
}
"""Cases with other gradients than PyTorch's, and why."""
NO_DERIVATIVE = {
    *("cholesky", "cholesky_inverse", "cholesky_solve", "det", "frexp", "inverse", "logdet", "lu"),
    *("lu_solve", "lu_unpack", "matrix_exp", "triangular_solve"),
    *("matrix_power", "pinverse", "qr", "slogdet", "svd"),
}
"""Functions that raise GradientError, those of docs/gradients.md."""


def is_refused(case: Case) -> bool:
    """Return True if the case raises GradientError."""
    name, arguments, keywords = case
    if name == "index_reduce":
        return arguments[4] != "mean"
    return name in NO_DERIVATIVE or (name == "embedding_bag" and keywords.get("mode") == "max")


def of_logits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert PyTorch's gradient of ctc_loss, which is that of logits: it is right only after log_softmax."""
    return lambda logits, *arguments, **keywords: function(logits.log_softmax(-1), *arguments, **keywords)


def gradients(case: Case, dtype: str) -> list[tuple[nt.Tensor, Any]]:
    """Return our gradients and PyTorch's in float64, for the operands for which PyTorch has one."""
    name, arguments, keywords = case
    ours, theirs = map(of_logits, resolve(name)) if name == "ctc_loss" else resolve(name)
    narrow = [each.to(TORCH_DTYPES[dtype]) for each in floats_in([*arguments, keywords])]

    def pytorch(count: int) -> tuple[list[Any], list[Any]]:
        """Return the first operands as leaves, and the float results."""
        leaves = [each.double().clone().requires_grad_(number < count) for number, each in enumerate(narrow)]
        copies = iter([each.clone() for each in leaves])  # which functions may change in place
        called = theirs(*filled(arguments, copies, torch.clone), **filled(keywords, copies, torch.clone))
        return leaves[:count], list(floats_in([called]))

    try:
        leaves, results = pytorch(len(narrow))
    except RuntimeError:  # "not differentiable with respect to weight"
        leaves, results = pytorch(1)
    numbers = [number for number, each in enumerate(results) if each.requires_grad]
    if not numbers:
        return []
    seeds = [torch.randn(results[number].shape, dtype=torch.float64).to(TORCH_DTYPES[dtype]) for number in numbers]
    wide = [seed.double() for seed in seeds]
    try:
        expected = torch.autograd.grad([results[number] for number in numbers], leaves, wide, allow_unused=True)
    except RuntimeError:  # "derivative is not implemented"
        return []

    def function(*tensors: nt.Tensor) -> list[nt.Tensor]:
        operands = iter([*tensors, *map(from_torch, narrow[len(leaves) :])])
        called = ours(*filled(arguments, operands, from_torch), **filled(keywords, operands, from_torch))
        every = list(floats_in([called]))
        return [every[number] for number in numbers]

    for _ in range(3):  # The last call records the ops of a function that is `templated` by its template.
        _, pull_back = nt.vjp(function, *map(from_torch, narrow[: len(leaves)]))
    exact = [torch.zeros(leaf.shape) if e is None else e.detach() for leaf, e in zip(leaves, expected, strict=True)]
    return list(zip(pull_back(list(map(from_torch, seeds))), exact, strict=True))


def check(case: Case, dtype: str, tolerance: float) -> None:
    torch.manual_seed(0)
    if is_refused(case):
        with pytest.raises(nt.GradientError, match="has no derivative"):
            gradients(case, dtype)
        return
    for actual, exact in gradients(case, dtype):
        assert actual.dtype.name == dtype
        largest = abs(np.nan_to_num(exact.numpy())).max(initial=1)
        np.testing.assert_allclose(actual.double().numpy(), exact.numpy(), tolerance, tolerance * largest)


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_against_pytorch(case: Case) -> None:
    with pytest.raises(AssertionError) if identifier(case) in PYTORCH_DIFFERS else nullcontext():
        check(case, "float64", 1e-9)


def test_where_pytorch_differs() -> None:
    assert not set(PYTORCH_DIFFERS) - set(map(identifier, CASES))


FIRST = list({case[0]: case for case in reversed(CASES)}.values())
DTYPE_TOLERANCES = {"float32": 3e-5, "bfloat16": 0.12}


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, marks=[pytest.mark.slow] if number % 2 == turn else [], id=f"{case[0]}-{dtype}")
        for number, case in enumerate(FIRST)
        for turn, dtype in enumerate(DTYPE_TOLERANCES)
        if (case[0], dtype) not in (("quantile", "bfloat16"), ("nanquantile", "bfloat16"))  # as in PyTorch
    ],
)
def test_dtypes(case: Case, dtype: str) -> None:
    """Test one case of each function, with compiled kernels. Without the slow tests, the dtypes take turns."""
    check(case, dtype, DTYPE_TOLERANCES[dtype])


IDS, ROWS = nt.tensor([[0, 2], [1, 1]]), nt.tensor([[2, 0, 2], [1, 1, 3]])
HEAD, STATE = (3, 1, 2), (1, 1, 2, 2)
GATED = ("reglu", "geglu", "geglu_erf", "geglu_quick", "swiglu")
DIFFERENCES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "acc": (lambda x, y: nt.acc(x, y, (1, 0)), ((3, 4), (2, 2))),
    "add1": (nt.add1, ((3, 4), (1,))),
    "add_id": (lambda x, y: nt.add_id(x, y, IDS), ((2, 2, 3), (3, 3))),
    "add_rel_pos": (nt.add_rel_pos, ((1, 4, 4), (1, 2, 2, 2), (1, 2, 2, 2))),
    "cross_entropy_loss": (nt.cross_entropy_loss, ((3, 4), (3, 4))),
    "diag_mask_inf": (lambda x: nt.diag_mask_inf(x, 1).softmax(-1), ((4, 6),)),
    "diag_mask_zero": (lambda x: nt.diag_mask_zero(x, 1), ((4, 6),)),
    **{name: (getattr(nt, name), ((4, 6),)) for name in GATED},
    "flash_attn_ext": (
        lambda *x: nt.flash_attn_ext(*x, scale=0.5, logit_softcap=2.0), ((1, 2, 3, 4), (1, 1, 5, 4), (1, 1, 5, 2))
    ),
    "gated_delta_net": (nt.gated_delta_net, ((1, 3, 1, 2),) * 3 + ((1, 3, 1, 1),) * 2 + (STATE,)),
    "gated_linear_attn": (nt.gated_linear_attn, (HEAD,) * 4 + (STATE,)),
    "get_rows": (lambda x: nt.get_rows(x, ROWS), ((2, 4, 3),)),
    "get_rel_pos": (lambda x: nt.get_rel_pos(x, 2, 3), ((5, 2),)),
    "im2col": (lambda x: nt.im2col(x, (2, 2), padding=1), ((1, 2, 3, 4),)),
    "mul_mat": (nt.mul_mat, ((2, 3, 5), (4, 6, 5))),
    "mul_mat_id": (lambda a, b: nt.mul_mat_id(a, b, IDS), ((3, 5, 4), (2, 2, 4))),
    "out_prod": (nt.out_prod, ((2, 5, 3), (2, 5, 4))),
    "repeat_as": (lambda x: x.repeat_as(nt.ones(4, 6)), ((2, 2),)),
    "rope": (lambda x: nt.rope(x, nt.arange(3)), ((3, 2, 4),)),
    "rwkv_wkv6": (nt.rwkv_wkv6, (HEAD, HEAD, HEAD, (1, 2), HEAD, STATE)),
    "rwkv_wkv7": (nt.rwkv_wkv7, (HEAD,) * 6 + (STATE,)),
    "set": (lambda x, y: nt.set(x, y, (1, 0)), ((3, 4), (2, 2))),
    "set_rows": (lambda x, y: nt.set_rows(x, y, ROWS[:, 1:]), ((2, 4, 3), (2, 2, 3))),
    "silu_back": (nt.silu_back, ((3, 4), (3, 4))),
    "soft_max_ext": (lambda x, mask, sinks: nt.soft_max_ext(x, mask, 0.5, sinks=sinks), ((2, 3, 4), (3, 4), (2,))),
    "solve_tri": (nt.solve_tri, ((2, 3, 3), (2, 3, 2))),
    "ssm_conv": (nt.ssm_conv, ((1, 3, 6), (3, 4))),
    "ssm_scan": (
        lambda state, x, dt, a, b, c: nt.ssm_scan(state, x, dt, -a.abs(), b, c, nt.tensor([0])),
        ((1, 2, 3, 4), (1, 3, 2, 3), (1, 3, 2), (2, 4), (1, 3, 1, 4), (1, 3, 1, 4)),
    ),
    "sum_rows": (nt.sum_rows, ((3, 4),)),
    "swiglu_oai": (lambda x: nt.swiglu_oai(x, limit=0.9), ((4, 6),)),
    "timestep_embedding": (lambda x: nt.timestep_embedding(x, 4), ((3,),)),
    "win_part": (lambda x: nt.win_part(x, 2), ((3, 5, 2),)),
    "win_unpart": (lambda x: nt.win_unpart(x, 5, 3, 2), ((6, 2, 2, 2),)),
}  # fmt: skip
"""Functions of GGML that PyTorch does not have."""
DIFFERENCES |= {
    **{
        f"{name}_copy": (lambda x, n=name, a=arguments: getattr(nt, f"{n}_copy")(x, *a), ((4, 6),))
        for name, arguments in VIEWS.items()
        if name != "detach"
    },
    "_weight_norm": (nt._weight_norm, ((3, 4), (3, 1))),
    "as_strided": (lambda x: nt.as_strided(x, (3, 3), (1, 2), 1), ((3, 4),)),
    "grouped_mm": (lambda a, b: nt.grouped_mm(a, b, offs=nt.tensor([2, 2, 4])), ((5, 3), (3, 3, 2))),
    "i0": (nt.i0, ((3, 4),)),
    "multi_head_attention_forward": (
        lambda x, w, b, v, c: nt.multi_head_attention_forward(
            x, x, x, 4, 2, w, b, None, None, False, 0.0, v, c, training=False
        )[0],
        ((3, 2, 4), (12, 4), (12,), (4, 4), (4,)),
    ),
    "norm_except_dim": (nt.norm_except_dim, ((3, 4),)),
    "polygamma": (lambda x: nt.polygamma(1, x.abs() + 1), ((3, 4),)),
}

IN_FLOAT32 = {"flash_attn_ext", "soft_max_ext", "timestep_embedding"}
"""Functions that always compute in float32: their differences need a wider step, and are less exact."""


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("name", DIFFERENCES)
def test_against_differences(name: str) -> None:
    """Compare the slope along a random direction with the central difference of float64 values."""
    function, shapes = DIFFERENCES[name]
    rng = np.random.default_rng(0)
    values, direction = ([rng.standard_normal(shape) for shape in shapes] for _ in range(2))

    def total(*operands: nt.Tensor) -> nt.Tensor:
        return sum((each.double().sin().sum() for each in floats_in([function(*operands)])), nt.zeros(()).double())

    def along(step: float) -> float:
        return total(*(nt.from_numpy(x + step * d) for x, d in zip(values, direction, strict=True))).item()

    _, pull_back = nt.vjp(total, *map(nt.from_numpy, values))
    parts = zip(pull_back(nt.tensor(1.0, dtype=nt.float64)), direction, strict=True)
    slope = sum((gradient.numpy() * d).sum() for gradient, d in parts)
    step, tolerance = (1e-2, 1e-3) if name in IN_FLOAT32 else (1e-5, 1e-5)
    assert slope == pytest.approx((along(step) - along(-step)) / (2 * step), rel=tolerance)


NO_FLOATS = {
    *("enable_grad", "finfo", "from_dlpack", "from_numpy", "iinfo", "inference_mode", "is_grad_enabled"),
    *("get_default_dtype", "initial_seed", "is_signed", "no_grad", "seed", "set_default_dtype"),
    *("detach_copy", "set_grad_enabled", "top_k"),
}
"""Functions without float operands, float results or gradients."""
DRAWS = {"bernoulli", "binomial", "feature_alpha_dropout", "gumbel_softmax", "multinomial", "normal", "poisson"}


def test_every_function_has_a_case() -> None:
    """Functions that are ops, and in-place forms, are tested in tests/autograd."""
    compared = {case[0] for case in CASES} | set(DIFFERENCES) | {f"{name}_" for name in IN_PLACE}
    rest = {*registry.functions()} - compared - set(OPS) - NO_DERIVATIVE - DRAWS
    creates = {name for name in rest if "requires_grad" in inspect.signature(getattr(nt, name)).parameters}
    assert rest - creates == NO_FLOATS
