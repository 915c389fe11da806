"""Result of `explain`: rows, totals, text and pictures of a graph."""

from __future__ import annotations

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast, overload

from npu_tensor import events
from npu_tensor._util.units import duration, size
from npu_tensor.errors import ArgumentError, written
from npu_tensor.observe.drawing import Box, Frame, Kind, Picture, mermaid, page, svg, text
from npu_tensor.observe.folding import folded
from npu_tensor.planner.placement import Overhead, Usage
from npu_tensor.planner.plan import Placed, Plan
from npu_tensor.runtime.devices.device_uri import parse_uri

NO_DEVICE: Final = "-"
"""Placeholder for the device URI of ops that need no kernel."""

MOST_OPEN: Final = 200
"""Maximum number of boxes in a picture that a notebook shows unfolded."""

MOST_HTML_ROWS: Final = 200
"""Maximum number of table rows in a notebook."""


class Row(NamedTuple):
    """One op.

    The fields from `origin` to `why` describe the whole kernel. They are set on the row of its last op.

    Attributes:
        op: Name of the op.
        out: Dtype and shape of the result.
        device: URI of the device that runs the op.
        kernel: Kernel family, "fused into #N" on all but the last op of a kernel, or "none".
        origin: Source of the kernel's code: "precompiled", "cache", "memory" or "built". "none" if there is no code,
            "" if the op is fused into the kernel of another row.
        predicted: Predicted run time in seconds; for a simulated device, on the real array.
        measured: Time of the latest run in `Explanation.measure`, in seconds; for a simulated device, of the simulator.
        nbytes: Main memory traffic of the kernel, in bytes.
        why: Reason for this kernel and reasons against the preferred devices.
        line: Source line that recorded the op, such as "file.py:12".
        launch: Number of the NPU launch that contains the kernel, counted from 1.
    """

    op: str
    out: str
    device: str = NO_DEVICE
    kernel: str = "none"
    origin: str = "none"
    predicted: float | None = None
    measured: float | None = None
    nbytes: int | None = None
    why: str = ""
    line: str = ""
    launch: int | None = None


class Total(NamedTuple):
    """All kernels on one device.

    Attributes:
        device: URI of the device.
        kernels: Number of kernels.
        predicted: Predicted time of all kernels, in seconds per run.
        measured: Time of all kernels in the latest run, in seconds; None if one was not measured.
        nbytes: Main memory traffic of the kernels, in bytes.
        copies: Predicted time of operand and result transfers, in seconds, unless the data can stay on the device.
        launches: Number of NPU launches per run.
        launching: Predicted launch overhead, in seconds per run, without the kernels.
        switches: Number of configuration changes per run.
        switching: Predicted cost of the configuration changes, in seconds per run.
        context_switches: Number of hardware context changes per run.
    """

    device: str
    kernels: int
    predicted: float
    measured: float | None
    nbytes: int
    copies: float
    launches: int
    launching: float
    switches: int
    switching: float
    context_switches: int

    @property
    def seconds(self) -> float:
        """Predicted time of a run, in seconds, including copies, launches and configuration changes."""
        return self.predicted + self.copies + self.launching + self.switching


@dataclass(frozen=True)
class Work:
    """Graph and plans of an Explanation, beside its rows. Keeps no tensor values alive.

    Attributes:
        items: Item of each row.
        leaves: Boxes of input values, by item.
        edges: Edges between items.
        members: Row numbers of each kernel, in plan order.
        plans: One plan, or one per part of a long graph.
        overheads: Predicted overheads by NPU URI, in seconds.
        shared_contexts: Maximum number of contexts of a plan that share a hardware context, by NPU URI; 1 if each
            launch has its own.
    """

    items: Sequence[int] = ()
    leaves: Mapping[int, Box] = field(default_factory=dict)
    edges: Sequence[tuple[int, int]] = ()
    members: Sequence[Sequence[int]] = ()
    plans: Sequence[Plan] = ()
    overheads: Mapping[str, Overhead] = field(default_factory=dict)
    shared_contexts: Mapping[str, int] = field(default_factory=dict)


