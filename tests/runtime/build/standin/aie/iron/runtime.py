"""The runtime sequence. Up to 1.3.4 it is written beforehand, from 1.4.0 on a function of the user writes it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, get_origin

import numpy as np

from .._standin import since
from .._standin.record import Argument, Await, Free, LoadPdi, Transfer, current, type_of
from .._standin.signatures import checked
from ..helpers.taplib import TensorAccessPattern
from .buffer import Buffer
from .dataflow import ObjectFifoEndpoint, ObjectFifoHandle
from .device import AIETileType, AnyShimTile, typed
from .worker import Worker, flat

__all__ = ["Runtime"]


class RuntimeData:
    """A buffer of the host: an argument of the runtime sequence."""

    def __init__(self, arr_type: Any) -> None:
        self.arr_type = arr_type
        self.op: Argument | None = None

    def default_tap(self) -> TensorAccessPattern:
        """All of it, in order."""
        shape = self.arr_type.__args__[0]
        elements = int(np.prod(shape))
        return TensorAccessPattern(shape, 0, [1, 1, 1, elements], [0, 0, 0, 1])


class RuntimeEndpoint(ObjectFifoEndpoint):
    """The host."""

    def __init__(self, tile: Any) -> None:
        tile = AnyShimTile if tile is None else tile
        if tile.tile_type not in (None, AIETileType.ShimNOCTile):
            raise ValueError(f"RuntimeEndpoint requires a shim tile, but got tile_type={tile.tile_type}")
        super().__init__(typed(tile, AIETileType.ShimNOCTile))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RuntimeEndpoint):
            return NotImplemented
        return (self.tile.col, self.tile.row) == (other.tile.col, other.tile.row)

    __hash__ = None  # type: ignore[assignment]


class IronRuntimeError(Exception):
    """Groups of transfers that were mixed or left open."""


def _transfer(handle: ObjectFifoHandle, data: RuntimeData, tap: TensorAccessPattern, wait: bool) -> int:
    """Record it; returns its number."""
    assert data.op is not None
    module = current()
    # Sizes and strides are copied with a method that tuples do not have.
    sizes, strides = tap.sizes.copy(), tap.strides.copy()  # type: ignore[attr-defined]
    number = module.number()
    name = handle._object_fifo.op.name
    module.add(Transfer(number, name, data.op.number, int(tap.offset), tuple(sizes), tuple(strides), wait))
    return number


def _finish(group: int, waiting: Sequence[int], others: Sequence[int]) -> None:
    for task in waiting:
        current().add(Await(task, group))
    for task in others:
        current().add(Free(task, group))


def _unique_host_ends(handles: Any) -> None:
    """Consumer handles of the host at one fifo count once; they must not differ."""
    for handle in handles:
        if handle._is_prod:
            continue
        fifo = handle._object_fifo
        ends = [consumer for consumer in fifo._cons if isinstance(consumer.endpoint, RuntimeEndpoint)]
        for other in ends[1:]:
            if (other.depth, other.dims_from_stream) != (ends[0].depth, ends[0].dims_from_stream):
                raise ValueError("Found two different RuntimeEndpoints for consumers of the same ObjectFifo")
            fifo._cons.remove(other)


if since("1.4.0"):

    class ActiveSequence:
        """What the user's function writes into."""

        def __init__(self, runtime: Runtime) -> None:
            self.runtime = runtime
            self.default = _Actions(next(runtime.group_numbers))
            self.open: list[TaskGroup] = []
            self.used: set[bool] = set()
            """Whether transfers had a group of their own."""

        def finalize(self) -> None:
            """End the default group."""
            if self.open:
                raise IronRuntimeError(f"Failed to close task groups: {', '.join(map(str, self.open))}")
            if self.runtime.strict_task_groups and len(self.used) == 2:
                raise IronRuntimeError("Mixing explicit task groups and the default task group is prohibited.")
            self.default.finish()

    class _Actions:
        def __init__(self, number: int) -> None:
            self.number = number
            self.tasks: list[tuple[int, bool]] = []

        def finish(self) -> None:
            """Wait for those that are waited for, then free all."""
            _finish(self.number, [task for task, wait in self.tasks if wait], [task for task, _ in self.tasks])
            self.tasks = []

    class TaskGroup:
        """Transfers that end together; made and finished inside the user's function."""

        @checked("TaskGroup")
        def __init__(self) -> None:
            active = _active.get()
            if active is None:
                raise RuntimeError("TaskGroup() must be constructed within the function passed to Runtime.")
            self.actions = _Actions(next(active.runtime.group_numbers))
            active.open.append(self)

        def finish(self) -> None:
            """End it."""
            active = active_sequence()
            if self in active.open:
                active.open.remove(self)
            self.actions.finish()

    _active: ContextVar[ActiveSequence | None] = ContextVar("standin_sequence", default=None)

    def active_sequence() -> ActiveSequence:
        """RuntimeError outside of the user's function."""
        active = _active.get()
        if active is None:
            raise RuntimeError(
                "No active runtime sequence: fill()/drain() and TaskGroup() must be called from within the function"
                " passed to Runtime(seq_fn, fn_args)."
            )
        return active

    def start_transfer(handle: ObjectFifoHandle, data: Any, tap: Any, wait: bool, group: Any) -> None:
        """What fill and drain of a handle do."""
        active = active_sequence()
        if not isinstance(data, RuntimeData):
            raise ValueError(f"Expected a RuntimeData source/dest, got {data}")
        if data not in active.runtime.data:
            raise ValueError(f"{data} is not a RuntimeData object declared by sequence()")
        if handle.endpoint is None:
            handle.endpoint = RuntimeEndpoint(handle.shim_tile)
        active.runtime.fifos.add(handle)
        number = _transfer(handle, data, data.default_tap() if tap is None else tap, wait)
        active.used.add(group is not None)
        (active.default if group is None else group.actions).tasks.append((number, wait))

    class Runtime:
        """A function and its arguments: array types become RuntimeData, all else is passed on."""

        @checked("Runtime")
        def __init__(self, seq_fn: Callable[..., None], fn_args: Any, strict_task_groups: bool) -> None:
            self._seq_fn = seq_fn
            self._fn_args = list(fn_args) if fn_args is not None else []
            self.strict_task_groups = strict_task_groups
            self.group_numbers = itertools.count()
            self.fifos: set[ObjectFifoHandle] = set()
            self._inputs = [RuntimeData(a) if get_origin(a) is np.ndarray else a for a in self._fn_args]
            self.data = [a for a in self._inputs if isinstance(a, RuntimeData)]
            for argument in self._fn_args:
                if isinstance(argument, (type, int, np.integer)) and not isinstance(argument, bool):
                    raise NotImplementedError(f"the stand-in does not model the sequence argument {argument!r}")
            for argument in flat(self._fn_args):
                if isinstance(argument, ObjectFifoHandle):
                    if argument.endpoint is None:
                        argument.endpoint = RuntimeEndpoint(argument.shim_tile)
                    self.fifos.add(argument)

        def resolve(self, *, load_pdi_device_ref: str | None = None) -> None:
            """Run the function, after loading the configuration of a device if one is named."""
            module = current()
            for number, data in enumerate(self.data):
                if data.op is not None:
                    raise ValueError("Cannot set operation for RuntimeData more than once.")
                module.arguments.append(type_of(data.arr_type))
                data.op = Argument(number, module.arguments[-1])
            module.sequence = []
            active = ActiveSequence(self)
            token = _active.set(active)
            try:
                with module.block(module.sequence):
                    if load_pdi_device_ref is not None:
                        module.add(LoadPdi(load_pdi_device_ref))
                    self._seq_fn(*self._inputs)
                    active.finalize()
            finally:
                _active.reset(token)
            _unique_host_ends(self.fifos)

    __all__ += ["RuntimeData", "TaskGroup"]

