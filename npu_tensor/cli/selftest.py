"""Self-test of the kernels of every family and dtype on a device against NumPy. Run it first on a new machine.

Command `npu-tensor selftest`, or in Python:

    report = nt.selftest("npu", quick=True)
    print(report)
    Path("report.json").write_text(report.to_json())    # for a bug report

The kernels are those of `ggml_hsa.representative`. Each runs alone on the device, without fallback to another one.
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
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click
import numpy as np

from npu_tensor import events
from npu_tensor._util.output_files import STDOUT, json_option, put_json
from npu_tensor.cli.info import machine_information, single_uri
from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.config import config
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError, DeviceError, DTypeError
from npu_tensor.functions import resources
from npu_tensor.ggml_hsa import representative
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.kernels.families import claim
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.observe.drawing import text
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.ops import OPS
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris, with_default
from npu_tensor.runtime.devices.host import allocator, host_devices
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import as_read, disagreement, nmse, tolerance
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.runtime.store.kernel_directory import no_kernels
from npu_tensor.task import Device, Input, Kernel, Refusal, Step, Task

__all__ = ["FAMILIES", "HEADINGS", "CaseRow", "Report", "case_names", "selftest"]

Array = np.ndarray[Any, Any]

FAMILIES: Final = tuple(dict.fromkeys(variant.family for variant in representative.VARIANTS))
RUNS: Final = 5
"""Number of timed runs."""
BATCH: Final = 16
"""Number of kernels built before the first of them runs. It occupies all cores and still shows progress."""
LEVELS: Final = 64
"""Number of distinct magnitudes among the floats of a case. Some elements of two operands are then equal."""
HEADINGS: Final = ("family", "case", "op", "dtype", "shapes", "result", "NMSE", "time", "predicted", "reason")


class CaseRow(NamedTuple):
    """Outcome of one kernel on the device.

    Attributes:
        family: Kernel family.
        case: Variant of the family in `npu_tensor.ggml_hsa.representative`.
        op: Name of the task.
        dtype: Short name of the dtype.
        shapes: Descriptors of the operands and the result, innermost extent first.
        result: "wrong" if a value differs from NumPy's, "error" if the build or the run failed, "refused" if the device
            does not support the kernel.
        nmse: Normalised mean squared error of the values; None without values.
        seconds: Median time from launch to values on the host, in seconds; None on a simulated device.
        predicted: Predicted time on the array, in seconds.
        reason: Description of the kernel, or the failure.
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
        """Return the cells under HEADINGS as text. The reason of a passing kernel is only in the JSON."""
        error = "" if self.nmse is None else f"{self.nmse:.1e}"
        measured = _time(self.seconds) or ("simulated" if self.nmse is not None else "")
        reason = "" if self.result == "pass" else self.reason.partition("\n")[0]
        return (*self[:6], error, measured, _time(self.predicted), reason)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f} us"


@dataclass(frozen=True)
class Report:
    """Outcome of all cases on one device, with machine information. Prints as a table."""

    device: str
    machine: Mapping[str, str]
    rows: tuple[CaseRow, ...]

    @property
    def ok(self) -> bool:
        """True if at least one case passed and none is wrong or failed."""
        results = {row.result for row in self.rows}
        return "pass" in results and results.isdisjoint({"wrong", "error"})

    @property
    def summary(self) -> str:
        """Number of cases by result, as a sentence."""
        counts = Counter(row.result for row in self.rows)
        return f"{self.device}: {', '.join(f'{number} {result}' for result, number in counts.most_common())}"

    def to_json(self) -> str:
        """Return the report as a JSON object."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data. An infinite or undefined NMSE becomes None."""
        rows = [
            row._asdict() | {"nmse": row.nmse if row.nmse is not None and math.isfinite(row.nmse) else None}
            for row in self.rows
        ]
        return {"device": self.device, "machine": dict(self.machine), "ok": self.ok, "rows": rows}

    def __str__(self) -> str:
        cells = (row.cells() for row in self.rows)
        table = text.table([*zip(HEADINGS, *cells, strict=True)], ("NMSE", "time", "predicted"))
        return "\n".join((*(f"{name}: {value}" for name, value in self.machine.items()), *table, self.summary))


def selftest(
    device: str, families: Sequence[str] | None = None, dtypes: Sequence[DType | str] | None = None, quick: bool = False
) -> Report:
    """Run kernels on a device and compare the results with NumPy. An error in one case does not end the run.

    Args:
        device: Device URI. Each case selects its float32 option unless the URI sets it.
        families: Kernel families; None for all.
        dtypes: Dtypes; None for all.
        quick: True to run every dtype of every family once.

    Raises:
        ArgumentError: A name is unknown.
        DeviceError: The device cannot be opened, or no kernels can be built for it.
    """
    names = case_names(families, dtypes, quick)
    return Report(device, machine_information(device), tuple(run_cases(device, names)))


def case_names(
    families: Iterable[str] | None = None, dtypes: Iterable[DType | str] | None = None, quick: bool = False
) -> list[str]:
    """Return the names of the cases that `selftest` runs: family, variant and dtype, joined by "-".

    Raises:
        ArgumentError: A name is unknown.
    """
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
                # A quick run varies the variant with the dtype to cover as many as possible.
                names += named[number % len(named) :][:1] if quick and named else named
    return names


