"""Back end for NPUs: lowers a design to a program for mlir-aie's IRON, which compiles it.

    backend = IronBackend()
    backend.missing()                       # None, or "no compiler: No module named 'aie' ..."
    files = backend.build(request, directory)
    files[".xclbin"], files[".pdi"], files["_parameters.json"]
    files[".elf"]                           # instead of these three if `kernel_format` is "elf"
    files["_program.py"]                    # the readable IRON program with its C++; ".mlir" for programs

The build uses directory/build, of which the caller keeps these files. Not run on an NPU.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from npu_tensor.config import config
from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.check import require_valid
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build import headers, mlir_aie
from npu_tensor.runtime.build.iron_worker import DESIGN, FILES, HEADERS, KERNEL, PROGRAM, REASON, WORKER, Format
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store.requests import AnyRequest, Unit
from npu_tensor.runtime.store.store import store

_ENDED: Final = re.compile(r"^\[Peano\] compilation failed$|exit code -9\b", re.MULTILINE)
"""Message of mlir-aie if a signal ended Peano or aiecc."""


class IronBackend:
    """Back end for NPUs, see `artifact.Backend`."""

    name: str = "iron"
    formats: tuple[tuple[str, ...], ...] = tuple(FILES.values())

    def missing(self) -> str | None:
        """Return the reason why nothing can be built here, and what to install; None if builds are possible."""
        toolchain = mlir_aie.find()
        return toolchain if isinstance(toolchain, str) else None

    def toolchain(self) -> str:
        """Return the versions of mlir-aie and Peano; "none" without a toolchain."""
        toolchain = mlir_aie.find()
        return "none" if isinstance(toolchain, str) else toolchain.name

    def unit(self, design: Design | ArrayProgram) -> Unit:
        """Return the configuration; for an ELF the design or program, as it holds the sequence."""
        return design.configuration if isinstance(design, Design) and kernel_format(design) == "xclbin" else design

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        """Return flags and headers of each source, and the digest of the lowering; the toolchain covers the rest."""
        sources = [
            {"flags": list(source.flags), "headers": headers.digests(source.text, [HEADERS])}
            for source in dict.fromkeys(function.source for function in unit.functions)
        ]
        return {"lowering": _lowering(), "sources": sources}

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Return None: no part of a kernel for an NPU runs on this machine's processor."""
        return None

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        """Compile the design of a request in another process, whose output goes to build.log.

        `force` also recompiles cached C++ of the cores. Raises BuildError if the compilation fails, takes longer than
        NPU_TENSOR_BUILD_SECONDS per configuration, or if no ELF can hold a program.
        """
        toolchain = mlir_aie.find()
        if isinstance(toolchain, str):
            raise BuildError(toolchain)
        design = request.design
        for each in [part.design for part in design.runs] if isinstance(design, ArrayProgram) else [design]:
            require_valid(each)
        format = kernel_format(design)
        text, seconds = PROGRAM, config.build_seconds
        if isinstance(design, ArrayProgram):
            text, seconds = ".mlir", seconds * len(design.configurations)
        work = directory / "build"
        work.mkdir()
        (work / DESIGN).write_bytes(pickle.dumps(design))
        command = [sys.executable, "-m", WORKER, str(work), format, toolchain.name, *(["force"] if force else [])]
        try:
            run(command, work, directory / "build.log", seconds, _environment(toolchain, work))
        except BuildError as error:
            if not (work / REASON).is_file():
                raise
            reason = (work / REASON).read_text("utf-8")
            transient = error.transient or _ENDED.search(reason) is not None
            raise BuildError(reason, transient=transient) from None
        return {suffix: work / f"{KERNEL}{suffix}" for suffix in (*FILES[format], text)}


def kernel_format(design: Design | ArrayProgram) -> Format:
    """Return the format of a design: `NPU_TENSOR_KERNEL_FORMAT` if an ELF is possible, else an xclbin.

    The runtime parameters in an ELF cannot be replaced. Raises BuildError for a program, which only an ELF can hold, if
    it cannot be stored in one.
    """
    if isinstance(design, Design):
        possible = design.array.full_elfs and not design.run_words
        return "elf" if possible and config.kernel_format == "elf" else "xclbin"
    if not design.array.full_elfs:
        raise BuildError(f"{design.name} needs a full ELF, and {design.array.device} cannot be configured by one")
    name = next((run.design.name for run in design.runs if run.design.run_words), None)
    if name is not None:
        raise BuildError(f"{design.name} has the kernel {name}, whose runtime parameters a full ELF cannot be given")
    return "elf"


def _environment(toolchain: mlir_aie.Toolchain, work: Path) -> dict[str, str]:
    """Return the environment variables of the build process."""
    return {
        "PATH": os.pathsep.join([str(toolchain.programs), *filter(None, [os.environ.get("PATH")])]),
        # The same modules as here, even if a program has changed the path.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NPU_CACHE_HOME": str(work / "cache"),
        "NPU_TENSOR_CACHE_DIR": str(store.root),
    }


@cache
def _lowering() -> str:
    """Return a digest of the modules that write the IRON program and compile it."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("iron*.py"), here / "mlir_aie.py", here / "stack.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