class Explanation(Sequence[Row]):
    """Rows of a graph in recording order. Prints as a table."""

    def __init__(self, rows: Iterable[Row] = (), work: Work | None = None) -> None:
        self._rows = tuple(rows)
        self._work = Work(range(len(self._rows))) if work is None else work
        self._steps = {numbers[-1]: step for step, numbers in enumerate(self._work.members)}
        self._placed: list[Placed] = [placed for plan in self._work.plans for placed in plan.placed]
        self._seconds: list[float | None] = [None] * len(self._placed)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self._now()[index]

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the kernels of this graph in a `with` block.

        If the plan runs several times, the latest run counts. Asynchronous devices synchronize after every kernel.
        """
        starts = accumulate((len(plan.placed) for plan in self._work.plans), initial=0)
        first = {id(plan): start for plan, start in zip(self._work.plans, starts, strict=False)}

        def note(event: events.Event) -> None:
            if isinstance(event, events.KernelRan) and (start := first.get(id(event.plan))) is not None:
                self._seconds[start + event.step] = event.seconds

        with events.listen(note):
            yield

    def _now(self) -> tuple[Row, ...]:
        """Return the rows with the times measured so far."""
        seconds, steps = self._seconds, self._steps
        return tuple(
            row._replace(measured=seconds[steps[number]]) if number in steps else row
            for number, row in enumerate(self._rows)
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows as dicts, for example for pandas.DataFrame."""
        return [row._asdict() for row in self._now()]

    @property
    def totals(self) -> list[Total]:
        """Totals of all kernels, for each device that runs any."""
        placed, seconds = self._placed, self._seconds
        launched = [
            (number, entries[0].kernel.device, [entry.kernel.cost.context for entry in entries])
            for number, plan in enumerate(self._work.plans)
            for entries in plan.launches
        ]
        rows = []
        for device in dict.fromkeys(entry.kernel.device for entry in placed):
            steps = [step for step, entry in enumerate(placed) if entry.kernel.device == device]
            costs = [placed[step].kernel.cost for step in steps]
            times = [time for step in steps if (time := seconds[step]) is not None]
            overhead = self._work.overheads.get(device, Overhead(0.0))
            here = [(plan, used) for plan, uri, used in launched if uri == device and device in self._work.overheads]
            launches = [contexts for _, contexts in here]
            usage = Usage()
            for contexts in launches:
                for position, context in enumerate(contexts):
                    usage = usage.add(context, joins=position > 0)
            if launches:
                usage = usage.closed(overhead.change is not None)
            launching = len(launches) * overhead.launch
            rows.append(
                Total(
                    device,
                    len(steps),
                    sum(cost.expense.seconds for cost in costs),
                    sum(times) if len(times) == len(steps) or (launches and len(times) == len(launches)) else None,
                    sum(cost.nbytes for cost in costs),
                    sum(move.expense.seconds for cost in costs for move in (*cost.reads, *cost.writes)),
                    len(launches),
                    launching,
                    usage.changes + usage.switches,
                    usage.weight(overhead) - launching,
                    _changes(_hardware_contexts(here, self._work.shared_contexts.get(device, 1))),
                )
            )
        return rows

    @property
    def predicted(self) -> float:
        """Predicted time of a run on all devices, in seconds, including copies, launches and configuration changes."""
        return sum(total.seconds for total in self.totals)

    @property
    def launches(self) -> int:
        """Number of launches per run, on all NPUs."""
        return sum(total.launches for total in self.totals)

    @property
    def configuration_changes(self) -> int:
        """Number of configuration changes per run, within and between launches, on all NPUs."""
        return sum(total.switches for total in self.totals)

    @property
    def context_switches(self) -> int:
        """Number of launches per run that follow a launch of another hardware context, on all NPUs."""
        return sum(total.context_switches for total in self.totals)

    def __str__(self) -> str:
        if not self._rows:
            return "nothing to run: every value has been computed; a function under nt.jit has a method explain"
        return _table(self._now(), self.totals)

    __repr__ = __str__

    # --- pictures

    def svg(self) -> str:
        """Draw the graph as an SVG document: ops in their kernels, coloured by device, with tooltips.

        Graphs of more than 600 ops and values get one box per kernel, limited to the last 600 boxes.
        """
        return svg(self._picture())

    def mermaid(self) -> str:
        """Draw the graph as a Mermaid flowchart, for a ```mermaid block in Markdown.

        Graphs beyond Mermaid's limits of 500 edges or 50,000 characters get one box per kernel.
        """
        return mermaid(self._picture())

    def _picture(self) -> Picture:
        rows, work = self._now(), self._work
        kernel_of = {number: members[-1] for members in work.members for number in members}
        boxes = dict(work.leaves)
        for number, row in enumerate(rows):
            kernel = rows[kernel_of.get(number, number)]
            tip = "\n".join(filter(None, (f"#{number} {row.op} {row.out}", row.line, _kernel_tip(kernel))))
            kind: Kind = _kind(row.device) if row.device != NO_DEVICE else "view"
            boxes[work.items[number]] = Box(kind, row.op, row.out, tip)
        frames = []
        for members in work.members:
            row = rows[members[-1]]
            title = f"{row.kernel}, predicted {duration(row.predicted or 0.0)}"
            items = tuple(work.items[number] for number in members)
            frames.append(Frame(_kind(row.device), title, items, _kernel_tip(row)))
        legend = [(_kind(total.device), _legend(total)) for total in self.totals]
        return Picture(boxes, work.edges, frames, legend)

    def _repr_html_(self) -> str:
        """Return the table and the picture for notebooks. A large picture is folded. Computes nothing."""
        if not self._rows:
            return page.paragraph(str(self))
        rows, left_out = self._now()[:MOST_HTML_ROWS], len(self) - MOST_HTML_ROWS
        columns: list[list[page.Cell]] = [[*column] for column in _columns(rows, [row.why for row in rows])]
        devices = next(column for column in columns if column[0] == "device")
        devices[1:] = [
            page.Badge(_kind(row.device), _short(row.device)) if row.device != NO_DEVICE else "" for row in rows
        ]
        notes = [f"{left_out} more ops: print this object, or see its .rows"] if left_out > 0 else []
        below = "".join(page.paragraph(line) for line in (*notes, *_total_lines(self.totals)))
        shown = len(self._work.leaves) + len(self) <= MOST_OPEN
        table = page.table(columns, _FIGURES, {"why": "10em", "line": "4em"})
        return f"{table}{below}{page.details('graph', self.svg(), opened=shown)}"

    def save(self, path: str | Path) -> None:
        """Write a file in the format of its suffix.

        Args:
            path: File with the suffix .svg, .html, .mmd or .md (Mermaid), .txt, or .json (the rows).

        Raises:
            ArgumentError: The suffix is unknown.
        """
        path = Path(path)
        write = _FORMATS.get(path.suffix.lower())
        if write is None:
            raise ArgumentError(f"{path.name}: an explanation is saved as {', '.join(_FORMATS)}")
        with written(path):
            path.write_text(write(self), "utf-8", errors="backslashreplace")


