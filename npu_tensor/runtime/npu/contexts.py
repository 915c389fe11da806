"""Hardware contexts: which binaries are loaded. The driver allows a few, for all processes together.

A context takes about 35 ms to make and 2.6 ms to switch to, so they are kept, and the one that was used longest ago
goes when the driver refuses another one.
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
"""Contexts that are kept unless the driver allows fewer: it counts the contexts of all processes."""

PAUSES: Final = (1e-3, 1e-2, 1e-1)
"""Seconds between attempts once all contexts are given up: a thread that asks for the state of a run holds its context
for some moments more.
"""


class Contexts:
    """The loaded binaries of one NPU, the one used longest ago first.

    load: makes a context; raises DriverError if the driver does not. settle: waits until nothing runs in a context.
    notices: of the NPU.
    """

    def __init__(
        self,
        arch: Arch,
        load: Callable[[NpuProgram], Context],
        settle: Callable[[Context], None],
        notices: Notices,
    ) -> None:
        self._arch = arch
        self._load = load
        self._settle = settle
        self._notices = notices
        self._loaded: OrderedDict[str, Context] = OrderedDict()

    def get(self, program: NpuProgram) -> Context:
        """The context of a program's binary, loaded if it is not.

        Raises BuildError, and DriverError if the driver makes none, also after all of this process were given up.
        """
        context = self._loaded.get(program.binary)
        if context is not None:
            self._loaded.move_to_end(program.binary)
            return context
        while len(self._loaded) >= (config.max_contexts or MOST_CONTEXTS[self._arch]):
            self._evict()
        pauses = iter(PAUSES)
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
        """Make room: give up one context, on aie2 all. There, those that are left fail once one is gone."""
        for context in list(self._loaded.values())[: None if self._arch == "aie2" else 1]:
            self._settle(context)
            context.close()  # First: an interrupt may come between, and what is left open must be known.
            self._loaded.pop(context.program.binary, None)
            self._notices.add(events.ContextClosed(context.program.name, self._notices.uri, len(self._loaded)))

    def __contains__(self, binary: str) -> bool:
        return binary in self._loaded

    def __iter__(self) -> Iterator[Context]:
        return iter(self._loaded.values())

    def smallest(self) -> Context | None:
        """The one whose program has the smallest buffers."""
        return min(self._loaded.values(), key=lambda context: sum(context.program.sizes), default=None)

    def close(self) -> None:
        """Give up all contexts, whatever runs in them."""
        for key, context in list(self._loaded.items()):
            context.close()
            self._loaded.pop(key, None)
