"""A back end that makes what the stand-in for pyxrt can load, with the names of what mlir-aie makes.

Example:
    library = KernelLibrary(StandinBackend())
    library.find(request).files[".xclbin"]      # or [".elf"], where NPU_TENSOR_KERNEL_FORMAT asks for it
    library.find(ProgramRequest(name, program)).files[".elf"]
"""

from __future__ import annotations

import json
from pathlib import Path

import npu_images

from npu_tensor.dataflow.design import Design
from npu_tensor.runtime.build.iron import IronBackend, kernel_format
from npu_tensor.runtime.build.iron_worker import FILES
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.requests import AnyRequest


class StandinBackend(IronBackend):
    """The C++ is compiled for this machine, when a kernel is loaded."""

    def missing(self) -> str | None:
        """Return the reason for a missing C++ compiler, or None."""
        return host_compiler.reason()

    def toolchain(self) -> str:
        """In place of the versions of mlir-aie and Peano."""
        return "iron-standin"

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        """Makes the files."""
        design = request.design
        format = kernel_format(design)
        paths = {suffix: directory / f"kernel{suffix}" for suffix in FILES[format]}
        npu_images.write(paths[f".{format}"], design, format)
        (directory / "build.log").touch()
        if format == "xclbin":
            assert isinstance(design, Design)
            paths[".pdi"].write_bytes(paths[".xclbin"].read_bytes())
            places = npu_images.addresses(design)
            paths["_parameters.json"].write_text(json.dumps(places, indent=1) + "\n", "utf-8")
        return paths
