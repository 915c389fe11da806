"""The predicted decode steps beside the published one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import decode
from benchmarks.published import measurements
from npu_tensor.dataflow.array import ARRAYS


def step(name: str, generation: str, context: int) -> Iterator[dict[str, Any]]:
    return decode.decode(name, decode.MODELS[name], generation, context)


def test_two_launches_per_layer_and_one_per_token() -> None:
    """Predictions are within 30 % of measurements; one launch per token has no launches in between."""
    two, one, products = step("Llama 3.2 1B, bfloat16", "npu2", context=2048)
    assert abs(two["rate"] / two["published"] - 1) <= 0.3
    assert (two["count"], one["count"], products["count"]) == (2 * 16 + 1, 1, 4 * 16 + 1)
    assert one["rate"] > two["rate"]
    # Every weight is read once: 2 bytes each at the bandwidth of the host memory.
    layer = 2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 8192
    weights = 2 * (16 * layer + 128256 * 2048) / 55e9
    assert weights < two["kernels"] < one["kernels"] < 1.12 * weights


@pytest.mark.parametrize("generation", decode.GENERATIONS)
def test_quantized_weights_are_read_once(generation: str) -> None:
    """The bytes equal those of SmolLM2-135M-Instruct.Q4_1.gguf: 66.4 MB in q4_1 and 30.1 MB in q8_0."""
    rows = list(step("SmolLM2 135M, q4_1", generation, context=256))
    (rate,) = (a.ddr_bytes_per_second for a in ARRAYS.values() if a.device == generation)
    for row in rows:
        assert row["bandwidth"] * row["kernels"] == pytest.approx(66_355_200 + 30_081_024)
        assert row["bandwidth"] <= rate
    products = rows[-1]
    # Runtime parameters and the wait of each kernel take longer than such small weights.
    assert products["bandwidth"] >= 0.3 * rate
    # One configuration for all layers, and another for the last product.
    assert (products["count"], products["changed"]) == (4 * 30 + 1, 2)


@pytest.mark.parametrize("generation", decode.GENERATIONS)
@pytest.mark.parametrize("name", ["Llama 3.2 1B, q4_1", "SmolLM2 135M, q4_1"])
def test_a_layer_changes_configuration_twice(name: str, generation: str) -> None:
    """To attention, and back to products. The last product of SmolLM2 has another format of blocks."""
    _, one, _ = step(name, generation, context=256)
    assert one["count"] == 1
    assert one["changes"] == pytest.approx(one["changed"] * {"npu1": 123e-6, "npu2": 43e-6}[generation])
    assert one["changed"] <= 2 * decode.MODELS[name].layers + 2


def test_one_launch_per_token_reaches_the_published_rate() -> None:
    """Two configurations take turns, and the published design has one. Weights, keys and values alone allow 65."""
    name, context = "Llama 3.2 1B, q4_1", 2048
    _, one, _ = step(name, "npu2", context)
    shape = decode.MODELS[name]
    cached = 2 * shape.layers * context * shape.cached_heads * shape.features * 2
    most = ARRAYS["aie2p"].ddr_bytes_per_second / (shape.weight_bytes + cached)
    assert one["published"] < 55 <= one["rate"] < most < 66


@pytest.mark.parametrize(
    ("generation", "source", "extents"),
    [("npu1", "flm-npu1", (1024, 2560, 2560)), ("npu2", "air-f32", (2048, 2048, 8192))],
)
def test_a_prompt_takes_the_published_time_of_its_products(
    generation: str, source: str, extents: tuple[int, ...]
) -> None:
    """The products take most of it. The fastest published kernel multiplies large matrices at the rate of its row."""
    tokens = 2048
    name = "Llama 3.2 1B, bfloat16"
    row = decode.prompt(name, decode.MODELS[name], generation, tokens)
    layer = 2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 8192
    (product,) = (each for each in measurements() if (each.name, each.extents) == (source, extents))
    assert row["kernels"] == pytest.approx(16 * layer * tokens / product.macs * product.seconds, rel=0.25)
    assert row["kernels"] < row["seconds"] < 1.03 * row["kernels"]


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "decode.json"
    done = CliRunner().invoke(decode.main, ["--context", "64", "--json", str(path)], catch_exceptions=False)
    assert "tokens/s" in done.stdout
    result = json.loads(path.read_text())
    assert result["rows"]
    assert {row["array"] for row in result["prompts"]} == {"npu1", "npu2"}
