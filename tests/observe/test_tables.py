"""Tables for terminals of any width."""

import re

import pytest

from npu_tensor.observe.drawing import terminal, text

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


@pytest.mark.parametrize("columns", [80, 30])
def test_words_of_a_table_on_a_terminal_are_not_broken(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take the output for a terminal
    headings, *rows = zip(*COLUMNS, strict=True)
    terminal.print_table("title", headings, rows)
    shown = capsys.readouterr().out
    assert "a_function_of_a_very_long_name" in shown
    assert ("─" in shown) == (columns == 80)
