"""The Python array API standard (2025.12) on Tensors, as returned by `Tensor.__array_namespace__`.

The functions are NumPy's of the same names, called on Tensors. Those with a counterpart here are recorded, the others
compute their operands, and all return Tensors. Dtypes are promoted by dtype alone, as the standard requires, and not by
PyTorch's rules as in the main namespace. Complex numbers are missing, and so `linalg.eig` and the transforms of `fft`;
uint8 is the only unsigned integer type.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import npu_tensor
from npu_tensor.array_api import fft, functions  # noqa: F401 - fft is the standard's extension
from npu_tensor.array_api import linear_algebra as linalg  # noqa: F401 - the standard's name
from npu_tensor.array_api.promotion import of_numpy

__array_api_version__: Final = "2025.12"

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

_PROMOTED: Final = (
    "abs acos acosh add all any argmax argmin asin asinh atan atan2 atanh bitwise_and bitwise_invert "
    "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil concat conj copysign cos cosh count_nonzero "
    "cumulative_prod cumulative_sum diff divide empty_like equal exp expand_dims expm1 flip floor floor_divide "
    "full_like greater greater_equal hypot imag isfinite isin isinf isnan less less_equal log log10 log1p log2 "
    "logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean min minimum "
    "moveaxis multiply negative nextafter nonzero not_equal ones_like permute_dims positive pow prod real reciprocal "
    "reshape roll round searchsorted sign signbit sin sinh sqrt square squeeze stack std subtract sum tan tanh "
    "tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot "
    "zeros_like"
)
_NOT_PROMOTED: Final = "astype broadcast_to repeat take take_along_axis"


globals().update(
    {name: of_numpy(getattr(np, name)) for name in _PROMOTED.split()},
    **{name: of_numpy(getattr(np, name), None) for name in _NOT_PROMOTED.split()},
    where=of_numpy(np.where, 1),
    broadcast_arrays=npu_tensor.broadcast_tensors,
    broadcast_shapes=npu_tensor.broadcast_shapes,
    **{name: getattr(functions, name) for name in functions.__all__},
    **functions.OF_THE_STANDARD,
)
