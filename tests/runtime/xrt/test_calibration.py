"""npu-tensor calibrate on the stand-in for XRT: it finds the rates of an NPU whose launches take a known time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from fake_clock import Clock
from machine import Machine
from npu_contexts import Command, Core
from npu_faults import Fault
from states import COMPLETED, ERROR

import npu_tensor as nt
from npu_tensor.cli.calibrate import calibrate_command as command
from npu_tensor.cli.calibrate import npu as measuring
from npu_tensor.config import config
from npu_tensor.dataflow.design import Transfer
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import npu_rates

pytestmark = pytest.mark.usefixtures("own_rates")

TAKES: Final = {
    "dispatch_seconds": 2e-3,
    "step_seconds": 1e-3,
    "switch_seconds": 3e-3,
    "change_seconds": 1.5e-3,
    "ddr_bytes_per_second": 5e9,
}
"""A launch, each kernel in it, another context than before, another configuration within a launch: much longer than
what the cores do, of which only the product's time counts."""


class Timed(Clock):
    """Clock that advances by the cost of launches, which do not run, and a little at each read."""

    def __init__(self) -> None:
        super().__init__()
        self.context: Core | None = None

    def perf_counter(self) -> float:
        self.now += 1e-6
        return self.now

    def run(self, context: Core, command: Command) -> Any:
        if command.fault is not None:
            return ERROR
        program = context.image.program.runs
        designs = [run.design for run in program] if context.image.format == "elf" else context._started(command) or ()
        moved = sum(4 * step.pattern.elements for each in designs for step in each.sequence if type(step) is Transfer)
        changes = context.image.program.changes
        for name, times in (
            ("dispatch_seconds", 1),
            ("step_seconds", len(designs)),
            ("switch_seconds", context is not self.context),
            ("change_seconds", changes),
        ):
            self.now += TAKES[name] * times
        self.now += moved / TAKES["ddr_bytes_per_second"]
        self.context = context
        return COMPLETED


@pytest.fixture(autouse=True)
def _timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is computed, so that nothing can be compared with the CPU."""
    clock = Timed()
    monkeypatch.setattr(Core, "_run_command", lambda context, command: clock.run(context, command))
    monkeypatch.setattr(measuring, "time", clock)
    with config.scope(launch_milliseconds=500, self_check=False):
        yield


@pytest.mark.parametrize("fixture", ["machine", "first_generation"])
def test_an_npu_is_measured_and_the_figures_are_used(fixture: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(fixture)
    with nt.default_device("npu"):
        (device,) = selection.accelerators(selection.current())
        kind, identity = device.target.array.device, device.identity
        done = CliRunner().invoke(command, ["--device", "npu", "--quick", "--force", "--json"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["devices"]
    assert result["identity"] == identity
    assert result["file"].endswith(str(rates.calibration_path(kind, identity)))
    figures = {name: figure["measured"] for name, figure in result["figures"].items()}
    assert figures["watts"] is None
    # Without a program that packs their files, launches of the first generation have one configuration.
    expected = {n: s for n, s in TAKES.items() if fixture == "machine" or n != "change_seconds"}
    measured = {name: figures[name] for name in TAKES if figures[name] is not None}
    assert measured == pytest.approx(expected, rel=0.03)
    assert measured.items() <= vars(npu_rates(kind, identity)).items()
    assert npu_rates(kind, identity | {"power": "turbo"}).dispatch_seconds == npu_rates(kind).dispatch_seconds


def test_devices_that_are_opened_afterwards_predict_by_it(machine: Machine) -> None:
    with nt.default_device("npu"):
        (device,) = selection.accelerators(selection.current())
        assert device.launch_cost.seconds == pytest.approx(178e-6)
    slow = rates.NpuRates(**{**vars(npu_rates("npu2")), "dispatch_seconds": 1.0})
    rates.save("npu2", device.identity, slow)
    selection.reset()
    with nt.default_device("npu", "latency"):
        (device,) = selection.accelerators(selection.current())
        assert device.launch_cost.seconds == pytest.approx(1.0 + 126e-6)
        x = nt.ones(64, dtype=nt.bfloat16).realize()
        assert (x + x).realize().tolist() == [2.0] * 64  # The CPU, which takes less.
    assert machine.launches == 0


def test_a_fault_ends_it_and_nothing_is_kept(machine: Machine, own_rates: Path) -> None:
    machine.faults = lambda launch: Fault.ERROR if launch == 20 else None
    done = CliRunner().invoke(command, ["--device", "npu", "--quick"])
    assert done.exit_code != 0
    assert isinstance(done.exception, (nt.LaunchError, SystemExit))
    assert not list(own_rates.glob("**/*calibration*"))
