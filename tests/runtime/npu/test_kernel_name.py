"""Names, descriptors and op_params of kernels, against GGML's own names and what GGML makes of such tensors."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import npu_tensor as nt
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels.offer import FUSION
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Call, Resolution
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.npu.kernel_name import LONGEST, described, kernel_name, op_params, tensor_descs, words
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.spec import Spec
from npu_tensor.task import Task

HASH = r"-[0-9a-f]{16}"


def zeros(*shape: int, dtype: str = "f32") -> nt.Tensor:
    return nt.zeros(*shape, dtype=dtype).realize()


def task_of(*results: nt.Tensor) -> Task:
    """The one task of recorded results."""
    (task,) = cut(structure_of([result._node for result in results]), FUSION).tasks
    return task


def name_of(*results: nt.Tensor) -> str:
    return kernel_name(task_of(*results))


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda: zeros(1024) + zeros(1024), "add-1024f32-1024f32-1024f32"),
        (lambda: zeros(1024, dtype="bf16").relu(), "relu-1024bf16-1024bf16"),
        (lambda: zeros(3, 4, 5, 20) * zeros(3, 4, 5, 1), "mul-20x5x4x3f32-20x5x4x3f32-1x5x4x3f32"),
        (lambda: zeros(5, 3, 67) - zeros(67), "sub-67x3x5f32-67x3x5f32-67f32"),
        (
            lambda: nt.mul_mat(zeros(256, 64, dtype="i16"), zeros(128, 64, dtype="i16")),
            "mul_mat-256x128i32-64x256i16-64x128i16",
        ),
        (
            lambda: zeros(128, 64, dtype="i16") @ zeros(256, 64, dtype="i16").T,
            "mul_mat-256x128i16-64x256i16-64x128i16",
        ),
        (
            lambda: zeros(128, 64, dtype="i16") @ zeros(64, 256, dtype="i16"),
            "mul_mat-256x128i16-64x256i16n-64x128i16",
        ),
        (lambda: zeros(256, 64) @ zeros(64), "mul_mat-1x256f32-64f32-64x256f32"),
        (lambda: nt.mul_mat(zeros(256, 64), zeros(1, 64)), "mul_mat-256f32-64x256f32-64f32"),
        (
            lambda: nt.mul_mat(zeros(2, 256, 64), zeros(6, 128, 64)),
            "mul_mat-256x128x3x2f32-64x256x1x2f32-64x128x3x2f32",
        ),
        (lambda: zeros(513, 32, dtype="i32").argmax(-1).to(nt.int32), "argmax-513i32-32x513i32"),
        (lambda: zeros(513, 32).argmax(-1), "argmax-513i64-32x513f32"),
        (lambda: nt.count_equal(zeros(500, dtype="i32"), zeros(500, dtype="i32")), "count_equal-1i64-500i32-500i32"),
        (lambda: nt.sum_rows(zeros(16, 8)), "sum_rows-1x16f32-8x16f32"),
        (lambda: zeros(2, 3, 4).sum(), "sum_rows-1f32-4x3x2f32"),
        (lambda: zeros(8).to(nt.bfloat16), "cpy-8bf16-8f32"),
        (lambda: nt.cat([zeros(4, 8), zeros(2, 8)]), "concat-8x6f32-8x4f32-8x2f32"),
        (lambda: zeros(8, 16).T + zeros(16, 8), "add-8x16f32-8x16f32n-8x16f32"),
        (lambda: zeros(8, 16).T.expand(2, 16, 8) + zeros(2, 16, 8), "add-8x16x2f32-8x16f32n-8x16x2f32"),
        (lambda: nt.leaky_relu(zeros(8)), "leaky_relu-8f32-8f32"),
        (lambda: nt.round(zeros(8)), "round_-8f32-8f32"),
        (lambda: nt.round_half_away(zeros(8)), "round-8f32-8f32"),
        (lambda: 2 - zeros(8), "sub-8f32-number-8f32"),
        (lambda: zeros(2, 2, 3, 2, 4) + zeros(2, 4), "add-8x3x2x2f32-8x3x2x2f32-8f32"),
    ],
)
def test_complete_names(compute: Callable[[], nt.Tensor], name: str) -> None:
    task = task_of(compute())
    assert kernel_name(task) == name
    assert op_params(task) == b""


@pytest.mark.parametrize(
    ("compute", "name", "params"),
    [
        (lambda: zeros(16, 16).softmax(-1), "soft_max-16x16f32-16x16f32", {"dim": 1}),
        (lambda: nt.scale(zeros(8), 2.0), "scale-8f32-8f32", {"s": 2.0}),
        (lambda: nt.scale(zeros(8), 2.0, 1.0), "scale-8f32-8f32", {"s": 2.0, "b": 1.0}),
        (lambda: nt.clamp(zeros(8), -1, None), "clamp-8f32-8f32", {"min": -1}),
        (lambda: nt.leaky_relu(zeros(8), 0.2), "leaky_relu-8f32-8f32", {"negative_slope": 0.2}),
        (lambda: nt.rms_norm(zeros(4, 8), 8, eps=1e-6), "rms_norm-8x4f32-8x4f32", {"dim": 1, "eps": 1e-6}),
        (lambda: nt.cat([zeros(4, 8), zeros(4, 2)], 1), "concat-10x4f32-8x4f32-2x4f32", {"dim": 1}),
        (lambda: nt.l2_norm(zeros(4, 8), (0, 1)), "l2_norm-8x4f32-8x4f32", {"rows": 2}),
    ],
)
def test_other_attributes_are_hashed(compute: Callable[[], nt.Tensor], name: str, params: dict[str, object]) -> None:
    task = task_of(compute())
    assert re.fullmatch(re.escape(name) + HASH, kernel_name(task))
    assert json.loads(op_params(task)) == params


def test_contiguous_tensors_of_one_shape_are_named_by_their_number_of_elements() -> None:
    names = {name_of((zeros(*shape) + zeros(*shape)).relu()) for shape in ((64,), (8, 8), (2, 2, 2, 2, 2, 2))}
    assert len(names) == 1
    assert names.pop().startswith("add+relu-64f32-64f32-64f32-")


def test_fused_tasks_differ_by_their_program() -> None:
    a, b = zeros(64), zeros(64)
    fused = [(a + b) * b, (a + b) * a, (a * b) + b, a + a, a * a, (a + b).relu(), (a + b).relu() * 2, (a + b) * 2]
    assert len({name_of(result) for result in fused}) == len(fused)
    assert all(re.search(HASH + "$", name_of(result)) for result in fused)


def test_a_long_name_is_shortened_and_still_tells_the_ops() -> None:
    def chain(first: nt.Tensor) -> nt.Tensor:
        for _ in range(20):
            first = first.exp()
        return first

    one, other = chain(zeros(8)), chain(zeros(8).relu())
    assert name_of(one).startswith("exp+exp+exp+16more+exp-8f32-8f32-")
    assert name_of(other) != name_of(one)
    wide = [zeros(2, 3, 5, 1 << extent, dtype="bf16").permute(1, 0, 2, 3) for extent in (10, 10, 10, 10)]
    many = sum(wide[1:], wide[0])
    assert isinstance(many, nt.Tensor)
    assert len(name_of(many)) <= LONGEST + 17


def test_words_are_unique() -> None:
    """sign is sgn under another name; everything else has a word of its own."""
    resolution = Resolution(Spec.of((), nt.float32), (), {})
    result = {
        name: words(Task("map", (0,), (name,), (), (), (), calls=(Call(op, (), resolution),)))[0]
        for name, op in OPS.items()
        if op.kind != "view"
    }
    assert result.pop("sign") == result["sgn"]
    assert len(set(result.values())) == len(result)


@pytest.mark.slow
def test_names_do_not_depend_on_the_process() -> None:
    program = (
        "import npu_tensor as nt; from tests.runtime.npu.test_kernel_name import name_of, zeros; "
        "print(name_of((zeros(8, 64) * 2 + zeros(64)).softmax(-1)));"
        "print(name_of(nt.rope(zeros(4, 2, 8), zeros(4, dtype='i32'))))"
    )
    result = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(result) == 1


# --- what GGML would make of the descriptors


def read(desc: TensorDesc, memory: np.ndarray) -> np.ndarray:
    """Return the tensor of a descriptor, in memory that begins with its first element."""
    strides = [step * memory.itemsize for step in desc.strides]
    return np.lib.stride_tricks.as_strided(memory, desc.shape, strides)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_operands_repeat_as_ggml_repeats(data: st.DataObject) -> None:
    """Every operand, read by its descriptor and repeated as a whole to the result's extents, is what NumPy reads."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple))
    assume(math.prod(shape) > 1)
    operands = []
    for _ in range(2):
        own = tuple(data.draw(st.sampled_from((1, extent))) for extent in shape)
        own = own[data.draw(st.integers(0, len(shape) - 1)) :] if data.draw(st.booleans()) else own
        order = data.draw(st.permutations(range(len(own))))
        memory = np.arange(math.prod(own), dtype=np.int32)
        base = nt.from_numpy(memory.reshape([own[axis] for axis in order]))
        operands.append(base.permute(*np.argsort(order).tolist()))
    result = operands[0] + operands[1]
    assume(len(structure_of([result._node]).leaves) == 2)
    task = task_of(result)
    stated = json.loads(op_params(task) or b"{}")
    if "layouts" in stated:
        assert result.ndim > 4
        return
    output, *inputs = described(task)
    assert output.size == result.numel()
    for desc, operand in zip(inputs, operands, strict=True):
        whole = np.broadcast_to(operand.numpy(), result.shape).reshape(output.shape)
        part = read(desc, np.arange(desc.span, dtype=np.int32))
        times = [extent // own for extent, own in zip(output.shape, part.shape, strict=True)]
        np.testing.assert_array_equal(np.tile(part, times), whole)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_batches_of_products_are_shared_as_ggml_shares_them(data: st.DataObject) -> None:
    """One matrix of src0 serves consecutive ones of src1: i02 = i12 // (ne12 // ne02)."""
    few = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    times = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    lead = tuple(own * repeat for own, repeat in zip(few, times, strict=True))
    a = nt.from_numpy(np.arange(math.prod(few) * 6, dtype=np.int32).reshape(*few, 3, 2))
    b = nt.from_numpy(np.arange(math.prod(lead) * 8, dtype=np.int32).reshape(*lead, 4, 2))
    task = task_of(nt.mul_mat(a, b))
    output, src0, src1 = described(task)
    assert (output.size, src1.size) == (math.prod(lead) * 12, math.prod(lead) * 8)
    first, second = read(src0, a.numpy().ravel()), read(src1, b.numpy().ravel())
    result = np.empty(output.shape, np.int32)
    for i3, i2 in np.ndindex(output.shape[:2]):
        owner = first[i3 // (output.shape[0] // first.shape[0]), i2 // (output.shape[1] // first.shape[1])]
        result[i3, i2] = second[i3, i2] @ owner.T
    np.testing.assert_array_equal(result.ravel(), nt.mul_mat(a, b).numpy().ravel())


def test_a_tensor_that_no_descriptor_can_say_is_described_by_its_memory() -> None:
    task = task_of(zeros(2, 2, 2, 2, 6).flip(0) + zeros(6))
    assert tensor_descs(task) == ("(12,2,2,2)/f32", "(96,1,1,1)/f32", "(6,1,1,1)/f32")
    assert "layouts" in json.loads(op_params(task))


def test_data_ops_do_not_repeat_their_operands() -> None:
    """GGML has no rule for one row that stands for several, so the names distinguish it."""
    one, four = zeros(1, 8), zeros(4, 8)
    task = task_of(nt.cat([one.expand(4, 8), four]))
    assert tensor_descs(task) == ("(8,8,1,1)/f32", "(8,1,1,1)/f32", "(8,4,1,1)/f32")
    assert json.loads(op_params(task))["layouts"][1] == [[4, 8], [0, 1]]
    assert op_params(task_of(nt.cat([four, four]))) == b""
