"""Predicted tokens per second of language models on NPUs, and the time of a prompt: python -m benchmarks.decode.

Nothing runs. A step is composed of this package's kernels with the predicted times of their designs, and of launches
and configuration changes with the costs of the device. Kernels of a token share configurations as in a plan. No
constant is fitted here.

Three schemes are compared. With two launches per layer, as measured by mlir-air, the processor computes the attention
between them. With one launch per token everything runs on the NPU. No program can have that many arguments yet, so the
weights would need a common buffer. With products only, the NPU keeps one configuration for all layers in four launches
per layer, and the processor computes the other ops. The embedding and the cache update are not counted. Nor is the
extra cost of a first configuration in another hardware context than the previous launch, as with full ELFs. mlir-air
launches ELFs of several layers in that way.

A prompt takes one launch per layer. On npu2 its products multiply block floats, and the weights are packed before. The
output matrix, which multiplies one row, is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import click
import numpy as np

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.devices.host import allocator, host_step
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Task

from .predicted import GENERATIONS, npu_tasks, predicted_on_cpu
from .report import Outcome, benchmark, table


class DecoderShape(NamedTuple):
    """Shape of a Llama-like model. `weights` and `head` are the dtypes of layer matrices and of the output matrix."""

    layers: int
    width: int
    hidden: int
    vocabulary: int
    heads: int
    cached_heads: int
    features: int
    weights: Any = nt.bfloat16
    head: Any = nt.bfloat16

    @property
    def stacked(self) -> bool:
        """True if matrices that multiply the same operand are one: of queries, keys and values, and of gate and up.

        Those in blocks are. The measured program with bfloat16 multiplies one after another.
        """
        return bool(self.weights.block > 1)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all matrices, which a token reads once."""
        attention = self.width * self.features * (self.heads + self.cached_heads) * 2
        layer = attention + 3 * self.width * self.hidden
        return int(self.layers * self.weights.nbytes(layer) + self.head.nbytes(self.vocabulary * self.width))


_LLAMA: Final = DecoderShape(16, 2048, 8192, 128256, 32, 8, 64)

MODELS: Final[Mapping[str, DecoderShape]] = {
    "Llama 3.2 1B, bfloat16": _LLAMA,
    "Llama 3.2 1B, q4_1": _LLAMA._replace(weights=nt.q4_1, head=nt.q4_1),
    # Dtypes of the file SmolLM2-135M-Instruct.Q4_1.gguf.
    "SmolLM2 135M, q4_1": DecoderShape(30, 576, 1536, 49152, 9, 3, 64, nt.q4_1, nt.q8_0),
}

PUBLISHED: Final[Mapping[tuple[str, str, str], float]] = {
    ("Llama 3.2 1B, bfloat16", "npu2", "two launches per layer"): 12.2,
    ("Llama 3.2 1B, q4_1", "npu2", "one launch per token"): 53.0,
}
"""Tokens per second of mlir-air on a Strix, with a cache of 2,048 tokens. Source: programming_examples,
llama32_1b/docs/profile.md (10.8 in an earlier version) and fused_decode/README.md. In the latter, all layers are one
design without configuration changes, and 4-bit weights have scales and minima."""

PUBLISHED_PROMPTS: Final = {("Llama 3.2 1B, bfloat16", "npu2"): 1.21}
"""Seconds of mlir-air on a Strix for 2,048 tokens: table of models in programming_examples; 0.93 with 4-bit weights."""


class _Kernel(NamedTuple):
    """A kernel. `context` is the context of its configuration."""

    context: Any
    seconds: float


def _zeros(*shape: int) -> nt.Tensor:
    return nt.zeros(*shape, dtype=nt.bfloat16).realize()