def run_cases(uri: str, names: Iterable[str]) -> Iterator[CaseRow]:
    """Run the cases in `names` and yield their outcomes. Raises the errors of `selftest`."""
    device_uri, name_set = single_uri(uri), set(names)
    target = _target(_opened(device_uri.text))
    if device_uri.scheme == "npu" and target is not None:
        from npu_tensor.runtime.xrt.xrt_device import library

        if reason := no_kernels(target.array.arch, library().backend):  # reported once instead of in every row
            raise DeviceError(f"{device_uri.text}: {reason}", code="NOT_FOUND")
    if device_uri.scheme == "sim" and not config.ready_kernel_dirs():
        from npu_tensor.runtime.sim import host_compiler

        if host_compiler.reason() is not None:
            raise DeviceError(f"{device_uri.text} needs a C++20 compiler: set CXX or install g++ or clang++")
    described = representative.entries("aie2p" if target is None else target.array.arch)  # The CPU supports all.
    entries = [entry for entry in described if entry.exported_name in name_set]
    for start in range(0, len(entries), BATCH):
        batch = [
            # The float32 option is part of the URI.
            (_opened(with_default(device_uri, "float32", entry.float32).text), entry)
            for entry in entries[start : start + BATCH]
        ]
        answers = [device.claim(entry.planned.task) for device, entry in batch]
        _prepare([device for device, _ in batch], answers)
        for (device, entry), answer in zip(batch, answers, strict=True):
            yield _row(device, entry, answer)


def _opened(uri: str) -> Device:
    """Open the device at a URI, without fallback devices."""
    with resources.default_device(uri):
        return (*selection.accelerators(selection.current()), *host_devices())[0]


def _target(device: Device) -> Target | None:
    target = getattr(device, "target", None)
    return target if isinstance(target, Target) else None


def _prepare(devices: Sequence[Device], answers: Sequence[Kernel | Refusal]) -> None:
    """Build the kernels of every device concurrently."""
    pairs = [(d, answer) for d, answer in zip(devices, answers, strict=True) if not isinstance(answer, Refusal)]
    for device in dict.fromkeys(devices):
        try:
            device.prepare([answer for own, answer in pairs if own is device])
        except Exception:
            continue  # The kernel fails again when it is bound, which sets its row.
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
        # A failing kernel must not fall back to the CPU, and the device must not check itself.
        with events.listen(listen), config.scope(fallback="error", self_check=False), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # The row reports the failure.
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
    # The operand sets alternate, so that leftovers of the previous run are wrong. The device sees each set as new once.
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
    """Describe the first result of a task that differs from the expected one, or return None."""
    reasons = (
        disagreement(result, right, tolerance(task, number, chosen=True, coarse=coarse))
        for number, (result, right) in enumerate(zip(got, expected, strict=True))
    )
    return next(filter(None, reasons), None)


def _offer(device: Device, entry: Entry) -> Offer:
    """Return the offer that describes the kernel's host buffers; for the CPU, the planned one."""
    target = _target(device)
    answer = None if target is None else claim(entry.planned.task, target)
    return answer if isinstance(answer, Offer) else entry.planned.offer


def _operands(entry: Entry, offer: Offer, number: int = 0) -> list[Any]:
    """Return the items of the task with reproducible input values that the device can represent exactly.

    The magnitudes of floats are 1/2 to 2, so that errors of quotients and exponentials stay comparable.
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
    """Return the number of elements from the start of the memory to the last one that is read."""
    layout = source.layout
    assert layout is not None
    return 1 + layout.offset + sum((extent - 1) * s for extent, s in zip(layout.shape, layout.strides, strict=True))


def _results(task: Task, step: Step, operands: Sequence[Any]) -> list[Array]:
    """Run a step and return its results. Reading the values waits for the device."""
    items = [*operands]
    step(items)
    return [flat(items[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize] for output in task.outputs]


@click.command("selftest")
@device_option("npu")
@click.option("--family", "families", metavar="F", multiple=True, help="Only kernels of this family. Repeatable.")
@click.option("--dtype", "dtypes", metavar="D", multiple=True, help="Only this element type. Repeatable.")
@click.option("--quick", is_flag=True, help="Every element type of every family once.")
@search_path_options
@json_option("the report, with what a bug report needs: versions, device, reasons in full")
def selftest_command(
    device: str, families: tuple[str, ...], dtypes: tuple[str, ...], quick: bool, json_file: Path | None
) -> None:
    """Test kernels against NumPy.

    Runs the kernels of every family in every element type on a device. Kernels that are not there yet are built first.
    Exit code 0 only if no result is wrong and no kernel failed; what
    the device does not take is listed as refused.
    """
    if len(split_uris(device)) > 1:
        raise click.BadParameter("one device is tested at a time", param_hint="--device")
    try:
        names = case_names(families, dtypes, quick)
    except (ArgumentError, DTypeError) as error:
        raise click.UsageError(str(error)) from None
    rows: list[CaseRow] = []
    interrupted = False
    with device_errors():
        machine = machine_information(device)
        try:
            for row in run_cases(device, names):
                rows.append(row)
                # Lines on stderr do not disturb the progress bar.
                click.echo(f"{len(rows)}/{len(names)} {row.family}-{row.case}-{row.dtype}: {row.result}", err=True)
        except KeyboardInterrupt:
            interrupted = True  # Builds take long, so partial results are shown.
    report = Report(device, machine, tuple(rows))
    if json_file != STDOUT:
        print_table("system", ("", ""), machine.items())
        print_table(report.summary, HEADINGS, (row.cells() for row in rows), folded=("shapes", "reason"))
    put_json(json_file, report.as_dict())
    if interrupted:
        raise click.Abort
    if not report.ok:
        raise SystemExit(1)
