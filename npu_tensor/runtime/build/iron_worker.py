"""What builds one kernel with mlir-aie, as a process of its own.

    python -m npu_tensor.runtime.build.iron_worker DIRECTORY FORMAT

DIRECTORY is the current directory, to be written to, and holds the pickled design. It gets the IRON program as
kernel_program.py, its C++ and objects, the module as text, and the files of the format. For "xclbin" these are
kernel.xclbin, kernel_insts.bin, kernel.pdi and kernel_parameters.json: by name of each runtime parameter, where its
words stand in the instruction stream, counted in 32-bit words. For "elf" it is kernel.elf, in which all of that is. If
that fails, DIRECTORY gets the reason instead, and the exit code is 1.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pickle
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import numpy as np

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import Design, HostBuffer, ObjectType
from npu_tensor.errors import BuildError, NpuTensorError
from npu_tensor.runtime.build import mlir_aie, stack
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import dialect, program
from npu_tensor.runtime.build.placement import addresses

__all__ = [
    "DESIGN",
    "FILES",
    "HEADERS",
    "KERNEL",
    "PROGRAM",
    "REASON",
    "WORKER",
    "Format",
    "build",
]

WORKER: Final = "npu_tensor.runtime.build.iron_worker"
"""Name of this module, which is another one when it runs."""

HEADERS: Final = Path(__file__).parents[2] / "kernels" / "include"
"""What the C++ of the cores may include besides aie_api, which comes with mlir-aie."""

DESIGN: Final = "design.pickle"
REASON: Final = "reason.txt"
KERNEL: Final = "kernel"
PROGRAM: Final = "_program.py"

OLD_HOST_BUFFERS: Final = 5
"""What xclbins of mlir-aie until 1.3.4 declare."""

Format = Literal["xclbin", "elf"]
FILES: Final[Mapping[Format, tuple[str, ...]]] = MappingProxyType(
    {"xclbin": (".xclbin", ".pdi", "_parameters.json"), "elf": (".elf",)}
)
"""Suffixes of the files that a kernel takes, by its format."""


def build(directory: Path, format: Format) -> None:
    """Build the design in `directory`. Raises BuildError, and whatever mlir-aie raises while it resolves the module."""
    design: Design = pickle.loads((directory / DESIGN).read_bytes())
    path = directory / f"{KERNEL}{PROGRAM}"
    installed = mlir_aie.dialect_name()
    if len(design.host_buffers) > OLD_HOST_BUFFERS and installed != "1.4":
        raise BuildError(f"{len(design.host_buffers)} host buffers need mlir-aie 1.4.0 or later")
    declared = _with_spare_buffers(design) if format == "xclbin" and installed == "1.4" else design
    path.write_text(program(declared, dialect(installed)), "utf-8")
    lowered = _execute(path)
    module = mlir_aie.self_loading(lowered.module) if format == "elf" else lowered.module()
    (directory / f"{KERNEL}.mlir").write_text(f"{module}\n", "utf-8")
    depths: dict[str, float] = {}
    for name, text in lowered.SOURCES.items():
        source = directory / name
        source.write_text(text, "utf-8")
        flags = [f"-I{HEADERS}", *stack.FLAGS, *getattr(lowered, "FLAGS", {}).get(name, ())]
        mlir_aie.compile_core(source, source.with_suffix(".o"), design.arch, flags)
        depths |= stack.call_depths(source.with_suffix(".o"))
    stack.check_stacks(design, depths)
    files = {suffix: directory / f"{KERNEL}{suffix}" for suffix in FILES[format]}
    if format == "elf":
        mlir_aie.compile_module(module, directory, full_elf_path=files[".elf"])
        return
    stream = directory / f"{KERNEL}_insts.bin"
    mlir_aie.compile_module(module, directory, xclbin_path=files[".xclbin"], insts_path=stream, pdi_path=files[".pdi"])
    words = np.fromfile(stream, "<u4")
    places = addresses(design, words)
    if not np.array_equal(instructions(design, places), words):
        raise BuildError(
            "this mlir-aie makes other instructions of the program than npu_tensor, which could not run the kernel with"
            " other shapes; install mlir-aie 1.4.1"
        )
    files["_parameters.json"].write_text(json.dumps(places, indent=1) + "\n", "utf-8")


def _with_spare_buffers(design: Design) -> Design:
    """The design with as many host buffers as a launch can have.

    An xclbin declares those of its program, and its configuration may run in launches of several kernels, with more.
    """
    names = [f"spare_{number}" for number in range(len(design.host_buffers), HOST_BUFFERS)]
    spare = [HostBuffer(name, ObjectType("int32", (1,))) for name in names]
    return replace(design, host_buffers=(*design.host_buffers, *spare))


def _execute(path: Path) -> Any:
    """The module of a Python file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(directory: Path, format: Format) -> int:
    """Build, and say in REASON why it failed if it does. Returns the exit code."""
    # mlir-aie logs the commands that it runs and what they print.
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("aie").setLevel(logging.DEBUG)
    try:
        build(directory, format)
    except Exception as error:
        traceback.print_exc()
        reason = str(error) if isinstance(error, NpuTensorError) else f"{type(error).__name__}: {error}"
        (directory / REASON).write_text(reason, "utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), cast(Format, sys.argv[2])))
