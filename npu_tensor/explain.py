"""explain: where every op of a graph will run, in which kernel, and why. Plans and compiles, but computes nothing.

    y = (x @ w).relu()
    table = nt.explain(y)
    print(table)  # also table.rows for pandas, table.svg(), table.mermaid(), table.save("graph.svg")
    y.realize()
    print(table)  # now with measured times
"""

from __future__ import annotations

from npu_tensor import selection
from npu_tensor.drawing import brief, leaves
from npu_tensor.explanation import Explanation, Row, Work
from npu_tensor.graph import capture, digraph
from npu_tensor.plan import Placed
from npu_tensor.schedule import plan
from npu_tensor.tensor import Tensor

__all__ = ["explain"]

TIMED_RUNS = 10
"""After an explanation: the first run of a program is slower than others, and timing an NPU makes it wait."""


def explain(*tensors: Tensor, device: str | None = None) -> Explanation:
    """Where the pending ops of `tensors` will run and why; empty if there are none.

    Makes the plan and compiles its kernels, so that running it later takes no time for that. The next ten runs of a
    graph of this structure are timed kernel by kernel, and the explanation has the latest times.

    device: what must run every op, as for `Tensor.realize`. Raises DeviceError with the op and the reason if it cannot.
    """
    nodes = [tensor._node for tensor in tensors if tensor._node.value is None]
    if not nodes:
        return Explanation()
    chosen = selection.current() if device is None else selection.forced(device)
    found = capture(nodes)
    made = plan(found, chosen)
    made.timings.wanted = TIMED_RUNS
    switching = {device.uri: device.switch.seconds for device in selection.accelerators(chosen)}
    rank = {item: number for number, (item, _) in enumerate(found.nodes)}
    members = [sorted(rank[item] for item in placed.task.items) for placed in made.placed]
    step_of = {number: step for step, numbers in enumerate(members) for number in numbers}
    rows = []
    for number, (_, node) in enumerate(found.nodes):
        assert node.call is not None
        step = step_of.get(number)
        start = Row(node.call.op.name, brief(node.spec), line=node.line)
        if step is None:
            is_view = node.call.op.kind == "view"
            why = "another reading of the same memory" if is_view else "computed once, with an equal op before it"
            rows.append(start._replace(why=why))
        elif number == members[step][-1]:
            rows.append(_kernel_row(start, made.placed[step]))
        else:
            kernel = f"fused into #{members[step][-1]}"
            rows.append(start._replace(device=made.placed[step].kernel.device, kernel=kernel, origin=""))
    items, edges = [item for item, _ in found.nodes], list(digraph(found).edges)
    work = Work(items, leaves(found), edges, members, made.placed, made.timings, switching)
    return Explanation(rows, work)


def _kernel_row(start: Row, placed: Placed) -> Row:
    kernel = placed.kernel
    cost = kernel.cost
    refusals = "; ".join(refusal.reason for refusal in placed.refusals)
    return start._replace(
        device=kernel.device,
        kernel=kernel.name,
        origin=kernel.origin,
        predicted=cost.expense.seconds,
        nbytes=cost.nbytes,
        why=kernel.reason + (f"; refused elsewhere: {refusals}" if refusals else ""),
    )
