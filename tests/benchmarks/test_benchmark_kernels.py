"""Predicted figures of the NPU kernels: required figures, impossible figures, and the published products."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import kernels
from npu_tensor.dataflow.array import ARRAYS

ARCHS = [(arch, array.columns) for arch, array in ARRAYS.items()]


def asked(arch: str) -> tuple[kernels.Workload, ...]:
    wanted = {name for generation, name in kernels.TARGETS if generation == arch}
    return tuple(w for w in kernels.WORKLOADS if f"{w.name} {w.dtype} {w.size}" in wanted)


@pytest.mark.parametrize(("arch", "columns"), ARCHS)
def test_what_is_asked_is_predicted(arch: str, columns: int) -> None:
    """Products at their tera operations per second, also of int8 and block floats on aie2p; 16 M elements of simple
    arithmetic at 80 % of the roofline or more.

    The vector math of functions such as tanh takes longer than their data; the report states this.
    """
    rows = list(kernels.measured(arch, columns, asked(arch)))
    products = [row for row in rows if row["kernel"].startswith("linear")]
    simple = [row for row in rows if row["kernel"] in ("add", "mul", "relu", "a*b+c, relu")]
    assert len(products) == {"aie2": 2, "aie2p": 3}[arch]
    assert all(row["limit"] in ("compute", "stream", "ddr") for row in products)
    assert len(simple) == 4
    assert all(row["roofline_fraction"] >= 0.8 for row in simple)
    assert all(kernels._met(arch, row) for row in (*products, *simple))
    assert {"exp", "tanh", "gelu", "silu"} <= {row["kernel"] for row in rows}


@pytest.mark.parametrize(("arch", "columns"), ARCHS)
def test_the_report(arch: str, columns: int, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    outcome = CliRunner().invoke(kernels.main, ["--arch", arch, "--quick", "--json", str(path)], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert "predicted for" in outcome.output
    result = json.loads(path.read_text())
    keys = {"kernel", "dtype", "shape", "columns", "cores", "predicted_us", "limit", "roofline_fraction"}
    assert result["rows"]
    for row in result["rows"]:
        assert keys <= set(row)
        assert "refused" not in row, row
        assert 0 < row["roofline_fraction"] <= 1.000001, row
        assert row["array_us"] < row["predicted_us"]
        assert 1 <= row["columns"] <= columns


def test_the_roofline_of_an_addition() -> None:
    """Three vectors of a million bfloat16 at 55 GB/s."""
    add = kernels.Workload("add", "bfloat16", ((1 << 20,), (1 << 20,)), lambda a, b: a + b)
    (row,) = kernels.measured("aie2p", 8, (add,))
    assert row["roofline_fraction"] * row["array_us"] == pytest.approx(3 * 2 * 2**20 / 55e9 * 1e6)
