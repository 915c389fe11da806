"""Random launches on a faulty simulated NPU, with all results compared with NumPy.

Launches have one or several kernels, of one or several configurations. All values are small integers, which every dtype
here holds exactly, so that a tolerance cannot hide a stale or torn read. Random kernels compute them from values that
may be in flight, that stay on the NPU for a while, are changed in place, and are read in any order.
"""

from __future__ import annotations

import gc
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import faulty_npu
import ml_dtypes
import numpy as np
from fake_clock import Clock
from faulty_npu import FaultyNpu, installed
from npu_faults import LAUNCH_FAULTS, Fault

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.errors import LaunchError
from npu_tensor.runtime.npu import faults, launches, npu_engine
from npu_tensor.runtime.npu.launch_step import LaunchStep

__all__ = ["soak"]

Array = np.ndarray[Any, Any]

SIDES: Final = (16, 32, 48)
BOUND: Final = 4
"""Bound of all values. Sums of a row are then at most 256, up to which bfloat16 holds integers."""

UNPADDED: Final = 64
"""Extents of a product whose result another kernel of the same launch can read: the host need not pad it."""

bfloat16: Final = np.dtype(ml_dtypes.bfloat16)
INTEGERS: Final = tuple(map(np.dtype, ("int8", "int16", "int32")))


class Recipe:
    """A graph of one or more kernels.

    operands: dtype and shape of each. ours, numpy: the same function for tensors and for float64 arrays. chained:
    whether its result may be an operand again.
    """

    def __init__(
        self, operands: list[tuple[np.dtype[Any], tuple[int, ...]]], ours: Any, numpy: Any, chained: bool = True
    ) -> None:
        self.operands = operands
        self.ours = ours
        self.numpy = numpy
        self.chained = chained
        self.jitted = nt.jit(ours)


def _bounded(x: Any) -> Any:
    return nt.clamp(x, -BOUND, BOUND)


def _clip(x: Array) -> Array:
    return np.clip(x, -BOUND, BOUND)


def _selection(rows: int, columns: int) -> Array:
    """A matrix with one element of 1 or -1 per column: products with it add nothing up."""
    result = np.zeros((rows, columns))
    generator = np.random.default_rng(rows * 1000 + columns)
    result[generator.integers(0, rows, columns), np.arange(columns)] = generator.choice((-1, 1), columns)
    return result


