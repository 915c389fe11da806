"""Tables on the terminal, which commands and benchmarks print."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from npu_tensor.observe.drawing.text import line_width, rows_below_each_other

__all__ = ["print_table"]

FOLDED: Final = 48
"""Characters of a line of a column that may be folded."""


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    figures: Container[str] = (),
    folded: Container[str] = (),
) -> None:
    """Print rows under headings, in lines of `line_width()`.

    figures: headings of columns that are flush right. folded: of columns that hold several words, which never take more
    than 48 characters of a line. A table whose words do not fit is printed without a frame, each row as a paragraph.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(width=line_width())

    def text(cell: object) -> Text:
        if isinstance(cell, Text):
            return cell
        # Text, so that the brackets of "float32[500, 10]" are not read as markup; without what stdout cannot write.
        return Text(str(cell).encode(console.encoding, "backslashreplace").decode(console.encoding))

    columns = (
        Column(
            heading,
            overflow="fold",  # A name that does not fit goes on in the next line instead of being cut.
            justify="right" if heading in figures else "left",
            max_width=FOLDED if heading in folded else None,
        )
        for heading in headings
    )
    table = Table(*columns)
    cells = [[text(cell) for cell in row] for row in rows]
    for row in cells:
        table.add_row(*row)
    console.print(text(title), style="italic")  # not the table's own title, which is folded to the table's width
    # Words are not broken: a column is at least as wide as its longest one.
    columns_of_text = list(zip(map(text, headings), *cells, strict=True))
    least = [
        max(Measurement.get(console, console.options, cell).minimum for cell in column) for column in columns_of_text
    ]
    if sum(least) + 3 * len(least) + 1 <= console.width:
        console.print(table)
        return
    lines = rows_below_each_other(headings, [[cell.plain for cell in row] for row in cells])
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
