"""Recorded entries: a kernel that is rebuilt from its entry has the same design and the same name."""

import json
from collections import defaultdict
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dataflow import check as design_check
from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.ggml_hsa import representative
from npu_tensor.ggml_hsa.config_file import Entry, read
from npu_tensor.ggml_hsa.ops_json import describe, entry_for, replay
from npu_tensor.ggml_hsa.representative import ALL, VARIANTS
from npu_tensor.graph.structure import item_graph, structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer, Target
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Call, Op
from npu_tensor.planner.fuse import partitions
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.tensor import record

TARGET = Target(ARRAYS["aie2p"], 8, "emulate")


def zeros(*shape: int, dtype: str = "bf16") -> nt.Tensor:
    return nt.zeros(*shape, dtype=dtype).realize()


def entries(*results: nt.Tensor, target: Target = TARGET) -> Iterator[tuple[dict[str, Any], Any, Offer]]:
    """The entry, the task and the offer of every kernel that some results need."""
    graph = item_graph(structure_of([result._node for result in results]), merge=True)
    for task in partitions(lower(graph), FUSION)[0].tasks:
        offer = families.claim(task, target)
        if isinstance(offer, Offer):
            yield entry_for(graph, task, target), task, offer


def check(*results: nt.Tensor) -> int:
    """Make every kernel again from its entry, through JSON; returns how many there are."""
    count = 0
    for made, task, offer in entries(*results):
        (entry,) = read(json.loads(json.dumps({"kernels": [made]})))
        assert isinstance(entry, Entry), str(entry)
        again, request = entry.planned.task, entry.request()
        assert request.design == offer.design()
        assert (request.name, request.tensors, request.op_params) == (
            kernel_name(task),
            tensor_descs(task),
            op_params(task),
        )
        assert [(o.dtype, o.layout) for o in again.outputs if "ops" in made] == [
            (o.dtype, o.layout) for o in task.outputs if "ops" in made
        ]
        count += 1
    return count


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        (lambda: zeros(64, 16) + zeros(64, 16), ("ggml_op_add", "binary_ops.py", {})),
        # Five dimensions, as four in which GGML repeats the operand.
        (lambda: zeros(2, 2, 2, 2, 8) * zeros(2, 8), ("ggml_op_mul", "binary_ops.py", {})),
        (lambda: zeros(64).relu(), ("ggml_unary_op_relu", "unary_ops.py", {})),
        (lambda: nt.scale(zeros(64), 2.0), ("ggml_op_scale", "unary_ops.py", {"s": 2.0})),
        (lambda: nt.mul_mat(zeros(64, 32), zeros(16, 32)), ("ggml_op_mul_mat", "mul_mat.py", {})),
        (lambda: zeros(16, 32) @ zeros(64, 32).T, ("ggml_op_mul_mat", "mul_mat.py", {})),
        (lambda: zeros(8, 64).softmax(-1), ("ggml_op_soft_max", "row_ops.py", {})),
        (lambda: zeros(8, 64).argmax(-1).to(nt.int32), ("ggml_op_argmax", "row_ops.py", {})),
        (
            lambda: nt.rms_norm(zeros(4, 64, dtype="f32"), 64, eps=1e-6),
            ("ggml_op_rms_norm", "row_ops.py", {"eps": 1e-6}),
        ),
        (
            lambda: nt.get_rows(zeros(8, 64, dtype="f32"), zeros(3, dtype="i32")),
            ("ggml_op_get_rows", "embedding.py", {}),
        ),
    ],
)
def test_ops_of_ggml_are_entries_of_six_fields(result: Any, fields: tuple[str, str, dict[str, Any]]) -> None:
    ((made, _, _),) = entries(result())
    assert (made["kernel_name"], made["kernel_source"], made.get("op_params", {})) == fields
    assert "ops" not in made
    assert check(result()) == 1


@pytest.mark.parametrize(
    "result",
    [
        lambda: (zeros(64, 64) @ zeros(64, 64) + zeros(64)).relu(),
        lambda: zeros(16, 32) @ zeros(32, 64),
        lambda: zeros(64) * 2,
        lambda: zeros(64, 64).T + zeros(64, 64),
        lambda: zeros(64, 64).flip(0) + zeros(64),
        lambda: zeros(2, 3, 4, 5, 8).permute(4, 3, 2, 1, 0) + zeros(8, 5, 4, 3, 2),
        lambda: zeros(8, 64).sum(-1),
        lambda: (zeros(8, 64) * 0.125 + zeros(8, 64)).softmax(-1),
        lambda: nt.cat([zeros(4, 16), zeros(4, 16)], 1),
        lambda: nt.rope(zeros(1, 16, 4, 64), zeros(16, dtype="i32"), n_dims=32, mode="neox"),
        lambda: nt.clamp(zeros(64).to(nt.int32), 0, 3).to(nt.bfloat16),
    ],
)
def test_everything_else_is_an_entry_with_its_ops(result: Any) -> None:
    assert any("ops" in made for made, _, _ in entries(result()))
    assert check(result()) >= 1


ATTRIBUTES = {
    "clamp": {"min": -1, "max": 2},
    "scale": {"s": -0.5, "b": 3.0},
    "xielu": {"alpha_n": 0.8, "alpha_p": 0.5, "beta": 0.5, "eps": -1e-6},
    "convert": {"dtype": nt.float32},
    "fill": {"shape": (4,), "dtype": nt.bfloat16},
    "threshold": {"threshold": 0.5, "value": -1.0},
}


