"""Memory of the stand-in for pyxrt: two copies, and caches at their worst."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from machine import Fault, Machine
from npu_memory import FREED
from standin_checks import ADDED, OUTPUT, STARTED
from xrt_designs import ELEMENTS, Loaded


def test_a_forgotten_sync_to_the_device(loaded: Loaded) -> None:
    loaded.write(loaded.x, 100, sync=False)
    run = loaded.run()
    run.start()
    run.wait()
    assert loaded.read(loaded.y) == ADDED


def test_a_forgotten_sync_from_the_device(loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    run.wait()
    assert loaded.head(loaded.y) == OUTPUT


def test_dirty_lines_end_up_on_the_result(machine: Machine, loaded: Loaded) -> None:
    loaded.host(loaded.y)[:2] = 1  # one line of 64 bytes
    run = loaded.run()
    run.start()
    run.wait()
    loaded.y.sync(loaded.from_device)
    expected = np.arange(ELEMENTS) + 7
    expected[:16] = [1, 1, *[-5] * 14]
    assert (loaded.host(loaded.y) == expected).all()
    assert machine.warnings == ["launch 0 wrote a buffer that had dirty lines in the cache"]


def test_lines_that_get_dirty_after_the_launch(loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    run.wait()
    loaded.host(loaded.y)[0] = 1
    loaded.y.sync(loaded.from_device)
    assert loaded.head(loaded.y) == [1, -5, -5, -5]
    assert loaded.host(loaded.y)[16] == 23


def test_a_new_buffer_is_dirty_and_undefined(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    x, y = (pyxrt.bo(loaded.device, 4 * ELEMENTS, pyxrt.bo.host_only, 0) for _ in range(2))
    run = loaded.run(x=x)
    run.start()
    run.wait()
    assert loaded.read(loaded.y) == [6] * 4  # 0xFFFFFFFF + 7
    run = loaded.run(y=y)
    run.start()
    run.wait()
    assert loaded.read(y) == [0] * 4
    assert machine.warnings == ["launch 1 wrote a buffer that had dirty lines in the cache"]


def test_a_late_sync_to_the_device_overwrites_the_result(loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    run.wait()
    loaded.y.sync(loaded.to_device)
    assert loaded.read(loaded.y) == OUTPUT


def test_a_view_does_not_keep_the_buffer(machine: Machine, loaded: Loaded) -> None:
    view = loaded.host(loaded.x)
    assert [int(value) for value in view[:4]] == STARTED
    del loaded.x
    assert (view.view(np.uint8) == FREED).all()
    assert (machine.live_bos, machine.live_bytes) == (2, 4 * ELEMENTS + loaded.size)


def test_out_of_memory(machine: Machine, pyxrt: Any) -> None:
    device = pyxrt.device(0)
    make = partial(pyxrt.bo, device, 4096, pyxrt.bo.host_only, 0)
    machine.inject(Fault.MEMORY, after=1, times=2)
    kept = make()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"CREATE_BO IOCTL failed \(err=-12\): Cannot allocate memory"):
            make()
    machine.inject(Fault.BAD_ALLOC)
    with pytest.raises(MemoryError, match="std::bad_alloc"):
        make()
    machine.devices[0].memory = 8192
    second = make()
    with pytest.raises(RuntimeError, match="err=-12"):
        make()
    del second
    make()
    with pytest.raises(RuntimeError, match="err=-22"):
        pyxrt.bo(device, 0, pyxrt.bo.host_only, 0)
    assert kept.map().nbytes == 4096
    with pytest.raises(RuntimeError, match="no host buffer"):
        pyxrt.bo(device, 64, pyxrt.bo.device_only, 0).map()


def test_groups_name_bank_and_context(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    second = Loaded(pyxrt, loaded.device, loaded.files)
    assert [loaded.kernel.group_id(number) for number in (0, 1, 2, 3, 18, 19)] == [
        0x1FFFF,
        0x10001,
        0x1FFFF,
        0x10000,
        0x10000,
        0x1FFFF,
    ]
    assert second.kernel.group_id(3) == 0x20000
    run = loaded.run(x=second.x)
    run.start()
    run.wait()
    assert machine.warnings == ["a buffer object of context 2 is used in another one"]
