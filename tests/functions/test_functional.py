"""Functions made of several ops, creation and shape functions, against PyTorch's functions of the same names."""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from comparison import TORCH_DTYPES, assert_same, float64_of, from_torch, to_torch
from op_examples import ATTRIBUTES, Case, calls, operands_of
from oracles import covered
from paths import GOLDEN

import npu_tensor as nt
from npu_tensor.ops import OPS, registry

FUNCTIONS = registry.functions()
IN_PLACE = [name for name, entry in registry.PUBLIC.items() if entry.in_place]

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")
# Many kernels run once each. tests/project/test_docs.py runs the example of every function with full optimization.
pytestmark = pytest.mark.usefixtures("less_optimised")
F = torch.nn.functional

RNG = np.random.default_rng(7)


def ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the ranks of the values, which differ in every dtype."""
    return values.flatten().argsort().argsort().reshape(values.shape).to(values.dtype)


def normal(*shape: int) -> Any:
    return torch.from_numpy(np.asarray(RNG.standard_normal(shape), np.float32))


def integers(high: int, *shape: int) -> Any:
    return torch.from_numpy(np.asarray(RNG.integers(0, high, shape)))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply the function to the value, or to the items of a list or tuple."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, item) for item in value)
    return function(value)


def ours_of(value: Any) -> Any:
    """Convert Torch tensors and dtypes inside an argument to ours."""
    return mapped(_ours, value)


def _ours(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return getattr(nt, str(value).removeprefix("torch."))
    return from_torch(value) if isinstance(value, torch.Tensor) else value


def exact_of(value: Any) -> Any:
    return mapped(float64_of, value)


def converted(function: Callable[..., Any], arguments: Any, keywords: Any, convert: Callable[[Any], Any]) -> Any:
    """Call a function with converted arguments."""
    return function(*map(convert, arguments), **{key: convert(value) for key, value in keywords.items()})


def compare(ours: Any, own: Any, exact: Any, what: str) -> None:
    """Compare structure, shape, dtype and values."""
    if isinstance(own, torch.Tensor):
        assert str(ours.dtype).removeprefix("npu_tensor.") == str(own.dtype).removeprefix("torch."), what
        assert_same(ours, exact if own.is_floating_point() else own, 8, 4e-6 if ours.dtype.itemsize >= 4 else 0, what)
    elif isinstance(own, (tuple, list)):
        assert len(ours) == len(own), what
        for part, own_part, exact_part in zip(ours, own, exact, strict=True):
            compare(part, own_part, exact_part, what)
    elif isinstance(own, torch.dtype):
        assert ours is _ours(own), what
    else:
        assert ours == own, what


def resolve(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return (ours, PyTorch's) functions, or methods if the name starts with a dot."""
    if name.startswith("."):
        return getattr(nt.Tensor, name[1:]), getattr(torch.Tensor, name[1:])
    # If both have the name, that of nn.functional has the same arguments as ours.
    return getattr(nt, name), getattr(F if hasattr(F, name) else torch, name)


X = normal(3, 4, 5)
M = normal(4, 6)
V = normal(6)
S = torch.tensor(2.5)
E = normal(2, 0, 3)
I = integers(100, 4, 6)  # noqa: E741
IMAGE = torch.arange(210, dtype=torch.uint8).reshape(1, 5, 6, 7)
NAN = torch.tensor([[1.0, math.nan, -2.0], [math.nan, math.nan, 0.0], [3.0, 3.0, -3.0]])
ENDS = torch.tensor([-math.inf, -1.0, 2.0, math.inf])
SIGNS = torch.tensor([1, -1, -1, 1])
TIES = torch.tensor([[2, 1, 2, 1, 0], [1, 1, 1, 1, 1]])

SQUARE = normal(3, 3) + 2 * torch.eye(3)
LOWER = torch.linalg.cholesky(SQUARE @ SQUARE.mT)
WINDOWS = ("bartlett", "blackman", "hamming", "hann", "kaiser")
KINDS = (None, torch.int16)
ENDPOINTS = ((5,), (2, 7), (2, 9, 3), (9, 2, -2), (0.5, 3), (0, 1, 0.1), (1, 0, -0.25), (3, 3), (0, 2, 0.5), (300,))
PAIRED = (torch.uint8, torch.int64, torch.bool, torch.float16)

# (name, arguments, keywords); the operands are PyTorch tensors here and become ours for our side.
REDUCTIONS = ("add", "multiply")

