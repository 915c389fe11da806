"""The back end that builds for an NPU: lowers a design to a program for mlir-aie's IRON and has it compiled.

    backend = IronBackend()
    backend.missing()                       # None, or "no compiler: No module named 'aie' ..."
    files = backend.build(request, directory)
    files[".xclbin"], files["_insts.bin"], files[".pdi"], files["_parameters.json"]
    files["_program.py"]                    # the IRON program with its C++, for whoever wants to see what was compiled

Everything happens in directory/build, of which the caller keeps these files. Not run on an NPU.
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
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.runtime.artifact import Request
from npu_tensor.runtime.build import headers, mlir_aie
from npu_tensor.runtime.build.iron_worker import DESIGN, HEADERS, KERNEL, PROGRAM, REASON, WORKER
from npu_tensor.runtime.build.process import run

__all__ = ["IronBackend"]

_ENDED: Final = re.compile(r"^\[Peano\] compilation failed$|exit code -9\b", re.MULTILINE)
"""What mlir-aie says if a signal ended Peano, which then has said nothing, or aiecc."""


class IronBackend:
    """See `artifact.Backend`."""

    name: str = "iron"
    suffixes: tuple[str, ...] = (".xclbin", "_insts.bin", ".pdi", "_parameters.json")

    def missing(self) -> str | None:
        """Why nothing can be built here, and what to install; None if it can."""
        found = mlir_aie.find()
        return found if isinstance(found, str) else None

    def toolchain(self) -> str:
        """Versions of mlir-aie and Peano, unless NPU_TENSOR_TOOLCHAIN_VERSION names others. "none" without them."""
        found = mlir_aie.find()
        return config.toolchain_version or ("none" if isinstance(found, str) else found.name)

    def ingredients(self, design: Design) -> dict[str, Any]:
        """Flags and headers of each source, and the code that lowers the design. The toolchain's name says the rest."""
        sources = [
            {"flags": list(source.flags), "headers": headers.digests(source.text, [HEADERS])}
            for source in dict.fromkeys(function.source for function in design.functions)
        ]
        return {"lowering": _lowering(), "sources": sources}

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        """Nothing of an xclbin runs on this machine's processor."""
        return None

    def build(self, request: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        """Compile the request's design in a process of its own; its output goes to build.log.

        force: makes no difference, as kernels share nothing. Raises BuildError with what failed, or if it takes longer
        than NPU_TENSOR_BUILD_SECONDS.
        """
        found = mlir_aie.find()
        if isinstance(found, str):
            raise BuildError(found)
        work = directory / "build"
        work.mkdir()
        (work / DESIGN).write_bytes(pickle.dumps(request.design))
        command = [sys.executable, "-m", WORKER, str(work)]
        try:
            run(command, work, directory / "build.log", config.build_seconds, _environment(found, work))
        except BuildError as error:
            if not (work / REASON).is_file():
                raise
            failed = BuildError((work / REASON).read_text("utf-8"))
            failed.transient = error.transient or _ENDED.search(str(failed)) is not None
            raise failed from None
        return {suffix: work / f"{KERNEL}{suffix}" for suffix in (*self.suffixes, PROGRAM)}


def _environment(toolchain: mlir_aie.Toolchain, work: Path) -> dict[str, str]:
    """What differs for the process that builds."""
    return {
        # mlir-aie 1.2 and 1.3.1 start their programs by name.
        "PATH": os.pathsep.join([str(toolchain.programs), *filter(None, [os.environ.get("PATH")])]),
        # The same modules as here, also where a program has changed the path.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NPU_CACHE_HOME": str(work / "cache"),
        "IRON_CACHE_HOME": str(work / "cache"),  # its name before November 2025
    }


@cache
def _lowering() -> str:
    """A digest of the modules that write the IRON program and have it compiled."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("iron*.py"), here / "mlir_aie.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
