"""Configurations: the documented ones as they are, and every way in which one can be wrong."""

import contextlib
import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import GOLDEN

import npu_tensor as nt
from npu_tensor.ggml_hsa.config_file import Entry, Problem, load, parse, read

# Both examples of the documentation of ggml-hsa's tool, unedited.
FORMAT_EXAMPLE = (GOLDEN / "ggml_hsa_format.json").read_text()
DEPLOYMENT_EXAMPLE = (GOLDEN / "ggml_hsa_deployment.json").read_text()


I8 = {"dtype": "i8"}


def kernel(**changes: Any) -> dict[str, Any]:
    """A valid kernel with some fields changed; those that are None are left out."""
    made = json.loads(FORMAT_EXAMPLE)["kernels"][0] | changes
    return {key: value for key, value in made.items() if value is not None}


def problem(*kernels: Any, directories: tuple[Path, ...] = ()) -> str:
    """Return the problem of the last of some kernels."""
    result = read({"kernels": list(kernels)}, directories)[-1]
    assert isinstance(result, Problem)
    return str(result)


@pytest.mark.parametrize(
    ("text", "exported", "name"),
    [
        (FORMAT_EXAMPLE, "add_f32_1024", "add-1024f32-1024f32-1024f32"),
        (DEPLOYMENT_EXAMPLE, "add_bf16_4096_model", "add-4096bf16-4096bf16-4096bf16"),
    ],
)
def test_documented_examples_load_unedited(tmp_path: Path, text: str, exported: str, name: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    (entry,) = load(path)
    (task, offer), request = entry.planned, entry.request()
    assert (entry.exported_name, request.name) == (exported, name)
    assert (request.design.arch, offer.family, len(task.inputs)) == ("aie2", "elementwise", 2)
    assert request.tensors == (str(entry.output_tensor),) * 3


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "Configuration must contain 'kernels' key"),
        ({"kernels": {}}, "'kernels' must be a list"),
    ],
)
def test_documents_that_are_not_a_configuration(document: Any, message: str) -> None:
    with pytest.raises(nt.ArgumentError, match=message):
        read(document)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(nt.ArgumentError, match=r"^Failed to load configuration: .*none\.json does not exist$"):
        load(tmp_path / "none.json")
    with pytest.raises(nt.ArgumentError, match=rf"^Failed to load configuration: {tmp_path}: Is a directory$"):
        load(tmp_path)
    path = tmp_path / "config.json"
    for content in (b"{", b"\xff\xfe\xff", b"[" * 100_000, b"9" * 10_000):
        path.write_bytes(content)
        with pytest.raises(nt.ArgumentError, match=r"Failed to load configuration|Configuration must contain"):
            load(path)


def test_json_errors_name_their_place(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"kernels": [\n  1,\n  oops]}')
    with pytest.raises(nt.ArgumentError) as raised:
        load(path)
    assert str(raised.value) == f"Failed to load configuration: {path}:3:3: not JSON: expecting value"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": None}, ": Kernel 0 missing 'arch'"),
        ({"kernel_name": 3}, "/kernel_name: must be a string that is not empty, not 3"),
        ({"kernel_name": "add"}, "/kernel_name: binary_ops.py has no function 'add'; there are ggml_op_add,"),
        ({"kernel_source": "none.py"}, "/kernel_source: Kernel source not found: 'none.py' (searched "),
        ({"kernel_source": "../stubs.py"}, "/kernel_source: Kernel source not found: '../stubs.py' (searched "),
        ({"kernel_source": "/bin/sh"}, "/kernel_source: Kernel source not found: '/bin/sh' (searched "),
        ({"arch": "aie9"}, "/arch: 'aie9' is not one of aie2, aie2p"),
        ({"input_tensors": "(1,1,1,1)/f32"}, "/input_tensors: must be a list of tensor descriptors, not a string"),
        ({"input_tensors": [4]}, "/input_tensors/0: Invalid tensor descriptor: must be a string, not a number"),
        ({"output_tensor": "(1,2)/f32"}, "/output_tensor: Shape must have exactly 4 dimensions, got 2 in (1,2)/f32"),
        ({"output_tensor": "(8,1,1,1)/f32"}, ": the function computes (1024,1,1,1)/f32, not (8,1,1,1)/f32"),
        ({"exported_name": "../add"}, "/exported_name: '../add' is not fit for a file name"),
        ({"exported_name": "n" * 231}, "/exported_name: has 231 characters; 230 are the most"),
        ({"cols": 5}, "/cols: must be 1 to 4 for aie2, not 5"),
        ({"float32": "fast"}, "/float32: 'fast' is not one of exact, emulate, bfloat16"),
        ({"float32": "exact"}, ": no NPU kernel for ggml_op_add on aie2: float32 is exact on the CPU"),
        ({"op_params": [1]}, "/op_params: must be an object, not a list"),
        ({"op_params": {"alpha": 2}}, ": TypeError: ggml_op_add() got an unexpected keyword argument 'alpha'"),
        ({"ops": []}, "/ops: must be a list of recorded ops that is not empty"),
        ({"ops": [{"op": "exp"}]}, ": ops/0: KeyError: 'operands'"),
        ({"ops": [{"op": "nop", "operands": []}]}, ": ops/0: there is no op 'nop'"),
        ({"ops": [{"op": "exp", "operands": [{"op": 0}]}]}, ": ops/0: there is no op 0 before it"),
        ({"ops": [{"op": "exp", "operands": [{"input": 0}], "attributes": {"base": 2}}]}, ": ops/0: exp has no attr"),
        (
            {"ops": [{"op": "fill", "operands": [{"number": "int"}], "attributes": {"shape": "x", "dtype": I8}}]},
            ": ops/0: TypeError: fill(int): ",
        ),
        ({"ops": [{"op": "exp", "operands": [{"input": 0}]}]}, ": operand 1, counted from 0, is not used"),
    ],
)
def test_invalid_kernels(changes: dict[str, Any], message: str) -> None:
    assert problem(kernel(**changes)).startswith(f"/kernels/0{message}")


