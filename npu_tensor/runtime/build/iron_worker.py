"""Build of one kernel or program with mlir-aie, in a separate process.

    python -m npu_tensor.runtime.build.iron_worker DIRECTORY FORMAT

DIRECTORY must be the current directory and writable. It holds the pickled design, or program of several designs. The
build adds the IRON program as kernel_program.py, its C++ and objects, the module as kernel.mlir, and the files of the
format. For "xclbin" these are kernel.xclbin, kernel_insts.bin, kernel.pdi and kernel_parameters.json: the address of
each runtime parameter by name. For "elf" it is kernel.elf, which contains everything. If the build fails, DIRECTORY
gets the reason instead, and the exit code is 1.

The objects of C++ sources are cached, so that kernels and programs of one configuration compile them once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import pickle
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import numpy as np

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import Design, HostBuffer, ObjectType
from npu_tensor.errors import BuildError, message_of
from npu_tensor.runtime.build import headers, iron_launch, mlir_aie, stack
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import program
from npu_tensor.runtime.build.parameter_addresses import addresses
from npu_tensor.runtime.store.requests import kernel_key
from npu_tensor.runtime.store.store import store

WORKER: Final = "npu_tensor.runtime.build.iron_worker"
"""Name of this module. When it runs as a script, `__name__` differs."""

HEADERS: Final = Path(__file__).parents[2] / "kernels" / "include"
"""Headers for the C++ of the cores; aie_api comes with mlir-aie."""

DESIGN: Final = "design.pickle"
REASON: Final = "reason.txt"
KERNEL: Final = "kernel"
PROGRAM: Final = "_program.py"

OBJECT: Final = "object"
"""Name of the objects of sources in the cache."""

COMPILED: Final = (".o", ".su")
"""Suffixes of the compiler's output: the object, and the figures of its stack, if there are any."""

Format = Literal["xclbin", "elf"]
FILES: Final[Mapping[Format, tuple[str, ...]]] = MappingProxyType(
    {"xclbin": (".xclbin", ".pdi", "_parameters.json"), "elf": (".elf",)}
)
"""Suffixes of the files of a kernel, by its format."""


def build(directory: Path, format: Format, toolchain: str, force: bool = False) -> None:
    """Build the design or program in `directory`.

    Args:
        directory: Directory of the design, which receives the files.
        format: Format of the kernel.
        toolchain: Name of the toolchain, for the cache of compiled sources.
        force: True to compile sources that are in the cache.

    Raises:
        BuildError: The build failed. mlir-aie raises other errors during resolution.
    """
    compile_source = partial(_compile, toolchain=toolchain, force=force)
    unit: Design | ArrayProgram = pickle.loads((directory / DESIGN).read_bytes())
    mlir_aie.require_interface()
    options: Sequence[str] = ()
    if isinstance(unit, ArrayProgram):
        designs = iron_launch.parts(unit)
        several = [_prepare(design, directory, f"_{number}", compile_source) for number, design in enumerate(designs)]
        module: Any = iron_launch.module(unit, [str(lowered.module()) for lowered in several])
        options = iron_launch.OPTIONS
    else:
        lowered = _prepare(_with_spare_buffers(unit) if format == "xclbin" else unit, directory, "", compile_source)
        module = mlir_aie.self_loading(lowered.module) if format == "elf" else lowered.module()
    (directory / f"{KERNEL}.mlir").write_text(f"{module}\n", "utf-8")
    files = {suffix: directory / f"{KERNEL}{suffix}" for suffix in FILES[format]}
    if format == "elf":
        mlir_aie.compile_module(module, directory, options, full_elf_path=files[".elf"])
        return
    assert isinstance(unit, Design)
    stream = directory / f"{KERNEL}_insts.bin"
    mlir_aie.compile_module(module, directory, xclbin_path=files[".xclbin"], insts_path=stream, pdi_path=files[".pdi"])
    words = np.fromfile(stream, "<u4")
    places = addresses(unit, words)
    if not np.array_equal(instructions(unit, places), words):
        raise BuildError(
            "this mlir-aie makes other instructions of the program than npu_tensor, which could not run the kernel with"
            " other shapes; install mlir-aie 1.4.5"
        )
    files["_parameters.json"].write_text(json.dumps(places, indent=1) + "\n", "utf-8")


def _with_spare_buffers(design: Design) -> Design:
    """Return the design with the maximum number of host buffers of a launch.

    An xclbin declares those of its program, and its configuration may run in launches of several kernels, with more.
    """
    names = [f"spare_{number}" for number in range(len(design.host_buffers), HOST_BUFFERS)]
    spare = [HostBuffer(name, ObjectType("int32", (1,))) for name in names]
    return replace(design, host_buffers=(*design.host_buffers, *spare))


def _prepare(design: Design, directory: Path, number: str, compile_source: Callable[..., None]) -> Any:
    """Write the IRON program of a design and the objects that its cores link. Return the program, as a module."""
    path = directory / f"{KERNEL}{number}{PROGRAM}"
    path.write_text(program(design), "utf-8")
    lowered = _execute(path)
    depths: dict[str, float] = {}
    for name, text in lowered.SOURCES.items():
        source = directory / name
        if not source.exists():
            source.write_text(text, "utf-8")
            compile_source(source, design.arch, getattr(lowered, "FLAGS", {}).get(name, ()))
        depths |= stack.call_depths(source.with_suffix(".o"))
    stack.check_stacks(design, depths)
    return lowered


def _compile(source: Path, arch: str, flags: Sequence[str], toolchain: str, force: bool) -> None:
    """Make the object file next to a source, and the compiler's figures of its stack, or take them from the cache."""
    text = source.read_text("utf-8")
    made_from = {
        "arch": arch,
        "compiler": hashlib.sha256(Path(mlir_aie.__file__).read_bytes()).hexdigest(),
        "flags": [*stack.FLAGS, *flags],
        "headers": headers.digests(text, [HEADERS]),
        "source": text,
        "toolchain": toolchain,
    }

    def build(directory: Path) -> dict[str, Path]:
        copy = directory / source.name
        copy.write_text(text, "utf-8")
        mlir_aie.compile_core(copy, copy.with_suffix(".o"), arch, [f"-I{HEADERS}", *stack.FLAGS, *flags])
        return {path.suffix: path for path in map(copy.with_suffix, COMPILED) if path.exists()}

    # The same source has another name in a program.
    stored, _ = store.get_or_build(f"{arch}-{toolchain}", OBJECT, kernel_key(made_from), build, made_from, force)
    for suffix, path in stored.files.items():
        shutil.copyfile(path, source.with_suffix(suffix))


def _execute(path: Path) -> Any:
    """Execute a Python file and return its module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(directory: Path, format: Format, toolchain: str, force: bool) -> int:
    """Build the unit, and write the reason of a failure to REASON. Return the exit code."""
    # mlir-aie logs the commands that it runs and their output.
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("aie").setLevel(logging.DEBUG)
    try:
        build(directory, format, toolchain, force)
    except Exception as error:
        traceback.print_exc()
        (directory / REASON).write_text(message_of(error), "utf-8")
        return 1
    return 0


if __name__ == "__main__":
    _, path, kind, name, *options = sys.argv
    sys.exit(main(Path(path).resolve(), cast(Format, kind), name, "force" in options))
