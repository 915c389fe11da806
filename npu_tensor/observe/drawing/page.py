"""HTML fragments. Styles are element attributes, and all external text is escaped."""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from npu_tensor.observe.drawing.picture import COLOURS, TEXT, Kind, legible


class Badge(NamedTuple):
    """Text in the colours of a device kind."""

    kind: Kind
    text: str


Cell = str | Badge


def escaped(text: str) -> str:
    """Escape text for HTML and XML."""
    return html.escape(legible(text))


def paragraph(text: str) -> str:
    """Return a line of text as HTML."""
    return f'<div style="margin:2px 0">{escaped(text)}</div>'


def preformatted(text: str) -> str:
    """Return preformatted text in a monospaced font as HTML."""
    style = "margin:4px 0;font-family:ui-monospace,monospace;font-size:90%;overflow-x:auto"
    return f'<pre style="{style}">{escaped(text)}</pre>'


def table(columns: Sequence[Sequence[Cell]], figures: Container[str], prose: Mapping[str, str]) -> str:
    """Return a table that scrolls horizontally.

    Args:
        columns: Columns, each starting with its heading.
        figures: Headings of right-aligned columns.
        prose: Minimum widths of columns with sentences or long words, which may break anywhere. Other columns have
            minimum width 0, because site themes set one for cells.
    """
    styles = [
        f"vertical-align:top;padding:2px 6px;text-align:{'right' if column[0] in figures else 'left'};"
        f"white-space:{'nowrap' if column[0] in figures else 'normal'};min-width:{prose.get(str(column[0]), '0')};"
        f"{'overflow-wrap:anywhere' if column[0] in prose else ''}"
        for column in columns
    ]

    def line(tag: str, cells: Iterable[Cell]) -> str:
        pairs = zip(styles, cells, strict=True)
        return "".join(f'<{tag} style="{style}">{_cell(cell)}</{tag}>' for style, cell in pairs)

    head, *rows = zip(*columns, strict=True)
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">'
        f"<thead><tr>{line('th', head)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escaped(cell)
    colours = COLOURS[cell.kind]
    style = f"background:{colours.fill};color:{TEXT};border:1px solid {colours.line};border-radius:4px;padding:0 4px"
    return f'<span class="{cell.kind}" style="{style}">{escaped(cell.text)}</span>'


def details(summary: str, body: str, *, opened: bool = False) -> str:
    """Return a foldable section with an HTML body."""
    state = ' open="open"' if opened else ""
    return (
        f'<details{state}><summary style="cursor:pointer">{escaped(summary)}</summary>'
        f'<div style="overflow:auto">{body}</div></details>'
    )


def document(title: str, body: str) -> str:
    """Return a complete page with an HTML body."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{escaped(title)}</title></head>\n'
        f'<body style="font-family:system-ui,sans-serif">{body}</body></html>\n'
    )
