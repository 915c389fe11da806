"""Where a kernel comes from: memory, directories of ready kernels, those of the package last, the cache, a build.

    library = KernelLibrary(HostBackend())
    artifact = library.find(request)        # or BuildError with every reason
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import ref

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.runtime.artifact import Artifact, Backend, Request
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.build.progress import building
from npu_tensor.runtime.builtin import ready_directories
from npu_tensor.runtime.keys import description, folder, kernel_key
from npu_tensor.runtime.precompiled import KernelDirectory
from npu_tensor.runtime.store import store

__all__ = ["KernelLibrary"]

class KernelLibrary:
    """Finds or builds the kernels of one back end. Safe to use from several threads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._directories: dict[Path, KernelDirectory] = {}
        # By identity, as long as the design lives: hashing ten thousand transfers takes longer than all else here.
        self._found: dict[int, tuple[ref[Design], Artifact | BuildError]] = {}

    def find(self, request: Request) -> Artifact:
        """The kernel's files; built if they are nowhere. The same design object is looked up once.

        Raises BuildError with every place that was tried, and with what the compiler says if it was asked.
        """
        design, known = self._found.get(id(request.design), (None, None))
        if design is None or design() is not request.design or known is None:
            known = self._look_up(request)
        elif isinstance(known, BuildError):
            raise _with(known)
        if known.origin != "memory":
            self._remember(request.design, known._replace(origin="memory"))
        return known

    def _has(self, design: Design) -> bool:
        """Whether its files are known; what failed is tried again by whoever prepares it."""
        return isinstance(self._found.get(id(design), (None, None))[1], Artifact)

    def _remember(self, design: Design, found: Artifact | BuildError) -> None:
        identity = id(design)
        self._found[identity] = (ref(design, lambda _: self._found.pop(identity, None)), found)

    def prepare(self, requests: Sequence[Request]) -> None:
        """Find these kernels, several at once; those that cannot be built fail when `find` is asked for them next.

        What was begun ends with this call, also if an exception such as KeyboardInterrupt ends it.
        """
        wanted = {id(request.design): request for request in requests if not self._has(request.design)}
        if not wanted:
            return
        with build_threads() as threads:
            builds = [(request.design, threads.submit(self._look_up, request)) for request in wanted.values()]
            for design, build in builds:
                try:
                    self._remember(design, build.result())
                except BuildError as error:
                    self._remember(design, _with(error))  # a copy: its traceback would keep the design

    def make(self, request: Request, force: bool = False) -> Artifact:
        """The kernel from the cache, or built here, even if building is off for programs.

        force: whether to build it anew in any case. Raises BuildError, also without a compiler.
        """
        described = description(request, self.backend)
        place, key = folder(request.design.arch, self.backend), kernel_key(described)
        found = None if force else self._cached(request, place, key)
        return found or self._build(request, place, key, described, force)

    def _look_up(self, request: Request) -> Artifact:
        tried = []
        for directory in self._kernel_directories():
            ready = directory.find(request, self.backend)
            if isinstance(ready, Artifact):
                _emit_hit(request, ready, str(directory.root))
                return ready
            tried.append(ready)
        if config.jit:
            try:
                return self.make(request)
            except BuildError as error:
                if not tried:
                    raise
                raise _with(error, *tried) from None
        described = description(request, self.backend)
        cached = self._cached(request, folder(request.design.arch, self.backend), kernel_key(described))
        if cached is None:
            raise BuildError("; ".join(("building is off (NPU_TENSOR_JIT=0)", *tried, "not in the cache")))
        return cached

    def _cached(self, request: Request, place: str, key: str) -> Artifact | None:
        found = store.find(place, request.name, key)
        if found is None:
            return None
        artifact = Artifact(found.name, key, found.files, "cache", found.description)
        _emit_hit(request, artifact, "cache")
        return artifact

    def _kernel_directories(self) -> Sequence[KernelDirectory]:
        return [self._directories.setdefault(path, KernelDirectory(path)) for path in ready_directories()]

    def _build(
        self, request: Request, place: str, key: str, described: dict[str, Any], force: bool
    ) -> Artifact:
        missing = self.backend.missing()
        if missing is not None:
            raise BuildError(missing)

        def build(directory: Path) -> dict[str, Path]:
            start = time.perf_counter()
            if events.listeners:
                events.emit(events.BuildStarted(request.name, key, self.backend.name))
            failed = ""
            try:
                return self.backend.build(request, directory, force)
            except BaseException as error:
                failed = str(error) or type(error).__name__
                raise
            finally:
                if events.listeners:
                    seconds = time.perf_counter() - start
                    events.emit(events.BuildFinished(request.name, key, self.backend.name, seconds, failed))

        with building(request.name):
            made, new = store.get_or_build(place, request.name, key, build, described, force)
        if new and config.jit_verbose:
            print(f"{request.name}: {', '.join(map(str, made.files.values()))}", file=sys.stderr)
        return Artifact(made.name, key, made.files, "built" if new else "cache", made.description)


def _with(error: BuildError, *reasons: str) -> BuildError:
    """The error with further reasons behind its text."""
    longer = BuildError("; ".join((str(error), *reasons)))
    longer.transient = error.transient
    return longer


def _emit_hit(request: Request, artifact: Artifact, where: str) -> None:
    if events.listeners:
        events.emit(events.CacheHit(request.name, artifact.key, where))
