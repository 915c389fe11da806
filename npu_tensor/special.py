"""Special functions with the names of torch.special."""

from __future__ import annotations

from typing import Any, Final

from npu_tensor.errors import no_such_name
from npu_tensor.functions.special_functions import FUNCTIONS
from npu_tensor.ops import registry

_NAMES: Final = {
    **{name: name for name in ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "log_softmax", "logit")},
    **{name: name for name in ("logsumexp", "polygamma", "round", "sinc", "softmax", "xlogy")},
    **{"expit": "sigmoid", "gammaln": "lgamma", "multigammaln": "mvlgamma", "psi": "digamma"},
}
"""PyTorch's names of functions of the package."""

_FUNCTIONS: Final = {**{name: registry.functions()[known] for name, known in _NAMES.items()}, **FUNCTIONS}
globals().update(_FUNCTIONS)

__all__ = sorted(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    raise no_such_name(f"module {__name__!r}", name, __all__)
