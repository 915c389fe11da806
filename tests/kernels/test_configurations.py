"""One binary serves many shapes: builds for random shapes of a family, on the simulated NPUs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import configurations
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.kind import SIMULATED

pytestmark = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))


@pytest.mark.parametrize("generation", SIMULATED)
@pytest.mark.parametrize("family", configurations.FAMILIES)
def test_random_shapes_are_served_by_few_binaries(family: str, generation: str) -> None:
    result = configurations.served(family, generation, shapes=12)
    assert not result.unlike
    assert result.binaries <= result.configurations <= configurations.FAMILIES[family].most


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurations, "FAMILIES", {"elementwise": configurations.FAMILIES["elementwise"]})
    path = tmp_path / "result.json"
    done = CliRunner().invoke(configurations.main, ["--quick", "--json", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = json.loads(path.read_text())["rows"]
    assert [row["array"] for row in rows] == list(SIMULATED)
    assert all(row["shapes"] == len(row["sequences"]) == 12 for row in rows)