_FORMATS: Final[Mapping[str, Callable[[Explanation], str]]] = MappingProxyType(
    {
        ".svg": Explanation.svg,
        ".html": lambda explanation: page.document("explanation", explanation._repr_html_()),
        ".mmd": Explanation.mermaid,
        ".md": lambda explanation: f"```mermaid\n{explanation.mermaid()}```\n",
        ".txt": lambda explanation: f"{explanation}\n",
        ".json": lambda explanation: json.dumps(explanation.rows, indent=1) + "\n",
    }
)


def _hardware_contexts(launches: Sequence[tuple[int, Sequence[Hashable]]], shared: int) -> list[Hashable]:
    """Return a key of the hardware context of each launch, given as plan number and kernel contexts.

    Up to `shared` contexts of a plan share a hardware context.
    """
    of_plan = defaultdict[int, set[Hashable]](set)
    for plan, contexts in launches:
        of_plan[plan].update(contexts)

    def context(plan: int, contexts: Sequence[Hashable]) -> Hashable:
        if 1 < len(of_plan[plan]) <= shared:
            return "plan", plan
        return contexts[0] if len({*contexts}) == 1 else tuple(contexts)  # A full ELF belongs to one launch.

    return [context(*launch) for launch in launches]


def _changes(used: Sequence[Hashable]) -> int:
    """Count the context changes per run of a repeated plan, including the one from the last launch to the first."""
    return sum(one != following for one, following in zip(used, [*used[1:], *used[:1]], strict=True))


def _kind(device: str) -> Kind:
    return cast(Kind, parse_uri(device).scheme)


def _kernel_tip(row: Row) -> str:
    """Return the tooltip of a kernel from the row of its last op."""
    if row.predicted is None:
        return row.why
    simulated = _kind(row.device) == "sim"
    lines = [f"{row.kernel} on {row.device}", f"origin: {row.origin}"]
    lines.append(f"predicted{' for the real array' if simulated else ''}: {duration(row.predicted)}")
    if row.measured is not None:
        lines.append(f"measured{', the simulator itself' if simulated else ''}: {duration(row.measured)}")
    lines.append(f"memory: {size(row.nbytes or 0)}")
    return "\n".join([*lines, row.why])


