"""The functions that are made of several ops. Importing this package enters all of them in the registry."""

from npu_tensor.functions import (
    arithmetic,
    convolution,
    creation,
    ggml,
    indexing,
    losses,
    neural,
    numpy_protocol,
    products,
    pytorch_arguments,
    random,
    reduce,
    resizing,
    scattering,
    search,
    shape,
)
from npu_tensor.functions.creation import Generator, manual_seed

__all__ = [
    "Generator",
    "arithmetic",
    "convolution",
    "creation",
    "ggml",
    "indexing",
    "losses",
    "manual_seed",
    "neural",
    "numpy_protocol",
    "products",
    "pytorch_arguments",
    "random",
    "reduce",
    "resizing",
    "scattering",
    "search",
    "shape",
]
