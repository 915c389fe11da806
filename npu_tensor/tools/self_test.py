"""The kernels of every family on a device, in every dtype, against NumPy: what to run first on a new machine.

    report = nt.selftest("npu", quick=True)
    print(report)
    Path("report.json").write_text(report.to_json())    # for a bug report

The kernels are those of `ggml_hsa.representative`. The device takes each of them alone: what it refuses is not computed
elsewhere.
"""

from __future__ import annotations

import json
import math
import statistics
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError, BuildError, DeviceError
from npu_tensor.functions import resources
from npu_tensor.ggml_hsa import representative
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.kernels.families import claim
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.observe.drawing import text
from npu_tensor.ops import OPS
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.device_uri import parse_uri, with_default
from npu_tensor.runtime.devices.host import allocator, host_devices
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import as_read, disagreement, nmse, tolerance
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.runtime.store.kernel_directory import no_kernels
from npu_tensor.task import Device, Input, Kernel, Refusal, Step, Task
from npu_tensor.tools.report import machine_information, single_uri

__all__ = ["FAMILIES", "HEADINGS", "CaseRow", "Report", "about", "case_names", "run_cases", "selftest"]

Array = np.ndarray[Any, Any]

FAMILIES: Final = tuple(dict.fromkeys(variant.family for variant in representative.VARIANTS))
RUNS: Final = 5
"""Runs that are timed."""
BATCH: Final = 16
"""Kernels that are built before the first of them runs: enough for all cores, and few enough to show progress."""
LEVELS: Final = 64
"""Different magnitudes among the floats of a case, so that some elements of two operands are equal."""
HEADINGS: Final = ("family", "case", "op", "dtype", "shapes", "result", "NMSE", "time", "predicted", "reason")


class CaseRow(NamedTuple):
    """One kernel on the device.

    case: of its family, as in `npu_tensor.ggml_hsa.representative`. op: what is computed. dtype: short name. shapes:
    descriptors of the operands and of the result, the innermost extent first. result: "wrong" if a value is not what
    NumPy computes, "error" if the kernel could not be built or run, "refused" if the device does not take it.
    nmse: normalised mean squared error of the values; None if there are none. seconds: median time from launch to
    values on the host; None on a simulated device. predicted: what the model of the array says, in seconds. reason:
    how the kernel works, or what went wrong.
    """

    family: str
    case: str
    op: str
    dtype: str
    shapes: str
    result: Literal["pass", "wrong", "error", "refused"]
    nmse: float | None
    seconds: float | None
    predicted: float | None
    reason: str

    def cells(self) -> tuple[str, ...]:
        """As text, under HEADINGS; how a kernel that passes works is only in the JSON."""
        error = "" if self.nmse is None else f"{self.nmse:.1e}"
        measured = _time(self.seconds) or ("simulated" if self.nmse is not None else "")
        reason = "" if self.result == "pass" else self.reason.partition("\n")[0]
        return (*self[:6], error, measured, _time(self.predicted), reason)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f} us"


