"""Activation functions of GGML and PyTorch, and gated linear units."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import Recorder, op
from npu_tensor.ops.rows import erf as _erf

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


@op(kind="map", rule=rules.numeric, ggml="UNARY_RELU")
def relu(input, /):
    """Return max(input, 0). NaN stays NaN, as in PyTorch (GGML gives 0)."""
    return np.maximum(input, 0)


@op(kind="map", rule=rules.numeric)
def relu6(input, /):
    """Return min(max(input, 0), 6)."""
    return np.minimum(np.maximum(input, 0), 6)


@op(kind="map", rule=rules.floating, ggml="LEAKY_RELU")
def leaky_relu(input, /, negative_slope: float = 0.01):
    """Return input where positive, else negative_slope * input."""
    return np.where(input > 0, input, input * negative_slope)


@op(kind="map", rule=rules.floating, ggml="UNARY_ELU")
def elu(input, /, alpha: float = 1.0):
    """Return input where positive, else alpha * (exp(input) - 1)."""
    return np.where(input < 0, alpha * np.expm1(input), input)


@op(kind="map", rule=rules.floating)
def selu(input, /):
    """Compute the scaled elu with the constants of Klambauer et al., 2017."""
    return 1.0507009873554805 * np.where(input > 0, input, 1.6732632423543772 * np.expm1(input))


@op(kind="map", rule=rules.floating, ggml="UNARY_SIGMOID")
def sigmoid(input, /):
    """Return 1 / (1 + exp(-input))."""
    return 1 / (1 + np.exp(-input))


@op(kind="map", rule=rules.floating)
def logsigmoid(input, /):
    """Compute log(sigmoid(input)) without overflow."""
    return np.minimum(input, 0) - np.log1p(np.exp(-abs(input)))


@op(kind="map", rule=rules.floating, ggml="UNARY_SILU")
def silu(input, /):
    """Return input * sigmoid(input)."""
    return input / (1 + np.exp(-input))


@op(kind="map", rule=rules.floating)
def mish(input, /):
    """Return input * tanh(softplus(input))."""
    return input * np.tanh(np.where(input > 20, input, np.log1p(np.exp(np.minimum(input, 20)))))


@op(kind="map", rule=rules.floating, ggml="UNARY_GELU", public=False)
def gelu_tanh(input, /):
    """Compute the Gaussian error linear unit by tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    # 0.5 * (1 + tanh(u)) == 1 / (1 + exp(-2u)): one division instead of tanh's two polynomials.
    return input / (1 + np.exp((-2 * _SQRT_2_OVER_PI) * input * (1 + 0.044715 * input * input)))


@op(kind="map", rule=rules.floating, ggml="UNARY_GELU_ERF")
def gelu_erf(input, /):
    """Compute the exact Gaussian error linear unit: 0.5 x (1 + erf(x / sqrt(2)))."""
    return 0.5 * input * (1 + _erf(input * math.sqrt(0.5)))


@op(kind="map", rule=rules.floating, ggml="UNARY_GELU_QUICK")
def gelu_quick(input, /):
    """Return input * sigmoid(1.702 * input)."""
    return input / (1 + np.exp(-1.702 * input))


@op(kind="map", rule=rules.floating, ggml="UNARY_HARDSWISH")
def hardswish(input, /):
    """Return input * min(max(input + 3, 0), 6) / 6."""
    return input * (np.minimum(np.maximum(input + 3, 0), 6) / 6)


@op(kind="map", rule=rules.floating, ggml="UNARY_HARDSIGMOID")
def hardsigmoid(input, /):
    """Return min(max(input + 3, 0), 6) / 6."""
    return np.minimum(np.maximum(input + 3, 0), 6) / 6


@op(kind="map", rule=rules.limits)
def hardtanh(input, /, min_val: float = -1.0, max_val: float = 1.0):
    """Limit input to [min_val, max_val]."""
    return np.minimum(np.maximum(input, min_val), max_val)


