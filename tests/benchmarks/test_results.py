"""The file of a session: what the schema allows, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sessions import row, session

from benchmarks.results import ResultsError, Row, load, save, validate

PREDICTED = row(kind="predicted", device="npu2")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    content = session([row(), row("numpy"), PREDICTED])
    save(path, content)
    assert load(path) == content
    assert [Row(**found) for found in load(path)["rows"]] == [row(), row("numpy"), PREDICTED]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (row()._replace(iterations=29), "iterations"),
        (row()._replace(p99=None), "p99"),
        (row()._replace(p50=0.0), "p50"),
        (row()._replace(kind="guessed"), "kind"),  # type: ignore[arg-type]
        (row()._replace(shapes="4x4"), "shapes"),  # type: ignore[arg-type]
        # What was not measured has neither iterations nor a first run.
        (PREDICTED._replace(iterations=30), "iterations"),
        (PREDICTED._replace(cold=1e-3), "cold"),
        (PREDICTED._replace(idle_seconds=1.0), "idle_seconds"),
    ],
)
def test_a_row_that_says_something_else_is_refused(wrong: Row, place: str, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=rf"rows\[1\]\.{place}"):
        save(tmp_path / "results.json", session([row("numpy"), wrong]))
    assert not any(tmp_path.iterdir())


def test_what_json_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="nan"):
        save(tmp_path / "results.json", session([row(p50=float("nan"))]))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"rows": None}, {"format": 2}, {"left_out": [{"suite": "ops"}]}, {"extra": 1}])
def test_a_document_of_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ResultsError):
        validate(session([row()]) | change)


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps({"rows": []})])
def test_json_of_something_else_is_named_as_such(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultsError) as raised:
        load(path)
    assert str(raised.value) == f"{path} is not a results file of `npu-tensor bench` ('format' is missing)"


@pytest.mark.parametrize("text", ["", "{", json.dumps({"format": 1, "rows": []})])
def test_a_file_of_something_else_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=r"other\.json"):
        load(path)
