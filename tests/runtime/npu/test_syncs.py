"""Syncs between host and NPU: exactly those that the data flow needs.

The needed syncs are derived from the plan of a graph, independently of the runtime. The life of each memory block is a
string of events.

    "w" NPU writes   "r" NPU reads   "W" host writes   "R" host reads
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple
from unittest.mock import patch
from weakref import WeakKeyDictionary

import ml_dtypes
import numpy as np
import pytest
from faulty_npu import FaultyNpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.planner import planner
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.contexts import MOST_CONTEXTS

pytestmark = [
    needs_compiler,
    pytest.mark.usefixtures("less_optimised"),
]

BF16 = ml_dtypes.bfloat16
SIDE = 64


# --- the fewest syncs


class Syncs(NamedTuple):
    """Number of syncs in each direction."""

    to_device: int
    from_device: int


def fewest(life: str) -> Syncs:
    """Return the fewest syncs of a value that the host writes for the NPU, or that the NPU computes."""
    return Syncs(life[0] == "W" and "r" in life, "R" in life)


# --- the life of every block of a graph, from its plan


UNSPECIFIED = -1
"""An element of a host buffer whose value does not matter, or is not promised."""


@cache
def form(operand: HostOperand) -> tuple[str, tuple[int, ...]]:
    """The elements of a host buffer: for each the number of the tensor's element that it holds, or UNSPECIFIED.

    Padding with a value is -2. Two operands with equal forms can be the same bytes.
    """
    layout = operand.layout
    axes = zip(layout.shape, layout.strides, strict=True)
    size = 1 + layout.offset + sum(max(0, (extent - 1) * stride) for extent, stride in axes)
    numbers = np.arange(size)[layout.offset :]
    inside = np.lib.stride_tricks.as_strided(numbers, layout.shape, [stride * 8 for stride in layout.strides])
    blank = UNSPECIFIED if operand.output or operand.padding is None else -2
    whole = np.full(operand.padded, blank)
    whole[tuple(map(slice, layout.shape))] = inside
    flat = whole.ravel()
    used = np.flatnonzero(flat != UNSPECIFIED)
    return operand.dtype, tuple(flat[: used[-1] + 1].tolist())


class Value:
    """A tensor's buffer. lives: the events of each block that holds it, by form."""

    def __init__(self) -> None:
        self.lives: dict[Any, str] = {}
        self.computed: Any = None
        """The form in which the NPU left it, if it was computed there."""

    def read_by_host(self) -> None:
        """The host reads it."""
        if self.computed is not None:
            self.lives[self.computed] += "R"

    def read_by_npu(self, wanted: Any) -> None:
        """A kernel takes it in a form, which the host makes if it is not there."""
        if wanted not in self.lives:
            self.read_by_host()
            self.lives[wanted] = "W"
        self.lives[wanted] += "r"


class Model:
    """Life of each value while graphs run."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.of_buffer: WeakKeyDictionary[Buffer, Value] = WeakKeyDictionary()

    def realize(self, tensors: list[nt.Tensor], wait: bool = True) -> None:
        """Run a graph, and note what its plan does with each value."""
        nodes = [tensor._node for tensor in tensors if tensor._node.value is None]
        result = structure_of(nodes)
        if not result.nodes:
            return
        plan = planner.plan(result)
        values = {item: self.of(leaf.value) for item, leaf in enumerate(result.leaves) if isinstance(leaf, Node)}
        for placed in plan.placed:
            task = placed.task
            operands = getattr(placed.kernel, "offer", None)
            for source in task.inputs if operands is None else ():
                if source.item in values:
                    values[source.item].read_by_host()
            for output in task.outputs:
                values[output.item] = Value()
                self.values.append(values[output.item])
            for operand in () if operands is None else operands.operands:
                if operand.output:
                    value = values[task.outputs[operand.number].item]
                    value.computed = form(operand)
                    value.lives[value.computed] = "w"
                else:
                    values[task.inputs[operand.number].item].read_by_npu(form(operand))
        nt.realize(*tensors, wait=wait) if len(tensors) > 1 else tensors[0].realize(wait=wait)
        bases = dict(plan.aliases)
        for item, node in result.numbered:
            if node.value is not None:
                self.of_buffer[node.value] = values[bases.get(item, item)]

    def of(self, buffer: Buffer) -> Value:
        """The value in a buffer; one that was not computed here is the host's."""
        if buffer not in self.of_buffer:
            self.of_buffer[buffer] = Value()
            self.values.append(self.of_buffer[buffer])
        return self.of_buffer[buffer]

    def read(self, tensor: nt.Tensor) -> np.ndarray[Any, Any]:
        """Read a value on the host."""
        self.realize([tensor])
        self.of(tensor._node.value).read_by_host()
        return tensor.numpy()

    def fewest(self) -> Syncs:
        """For all values, in recycled blocks."""
        total = Counter[int]()
        for life in (life for value in self.values for life in value.lives.values()):
            syncs = fewest(life)
            total.update({0: syncs.to_device, 1: syncs.from_device})
        return Syncs(total[0], total[1])