def test_exported_names_are_unique_for_an_array() -> None:
    expected = "/kernels/1/exported_name: 'add_f32_1024' is the name of kernel 0 for aie2 too"
    assert problem(kernel(), kernel()) == expected
    assert isinstance(read({"kernels": [kernel(), kernel(arch="aie2p")]})[1], Entry)


def test_bad_kernels_do_not_hinder_good_ones() -> None:
    result = read({"description": "three", "kernels": [kernel(arch="x"), kernel(), None]})
    assert [type(one) for one in result] == [Problem, Entry, Problem]


def test_unknown_keys_warn() -> None:
    with pytest.warns(UserWarning, match="configuration: unknown key 'Kernels'; there are description, kernels"):
        read({"kernels": [], "Kernels": []})
    with pytest.warns(UserWarning, match="/kernels/0: unknown key 'op_parms'; there are kernel_name,"):
        read({"kernels": [kernel(op_parms={})]})


def test_optional_fields() -> None:
    large = "(65536,1,1,1)/f32"
    tensors = {"input_tensors": [large, large], "output_tensor": large}
    (entry,) = read({"kernels": [kernel(cols=2, float32="bfloat16", **tensors)]})
    assert (entry.target.columns, entry.target.float32) == (2, "bfloat16")
    assert entry.request().design.columns == 2
    scale = kernel(kernel_source="unary_ops.py", kernel_name="ggml_op_scale", input_tensors=["(1024,1,1,1)/f32"])
    names = set()
    for s in (2.0, 3.0):
        (entry,) = read({"kernels": [scale | {"op_params": {"s": s}}]})
        names.add(entry.request().name)
    assert len(names) == 2


# --- kernel sources


SOURCE = "def ggml_op_add(src0, src1):\n    return src0 * src1\n"


def test_a_users_own_function_is_found_before_ours(tmp_path: Path) -> None:
    """The search order is the named directory, the configuration's directory, the package."""
    named, beside = tmp_path / "kernels", tmp_path / "config"
    for directory in (named, beside):
        directory.mkdir()
    path = beside / "config.json"
    path.write_text(FORMAT_EXAMPLE, "utf-8")

    def ops() -> tuple[str, ...]:
        (entry,) = load(path, named)
        return entry.planned.task.ops

    assert ops() == ("add",)
    (beside / "binary_ops.py").write_text(SOURCE, "utf-8")
    assert ops() == ("mul",)
    (named / "binary_ops.py").write_text(SOURCE.replace("*", "-"), "utf-8")
    assert ops() == ("sub",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def ggml_op_add(:", "SyntaxError: "),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_source_that_fails(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "binary_ops.py").write_text(text, "utf-8")
    result = problem(kernel(), directories=(tmp_path,))
    path = tmp_path / "binary_ops.py"
    assert result.startswith(f"/kernels/0/kernel_source: Failed to import kernel source {path}: {reason}")


# --- anything at all


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FULL = kernel(
    ops=[{"op": "add", "operands": [{"input": 0}, {"input": 1}], "attributes": {"alpha": 1}}], cols=2, float32="emulate"
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(result for key, child in children for result in places(child, (*path, key)))]


def only_our_errors(document: Any) -> None:
    with warnings.catch_warnings(), contextlib.suppress(nt.NpuTensorError):
        warnings.simplefilter("ignore")
        for result in read(document):
            assert isinstance(result, (Entry, Problem))
            str(result).encode("utf-8", "backslashreplace")


@given(json_values | st.fixed_dictionaries({"kernels": st.lists(json_values, max_size=3) | json_values}))
def test_any_json(document: Any) -> None:
    only_our_errors(document)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([kernel(), FULL]), st.data())
def test_any_change_of_a_valid_kernel(valid: dict[str, Any], data: st.DataObject) -> None:
    changed: Any = {"kernels": [copy.deepcopy(valid)]}
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(changed)))
        value = data.draw(json_values | st.sampled_from(["(8,1,1,1)/f32", "exp", -1, 0, 10**30]))
        if not path:
            changed = value
            break
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = value
    only_our_errors(changed)


@given(st.binary(max_size=200))
def test_any_file(content: bytes) -> None:
    with contextlib.suppress(nt.NpuTensorError):
        parse(content)