CASES: list[Case] = [
    # shapes
    *((".reshape", (X, *shape), {}) for shape in ((60,), (-1, 4), (5, 3, 4), (3, 1, -1), ((12, 5),))),
    *calls(".reshape", (S, 1, 1), (E, 0, 7)),
    *calls(".view", (X, 12, 5), (X, {"size": (12, 5)})),
    *((name, (X,), {"shape": (12, -1)}) for name in ("reshape", ".reshape")),
    *((name, (X,), {"dims": [2, 0, 1]}) for name in ("permute", ".permute")),
    *((name, (X,), {"dims": [0, -1]}) for name in ("flip", ".flip")),
    *((name, (X,), {"dims": (2, 1)}) for name in ("tile", ".tile")),
    (".expand", (V,), {"size": (3, 6)}),
    (".repeat", (V,), {"repeats": (2, 3)}),
    (".split", (X,), {"split_size": 2, "dim": 1}),
    ("split", (X,), {"split_size_or_sections": [1, 3], "dim": 1}),
    ("flip", (), {"input": X, "dims": (1,)}),
    ("permute", (), {"input": X, "dims": (1, 0, 2)}),
    *((".permute", (X, *dims), {}) for dims in ((2, 0, 1), (-1, 1, 0), ((1, 2, 0),))),
    *calls("transpose", (X, 0, -1), (S, 0, -1)),
    ("swapaxes", (X, 1, 2), {}),
    *calls("t", (M,), (V,)),
    *calls("movedim", (X, 0, 2), (X, (0, 1), (-1, 0))),
    *calls("squeeze", (normal(1, 3, 1),), (normal(1, 3, 1), 0), (normal(1, 3, 1), 1), (normal(1, 3, 1), (0, -1))),
    *(("unsqueeze", (M, dim), {}) for dim in (0, 1, 2, -1, -3)),
    ("unsqueeze", (S, 0), {}),
    *calls("flatten", (X,), (X, 1), (X, 0, 1), (S,)),
    *calls("unflatten", (M, 1, (2, -1)), (M, -2, (2, 2))),
    *calls(".expand", (normal(1, 4), 3, 4), (normal(1, 4), 2, -1, 4), (S, 2, 3)),
    (".expand_as", (normal(1, 6), M), {}),
    ("broadcast_to", (V, (4, 6)), {}),
    *calls(".repeat", (M, 2, 1), (M, 2, 1, 3), (V, 0), (S, 3)),
    *calls("tile", (M, (2,)), (M, (2, 1, 2))),
    *calls("repeat_interleave", (M, 3), (M, 2, 0), (M, 2, -1)),
    *calls("cat", ([M, M + 1, M[:2]],), ([M, I.float()], 1), ([I, I > 50, M], -1), ([torch.zeros(0), M],)),
    ("concat", ([V, V],), {}),
    *(("stack", ([M, M * 2], dim), {}) for dim in (0, 1, 2, -1)),
    ("stack", ([S, S],), {}),
    *calls("hstack", ([V, V],), ([M, M],), ([S, S],)),
    *calls("vstack", ([V, V],), ([M, M],)),
    *calls("split", (M, 4, 1), (M, [1, 0, 3])),
    *calls("chunk", (M, 4, 1), (V, 4)),
    ("unbind", (X, 1), {}),
    *calls("narrow", (X, 1, 1, 2), (X, -1, -2, 2)),
    ("select", (X, -2, -1), {}),
    *calls("flip", (X, (0, 2)), (X, (-2,)), (E, (0, 1))),
    ("fliplr", (M,), {}),
    ("flipud", (M,), {}),
    *calls("roll", (X, 2), (X, -3, 1), (X, (1, 7), (0, -1))),
    *calls("pad", (X, (1, 2)), (X, (1, 2, 0, 3), {"value": 1.5}), (X, (-1, 2, 1, -2), {"value": 0.5})),
    *(("pad", (X, (2, 1)), {"mode": mode}) for mode in ("reflect", "replicate", "circular")),
    *(("diagonal", (X, offset, 0, 2), {}) for offset in (0, 1, -2, 9)),
    *(("diag", (V, offset), {}) for offset in (0, 2, -3)),
    *(("diag", (M, offset), {}) for offset in (0, 2, -3)),
    *((name, (M, k), {}) for name in ("tril", "triu") for k in (0, 1, -2, 9)),
    ("tril", (X,), {}),
    # selection
    *calls("where", (M > 0, M, -1.5), (M > 0, I, M), (V > 0, M, S), (M > 0, 1, 2)),
    *calls("masked_fill", (M, M > 0, -math.inf), (I, V > 0, 7)),
    ("masked_select", (M, V > 0), {}),
    *calls("gather", (M, 0, integers(4, 3, 6)), (M, 1, integers(6, 2, 9)), (S, 0, torch.tensor(0))),
    *calls("index_select", (X, 1, torch.tensor([3, 0, 0])), (X, -1, torch.tensor([], dtype=torch.int64))),
    *calls("take_along_dim", (M, integers(6, 1, 3), 1), (M, integers(24, 5))),
    ("index_fill", (M, 1, torch.tensor([0, 4]), -1.0), {}),
    ("scatter", (M, 1, torch.tensor([[0, 3], [5, 1]]), normal(2, 2)), {}),
    ("scatter", (M, 0, torch.tensor([[0, 3], [1, 1]]), 2.0), {}),
    ("scatter", (I, 0, torch.tensor([[0, 3], [1, 1]])), {"value": 2.5}),
    *(("scatter", (I, 0, torch.tensor([[0, 3], [1, 1]])), {"value": -3, "reduce": r}) for r in REDUCTIONS),
    *calls("scatter", (S, 0, torch.tensor(0), torch.tensor(2.5))),
    *calls("scatter", (S, 0, torch.tensor([0]), 2.5, {"reduce": "multiply"}), (V, 0, torch.tensor(1), {"value": 2.5})),
    ("scatter_add", (S, -1, torch.tensor([0, 0]), normal(2)), {}),
    ("index_add", (S, 0, torch.tensor([0]), normal()), {}),
    ("index_copy", (S, 0, torch.tensor(0), torch.tensor(2.5)), {}),
    ("index_fill", (S, 0, torch.tensor([0]), 2.5), {}),
    *((f"index_{name}", (M, 1, torch.tensor([5, 0, 3]), normal(4, 3)), {}) for name in ("add", "copy")),
    ("index_add", (X, 0, torch.tensor([2, 0, 2, 2]), normal(4, 4, 5)), {"alpha": 2}),
    ("index_add", (I, -1, torch.tensor([1, 1]), integers(9, 4, 2)), {"alpha": 3}),
    ("index_put", (M, (torch.tensor([2, 0, 2, 3]),), V), {"accumulate": True}),
    ("index_put", (M, (torch.tensor([2, 0, 2]), torch.tensor([-1, 4, 5])), normal(3)), {}),
    ("index_put", (M, (torch.tensor([2, 0, 2]), torch.tensor([5, 4, 5])), torch.tensor(1.5)), {"accumulate": True}),
    ("index_put", (M, (M > 0,), torch.tensor(1.5)), {"accumulate": True}),
    ("scatter_add", (M, 1, torch.tensor([[0, 0, 3], [5, 1, 5]]), normal(3, 4)), {}),
    ("scatter_add", (I, 0, integers(4, 9, 6), integers(50, 9, 6)), {}),
    ("masked_scatter", (M, V > 0, normal(5, 6)), {}),
    *(("unique", (x,), {"return_inverse": True, "return_counts": True}) for x in (TIES, I, TIES > 1, TIES.float())),
    ("unique", (TIES,), {}),
    ("unique", (torch.tensor([[1, 2], [0, 5], [1, 2]]),), {"dim": 0, "return_inverse": True, "return_counts": True}),
    ("unique", (torch.tensor([1.0, math.nan, math.nan, 1.0]),), {"return_counts": True}),
    *(("isin", (TIES, x), {"invert": invert}) for x in (torch.tensor([2, 7]), 1) for invert in (False, True)),
    ("isin", (M, torch.zeros(0)), {}),
    *(("isin", (x, integers(100, 60)), {}) for x in (TIES, M, TIES.int(), 7)),
    *(
        ("isin", (torch.tensor([0.5, math.nan, -0.0, 9.0, -9.0]), torch.tensor(x)), {})
        for x in ([0.5, math.nan] * 20, [0.0, 9.0] * 20, [-9.0, 0.1] * 20)
    ),
    ("bincount", (torch.tensor([3, 0, 3, 1]),), {}),
    ("bincount", (torch.tensor([3, 0, 3, 1], dtype=torch.int8), normal(4)), {"minlength": 6}),
    ("bincount", (torch.tensor([3, 0, 3, 1]), torch.tensor([1, 2, 3, 4])), {}),
    ("bincount", (torch.zeros(0, dtype=torch.int64),), {"minlength": 2}),
    *(("searchsorted", (torch.tensor([-1, 0, 0, 2]), x), {"right": r}) for x in (TIES, 0, M) for r in (False, True)),
    *(("searchsorted", (ENDS, torch.cat([NAN.flatten(), ENDS])), {"right": right}) for right in (False, True)),
    ("searchsorted", (M.sort(-1).values, normal(4, 2)), {"out_int32": True}),
    ("bucketize", (M, torch.tensor([-0.5, 0.0, 1.0])), {"right": True}),
    *calls("meshgrid", (V, V[:3], {"indexing": "ij"}), (V, V[:3], S, {"indexing": "xy"})),
    *calls("cartesian_prod", (torch.arange(3), torch.tensor([5, 7]), torch.arange(2)), (V,)),
    *((name, (3, 4, offset), {}) for name in ("tril_indices", "triu_indices") for offset in (0, 1, -2)),
    *calls("kron", (M, normal(2, 3)), (X, V)),
    *calls("inner", (X, M[:2, :5]), (V, V), (V, S)),
    *(("cdist", (X, normal(6, 5), p), {}) for p in (2.0, 1.0, math.inf)),
    *(("cdist", (torch.zeros(2, 0), torch.zeros(3, 0), p), {}) for p in (2.0, math.inf, 3.0)),
    *(("diff", (x,), {}) for x in (V, I, M > 0)),
    *(("diff", (X,), {"n": n, "dim": 1}) for n in (0, 2, 9)),
    *(("quantile", (M, q, dim), {}) for q in (0.3, torch.tensor([0.0, 0.25, 1.0])) for dim in (None, 0, -1)),
    *(
        ("quantile", (normal(7, 6), 0.4), {"dim": 0, "keepdim": True, "interpolation": name})
        for name in ("linear", "lower", "higher", "nearest", "midpoint")
    ),
    ("quantile", (NAN, 0.5, 1), {}),
    *(("nanquantile", (NAN, q, dim), {}) for q in (0.4, torch.tensor([0.1, 1.0])) for dim in (None, 1)),
    ("nanquantile", (NAN, 0.3, 0, True), {"interpolation": "higher"}),
    *((name, (M, 3, 1), {}) for name in ("unsafe_chunk", "unsafe_split")),
    *((f"upsample_{kind}", (normal(1, 2, 3, 4),), {"scale_factor": 2}) for kind in ("bilinear", "nearest")),
    *(
        ("quantile", (ENDS, torch.tensor([0.0, 0.3, 0.5, 0.9, 1.0])), {"interpolation": name})
        for name in ("lower", "higher", "nearest")
    ),
    ("quantile", (M, torch.tensor([0.5, 0.1])), {"keepdim": True}),
    *(("smooth_l1_loss", (M, V.expand(4, 6)), {"beta": 0.5, "reduction": r}) for r in ("mean", "sum", "none")),
    *calls("huber_loss", (M, V.expand(4, 6), {"delta": 0.5}), (M.bfloat16(), V.expand(4, 6))),
    *calls("huber_loss", (M.bfloat16(), V.expand(4, 6), {"reduction": "none"})),
    ("smooth_l1_loss", (M, V.expand(4, 6)), {"beta": 0}),
    ("binary_cross_entropy", (torch.sigmoid(M), torch.sigmoid(normal(4, 6)), V.abs()), {}),
    ("binary_cross_entropy", (torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1.0, 1.0, 0.0])), {"reduction": "none"}),
    ("binary_cross_entropy_with_logits", (M * 60, torch.sigmoid(normal(4, 6))), {"pos_weight": V.abs()}),
    ("binary_cross_entropy_with_logits", (M, (M > 0.3).float(), V.abs()), {"reduction": "sum"}),
    *(
        ("kl_div", (torch.log_softmax(M, 1), torch.softmax(normal(4, 6), 1)), {"reduction": r})
        for r in ("batchmean", "sum", "none")
    ),
    ("kl_div", (torch.log_softmax(M, 1), torch.log_softmax(normal(4, 6), 1)), {"reduction": "sum", "log_target": True}),
    *calls("trace", (M,), (I,)),
    *((name, (NAN, *dim), {}) for name in ("nansum", "nanmean") for dim in ((), (0,), (1, True))),
    ("nanmean", (torch.full((2, 3), math.nan), 1), {}),
    ("nansum", (I, 0), {}),
    *(("sort", (x, dim, d), {}) for x in (M, NAN) for dim in (0, -1) for d in (False, True)),
    ("sort", (S,), {}),
    *(("argsort", (TIES,), {"dim": dim, "stable": True, "descending": d}) for dim in (0, 1) for d in (False, True)),
    *(("topk", (M, 2, dim), {"largest": largest}) for dim in (0, -1) for largest in (True, False)),
    ("topk", (M, 0), {}),
    *calls("nonzero", (M > 0,), (S,)),
    ("argwhere", (I > 50,), {}),
    # reductions
    *((name, (x,), {}) for name in ("max", "min", "median") for x in (X, NAN, I, S)),
    *((name, (x, dim), {}) for name in ("max", "min") for x in (M, NAN, TIES) for dim in (0, -1)),
    *((name, (M, 1, True), {}) for name in ("max", "min", "median")),
    ("median", (normal(5, 7), 0), {}),
    *calls("max", (S, 0), (M, V)),
    ("min", (I, torch.tensor(50)), {}),
    *calls("aminmax", (M, {"dim": 1}), (M,)),
    *calls("count_nonzero", (M > 0, 1), (I,)),
    *((name, (X,), {}) for name in ("var_mean", "std_mean")),
    ("var_mean", (X, (0, 2)), {"correction": 0, "keepdim": True}),
    *calls("var", (X, 1, False), (X, False)),
    ("std", (X, 1, True, True), {}),
    *(("norm", (X, p), {}) for p in (2, 1, 3, 0, math.inf, -math.inf, "fro")),
    *calls("norm", (X, 2, 1), (X, 2, (0, 2), True)),
    # products
    *calls("matmul", (V, V), (M, V), (normal(4), M), (M, normal(6, 3)), (X, normal(5, 2)), (X, normal(3, 5, 2))),
    *calls("matmul", (normal(2, 1, 4, 5), X.transpose(1, 2)), (X, normal(5)), (normal(4), X)),
    *calls("matmul", (normal(2, 0), normal(0, 3)), (normal(0, 4), M), (I, I.t()), (M, M.t())),
    ("mm", (M, M.t()), {}),
    ("bmm", (X, X.transpose(1, 2)), {}),
    ("mv", (M, V), {}),
    ("dot", (V, V), {}),
    ("outer", (V, normal(3)), {}),
    *calls("linear", (M, normal(3, 6), normal(3)), (X, normal(2, 5)), (V, normal(3, 6), normal(3))),
    ("addmm", (normal(3), M, normal(6, 3)), {"beta": 0.5, "alpha": 2}),
    ("addmm", (normal(4, 3), M, normal(6, 3)), {"alpha": 2}),
    ("addmm", (torch.full((3,), math.nan), M, normal(6, 3)), {"beta": 0}),
    ("baddbmm", (normal(3, 4, 4), X, X.transpose(1, 2)), {}),
    ("addmv", (normal(4), M, V), {"alpha": 3}),
    ("addcmul", (M, M, V), {"value": 0.5}),
    ("addcdiv", (M, M, V), {"value": 0.5}),
    *(
        ("einsum", (equation, *operands), {})
        for equation, operands in {
            "ij,jk->ik": (M, normal(6, 3)),
            "ij->ji": (M,),
            "ii->i": (normal(4, 4),),
            "ii": (normal(4, 4),),
            "ijij->ji": (normal(2, 3, 2, 3),),
            "iii->i": (normal(3, 3, 3),),
            "b...ii->...b": (normal(2, 3, 4, 4),),
            "ii,ij->j": (normal(4, 4), M),
            "ij,jj": (normal(3, 4), normal(4, 4)),
            "ij->": (M,),
            "bij,bjk->bik": (X, normal(3, 5, 2)),
            "i,j->ij": (V, normal(3)),
            "bhqd,bhkd->bhqk": (normal(2, 3, 4, 5), normal(2, 3, 6, 5)),
            "...ij,...jk->...ik": (X, normal(5, 2)),
            "b...d,d->b...": (X, normal(5)),
            "ij,jk,kl->il": (M, normal(6, 3), normal(3, 2)),
            "ab,cb,c -> ca": (M, normal(3, 6), normal(3)),
            "ij,jk->k": (M, normal(6, 3)),
        }.items()
    ),
    # other names
    *((name, (M, V), {}) for name in ("true_divide", "divide", "multiply", "subtract", "not_equal")),
    *((name, (M, V), {}) for name in ("greater", "greater_equal", "less", "less_equal")),
    *((name, (M,), {}) for name in ("negative", "absolute", "clone", "ravel")),
    *((name, (X, 0, 2), {}) for name in ("swapdims", "moveaxis")),
    *((f"arc{name}", (torch.sin(M),), {}) for name in ("sin", "cos", "tan", "sinh", "tanh")),
    ("arccosh", (M.abs() + 1,), {}),
    ("arctan2", (M, V), {}),
    *calls("nan_to_num", (torch.tensor([math.nan, math.inf, -math.inf, 1.5]), 2.0, 7.0, -3), (I,)),
    ("concatenate", ([M, M], 1), {}),
    ("broadcast_tensors", (M, V), {}),
    ("vdot", (V, V), {}),
    (".view_as", (M, normal(8, 3)), {}),
    (".reshape_as", (M, normal(8, 3)), {}),
    # powers and limits
    *(("pow", (M.abs(), e), {}) for e in (2, 3, 0.5, -1, -0.5, 2.5, 0, 1, -2)),
    *(("pow", (I, e), {}) for e in (0, 1, 2, 3, 5, 0.5)),
    *calls("pow", (2, I % 7), (2.0, I % 7), (2.5, M)),
    *calls("pow", (torch.tensor([-2, -1, 1, 2, 3]), torch.tensor([-1, -3, -2, -1, 0]))),
    *calls("clamp", (M, V, None), (M, {"max": V}), (M, -V.abs(), V.abs()), (I, 10.5)),
    ("clip", (M, -0.5, 0.5), {}),
    ("clamp_min", (M, 0.25), {}),
    ("clamp_max", (NAN, 0.25), {}),
    *(("div", (I, 7), {"rounding_mode": mode}) for mode in (None, "floor", "trunc")),
    *(("div", (-I, 7), {"rounding_mode": mode}) for mode in ("floor", "trunc")),
    *(("div", (M, 0.3), {"rounding_mode": mode}) for mode in ("floor", "trunc")),
    *calls("round", (M * 100, {"decimals": 1}), (M * 100, {"decimals": -1})),
    ("rsub", (M, 2.0), {"alpha": 3}),
    *calls("isclose", (M, M + 1e-7), (NAN, NAN, {"equal_nan": True})),
    ("allclose", (M, M + 1e-7), {}),
    *calls("equal", (M, M + 1e-3), (M, V)),
    # neural networks
    *calls("layer_norm", (X, (5,)), (X, (4, 5), normal(4, 5), normal(4, 5), {"eps": 1e-3})),
    *calls("rms_norm", (X, (5,)), (X, (5,), normal(5), {"eps": 1e-3})),
    *calls("group_norm", (normal(2, 6, 5), 3), (normal(2, 6, 5, 2), 2, normal(6), normal(6))),
    *calls("batch_norm", (X, normal(4), normal(4).abs(), normal(4), normal(4)), (X, None, None, {"training": True})),
    *calls("normalize", (X,), (X, {"p": 1, "dim": -1})),
    *calls("gelu", (M,), (M, {"approximate": "tanh"})),
    *calls("glu", (M,), (M, 0)),
    ("softmin", (M, 1), {}),
    *((name, (X,), {"training": False}) for name in ("dropout", "dropout1d")),
    ("dropout2d", (normal(2, 3, 4, 5),), {"training": False}),
    *calls("prelu", (X, normal(4)), (M, normal(1))),
    *(("cosine_embedding_loss", (M, V.expand(4, 6), SIGNS), {"margin": 0.1, "reduction": r}) for r in ("mean", "none")),
    *(("mse_loss", (M, V.expand(4, 6)), {"reduction": r}) for r in ("mean", "sum", "none")),
    *(("l1_loss", (M, V.expand(4, 6)), {"reduction": r}) for r in ("mean", "sum", "none")),
    *(("cross_entropy", (M, torch.tensor([0, 5, -100, 2])), {"reduction": r}) for r in ("mean", "sum", "none")),
    *calls("cross_entropy", (M, torch.tensor([0, 5, 1, 2]), normal(6).abs(), {"label_smoothing": 0.1})),
    *calls("cross_entropy", (M, torch.tensor([0, 5, 1, 2]), {"ignore_index": 5, "label_smoothing": 0.2})),
    *calls("cross_entropy", (M, torch.softmax(normal(4, 6), 1))),
    *calls("cross_entropy", (M, torch.softmax(normal(4, 6), 1), normal(6).abs(), {"label_smoothing": 0.1})),
    *calls("cross_entropy", (normal(2, 5, 3), integers(5, 2, 3)), (V, torch.tensor(3))),
    ("nll_loss", (torch.log_softmax(M, 1), torch.tensor([0, 5, 1, 2])), {}),
    ("nll_loss", (torch.log_softmax(M, 1), torch.tensor([0, 5, 1, 2]), normal(6).abs()), {"ignore_index": 1}),
    ("conv2d", (normal(2, 4, 9, 8), normal(6, 2, 3, 2), normal(6)), {"groups": 2, "stride": (3, 1), "padding": (0, 2)}),
    ("conv2d", (normal(2, 4, 9, 8), normal(6, 4, 3, 2)), {"padding": "same", "dilation": 2}),
    ("conv2d", (normal(3, 5, 5), normal(2, 3, 1, 1), normal(2)), {}),
    ("conv2d", (normal(1, 3, 5, 5), normal(3, 1, 3, 3)), {"groups": 3, "padding": 2}),
    ("conv2d", (normal(2, 3, 5, 5), normal(2, 3, 5, 5)), {}),
    ("conv1d", (normal(2, 4, 9), normal(6, 4, 3), normal(6)), {"stride": 2, "padding": 1}),
    ("conv1d", (normal(4, 9), normal(6, 2, 4)), {"groups": 2, "padding": "same", "dilation": 2}),
    *calls("conv_transpose1d", (normal(2, 4, 5), normal(4, 3, 3), normal(3), {"stride": 2, "output_padding": 1})),
    *calls("conv_transpose1d", (normal(4, 5), normal(4, 1, 2), {"groups": 2, "stride": 3, "padding": 1})),
    *calls(
        "conv_transpose2d",
        (normal(2, 4, 5, 3), normal(4, 3, 3, 2), normal(3)),
        (normal(1, 4, 5, 6), normal(4, 2, 4, 4), {"stride": 2, "padding": 1}),
        (normal(4, 5, 6), normal(4, 1, 3, 2), normal(4), {"groups": 4, "stride": (3, 1), "padding": 2}),
        (normal(2, 4, 5, 6), normal(4, 2, 2, 3), {"groups": 2, "dilation": (3, 2), "stride": 2, "output_padding": 1}),
    ),
    ("unfold", (normal(2, 3, 7, 6), (2, 3)), {"stride": (2, 1), "padding": 1, "dilation": (1, 2)}),
    ("unfold", (normal(3, 4, 4), 2), {}),
    *(
        (name, (x, 3), {"ceil_mode": ceil_mode, **keywords})
        for name, x in (("max_pool2d", normal(2, 3, 8, 10)), ("avg_pool2d", normal(3, 8, 10)))
        for ceil_mode in (False, True)
        for keywords in ({}, {"stride": 2, "padding": 1}, {"stride": (4, 1), "padding": (0, 1)}, {"stride": 5})
    ),
    *calls("max_pool2d", (normal(1, 2, 9, 9), (2, 3), {"stride": 1, "dilation": (3, 2), "padding": 1})),
    *calls("max_pool2d", (integers(100, 1, 2, 6, 6) - 50, 3, {"padding": 1}), (NAN.reshape(1, 3, 3), 2, {"stride": 1})),
    ("avg_pool2d", (normal(2, 3, 7, 7), 3), {"stride": 2, "padding": 1, "count_include_pad": False}),
    ("avg_pool2d", (normal(2, 3, 7, 7), 3), {"stride": 2, "divisor_override": 5}),
    *(("avg_pool2d", (normal(2, 3, 7, 7), 3), {"stride": stride}) for stride in ([], np.int64(2))),
    ("max_pool1d", (normal(2, 3, 10), 3), {"stride": 2, "padding": 1}),
    ("avg_pool1d", (normal(2, 3, 10), 3), {"stride": 2, "padding": 1, "ceil_mode": True}),
    ("avg_pool1d", (normal(3, 10), 4), {"padding": 2, "count_include_pad": False}),
    # Windows of all lengths, overlapping or not, also at the ends.
    *(
        (name, (normal(2, 70), size, step), {"padding": size // 2, "ceil_mode": ceil})
        for name in ("max_pool1d", "avg_pool1d")
        for size, step in ((7, 3), (8, 8), (9, 9), (12, 1), (24, 2), (25, 1), (25, 2), (30, 7), (70, 70))
        for ceil in (False, True)
    ),
    ("avg_pool2d", (normal(2, 3, 40, 37), (30, 9), (3, 4)), {"padding": (15, 2), "count_include_pad": False}),
    ("avg_pool2d", (normal(3, 40, 37), (3, 26), (1, 5)), {"divisor_override": 7, "ceil_mode": True}),
    ("max_pool2d", (normal(3, 60, 61), (27, 9), (1, 3)), {"dilation": (2, 6), "padding": (13, 4)}),
    ("max_pool2d", (integers(100, 1, 2, 30, 30) - 50, (28, 9), (2, 3)), {"padding": (1, 4)}),
    ("max_pool2d", (NAN.reshape(1, 3, 3).repeat(2, 14, 10), (26, 9), (3, 4)), {}),
    *(("adaptive_avg_pool1d", (normal(2, 3, 7), size), {}) for size in (1, 3, (5,), 9)),
    *(("adaptive_avg_pool2d", (normal(2, 3, 7, 9), size), {}) for size in (1, 3, (5, None), (7, 4), (10, 12))),
    *(
        ("interpolate", (normal(2, 3, 5, 4),), keywords)
        for keywords in (
            {"scale_factor": 2},
            {"size": (8, 3)},
            {"scale_factor": (1.5, 0.7)},
            {"size": 7, "mode": "bilinear"},
            {"scale_factor": 2.0, "mode": "bilinear", "align_corners": True},
            {"scale_factor": 0.6, "mode": "bilinear"},
            *({"scale_factor": f, "mode": mode} for f in (1.15, (1.2, 1.5), 2.1) for mode in ("nearest", "bilinear")),
        )
    ),
    *(
        ("interpolate", (torch.arange(5.0).reshape(1, 1, 5),), {"scale_factor": factor, "mode": mode})
        for factor in (1.1, 2.1)
        for mode in ("nearest", "linear")
    ),
    *(("interpolate", (torch.arange(8.0).reshape(1, 1, 2, 2, 2),), {"scale_factor": f}) for f in (1.4, 2.3)),
    ("interpolate", (normal(2, 3, 5),), {"size": 9, "mode": "linear"}),
    ("interpolate", (normal(2, 3, 5),), {"size": 1, "mode": "linear", "align_corners": True}),
    ("pixel_shuffle", (normal(2, 12, 3, 4), 2), {}),
    ("pixel_unshuffle", (normal(3, 6, 9), 3), {}),
    ("embedding", (integers(4, 2, 3), M), {}),
    *calls("one_hot", (torch.tensor([[0, 2], [1, 1]]),), (torch.tensor([0, 2]), 5)),
    ("cosine_similarity", (M, V), {}),
    ("scaled_dot_product_attention", (normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 5)), {}),
    ("scaled_dot_product_attention", (normal(4, 8), normal(4, 8), normal(4, 8)), {"is_causal": True, "scale": 0.5}),
    ("scaled_dot_product_attention", (torch.zeros(2, 0), torch.zeros(3, 0), normal(3, 4)), {}),
    ("scaled_dot_product_attention", (normal(2, 4, 8), normal(2, 6, 8), normal(2, 6, 8), normal(4, 6)), {}),
    (
        "scaled_dot_product_attention",
        (
            normal(2, 4, 8),
            normal(2, 6, 8),
            normal(2, 6, 8),
            torch.arange(24).reshape(4, 6) % 5 > torch.arange(4)[:, None],
        ),
        {},
    ),
    (
        "scaled_dot_product_attention",
        (normal(1, 2, 2, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8), torch.tensor([[True, False, True], [False] * 3])),
        {},
    ),
    (
        "scaled_dot_product_attention",
        (normal(1, 4, 3, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8)),
        {"enable_gqa": True, "is_causal": True},
    ),
    # stacks, splits, diagonals and parts
    *((f"atleast_{n}d", (x,), {}) for n in (1, 2, 3) for x in (S, V, M, X)),
    ("atleast_2d", (S, V), {}),
    *calls("column_stack", ([V, V],), ([M, M[:, :2]],)),
    *calls("dstack", ([V, V],), ([M, M],), ([S, S],)),
    *calls("row_stack", ([V, V],)),
    *calls("tensor_split", (X, 3), (X, (1, 3), 1), (V, [2, 2, 9, -1])),
    *calls("hsplit", (V, 3), (M, [1, 4])),
    ("vsplit", (M, 2), {}),
    ("dsplit", (normal(2, 2, 4), [1]), {}),
    *calls("split_with_sizes", (M, [1, 3]), (M, [2, 4], 1)),
    *calls("diag_embed", (M,), (M, 2), (X, -1, 0, 2), (E,)),
    *calls("diagflat", (M,), (V, -2)),
    *calls("block_diag", (M, V, S), (S.half(), V.bfloat16()), (S, torch.arange(3)), (S.double(), V.half())),
    *calls("vander", (V,), (V, 3, {"increasing": True})),
    *(("vander", (torch.tensor([20, 200, 3]).to(dtype),), {}) for dtype in (torch.uint8, torch.int32)),
    *(("rot90", (X, k), {"dims": (0, 2)}) for k in (-1, 0, 1, 2, 3)),
    *calls("combinations", (V,), (V, 3, {"with_replacement": True}), (V, 7), (V, 0)),
    ("broadcast_shapes", ((3, 1), (1, 4), 4), {}),
    *calls("select_scatter", (M, normal(4), 1, -2)),
    *calls("slice_scatter", (M, normal(4, 2), 1, 1, 5, 2), (M, normal(1, 6), {"start": -1})),
    *calls("diagonal_scatter", (M, normal(4)), (M, normal(3), -1)),
    *calls("take", (M, integers(24, 2, 3) - 24), (S, torch.tensor([0]))),
    *calls("put", (M, torch.tensor([[1, 23, -1]]), normal(1, 3)), (M, torch.tensor([3, 3]), normal(2), True)),
    ("unravel_index", (integers(24, 5), (4, 6)), {}),
    *(("nonzero_static", (M > 0,), {"size": size, "fill_value": 7}) for size in (2, 30)),
    ("constant_pad_nd", (M, (1, 2), 3.0), {}),
    *calls(".sum_to_size", (X, 4, 1), (X, (3, 1, 5)), (X, 1, 4, 5)),
    *calls("is_same_size", (M, M + 1), (M, V)),
    *calls(".unfold", (X, 1, 2, 1), (V, 0, 4, 2), (V, 0, 6, 1), (V, 0, 0, 2)),
    # statistics
    *calls("cov", (M,), (V,), (M, {"correction": 0}), (I, {"fweights": integers(4, 6) + 1})),
    *calls("cov", (M, {"fweights": integers(4, 6) + 1, "aweights": V.abs()}), (M, {"aweights": V.abs()})),
    *calls("corrcoef", (M,), (V,), (M[:1],)),
    *calls("cov", (M.to(torch.bfloat16), {"aweights": V.abs()})),
    *calls("diff", (M, 0, 1, M, M)),
    *calls("interpolate", (IMAGE, (5, 9), {"mode": "bicubic"}), (IMAGE, (3, 8), {"mode": "bilinear"})),
    *calls("cov", (M[:1],), (M[:1], {"correction": 0})),
    *calls("dist", (M, V), (M, M + 1, 1)),
    *calls("renorm", (M, 2, 0, 1.5), (X, 1, 2, 2.0)),
    *calls("histc", (M, 5), (NAN, 4, -2, 3), (torch.full((3,), 2.0), 4), (torch.zeros(0), 3)),
    *calls("histogram", (M, 5), (M, torch.tensor([-1.0, 0.0, 0.5, 9.0])), (M, 4, {"density": True, "range": (-1, 2)})),
    ("histogram", (M, 3), {"weight": M.abs()}),
    *((name, (M, *a), {}) for name, *a in (("kthvalue", 2), ("kthvalue", 1, 0, True), ("cummax", 0), ("cummin", -1))),
    *((name, (x, 1), {}) for name in ("cummax", "cummin") for x in (NAN, TIES, E)),
    *((name, (S, dim), {}) for name in ("cummax", "kthvalue") for dim in (0,) if name == "cummax"),
    *calls("mode", (TIES,), (I, 0), (TIES, {"keepdim": True})),
    *calls("nanmedian", (NAN,), (NAN, 1), (NAN, 0, True), (V,)),
    ("msort", (M,), {}),
    *calls("unique_consecutive", (TIES,), (TIES.sort().values, True, True), (torch.zeros(0),)),
    ("unique_consecutive", (torch.tensor([[1, 2], [1, 2], [0, 5]]),), {"dim": 0, "return_counts": True}),
    *((name, (X,), {"dx": 0.5, "dim": 1}) for name in ("trapezoid", "cumulative_trapezoid", "trapz")),
    *calls("trapezoid", (M, V), (X, normal(4, 5), {"dim": 1})),
    *(("gradient", (X,), {"edge_order": order}) for order in (1, 2)),
    *(("gradient", (M,), {"spacing": (V.abs().cumsum(0),), "dim": 1, "edge_order": order}) for order in (1, 2)),
    *calls("gradient", (M, {"spacing": 0.5, "dim": (1, 0)}), (M.double(), {"spacing": 0.1})),
    *((f"{name}_window", (length,), {}) for name in WINDOWS for length in (0, 1, 7)),
    *((f"{name}_window", (8, False), {"dtype": torch.float64}) for name in WINDOWS),
    *calls("hamming_window", (9, True, 0.3, 0.7)),
    # numbers
    *(
        (name, shape, {"dtype": dtype})
        for name in ("zeros", "ones")
        for shape in (((),), (2, 3), ((0, 3),))
        for dtype in KINDS
    ),
    *(("full", ((2, 3), value), {}) for value in (2.5, 3, True, math.nan)),
    *calls("eye", (3,), (2, 4, {"dtype": torch.int32})),
    *((f"{name}_like", (I.to(torch.int8),), {}) for name in ("zeros", "ones")),
    ("full_like", (I.to(torch.int8), 7), {}),
    *(("tensor", (data,), {}) for data in (1, 2.5, True, [1, 2], [1, 2.5], [True, 2], [[1.0], [2.0]], [], [[]])),
    *(("arange", ends, {"dtype": dtype}) for ends in ENDPOINTS for dtype in (None, torch.float64, torch.bfloat16)),
    *(("arange", ends, {"dtype": torch.int8}) for ends in ((5,), (2, 9, 3), (9, 2, -2), (0.5, 3), (3, 3))),
    *calls("linspace", (0, 1, 5), (-1, 1, 2), (3, 3, 4), (0, 10, 1), (0, 1, 0), (1, -7, 100)),
    *calls("linspace", (4.3, 50, 50, {"dtype": torch.int64}), (1.7, 99.9, 7, {"dtype": torch.uint8})),
    *(
        (name, (x,), {})
        for name in ("numel", "is_tensor", ".stride", ".is_contiguous")
        for x in (X, V, S, torch.zeros(2, 0, 4))
    ),
    *((name, (I.to(torch.uint8), *dim), {}) for name in ("any", "all") for dim in ((), (0,), (1, True))),
    *calls("logspace", (-1, 2, 5), (0, 3, 4, 2.0), (-1.7, 2.9, 4, 2.0, {"dtype": torch.int64})),
    *calls("range", (1, 4), (0.0, 1.0, 0.25)),
    *calls("scalar_tensor", (3,)),
    *calls("asarray", ([1, 2],)),
    *((name, (torch.int8, other), {}) for name in ("promote_types", "can_cast") for other in PAIRED),
    *calls("result_type", (M, 1), (I, 2.5), (I, S)),
    *calls("is_nonzero", (S,), (S * 0,)),
    *((name, (x,), {}) for name in ("is_floating_point", ".is_signed") for x in (M, I, M > 0)),
    *calls("positive", (M,)),
    *((name, (I, integers(100, 6)), {}) for name in ("gcd", "lcm")),
    *((name, (x, dim), {}) for name in ("cumsum", "cumprod", "logcumsumexp") for x in (M, NAN, E) for dim in (0, -1)),
    ("logcumsumexp", (ENDS * 200, 0), {}),
    ("fix", (M * 3,), {}),
    (".ndimension", (M,), {}),
    *calls("float_power", (I, 2), (M.abs(), V), (2, M)),
    *calls("frexp", (M * 1000,), (M.bfloat16(),), (torch.tensor([0.0, -0.0, 0.5]),)),
    *calls("mvlgamma", (M.abs() + 2, 3)),
    *calls("detach", (M,)),
    # products
    *calls("ger", (V, normal(3))),
    *calls("addbmm", (normal(4, 4), X, X.transpose(1, 2), {"beta": 0.5})),
    *calls("addr", (normal(6, 3), V, normal(3), {"alpha": 2})),
    *calls("bilinear", (normal(4, 3), normal(4, 5), normal(2, 3, 5), normal(2))),
    *calls("tensordot", (X, normal(4, 5, 2)), (X, normal(5, 3, 2), ([2, 0], [0, 1])), (V, V, 0)),
    *calls("cross", (normal(4, 3), normal(4, 3)), (normal(3, 4), normal(3, 1), 0)),
    *(("pdist", (M, p), {}) for p in (2.0, 1.0, math.inf)),
    *calls("pairwise_distance", (M, V), (M, M + 1, {"p": 1, "keepdim": True})),
    *calls("det", (SQUARE,)),
    *((name, (SQUARE,), {}) for name in ("slogdet", "logdet", "inverse", "matrix_exp")),
    *(("matrix_power", (SQUARE, n), {}) for n in (0, 3, -2)),
    *calls("pinverse", (M,)),
    *calls("lu", (SQUARE,), (SQUARE, True, True)),
    ("lu_solve", (normal(3, 2), *torch.linalg.lu_factor(SQUARE)), {}),
    ("lu_unpack", torch.linalg.lu_factor(SQUARE), {}),
    *(("triangular_solve", (normal(3, 2), SQUARE, *flags), {}) for flags in ((), (False,), (True, True, True))),
    ("cholesky", (SQUARE @ SQUARE.mT + torch.eye(3),), {}),
    *(("cholesky_inverse", (LOWER if not upper else LOWER.mT, upper), {}) for upper in (False, True)),
    *(("cholesky_solve", (normal(3, 2), LOWER if not upper else LOWER.mT, upper), {}) for upper in (False, True)),
    # positions that are reduced
    *(
        ("scatter_reduce", (M, 1, torch.tensor([[0, 0, 3], [5, 1, 5]]), normal(3, 4), how), {"include_self": own})
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    *(
        ("scatter_reduce", (own, 0, torch.tensor([1]), ~own[:1], how), {"include_self": False})
        for own in (torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool))
        for how in ("sum", "prod", "amax", "amin")
    ),
    *(("scatter_reduce", (I, 0, integers(4, 9, 6), integers(50, 9, 6), how), {}) for how in ("mean", "amax", "prod")),
    *(
        ("index_reduce", (M, 0, torch.tensor([2, 0, 2]), normal(3, 6), how), {"include_self": own})
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    *(
        ("embedding_bag", (torch.tensor([1, 2, 0, 3, 1]), M, torch.tensor([0, 2, 2])), {"mode": mode})
        for mode in ("sum", "mean", "max")
    ),
    ("embedding_bag", (integers(4, 2, 3), M), {"mode": "sum", "per_sample_weights": normal(2, 3)}),
    ("embedding_bag", (integers(4, 2, 3), M), {"padding_idx": 1}),
    (
        "embedding_bag",
        (torch.tensor([1, 2, 0]), M, torch.tensor([0, 1, 3])),
        {"include_last_offset": True, "mode": "sum"},
    ),
    # neural networks
    *calls("instance_norm", (normal(2, 4, 5),), (X, None, None, normal(4), normal(4), {"eps": 1e-3})),
    ("instance_norm", (X, normal(4), normal(4).abs()), {"use_input_stats": False}),
    *calls("local_response_norm", (X, 3), (normal(2, 6, 3, 3), 4, {"alpha": 0.5, "k": 2.0})),
    *((name, (X,), {"training": False}) for name in ("dropout3d", "alpha_dropout", "rrelu")),
    ("channel_shuffle", (normal(2, 6, 3), 3), {}),
    ("conv3d", (normal(1, 2, 4, 5, 3), normal(3, 2, 2, 3, 2), normal(3)), {"padding": 1, "stride": (2, 1, 1)}),
    ("conv_transpose3d", (normal(1, 2, 3, 2, 3), normal(2, 2, 2, 3, 2)), {"stride": 2, "padding": (0, 1, 0)}),
    ("fold", (normal(2, 12, 12), (5, 4), (2, 2)), {}),
    ("fold", (normal(18, 12), (7, 6), (2, 3)), {"stride": (2, 1), "padding": (0, 1), "dilation": (2, 2)}),
    *(
        (f"max_pool{n}d", (normal(2, 3, *(7, 6, 5)[:n]), 3), {"stride": 2, "padding": 1, "return_indices": True})
        for n in (1, 2, 3)
    ),
    ("max_pool2d", (integers(9, 2, 6, 7), (2, 3)), {"dilation": 2, "return_indices": True}),
    *(
        (f"max_unpool{n}d", pool(normal(2, 3, *(6, 4, 4)[:n]), 2, return_indices=True), {"kernel_size": 2})
        for n, pool in enumerate((F.max_pool1d, F.max_pool2d, F.max_pool3d), 1)
    ),
    (
        "max_unpool2d",
        F.max_pool2d(normal(1, 1, 5, 5), 2, return_indices=True),
        {"kernel_size": 2, "output_size": (5, 5)},
    ),
    ("avg_pool3d", (normal(2, 5, 6, 4), 2), {"stride": (2, 1, 2), "padding": 1}),
    *((f"lp_pool{n}d", (normal(2, 3, *(7, 6, 5)[:n]).abs(), 2.0, 3), {"stride": 2}) for n in (1, 2, 3)),
    ("lp_pool1d", (normal(2, 3, 7), 3.0, 2), {"ceil_mode": True}),
    *((f"adaptive_{kind}_pool3d", (normal(2, 5, 6, 4), (2, 3, None)), {}) for kind in ("avg", "max")),
    ("adaptive_max_pool1d", (ranks(normal(2, 3, 7)), 4), {}),
    ("adaptive_max_pool2d", (normal(2, 3, 7, 9), 4), {}),
    *(
        ("interpolate", (normal(2, 3, 5, 4),), keywords)
        for keywords in (
            {"size": (8, 3), "mode": "nearest-exact"},
            {"size": (3, 2), "mode": "area"},
            {"size": (7, 3), "mode": "bicubic"},
            {"scale_factor": 1.7, "mode": "bicubic", "align_corners": True},
            {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
            *({"size": (3, 6), "mode": mode, "antialias": True} for mode in ("bilinear", "bicubic")),
        )
    ),
    ("interpolate", (normal(1, 2, 3, 4, 2),), {"size": (4, 3, 5), "mode": "trilinear"}),
    ("upsample", (normal(1, 2, 3, 4),), {"scale_factor": 2}),
    *(("affine_grid", (normal(2, 2, 3), (2, 3, 4, 5)), {"align_corners": align}) for align in (False, True)),
    ("affine_grid", (normal(1, 3, 4), (1, 2, 2, 3, 2)), {"align_corners": False}),
    *(
        (
            "grid_sample",
            (normal(2, 3, 5, 4), normal(2, 3, 6, 2)),
            {"mode": mode, "padding_mode": padding, "align_corners": align},
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
    ),
    ("grid_sample", (normal(1, 2, 1, 4), normal(1, 2, 2, 2)), {"mode": "bicubic", "align_corners": True}),
    ("grid_sample", (normal(1, 2, 3, 4, 5), normal(1, 2, 3, 2, 3)), {"align_corners": False}),
    # losses
    *(
        case
        for r in ("mean", "none")
        for case in (
            ("hinge_embedding_loss", (M.abs(), torch.where(M > 0, 1.0, -1.0)), {"margin": 0.5, "reduction": r}),
            ("margin_ranking_loss", (V, normal(6), torch.where(V > 0, 1.0, -1.0)), {"margin": 0.2, "reduction": r}),
            ("soft_margin_loss", (M, torch.where(M > 0.3, 1.0, -1.0)), {"reduction": r}),
            ("multilabel_soft_margin_loss", (M, (V > 0).float().expand(4, 6)), {"reduction": r}),
            ("multi_margin_loss", (M, torch.tensor([0, 5, 1, 2])), {"p": 2, "margin": 0.7, "reduction": r}),
            ("multilabel_margin_loss", (M[:2], torch.tensor([[3, 0, -1, 1, 2, 0], [-1] * 6])), {"reduction": r}),
            ("triplet_margin_loss", (M, M + 0.3, normal(4, 6)), {"swap": True, "reduction": r}),
            ("triplet_margin_with_distance_loss", (M, M + 0.3, normal(4, 6)), {"margin": 0.5, "reduction": r}),
            ("poisson_nll_loss", (M, M.abs() * 3), {"full": True, "reduction": r}),
            ("gaussian_nll_loss", (M, V.expand(4, 6), M.abs()), {"full": True, "reduction": r}),
            *(
                (
                    "ctc_loss",
                    (torch.log_softmax(normal(9, 4, 5), 2), targets, (9, 7, 9, 2), (3, 2, 0, 3)),
                    {"reduction": r, "zero_infinity": True},
                )
                for targets in (torch.tensor([[1, 2, 2], [3, 1, 1], [1, 1, 1], [1, 2, 1]]), TIES.flatten()[:8] + 1)
            ),
            (
                "ctc_loss",
                (torch.log_softmax(normal(9, 4, 5), 2), torch.tensor([[0, 2, 2, 1]] * 4), (9, 7, 0, 0), (4, 2, 0, 3)),
                {"blank": 3, "reduction": r, "zero_infinity": True},
            ),
        )
    ),
    ("multi_margin_loss", (M, torch.tensor([0, 5, 1, 2])), {"weight": normal(6).abs()}),
    ("poisson_nll_loss", (M.abs(), M.abs()), {"log_input": False}),
    ("gaussian_nll_loss", (M, V.expand(4, 6), V[:4].abs()), {}),
]


def test_every_function_has_an_oracle() -> None:
    compared = {name.lstrip(".") for name, *_ in CASES}
    for file in ("ggml.npz", "ggml_recurrent.npz"):
        with np.load(GOLDEN / file) as golden:
            compared |= {case["op"] for case in json.loads(str(golden["cases"]))}
    in_place = {f"{name}_" for name in IN_PLACE}  # the last test compares them all
    operators = (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "abs", "invert", "and", "or"),
        *("xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge"),
    )
    dunders = {f"__{prefix}{name}__" for name in operators for prefix in ("", "r", "i")}
    protocols = {"__array_function__", "__array_ufunc__"}
    named = compared | in_place | dunders | protocols | covered()
    assert {*registry.functions(), *registry.methods()} - set(OPS) - named == set()


@pytest.mark.covers("grouped_mm")
@pytest.mark.parametrize("ends", [(2, 2, 9), (0, 7, 8), (9, 9, 9)])
def test_grouped_products(ends: tuple[int, ...]) -> None:
    starts = (0, *ends[:-1])
    rows, matrices, other = (normal(*shape).double().requires_grad_() for shape in ((9, 5), (3, 5, 4), (9, 4)))
    parts = [rows[a:b] @ matrix for a, b, matrix in zip(starts, ends, matrices, strict=True)]
    expected = torch.cat([*parts, torch.zeros(9 - ends[-1], 4)])
    sums = torch.stack([rows[a:b].T @ other[a:b] for a, b in zip(starts, ends, strict=True)])
    gradients = torch.autograd.grad(expected.square().sum() + sums.square().sum(), (rows, matrices, other))
    own = [nt.from_numpy(each.detach().numpy()).requires_grad_() for each in (rows, matrices, other)]
    offs = nt.tensor(ends, dtype=nt.int32)
    products = nt.grouped_mm(own[0], own[1], offs=offs)
    columns = nt.grouped_mm(own[1].mT, own[0].mT, offs=offs)
    summed = nt.nn.functional.grouped_mm(own[0].T, own[2], offs=offs)
    (products.square().sum() + summed.square().sum()).backward()
    found = [products, columns.T, summed, *(each.grad for each in own)]
    for each, theirs in zip(found, (expected, expected, sums, *gradients), strict=True):
        np.testing.assert_allclose(each.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.covers("new_zeros", "new_ones", "new_full", "new_tensor", "new_empty")
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_new_tensors_have_the_dtype_of_another(dtype: str) -> None:
    x = nt.ones(2, dtype=dtype)
    y = to_torch(x)
    made = {"new_zeros": (2, 3), "new_ones": ((3,),), "new_full": ((2, 1), 1), "new_tensor": ([[1, 0]],)}
    for name, arguments in made.items():
        ours, theirs = getattr(x, name)(*arguments), getattr(y, name)(*arguments)
        assert ours.tolist() == theirs.tolist(), name
        # PyTorch infers the dtype of new_tensor from the data.
        assert to_torch(ours).dtype is (y.dtype if name == "new_tensor" else theirs.dtype), name
    assert x.new_empty(3, 2).shape == (3, 2)
    assert x.new_zeros(1, dtype=nt.int16).dtype is nt.int16


@pytest.mark.covers("nextafter")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_nextafter(dtype: str) -> None:
    values = torch.tensor([[1.0, -1.0, 0.0, math.nan], [2.0, 2.0, -1.0, 1.0]])
    x, y = values.to(TORCH_DTYPES[dtype])
    ours = nt.nextafter(from_torch(x), from_torch(y))
    assert to_torch(ours).dtype is x.dtype
    np.testing.assert_array_equal(to_torch(ours).double(), torch.nextafter(x, y).double())


@pytest.mark.covers("qr", "svd")
@pytest.mark.parametrize("some", [True, False])
def test_decompositions_of_the_main_namespace(some: bool) -> None:
    q, r = nt.qr(from_torch(M), some)
    np.testing.assert_allclose((q @ r).numpy(), M.numpy(), atol=1e-5)
    u, s, v = nt.svd(from_torch(M), some)
    np.testing.assert_allclose((u[:, :4] * s @ v[:, :4].mT).numpy(), M.numpy(), atol=1e-5)
    assert v.shape == ((6, 4) if some else (6, 6))


@pytest.mark.covers("__pos__", "__round__")
def test_unary_operators() -> None:
    x = nt.tensor([1.26, -2.5, 3.5])
    assert (+x).tolist() == x.tolist()
    assert round(x).tolist() == [1.0, -2.0, 4.0]
    assert x.round(1).tolist() == round(x, 1).tolist() == torch.tensor([1.26, -2.5, 3.5]).round(decimals=1).tolist()


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
@pytest.mark.parametrize("empty", TORCH_DTYPES)
def test_empty_vectors_count_for_the_dtype_of_cat(dtype: str, empty: str) -> None:
    for shape in ((2,), (1, 3), (0, 3), (0,)):
        parts = [torch.zeros(0, dtype=TORCH_DTYPES[empty]), torch.ones(*shape, dtype=TORCH_DTYPES[dtype])]
        for order in (parts, parts[::-1]):
            compare(nt.cat(ours_of(order)), torch.cat(order), torch.cat(order), f"{dtype} {empty} {shape}")


def _padded(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (RuntimeError, NotImplementedError) as error:
        return error


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "dims", "widths"),
    [((2, 4), 1, range(-5, 6)), ((1, 2, 3), 1, range(-5, 6)), ((1, 1, 3, 2), 2, range(-3, 3)), ((2, 0), 1, (-1, 0, 1))],
    ids=str,
)
def test_padding_and_cropping_together(mode: str, shape: tuple[int, ...], dims: int, widths: Sequence[int]) -> None:
    """Test all widths of one dimension; for two, every combination of three of the four widths."""
    x = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
    for pad in itertools.product(widths, repeat=2 * dims):
        if dims == 2 and sum(pad) % len(widths):
            continue
        rests = [e + min(a, 0) + min(b, 0) for e, a, b in zip(shape[::-1], pad[::2], pad[1::2], strict=False)]
        ours, own = _padded(nt.pad, from_torch(x), pad, mode), _padded(F.pad, x, pad, mode)
        if mode == "circular" and any(max(pad[2 * axis :][:2]) > rest for axis, rest in enumerate(rests[:dims])):
            continue  # PyTorch returns uninitialized memory
        if isinstance(own, torch.Tensor):
            assert isinstance(ours, nt.Tensor), f"{pad}: {ours}"
            np.testing.assert_array_equal(ours.numpy(), own.numpy(), err_msg=str(pad))
        elif isinstance(ours, Exception):
            assert isinstance(ours, nt.ShapeError), f"{pad}: {ours}"
        else:  # PyTorch refuses empty results, and crops without padding
            assert 0 in ours.shape, f"{pad}: {own}"
            ours.realize()


def test_cumsum_of_zero_dimensions_is_a_value_of_its_own() -> None:
    x = nt.tensor(3.0)
    total = x.cumsum(0).realize()
    assert total.tolist() == 3.0
    assert not np.may_share_memory(total.numpy(), x.numpy())
    body = OPS["cumsum"].body
    array = np.array(3.0, np.float32)
    assert not np.may_share_memory(body(array, 0), array)


@pytest.mark.covers("add1")
def test_add1() -> None:
    assert nt.tensor([1.0, 2.0]).add1(nt.tensor([[3.0]])).tolist() == [4.0, 5.0]


def identifier(case: Case) -> str:
    name, arguments, keywords = case
    shown = [f"[{','.join(map(str, a.shape))}]" if isinstance(a, torch.Tensor) else str(a)[:30] for a in arguments]
    return f"{name}({' '.join([*shown, *(f'{k}={str(v)[:12]}' for k, v in keywords.items())])})"


@pytest.mark.filterwarnings("ignore:(?s).*(deprecated|in beta):UserWarning")  # of PyTorch
@pytest.mark.parametrize(("name", "arguments", "keywords"), CASES, ids=[identifier(case) for case in CASES])
def test_equals_pytorch(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    ours, theirs = resolve(name)
    own = theirs(*arguments, **keywords)
    for _ in range(3):  # The last call records the ops of a function that is `templated` by its template.
        result = converted(ours, arguments, keywords, ours_of)
    compare(result, own, converted(theirs, arguments, keywords, exact_of), name)


BIT_DTYPES = ("uint8", "int16", "int32", "int64", "bfloat16", "float16", "float32", "float64")


@pytest.mark.covers("bits_as", "view")
@pytest.mark.parametrize("dtype", BIT_DTYPES)
@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 8), (5, 3), (0, 4), ()])
def test_bits_as_another_dtype(shape: tuple[int, ...], dtype: str) -> None:
    for own in BIT_DTYPES:
        x = (torch.arange(math.prod(shape)).reshape(shape) * 37 - 5).to(getattr(torch, own))
        try:
            expected = x.view(getattr(torch, dtype))
        except RuntimeError:
            with pytest.raises(nt.ShapeError, match=f"do not divide into {dtype}"):
                from_torch(x).view(getattr(nt, dtype))
            continue
        result = from_torch(x).view(getattr(nt, dtype))
        assert result.dtype.name == dtype
        assert tuple(result.shape) == tuple(expected.shape)
        assert result.numpy().tobytes() == expected.reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_warn_of_broadcast_targets(name: str) -> None:
    with pytest.warns(UserWarning, match=r"target size \(\[3\]\) that is different to the input size \(\[2, 3\]\)"):
        getattr(nt, name)(nt.ones(2, 3), nt.ones(3))


