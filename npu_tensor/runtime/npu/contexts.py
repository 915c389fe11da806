"""Hardware contexts, each with one loaded binary. The driver allows a few for all processes together.

A context takes about 35 ms to create and 2.6 ms to switch to. Contexts are therefore kept, and the least recently used
one is closed when the driver refuses another.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.runtime.npu.driver import Context, DriverError
from npu_tensor.runtime.npu.notices import Notices
from npu_tensor.runtime.npu.npu_program import NpuProgram

__all__ = ["Contexts"]

MOST_CONTEXTS: Final[dict[Arch, int]] = {"aie2": 6, "aie2p": 16}
"""Upper bound on open contexts. The driver may allow fewer because it counts those of all processes."""

RETRY_SECONDS: Final = (1e-3, 1e-2, 1e-1)
"""Pauses before a context is requested again after all were closed. A thread that polls a run keeps its context alive
for a moment longer.
"""


class Contexts:
    """The open contexts of one NPU, least recently used first.

    Args:
        load: Function that creates a context, or raises DriverError.
        wait: Function that waits until nothing runs in a context.
    """

    def __init__(
        self,
        arch: Arch,
        load: Callable[[NpuProgram], Context],
        wait: Callable[[Context], None],
        notices: Notices,
    ) -> None:
        self._arch = arch
        self._load = load
        self._wait = wait
        self._notices = notices
        self._loaded: OrderedDict[str, Context] = OrderedDict()

    def get(self, program: NpuProgram) -> Context:
        """Return the context of a program's binary, and load it if necessary.

        Raises:
            BuildError: The binary does not fit the program.
            DriverError: The driver provides no context, even after all contexts of this process were closed.
        """
        context = self._loaded.get(program.binary)
        if context is not None:
            self._loaded.move_to_end(program.binary)
            return context
        while len(self._loaded) >= (config.max_contexts or MOST_CONTEXTS[self._arch]):
            self._evict()
        pauses = iter(RETRY_SECONDS)
        while True:
            try:
                context = self._load(program)
            except DriverError as error:
                if not error.busy:
                    raise
                if self._loaded:
                    self._evict()
                    continue
                pause = next(pauses, None)
                if pause is None:
                    raise DriverError(f"the driver makes no context: {error}", blameless=error.blameless) from None
                time.sleep(pause)
            else:
                self._loaded[program.binary] = context
                self._notices.add(events.ContextOpened(program.name, self._notices.uri, len(self._loaded)))
                return context

    def _evict(self) -> None:
        """Close the oldest context. On aie2 close all: the remaining ones fail once one is gone."""
        for context in list(self._loaded.values())[: None if self._arch == "aie2" else 1]:
            self._wait(context)
            context.close()  # First: an interrupt may come between, and an open context must stay known.
            self._loaded.pop(context.program.binary, None)
            self._notices.add(events.ContextClosed(context.program.name, self._notices.uri, len(self._loaded)))

    def __contains__(self, binary: str) -> bool:
        return binary in self._loaded

    def __iter__(self) -> Iterator[Context]:
        return iter(self._loaded.values())

    def smallest(self) -> Context | None:
        """Return the context whose program has the smallest buffers."""
        return min(self._loaded.values(), key=lambda context: sum(context.program.sizes), default=None)

    def close(self) -> None:
        """Close all contexts, even if something runs in them."""
        for key, context in list(self._loaded.items()):
            context.close()
            self._loaded.pop(key, None)
