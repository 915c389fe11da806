"""Shares of the threads in the loops of kernels, for processors with more cores than this one."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.planner import selection
from npu_tensor.runtime.cpu import recurrence_steps
from npu_tensor.runtime.cpu.bound_loops import BoundKernel, BoundLoops, LoopTable, Packed
from npu_tensor.runtime.cpu.division import Division, even_grain
from npu_tensor.runtime.cpu.kernels import CpuKernel
from npu_tensor.runtime.cpu.target import host_target

pytestmark = [
    pytest.mark.usefixtures("own_rates"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="shares depend on the tiles"),
]

THREADS = (4, 8, 16, 24)
MOST = 1.15
"""Upper bound on the largest share by the mean."""

SHORT, LONG = 10, 1000
"""Times of a thread, by that of a fork: of kernels that gain little from equal shares, and of long ones."""


def zeros(*shape: int, dtype: str = "float32") -> nt.Tensor:
    return nt.zeros(*shape, dtype=dtype).realize()


def product(m: int, k: int, n: int, dtype: str = "float32") -> Callable[[], nt.Tensor]:
    return lambda: zeros(m, k, dtype=dtype) @ zeros(k, n, dtype=dtype)


def convolution(channels: int, outputs: int, places: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    shape = outputs, channels // groups, size, size
    return lambda: nt.conv2d(
        zeros(1, channels, places, places), zeros(*shape), stride=stride, padding=size // 2, groups=groups
    )


def depthwise_gradient(channels: int, places: int) -> Callable[[], nt.Tensor]:
    geometry: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": channels}

    def gradient() -> nt.Tensor:
        image, outer = (zeros(8, places, places, channels).permute(0, 3, 1, 2) for _ in range(2))
        return ops.conv_weight_gradient(image, outer, (3, 3), **geometry)

    return gradient


EXPRESSIONS: dict[str, Callable[[], nt.Tensor]] = {
    **{f"product {n}": product(n, n, n) for n in (128, 256, 512, 1024, 2048)},
    **{f"int8 product {n}": product(n, n, n, "int8") for n in (256, 1024, 2048)},
    "row 2048": product(1, 2048, 2048),
    "matrix and vector 4096": lambda: zeros(4096, 4096) @ zeros(4096),
    "32 products": lambda: zeros(32, 128, 64) @ zeros(32, 64, 128),
    **{f"3x3, {c} at {p}": convolution(c, c, p, 3) for c, p in ((64, 56), (128, 28), (256, 14), (512, 7))},
    **{f"1x1, {c} at {p}": convolution(c, o, p, 1) for c, o, p in ((256, 64, 56), (1024, 256, 14), (512, 2048, 7))},
    "stem": convolution(3, 64, 224, 7, 2),
    **{f"depthwise {c} at {p}": convolution(c, c, p, 3, 1, c) for c, p in ((32, 112), (144, 56), (384, 14), (960, 7))},
    **{f"gradient {c} at {p}": depthwise_gradient(c, p) for c, p in ((96, 112), (144, 56), (384, 14), (960, 7))},
    "attention": lambda: nt.scaled_dot_product_attention(*(zeros(1, 12, 128, 64) for _ in range(3))),
    "layer norm": lambda: nt.layer_norm(zeros(512, 768), [768]),
    "sum": lambda: zeros(1 << 20) + zeros(1 << 20),
    "gelu": lambda: nt.gelu(zeros(1 << 20)),
    "conversion": lambda: zeros(1 << 20).to("bfloat16"),
    "softmax": lambda: nt.softmax(zeros(1536, 128), -1),
    "pool": lambda: nt.max_pool2d(zeros(1, 64, 112, 112), 3, 2, 1),
}

UNEQUAL = {
    ("row 2048", 24): "B is read in streams of at least 128 columns, which are 16",
}
"""Reasons for larger shares, by expression and threads."""


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Number of threads of the CPU device, whose tiles are those of AVX2."""
    with nt.config.scope(threads=request.param, cpu_features="avx2"):
        selection.reset()
        yield request.param
    selection.reset()


def division(loops: BoundLoops) -> list[Division]:
    """Division of the packings of a kernel and of its other loops."""
    packings = [slot.packing.loop for loop in loops.loops for slot in loop.slots if isinstance(slot, Packed)]
    return [Division(items, grain) for *_, items, grain in (*packings, *(loop[:4] for loop in loops.loops))]


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        pytest.param(name, threads, marks=[] if (name, threads) in UNEQUAL or number % 4 == 0 else [pytest.mark.slow])
        for turn, name in enumerate(EXPRESSIONS)
        for number, threads in enumerate(THREADS, turn)
    ],
    indirect=["threads"],
)
def test_shares_are_equal(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main loop is checked; of long products also the packings, which are short otherwise.

    Without the slow tests, the numbers of threads take turns.
    """
    result, kernels, bind = EXPRESSIONS[name](), list[Any](), CpuKernel.bind
    loops_of, new_table = dict[tuple[int, ...], BoundLoops](), LoopTable.__init__

    def noted(kernel: CpuKernel) -> Any:
        kernels.append(kernel)
        return bind(kernel)

    def noting(table: LoopTable, owner: Any, bound: Sequence[BoundKernel], *more: Any) -> None:
        loops_of.update({(*each.results,): each.loops for each in bound})
        new_table(table, owner, bound, *more)

    monkeypatch.setattr(CpuKernel, "bind", noted)
    monkeypatch.setattr(LoopTable, "__init__", noting)
    nt.explain(result)
    assert kernels
    for kernel in kernels:
        forks = kernel.cost.expense.processor_seconds / (threads * kernel.owner.rates.fork_seconds)
        loops = division(loops_of[(*(output.item for output in kernel.task.outputs),)])
        # Loops before the main one copy and pack operands; those after it add sums of chunks.
        main = [loops[0 if kernel.name.endswith("gradient") else -1]]
        checked = loops if forks >= LONG and kernel.name == "gemm" else main if forks >= SHORT else []
        is_equal = all(each.largest_share(threads) <= MOST for each in checked)
        assert is_equal == ((name, threads) not in UNEQUAL), f"{kernel.name}: {loops}"


@pytest.mark.parametrize("threads", THREADS)
def test_units_of_recurrences(threads: int) -> None:
    target = host_target("avx2")
    divided = recurrence_steps.division(1, 512, 4, 512, threads, target)
    blocks = -(-512 // target.lanes)
    groups = -(-blocks // divided.blocks)
    assert Division(groups, divided.grain).largest_share(threads) <= MOST


def test_grains() -> None:
    assert even_grain(1 << 20, 1 << 15, 24) == 21846  # 48 pieces instead of 32
    assert even_grain(49, 2, 8) == 1  # 7 rounds of 8 items; 4 of 16 are more
    assert even_grain(25, 1, 4) == 1
    assert even_grain(7, 8, 4) == 8  # too little for two threads
    assert even_grain(0, 8, 4) == 8
    assert Division(49, 2).largest_share(8) == pytest.approx(64 / 49)
