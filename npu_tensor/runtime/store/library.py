"""Search for kernels: in memory, kernel directories, the cache; otherwise they are built.

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
from npu_tensor.runtime.store.background import builds
from npu_tensor.runtime.store.kernel_directory import KernelDirectory, kernel_directories
from npu_tensor.runtime.store.requests import AnyRequest, Backend, Unit, description, folder, kernel_key
from npu_tensor.runtime.store.store import Artifact, store


class KernelLibrary:
    """The kernels of one back end. Safe to use from several threads."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._directories: dict[Path, KernelDirectory] = {}
        # By the identity of a living configuration: hashing one takes longer than the rest of a look-up.
        self._found: dict[int, tuple[ref[Unit], Artifact | BuildError]] = {}

    def find(self, request: AnyRequest) -> Artifact:
        """Return the files of a kernel, which is built if there are none. Each configuration is looked up once.

        Raises:
            BuildError: The kernel cannot be built; names every place that was searched. With
                `NPU_TENSOR_JIT=background`, it is `pending` while the kernel is being built.
        """
        known = self._known(request) or self._look_up(request)
        if isinstance(known, BuildError):
            raise _with(known)
        if known.origin != "memory":
            self._remember(request, known._replace(origin="memory"))
        return known

    def _known(self, request: AnyRequest) -> Artifact | BuildError | None:
        """Return the result of an earlier look-up, or None."""
        unit = self.backend.unit(request.design)
        reference, known = self._found.get(id(unit), (None, None))
        return None if reference is None or reference() is not unit else known

    def _remember(self, request: AnyRequest, found: Artifact | BuildError) -> None:
        unit = self.backend.unit(request.design)
        identity = id(unit)
        self._found[identity] = (ref(unit, lambda _: self._found.pop(identity, None)), found)

    def prepare(self, requests: Sequence[AnyRequest]) -> None:
        """Look up several kernels at once; those that fail raise in the next `find`.

        Kernels that failed are looked up again. An exception such as KeyboardInterrupt ends the builds. With
        `NPU_TENSOR_JIT=background`, builds go on after this call.
        """
        unknown = {
            id(self.backend.unit(request.design)): request
            for request in requests
            if not isinstance(self._known(request), Artifact)
        }
        if not unknown:
            return
        if config.jit == "background":
            for request in unknown.values():
                self._remember_result(request, partial(self._look_up, request))
            return
        with build_threads() as threads:
            started = [(request, threads.submit(self._look_up, request)) for request in unknown.values()]
            for request, build in started:
                self._remember_result(request, build.result)

    def _remember_result(self, request: AnyRequest, find: Callable[[], Artifact]) -> None:
        """Remember the result of `find`, or its error unless the build goes on."""
        try:
            self._remember(request, find())
        except BuildError as error:
            if not error.pending:
                self._remember(request, _with(error))  # A copy: the traceback would keep the design.

    def make(self, request: AnyRequest, force: bool = False) -> Artifact:
        """Return a kernel from the cache, or build it, even if `NPU_TENSOR_JIT=off`. `force` builds it in any case.

        Raises BuildError if there is no compiler, or if the kernel cannot be built.
        """
        described = description(request, self.backend)
        key = kernel_key(described)
        artifact = None if force else self._cached(request, key)
        if artifact is not None:
            return artifact
        self._need_compiler()
        with building(request.name):
            return self._build(request, key, described, force)

    def ready(self, request: AnyRequest) -> Artifact | None:
        """Return a kernel that exists already, or None."""
        known = self._known(request)
        if isinstance(known, Artifact):
            return known
        key = kernel_key(description(request, self.backend))
        ready = self._precompiled(request, []) or self._cached(request, key)
        if ready is not None:
            self._remember(request, ready)
        return ready

    def _precompiled(self, request: AnyRequest, reasons: list[str]) -> Artifact | None:
        """Return the kernel from a kernel directory, or append the reason of each directory."""
        for path in kernel_directories():
            directory = self._directories.setdefault(path, KernelDirectory(path))
            ready = directory.look_up(request, self.backend)
            if isinstance(ready, Artifact):
                _emit_hit(request, ready, str(path))
                return ready
            reasons.append(ready)
        return None

    def _look_up(self, request: AnyRequest) -> Artifact:
        reasons: list[str] = []
        if (ready := self._precompiled(request, reasons)) is not None:
            return ready
        try:
            return self.make(request) if config.jit == "wait" else self._find_without_waiting(request)
        except BuildError as error:
            if not reasons or error.pending:
                raise
            raise _with(error, *reasons) from None

    def _find_without_waiting(self, request: AnyRequest) -> Artifact:
        """Return the kernel from the cache. Raises BuildError; a build may then be under way."""
        described = description(request, self.backend)
        key = kernel_key(described)
        background = builds.take(key)  # Before the cache, which has everything that is built later.
        cached = self._cached(request, key)
        if cached is not None:
            return cached if background is None else cached._replace(origin=background.origin)
        if config.jit == "off":
            raise BuildError("building is off (NPU_TENSOR_JIT=off); not in the cache")
        self._need_compiler()
        build = builds.start(key, partial(self._build, request, key, described, False))
        if build.error is None:
            raise BuildError(f"{request.name} is being built in the background", pending=True)
        if not build.reported:
            build.reported = True
            warn(f"{request.name} could not be built in the background: {build.error}")
        if build.error.transient:
            builds.forget(key)  # The next plan tries again.
        raise _with(build.error)

    def _need_compiler(self) -> None:
        missing = self.backend.missing()
        if missing is not None:
            raise BuildError(missing)

    def _cached(self, request: AnyRequest, key: str) -> Artifact | None:
        artifact = store.get(folder(request.design.array.arch, self.backend), request.design.name, key)
        if artifact is not None:
            _emit_hit(request, artifact, "cache")
        return artifact

    def _build(self, request: AnyRequest, key: str, described: dict[str, Any], force: bool) -> Artifact:
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

        place = folder(request.design.array.arch, self.backend)
        artifact, new = store.get_or_build(place, request.design.name, key, build, described, force)
        if new and config.debug >= 5:
            print(f"{request.name}: {', '.join(map(str, artifact.files.values()))}", file=sys.stderr)
        return artifact._replace(origin="built") if new else artifact


def _with(error: BuildError, *reasons: str) -> BuildError:
    """Return a copy of an error with further reasons after its message."""
    return BuildError("; ".join((str(error), *reasons)), transient=error.transient)


def _emit_hit(request: AnyRequest, artifact: Artifact, where: str) -> None:
    if events.listeners:
        events.emit(events.CacheHit(request.name, artifact.key, where))
