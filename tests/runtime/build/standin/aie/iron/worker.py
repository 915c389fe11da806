"""What runs on a core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._standin import since
from .._standin.record import Core, current
from .._standin.signatures import checked
from .._standin.views import Attributes, BoolAttr
from .buffer import Buffer
from .dataflow import ObjectFifo, ObjectFifoEndpoint, ObjectFifoHandle
from .device import AIETileType, AnyComputeTile, typed

__all__ = ["Worker", "flat"]


def flat(arguments: Any) -> Iterator[Any]:
    """The arguments of a worker; lists among them are looked into from 1.4.0 on."""
    for argument in arguments:
        if since("1.4.0") and isinstance(argument, (list, tuple)):
            yield from flat(argument)
        else:
            yield argument


class Worker(ObjectFifoEndpoint):
    """A function and what it is called with."""

    @checked("Worker")
    def __init__(
        self,
        core_fn: Callable[..., None] | None,
        fn_args: Any,
        tile: Any,
        while_true: bool,
        stack_size: int | None,
        dynamic_objfifo_lowering: bool | None = None,
    ) -> None:
        super().__init__(self._typed(tile))
        self.core_fn = core_fn if core_fn is not None else lambda *_: None
        self.fn_args = [] if fn_args is None else fn_args
        self.stack_size = stack_size
        self._while_true = while_true
        self._dynamic = dynamic_objfifo_lowering
        self.fifos: list[ObjectFifoHandle] = []
        self.buffers: list[Buffer] = []
        for argument in flat(self.fn_args):
            if isinstance(argument, ObjectFifoHandle):
                argument.endpoint = self
                self.fifos.append(argument)
            elif isinstance(argument, Buffer):
                self._take(argument)
            elif isinstance(argument, ObjectFifo):
                raise ValueError(
                    "Cannot give an ObjectFifo directly to a worker; must give an ObjectFifoHandle obtained through"
                    " ObjectFifo.prod() or ObjectFifo.cons()"
                )

    @staticmethod
    def _typed(tile: Any) -> Any:
        if tile is None:
            tile = AnyComputeTile
        if tile.tile_type not in (None, AIETileType.CoreTile):
            raise ValueError(f"Worker requires a compute tile, but got tile_type={tile.tile_type}")
        own = tile.tile_type is not None and tile is not AnyComputeTile
        return tile if own else typed(tile, AIETileType.CoreTile)

    def _take(self, buffer: Buffer) -> None:
        """A worker's buffers are placed with it."""
        self.buffers.append(buffer)
        if buffer._owner_worker is not None and buffer._owner_worker is not self:
            if not buffer._explicit_tile:
                raise ValueError(f"Buffer '{buffer._name}' has no explicit tile and is shared across Workers")
        else:
            buffer._owner_worker = self
            if buffer._tile is None:
                buffer._tile = self._tile

    def resolve(self) -> None:
        """Run the function, which records what the core does."""
        if not self._tile:
            raise ValueError("Must place Worker before it can be resolved.")
        module = current()
        fifos = [handle.name for handle in self.fifos]
        attributes = Attributes()
        if self._dynamic is not None:
            attributes["dynamic_objfifo_lowering"] = BoolAttr.get(self._dynamic)
        core = Core(self._tile.op, self.stack_size, fifos, self._while_true, attributes)
        module.cores.append(core)
        module.core = core
        try:
            with module.block(core.body):
                self.core_fn(*self.fn_args)
        finally:
            module.core = None
