"""Records the NPU kernels that a program needs, as a configuration for `npu-tensor gen-kernels`.

    with nt.record_kernels("model.json"):
        model(x).realize()

`NPU_TENSOR_RECORD=model.json` does the same for a whole program. A kernel counts if an NPU or a simulated one takes
it, even if it cannot be built, so a machine without a compiler can record.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npu_tensor import events
from npu_tensor._util.forks import in_child, new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor._util.version import VERSION
from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa.ops_json import entry_for
from npu_tensor.jit import forget_plans
from npu_tensor.kernels.offer import Target
from npu_tensor.planner import selection
from npu_tensor.planner.measures import Declined
from npu_tensor.planner.plan import Placed, Plan
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.store.files import write_atomically
from npu_tensor.task import Refusal

if TYPE_CHECKING:
    import networkx as nx

MOST_REASONS: Final = 5
"""Upper bound on the reasons in a warning."""


@contextmanager
def record_kernels(path: str | os.PathLike[str]) -> Iterator[None]:
    """Write a configuration of all NPU kernels that the block uses, also if it raises.

    Kernels of all threads count. Every graph is planned anew, and functions under `jit` are traced again. Warns with
    the reasons if there are no kernels.

    Args:
        path: File to write; an existing one is replaced.

    Raises:
        ArgumentError: The file cannot be written.
    """
    recorder = _Recorder(Path(path).absolute())
    if not recorder.path.parent.is_dir():
        raise ArgumentError(f"{recorder.path} cannot be written: there is no such directory")
    try:
        with events.listen(recorder.listen):
            _plan_anew()
            yield
    finally:
        recorder.write()


def follow() -> None:
    """Record into the file that `config.record` names, and write the files of earlier values."""
    _write()
    events.keep_listening(_listener, config.in_use("record"))
    if config.in_use("record"):
        _plan_anew()


def _listener(event: events.Event) -> None:
    if not config.record:
        return
    file = Path(config.record).absolute()
    if file not in _recorders:
        exists = file.parent.is_dir()
        _recorders[file] = _Recorder(file) if exists else None
        if not exists:
            warn(f"{config.origin('record')}: there is no directory {file.parent}")
    recorder = _recorders[file]
    if recorder is not None:
        recorder.listen(event)


def _plan_anew() -> None:
    """Drop all plans: a recorder listens to planning."""
    selection.reset_plans()
    forget_plans()


@atexit.register
def _write() -> None:
    """Write the files of the setting. A program that computes nothing leaves no file."""
    for recorder in _recorders.values():
        if recorder is not None and recorder.unsaved:
            try:
                recorder.write()
            except ArgumentError as error:
                warn(str(error))


class _Recorder:
    """Collects the kernels of all plans.

    Attributes:
        planned: True if there was any plan.
        unsaved: True if the file lacks plans.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unsaved = False
        self._lock = new_lock()
        self.planned = False
        self._entries: dict[tuple[object, ...], dict[str, Any]] = {}
        self._names: set[tuple[str, str]] = set()
        self._refusals: dict[str, None] = {}

    def listen(self, event: events.Event) -> None:
        if isinstance(event, events.PlanBuilt):
            assert isinstance(event.plan, Plan)
            with self._lock:
                self.planned = self.unsaved = True
                for placed in event.plan.placed:
                    self._add(event.graph, placed)

    def _add(self, graph: nx.DiGraph, placed: Placed) -> None:
        """Ask the devices again: the plan does not keep the offer of one that could not build the kernel."""
        if any(isinstance(refusal, Declined) for refusal in placed.refusals):
            return
        for device in selection.accelerators(selection.current()):
            target = getattr(device, "target", None)
            assert isinstance(target, Target)
            answer = device.claim(placed.task)
            if isinstance(answer, Refusal):
                self._refusals[f"{placed.task.name} on {device.uri}: {answer.reason}"] = None
                continue
            task = placed.task
            known = (target.array.arch, *target[1:], kernel_name(task), tensor_descs(task), op_params(task))
            if known not in self._entries:
                try:
                    self._entries[known] = self._named(entry_for(graph, task, target))
                except NpuTensorError as error:
                    self._refusals[f"{task.name}: {error}"] = None
            if device.uri == placed.kernel.device:
                return

    def _named(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return the entry with a unique name: canonical names leave out strides and options."""
        name, number = entry["exported_name"], 1
        while (entry["arch"], entry["exported_name"]) in self._names:
            number += 1
            entry["exported_name"] = f"{name}-{number}"
        self._names.add((entry["arch"], entry["exported_name"]))
        return entry

    def write(self) -> None:
        """Write the file. Raises ArgumentError."""
        with self._lock:
            self.unsaved = False
            entries = list(self._entries.values())
        text = json.dumps({"description": f"Recorded with npu_tensor {VERSION}.", "kernels": entries}, indent=4) + "\n"
        try:
            write_atomically(self.path, text.encode())
        except OSError as error:
            raise ArgumentError(f"{self.path} cannot be written: {error}") from None
        if not entries:
            warn(f"{self.path} has no kernels: {self._why_none()}")

    def _why_none(self) -> str:
        if not self.planned:
            return "nothing was computed"
        if self._refusals:
            reasons = [*self._refusals][:MOST_REASONS]
            more = len(self._refusals) - len(reasons)
            return "; ".join([*reasons, f"and {more} more"] if more else reasons)
        return (
            f"the default device is {selection.default_device()}, which has none; call nt.set_default_device or set "
            "NPU_TENSOR_DEVICE, to sim:npu1 or sim:npu2 for example"
        )


_recorders: Final[dict[Path, _Recorder | None]] = {}
"""Recorders of the setting by file; None if the file cannot be written."""
in_child(_recorders.clear)  # A child would replace the file by one with fewer kernels.
