"""Rules for links of memtiles: splits, joins and forwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index, Violation
from npu_tensor.dataflow.design import Link, ObjectFifo


def _name(link: Link) -> str:
    return f"the {link.kind} of {', '.join(link.inputs)} into {', '.join(link.outputs)} in {link.tile}"


def sides(index: Index) -> Iterator[Violation]:
    """Check that one side of a link is a single fifo, and that a fifo is in at most one link."""
    for link in index.design.links:
        inputs, outputs = len(link.inputs), len(link.outputs)
        if min(inputs, outputs) != 1:
            message = (
                f"a link in {link.tile} has {inputs} inputs and {outputs} outputs; one side must be a single fifo."
            )
            yield Violation("link sides", str(link.tile), message)
    used = Counter(name for link in index.design.links for name in (*link.inputs, *link.outputs))
    for name, count in used.items():
        if count > 1:
            yield Violation("link sides", name, f"fifo {name} is in {count} links, and can be in 1.")


def ends(index: Index) -> Iterator[Violation]:
    """Check that inputs are consumed and outputs produced at the memtile of their link."""
    for link in index.design.links:
        for name in link.inputs:
            consumers = index.fifos[name].consumers
            # mlir-aie looks for the memtile of a split or join at the first consumer only.
            if link.tile not in (consumers if link.kind == "forward" else consumers[:1]):
                yield _elsewhere(link, index.fifos[name], "consumed", consumers)
        for name in link.outputs:
            if index.fifos[name].producer != link.tile:
                yield _elsewhere(link, index.fifos[name], "produced", (index.fifos[name].producer,))


def _elsewhere(link: Link, fifo: ObjectFifo, verb: str, tiles: tuple[Tile, ...]) -> Violation:
    places = ", ".join(map(str, tiles))
    message = f"{_name(link)}: fifo {fifo.name} is {verb} at {places}, and must be at {link.tile}."
    return Violation("link ends", fifo.name, message)


def parts(index: Index) -> Iterator[Violation]:
    """Check that the parts of a split or join fill the object in order, and that object sizes of a forward divide."""
    for link in index.design.links:
        if link.kind == "forward":
            yield from _forward(index, link)
        else:
            yield from _partition(index, link)


def dims(index: Index) -> Iterator[Violation]:
    """Check that a memtile receives objects to split in order: mlir-aie rejects any other order there."""
    for link in index.design.links:
        fifo = index.fifos[link.inputs[0]]
        if link.kind == "split" and any(fifo.dims_from_stream):
            message = f"{_name(link)}: fifo {fifo.name} has dims_from_stream, and what is split must come in order."
            yield Violation("link dims", fifo.name, message)


def _partition(index: Index, link: Link) -> Iterator[Violation]:
    whole = index.stored(link).type
    if len(link.offsets) != len(link.parts):
        message = f"{_name(link)} has {len(link.offsets)} offsets for {len(link.parts)} parts."
        yield Violation("link offsets", str(link.tile), message)
        return
    position = 0
    for name, offset in zip(link.parts, link.offsets, strict=True):
        part = index.fifos[name].type
        if part.dtype != whole.dtype:
            yield Violation("link offsets", name, f"{_name(link)}: {name} has {part}, the whole {whole}.")
            return
        if offset != position:
            what = "leaves a gap" if offset > position else "overlaps"
            message = f"{_name(link)} {what}: the part {name} begins at element {offset} instead of {position}."
            yield Violation("link offsets", name, message)
            return
        position += part.elements
    if position != whole.elements:
        message = f"{_name(link)}: the parts have {position} elements together, the whole {whole.elements}."
        yield Violation("link offsets", str(link.tile), message)


def _forward(index: Index, link: Link) -> Iterator[Violation]:
    source, result = index.fifos[link.inputs[0]].type, index.fifos[link.outputs[0]].type
    small, large = sorted((source.nbytes, result.nbytes))
    if large % small:
        message = (
            f"{_name(link)}: objects of {source.nbytes} bytes become objects of {result.nbytes}, and one must divide "
            "the other."
        )
        yield Violation("link sizes", str(link.tile), message)
    if any(link.offsets):
        yield Violation("link offsets", str(link.tile), f"{_name(link)} has offsets, and a forward has none.")
