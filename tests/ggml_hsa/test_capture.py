"""Functions and descriptors become one task each, or an error with the reason."""

from collections.abc import Callable, Mapping

import pytest

import npu_tensor as nt
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.ggml_hsa.kernel_functions import binary_ops, copy_ops, embedding, mul_mat, row_ops, unary_ops
from npu_tensor.ggml_hsa.single_task import capture_task
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.npu.kernel_name import kernel_name, tensor_descs
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.task import Task


def descs(*texts: str) -> list[TensorDesc]:
    return [TensorDesc.parse(text) for text in texts]


def task_of(
    function: Callable[..., object], inputs: list[str], output: str | None = None, params: Mapping[str, object] = {}
) -> Task:
    target = Target(ARRAYS["aie2p"], 8, "emulate")
    return capture_task(function, descs(*inputs), target, output and TensorDesc.parse(output), params)[0]


MUL_MAT = mul_mat.ggml_op_mul_mat


@pytest.mark.parametrize(
    ("function", "tensors", "params", "name"),
    [
        (
            *(binary_ops.ggml_op_mul, "(20,5,4,3)/f32 (20,5,4,3)/f32 (10,5,4,3)/f32", {}),
            "mul-20x5x4x3f32-20x5x4x3f32-10x5x4x3f32",
        ),
        (MUL_MAT, "(256,128,1,1)/i16 (64,256,1,1)/i16 (64,128,1,1)/i16", {}, "mul_mat-256x128i16-64x256i16-64x128i16"),
        (
            *(MUL_MAT, "(256,128,4,3)/f32 (64,256,2,1)/bf16 (64,128,4,3)/bf16", {}),
            "mul_mat-256x128x4x3f32-64x256x2bf16-64x128x4x3bf16",
        ),
        (
            *(MUL_MAT, "(256,2,1,1)/bf16 (64,256,1,1)/bf16/(1,100,1,1) (64,2,1,1)/bf16", {}),
            "mul_mat-256x2bf16-64x256bf16n-64x2bf16",
        ),
        (row_ops.ggml_op_argmax, "(513,1,1,1)/i32 (32,513,1,1)/f32", {}, "argmax-513i32-32x513f32"),
        (
            *(row_ops.ggml_op_count_equal, "(1,1,1,1)/i64 (500,1,1,1)/i32 (500,1,1,1)/i32", {}),
            "count_equal-1i64-500i32-500i32",
        ),
        (copy_ops.ggml_op_cont, "(16,8,1,1)/i8 (16,8,1,1)/i8/(8,1,1,1)", {}, "cont-16x8i8-16x8i8n"),
        (unary_ops.ggml_op_scale, "(8,1,1,1)/f32 (8,1,1,1)/f32", {"s": 2.0}, "scale-8f32-8f32-bcf49800f1222663"),
        (unary_ops.ggml_unary_op_gelu, "(16,1,1,1)/bf16 (16,1,1,1)/bf16", {}, "gelu-16bf16-16bf16"),
    ],
)
def test_tasks(function: Callable[..., object], tensors: str, params: Mapping[str, object], name: str) -> None:
    """tensors: the descriptors of the output and of the inputs."""
    output, *inputs = tensors.split()
    task = task_of(function, inputs, output, params)
    assert kernel_name(task) == name
    assert tensor_descs(task)[0] == output


def test_a_strided_operand_is_read_where_its_descriptor_says() -> None:
    task = task_of(nt.exp, ["(3,2,1,1)/f32/(5,40,1,1)"])
    layout = task.inputs[0].layout
    assert (layout.shape[-2:], layout.strides[-2:], layout.offset) == ((2, 3), (40, 5), 0)


def test_overlapping_rows_are_an_operand_as_any_other() -> None:
    task = task_of(nt.exp, ["(4,8,1,1)/f32/(1,1,1,1)"])
    layout = task.inputs[0].layout
    assert (layout.shape[-2:], layout.strides[-2:]) == ((8, 4), (1, 1))


def test_a_tuple_is_stored_whole() -> None:
    def both(x: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        result = x.exp()
        return result, result + 1

    assert len(task_of(both, FLAT, FLAT[0]).outputs) == 2


def test_in_place_ops() -> None:
    def add(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
        src0 += src1
        return src0

    assert kernel_name(task_of(add, FLAT * 2, FLAT[0])) == "add-8f32-8f32-8f32"


FLAT = ["(8,1,1,1)/f32"]
constant = nt.ones(8).realize()


@pytest.mark.parametrize(
    ("function", "inputs", "output", "message"),
    [
        (
            *(MUL_MAT, ["(1024,768,1,1)/bf16", "(768,512,1,1)/bf16"], "(1024,512,1,1)/bf16"),
            r"src0 \(1024,768,1,1\) and src1 \(768,512,1,1\) differ in their first extent.*\. These look like "
            r"row-major \(NumPy\) shapes; "
            r"expected src0 \(768,1024,1,1\), src1 \(768,512,1,1\) and output \(1024,512,1,1\)",
        ),
        (
            *(MUL_MAT, ["(64,256,1,1)/i16", "(64,128,1,1)/i16"], "(128,256,1,1)/i16"),
            r"computes \(256,128,1,1\)/i16, not \(128,256,1,1\)/i16; these look like row-major \(NumPy\) shapes",
        ),
        (MUL_MAT, ["(64,2,3,1)/i8", "(64,2,4,1)/i8"], "(2,2,4,1)/i8", "must be multiples of those"),
        (
            *(MUL_MAT, ["(64,256,1,1)/bf16", "(64,128,1,1)/f32"], "(256,128,1,1)/f32"),
            "one entry is one kernel, and this takes 2: convert, contract",
        ),
        (binary_ops.ggml_op_div, ["(8,1,1,1)/i32"] * 2, "(8,1,1,1)/i32", r"computes \(8,1,1,1\)/f32, not"),
        (lambda x: x.exp() if x.sum() > 0 else x, FLAT, FLAT[0], "reads the value of a tensor"),
        (lambda x, y: x.exp(), FLAT * 2, FLAT[0], "operand 1, counted from 0, is not used"),
        (lambda x: x.reshape(8), FLAT, FLAT[0], "computes nothing"),
        (lambda x: x + constant, FLAT, FLAT[0], r"reads a tensor float32\[8\] that is not an operand"),
        (lambda x: "x", FLAT, FLAT[0], "must return a Tensor, not str"),
        (lambda x: 1 / 0, FLAT, FLAT[0], "ZeroDivisionError: division by zero"),
        (lambda x: x[:, :, :, 8:] * 2, FLAT, FLAT[0], "has no descriptor"),
        (unary_ops.ggml_op_scale, FLAT, FLAT[0], "missing 1 required argument: 's'"),
        (embedding.ggml_op_get_rows, ["(4,8,2,1)/f32", "(3,2,1,1)/i32"], FLAT[0], "takes one table"),
    ],
)
def test_errors(function: Callable[..., object], inputs: list[str], output: str, message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        task_of(function, inputs, output)
