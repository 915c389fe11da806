"""Explain the device, kernel and reason for every op of a graph. Plans and compiles, but computes nothing.

Example:
    y = (x @ w).relu()
    table = nt.explain(y)
    print(table)  # also table.rows for pandas, table.svg(), table.mermaid(), table.save("graph.svg")
    with table.measure():
        y.realize()
    print(table)  # now with measured times
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, Final

from npu_tensor.errors import ArgumentError
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import Structure, is_loss, item_graph, pending_ops, structure_of
from npu_tensor.observe.drawing import brief, leaves
from npu_tensor.observe.explanation import Explanation, Row, Work
from npu_tensor.planner import selection
from npu_tensor.planner.device_choice import overhead
from npu_tensor.planner.measures import MEASURES, Declined
from npu_tensor.planner.parts import parts
from npu_tensor.planner.plan import Placed, Plan
from npu_tensor.planner.planner import plan
from npu_tensor.planner.selection import Selection
from npu_tensor.task import Refusal


def explain_nodes(nodes: Sequence[Node], device: str | None = None) -> Explanation:
    """Plan pending nodes and explain their placement. See `npu_tensor.explain`."""
    if not nodes:
        return Explanation()
    chosen = selection.current() if device is None else selection.forced(device)
    pending = pending_ops(nodes)
    planned = []
    computed: set[Node] = set()
    for results in parts(pending, nodes):
        part = structure_of(results, pending_ops(results, computed), for_gradients=is_loss(nodes))
        planned.append((part, plan(part, chosen)))
        computed.update(results)
    return explain_plans(structure_of(nodes, pending), planned, chosen)


def explain_plans(
    graph: Structure, planned: Sequence[tuple[Structure, Plan]], chosen: Selection, prepared: Collection[Node] = ()
) -> Explanation:
    """Combine the plans of a graph's parts, each with its structure, into one explanation.

    A captured function computes the `prepared` nodes once and not in each call.
    """
    accelerators = selection.accelerators(chosen)
    places = [device.uri for device in accelerators]
    overheads = {device.uri: overhead(device, MEASURES["latency"]) for device in accelerators}
    shared_contexts = {device.uri: device.shared_contexts for device in accelerators}
    rank = {node: number for number, node in enumerate(graph.nodes)}
    members = []
    for part, each in planned:
        nodes = dict(part.numbered)
        origins = each.origins
        members += [
            sorted({rank[nodes[origins.get(item, item)]] for item in entry.task.items}) for entry in each.placed
        ]
    plans = [each for _, each in planned]
    placed = [entry for each in plans for entry in each.placed]
    launched = [entries for each in plans for entries in each.launches if entries[0].kernel.device in overheads]
    launch_of = {id(entry): number for number, entries in enumerate(launched, 1) for entry in entries}
    # A copy into another layout belongs to an op that another kernel computes.
    steps = sorted(range(len(members)), key=lambda step: placed[step].task.ops != ("copy",))
    step_of = {number: step for step in steps for number in members[step]}
    rows = []
    for number, node in enumerate(graph.nodes):
        assert node.call is not None
        step = step_of.get(number)
        start = Row(node.call.op.name, brief(node.spec), line=node.line)
        if step is None:
            is_view = node.call.op.kind == "view"
            why = "a view: nothing to compute" if is_view else "computed once, with an equal op before it"
            rows.append(start._replace(why=why))
        elif number == members[step][-1]:
            launch = launch_of.get(id(placed[step]))
            rows.append(_kernel_row(start, placed[step], places)._replace(launch=launch))
        else:
            kernel = f"fused into #{members[step][-1]}"
            rows.append(start._replace(device=placed[step].kernel.device, kernel=kernel, origin=""))
        if node in prepared:
            row = rows.pop()
            rows.append(row._replace(why=f"prepared once; {row.why}".removesuffix("; ")))
    items, edges = [item for item, _ in graph.numbered], item_graph(graph).edges
    return Explanation(rows, Work(items, leaves(graph), edges, members, plans, overheads, shared_contexts))


def _kernel_row(start: Row, placed: Placed, places: Sequence[str]) -> Row:
    kernel = placed.kernel
    cost = kernel.cost
    # Refusals are ordered: first the devices at `places`, then the CPU compiler. NumPy computes the rest.
    refusals = [
        _refused(refusal, places[number] if number < len(places) else None)
        for number, refusal in enumerate(placed.refusals)
    ]
    return start._replace(
        device=kernel.device,
        kernel=kernel.name,
        origin=kernel.origin,
        predicted=cost.expense.seconds,
        nbytes=cost.nbytes,
        why="; ".join([kernel.reason, *refusals]),
    )


def _refused(refusal: Refusal | Declined, place: str | None) -> str:
    """Return a refusal with its subject in front: the device URI `place`, or compiled code if `place` is None."""
    if isinstance(refusal, Declined):
        return f"not on {refusal.reason}"  # The reason starts with the URI.
    if place is None:
        return f"not compiled: {refusal.reason}"
    return f"not {'yet ' if refusal.pending else ''}on {place}: {refusal.reason}"


class CompilationReport(Sequence[Explanation]):
    """Explanations of the graphs that a call of a compiled function runs, in order.

    Attributes:
        left: Operators that are left to PyTorch, each with its line and the reason.
    """

    def __init__(self) -> None:
        self._explanations: list[Explanation] = []
        self.left: list[str] = []

    def add(self, explanation: Explanation, left: Sequence[str]) -> None:
        """Add a graph."""
        self._explanations.append(explanation)
        self.left += [each for each in left if each not in self.left]

    def __len__(self) -> int:
        return len(self._explanations)

    def __getitem__(self, index: Any) -> Any:
        return self._explanations[index]

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self._explanations), *(f"left to PyTorch: {each}" for each in self.left)])


report_of_call: Final[ContextVar[CompilationReport | None]] = ContextVar("report_of_call", default=None)
"""Report that compiled graphs add themselves to; None while no call is explained."""


def explain_call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CompilationReport:
    """Call a function and explain the graphs that it runs. See `npu_tensor.explain`."""
    report = CompilationReport()
    token = report_of_call.set(report)
    try:
        function(*args, **kwargs)
    finally:
        report_of_call.reset(token)
    if not report:
        raise ArgumentError(
            "explain: the function runs no graph that torch.compile has compiled for npu_tensor. Pass tensors, or call "
            "the method `explain` of a function that jit captures"
        )
    return report
