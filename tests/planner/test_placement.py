"""Placements against a simulated run of the plan, and against all placements of small graphs."""

import itertools
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence

import pytest

from benchmarks.placement_graphs import FAMILIES, Graph, random_graph
from benchmarks.placement_rivals import best_weight, rules
from npu_tensor.planner.placement import Job, Movement, Option, Overhead, Placement, place, weight

SWITCH = 10.0
ONE_NPU = (Overhead(SWITCH),)
NPU, PROCESSOR = 0, 1

Places = dict[int, set[tuple[int, Hashable]]]
"""By value: the devices where it lies and its form there; the processor's memory is a device without forms."""


def simulated(graph: Graph, devices: Sequence[int], order: Sequence[int]) -> float:
    """Return the time of the second of two runs. It starts with the contexts of the first run, without its values."""
    contexts: dict[int, Hashable] = {}
    launches = [0 for _ in graph.overheads]
    for _ in range(2):
        once, launches = [count == 1 for count in launches], [0 for _ in graph.overheads]
        taken, running = 0.0, len(graph.overheads)
        # By value: what bringing it back takes, and the places and forms in which it lies.
        back = {value: takes for value, (_, takes) in graph.resident.items()}
        lies: Places = {value: {(device, None)} for value, (device, _) in graph.resident.items()}

        def fetch(value: int, back: Mapping[int, float] = back, lies: Places = lies) -> float:
            """Return the cost of copying a value to the CPU's memory."""
            places = lies.setdefault(value, {(len(graph.overheads), None)})
            takes = 0.0 if (len(graph.overheads), None) in places else back[value]
            places.add((len(graph.overheads), None))
            return takes

        for number in order:
            job, device = graph.jobs[number], devices[number]
            answer = job.options[device]
            assert answer is not None
            if device < len(graph.overheads):
                overhead, changed = graph.overheads[device], contexts.get(device) not in (None, answer.context)
                if running != device or (changed and overhead.change is None):
                    taken += overhead.launch
                    launches[device] += 1
                    # A kernel that is repeatedly launched alone stays in its context.
                    within = overhead.change is not None and once[device] and launches[device] == 1
                else:
                    within = True
                if changed:
                    taken += overhead.change if within else overhead.switch  # type: ignore[operator]
                contexts[device] = answer.context
            running = device
            for slot, value in enumerate(job.inputs):
                if device == len(graph.overheads):
                    taken += fetch(value)
                elif (device, answer.reads[slot].form) not in lies.get(value, set()):
                    taken += fetch(value) + answer.reads[slot].weight
                    lies[value].add((device, answer.reads[slot].form))
            taken += answer.weight
            for slot, value in enumerate(job.outputs):
                lies[value] = {(len(graph.overheads), None)}
                if device < len(graph.overheads):
                    back[value] = answer.writes[slot].weight
                    # In a form of its own, it is nowhere as anybody reads it.
                    lies[value] = {(device, None)} if answer.writes[slot].form is None else set()
        taken += sum(fetch(value) for value in sorted(graph.wanted) if value in lies)
    return taken


def graphs(sizes: Sequence[int], seeds: int, devices: int) -> Iterator[Graph]:
    for family, size, seed in itertools.product(FAMILIES, sizes, range(seeds)):
        yield random_graph(family, size, seed, devices)


def weight_of(graph: Graph, devices: Sequence[int], order: Sequence[int] | None = None) -> float:
    order = range(len(graph.jobs)) if order is None else order
    return weight(graph.jobs, graph.overheads, devices, order, graph.wanted, graph.resident)


def is_topological(jobs: Sequence[Job], order: Sequence[int]) -> bool:
    position = {number: place for place, number in enumerate(order)}
    made_by = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    return sorted(order) == list(range(len(jobs))) and all(
        position[made_by[value]] < position[number]
        for number, job in enumerate(jobs)
        for value in job.inputs
        if value in made_by
    )


def random_devices(graph: Graph, generator: random.Random) -> list[int]:
    return [
        generator.choice([device for device, answer in enumerate(job.options) if answer is not None])
        for job in graph.jobs
    ]


def random_order(jobs: Sequence[Job], generator: random.Random) -> list[int]:
    made = {value for job in jobs for value in job.outputs}
    order: list[int] = []
    left = list(range(len(jobs)))
    while left:
        number = generator.choice([number for number in left if made.isdisjoint(jobs[number].inputs)])
        order.append(number)
        left.remove(number)
        made -= set(jobs[number].outputs)
    return order


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_weight_is_what_a_run_takes(devices: int) -> None:
    generator = random.Random(devices)
    for graph in graphs((1, 4, 12), 6, devices):
        for _ in range(4):
            chosen, order = random_devices(graph, generator), random_order(graph.jobs, generator)
            assert weight_of(graph, chosen, order) == pytest.approx(simulated(graph, chosen, order))


