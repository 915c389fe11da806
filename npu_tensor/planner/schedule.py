"""From recorded nodes to values: capture, plan (cached by structure), run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from npu_tensor import events
from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.units import size
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import BuildError, DeviceError, LaunchError, NpuTensorError, OutOfMemoryError, reworded
from npu_tensor.graph.nodes import LOCATED, PLACEHOLDER, Capture, Node, capture, no_value_yet, recorded_for
from npu_tensor.ops.declare import Call, describe, keep
from npu_tensor.planner import selection
from npu_tensor.planner.costs import MARGIN, Costs, DeviceValue
from npu_tensor.planner.fuse import Cutter, Tasks
from npu_tensor.planner.liveness import last_uses, with_donors
from npu_tensor.planner.parts import parts
from npu_tensor.planner.plan import Located, Placed, Plan, Timings
from npu_tensor.planner.selection import Selection
from npu_tensor.runtime.devices.host import host_devices, host_kernel
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.store.background import builds, finish_builds
from npu_tensor.task import Accelerator, AsynchronousDevice, Kernel, Refusal, Task

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["launch_error", "out_of_memory", "plan", "realize", "shorten"]

MAX_PLANS = 4096
"""Plans kept; the oldest goes first. A plan of one op takes about 50 kB with its graph and code."""

LASTING_RUNS = 2
"""A value from outside that so many runs have read is expected to be read by more, as weights are: what is computed
anew for every run is read by one, and by a second one where it is looked at as well."""


class _Draft(NamedTuple):
    """A plan whose kernels are not bound yet.

    lasting_counts: whether it might be another one for other lasting values. size: of the list of values. work: the
    tasks in the order in which they will run, with the answers of the accelerators. Those of the host's devices are
    asked when it is their turn.
    """

    accelerators: tuple[Accelerator, ...]
    graph: nx.DiGraph
    lasting_counts: bool
    size: int
    cut: Tasks
    work: list[tuple[Task, Sequence[Kernel | Refusal]]]


def plan(found: Capture, chosen: Selection | None = None, lasting: frozenset[int] | None = None) -> Plan:
    """The plan of a captured structure, from the cache or new. Other threads may plan while kernels are built.

    chosen: for other devices than the default ones. lasting: see `Costs`; None for what some runs have read already.
    """
    chosen = selection.active if chosen is None else chosen
    if chosen.accelerators is None:
        with selection.lock:
            selection.accelerators(chosen)  # Only then it is known whether costs count.
    resident: tuple[DeviceValue, ...] = ()
    structure = found.signature
    if chosen.measure is not None:
        resident = tuple(_resident(found.leaves))
        if lasting is None:
            lasting = _lasting(found.leaves)
        structure = (structure, resident)
    ready = _kept(chosen, structure, lasting)
    if ready is not None and not ready.outdated:
        return ready
    config.read_followed()
    start, ended = time.perf_counter(), builds.finished
    with selection.lock:
        draft, plans = _draft(found, chosen, resident, lasting or frozenset()), chosen.plans
    drafted = time.perf_counter()
    exact = chosen.key.without_host or config.fallback == "error"
    _prepare(draft, all_takers=exact)
    if exact:
        finish_builds()  # The CPU must not stand in for what is being built.
    signature = (structure, lasting) if draft.lasting_counts else structure
    with selection.lock:
        ready = plans.get(signature)
        if ready is None or ready.outdated:
            with events.collect_parts() as parts:
                ready = _bound(draft, chosen, ended)
            if events.listeners:
                now = time.perf_counter()
                kernels = parts.of(events.KernelBuilt)
                events.emit(
                    events.PlanBuilt(len(found.nodes), len(ready.steps), now - start, ready, now - drafted, kernels)
                )
            while len(plans) >= MAX_PLANS and signature not in plans:
                plans.pop(next(iter(plans)))
            plans[signature] = ready
    return ready


def _kept(chosen: Selection, structure: tuple[Any, ...], lasting: frozenset[int] | None) -> Plan | None:
    """The plan of a structure that holds whatever lasts, or that for these lasting values."""
    made = chosen.plans.get(structure)
    return chosen.plans.get((structure, lasting)) if made is None else made


def _resident(leaves: Iterable[tuple[int, Any]]) -> Iterator[DeviceValue]:
    for item, leaf in leaves:
        home = getattr(leaf.value, "home", None) if isinstance(leaf, Node) else None
        if home is not None:
            fetched = getattr(leaf.value, "host", None) is not None
            yield DeviceValue(item, home, 0 if fetched else leaf.value.nbytes)


def _lasts(value: Any) -> bool:
    return getattr(value, "runs", 0) >= LASTING_RUNS


def _lasting(leaves: Iterable[tuple[int, Any]]) -> frozenset[int]:
    return frozenset(item for item, leaf in leaves if isinstance(leaf, Node) and _lasts(leaf.value))


def _count_run(values: Iterable[Any]) -> None:
    """Note that a run has read some values, as far as they are in the processor's memory."""
    for value in values:
        if isinstance(value, Buffer) and value.home is None and not _lasts(value):
            value.runs = getattr(value, "runs", 0) + 1


