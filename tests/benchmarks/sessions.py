"""Results as a session writes them, made up."""

from collections.abc import Iterable
from typing import Any

from benchmarks.results import Row


def row(contender: str = "npu_tensor", p50: float = 1e-3, **fields: Any) -> Row:
    """A measured row, or another kind by `fields`."""
    measured = {"p95": 2 * p50, "p99": 3 * p50, "iterations": 30} if "kind" not in fields else {}
    values = {
        "suite": "ops",
        "case": "add",
        "dtype": "float32",
        "shapes": [[4], [4]],
        "size": "4",
        "device": "cpu",
        "kind": "measured",
        **measured,
        **fields,
    }
    return Row(contender=contender, p50=p50, **values)


def session(rows: Iterable[Row], **machine: Any) -> dict[str, Any]:
    """A document with these rows. machine: fields of its description that differ."""
    about = {
        "date": "2026-01-01T00:00:00+00:00",
        "processor": "one",
        "cores": 2,
        "threads": 2,
        "others": 0.0,
        "system": "Linux",
        "python": "3.11",
        "governor": None,
        "power": None,
        "versions": {"numpy": "2.0"},
    }
    return {
        "format": 1,
        "quick": False,
        "machine": about | machine,
        "contenders": {"npu_tensor": "0.1", "numpy": "2.0"},
        "ceilings": [],
        "left_out": [],
        "rows": [row._asdict() for row in rows],
    }
