"""Every test begins with the settings of the environment, and with kernels that this run has compiled."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from filelock import FileLock

# Limit threads of PyTorch and NumPy, the oracles: their spinning threads would occupy cores that other tests need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
with pytest.MonkeyPatch.context() as patch, suppress(ImportError):
    patch.setenv("OMP_NUM_THREADS", "1")  # Only for PyTorch, which reads it here. The CPU device respects it, too.
    import torch  # noqa: F401

from oracles import touched
from running import python

from npu_tensor import events
from npu_tensor._util.forks import all_locks
from npu_tensor.config import SETTINGS, config
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.design import Source
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.build import headers
from npu_tensor.runtime.cpu import engine, target
from npu_tensor.runtime.sim import host_compiler

# The environment may set the other settings: `make test` runs some tests again with other settings of the CPU device.
OWN = ("cache_path", "kernel_dirs", "jit", "record")


SLOW = (
    *("_util/test_uninterrupted", "autograd/test_on_npu", "benchmarks/", "browser/", "examples/", "fuzz/"),
    *(
        "ggml_hsa/test_executors",
        "ggml_hsa/test_record",
        "kernels/test_configurations",
        "kernels/test_core_vector_math",
    ),
    *("kernels/test_elementwise", "kernels/test_gemm_kernels", "kernels/test_rowwise", "project/test_docs"),
    *("runtime/npu/test_interrupts", "runtime/npu/test_soak", "runtime/sim/test_launches", "runtime/sim/test_ops"),
    *("runtime/store/test_production", "runtime/store/test_store_processes", "runtime/test_memory"),
    *("runtime/xrt/test_launch_benchmark", "runtime/xrt/test_xrt_interrupts", "cli/test_calibrate"),
    "cli/test_selftest_faults",
)
"""Folders and modules below tests/ that `make test` leaves out. Times: `pytest --durations=300`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders and modules."""
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(SLOW):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that does not touch an op or function that it is marked to cover."""
    names = {name for mark in item.iter_markers("covers") for name in mark.args}
    if not names:
        return (yield)
    with touched(names) as seen:
        result = yield
    assert names <= seen, f"this test is marked to cover {', '.join(sorted(names - seen))} and does not touch it"
    return result


def pytest_collection_finish() -> None:
    """Tests and what they import stay to the end: the many collections of tests of memory need not walk over them.

    Only where some tests use Hypothesis, as among many. It must have been used before: the first time, it asks the
    collector for the owners of its generators.
    """
    if "hypothesis" in sys.modules:
        from hypothesis import given, strategies

        given(strategies.none())(lambda _: None)()
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000)  # Designs and plans are many objects.


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all processes of this run of pytest share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _own_kernels(run_directory: Path) -> Iterator[None]:
    """Ignore kernels of earlier runs, and share the kernels of this run between its processes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN:
            for variable in SETTINGS[name].readers:
                patch.delenv(variable, raising=False)
        patch.setenv(SETTINGS["cache_path"].variable, str(run_directory / "kernels"))
        config.reset()
        selection.reset()  # Something may have been computed for the name of a test.
        selection.default_device()  # The first call reads the setting.
        yield
    config.reset()


@pytest.fixture
def reference() -> Iterator[None]:
    """Compute with NumPy, for tests with many cases that do not test compiled kernels."""
    with config.scope(cpu_features="numpy"):
        selection.reset()
        yield
    selection.reset()


_START: Final = threading.Thread.start
_RUN: Final = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _threads_inherit_settings() -> Iterator[None]:
    """Threads of tests see the settings of fixtures, as all threads do with `-X thread_inherit_context` of Python 3.14.

    `own_contexts` undoes it for a test.
    """

    def start(thread: threading.Thread) -> None:
        thread._own_context = copy_context()  # type: ignore[attr-defined]
        _START(thread)

    def run(thread: threading.Thread) -> None:
        thread._own_context.run(_RUN, thread)  # type: ignore[attr-defined]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        patch.setattr(threading.Thread, "_bootstrap_inner", run)
        yield


@pytest.fixture
def own_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads have a context of their own, as in programs."""
    monkeypatch.setattr(threading.Thread, "start", _START)
    monkeypatch.setattr(threading.Thread, "_bootstrap_inner", _RUN)


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Restore interrupts: background processes of a shell ignore them, and so would the programs that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def own_rates(tmp_path: Path) -> Iterator[Path]:
    """An empty cache directory, with devices opened for it: no figures measured on this machine before."""
    with config.scope(cache_path=str(tmp_path)):
        rates.forget()
        selection.reset()
        yield tmp_path
    rates.forget()
    selection.reset()


