"""A forked process has only the thread that forked: no lock may wait for another one there."""

import ast
import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from running import in_child

import npu_tensor as nt
from npu_tensor._util import forks
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.config import config
from npu_tensor.dataflow import design
from npu_tensor.errors import DeviceError
from npu_tensor.ggml_hsa.kernel_log import _Recorder
from npu_tensor.planner import selection
from npu_tensor.runtime import memory
from npu_tensor.runtime.build import progress
from npu_tensor.runtime.cpu import engine as compiler
from npu_tensor.runtime.cpu import tuning
from npu_tensor.runtime.cpu.cpu_device import CpuDevice
from npu_tensor.runtime.devices import host
from npu_tensor.runtime.devices.backends import open_device
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.npu import npu_engine
from npu_tensor.runtime.npu import npu_kernel as offered
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.runtime.store import directories as store_directories
from npu_tensor.runtime.store import files as store_files
from npu_tensor.runtime.store import upkeep as store_upkeep
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.xrt import bindings

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
SECONDS = 60
PACKAGE = Path(nt.__file__).parent


def run_in_child(use: Callable[[], object]) -> None:
    """Call in a forked process, where the result stays."""

    def call() -> None:
        use()

    in_child(call)


class Case(NamedTuple):
    """Locks, and a function that takes them all."""

    locks: tuple[AbstractContextManager[Any], ...]
    use: Callable[[], object]


def cpu_pool(directory: Path) -> Case:
    device = CpuDevice(memory.Allocator())
    return Case((device._pool_lock,), lambda: device.pool.launch)


def unit(directory: Path) -> Case:
    device = CpuDevice(memory.Allocator())
    if not device.target.has_bfloat16:
        pytest.skip("no dot product of bfloat16 here")
    tuning._chosen.clear()  # so that it is measured again
    return Case((tuning._lock,), lambda: tuning.bfloat16_unit(device.engine, device.target, device.rates))


def simulator(directory: Path) -> Case:
    if reason := host_compiler.reason():
        pytest.skip(reason)
    x = nt.from_numpy(np.ones(64, ml_dtypes.bfloat16))
    with nt.default_device("sim:npu2"):
        device, *_ = selection.accelerators(selection.current())
        assert isinstance(device, SimulatedDevice)
        assert (x + 1).tolist() == [2.0] * 64

    def use() -> None:
        with nt.default_device("sim:npu2"):
            assert (x + 1).tolist() == [2.0] * 64

    return Case((npu_engine.lock,), use)


def empty_design() -> design.Design:
    return design.Builder("empty", "aie2p", 1).build()


def offer(directory: Path) -> Case:
    empty = empty_design()
    return Case((offered._lock,), lambda: offered.known_design(empty))


def logical(directory: Path) -> Case:
    device = open_device(parse_uri("sim:npu2x2"), memory.Allocator(), host.host_step)
    return Case((device.binding, device._choosing), lambda: device.enter([], ()))


def kernel_directory(directory: Path) -> Case:
    kernels = KernelDirectory(directory)
    return Case((kernels._lock,), lambda: kernels.kernels(directory))


def recorder(directory: Path) -> Case:
    recorded = _Recorder(directory / "recorded.json")

    def use() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Nothing was computed.
            recorded.write()
        assert recorded.path.exists()

    return Case((recorded._lock,), use)


def store_files_of_one_key(directory: Path) -> Case:
    key = "0" * 16
    lock = store_files._thread_locks.setdefault(directory / store_files.LOCKS / f"{key}.lock", new_lock())

    def use() -> None:
        with store_files.locked(directory, key):
            pass

    return Case((lock,), use)


def bar(directory: Path) -> Case:
    def use() -> None:
        with progress.building("a kernel"):
            pass

    return Case((progress._builds._lock,), use)


def no_pyxrt(directory: Path) -> Case:
    def use() -> None:
        with suppress(DeviceError):
            bindings.pyxrt()

    return Case((bindings._lock,), use)


CASES: dict[str, Callable[[Path], Case]] = {
    "config": lambda _: Case((config._lock,), lambda: config.reset("debug")),
    "dataflow.design": lambda _: Case((design._lock,), lambda: empty_design().configuration),
    "planner.selection": lambda _: Case((selection.lock,), lambda: (nt.ones(3) * 2 + 1).tolist()),
    "ggml_hsa.kernel_log": recorder,
    "runtime.build.progress": bar,
    "runtime.cpu.processor": cpu_pool,
    "runtime.cpu.tuning": unit,
    "runtime.devices.host": lambda _: Case((host._lock,), lambda: (host.host_devices(), host.allocator())),
    "runtime.devices.logical": logical,
    "runtime.npu.npu_kernel": offer,
    "runtime.store.kernel_directory": kernel_directory,
    "runtime.store.directories": lambda root: Case(
        (store_directories._lock,), lambda: store_directories.writable(root)
    ),
    "runtime.store.files": store_files_of_one_key,
    "runtime.store.upkeep": lambda root: Case((store_upkeep._written_lock,), lambda: store_upkeep.wrote(root, 1)),
    "runtime.xrt.bindings": no_pyxrt,
    "runtime.npu.npu_engine": simulator,
}
"""By module that has a Lock."""


@pytest.mark.parametrize("module", CASES)
def test_a_child_can_use_a_lock_that_a_thread_of_its_parent_holds(module: str, tmp_path: Path) -> None:
    locks, use = CASES[module](tmp_path)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(SECONDS)
        run_in_child(use)
    finally:
        done.set()
        thread.join()
    use()


