"""Terminal tables of commands and benchmarks."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from npu_tensor.observe.drawing.text import line_width, rows_below_each_other

FOLDED: Final = 48
"""Maximum width of a folded column, in characters."""


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    figures: Container[str] = (),
    folded: Container[str] = (),
) -> None:
    """Print rows under headings, in lines of `line_width()`.

    A table whose words do not fit is printed without a frame, each row as a paragraph.

    Args:
        title: Title above the table.
        headings: Column headings.
        rows: Cells of each row.
        figures: Headings of right-aligned columns.
        folded: Headings of columns with several words, which are at most `FOLDED` characters wide.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(width=line_width())

    def text(cell: object) -> Text:
        if isinstance(cell, Text):
            return cell
        # Text prevents rich from reading the brackets of "float32[500, 10]" as markup. The encoding of stdout may lack
        # characters.
        return Text(str(cell).encode(console.encoding, "backslashreplace").decode(console.encoding))

    columns = (
        Column(
            heading,
            overflow="fold",  # A long name continues in the next line instead of being cut.
            justify="right" if heading in figures else "left",
            max_width=FOLDED if heading in folded else None,
        )
        for heading in headings
    )
    table = Table(*columns)
    cells = [[text(cell) for cell in row] for row in rows]
    for row in cells:
        table.add_row(*row)
    # rich folds the title of a table to the width of the table, which would break paths.
    console.print(text(title), style="italic", soft_wrap=True)
    # Words are not broken, so a column is at least as wide as its longest word.
    columns_of_text = list(zip(map(text, headings), *cells, strict=True))
    least = [
        max(Measurement.get(console, console.options, cell).minimum for cell in column) for column in columns_of_text
    ]
    if sum(least) + 3 * len(least) + 1 <= console.width:
        console.print(table)
        return
    lines = rows_below_each_other(headings, [[cell.plain for cell in row] for row in cells])
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