def _legend(total: Total) -> str:
    simulated = " for the real array" if _kind(total.device) == "sim" else ""
    many = "1 kernel" if total.kernels == 1 else f"{total.kernels} kernels"
    return f"{total.device}: {many}, predicted {duration(total.predicted)}{simulated}"


_HEADINGS: Final = (
    *("#", "op", "out", "device", "launch", "kernel", "origin", "predicted", "measured", "bytes", "why", "line"),
)
_FIGURES: Final = ("#", "launch", "predicted", "measured", "bytes")


def _columns(rows: Sequence[Row], reasons: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the columns of a table with their headings, without empty ones."""
    cells = (_cells(number, row, why) for number, (row, why) in enumerate(zip(rows, reasons, strict=True)))
    return [column for column in zip(_HEADINGS, *cells, strict=True) if any(column[1:])]


def _cells(number: int, row: Row, why: str) -> tuple[str, ...]:
    times = (duration(seconds) if seconds is not None else "" for seconds in (row.predicted, row.measured))
    nbytes = size(row.nbytes) if row.nbytes is not None else ""
    launch = "" if row.launch is None else str(row.launch)
    device = _short(row.device)
    return (str(number), row.op, row.out, device, launch, row.kernel, row.origin, *times, nbytes, why, row.line)


# --- text

MOST_WHY_LINES: Final = 8
"""Maximum number of printed lines per reason, such as compiler output. The rows keep the full text."""

_CUT: Final = ("op", "out", "device", "kernel", "line")
"""Columns that are truncated if a table is too wide."""

_DROPPED: Final = ("origin", "bytes", "launch")
"""Columns that are dropped, in this order, if a table with truncated columns is still too wide."""

_BEFORE_REFUSAL: Final = re.compile("; (?=not on )")


def _table(rows: Sequence[Row], totals: Sequence[Total]) -> str:
    """Return the rows under headings, the reasons below them and the totals.

    Each reason is printed once and marked with a letter. The reason for a kernel and the refusals of other devices are
    separate, because many kernels often share a refusal.
    """
    reasons = [_BEFORE_REFUSAL.split(row.why) if row.why else [] for row in rows]
    letters: dict[str, str] = {}
    for reason in chain.from_iterable(reasons):
        letters.setdefault(reason, _letters(len(letters)))
    columns = folded(_columns(rows, [",".join(map(letters.__getitem__, each)) for each in reasons]))
    lines = text.table(columns, _FIGURES, _CUT, _DROPPED)
    if letters:
        lines += ["", "why:"]
    indent = len(_letters(len(letters))) + 2
    for why, letter in letters.items():
        lines += _wrapped(text.printable(why), f"  {letter}".ljust(indent + 2), indent + 2, MOST_WHY_LINES)
    lines.append("")
    for total in _total_lines(totals):
        lines += _wrapped(total, "", 4, None)
    return "\n".join(lines)


def _wrapped(words: str, first: str, indent: int, most: int | None) -> list[str]:
    return textwrap.wrap(
        words,
        text.line_width(),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" ... (all of it: .rows)",
    )


def _letters(number: int) -> str:
    """Return the label of a number: a, b, ... z, aa, ab, ..."""
    head, last = divmod(number, 26)
    return (_letters(head - 1) if head else "") + chr(ord("a") + last)


def _short(device: str) -> str:
    """Return a URI without its options."""
    return device.partition("?")[0]


def _total_lines(totals: Sequence[Total]) -> list[str]:
    """Return one line per device, with the options of its URI."""
    lines = []
    for total in totals:
        parts = [_legend(total)]
        if total.copies:
            parts.append(f"up to {duration(total.copies)} more for copies")
        if total.launches:
            many = "1 launch" if total.launches == 1 else f"{total.launches} launches"
            parts.append(f"{many} per run: {duration(total.launching)} more")
        if total.switches:
            parts.append(f"{total.switches} changes of the configuration: {duration(total.switching)} more")
        if len(parts) > 1:
            parts.append(f"in all {duration(total.seconds)} predicted")
        if total.measured is not None:
            kind = "measured, the simulator itself:" if _kind(total.device) == "sim" else "measured"
            parts.append(f"{kind} {duration(total.measured)}")
        lines.append("; ".join(parts))
    return lines
