"""Sequences of events with times of a clock that the test controls."""

from types import SimpleNamespace
from typing import Any, Literal

from npu_tensor import events


class Teller:
    """Makes the events of one thread one after another; `now` is in seconds."""

    def __init__(self, now: float = 100.0, thread: int = 1) -> None:
        self.now = now
        self.thread = thread
        self.events: list[events.Event] = []

    def pass_by(self, seconds: float) -> None:
        """Something else takes its time."""
        self.now += seconds

    def _tell(self, kind: Any, *arguments: Any, **more: Any) -> None:
        self.events.append(kind(*arguments, **more, when=self.now, thread=self.thread))

    def plan(self, plan: object, seconds: float, compile_seconds: float, kernels: dict[str, float]) -> None:
        """Plan, and in the last of these seconds bind the kernels, on the CPU."""
        steps = len(plan.placed)  # type: ignore[attr-defined]
        self.now += seconds - sum(kernels.values())
        built = []
        for name, taken in kernels.items():
            self.now += taken
            built.append(events.KernelBuilt(name, "cpu", taken, when=self.now, thread=self.thread))
        self._tell(events.PlanBuilt, 2 * steps, steps, seconds, plan, compile_seconds, tuple(built))

    def phase(self, name: Literal["convert", "sync", "dispatch", "run"], seconds: float) -> None:
        self.now += seconds
        self._tell(events.Phase, name, "npu", seconds)

    def simulated(self, seconds: float, timeline: object = None) -> None:
        self._tell(events.KernelSimulated, "add", "sim:npu2", 10, 20, 30, seconds, "ddr", timeline)

    def ran(
        self,
        kernel: str,
        seconds: float,
        plan: object = None,
        step: int = 0,
        *,
        device: str = "cpu",
        lines: tuple[str, ...] = (),
        after: float | None = None,
    ) -> None:
        """after: seconds from now on; without it the whole run. Phases since its start are its own."""
        self.now += seconds if after is None else after
        own = [isinstance(event, events.Part) and event.when > self.now - seconds for event in self.events]
        parts = events.Parts(event for event, part in zip(self.events, own, strict=True) if part)  # type: ignore[misc]
        self.events = [event for event, part in zip(self.events, own, strict=True) if not part]
        simulated = next(iter(parts.of(events.KernelSimulated)), None)
        phases = parts.of(events.Phase)
        self._tell(events.KernelRan, kernel, device, "f32[8]", seconds, plan, step, lines, phases, simulated)

    def plan_ran(self, seconds: float, plan: object = None) -> None:
        self._tell(events.PlanRan, seconds, plan)

    def built(self, kernel: str, seconds: float, error: str = "") -> None:
        self.now += seconds
        self._tell(events.BuildFinished, kernel, "0" * 64, "iron", seconds, error)


def made(*kernels: tuple[str, str, int], depth: int = 0) -> Any:
    """A plan. kernels: name, device and bytes of each step. depth: of matrix products of 8 x 4; 0 if there are none."""
    return SimpleNamespace(
        placed=[
            SimpleNamespace(
                task=SimpleNamespace(name=name, kind="matmul" if depth else "map", macs=8 * 4 * depth),
                kernel=SimpleNamespace(device=device, cost=SimpleNamespace(nbytes=nbytes)),
            )
            for name, device, nbytes in kernels
        ]
    )
