"""Random work and random faults on an NPU: every value that is read is right, and nothing leaks.

All values are small integers, which bfloat16 holds exactly, so that a tolerance cannot hide a stale or torn read.
"""

import gc
import random
from collections import Counter

import numpy as np
import pytest
from fake_clock import Clock
from faulty_npu import FaultyNpu
from npu_faults import LAUNCH_FAULTS, Fault
from npu_values import BF16, Array
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]

SIDE = 64
BOUND = 4
FAULT_EVERY = 8
"""Launches per fault."""


class Work:
    """Matrices that live on an NPU for a while, with their expected values."""

    def __init__(self, npu: FaultyNpu, seed: int) -> None:
        self.npu = npu
        self.random = random.Random(seed)
        self.faults = Counter[str]()
        numbers = np.random.default_rng(seed)
        self.order = numbers.permutation(SIDE).astype(np.int32)
        self.weight = np.eye(SIDE)[numbers.permutation(SIDE)] * numbers.choice([-1, 1], SIDE)
        self.at, self.w = nt.from_numpy(self.order), nt.from_numpy(self.weight.astype(BF16))
        self.numbers = numbers
        self.values = [self.fresh() for _ in range(4)]

    def fresh(self) -> tuple[nt.Tensor, Array]:
        """Return a matrix that the host has made."""
        right = self.numbers.integers(-BOUND, BOUND + 1, (SIDE, SIDE)).astype(float)
        return nt.from_numpy(right.astype(BF16)), right

    def computed(self) -> tuple[nt.Tensor, Array]:
        """Record one or several kernels on values that may be in flight."""
        (x, a), (y, b) = self.random.choices(self.values, k=2)
        half = SIDE // 2
        kind = self.random.randrange(6)
        if kind == 0:
            return x.index_select(0, self.at), a[self.order]
        if kind == 1:
            return nt.cat([x[half:], y[:half]]), np.concatenate([a[half:], b[:half]])
        if kind == 2:
            return x @ self.w, a @ self.weight
        if kind == 3:
            return nt.clamp(x * 2 - y, -BOUND, BOUND), np.clip(2 * a - b, -BOUND, BOUND)
        if kind == 4:
            return (x @ self.w @ self.w).flip(0), (a @ self.weight @ self.weight)[::-1]
        return x.transpose(0, 1).contiguous().index_select(0, self.at), a.T[self.order]

    def read(self, value: tuple[nt.Tensor, Array]) -> None:
        """Compare a value."""
        np.testing.assert_array_equal(value[0].numpy().astype(float), value[1])

    def step(self) -> None:
        """Do one of the things that a program does."""
        place = self.random.randrange(len(self.values))
        dice = self.random.random()
        if dice < 0.75:
            made = self.computed()
            made[0].realize(wait=self.random.random() < 0.3)
            if len(self.values) < 12:
                self.values.append(made)
            else:
                old, self.values[place] = self.values[place], made
                self.read(old)
        elif dice < 0.85:
            self.read(self.values[place])
        elif dice < 0.9:
            self.values[place][0].copy_(self.values[0][0])
            self.values[place] = self.values[place][0].realize(wait=False), self.values[0][1].copy()
        elif dice < 0.95:
            self.values[place] = self.fresh()
        else:
            nt.synchronize()

    def fault(self, launch: int) -> Fault | None:
        """Choose the fault of a launch, or of the contexts and memories after it."""
        engine = self.npu.engine
        if self.random.randrange(FAULT_EVERY):
            return None
        # Garbage is noticed only where results are compared.
        careful = engine.health.failures or not engine._batches[-1].program.checked
        kind = self.random.choice([kind for kind in Fault if careful or kind is not Fault.GARBAGE])
        self.faults[kind.name] += 1
        if kind in LAUNCH_FAULTS:
            return kind
        self.npu.inject(kind, times=self.random.choice((1, 1, 2, 40)))
        return None

    def help_device(self, clock: Clock) -> None:
        """Let time pass, return a lost device, end what hangs, and use refused kernels again."""
        engine = self.npu.engine
        clock.now += 2.0 if engine.health.resting else 0.02
        if not all(driver.present for driver in self.npu.drivers) and self.random.random() < 0.1:
            self.npu.plug_in(reset=self.random.random() < 0.5)
        if self.random.random() < 0.02:
            self.npu.end_hung()
            for program in engine.programs.values():
                program.faults, program.refused = 0, ""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("npu", ["sim:npu1", "sim:npu2"], indirect=True)
def test_every_value_is_right_and_nothing_leaks(npu: FaultyNpu, clock: Clock) -> None:
    """With fewer contexts than kernels, and faults of every kind."""
    npu.context_limit = 3
    with config.scope(launch_milliseconds=500):
        work = Work(npu, seed=1)
        work.step()
        work.computed()[0].realize()
        npu.faults = work.fault
        while npu.launches < 400:
            work.help_device(clock)
            work.step()
            assert npu.live_contexts <= 3
        nt.synchronize()
        npu.faults = None
        npu.injected.clear()
        npu.plug_in()
        for value in work.values:
            work.read(value)
        assert set(work.faults) == {fault.name for fault in Fault}
        npu.end_hung()
        del work, value
        selection.reset()
        gc.collect()
        assert (npu.live_contexts, npu.live_memories) == (0, 0)
