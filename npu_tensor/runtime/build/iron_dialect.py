"""How the generations of mlir-aie differ in what an IRON program has to say, one row each.

Read in the sources of Xilinx/mlir-aie between March and August 2026.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from npu_tensor.errors import ArgumentError

__all__ = ["DIALECTS", "Dialect", "dialect"]


class Dialect(NamedTuple):
    """How one generation of mlir-aie writes things.

    since: the first release that speaks it. placement: the keyword that puts a worker, a link or a transfer on a tile.
    placer: whether `resolve_program` takes a placer, which also puts buffers on the tiles of their workers.
    sequence_function: whether the runtime takes what the host does as a function, in which fifo handles fill and drain,
    instead of recording calls of its own methods. dynamic_argument: whether an argument of a Worker says that its
    buffers are chosen while it runs; if not, an attribute of its core does.
    """

    name: str
    since: tuple[int, ...]
    placement: str
    placer: bool
    sequence_function: bool
    dynamic_argument: bool


DIALECTS: Final[dict[str, Dialect]] = {
    row.name: row
    for row in (
        Dialect("1.3.1", (1, 3), "placement", placer=True, sequence_function=False, dynamic_argument=False),
        Dialect("1.3.2", (1, 3, 2), "tile", placer=False, sequence_function=False, dynamic_argument=False),
        Dialect("1.3.4", (1, 3, 3), "tile", placer=False, sequence_function=False, dynamic_argument=True),
        Dialect("1.4", (1, 4), "tile", placer=False, sequence_function=True, dynamic_argument=True),
    )
}


def dialect(version: str) -> Dialect:
    """The dialect of a release of mlir-aie, such as "1.3", "1.4.1" or "1.3.5.dev10+g01ab", which leads to 1.3.5.

    1.3 without a third number is 1.3.1. ArgumentError for what is no version, is older than 1.3 or is not 1.x.
    """
    numbers = re.match(r"v?(1(?:\.\d+)*)(?!\d)", version.strip())
    release = tuple(map(int, numbers[1].split("."))) if numbers else ()
    for row in reversed(DIALECTS.values()):
        if release >= row.since:
            return row
    known = ", ".join(DIALECTS)
    raise ArgumentError(f"no IRON dialect for mlir-aie {version!r}; choose one of {known}, or a release since 1.3")
