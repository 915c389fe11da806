"""Interleaved measurement of one case on all contenders: cold, warm and after a pause."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from npu_tensor import events

from .cases import TOLERANCE, Case, disagreement
from .peers import first_line
from .peers.library import Lacking, Library
from .peers.npu_tensor import NAME, Jitted, NpuTensor
from .results import Kind, LeftOut, Row
from .timing import Call, CallFailed, Effort, after_pauses, interleaved, percentiles


class Amount(NamedTuple):
    """Amount of measurements per case.

    Attributes:
        effort: Effort of warm calls.
        slowest: Upper bound on the seconds of a peer's call. Slower peers are left out.
        pause: Seconds before a call after a pause, on the processor.
        npu_pause: Seconds before a call after a pause, on another device.
        pauses: Number of calls after a pause.
    """

    effort: Effort
    slowest: float
    pause: float
    npu_pause: float
    pauses: int


# An NPU powers down after about 10 s, and its next run takes 136 ms more (mlir-aie issue 2944).
FULL_AMOUNT: Final = Amount(Effort(rounds=30, block_seconds=20e-6, blocks=4), 3.0, pause=1.0, npu_pause=12.0, pauses=3)
QUICK_AMOUNT: Final = Amount(Effort(rounds=10, block_seconds=20e-6, blocks=3), 0.05, pause=0.0, npu_pause=0.0, pauses=0)

LONGEST_SIMULATION: Final = 1 << 28
"""Upper bound on the flops of a simulated case. The simulator runs all cores on one thread of this machine."""

Found = Row | LeftOut


class Failed(Lacking):
    """Defect of npu_tensor: it raises, or its result differs from NumPy's."""


class _Entrant(NamedTuple):
    library: Library
    call: Call
    cold: float
    disagreement: float
    note: str


def measured(case: Case, libraries: Sequence[Library], amount: Amount) -> Iterator[Found]:
    """Yield a row for every participating library, and the reasons for omissions."""
    expected = case.expected()
    entrants: dict[str, _Entrant] = {}
    for library in libraries:
        try:
            entrants[_key(library)] = _entrant(case, library, expected, amount.slowest)
        except Lacking as reason:
            yield left_out(case, reason, library.device, library.name)
    while True:
        try:
            warm, pauses, idle = _timed(entrants, amount)
            break
        except CallFailed as failed:  # The others are timed again without the one that raised.
            library = entrants.pop(failed.name).library
            yield left_out(case, _reason(library, failed.__cause__), library.device, library.name)
    for key, entrant in entrants.items():
        p50, p95, p99 = percentiles(warm[key])
        found_compiled = isinstance(entrant.library, Jitted) and f"{NAME} on {entrant.library.device}" in entrants
        yield row(case, entrant.library.device, entrant.library.name, "measured", p50)._replace(
            p95=p95,
            p99=p99,
            cold=entrant.cold,
            idle=idle.get(key),
            idle_seconds=pauses[key] if key in idle else None,
            iterations=len(warm[key]),
            disagreement=entrant.disagreement,
            note="; ".join(filter(None, (entrant.note, FOUND_COMPILED if found_compiled else ""))),
        )


FOUND_COMPILED: Final = f"cold: the kernels were compiled by {NAME} just before"


def _timed(
    entrants: Mapping[str, _Entrant], amount: Amount
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, float]]:
    """Measure warm samples, the length of the pauses and seconds after them, by contender. Raises CallFailed."""
    calls = {key: entrant.call for key, entrant in entrants.items()}
    around = {key: entrant.library.around for key, entrant in entrants.items()}
    pauses = {
        key: amount.pause if entrant.library.device == "cpu" else amount.npu_pause for key, entrant in entrants.items()
    }
    warm = interleaved(calls, amount.effort, around)
    return warm, pauses, after_pauses(calls, pauses, amount.pauses, around)


def _key(library: Library) -> str:
    return f"{library.name} on {library.device}"


