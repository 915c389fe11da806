"""Background builds: requests during a build, results, and the end of a build."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakes import SECONDS, HeldBackend, design, request

from npu_tensor.config import config
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.background import finish_builds
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import AnyRequest, Request

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
