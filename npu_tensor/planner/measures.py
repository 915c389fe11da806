"""Measures that placement minimizes, and the record of a device that lost a task by predicted cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from npu_tensor._util.units import duration
from npu_tensor.task import Expense

MARGIN: Final = 1.1
"""Predicted gain, as a factor, for which a graph leaves the processor. Predictions are less exact than this."""


class Measure(NamedTuple):
    """A measure of expenses.

    Attributes:
        weigh: Returns the number that is minimized.
        text: Formats such a number.
    """

    weigh: Callable[[Expense], float]
    text: Callable[[float], str]


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "latency": Measure(attrgetter("seconds"), duration),
        "cpu_time": Measure(attrgetter("processor_seconds"), lambda seconds: f"{duration(seconds)} of processor time"),
        "energy": Measure(attrgetter("joules"), lambda joules: f"{joules * 1e3:.3g} mJ"),
    }
)
"""Measure of each policy. Under the policy "always", a task goes to the first device that takes it."""


class Declined(NamedTuple):
    """A device that lost a task by predicted cost.

    Attributes:
        device: URI of the device.
        measure: Measure of the costs.
        compared: "launch" compares a launch of the device with the whole graph on the CPU, "graph" the whole graph on
            both, "kernel" one kernel.
        there: Cost on the device.
        here: Cost on the CPU.
        copies: Upper bound on the cost of copies of one kernel.
        switch: Extra cost of one kernel after a kernel of another context.
    """

    device: str
    measure: Measure
    compared: Literal["launch", "graph", "kernel"]
    there: float
    here: float
    copies: float = 0.0
    switch: float = 0.0

    @property
    def reason(self) -> str:
        """Comparison in words, beginning with the device."""
        there, here, copies, switch = map(self.measure.text, (self.there, self.here, self.copies, self.switch))
        what = {
            "launch": f"a launch alone takes {there} there, the whole graph {here} on the CPU",
            "graph": f"the whole graph takes {there} with all that it has kernels for there; {here} on the CPU",
            "kernel": f"{there} there and up to {copies} for copies, {switch} more after a kernel of another kind; "
            f"{here} on the CPU",
        }
        return f"{self.device} by predicted cost: {what[self.compared]}"
