"""Pages docs/functions/NAME.md, one per public function: text of `help`, an example, and supported devices."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any, Final

import numpy as np
from interface import as_markdown

import npu_tensor as nt
from npu_tensor.cli.ops import is_in_place, is_internal, op_row, signature
from npu_tensor.ops import OPS, registry

__all__ = ["NAMES", "PAGES", "example", "function_page", "link_to"]

NAMES: Final = [name for name in sorted(registry.functions()) if not is_in_place(name)]

COMPOSITES: Final = "Functions made of several ops"
"""Heading of the table of such functions in ops.md."""

WIDTH: Final = 80
"""Width of a line of a signature in characters."""

SHORT_NAME: Final = 100
"""Weight of a function's page in the search, by the third power of the length of its name, from three letters on.

The search finds all names that begin with the word, and prefers rare ones: without weights, `add1` comes before `add`.
Weights hold for the whole text of a page, so they are no larger than tests/browser/test_site.py needs.
"""


def _way_back(name: str) -> str:
    """Return links to the list of ops and to the function's group there. No menu lists the pages of all functions."""
    group = OPS[name].module.capitalize() if name in OPS else COMPOSITES
    return f"[Functions and ops](../ops.md): [{group}](../ops.md#{group.lower().replace(' ', '-')})"


def link_to(name: str, folder: str = "functions/") -> str:
    """Return a function's name as a link from ops.md, or from one of these pages, whose folder is ""."""
    return f"[`{name}`]({folder}{name}.md)" if name in registry.functions() else f"`{name}`"


def example(name: str) -> str:
    """Return the source of a function's example, an expression; "" if there is none."""
    text = inspect.getdoc(registry.functions()[name]) or ""
    return next((line.strip()[4:] for line in text.splitlines() if line.strip().startswith(">>> ")), "")


def evaluated(source: str) -> Any:
    """Return the value of an example."""
    return eval(source, {"nt": nt, "np": np})


def _signature(name: str) -> str:
    text = f"nt.{signature(name)}"
    if len(text) <= WIDTH:
        return text
    start, parameters, end = re.fullmatch(r"(.*?\()(.*)(\) -> .*)", text).groups()  # type: ignore[union-attr]
    lines = re.split(r", (?=[*\w]+(?::|$|,))", parameters)
    return "\n".join([start, *(f"    {line}," for line in lines), end])


def _recorded(value: Any) -> dict[str, None]:
    """Return the names of the ops recorded for a result, in order."""
    tensors = value if isinstance(value, tuple) else (value,)
    graphs = [tensor.graph for tensor in tensors if isinstance(tensor, nt.Tensor)]
    names = [data["op"] for graph in graphs for _, data in graph.nodes(data=True)]
    return dict.fromkeys(name for name in names if name in OPS)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def function_page(name: str) -> str:
    """Return the text of one page."""
    entry = registry.PUBLIC[name]
    function = entry.function
    assert function is not None
    source = example(name)
    value = evaluated(source) if source else None
    ops = {entry.op.name: None} if entry.op is not None else _recorded(value)
    forms = [f"x.{name}" if entry.method else "", f"x.{name}_" if entry.in_place else ""]
    others = [*inspect.signature(function).parameters.values()][1:]
    needed = ", ".join(str(each.replace(annotation=each.empty)) for each in others if _is_needed(each))
    methods = " and ".join(f"`{form}({needed})`" for form in forms if form)
    lines = ["---", "search:", f"  boost: {max(1, SHORT_NAME / max(len(name), 3) ** 3):.3g}", "---", ""]
    lines += [f"# {name}", "", _way_back(name), "", "```text", _signature(name), "```", ""]
    lines += [f"Also a method: {methods}.", ""] if methods else []
    lines += [*as_markdown(inspect.getdoc(function) or "", "## {}"), ""]
    if source:
        imports = ["import numpy as np"] if "np." in source else []
        lines += ["## Example", "", "```python", *imports, "import npu_tensor as nt", "", f"print({source})", "```", ""]
        lines += ["Output:", "", "```text", str(value), "```", ""]
    if ops:
        lines += ["## Where it can run", "", "| op | dtypes | CPU | NPU kernels |", "|---|---|---|---|"]
        for op in map(OPS.__getitem__, ops):
            _, _, dtypes, cpu, npu = op_row(op)
            shown = f"`{op.name}`" if is_internal(op) else link_to(op.name, "")
            lines.append(f"| {shown} | {dtypes} | {cpu} | {npu or 'none'} |")
        if entry.op is None:
            lines += ["", "These are the ops that the example records."]
        lines += ["", "`nt.explain` shows where a call runs and why."]
    return "\n".join(lines) + "\n"


PAGES: Final = {f"functions/{name}.md": partial(function_page, name) for name in NAMES}
