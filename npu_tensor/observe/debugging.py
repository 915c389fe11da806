"""Debug output of NPU_TENSOR_DEBUG, written to stderr. Each level includes the lower ones.

1. plans with their devices, builds, hardware contexts and faults
2. one line per kernel that runs: device, ops, result, time and bandwidth
3. device, kernel and reason for every op of a new plan
4. generated code: LLVM IR of CPU kernels, C++ of NPU kernels
5. output of the compilers
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from npu_tensor import events
from npu_tensor._util.units import duration
from npu_tensor.config import config

_sources: set[Any] = set()
"""C++ sources printed so far. Kernels of many shapes share one source."""


def show(event: events.Event) -> None:
    """Print an event at the level of `config.debug`. `runtime.build.process` prints level 5."""
    level = config.debug
    if level >= 1 and (line := _line(event)):
        _print(line)
    match event:
        case events.KernelRan() if level >= 2:
            _print(_ran(event))
        case events.PlanBuilt() if level >= 3:
            _print("\n".join(_placement(event.plan)))
            for source in _new_sources(event.plan) if level >= 4 else ():
                _print(_code("C++", source.name, source.text))
        case events.CodeGenerated() if level >= 4:
            _print(_code(event.language, event.name, event.text))


_listener = partial(show)
"""Listener of the setting. It differs from `show`, so that a program can listen with `show` independently."""


def follow() -> None:
    """Listen while `config.debug` is set, including to warm runs of kernels."""
    events.keep_listening(_listener, config.in_use("debug"))


def _print(text: str) -> None:
    if text:
        print(text, file=sys.stderr)


def _code(language: str, name: str, text: str) -> str:
    return f"--- {language} of {name}, {len(text.splitlines())} lines\n{text.rstrip()}\n---"


def _line(event: events.Event) -> str:
    match event:
        case events.PlanBuilt():
            devices = ", ".join(dict.fromkeys(placed.kernel.device for placed in _placed(event.plan)))
            return (
                f"plan: {event.nodes} ops in {event.steps} kernels on {devices or 'no device'}, "
                f"{duration(event.seconds)}, of which kernels {duration(event.compile_seconds)}"
            )
        case events.BuildStarted():
            return f"build: {event.kernel} by {event.backend} begins"
        case events.BuildFinished(error=""):
            return f"build: {event.kernel} by {event.backend}, {duration(event.seconds)}"
        case events.BuildFinished():
            return f"build: {event.kernel} by {event.backend} failed after {duration(event.seconds)}: {event.error}"
        case events.ContextOpened():
            return f"{event.device}: context of {event.kernel} opened, {event.contexts} now"
        case events.ContextClosed():
            return f"{event.device}: context of {event.kernel} closed, {event.contexts} left"
        case events.DeviceFault():
            return f"{event.device}: {event.kernel} failed, {event.cause}; the CPU computes {event.launches} launches"
    return ""


def _placed(plan: Any) -> Any:
    return () if plan is None else plan.placed


def _ran(event: events.KernelRan) -> str:
    line = f"{event.device} {event.kernel} {event.out} {event.seconds * 1e3:.3f} ms"
    if event.simulated is not None:
        return f"{line} to simulate, predicted for the array: {event.simulated.seconds * 1e3:.3f} ms"
    if not event.placed or not event.seconds:
        return line
    nbytes = sum(each.kernel.cost.nbytes for each in event.placed)
    return f"{line} {nbytes / event.seconds / 1e9:.2f} GB/s"


def _placement(plan: Any) -> Iterator[str]:
    for number, (task, kernel, _, refusals) in enumerate(_placed(plan)):
        out = ", ".join(f"{output.dtype.short}{list(output.layout.shape)}" for output in task.outputs)
        predicted = duration(kernel.cost.expense.seconds)
        yield f"  #{number} {'+'.join(task.ops)} {out}: {kernel.name} on {kernel.device}, predicted {predicted}"
        for answer in (kernel, *refusals):
            yield f"       {answer.reason}"


def _new_sources(plan: Any) -> Iterator[Any]:
    for placed in _placed(plan):
        request = getattr(placed.kernel, "request", None)  # CPU kernels have no request.
        for source in dict.fromkeys(function.source for function in request.design.functions) if request else ():
            if source not in _sources:
                _sources.add(source)
                yield source
