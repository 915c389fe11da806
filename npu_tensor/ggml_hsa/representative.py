"""Representative kernels: one for each variant of the designs of each family, in each of its dtypes.

    for entry in entries("aie2p"):
        request = entry.request()

The shapes are small. `npu-tensor kernel-source --all` writes these kernels, and tests of the lowering use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.ggml_hsa import config_file
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.ggml_hsa.function_files import packaged

FLOATS: Final = ("bf16", "f16", "f32")
INTEGERS: Final = ("i8", "i16", "i32", "u8")
ALL: Final = (*FLOATS, *INTEGERS)


class Variant(NamedTuple):
    """Kernels of one design in several dtypes.

    Attributes:
        family: Kernel family that claims it.
        name: Name of the variant.
        function: Function in `ggml_hsa.kernel_functions`.
        inputs: Descriptors of the operands, with * for the dtype.
        output: Descriptor of the result, with * for the dtype.
        dtypes: Dtypes of the variant.
        says: Words of the offer's reason that show the variant, or "".
        op_params: Keywords of the function.
        float32: Precision of float32 on the array.
        bfloat16: Precision of bfloat16 on the array.
    """

    family: str
    name: str
    function: str
    inputs: tuple[str, ...]
    output: str
    dtypes: tuple[str, ...] = ALL
    says: str = ""
    op_params: Mapping[str, Any] = {}
    float32: str = "emulate"
    bfloat16: str = "exact"


def _elementwise() -> list[Variant]:
    variant, square = partial(Variant, "elementwise"), "(64,64,1,1)/*"
    long, odd, by_columns = "(8192,1,1,1)/*", "(1023,8,1,1)/*", "(64,64,1,1)/*/(64,1,4096,4096)"
    float32 = "(8192,1,1,1)/f32"
    unary = {"exp": FLOATS, "tanh": FLOATS, "gelu": FLOATS, "gelu_erf": FLOATS, "silu": FLOATS, "round": FLOATS}
    return [
        variant("one_stream", "ggml_unary_op_relu", (long,), long),
        variant("two_streams", "ggml_op_add", (long, long), long),
        variant("three_streams", "multiply_add", (long,) * 3, long, says="alternate"),
        variant("four_streams", "multiply_add_add", (long,) * 4, long, says="alternate"),
        variant("kept_row", "ggml_op_add", (square, "(64,1,1,1)/*"), square, says="kept"),
        variant("kept_column", "ggml_op_mul", (square, "(1,64,1,1)/*"), square, says="kept"),
        variant("kept_row_and_column", "multiply_add", (square, "(64,1,1,1)/*", "(1,64,1,1)/*"), square, says="kept"),
        variant("repeated", "ggml_op_mul", ("(64,6,4,1)/*", "(16,2,4,1)/*"), "(64,6,4,1)/*"),
        variant("padded_rows", "ggml_op_add", (odd, "(1023,1,1,1)/*"), odd, says="the host pads rows"),
        variant("laid_out_by_the_host", "ggml_op_sub", (square, by_columns), square, says="the host lays"),
        variant("two_sizes", "multiply_add", (long, long, float32), float32, ("bf16", "i8")),
        variant("two_results", "exp_and_one_more", (long,), long, FLOATS),
        variant("number", "times_number", (long,), long),
        variant("select", "select", (long, long), long),
        *(variant(name, f"ggml_unary_op_{name}", (long,), long, dtypes) for name, dtypes in unary.items()),
        *(
            variant(f"to_{dtype}", "ggml_op_cpy", (long,), f"(8192,1,1,1)/{dtype}", others)
            for dtype, others in {
                "f32": ("bf16", "f16", "i8", "i16", "i32", "u8"),
                "bf16": ("f32", "f16", "i8", "i16", "i32"),
                "i32": ("bf16", "f32", "i8", "i16", "u8"),
                "i8": ("bf16", "f32", "i16", "i32"),
            }.items()
        ),
    ]


def _rowwise() -> list[Variant]:
    variant, rows, totals = partial(Variant, "rowwise"), "(64,32,1,1)/*", "(1,32,1,1)/*"
    long = "(65536,1,1,1)/*"
    many, padded, vector = "(32768,64,1,1)/*", "(61,5,1,1)/*", "(64,1,1,1)/*"
    # A sum of i32 may need more than 32 bits, and float16 passes through bfloat16, which an index would show.
    summed, compared = (*FLOATS, "i8", "i16", "u8"), ("bf16", "f32", *INTEGERS)
    return [
        variant("soft_max", "ggml_op_soft_max", (rows,), rows, FLOATS, "at a time in each"),
        variant("norm", "ggml_op_norm", (rows,), rows, FLOATS),
        variant("weights", "weighted_rms_norm", (rows, "(64,1,1,1)/f32"), rows, FLOATS),
        variant("two_streams", "masked_soft_max", (rows, rows), rows, FLOATS),
        variant("two_results", "shifted_and_soft_max", (rows,), rows, FLOATS),
        variant("number", "times_number_soft_max", (rows,), rows, FLOATS),
        variant("one_per_row", "sum_of_shifted", (rows, totals), totals, FLOATS),
        variant("sum", "ggml_op_sum_rows", (rows,), totals, summed),
        variant("mean", "ggml_op_mean", (rows,), totals, FLOATS),
        variant("argmax", "ggml_op_argmax", (rows,), "(32,1,1,1)/i32", compared),
        variant("count_equal", "ggml_op_count_equal", (rows, rows), "(1,1,1,1)/i64", compared),
        variant("padded_rows", "ggml_op_soft_max", (padded,), padded, FLOATS),
        variant("parts", "ggml_op_soft_max", (many,), many, FLOATS, "for each of"),
        variant("shared_row", "ggml_op_soft_max", (long,), long, FLOATS, "shared by"),
        variant("shared_sum", "ggml_op_sum_rows", (long,), "(1,1,1,1)/*", summed, "shared by"),
        variant("matrix_vector", "ggml_op_mul_mat", (rows, vector), "(32,1,1,1)/*", FLOATS),
    ]


def _gemm() -> list[Variant]:
    variant, function = partial(Variant, "gemm"), "ggml_op_mul_mat"
    dtypes = ("bf16", "f16", "f32", "i8", "i16", "u8")
    b, a, result = "(64,256,1,1)/*", "(64,128,1,1)/*", "(256,128,1,1)/*"
    by_rows = "(64,256,1,1)/*/(256,1,16384,16384)"
    bias, column = "(256,1,1,1)/*", "(1,128,1,1)/*"
    odd = ("(33,47,1,1)/*", "(33,65,1,1)/*")
    batch, shared = ("(64,32,3,1)/*", "(64,48,3,1)/*"), ("(64,32,2,1)/*", "(64,48,4,3)/*")
    return [
        variant("by_columns", function, (b, a), result, dtypes),
        variant("by_rows", function, (by_rows, a), result, dtypes),
        variant("padded", function, odd, "(47,65,1,1)/*", dtypes, "the host pads to"),
        variant("batch", function, batch, "(32,48,3,1)/*", dtypes),
        variant("shared_batch", function, shared, "(32,48,4,3)/*", dtypes),
        variant("to_f32", function, (b, a), "(256,128,1,1)/f32", ("bf16", "f16")),
        variant("to_i32", function, (b, a), "(256,128,1,1)/i32", ("i8", "i16", "u8")),
        variant("bias_gelu", "linear_gelu", (b, a, bias), result, FLOATS),
        variant("bias_relu", "linear_relu", (b, a, bias), result, dtypes),
        variant("column", "product_times_column", (b, a, column), result, dtypes),
        variant("number", "product_times_number", (b, a), result, dtypes),
    ]


def _movement() -> list[Variant]:
    variant, cont, concat = partial(Variant, "movement"), "ggml_op_cont", "ggml_op_concat"
    matrix, block, slab = "(128,64,1,1)/*", "(32,16,8,1)/*", "(32,64,1,1)/*"
    few, more = "(64,8,1,1)/*", "(64,16,1,1)/*"
    by_words, by_parts = ("f32", "i32"), ("bf16", "f16", "i8", "i16", "u8")
    return [
        variant("transpose_words", cont, (f"{matrix}/(64,1,1,1)",), matrix, by_words, "DMA only"),
        variant("transpose", cont, (f"{matrix}/(64,1,1,1)",), matrix, by_parts, "cores transpose"),
        variant("permute", cont, (f"{block}/(1,256,32,1)",), block),
        variant("slice", cont, (f"{slab}/(1,64,1,1)",), slab),
        variant("repeat", "ggml_op_repeat", (few,), "(64,32,1,1)/*"),
        variant("concat_rows", concat, (few, more), "(64,24,1,1)/*", op_params={"dim": 1}),
        variant("concat_columns", concat, (few, "(32,8,1,1)/*"), "(96,8,1,1)/*"),
    ]


def _rope() -> list[Variant]:
    family, function = "rope", "ggml_op_rope"
    x, positions, factors = "(64,4,16,1)/*", "(16,1,1,1)/i32", "(32,1,1,1)/f32"
    yarn = {"n_ctx_orig": 4096, "freq_scale": 0.25, "ext_factor": 1.0, "attn_factor": 1.1}
    settings: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "neighbours": ((x, positions), {}),
        "halves": ((x, positions), {"mode": "neox"}),
        "part_of_the_features": ((x, positions), {"n_dims": 32}),
        "factors": ((x, positions, factors), {}),
        "yarn": ((x, positions), yarn),
    }
    return [
        Variant(family, name, function, inputs, x, FLOATS, op_params=params, float32="bfloat16")
        for name, (inputs, params) in settings.items()
    ]


def _get_rows() -> list[Variant]:
    def variant(name: str, features: int, rows: int, says: str = "") -> Variant:
        inputs, output = (f"({features},100,1,1)/*", f"({rows},1,1,1)/i32"), f"({features},{rows},1,1)/*"
        return Variant("get_rows", name, "ggml_op_get_rows", inputs, output, ALL, says)

    one_pass = variant("one_pass", 64, 32, "passes over the table: 1,")
    return [one_pass, variant("several_passes", 64, 4000), variant("padded_rows", 61, 7)]


def _quantized() -> list[Variant]:
    def variant(name: str, weights: str, rows: int, tokens: int, says: str = "", features: int = 96) -> Variant:
        inputs, output = (
            (f"({features},{rows},1,1)/{weights}", f"({features},{tokens},1,1)/*"),
            f"({rows},{tokens},1,1)/*",
        )
        return Variant("quantized", name, "ggml_op_mul_mat", inputs, output, ("bf16", "f32"), says)

    dtypes = {"q8_0": 96, "q4_0": 96, "q4_1": 96, "q5_1": 96, "q6_k": 256}  # one of each format of blocks
    vectors = [variant(name, name, 500, 1, f"{name} dequantized", features) for name, features in dtypes.items()]
    return [*vectors, variant("turns", "q4_1", 40, 40, "stream by 2 times")]


def _attention() -> list[Variant]:
    # Kernels of float32 are those of float16: both round their operands to bfloat16 and have float32 results.
    def variant(name: str, sizes: tuple[int, int, int], queries: int, keys: int, *mask: str, **more: Any) -> Variant:
        features, heads, groups = sizes
        q, kv = f"({features},{queries},{heads},1)/*", f"({features},{keys},{groups},1)/*"
        result, fields = (
            f"({features},{heads},{queries},1)/*",
            {"dtypes": ("bf16", "f16"), "float32": "bfloat16", **more},
        )
        return Variant("attention", name, "attention", (q, kv, kv, *mask), result, **fields)

    return [
        variant("heads", (64, 4, 4), 100, 130, says="tiles of 16 queries by 32 keys"),
        variant("causal", (64, 4, 2), 100, 100, op_params={"is_causal": True}),
        variant("mask", (64, 4, 2), 70, 100, "(100,70,1,1)/f32"),
        variant("soft_cap", (64, 4, 2), 70, 100, "(100,70,1,1)/f32", op_params={"softcap": 0.5}),
        variant("one_query", (64, 8, 2), 1, 500),
        variant("one_query_mask", (64, 8, 2), 1, 500, "(500,1,1,1)/f32"),
        variant("wide_heads", (128, 2, 2), 160, 90, says="by 16 keys"),
        variant("bfp16", (64, 4, 4), 100, 130, dtypes=("bf16",), bfloat16="bfp16"),
    ]


def _conv() -> list[Variant]:
    variant, image, bias = partial(Variant, "conv", dtypes=FLOATS), "(16,33,21,1)/*", "(24,1,1,1)/f32"
    kernel, result, around = "(3,3,16,24)/*", "(24,33,21,1)/*", {"padding": 1}
    strided, halves = ("(16,33,21,1)/*", "(5,5,16,24)/*"), {"stride": 2, "padding": 2}
    groups, grouped = ("(64,14,14,1)/*", "(3,3,16,64)/*"), {"groups": 4, "padding": 1}
    plain = partial(variant, function="convolution", inputs=(image, kernel), output=result, op_params=around)
    return [
        plain("border"),
        variant("strides", "convolution", strided, "(24,17,11,1)/*", op_params=halves),
        variant("groups", "convolution", groups, "(64,14,14,1)/*", op_params=grouped),
        variant("bias_relu", "convolution_relu", (image, kernel, bias), result, op_params=around),
        plain(
            "residual", function="convolution_residual", inputs=(image, kernel, bias, result), dtypes=("bf16", "f32")
        ),
        plain("rounded", dtypes=("f32",), says="float32 operands become bfloat16", float32="bfloat16"),
        plain("bfp16", dtypes=("bf16",), bfloat16="bfp16"),
    ]


def _windows() -> list[Variant]:
    variant, image, kernel = partial(Variant, "windows", dtypes=FLOATS), "(64,28,28,1)/*", "(3,3,1,64)/*"
    halves, bias, depthwise = "(64,14,14,1)/*", "(64,1,1,1)/f32", {"groups": 64, "padding": 1}
    maximum, strided = {"kernel": 3, "stride": 2, "padding": 1}, {**depthwise, "stride": 2}
    return [
        variant("max_pool", "max_pool", (image,), halves, op_params=maximum),
        variant("mean_pool", "mean_pool", (image,), halves, op_params={"kernel": 2, "stride": 2}),
        variant("depthwise", "convolution", (image, kernel), image, op_params=depthwise),
        variant("depthwise_strides", "convolution", (image, kernel), halves, op_params=strided),
        variant("depthwise_bias_relu", "convolution_relu", (image, kernel, bias), image, op_params=depthwise),
        variant("rounded", "mean_pool", (image,), halves, dtypes=("f32",), op_params=maximum, float32="bfloat16"),
    ]


VARIANTS: Final = (
    *_elementwise(),
    *_rowwise(),
    *_gemm(),
    *_movement(),
    *_rope(),
    *_get_rows(),
    *_quantized(),
    *_attention(),
    *_conv(),
    *_windows(),
)


@cache
def entries(arch: Arch) -> tuple[Entry, ...]:
    """Return the representative kernels for an array; `exported_name` is family, variant and dtype, joined by -."""
    kernels = [
        {
            "kernel_name": variant.function,
            "kernel_source": packaged()[variant.function].name,
            "arch": arch,
            "input_tensors": [text.replace("*", dtype) for text in variant.inputs],
            "output_tensor": variant.output.replace("*", dtype),
            "exported_name": f"{variant.family}-{variant.name}-{dtype}",
            "op_params": variant.op_params,
            "float32": variant.float32,
            "bfloat16": variant.bfloat16,
        }
        for variant in VARIANTS
        for dtype in variant.dtypes
    ]
    return tuple(config_file.require_valid(config_file.read({"kernels": kernels}), __name__))
