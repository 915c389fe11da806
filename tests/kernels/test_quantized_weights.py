"""Products with quantized weights on the simulated arrays, against the package gguf and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_tasks import accepted, nmse, target, task_of
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import Configuration, Design
from npu_tensor.dtypes import QUANTIZED, DType
from npu_tensor.kernels import families
from npu_tensor.kernels.block_order import CORES, FORMATS, LANES, OBJECT_FEATURES, BlockOrder
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.nn import functional as F
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.task import Refusal

Array = np.ndarray[Any, Any]

each_type = pytest.mark.parametrize("dtype", QUANTIZED, ids=str)

# Rows of weights, features, rows of x: less than a vector of rows, an odd number of blocks, the matrices of SmolLM2,
# more rows of x than the cores keep, with an odd rest, and as many features as they keep.
SHAPES = [(1, 32, 1), (31, 96, 2), (576, 576, 1), (192, 576, 5), (700, 160, 70), (64, 16384, 2)]


def any_blocks(dtype: DType, rows: int, features: int) -> Array:
    """Codes of any bits; scales of both signs, subnormal ones and zeros among them."""
    random = np.random.default_rng(rows * features)
    count = rows * features // dtype.block
    blocks = np.frombuffer(random.bytes(count * dtype.itemsize), dtype.numpy).copy()
    if dtype is nt.mxfp4:
        blocks["e"] = 127 + random.integers(-24, 4, count)
        return blocks.reshape(rows, -1)
    for name in {"d", "m", "dmin"} & set(dtype.numpy.names or ()):
        blocks[name] = random.standard_normal(count) * 10.0 ** random.integers(-7, 1, count)
    blocks["d"][::7] = 0
    return blocks.reshape(rows, -1)


def dequantized(dtype: DType, blocks: Array) -> Array:
    gguf = pytest.importorskip("gguf")
    numbers: Array = gguf.quants.dequantize(blocks.view(np.uint8), gguf.GGMLQuantizationType(dtype.ggml_type))
    return numbers.astype(np.float64)


def offered(x: nt.Tensor, weights: nt.Tensor, target: Target, exact: bool = False) -> Offer | Refusal:
    product = nt.mul_mat(weights.realize(), x.realize(), exact=exact)
    return families.claim(task_of(product), target)


@needs_compiler
@pytest.mark.parametrize("dtype", {FORMATS[dtype.name]: dtype for dtype in reversed(QUANTIZED)}.values(), ids=str)
@pytest.mark.parametrize("generation", SIMULATED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int, int], generation: str, dtype: DType) -> None:
    """One dtype of each format of blocks."""
    multiply(shape, f"sim:{generation}", dtype)


@needs_compiler
@each_type
def test_products_of_each_dtype(dtype: DType) -> None:
    multiply((100, 768, 2), "sim:npu2", dtype)


@needs_compiler
@pytest.mark.parametrize("uri", ["sim:npu1?cols=1", "sim:npu2?cols=3"])
def test_products_on_some_columns(uri: str) -> None:
    multiply((400, 96, 3), uri, nt.q4_1)


def multiply(shape: tuple[int, int, int], uri: str, dtype: DType) -> None:
    """Scales and x have 8 bits each. ggml allows 5e-4, and its own rounding takes 3e-5."""
    rows, features, tokens = shape
    features = -(-features // dtype.block) * dtype.block
    blocks = any_blocks(dtype, rows, features)
    x = np.random.default_rng(1).standard_normal((tokens, features), np.float32) + np.float32(0.5)
    expected = x.astype(np.float64) @ dequantized(dtype, blocks).T
    with nt.default_device(uri):
        product = nt.mul_mat(nt.from_numpy(blocks), nt.from_numpy(x))
        assert nt.explain(product)[-1].device.startswith(uri)
        result = product.numpy()
    scale = np.sqrt((x.astype(np.float64) ** 2) @ (dequantized(dtype, blocks).T ** 2))
    assert (np.abs(result - expected) <= 2**-5 * (scale + np.abs(expected))).all()
    assert nmse(result, expected) <= 2e-5


@needs_compiler
@each_type
def test_bfloat16_stays_bfloat16(dtype: DType) -> None:
    blocks = any_blocks(dtype, 100, 256)
    x = nt.from_numpy(np.random.default_rng(2).standard_normal((2, 3, 256), np.float32)).to(nt.bfloat16)
    expected = x.float().numpy().astype(np.float64) @ dequantized(dtype, blocks).T
    with nt.default_device("sim:npu2"):
        product = F.linear(x, nt.from_numpy(blocks))
        assert [row.device for row in nt.explain(product)] == ["sim:npu2"]
        result = product.float().numpy()
    assert product.dtype is nt.bfloat16
    assert nmse(result, expected) <= 2e-5


@needs_compiler
def test_x_that_is_a_view_and_what_is_no_number() -> None:
    weights = nt.quantize(nt.from_numpy(np.random.default_rng(3).standard_normal((40, 64), np.float32)), "q8_0")
    base = np.random.default_rng(4).standard_normal((64, 6), np.float32)
    base[:, 4] = np.nan
    with nt.default_device("sim:npu1"):
        result = nt.mul_mat(weights, nt.from_numpy(base).T[::2]).numpy()
    assert np.isnan(result[2]).all()
    np.testing.assert_allclose(result[:2], base.T[:4:2] @ weights.dequantize().numpy().T, rtol=0.05, atol=0.1)


@each_type
@pytest.mark.parametrize("generation", SIMULATED)
def test_one_configuration_serves_all_extents(generation: str, dtype: DType) -> None:
    configurations: set[Configuration] = set()
    for rows, features, tokens in [*SHAPES, (128256, 2048, 1), (1000, 14336, 3), (4096, 4096, 64)]:
        weights = nt.from_numpy(np.zeros((rows, -(-features // dtype.block)), dtype.numpy))
        design = accepted(offered(nt.zeros(tokens, weights.shape[1]), weights, target(generation)))
        configurations.add(design.configuration)
    assert len(configurations) == 1


def test_every_byte_of_the_weights_has_its_place() -> None:
    order, dtype = BlockOrder("q4_0", 70, 96), nt.q4_0
    blocks = any_blocks(dtype, 70, 96)
    memory = np.full(order.nbytes, 0xFF, np.uint8)
    order.write(blocks.reshape(-1), memory)
    units, objects, nbytes = 2, 2, 2 + 16
    assert order.nbytes == units * objects * CORES * OBJECT_FEATURES // 32 * LANES * nbytes
    for row in range(units * CORES * LANES):
        unit, within = divmod(row, CORES * LANES)
        core, lane = divmod(within, LANES)
        for block in range(objects * OBJECT_FEATURES // 32):
            step, place = divmod(block, OBJECT_FEATURES // 32)
            start = (((unit * objects + step) * CORES + core) * OBJECT_FEATURES // 32 + place) * LANES * nbytes
            scale = memory[start + 2 * lane : start + 2 * lane + 2]
            codes = memory[start + 2 * LANES + lane : start + nbytes * LANES : LANES]
            if row < 70 and block < 3:
                assert codes.tobytes() == blocks[row, block]["qs"].tobytes()
                assert (int(scale[1]) << 8 | int(scale[0])) << 16 == rounded_bits(blocks[row, block]["d"])
            else:
                assert not [*scale.nonzero()[0], *codes.nonzero()[0]]


def rounded_bits(number: np.float16) -> int:
    """Return the bits of the number rounded to bfloat16, as a float32."""
    bits = int(np.float32(number).view(np.uint32))
    return bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000


def test_what_the_array_leaves_to_the_processor() -> None:
    weights = nt.quantize(nt.zeros(4, 64), "q8_0")
    for x, target_, exact, words in (
        (nt.ones(1, 64), target("npu1"), True, "the policy for float32 is exact"),
        (nt.ones(5000, 64), target("npu1"), False, "stream by 157 times"),
    ):
        answer = offered(x, weights, target_, exact)
        assert isinstance(answer, Refusal)
        assert words in answer.reason
    assert isinstance(offered(nt.ones(1, 64), weights, target("npu1", float32="bfloat16"), exact=True), Offer)
    wide = offered(nt.ones(1, 32768), nt.quantize(nt.zeros(4, 32768), "q8_0"), target("npu2"))
    assert isinstance(wide, Refusal)
    assert "a core holds 16384" in wide.reason


def bytes_per_second(design: Design) -> float:
    counters = count(design)
    prediction = predict(counters, design.array)
    return counters.ddr_bytes / (prediction.seconds - prediction.overhead)


@each_type
@pytest.mark.parametrize("generation", SIMULATED)
def test_a_large_product_takes_as_long_as_its_weights_take_to_arrive(generation: str, dtype: DType) -> None:
    """Both channels of every column are used; one channel of each would give 16 GB/s on XDNA."""
    weights = nt.from_numpy(np.zeros((8192, 2048 // dtype.block), dtype.numpy))
    design = accepted(offered(nt.zeros(1, 2048), weights, target(generation)))
    assert bytes_per_second(design) == pytest.approx(design.array.ddr_bytes_per_second, rel=1e-6)
