"""Background builds: requests during a build, results, and the end of a build."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
from fakes import SECONDS, HeldBackend, design, request

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store import background
from npu_tensor.runtime.store.background import Builds, finish_builds
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import AnyRequest, Request
from npu_tensor.runtime.store.store import Artifact

pytestmark = pytest.mark.usefixtures("_in_background")


def pending(library: KernelLibrary, wanted: AnyRequest) -> bool:
    with pytest.raises(BuildError) as caught:
        library.find(wanted)
    return caught.value.pending


def test_a_kernel_is_pending_until_it_is_built(backend: HeldBackend, library: KernelLibrary) -> None:
    kernel = request()
    library.prepare([kernel])
    assert backend.begun.get(timeout=SECONDS) == kernel.name
    with pytest.raises(BuildError, match=f"{kernel.name} is being built in the background") as caught:
        library.find(kernel)
    assert caught.value.pending
    backend.go.set()
    finish_builds()
    result = library.find(kernel)
    assert result.origin == "built"
    assert library.find(kernel).origin == "memory"
    # Another design of this configuration.
    assert library.find(request()).origin == "memory"
    assert backend.built == [kernel.name]


def test_a_kernel_is_built_once_whoever_asks(backend: HeldBackend) -> None:
    """Threads with libraries and designs of their own."""
    count = 8
    barrier = threading.Barrier(count)

    def ask(number: int) -> bool:
        own, kernel = KernelLibrary(backend), request()
        barrier.wait(SECONDS)
        own.prepare([kernel])
        return pending(own, kernel)

    with ThreadPoolExecutor(count) as threads:
        assert all(threads.map(ask, range(count)))
    backend.go.set()
    finish_builds()
    assert backend.built == [request().name]


def test_no_more_builds_at_once_than_the_process_has_cores(
    library: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5, 7}, raising=False)
    pairs, lock = threading.Barrier(2), threading.Lock()
    running, most = 0, 0

    def build(wanted: Request, directory: Path, force: bool = False) -> dict[str, Path]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pairs.wait(SECONDS)  # so that two must run at once
        with lock:
            running -= 1
        path = directory / "out"
        path.write_text(wanted.name)
        return {".bin": path}

    monkeypatch.setattr(library.backend, "build", build)
    wanted = [request(design(f"// {number}"), f"neg-{number}") for number in range(6)]
    library.prepare(wanted)
    finish_builds()
    assert [library.find(one).origin for one in wanted] == ["built"] * 6
    assert most == 2


def test_a_waiting_caller_gets_the_kernel_of_the_running_build(backend: HeldBackend, library: KernelLibrary) -> None:
    kernel = request()
    library.prepare([kernel])
    backend.begun.get(timeout=SECONDS)
    with config.scope(jit="wait"), ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(library.find, kernel)
        backend.go.set()
        assert waiting.result(SECONDS).origin == "cache"
    assert backend.built == [kernel.name]


def test_events_come_from_the_build_and_its_listeners_may_ask_for_the_end(
    backend: HeldBackend, library: KernelLibrary
) -> None:
    heard: list[events.Event] = []

    def listen(event: events.Event) -> None:
        heard.append(event)
        finish_builds()  # would wait for itself

    with events.listen(listen):
        library.prepare([request()])
        backend.go.set()
        finish_builds()
    assert [type(event) for event in heard] == [events.BuildStarted, events.BuildFinished]
    assert threading.get_ident() not in {event.thread for event in heard}


def test_the_end_of_the_program_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    own, begun = Builds(), threading.Event()

    def compile() -> Artifact:
        begun.set()
        run([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, tmp_path / "build.log", 600)
        raise AssertionError("the build was not ended")

    with patch.object(background, "available_cores", return_value=1):
        running, waiting = own.start("1", compile), own.start("2", compile)
    assert begun.wait(SECONDS)
    own.end()
    own.finish()
    assert (running.ended, waiting.ended) == (True, False)
    assert "failed with exit code -9" in running.error


def nothing() -> Artifact:
    raise BuildError("nothing to build")


def test_no_more_threads_is_an_error_of_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    own = Builds()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(BuildError, match="can't start new thread") as caught:
            own.start("1", nothing)
    assert caught.value.transient
    later = own.start("1", nothing)
    own.finish()
    assert (later.ended, later.error) == (True, "nothing to build")
