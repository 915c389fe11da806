"""A bound on the memory that pending graphs keep alive, for programs that record much and read little.

    losses = [loss_of(nt.from_numpy(batch)) for batch in batches]

Without a bound, every loss would keep its batch until it is read. Bytes are counted where values enter the package.
Each time a part of the budget has arrived, the pending results that the program can still read are computed.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Final

from npu_tensor.errors import NpuTensorError
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.tracing import current_watch
from npu_tensor.planner.planner import realize

BUDGET: Final = 256 << 20
"""Bytes that pending graphs may keep alive: little compared with the memory of machines that train models."""

PARTS: Final = 4
"""Number of parts of the budget. Pending graphs are computed whenever a part has arrived. Results recorded before the
first part are not known and those of the last part are still pending, so at most two parts are in use and the rest is
for computing."""

CROWDED: Final = 4096
"""Number of remembered nodes at which dead ones are dropped."""


class Pressure:
    """Pending nodes that may hold much memory.

    Attributes:
        remembers: True once a part of the budget has arrived. Small programs never pay for remembering nodes.
    """

    __slots__ = ("_arrived", "_crowded", "_nodes", "remembers")

    def __init__(self) -> None:
        self.remembers = False
        self._arrived = 0
        self._crowded = CROWDED
        self._nodes: list[weakref.ref[Node]] = []

    def remember(self, node: Node) -> None:
        """Note a node that has just been recorded."""
        if current_watch() is not None:
            return  # A function is being captured: its nodes have no values.
        self._nodes.append(weakref.ref(node))
        if len(self._nodes) > self._crowded:
            self._crowded = CROWDED + 2 * len(self._living())

    def arrive(self, nbytes: int) -> None:
        """Count bytes of a value from outside. Compute pending results if a part of the budget has arrived."""
        self._arrived += nbytes
        if self._arrived < BUDGET // PARTS or current_watch() is not None:
            return
        self._arrived = 0
        self.remembers = True
        living = self._living()
        read = {operand for node in living for operand in (*node.inputs, *_history(node)) if isinstance(operand, Node)}
        for node in living:
            # One by one, so that results of equal structure share a plan. A result through which gradients pass keeps
            # its operands alive in any case.
            if node.value is None and node not in read and not _history(node):
                with suppress(NpuTensorError):  # The program gets the error when it reads the value.
                    realize((node,), wait=False)

    def _living(self) -> list[Node]:
        """Return the living remembered nodes that are pending, or that a backward pass may read."""
        references, self._nodes = self._nodes, []
        nodes = [node for reference in references if (node := reference()) is not None]
        living = [node for node in nodes if node.value is None or _history(node)]
        self._nodes += map(weakref.ref, living)
        return living


def _history(node: Node) -> tuple[object, ...]:
    return node.history if isinstance(node.history, tuple) else ()


pressure: Final = Pressure()
