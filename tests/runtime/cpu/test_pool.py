"""The thread pool and the launcher: every item exactly once, from anywhere; bad arguments are refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding
import numpy as np
import pytest
from running import in_child

import npu_tensor
from npu_tensor._util.affinity import default_threads
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.pool import ARCHITECTURES, Pool
from npu_tensor.runtime.cpu.target import CpuTarget, host_target

POOL_SOURCE = Path(npu_tensor.__file__).parent / "runtime" / "cpu" / "pool.c"

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")

# count: counters[i] += 1 (not atomic: an item that two threads run may be lost, one that runs twice shows)
# slots: copies the slots, then the address of meta, to the array in slot 0
# outer: for each item, a loop over 1000 counters through parallel_for, whose address is in slot 1
KERNELS = """
define void @count(ptr %slots, ptr %meta, i64 %begin, i64 %end) {
entry:
  %counters = load ptr, ptr %slots
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %counters, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @slots(ptr %slots, ptr %meta, i64 %begin, i64 %end) {
entry:
  %output = load ptr, ptr %slots
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr i64, ptr %slots, i64 %i
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %output, i64 %i
  store i64 %value, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %meta.at = getelementptr i64, ptr %output, i64 %end
  %meta.bits = ptrtoint ptr %meta to i64
  store i64 %meta.bits, ptr %meta.at
  ret void
}

define void @outer(ptr %slots, ptr %meta, i64 %begin, i64 %end) {
entry:
  %rows = load ptr, ptr %slots
  %loop.at = getelementptr ptr, ptr %slots, i64 1
  %parallel_for = load ptr, ptr %loop.at
  %row = alloca ptr
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 1000
  %at = getelementptr i64, ptr %rows, i64 %offset
  store ptr %at, ptr %row
  call void %parallel_for(ptr @count, ptr %row, ptr null, i64 1000, i64 10)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


class Native:
    """A pool and the addresses of the kernels above."""

    def __init__(self) -> None:
        engine = Engine(host_target().create_target_machine(), "test", None)
        self.pool = Pool(engine)
        self.kernels = engine.compile(KERNELS, "count", "slots", "outer")


@pytest.fixture(scope="module")
def native() -> Native:
    return Native()


@pytest.fixture(autouse=True)
def four_threads(native: Native) -> Iterator[None]:
    native.pool.set_threads(4)
    yield
    native.pool.set_threads(0)


def count_items(native: Native, n: int, grain: int, rounds: int = 1) -> np.ndarray:
    counters = np.zeros(n, np.int64)
    for _ in range(rounds):
        native.pool.launch(native.kernels["count"], 0, n, grain, counters.ctypes.data)
    return counters


CASES = [
    (1, 1, 1),
    (7, 1, 1),
    (64, 64, 1),
    (65, 64, 1),
    (1000, 7, 1),
    (100_000, 1, 1),
    (5, 1 << 62, 1),
    (256, 16, 5000),
]


@pytest.mark.parametrize(("n", "grain", "rounds"), CASES)
def test_every_item_runs_once_in_each_round(native: Native, n: int, grain: int, rounds: int) -> None:
    assert (count_items(native, n, grain, rounds) == rounds).all()


def test_launch_from_eight_python_threads(native: Native) -> None:
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(count_items(native, 4096, 64, rounds=200))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all((counters == 200).all() for counters in results)


def test_a_kernel_may_start_a_loop(native: Native) -> None:
    counters = np.zeros((20, 1000), np.int64)
    pool = native.pool
    pool.launch(native.kernels["outer"], 0, 20, 1, counters.ctypes.data, pool.parallel_for_address)
    assert (counters == 1).all()


def test_set_threads(native: Native) -> None:
    pool = native.pool
    for threads in (1, 3, 2, 6, 1, 4):
        pool.set_threads(threads)
        assert pool.threads == (threads if pool.parallel else 1)
        assert (count_items(native, 1000, 10, rounds=50) == 50).all()
    pool.set_threads(0)
    assert pool.threads == (default_threads() if pool.parallel else 1)
    for bad in (-1, 1 << 20):
        with pytest.raises(ArgumentError):
            pool.set_threads(bad)


def test_threads_may_change_while_loops_run(native: Native) -> None:
    stop = threading.Event()

    def change() -> None:
        threads = 1
        while not stop.is_set():
            threads = threads % 5 + 1
            native.pool.set_threads(threads)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        assert (count_items(native, 512, 8, rounds=3000) == 3000).all()
    finally:
        stop.set()
        changer.join()


@pytest.mark.skipif(sys.platform != "linux", reason="workers exist on Linux only")
def test_sleeping_workers_are_woken() -> None:
    """Each of two items waits until both are running, which one thread cannot do alone."""
    meet = """
define void @meet(ptr %slots, ptr %meta, i64 %begin, i64 %end) {
  %arrived = load ptr, ptr %slots
  %before = atomicrmw add ptr %arrived, i64 1 seq_cst
  br label %wait
wait:
  %now = load atomic i64, ptr %arrived seq_cst, align 8
  %both = icmp sge i64 %now, 2
  br i1 %both, label %done, label %wait
done:
  ret void
}
"""
    engine = Engine(host_target().create_target_machine(), "test", None)
    pool = Pool(engine, threads=2)
    kernel = engine.compile(meet, "meet")["meet"]
    for _ in range(20):
        arrived = np.zeros(1, np.int64)
        pool.launch(kernel, 0, 2, 1, arrived.ctypes.data)
        assert arrived[0] == 2
        time.sleep(0.002)  # Long enough for the worker to fall asleep.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_computes_in_parallel(native: Native) -> None:
    assert (count_items(native, 1000, 10) == 1).all()

    def compute() -> None:
        assert native.pool.started_workers == 0
        assert (count_items(native, 1000, 10, rounds=100) == 100).all()
        assert native.pool.started_workers == native.pool.threads - 1

    in_child(compute)
    assert (count_items(native, 1000, 10) == 1).all()


SETUP = textwrap.dedent(
    """
    import os, signal, sys, threading, time
    import numpy as np
    from npu_tensor.runtime.cpu.engine import Engine
    from npu_tensor.runtime.cpu.pool import Pool
    from npu_tensor.runtime.cpu.target import host_target
    engine = Engine(host_target().create_target_machine(), "test", None)
    pool = Pool(engine, threads=4)
    nothing = engine.compile("define void @f(ptr %s, ptr %m, i64 %b, i64 %e) { ret void }", "f")["f"]
    """
)


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(script)], capture_output=True, text=True, timeout=30
    )


