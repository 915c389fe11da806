"""Random job graphs for the placement benchmark: model-like ones and unstructured ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from npu_tensor.planner.placement import Job, Movement, Option, Overhead

SWITCH: Final = 2.6e-3
BYTES: Final = 2
SYNC_PER_BYTE: Final = 15e-12
CONVERSION_PER_ELEMENT: Final = 1e-9
"""Conversion cost in seconds per element: NPU priors for bfloat16. The processor converts."""


class Graph(NamedTuple):
    """Arguments of `place`."""

    jobs: list[Job]
    overheads: tuple[Overhead, ...]
    wanted: frozenset[int]
    resident: dict[int, tuple[int, float]]


class _Machine(NamedTuple):
    """Rates in elements or multiply-accumulates per second. `launches` and `products` are per NPU."""

    launches: tuple[float, ...]
    products: tuple[float, ...]
    elements: float
    processor_product: float
    processor_elements: float


class _Graph:
    """Random graph that grows job by job. Values are numbered in order and have similar sizes."""

    def __init__(self, generator: random.Random, devices: int) -> None:
        self.random = generator
        self.jobs: list[Job] = []
        self.resident: dict[int, tuple[int, float]] = {}
        self.sizes: list[float] = []
        self.devices = devices
        self.machine = _Machine(
            tuple(generator.uniform(0.1e-3, 0.5e-3) for _ in range(devices)),
            tuple(generator.choice((350e9, 1100e9)) for _ in range(devices)),
            generator.uniform(6e9, 16e9),
            generator.uniform(25e9, 300e9),
            generator.uniform(2e9, 12e9),
        )
        self.elements = 2 ** generator.uniform(14, 23)
        self.depths = generator.sample((128, 256, 512, 1024, 2048, 4096), generator.randint(1, 4))
        self.refused = generator.choice((0.0, 0.1, 0.3))

    def leaf(self) -> int:
        """Add an input value. Some are in the memory of an NPU."""
        value = self._value()
        if self.random.random() < 0.1:
            self.resident[value] = (self.random.randrange(self.devices), self._sync(self.sizes[value]))
        return value

    def _value(self) -> int:
        self.sizes.append(self.elements * self.random.choice((0.25, 1.0, 1.0, 1.0, 4.0)))
        return len(self.sizes) - 1

    def add(self, kind: str, *inputs: int) -> int:
        """Add a job that reads these values. Return its result."""
        output = self._value()
        elements = self.sizes[output]
        streamed = elements + sum(self.sizes[value] for value in inputs)
        answers: list[Option | None] = []
        context: Hashable = kind
        if kind == "product":
            depth = self.random.choice(self.depths)
            inputs = (*inputs, self.leaf())
            context = (kind, depth)
            seconds = [elements * depth / rate for rate in self.machine.products]
            alone = elements * depth / self.machine.processor_product
        else:
            cost = {"map": 1.0, "heavy": 4.0, "row": 3.0, "data": 0.5}[kind]
            seconds = [streamed / self.machine.elements] * self.devices
            alone = streamed * cost / self.machine.processor_elements
        sync = self._sync(elements)
        packed = elements * CONVERSION_PER_ELEMENT
        left = Movement(packed, "padded") if self.random.random() < 0.05 else Movement(sync)
        reads = [self._read(value, kind == "product" and number == 1) for number, value in enumerate(inputs)]
        for launch, needed in zip(self.machine.launches, seconds, strict=True):
            accepts = kind != "data" and self.random.random() >= self.refused
            answers.append(Option(launch + needed, context, tuple(reads), (left,)) if accepts else None)
        self.jobs.append(Job(inputs, (output,), (*answers, Option(3e-6 + alone))))
        return output

    def _sync(self, elements: float) -> float:
        return elements * BYTES * SYNC_PER_BYTE

    def _read(self, value: int, is_packed: bool) -> Movement:
        if is_packed:
            return Movement(self.sizes[value] * CONVERSION_PER_ELEMENT, "packed")
        return Movement(self._sync(self.sizes[value]))

    def kind(self) -> str:
        return self.random.choices(("product", "map", "heavy", "row", "data"), (6, 4, 2, 2, 1))[0]


def _chain(graph: _Graph, size: int) -> None:
    value = graph.leaf()
    while len(graph.jobs) < size:
        value = graph.add(graph.kind(), value)


def _diamonds(graph: _Graph, size: int) -> None:
    value = graph.leaf()
    while len(graph.jobs) < size:
        fork = value = graph.add(graph.kind(), value)
        ends = []
        for _ in range(graph.random.randint(2, 3)):
            value = fork
            for _ in range(graph.random.randint(1, 3)):
                value = graph.add(graph.kind(), value)
            ends.append(value)
        value = graph.add("map", *ends)


def _layered(graph: _Graph, size: int) -> None:
    width = graph.random.randint(2, 2 + min(size // 3, 12))
    layer = [graph.leaf() for _ in range(width)]
    while len(graph.jobs) < size:
        layer = [
            graph.add(graph.kind(), *graph.random.sample(layer, graph.random.randint(1, min(3, len(layer)))))
            for _ in range(width)
        ]


def _transformer(graph: _Graph, size: int) -> None:
    value = graph.leaf()
    while len(graph.jobs) < size:
        normal = graph.add("row", value)
        query, key, values = (graph.add("product", normal) for _ in range(3))
        scores = graph.add("row", graph.add("product", query, graph.add("data", key)))
        value = graph.add("map", value, graph.add("product", graph.add("product", scores, values)))
        normal = graph.add("row", value)
        gate = graph.add("heavy", graph.add("product", normal), graph.add("product", normal))
        value = graph.add("map", value, graph.add("product", gate))


def _scattered(graph: _Graph, size: int) -> None:
    """Add jobs that read arbitrary earlier values."""
    values = [graph.leaf(), graph.leaf()]
    while len(graph.jobs) < size:
        kind = graph.kind()
        values.append(graph.add(kind, *graph.random.sample(values, graph.random.randint(1, 2))))


FAMILIES: Final[dict[str, Callable[[_Graph, int], None]]] = {
    "chain": _chain,
    "diamonds": _diamonds,
    "layered": _layered,
    "transformer": _transformer,
    "scattered": _scattered,
}


def random_graph(family: str, size: int, seed: int, devices: int = 1) -> Graph:
    """Create a graph of `size` jobs. Equal arguments give equal graphs."""
    generator = random.Random(f"{family} {size} {seed} {devices}")
    growing = _Graph(generator, devices)
    FAMILIES[family](growing, size)
    jobs = growing.jobs[:size]
    made = {value for job in jobs for value in job.outputs}
    used = {value for job in jobs for value in job.inputs}
    wanted = {value for value in sorted(made) if value not in used or generator.random() < 0.05}
    resident = {value: left for value, left in growing.resident.items() if value in used}
    overheads = tuple(
        Overhead(
            generator.choice((SWITCH, SWITCH, SWITCH, 1.2e-4)),
            generator.choice((0.0, 3e-4)),
            3.9e-5 if generator.random() < 0.5 else None,
        )
        for _ in range(devices)
    )
    return Graph(jobs, overheads, frozenset(wanted), resident)
