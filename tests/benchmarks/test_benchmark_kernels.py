"""The predicted figures of the NPU kernels: what they must reach, what no figure can be, and the published products."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import kernels, published_gemm
from benchmarks.published_gemm import PUBLISHED
from npu_tensor.dataflow.array import ARRAYS

ARCHS = [(arch, array.columns) for arch, array in ARRAYS.items()]


def asked(arch: str) -> tuple[kernels.Workload, ...]:
    wanted = {name for generation, name in kernels.TARGETS if generation == arch}
    return tuple(w for w in kernels.WORKLOADS if f"{w.name} {w.dtype} {w.size}" in wanted)


@pytest.mark.parametrize(("arch", "columns"), ARCHS)
def test_what_is_asked_is_predicted(arch: str, columns: int) -> None:
    """4096 cubed in bfloat16 at 2.5 and 10 TFLOPS; 16 M elements of simple arithmetic at 80 % of the roofline or more.

    The vector math of functions such as tanh takes longer than their data; the report says so.
    """
    rows = list(kernels.measured(arch, columns, asked(arch)))
    products = [row for row in rows if row["kernel"] == "linear"]
    simple = [row for row in rows if row["kernel"] in ("add", "mul", "relu", "a*b+c, relu")]
    assert len(products) == 1
    assert products[0]["tera_per_second"] >= {"aie2": 2.5, "aie2p": 10}[arch]
    assert products[0]["array_limit"] in ("compute", "stream", "ddr")
    assert len(simple) == 4
    assert all(row["roofline_fraction"] >= 0.8 for row in simple)
    assert all(kernels._met(arch, row) for row in (*products, *simple))
    assert {"exp", "tanh", "gelu", "silu"} <= {row["kernel"] for row in rows}


@pytest.mark.parametrize(("arch", "columns"), ARCHS)
def test_the_report(arch: str, columns: int, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    outcome = CliRunner().invoke(
        kernels.main, ["--arch", arch, "--quick", "--json", str(path)], catch_exceptions=False
    )
    assert outcome.exit_code == 0, outcome.output
    assert "predicted for" in outcome.output
    found = json.loads(path.read_text())
    keys = {"kernel", "dtype", "shape", "columns", "cores", "predicted_us", "limit", "roofline_fraction"}
    assert found["rows"]
    for row in found["rows"]:
        assert keys <= set(row)
        assert "refused" not in row, row
        assert 0 < row["roofline_fraction"] <= 1.000001, row
        assert row["array_us"] < row["predicted_us"]
        assert 1 <= row["columns"] <= columns
    assert len(found["published"]) == len(PUBLISHED)


def test_the_roofline_of_an_addition() -> None:
    """Three vectors of a million bfloat16 at 50 GB/s."""
    add = kernels.Workload("add", "bfloat16", ((1 << 20,), (1 << 20,)), lambda a, b: a + b)
    (row,) = kernels.measured("aie2p", 8, (add,))
    assert row["roofline_fraction"] * row["array_us"] == pytest.approx(3 * 2 * 2**20 / 50e9 * 1e6)


def test_the_model_on_published_products() -> None:
    rows = published_gemm.comparison()
    assert sum(row["within"] for row in rows) >= 0.75 * len(rows)
    # 4032 cubed at 6.52 TOPS; each of A and B is read 9 times at 15 GB/s, and C written once.
    first = rows[0]
    assert first["published_ms"] == pytest.approx(2 * 4032**3 / 6.52e9)
    assert first["limit"] == "ddr"
    assert first["predicted_ms"] == pytest.approx((9 + 9 + 1) * 4032**2 / 15e6)
    # The kernels' own published rates: 212.5 and 343 products per cycle.
    for row, rate in ((PUBLISHED[0], 212.5), (PUBLISHED[5], 343)):
        m, k, n = row.tile
        assert m * k * n / published_gemm._kernel_cycles(row) == pytest.approx(rate, rel=0.02)
