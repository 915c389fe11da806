"""npu-tensor calibrate on the stand-in for XRT: that it measures, keeps and finds. The figures mean nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from machine import Machine
from npu_faults import Fault

import npu_tensor as nt
from npu_tensor.cli.calibrate import calibrate as command
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import npu_rates
from npu_tensor.tools.calibrate import measure_npu


def test_an_npu_is_measured_and_the_figures_are_used(machine: Machine) -> None:
    with nt.default_device("npu"), config.scope(launch_milliseconds=500):
        (device,) = selection.accelerators(selection.current())
        identity = device.identity
        assert device.launch.seconds == pytest.approx(360e-6)
        path = rates.calibration_path("npu2", identity)
        try:
            done = CliRunner().invoke(command, ["--device", "npu", "--quick", "--force", "--json"])
            assert done.exit_code == 0, done.output
            (found,) = json.loads(done.stdout)["devices"]
            assert found["identity"] == identity
            assert found["file"].endswith(str(path))
            measured = npu_rates("npu2", identity)
            assert measured.python_seconds == found["figures"]["python_seconds"]["measured"]
            assert measured.watts == npu_rates("npu2").watts
            assert found["figures"]["watts"]["measured"] is None
            assert measured.change_seconds == found["figures"]["change_seconds"]["measured"] is not None
            assert measured.step_seconds == found["figures"]["step_seconds"]["measured"] is not None
            assert npu_rates("npu2", identity | {"power": "turbo"}) == npu_rates("npu2")
        finally:
            (config.cache_dir / path).unlink(missing_ok=True)
            rates.forget()
    assert machine.launches > 50


@pytest.mark.parametrize("uri", ["sim:npu1", "sim:npu2"])
def test_launches_of_several_kernels_are_measured_where_there_are_any(uri: str) -> None:
    """On simulated NPUs, of which the clock says nothing."""
    with nt.default_device(uri), config.scope(launch_milliseconds=500):
        (device,) = selection.accelerators(selection.current())
        measured = measure_npu(device, quick=True)
        prior = npu_rates(device.target.array.device)
    assert (measured.change_seconds is None) == (prior.change_seconds is None)
    assert measured.change_seconds != prior.change_seconds or uri == "sim:npu1"
    assert measured.step_seconds > 0  # The simulator takes longer than the array for each kernel.


def test_devices_that_are_opened_afterwards_predict_by_it(machine: Machine) -> None:
    with nt.default_device("npu"):
        (device,) = selection.accelerators(selection.current())
        identity = device.identity
    slow = rates.NpuRates(**{**vars(npu_rates("npu2")), "dispatch_seconds": 1.0})
    path = rates.save("npu2", identity, slow)
    try:
        selection.reset()
        with nt.default_device("npu", "latency"):
            (device,) = selection.accelerators(selection.current())
            assert device.launch.seconds == pytest.approx(1.0 + 250e-6)
            x = nt.ones(64, dtype=nt.bfloat16).realize()
            assert (x + x).realize().tolist() == [2.0] * 64  # The CPU, which takes less.
        assert machine.launches == 0
    finally:
        path.unlink()
        rates.forget()


def test_a_fault_ends_it_and_nothing_is_kept(machine: Machine) -> None:
    machine.faults = lambda launch: Fault.ERROR if launch == 20 else None
    with nt.default_device("npu"):
        (device,) = selection.accelerators(selection.current())
    done = CliRunner().invoke(command, ["--device", "npu", "--quick"])
    assert done.exit_code != 0
    assert isinstance(done.exception, (nt.LaunchError, SystemExit))
    assert not (config.cache_dir / rates.calibration_path("npu2", device.identity)).exists()
