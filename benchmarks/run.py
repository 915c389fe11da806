"""A session: the selected suites, their tables, the result file and the report page."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import click

import npu_tensor as nt
from npu_tensor._util.extras import install_command
from npu_tensor._util.output_files import STDOUT, put_json
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.store.directories import readable

from . import peers as peer_modules
from .ceilings import ceilings
from .compare import changes, differences, lost, regressions
from .peers.library import Library
from .peers.npu_tensor import JITTED, NAME, OURS, Jitted, NpuTensor
from .report import Session, headline, show
from .results import FORMAT, LeftOut, ResultsError, Row, load, save, validate
from .session import FULL_AMOUNT, QUICK_AMOUNT
from .suites import SUITES, Suite, Task


class Options(NamedTuple):
    """Command line options; see `command.bench`."""

    suites: tuple[str, ...]
    only: tuple[str, ...]
    devices: tuple[str, ...]
    peers: tuple[str, ...]
    quick: bool
    json_file: Path | None
    report: Path | None
    compare: Path | None
    threshold: float


def run(options: Options) -> bool:
    """Measure, write and show. Return True without failures of npu_tensor and without regressions."""
    chosen = _suites(options)
    _require("jsonschema", "threadpoolctl", *(("jinja2", "plotly") if options.report else ()))
    before = None if options.compare is None else _loaded(options.compare)
    if options.json_file is not None:
        _made(options.json_file.parent, "--json")
    if options.report is not None:
        _made(options.report, "--report")
    with _empty_cache(), nt.default_device("cpu"):
        content = measured(chosen, options)
    only_json = options.json_file == STDOUT
    if only_json:
        put_json(STDOUT, content)
    elif options.json_file is not None:
        save(options.json_file, content)
    with redirect_stdout(sys.stderr if only_json else sys.stdout):
        print(headline(content["machine"]))
        for suite in chosen:
            _show(suite, [row for row in content["rows"] if row["suite"] == suite])
        _show_left_out(content["left_out"])
        if options.report is not None:
            from .report_page import write_report

            print(f"report: {write_report(content, options.report, before, options.threshold)}")
        good = before is None or _compared(before, content, options.threshold)
    return good and not any(entry["failed"] for entry in content["left_out"])


def _require(*modules: str) -> None:
    """Check the modules before the measurement. Raises ClickException for a missing one."""
    if missing := [module for module in modules if importlib.util.find_spec(module) is None]:
        raise click.ClickException(f"this needs {', '.join(missing)}: {install_command(*missing)}")


def _made(directory: Path, option: str) -> None:
    """Create a directory before the measurement. Raises click.BadParameter if it is not writable."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise click.BadParameter(f"{directory} cannot be written: {error}", param_hint=option) from None


@contextmanager
def _empty_cache() -> Iterator[None]:
    """Use a cache directory that contains only the rates of `npu-tensor calibrate`."""
    with tempfile.TemporaryDirectory() as empty:
        for directory in readable(nt.config.cache_dir):
            calibration = rates.calibration_path("", {}).parent
            if (directory / calibration).is_dir():
                shutil.copytree(directory / calibration, Path(empty) / calibration, dirs_exist_ok=True)
        with nt.config.scope(cache_path=empty):
            selection.reset()
            try:
                yield
            finally:
                selection.reset()


def _suites(options: Options) -> list[str]:
    """Return the selected suites. Raises click.BadParameter for an unknown workload."""
    chosen = [name for name in SUITES if name in options.suites]
    if unknown := set(options.only) - {workload for name in chosen for workload in SUITES[name].workloads}:
        known = dict.fromkeys(workload for name in chosen for workload in SUITES[name].workloads)
        raise click.BadParameter(
            f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(known)}", param_hint="--only"
        )
    return [name for name in chosen if not options.only or set(SUITES[name].workloads) & set(options.only)]


def measured(chosen: Sequence[str], options: Options) -> dict[str, Any]:
    """Measure the results in the format of schema.json."""
    session = Session()
    libraries, simulators, absent = _contenders(options)
    amount = QUICK_AMOUNT if options.quick else FULL_AMOUNT
    task = Task(libraries, simulators, amount, options.quick, frozenset(options.only))
    rows: list[Row] = []
    left_out = [LeftOut(reason, contender=name) for name, reason in absent.items()]
    for name in chosen:
        try:
            for entry in _announced(name, SUITES[name], task):
                (rows if isinstance(entry, Row) else left_out).append(entry)  # type: ignore[arg-type]
        except nt.NpuTensorError as error:  # Earlier results are kept, and the other suites run.
            left_out.append(LeftOut(f"the suite ended early: {error}", name, contender=NAME, failed=True))
    content = {
        "format": FORMAT,
        "quick": options.quick,
        "machine": session.machine(),
        "contenders": {library.name: library.version for library in libraries},
        "ceilings": list(ceilings(rows)),
        "left_out": [entry._asdict() for entry in left_out],
        "rows": [row._asdict() for row in rows],
    }
    validate(content)
    return content


