"""Self-test of a device: what the machine lacks, small programs, kernels, rates and predictions, in one report.

Command `npu-tensor selftest`, or in Python, the kernels alone in this process:

    report = nt.selftest("npu", quick=True)
    print(report)
"""

from __future__ import annotations

import getpass
import json
import math
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from npu_tensor._util.output_files import STDOUT, in_a_directory, json_option, put_json
from npu_tensor.cli.info import machine_information, single_uri
from npu_tensor.cli.options import device_option, search_path_options
from npu_tensor.cli.selftest.kernel_cases import RUN_SECONDS, case_names, run_cases
from npu_tensor.cli.selftest.outcome import FAILED, NO_ANSWER, SUSPECT, Outcome
from npu_tensor.cli.selftest.stages import STAGES, steps
from npu_tensor.config import config
from npu_tensor.dtypes import DType
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.observe.drawing import text
from npu_tensor.runtime.devices.device_uri import split_uris

__all__ = ["HEADINGS", "Report", "selftest", "supervised"]

HEADINGS: Final = ("stage", "step", "result", "NMSE", "time", "predicted", "work")

CHILD: Final = "from npu_tensor.cli.selftest.stages import work; work()"
"""Program of the process that runs the steps."""

START_SECONDS: Final = 120.0
"""Time limit for the start of Python with this package."""

END_SECONDS: Final = 10.0
"""Time in which a process releases the NPU, or ends after it was killed. XRT may wait for the driver."""

NAMES: Final = 8
"""Number of steps that are named beside a common reason. The table has all."""

LAST_LINES: Final = 20
"""Number of lines of a crashed process in the report."""


# --- the report


@dataclass(frozen=True)
class Report:
    """Outcomes of all steps on one device, with machine information. Prints as text, failures first."""

    device: str
    machine: Mapping[str, str]
    rows: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """True if at least one step passed and none failed."""
        results = {row.result for row in self.rows}
        return "pass" in results and results.isdisjoint(FAILED)

    @property
    def summary(self) -> str:
        """Number of steps by result, as a sentence."""
        counts = Counter(row.result for row in self.rows)
        return f"{self.device}: {', '.join(f'{number} {result}' for result, number in counts.most_common())}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data. An infinite or undefined NMSE becomes None."""
        rows = [
            row._asdict() | {"nmse": row.nmse if row.nmse is not None and math.isfinite(row.nmse) else None}
            for row in self.rows
        ]
        return {"device": self.device, "machine": dict(self.machine), "ok": self.ok, "rows": rows}

    def __str__(self) -> str:
        cells = (_cells(row) for row in self.rows if row.result != "not run")
        table = text.table([*zip(HEADINGS, *cells, strict=True)], ("NMSE", "time", "predicted"))
        return "\n".join(
            (*(f"{name}: {value}" for name, value in self.machine.items()), *self._explained(), *table, self.summary)
        )

    def _explained(self) -> Iterator[str]:
        """Yield the reasons of all steps that did not pass. Steps with one reason stand together, failures first."""
        groups: dict[tuple[str, str, str], list[str]] = {}
        for row in sorted(self.rows, key=lambda row: row.result not in FAILED):
            if row.result != "pass":
                groups.setdefault((row.result, row.reason, row.advice), []).append(f"{row.stage}: {row.name}")
        for (result, reason, advice), names in groups.items():
            shown = [*names[:NAMES], *([f"and {len(names) - NAMES} more"] if len(names) > NAMES else [])]
            yield ""
            yield from text.beside(result.upper() if result in FAILED else result, "; ".join(shown), 16)
            yield from (f"    {line}" for line in reason.splitlines())
            if advice:
                yield from text.beside("    to do:", advice, 16)
        yield ""


def _cells(row: Outcome) -> tuple[str, ...]:
    """Return the cells under HEADINGS."""
    error = "" if row.nmse is None else f"{row.nmse:.1e}"
    measured = _time(row.seconds) or ("simulated" if row.nmse is not None else "")
    return row.stage, row.name, row.result, error, measured, _time(row.predicted), row.work


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f} us"


