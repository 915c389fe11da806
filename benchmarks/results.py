"""Result file of a session: rows, omissions and the machine. Validated against schema.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

FORMAT: Final = 1

SCHEMA: Final = Path(__file__).with_name("schema.json")


Kind = Literal["measured", "simulated", "predicted", "published"]


class Row(NamedTuple):
    """One figure, in seconds per run. schema.json defines the fields."""

    suite: str
    case: str
    dtype: str
    shapes: list[list[int]]
    size: str
    device: str
    contender: str
    kind: Kind
    p50: float
    p95: float | None = None
    p99: float | None = None
    cold: float | None = None
    idle: float | None = None
    idle_seconds: float | None = None
    iterations: int = 0
    flops: int | None = None
    bytes: int | None = None
    disagreement: float | None = None
    note: str = ""


class LeftOut(NamedTuple):
    """Missing rows and the reason. An empty string matches all.

    `failed` is True if npu_tensor itself raised or its result differs from NumPy's.
    """

    reason: str
    suite: str = ""
    case: str = ""
    dtype: str = ""
    size: str = ""
    device: str = ""
    contender: str = ""
    failed: bool = False


class ResultsError(Exception):
    """Error for a file without results in this format."""


def validate(content: object) -> None:
    """Check content against the schema. Raises ResultsError with the invalid place."""
    import jsonschema

    schema = json.loads(SCHEMA.read_text("utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(content))
    if error is not None:
        raise ResultsError(f"{error.json_path}: {error.message}")


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write results. Raises ResultsError if they violate the schema."""
    validate(content)
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except ValueError as error:
        raise ResultsError(str(error)) from None
    path.write_text(text + "\n", "utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read the results written by `save`. Raises ResultsError."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ResultsError(f"{path} is not a results file of `npu-tensor bench` ('format' is missing)")
    try:
        validate(content)
    except ResultsError as error:
        raise ResultsError(f"{path} holds no results of this format: {error}") from None
    return content
