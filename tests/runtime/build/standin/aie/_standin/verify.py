"""What MLIR's verifiers refuse in a module (lib/Dialect/AIE/IR/AIEDialect.cpp and func.call), as MLIRError."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .record import Acquire, Call, Core, Fifo, Link, Loop, MLIRError, Module, Release
from .types import MemRef, Scalar, Value

__all__ = ["verify"]

ROWS = 6


def verify(module: Module) -> None:
    """Raise the first error."""
    for symbol, count in Counter(_symbols(module)).items():
        if count > 1:
            raise MLIRError(f"redefinition of symbol named '{symbol}'")
    _tiles(module)
    fifos = {fifo.name: fifo for fifo in module.fifos}
    for fifo in module.fifos:
        _fifo(fifo)
    for link in module.links:
        _link(link, fifos)
    functions = {function.symbol: function.arguments for function in module.functions}
    for core in module.cores:
        for operation in _operations(core.body):
            if isinstance(operation, (Acquire, Release)):
                _port(operation, core, fifos[operation.fifo])
            elif isinstance(operation, Call):
                _call(operation, functions[operation.function])


def _symbols(module: Module) -> Iterator[str]:
    for operation in (*module.fifos, *module.buffers):
        yield operation.name
    for function in module.functions:
        yield function.symbol
    yield "sequence"


def _tiles(module: Module) -> None:
    for tile in module.tiles:
        if tile.column is not None and not 0 <= tile.column < module.columns:
            raise MLIRError(
                f"'aie.logical_tile' op column index ({tile.column}) must be less than the number of columns in the"
                f" device ({module.columns})"
            )
        if tile.row is None:
            continue
        if not 0 <= tile.row < ROWS:
            raise MLIRError(f"'aie.logical_tile' op row index ({tile.row}) must be less than {ROWS}")
        if tile.kind != ("shim", "memtile", *["core"] * 4)[tile.row]:
            raise MLIRError(
                "'aie.logical_tile' op declared logical tile type does not match the tile type at coordinates"
                f" ({tile.column}, {tile.row})"
            )


def _fifo(fifo: Fifo) -> None:
    if fifo.producer.kind == "shim" and fifo.dims_to_stream:
        raise MLIRError("`dimensionsToStream` data layout transformations are not supported on shim tile producers")
    for consumer, dims in zip(fifo.consumers, fifo.dims_from_stream, strict=True):
        if consumer.kind == "shim" and dims:
            raise MLIRError("`dimensionsFromStreamPerConsumer` is not supported on shim tile consumers")


def _link(link: Link, fifos: dict[str, Fifo]) -> None:
    inputs, outputs = [fifos[name] for name in link.inputs], [fifos[name] for name in link.outputs]
    join, distribute = len(inputs) > 1, len(outputs) > 1
    if join and distribute:
        raise MLIRError("ObjectFifoLinkOp does not support 'join' and 'distribute' at the same time")
    shared = next((tile for tile in inputs[0].consumers if tile is outputs[0].producer), None)
    if shared is None:
        raise MLIRError("ObjectFifoLinkOp must have a link point, i.e., a shared tile between objectFifos")
    if shared.kind != "memtile" and (join or distribute):
        raise MLIRError("ObjectFifoLinkOp join and distribute are unavailable on compute or shim tiles")
    if join and len(link.input_offsets) != len(inputs):
        raise MLIRError("number of provided src offsets must be equal to the number of input objectFifos")
    if distribute and len(link.output_offsets) != len(outputs):
        raise MLIRError("number of provided dst offsets must be equal to the number of output objectFifos")
    if join:
        _reach(outputs[0].dims_to_stream, link.input_offsets, outputs[0].type)
    if distribute:
        _reach(inputs[0].dims_from_stream[0], link.output_offsets, inputs[0].type)


def _reach(dims: list[tuple[int, int]], offsets: list[int], whole: MemRef) -> None:
    """The dimensions of the single fifo hold for each part, which must be long enough for them."""
    if not dims:
        return
    last = sum((size - 1) * stride for size, stride in dims)
    edges = [*sorted(offsets), math.prod(whole.shape)]
    shortest = min(end - begin for begin, end in pairwise(edges))
    if shortest <= last:
        raise MLIRError(
            f"specified stride(s) and size(s) result in out of bounds access for index {last} in transfer of length"
            f" {shortest}."
        )


def _operations(body: list[Any]) -> Iterator[Any]:
    for operation in body:
        if isinstance(operation, Loop):
            yield from _operations(operation.body)
        else:
            yield operation


def _port(operation: Acquire | Release, core: Core, fifo: Fifo) -> None:
    tiles = [fifo.producer] if operation.port == "prod" else fifo.consumers
    if not any(tile is core.tile for tile in tiles):
        end = "producer" if operation.port == "prod" else "consumer"
        raise MLIRError(f"'aie.core' op {end} port of objectFifo accessed by core running on non-{end} tile")


def _call(call: Call, expected: list[Any]) -> None:
    for number, (value, type) in enumerate(zip(call.arguments, expected, strict=True)):
        if isinstance(value, Value) and value.type != type and not _converts(value.type, type):
            raise MLIRError(
                f"'func.call' op operand type mismatch: expected operand type '{type}', but provided '{value.type}'"
                f" for operand number {number}"
            )


def _converts(given: Any, expected: Any) -> bool:
    """Kernels flatten what they get; a loop's index becomes any integer."""
    if isinstance(given, Scalar):
        return isinstance(expected, Scalar) and "int" in expected.dtype
    flat = isinstance(expected, MemRef) and len(expected.shape) == 1
    return bool(flat and given.dtype == expected.dtype and math.prod(given.shape) == expected.shape[0])
