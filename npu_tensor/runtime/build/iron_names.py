"""Names of the parts of a design in an IRON program, and values as Python source."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from keyword import iskeyword
from typing import Any, Final, TypeVar

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import Design, Dims, ObjectType
from npu_tensor.dtypes import as_dtype

WIDTH: Final = 118
"""Maximum characters of a line."""

RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """
        Buffer FLAGS Kernel ObjectFifo PARAMETERS Program Runtime SOURCES TaskGroup TensorAccessPattern Tile Worker
        bfloat16 defaultdict ends enumerate fifo fifos float groups host module name np number parameters range range_
        runtime sequence word words workers
        """,
    )
)
"""Names that a program uses itself."""

Key = TypeVar("Key")


class Names:
    """Names in the program of a design.

    Attributes:
        taken: All names in use, including the reserved ones.
        symbols: Names of kernel functions, by symbol.
        hosts: Names of host buffers, by name.
        types: Names of object types.
        contents: Names of core buffers' contents, by type and bytes.
    """

    def __init__(self, design: Design) -> None:
        self.taken = set(RESERVED)
        self.symbols = self._choose({function.symbol: function.symbol for function in design.functions})
        self.hosts = self._choose({b.name: re.sub(r"^\d|\W", "_", b.name) or "_" for b in design.host_buffers})
        self.types = self._choose({type: _type_name(type) for type in _types(design)})
        contents = {(buffer.type, buffer.initial): "contents" for buffer in design.core_buffers if buffer.initial}
        self.contents = self._choose(contents)

    def _choose(self, preferred: dict[Key, str]) -> dict[Key, str]:
        names = distinct(preferred.values(), self.taken)
        self.taken.update(names)
        return dict(zip(preferred, names, strict=True))


def distinct(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return unique Python names, with a number appended if a name is already taken."""
    unique: list[str] = []
    used = set(taken)
    for name in names:
        choices = chain([name], (f"{name}_{number}" for number in count(2)))
        unique.append(next(choice for choice in choices if not iskeyword(choice) and choice not in used))
        used.add(unique[-1])
    return unique


def _types(design: Design) -> Iterator[ObjectType]:
    """Yield all types that a program mentions."""
    yield from (buffer.type for buffer in design.host_buffers)
    yield from (fifo.type for fifo in design.fifos)
    for function in design.functions:
        yield from (argument for argument in function.arguments if isinstance(argument, ObjectType))
    yield from (buffer.type for buffer in design.core_buffers)
    yield from (parameter.type for parameter in design.parameters)


def _type_name(type: ObjectType) -> str:
    return f"{as_dtype(type.dtype).name}_{'x'.join(map(str, type.shape))}"


def dtype_text(name: str) -> str:
    """Return the Python source of a dtype: np.int32, bfloat16."""
    name = as_dtype(name).name
    return name if name == "bfloat16" else f"np.{name}"


def values_text(type: ObjectType, values: bytes) -> str:
    """Return the Python source of the elements of a type: np.array([1, 2], np.int32)."""
    # NumPy does not export the memory of bfloat16 arrays; MLIR accepts any bits for the elements of the type.
    bits = as_dtype(type.dtype).name == "bfloat16"
    dtype = "np.uint16" if bits else dtype_text(type.dtype)
    if not any(values):
        return f"np.zeros({tuple_text(type.shape)}, {dtype})"
    elements = np.frombuffer(values, np.uint16 if bits else type.numpy).tolist()
    texts = ", ".join(repr(e) if np.isfinite(e) else f'float("{e}")' for e in elements)
    lines = textwrap.wrap(texts, 114, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    shape = f".reshape({tuple_text(type.shape)})" if len(type.shape) > 1 else ""
    return "\n".join(["np.array([", *lines, f"], {dtype}){shape}"])


def tile_text(tile: Tile) -> str:
    """Return the Python source of a tile: Tile(0, 2)."""
    return f"Tile({tile.column}, {tile.row})"


def dims_text(dims: Dims) -> str:
    """Return the Python source of dims: [(4, 64), (64, 1)]."""
    return "[" + ", ".join(f"({dim.size}, {dim.stride})" for dim in dims) + "]"


def tuple_text(items: Sequence[Any]) -> str:
    """Return the Python source of a tuple: (1, 2), (1,)."""
    return f"({', '.join(map(str, items))}{',' * (len(items) == 1)})"


def list_text(items: Sequence[str]) -> str:
    """Return the Python source of a list: [a, b], [a] * 2."""
    return f"[{items[0]}] * {len(items)}" if len(set(items)) == 1 < len(items) else f"[{', '.join(items)}]"


def statements_text(statements: Iterable[str], indent: str) -> str:
    """Return indented statements, each of one or several lines."""
    parts = (part for statement in statements for part in statement.split("\n"))
    return "\n".join(line for part in parts for line in wrapped(part, indent))


def wrapped(line: str, indent: str) -> list[str]:
    """Split a line that is too long at its outermost brackets, the longest pair first."""
    lines = [indent + line]
    groups = sorted(_brackets(line), key=lambda group: group[0] - group[1])
    for number in range(1, len(groups) + 1):
        if max(map(len, lines)) <= WIDTH:
            break
        lines = _broken(line, sorted(groups[:number]), indent)
    return lines


def _broken(line: str, groups: Sequence[tuple[int, int, list[int]]], indent: str) -> list[str]:
    margin = indent + line[: len(line) - len(line.lstrip())]
    lines = []
    position = 0
    for start, end, commas in groups:
        lines.append((margin if position else indent) + line[position : start + 1])
        for left, right in pairwise([start, *commas, end]):
            if part := line[left + 1 : right].strip():
                lines += wrapped(part + "," * bool(commas), margin + "    ")
        position = end
    return [*lines, margin + line[position:]]


def _brackets(line: str) -> list[tuple[int, int, list[int]]]:
    """Return the positions of the outermost brackets of a line, and of the commas directly inside."""
    groups: list[tuple[int, int, list[int]]] = []
    commas: list[int] = []
    depth, start, quoted = 0, 0, False
    for position, character in enumerate(line):
        quoted ^= character == '"'
        if quoted:
            continue
        if character in "([{":
            depth += 1
            if depth == 1:
                start, commas = position, []
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                groups.append((start, position, commas))
        elif character == "," and depth == 1:
            commas.append(position)
    return groups