@dataclass(frozen=True)
class Report:
    """What came of all cases on one device, and on what machine. Prints as a table."""

    device: str
    machine: Mapping[str, str]
    rows: tuple[CaseRow, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or failed, and something was computed at all."""
        results = {row.result for row in self.rows}
        return "pass" in results and results.isdisjoint({"wrong", "error"})

    @property
    def summary(self) -> str:
        """How many cases came to what, in words."""
        counts = Counter(row.result for row in self.rows)
        return f"{self.device}: {', '.join(f'{number} {result}' for result, number in counts.most_common())}"

    def to_json(self) -> str:
        """All of it as a JSON object."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it. An NMSE that is infinite or no number is None."""
        rows = [
            row._asdict() | {"nmse": row.nmse if row.nmse is not None and math.isfinite(row.nmse) else None}
            for row in self.rows
        ]
        return {"device": self.device, "machine": dict(self.machine), "ok": self.ok, "rows": rows}

    def __str__(self) -> str:
        cells = [row.cells() for row in self.rows]
        table = text.table([*zip(HEADINGS, *cells, strict=True)], ("NMSE", "time", "predicted"))
        if max(map(len, table)) > text.line_width():
            table = text.rows_below_each_other(HEADINGS, cells)
        return "\n".join((*(f"{name}: {value}" for name, value in self.machine.items()), *table, self.summary))


def selftest(
    device: str, families: Sequence[str] | None = None, dtypes: Sequence[DType | str] | None = None, quick: bool = False
) -> Report:
    """Run the kernels of `families` and `dtypes`, all if None, on the device at a URI, and compare with NumPy.

    quick: every dtype of every family once. An error in one case does not end the run. What a device does with
    float32 is chosen for each case unless the URI says so. Raises ArgumentError for an unknown name, DeviceError if
    the device cannot be opened or if there can be no kernels for it.
    """
    names = case_names(families, dtypes, quick)
    return Report(device, about(device), tuple(run_cases(device, names)))


def about(uri: str) -> dict[str, str]:
    """The machine, and of NPUs what the first probes say: see `runtime.xrt.driver_probes`. Raises DeviceError."""
    described = machine_information(uri)
    if single_uri(uri).scheme == "npu":
        from npu_tensor.runtime.xrt.driver_probes import probe

        opened: Any = _opened(uri)
        for member in getattr(opened, "members", (opened,)):
            of_which = f" of {member.uri}" if member is not opened else ""
            try:
                described |= {f"{name}{of_which}": text for name, text in probe(member).items()}
            except (BuildError, DeviceError) as error:
                described[f"first probe{of_which}"] = str(error)
    return described


def case_names(
    families: Iterable[str] | None = None, dtypes: Iterable[DType | str] | None = None, quick: bool = False
) -> list[str]:
    """Family, variant and dtype, joined by "-", of the cases that `selftest` runs. Raises ArgumentError."""
    chosen = set(families or FAMILIES)
    if unknown := chosen.difference(FAMILIES):
        raise ArgumentError(f"no kernel family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    allowed = {as_dtype(dtype).short for dtype in dtypes or representative.ALL}
    if unknown := allowed.difference(representative.ALL):
        raise ArgumentError(f"no kernel takes {', '.join(sorted(unknown))}; there are {', '.join(representative.ALL)}")
    names = []
    for family in filter(chosen.__contains__, FAMILIES):
        variants = [variant for variant in representative.VARIANTS if variant.family == family]
        for number, dtype in enumerate(representative.ALL):
            named = [f"{family}-{variant.name}-{dtype}" for variant in variants if dtype in variant.dtypes]
            if dtype in allowed:
                # Another variant for every dtype, so that a quick run meets as many as it can.
                names += named[number % len(named) :][:1] if quick and named else named
    return names


def run_cases(uri: str, names: Iterable[str]) -> Iterator[CaseRow]:
    """The outcome of each of `case_names`, as they end. Raises as `selftest` does."""
    device_uri, name_set = single_uri(uri), set(names)
    target = _target(_opened(device_uri.text))
    if device_uri.scheme == "npu" and target is not None:
        from npu_tensor.runtime.xrt.xrt_device import library

        if reason := no_kernels(target.array.arch, library().backend):  # Said once, not in every row.
            raise DeviceError(f"{device_uri.text}: {reason}", code="NOT_FOUND")
    if device_uri.scheme == "sim" and not config.ready_kernel_dirs():
        from npu_tensor.runtime.sim import host_compiler

        if host_compiler.reason() is not None:
            raise DeviceError(f"{device_uri.text} needs a C++20 compiler: set CXX or install g++ or clang++")
    described = representative.entries("aie2p" if target is None else target.array.arch)  # The CPU takes any.
    entries = [entry for entry in described if entry.exported_name in name_set]
    for start in range(0, len(entries), BATCH):
        batch = [
            # What becomes of float32 is part of the URI.
            (_opened(with_default(device_uri, "float32", entry.float32).text), entry)
            for entry in entries[start : start + BATCH]
        ]
        answers = [device.claim(entry.planned.task) for device, entry in batch]
        _prepare([device for device, _ in batch], answers)
        for (device, entry), answer in zip(batch, answers, strict=True):
            yield _row(device, entry, answer)


def _opened(uri: str) -> Device:
    """The device at a URI, without those that would take what it refuses."""
    with resources.default_device(uri):
        return (*selection.accelerators(selection.current()), *host_devices())[0]


def _target(device: Device) -> Target | None:
    target = getattr(device, "target", None)
    return target if isinstance(target, Target) else None


def _prepare(devices: Sequence[Device], answers: Sequence[Kernel | Refusal]) -> None:
    """Build the kernels of every device, several at once."""
    pairs = [(d, answer) for d, answer in zip(devices, answers, strict=True) if not isinstance(answer, Refusal)]
    for device in dict.fromkeys(devices):
        try:
            device.prepare([answer for own, answer in pairs if own is device])
        except Exception:
            continue  # The kernel that fails here will fail again when it is bound, and that is its row.
    finish_builds()


def _row(device: Device, entry: Entry, answer: Kernel | Refusal) -> CaseRow:
    family, case, dtype = entry.exported_name.split("-")
    inputs = " ".join(map(str, entry.input_tensors))
    shapes = f"{inputs} -> {entry.output_tensor}"
    row = CaseRow(family, case, entry.planned.task.name, dtype, shapes, "refused", None, None, None, answer.reason)
    if isinstance(answer, Refusal):
        return row
    row = row._replace(predicted=answer.cost.expense.seconds)
    elsewhere: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Fallback):
            elsewhere.append(event.reason)
        elif isinstance(event, events.DeviceFault):
            elsewhere.append(event.cause)

    try:
        # What fails must neither be finished by the CPU nor be checked by the device itself.
        with events.listen(listen), config.scope(strict=True, self_check=False), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # The row says it.
            done = _compared(device, entry, answer, row)
    except Exception as error:
        return row._replace(result="error", reason=f"{type(error).__name__}: {error}")
    if elsewhere:
        return row._replace(result="error", reason=f"the CPU computed it: {elsewhere[0]}")
    return done


def _compared(device: Device, entry: Entry, kernel: Kernel, row: CaseRow) -> CaseRow:
    task, offer = entry.planned.task, _offer(device, entry)
    right = ReferenceKernel(task, ReferenceDevice(allocator())).bind()
    sets = [_operands(entry, offer, number) for number in range(2)]
    expected = [_results(task, right, operands) for operands in sets]
    step = kernel.bind()
    simulated = parse_uri(device.uri).scheme == "sim"
    errors: list[float] = []
    seconds: list[float] = []
    wrong = None
    # By turns, so that what is left of the run before is not right. Each set is new to the device once.
    for run in range(len(sets) if simulated else len(sets) + RUNS):
        start = time.perf_counter()
        got = _results(task, step, sets[run % len(sets)])
        seconds.append(time.perf_counter() - start)
        errors += map(nmse, got, expected[run % len(sets)])
        wrong = _wrong(task, got, expected[run % len(sets)], offer.coarse)
        if wrong is not None:
            wrong = f"run {run + 1}: {wrong}"
            break
    return row._replace(
        result="pass" if wrong is None else "wrong",
        nmse=max(errors),
        seconds=None if simulated or wrong else statistics.median(seconds[len(sets) :]),
        reason=wrong or kernel.reason,
    )


def _wrong(task: Task, got: Sequence[Array], expected: Sequence[Array], coarse: bool) -> str | None:
    """What is wrong with the first result of a task that is not as expected."""
    reasons = (
        disagreement(result, right, tolerance(task, number, chosen=True, coarse=coarse))
        for number, (result, right) in enumerate(zip(got, expected, strict=True))
    )
    return next(filter(None, reasons), None)


def _offer(device: Device, entry: Entry) -> Offer:
    """How tensors become the kernel's host buffers; for the CPU, how they would."""
    target = _target(device)
    answer = None if target is None else claim(entry.planned.task, target)
    return answer if isinstance(answer, Offer) else entry.planned.offer


def _operands(entry: Entry, offer: Offer, number: int = 0) -> list[Any]:
    """The items of the task with values for its inputs, the same for every `number`, which the device need not round.

    The magnitudes of floats are 1/2 to 2, so that quotients and exponentials stay where errors can be compared.
    """
    task = entry.planned.task
    hosts = {host.number: host for host in offer.operands if not host.output}
    rng = np.random.default_rng([zlib.crc32(entry.exported_name.encode()), number])
    levels = rng.uniform(0.5, 2, LEVELS)
    used = [source.item for source in task.inputs] + [output.item for output in task.outputs]
    items: list[Any] = [None] * (1 + max(used))
    for place, source in enumerate(task.inputs):
        if source.dtype is None:
            items[source.item] = 1.5 if task.outputs[0].dtype.is_floating_point else 3
            continue
        size, host = _span(source), hosts[place]
        if host.indexes is not None:
            values = rng.integers(0, host.indexes[1], size)
        elif source.dtype.is_floating_point or source.dtype.is_quantized:
            values = rng.choice(levels, size) * rng.choice([-1.0, 1.0], size)
            if source.dtype.is_quantized:
                values = OPS["quantize"].body(values.astype(np.float32), source.dtype)
        else:
            values = rng.integers(0 if source.dtype.name == "uint8" else -9, 10, size)
        items[source.item] = Buffer.from_array(as_read(host, values.astype(source.dtype.numpy)))
    return items


def _span(source: Input) -> int:
    """Elements from the first of its memory to the last that is read."""
    layout = source.layout
    assert layout is not None
    return 1 + layout.offset + sum((extent - 1) * s for extent, s in zip(layout.shape, layout.strides, strict=True))


def _results(task: Task, step: Step, operands: Sequence[Any]) -> list[Array]:
    """What a step makes of the operands. Reading the values waits until they are there."""
    items = [*operands]
    step(items)
    return [flat(items[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize] for output in task.outputs]
