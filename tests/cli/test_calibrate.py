"""npu-tensor calibrate on the CPU: stored results, output and refusals. Figures are not checked: machines differ."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_tensor.cli.calibrate import calibrate_command as command
from npu_tensor.cli.calibrate import cpu_rates, probes
from npu_tensor.cli.calibrate.probes import typical
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.rates import priors, processor_rates

pytestmark = pytest.mark.usefixtures("own_rates")


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does nothing else."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def test_the_processor_is_measured_and_the_figures_are_used(own_rates: Path) -> None:
    threads = host_devices()[0].threads
    done = CliRunner().invoke(command, ["--quick", "--json"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["devices"]
    assert result["uri"] == "cpu"
    assert Path(result["file"]).is_relative_to(own_rates)
    assert result["figures"]["flops"]["prior"] == priors()["processor"]["flops"]
    assert processor_rates().flops == result["figures"]["flops"]["measured"]
    assert processor_rates().macs["float32"] == result["figures"]["macs.float32"]["measured"]
    assert host_devices()[0].threads == threads


def test_a_table_for_people(own_rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_tensor.cli.calibrate.measure_processor", lambda quick: processor_rates(8))
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    refused = CliRunner().invoke(command)
    assert refused.exit_code == 1
    assert "the load of this machine is 3.0" in refused.stderr
    assert "--force" in refused.stderr
    assert not list(own_rates.rglob("*.json"))
    done = CliRunner().invoke(command, ["--force"])
    assert done.exit_code == 0, done.output
    cells = dict(re.split("  +", line)[:2] for line in done.stdout.rstrip().splitlines()[1:])
    # Those of priors.json.
    assert cells["launch_seconds"] == "600 ns"
    assert cells["levels[0].nbytes"] == "1.05 MB"
    assert cells["levels[1].thread_bytes_per_second"] == "80 GB/s"
    assert cells["levels[2].nbytes"] == "no limit"
    assert cells["macs.float32"] == "55 GMAC/s"
    assert cells["packed_bytes"] == "15 GB/s"
    assert cells["thread_watts"] == "800 mW"
    assert cells["lanes"] == "16"
    assert f"kept in {own_rates}" in done.stdout


@pytest.mark.parametrize(
    ("uri", "said"),
    [("sim:npu2", "sim:npu2 is simulated: there is nothing to measure"), ("npu", "there is no NPU to use")],
)
def test_what_cannot_be_measured_is_named(uri: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    done = CliRunner().invoke(command, ["--device", uri])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "load" not in done.stderr


def test_a_slow_moment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    calls = {"steady": 0, "disturbed": 0}

    def probe(name: str, every: int) -> None:
        nonlocal now
        calls[name] += 1
        now += 1.0 if calls[name] % every else 50.0

    monkeypatch.setattr(probes.time, "perf_counter", lambda: now)
    result = typical({"steady": lambda: probe("steady", 10**9), "disturbed": lambda: probe("disturbed", 5)})
    assert result == {"steady": 1.0, "disturbed": 1.0}


def test_the_share_of_a_cache_follows_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = {
        "index0": ("1", "Data", "32K", "0"),
        "index1": ("1", "Instruction", "32K", "0"),
        "index2": ("2", "Unified", "1024K", "0"),
        "index3": ("3", "Unified", "16384K", "0-7"),
    }
    for index, texts in caches.items():
        (tmp_path / index).mkdir()
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), texts, strict=True):
            (tmp_path / index / name).write_text(f"{text}\n")
    monkeypatch.setattr(cpu_rates, "CACHES", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)), raising=False)
    assert cpu_rates._cache_bytes(8) == [1 << 20, 4 << 20]  # four cores of this process share the last one
    assert cpu_rates._cache_bytes(2) == [1 << 20, 8 << 20]
    (tmp_path / "index3" / "size").write_text("all of it\n")
    assert cpu_rates._cache_bytes(2) == [1 << 20]
    (tmp_path / "index2" / "level").write_text("two\n")
    assert cpu_rates._cache_bytes(2) == []
