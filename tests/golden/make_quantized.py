"""Write ``quantized.npz``: weights that ggml has quantized, and its products of them with float32 rows.

Install ``ggml-python==0.0.45`` and run ``python make_quantized.py [quantized.npz]``. Arrays by type:
``<type>/bytes`` (rows, bytes of a row), ``<type>/numbers`` ggml's float32 for them, ``<type>/out`` the product
``x @ numbers.T`` as ggml's CPU back end computes it; ``x`` is common to all.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import ggml
import numpy as np

TYPES = {
    name.lower(): getattr(ggml, f"GGML_TYPE_{name}")
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4")
}
ROWS, TOKENS, FEATURES = 5, 3, 512


def memory(tensor: Any) -> np.ndarray[Any, Any]:
    """The bytes of a tensor."""
    nbytes = ggml.ggml_nbytes(tensor)
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(ggml.ggml_get_data(tensor)))


def computed(context: Any, result: Any) -> np.ndarray[Any, Any]:
    """A copy of the value of a float32 tensor of two dimensions."""
    graph = ggml.ggml_new_graph(context)
    ggml.ggml_build_forward_expand(graph, result)
    assert ggml.ggml_graph_compute_with_ctx(context, graph, 1) == 0
    columns, rows, *_ = result.contents.ne
    return memory(result).view(np.float32).reshape(rows, columns).copy()


def main(path: Path) -> None:
    random = np.random.default_rng(18)
    numbers = random.standard_normal((ROWS, FEATURES), np.float32)
    x = random.standard_normal((TOKENS, FEATURES), np.float32)
    arrays = {"x": x}
    for name, kind in TYPES.items():
        context = ggml.ggml_init(ggml.ggml_init_params(mem_size=16 << 20, mem_buffer=None, no_alloc=False))
        weights = ggml.ggml_new_tensor_2d(context, kind, FEATURES, ROWS)
        source = numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        ggml.ggml_quantize_chunk(kind, source, ggml.ggml_get_data(weights), 0, ROWS, FEATURES, None)
        rows = ggml.ggml_new_tensor_2d(context, ggml.GGML_TYPE_F32, FEATURES, TOKENS)
        memory(rows)[:] = x.view(np.uint8).ravel()
        arrays[f"{name}/bytes"] = memory(weights).reshape(ROWS, -1).copy()
        arrays[f"{name}/numbers"] = computed(context, ggml.ggml_cast(context, weights, ggml.GGML_TYPE_F32))
        arrays[f"{name}/out"] = computed(context, ggml.ggml_mul_mat(context, weights, rows))
        ggml.ggml_free(context)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("quantized.npz"))