def _draft(
    found: Capture, chosen: Selection, resident: Sequence[DeviceValue], lasting: frozenset[int]
) -> _Draft:
    cutter = Cutter(found)
    accelerators = selection.accelerators(chosen)
    lasting_counts = False
    answers: Sequence[Sequence[Kernel | Refusal]]
    if not accelerators:
        cut = cutter.cut(host_devices()[0].fusion)
        answers = [()] * len(cut.tasks)
    elif chosen.measure is None:
        asked = _Asked(accelerators)
        *_, cut = cutter.cuts(accelerators[0].fusion, asked.takes)
        answers = [asked.claims(task) for task in cut.tasks]
    else:
        cut, answers, lasting_counts = _by_cost(cutter, Costs(accelerators, chosen.measure, resident, lasting))
    elsewhere = {position for position, given in enumerate(answers) if any(map(_takes, given))}
    work = with_donors(cut.tasks, cut.kept, elsewhere)
    size = len(found.leaves) + len(found.nodes)
    return _Draft(accelerators, cutter.graph, lasting_counts, size, cut, list(zip(work, answers, strict=True)))


class _Asked:
    """What accelerators answer to the tasks of one graph; nobody is asked twice."""

    def __init__(self, accelerators: Sequence[Accelerator]) -> None:
        self._accelerators = accelerators
        self._answers: dict[tuple[int, ...], Sequence[Kernel | Refusal]] = {}

    def claims(self, task: Task) -> Sequence[Kernel | Refusal]:
        """By device."""
        found = self._answers.get(task.items)
        if found is None:
            found = self._answers[task.items] = _claims(task, self._accelerators)
        return found

    def takes(self, task: Task) -> bool:
        """Whether one of them has a kernel, or will have."""
        return any(not isinstance(answer, Refusal) or answer.pending for answer in self.claims(task))


def _by_cost(cutter: Cutter, costs: Costs) -> tuple[Tasks, Sequence[Sequence[Kernel | Refusal]], bool]:
    """The best of everything on the processor, in tasks as large as that takes them, and placements.

    Placed are the tasks of each cut for the first accelerator. The last value says whether what lasts was weighed.
    """
    alone = cutter.cut(host_devices()[0].fusion)
    host = [host_kernel(task) for task in alone.tasks]
    on_host = costs.on_host(alone.tasks, host, alone.kept)
    # An op that no device has a kernel for is to be told of, however little it costs.
    unasked = costs.unasked(len(alone.tasks), on_host) if config.fallback == "allow" else None
    if unasked is not None:
        return alone, unasked, False
    asked = _Asked(costs.accelerators)
    others = [*cutter.cuts(costs.accelerators[0].fusion, asked.takes)]
    weighed = [_weighed(cut, asked) for cut in others]
    placements = [costs.place(*each) for each in weighed]
    (mixed, order, answers), cut = min(zip(placements, others, strict=True), key=lambda each: each[0][0])
    if mixed * MARGIN > on_host:
        taken = [
            {item for cut in others for task in cut.tasks if _takes(asked.claims(task)[number]) for item in task.items}
            for number in range(len(costs.accelerators))
        ]
        by_parts = costs.by_parts(*weighed[-1], on_host)
        declined = [
            costs.declined(_in_parts(_claims(task, costs.accelerators), by_parts, taken, task.items), kernel)
            for task, kernel in zip(alone.tasks, host, strict=True)
        ]
        return alone, declined, True
    return cut._replace(tasks=[cut.tasks[position] for position in order]), answers, True


def _weighed(
    cut: Tasks, asked: _Asked
) -> tuple[list[Task], list[Sequence[Kernel | Refusal]], list[Kernel], set[int]]:
    """What `Costs` needs to know of a cut: the tasks, the answers to them, the processor's kernels, what is wanted."""
    return cut.tasks, list(map(asked.claims, cut.tasks)), list(map(host_kernel, cut.tasks)), cut.kept


def _in_parts(
    answers: Sequence[Kernel | Refusal], by_parts: Sequence[Refusal], taken: Sequence[set[int]], items: Sequence[int]
) -> list[Kernel | Refusal]:
    """The answers to a task of the processor's cut; a device that takes all parts of it refuses it only by cost.

    by_parts: that refusal, by device. taken: the items that each device takes. items: those of the task.
    """
    return [
        by_cost if isinstance(answer, Refusal) and own.issuperset(items) else answer
        for answer, by_cost, own in zip(answers, by_parts, taken, strict=True)
    ]


