"""The standard's extension for linear algebra of real numbers: NumPy's functions on Tensors."""

from __future__ import annotations

from typing import Final

import numpy as np

from npu_tensor.array_api.promotion import of_numpy

_NAMES: Final = (
    *("cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power"),
    *("matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot"),
    *("trace", "vecdot", "vector_norm"),
)
globals().update({name: of_numpy(getattr(np.linalg, name)) for name in _NAMES})

__all__ = [*_NAMES]
