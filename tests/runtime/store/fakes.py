"""Kernels to ask for, and a back end whose builds wait until a test lets them go on."""

import queue
import threading
from pathlib import Path
from typing import Any

from fake_backend import FakeBackend

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.requests import AnyRequest, Request

SECONDS = 60
"""After so long a test that waits has failed."""

NAME = "neg-256i32-256i32"


def design(text: str = "// negate", elements: int = 256, columns: int = 1) -> Design:
    d = Builder("negate", "aie2p", columns)
    x, y = d.host_buffer("x", "int32", elements), d.host_buffer("y", "int32", elements)
    tile = ObjectType("int32", (64,))
    negate = d.function("nt_negate", [tile, tile], Source("negate", text), cycles=40)
    source, result = d.fifo("x0", tile, Tile(0, 0), [Tile(0, 2)]), d.fifo("y0", tile, Tile(0, 2), [Tile(0, 0)])

    def body(source: Any, result: Any) -> None:
        negate(source.acquire(1), result.acquire(1))
        source.release(1)
        result.release(1)

    d.worker(Tile(0, 2), body, [source, result])
    d.fill(source, x, AccessPattern.linear(elements))
    d.drain(result, y, AccessPattern.linear(elements))
    return d.build()


def request(made: Design | None = None, name: str = NAME) -> Request:
    return Request(name, made or design(), ("(256,1,1,1)/i32", "(256,1,1,1)/i32"))


class HeldBackend(FakeBackend):
    """begun: names of the builds that run, as they begin. They end when `go`, as it was then, is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: queue.Queue[str] = queue.Queue()
        self.go = threading.Event()

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        go = self.go
        self.begun.put(request.name)
        if not go.wait(SECONDS):
            raise BuildError("the test did not let it go on")
        return super().build(request, directory, force)
