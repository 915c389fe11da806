"""How the commands print tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

__all__ = ["print_table"]


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings, as wide as the terminal."""
    # A name that does not fit goes on in the next line instead of being cut.
    columns = (Column(heading, overflow="fold") for heading in headings)
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        # Text, so that the brackets of "float32[500, 10]" are not read as markup.
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
