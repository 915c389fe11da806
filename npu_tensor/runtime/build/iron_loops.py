"""Statements of a Python program that repeat with other numbers become loops.

    text(['add("a0_0", 0)', 'add("a0_1", 64)', 'add("a0_2", 128)', 'add("a0_3", 192)'])

    for i in range(4):
        add(f"a0_{i}", 64 * i)

Numbers may stand by themselves or in the text of a string, and must grow by the same step from one round to the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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

NUMBER: Final = re.compile(r"(?<![\w.])(?<!\de[+-])\d+(?![\w.])")
DIGITS: Final = re.compile(r"\d+")
"""A whole number by itself, and in a string."""


class _Line(NamedTuple):
    """A statement without its numbers, of which `quoted` says which stand in a string. height: lines of text."""

    pieces: tuple[str, ...]
    quoted: tuple[bool, ...]
    height: int
    depth: int = 0


class _Loop(NamedTuple):
    """Rounds of a block: the shapes in it, and by how much each of their numbers grows from round to round."""

    rounds: int
    body: tuple[_Line | _Loop, ...]
    steps: tuple[int, ...]
    height: int
    depth: int


class _Item(NamedTuple):
    """A line or loop, and its numbers in the first round."""

    shape: _Line | _Loop
    numbers: tuple[int, ...]


def text(statements: Sequence[str], indent: str = "") -> str:
    """The statements, each of one or several lines, with loops where that is shorter."""
    items = [_parse(statement) for statement in statements]
    size = 1  # Short blocks first, then blocks of what they became, until nothing repeats.
    while size <= min(LONGEST_BLOCK, len(items) // 2):
        rolled = _with_loops(items, size)
        size = size + 1 if len(rolled) == len(items) else 1
        items = rolled
    lines: list[str] = []
    for item in items:
        lines += _render(item.shape, [[number] for number in item.numbers], indent, 0)
    return "\n".join(lines)


def _parse(statement: str) -> _Item:
    pieces, quoted, numbers = [""], [], []
    for place, part in enumerate(statement.split('"')):
        inside = place % 2 == 1
        pieces[-1] += '"' * (place > 0)
        position = 0
        for match in (DIGITS if inside else NUMBER).finditer(part):
            if match[0] == "0" or match[0][0] != "0":  # Leading zeros are text.
                pieces[-1] += part[position : match.start()]
                pieces.append("")
                quoted.append(inside)
                numbers.append(int(match[0]))
                position = match.end()
        pieces[-1] += part[position:]
    height = sum(len(wrapped(line, "        ")) for line in "0".join(pieces).split("\n"))
    return _Item(_Line(tuple(pieces), tuple(quoted), height), tuple(numbers))


# --- finding loops


def _with_loops(items: list[_Item], size: int) -> list[_Item]:
    """Loops over blocks of that size where they save enough lines."""
    rolled: list[_Item] = []
    start = 0
    while start < len(items):
        block = items[start : start + size]
        rounds, steps = _rounds(items, start, size)
        height = sum(item.shape.height for item in block)
        depth = max(item.shape.depth for item in block)
        if height * (rounds - 1) - 1 >= LEAST_SAVED and depth < len(VARIABLES):
            shapes = tuple(item.shape for item in block)
            loop = _Loop(rounds, shapes, tuple(steps), height + 1, depth + 1)
            rolled.append(_Item(loop, tuple(number for item in block for number in item.numbers)))
            start += size * rounds
        else:
            rolled.append(items[start])
            start += 1
    return rolled


def _rounds(items: list[_Item], start: int, size: int) -> tuple[int, list[int]]:
    """How often the block from `start` repeats, and by how much its numbers grow."""
    rounds = 1
    steps: list[int] = []
    for end in range(start + size, len(items) - size + 1, size):
        pairs = list(zip(items[end - size : end], items[end : end + size], strict=True))
        if any(item.shape != later.shape for item, later in pairs):
            break
        growth = [b - a for item, later in pairs for a, b in zip(item.numbers, later.numbers, strict=True)]
        if rounds > 1 and growth != steps:
            break
        rounds, steps = rounds + 1, growth
    numbers = [number for item in items[start : start + size] for number in item.numbers]
    # Two rounds look like more if their numbers count up by one, or from a multiple of the step.
    if rounds == 2 and any(step < 0 or (step > 1 and first % step) for first, step in zip(numbers, steps, strict=True)):
        return 1, []
    return rounds, steps


# --- writing them


def _render(shape: _Line | _Loop, terms: list[list[int]], indent: str, depth: int) -> list[str]:
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