def _weights(rows: int, features: int, dtype: Any) -> nt.Tensor:
    if dtype.block == 1:
        return _zeros(rows, features)
    return nt.from_numpy(np.zeros((rows, features // dtype.block), dtype.numpy))


class _Step:
    """Parts of a step, as pending bfloat16 tensors."""

    def __init__(self, shape: DecoderShape, context: int) -> None:
        self.shape = shape
        self.context = context
        # The weights are created before the first op, because large inputs trigger the computation of pending results.
        width, hidden, mixed = shape.width, shape.hidden, shape.heads * shape.features
        cached = shape.cached_heads * shape.features
        projected = (mixed + 2 * cached,) if shape.stacked else (mixed, cached, cached)
        self._projections = [_weights(rows, width, shape.weights) for rows in projected]
        self._mixed = _weights(width, mixed, shape.weights)
        widened = (2 * hidden,) if shape.stacked else (hidden, hidden)
        self._widened = [_weights(rows, width, shape.weights) for rows in widened]
        self._narrowed = _weights(width, hidden, shape.weights)
        self._head = _weights(shape.vocabulary, width, shape.head)

    def _turned(self, projected: nt.Tensor, heads: int) -> nt.Tensor:
        position = nt.zeros(1, dtype=nt.int32).realize()
        result: nt.Tensor = nt.rope(projected.reshape(1, heads, self.shape.features), position)
        return result

    def _normed(self, x: nt.Tensor) -> nt.Tensor:
        width = self.shape.width
        result: nt.Tensor = nt.rms_norm(x, (width,), _zeros(width))
        return result

    def before_attention(self) -> Sequence[nt.Tensor]:
        """Return queries, keys and values of a token; stacked ones with the queries and keys that are not rotated."""
        s, x = self.shape, self._normed(_zeros(self.shape.width))
        projected = self.projections(x)
        if s.stacked:
            heads = s.heads + s.cached_heads
            return self._turned(projected[0][: heads * s.features], heads), *projected
        q, k, v = projected
        return self._turned(q, s.heads), self._turned(k, s.cached_heads), v

    def attention(self) -> nt.Tensor:
        """Return the attention of one token over the cache."""
        s = self.shape
        queries = _zeros(s.heads, 1, s.features)
        keys, values = (_zeros(s.cached_heads, self.context, s.features) for _ in range(2))
        result: nt.Tensor = nt.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
        return result

    def after_attention(self) -> nt.Tensor:
        """Return the rest of a layer."""
        x = self.mixed() + _zeros(self.shape.width)
        widened = self.widened(self._normed(x))
        gate, up = widened[0].reshape(2, -1) if self.shape.stacked else widened
        return self.narrowed(gate.silu() * up) + x

    def logits(self) -> nt.Tensor:
        """Return the logits of the next token."""
        result: nt.Tensor = nt.linear(_zeros(self.shape.width), self._head)
        return result

    # --- products of a layer, and the ops between them

    def projections(self, x: nt.Tensor) -> Sequence[nt.Tensor]:
        """Project queries, keys and values."""
        return [nt.linear(x, weights) for weights in self._projections]

    def mixed(self) -> nt.Tensor:
        """Project the attention output."""
        result: nt.Tensor = nt.linear(_zeros(self.shape.heads * self.shape.features), self._mixed)
        return result

    def widened(self, x: nt.Tensor) -> Sequence[nt.Tensor]:
        """Compute the first two products of the gated network."""
        return [nt.linear(x, weights) for weights in self._widened]

    def narrowed(self, x: nt.Tensor) -> nt.Tensor:
        """Compute the last product of the gated network."""
        result: nt.Tensor = nt.linear(x, self._narrowed)
        return result

    def between(self) -> Sequence[nt.Tensor]:
        """Return the ops of a layer without its products."""
        s, x = self.shape, _zeros(self.shape.width)
        q, k = (self._turned(_zeros(heads * s.features), heads) for heads in (s.heads, s.cached_heads))
        gated = _zeros(s.hidden).silu() * _zeros(s.hidden)
        return [self._normed(x), q, k, self.attention(), self._normed(x + x), gated, x + x]


def _kernels(device: SimulatedDevice, launches: Sequence[Sequence[Task]]) -> list[list[_Kernel]]:
    """Return the kernels of launches, which share configurations as in a plan."""
    kernels = [[device.claim(_with_constants(task)) for task in launch] for launch in launches]
    together = [kernel for kernel in chain.from_iterable(kernels) if isinstance(kernel, NpuKernel)]
    assert len(together) == sum(map(len, launches)), kernels
    device.share_configurations(together, once=False)
    costs = iter([_Kernel(kernel.cost.context, kernel.cost.expense.seconds) for kernel in together])
    return [[next(costs) for _ in launch] for launch in launches]


def _with_constants(task: Task) -> Task:
    if task.kind != "matmul":
        return task
    x, weights, *others = task.inputs
    return task._replace(inputs=(x, weights._replace(persistent=True), *others))


def _changes(launches: Sequence[Sequence[_Kernel]]) -> int:
    """Count the configuration changes of repeated launches.

    A launch of several configurations always loads its first one. Other launches reuse that of the previous launch.
    """
    changes = 0
    for before, kernels in pairwise([launches[-1], *launches]):
        inside = sum(a.context != b.context for a, b in pairwise(kernels))
        changes += inside + (inside > 0 or before[-1].context != kernels[0].context)
    return changes


def decode(name: str, shape: DecoderShape, generation: str, context: int) -> Iterator[dict[str, Any]]:
    """Yield the cost of a token for each scheme: seconds of kernels, changes, launches and the processor."""
    array, step = SIMULATED[generation], _Step(shape, context)
    device = SimulatedDevice(f"sim:{generation}", Target(array, array.columns), allocator(), host_step)
    layers, width = step.shape.layers, step.shape.width
    change = device.reconfiguration_cost
    assert change is not None

    def row(way: str, parts: Sequence[Sequence[Task]], processor: float) -> dict[str, Any]:
        launches = _kernels(device, parts)
        changes = _changes(launches)
        seconds = {
            "kernels": sum(kernel.seconds for kernel in chain.from_iterable(launches)),
            "changes": changes * change.seconds,
            "launches": len(launches) * device.launch_cost.seconds,
            "processor": processor,
        }
        return {
            "model": name,
            "array": generation,
            "way": way,
            "count": len(launches),
            "changed": changes,
            **seconds,
            "rate": 1 / sum(seconds.values()),
            "bandwidth": step.shape.weight_bytes / seconds["kernels"],
            "published": PUBLISHED.get((name, generation, way)),
        }

    before, after = npu_tasks(*step.before_attention()), npu_tasks(step.after_attention())
    with nt.default_device(device.uri):
        attention = npu_tasks(step.attention())
    logits = npu_tasks(step.logits())
    by_processor = layers * predicted_on_cpu(step.attention())
    yield row("two launches per layer", [*[before, after] * layers, logits], by_processor)
    yield row("one launch per token", [[*[*before, *attention, *after] * layers, *logits]], 0.0)
    x, wide = _zeros(width), _zeros(step.shape.hidden)
    products = (step.projections(x), [step.mixed()], step.widened(x), [step.narrowed(wide)])
    layer = [npu_tasks(*part) for part in products]
    between = layers * sum(map(predicted_on_cpu, step.between()))
    yield row("products only", [*layer * layers, logits], between)


def _prompt_layer(s: DecoderShape, tokens: int) -> Iterator[nt.Tensor]:
    """Yield the results of a layer for all tokens of a prompt, each from operands in memory."""

    def linear(rows: int, features: int) -> nt.Tensor:
        result: nt.Tensor = nt.linear(_zeros(tokens, features), _zeros(rows, features))
        return result

    def per_head(heads: int) -> nt.Tensor:
        return _zeros(1, heads, tokens, s.features)

    position = nt.arange(tokens, dtype=nt.int32).realize()
    x, wide = _zeros(tokens, s.width), _zeros(tokens, s.hidden)
    mixed, cached = s.heads * s.features, s.cached_heads * s.features
    yield nt.rms_norm(x, (s.width,), _zeros(s.width))
    yield from (linear(rows, s.width) for rows in (mixed, cached, cached))
    yield from (nt.rope(_zeros(1, tokens, heads, s.features), position) for heads in (s.heads, s.cached_heads))
    keys = per_head(s.cached_heads)
    yield ops.attention(per_head(s.heads), keys, keys, scale=s.features**-0.5, is_causal=True)
    yield linear(s.width, mixed)
    yield x + x
    yield nt.rms_norm(x, (s.width,), _zeros(s.width))
    yield from (linear(s.hidden, s.width) for _ in range(2))
    yield wide.silu() * wide
    yield linear(s.width, s.hidden)
    yield x + x


def prompt(name: str, shape: DecoderShape, generation: str, tokens: int) -> dict[str, Any]:
    """Return the cost of a prompt: seconds of kernels, changes and launches."""
    array = SIMULATED[generation]
    target = Target(array, array.columns, bfloat16="bfp16")
    device = SimulatedDevice(f"sim:{generation}", target, allocator(), host_step)
    layer = _kernels(device, [[task for result in _prompt_layer(shape, tokens) for task in npu_tasks(result)]])
    change = device.reconfiguration_cost
    assert change is not None
    seconds = {
        "kernels": shape.layers * sum(kernel.seconds for kernel in layer[0]),
        "changes": _changes(layer * shape.layers) * change.seconds,
        "launches": shape.layers * device.launch_cost.seconds,
    }
    published = PUBLISHED_PROMPTS.get((name, generation))
    return {"model": name, "array": generation, **seconds, "seconds": sum(seconds.values()), "published": published}


@benchmark("The same, which takes no time.", timed=False)
@click.option("--context", default=2048, show_default=True, help="Tokens in the cache; as published.")
def main(quick: bool, context: int) -> Outcome:
    """Decode steps of language models, predicted."""
    models = [(*model, generation) for model in MODELS.items() for generation in GENERATIONS]
    rows = [row for model in models for row in decode(*model, context)]
    for row in rows:
        row |= {f"{name}_ms": row[name] * 1e3 for name in ("kernels", "changes", "launches", "processor")}
        row["gigabytes"] = row["bandwidth"] / 1e9
        row["beside"] = f"{row['published']}" if row["published"] else ""
    columns = ("model", "array", "way", "launches = count", "changes = changed", "kernels, ms = kernels_ms:.1f")
    more = ("changes, ms = changes_ms:.1f", "launches, ms = launches_ms:.1f", "processor, ms = processor_ms:.1f")
    rates = ("weights in kernels, GB/s = gigabytes:.1f", "tokens/s = rate:.1f", "published = beside")
    title = f"predicted, {context} tokens in the cache"
    tables = [table(title, rows, *columns, *more, *rates)]
    # Weights in blocks of other formats have a kernel for few rows only.
    prompts = [prompt(*model, context) for model in models if model[1].weights is nt.bfloat16]
    for row in prompts:
        row |= {f"{name}_ms": row[name] * 1e3 for name in ("kernels", "changes", "launches")}
    parts = ("model", "array", *(f"{name}, ms = {name}_ms:.1f" for name in ("kernels", "changes", "launches")))
    title = f"predicted, a prompt of {context} tokens"
    tables.append(table(title, prompts, *parts, "seconds:.2f", "published:.2f"))
    return Outcome({"rows": rows, "prompts": prompts}, tables)


if __name__ == "__main__":
    main()