def meaning(call: Call) -> tuple[object, ...]:
    """Calls of one meaning may be several: dim=-1 and dim=1 are."""
    return call.op, call.operands, call.spec, call.registers, call.attributes, call.dims


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.kind in ("map", "row")], ids=lambda op: op.name)
def test_every_op_is_recorded_and_replayed(op: Op) -> None:
    """Each with all its attributes given, in the first dtype that it takes."""
    for dtype in ("bf16", "i16", "bool"):
        given = {"dim": -1, "eps": 1e-5, "count": 8.0, "ignore_index": -100} | ATTRIBUTES.get(op.name, {})
        values = tuple(given.get(a.name, None if a.default is Parameter.empty else a.default) for a in op.attributes)
        operands = [zeros(8, 64, dtype=dtype) for _ in op.operands]
        if op.module == "class_losses":  # One class per row, or per loss.
            columns = 64 if op.name == "counted_mean" else 1
            operands[1:] = [zeros(8, columns, dtype="i64"), *(zeros(8, 1, dtype=dtype) for _ in op.operands[2:])]
        try:
            result = record(op, operands, values)
        except (TypeError, ValueError):
            continue
        graph = item_graph(structure_of([result._node]), merge=True)
        (task,) = partitions(lower(graph), FUSION)[0].tasks
        tensors, ops = describe(graph, task)
        output = TensorDesc.of(result.shape, result.dtype)
        again, _ = replay(json.loads(json.dumps(ops)), tensors, output, TARGET)
        assert (again.program, again.shape) == (task.program, task.shape)
        assert [meaning(call) for call in again.calls] == [meaning(call) for call in task.calls]
        return
    pytest.fail("no dtype")


# --- random programs


def shapes_like(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(extent) if rng.random() < 0.7 else 1 for extent in shape)


UNARY = (nt.exp, nt.relu, nt.tanh, nt.neg, lambda x: x * 2, lambda x: 1 - x, lambda x: nt.leaky_relu(x, 0.2))


def grow(rng: np.random.Generator, x: nt.Tensor) -> nt.Tensor:
    """One more op on a tensor: element-wise, a view, a reduction, a product, a move."""
    kind = rng.integers(0, 12)
    if kind < 3:
        result: nt.Tensor = UNARY[rng.integers(len(UNARY))](x)
    elif kind < 6:
        other = zeros(*shapes_like(rng, x.shape))
        result = (nt.add, nt.mul, nt.sub, nt.maximum)[rng.integers(4)](x, other)
    elif kind == 6:
        result = x.permute(*rng.permutation(x.ndim).tolist())
    elif kind == 7:
        result = x.softmax(int(rng.integers(x.ndim)))
    elif kind == 8:
        result = x - x.sum(-1, True) if x.shape[-1] > 1 else x.exp()
    elif kind == 9:
        result = x @ zeros(x.shape[-1], 16) if x.ndim > 1 else x.exp()
    elif kind == 10:
        result = nt.cat([x, zeros(*x.shape)], int(rng.integers(x.ndim)))
    else:
        start = int(rng.integers(0, 2)) if x.shape[0] > 2 else 0
        result = x[start:].flip(-1) if rng.random() < 0.3 else x.reshape(x.numel() // x.shape[-1], x.shape[-1])
    return result


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    outer = rng.choice([1, 2, 3, 4, 8], rng.integers(0, 4)).tolist()
    x = zeros(*outer, int(rng.choice([16, 24, 64])))
    kept = []
    for _ in range(rng.integers(2, 8)):
        x = grow(rng, x)
        if rng.random() < 0.2:
            kept.append(x)
    if not x.is_realized:
        check(*kept, x)


# --- the representative kernels: all families, dtypes and kinds of designs, and each matches its name


on_each_array = pytest.mark.parametrize("arch", ARRAYS)


def by_variant(arch: Arch) -> dict[tuple[str, str], list[Entry]]:
    result: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in representative.entries(arch):
        family, name, _ = entry.exported_name.split("-")
        result[family, name].append(entry)
    return result


@on_each_array
def test_every_variant_is_what_it_says(arch: Arch) -> None:
    result = by_variant(arch)
    assert len(result) == len(VARIANTS)
    for variant in VARIANTS:
        for entry in result[variant.family, variant.name]:
            offer = entry.planned.offer
            assert offer.family == variant.family, entry.exported_name
            assert variant.says in offer.reason, entry.exported_name


@on_each_array
def test_every_family_and_dtype_is_there(arch: Arch) -> None:
    """The families match those that claim tasks; other cases are listed here: unsupported, or float32 as float16."""
    integers = {"i8", "i16", "i32", "u8"}
    refused = {"gemm": {"i32"}, "quantized": {"f16", *integers}}
    refused |= {"attention": {"f32", *integers}, **dict.fromkeys(("rope", "conv", "windows"), integers)}
    result: dict[str, set[str]] = defaultdict(set)
    for entry in representative.entries(arch):
        family, _, dtype = entry.exported_name.split("-")
        result[family].add(dtype)
    assert result == {
        family: set(ALL) - refused.get(family, set())
        for family in ("elementwise", "rowwise", "gemm", "movement", "get_rows", *refused)
    }


@on_each_array
def test_every_design_passes_the_checks(arch: Arch) -> None:
    for group in by_variant(arch).values():
        assert design_check.check(group[0].request().design) == []
