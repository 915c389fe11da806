"""Statements of a Python program that repeat with other numbers become loops.

    text(['add("a0_0", 0)', 'add("a0_1", 64)', 'add("a0_2", 128)', 'add("a0_3", 192)'])

    for i in range(4):
        add(f"a0_{i}", 64 * i)

Numbers may stand by themselves or in the text of a string, and must grow by the same step from one round to the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["VARIABLES", "text", "wrapped"]

VARIABLES: Final = ("i", "j", "k", "l", "m", "n")
"""Of nested loops, outermost first."""

LONGEST_BLOCK: Final = 64
"""Statements that are looked at as the body of a loop."""

LEAST_SAVED: Final = 2
"""Lines that a loop must save."""

WIDTH: Final = 118
"""Characters of a line."""

TOKEN: Final = re.compile(r'"[^"]*"|\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|0x[0-9a-fA-F]+|[A-Za-z_]\w*|\d+')


class _Line(NamedTuple):
    """A statement without its numbers, of which `quoted` says which stand in a string."""

    pieces: tuple[str, ...]
    quoted: tuple[bool, ...]


class _Loop(NamedTuple):
    """Rounds of a block: the shapes in it, and by how much each of their numbers grows from round to round."""

    rounds: int
    body: tuple[_Shape, ...]
    steps: tuple[int, ...]


_Shape = _Line | _Loop


class _Item(NamedTuple):
    """A line or loop, and its numbers in the first round."""

    shape: _Shape
    numbers: tuple[int, ...]


def text(statements: Sequence[str], indent: str = "") -> str:
    """The statements, each of one or several lines, with loops where that is shorter."""
    items = [_parse(statement) for statement in statements]
    lines: list[str] = []
    for item in _rolled(items):
        lines += _render(item.shape, [[number] for number in item.numbers], indent, 0)
    return "\n".join(lines)


def _parse(statement: str) -> _Item:
    pieces, quoted, numbers = [""], [], []

    def number(digits: str, inside: bool) -> None:
        if str(int(digits)) != digits:  # leading zeros are text
            pieces[-1] += digits
            return
        numbers.append(int(digits))
        quoted.append(inside)
        pieces.append("")

    position = 0
    for match in TOKEN.finditer(statement):
        pieces[-1] += statement[position : match.start()]
        position, token = match.end(), match[0]
        if token.startswith('"'):
            for part in re.split(r"(\d+)", token):
                if part.isdigit():
                    number(part, inside=True)
                else:
                    pieces[-1] += part
        elif token.isdigit():
            number(token, inside=False)
        else:
            pieces[-1] += token
    pieces[-1] += statement[position:]
    return _Item(_Line(tuple(pieces), tuple(quoted)), tuple(numbers))


# --- finding loops


def _rolled(items: list[_Item]) -> list[_Item]:
    """Short blocks first, then blocks of what they became, until nothing repeats."""
    size = 1
    while size <= min(LONGEST_BLOCK, len(items) // 2):
        rolled = _with_loops(items, size)
        size = size + 1 if len(rolled) == len(items) else 1
        items = rolled
    return items


def _with_loops(items: list[_Item], size: int) -> list[_Item]:
    """Loops over blocks of that size where they save enough lines."""
    rolled: list[_Item] = []
    start = 0
    while start < len(items):
        rounds = _rounds(items, start, size)
        block = items[start : start + size]
        saved = sum(_height(item.shape) for item in block) * (rounds - 1) - 1
        if saved >= LEAST_SAVED and max(_depth(item.shape) for item in block) < len(VARIABLES):
            rolled.append(_loop(block, items[start + size : start + 2 * size], rounds))
            start += size * rounds
        else:
            rolled.append(items[start])
            start += 1
    return rolled


def _rounds(items: list[_Item], start: int, size: int) -> int:
    """How often the block from `start` repeats."""
    end = start + size
    while end < len(items) and items[end].shape == items[end - size].shape:
        if end >= start + 2 * size and _steps(items[end - size], items[end]) != _steps(
            items[end - 2 * size], items[end - size]
        ):
            break
        end += 1
    rounds = (end - start) // size
    return rounds if rounds != 2 or _counts(items[start : start + size], items[start + size : end]) else 1


@lru_cache(maxsize=1024)
def _height(shape: _Shape) -> int:
    """Lines of text."""
    if isinstance(shape, _Line):
        return sum(len(wrapped(part, "        ")) for part in "0".join(shape.pieces).split("\n"))
    return 1 + sum(map(_height, shape.body))


def _depth(shape: _Shape) -> int:
    """Of nested loops."""
    return 0 if isinstance(shape, _Line) else 1 + max(map(_depth, shape.body))


def _steps(item: _Item, later: _Item) -> list[int]:
    return [b - a for a, b in zip(item.numbers, later.numbers, strict=True)]


def _counts(block: list[_Item], second: list[_Item]) -> bool:
    """Whether two rounds look like more: their numbers count up by one, or from a multiple of the step."""
    for item, later in zip(block, second, strict=False):
        for first, step in zip(item.numbers, _steps(item, later), strict=True):
            if step < 0 or (step > 1 and first % step):
                return False
    return True


def _loop(block: list[_Item], second: list[_Item], rounds: int) -> _Item:
    steps = [step for pair in zip(block, second, strict=True) for step in _steps(*pair)]
    numbers = tuple(number for item in block for number in item.numbers)
    return _Item(_Loop(rounds, tuple(item.shape for item in block), tuple(steps)), numbers)


# --- writing them


def _render(shape: _Shape, terms: list[list[int]], indent: str, depth: int) -> list[str]:
    """terms: of each number its first value and its steps in the loops around it, outermost first."""
    if isinstance(shape, _Line):
        return [line for part in _line(shape, terms).split("\n") for line in wrapped(part, indent)]
    lines = [f"{indent}for {VARIABLES[depth]} in range({shape.rounds}):"]
    rest = [[*term, step] for term, step in zip(terms, shape.steps, strict=True)]
    for part in shape.body:
        count = len(part.quoted if isinstance(part, _Line) else part.steps)
        lines += _render(part, rest[:count], indent + "    ", depth + 1)
        rest = rest[count:]
    return lines


def _line(line: _Line, terms: list[list[int]]) -> str:
    result = line.pieces[0]
    for quoted, term, piece in zip(line.quoted, terms, line.pieces[1:], strict=True):
        value = _sum(term)
        if not value.isdigit():
            if quoted:
                start = result.rindex('"')  # of the string that the number stands in
                if result[start - 1] != "f":
                    result = f"{result[:start]}f{result[start:]}"
                value = f"{{{value}}}"
            elif result.endswith("* "):
                value = f"({value})"
        result += value + piece
    return result


def _sum(term: Sequence[int]) -> str:
    constant, *steps = term
    parts = []
    for variable, step in zip(VARIABLES, steps, strict=False):
        if step:
            parts.append(("-" if step < 0 else "+", variable if abs(step) == 1 else f"{abs(step)} * {variable}"))
    if constant or not parts:
        parts.append(("-" if constant < 0 else "+", str(abs(constant))))
    sign, first = parts[0]
    return ("-" if sign == "-" else "") + first + "".join(f" {sign} {part}" for sign, part in parts[1:])


def wrapped(line: str, indent: str) -> list[str]:
    """The line, or if it is too long with what stands in its outermost brackets on lines of its own, the longest first.
    """
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
    """Where the outermost brackets of a line open and close, and the commas directly inside."""
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
