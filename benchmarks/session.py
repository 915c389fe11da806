"""One case, all contenders, in turns: cold, warm and after a pause."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

import npu_tensor as nt
from npu_tensor import events

from .cases import TOLERANCE, disagreement
from .peers import first_line
from .peers.library import Lacking, Library
from .peers.npu_tensor import Jitted, NpuTensor
from .results import Kind, LeftOut, Row
from .timing import Call, Effort, after_pauses, interleaved, percentiles

__all__ = ["FULL", "QUICK", "Amount", "Contest", "Found", "WrongResult", "measured", "simulated"]


class Amount(NamedTuple):
    """How much to measure. slowest: seconds of a call; who takes longer is left out.

    pause, npu_pause: seconds, so often, before a call of a contender on the processor and on another device.
    """

    effort: Effort
    slowest: float
    pause: float
    npu_pause: float
    pauses: int


# An NPU powers down after about 10 s, and its next run takes 136 ms more (mlir-aie issue 2944).
FULL: Final = Amount(Effort(rounds=10, block_seconds=20e-6, blocks=10), 3.0, pause=1.0, npu_pause=12.0, pauses=3)
QUICK: Final = Amount(Effort(rounds=3, block_seconds=20e-6, blocks=10), 0.05, pause=0.02, npu_pause=0.02, pauses=1)

LONGEST_SIMULATION: Final = 1 << 28
"""Flops. The simulator runs every call of every core on one thread of this machine."""

Found = Row | LeftOut


class Contest(Protocol):
    """What contenders are compared at: a `Case` or a model."""

    @property
    def suite(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def shapes(self) -> list[list[int]]: ...

    @property
    def size(self) -> str: ...

    @property
    def flops(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def expected(self) -> np.ndarray:
        """The result in float64."""
        ...

    def recorded(self) -> tuple[nt.Tensor, ...]:
        """The result, not computed yet, and the operands that are new in every run."""
        ...

    def contender(self, library: Library) -> Callable[[], Call]:
        """A function that makes the call which is timed; the operands are there before. Raises Lacking."""
        ...


class WrongResult(Exception):
    """npu_tensor computed something else than NumPy."""


class _Entrant(NamedTuple):
    library: Library
    call: Call
    cold: float
    disagreement: float
    note: str


def measured(contest: Contest, libraries: Sequence[Library], amount: Amount) -> Iterable[Found]:
    """A row for every library that takes part, and why the others do not.

    Raises WrongResult if npu_tensor's result is not that of the reference.
    """
    expected = contest.expected()
    entrants: dict[str, _Entrant] = {}
    for library in libraries:
        try:
            entrants[_key(library)] = _entrant(contest, library, expected, amount.slowest)
        except Lacking as reason:
            yield left_out(contest, str(reason), library.device, library.name)
    calls = {key: entrant.call for key, entrant in entrants.items()}
    warm = interleaved(calls, amount.effort)
    pauses = {
        key: amount.pause if entrant.library.device == "cpu" else amount.npu_pause for key, entrant in entrants.items()
    }
    idle = after_pauses(calls, pauses, amount.pauses)
    for key, entrant in entrants.items():
        p50, p95, p99 = percentiles(warm[key])
        yield row(contest, entrant.library.device, entrant.library.name, "measured", p50)._replace(
            p95=p95,
            p99=p99,
            cold=entrant.cold,
            idle=idle[key],
            iterations=len(warm[key]),
            disagreement=entrant.disagreement,
            note=entrant.note,
        )


def _key(library: Library) -> str:
    return f"{library.name} on {library.device}"


def _entrant(contest: Contest, library: Library, expected: np.ndarray, slowest: float) -> _Entrant:
    if contest.dtype not in library.dtypes:
        raise Lacking(f"does not compute in {contest.dtype} here")
    try:
        make = contest.contender(library)
        start = time.perf_counter()
        call = make()
        result = call()
        cold = time.perf_counter() - start
        difference = disagreement(library.values(result), expected)
    except (Lacking, nt.NpuTensorError):
        raise
    except Exception as error:  # Whatever a library raises for an op or a dtype, the others are measured.
        raise Lacking(f"{type(error).__name__}: {first_line(error)}") from error
    if difference > TOLERANCE[contest.dtype]:
        if isinstance(library, NpuTensor):
            raise WrongResult(f"{contest.title} on {library.device}: results differ by {difference:.1e}")
        raise Lacking(f"results differ by {difference:.1e}, more than {TOLERANCE[contest.dtype]:.0e}")
    if (seconds := _least(call, slowest)) > slowest:
        raise Lacking(f"one call takes {seconds:.2g} s, more than {slowest:g} s")
    return _Entrant(library, call, cold, difference, "" if library.device == "cpu" else _on_device(call))


def _on_device(call: Call) -> str:
    """How much of a call runs on an accelerator. Raises Lacking if nothing does: it would time the processor."""
    ran: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelRan):
            ran.append(event.device)

    with events.listen(note):
        call()
    there = sum(device != "cpu" for device in ran)
    if not there:
        raise Lacking("no kernel of this device takes it")
    return f"kernels on the device: {there} of {len(ran)}"


def _least(call: Call, enough: float) -> float:
    """Seconds of the first call that takes no longer than `enough`, or the least of TRIES."""
    found = math.inf
    for _ in range(TRIES):
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
        if found <= enough:
            break
    return found


TRIES: Final = 3
"""Another process may stop a call for a tenth of a second."""


def simulated(contest: Contest, uri: str) -> Found:
    """What the cost model makes of what the simulator counted. It says nothing about the time of the simulation."""
    library = Jitted(uri)
    if contest.flops > LONGEST_SIMULATION:
        return left_out(contest, "takes long to simulate", uri, library.name)
    seconds: list[float] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelSimulated):
            seconds.append(event.seconds)

    try:
        make = contest.contender(library)
        with events.listen(note):
            result = make()()
    except Lacking as reason:
        return left_out(contest, str(reason), uri, library.name)
    if not seconds:
        return left_out(contest, "no kernel of this device takes it", uri, library.name)
    difference = disagreement(library.values(result), contest.expected())
    if difference > SIMULATED_TOLERANCE:
        raise WrongResult(f"{contest.title} on {uri}: results differ by {difference:.1e}")
    return row(contest, uri, library.name, "simulated", sum(seconds))._replace(disagreement=difference)


SIMULATED_TOLERANCE: Final = 3e-2
"""The NPU rounds to bfloat16 between the kernels of a graph, and its functions are approximations."""


def row(contest: Contest, device: str, contender: str, kind: Kind, p50: float) -> Row:
    """A row of a contest of which no more than the median is known."""
    return Row(
        contest.suite,
        contest.title,
        contest.dtype,
        contest.shapes,
        contest.size,
        device,
        contender,
        kind,
        p50,
        flops=contest.flops,
        bytes=contest.nbytes,
    )


def left_out(contest: Contest, reason: str, device: str, contender: str) -> LeftOut:
    """What a contest has no row of."""
    return LeftOut(reason, contest.suite, contest.title, contest.dtype, contest.size, device, contender)
