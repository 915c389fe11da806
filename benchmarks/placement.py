"""Quality and cost of placement: python -m benchmarks.placement.

Small random graphs are compared with the optimum, found by exhaustive search over all orders. Large graphs are compared
with simple rules: all jobs on the processor, all supported jobs on an NPU, each job on its predicted fastest device.
Weights are predicted seconds; nothing runs.
"""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any, Final

from npu_tensor.planner.placement import place

from .placement_graphs import FAMILIES, Graph, random_graph
from .placement_rivals import best_weight, rules
from .report import Outcome, benchmark, table

NEAR: Final = 1.05
ASKED_NEAR: Final = 0.95
ASKED_MICROSECONDS: Final = 200.0
"""Targets: share of small graphs with a weight of at most NEAR times the optimum, and microseconds per job."""

SMALL: Final = {1: range(2, 10), 2: range(2, 7)}
LARGE: Final = (50, 200, 1000, 2000)
TIMED: Final = (1, 3, 9, 50, 200, 2000)
"""Jobs per graph; for small graphs, by number of NPUs."""

REPEATS: Final = 5
"""Number of timings of one graph. The minimum counts."""


def _near_the_best(graphs: int) -> list[dict[str, Any]]:
    """Compare small graphs with the optimum, by family and number of NPUs."""
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
                "asked": ASKED_NEAR,
                "met": near >= ASKED_NEAR,
            }
        )
    return rows


def _beside_rules(graphs: int) -> list[dict[str, Any]]:
    """Return the ratio of the weight to that of each rule, for large graphs with one NPU, by family."""
    rows = []
    for family in FAMILIES:
        ratios: list[dict[str, float]] = []
        for size, seed in itertools.product(LARGE, range(graphs)):
            graph = random_graph(family, size, seed)
            reached = place(*graph).weight
            ratios.append({name: reached / other for name, other in rules(graph).items()})
        worst = max(max(ratio.values()) for ratio in ratios)
        medians = {name: statistics.median(ratio[name] for ratio in ratios) for name in ratios[0]}
        rows.append({"family": family, "graphs": len(ratios), **medians, "worst": worst, "met": worst <= 1 + 1e-9})
    return rows


def _planning(graphs: int) -> list[dict[str, Any]]:
    """Measure the placement time in microseconds per job, by number of jobs."""
    rows = []
    for devices, size in itertools.product(SMALL, TIMED):
        times = []
        for family, seed in itertools.product(FAMILIES, range(graphs)):
            graph = random_graph(family, size, seed, devices)
            times.append(min(_seconds(graph) for _ in range(REPEATS)) / size * 1e6)
        times.sort()
        median = statistics.median(times)
        rows.append(
            {
                "jobs": size,
                "npus": devices,
                "graphs": len(times),
                "median_us": median,
                "p90_us": times[len(times) * 9 // 10],
                "asked": ASKED_MICROSECONDS if devices == 1 else None,
                "met": median <= ASKED_MICROSECONDS if devices == 1 else None,
            }
        )
    return rows


def _seconds(graph: Graph) -> float:
    # Thread time excludes other load. Placement uses only this thread.
    start = time.thread_time()
    place(*graph)
    return time.thread_time() - start


@benchmark("Few graphs: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Placements of random graphs against the best ones, against simple rules, and what finding them takes."""
    near = _near_the_best(4 if quick else 60)
    beside = _beside_rules(1 if quick else 5)
    planning = _planning(2 if quick else 10)
    small = table(
        f"small graphs: the part of them whose predicted time is the least, or at most {NEAR} times the least",
        near,
        *("family", "NPUs = npus", "graphs", "best:.3f", "near:.3f", "worst:.3f", "asked", "met"),
    )
    rules_of = ("all on the processor = processor:.3f", "all on the NPU = npu:.3f", "job after job = greedy:.3f")
    large = table(
        "large graphs, one NPU: the predicted time as part of that of simple rules (medians, and the worst of all)",
        beside,
        *("family", "graphs", *rules_of, "worst:.3f", "met"),
    )
    finding = table(
        "finding a placement: microseconds of processor time per job",
        planning,
        *("jobs", "NPUs = npus", "graphs", "median = median_us:.1f", "p90 = p90_us:.1f", "asked", "met"),
    )
    return Outcome({"small": near, "large": beside, "planning": planning}, [small, large, finding])


if __name__ == "__main__":
    main()
