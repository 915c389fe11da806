"""A back end whose kernels are small texts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import Design
from npu_tensor.runtime.store.requests import AnyRequest, Unit, digest


class FakeBackend:
    """Writes files that name the kernel and the digest of its design, and counts.

    Attributes:
        built: Names of the requests, in order.
        absent: Reason why nothing can be built, or None.
        failure: Error of the next builds.
    """

    name = "fake"

    def __init__(self) -> None:
        self.formats: tuple[tuple[str, ...], ...] = ((".bin",),)
        self.built: list[str] = []
        self.absent: str | None = None
        self.failure: Exception | None = None
        self.version = "fake1.0"
        self.extra: dict[str, Any] = {"flags": ["-O2"], "headers": {"nt/x.hpp": "00"}}

    def missing(self) -> str | None:
        return self.absent

    def toolchain(self) -> str:
        return self.version

    def unit(self, design: Design | ArrayProgram) -> Unit:
        return design.configuration if isinstance(design, Design) else design

    def ingredients(self, unit: Unit) -> dict[str, Any]:
        return self.extra

    def unfit(self, ingredients: Mapping[str, Any]) -> str | None:
        return None if ingredients.get("flags") else "this processor lacks wings"

    def build(self, request: AnyRequest, directory: Path, force: bool = False) -> dict[str, Path]:
        self.built.append(request.name)
        if self.failure is not None:
            raise self.failure
        origin = f"of {request.name} by {self.version} from {digest(self.unit(request.design))}"
        for suffix in self.formats[0]:
            (directory / f"out{suffix}").write_text(f"{suffix} {origin}")
        return {suffix: directory / f"out{suffix}" for suffix in self.formats[0]}
