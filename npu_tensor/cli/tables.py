"""How the commands print tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

__all__ = ["print_table"]

WIDEST: Final = 1000
"""Characters of a line that programs read: names must stay in one piece."""


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings, as wide as the terminal; into a file or pipe, as wide as they are."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDEST

    def text(cell: object) -> Text:
        # Text, so that the brackets of "float32[500, 10]" are not read as markup; without what stdout cannot write.
        return Text(str(cell).encode(console.encoding, "backslashreplace").decode(console.encoding))

    # A name that does not fit goes on in the next line instead of being cut.
    columns = (Column(heading, overflow="fold") for heading in headings)
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(text, row))
    console.print(text(title), style="italic")  # not the table's own title, which is folded to the table's width
    console.print(table)
