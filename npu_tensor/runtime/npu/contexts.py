"""Hardware contexts, each with one loaded binary. The driver allows a few for all processes together.

A context takes about 35 ms to create and about 2 ms to switch to. Contexts are therefore kept, and the least recently
used one is closed when the driver refuses another.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npu_tensor import events
from npu_tensor.dataflow.array import Arch
from npu_tensor.runtime.npu.driver import Context, DriverError, NpuProgram

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_engine import NpuEngine

MOST_CONTEXTS: Final[dict[Arch, int]] = {"aie2": 6, "aie2p": 16}
"""Upper bound on open contexts. The driver may allow fewer because it counts those of all processes."""

BUSY_SECONDS: Final = 0.1
"""Wait before the second attempt, if the driver has no context and none can be closed here."""


class Contexts:
    """The open contexts of one NPU, least recently used first."""

    def __init__(self, engine: NpuEngine) -> None:
        self._engine = engine
        self._loaded: OrderedDict[str, Context] = OrderedDict()

    def get(self, program: NpuProgram) -> Context:
        """Return the context of a program's binary, and load it if necessary.

        Raises:
            BuildError: The binary does not fit the program.
            DriverError: The driver provides no context, even after all contexts of this process were closed.
        """
        engine, context = self._engine, self._loaded.get(program.binary)
        if context is not None:
            self._loaded.move_to_end(program.binary)
            return context
        while len(self._loaded) >= MOST_CONTEXTS[engine.arch]:
            self._evict()
        has_waited = False
        while context is None:
            try:
                context = engine.load(program)
            except DriverError as error:
                if not error.busy or (has_waited and not self._loaded):
                    raise
                if not self._loaded:  # An abandoned launch or another process may release one.
                    time.sleep(BUSY_SECONDS)
                    has_waited = True
                self._evict()
        self._loaded[program.binary] = context
        engine.note(events.ContextOpened(program.name, engine.uri, len(self._loaded)))
        return context

    def _evict(self) -> None:
        """Close the oldest context. On aie2 close all: the remaining ones fail once one is gone."""
        engine = self._engine
        for context in list(self._loaded.values())[: None if engine.arch == "aie2" else 1]:
            engine.wait_for_context(context)
            context.close()  # First: an interrupt may come between, and an open context must stay known.
            self._loaded.pop(context.program.binary, None)
            engine.note(events.ContextClosed(context.program.name, engine.uri, len(self._loaded)))

    def __contains__(self, binary: str) -> bool:
        return binary in self._loaded

    def __iter__(self) -> Iterator[Context]:
        return iter(self._loaded.values())

    def close(self) -> None:
        """Close all contexts, even if something runs in them."""
        for key, context in list(self._loaded.items()):
            context.close()
            self._loaded.pop(key, None)
