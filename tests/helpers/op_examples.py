"""Operands and attributes that every op can be tried with."""

from typing import Any

import numpy as np

import npu_tensor as nt
from npu_tensor.dtypes import DType
from npu_tensor.ops import Op

Case = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function or its name, positional arguments, keywords."""


def calls(function: Any, *arguments: tuple[Any, ...]) -> list[Case]:
    """Return cases of one function; a dict after the positional arguments has the keywords."""
    return [
        (function, call[:-1], call[-1]) if isinstance(call[-1], dict) else (function, call, {}) for call in arguments
    ]


ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "add": [{}, {"alpha": 2}],
    "sub": [{}, {"alpha": 3}],
    "clamp": [{"min": -1, "max": 2}, {"min": 0.5}, {"max": 1}, {"min": 2, "max": -1}],
    "scale": [{"s": 2.0}, {"s": -0.5, "b": 3.0}],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "elu": [{}, {"alpha": 0.5}],
    "hardtanh": [{}, {"min_val": -2.0, "max_val": 0.5}],
    "softplus": [{}, {"beta": 2.0, "threshold": 5.0}],
    "xielu": [{"alpha_n": 0.8, "alpha_p": 0.5, "beta": 0.5, "eps": -1e-6}],
    "celu": [{}, {"alpha": 0.5}],
    "softshrink": [{}, {"lambd": 0.2}],
    "hardshrink": [{}, {"lambd": 0.2}],
    "threshold": [{"threshold": 1, "value": 3}],
    "logit": [{}, {"eps": 0.25}],
    "swiglu_oai_gate": [{}, {"alpha": 1.0, "limit": 2.0}],
}

DIVISIONS = ("floor_divide", "remainder", "fmod", "pow_integer")


def operands_of(op: Op, shapes: Any, dtype: DType, seed: int = 0) -> list[nt.Tensor]:
    """Random operands in the op's domain. Integers are drawn where the op may wrap but a divisor is never zero."""
    rng = np.random.default_rng(seed)
    low, high = op.domain
    made = []
    for shape in shapes:
        if dtype.is_floating_point:
            values = rng.uniform(low, high, shape)
        elif dtype is nt.bool:
            values = rng.integers(0, 2, shape)
        else:
            least = 1 if op.name in DIVISIONS else 0 if dtype is nt.uint8 or op.domain[0] >= 0 else -9
            values = rng.integers(least, int(max(high, 9)) if "shift" not in op.name else 7, shape)
        made.append(nt.from_numpy(np.asarray(values)).to(dtype))
    return made
