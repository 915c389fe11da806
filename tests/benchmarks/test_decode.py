"""The predicted decode step beside the published one."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from benchmarks import decode


def test_two_launches_per_layer_and_one_per_token() -> None:
    """Within 25 % of what was measured; one launch per token costs no launches in between."""
    two, one = decode.decode(context=2048)
    assert abs(two["rate"] / decode.PUBLISHED - 1) <= 0.25
    assert (two["count"], one["count"]) == (2 * 16 + 1, 1)
    assert one["rate"] > two["rate"]
    # Every weight is read once: 2 bytes each at what the host memory gives.
    layer = 2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 8192
    assert 0 < 2 * (16 * layer + 128256 * 2048) / 55e9 < two["kernels"] < one["kernels"]


def test_the_command() -> None:
    done = CliRunner().invoke(decode.main, ["--context", "64"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "tokens/s" in done.output


def test_json_in_place_of_the_tables_or_besides_them(tmp_path: Path) -> None:
    path = tmp_path / "decode.json"
    alone, besides = (CliRunner().invoke(decode.main, ["--json", *file]) for file in ([], [str(path)]))
    assert json.loads(alone.stdout)["rows"] == json.loads(path.read_text())["rows"]
    assert "tokens/s" in besides.stdout