@pytest.fixture(scope="session")
def site(run_directory: Path) -> Path:
    """The documentation as a site, built once for all processes of this run; notebooks are not executed."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("nbclient")
    folder = run_directory / "site"
    with FileLock(run_directory / "site.lock"):
        if not folder.exists():
            command = ("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder.with_suffix(".part"))
            python(*command, NO_MKDOCS_2_WARNING="1", RUN_NOTEBOOKS="false")
            folder.with_suffix(".part").rename(folder)
    return folder


@pytest.fixture
def _compiler() -> None:
    """Skips without a compiler for the simulated NPUs."""
    if (reason := host_compiler.reason()) is not None:
        pytest.skip(reason)


def _without_optimisation(flags: Iterable[str]) -> tuple[str, ...]:
    assert "-O2" in flags
    return tuple("-O0" if flag == "-O2" else flag for flag in flags)


_STANDARD: Final = "bit", "cstdint", "cstdio", "cstring", "exception", "limits", "tuple", "type_traits", "utility"
_OF_CORES: Final = "aie_api/aie.hpp", "nt/vector_math.hpp"
"""Headers that most sources include. Reading them takes as long as compiling a kernel."""


@pytest.fixture(scope="session")
def _precompiled(run_directory: Path) -> Callable[[Arch | None], Path]:
    """The headers that most sources for a generation of cores include; of None, those of the C++ library."""
    flags = (*_without_optimisation(host_compiler._FLAGS), "-fPIC", "-x", "c++-header")

    def precompiled(arch: Arch | None) -> Path:
        header = run_directory / f"{arch or 'standard'}.hpp"
        with FileLock(header.with_suffix(".lock")):
            if not header.exists():
                names = (*_STANDARD, *_OF_CORES, "nt_host.hpp") if arch else _STANDARD
                text = header.with_suffix(".part")
                text.write_text("".join(f"#include <{name}>\n" for name in names))
                macro = host_compiler._arch_flags(arch) if arch else ()
                command = *host_compiler._compiler().command, *flags, *macro, text, "-o", f"{header}.gch"
                subprocess.run(command, check=True)
                text.rename(header)
        return header

    return precompiled


@pytest.fixture(scope="module")
def less_optimised(_precompiled: Callable[[Arch | None], Path]) -> Iterator[None]:
    """Kernels are compiled for this machine with -O0, for tests of many kernels that run each of them on little.

    Those of the CPU device, too. Headers are precompiled, for sources that include them, and linking is fast. All
    others, and with NPU_TENSOR_TEST_ALL these too, compile as users do.
    """
    if os.environ.get("NPU_TENSOR_TEST_ALL"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "_OPTIMIZATION", 0)
        patch.setattr(engine, "_FORMAT", f"{engine._FORMAT} -O0")  # of what the cache keeps
        selection.reset()
        if host_compiler.reason() is None:
            build = host_compiler._build

            def build_with_headers(compiler: Any, arch: Any, source: Source, *rest: Any) -> dict[str, Path]:
                included = headers.digests(source.text, host_compiler._INCLUDES)
                # Macros of a source may change the headers of cores.
                complete = included.keys() >= set(_OF_CORES) and "#define" not in source.text
                header = _precompiled(arch if complete else None)
                return build(compiler, arch, replace(source, flags=(*source.flags, "-include", str(header))), *rest)

            linker = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
            patch.setattr(host_compiler, "_build", build_with_headers)
            patch.setattr(host_compiler, "_FLAGS", (*_without_optimisation(host_compiler._FLAGS), *linker))
            patch.setattr(host_compiler, "_VISIBLE_FLAGS", _without_optimisation(host_compiler._VISIBLE_FLAGS))
        yield
    selection.reset()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """Fails a test that leaves a setting, the default devices, a listener or a lock changed, and puts it back."""
    assigned, active, listeners = _assigned(), selection.active.key, list(events.listeners)
    yield
    left = []
    if (result := _assigned()) != assigned:
        left.append(f"settings: {result}, before: {assigned}")
        config.reset()
    if selection.active.key != active:
        left.append(f"default devices: {selection.active.key}, before: {active}")
        selection.select(active.uris, active.policy)
    if events.listeners != listeners:
        left.append(f"listeners: {events.listeners}, before: {listeners}")
        events.listeners[:] = listeners
    if held := [lock for lock in all_locks() if f"owner={threading.get_ident()} " in repr(lock)]:
        left.append(f"locks held: {held}, before: none")
        for lock in held:
            lock.release()
    _forget_other_environments()
    assert not left, (
        f"this test leaves other {'; '.join(left)}. config.scope, nt.default_device and events.listen put them back"
    )


def _assigned() -> dict[str, Any]:
    """The settings that a program has assigned."""
    scoped = {name for _, values in config._scoped.get() for name in values}
    assigned = {name for name, (_, origin) in config._values.items() if origin.startswith("config.")}
    return {name: getattr(config, name) for name in scoped | assigned}


_read: dict[str, tuple[Any, str]] = {}
"""Settings that a test has read, with the values of the environment."""


def _forget_other_environments() -> None:
    """Settings that were read while a test had changed the environment are read again."""
    for name, (value, origin) in list(config._values.items()):
        if origin.startswith("config."):
            continue
        if name not in _read:
            _read[name] = SETTINGS[name].from_environment()
        if _read[name] != (value, origin):
            config.reset(name)