else:

    class RuntimeTaskGroup:
        """Transfers that end together."""

        def __init__(self, number: int) -> None:
            self.group_id = number

        def __str__(self) -> str:
            return f"TaskGroup({self.group_id})"

    class Runtime:  # type: ignore[no-redef]
        """Collects the sequence's tasks; resolving the program carries them out."""

        @checked("Runtime")
        def __init__(self, strict_task_groups: bool) -> None:
            self._strict = strict_task_groups
            self._data: list[RuntimeData] = []
            self._tasks: list[Callable[[_Sequence], None]] = []
            self._open: list[RuntimeTaskGroup] = []
            self._numbers = itertools.count()
            self.fifos: set[ObjectFifoHandle] = set()
            self.workers: list[Worker] = []

        @contextlib.contextmanager
        def sequence(self, *input_types: Any) -> Iterator[Any]:
            """A RuntimeData for each type: one, or a tuple of several."""
            try:
                self._data = list(map(RuntimeData, input_types))
                yield self._data[0] if len(self._data) == 1 else tuple(self._data)
            finally:
                if self._open:
                    raise ValueError(f"Failed to close task groups: {', '.join(map(str, self._open))}")
                _unique_host_ends(self.fifos)

        def start(self, *args: Worker) -> None:
            """Workers that are no argument here are not part of the program."""
            for worker in args:
                if not isinstance(worker, Worker):
                    raise ValueError("Runtime can only start Worker objects")
                self.workers.append(worker)

        def task_group(self) -> RuntimeTaskGroup:
            """A new one."""
            self._open.append(RuntimeTaskGroup(next(self._numbers)))
            return self._open[-1]

        @checked("Runtime.finish_task_group")
        def finish_task_group(self, task_group: RuntimeTaskGroup) -> None:
            """End it; ValueError if it is not open."""
            self._open.remove(task_group)
            self._tasks.append(lambda sequence: sequence.finish(task_group.group_id))

        @checked("Runtime.fill")
        def fill(self, in_fifo: Any, source: Any, tap: Any, task_group: Any, wait: bool, tile: Any) -> None:
            """A transfer from a host buffer into a fifo."""
            self._add(in_fifo, source, tap, task_group, wait, tile)

        @checked("Runtime.drain")
        def drain(self, out_fifo: Any, dest: Any, tap: Any, task_group: Any, wait: bool, tile: Any) -> None:
            """A transfer from a fifo to a host buffer."""
            self._add(out_fifo, dest, tap, task_group, wait, tile)

        def _add(self, handle: Any, data: Any, tap: Any, group: Any, wait: bool, tile: Any) -> None:
            if data not in self._data:
                raise ValueError(f"{data} is not a RuntimeData object generated by sequence()")
            endpoint = RuntimeEndpoint(tile)
            tap = data.default_tap() if tap is None else tap
            handle.endpoint = endpoint
            self.fifos.add(handle)
            number = group.group_id if group is not None else None
            self._tasks.append(lambda sequence: sequence.transfer(handle, data, tap, wait, number))

        @checked("Runtime.inline_ops")
        def inline_ops(self, inline_func: Callable[..., None], inline_args: Any) -> None:
            """Call a function at this point of the sequence, when the program is resolved."""

            def task(_: _Sequence) -> None:
                for buffer in _buffers(inline_args):
                    buffer.resolve()
                inline_func(*inline_args)

            self._tasks.append(task)

        def resolve(self) -> None:
            """Carry the tasks out."""
            module = current()
            for number, data in enumerate(self._data):
                if data.op is not None:
                    raise ValueError("Cannot set operation for RuntimeData more than once.")
                module.arguments.append(type_of(data.arr_type))
                data.op = Argument(number, module.arguments[-1])
            module.sequence = []
            sequence = _Sequence(next(self._numbers))
            with module.block(module.sequence):
                for task in self._tasks:
                    task(sequence)
                if self._strict and len(sequence.used) == 2:
                    raise IronRuntimeError("Mixing explicit task groups and the default task group is prohibitted.")
                sequence.finish(sequence.default)

    class _Sequence:
        def __init__(self, default: int) -> None:
            self.default = default
            self.groups: dict[int, list[tuple[int, bool]]] = {}
            self.used: set[bool] = set()

        def transfer(self, handle: Any, data: Any, tap: Any, wait: bool, group: int | None) -> None:
            """Start it and note it in its group."""
            task = _transfer(handle, data, tap, wait)
            self.used.add(group is not None)
            self.groups.setdefault(self.default if group is None else group, []).append((task, wait))

        def finish(self, group: int) -> None:
            """Wait for those that are waited for and free the others. A group ends once."""
            tasks = self.groups.pop(group, [])
            _finish(group, [task for task, wait in tasks if wait], [task for task, wait in tasks if not wait])

    def _buffers(arguments: Any) -> Iterator[Buffer]:
        for argument in arguments:
            if isinstance(argument, Buffer):
                yield argument
            elif isinstance(argument, (list, tuple)):
                yield from _buffers(argument)
