"""Builds in the background, `NPU_TENSOR_JIT=background`: the program goes on meanwhile.

    build = builds.start(key, partial(library.make, request))
    build.artifact, build.error     # None and None; later one of both is set
    finish_builds()

A program that ends does not wait for them: their compilers are killed, and the cache keeps nothing of them.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from npu_tensor._util.affinity import available_cores
from npu_tensor._util.forks import in_child
from npu_tensor.errors import BuildError

if TYPE_CHECKING:
    from npu_tensor.runtime.build.process import ProcessGroup
    from npu_tensor.runtime.store.store import Artifact

END_SECONDS: Final = 5.0
"""Seconds for which a program that ends waits for its builds to clean up, once their compilers are killed."""


@dataclass(slots=True)
class Build:
    """One build of a kernel, which has neither an artifact nor an error while it goes on.

    Attributes:
        artifact: The kernel.
        error: Reason of the failure.
        reported: True if the user has been warned of the failure.
    """

    artifact: Artifact | None = None
    error: BuildError | None = None
    reported: bool = False


class Builds:
    """The builds of this process, each key once, and one per core at a time.

    Attributes:
        finished: Number of builds that have ended. When it changes, new plans may be better than existing ones.
    """

    def __init__(self) -> None:
        self.finished = 0
        self._known: dict[str, Build] = {}
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all builds, as in a forked process, which has no threads for them."""
        self.finished += len(self._known)
        self._known = {}
        self._changed = threading.Condition()
        self._slots: threading.Semaphore | None = None
        self._group: ProcessGroup | None = None
        self._threads: set[threading.Thread] = set()

    def take(self, key: str) -> Artifact | None:
        """Return the kernel that a build has made and forget the build, or return None."""
        build = self._known.get(key)
        if build is None or build.artifact is None:
            return None
        self._known.pop(key, None)
        return build.artifact

    def forget(self, key: str) -> None:
        """Let `start` build it again."""
        self._known.pop(key, None)

    def start(self, key: str, make: Callable[[], Artifact]) -> Build:
        """Call `make` in another thread, unless there is a build of this key already. Return the build.

        Raises BuildError if no thread can be started.
        """
        from npu_tensor.runtime.build.process import ProcessGroup

        with self._changed:
            known = self._known.get(key)
            if known is not None:
                return known
            self._group = self._group or ProcessGroup()
            self._slots = self._slots or threading.Semaphore(available_cores())
            build = Build()
            work = partial(copy_context().run, self._run, build, make, self._group, self._slots)
            # Daemons: at the end of the program Python joins all other threads before it calls `end`.
            thread = threading.Thread(target=work, name="npu_tensor build", daemon=True)
            try:
                if sys.is_finalizing():  # `start` would wait forever.
                    raise RuntimeError("the interpreter is shutting down")
                thread.start()
            except RuntimeError as error:
                raise BuildError(f"no thread can be started for a build: {error}", transient=True) from None
            self._threads.add(thread)
            self._known[key] = build
            return build

    def _run(self, build: Build, make: Callable[[], Artifact], group: ProcessGroup, slots: threading.Semaphore) -> None:
        group.enter()
        with slots:
            if not group.ended:
                try:
                    build.artifact = make()
                except BaseException as error:  # The program goes on without the kernel in any case.
                    transient = isinstance(error, BuildError) and error.transient
                    build.error = BuildError(str(error) or type(error).__name__, transient=transient)
        with self._changed:
            self.finished += not group.ended
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until no kernel is being built. The thread of a build does not wait."""
        with self._changed:
            if threading.current_thread() not in self._threads:
                self._changed.wait_for(lambda: not self._threads)

    def end(self) -> None:
        """End running and waiting builds, and give them a moment to remove their files."""
        with self._changed:
            threads = tuple(self._threads)
        if self._group is not None:
            self._group.end()
        limit = time.monotonic() + END_SECONDS
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))


builds: Final = Builds()
atexit.register(builds.end)
in_child(builds.start_anew)


def finish_builds() -> None:
    """Wait until no kernel is being built; later runs use all that were built.

    Builds go on in the background only with `NPU_TENSOR_JIT=background`. A kernel that cannot be built causes a warning
    in the next run that needs it, not an error here.
    """
    builds.finish()
