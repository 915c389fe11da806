"""Check of a design against the limits of the array and the compilers.

A design without violations is accepted by mlir-aie 1.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from npu_tensor.dataflow.checks import balance, consistency, links, patterns, sequence, tiles, workers
from npu_tensor.dataflow.checks.index import Index, Violation
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError

Rule = Callable[[Index], Iterator[Violation]]

STAGES: Final[tuple[tuple[Rule, ...], ...]] = (
    (consistency.array,),
    (
        consistency.columns,
        consistency.names,
        consistency.symbols,
        consistency.types,
        consistency.counts,
        consistency.places,
        consistency.references,
    ),
    (consistency.consumers, consistency.ends, links.sides),
    (links.ends, links.parts, links.dims),
    (
        tiles.memory,
        tiles.alignment,
        tiles.program,
        tiles.channels,
        tiles.streams,
        tiles.descriptors,
        tiles.lengths,
        tiles.object_sizes,
        tiles.locks,
        patterns.access_patterns,
        patterns.static_dims,
        workers.stacks,
        workers.acquires,
        workers.holds,
        workers.calls,
        workers.parameters,
        sequence.groups,
        sequence.waits,
        sequence.descriptors,
        sequence.queues,
        sequence.overlaps,
        balance.balance,
    ),
)
"""Rules by stage. The rules of one stage can rely on all earlier stages: they run only if those found nothing."""


def check(design: Design) -> list[Violation]:
    """Return all violations of a design; none if it is accepted.

    If names, types or ends are wrong, only that is reported, because the other rules depend on them. Never raises.
    """
    index = Index(design)
    for stage in STAGES:
        violations = [violation for rule in stage for violation in rule(index)]
        if violations:
            return violations
    return []


def require_valid(design: Design) -> None:
    """Raise BuildError with all violations of a design, which could hang an array."""
    if violations := check(design):
        raise BuildError(f"{design.name} breaks the limits of the array:\n" + "\n".join(map(str, violations)))
