"""Where a kernel comes from: memory, directories of ready kernels, those of the package last, the cache, a build.

Example:
    library = KernelLibrary(HostBackend())
    artifact = library.find(request)        # or BuildError with every reason
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from npu_tensor import events
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.build.progress import building
from npu_tensor.runtime.store.background import Build, builds
from npu_tensor.runtime.store.kernel_cache import store
from npu_tensor.runtime.store.ready_kernels import KernelDirectory, ready_directories
from npu_tensor.runtime.store.requests import AnyRequest, Artifact, Backend, Unit, description, folder, kernel_key

__all__ = ["KernelLibrary"]


class KernelLibrary:
    """Finds or builds the kernels of one back end. Safe to use from several threads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._directories: dict[Path, KernelDirectory] = {}
        # By identity, as long as the configuration lives: hashing it takes longer than all else here.
        self._found: dict[int, tuple[ref[Unit], Artifact | BuildError | Build]] = {}

    def find(self, request: AnyRequest) -> Artifact:
        """The kernel's files; built if they are nowhere. The same configuration is looked up once.

        Raises BuildError with every place that was tried, and with what the compiler says if it was asked. With
        NPU_TENSOR_JIT=background it does not wait for a compiler: the error of what is being built is `pending`.
        """
        known = self._known(request)
        if known is None:
            known = self._look_up(request)
        elif isinstance(known, Build):
            raise _pending(request)
        elif isinstance(known, BuildError):
            raise _with(known)
        if known.origin != "memory":
            self._remember(self.backend.unit(request.design), known._replace(origin="memory"))
        return known

    def _known(self, request: AnyRequest) -> Artifact | BuildError | Build | None:
        """What was found for what is to be built; a build while it goes on and nobody is to wait for it."""
        unit = self.backend.unit(request.design)
        reference, known = self._found.get(id(unit), (None, None))
        if reference is None or reference() is not unit:
            return None
        if isinstance(known, Build) and (known.ended or config.jit != "background"):
            return None
        return known

    def _remember(self, unit: Unit, found: Artifact | BuildError | Build) -> None:
        identity = id(unit)
        self._found[identity] = (ref(unit, lambda _: self._found.pop(identity, None)), found)

    def prepare(self, requests: Sequence[AnyRequest]) -> None:
        """Find these kernels, several at once; those that cannot be built fail when `find` is asked for them next.

        What failed before is tried again. What was begun ends with this call, also if an exception such as
        KeyboardInterrupt ends it; with NPU_TENSOR_JIT=background it goes on instead.
        """
        unknown = {
            id(self.backend.unit(request.design)): request
            for request in requests
            if not isinstance(self._known(request), (Artifact, Build))
        }
        if not unknown:
            return
        if config.jit == "background":
            for request in unknown.values():
                self._settle(self.backend.unit(request.design), partial(self._look_up, request))
            return
        with build_threads() as threads:
            started = [(request, threads.submit(self._look_up, request)) for request in unknown.values()]
            for request, build in started:
                self._settle(self.backend.unit(request.design), build.result)

    def _settle(self, unit: Unit, find: Callable[[], Artifact]) -> None:
        """Remember what `find` returns or how it fails."""
        try:
            self._remember(unit, find())
        except BuildError as error:
            if not error.pending:  # then its Build is known
                self._remember(unit, _with(error))  # a copy: its traceback would keep the design

    def make(self, request: AnyRequest, force: bool = False) -> Artifact:
        """The kernel from the cache, or built here, even if building is off for programs.

        force: whether to build it anew in any case. Raises BuildError, also without a compiler.
        """
        described = description(request, self.backend)
        place, key = folder(request.design.array.arch, self.backend), kernel_key(described)
        artifact = None if force else self._cached(request, place, key)
        if artifact is not None:
            return artifact
        self._need_compiler()
        with building(request.name):
            return self._build(request, place, key, described, force)

    def ready(self, request: AnyRequest) -> Artifact | None:
        """The kernel's files if they are somewhere; nothing is built."""
        known = self._known(request)
        if isinstance(known, Artifact):
            return known
        place, key = folder(request.design.array.arch, self.backend), kernel_key(description(request, self.backend))
        ready = self._precompiled(request, []) or self._cached(request, place, key)
        if ready is not None:
            self._remember(self.backend.unit(request.design), ready)
        return ready

    def _precompiled(self, request: AnyRequest, tried: list[str]) -> Artifact | None:
        """The kernel from a directory of ready kernels. tried: is told why the others do not have it."""
        for directory in self._kernel_directories():
            ready = directory.look_up(request, self.backend)
            if isinstance(ready, Artifact):
                _emit_hit(request, ready, str(directory.root))
                return ready
            tried.append(ready)
        return None

    def _look_up(self, request: AnyRequest) -> Artifact:
        tried: list[str] = []
        if (ready := self._precompiled(request, tried)) is not None:
            return ready
        try:
            return self.make(request) if config.jit == "wait" else self._find_without_waiting(request)
        except BuildError as error:
            if not tried or error.pending:
                raise
            raise _with(error, *tried) from None

    def _find_without_waiting(self, request: AnyRequest) -> Artifact:
        """The kernel from the cache. Raises BuildError; where building is not off, a build is then under way."""
        described = description(request, self.backend)
        place, key = folder(request.design.array.arch, self.backend), kernel_key(described)
        background = builds.take(key)  # First: what ends after this is found in the cache.
        cached = self._cached(request, place, key)
        if cached is not None:
            return cached if background is None else cached._replace(origin=background.origin)
        if config.jit == "off":
            raise BuildError("building is off (NPU_TENSOR_JIT=off); not in the cache")
        self._need_compiler()
        build = builds.start(key, partial(self._build, request, place, key, described, False))
        if not build.error:
            self._remember(self.backend.unit(request.design), build)
            raise _pending(request)
        if not build.reported:
            build.reported = True
            warn(f"{request.name} could not be built in the background: {build.error}")
        if build.transient:
            builds.forget(key)  # The next plan tries again.
        raise BuildError(build.error, transient=build.transient)

    def _need_compiler(self) -> None:
        missing = self.backend.missing()
        if missing is not None:
            raise BuildError(missing)

    def _cached(self, request: AnyRequest, place: str, key: str) -> Artifact | None:
        artifact = store.load(place, request.design.name, key)
        if artifact is not None:
            _emit_hit(request, artifact, "cache")
        return artifact

    def _kernel_directories(self) -> Sequence[KernelDirectory]:
        return [self._directories.setdefault(path, KernelDirectory(path)) for path in ready_directories()]

    def _build(self, request: AnyRequest, place: str, key: str, described: dict[str, Any], force: bool) -> Artifact:
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

        artifact, new = store.get_or_build(place, request.design.name, key, build, described, force)
        if new and config.jit_verbose:
            print(f"{request.name}: {', '.join(map(str, artifact.files.values()))}", file=sys.stderr)
        return artifact._replace(origin="built") if new else artifact


def _pending(request: AnyRequest) -> BuildError:
    return BuildError(f"{request.name} is being built in the background", pending=True)


def _with(error: BuildError, *reasons: str) -> BuildError:
    """The error with further reasons behind its text."""
    return BuildError("; ".join((str(error), *reasons)), transient=error.transient)


def _emit_hit(request: AnyRequest, artifact: Artifact, where: str) -> None:
    if events.listeners:
        events.emit(events.CacheHit(request.name, artifact.key, where))
