"""Where a kernel comes from: memory, directories of ready kernels, the cache, a build; in this order.

    library = KernelLibrary(HostBackend())
    artifact = library.find(request)        # or BuildError with every reason
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import ref

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.runtime.artifact import Artifact, Backend, Request
from npu_tensor.runtime.build.progress import building
from npu_tensor.runtime.keys import description, folder, kernel_key
from npu_tensor.runtime.precompiled import KernelDirectory
from npu_tensor.runtime.store import store

__all__ = ["KernelLibrary"]

class KernelLibrary:
    """Finds or builds the kernels of one back end. Safe to use from several threads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._directories: dict[Path, KernelDirectory] = {}
        # By identity, as long as the design lives: hashing ten thousand transfers takes longer than all else here.
        self._found: dict[int, tuple[ref[Design], Artifact]] = {}
        self._started: dict[int, tuple[Design, Future[Artifact]]] = {}
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def find(self, request: Request) -> Artifact:
        """The kernel's files; built if they are nowhere. The same design object is looked up once.

        Raises BuildError with every place that was tried, and with what the compiler says if it was asked.
        """
        identity = id(request.design)
        known = self._found.get(identity)
        if known is not None and known[0]() is request.design:
            return known[1]._replace(origin="memory")
        started = self._started.pop(identity, None)
        artifact = started[1].result() if started is not None else self._look_up(request)
        self._found[identity] = (ref(request.design, lambda _: self._found.pop(identity, None)), artifact)
        return artifact

    def start(self, request: Request) -> None:
        """Begin to look for the kernel, and to build it, in the background; `find` waits for that."""
        identity = id(request.design)
        with self._lock:
            if identity not in self._found and identity not in self._started:
                self._started[identity] = (request.design, self._executor().submit(self._look_up, request))

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool[0] != os.getpid():  # Threads do not survive a fork.
            jobs = config.build_jobs or os.cpu_count() or 1
            self._pool = (os.getpid(), ThreadPoolExecutor(jobs, "npu_tensor build"))
        return self._pool[1]

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
        return [self._directories.setdefault(path, KernelDirectory(path)) for path in config.ready_kernel_dirs()]

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
                return self.backend.build(request, directory)
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
