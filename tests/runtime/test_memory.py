"""The allocator: alignment, reuse, accounting, and lifetimes shared with NumPy."""

import gc
import os
import random
import sys
import threading
import weakref
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import CodeType

import ml_dtypes
import numpy as np
import pytest
from running import Interrupter

from npu_tensor._util import units
from npu_tensor.runtime import memory
from npu_tensor.runtime.memory import ALIGNMENT, Allocator, Buffer

MIB = 1 << 20

SIZES = [0, 1, 63, 64, 65, 511, 512, 513, 4096, 100_000, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 5 * MIB]


def test_live_buffers_never_overlap() -> None:
    """Every buffer is filled with a number of its own and must still hold it when it is freed."""
    allocator = Allocator(pool_bytes=8 * MIB)
    generator = random.Random(1)
    live: list[tuple[int, np.ndarray]] = []
    for step in range(4000):
        if live and generator.random() < 0.5:
            number, array = live.pop(generator.randrange(len(live)))
            assert (array == number).all()
        else:
            nbytes = 8 * int(2 ** generator.uniform(0, 17 if step % 50 else 19))
            array = allocator.allocate(nbytes).as_array((nbytes // 8,), np.int64)
            array[...] = step
            live.append((step, array))
        if step % 1000 == 999:
            allocator.release()
    spans = sorted((array.ctypes.data, array.nbytes) for _, array in live)
    assert all(start + size <= following for (start, size), (following, _) in pairwise(spans))
    for number, array in live:
        assert (array == number).all()


def test_statistics_follow_large_blocks() -> None:
    allocator = Allocator()
    assert allocator.statistics().in_use == allocator.statistics().cached == allocator.statistics().peak == 0
    one, two = allocator.allocate(4 * MIB), allocator.allocate(6 * MIB)
    assert (allocator.statistics().in_use, allocator.statistics().cached) == (10 * MIB, 0)
    del one
    assert (allocator.statistics().in_use, allocator.statistics().cached) == (6 * MIB, 4 * MIB)
    one = allocator.allocate(4 * MIB)
    assert allocator.statistics().peak == 10 * MIB
    del one, two
    assert allocator.release() == 10 * MIB
    statistics = allocator.statistics()
    assert (statistics.in_use, statistics.cached, statistics.peak) == (0, 0, 10 * MIB)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_release_gives_memory_back_to_the_system() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    allocator = Allocator()
    buffer = allocator.allocate(64 * MIB)
    before = resident()
    buffer.as_array((64 * MIB,), np.uint8)[...] = 1
    assert resident() - before > 60 * MIB
    del buffer
    assert resident() - before > 60 * MIB
    allocator.release()
    assert resident() - before < 4 * MIB


def test_out_of_memory() -> None:
    allocator = Allocator()
    free = allocator.allocate(4 * MIB)
    del free
    for nbytes in (1 << 55, 1 << 70):
        with pytest.raises(MemoryError, match=rf"^cannot allocate {units.size(nbytes)}, and 0 B are in use$"):
            allocator.allocate(nbytes)
    assert allocator.statistics().cached == 0
    assert allocator.allocate(4 * MIB).nbytes == 4 * MIB


@pytest.mark.parametrize("nbytes", SIZES)
def test_allocation_of_one_size(nbytes: int) -> None:
    """Buffers of both kinds never share a block, and go back to one place."""
    allocator = Allocator()
    allocate = allocator.allocation(nbytes)
    buffers = [allocate() if turn % 3 else allocator.allocate(nbytes) for turn in range(60)]
    assert all(buffer.nbytes == nbytes and buffer.address % ALIGNMENT == 0 for buffer in buffers)
    addresses = sorted(buffer.address for buffer in buffers)
    assert all(following - address >= max(nbytes, 1) for address, following in pairwise(addresses))
    buffers[-1].as_array((nbytes,), np.uint8)[...] = 255
    freed = buffers.pop().address
    assert allocator.allocate(nbytes).address == freed
    assert allocate().address == freed
    assert repr(allocate()) == f"Buffer(address={freed:#x}, nbytes={nbytes})"
    buffers.clear()
    assert allocator.statistics().in_use == 0
    assert allocator.release() > 0
    assert allocate().nbytes == nbytes


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 5), np.float32),
        ((), np.float64),
        ((0, 7), np.int16),
        ((2, 3, 4, 5), ml_dtypes.bfloat16),
        ((10,), np.bool_),
        ((9,), ml_dtypes.float8_e4m3fn),
    ],
)
def test_as_array(shape: tuple[int, ...], dtype: type) -> None:
    allocator = Allocator()
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    for size in (nbytes, nbytes + 3):
        buffer = allocator.allocate(size)
        array = buffer.as_array(shape, dtype)
        assert array.shape == shape
        assert array.dtype == np.dtype(dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert nbytes == 0 or array.ctypes.data == buffer.address
        array[...] = 1
        assert (buffer.as_array(shape, dtype) == 1).all()


@pytest.mark.parametrize("nbytes", [1000, 3 * MIB])
def test_arrays_keep_the_buffer_and_the_allocator_alive(nbytes: int) -> None:
    allocator = Allocator(pool_bytes=0)
    buffer = allocator.allocate(nbytes)
    reference = weakref.ref(buffer)
    view = buffer.as_array((nbytes // 4,), np.float32)[5:50].reshape(9, 5).T
    view[...] = 7
    del buffer, allocator
    gc.collect()
    assert reference() is not None
    assert (view == 7).all()
    del view
    assert reference() is None


def test_from_array() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    reference = weakref.ref(array)
    buffer = Buffer.from_array(array)
    assert (buffer.address, buffer.nbytes) == (array.ctypes.data, 96)
    assert np.shares_memory(buffer.as_array((24,), np.float32), array)
    del array
    assert reference() is not None
    exported = buffer.as_array((24,), np.float32)
    del buffer
    assert exported.tolist() == list(range(24))
    del exported
    assert reference() is None


def test_parts_share_the_memory_and_keep_it() -> None:
    allocator = Allocator(pool_bytes=0)
    whole = allocator.allocate(2 * MIB)
    whole.as_array((2 * MIB,), np.uint8)[:] = 7
    part = whole.part(MIB, MIB)
    for _ in range(100_000):  # Parts that kept each other alive would overflow the stack when they go.
        part = part.part(1, part.nbytes - 1)
    assert part.address == whole.address + MIB + 100_000
    reference = weakref.ref(whole)
    del whole
    gc.collect()
    assert reference() is not None
    assert (part.as_array((part.nbytes,), np.uint8) == 7).all()
    del part
    gc.collect()
    assert reference() is None
    assert allocator.statistics().in_use == 0


def test_from_array_refuses_what_it_cannot_share() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        Buffer.from_array(np.zeros((4, 4))[:, ::2])
    with pytest.raises(ValueError, match="objects"):
        Buffer.from_array(np.array([object()]))


def test_many_threads() -> None:
    allocator = Allocator(pool_bytes=16 * MIB)
    errors: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        fixed = allocator.allocation(80)
        for step in range(400):
            nbytes = 8 * generator.choice([1, 10, 600, 9000, 150_000, 300_000])
            buffer = fixed() if nbytes == 80 else allocator.allocate(nbytes)
            array = buffer.as_array((nbytes // 8,), np.int64)
            del buffer
            array[...] = seed
            if step % 100 == 0:
                allocator.release()
            if not (array == seed).all():
                errors.append(f"thread {seed}, step {step}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert allocator.statistics().in_use == 0


def in_allocator(code: CodeType) -> bool:
    return code.co_filename == memory.__file__


def test_large_blocks_survive_an_interrupt_at_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)

    def work() -> None:
        for nbytes in (3 * MIB, 5 * MIB, 3 * MIB):
            first, second = allocator.allocate(nbytes), allocator.allocate(nbytes)
            assert abs(first.address - second.address) >= nbytes
            first.as_array((nbytes,), np.uint8)[::4096] = 1
            second.as_array((nbytes,), np.uint8)[::4096] = 2
            assert first.as_array((nbytes,), np.uint8)[0] == 1

    number, reached = 1, True
    while reached:
        allocator = Allocator(pool_bytes=7 * MIB)
        with suppress(KeyboardInterrupt), Interrupter(in_allocator, number) as places:
            work()
        reached = places.count >= number
        work()
        assert not allocator._lock.locked()
        statistics = allocator.statistics()
        assert statistics.in_use == 0, f"after an interrupt at place {number}"
        assert statistics.cached <= 7 * MIB
        allocator.release()
        assert allocator.statistics().cached == 0
        number += 1
    assert number > 50