def _announced(name: str, suite: Suite, task: Task) -> Iterator[Row | LeftOut]:
    click.echo(f"{name}: {suite.what}", err=True)
    return suite.run(task)


def _contenders(options: Options) -> tuple[list[Library], tuple[str, ...], dict[str, str]]:
    """Return the contenders, the simulated NPUs, and the reasons for missing peers."""
    devices = options.devices or ("cpu", *({"npu"} & {device.uri for device in nt.list_devices()}))
    for uri in devices:
        try:
            with nt.default_device(uri):
                pass
        except nt.NpuTensorError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
    simulators = tuple(uri for uri in devices if uri.startswith("sim:"))
    timed = [uri for uri in devices if uri not in simulators]
    ours = [library(uri) for uri in timed for library in (NpuTensor, Jitted)]
    peers = [name for name in options.peers if name != "none"]  # Peers run on the processor.
    present, absent = peer_modules.load(peers, nt.get_num_threads())
    return [*ours, *present], simulators, absent


def _loaded(path: Path) -> dict[str, Any]:
    try:
        return load(path)
    except ResultsError as error:
        raise click.BadParameter(str(error), param_hint="--compare") from None


def _show(suite: str, rows: Iterable[Mapping[str, Any]]) -> None:
    show(
        f"{suite}: microseconds, and p50 over that of {NAME} and {JITTED} on the CPU",
        ["case", "dtype", "size", "contender", "kind", "p50", "p95", "p99", "cold", "idle", "ratio", "jit"],
        lines(list(rows)),
    )


def lines(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a line per figure, with the ratio of its median to npu_tensor's on the CPU."""
    here = [row for row in rows if (row["device"], row["kind"]) == ("cpu", "measured")]
    ours, jitted = ({_contest(row): row["p50"] for row in here if row["contender"] == contender} for contender in OURS)
    return [
        [
            *(row[name] for name in ("case", "dtype", "size")),
            row["contender"] if row["device"] == "cpu" else f"{row['contender']} on {row['device']}",
            row["kind"],
            *(_microseconds(row[name]) for name in ("p50", "p95", "p99", "cold", "idle")),
            *(_ratio(row, beside.get(_contest(row))) for beside in (ours, jitted)),
        ]
        for row in rows
    ]


def _contest(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["case"], row["dtype"], str(row["shapes"])


def _ratio(row: Mapping[str, Any], ours: float | None) -> str:
    return "" if ours is None or row["kind"] != "measured" or row["p50"] == ours else f"{row['p50'] / ours:.2f} x"


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.1f}"


def _show_left_out(left_out: Sequence[Mapping[str, Any]]) -> None:
    """Print the failures of npu_tensor, and the reasons of omissions with their counts. The file lists every one."""
    for entry in left_out:
        if entry["failed"]:
            what = " ".join(entry[name] for name in ("contender", "device", "case", "dtype", "size"))
            click.echo(f"Error: {what}: {entry['reason']}", err=True)
    counts = Counter((entry["contender"], entry["device"], entry["reason"]) for entry in left_out)
    for (contender, device, reason), count in counts.items():
        print(f"left out: {contender}{device and f' on {device}'}, {count} x: {reason}")


def _compared(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> bool:
    for line in differences(old, new):
        click.echo(f"Warning: not the same machine or session: {line}", err=True)
    compared = list(changes(old, new))
    slower = regressions(compared, threshold)
    missing = list(lost(old, new))
    which = ("case", "dtype", "size", "device", "contender", "kind")
    print(f"{len(compared)} figures of npu_tensor in both files; slower than {threshold:g} x: {len(slower)}")
    if slower:
        show(
            "slower",
            [*which, "before, us", "now, us", "ratio", "peers", "slowdown"],
            [
                [
                    *(change.row[name] for name in which),
                    _microseconds(change.old),
                    _microseconds(change.row["p50"]),
                    *(f"{value:.2f}" for value in (change.ratio, change.peers, change.slowdown)),
                ]
                for change in slower
            ],
        )
    if missing:
        show(
            f"figures of {NAME} that are left out now: {len(missing)}",
            [*which, "before, us", "reason"],
            [[*(row[name] for name in which), _microseconds(row["p50"]), reason] for row, reason in missing],
        )
    return not slower and not missing
