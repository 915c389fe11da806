"""Stages of the self-test, and the process that runs their steps.

The process writes a line of JSON for each step and for each wait, so that the process that started it can tell which
step hangs or crashes, and go on with the next one. Not run on an NPU: the tests use a simulated one with faults.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.cli.calibrate import calibrate, in_units, npus_at
from npu_tensor.cli.calibrate.npu import launch_seconds
from npu_tensor.cli.calibrate.probes import kernel
from npu_tensor.cli.doctor import diagnose
from npu_tensor.cli.info import machine_information, versions
from npu_tensor.cli.selftest.kernel_cases import RUN_SECONDS, Announce, case_names, run_cases
from npu_tensor.cli.selftest.outcome import SUSPECT, Outcome
from npu_tensor.config import config
from npu_tensor.dtypes import DType
from npu_tensor.errors import DeviceError
from npu_tensor.planner import selection
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.npu.agreement import EXACT, SANE, disagreement
from npu_tensor.tensor import Tensor

TIMED_LAUNCHES: Final = 30
"""Launches of each kernel of the last stage. Fewer give scattered times (Nulifyer/llama-xdna-hybrid)."""


SIDE: Final = 1024
QUICK_SIDE: Final = 256
"""Rows of the matrices of the last stage."""


class _Request(NamedTuple):
    """Steps of one stage, in order. `quick` calibrates and predicts with less data."""

    device: str
    names: Sequence[str]
    quick: bool
    announce: Announce


# --- before the first kernel


def _machine(request: _Request) -> Iterator[list[Outcome]]:
    request.announce("", RUN_SECONDS)
    try:
        information = machine_information(request.device)
    except DeviceError:  # The next stage says why.
        information = versions()
    yield [Outcome("machine", name, result="note", reason=value) for name, value in information.items()]


def _doctor(request: _Request) -> Iterator[list[Outcome]]:
    request.announce("", STAGES["doctor"].seconds)
    yield [
        Outcome(
            "doctor",
            finding.check,
            finding.found,
            "pass" if finding.status == "ok" else finding.status,
            reason="; ".join(filter(None, (finding.found, finding.why))),
            advice=finding.fix,
        )
        for finding in diagnose()
    ]


# --- small programs, which answer what reports about NPUs disagree on


class _Program(NamedTuple):
    """Program whose results on the device are compared with those of the CPU.

    Attributes:
        make: Function that records the results from random numbers.
        work: Description.
        wrong: Cause and advice if a result is wrong.
        runs: Number of runs with other operands.
        apart: True to launch each kernel by itself.
        exact: True if nothing may be rounded differently.
    """

    make: Callable[[np.random.Generator], list[Tensor]]
    work: str
    wrong: str
    runs: int = 2
    apart: bool = True
    exact: bool = True


def _integers(rng: np.random.Generator, *shape: int) -> Tensor:
    return nt.from_numpy(rng.integers(-99, 99, shape, np.int32))


def _halves(rng: np.random.Generator, *shape: int) -> Tensor:
    return nt.from_numpy(rng.standard_normal(shape, np.float32)).to(nt.bfloat16)


def _one_kernel(rng: np.random.Generator) -> list[Tensor]:
    x = _integers(rng, 64)
    return [x + x]


def _queue(rng: np.random.Generator) -> list[Tensor]:
    x, y = _integers(rng, 1024), _integers(rng, 1024)
    results = [x + y]
    for _ in range(7):
        results.append(results[-1] + y)
    return results


def _contexts(rng: np.random.Generator) -> list[Tensor]:
    x = _halves(rng, 64, 64)
    return [x.relu(), x @ x.mT, x.softmax(-1), x.sum(-1)]


def _rounding(rng: np.random.Generator) -> list[Tensor]:
    # The sums need more bits than bfloat16 has: half lies above the middle between two numbers, half below.
    ones = 1 + rng.integers(0, 128, 1024) / 128
    return [nt.from_numpy(ones).to(nt.bfloat16) + nt.from_numpy(rng.integers(1, 128, 1024) / 2**14).to(nt.bfloat16)]


def _attention(rng: np.random.Generator) -> list[Tensor]:
    q, k, v = (_halves(rng, 64, 64) for _ in range(3))
    return [((q @ k.mT) * 0.125).softmax(-1) @ v]


def _fused_attention(rng: np.random.Generator) -> list[Tensor]:
    q, k, v = (_halves(rng, 1, heads, 260, 64) for heads in (4, 2, 2))
    return [nt.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)]


def _gated_network(rng: np.random.Generator) -> list[Tensor]:
    x, scale = _halves(rng, 576), _halves(rng, 576)
    gate, up, down = (
        nt.quantize(nt.from_numpy(rng.standard_normal(shape, np.float32) / 24), "q4_1")
        for shape in ((768, 576), (768, 576), (576, 768))
    )
    y = nt.rms_norm(x, (576,), scale, 1e-5)
    x = nt.linear(nt.linear(y, gate).silu() * nt.linear(y, up), down) + x
    return [x, nt.rms_norm(nt.linear(nt.linear(x, up), down), (576,), scale, 1e-5)]


def _convolution(rng: np.random.Generator) -> list[Tensor]:
    image, weight, depthwise = _halves(rng, 2, 16, 21, 18), _halves(rng, 40, 16, 3, 3), _halves(rng, 40, 1, 3, 3)
    x = nt.conv2d(image, weight, padding=1).relu()
    x = (nt.conv2d(x, _halves(rng, 40, 40, 3, 3), padding=1) + x).relu()
    return [nt.max_pool2d(nt.conv2d(x, depthwise, padding=1, groups=40), 3, 2, 1)]


FIRST_PROBE: Final = "one kernel"

_PROBES: Final = {
    FIRST_PROBE: _Program(
        _one_kernel,
        "a sum of 64 integers",
        "launches complete without work, or do not reach the host's buffers in group 0 (Xilinx/mlir-aie#3653)",
    ),
    "queued launches": _Program(
        _queue,
        "eight launches of one kernel, each with the previous result, without waiting",
        "the queue of a context does not keep the order of launches",
    ),
    "several contexts": _Program(
        _contexts,
        "kernels of four configurations, in contexts of their own",
        "contexts beyond the second one give garbage if buffers are created between runs (Xilinx/mlir-aie#3654)",
        exact=False,
    ),
    "rounding": _Program(
        _rounding,
        "sums of bfloat16 that are rounded",
        "bfloat16 is not rounded to nearest even; the mode after a reset is floor (Xilinx/mlir-aie#3587)",
    ),
}

_PROGRAMS: Final = {
    "attention": _Program(
        _attention,
        "two products and a softmax, in one launch where the NPU allows it",
        "the second run of several configurations computes wrong (Xilinx/mlir-aie#3622, amd/xdna-driver#906);"
        " NPU_TENSOR_LAUNCH_MILLISECONDS=0 launches each kernel by itself",
        runs=4,
        apart=False,
        exact=False,
    ),
    "fused attention": _Program(
        _fused_attention,
        "causal attention as one kernel",
        "the kernel computes wrong; please report it with the output of npu-tensor doctor",
        exact=False,
    ),
    "gated network": _Program(
        _gated_network,
        "norms, products with quantized weights, a gate and a sum, which take turns in one configuration",
        "a core computes wrong after another op of the same configuration; please report it with the output of"
        " npu-tensor doctor",
        apart=False,
        exact=False,
    ),
    "convolution": _Program(
        _convolution,
        "three convolutions, one with a residual and one depthwise, and a pool, which read padded windows in place",
        "the kernel computes wrong; please report it with the output of npu-tensor doctor",
        exact=False,
    ),
}


def _small_programs(stage: str, programs: dict[str, _Program], request: _Request) -> Iterator[list[Outcome]]:
    for name in request.names:
        program = programs[name]
        request.announce(f"build of {name}", config.build_seconds + RUN_SECONDS)
        row = Outcome(stage, name, program.work)
        try:
            wrong = _wrong(program, request.device)
            yield [row if wrong is None else row._replace(result="wrong", reason=wrong, advice=program.wrong)]
        except Exception as error:
            yield [row.failed(error)]


def _wrong(program: _Program, device: str) -> str | None:
    """Return the first difference from the results of the CPU, or None."""
    apart = {"launch_milliseconds": 0} if program.apart else {}
    for run in range(program.runs):
        with nt.default_device("cpu"):
            expected = [result.numpy() for result in program.make(np.random.default_rng(run))]
        # A failing launch must not be replaced by the CPU, and the device must not check itself.
        with nt.default_device(device, "always"), config.scope(fallback="error", self_check=False, **apart):
            pending = program.make(np.random.default_rng(run))
            nt.realize(*pending, device=device)
            results = [result.numpy() for result in pending]
        for number, (result, right) in enumerate(zip(results, expected, strict=True), 1):
            allowed = EXACT if program.exact else SANE[nt.bfloat16]
            if difference := disagreement(result, right, allowed):
                return f"run {run + 1}, result {number}: {difference}"
    return None


# --- kernels


def _kernels(stage: str, request: _Request) -> Iterator[list[Outcome]]:
    for outcome in run_cases(request.device, request.names, stage, request.announce):
        yield [outcome]


# --- measurements


def _calibration(request: _Request) -> Iterator[list[Outcome]]:
    request.announce("calibration", STAGES["calibration"].seconds)
    figures = [figure for calibration in calibrate(request.device, request.quick) for figure in calibration.figures]
    selection.reset()  # The devices that are opened next predict from these rates.
    yield [
        Outcome(
            "calibration",
            figure.name,
            f"{in_units(figure.name, figure.measured)}; without calibration {in_units(figure.name, figure.prior)}",
        )
        for figure in figures
        if figure.measured is not None
    ]


def _ones(*shape: int, dtype: DType = nt.bfloat16) -> Tensor:
    return nt.ones(*shape, dtype=dtype).realize(device="cpu")


_TIMED: Final[dict[str, Callable[[int], Tensor]]] = {
    "relu": lambda side: _ones(4 * side * side).relu(),
    "add": lambda side: _ones(4 * side * side) + _ones(4 * side * side),
    "gelu": lambda side: _ones(4 * side * side).gelu(),
    "sum of rows": lambda side: _ones(4 * side, side).sum(-1),
    "softmax": lambda side: _ones(4 * side, side).softmax(-1),
    "rms_norm": lambda side: nt.rms_norm(_ones(4 * side, side), (side,)),
    "transpose": lambda side: _ones(side, side).mT.contiguous(),
    "product of bfloat16": lambda side: _ones(side, side) @ _ones(side, side),
    "product of int8": lambda side: _ones(side, side, dtype=nt.int8) @ _ones(side, side, dtype=nt.int8),
    "matrix times vector": lambda side: _ones(side, side) @ _ones(side),
}
"""Ten kernels of common shapes, for matrices with this many rows."""


def _predictions(request: _Request) -> Iterator[list[Outcome]]:
    (device, *_) = npus_at(request.device)
    for name in request.names:
        request.announce(f"build of {name}", config.build_seconds + RUN_SECONDS)
        row = Outcome("predictions", name)
        try:
            with config.scope(fallback="error"):
                task, answer, launch = kernel(device, _TIMED[name](QUICK_SIDE if request.quick else SIDE))
                seconds = launch_seconds(device, TIMED_LAUNCHES, launch).done
            predicted = answer.cost.expense.seconds
            work = f"{task.name}: {', '.join(str(source.layout.shape) for source in task.inputs if source.layout)}"
            reason = f"{seconds / predicted:.2f} of the prediction. {answer.reason}"
            yield [row._replace(work=work, seconds=seconds, predicted=predicted, reason=reason)]
        except Exception as error:
            yield [row.failed(error)]


# --- all stages


class SelftestStage(NamedTuple):
    """Stage of the self-test.

    Attributes:
        seconds: Time limit of all its steps. Chosen, not measured: builds take 20 s to minutes (mlir-aie), and as many
            run at once as there are cores.
        run: Function that yields the outcomes of each step.
    """

    seconds: float
    run: Callable[[_Request], Iterator[list[Outcome]]]


STAGES: Final = {
    "machine": SelftestStage(120, _machine),
    "doctor": SelftestStage(300, _doctor),
    "probes": SelftestStage(1200, lambda request: _small_programs("probes", _PROBES, request)),
    "first kernels": SelftestStage(1800, lambda request: _kernels("first kernels", request)),
    "kernels": SelftestStage(4 * 3600, lambda request: _kernels("kernels", request)),
    "programs": SelftestStage(1200, lambda request: _small_programs("programs", _PROGRAMS, request)),
    "calibration": SelftestStage(900, _calibration),
    "predictions": SelftestStage(1800, _predictions),
}


def steps(device: str, families: Sequence[str], dtypes: Sequence[DType | str], quick: bool) -> list[tuple[str, str]]:
    """Return the stage and the name of each step on a device. With families or dtypes, only kernels run.

    Raises:
        ArgumentError: A family or dtype is unknown.
        DeviceError: The URI is invalid.
    """
    kernels = case_names(families, dtypes, quick)
    first = [*{name.partition("-")[0]: name for name in reversed(kernels)}.values()][::-1]  # of each family
    names = {
        "machine": ["versions"],
        "doctor": ["checks"],
        "probes": [*_PROBES],
        "first kernels": first,
        "kernels": [name for name in kernels if name not in first],
        "programs": [*_PROGRAMS],
        "calibration": ["rates"],
        "predictions": [*_TIMED],
    }
    scheme = parse_uri(device).scheme
    if families or dtypes or scheme == "cpu":
        for stage in ("doctor", "probes", "programs", "calibration", "predictions"):
            del names[stage]
    elif scheme == "sim":
        for stage in ("doctor", "calibration", "predictions"):
            del names[stage]
    return [(stage, name) for stage in names for name in names[stage]]


def work() -> None:
    """Run the steps in the first argument of this process, up to the first after which the device is suspect."""
    request = json.loads(sys.argv[1])
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Libraries may print.

    def send(**message: Any) -> None:
        channel.write(f"{json.dumps(message)}\n")

    def announce(doing: str, seconds: float) -> None:
        send(doing=doing, seconds=seconds)

    def run(stage: str, names: Sequence[str]) -> Iterator[list[Outcome]]:
        done = 0
        try:
            for outcomes in STAGES[stage].run(_Request(request["device"], names, request["quick"], announce)):
                yield outcomes
                done += 1
        except Exception as error:
            yield [Outcome(stage, names[done]).failed(error)]

    suspect = request["suspect"]
    for stage, group in groupby(request["steps"], key=itemgetter(0)):
        if suspect and stage not in ("machine", "doctor"):
            send(checks=True)
            ((outcome,), *_) = run("probes", [FIRST_PROBE])
            send(checks=False)
            if outcome.result != "pass":
                send(unusable=f"the device does not run {outcome.work}: {outcome.reason}")
                return
            suspect = False
        names = [name for _, name in group]
        while names:
            for outcomes in run(stage, names):
                send(outcomes=outcomes)
                names = names[1:]
                if any(outcome.result in SUSPECT for outcome in outcomes):
                    return
