"""Steps of the self-test that run the kernels of every family and dtype, and compare them with NumPy.

The kernels are those of `ggml_hsa.representative`. Each runs alone on the device, without fallback to another one.
"""

from __future__ import annotations

import statistics
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor import events
from npu_tensor.cli.info import single_uri
from npu_tensor.cli.selftest.outcome import WRONG, Outcome
from npu_tensor.config import config
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError, DeviceError
from npu_tensor.functions import resources
from npu_tensor.ggml_hsa import representative
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.kernels.families import claim
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.ops import OPS
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.device_kind import DeviceUri
from npu_tensor.runtime.devices.device_uri import parse_uri, with_default
from npu_tensor.runtime.devices.host import allocator, host_devices
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.agreement import as_read, disagreement, nmse, tolerance
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.runtime.store.kernel_directory import no_kernels
from npu_tensor.task import Device, Kernel, Refusal, Step, Task

Array = np.ndarray[Any, Any]

Announce = Callable[[str, float], None]
"""Function that is called with a description of long work, or "", and the time limit until the next outcome or call."""

RUN_SECONDS: Final = 60.0
"""Time limit of a step without its builds: six times that of a launch."""

FAMILIES: Final = tuple(dict.fromkeys(variant.family for variant in representative.VARIANTS))
RUNS: Final = 5
"""Number of timed runs."""
BATCH: Final = 16
"""Number of kernels built before the first of them runs. It occupies all cores and still shows progress."""
LEVELS: Final = 64
"""Number of distinct magnitudes among the floats of a case. Some elements of two operands are then equal."""


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


def run_cases(
    uri: str, names: Iterable[str], stage: str = "kernels", announce: Announce = lambda doing, seconds: None
) -> Iterator[Outcome]:
    """Run the cases in `names`, in this order, and yield their outcomes. Raises the errors of `selftest`."""
    device_uri = single_uri(uri)
    target = _target(opened(device_uri.text))
    if device_uri.scheme == "npu" and target is not None:
        from npu_tensor.runtime.xrt.xrt_device import library

        if reason := no_kernels(target.array.arch, library().backend):  # reported once instead of in every row
            raise DeviceError(f"{device_uri.text}: {reason}", code="NOT_FOUND")
    if device_uri.scheme == "sim" and not config.ready_kernel_dirs():
        from npu_tensor.runtime.sim import host_compiler

        if host_compiler.reason() is not None:
            raise DeviceError(f"{device_uri.text} needs a C++20 compiler: set CXX or install g++ or clang++")
    described = representative.entries("aie2p" if target is None else target.array.arch)  # The CPU supports all.
    by_name = {entry.exported_name: entry for entry in described}
    entries = [by_name[name] for name in names]
    for start in range(0, len(entries), BATCH):
        batch = [(_opened_for(device_uri, entry), entry) for entry in entries[start : start + BATCH]]
        answers = [device.claim(entry.planned.task) for device, entry in batch]
        announce(f"build of {len(batch)} kernels", len(batch) * config.build_seconds)
        _prepare([device for device, _ in batch], answers)
        for (device, entry), answer in zip(batch, answers, strict=True):
            announce("", RUN_SECONDS)
            yield _outcome(stage, device, entry, answer)


def opened(uri: str) -> Device:
    """Open the device at a URI, without fallback devices."""
    with resources.default_device(uri):
        return (*selection.accelerators(selection.current()), *host_devices())[0]


def _opened_for(uri: DeviceUri, entry: Entry) -> Device:
    """Open the device with the precisions of an entry, which are options of the URI."""
    for option, value in (("float32", entry.float32), ("bfloat16", entry.bfloat16)):
        uri = with_default(uri, option, value)
    return opened(uri.text)


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


def _outcome(stage: str, device: Device, entry: Entry, answer: Kernel | Refusal) -> Outcome:
    inputs = " ".join(map(str, entry.input_tensors))
    work = f"{entry.planned.task.name}: {inputs} -> {entry.output_tensor}"
    row = Outcome(stage, entry.exported_name, work, "refused", reason=answer.reason)
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
        return row.failed(error)
    if elsewhere:
        return row._replace(result="error", reason=f"the CPU computed it: {elsewhere[0]}")
    return done


def _compared(device: Device, entry: Entry, kernel: Kernel, row: Outcome) -> Outcome:
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
        advice=WRONG.advice if wrong else "",
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
        size, host = source.layout.bounds[1] + 1, hosts[place]
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


def _results(task: Task, step: Step, operands: Sequence[Any]) -> list[Array]:
    """Run a step and return its results. Reading the values waits for the device."""
    items = [*operands]
    step(items)
    return [flat(items[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize] for output in task.outputs]
