"""One kernel for each way in which the designs of each family differ, in each dtype that it takes.

    for entry in entries("aie2p"):
        task, offer, request = entry.request()

The shapes are small. They are what `npu-tensor kernel-source --all` writes, and what the lowering is tested with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.errors import ArgumentError
from npu_tensor.ggml_hsa import config_file
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.ggml_hsa.function_files import packaged

__all__ = ["VARIANTS", "Variant", "entries"]

FLOATS: Final = ("bf16", "f16", "f32")
INTEGERS: Final = ("i8", "i16", "i32", "u8")
ALL: Final = (*FLOATS, *INTEGERS)


class Variant(NamedTuple):
    """Kernels of one design in several dtypes.

    family: what claims it. name: what is special. function: of `ggml_hsa.kernel_functions`. inputs, output: descriptors
    with * for the dtype. says: words of the offer's reason that show the variant, or "".
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


def _elementwise() -> list[Variant]:
    family, square = "elementwise", "(64,64,1,1)/*"
    long = "(8192,1,1,1)/*"
    float32 = "(8192,1,1,1)/f32"
    unary = {"exp": FLOATS, "tanh": FLOATS, "gelu": FLOATS, "gelu_erf": FLOATS, "silu": FLOATS, "round": FLOATS}
    return [
        Variant(family, "one_stream", "ggml_unary_op_relu", (long,), long),
        Variant(family, "two_streams", "ggml_op_add", (long, long), long),
        Variant(family, "three_streams", "multiply_add", (long,) * 3, long, says="alternate"),
        Variant(family, "four_streams", "multiply_add_add", (long,) * 4, long, says="alternate"),
        Variant(family, "kept_row", "ggml_op_add", (square, "(64,1,1,1)/*"), square, says="kept"),
        Variant(family, "kept_column", "ggml_op_mul", (square, "(1,64,1,1)/*"), square, says="kept"),
        Variant(
            family, "kept_row_and_column", "multiply_add", (square, "(64,1,1,1)/*", "(1,64,1,1)/*"), square, says="kept"
        ),
        Variant(family, "repeated", "ggml_op_mul", ("(64,6,4,1)/*", "(16,2,4,1)/*"), "(64,6,4,1)/*"),
        Variant(
            family,
            "padded_rows",
            "ggml_op_add",
            ("(1023,8,1,1)/*", "(1023,1,1,1)/*"),
            "(1023,8,1,1)/*",
            says="the host pads rows",
        ),
        Variant(
            family,
            "laid_out_by_the_host",
            "ggml_op_sub",
            (square, "(64,64,1,1)/*/(64,1,4096,4096)"),
            square,
            says="the host lays",
        ),
        Variant(family, "two_sizes", "multiply_add", (long, long, float32), float32, ("bf16", "i8")),
        Variant(family, "two_results", "exp_and_one_more", (long,), long, FLOATS),
        Variant(family, "number", "times_number", (long,), long),
        Variant(family, "select", "select", (long, long), long),
        *(Variant(family, name, f"ggml_unary_op_{name}", (long,), long, dtypes) for name, dtypes in unary.items()),
        *(
            Variant(family, f"to_{dtype}", "ggml_op_cpy", (long,), f"(8192,1,1,1)/{dtype}", others)
            for dtype, others in {
                "f32": ("bf16", "f16", "i8", "i16", "i32", "u8"),
                "bf16": ("f32", "f16", "i8", "i16", "i32"),
                "i32": ("bf16", "f32", "i8", "i16", "u8"),
                "i8": ("bf16", "f32", "i16", "i32"),
            }.items()
        ),
    ]


def _rowwise() -> list[Variant]:
    family, rows, totals = "rowwise", "(64,32,1,1)/*", "(1,32,1,1)/*"
    long = "(65536,1,1,1)/*"
    many, padded, vector = "(32768,64,1,1)/*", "(61,5,1,1)/*", "(64,1,1,1)/*"
    # A sum of i32 may need more than 32 bits, and float16 passes through bfloat16, which an index would show.
    summed, compared = (*FLOATS, "i8", "i16", "u8"), ("bf16", "f32", *INTEGERS)
    return [
        Variant(family, "soft_max", "ggml_op_soft_max", (rows,), rows, FLOATS, "at a time in each"),
        Variant(family, "norm", "ggml_op_norm", (rows,), rows, FLOATS),
        Variant(family, "weights", "weighted_rms_norm", (rows, "(64,1,1,1)/f32"), rows, FLOATS),
        Variant(family, "two_streams", "masked_soft_max", (rows, rows), rows, FLOATS),
        Variant(family, "two_results", "shifted_and_soft_max", (rows,), rows, FLOATS),
        Variant(family, "number", "times_number_soft_max", (rows,), rows, FLOATS),
        Variant(family, "one_per_row", "sum_of_shifted", (rows, totals), totals, FLOATS),
        Variant(family, "sum", "ggml_op_sum_rows", (rows,), totals, summed),
        Variant(family, "mean", "ggml_op_mean", (rows,), totals, FLOATS),
        Variant(family, "argmax", "ggml_op_argmax", (rows,), "(32,1,1,1)/i32", compared),
        Variant(family, "count_equal", "ggml_op_count_equal", (rows, rows), "(1,1,1,1)/i64", compared),
        Variant(family, "padded_rows", "ggml_op_soft_max", (padded,), padded, FLOATS),
        Variant(family, "parts", "ggml_op_soft_max", (many,), many, FLOATS, "for each of"),
        Variant(family, "shared_row", "ggml_op_soft_max", (long,), long, FLOATS, "shared by"),
        Variant(family, "shared_sum", "ggml_op_sum_rows", (long,), "(1,1,1,1)/*", summed, "shared by"),
        Variant(family, "matrix_vector", "ggml_op_mul_mat", (rows, vector), "(32,1,1,1)/*", FLOATS),
    ]


