"""Command `npu-tensor ops`, and the rows of its tables, which the documentation shares."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.observe.drawing.text import beside
from npu_tensor.ops import OPS, Op, registry

COMPOSITE_HEADINGS: Final = ("function", "GGML name", "meaning")
INTERNAL: Final = "internal"
_KEYS: Final = ("ggml", "dtypes", "cpu", "npu")
_QUOTED: Final = re.compile(r"(: |-> )'([^']*)'")

FAMILIES: Final = {"map": "elementwise", "row": "rowwise", "matmul": "gemm"}
"""NPU kernel families by kind of op. Data ops and convolutions have families of their own."""


def is_internal(op: Op) -> bool:
    """Return True if the op has no public function or method of its name. Other functions record it."""
    return op.name not in registry.PUBLIC


def op_row(op: Op) -> tuple[str, ...]:
    """Return name, GGML name, dtypes, CPU implementation and NPU kernel family of an op."""
    from npu_tensor.kernels.families import BY_OP
    from npu_tensor.runtime.cpu.data_ops import COMPILED

    name = f"{op.name} ({INTERNAL})" if is_internal(op) else op.name
    if op.kind == "view":
        return name, op.ggml, op.dtypes, "no kernel", ""
    compiled = op.kind != "data" or op.name in COMPILED
    claim = BY_OP.get(op.name)
    family = claim.__module__.rpartition(".")[2] if claim else FAMILIES.get(op.kind, "")
    return name, op.ggml, op.dtypes, "compiled" if compiled else "NumPy", family


def composites() -> list[str]:
    """Return the names of public functions that are not ops, without in-place forms."""
    return sorted(name for name in registry.functions().keys() - OPS.keys() if not is_in_place(name))


def is_in_place(name: str) -> bool:
    """Return True if a function is the in-place form of another one."""
    return name.endswith("_") and name[:-1] in registry.PUBLIC


def composite_row(name: str) -> tuple[str, str, str]:
    """Return the cells under COMPOSITE_HEADINGS for a function of several ops."""
    entry = registry.PUBLIC[name]
    return name, entry.ggml, (entry.function.__doc__ or "").partition("\n")[0]


@click.command()
@click.argument("pattern", required=False)
@json_option("an array of ops and functions")
def ops(pattern: str | None, json_file: Path | None) -> None:
    """List the ops, or describe some.

    Described are those whose name or GGML name has PATTERN in it: signature, what `help` says, where it can run. The
    list has GGML name, dtypes and kernel family of each op, and then the functions that are made of several ops.
    """
    names = [name for name in (*OPS, *composites()) if pattern is None or _fits(pattern, name)]
    if not names:
        near = difflib.get_close_matches(str(pattern), [*OPS, *composites()], 3, 0.5)
        hint = f"; there are {', '.join(near)}" if near else ""
        raise click.ClickException(f"no op or function has {pattern!r} in its name{hint}")
    if put_json(json_file, [_as_dict(name) for name in names]):
        return
    if pattern is not None:
        click.echo("\n\n".join(map(_description, names)))
        return
    title = f"{len(OPS)} ops; functions of other names record the internal ones"
    functions = composites()
    lines = [
        title,
        *map(_op_lines, OPS.values()),
        f"\n{len(functions)} functions made of several ops",
        *map(_function_lines, functions),
    ]
    click.echo("\n".join(lines))


def _op_lines(op: Op) -> str:
    name, ggml, dtypes, cpu, npu = op_row(op)
    devices = f"CPU: {cpu}, NPU: {npu}" if npu else f"CPU: {cpu}"
    facts = filter(None, (ggml and f"GGML: {ggml}", devices, f"dtypes: {dtypes}"))
    return "\n".join(beside(name, "; ".join(facts)))


def _function_lines(name: str) -> str:
    _, ggml, meaning = composite_row(name)
    return "\n".join(beside(name, f"{meaning} GGML: {ggml}." if ggml else meaning))


def _fits(pattern: str, name: str) -> bool:
    ggml = OPS[name].ggml if name in OPS else registry.PUBLIC[name].ggml
    return pattern.lower() in name or pattern.lower() in ggml.lower()


def _function(name: str) -> Callable[..., Any]:
    """Return a public function, or the recorder of an internal op."""
    return registry.functions().get(name) or OPS[name].record


def signature(name: str) -> str:
    """Return name and typed parameters of an op or a function."""
    return name + _QUOTED.sub(r"\1\2", str(inspect.signature(_function(name))))


def _as_dict(name: str) -> dict[str, str]:
    row = op_row(OPS[name])[1:] if name in OPS else (composite_row(name)[1], "", "", "")
    text = inspect.getdoc(_function(name)) or ""
    return {"name": name, "signature": signature(name), "text": text} | dict(zip(_KEYS, row, strict=True))


def _description(name: str) -> str:
    known = _as_dict(name)
    text = known["text"]
    if known["dtypes"]:
        text += f"\n\nIt can run: CPU, {known['cpu']}; NPU kernels, {known['npu'] or 'none'}."
    return f"{known['signature']}\n\n{textwrap.indent(text, '    ')}"
