"""python -m benchmarks.decode: tokens per second of a model of Llama 3.2 1B's shape on npu2, predicted.

Nothing runs. A step is composed of this package's own kernels: each has the time that its design is predicted to take,
every launch and every change of configuration what the device says that these take. No constant is fitted here.

Two ways are compared. With two launches per layer, as mlir-air has measured it, the processor computes the attention
between them. With one launch per token everything is on the NPU; no program can have that many arguments yet, so its
weights would have to lie in one buffer. Neither the embedding nor the writing of the cache is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import click

import npu_tensor as nt
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels.offer import Target
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.host import allocator, host_step
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice

from .predicted import predicted_on_cpu
from .report import Outcome, benchmark, table

__all__ = ["PUBLISHED", "decode", "main"]

LAYERS, WIDTH, HIDDEN, VOCABULARY = 16, 2048, 8192, 128256
HEADS, CACHED_HEADS, FEATURES = 32, 8, 64

PUBLISHED: Final = 12.2
"""Tokens per second of mlir-air on a Strix with bfloat16 weights, two launches per layer, attention on the processor
(Xilinx/mlir-air programming_examples/llama32_1b/docs/profile.md; 10.8 in an earlier version of that page)."""


class _Part(NamedTuple):
    """What is computed at once. kernels: in order, each with the context of its configuration and its seconds."""

    name: str
    kernels: tuple[tuple[Any, float], ...]


def _zeros(*shape: int) -> nt.Tensor:
    return nt.zeros(*shape, dtype=nt.bfloat16).realize()


def _before_attention() -> Sequence[nt.Tensor]:
    """Queries, keys and values of a token."""
    x = nt.rms_norm(_zeros(WIDTH), (WIDTH,), _zeros(WIDTH))
    position = nt.zeros(1, dtype=nt.int32).realize()

    def turned(heads: int) -> nt.Tensor:
        return nt.rope(nt.linear(x, _zeros(heads * FEATURES, WIDTH)).reshape(1, heads, FEATURES), position)

    return turned(HEADS), turned(CACHED_HEADS), nt.linear(x, _zeros(CACHED_HEADS * FEATURES, WIDTH))


def _attention(context: int) -> nt.Tensor:
    """Of one token over the cache."""
    queries = _zeros(CACHED_HEADS, HEADS // CACHED_HEADS, FEATURES)
    keys, values = _zeros(CACHED_HEADS, context, FEATURES), _zeros(CACHED_HEADS, context, FEATURES)
    result: nt.Tensor = (queries @ keys.transpose(1, 2) * FEATURES**-0.5).softmax(-1) @ values
    return result


def _after_attention() -> nt.Tensor:
    """The rest of a layer."""
    x = nt.linear(_zeros(WIDTH), _zeros(WIDTH, WIDTH)) + _zeros(WIDTH)
    normed = nt.rms_norm(x, (WIDTH,), _zeros(WIDTH))
    gated = nt.linear(normed, _zeros(HIDDEN, WIDTH)).silu() * nt.linear(normed, _zeros(HIDDEN, WIDTH))
    result: nt.Tensor = nt.linear(gated, _zeros(WIDTH, HIDDEN)) + x
    return result


def _logits() -> nt.Tensor:
    return nt.linear(_zeros(WIDTH), _zeros(VOCABULARY, WIDTH))


def _part(name: str, device: SimulatedDevice, *results: nt.Tensor) -> _Part:
    tasks = cut(structure_of([result._node for result in results]), device.fusion).tasks
    kernels = [device.claim(task) for task in tasks]
    assert all(isinstance(kernel, NpuKernel) for kernel in kernels), kernels
    costs = [kernel.cost for kernel in kernels if isinstance(kernel, NpuKernel)]
    return _Part(name, tuple((cost.context, cost.expense.seconds) for cost in costs))


def decode(context: int) -> Iterator[dict[str, Any]]:
    """What a token takes: a row for each way, with the seconds of the kernels, changes, launches and the processor."""
    array = SIMULATED["npu2"]
    device = SimulatedDevice("sim:npu2", Target(array, array.columns), allocator(), host_step)
    assert array.change_seconds is not None
    change = array.change_seconds
    before = _part("before attention", device, *_before_attention())
    attention = _part("attention", device, _attention(context))
    after = _part("after attention", device, _after_attention())
    logits = _part("logits", device, _logits())

    def row(way: str, launches: Sequence[Sequence[_Part]], processor: float) -> dict[str, Any]:
        kernels = [[kernel for part in launch for kernel in part.kernels] for launch in launches]
        # The array is configured anew for the first kernel of a launch too: another launch was there before.
        changes = sum(1 + sum(a != b for (a, _), (b, _) in pairwise(launch)) for launch in kernels)
        seconds = {
            "kernels": sum(busy for launch in kernels for _, busy in launch),
            "changes": changes * change,
            "launches": len(launches) * device.launch.seconds,
            "processor": processor,
        }
        return {"way": way, "count": len(launches), "changed": changes, **seconds, "rate": 1 / sum(seconds.values())}

    by_processor = LAYERS * predicted_on_cpu(_attention(context))
    yield row("two launches per layer", [*[[before], [after]] * LAYERS, [logits]], by_processor)
    yield row("one launch per token", [[*[before, attention, after] * LAYERS, logits]], 0.0)


@benchmark("The same, which takes no time.", timed=False)
@click.option("--context", default=2048, show_default=True, help="Tokens in the cache; as published.")
def main(quick: bool, context: int) -> Outcome:
    """A decode step of Llama 3.2 1B's shape on npu2, predicted."""
    rows = list(decode(context))
    for row in rows:
        row |= {f"{name}_ms": row[name] * 1e3 for name in ("kernels", "changes", "launches", "processor")}
    columns = ("way", "launches = count", "changes = changed", "kernels, ms = kernels_ms:.1f")
    more = ("changes, ms = changes_ms:.1f", "launches, ms = launches_ms:.1f", "processor, ms = processor_ms:.1f")
    remark = f"two launches per layer: {rows[0]['rate'] / PUBLISHED - 1:+.0%} of the published {PUBLISHED} tokens/s"
    title = f"predicted for npu2, bfloat16, {context} tokens in the cache"
    return Outcome({"rows": rows}, [table(title, rows, *columns, *more, "tokens/s = rate:.1f")], [remark])


if __name__ == "__main__":
    main()
