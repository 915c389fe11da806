"""explain: where every op of a graph will run, in which kernel, and why. Plans and compiles, but computes nothing.

    y = (x @ w).relu()
    table = nt.explain(y)
    print(table)  # also table.rows for pandas, table.svg(), table.mermaid(), table.save("graph.svg")
    y.realize()
    print(table)  # now with measured times
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.graph.nodes import Capture, Node, capture, digraph, recorded_for
from npu_tensor.observe.drawing import brief, leaves
from npu_tensor.observe.explanation import Explanation, Row, Work
from npu_tensor.planner import selection
from npu_tensor.planner.parts import parts
from npu_tensor.planner.plan import Placed, Plan
from npu_tensor.planner.schedule import plan
from npu_tensor.planner.selection import Selection
from npu_tensor.task import Refusal
from npu_tensor.tensor import Tensor, pending

__all__ = ["explain", "explain_plans"]

TIMED_RUNS = 10
"""After an explanation: the first run of a program is slower than others, and timing an NPU makes it wait."""


def explain(*tensors: Tensor, device: str | None = None) -> Explanation:
    """Where the pending ops of `tensors` will run and why; empty if there are none.

    Makes the plan and compiles its kernels, so that running it later takes no time for that. The next ten runs of a
    graph of this structure are timed kernel by kernel, and the explanation has the latest times. A function that
    `jit` has captured has a method `explain` of its own.

    device: what must run every op, as for `Tensor.realize`. Raises DeviceError with the op and the reason if it cannot,
    ArgumentError for what is no tensor.
    """
    nodes = pending("explain", tensors)
    if not nodes:
        return Explanation()
    chosen = selection.current() if device is None else selection.forced(device)
    recorded = recorded_for(nodes)
    planned = []
    before: set[Node] = set()
    for results in parts(recorded, nodes):
        part = capture(results, recorded_for(results, before))
        planned.append((part, plan(part, chosen)))
        before.update(results)
    return explain_plans(capture(nodes, recorded), planned, chosen)


def explain_plans(found: Capture, planned: Sequence[tuple[Capture, Plan]], chosen: Selection) -> Explanation:
    """What the plans of a graph's parts say about its ops, and the times of their next runs."""
    for _, made in planned:
        made.timings.wanted = TIMED_RUNS
    accelerators = selection.accelerators(chosen)
    places = [device.uri for device in accelerators]
    switching = {device.uri: device.switch.seconds for device in accelerators}
    rank = {node: number for number, (_, node) in enumerate(found.nodes)}
    members = []
    for part, made in planned:
        nodes = dict(part.nodes)
        members += [sorted(rank[nodes[item]] for item in entry.task.items) for entry in made.placed]
    placed = [entry for _, made in planned for entry in made.placed]
    step_of = {number: step for step, numbers in enumerate(members) for number in numbers}
    rows = []
    for number, (_, node) in enumerate(found.nodes):
        assert node.call is not None
        step = step_of.get(number)
        start = Row(node.call.op.name, brief(node.spec), line=node.line)
        if step is None:
            is_view = node.call.op.kind == "view"
            why = "a view: nothing to compute" if is_view else "computed once, with an equal op before it"
            rows.append(start._replace(why=why))
        elif number == members[step][-1]:
            rows.append(_kernel_row(start, placed[step], places))
        else:
            kernel = f"fused into #{members[step][-1]}"
            rows.append(start._replace(device=placed[step].kernel.device, kernel=kernel, origin=""))
    items, edges = [item for item, _ in found.nodes], list(digraph(found).edges)
    timings = [made.timings for _, made in planned]
    work = Work(items, leaves(found), edges, members, placed, timings, switching)
    return Explanation(rows, work)


def _kernel_row(start: Row, placed: Placed, places: Sequence[str]) -> Row:
    kernel = placed.kernel
    cost = kernel.cost
    # The devices at `places` were asked first, then the CPU compiler, which leaves the rest to NumPy.
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


def _refused(refusal: Refusal, place: str | None) -> str:
    """A reason that begins with what it is a reason for. place: URI of the device; None for compiled code."""
    if refusal.by_cost:
        return f"not on {refusal.reason}"  # which begins with the URI
    if place is None:
        return f"not compiled: {refusal.reason}"
    return f"not {'yet ' if refusal.pending else ''}on {place}: {refusal.reason}"