@op(kind="map", rule=rules.floating, ggml="UNARY_SOFTPLUS")
def softplus(input, /, beta: float = 1.0, threshold: float = 20.0):
    """Return log(1 + exp(beta * input)) / beta, or input where beta * input > threshold."""
    scaled = input * beta
    return np.where(scaled > threshold, input, np.log1p(np.exp(np.minimum(scaled, threshold))) / beta)


@op(kind="map", rule=rules.floating)
def softsign(input, /):
    """Return input / (1 + |input|)."""
    return input / (1 + abs(input))


@op(kind="map", rule=rules.floating, ggml="UNARY_XIELU")
def xielu(input, /, alpha_n: float, alpha_p: float, beta: float, eps: float):
    """Compute GGML's xIELU; alpha_n and alpha_p are the values after GGML's softplus.

    alpha_p x^2 + beta x where x > 0, else alpha_n (expm1(min(x, eps)) - x) + beta x.

    >>> nt.xielu(nt.tensor([-1.0, 2.0]), 0.8, 0.5, 0.5, -1e-6)
    """
    positive = alpha_p * input * input + beta * input
    negative = (np.expm1(np.minimum(input, eps)) - input) * alpha_n + beta * input
    return np.where(input > 0, positive, negative)


@op(kind="map", rule=rules.floating)
def celu(input, /, alpha: float = 1.0):
    """Return max(input, 0) + min(alpha * (exp(input / alpha) - 1), 0)."""
    return np.where(input < 0, alpha * np.expm1(input / alpha), input)


@op(kind="map", rule=rules.floating)
def softshrink(input, /, lambd: float = 0.5):
    """Move input toward zero by lambd; elements within [-lambd, lambd] become zero."""
    return np.where(input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0))


@op(kind="map", rule=rules.floating)
def hardshrink(input, /, lambd: float = 0.5):
    """Return input where it is outside [-lambd, lambd], else zero."""
    return np.where(abs(input) <= lambd, 0, input)


@op(kind="map", rule=rules.floating)
def tanhshrink(input, /):
    """Return input - tanh(input)."""
    return input - np.tanh(input)


@op(kind="map", rule=rules.numeric)
def threshold(input, /, threshold: float, value: float):
    """Return input where it is above the threshold, else value.

    >>> nt.threshold(nt.tensor([0.5, 2.0]), 1.0, 0.0)
    """
    return np.where(input <= threshold, value, input)


# --- gated linear units: activation(input) * gate


def _gated(name, activation, ggml, rule=rules.floating) -> Recorder[...]:
    def body(input, gate, /):
        return activation.op.body(input) * gate

    body.__name__, body.__doc__ = name, f"Return {activation.op.name}(input) * gate."
    return op(kind="map", rule=rule, ggml=ggml, public=False)(body)


reglu_gate = _gated("reglu_gate", relu, "GLU_REGLU", rules.numeric)
geglu_gate = _gated("geglu_gate", gelu_tanh, "GLU_GEGLU")
geglu_erf_gate = _gated("geglu_erf_gate", gelu_erf, "GLU_GEGLU_ERF")
geglu_quick_gate = _gated("geglu_quick_gate", gelu_quick, "GLU_GEGLU_QUICK")
swiglu_gate = _gated("swiglu_gate", silu, "GLU_SWIGLU")


@op(kind="map", rule=rules.floating, ggml="GLU_SWIGLU_OAI", public=False)
def swiglu_oai_gate(input, gate, /, alpha: float = 1.702, limit: float = 7.0):
    """Return x * sigmoid(alpha x) * (g + 1), with x = min(input, limit) and g = clamp(gate, -limit, limit)."""
    x = np.minimum(input, limit)
    g = np.minimum(np.maximum(gate, -limit), limit)
    return x / (1 + np.exp(-alpha * x)) * (g + 1)


@op(kind="map", rule=rules.floating, public=False)
def glu_gate(input, gate, /):
    """Return input * sigmoid(gate), PyTorch's glu."""
    return input * sigmoid.op.body(gate)
