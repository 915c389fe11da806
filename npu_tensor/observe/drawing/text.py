"""Text for a terminal: tables, and external text without control characters."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Container, Iterable, Sequence

GAP = "  "
"""Separator of columns."""

LEAST_CUT = 16
"""Minimum width of a truncated cell, in characters."""

WIDTH = 120
"""Line width without a terminal, in characters."""


def line_width() -> int:
    """Return the line width in characters: the variable COLUMNS, else the terminal's."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def beside(name: str, text: str, indent: int = 24) -> list[str]:
    """Return lines with the text wrapped beside a name, or below a name longer than the indent.

    Words are not broken, so that names and paths stay intact.
    """
    width = max(line_width(), indent + 20)
    lines = textwrap.wrap(text, width - indent, break_long_words=False, break_on_hyphens=False)
    if lines and len(name) < indent - 1:
        lines[0] = f"{name:<{indent}}{lines[0]}"
        return [lines[0], *(f"{'':{indent}}{line}" for line in lines[1:])]
    return [name, *(f"{'':{indent}}{line}" for line in lines)]


def rows_below_each_other(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table wider than the terminal, with the first cell of each row beside the others."""
    lines = []
    indent = min(24, max((len(row[0]) for row in rows), default=0) + 2)
    for first, *others in rows:
        named = zip(headings[1:], map(printable, others), strict=True)
        cells = [f"{heading}: {cell}" if heading else cell for heading, cell in named if cell]
        # A no-break space keeps a short value beside its heading.
        joined = "; ".join(cell.replace(" ", "\xa0") if len(cell) < 24 else cell for cell in cells)
        lines += [line.replace("\xa0", " ") for line in beside(printable(first), joined, indent)]
    return lines


def printable(text: str) -> str:
    """Return the text in one line, with "?" for each unprintable character."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def table(
    columns: Sequence[Sequence[str]],
    figures: Container[str],
    may_be_cut: Container[str] = (),
    may_be_dropped: Sequence[str] = (),
    empty: str = "",
) -> list[str]:
    """Return the lines of a table that fits `line_width()`.

    If a table is still too wide after truncating and dropping columns, each row becomes a paragraph.

    Args:
        columns: Columns, each starting with its heading.
        figures: Headings of right-aligned columns.
        may_be_cut: Headings of columns that may be truncated.
        may_be_dropped: Headings of columns that are dropped in this order if truncation is not enough.
        empty: Text in place of empty cells, which paragraphs leave out.
    """
    columns = [[printable(cell) for cell in column] for column in columns]
    widths = {column[0]: max(len(cell or empty) for cell in column) for column in columns}

    def excess(widths: Iterable[int]) -> int:
        each = list(widths)
        return sum(each) + len(GAP) * (len(each) - 1) - line_width()

    for heading in may_be_dropped:
        if excess(min(most, LEAST_CUT) if name in may_be_cut else most for name, most in widths.items()) <= 0:
            break
        widths.pop(heading, None)
    shown = [column for column in columns if column[0] in widths]
    while excess(widths.values()) > 0:
        widest = max((name for name in widths if name in may_be_cut), key=widths.__getitem__, default="")
        if widths.get(widest, 0) <= LEAST_CUT:
            headings, *rows = zip(*shown, strict=True)
            return rows_below_each_other(headings, rows)
        widths[widest] -= 1
    fitted = [[_fit(cell or empty, widths[column[0]], column[0] in figures) for cell in column] for column in shown]
    return [GAP.join(line).rstrip() for line in zip(*fitted, strict=True)]


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], figures: Container[str] = ()
) -> None:
    """Print a table below its title, and an empty line. An empty cell is printed as "-".

    Characters that the encoding of stdout lacks are escaped.

    Args:
        title: Title above the table.
        headings: Column headings, all different.
        rows: Cells of each row.
        figures: Headings of right-aligned columns.
    """
    columns = [*zip(headings, *(map(str, row) for row in rows), strict=True)]
    encoding = sys.stdout.encoding or "utf-8"
    for line in (title, *table(columns, figures, empty="-"), ""):
        print(line.encode(encoding, "backslashreplace").decode(encoding))


def _fit(cell: str, width: int, right: bool) -> str:
    if len(cell) > width:
        cell = f"{cell[: width - 2]}.."
    return cell.rjust(width) if right else cell.ljust(width)
