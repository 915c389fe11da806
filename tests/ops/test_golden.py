"""Ops against values computed by the ggml library; tests/golden/README.md describes their origin."""

import json
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from paths import GOLDEN

import npu_tensor as nt
from npu_tensor.ops import OPS

VALUES: dict[str, np.ndarray] = {}
CASES: dict[str, dict[str, Any]] = {}
for _file in ("ggml.npz", "ggml_recurrent.npz"):
    with np.load(GOLDEN / _file) as _stored:
        CASES |= {case["name"]: case for case in json.loads(str(_stored["cases"]))}
        VALUES |= _stored

STORED = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "i32": np.int32, "i64": np.int64}


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def _xielu(x: nt.Tensor, alpha_n: float, alpha_p: float, beta: float, eps: float) -> nt.Tensor:
    return nt.xielu(x, beta + _softplus(alpha_n), _softplus(alpha_p), beta, eps)


def _tiled(name: str) -> Callable[..., nt.Tensor]:
    return lambda a, b: getattr(nt, name)(a, b.repeat_as(a))


def _glu(name: str) -> Callable[..., nt.Tensor]:
    return lambda x, gate=None, **attributes: getattr(nt, name)(x, gate, **attributes)


def _rope(x: nt.Tensor, positions: nt.Tensor, factors: nt.Tensor | None = None, **attributes: Any) -> nt.Tensor:
    mode = {0: "normal", 2: "neox", 8: "mrope", 24: "vision", 40: "imrope"}[attributes.pop("mode")]
    if "sections" in attributes:
        positions = positions.reshape(4, -1)
    return nt.rope(x, positions, factors, mode=mode, **attributes)


def _tri(x: nt.Tensor, type: str) -> nt.Tensor:
    side, _, diagonal = type.partition("_")
    return nt.triu(x, 0 if diagonal else 1) if side == "upper" else nt.tril(x, 0 if diagonal else -1)


def _pad(x: nt.Tensor, pads: Any, mode: str = "constant") -> nt.Tensor:
    pairs = pads if isinstance(pads[0], list) else [pads]
    return nt.pad(x, [width for pair in reversed(pairs) for width in pair], mode)


def _attention(
    q: nt.Tensor, k: nt.Tensor, v: nt.Tensor, mask: Any = None, sinks: Any = None, **attributes: Any
) -> nt.Tensor:
    return nt.flash_attn_ext(q, k.float(), v.float(), mask, sinks=sinks, **attributes)


def _block(function: Callable[..., nt.Tensor]) -> Callable[..., nt.Tensor]:
    return lambda a, b, region: function(a, b, [start for start, _ in region])


def _pool(x: nt.Tensor, pool: str, kernel: Any, stride: Any, padding: Any) -> nt.Tensor:
    places = 1 if isinstance(kernel, int) else 2
    if pool == "max":
        return getattr(nt, f"max_pool{places}d")(x, kernel, stride, padding)
    return getattr(nt, f"avg_pool{places}d")(x, kernel, stride, padding, count_include_pad=places == 2)


def _upscaled(x: nt.Tensor, mode: str, shape: Any = None, scale_factor: Any = None, **others: Any) -> nt.Tensor:
    corners = {"align_corners": others["align_corners"]} if others.get("align_corners") else {}
    return nt.interpolate(x, shape and shape[-2:], scale_factor, mode, **corners)


def _images_of_two(x: nt.Tensor) -> nt.Tensor:
    """Convert (images * channels, depth, height, width) with two channels."""
    return x.reshape(-1, 2, *x.shape[1:])


def _behind_each_other(outcome: tuple[nt.Tensor, nt.Tensor]) -> nt.Tensor:
    """Return outputs and states in GGML's order."""
    return nt.cat([part.flatten() for part in outcome])


