"""Baselines of placement: the optimum by exhaustive search, and simple rules."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from npu_tensor.planner.placement import Job, Movement, Overhead, weight

from .placement_graphs import Graph

_State = tuple[int, int, tuple[Hashable, ...], tuple[Hashable, ...], tuple[int, ...]]
"""State of a partial order: completed jobs as bits, device of the last job, and per device the first context, the last
context and the number of launches, capped at 2."""


def best_weight(graph: Graph) -> float:
    """Return the minimum weight of all placements by exhaustive search."""
    jobs, overheads, results, resident = graph
    free = [Overhead(0.0)] * len(overheads)
    bounds = []
    choices = [[device for device, answer in enumerate(job.options) if answer is not None] for job in jobs]
    for devices in itertools.product(*choices):
        own = weight(jobs, free, devices, range(len(jobs)), results, resident)
        contexts = [
            {_context(jobs, devices, job) for job, on in enumerate(devices) if on == device}
            for device in range(len(free))
        ]
        least = sum(
            (o.switch if o.change is None else min(o.change, o.switch)) * len(used)
            for o, used in zip(overheads, contexts, strict=True)
            if len(used) > 1
        )
        bounds.append((own + least, own, devices))
    bounds.sort()
    best = bounds[0][1] + _least_overhead(jobs, overheads, bounds[0][2])
    for bound, own, devices in bounds[1:]:
        if bound >= best:
            break
        best = min(best, own + _least_overhead(jobs, overheads, devices))
    return best


def _context(jobs: Sequence[Job], devices: Sequence[int], number: int) -> Hashable:
    answer = jobs[number].options[devices[number]]
    assert answer is not None
    return answer.context


def _least_overhead(jobs: Sequence[Job], overheads: Sequence[Overhead], devices: Sequence[int]) -> float:
    """Return the minimum overhead of launches and switches over all topological orders.

    Orders with the same completed jobs, last device, first and last contexts and (capped) launch counts share a state.
    """
    maker = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    needs = [sum({1 << maker[value] for value in job.inputs if value in maker}) for job in jobs]
    nothing: tuple[Hashable, ...] = (None,) * len(overheads)
    states: dict[_State, float] = {(0, len(overheads), nothing, nothing, (0,) * len(overheads)): 0.0}
    for _ in jobs:
        following: dict[_State, float] = {}
        for (done, before, first, last, counts), spent in states.items():
            for number, needed in enumerate(needs):
                if done >> number & 1 or needed & ~done:
                    continue
                device, now, begun, ended, started = devices[number], spent, first, last, counts
                if device < len(overheads):
                    context, change = _context(jobs, devices, number), overheads[device].change
                    goes_on = before == device and (last[device] == context or change is not None)
                    if not goes_on:
                        now += overheads[device].launch
                        started = (*counts[:device], min(2, counts[device] + 1), *counts[device + 1 :])
                    if last[device] is None:
                        begun = (*first[:device], context, *first[device + 1 :])
                    elif last[device] != context:
                        now += (change or 0.0) if goes_on else overheads[device].switch
                    ended = (*last[:device], context, *last[device + 1 :])
                state = (done | 1 << number, device, begun, ended, started)
                following[state] = min(now, following.get(state, now))
        states = following
    return min(
        spent
        + sum(
            o.switch if o.change is None or count > 1 else o.change
            for o, one, other, count in zip(overheads, first, last, counts, strict=True)
            if one != other
        )
        for (_, _, first, last, counts), spent in states.items()
    )


def rules(graph: Graph) -> dict[str, float]:
    """Return the weights of simple rules, each with the better of two orders.

    The orders are that of the jobs, and one that switches only if all remaining jobs need it.
    """
    jobs, overheads, results, resident = graph
    npu, greedy = [_first(job) for job in jobs], _greedy(graph)
    placements = {"processor": [len(overheads)] * len(jobs), "npu": npu, "greedy": greedy}
    return {
        name: min(
            weight(jobs, overheads, devices, order, results, resident)
            for order in (range(len(jobs)), _grouped(jobs, devices))
        )
        for name, devices in placements.items()
    }


def _first(job: Job) -> int:
    return next(device for device, answer in enumerate(job.options) if answer is not None)


def _greedy(graph: Graph) -> list[int]:
    """Place each job where it costs least, including moves and switches, given the previous placements."""
    jobs, overheads, _, resident = graph
    left = {value: (device, Movement(back)) for value, (device, back) in resident.items()}
    last: dict[int, Hashable] = {}
    chosen: list[int] = []
    for job in jobs:
        offers = []
        for device, answer in enumerate(job.options):
            if answer is None:
                continue
            takes = answer.weight
            if device < len(overheads) and last.get(device, answer.context) != answer.context:
                takes += overheads[device].switch
            if device < len(overheads) and chosen[-1:] != [device]:
                takes += overheads[device].launch
            for number, value in enumerate(job.inputs):
                lies_at, how = left.get(value, (len(overheads), Movement(0.0)))
                read = answer.reads[number] if answer.reads else Movement(0.0)
                if (lies_at, how.form, read.form) != (device, None, None):
                    takes += how.weight + read.weight
            offers.append((takes, device))
        device = min(offers)[1]
        chosen.append(device)
        if device < len(overheads):
            answer = job.options[device]
            assert answer is not None
            last[device] = answer.context
            left.update({value: (device, move) for value, move in zip(job.outputs, answer.writes, strict=True)})
    return chosen


def _grouped(jobs: Sequence[Job], devices: Sequence[int]) -> list[int]:
    made_by = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    needs = [{made_by[value] for value in job.inputs if value in made_by} for job in jobs]
    left = dict.fromkeys(range(len(jobs)))
    current: dict[int, Hashable] = {len(jobs[0].options) - 1: None}
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
