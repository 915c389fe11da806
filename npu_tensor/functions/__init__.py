"""Functions made of several ops. Importing this package enters all of them in the registry."""

from npu_tensor.functions import (  # noqa: F401
    arithmetic,
    convolution,
    creation,
    dot_product_attention,
    ggml,
    ggml_images,
    ggml_sequences,
    indexing,
    losses,
    neural,
    numpy_protocol,
    pooling,
    products,
    pytorch_arguments,
    random,
    reduce,
    resizing,
    scattering,
    search,
    shape,
    special_functions,
    stacking,
    statistics,
)
from npu_tensor.functions.creation import Generator, manual_seed

__all__ = ["Generator", "manual_seed"]