def _entrant(case: Case, library: Library, expected: np.ndarray, slowest: float) -> _Entrant:
    """Prepare an entrant. Raises Lacking, or Failed for a defect of npu_tensor."""
    if case.dtype not in library.dtypes:
        raise Lacking(f"does not compute in {case.dtype} here")
    try:
        make = case.contender(library)
        with library.around():
            start = time.perf_counter()
            call = make()
            result = call()
            cold = time.perf_counter() - start
            difference = disagreement(library.values(result), expected)
            _agree(library, difference, TOLERANCE[case.dtype])
            note = "" if library.device == "cpu" else _on_device(call)
            # npu_tensor always has a row. Leaving it out would hide a regression.
            if not isinstance(library, NpuTensor) and (seconds := _least(call, slowest)) > slowest:
                raise Lacking(f"one call takes {seconds:.2g} s, more than {slowest:g} s")
    except Lacking:
        raise
    except Exception as error:  # A library may raise any exception. The other libraries are measured.
        raise _reason(library, error) from error
    return _Entrant(library, call, cold, difference, note)


def _reason(library: Library, error: BaseException | None) -> Lacking:
    """Return why a library that has raised is left out."""
    said = f"{type(error).__name__}: {first_line(error)}"
    return Failed(said) if isinstance(library, NpuTensor) else Lacking(said)


def _agree(library: Library, difference: float, tolerance: float) -> None:
    """Check a result against the reference. Raises Lacking, or Failed for npu_tensor, if they differ."""
    if difference > tolerance:
        said = f"results differ by {difference:.1e}, more than {tolerance:.0e}"
        raise Failed(said) if isinstance(library, NpuTensor) else Lacking(said)


def _on_device(call: Call) -> str:
    """Describe the share of a call on an accelerator. Raises Lacking if all of it runs on the processor."""
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
    """Return the seconds of the first call that takes at most `enough`, or the minimum of TRIES."""
    fastest = math.inf
    for _ in range(TRIES):
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
        if fastest <= enough:
            break
    return fastest


TRIES: Final = 3
"""Number of attempts. Another process may delay a call by a tenth of a second."""


def simulated(case: Case, uri: str) -> Found:
    """Return the cost model's prediction from the counters of the simulator. The simulation time is not included."""
    library = Jitted(uri)
    if case.flops > LONGEST_SIMULATION:
        return left_out(case, Lacking("takes long to simulate"), uri, library.name)
    seconds: list[float] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.KernelRan) and event.simulated:
            seconds.append(event.simulated.seconds)

    try:
        make = case.contender(library)
        with library.around(), events.listen(note):
            result = make()()
            values = library.values(result)
        if not seconds:
            raise Lacking("no kernel of this device takes it")
        difference = disagreement(values, case.expected())
        _agree(library, difference, SIMULATED_TOLERANCE)
    except Lacking as reason:
        return left_out(case, reason, uri, library.name)
    except Exception as error:
        return left_out(case, _reason(library, error), uri, library.name)
    result = row(case, uri, library.name, "simulated", sum(seconds))
    return result._replace(disagreement=difference, note=KERNELS_ONLY)


KERNELS_ONLY: Final = "kernels only: no copies, no context switches, nothing of the CPU"

SIMULATED_TOLERANCE: Final = 3e-2
"""Tolerance of simulated results. The NPU rounds to bfloat16 between kernels, and its functions are approximations."""


def row(case: Case, device: str, contender: str, kind: Kind, p50: float) -> Row:
    """Create a row of a case with a median only."""
    return Row(
        case.suite,
        case.title,
        case.dtype,
        case.shapes,
        case.size,
        device,
        contender,
        kind,
        p50,
        flops=case.flops,
        bytes=case.nbytes,
    )


def left_out(case: Case, reason: Lacking, device: str, contender: str) -> LeftOut:
    """Create the entry for a missing row of a case."""
    return LeftOut(
        str(reason),
        case.suite,
        case.title,
        case.dtype,
        case.size,
        device,
        contender,
        isinstance(reason, Failed),
    )