def test_the_search_through_everything_finds_the_best_order() -> None:
    # The next test compares with this search; check it for all permutations.
    generator = random.Random(0)
    for graph in graphs((5,), 6, 2):
        orders = [order for order in itertools.permutations(range(5)) if is_topological(graph.jobs, order)]
        chosen = random_devices(graph, generator)
        only = [
            job._replace(options=tuple(a if d in (on, 2) else None for d, a in enumerate(job.options)))
            for job, on in zip(graph.jobs, chosen, strict=True)
        ]
        # The processor cannot refuse: its answer is made so dear that nothing is taken there.
        dear = [
            job if on == 2 else job._replace(options=(*job.options[:-1], Option(1e6)))
            for job, on in zip(only, chosen, strict=True)
        ]
        expected = min(weight_of(graph, chosen, order) for order in orders)
        assert best_weight(graph._replace(jobs=dear)) == pytest.approx(expected)


@pytest.mark.parametrize(("devices", "sizes"), [(1, (2, 3, 5, 7, 8)), (2, (2, 4, 5))])
def test_small_graphs_are_placed_nearly_as_well_as_possible(devices: int, sizes: tuple[int, ...]) -> None:
    ratios = [place(*graph).weight / best_weight(graph) for graph in graphs(sizes, 12, devices)]
    assert min(ratios) > 1 - 1e-9
    assert sum(ratio < 1.05 for ratio in ratios) >= 0.97 * len(ratios)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_large_graphs_are_placed_better_than_by_rules(devices: int) -> None:
    for graph in graphs((60, 300), 2, devices):
        result = place(*graph)
        assert result.weight <= rules(graph)["processor"] * (1 + 1e-9)
        if devices == 1:
            assert result.weight <= min(rules(graph).values()) * (1 + 1e-9)


@pytest.mark.parametrize("devices", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_placement_says_what_it_takes_and_can_run(devices: int) -> None:
    for graph in graphs((1, 6, 40), 8, devices):
        result = place(*graph)
        assert is_topological(graph.jobs, result.order)
        assert all(job.options[on] is not None for job, on in zip(graph.jobs, result.devices, strict=True))
        assert result.weight == pytest.approx(weight_of(graph, result.devices, result.order))
        assert result == place(*graph)


def job(
    inputs: tuple[int, ...],
    output: int,
    npu: float | None,
    processor: float,
    context: str = "a",
    move: float = 0.0,
    reads: str | None = None,
    writes: str | None = None,
) -> Job:
    moves = (Movement(move, reads),) * len(inputs)
    taken = None if npu is None else Option(npu, context, moves, (Movement(move, writes),))
    return Job(inputs, (output,), (taken, Option(processor)))


def test_what_is_refused_runs_on_the_processor() -> None:
    assert place([job((0,), 1, None, 100.0)], ONE_NPU, {1}) == Placement((PROCESSOR,), (0,), 100.0)
    with pytest.raises(ValueError, match="device 0 has refused job 0"):
        weight([job((0,), 1, None, 100.0)], ONE_NPU, [NPU], [0])


def test_the_first_job_follows_the_last() -> None:
    jobs = [job((number,), number + 1, 1.0, 90.0, context) for number, context in enumerate("aba")]
    assert weight(jobs, ONE_NPU, [NPU] * 3, range(3)) == 3.0 + 2 * SWITCH
    assert weight(jobs[:2], ONE_NPU, [NPU] * 2, range(2)) == 2.0 + 2 * SWITCH
    assert weight(jobs[:1], ONE_NPU, [NPU], [0]) == 1.0


@pytest.mark.parametrize(
    ("writes", "reads", "moves"), [(None, None, 0), (None, "packed", 2), ("packed", None, 2), ("packed", "packed", 2)]
)
def test_only_a_tensors_own_bytes_stay(writes: str | None, reads: str | None, moves: int) -> None:
    jobs = [job((), 1, 1.0, 5.0, move=3.0, writes=writes), job((1,), 2, 1.0, 5.0, move=3.0, reads=reads)]
    assert weight(jobs, ONE_NPU, [NPU, NPU], range(2)) == 2.0 + 3.0 * moves


def test_a_resident_value_is_read_where_it_lies() -> None:
    jobs = [job((0,), 1, 6.0, 5.0, move=0.5)]
    resident = {0: (NPU, 3.0)}
    assert weight(jobs, ONE_NPU, [NPU], [0], resident=resident) == 6.0
    assert weight(jobs, ONE_NPU, [PROCESSOR], [0], resident=resident) == 8.0
    assert place(jobs, ONE_NPU, {1}, resident) == Placement((NPU,), (0,), 6.5)
    assert place(jobs, ONE_NPU, {0, 1}, resident) == Placement((PROCESSOR,), (0,), 8.0)
