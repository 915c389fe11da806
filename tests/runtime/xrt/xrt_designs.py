"""Small kernels for the tests of the stand-in, and what a host does to run one."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from backend import StandinBackend

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import marker
from npu_tensor.runtime.store.requests import Request

Ints = npt.NDArray[np.int32]

ELEMENTS = 1024

SOURCE = Source(
    "standin kernels",
    r"""
#include <cstdint>
extern "C" {
void nt_standin_affine(const int32_t *words, const int32_t *x, int32_t *y) {
    for (int i = 0; i < 256; i++) y[i] = words[0] * x[i] + words[1];
}
void nt_standin_add(const int32_t *x, int32_t *y, int32_t n) {
    for (int i = 0; i < 256; i++) y[i] = x[i] + n;
}
}
""",
)


def affine(arch: str = "aie2p") -> Design:
    """y = w0 * x + w1, with both words as a runtime parameter."""
    return _design("affine", arch, None)


def add(number: int, arch: str = "aie2p") -> Design:
    """y = x + number."""
    return _design(f"add_{number}", arch, number)


def _design(name: str, arch: str, number: int | None) -> Design:
    d = Builder(name, arch, columns=1)
    tile, core = ObjectType("int32", (256,)), Tile(0, 2)
    x, y = d.host_buffer("x", "int32", ELEMENTS), d.host_buffer("y", "int32", ELEMENTS)
    pair = ObjectType("int32", (2,))
    apply_affine = d.function("nt_standin_affine", [pair, tile, tile], SOURCE, cycles=256)
    apply_add = d.function("nt_standin_add", [tile, tile, "int32"], SOURCE, cycles=256)
    words = d.parameter("words", core, 2) if number is None else None
    source = d.fifo("x", tile, producer=Tile(0, 0), consumers=[core])
    result = d.fifo("y", tile, producer=core, consumers=[Tile(0, 0)])

    def body(source: Any, result: Any) -> None:
        for _ in range_(ELEMENTS // 256):
            a, b = source.acquire(1), result.acquire(1)
            if words is None:
                apply_add(a, b, number)
            else:
                apply_affine(words, a, b)
            source.release(1)
            result.release(1)

    d.worker(core, body, [source, result])
    d.fill(source, x, AccessPattern.linear(ELEMENTS))
    d.drain(result, y, AccessPattern.linear(ELEMENTS))
    return d.build()


class Files:
    """The artefact of a design."""

    def __init__(self, design: Design, directory: Path) -> None:
        self.design = design
        self.paths = StandinBackend().build(Request(design.name, design), directory)

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        """The instruction stream, with markers for the words of a run."""
        return instructions(self.design, json.loads(self.paths["_parameters.json"].read_text("utf-8")))


class Loaded:
    """A context with a kernel, its instructions and two buffers, all synced; x holds 0, 1, 2, ... and y holds -5.

    parameters: words to put into the instructions.
    """

    def __init__(self, pyxrt: ModuleType, device: Any, files: Files, parameters: tuple[int, ...] = ()) -> None:
        self.pyxrt, self.device, self.files = pyxrt, device, files
        self.to_device = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        self.from_device = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
        image = pyxrt.xclbin(str(files.paths[".xclbin"]))
        device.register_xclbin(image)
        self.context = pyxrt.hw_context(device, image.get_uuid())
        self.kernel = pyxrt.kernel(self.context, "MLIR_AIE")
        words = files.words
        for number, value in enumerate(np.array(parameters, np.int32).view(np.uint32)):
            words[words == marker(0, number)] = value
        self.size = words.nbytes
        self.instructions = pyxrt.bo(device, self.size, pyxrt.bo.cacheable, self.kernel.group_id(1))
        np.frombuffer(self.instructions.map(), np.uint32)[:] = words
        self.instructions.sync(self.to_device)
        self.x, self.y = (
            pyxrt.bo(device, 4 * ELEMENTS, pyxrt.bo.host_only, self.kernel.group_id(3 + number)) for number in range(2)
        )
        self.write(self.x, np.arange(ELEMENTS))
        self.write(self.y, -5)

    def write(self, bo: Any, values: npt.ArrayLike, sync: bool = True) -> None:
        """Into the host copy, and to the device."""
        self.host(bo)[:] = values
        if sync:
            bo.sync(self.to_device)

    def host(self, bo: Any) -> Ints:
        """A view of the host copy."""
        return np.frombuffer(bo.map(), np.int32)

    def read(self, bo: Any) -> list[int]:
        """The start of what the device has, in the host copy afterwards."""
        bo.sync(self.from_device)
        return self.head(bo)

    def head(self, bo: Any) -> list[int]:
        """The start of the host copy."""
        return [int(value) for value in self.host(bo)[:4]]

    def run(self, x: Any = None, y: Any = None) -> Any:
        """A run with all arguments set."""
        made = self.pyxrt.run(self.kernel)
        arguments = (3, self.instructions, self.size, x or self.x, y or self.y)
        for number, argument in enumerate(arguments):
            made.set_arg(number, argument)
        return made

    def launch(self, x: Any = None, y: Any = None) -> Any:
        """A run that was started and has ended."""
        made = self.run(x, y)
        made.start()
        made.wait()
        return made
