"""The command `npu-tensor ops`, and the rows of its tables, which the pages of the documentation have, too."""

from __future__ import annotations

from typing import Final

import click

from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.ops import OPS, Op, registry

__all__ = ["ops"]

OP_HEADINGS: Final = ("op", "GGML name", "dtypes", "CPU", "NPU kernel family")
COMPOSITE_HEADINGS: Final = ("function", "GGML name", "meaning")
INTERNAL: Final = "internal"

FAMILIES: Final = {"map": "elementwise", "row": "rowwise", "matmul": "gemm"}
"""NPU kernel families by kind of op; data ops have some of their own."""


def is_internal(op: Op) -> bool:
    """Whether there is neither a function nor a method of its name: others record it."""
    return op.name not in registry.PUBLIC


def op_row(op: Op) -> tuple[str, ...]:
    """The cells of an op under OP_HEADINGS."""
    from npu_tensor.kernels.families import DATA_OPS
    from npu_tensor.runtime.cpu.data_ops import COMPOSED

    name = f"{op.name} ({INTERNAL})" if is_internal(op) else op.name
    if op.kind == "view":
        return name, op.ggml, op.dtypes, "no kernel", ""
    compiled = op.kind != "data" or op.name in COMPOSED
    claim = DATA_OPS.get(op.name) if op.kind == "data" else None
    family = claim.__module__.rpartition(".")[2] if claim else FAMILIES.get(op.kind, "")
    return name, op.ggml, op.dtypes, "compiled" if compiled else "NumPy", family


def composites() -> list[str]:
    """Names of the public functions that are no ops."""
    return sorted(registry.functions().keys() - OPS.keys())


def composite_row(name: str) -> tuple[str, str, str]:
    """The cells of a function that is made of several ops under COMPOSITE_HEADINGS."""
    entry = registry.PUBLIC[name]
    return name, entry.ggml, (entry.function.__doc__ or "").partition("\n")[0]


@click.command()
def ops() -> None:
    """List the ops.

    Each with its GGML name, dtypes and kernel family; then the functions that are made of several ops.
    """
    title = f"{len(OPS)} ops; functions of other names record the internal ones"
    print_table(title, OP_HEADINGS, map(op_row, OPS.values()))
    names = composites()
    print_table(f"{len(names)} functions made of several ops", COMPOSITE_HEADINGS, map(composite_row, names))