def _recurrent(name: str) -> Callable[..., nt.Tensor]:
    def call(*operands: nt.Tensor, **attributes: Any) -> nt.Tensor:
        *others, state = operands
        heads, features = others[0].shape[-2:]
        states = state.reshape(-1, heads, features, features)
        return _behind_each_other(getattr(nt, name)(*others, states, **attributes))

    return call


# Calls for GGML ops whose name or arguments differ from those of npu_tensor.
CALLS: dict[str, Callable[..., Any]] = {
    "round": nt.round_half_away,
    "gelu": lambda x: nt.gelu(x, approximate="tanh"),
    "xielu": _xielu,
    "scale": lambda x, scale, bias=0.0: nt.scale(x, scale, bias),
    "sqr": nt.square,
    **{name: _tiled(name) for name in ("add", "sub", "mul", "div")},
    **{name: _glu(name) for name in ("reglu", "geglu", "geglu_erf", "geglu_quick", "swiglu", "swiglu_oai")},
    "mean": lambda x: x.mean(-1, True),
    "cumsum": lambda x: x.cumsum(-1),
    "argmax": lambda x: x.argmax(-1),
    "argsort": lambda x, order: x.argsort(-1, order == "desc"),
    "top_k": lambda x, k: nt.sort(x.top_k(k)).values,
    "norm": lambda x, eps: nt.layer_norm(x, x.shape[-1], eps=eps),
    "rms_norm": lambda x, eps: nt.rms_norm(x, x.shape[-1], eps=eps),
    "l2_norm": lambda x, eps: nt.l2_norm(x, -1, eps),
    "group_norm": lambda x, n_groups, eps: nt.group_norm(x, n_groups, eps=eps),
    "get_rows": nt.get_rows,
    "soft_max_ext": lambda x, mask=None, sinks=None, **attributes: nt.soft_max_ext(x, mask, sinks=sinks, **attributes),
    "soft_max": lambda x: x.softmax(-1),
    "rope_ext": _rope,
    "rope_multi": _rope,
    "acc": _block(nt.acc),
    "set": _block(nt.set),
    "conv_2d": lambda kernel, x, **windows: nt.conv2d(x, kernel, None, **windows),
    "conv_2d_dw": lambda kernel, x, **windows: nt.conv2d(x, kernel, None, groups=x.shape[1], **windows),
    "conv_transpose_1d": lambda kernel, x, stride, **_: nt.conv_transpose1d(x, kernel, None, stride),
    "conv_transpose_2d": lambda kernel, x, stride: nt.conv_transpose2d(x, kernel, None, stride),
    "conv_3d": lambda kernel, x, **windows: nt.conv3d(_images_of_two(x), _images_of_two(kernel), None, **windows),
    "im2col": lambda kernel, x, **windows: nt.im2col(x, kernel.shape[2:], **windows),
    "im2col_3d": lambda kernel, x, **windows: nt.im2col(_images_of_two(x), kernel.shape[1:], **windows),
    "pool_1d": _pool,
    "pool_2d": _pool,
    "interpolate": _upscaled,
    "upscale": _upscaled,
    **{name: _recurrent(name) for name in ("rwkv_wkv6", "rwkv_wkv7", "gated_linear_attn")},
    "gated_delta_net": lambda *operands: _behind_each_other(nt.gated_delta_net(*operands)),
    "ssm_scan": lambda *operands: _behind_each_other(nt.ssm_scan(*operands)),
    "repeat": lambda x, like, shape: x.repeat_as(like),
    "concat": lambda a, b, axis: nt.cat([a, b], axis),
    "diag": lambda x: x.unsqueeze(-1) * nt.eye(x.shape[-1]) if x.ndim > 1 else nt.diag(x),
    "tri": _tri,
    "fill": lambda x, value: nt.full_like(x, value),
    "pad": _pad,
    "pad_reflect_1d": lambda x, pads: _pad(x, pads, "reflect"),
    "roll": lambda x, shifts: nt.roll(x, shifts, list(range(x.ndim))),
    "arange": lambda start, stop, step: nt.arange(start, stop, step),
    "flash_attn_ext": _attention,
}

