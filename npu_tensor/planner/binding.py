"""The fourth stage: kernels are built, values get their lifetimes, and a plan is bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain, groupby

from npu_tensor import events
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import BuildError, DeviceError
from npu_tensor.planner.cuts import Answer, Conditions, Cut
from npu_tensor.planner.liveness import last_uses, with_donors
from npu_tensor.planner.measures import Declined
from npu_tensor.planner.plan import BoundStep, Placed, Plan
from npu_tensor.planner.selection import before_reset
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.task import AsynchronousDevice, Kernel, PlannedLaunch, Refusal, Task

__all__ = ["bind", "prepare"]


def prepare(placement: Cut, conditions: Conditions) -> None:
    """Let every device build the kernels that it is the first to have, several at once.

    If the processor must not stand in for another device, all kernels, and those that are being built too.
    """
    exact = conditions.without_host or conditions.fallback == "error"
    kernels: dict[int, list[Kernel]] = {}
    for answers in placement.answers:
        for number, answer in enumerate(answers):
            if not isinstance(answer, (Refusal, Declined)):
                kernels.setdefault(number, []).append(answer)
                if not exact:
                    break
    for number, each in kernels.items():
        device = conditions.accelerators[number]
        # What jit runs again and again gets the best binaries, as it does not count what it brings to a device once.
        device.share_configurations(each, once=conditions.measure is not None and conditions.persistent is None)
        device.prepare(each)
    if exact:
        finish_builds()


def bind(placement: Cut, conditions: Conditions, size: int, builds_before: int) -> Plan:
    """The plan of placed tasks. size: of the list of values. builds_before: see `Plan`, if a kernel is being built."""
    tasks, aliases, kept = placement.tasks
    elsewhere = {
        position
        for position, answers in enumerate(placement.answers)
        if any(not isinstance(answer, (Refusal, Declined)) for answer in answers)
    }
    dying = last_uses(tasks, kept)
    where = dict(aliases)
    replaced = {item: where.get(value, value) for item, value in conditions.replaced.items()}
    tasks = with_donors(tasks, dying, elsewhere, replaced)
    placed = tuple(_bound(*each, conditions) for each in zip(tasks, placement.answers, strict=True))
    launches = _launches(placed, dying, conditions)
    used = {entry.kernel.device for entry in placed}
    asynchronous = tuple(
        device for device in conditions.accelerators if isinstance(device, AsynchronousDevice) and device.uri in used
    )
    pending = any(isinstance(each, Refusal) and each.pending for entry in placed for each in entry.refusals)
    pending = pending or any(launch.pending for launch in launches)
    ends = accumulate(launch.kernels for launch in launches)
    dead = [(*chain(*dying[end - launch.kernels : end]),) for launch, end in zip(launches, ends, strict=True)]
    counts = tuple([launch.kernels for launch in launches])
    steps = tuple([(launch.step, items) for launch, items in zip(launches, dead, strict=True)])
    joined = _joined(placed, steps, counts)
    provisional = builds_before if pending else None
    return Plan(placed, steps, counts, aliases, size, asynchronous, provisional, joined)


def _joined(placed: Sequence[Placed], steps: Sequence[BoundStep], counts: Sequence[int]) -> tuple[BoundStep, ...]:
    """Return the steps with consecutive kernels on the CPU in as few calls as possible."""
    host = host_devices()[0]
    kernels = [placed[end - 1].kernel for end in accumulate(counts)]  # of each step one
    result: list[BoundStep] = []
    for is_host, group in groupby(range(len(steps)), lambda number: kernels[number].device == host.uri):
        numbers = [*group]
        if not is_host:
            result += [steps[number] for number in numbers]
            continue
        dead = [steps[number][1] for number in numbers]
        first = 0
        for launch in host.launches([kernels[n] for n in numbers], [steps[n][0] for n in numbers], dead):
            end = first + launch.kernels
            result.append((launch.step, (*chain(*dead[first:end]),)))
            first = end
    return tuple(result)


def _launches(placed: Sequence[Placed], dying: Sequence[Sequence[int]], conditions: Conditions) -> list[PlannedLaunch]:
    """The launches of all kernels: on the processor one for each."""
    accelerators = {device.uri: device for device in conditions.accelerators}
    launches: list[PlannedLaunch] = []
    together: dict[str, list[Kernel]] = {}
    for entry in placed:
        together.setdefault(entry.kernel.device, []).append(entry.kernel)
    for uri, group in groupby(range(len(placed)), key=lambda number: placed[number].kernel.device):
        numbers = [*group]
        device, steps = accelerators.get(uri), [placed[n].step for n in numbers]
        if device is None:
            launches += [PlannedLaunch(1, step) for step in steps]
        else:
            kernels, dead = [placed[n].kernel for n in numbers], [dying[n] for n in numbers]
            launches += device.launches(kernels, steps, dead, conditions.numbers, together[uri])
    return launches


def _bound(task: Task, answers: Sequence[Answer], conditions: Conditions) -> Placed:
    """The first device that has a kernel for the task and can build it. answers: of the accelerators."""
    refusals: list[Refusal | Declined] = []
    host = host_devices()
    for number, device in enumerate((*conditions.accelerators, *host)):
        if refusals and device is host[0]:
            _fall_back(task, refusals, conditions)
        answer = answers[number] if number < len(answers) else device.claim(task)
        if not isinstance(answer, (Refusal, Declined)):
            start = time.perf_counter()
            try:
                step = answer.bind()
            except (BuildError, DeviceError) as error:
                answer = Refusal(str(error), pending=isinstance(error, BuildError) and error.pending)
            else:
                if events.listeners:
                    events.emit_part(events.KernelBuilt(task.name, device.uri, time.perf_counter() - start))
                return Placed(task, answer, step, tuple(refusals))
        refusals.append(answer)
        if events.listeners and isinstance(answer, Refusal):
            events.emit(events.Fallback(task.name, device.uri, answer.reason))
    raise AssertionError(f"no device takes {task.name}: {refusals}")


def _fall_back(task: Task, refusals: Sequence[Refusal | Declined], conditions: Conditions) -> None:
    """Warn of a task that accelerators refuse, if that is asked for.

    Raises:
        DeviceError: The CPU must not run the task. `call` is its last op.
    """
    if any(isinstance(refusal, Declined) for refusal in refusals):
        return
    op, reason, uris = task.name, "; ".join(refusal.reason for refusal in refusals), conditions.uris
    text = ""
    if conditions.without_host:
        text = f"{op} cannot run on {uris}: {reason}"
    elif conditions.fallback == "error":
        text = (
            f"{op} does not run on {uris}: {reason}. {config.origin('fallback')} forbids the CPU; with "
            "NPU_TENSOR_FALLBACK=allow it runs there, and nt.explain gives the reason for every op"
        )
    if text:
        error = DeviceError(text)
        error.call = task.calls[-1]
        raise error
    pending = any(isinstance(refusal, Refusal) and refusal.pending for refusal in refusals)
    if conditions.fallback == "warn" and not pending:
        _warn_of_fallback(op, uris, reason)


@cache
def _warn_of_fallback(op: str, device: str, reason: str) -> None:
    """Once per op, device and reason."""
    warn(f"{op} runs on the CPU and not on {device}: {reason}")


before_reset.append(_warn_of_fallback.cache_clear)
