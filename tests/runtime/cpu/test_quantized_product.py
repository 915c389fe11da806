"""Products with quantized weights, as compiled for several instruction sets, against float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_harness import AARCH64, AVX512, assembly, launch, target

from npu_tensor.dtypes import QUANTIZED, DType
from npu_tensor.ops.quantized import dequantize
from npu_tensor.runtime.cpu.quantized_product import (
    QuantizedSpec,
    RoundedRow,
    product_meta,
    product_module,
    round_module,
)
from npu_tensor.runtime.cpu.target import CpuTarget

ROWS, FEATURES = 5, 512
each_type = pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)


def weights_of(dtype: DType) -> Any:
    """Blocks of any codes and of scales of about 1."""
    random = np.random.default_rng(3)
    stored = random.integers(0, 256, (ROWS, dtype.nbytes(FEATURES)), np.uint8)
    blocks = stored.view(dtype.numpy)
    for field in {"d", "dmin", "m"} & set(dtype.numpy.names or ()):
        blocks[field] = random.standard_normal(blocks.shape)
    if dtype.name == "mxfp4":
        blocks["e"] = random.integers(0, 130, blocks.shape)  # with subnormal scales
    return blocks


@each_type
@pytest.mark.parametrize("level", ["", "sse4", "sse2"])
def test_levels(dtype: DType, level: str) -> None:
    """One more token than a tile has, so that one is computed twice."""
    blocks, made_for = weights_of(dtype), target(level)
    numbers = dequantize.op.body(blocks).astype(np.float64)
    row = RoundedRow.of(FEATURES)
    for exact, tokens in ((False, 1), (False, 3), (True, 2)):
        x = np.random.default_rng(4).standard_normal((tokens + 1, FEATURES), np.float32)
        source, read = x, x
        meta = product_meta(dtype, exact, ROWS, FEATURES, len(x))
        if not exact:
            source = np.zeros((len(x), row.nbytes), np.uint8)
            launch(level, round_module(dtype.block, made_for), [source, x], meta, 0, len(x))
            codes, scales = source[:, :FEATURES].view(np.int8), source[:, row.scales : row.sums].view(np.float32)
            read = np.repeat(scales, 32, axis=1) * codes
            largest = np.abs(x.reshape(len(x), -1, dtype.block)).max(axis=-1)
            # Half a step of the 127, and the rounding error of the float16 scale.
            assert np.all(np.abs(read - x) <= np.repeat(largest, dtype.block, axis=1) * (0.502 / 127 + 2**-11))
        spec = QuantizedSpec(dtype.name, exact, tokens)
        out = np.full((len(x), ROWS), np.nan, np.float32)
        launch(level, product_module(spec, made_for), [out, blocks, source], meta, 0, -(-ROWS // spec.rows))
        terms = read.astype(np.float64)
        atol = 2e-5 * (np.abs(terms) @ np.abs(numbers.T)).max()
        np.testing.assert_allclose(out, terms @ numbers.T, rtol=0, atol=atol)


DOTPROD = replace(AARCH64, features=AARCH64.features | {"dotprod"})
VNNI = replace(AVX512, cpu="cascadelake", features=AVX512.features | {"avx512vnni"})


@each_type
@pytest.mark.parametrize(
    ("made_for", "instruction"),
    [(AARCH64, "smull"), (DOTPROD, "sdot"), (VNNI, "vpdpbusd")],
    ids=["aarch64", "dotprod", "vnni"],
)
def test_other_processors_get_their_instructions(dtype: DType, made_for: CpuTarget, instruction: str) -> None:
    text = assembly(product_module(QuantizedSpec(dtype.name, False, 1), made_for), made_for)
    assert instruction in text
    assert "@plt" not in text
