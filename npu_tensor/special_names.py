"""Special functions with the names of torch.special, as `npu_tensor.special`."""

from __future__ import annotations

from typing import Any, Final

from npu_tensor.errors import no_such_name
from npu_tensor.functions.special_functions import FUNCTIONS
from npu_tensor.ops import registry

_SAME: Final = (
    *("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "log_softmax", "logit", "logsumexp", "polygamma"),
    *("round", "sinc", "softmax", "xlogy"),
)
"""Functions of the package that have the same name."""

_OTHERS: Final = {"expit": "sigmoid", "gammaln": "lgamma", "multigammaln": "mvlgamma", "psi": "digamma"}
"""Names of functions of the package by PyTorch's other names."""

_PUBLIC: Final = registry.functions()
_FUNCTIONS: Final = FUNCTIONS | {name: _PUBLIC[_OTHERS.get(name, name)] for name in (*_SAME, *_OTHERS)}
globals().update(_FUNCTIONS)

__all__ = sorted(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise no_such_name(f"module {__name__!r}", name, __all__)