class Watch:
    """Counts of syncs from now on. An output in memory that the NPU uses for the first time needs one to the device."""

    def __init__(self, npu: FaultyNpu) -> None:
        self._npu = npu
        self._before = self._counts()

    def _counts(self) -> tuple[int, int]:
        return self._npu.to_device - self._npu.new_outputs, self._npu.from_device

    def seen(self) -> Syncs:
        """Those besides the syncs of new outputs."""
        return Syncs(*(now - before for now, before in zip(self._counts(), self._before, strict=True)))


# --- single graphs, and random programs


def signed_permutation(seed: int) -> np.ndarray[Any, Any]:
    """Products and sums of a few of these are exact in bfloat16, and those of different ones differ."""
    generator = np.random.default_rng(seed)
    signs = generator.choice([-1.0, 1.0], SIDE)
    return np.eye(SIDE, dtype=np.float32)[generator.permutation(SIDE)] * signs.astype(np.float32)


OPS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda a, b: a @ b,
    lambda a, b: a @ b,
    lambda a, b: a.T @ b,
    lambda a, b: np.flip(a, 0) if isinstance(a, np.ndarray) else a.flip(0),
    lambda a, b: a.cumsum(1),
)
"""On tensors and on arrays: none fuses with another one. The NPU runs products and flips, the CPU sums."""

LARGEST: Final = 256
"""Integers up to here are exact in bfloat16."""

place = st.integers(0, 15)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("leaf"), st.integers(2, 1 << 16)),
        st.tuples(st.just("op"), st.integers(0, len(OPS) - 1), place, place),
        st.tuples(st.just("op"), st.integers(0, len(OPS) - 1), place, place),
        st.tuples(st.just("add"), place, place),
        st.tuples(st.just("realize"), st.lists(place, min_size=1, max_size=4), st.booleans()),
        st.tuples(st.just("read"), place, st.booleans()),
        st.tuples(st.just("drop"), place),
    ),
    max_size=24,
)


@pytest.mark.parametrize("side", [60, 65])
def test_padding_comes_from_the_host(npu: FaultyNpu, side: int) -> None:
    """A product adds up over the padding of its operands, which must be 0; no design promises that of its result."""
    x, w = (nt.from_numpy(np.eye(side).astype(BF16)) for _ in range(2))
    (x @ w @ w).numpy()
    watch = Watch(npu)
    (x @ w @ w).numpy()
    assert watch.seen() == Syncs(1, 2)


class Session:
    """Tensors with their expected values, and operations on them."""

    def __init__(self) -> None:
        self.model = Model()
        self.tensors: list[tuple[nt.Tensor, np.ndarray[Any, Any]]] = []
        self.leaf(0)
        self.leaf(1)

    def leaf(self, seed: int) -> None:
        """New data."""
        array = signed_permutation(seed)
        self.tensors.append((nt.from_numpy(array.astype(BF16)), array))

    def op(self, number: int, first: int, second: int) -> None:
        """Record an op."""
        (a, of_a), (b, of_b) = self.at(first), self.at(second)
        self._append(OPS[number](a, b), OPS[number](of_a, of_b))

    def add(self, first: int, second: int) -> None:
        """Add two, alone: a sum would fuse with what is around it, and every combination would be compiled."""
        (a, of_a), (b, of_b) = self.at(first), self.at(second)
        self.model.realize([a, b], wait=False)
        if self._append(a + b, of_a + of_b):
            self.model.realize([self.tensors[-1][0]], wait=False)

    def _append(self, tensor: nt.Tensor, expected: np.ndarray[Any, Any]) -> bool:
        """Keep a result, unless bfloat16 cannot hold it."""
        exact = bool(abs(expected).max() <= LARGEST)
        if exact:
            self.tensors.append((tensor, expected))
        return exact

    def realize(self, places: list[int], wait: bool) -> None:
        """Compute some."""
        self.model.realize([self.at(place)[0] for place in places], wait)

    def read(self, place: int, view: bool) -> None:
        """Read a tensor, or some of its rows."""
        tensor, expected = self.at(place)
        if view:
            tensor, expected = tensor[16:48], expected[16:48]
        result = self.model.read(tensor)
        assert np.array_equal(result.astype(np.float32), expected)

    def drop(self, place: int) -> None:
        """Release a tensor; its memory is reused."""
        if len(self.tensors) > 1:
            del self.tensors[place % len(self.tensors)]

    def at(self, place: int) -> tuple[nt.Tensor, np.ndarray[Any, Any]]:
        """One of them: the latest for 0."""
        return self.tensors[-1 - place % len(self.tensors)]


@pytest.mark.parametrize("contexts", [1, 2, 3])
@given(program=steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_sync_as_little_as_they_can(npu: FaultyNpu, contexts: int, program: list[Any]) -> None:
    with patch.dict(MOST_CONTEXTS, aie2=contexts, aie2p=contexts), config.scope(self_check=False):
        watch, session = Watch(npu), Session()
        for name, *arguments in program:
            getattr(session, name)(*arguments)
        for number in range(len(session.tensors)):
            session.read(number, False)
        assert watch.seen() == session.model.fewest()
