"""python -m benchmarks.placement: how good placements are, and what finding one takes.

Small random graphs are compared with the best of all placements, found by trying every one in every order. Large ones
are compared with simple rules: everything on the processor, everything that an NPU takes on it, and job after job to
where that one is predicted to take least. Weights are predicted seconds; nothing runs.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

from npu_tensor.placement import Answer, Job, Movement, place, weight

from .report import Outcome, Table, benchmark, verdict

__all__ = ["FAMILIES", "Graph", "best_weight", "main", "random_graph", "rules"]

NEAR: Final = 1.05
ASKED_NEAR: Final = 0.95
ASKED_MICROSECONDS: Final = 20.0
"""Asked: a weight of at most NEAR times the best one for so many of the small graphs; so long per job at most."""

SMALL: Final = {1: range(2, 10), 2: range(2, 7)}
LARGE: Final = (50, 200, 1000, 2000)
TIMED: Final = (1, 3, 9, 50, 200, 2000)
"""Jobs per graph; of the small ones by number of NPUs."""

REPEATS: Final = 5
"""Timings of one graph, of which the least counts."""

SWITCH: Final = 2.6e-3
BYTES: Final = 2
SYNC_PER_BYTE: Final = 15e-12
CONVERSION_PER_ELEMENT: Final = 1e-9
"""Seconds: priors of NPUs for bfloat16; another form is made by the processor."""


class Graph(NamedTuple):
    """What `place` is asked."""

    jobs: list[Job]
    switches: tuple[float, ...]
    wanted: frozenset[int]
    resident: dict[int, tuple[int, float]]


class _Machine(NamedTuple):
    """Rates in elements or multiply-accumulates per second. launches, products: by NPU."""

    launches: tuple[float, ...]
    products: tuple[float, ...]
    elements: float
    processor_product: float
    processor_elements: float


class _Graph:
    """A random graph that grows job by job. Values are numbered in order; all have about the same size."""

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
        """A value from outside; some lie in the memory of an NPU."""
        value = self._value()
        if self.random.random() < 0.1:
            self.resident[value] = (self.random.randrange(self.devices), self._sync(self.sizes[value]))
        return value

    def _value(self) -> int:
        self.sizes.append(self.elements * self.random.choice((0.25, 1.0, 1.0, 1.0, 4.0)))
        return len(self.sizes) - 1

    def add(self, kind: str, *inputs: int) -> int:
        """A job that reads these values and makes one, which is returned."""
        made = self._value()
        elements = self.sizes[made]
        streamed = elements + sum(self.sizes[value] for value in inputs)
        answers: list[Answer | None] = []
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
            taken = kind != "data" and self.random.random() >= self.refused
            answers.append(Answer(launch + needed, context, tuple(reads), (left,)) if taken else None)
        self.jobs.append(Job(inputs, (made,), (*answers, Answer(3e-6 + alone))))
        return made

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
    """Any earlier values."""
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
    """A graph of `size` jobs; equal arguments give equal graphs."""
    generator = random.Random(f"{family} {size} {seed} {devices}")
    growing = _Graph(generator, devices)
    FAMILIES[family](growing, size)
    jobs = growing.jobs[:size]
    made = {value for job in jobs for value in job.outputs}
    used = {value for job in jobs for value in job.inputs}
    wanted = {value for value in sorted(made) if value not in used or generator.random() < 0.05}
    resident = {value: left for value, left in growing.resident.items() if value in used}
    switches = tuple(generator.choice((SWITCH, SWITCH, SWITCH, 1.2e-4)) for _ in range(devices))
    return Graph(jobs, switches, frozenset(wanted), resident)


def best_weight(graph: Graph) -> float:
    """The least weight of all placements, by trying all."""
    jobs, switches, wanted, resident = graph
    free = [0.0] * len(switches)
    found = []
    choices = [[device for device, answer in enumerate(job.answers) if answer is not None] for job in jobs]
    for devices in itertools.product(*choices):
        own = weight(jobs, free, devices, range(len(jobs)), wanted, resident)
        contexts = [
            {_context(jobs, devices, job) for job, on in enumerate(devices) if on == device}
            for device in range(len(free))
        ]
        least = sum(s * len(used) for s, used in zip(switches, contexts, strict=True) if len(used) > 1)
        found.append((own + least, own, devices))
    found.sort()
    best = found[0][1] + _least_switches(jobs, switches, found[0][2])
    for bound, own, devices in found[1:]:
        if bound >= best:
            break
        best = min(best, own + _least_switches(jobs, switches, devices))
    return best


def _context(jobs: Sequence[Job], devices: Sequence[int], number: int) -> Hashable:
    answer = jobs[number].answers[devices[number]]
    assert answer is not None
    return answer.context


def _least_switches(jobs: Sequence[Job], switches: Sequence[float], devices: Sequence[int]) -> float:
    """What the switches take in the best of all topological orders.

    Orders that have run the same jobs, and began and ended with the same contexts on all devices, continue alike.
    """
    maker = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    needs = [sum({1 << maker[value] for value in job.inputs if value in maker}) for job in jobs]
    nothing: tuple[Hashable, ...] = (None,) * len(switches)
    states: dict[tuple[int, tuple[Hashable, ...], tuple[Hashable, ...]], float] = {(0, nothing, nothing): 0.0}
    for _ in jobs:
        following: dict[tuple[int, tuple[Hashable, ...], tuple[Hashable, ...]], float] = {}
        for (done, first, last), taken in states.items():
            for number, needed in enumerate(needs):
                if done >> number & 1 or needed & ~done:
                    continue
                device, now, begun, ended = devices[number], taken, first, last
                if device < len(switches):
                    context = _context(jobs, devices, number)
                    if last[device] is None:
                        begun = (*first[:device], context, *first[device + 1 :])
                    elif last[device] != context:
                        now += switches[device]
                    ended = (*last[:device], context, *last[device + 1 :])
                state = (done | 1 << number, begun, ended)
                following[state] = min(now, following.get(state, now))
        states = following
    return min(
        taken + sum(s for s, one, other in zip(switches, first, last, strict=True) if one != other)
        for (_, first, last), taken in states.items()
    )


def rules(graph: Graph) -> dict[str, float]:
    """The weights that simple rules reach, in the better of two orders: the one of the jobs, and one that switches only
    when everything left needs it.
    """
    jobs, switches, wanted, resident = graph
    found = {"processor": [len(switches)] * len(jobs), "npu": [_first(job) for job in jobs], "greedy": _greedy(graph)}
    return {
        name: min(
            weight(jobs, switches, devices, order, wanted, resident)
            for order in (range(len(jobs)), _grouped(jobs, devices))
        )
        for name, devices in found.items()
    }


def _first(job: Job) -> int:
    return next(device for device, answer in enumerate(job.answers) if answer is not None)


def _greedy(graph: Graph) -> list[int]:
    """Job after job to where it takes least, with moves and switches, given where those before it went."""
    jobs, switches, _, resident = graph
    left = {value: (device, Movement(back)) for value, (device, back) in resident.items()}
    last: dict[int, Hashable] = {}
    chosen: list[int] = []
    for job in jobs:
        found = []
        for device, answer in enumerate(job.answers):
            if answer is None:
                continue
            takes = answer.weight
            if device < len(switches) and last.get(device, answer.context) != answer.context:
                takes += switches[device]
            for number, value in enumerate(job.inputs):
                lies_at, how = left.get(value, (len(switches), Movement(0.0)))
                read = answer.reads[number] if answer.reads else Movement(0.0)
                if (lies_at, how.form, read.form) != (device, None, None):
                    takes += how.weight + read.weight
            found.append((takes, device))
        device = min(found)[1]
        chosen.append(device)
        if device < len(switches):
            answer = job.answers[device]
            assert answer is not None
            last[device] = answer.context
            left.update({value: (device, move) for value, move in zip(job.outputs, answer.writes, strict=True)})
    return chosen


def _grouped(jobs: Sequence[Job], devices: Sequence[int]) -> list[int]:
    made_by = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    needs = [{made_by[value] for value in job.inputs if value in made_by} for job in jobs]
    left = dict.fromkeys(range(len(jobs)))
    current: dict[int, Hashable] = {len(jobs[0].answers) - 1: None}
    order: list[int] = []
    done: set[int] = set()
    while left:
        before = len(order)
        for number in list(left):
            if needs[number] <= done and current.get(devices[number]) == _context(jobs, devices, number):
                order.append(number)
                done.add(number)
                del left[number]
        if len(order) == before:
            number = next(number for number in left if needs[number] <= done)
            current[devices[number]] = _context(jobs, devices, number)
    return order


def _near_the_best(graphs: int) -> list[dict[str, Any]]:
    """Small graphs, by family and number of NPUs."""
    rows = []
    for devices, family in itertools.product(SMALL, FAMILIES):
        ratios = []
        for size, seed in itertools.product(SMALL[devices], range(graphs)):
            graph = random_graph(family, size, seed, devices)
            ratios.append(place(*graph).weight / best_weight(graph))
        near = sum(ratio <= NEAR for ratio in ratios) / len(ratios)
        best = sum(ratio < 1 + 1e-9 for ratio in ratios) / len(ratios)
        rows.append(
            {
                "family": family,
                "npus": devices,
                "graphs": len(ratios),
                "best": best,
                "near": near,
                "worst": max(ratios),
                "met": near >= ASKED_NEAR,
            }
        )
    return rows


def _beside_rules(graphs: int) -> list[dict[str, Any]]:
    """Large graphs with one NPU, by family: the weight as part of what the rules reach."""
    rows = []
    for family in FAMILIES:
        ratios: list[dict[str, float]] = []
        for size, seed in itertools.product(LARGE, range(graphs)):
            graph = random_graph(family, size, seed)
            found = place(*graph).weight
            ratios.append({name: found / other for name, other in rules(graph).items()})
        worst = max(max(ratio.values()) for ratio in ratios)
        medians = {name: statistics.median(ratio[name] for ratio in ratios) for name in ratios[0]}
        rows.append(
            {"family": family, "graphs": len(ratios), **medians, "worst": worst, "met": worst <= 1 + 1e-9}
        )
    return rows


def _planning(graphs: int) -> list[dict[str, Any]]:
    """What finding a placement takes, by number of jobs: microseconds per job."""
    rows = []
    for devices, size in itertools.product(SMALL, TIMED):
        found = []
        for family, seed in itertools.product(FAMILIES, range(graphs)):
            graph = random_graph(family, size, seed, devices)
            found.append(min(_seconds(graph) for _ in range(REPEATS)) / size * 1e6)
        found.sort()
        median = statistics.median(found)
        rows.append(
            {
                "jobs": size,
                "npus": devices,
                "graphs": len(found),
                "median_us": median,
                "p90_us": found[len(found) * 9 // 10],
                "met": median <= ASKED_MICROSECONDS if devices == 1 else None,
            }
        )
    return rows


def _seconds(graph: Graph) -> float:
    # Of this thread, which is the only one that works: others of the machine do not count.
    start = time.thread_time()
    place(*graph)
    return time.thread_time() - start


@benchmark("Few graphs: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Placements of random graphs against the best ones, against simple rules, and what finding them takes."""
    near = _near_the_best(4 if quick else 60)
    beside = _beside_rules(1 if quick else 5)
    planning = _planning(2 if quick else 10)
    small = Table(
        f"small graphs: the part of them whose predicted time is the least, or at most {NEAR} times the least",
        ["family", "NPUs", "graphs", "best", "near", "worst", "asked", "met"],
        [
            [
                row["family"],
                row["npus"],
                row["graphs"],
                f"{row['best']:.3f}",
                f"{row['near']:.3f}",
                f"{row['worst']:.3f}",
                ASKED_NEAR,
                verdict(row["met"]),
            ]
            for row in near
        ],
    )
    large = Table(
        "large graphs, one NPU: the predicted time as part of that of simple rules (medians, and the worst of all)",
        ["family", "graphs", "all on the processor", "all on the NPU", "job after job", "worst", "met"],
        [
            [
                row["family"],
                row["graphs"],
                *(f"{row[name]:.3f}" for name in ("processor", "npu", "greedy", "worst")),
                verdict(row["met"]),
            ]
            for row in beside
        ],
    )
    finding = Table(
        "finding a placement: microseconds of processor time per job",
        ["jobs", "NPUs", "graphs", "median", "p90", "asked", "met"],
        [
            [
                row["jobs"],
                row["npus"],
                row["graphs"],
                f"{row['median_us']:.1f}",
                f"{row['p90_us']:.1f}",
                ASKED_MICROSECONDS if row["met"] is not None else "",
                verdict(row["met"]),
            ]
            for row in planning
        ],
    )
    return Outcome({"small": near, "large": beside, "planning": planning}, [small, large, finding])


if __name__ == "__main__":
    main()
