"""The Python array API standard (2024.12) on Tensors: what `Tensor.__array_namespace__` gives to libraries that follow it.

The functions are NumPy's of the same names, called on Tensors: what has a counterpart here is recorded, the rest
computes its operands, and all give Tensors. Dtypes are promoted as the standard says, by dtype alone, and not as in the
main namespace, whose rules are PyTorch's. There are no complex numbers, and of unsigned integers uint8 alone.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from npu_tensor.array_api import creation, inspection, linalg
from npu_tensor.array_api.promotion import of_numpy
from npu_tensor.tensor import Tensor

__array_api_version__: Final = "2024.12"

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

_OF_ONE_DTYPE: Final = (
    *("abs", "acos", "acosh", "add", "all", "any", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2"),
    *("atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *("bitwise_xor", "ceil", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod"),
    *("cumulative_sum", "diff", "divide", "empty_like", "equal", "exp", "expand_dims", "expm1", "flip", "floor"),
    *("floor_divide", "full_like", "greater", "greater_equal", "hypot", "imag", "isfinite", "isin", "isinf", "isnan", "less"),
    *("less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or"),
    *("logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "min", "minimum", "moveaxis", "multiply"),
    *("negative", "nextafter", "nonzero", "not_equal", "ones_like", "permute_dims", "positive", "pow", "prod"),
    *("real", "reciprocal", "remainder", "reshape", "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh", "sort"),
    *("sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "tan", "tanh", "tensordot", "tile", "tril"),
    *("triu", "trunc", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot"),
    "zeros_like",
)
_NOT_PROMOTED: Final = (
    *("astype", "broadcast_arrays", "broadcast_to", "meshgrid", "repeat", "take", "take_along_axis"),
)



def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """x limited to [min, max], in its dtype."""
    return x.clone() if min is None and max is None else x.clamp(min, max).to(x.dtype)


globals().update(
    {name: of_numpy(getattr(np, name)) for name in _OF_ONE_DTYPE},
    **{name: of_numpy(getattr(np, name), None) for name in _NOT_PROMOTED},
    where=of_numpy(np.where, 1),
    **{name: getattr(creation, name) for name in creation.__all__},
    **{name: getattr(inspection, name) for name in inspection.__all__ if name != "OF_THE_STANDARD"},
    **inspection.OF_THE_STANDARD,
)
