"""Kernels to ask for, and a back end whose builds wait until a test lets them go on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.requests import AnyRequest, Request, Unit

SECONDS = 60
"""After so long a test that waits has failed."""


def design(text: str = "// negate") -> Design:
    d = Builder("negate", "aie2p", 1)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 64)
    tile = ObjectType("int32", (64,))
    negate = d.function("nt_negate", [tile, tile], Source("negate", text), cycles=40)
    source, result = d.fifo("x0", tile, Tile(0, 0), [Tile(0, 2)]), d.fifo("y0", tile, Tile(0, 2), [Tile(0, 0)])

    def body(source: Any, result: Any) -> None:
        negate(source.acquire(1), result.acquire(1))
        source.release(1)
        result.release(1)

    d.worker(Tile(0, 2), body, [source, result])
    d.fill(source, x, AccessPattern.linear(64))
    d.drain(result, y, AccessPattern.linear(64))
    return d.build()


def request(name: str = "neg-64i32-64i32", text: str = "// negate") -> Request:
    return Request(name, design(text), ("(64,1,1,1)/i32", "(64,1,1,1)/i32"))


class HeldBackend:
    """begun: names of the builds that run, as they begin. They end when `go`, as it was then, is set."""

    name = "fake"
    formats: tuple[tuple[str, ...], ...] = ((".bin",),)

    def __init__(self) -> None:
        self.begun: queue.Queue[str] = queue.Queue()
        self.go = threading.Event()
        self.built: list[str] = []
        self.absent: str | None = None
        self.failure: Exception | None = None

    def missing(self) -> str | None:
        return self.absent

    def toolchain(self) -> str:
        return "fake1.0"

    def unit(self, design: Design | ArrayProgram) -> Unit:
        return design.configuration if isinstance(design, Design) else design

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        return {"flags": ["-O2"]}

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        return None

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        go = self.go
        self.begun.put(request.name)
        if not go.wait(SECONDS):
            raise BuildError("the test did not let it go on")
        self.built.append(request.name)
        if self.failure is not None:
            raise self.failure
        path = directory / "out"
        path.write_text(request.name)
        return {".bin": path}