def test_ctrl_c_reaches_python_while_workers_run() -> None:
    result = run_python(
        """
        pool.launch(nothing, 0, 100, 1)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                pool.launch(nothing, 0, 100, 1)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert (result.returncode, result.stdout) == (0, "interrupted\n"), result.stderr


def test_slots_arrive_as_int64_and_float64_bits(native: Native) -> None:
    values = [-1, -1.0, 2.5, float("nan"), (1 << 63) - 1, -(1 << 63), True, np.int64(-7), np.float64(0.1)]
    output = np.zeros(len(values) + 2, np.int64)
    n = len(values) + 1
    native.pool.launch(native.kernels["slots"], 12345, n, n, output.ctypes.data, *values)
    expected = [
        np.array([value], np.float64).view(np.int64)[0] if isinstance(value, float) else int(value) for value in values
    ]
    assert output.tolist() == [output.ctypes.data, *expected, 12345]


def test_without_futex_loops_run_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_tensor.runtime.cpu.pool.ARCHITECTURES", ())
    native = Native()
    native.pool.set_threads(4)
    assert (native.pool.parallel, native.pool.threads) == (False, 1)
    assert (count_items(native, 1000, 10) == 1).all()
    assert native.pool.started_workers == 0


# ---------------------------------------------------------------------- the source in C


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_ir_is_that_of_the_source_and_compiles(architecture: str) -> None:
    """`python scripts/pool_ir.py` after a change of pool.c, on any machine."""
    text = POOL_SOURCE.with_name(f"pool.{architecture}.ll").read_text("utf-8")
    assert hashlib.sha256(POOL_SOURCE.read_bytes()).hexdigest() in text.splitlines()[0]
    target = CpuTarget(f"{architecture}-unknown-linux-gnu", "generic", frozenset())
    module = llvmlite.binding.parse_assembly(text)
    module.verify()
    assert target.create_target_machine().emit_object(module)


def test_no_data_race_under_thread_sanitizer(tmp_path: Path) -> None:
    def run(name: str, *sources: Path) -> subprocess.CompletedProcess[str]:
        """Return the process of the program, or of its compiler if that fails."""
        program = tmp_path / name
        command = ["cc", "-fsanitize=thread", "-g", "-O1", "-pthread", *sources, "-o", program]
        built = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return built if built.returncode else subprocess.run([program], capture_output=True, text=True, timeout=60)

    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    (tmp_path / "nothing.c").write_text("int main(void) { return 0; }")
    nothing = run("nothing", tmp_path / "nothing.c")
    if nothing.returncode:
        pytest.skip(f"no ThreadSanitizer: {nothing.stderr[:200]}")
    result = run("pool", Path(__file__).with_name("pool_under_tsan.c"), POOL_SOURCE)
    assert (result.returncode, result.stdout) == (0, "3 workers\n"), result.stderr
