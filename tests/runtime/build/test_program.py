"""Texts of IRON programs, and the functions of their cores."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from designs import example
from iron_round_trip import compare

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, KernelFunction, ObjectType, Source, range_
from npu_tensor.runtime.build.iron_program import program

TYPE = ObjectType("int32", (64,))
FAMILIES = ("kept-column", "runtime-word", "softmax-parts", "linear-gelu", "rope", "get-rows", "permute")


def some_design(bodies: Sequence[Callable[..., None]]) -> Design:
    """One core for each body, in one column; a body is called with an input, an output and a function."""
    builder = Builder("test", "aie2p", 1)
    source = Source("test", "// no code\n")
    function = builder.function("nt_test", [TYPE, TYPE, "int32"], source)
    buffer = builder.host_buffer("x", "int32", 64 * len(bodies))
    for row, body in enumerate(bodies):
        tile = Tile(0, 2 + row)
        ends = [
            builder.fifo(f"in{row}", TYPE, Tile(0, 0), [tile], depth=4),
            builder.fifo(f"out{row}", TYPE, tile, [Tile(0, 0)], depth=4),
        ]
        builder.worker(tile, body, [*ends, function])
        for fifo, move in zip(ends, (builder.fill, builder.drain), strict=True):
            move(fifo, buffer, AccessPattern.linear(64, 64 * row))
    return builder.build()


# --- the text


@pytest.mark.parametrize("name", FAMILIES)
def test_text_is_python_without_npu_tensor(name: str) -> None:
    text = program(example(name).make("aie2p", 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]  # type: ignore[union-attr]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert imported <= {"aie", "argparse", "collections", "ml_dtypes", "numpy", "pathlib"}
    in_source = False
    for line in text.splitlines():
        in_source ^= "'''" in line
        assert len(line) <= 120 or in_source


@pytest.mark.parametrize("code", ["a = '''b''';\n", "'", "\\", 'a """ b \\n\n', "a\r\nb"])
def test_sources_are_kept_to_the_letter(code: str) -> None:
    builder = Builder('"quoted" \\ name', "aie2", 2)
    builder.function("nt_test", [TYPE], Source("strange", code, ("-DA=1", '-DB="2"')))
    tree = ast.parse(program(builder.build()))
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id in ("SOURCES", "FLAGS")  # type: ignore[attr-defined]
    }
    assert constants == {"SOURCES": {"strange.cc": code}, "FLAGS": {"strange.cc": ["-DA=1", '-DB="2"']}}


def test_names_that_python_or_the_program_uses() -> None:
    def body(source: Any, result: Any, function: KernelFunction) -> None:
        function(source.acquire(1), result.acquire(1), 1)
        source.release(1)
        result.release(1)

    builder = Builder("names", "aie2", 1)
    functions = [builder.function(symbol, [TYPE, TYPE, "int32"], Source("s", "")) for symbol in ("fifos", "lambda")]
    for name in ("in", "fifos", "2nd input", "Runtime"):
        builder.host_buffer(name, "int32", 64)
    for row, function in enumerate(functions):
        tile = Tile(0, 2 + row)
        a, b = (builder.fifo(f"{name}{row}", TYPE, *ends) for name, ends in _ends(tile))
        builder.worker(tile, body, [a, b, function])
    text = program(builder.build())
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    assert {"fifos", "fifos_2", "fifos_3", "lambda_2", "in_2", "_nd_input", "Runtime_2"} <= names


def _ends(tile: Tile) -> Iterator[tuple[str, tuple[Tile, list[Tile]]]]:
    yield "a", (Tile(0, 0), [tile])
    yield "b", (tile, [Tile(0, 0)])


# --- markers


# Wider parts of an array than 4 columns have no column to begin at in the xclbins of mlir-aie up to 1.4.0.
@pytest.mark.parametrize(
    ("columns", "device"), [(1, "NPU2Col1"), (4, "NPU2Col4"), (5, "NPU2"), (7, "NPU2"), (8, "NPU2")]
)
def test_device_of_a_number_of_columns(columns: int, device: str) -> None:
    text = program(dataclasses.replace(some_design([]), columns=columns))
    assert f"Program({device}(), runtime)" in text


# --- functions of cores


def interleaved(source: Any, result: Any, function: KernelFunction) -> None:
    """An object that is used after more of its fifo were acquired, and one that is never used."""
    one = source.acquire(1)
    for _ in range_(2):
        two = source.acquire(2)
        function(one, two[1], 0)
        result.acquire(1)
        result.release(1)
    source.release(2)


def test_objects_of_several_acquires() -> None:
    design = some_design([interleaved])
    compare(program(design), design)
