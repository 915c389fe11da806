"""PyTorch's functions that are made of several ops. Importing this package completes FUNCTIONS and Tensor."""

from npu_tensor.functions import (
    arithmetic,
    creation,
    ggml,
    indexing,
    random,
    reduce,
    shape,
)  # isort: skip
from npu_tensor.functions import (
    neural as nn,
)
from npu_tensor.functions import (
    products as linalg,
)

from npu_tensor.functions import convolution, grids, losses, resizing, scattering, search  # isort: skip
from npu_tensor.functions import pytorch_arguments  # isort: skip  # after the functions that make tensors
from npu_tensor.functions import numpy_protocol  # isort: skip  # after the functions that it looks up
from npu_tensor.functions import inplace  # isort: skip  # after everything that has an in-place form
from npu_tensor.functions.creation import Generator, manual_seed
from npu_tensor.functions.register import GGML_NAMES, METHODS

__all__ = [
    "GGML_NAMES",
    "METHODS",
    "Generator",
    "arithmetic",
    "convolution",
    "creation",
    "ggml",
    "grids",
    "indexing",
    "inplace",
    "linalg",
    "losses",
    "manual_seed",
    "nn",
    "numpy_protocol",
    "pytorch_arguments",
    "random",
    "reduce",
    "resizing",
    "scattering",
    "search",
    "shape",
]