def selftest(
    device: str, families: Sequence[str] | None = None, dtypes: Sequence[DType | str] | None = None, quick: bool = False
) -> Report:
    """Run kernels on a device and compare the results with NumPy. An error in one case does not end the run.

    The kernels run in this process, without time limits. `npu-tensor selftest` runs more, in processes of their own.

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


# --- the process that runs the steps


class _Child:
    """Process that runs steps and sends messages, see `stages.work`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        paths = {"NPU_TENSOR_XRT_PATH": os.pathsep.join(map(str, config.xrt_path))} if config.xrt_path else {}
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **paths},
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._output:
            self._lines.put(line)
        self._lines.put("")

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message; empty after the last one. Raises queue.Empty after this time."""
        line = self._lines.get(timeout=max(0.0, seconds))
        message: dict[str, Any] = json.loads(line) if line else {}
        return message

    def end(self) -> str:
        """Describe the end of the process, with its last lines."""
        code = self._process.wait(END_SECONDS)
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        last = self._errors.read().splitlines()[-LAST_LINES:]
        return "\n".join([f"the process ended with {end}", *last])

    def close(self, kill: bool) -> bool:
        """End the process. Returns False if it cannot be killed."""
        for _ in range(2):
            if kill:
                self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
                self._reader.join()
                self._output.close()
                self._errors.close()
                return True
            kill = True
        return False


_SHORT: Final = 5
"""Length of names that may be words of the report."""


def _without_personal_data(row: Outcome) -> Outcome:
    """Replace the home directory, the names of user and host, and identifiers of NPUs, which depend on the machine."""
    home, host = str(Path.home()), socket.gethostname()
    # Short names may be words of the report, such as "npu" or "array", but not in a path, "user@host" and "//host".
    rules = {r"AIE-[0-9a-f]{16}": "AIE-ID"}
    if home != "/":
        rules[rf"(?<![\w/.-]){re.escape(home)}(?![\w.-])"] = "~"
    if host != "localhost":
        rules[rf"{_start(host, '(?:(?<=@)|(?<=//)|(?<==))')}{re.escape(host)}(?![\w-])"] = "HOST"
    with suppress(KeyError, OSError):
        if (user := getpass.getuser()) != "root":
            name = re.escape(user)
            rules[rf"{_start(user, '(?<=/)')}{name}(?![\w-])|(?<![\w.-]){name}(?=@)"] = "USER"

    def replaced(text: str) -> str:
        for pattern, replacement in rules.items():
            text = re.sub(pattern, replacement, text)
        return text

    return row._replace(work=replaced(row.work), reason=replaced(row.reason), advice=replaced(row.advice))


def _start(name: str, marks: str) -> str:
    """Return the pattern before a name: the start of a word, or certain marks if the name is a short one."""
    return r"(?<![\w-])" if len(name) > _SHORT else marks


def supervised(
    device: str,
    left: Sequence[tuple[str, str]],
    quick: bool = False,
    tell: Callable[[str], None] = lambda doing: None,
) -> Iterator[Outcome]:
    """Run steps in processes of their own and yield their outcomes.

    After a failure that may come from the device, a new process goes on with the next step, if the device still runs
    the simplest kernel.

    Args:
        device: Device URI.
        left: Stage and name of each step.
        quick: True to calibrate and predict with less data.
        tell: Function that is called with a description of long work.
    """
    left = [*left]
    ends: dict[str, float] = {}
    suspect = False
    while left:
        child = _Child({"device": device, "steps": left, "quick": quick, "suspect": suspect})
        doing, seconds, kill, suspect, checks = "start of the process", START_SECONDS, True, False, False
        try:
            while left and not suspect:
                stage, name = left[0]
                end = ends.setdefault(stage, time.monotonic() + STAGES[stage].seconds)
                row = Outcome(stage, name)
                try:
                    message = child.receive(min(seconds, end - time.monotonic()))
                except queue.Empty:
                    if checks:
                        yield from _not_run(left, f"the device does not run a sum: no answer within {RUN_SECONDS:g} s")
                        break
                    suspect = True
                    late = time.monotonic() >= end
                    limit = f"{STAGES[stage].seconds:g} s, the limit of this stage" if late else f"{seconds:g} s"
                    ended = "" if child.close(kill=True) else "; its process cannot be killed, so reboot"
                    reason = f"no answer within {limit} ({doing or 'run'}){ended}"
                    yield row._replace(result=NO_ANSWER.result, reason=reason, advice=NO_ANSWER.advice)
                    del left[0]
                    while late and left and left[0][0] == stage:
                        yield Outcome(*left.pop(0), result="not run", reason=f"{stage}: no time left")
                    continue
                if "checks" in message:
                    checks, doing, seconds = message["checks"], "", RUN_SECONDS
                elif "doing" in message and not checks:
                    doing, seconds = message["doing"], message["seconds"]
                    if doing:
                        tell(doing)
                elif "unusable" in message:
                    yield from _not_run(left, message["unusable"])
                elif "outcomes" in message:
                    del left[0]
                    for values in message["outcomes"]:
                        outcome = Outcome(*values)
                        suspect |= outcome.result in SUSPECT
                        yield outcome
                elif checks and not message:
                    yield from _not_run(left, f"the device does not run a sum: {child.end()}")
                elif not message:
                    suspect = True
                    yield row._replace(result="crash", reason=child.end(), advice="attach this report to a bug report")
                    del left[0]
            kill = False
        finally:
            child.close(kill)


def _not_run(left: list[tuple[str, str]], reason: str) -> Iterator[Outcome]:
    while left:
        yield Outcome(*left.pop(0), result="not run", reason=reason)


# --- the command


@click.command("selftest")
@device_option("npu")
@click.option("--family", "families", metavar="F", multiple=True, help="Only kernels of this family. Repeatable.")
@click.option("--dtype", "dtypes", metavar="D", multiple=True, help="Only kernels of this element type. Repeatable.")
@click.option("--quick", is_flag=True, help="Every element type of every family once.")
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=in_a_directory,
    help="Write the report here, as text to attach to a bug report.",
)
@search_path_options
@json_option("the report")
def selftest_command(
    device: str,
    families: tuple[str, ...],
    dtypes: tuple[str, ...],
    quick: bool,
    report_file: Path | None,
    json_file: Path | None,
) -> None:
    """Test a device and explain every failure.

    On an NPU: the checks of doctor, small programs that answer what reports disagree on, a kernel of each family, the
    other kernels in every element type, a program of several configurations, calibration, and ten kernels beside their
    predicted time. Results are compared with NumPy or the CPU. A simulated NPU has no doctor and no rates; the CPU has
    kernels only. Steps run in processes of their own, with time limits, so that a hang or a crash ends one step only.

    The report has versions, hardware, findings and errors. It names neither user nor host nor the home directory.
    Exit code 0 only if nothing failed; what the device does not take is listed as refused.
    """
    if len(split_uris(device)) > 1:
        raise click.BadParameter("one device is tested at a time", param_hint="--device")
    try:
        plan = steps(single_uri(device).text, families, dtypes, quick)
    except (ArgumentError, DTypeError) as error:
        raise click.UsageError(str(error)) from None
    rows: list[Outcome] = []
    number, interrupted = 0, False

    def tell(doing: str) -> None:
        click.echo(f"  {doing}", err=True)

    def report() -> Report:
        """Return the report so far, and write its file: the machine may have to be restarted."""
        versions = [row for row in rows if row.stage == "machine" and row.result == "note"]
        others = tuple(row for row in rows if row not in versions)
        result = Report(device, {row.name: row.reason for row in versions}, others)
        if report_file is not None:
            report_file.write_text(f"{result}\n", "utf-8")
        return result

    try:
        for row in supervised(device, plan, quick, tell):
            rows.append(_without_personal_data(row))
            report()
            if (row.stage, row.name) in plan:
                number = 1 + plan.index((row.stage, row.name))
            click.echo(f"{number}/{len(plan)} {row.stage}: {row.name}: {row.result}", err=True)
    except KeyboardInterrupt:
        interrupted = True  # Builds take long, so partial results are shown.
    result = report()
    if json_file != STDOUT:
        click.echo(str(result))
    put_json(json_file, result.as_dict())
    if interrupted:
        raise click.Abort
    if not result.ok:
        raise SystemExit(1)
