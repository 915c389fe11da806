"""explain: where every op of a graph will run, in which kernel, and why. Plans and compiles, but computes nothing."""

from __future__ import annotations

from typing import NamedTuple

from npu_tensor.graph import capture
from npu_tensor.schedule import Placed, plan
from npu_tensor.tensor import Tensor

__all__ = ["Explanation", "Row", "explain"]


class Row(NamedTuple):
    """One op. `seconds` is the predicted time of the whole kernel, on the row of its last op; None elsewhere."""

    op: str
    out: str
    device: str
    kernel: str
    seconds: float | None
    why: str
    line: str


class Explanation(tuple[Row, ...]):
    """The rows of a graph, in the order in which they run. Prints as a table; `rows` has them as dicts."""

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows as dicts, as pandas.DataFrame takes them."""
        return [row._asdict() for row in self]

    def __str__(self) -> str:
        header = ("#", "op", "out", "device", "kernel", "predicted", "why", "line")
        cells = [(str(number), *row[:4], _time(row.seconds), row.why, row.line) for number, row in enumerate(self)]
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (header, *cells)
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def explain(*tensors: Tensor) -> Explanation:
    """Where the pending ops of `tensors` will run and why; empty if there are none."""
    nodes = [tensor._node for tensor in tensors if tensor._node.value is None]
    if not nodes:
        return Explanation()
    found = capture(nodes)
    made = plan(found)
    rank = {item: rank for rank, item in enumerate(item for item, _ in found.nodes)}
    kernel_of: dict[int, Placed] = {item: placed for placed in made.placed for item in placed.task.items}
    number_of = {id(placed): max(rank[item] for item in placed.task.items) for placed in made.placed}
    rows = []
    for item, node in found.nodes:
        assert node.call is not None
        placed = kernel_of.get(item)
        name, out = node.call.op.name, f"{node.spec.dtype.short}{list(node.spec.shape)}"
        if placed is None:
            why = (
                "another reading of the same memory" if node.call.op.kind == "view" else "computed once, with its twin"
            )
            rows.append(Row(name, out, "-", "none", None, why, node.line))
        elif rank[item] == number_of[id(placed)]:
            reasons = "; ".join((placed.kernel.reason, *placed.refusals))
            rows.append(
                Row(name, out, placed.kernel.device, placed.kernel.name, placed.kernel.seconds, reasons, node.line)
            )
        else:
            into = f"fused into #{number_of[id(placed)]}"
            rows.append(Row(name, out, placed.kernel.device, into, None, "", node.line))
    return Explanation(rows)
