"""Pool of memory shared by host and NPU."""

import gc
import weakref

import pytest
from cost_tasks import opened
from hypothesis import given
from hypothesis import strategies as st

from npu_tensor.config import config
from npu_tensor.runtime.npu.buffers import PAGE, BlockPool, OutOfMemory
from npu_tensor.runtime.npu.driver import DriverError
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer

UNLIMITED = 1 << 40


class Driver:
    """Makes memory, as long as there is some."""

    def __init__(self, nbytes: int = UNLIMITED) -> None:
        self.nbytes = nbytes
        self.made: list[int] = []
        self.living: weakref.WeakSet[DeviceBuffer] = weakref.WeakSet()

    def create(self, nbytes: int) -> DeviceBuffer:
        if self.used + nbytes > self.nbytes:
            raise DriverError("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL failed (err=-12): Cannot allocate memory")
        memory = DeviceBuffer(nbytes)
        self.living.add(memory)
        self.made.append(nbytes)
        return memory

    @property
    def used(self) -> int:
        return sum(memory.bytes.nbytes for memory in self.living)


@given(st.integers(0, 1 << 26))
def test_sizes_of_blocks(nbytes: int) -> None:
    asked: list[int] = []

    class Enough(Exception):
        pass

    def create(size: int) -> DeviceBuffer:
        asked.append(size)
        raise Enough

    with pytest.raises(Enough):
        BlockPool(create, UNLIMITED).take(nbytes)
    (size,) = asked
    assert size >= max(nbytes, 1)
    assert size % PAGE == 0
    assert size - nbytes <= max(PAGE, nbytes / 8 + PAGE if nbytes > 8 * PAGE else PAGE)


def test_all_buffers_have_a_limit_that_only_its_own_setting_raises() -> None:
    device = opened("sim:npu2")
    with config.scope(npu_memory_bytes=1 << 20, pool_bytes=1 << 22):
        one = device.engine.pool.take(1 << 19)
        with pytest.raises(OutOfMemory, match="npu_memory_bytes=1048576"):
            device.engine.pool.take(1 << 20)
    with config.scope(npu_memory_bytes=1 << 22):
        other = device.engine.pool.take(1 << 20)
    assert one.block is not other.block


def test_free_blocks_beyond_the_limit_go_before_new_ones_are_made() -> None:
    driver = Driver()
    pool = BlockPool(driver.create, limit=8 * PAGE)
    for pages in (4, 3, 2):
        pool.take(pages * PAGE)
    gc.collect()
    assert driver.used == 9 * PAGE
    pool.take(PAGE)
    gc.collect()
    assert driver.used == pool.nbytes == PAGE


def test_out_of_memory() -> None:
    driver = Driver(10 * PAGE)
    pool = BlockPool(driver.create, UNLIMITED)
    kept = pool.take(6 * PAGE)
    with pytest.raises(OutOfMemory, match=rf"{8 * PAGE} bytes, {6 * PAGE} are in use: .*err=-12"):
        pool.take(8 * PAGE)
    assert pool.nbytes == 6 * PAGE
    del kept
    assert pool.take(8 * PAGE).block.nbytes == 8 * PAGE


def test_a_discarded_block_is_never_handed_out_again() -> None:
    """The NPU may still write it; XRT frees it when that is over."""
    driver = Driver()
    pool = BlockPool(driver.create, UNLIMITED)
    lease = pool.take(PAGE)
    block = lease.block
    pool.discard(lease)
    pool.discard(lease)
    assert pool.nbytes == 0
    assert driver.used == PAGE  # The lease is still alive.
    del lease
    assert pool.take(PAGE).block is not block
    del block
    gc.collect()
    assert driver.used == PAGE