def _claims(task: Task, accelerators: Iterable[Accelerator]) -> list[Kernel | Refusal]:
    return [device.claim(task) for device in accelerators]


def _takes(answer: Kernel | Refusal) -> bool:
    return not isinstance(answer, Refusal)


def _prepare(draft: _Draft, all_takers: bool) -> None:
    """Let every device build what it is the first to take, or all that it takes, several at once."""
    wanted: dict[int, list[Kernel]] = {}
    for _, answers in draft.work:
        for number, answer in enumerate(answers):
            if not isinstance(answer, Refusal):
                wanted.setdefault(number, []).append(answer)
                if not all_takers:
                    break
    for number, kernels in wanted.items():
        draft.accelerators[number].prepare(kernels)


def _bound(draft: _Draft, chosen: Selection, ended: int) -> Plan:
    """ended: builds that had ended before the kernels were asked for."""
    import_whole("networkx")
    import networkx as nx

    placed = tuple(_place(task, answers, draft.accelerators, chosen) for task, answers in draft.work)
    dying = last_uses([entry.task for entry in placed], draft.cut.kept)
    steps = tuple((entry.step, tuple(items)) for entry, items in zip(placed, dying, strict=True))
    used = {entry.kernel.device for entry in placed}
    asynchronous = tuple(
        device for device in draft.accelerators if isinstance(device, AsynchronousDevice) and device.uri in used
    )
    timings = Timings([None] * len(steps))
    pending = any(refusal.pending for entry in placed for refusal in entry.refusals)
    return Plan(
        nx.freeze(draft.graph),
        placed,
        steps,
        draft.cut.aliases,
        draft.size,
        asynchronous,
        timings,
        ended if pending else None,
    )


def _place(
    task: Task, answers: Sequence[Kernel | Refusal], accelerators: Sequence[Accelerator], chosen: Selection
) -> Placed:
    """The first device that claims the task and can build its kernel. answers: of the accelerators."""
    refusals: list[Refusal] = []
    for device in (*accelerators, *host_devices()):
        if refusals and device is host_devices()[0]:
            _fall_back(task.name, refusals, chosen)
        number = len(refusals)
        answer = answers[number] if number < len(answers) else device.claim(task)
        if not isinstance(answer, Refusal):
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
        if events.listeners and not answer.by_cost:
            events.emit(events.Fallback(task.name, device.uri, answer.reason))
    raise AssertionError(f"no device takes {task.name}: {refusals}")


def _fall_back(op: str, refusals: Sequence[Refusal], chosen: Selection) -> None:
    """What is to be done about an op that accelerators refuse. Raises DeviceError where the CPU must not run it."""
    if any(refusal.by_cost for refusal in refusals):
        return
    reason, uris = "; ".join(refusal.reason for refusal in refusals), chosen.key.uris
    if chosen.key.without_host:
        raise DeviceError(f"{op} cannot run on {uris}: {reason}")
    if config.fallback == "error":
        raise DeviceError(
            f"{op} does not run on {uris}: {reason}. {config.origin('fallback')} forbids the CPU; with "
            "NPU_TENSOR_FALLBACK=allow it runs there, and nt.explain gives the reason for every op"
        )
    if config.fallback == "warn" and not any(refusal.pending for refusal in refusals):
        _warn_of_fallback(op, uris, reason)


@cache
def _warn_of_fallback(op: str, device: str, reason: str) -> None:
    """Once per op, device and reason."""
    warn(f"{op} runs on the CPU and not on {device}: {reason}")


selection.before_reset.append(_warn_of_fallback.cache_clear)


