"""Builds that go on while the program does: NPU_TENSOR_JIT=background.

    build = builds.start(key, partial(library.make, request))
    build.ended, build.error        # False, ""; later True and what the compiler says, if it failed
    finish_builds()

A program that ends does not wait for them: their compilers are ended, and nothing of theirs is left in the cache.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Final

from npu_tensor._util.affinity import available_cores
from npu_tensor._util.forks import in_child
from npu_tensor.config import config
from npu_tensor.errors import BuildError

if TYPE_CHECKING:
    from npu_tensor.runtime.build.process import ProcessGroup
    from npu_tensor.runtime.store.requests import Artifact

__all__ = ["Build", "Builds", "builds", "finish_builds"]

END_SECONDS: Final = 5.0
"""How long a program that ends waits for its builds to clean up, once their compilers are killed."""


class Build:
    """A kernel that is being built. Once that has ended: artifact, or error: why it failed. reported: to the user.

    transient: whether it failed for a reason that may not come again.
    """

    __slots__ = ("artifact", "ended", "error", "reported", "transient")

    def __init__(self) -> None:
        self.ended = False
        self.artifact: Artifact | None = None
        self.error = ""
        self.transient = False
        self.reported = False


class Builds:
    """The builds of this process, each key once; `config.build_jobs` at a time.

    finished: how many have ended, well or not. What was planned while it had another value may be planned better now.
    """

    def __init__(self) -> None:
        self.finished = 0
        self._known: dict[str, Build] = {}
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all builds: also what holds in a forked process, in which their threads do not exist."""
        for build in self._known.values():
            build.ended = True
        self.finished += len(self._known)
        self._known = {}
        self._changed = threading.Condition()
        self._group: ProcessGroup | None = None
        self._waiting: deque[tuple[Build, Callable[[], Artifact]]] = deque()
        self._threads: set[threading.Thread] = set()

    def take(self, key: str) -> Artifact | None:
        """What the build of a key has made. It is then forgotten, and `start` would build again."""
        build = self._known.get(key)
        if build is None or build.artifact is None:
            return None
        self._known.pop(key, None)
        return build.artifact

    def forget(self, key: str) -> None:
        """Let `start` build it again."""
        self._known.pop(key, None)

    def start(self, key: str, make: Callable[[], Artifact]) -> Build:
        """Have another thread call `make`, or return the build of this key that was started before.

        Raises BuildError if there can be no more threads.
        """
        with self._changed:
            known = self._known.get(key)
            if known is not None:
                return known
            self._group = self._group or _new_group()
            if len(self._threads) < (config.build_jobs or available_cores()):
                # Daemons: at the end of the program Python waits for all others before it calls `end`.
                thread = threading.Thread(target=self._work, args=(self._group,), name="npu_tensor build", daemon=True)
                try:
                    if sys.is_finalizing():  # `start` would wait forever.
                        raise RuntimeError("the interpreter is shutting down")
                    thread.start()
                except RuntimeError as error:
                    raise BuildError(f"no thread can be started for a build: {error}", transient=True) from None
                self._threads.add(thread)
            build = Build()
            self._waiting.append((build, partial(copy_context().run, make)))
            self._known[key] = build
            return build

    def _work(self, group: ProcessGroup) -> None:
        group.enter()
        while (job := self._next(group)) is not None:
            self._run(*job)

    def _next(self, group: ProcessGroup) -> tuple[Build, Callable[[], Artifact]] | None:
        """What this thread is to build; None if it is not needed any more."""
        with self._changed:
            if self._waiting and not group.ended:
                return self._waiting.popleft()
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()
            return None

    def _run(self, build: Build, make: Callable[[], Artifact]) -> None:
        try:
            build.artifact = make()
        except BaseException as error:  # Whatever it is, the program goes on without the kernel.
            build.error = str(error) or type(error).__name__
            build.transient = isinstance(error, BuildError) and error.transient
        build.ended = True
        with self._changed:
            self.finished += 1

    def finish(self) -> None:
        """Return when nothing is being built. In the thread of a build it returns at once."""
        with self._changed:
            if threading.current_thread() not in self._threads:
                self._changed.wait_for(lambda: not self._threads)

    def end(self) -> None:
        """End all builds, those that wait too, and give them a moment to remove their files."""
        with self._changed:
            self._waiting.clear()
            threads = tuple(self._threads)
        if self._group is not None:
            self._group.end()
        limit = time.monotonic() + END_SECONDS
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))


def _new_group() -> ProcessGroup:
    from npu_tensor.runtime.build.process import ProcessGroup

    return ProcessGroup()


builds: Final = Builds()
atexit.register(builds.end)
in_child(builds.start_anew)


def finish_builds() -> None:
    """Wait until no kernel is being built; what runs next uses all that were built.

    Only NPU_TENSOR_JIT=background builds while the program goes on. A kernel that could not be built is a warning of
    the next run that wants it, not an error here.
    """
    builds.finish()