@pytest.mark.parametrize("lock", [compiler._lock, memory._lock], ids=["compiler", "memory"])
def test_a_fork_waits_for_what_must_not_be_cut_short(lock: AbstractContextManager[bool]) -> None:
    held = threading.Event()
    done: list[str] = []

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.1)
            done.append("all of it")

    def use() -> None:
        assert done == ["all of it"]
        big = nt.ones(1 << 20)
        assert (big.cos() * 3).sum().item() == pytest.approx(3 * np.cos(1.0) * (1 << 20), rel=1e-4)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(SECONDS)
    run_in_child(use)
    thread.join()
    use()


def test_a_thread_keeps_its_own_lock_in_the_child() -> None:
    lock = new_lock()

    def use() -> None:
        with lock:
            pass
        taken: list[bool] = []
        other = threading.Thread(target=lambda: taken.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
        assert taken == [False]
        lock.release()
        with pytest.raises(RuntimeError):
            lock.release()

    with lock:
        run_in_child(use)
    run_in_child(lock.acquire)


class Slow:
    """An attribute whose first computation ends when it may, and others at once."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> object:
        """A new object."""
        if not self.begun.is_set():
            self.begun.set()
            assert self.may_end.wait(SECONDS)
        return object()


def test_a_child_can_read_an_attribute_that_a_thread_of_its_parent_computes() -> None:
    slow, other = Slow(), Slow()
    other.begun.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    try:
        assert slow.begun.wait(SECONDS)
        run_in_child(lambda: other.value)
    finally:
        slow.may_end.set()
        thread.join()


def test_two_threads_get_the_same_value_of_an_attribute() -> None:
    slow = Slow()
    result: list[object] = []
    thread = threading.Thread(target=lambda: result.append(slow.value))
    thread.start()
    assert slow.begun.wait(SECONDS)
    first = slow.value
    slow.may_end.set()
    thread.join()
    assert result == [first]
    assert slow.value is first


def test_two_threads_get_the_same_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one would set the number of threads anew."""
    begun, may_end = threading.Event(), threading.Event()

    def make(*given: object) -> object:
        begun.set()
        assert may_end.wait(SECONDS)
        return object()

    monkeypatch.setattr("npu_tensor.runtime.cpu.processor.Pool", make)
    device = CpuDevice(memory.Allocator())
    result: list[object] = []
    threads = [threading.Thread(target=lambda: result.append(device.pool)) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert begun.wait(SECONDS)
    may_end.set()
    for thread in threads:
        thread.join()
    assert result == [device.pool] * 2


def test_builds_of_the_parent_are_not_going_on_in_the_child() -> None:
    def use() -> None:
        assert (progress._builds._running, progress._builds._total, progress._builds._timer) == ([], 0, None)
        with progress.building("mine"):
            assert progress._builds._running == ["mine"]
            assert progress._builds._timer is not None
            assert progress._builds._timer.is_alive()

    with progress.building("a kernel"):
        run_in_child(use)
        assert progress._builds._running == ["a kernel"]


def test_a_child_may_leave_a_build_in_which_it_was_forked() -> None:
    block = ExitStack()
    with block:
        block.enter_context(progress.building("a kernel"))
        run_in_child(block.close)


def test_there_is_one_hook_however_many_objects_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[Any] = []
    monkeypatch.setattr(forks, "_register", lambda **given: hooks.append(given))
    assert memory.Allocator().allocate(100).nbytes == 100
    assert CpuDevice(memory.Allocator()).pool.threads >= 1
    for _ in range(3):
        new_lock()
    assert hooks == []


OWN = {
    "graph.aliasing": "held at a fork",
    "_util.forks": "makes those of all others",
    "runtime.store.background": "Builds.start_anew makes another one, also in a child",
    "runtime.cpu.engine": "held at a fork",
    "runtime.memory": "held at a fork",
    "runtime.npu.keepalive": "a child has no engine, and so no thread that waits",
}
"""Modules that make something of `threading` that a thread could hold at a fork, and why they may."""

WAITED_FOR = {
    f"threading.{name}" for name in ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore")
}


def calls(path: Path) -> set[str]:
    """What a source file calls: "threading.Lock" in whatever way it was imported, "forks.new_lock"."""
    tree = ast.parse(path.read_text("utf-8"))
    modules = {
        alias.asname or alias.name: (node.module or "").rpartition(".")[2] + "." + alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {modules.get(text, text) for text in map(ast.unparse, called)}


def test_all_locks_are_made_for_forks() -> None:
    result = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): calls(path) for path in PACKAGE.rglob("*.py")}
    assert {module for module, called in result.items() if called & WAITED_FOR} == set(OWN)
    assert {module for module, called in result.items() if "forks.new_lock" in called} == set(CASES)


def test_no_attribute_is_computed_under_a_lock_that_all_instances_share() -> None:
    """As the standard library's are before Python 3.12."""
    taken = re.compile(r"functools\.cached_property|from functools import .*cached_property")
    result = [path for path in PACKAGE.rglob("*.py") if taken.search(path.read_text("utf-8"))]
    assert result == [PACKAGE / "_util" / "forks.py"]


def test_only_one_module_asks_to_be_told_of_forks() -> None:
    result = [path for path in PACKAGE.rglob("*.py") if "register_at_fork" in path.read_text("utf-8")]
    assert result == [PACKAGE / "_util" / "forks.py"]
