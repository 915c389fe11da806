"""Sources of rates: priors with references, and files that are validated."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from cost_tasks import cost, opened, tensor

from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import ProcessorRates, npu_rates, priors, processor_identity, processor_rates

pytestmark = pytest.mark.usefixtures("own_rates")

PRIORS = json.loads(Path(rates.__file__).with_name("priors.json").read_text("utf-8"))
NPU = {"npu": "AIE-0123456789abcdef", "driver": "NPU Strix 2.21", "power": "default"}


def test_every_prior_of_the_processor_has_a_source() -> None:
    """Those of NPUs are tested with their table, see test_cost."""
    assert PRIORS["processor"].keys() == {field.name for field in fields(ProcessorRates)}
    for name, figure in PRIORS["processor"].items():
        assert figure.keys() == {"value", "source"}, name
        assert len(figure["source"]) > 20, name


@pytest.mark.parametrize(
    ("processor", "power", "gigahertz"),
    [
        ("AMD Ryzen 9 7940HS w/ Radeon 780M Graphics", "default", 1.0),
        ("AMD Ryzen 7 8840U w/ Radeon 780M Graphics", "turbo", 1.6),
        ("AMD Ryzen 7 250 w/ Radeon 780M Graphics", "default", 1.6),
        ("AMD Ryzen 7 8700G w/ Radeon 780M Graphics", "high", 1.8),
        ("AMD Ryzen 7 8700G w/ Radeon 780M Graphics", "medium", 1.03),
        ("AMD Ryzen 7 8700G w/ Radeon 780M Graphics", "low", 0.8),
    ],
)
def test_the_clock_depends_on_processor_and_power_mode(processor: str, power: str, gigahertz: float) -> None:
    assert rates.clock_hz("npu1", processor, power) == pytest.approx(gigahertz * 1e9, rel=1e-3)
    if power in ("default", "high", "turbo"):
        assert rates.clock_hz("npu2", "AMD Ryzen AI 9 HX 370 w/ Radeon 890M", power) == 1.8e9


def test_priors_follow_the_vectors_of_the_processor() -> None:
    wide, narrow = processor_rates(16), processor_rates(8)
    assert narrow.flops == wide.flops / 2
    assert narrow.macs["float32"] == wide.macs["float32"] / 2
    assert narrow.levels == wide.levels


def test_what_is_kept_is_found_again(own_rates: Path) -> None:
    measured = replace(npu_rates("npu2"), dispatch_seconds=77e-6)
    path = rates.save("npu2", NPU, measured)
    assert path.is_relative_to(own_rates)
    assert npu_rates("npu2", NPU) == measured
    assert npu_rates("npu2") != measured  # a simulated one
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_drivers_power_modes_and_devices_have_rates_of_their_own() -> None:
    rates.save("npu2", NPU, replace(npu_rates("npu2"), dispatch_seconds=77e-6))
    for key in NPU:
        assert npu_rates("npu2", NPU | {key: "another"}) == npu_rates("npu2")
    slow = npu_rates("npu2", NPU | {"power": "low"})
    assert slow == replace(npu_rates("npu2"), clock_hz=slow.clock_hz) != npu_rates("npu2")
    assert npu_rates("npu1", NPU) == npu_rates("npu1")


def test_measured_rates_change_what_is_predicted() -> None:
    before = cost(opened("cpu"), tensor("float32", 1 << 20).tanh()).expense.seconds
    prior = processor_rates(16)
    rates.save("processor", processor_identity(), replace(prior, flops=prior.flops / 100))
    selection.reset()
    after = cost(opened("cpu"), tensor("float32", 1 << 20).tanh()).expense.seconds
    assert after > 10 * before


def test_rates_belong_to_a_cache_directory_and_to_the_cores_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = processor_rates(16)
    with config.scope(cache_path=str(tmp_path / "other")):
        rates.save("processor", processor_identity(), replace(prior, fork_seconds=0.125))
        assert processor_rates(16).fork_seconds == 0.125
        with monkeypatch.context() as patch:
            patch.setattr("npu_tensor.runtime.rates.available_cores", lambda: 1000)
            assert processor_rates(16) == prior
        assert processor_rates(16).fork_seconds == 0.125
    assert processor_rates(16) == prior


def written(change: dict[str, Any]) -> Path:
    """A calibration of the processor with something else in it."""
    path = rates.save("processor", processor_identity(), processor_rates())
    content = json.loads(path.read_bytes())
    content["rates"] |= change.pop("rates", {})
    path.write_text(json.dumps(content | change))
    rates.forget()
    return path


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"rates": {"flops": -1.0}}, "flops is -1.0, not a positive number"),
    ({"rates": {"flops": float("nan")}}, "flops is nan"),
    ({"rates": {"flops": "fast"}}, "flops is 'fast'"),
    ({"rates": {"levels": [3]}}, "does not have the fields of ProcessorRates"),
    ({"rates": {"tiles": {"float32": {"rows": 8}}}}, "does not have the fields of ProcessorRates"),
    ({"rates": {"more": 1.0}}, "does not have the fields of ProcessorRates"),
    ({"format": 0}, "not a calibration of format 5"),
    ({"identity": {"processor": "another one"}}, "was measured with"),
]


@pytest.mark.parametrize(("change", "said"), NONSENSE)
def test_what_is_no_rate_is_not_used(change: dict[str, Any], said: str) -> None:
    path = written(dict(change))
    with pytest.warns(RuntimeWarning, match=said) as warned:
        assert processor_rates(16) == processor_rates(16).scaled(16)
    assert str(path) in str(warned[0].message)
    assert "npu-tensor calibrate" in str(warned[0].message)
    assert processor_rates(16).flops == priors()["processor"]["flops"]  # said once


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 2}'])
def test_a_damaged_file_is_not_used(content: bytes) -> None:
    path = written({})
    path.write_bytes(content)
    rates.forget()
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert processor_rates(16).flops == priors()["processor"]["flops"]