# Functions of GGML that npu_tensor does not have.
ABSENT_OPS = {
    *("cross_entropy_loss_back", "get_rows_back", "opt_step_adamw", "opt_step_sgd"),
    *("repeat_back", "rms_norm_back", "rope_ext_back", "soft_max_ext_back"),
}

# Variants that are not supported, or for which PyTorch's meaning was chosen.
DIFFERENT = {
    "relu.special": "NaN stays NaN, as in PyTorch",
    "hardsigmoid.special": "NaN stays NaN, as in PyTorch",
    "leaky_relu.special": "NaN stays NaN, as in PyTorch",
    "clamp.special": "NaN stays NaN, as in PyTorch",
    "gelu.special": "GGML's table ends at -10; the formula gives NaN for minus infinity, as PyTorch",
    "gelu_quick.special": "GGML's table has float16 arguments",
    "softplus.special": "GGML's log(1 + exp(x)) is 0 below -16.6; ours keeps exp(x)",
    "group_norm.uneven": "PyTorch's group_norm requires groups of equal size",
}


def supported() -> list[str]:
    return [
        name
        for name, case in CASES.items()
        if case["op"] not in ABSENT_OPS and name not in DIFFERENT and case["attrs"].get("mode") != "bicubic"
    ]


def run(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    operands = [
        nt.from_numpy(VALUES[key].astype(STORED[kind]))
        for key, kind in zip(case["inputs"], case["input_types"], strict=True)
    ]
    call = CALLS.get(case["op"]) or getattr(nt, case["op"])
    attributes = case["attrs"] | ({"mode": "circular"} if case["name"] == "pad.circular" else {})
    ours = call(*operands, **attributes)
    return ours.numpy().astype(np.float64), VALUES[case["out"]].astype(np.float64)


# Ops without a function in PyTorch.
FOR_GGML_ALONE = {
    "rope": pytest.mark.covers("rope", "rotate"),
    "rope_ext": pytest.mark.covers("rope", "rotate"),
    "repeat": pytest.mark.covers("repeat_as"),
}


def marked(name: str) -> Any:
    mark = FOR_GGML_ALONE.get(CASES[name]["op"])
    return pytest.param(name, marks=[mark] if mark else [])


@pytest.mark.parametrize("name", [*map(marked, supported())])
def test_equals_ggml(name: str) -> None:
    case = CASES[name]
    ours, expected = run(case)
    tolerance = case["tolerance"]
    np.testing.assert_allclose(ours.reshape(expected.shape), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in DIFFERENT if name != "group_norm.uneven"])
def test_differences_are_where_we_say(name: str) -> None:
    """Results differ only for operands that are NaN, infinite or very large."""
    ours, expected = run(CASES[name])
    differs = ~np.isclose(ours, expected, 1e-3, 1e-6, equal_nan=True)
    assert np.array_equal(ours, expected, equal_nan=True) is False
    x = VALUES[CASES[name]["inputs"][0]]
    assert np.all(~np.isfinite(x[differs]) | (np.abs(x[differs]) > 1e4))


def test_every_case_is_run_or_named() -> None:
    assert {case["op"] for case in CASES.values()} >= ABSENT_OPS
    assert set(CASES) >= set(DIFFERENT)
    assert len(supported()) > 240


def test_ggml_names_of_ops_are_names_of_ggml() -> None:
    """Each GGML name in the registry is an operation that the library reported for a stored case."""
    known = {case["ggml_op"] for case in CASES.values()}
    plain = {name.removeprefix("UNARY_").removeprefix("GLU_") for name in known}
    untested = {"CPY", "RESHAPE", "PERMUTE", "VIEW"}  # Pure data movement, which the file omits.
    for op in OPS.values():
        for name in op.ggml.split(", "):
            word = name.removeprefix("UNARY_").removeprefix("GLU_")
            assert not word or word in plain | untested, f"{op.name}: {op.ggml}"
