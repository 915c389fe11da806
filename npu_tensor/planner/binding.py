"""The fourth stage: build kernels, compute the lifetimes of values and bind a plan."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, groupby

from npu_tensor import events
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import BuildError, DeviceError
from npu_tensor.planner.device_choice import Answer, Cut, PlanningContext
from npu_tensor.planner.liveness import last_reads, with_donors
from npu_tensor.planner.measures import Declined
from npu_tensor.planner.plan import BoundStep, Placed, Plan
from npu_tensor.planner.selection import before_reset
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.task import AsynchronousDevice, Kernel, PlannedLaunch, Refusal, Task


def prepare(placement: Cut, context: PlanningContext) -> None:
    """Build the kernels of all devices, several at once.

    A device builds the kernels of tasks that no preferred device takes. If the processor must not stand in for another
    device, every device builds all its kernels, and background builds are finished too.
    """
    exact = context.without_host or context.fallback == "error"
    kernels: dict[int, list[Kernel]] = {}
    for answers in placement.answers:
        for number, answer in enumerate(answers):
            if not isinstance(answer, (Refusal, Declined)):
                kernels.setdefault(number, []).append(answer)
                if not exact:
                    break
    for number, each in kernels.items():
        device = context.accelerators[number]
        # A plan under jit runs many times, so it gets the best binaries.
        device.share_configurations(each, once=context.measure is not None and context.persistent is None)
        device.prepare(each)
    if exact:
        finish_builds()


def bind(
    placement: Cut, context: PlanningContext, size: int, first_op: int, origins: Mapping[int, int], builds_before: int
) -> Plan:
    """Return the plan of placed tasks. See `Plan` for the other arguments."""
    tasks, aliases, kept = placement.partition
    on_accelerators = {
        position
        for position, answers in enumerate(placement.answers)
        if any(not isinstance(answer, (Refusal, Declined)) for answer in answers)
    }
    last_read = last_reads(tasks, kept)
    bases = dict(aliases)
    replaced = {item: bases.get(value, value) for item, value in context.replaced.items()}
    tasks = with_donors(tasks, last_read, on_accelerators, replaced)
    if context.persistent is not None:
        changing = {output.item for task in tasks for output in task.outputs} | replaced.keys()
        known = {**dict.fromkeys(context.persistent, True), **dict.fromkeys(changing, False)}
        tasks = [_with_persistence(task, known) for task in tasks]
    placed = tuple(_bound(*each, context) for each in zip(tasks, placement.answers, strict=True))
    launches = _launches(placed, last_read, context)
    used = {entry.kernel.device for entry in placed}
    asynchronous = tuple(
        device for device in context.accelerators if isinstance(device, AsynchronousDevice) and device.uri in used
    )
    pending = any(isinstance(each, Refusal) and each.pending for entry in placed for each in entry.refusals)
    pending = pending or any(launch.pending for launch in launches)
    ends = accumulate(launch.kernels for launch in launches)
    unread = [(*chain(*last_read[end - launch.kernels : end]),) for launch, end in zip(launches, ends, strict=True)]
    counts = tuple([launch.kernels for launch in launches])
    steps = tuple([(launch.step, items) for launch, items in zip(launches, unread, strict=True)])
    return Plan(
        placed=placed,
        steps=steps,
        counts=counts,
        aliases=aliases,
        size=size,
        first_op=first_op,
        origins=origins,
        asynchronous=asynchronous,
        builds_before=builds_before if pending else None,
        joined=_joined(placed, steps, counts),
    )


def _with_persistence(task: Task, known: Mapping[int, bool]) -> Task:
    """Return the task with `Input.persistent` of its operands, which arguments of a captured function do not have."""
    return task._replace(inputs=tuple([each._replace(persistent=known.get(each.item)) for each in task.inputs]))


def _joined(placed: Sequence[Placed], steps: Sequence[BoundStep], counts: Sequence[int]) -> tuple[BoundStep, ...]:
    """Return the steps with consecutive kernels on the CPU in as few calls as possible."""
    host = host_devices()[0]
    kernels = [placed[end - 1].kernel for end in accumulate(counts)]  # one of each step
    result: list[BoundStep] = []
    for is_host, group in groupby(range(len(steps)), lambda number: kernels[number].device == host.uri):
        numbers = [*group]
        if not is_host:
            result += [steps[number] for number in numbers]
            continue
        last_read = [steps[number][1] for number in numbers]
        first = 0
        for launch in host.launches([kernels[n] for n in numbers], [steps[n][0] for n in numbers], last_read):
            end = first + launch.kernels
            result.append((launch.step, (*chain(*last_read[first:end]),)))
            first = end
    return tuple(result)


def _launches(
    placed: Sequence[Placed], last_read: Sequence[Sequence[int]], context: PlanningContext
) -> list[PlannedLaunch]:
    """Return the launches of all kernels; on the processor each kernel is one."""
    accelerators = {device.uri: device for device in context.accelerators}
    launches: list[PlannedLaunch] = []
    by_device: dict[str, list[Kernel]] = {}
    for entry in placed:
        by_device.setdefault(entry.kernel.device, []).append(entry.kernel)
    for uri, group in groupby(range(len(placed)), key=lambda number: placed[number].kernel.device):
        numbers = [*group]
        device, steps = accelerators.get(uri), [placed[n].step for n in numbers]
        if device is None:
            launches += [PlannedLaunch(1, step) for step in steps]
        else:
            kernels, unread = [placed[n].kernel for n in numbers], [last_read[n] for n in numbers]
            launches += device.launches(kernels, steps, unread, context.numbers, by_device[uri])
    return launches


def _bound(task: Task, answers: Sequence[Answer], context: PlanningContext) -> Placed:
    """Bind a task to the first device that has a kernel for it and can build it."""
    refusals: list[Refusal | Declined] = []
    host = host_devices()
    for number, device in enumerate((*context.accelerators, *host)):
        if refusals and device is host[0]:
            _fall_back(task, refusals, context)
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


def _fall_back(task: Task, refusals: Sequence[Refusal | Declined], context: PlanningContext) -> None:
    """Warn of a task that accelerators refuse, if the setting asks for it.

    Raises:
        DeviceError: The CPU must not run the task. `call` is its last op.
    """
    if any(isinstance(refusal, Declined) for refusal in refusals):
        return
    op, reason, uris = task.name, "; ".join(refusal.reason for refusal in refusals), context.uris
    text = ""
    if context.without_host:
        text = f"{op} cannot run on {uris}: {reason}"
    elif context.fallback == "error":
        text = (
            f"{op} does not run on {uris}: {reason}. {config.origin('fallback')} forbids the CPU; with "
            "NPU_TENSOR_FALLBACK=allow it runs there, and nt.explain gives the reason for every op"
        )
    if text:
        error = DeviceError(text)
        error.call = task.calls[-1]
        raise error
    pending = any(isinstance(refusal, Refusal) and refusal.pending for refusal in refusals)
    if context.fallback == "warn" and not pending:
        _warn_of_fallback(op, uris, reason)


@cache
def _warn_of_fallback(op: str, device: str, reason: str) -> None:
    """Warn once per op, device and reason."""
    warn(f"{op} runs on the CPU and not on {device}: {reason}")


before_reset.append(_warn_of_fallback.cache_clear)
