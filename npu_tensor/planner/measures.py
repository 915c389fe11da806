"""What placement makes small, by policy, and how a device that lost by predicted cost is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from npu_tensor._util.units import duration
from npu_tensor.task import Expense

__all__ = ["MARGIN", "MEASURES", "Declined", "Measure"]

MARGIN: Final = 1.1
"""A graph leaves the processor if that is predicted to be so much better: predictions are not that exact."""


class Measure(NamedTuple):
    """What counts of an expense, and how to say so much of it."""

    weigh: Callable[[Expense], float]
    text: Callable[[float], str]


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "latency": Measure(attrgetter("seconds"), duration),
        "cpu_time": Measure(attrgetter("processor_seconds"), lambda seconds: f"{duration(seconds)} of processor time"),
        "energy": Measure(attrgetter("joules"), lambda joules: f"{joules * 1e3:.3g} mJ"),
    }
)
"""What each policy makes small. Under the policy "always", a task goes to the first device that takes it."""


class Declined(NamedTuple):
    """A device that lost a task by predicted cost.

    compared: a launch of the device with the whole graph on the CPU; the whole graph on both; or one kernel. there,
    here: what that takes on the device and on the CPU. copies, switch: what one kernel may take besides.
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
        """In words, beginning with the device."""
        there, here, copies, switch = map(self.measure.text, (self.there, self.here, self.copies, self.switch))
        what = {
            "launch": f"a launch alone takes {there} there, the whole graph {here} on the CPU",
            "graph": f"the whole graph takes {there} with all that it has kernels for there; {here} on the CPU",
            "kernel": f"{there} there and up to {copies} for copies, {switch} more after a kernel of another kind; "
            f"{here} on the CPU",
        }
        return f"{self.device} by predicted cost: {what[self.compared]}"
