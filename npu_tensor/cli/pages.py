"""The pages and tables of docs/ that follow from the code.

A page is generated as a whole, or has a table that is, which is known by its heading. The rest is written by people.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from npu_tensor.cli.interface import interface_page, without_html
from npu_tensor.config import SETTINGS, as_text
from npu_tensor.functions import GGML_NAMES
from npu_tensor.kernels import DATA_OPS
from npu_tensor.ops import OPS, Op
from npu_tensor.runtime.cpu.data_ops import COMPOSED
from npu_tensor.runtime.devices.device_uri import KINDS
from npu_tensor.runtime.devices.kind import OPTIONS
from npu_tensor.tensor import FUNCTIONS, Tensor

__all__ = [
    "COMPOSITE_HEADINGS",
    "GENERATED",
    "OP_HEADINGS",
    "RECORDED",
    "composite_row",
    "composites",
    "generated",
    "is_internal",
    "op_row",
    "ops_page",
]

OP_HEADINGS: Final = ("op", "GGML name", "dtypes", "CPU", "NPU kernel family")
COMPOSITE_HEADINGS: Final = ("function", "GGML name", "meaning")
INTERNAL: Final = "internal"
RECORDED: Final[Mapping[str, str]] = MappingProxyType(
    {"matmul": "contract", "zeros": "fill", "rope": "rotate", "to": "convert"}
)
"""Examples of functions that record an op of another name."""

NPU_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "map": "elementwise",
        "row": "rowwise",
        "matmul": "gemm",
        **{name: claim.__module__.rpartition(".")[2] for name, claim in DATA_OPS.items()},
    }
)
"""By kind of op, or by name."""


def markdown_row(cells: Iterable[str]) -> str:
    """A row of a table, in which `<` begins no HTML."""
    return "| " + " | ".join(without_html(cell).replace("|", "\\|") for cell in cells) + " |"


def _code(words: str) -> str:
    """Each word of a list in the type of code."""
    return ", ".join(f"`{word}`" for word in words.split(", ") if word)


# --- what is generated


def is_internal(op: Op) -> bool:
    """Whether there is neither a function nor a method of its name: others record it."""
    return op.name not in FUNCTIONS and not hasattr(Tensor, op.name)


def op_row(op: Op) -> tuple[str, ...]:
    """The cells of an op under OP_HEADINGS."""
    name = f"{op.name} ({INTERNAL})" if is_internal(op) else op.name
    if op.kind == "view":
        return name, op.ggml, op.dtypes, "no kernel", ""
    compiled = op.kind != "data" or op.name in COMPOSED
    npu = NPU_FAMILIES.get(op.name if op.kind == "data" else op.kind, "")
    return name, op.ggml, op.dtypes, "compiled" if compiled else "NumPy", npu


def composite_row(name: str) -> tuple[str, str, str]:
    """The cells of a function that is made of several ops under COMPOSITE_HEADINGS."""
    return name, GGML_NAMES.get(name, ""), _first_line(FUNCTIONS[name])


def composites() -> list[str]:
    """Names of the public functions that are no ops."""
    return sorted(FUNCTIONS.keys() - OPS.keys())


def _first_line(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").partition("\n")[0]


def _call(name: str) -> str:
    """A public function with its parameters, without their types."""
    function = FUNCTIONS.get(name) or getattr(Tensor, name)
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"


def ops_page() -> str:
    """The text of docs/ops.md: one table per family of declarations."""
    examples = ", ".join(f"`{function}` records `{op}`" for function, op in RECORDED.items())
    lines = [
        "# Ops",
        "",
        "Generated from the op registry; regenerate with `npu-tensor docs --write`.",
        "",
        "An op is what a function records, and what `explain` and `lazy: ...` in the text of a tensor name. Most have "
        f"the name of their function. Those marked as {INTERNAL} are recorded by functions of other names: {examples}. "
        "The last table has the functions that are made of several ops.",
        "",
        f"{len(OPS)} ops. An op without a GGML name has no counterpart there. What a kernel family takes depends on "
        "dtypes and shapes as well; `explain` says why one does not.",
    ]
    headings = (*OP_HEADINGS, "meaning")
    for module, declared in groupby(OPS.values(), key=attrgetter("module")):
        lines += ["", f"## {module.capitalize()}", "", markdown_row(headings), "|---" * len(headings) + "|"]
        for op in declared:
            meaning = op.doc.partition("\n")[0]
            call = f"`{op.name}` ({INTERNAL})" if is_internal(op) else f"`{_call(op.name)}`"
            lines.append(markdown_row((call, *op_row(op)[1:], meaning)))
    lines += [
        "",
        "## Functions made of several ops",
        "",
        "They record ops of the tables above, which fusion joins again where it can.",
        "",
        markdown_row(COMPOSITE_HEADINGS),
        "|---|---|---|",
    ]
    for name in composites():
        lines.append(markdown_row((f"`{_call(name)}`", *composite_row(name)[1:])))
    return "\n".join(lines) + "\n"


def _settings() -> Iterator[tuple[str, ...]]:
    for setting in SETTINGS.values():
        variable, *aliases = setting.readers
        yield _code(variable), _code(", ".join(aliases)), _code(as_text(setting.default)), setting.doc


def _device_options() -> Iterator[tuple[str, ...]]:
    for name, option in OPTIONS.items():
        default = "" if option.default is None else f"`{option.default}`"
        kinds = _code(", ".join(scheme for scheme, kind in KINDS.items() if name in kind.options))
        yield f"`{name}`", option.allowed.removeprefix("one of "), default, kinds, option.doc


class _Table(NamedTuple):
    """What follows a heading on a page of docs/."""

    page: str
    headings: Sequence[str]
    rows: Callable[[], Iterable[Sequence[str]]]


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType({"interface.md": interface_page, "ops.md": ops_page})
TABLES: Final = (
    _Table("settings.md", ("variable", "also", "default", "meaning"), _settings),
    _Table("settings.md", ("option", "values", "default", "devices", "meaning"), _device_options),
)
GENERATED: Final = tuple(dict.fromkeys((*PAGES, *(table.page for table in TABLES))))
"""Names of the pages that are generated, or have tables that are."""


def generated(page: str, text: str) -> str:
    """A page as the code has it. Raises ValueError if a table is not there: people decide where it belongs."""
    if page in PAGES:
        return PAGES[page]()
    lines = text.splitlines()
    for table in TABLES:
        if table.page != page:
            continue
        heading = markdown_row(table.headings)
        if lines.count(heading) != 1:
            raise ValueError(f"{page} must have the line {heading!r} once, with a table below it")
        start = lines.index(heading)
        end = next((number for number in range(start, len(lines)) if not lines[number].startswith("|")), len(lines))
        lines[start:end] = [heading, "|---" * len(table.headings) + "|", *map(markdown_row, table.rows())]
    return "\n".join(lines) + "\n"