def realize(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names.

    wait: whether asynchronous devices have ended their work when this returns; whoever looks at a value waits for it.
    chosen: for other devices than the default ones.
    """
    chosen = selection.active if chosen is None else chosen
    if len(nodes) == 1 and _realize_single(nodes[0], wait, chosen):
        return
    recorded = recorded_for(nodes)
    todo = parts(recorded, nodes)
    if len(todo) == 1:
        _realize_part(capture(nodes, recorded), wait, chosen)
        return
    del recorded  # Values that only later parts read end with these.
    _realize_parts(todo, chosen)
    if wait:
        selection.synchronize()


def shorten(node: Node, longest: int) -> None:
    """Run the beginning of a chain of more than `longest` ops, up to the latest iteration of the loop that records it.

    That iteration is not cut, so that it has the structure of the others when it runs.
    """
    todo = parts(recorded_for((node,)), (node,))
    del todo[-1]
    _realize_parts(todo, selection.active)
    for each, inputs in recorded_for((node,)).items():
        each.depth = 1 + max((operand.depth for operand in inputs if isinstance(operand, Node)), default=0)
    if node.depth > longest:
        realize((node,), wait=False)


def _realize_parts(todo: list[list[Node]], chosen: Selection) -> None:
    """Run parts of a graph, as `parts` finds them. Empties the list, which would keep the values of the results."""
    todo.reverse()
    while todo:
        _realize_part(capture(todo.pop()), False, chosen)


def _realize_part(found: Capture, wait: bool, chosen: Selection) -> None:
    if not found.nodes:
        return
    lasting = frozenset() if chosen.measure is None else _lasting(found.leaves)
    made = plan(found, chosen, lasting)
    values: list[Any] = [None] * made.size
    for item, leaf in found.leaves:
        value = leaf.value if isinstance(leaf, Node) else leaf
        if value is PLACEHOLDER:
            raise no_value_yet()
        values[item] = value
    if chosen.measure is not None:
        _count_run(values)  # which are those from outside
    _run(made, values, found.nodes, wait)
    for item, node in found.nodes:
        value = values[item]
        if value is not None and item in found.keep:
            node.value = value
            node.inputs = ()
        node.depth = 0
    if len(found.nodes) != 1:
        return
    ((_, last),) = found.nodes
    # A plan by cost is kept for operands that the host has. Another thread may have forgotten all plans meanwhile.
    structure = found.signature if chosen.measure is None else (found.signature, ())
    stays = _kept(chosen, structure, lasting) is made and not made.provisional
    if stays and last.call is not None and len(last.call.operands) == made.size - 1:
        keep(chosen.single_plans, (last.call, *sorted(lasting)) if lasting else last.call, made)


def _realize_single(node: Node, wait: bool, chosen: Selection) -> bool:
    """The short way for one op whose operands are all data: most of what a user does line by line."""
    made = chosen.single_plans.get(node.call)
    if made is None and chosen.measure is None:
        return False
    values: list[Any] = []
    lasting: list[int] = []
    inputs = node.inputs
    if node.value is not None:  # another thread was faster; it sets the value before it drops the inputs
        return True
    for operand in inputs:
        if isinstance(operand, Node):
            operand = operand.value
            if operand is None or operand is PLACEHOLDER:
                return False
            if chosen.measure is not None:
                if getattr(operand, "home", None) is not None:
                    return False
                if _lasts(operand):
                    lasting.append(len(values))
        values.append(operand)
    if lasting:
        made = chosen.single_plans.get((node.call, *lasting))
    if made is None:
        return False
    if chosen.measure is not None:
        _count_run(values)
    values.append(None)
    _run(made, values, ((len(inputs), node),), wait)
    node.value = values[-1]
    node.inputs = ()
    node.depth = 0
    return True


def _run(made: Plan, values: list[Any], nodes: Sequence[tuple[int, Node]], wait: bool) -> None:
    """Run a plan; a step that fails raises LaunchError, but errors that the user's values or memory cause."""
    try:
        made.run(values, wait, nodes)
    except NpuTensorError as error:
        lines = dict.fromkeys(node.line for _, node in nodes if node.call is error.call)
        raise reworded(error, f"{error}{LOCATED}{', '.join(lines)})" if lines else str(error)) from error.__cause__
    except MemoryError as error:
        raise out_of_memory(error, made, values, nodes) from error
    except Exception as error:
        raise launch_error(error, [node.line for _, node in nodes]) from error


def out_of_memory(
    error: MemoryError, made: Plan, values: Sequence[Any], recorded: Iterable[tuple[int, Located]]
) -> OutOfMemoryError:
    """What to raise when a step had no memory; names the largest result of its task. values: as the plan left them."""
    # What a step has computed is there until a later one has read it, so the first one behind all that is there failed.
    outputs = [placed.task.outputs for placed in made.placed]
    computed = [n for n, results in enumerate(outputs) if any(values[output.item] is not None for output in results)]
    failed = min(max(computed, default=-1) + 1, len(outputs) - 1)
    result = max(outputs[failed], key=lambda output: output.nbytes)
    call: Call = made.graph.nodes[result.item]["call"]
    line = next((found.line for item, found in recorded if item == result.item), "")
    where = f"{LOCATED}{line})" if line else ""
    return OutOfMemoryError(
        f"{call.op.name}({describe(call.operands)}): out of memory: the result {call.spec} needs "
        f"{size(call.spec.nbytes)}{where}"
    )


def launch_error(error: Exception, lines: Iterable[str]) -> LaunchError:
    """What to raise when a step failed; names the lines that recorded its plan's ops."""
    shown = ", ".join(dict.fromkeys(filter(None, lines)))
    return LaunchError(f"{type(error).__name__}: {error} (ops recorded at {shown})")
