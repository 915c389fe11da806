"""Kernels of AMD's public examples, written with `nt.npu_kernel`: `python npu_kernels.py` tests and times them.

"Write your own kernel" in the documentation compares their lines with those of the originals.
"""

import sys
from typing import Any

import numpy as np

import npu_tensor as nt


@nt.npu_kernel(
    """
void scale(const int32 *__restrict a, int32 *__restrict out, int32 n) {
    for (int i = 0; i < n; i += 16)
        aie::store_v(out + i, aie::mul(aie::load_v<16>(a + i), int32(3)).to_vector<int32>());
}
"""
)
def scale(a: Any) -> Any:
    return 3 * a


@nt.npu_kernel(
    """
void add(const bfloat16 *__restrict a, const bfloat16 *__restrict b, bfloat16 *__restrict out, int32 n) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    for (int i = 0; i < n; i += 32)
        aie::store_v(out + i, aie::add(aie::load_v<32>(a + i), aie::load_v<32>(b + i)));
}
""",
    tolerance=0,
)
def add(a: Any, b: Any) -> Any:
    return a + b


@nt.npu_kernel(
    """
void passthrough(const uint8 *__restrict a, uint8 *__restrict out, int32 n) {
    for (int i = 0; i < n; i += 64) aie::store_v(out + i, aie::load_v<64>(a + i));
}
"""
)
def passthrough(a: Any) -> Any:
    return a


@nt.npu_kernel(
    """
void softmax(const float *__restrict a, float *__restrict out, int32 n) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    constexpr float lowest = -3e38f;
    auto inside = [=](int i, const auto &x, float other) {  // The padding is `other`.
        return n - i < 16 ? aie::select(other, x, aie::mask<16>::from_uint32((1u << (n - i)) - 1)) : x;
    };
    auto tops = aie::broadcast<float, 16>(lowest), sums = aie::zeros<float, 16>();
    for (int i = 0; i < n; i += 16) tops = aie::max(tops, inside(i, aie::load_v<16>(a + i), lowest));
    const auto top = aie::broadcast<float, 16>(aie::reduce_max(tops));
    for (int i = 0; i < n; i += 16) {
        const auto power = inside(i, nt::exp(nt::sub(aie::load_v<16>(a + i), top)), 0.0f);
        aie::store_v(out + i, power);
        sums = nt::add(sums, power);
    }
    const auto factor = nt::reciprocal(aie::broadcast<float, 16>(aie::reduce_add(sums)));
    for (int i = 0; i < n; i += 16) aie::store_v(out + i, nt::mul(aie::load_v<16>(out + i), factor));
}
""",
    pattern="rows",
    tolerance=1e-6,
)
def softmax(a: Any) -> Any:
    powers = np.exp(a - a.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@nt.npu_kernel(
    """
void gelu(const float *__restrict a, float *__restrict out, int32 n) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    for (int i = 0; i < n; i += 16) {
        const auto x = aie::load_v<16>(a + i), half = nt::mul(x, nt::constant<16>(0.5f));
        const auto slope = nt::mul(nt::mul(x, x), nt::constant<16>(0.03567741f));
        const auto inner = nt::mul(x, nt::add(slope, nt::constant<16>(0.7978846f)));
        aie::store_v(out + i, nt::add(half, nt::mul(half, nt::tanh(inner))));
    }
}
""",
    tolerance=1e-5,
)
def gelu(a: Any) -> Any:
    return 0.5 * a * (1 + np.tanh(0.7978846 * (a + 0.044715 * a**3)))


@nt.npu_kernel(
    """
void layer_norm(const float *__restrict a, float *__restrict out, int32 n) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    auto sums = aie::zeros<float, 16>(), squares = sums;
    for (int i = 0; i < n; i += 16) sums = nt::add(sums, aie::load_v<16>(a + i));
    const auto mean = aie::broadcast<float, 16>(aie::reduce_add(sums) / n);
    for (int i = 0; i < n; i += 16) {
        auto centered = nt::sub(aie::load_v<16>(a + i), mean);
        if (n - i < 16) centered = aie::select(0.0f, centered, aie::mask<16>::from_uint32((1u << (n - i)) - 1));
        squares = nt::add(squares, nt::mul(centered, centered));
        aie::store_v(out + i, centered);
    }
    const auto factor = nt::rsqrt<nt::full>(aie::broadcast<float, 16>(aie::reduce_add(squares) / n + 1e-5f));
    for (int i = 0; i < n; i += 16) aie::store_v(out + i, nt::mul(aie::load_v<16>(out + i), factor));
}
""",
    pattern="rows",
    tolerance=1e-4,
)
def layer_norm(a: Any) -> Any:
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)


