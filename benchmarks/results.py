"""The file of a session: rows, what was left out, and the machine. Written and read against schema.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

__all__ = ["FORMAT", "Kind", "LeftOut", "ResultsError", "Row", "load", "save", "validate"]

FORMAT: Final = 1

SCHEMA: Final = Path(__file__).with_name("schema.json")


Kind = Literal["measured", "simulated", "predicted", "published"]


class Row(NamedTuple):
    """One figure; schema.json says what the fields mean. Seconds, of one run."""

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
    """What has no row, and why. An empty string stands for all.

    failed: npu_tensor itself raised, or computed something else than NumPy.
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
    """A file does not hold results of this format."""


def validate(content: object) -> None:
    """Raises ResultsError, naming the place, for what the schema does not allow."""
    import jsonschema

    schema = json.loads(SCHEMA.read_text("utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(content))
    if error is not None:
        raise ResultsError(f"{error.json_path}: {error.message}")


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write results that the schema allows. Raises ResultsError for others."""
    validate(content)
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except ValueError as error:
        raise ResultsError(str(error)) from None
    path.write_text(text + "\n", "utf-8")


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote. Raises ResultsError."""
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
