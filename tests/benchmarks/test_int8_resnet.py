"""ResNet-18 in int8: the kernels that are predicted, and the bounds."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import int8_resnet
from npu_tensor.dataflow.array import ARRAYS


@pytest.mark.parametrize("arch", list(ARRAYS))
def test_every_product_has_a_kernel_above_its_bound(arch: str) -> None:
    """The network is known to have 1.81 G products and 11.7 M weights."""
    rows, bound = int8_resnet.measured(arch)
    assert sum(row["mmacs"] for row in rows) == pytest.approx(1814, rel=2e-3)
    assert bound.weights * ARRAYS[arch].ddr_bytes_per_second / 1e6 == pytest.approx(11.68e6, rel=2e-3)
    products = [row for row in rows if row["mmacs"]]
    assert len(products) == 21
    assert all(0 < row["bound_us"] <= row["array_us"] for row in products)
    assert max(bound) < sum(row["array_us"] for row in products)
    assert {row["task"] for row in rows if row["array_us"] is None} == {"pad_widths", "pool_2d"}


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    outcome = CliRunner().invoke(int8_resnet.main, ["--quick", "--json", str(path)], catch_exceptions=False)
    assert outcome.exit_code == 0
    figures = json.loads(path.read_text())
    assert figures["arrays"]["aie2p"]["array_us"] <= 800
