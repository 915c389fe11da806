"""Tables for terminals of any width."""

import io
import re

import pytest

from npu_tensor.observe.drawing import text

COLUMNS = (
    ("op", "softmax", "a_function_of_a_very_long_name"),
    ("time", "1.0 us", "12.0 us"),
    ("why", "-", "words that go on and on and on"),
)


@pytest.mark.parametrize("width", [60, 100])
def test_every_cell_is_in_a_table_or_a_paragraph(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = text.table(COLUMNS, ("time",))
    assert max(map(len, lines)) <= width
    if width == 100:
        assert [re.split("  +", line.strip()) for line in lines] == [list(row) for row in zip(*COLUMNS, strict=True)]
    else:
        assert " ".join(" ".join(lines).split()) == (
            "softmax time: 1.0 us; why: - "
            "a_function_of_a_very_long_name time: 12.0 us; why: words that go on and on and on"
        )


def test_empty_cells_are_printed_as_hyphens(capsys: pytest.CaptureFixture[str]) -> None:
    text.print_table("title", ("name", "n"), [("one", 1), ("", "")], ("n",))
    assert capsys.readouterr().out == "title\nname  n\none   1\n-     -\n\n"


def test_paragraphs_leave_out_empty_cells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text.print_table("title", ("name", "n", "words"), [("one", "", "w" * 60), ("two", 2, "")])
    assert capsys.readouterr().out == f"title\none  words:\n     {'w' * 60}\ntwo  n: 2\n\n"


def test_characters_that_stdout_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", stream)
    text.print_table("5 µs", ("name",), [("é",)])
    stream.flush()
    assert stream.buffer.getvalue() == b"5 \\xb5s\nname\n\\xe9\n\n"
