"""Text for a terminal: tables, and what comes from elsewhere without what a terminal would take for a command."""

from __future__ import annotations

from collections.abc import Container, Sequence

__all__ = ["printable", "table"]

GAP = "  "
"""Between columns."""

LEAST_CUT = 8
"""Letters to which a cell may be cut."""


def printable(text: str) -> str:
    """The text in one line, with "?" for what cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def table(
    columns: Sequence[Sequence[str]], figures: Container[str], width: int = 0, may_be_cut: Container[str] = ()
) -> list[str]:
    """The lines of a table. columns: each begins with its heading.

    figures: headings of columns that are flush right. width: letters of a line; where there are more, the widest of the
    columns `may_be_cut` give way, which may not be enough.
    """
    columns = [[printable(cell) for cell in column] for column in columns]
    widths = [max(map(len, column)) for column in columns]
    cut = [number for number, column in enumerate(columns) if column[0] in may_be_cut]
    while cut and sum(widths) + len(GAP) * (len(widths) - 1) > width:
        widest = max(cut, key=widths.__getitem__)
        if widths[widest] <= LEAST_CUT:
            break
        widths[widest] -= 1
    fitted = [
        [_fit(cell, letters, column[0] in figures) for cell in column]
        for column, letters in zip(columns, widths, strict=True)
    ]
    return [GAP.join(line).rstrip() for line in zip(*fitted, strict=True)]


def _fit(cell: str, width: int, right: bool) -> str:
    if len(cell) > width:
        cell = f"{cell[: width - 2]}.."
    return cell.rjust(width) if right else cell.ljust(width)