def _gemm() -> list[Variant]:
    family, function = "gemm", "ggml_op_mul_mat"
    dtypes = ("bf16", "f16", "f32", "i8", "i16", "u8")
    b, a, result = "(64,256,1,1)/*", "(64,128,1,1)/*", "(256,128,1,1)/*"
    by_rows = "(64,256,1,1)/*/(256,1,16384,16384)"
    bias, column = "(256,1,1,1)/*", "(1,128,1,1)/*"
    odd = ("(33,47,1,1)/*", "(33,65,1,1)/*")
    batch, shared = ("(64,32,3,1)/*", "(64,48,3,1)/*"), ("(64,32,2,1)/*", "(64,48,4,3)/*")
    return [
        Variant(family, "by_columns", function, (b, a), result, dtypes),
        Variant(family, "by_rows", function, (by_rows, a), result, dtypes),
        Variant(family, "padded", function, odd, "(47,65,1,1)/*", dtypes, "the host pads to"),
        Variant(family, "batch", function, batch, "(32,48,3,1)/*", dtypes),
        Variant(family, "shared_batch", function, shared, "(32,48,4,3)/*", dtypes),
        Variant(family, "to_f32", function, (b, a), "(256,128,1,1)/f32", ("bf16", "f16")),
        Variant(family, "to_i32", function, (b, a), "(256,128,1,1)/i32", ("i8", "i16", "u8")),
        Variant(family, "bias_gelu", "linear_gelu", (b, a, bias), result, FLOATS),
        Variant(family, "bias_relu", "linear_relu", (b, a, bias), result, dtypes),
        Variant(family, "column", "product_times_column", (b, a, column), result, dtypes),
        Variant(family, "number", "product_times_number", (b, a), result, dtypes),
    ]


def _movement() -> list[Variant]:
    family, cont, concat = "movement", "ggml_op_cont", "ggml_op_concat"
    matrix, block, slab = "(128,64,1,1)/*", "(32,16,8,1)/*", "(32,64,1,1)/*"
    few, more = "(64,8,1,1)/*", "(64,16,1,1)/*"
    by_words, by_parts = ("f32", "i32"), ("bf16", "f16", "i8", "i16", "u8")
    return [
        Variant(family, "transpose_words", cont, (f"{matrix}/(64,1,1,1)",), matrix, by_words, "DMA only"),
        Variant(family, "transpose", cont, (f"{matrix}/(64,1,1,1)",), matrix, by_parts, "cores transpose"),
        Variant(family, "permute", cont, (f"{block}/(1,256,32,1)",), block),
        Variant(family, "slice", cont, (f"{slab}/(1,64,1,1)",), slab),
        Variant(family, "repeat", "ggml_op_repeat", (few,), "(64,32,1,1)/*"),
        Variant(family, "concat_rows", concat, (few, more), "(64,24,1,1)/*", op_params={"dim": 1}),
        Variant(family, "concat_columns", concat, (few, "(32,8,1,1)/*"), "(96,8,1,1)/*"),
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
    family, function = "get_rows", "ggml_op_get_rows"

    def variant(name: str, features: int, taken: int, says: str = "") -> Variant:
        inputs, output = (f"({features},100,1,1)/*", f"({taken},1,1,1)/i32"), f"({features},{taken},1,1)/*"
        return Variant(family, name, function, inputs, output, ALL, says)

    return [
        variant("one_pass", 64, 32, "passes over the table: 1,"),
        variant("several_passes", 64, 4000),
        variant("padded_rows", 61, 7),
    ]


VARIANTS: Final = (*_elementwise(), *_rowwise(), *_gemm(), *_movement(), *_rope(), *_get_rows())


def entries(arch: Arch) -> list[Entry]:
    """The representative kernels for an array; `exported_name` is family, variant and dtype, joined by -."""
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
        }
        for variant in VARIANTS
        for dtype in variant.dtypes
    ]
    found = config_file.read({"kernels": kernels})
    problems = [str(problem) for problem in found if isinstance(problem, config_file.Problem)]
    if problems:
        raise ArgumentError("; ".join(problems))
    return [entry for entry in found if isinstance(entry, Entry)]