@nt.npu_kernel(
    """
void dot(const bfloat16 *__restrict a, const bfloat16 *__restrict b, float *out, int32 n) {
    auto sums = aie::zeros<accfloat, 16>();
    for (int i = 0; i < n; i += 16) sums = aie::mac(sums, aie::load_v<16>(a + i), aie::load_v<16>(b + i));
    *out = aie::reduce_add(sums.to_vector<float>());
}
""",
    pattern="reduce",
    tolerance=1e-4,
)
def dot(a: Any, b: Any) -> Any:
    return (a * b).sum(-1)


@nt.npu_kernel(
    """
void product(const bfloat16 *__restrict a, const bfloat16 *__restrict b, float *__restrict c) {
    using Block = aie::mmul<tile::r, tile::s, tile::t, bfloat16, bfloat16>;
    constexpr unsigned down = tile::m / tile::r, across = tile::n / tile::t;
    for (unsigned i = 0; i < down; ++i)
        for (unsigned j = 0; j < across; ++j) {
            float *sums = c + (i * across + j) * Block::size_C;
            Block block(aie::load_v<Block::size_C>(sums));
            for (unsigned l = 0; l < tile::k / tile::s; ++l)
                block.mac(aie::load_v<Block::size_A>(a + (l * down + i) * Block::size_A),
                          aie::load_v<Block::size_B>(b + (l * across + j) * Block::size_B));
            aie::store_v(sums, block.to_vector<float>());
        }
}
""",
    pattern="gemm",
    tolerance=1e-4,
)
def product(a: Any, b: Any) -> Any:
    return a @ b


@nt.npu_kernel(
    """
void blur(const float *above, const float *row, const float *below, float *out, int32 n) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    auto single = [=](int i) {
        out[i] = (above[i] + below[i] + row[i ? i - 1 : 0] + row[i + 1 < n ? i + 1 : i] + 4 * row[i]) / 8;
    };
    int i = 0;
    for (; i < n && i < 16; ++i) single(i);
    for (; i + 16 < n; i += 16) {
        const auto sides = nt::add(aie::load_unaligned_v<16>(row + i - 1), aie::load_unaligned_v<16>(row + i + 1));
        const auto others = nt::add(sides, nt::add(aie::load_v<16>(above + i), aie::load_v<16>(below + i)));
        const auto own = nt::mul(aie::load_v<16>(row + i), nt::constant<16>(0.5f));
        aie::store_v(out + i, nt::add(own, nt::mul(others, nt::constant<16>(0.125f))));
    }
    for (; i < n; ++i) single(i);
}
""",
    pattern="neighbours",
    tolerance=1e-5,
)
def blur(image: Any) -> Any:
    padded = np.pad(image, 1, "edge")
    return (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] + 4 * image) / 8


@nt.npu_kernel(
    """
void total(const int32 *a, int32 *out, int32 n) {
    auto sums = aie::zeros<int32, 16>();
    for (int i = 0; i < n; i += 16) sums = aie::add(sums, aie::load_v<16>(a + i));
    *out = aie::reduce_add(sums);
}
""",
    pattern="reduce",
)
def total(a: Any) -> Any:
    return a.sum(-1, dtype=np.int32)


@nt.npu_kernel(
    """
constexpr int16 taps[4] = {1, 3, 3, 1};
void fir(const int16 *a, int32 *out, int32 n) {
    for (int i = 0; i < n && i < 16; ++i) {
        out[i] = 0;
        for (int tap = 0; tap < 4 && tap <= i; ++tap) out[i] += taps[tap] * a[i - tap];
    }
    for (int i = 16; i < n; i += 16) {
        auto sums = aie::zeros<acc32, 16>();
        for (int tap = 0; tap < 4; ++tap) sums = aie::mac(sums, aie::load_unaligned_v<16>(a + i - tap), taps[tap]);
        aie::store_v(out + i, sums.to_vector<int32>());
    }
}
""",
    pattern="rows",
)
def fir(a: Any) -> Any:
    padded = np.pad(a.astype(np.int32), [(0, 0)] * (a.ndim - 1) + [(3, 0)])
    return np.sum([tap * padded[..., 3 - lag : padded.shape[-1] - lag] for lag, tap in enumerate((1, 3, 3, 1))], 0)


KERNELS = [scale, add, passthrough, softmax, gelu, layer_norm, dot, product, blur, total, fir]
SHAPES = {"product": (512, 512, 512), "scale": (1 << 20,), "add": (1 << 20,), "passthrough": (1 << 20,)}

if __name__ == "__main__":
    failed = []
    for kernel in KERNELS:
        trials = kernel.test()
        if not trials:
            failed.append(kernel.name)
        cost = kernel.cost(SHAPES.get(kernel.name, (512, 512)))
        print(
            f"{kernel.name}: {'equal to NumPy' if trials else trials}; predicted {cost.seconds * 1e6:.0f} us on XDNA2"
        )
    if failed:
        sys.exit(f"not equal to NumPy: {', '.join(failed)}")