def recipes() -> list[Recipe]:
    """All of them; most are a kernel of their own."""
    result: list[Recipe] = []
    shapes = [(rows, columns) for rows in SIDES for columns in SIDES]
    weights = {shape: _selection(*shape) for shape in shapes}
    ours = {shape: nt.from_numpy(weight.astype(bfloat16)) for shape, weight in weights.items()}
    for rows, columns in shapes:
        one, two = [(bfloat16, (rows, columns))], [(bfloat16, (rows, columns))] * 2
        for to in SIDES:
            w, right = ours[columns, to], weights[columns, to]
            result.append(Recipe(one, lambda x, w=w: x @ w, lambda x, w=right: x @ w))
        back, again = (ours[columns, rows], ours[rows, columns]), (weights[columns, rows], weights[rows, columns])
        result += [
            Recipe(two, lambda x, y: _bounded(x * 2 - y), lambda x, y: _clip(x * 2 - y)),
            Recipe(one, lambda x: x.sum(-1), lambda x: x.sum(-1), chained=False),
            Recipe(one, lambda x: x.transpose(0, 1).contiguous(), lambda x: x.T),
            Recipe(one, lambda x, n=SIDES[0] // 2: nt.cat([x[n:], x[:n]], 0), lambda x: np.roll(x, -SIDES[0] // 2, 0)),
            # Several contexts in one graph, and a part that only the CPU takes.
            Recipe(
                one,
                lambda x, w=back: (x @ w[0] @ w[1]).amax(-1),
                lambda x, w=again: (x @ w[0] @ w[1]).max(-1),
                chained=False,
            ),
            Recipe(one, lambda x, w=back: (x @ w[0]).cumsum(-1), lambda x, w=again: (x @ w[0]).cumsum(-1), False),
            # Views as operands.
            Recipe(
                [*one, (bfloat16, (columns, rows))],
                lambda x, y: nt.maximum(x, y.transpose(0, 1)),
                lambda x, y: np.maximum(x, y.T),
            ),
            Recipe(one, lambda x: x[2:10] - x[4:12], lambda x: x[2:10] - x[4:12], chained=False),
        ]
    for dtype in INTEGERS:
        for rows in SIDES:
            many = [(dtype, (rows, 64))] * 2
            result.append(Recipe(many, lambda x, y: _bounded(x - y), lambda x, y: _clip(x - y)))
            result.append(Recipe(many, lambda x, y: nt.where(x > y, y, x), np.minimum))
    return result


def programs() -> list[Recipe]:
    """Return programs with launches of several kernels: of one configuration, and of two if the NPU supports that."""
    shape = (UNPADDED, UNPADDED)
    right, operands = _selection(*shape), [(bfloat16, shape)]
    w = nt.from_numpy(right.astype(bfloat16))
    return [
        Recipe(operands, lambda x: x @ w @ w, lambda x: x @ right @ right),
        Recipe(operands, lambda x: (x @ w).sum(-1), lambda x: (x @ right).sum(-1), chained=False),
    ]


@dataclass
class Report:
    """Counts of a run.

    Attributes:
        programs: Launches of several kernels.
        changing: Launches of several configurations.
        lost: Values on an NPU when it was lost.
    """

    launches: int = 0
    programs: int = 0
    changing: int = 0
    kernels: int = 0
    contexts: int = 0
    most_contexts: int = 0
    compared: int = 0
    lost: int = 0
    refused: int = 0
    left: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class VirtualTime(Clock):
    """Clock that advances by some milliseconds per call, so that hangs and rests cost no real time."""

    def monotonic(self) -> float:
        """Seconds."""
        self.now += 0.005
        return self.now


@contextmanager
def virtual_time() -> Iterator[VirtualTime]:
    """Let the time limits of launches, and the rests of an NPU, be measured by such a clock."""
    clock = VirtualTime()
    with ExitStack() as patches:
        for module in (npu_engine, launches, faults, faulty_npu):
            patches.enter_context(mock.patch.object(module, "time", clock))
        yield clock


@dataclass(eq=False)
class _Value:
    """Tensor and its expected value, checked when it is read."""

    tensor: nt.Tensor
    right: Array


class _Soak:
    """One NPU, its faults, and the values that live meanwhile."""

    def __init__(self, npu: FaultyNpu, kernels: int, fault_every: int, seed: int, clock: VirtualTime) -> None:
        self.npu = npu
        self.fault_every = fault_every
        self.clock = clock
        self.random = random.Random(seed)
        self.dice = random.Random(seed + 1)
        everything = recipes()
        self.recipes = self.random.sample(everything, min(kernels, len(everything)))
        self.programs = programs()
        self.values: dict[tuple[np.dtype[Any], tuple[int, ...]], list[_Value]] = {}
        self.kept: list[_Value] = []
        self.report = Report()
        npu.faults = self.fault

    def fault(self, launch: int) -> Fault | None:
        """Choose the fault of a launch, and those of the next context and memory."""
        engine = self.npu.engine
        batch = engine._batches[-1]
        step = batch.launches[0].step
        assert isinstance(step, LaunchStep)
        self.report.programs += len(step.kernels) > 1
        self.report.changing += len({id(kernel.request.design.configuration) for kernel in step.kernels}) > 1
        # Garbage can only be noticed where results are compared: the first of a kernel, and probes.
        careful = engine.health.failures or not batch.program.checked
        if careful and self.dice.random() < 0.1:
            kind = Fault.GARBAGE
        elif self.dice.randrange(self.fault_every):
            return None
        else:
            kind = self.dice.choice([kind for kind in Fault if careful or kind is not Fault.GARBAGE])
        self.report.faults[kind.name] += 1
        if kind not in LAUNCH_FAULTS:
            # Mostly one at a time, which the runtime gets over by giving something up; sometimes that is not enough.
            self.npu.inject(kind, times=self.dice.choice((1, 1, 1, 2, 40)))
            return None
        return kind

    def fresh(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> _Value:
        """A value that the host has made."""
        right = np.array([self.random.randint(-BOUND, BOUND) for _ in range(int(np.prod(shape)))], float)
        return _Value(nt.from_numpy(right.reshape(shape).astype(dtype)), right.reshape(shape))

    def operand(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> _Value:
        """Some value of a kind."""
        have = self.values.setdefault((dtype, shape), [])
        if len(have) < 2 or self.random.random() < 0.05:
            self.keep(have, self.fresh(dtype, shape))
        return self.random.choice(have)

    def keep(self, have: list[_Value], value: _Value) -> None:
        """Hold a value for a while; it takes the place of another one."""
        have.append(value)
        if len(have) > 4:
            self.read(have.pop(self.random.randrange(3)))

    def kernel(self) -> None:
        """Run a recipe; its result is kept for later."""
        recipe = self.random.choice(self.programs if self.random.random() < 0.2 else self.recipes)
        operands = [self.operand(*kind) for kind in recipe.operands]
        function = recipe.jitted if self.random.random() < 0.4 else recipe.ours
        result = function(*(operand.tensor for operand in operands))
        result.realize(wait=self.random.random() < 0.3)
        made = _Value(result, recipe.numpy(*(operand.right for operand in operands)))
        if not recipe.chained or self.random.random() < 0.1:
            self.kept.append(made)
            if len(self.kept) > 40:
                self.read(self.kept.pop(self.random.randrange(20)))
            return
        self.keep(self.values.setdefault((recipe.operands[0][0], made.right.shape), []), made)

    def change(self) -> None:
        """Write to a value that may be an operand of something that is under way."""
        candidates = [value for have in self.values.values() for value in have]
        if not candidates:
            return
        target = self.random.choice(candidates)
        other = self.operand(np.dtype(target.tensor.numpy().dtype), target.right.shape)
        if self.random.random() < 0.5:
            target.tensor.copy_(other.tensor)
            right = other.right.copy()
        else:
            target.tensor[2:5] = other.tensor[2:5]
            right = np.concatenate([target.right[:2], other.right[2:5], target.right[5:]])
        target.tensor.realize(wait=self.random.random() < 0.5)
        target.right = right

    def read(self, value: _Value) -> None:
        """Compare a value. Raises AssertionError if it is not right."""
        result = value.tensor.numpy().astype(float)
        self.report.compared += 1
        if not np.array_equal(result, value.right):
            different = np.argwhere(result != value.right)
            raise AssertionError(
                f"{len(different)} of {result.size} elements are wrong after {self.npu.launches} launches, such as"
                f" {result[tuple(different[0])]} at {different[0]} instead of {value.right[tuple(different[0])]}"
            )

    def look(self) -> None:
        """Read something: mostly something old."""
        if self.kept and self.random.random() < 0.5:
            self.read(self.random.choice(self.kept))
        elif values := [value for have in self.values.values() for value in have]:
            self.read(self.random.choice(values))

    def step(self) -> None:
        """One thing that a program may do."""
        resting = any(engine.health.resting for engine in self.npu.engines)
        self.clock.now += 2.0 if resting else 0.02
        if not all(driver.present for driver in self.npu.drivers) and self.random.random() < 0.1:
            self.npu.plug_in(reset=self.random.random() < 0.5)
        if self.random.random() < 0.02:
            self.npu.end_hung()
            self.forgive()
        dice = self.random.random()
        try:
            if dice < 0.8:
                self.kernel()
            elif dice < 0.93:
                self.look()
            elif dice < 0.98:
                self.change()
            else:
                nt.synchronize()
        except LaunchError as error:
            if "cannot be read any more" not in str(error):
                raise
            self.forget_lost()

    def forgive(self) -> None:
        """Let kernels that failed too often run again, so that all of them take part until the end."""
        for engine in self.npu.engines:
            for program in engine.programs.values():
                self.report.refused += bool(program.refused)
                program.faults, program.refused = 0, ""

    def forget_lost(self) -> None:
        """Drop the values that an NPU took with it. All others must be right."""
        for values in (*self.values.values(), self.kept):
            for value in list(values):
                try:
                    self.read(value)
                except LaunchError:
                    values.remove(value)
                    self.report.lost += 1

    def run(self, count: int) -> Report:
        """Launch `count` kernels. Raises AssertionError at the first wrong result."""
        report, npu = self.report, self.npu
        while npu.launches < count:
            self.step()
            report.most_contexts = max(report.most_contexts, npu.live_contexts)
            assert report.most_contexts <= npu.context_limit
        nt.synchronize()
        npu.faults = None
        npu.injected.clear()
        npu.plug_in()
        self.forget_lost()
        report.kernels = sum(len(engine.programs) for engine in npu.engines)
        report.launches, report.contexts = npu.launches, npu.contexts_made
        return report


def soak(count: int, kernels: int, fault_every: int, seed: int, kind: tuple[str, int]) -> Report:
    """Launch `count` kernels, a fault in `fault_every`, and compare everything that is read.

    kernels: recipes that are used, out of all. kind: of NPU: its name and how many contexts its driver allows. Raises
    AssertionError for a wrong result, for anything that is left over at the end, and for misuse of the driver.
    """
    name, limit = kind
    npu = FaultyNpu(limit)
    with (
        config.scope(launch_seconds=1, max_contexts=limit, launch_milliseconds=500),
        warnings.catch_warnings(),
        virtual_time() as clock,
    ):
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        with installed(npu), nt.default_device(name, "always"):
            report = _Soak(npu, kernels, fault_every, seed, clock).run(count)
        npu.end_hung()
        gc.collect()
    assert not npu.complaints, npu.complaints
    report.left = npu.live_contexts + npu.live_memories
    assert not report.left, f"{npu.live_contexts} contexts and {npu.live_memories} buffers are left"
    return report
