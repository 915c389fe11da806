"""Reference pages and tables of the documentation, generated from the code when the site is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import core_language
import functions
from functions import link_to
from interface import interface_page, without_html

from npu_tensor.cli.ops import COMPOSITE_HEADINGS, INTERNAL, composite_row, composites, is_internal, op_row
from npu_tensor.config import SETTINGS, as_text
from npu_tensor.ops import OPS, Op
from npu_tensor.runtime.devices.device_kind import OPTIONS
from npu_tensor.runtime.devices.device_uri import KINDS

PAGE_HEADINGS = ("op", "meaning", "GGML name", "dtypes", "runs")

RECORDED = {"matmul": "contract", "zeros": "fill", "rope": "rotate", "to": "convert"}
"""Functions that record an op of another name, with that op."""


def markdown_row(cells: Iterable[str]) -> str:
    """Return a row of a table in which `<` does not begin HTML."""
    return "| " + " | ".join(without_html(cell).replace("|", "\\|") for cell in cells) + " |"


def _code(words: str) -> str:
    """Format each word of a list as code."""
    return ", ".join(f"`{word}`" for word in words.split(", ") if word)


def _op_row(op: Op) -> tuple[str, ...]:
    """Return the cells of an op under PAGE_HEADINGS."""
    _, ggml, dtypes, cpu, npu = op_row(op)
    name = f"`{op.name}` ({INTERNAL})" if is_internal(op) else link_to(op.name)
    runs = f"CPU: {cpu}; NPU: {npu}" if npu else cpu if op.kind == "view" else f"CPU: {cpu}"
    return name, op.doc.partition("\n")[0], ggml, dtypes, runs


def ops_page() -> str:
    """Return the text of docs/ops.md: one table per family of declarations."""
    examples = ", ".join(f"`{function}` records `{op}`" for function, op in RECORDED.items())
    lines = [
        "# Functions and ops",
        "",
        "Functions record ops. `explain` and the text `lazy: ...` of a tensor name them. Most ops have the name of "
        f"their function. Those marked as {INTERNAL} are recorded by functions of other names: {examples}. The last "
        "table lists the functions that are made of several ops. Each function has a page with its parameters, an "
        "example and the devices that can run it.",
        "",
        f"{len(OPS)} ops. An op without a GGML name has no counterpart there. The kernel families also depend on "
        "dtypes and shapes; `explain` shows why one does not apply.",
    ]
    for module, declared in groupby(OPS.values(), key=attrgetter("module")):
        lines += ["", f"## {module.capitalize()}", "", _stacked(PAGE_HEADINGS, map(_op_row, declared))]
    lines += [
        "",
        f"## {functions.COMPOSITES}",
        "",
        "They record ops of the tables above, which are fused again where possible.",
        "",
        _stacked(COMPOSITE_HEADINGS, [(link_to(name), *composite_row(name)[1:]) for name in composites()]),
    ]
    return "\n".join(lines) + "\n"


def _settings() -> Iterator[tuple[str, ...]]:
    for setting in SETTINGS.values():
        variable, *aliases = setting.readers
        yield _code(variable), _code(", ".join(aliases)), _code(as_text(setting.default)), setting.doc


def _device_options() -> Iterator[tuple[str, ...]]:
    for name, option in OPTIONS.items():
        default = "" if option.default is None else f"`{option.default}`"
        kinds = ", ".join(scheme for scheme, kind in KINDS.items() if name in kind.options)
        yield f"`{name}`", option.allowed.removeprefix("one of "), default, _code(kinds), option.doc


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([markdown_row(headings), "|---" * len(headings) + "|", *map(markdown_row, rows)])


def _stacked(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are stacked in narrow windows, see docs/stylesheets/site.css."""
    return f'<div class="stacked" markdown="1">\n\n{_table(headings, rows)}\n\n</div>'


PAGES: dict[str, Callable[[], str]] = {"interface.md": interface_page, "ops.md": ops_page, **functions.PAGES}

TABLES: dict[str, Callable[[], str]] = {
    "<!-- table of settings -->": lambda: _table(("variable", "also", "default", "meaning"), _settings()),
    "<!-- table of device options -->": lambda: _table(
        ("option", "values", "default", "devices", "meaning"), _device_options()
    ),
    "<!-- table of the core language -->": lambda: _table(("subject", "names"), core_language.rows()),
}
"""Tables by the line of docs/settings.md or docs/write_a_kernel.md that each replaces."""


def with_tables(text: str) -> str:
    """Replace the table lines of a page by the tables."""
    for line, table in TABLES.items():
        text = text.replace(line, table()) if line in text else text
    return text
