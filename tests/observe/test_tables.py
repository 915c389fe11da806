"""Tables for terminals of any width."""

import re

import pytest

from npu_tensor.observe.drawing import terminal, text

COLUMNS = (
    ("op", "softmax", "a_function_of_a_very_long_name"),
    ("time", "1.0 us", "12.0 us"),
    ("why", "-", "words that go on and on and on"),
)


@pytest.mark.parametrize("width", [40, 50, 60, 100])
def test_a_folded_table_has_every_cell(width: int) -> None:
    lines = text.table(COLUMNS, ("time",), width)
    assert max(map(len, lines)) <= width
    texts = "\n".join(lines).split("\n\n")
    blocks = [[re.split("  +", line.strip()) for line in block.splitlines()] for block in texts]
    assert len(blocks) == {40: 3, 50: 2, 60: 2, 100: 1}[width]
    if width < 100:
        assert all([cells.pop(0) for cells in block] == ["#", "0", "1"] for block in blocks)
    together = [[cell for part in cells for cell in part] for cells in zip(*blocks, strict=True)]
    assert together == [list(row) for row in zip(*COLUMNS, strict=True)]


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
