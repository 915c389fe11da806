"""Tasks that an accelerator refuses are cut into parts that it has kernels for."""

from collections.abc import Callable

import numpy as np
import pytest
from test_fusion import RandomProgram

import npu_tensor as nt
from npu_tensor.dtypes import DType
from npu_tensor.graph.structure import item_graph, structure_of
from npu_tensor.planner.fuse import partitions
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.task import Fusion, Refusal, Task
from npu_tensor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("less_optimised")

NPU = "sim:npu2"


def bf16(*shape: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    tensor = nt.from_numpy(values).to(nt.bfloat16).realize()
    return tensor, tensor.to(nt.float64).numpy()


def placed(y: Tensor) -> list[tuple[str, str]]:
    """Device and ops of every kernel, in order."""
    with nt.default_device(NPU, policy="always"):
        rows = nt.explain(y)
    kernels: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        last = int(row.kernel.rpartition("#")[2]) if row.kernel.startswith("fused into") else number
        kernels.setdefault(last, []).append(number)
    return [(rows[last].device, "+".join(rows[n].op for n in kernels[last])) for last in sorted(kernels)]


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    result: np.ndarray = e / e.sum(-1, keepdims=True)
    return result


@pytest.mark.slow
def test_a_product_takes_what_was_cut_off_behind_it() -> None:
    """With softmax, the bias and the activation would not be an epilogue."""
    (x, a), (w, c), (b, d) = bf16(32, 64), bf16(64, 128, seed=1), bf16(128, seed=2)
    y = (x @ w + b).tanh().softmax(-1)
    assert placed(y) == [(NPU, "contract+add+tanh"), (NPU, "softmax")]
    y.realize(device=NPU)
    np.testing.assert_allclose(y.to(nt.float64).numpy(), softmax(np.tanh(a @ c + d)), rtol=0.04)


@pytest.mark.slow
def test_what_has_no_kernel_stays_in_one_piece_on_the_processor() -> None:
    t, a = bf16(32, 64)
    y = (t.tanh().to(nt.float64).exp() + 1).sqrt().to(nt.bfloat16).relu() * 2
    assert placed(y) == [(NPU, "tanh"), ("cpu", "convert+exp+add+sqrt+convert"), (NPU, "relu+mul")]
    with nt.default_device(NPU, policy="always"):
        assert "not on sim:npu2: float64" in nt.explain(y)[5].why
        y.realize()
    np.testing.assert_allclose(y.to(nt.float64).numpy(), np.sqrt(np.exp(np.tanh(a)) + 1) * 2, rtol=0.02)


def test_a_conversion_alone_is_not_worth_a_kernel() -> None:
    t, _ = bf16(32, 64)
    y = t.to(nt.float32).exp().softmax(-1)
    assert placed(y) == [("cpu", "convert+exp+softmax")]
    with nt.default_device(NPU, policy="always"):
        assert "float32 is exact on the CPU" in nt.explain(y)[-1].why


@pytest.mark.parametrize("seed", range(12))
def test_every_task_is_taken_that_can_be(seed: int) -> None:
    """The device supports at most three ops and no row sums. It refuses only row sums, conversions and copies."""
    program = RandomProgram(seed)
    for _ in range(25):
        program.step()
    lowering = lower(item_graph(structure_of([t._node for t, _ in program.pool]), merge=True))

    def takes(task: Task) -> bool:
        return len(task.ops) <= 3 and "sum" not in task.ops

    tasks = partitions(lowering, Fusion(), takes)[-1].tasks
    whole = partitions(lowering, Fusion())[0].tasks
    assert sorted(item for task in tasks for item in task.items) == sorted(
        item for task in whole for item in task.items
    )
    made: set[int] = set()
    for task in tasks:
        read = {operand.item for operand in task.inputs}
        assert all("call" not in lowering.items[item] or item in made for item in read)
        made |= {output.item for output in task.outputs}
        if not takes(task) and "sum" not in task.ops:
            # Conversions and copies are not cut off alone.
            assert not any(step.primitive != "load" for step in task.program.instructions if task.program)


MAPS_AND_ROWS: list[tuple[Callable[[Tensor, Tensor], Tensor], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = [
    (lambda t, _: t + 1, lambda a, _: a + 1),
    (lambda t, _: t.relu(), lambda a, _: np.maximum(a, 0)),
    (lambda t, _: t.sum(-1, keepdim=True), lambda a, _: a.sum(-1, keepdims=True)),
    (lambda t, _: t.amax(0, keepdim=True), lambda a, _: a.max(0, keepdims=True)),
    (lambda t, u: t + u, lambda a, b: a + b),
    (lambda t, u: t - u, lambda a, b: a - b),
]


def maps_and_rows(draw: np.random.Generator, dtype: DType = nt.float32) -> list[tuple[Tensor, np.ndarray]]:
    """Element-wise ops and reductions that keep their dims, in small programs; those of their results that live on."""
    values = draw.integers(-1, 2, (6, 5)).astype(np.float32)
    pool = [(nt.from_numpy(values).to(dtype).realize(), values.astype(np.float64))]
    for _ in range(draw.integers(3, 7)):
        (t, a), (u, b) = pool[-int(draw.integers(1, min(3, len(pool)) + 1))], pool[draw.integers(len(pool))]
        f, g = MAPS_AND_ROWS[draw.integers(len(MAPS_AND_ROWS))]
        pool.append((f(t, u), g(a, b)))
    return [pair for pair in pool[1:] if draw.random() < 0.6] or pool[-1:]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_processor_computes_what_is_left_however_little_a_device_takes(seed: int) -> None:
    """All tasks of devices that take random ops, computed by the CPU's compiled kernels."""
    draw = np.random.default_rng(seed)
    compiled = host_devices()[0]
    for _ in range(25):
        results = maps_and_rows(draw)
        actual = structure_of([t._node for t, _ in results])
        numbers = {node: item for item, node in actual.numbered}
        refused, size = set(draw.choice(["add", "sub", "relu", "sum", "max"], 3)), draw.integers(1, 5)

        def takes(task: Task, refused: set[str] = refused, size: int = size) -> bool:
            return len(task.ops) <= size and refused.isdisjoint(task.ops)

        for tasks in partitions(lower(item_graph(actual, merge=True)), Fusion(streams=int(draw.integers(1, 4))), takes):
            values = actual.values()
            for task in tasks.tasks:
                kernel = compiled.claim(task)
                assert not isinstance(kernel, Refusal)
                kernel.bind()(values)
            for item, base in tasks.aliases:
                values[item] = values[base]
            for tensor, expected in results:
                result = values[numbers[tensor._node]].as_array(tensor.shape, np.float32)
                np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize("npu", ["sim:npu1", "sim:npu2"])
def test_random_maps_and_rows_on_a_simulated_npu(npu: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(8):
        results = maps_and_rows(draw, nt.bfloat16)
        assert max(np.abs(a).max() for _, a in results) <= 256  # all exact in bfloat16
        with nt.default_device(npu, policy="always"):
            nt.realize(*(t for t, _ in results))
        for tensor, expected in results:
            np.testing.assert_array_equal(tensor.to(nt.float64).numpy(), expected)
