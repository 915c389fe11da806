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

    placement: the keyword that puts a worker, a link or a transfer on a tile. placer: whether `resolve_program` takes a
    placer, which also puts buffers on the tiles of their workers. sequence_function: whether the runtime takes what the
    host does as a function, in which fifo handles fill and drain, instead of recording calls of its own methods.
    dynamic_argument: whether a Worker is told by an argument that its buffers are chosen while it runs; if not, the
    attribute of its core says so.
    """

    name: str
    placement: str
    placer: bool
    sequence_function: bool
    dynamic_argument: bool


DIALECTS: Final[dict[str, Dialect]] = {
    row.name: row
    for row in (
        Dialect("1.3.1", "placement", placer=True, sequence_function=False, dynamic_argument=False),
        Dialect("1.3.2", "tile", placer=False, sequence_function=False, dynamic_argument=False),
        Dialect("1.3.4", "tile", placer=False, sequence_function=False, dynamic_argument=True),
        Dialect("1.4", "tile", placer=False, sequence_function=True, dynamic_argument=True),
    )
}

RELEASES: Final = (((1, 4), "1.4"), ((1, 3, 3), "1.3.4"), ((1, 3, 2), "1.3.2"), ((1, 3), "1.3.1"))
"""The first release that speaks each dialect, newest first. Development versions count as the release they lead to."""

NIGHTLIES: Final = ((20260729, "1.4"), (20260612, "1.3.4"), (20260416, "1.3.2"), (20260322, "1.3.1"))
"""The same for versions that are 0.0.1 and a date: from the day after the change was merged."""


def dialect(version: str) -> Dialect:
    """The dialect of a version of mlir-aie, such as "1.3", "1.4.1", "1.3.5.dev10+g01ab" or "0.0.1.2026031504+01ab".

    1.3 without a third number is 1.3.1. ArgumentError for what is no version, is older than 1.3 or is not 1.x.
    """
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    parts = tuple(map(int, numbers[1].split("."))) if numbers else ()
    if parts[:3] == (0, 0, 1) and len(parts) > 3:
        day = int(str(parts[3])[:8])
        name = next((name for first, name in NIGHTLIES if day >= first), None)
    else:
        name = next((name for first, name in RELEASES if parts >= first), None) if parts[:1] == (1,) else None
    if name is None:
        known = ", ".join(DIALECTS)
        raise ArgumentError(f"no IRON dialect for mlir-aie {version!r}; choose one of {known}, or a release since 1.3")
    return DIALECTS[name]