@pytest.mark.covers("norm_rows", "rms_norm_rows", "layer_norm", "rms_norm", "batch_norm", "standardize", "norm")
@pytest.mark.covers("channel_scale", "channel_shift")
@pytest.mark.covers("mean_square", "inverse_deviation", "where", "contract", "concat", "pad_widths", "tril", "triu")
@pytest.mark.covers("argsort", "top_indices", "gather_along", "take", "take_points", "put", "scatter_along")
@pytest.mark.covers("slice", "select")
@pytest.mark.covers("diagonal", "windows", "reshape", "permute", "expand", "frexp_part", "running_extreme", "gcd")
@pytest.mark.covers("lcm", "logcumsumexp", "arange_from", "linspace_between", "fill", "eye_matrix")
def test_functions_that_are_the_oracles_of_ops() -> None:
    """Compare ops without arguments, by all cases of functions that record them."""
    functions = {"where", "layer_norm", "rms_norm", "batch_norm", "norm", "matmul", "cat", "pad", "tril", "triu"}
    functions |= {"argsort", "topk", "gather", "index_select", "index_copy", "masked_select", "scatter", "flip"}
    functions |= {"select", "diagonal", "unfold", "permute"}
    functions |= {"frexp", "cummax", "gcd", "lcm", "logcumsumexp", "arange", "linspace", "full", "eye"}
    for name, arguments, keywords in CASES:
        if name in functions | {".reshape", ".expand"}:
            test_equals_pytorch(name, arguments, keywords)


SIXTEEN_BIT = (
    *("layer_norm", "rms_norm", "group_norm", "normalize", "gelu", "glu", "softmin", "mse_loss", "cross_entropy"),
    *("matmul", "linear", "einsum", "scaled_dot_product_attention", "embedding", "norm", "var_mean", "pow", "clamp"),
    *("where", "pad", "cat", "stack", "conv2d", "conv1d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
    *("interpolate", "index_add", "scatter_add", "nanmean", "nansum"),
)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", SIXTEEN_BIT)
def test_16_bit_floats(name: str, dtype: str) -> None:
    """The dtype equals PyTorch's; values are within two units of the format, measured at the largest element.

    The first case of a function runs with all dtypes, the others alternate between them.
    """

    def narrow(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(getattr(torch, dtype)) if is_float else value

    compared = 0
    cases = [(arguments, keywords) for case, arguments, keywords in CASES if case == name]
    for number, (arguments, keywords) in enumerate(cases):
        if number and number % 2 == (dtype == "bfloat16"):
            continue
        arguments, keywords = mapped(narrow, arguments), {key: narrow(value) for key, value in keywords.items()}
        ours, theirs = resolve(name)
        try:
            own = theirs(*arguments, **keywords)
        except RuntimeError:
            continue  # not implemented for this dtype on PyTorch's CPU
        result, exact = converted(ours, arguments, keywords, ours_of), converted(theirs, arguments, keywords, exact_of)
        parts = zip(result, own, exact, strict=True) if isinstance(own, tuple) else [(result, own, exact)]
        for part, own_part, exact_part in parts:
            assert str(part.dtype).removeprefix("npu_tensor.") == str(own_part.dtype).removeprefix("torch.")
            if part.dtype.is_floating_point:
                finite = exact_part[torch.isfinite(exact_part)].abs()
                unit = 2.0 ** (-8 if dtype == "bfloat16" else -11)
                assert_same(part, exact_part, 2, 2 * unit * float(finite.max()) if finite.numel() else 0, name)
        compared += 1
    assert compared


# --- creation


@pytest.mark.covers("empty", "empty_like", "rand_like", "randn_like")
def test_tensors_without_a_value_of_pytorch() -> None:
    x = nt.tensor([[1, 2]], dtype="int8").float()
    for name in ("empty_like", "rand_like", "randn_like"):
        made = getattr(nt, name)(x)
        assert (made.shape, made.dtype) == ((1, 2), nt.float32)
    assert nt.empty([2, 3]).shape == (2, 3)
    assert nt.Tensor([1, 2.5], "float16").tolist() == [1.0, 2.5]


@pytest.mark.parametrize("dtype", [d.name for d in nt.dtypes.DTYPES if d.name != "bfloat16"])
def test_tensor_of_arrays_keeps_the_dtype(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    compare(nt.tensor(array), own := torch.tensor(array), own, "tensor")
    compare(nt.tensor(array[:, ::-1]), own := torch.tensor(array[:, ::-1].copy()), own, "tensor")
    assert nt.tensor(array[0, 1]).shape == ()


@pytest.mark.covers("as_tensor", "from_numpy")
@pytest.mark.parametrize("kind", ["f4", "f2", "f8", "i8", "i2", "?", "u1"])
def test_arrays_of_any_byte_order(kind: str) -> None:
    native = np.array([0, 1, 0, 1], kind)
    array = native.astype(f">{kind}")
    for ours in (nt.tensor(array), nt.as_tensor(array), nt.from_numpy(array), nt.from_numpy(array, copy=False)):
        assert ours.numpy().dtype == native.dtype
        assert ours.tolist() == native.tolist()
    assert (nt.zeros(4, dtype=array.dtype) + array).dtype is nt.tensor(native).dtype
    assert (nt.ones(4) * native.astype(f">{kind}")).tolist() == native.tolist()
    assert nt.where(np.array([True]), native.astype(f">{kind}"), nt.tensor(native)).tolist() == native.tolist()


def test_floats_of_another_byte_order_saturate_too() -> None:
    values = [1e20, -1e20, math.nan, 1.5]
    assert nt.tensor(np.array(values, ">f8"), "int32").tolist() == nt.tensor(np.array(values), "int32").tolist()


def test_tensors_that_pytorch_differentiates() -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    for theirs in (parameter, parameter * 2, parameter.T, parameter.bfloat16()):
        plain = theirs.detach()
        for ours in (nt.tensor(theirs), nt.as_tensor(theirs), nt.from_dlpack(theirs)):
            compare(ours, plain, float64_of(plain), "")
    expected = torch.stack([parameter.detach(), torch.ones(2, 3)])
    compare(nt.tensor([parameter, torch.ones(2, 3)]), expected, expected, "")
    compare(nt.tensor([[parameter[1, 1], 2.0]]), torch.tensor([[4.0, 2.0]]), torch.tensor([[4.0, 2.0]]), "")
    copied = nt.tensor(parameter)
    with torch.no_grad():
        parameter.zero_()
    assert copied.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_array_likes_keep_their_dtype() -> None:
    class Column:
        """Imitation of a pandas column."""

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.array([1.0, 2.0])

    assert nt.tensor(Column()).dtype is nt.float64
    assert nt.tensor(Column(), nt.int8).tolist() == [1, 2]


def test_tensor_copies_and_from_numpy_can_share() -> None:
    array = np.arange(3, dtype=np.float32)
    copied, shared = nt.from_numpy(array), nt.from_numpy(array, copy=False)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7
    assert np.shares_memory(shared.numpy(), array)
    assert not np.shares_memory(copied.numpy(), array)


# --- GGML's functions that have no PyTorch counterpart, against plain formulas; test_golden has ggml's own values


def test_mul_mat_dtypes() -> None:
    a, b = integers(100, 3, 8) - 50, integers(100, 5, 8) - 50
    for kind in (torch.int8, torch.int16):
        result = nt.mul_mat(from_torch(a.to(kind)), from_torch(b.to(kind)))
        compare(result, own := (b @ a.T).to(torch.int32), own, "mul_mat")
    x, w = normal(5, 8).to(torch.bfloat16), normal(3, 8).to(torch.bfloat16)
    result = nt.mul_mat(from_torch(w), from_torch(x))
    assert result.dtype is nt.float32
    assert_same(result, x.double() @ w.double().T, 8, 1e-5)


@pytest.mark.covers("count_equal")
def test_count_equal() -> None:
    a, b = integers(3, 4, 5), integers(3, 4, 5)
    compare(nt.count_equal(from_torch(a), from_torch(b)), own := (a == b).sum(), own, "count_equal")


def test_an_even_kernel_with_the_same_extents_is_padded_more_at_the_end() -> None:
    x, weight = normal(2, 3, 9), normal(4, 3, 4)
    expected = F.conv1d(F.pad(x.double(), (1, 2)), weight.double())
    assert_same(nt.conv1d(from_torch(x), from_torch(weight), padding="same"), expected, 8, 4e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_nan_to_num_knows_the_largest_number_of_each_dtype(dtype: str) -> None:
    values = torch.tensor([math.nan, math.inf, -math.inf, 1.5], dtype=getattr(torch, dtype))
    for arguments in ((), (2.0,), (0.0, 9.0)):
        expected = torch.nan_to_num(values, *arguments)
        assert to_torch(nt.nan_to_num(from_torch(values), *arguments)).dtype is values.dtype
        assert nt.nan_to_num(from_torch(values), *arguments).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_scatter_reduces_in_every_dtype(dtype: str, reduce: str) -> None:
    for dim, shape in ((0, (4, 3)), (1, (2, 2)), (-1, (3, 5))):
        x, index = integers(7, 4, 3).to(TORCH_DTYPES[dtype]), integers(3, *shape)
        source = integers(7, *shape).to(x.dtype)
        ours = from_torch(x)
        np.testing.assert_array_equal(
            ours.scatter(dim, from_torch(index), from_torch(source), reduce=reduce).double().numpy(),
            x.scatter(dim, index, source, reduce=reduce).double().numpy(),
        )
        ours.scatter_(dim, from_torch(index), value=2, reduce=reduce)
        expected = x.to(torch.int64) if dtype == "bool" else x
        expected = expected.scatter(dim, index, 1 if dtype == "bool" else 2, reduce=reduce).to(x.dtype)
        np.testing.assert_array_equal(ours.double().numpy(), expected.double().numpy())


UNCHANGED: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    *((f"adaptive_avg_pool{n}d", (1, 1, *[2] * n), (2,), {}) for n in (1, 2, 3)),
    *((f"adaptive_max_pool{n}d", (1, 1, *[2] * n), (2,), {}) for n in (1, 2, 3)),
    *(("interpolate", (1, 1, *[2] * n), (2,), {"mode": "area"}) for n in (1, 2, 3)),
    *(("interpolate", (1, 1, *[2] * n), (2,), {"mode": mode}) for n, mode in enumerate(("linear", "bilinear"), 1)),
    *(("interpolate", (1, 1, 2, 2), (), {"scale_factor": 1, "mode": mode}) for mode in ("nearest", "bicubic")),
    ("dropout", (2, 2), (0.5, False), {}),
    ("cat", (2,), (), {}),
    ("tile", (2, 2), ((1, 1),), {}),
    ("roll", (2, 2), (0,), {}),
    ("clamp", (2, 2), (-9,), {}),
    ("cartesian_prod", (3,), (), {}),
    ("sum_to_size", (2, 2), ((2, 2),), {}),
]


@pytest.mark.parametrize(("name", "shape", "arguments", "keywords"), UNCHANGED)
def test_results_with_the_values_of_the_input_share_its_memory_as_in_pytorch(
    name: str, shape: tuple[int, ...], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    changed = []
    for library, x in ((torch, torch.ones(shape)), (nt, nt.ones(*shape))):
        function = getattr(library.nn.functional, name, None) or getattr(library, name, None)
        first = [x] if name == "cat" else x
        result = (function or getattr(type(x), name))(first, *arguments, **keywords)
        result.mul_(5)
        changed.append((result.tolist(), x.tolist()))
    assert changed[0] == changed[1]


@pytest.mark.parametrize("equation", ["ij->ji", "ii->i", "...->...", "ij->i", "ij->"])
def test_einsum_of_one_operand_is_a_view_as_in_pytorch(equation: str) -> None:
    changed = []
    for library in (torch, nt):
        x = library.arange(9.0).reshape(3, 3).clone()
        library.einsum(equation, x).mul_(-1)
        changed.append(x.tolist())
    assert changed[0] == changed[1]


@pytest.mark.covers("copy_", "fill_", "zero_")
def test_in_place_forms_write_to_the_tensor_and_its_views() -> None:
    x = nt.tensor([1.0, -2.0])
    kept, view = x.clone(), x[:1]
    assert x.add_(1) is x
    x.mul_(2).relu_().clamp_(max=3).pow_(2)
    assert x.tolist() == [9.0, 0.0]
    assert kept.tolist() == [1.0, -2.0]
    assert view.tolist() == [9.0]
    assert x.fill_(7).tolist() == [7.0, 7.0]
    source = nt.tensor([3, 4])
    x.copy_(source)
    x += 1
    assert (x.tolist(), source.tolist()) == ([4.0, 5.0], [3, 4])
    x **= 2
    x /= 2
    x //= 2
    assert x.tolist() == [4.0, 6.0]
    assert x.zero_().tolist() == [0.0, 0.0]


@pytest.mark.covers("float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool")
@pytest.mark.covers("to", "type_as")
def test_casts_and_to() -> None:
    x = nt.tensor([1.7, -2.7])
    for name in ("float", "double", "half", "bfloat16", "int", "long", "short", "char", "bool"):
        compare(getattr(x, name)(), own := getattr(to_torch(x), name)(), own, name)
    positive = nt.tensor([1.7, 254.9])  # for negative numbers, PyTorch's result depends on the machine
    compare(positive.byte(), own := to_torch(positive).byte(), own, "byte")
    assert x.to("cpu") is x
    assert x.to(nt.float32) is x
    assert x.to("cpu", nt.int32).dtype is nt.int32
    assert x.to(nt.tensor(1)).dtype is nt.int64
    assert x.to(dtype="bf16").dtype is nt.bfloat16
    assert x.to(float).dtype is nt.float64
    assert x.to(nt.float).dtype is nt.float32
    assert x.type_as(nt.tensor(True)).tolist() == [True, True]


@pytest.mark.parametrize("other", [np.array([2.0, 2.0], np.float32), np.array([2, 3]), np.float32(2), np.array(2)])
def test_max_and_min_take_arrays_and_scalars_of_numpy(other: Any) -> None:
    x = nt.tensor([1.0, 5.0])
    for name in ("max", "min"):
        expected = getattr(torch, f"{name}imum")(torch.tensor([1.0, 5.0]), torch.as_tensor(other))
        compare(getattr(x, name)(other), expected, expected, name)
    assert x.max(np.int64(0)).indices.tolist() == 1  # a NumPy integer is a dimension


@pytest.mark.parametrize("bins", [3, 7, 10, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_on_the_edges_of_a_histogram_are_counted_as_by_numpy(bins: int, dtype: Any) -> None:
    x = (np.arange(1001) / 1000).astype(dtype)
    expected, edges = np.histogram(x, np.linspace(0, 1, bins + 1).astype(dtype))
    ours = nt.tensor(x).histogram(bins, range=(0.0, 1.0))
    np.testing.assert_array_equal(ours.bin_edges.numpy(), edges)
    np.testing.assert_array_equal(ours.hist.numpy(), expected)


@pytest.mark.parametrize(
    "data",
    [
        lambda tensor: [tensor(1.0), 2.5],
        lambda tensor: [2.5, tensor(1.0)],
        lambda tensor: [tensor(1), 2.5],
        lambda tensor: [[tensor(1)], [tensor(2.0)]],
        lambda tensor: [tensor(1.0).bfloat16(), 2.0],
        lambda tensor: [tensor(1.0).half()],
        lambda tensor: [tensor(1.0).double(), 2],
        lambda _: [np.float32(1), 2.0],
        lambda _: [np.float64(1), 2.0],
        lambda _: [True, np.float64(2)],
        lambda _: [1, np.float16(2)],
        lambda _: [np.int8(1), 2.5],
        lambda _: [np.int32(1), 2],
        lambda _: [np.int32(1)],
        lambda _: (True, 1),
    ],
)
def test_all_elements_of_a_list_decide_on_its_dtype(data: Callable[[Any], Any]) -> None:
    ours, expected = nt.tensor(data(nt.tensor)), torch.tensor(data(torch.tensor))
    assert f"torch.{ours.dtype.name}" == str(expected.dtype)
    assert_same(ours, expected)


def test_quantiles_of_a_list() -> None:
    expected = torch.quantile(M, torch.tensor([0.2, 0.5], dtype=torch.float32), 1)
    np.testing.assert_allclose(nt.quantile(from_torch(M), [0.2, 0.5], 1).numpy(), expected.numpy(), rtol=1e-6)


def test_a_wrong_q_is_named() -> None:
    with pytest.raises(nt.DimensionError, match="q must be from 0 to 1"):
        nt.quantile(nt.ones(3), nt.tensor(1.5)).numpy()


# Regressions. lib, functional: torch or npu_tensor, and its nn.functional.
FOUND_BY_FUZZING: dict[str, Callable[[Any, Any], Any]] = {
    "a sum by einsum is int64": lambda lib, functional: lib.einsum("ii", lib.ones(3, 3, dtype=lib.int8)),
    "rows by einsum are int64": lambda lib, functional: lib.einsum("ij->i", lib.ones(3, 3, dtype=lib.int32) * 100),
    "lerp beyond an infinity": lambda lib, functional: lib.lerp(lib.tensor([-math.inf]), lib.tensor([1.0]), 2.0),
    "lerp ends at its end": lambda lib, functional: lib.lerp(lib.tensor([1e8]), lib.tensor([0.3]), 1.0),
    "elu at 0": lambda lib, functional: functional.elu(lib.tensor([0.0, -0.0, 1.0]), math.inf),
    "a double image": lambda lib, functional: functional.interpolate(
        lib.arange(36, dtype=lib.float64).reshape(1, 1, 6, 6), scale_factor=2, mode="bilinear", align_corners=True
    ),
    "an empty image": lambda lib, functional: functional.adaptive_avg_pool2d(lib.ones(1, 2, 4, 4), (0, 2)),
    "target decides": lambda lib, functional: functional.binary_cross_entropy_with_logits(
        lib.tensor([0.5, -1.0]), lib.tensor([1.0, 0.25], dtype=lib.float16)
    ),
    "quantile of one": lambda lib, functional: lib.quantile(lib.tensor(3.0), 0.5, -1, True),
    "arange starts without a fraction": lambda lib, functional: lib.arange(-2.5, 1, dtype=lib.uint8),
    "arange ends without a fraction": lambda lib, functional: lib.arange(2, 2.5, dtype=lib.int64),
    "arange without a step": lambda lib, functional: lib.arange(0, 2, 0.5, dtype=lib.int32),
    "masks are close": lambda lib, functional: lib.isclose(lib.tensor([True, False]), lib.tensor([True, True])),
    "integers are far apart": lambda lib, functional: lib.isclose(
        lib.tensor([-(2**31)], dtype=lib.int32), lib.tensor([0], dtype=lib.int32)
    ),
    "addcmul is rounded once": lambda lib, functional: lib.addcmul(
        *[lib.tensor([1e4], dtype=lib.float16)] * 3, value=0.1
    ),
    "addcdiv scales first": lambda lib, functional: lib.addcdiv(
        lib.tensor([2.0]), lib.tensor([1.0]), lib.tensor([1e-40]), value=0
    ),
    "clamp by a scalar tensor of a wider dtype": lambda lib, functional: lib.clamp(
        lib.tensor([1.0, -2.0], dtype=lib.bfloat16),
        lib.tensor(-0.942665, dtype=lib.float64),
        lib.tensor([0.1, 0.1], dtype=lib.float64),
    ),
    "a truncated quotient is rounded once": lambda lib, functional: lib.div(
        lib.tensor([1e4], dtype=lib.float16), 3, rounding_mode="trunc"
    ),
    "a remainder that is zero": lambda lib, functional: 1 / (lib.tensor([-5.0, 5.0, -4.0, 4.0]) % 2.5),
    "masked_scatter broadcasts both": lambda lib, functional: lib.masked_scatter(
        lib.tensor([7]), lib.tensor([True, False, True]), lib.tensor([1, 2])
    ),
    "an integer limit": lambda lib, functional: lib.full((2,), -3, dtype=lib.uint8),
}


@pytest.mark.parametrize("eager", [False, True], ids=["lazy", "eager"])
@pytest.mark.parametrize("name", FOUND_BY_FUZZING)
def test_regressions_found_by_fuzzing(name: str, eager: bool) -> None:
    call = FOUND_BY_FUZZING[name]
    expected = call(torch, F)
    with nt.config.scope(eager=eager):
        ours = call(nt, nt.nn.functional)
    assert ours.dtype.name == str(expected.dtype).removeprefix("torch.")
    assert_same(ours, expected, ulps=2, what=name)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a probability below 0": lambda lib, functional: functional.dropout(lib.ones(2), -0.5, False),
    "integers divided": lambda lib, functional: lib.addcdiv(*[lib.ones(2, dtype=lib.int8)] * 3),
    "limits that cross": lambda lib, functional: functional.hardtanh(lib.ones(2), 2.0, 1.0),
    "a limit below 0": lambda lib, functional: functional.hardtanh(lib.ones(2, dtype=lib.uint8)),
    "a float below 0": lambda lib, functional: lib.full((2,), -0.5, dtype=lib.uint8),
    "a float above 255": lambda lib, functional: lib.full((2,), 255.5, dtype=lib.uint8),
    "a quantile of nothing": lambda lib, functional: lib.quantile(lib.ones(0, 2), 0.5, 1),
    "a step that becomes 0": lambda lib, functional: lib.arange(0, 2, 0.5, dtype=lib.int64),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operands_that_pytorch_also_refuses(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](torch, F)
    with pytest.raises(nt.NpuTensorError):
        REFUSED[name](nt, nt.nn.functional)


# --- in-place forms: against their functions, against PyTorch's, and through a view


Arguments = tuple[list[Any], dict[str, Any]]
DTYPES = (nt.float32, nt.bfloat16, nt.int32, nt.bool)


def examples(name: str) -> list[Arguments]:
    """Return operands, with PyTorch's tensors, and attributes."""
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
    """Return the result of PyTorch's form; None if it has none, the error if it refuses the result."""
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


@pytest.mark.once  # Other tests compute and write with every device.
@pytest.mark.filterwarnings("ignore:index_reduce.*is in beta:UserWarning")
@pytest.mark.parametrize("name", IN_PLACE)
def test_every_in_place_form_equals_its_function(name: str) -> None:
    """Ops without cases above are tested with a third of their dtypes, alternating from op to op."""
    compared = 0
    with_cases = {case.lstrip(".") for case, args, _ in CASES if args}
    for number, ((operand, *rest), kwargs) in enumerate(examples(name), IN_PLACE.index(name)):
        if not isinstance(operand, torch.Tensor):
            continue
        x = ours_of(operand)
        others, options = ours_of(rest), {key: ours_of(value) for key, value in kwargs.items()}
        theirs = pytorch_in_place(name, operand.clone(), rest, kwargs)
        what = f"{name}_({x.dtype}, {rest}, {kwargs}) in PyTorch gives {theirs!r}"
        changed = x.clone()
        try:
            expected = getattr(nt, name)(x, *others, **options)
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
        if name not in with_cases and number % 3:
            continue
        values = expected.to(x.dtype).reshape(-1).numpy()
        for part in (changed.reshape(-1), view):
            assert part.numpy().tobytes() == values.tobytes(), what
        if theirs is not None:
            assert isinstance(theirs, torch.Tensor), what
            torch.testing.assert_close(to_torch(changed), theirs, equal_nan=True, msg=what)
    assert compared
