"""ONNX files: operators beside the reference of the onnx package, weights, shapes, and files that cannot be read."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.runtime.sim import host_compiler

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

OPSET = 21
RANDOM = np.random.default_rng(0)


def floats(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def saved(path, nodes, inputs, outputs=("y",), initializers=None, opset=OPSET, domains=()):
    """Write a model. Inputs are arrays, whose shapes and dtypes it gets."""
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "model",
        declared,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(each, name) for name, each in (initializers or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets)
    Path(path).write_bytes(model.SerializeToString())
    return model


def run(path, inputs):
    result = nt.load_onnx(path)(**{name: nt.from_numpy(each) for name, each in inputs.items()})
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def computed(path, node, inputs, outputs=("y",), **options):
    """Return the results of a model of one node."""
    saved(path, [node], inputs, outputs, **options)
    return run(path, inputs)


def equals_reference(path, nodes, inputs, outputs=("y",), initializers=None, rtol=1e-5, atol=1e-5):
    """Compare a model with the reference, and return it."""
    model = saved(path, nodes, inputs, outputs, initializers)
    for result, expected in zip(run(path, inputs), ReferenceEvaluator(model).run(None, inputs), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)
    return nt.load_onnx(path)


def dequantized(operator, names=("s", "z"), weights=("w", "ws", "wz"), bias=(), axis=1, **attributes):
    """Return the nodes of an operator on x, which is quantized and dequantized by `names`, and on such weights."""
    return [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *names], ["a"]),
        helper.make_node("DequantizeLinear", weights, ["c"], axis=axis),
        helper.make_node(operator, ["a", "c", *bias], ["y"], **attributes),
    ]


def has_integer_product(model, x):
    return any(row.op == "contract" and row.out.startswith("i32") for row in nt.explain(model(nt.from_numpy(x))))


X = floats(2, 3, 6, 5)
IMAGE = floats(1, 4, 9, 8)
CASES = {
    "Add of an axis": ("Add", [X, floats(3, 1, 1)], {}),
    "Div of integers": ("Div", [np.array([7, -7], np.int32), np.array([2, 2], np.int32)], {}),
    "ThresholdedRelu": ("ThresholdedRelu", [np.array([-np.inf, 0.5, 2, np.inf], np.float32)], {}),
    "CumSum of nothing": ("CumSum", [floats(2, 0), np.array(1)], {"exclusive": 1}),
    "Mod": ("Mod", [np.array([7, -7], np.int64), np.array([3, 3], np.int64)], {}),
    "fmod": ("Mod", [floats(4), np.full(4, 0.7, np.float32)], {"fmod": 1}),
    "Clip": ("Clip", [X, np.float32(-1), np.float32(0.5)], {}),
    "Gemm": ("Gemm", [floats(3, 4), floats(5, 3), floats(5)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    "Conv with uneven pads": ("Conv", [IMAGE, floats(6, 2, 3, 3), floats(6)], {"group": 2, "pads": [0, 1, 2, 1]}),
    "Conv with strides": ("Conv", [IMAGE, floats(2, 4, 3, 2)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "ConvTranspose": ("ConvTranspose", [IMAGE, floats(4, 2, 3, 3)], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    "ConvTranspose of a larger shape": (
        *("ConvTranspose", [IMAGE, floats(4, 2, 3, 2)]),
        {"strides": [2, 3], "output_shape": [20, 25]},
    ),
    "ConvTranspose of a smaller shape": (
        *("ConvTranspose", [IMAGE, floats(4, 2, 3, 2)]),
        {"strides": [2, 3], "output_shape": [16, 22], "auto_pad": "SAME_UPPER"},
    ),
    "MaxPool": ("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 1, 0]}),
    "AveragePool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 1]}),
    "LayerNormalization": ("LayerNormalization", [X, floats(6, 5), floats(6, 5)], {"axis": 2}),
    "GlobalAveragePool": ("GlobalAveragePool", [IMAGE], {}),
    "InstanceNormalization": ("InstanceNormalization", [X, floats(3), floats(3)], {}),
    "ReduceLogSumExp": ("ReduceLogSumExp", [X, np.array([1, -1])], {"keepdims": 0}),
    "ReduceMax of all": ("ReduceMax", [X], {}),
    "ArgMax": ("ArgMax", [X], {"axis": 1, "keepdims": 0}),
    "CumSum": ("CumSum", [X, np.array(1)], {"exclusive": 1, "reverse": 1}),
    "Reshape": ("Reshape", [X, np.array([0, -1, 5])], {}),
    "Slice": ("Slice", [X, np.array([4, 0]), np.array([-9, 2]), np.array([2, 1]), np.array([-2, 1])], {}),
    "Pad": ("Pad", [X, np.array([1, 0, 2, 1]), None, np.array([2, 3])], {"mode": "reflect"}),
    "Tile": ("Tile", [floats(2, 3), np.array([2, 2])], {}),
    "DepthToSpace": ("DepthToSpace", [IMAGE], {"blocksize": 2}),
    "Gather": ("Gather", [X, np.array([[0, -1]])], {"axis": 2}),
    "GatherElements": ("GatherElements", [floats(3, 4), np.array([[1, -1], [0, 2], [3, 3]])], {"axis": 1}),
    "GatherND": ("GatherND", [X, np.array([[[0, 1], [2, 0]], [[1, -1], [0, 4]]])], {"batch_dims": 1}),
    "ScatterElements": ("ScatterElements", [floats(3, 4), np.array([[1], [3]]), floats(2, 1)], {"axis": 1}),
    "ScatterND": ("ScatterND", [floats(4, 3), np.array([[1], [1]]), floats(2, 3)], {"reduction": "mul"}),
    "OneHot": ("OneHot", [np.array([1, -1, 7]), np.array(3), floats(2)], {"axis": 0}),
    "LRN": ("LRN", [floats(3, 3, 2, 2)], {"size": 4, "alpha": 0.5}),
    "LRN of all channels": ("LRN", [X], {"size": 1 << 40}),
    "Trilu": ("Trilu", [floats(4, 5), np.array(1)], {"upper": 0}),
    "Where": ("Where", [X > 0, X, np.float32(3)], {}),
    "Cast": ("Cast", [X], {"to": TensorProto.BFLOAT16}),
    "Resize": ("Resize", [IMAGE, None, np.array([1, 1, 1.5, 2], np.float32)], {"mode": "linear"}),
    "Resize cubic": ("Resize", [IMAGE, None, None, np.array([1, 4, 12, 4])], {"mode": "cubic", "cubic_coeff_a": -0.5}),
    "Resize of integers": (
        "Resize",
        [(np.arange(60) * 37 % 256).astype(np.uint8).reshape(1, 2, 5, 6), None, np.array([1, 1, 1.7, 1.3], np.float32)],
        {"mode": "cubic", "coordinate_transformation_mode": "asymmetric"},
    ),
    "Resize nearest": ("Resize", [IMAGE, None, np.array([1, 1, 2, 0.6], np.float32)], {"nearest_mode": "ceil"}),
    "GridSample": ("GridSample", [IMAGE, floats(1, 3, 3, 2)], {"padding_mode": "border"}),
    "GridSample cubic": ("GridSample", [IMAGE, floats(1, 3, 3, 2)], {"mode": "cubic", "padding_mode": "border"}),
    "Einsum": ("Einsum", [X, floats(5, 7)], {"equation": "abcd, de -> ace"}),
    "Hardmax": ("Hardmax", [X], {}),
    "Softmax": ("Softmax", [X], {"axis": 1}),
    "HardSigmoid": ("HardSigmoid", [X], {"alpha": 0.3}),
    "HardSwish": ("HardSwish", [X * 2], {}),
    "PRelu": ("PRelu", [X, floats(3, 1, 1)], {}),
    "LSTM": ("LSTM", [floats(4, 2, 3), floats(1, 20, 3), floats(1, 20, 5), floats(1, 40)], {"hidden_size": 5}),
    "GRU": ("GRU", [floats(4, 2, 3), floats(1, 15, 3), floats(1, 15, 5)], {"hidden_size": 5}),
    "GRU of PyTorch": (
        *("GRU", [floats(4, 2, 3), floats(1, 15, 3), floats(1, 15, 5), floats(1, 30)]),
        {"hidden_size": 5, "linear_before_reset": 1},
    ),
    "QuantizeLinear": ("QuantizeLinear", [X, np.float32(0.02), np.uint8(128)], {}),
    "DequantizeLinear": ("DequantizeLinear", [np.arange(6, dtype=np.int8).reshape(2, 3), floats(3)], {"axis": 1}),
    "MatMulInteger": (
        "MatMulInteger",
        [*(RANDOM.integers(0, 255, shape, np.uint8) for shape in ((3, 8), (8, 4))), np.uint8(12), np.uint8(200)],
        {},
    ),
    "ConvInteger": (
        *("ConvInteger", [RANDOM.integers(0, 255, shape, np.uint8) for shape in ((1, 2, 5, 5), (3, 2, 3, 3))]),
        {"pads": [1, 1, 1, 1]},
    ),
}


WITH_CONSTANTS = {
    "Where": ([np.array([True, False]), np.float32(1.5), np.float32(2.5)], [0]),
    "Pow": ([np.float32(2), floats(3)], [1]),
    "Clip": ([np.float32(3), floats(), np.float32(2)], []),
    "Div": ([np.array([(1 << 60) + 1, -7, 7]), np.array([1, 2, -2])], []),
    "NonZero": ([np.array([[1, 0], [0, 3]])], []),
}
"""Operands of operators, and the positions of those that are not constants of the file."""


@pytest.mark.parametrize("operator", WITH_CONSTANTS)
def test_an_operator_of_constants(operator, tmp_path):
    values, positions = WITH_CONSTANTS[operator]
    constants = {f"x{n}": np.asarray(each) for n, each in enumerate(values)}
    inputs = {f"x{n}": constants.pop(f"x{n}") for n in positions}
    node = helper.make_node(operator, [f"x{n}" for n in range(len(values))], ["y"])
    model = saved(tmp_path / "m.onnx", [node], inputs, initializers=constants)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    result = nt.jit(nt.load_onnx(tmp_path / "m.onnx"))(**{name: nt.from_numpy(each) for name, each in inputs.items()})
    assert result.dtype.name == expected.dtype.name
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_groups_before_opset_21_have_one_scale_each(tmp_path):
    arrays = {"x": floats(2, 4, 3), "scale": floats(2), "bias": floats(2)}
    node = helper.make_node("GroupNormalization", [*arrays], ["y"], num_groups=2)
    x, scale, bias = map(nt.from_numpy, arrays.values())
    expected = nt.group_norm(x, 2, scale.repeat_interleave(2), bias.repeat_interleave(2))
    np.testing.assert_allclose(computed(tmp_path / "m.onnx", node, arrays, opset=18)[0], expected.numpy(), rtol=1e-6)


def test_a_diagonal_outside_of_the_matrix(tmp_path):
    arrays = {"x": floats(2, 3), "k": np.array(-1 << 63)}
    node = helper.make_node("Trilu", [*arrays], ["y"], upper=0)
    np.testing.assert_array_equal(computed(tmp_path / "m.onnx", node, arrays)[0], np.zeros((2, 3)))


def test_regions_before_opset_16(tmp_path):
    arrays = {"x": floats(1, 2, 5, 6), "rois": np.array([[0.3, 0.2, 4.1, 3.7]], np.float32), "batch": np.array([0])}
    size = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    results = []
    for opset, attributes in ((13, {}), (16, {"coordinate_transformation_mode": "output_half_pixel"})):
        node = helper.make_node("RoiAlign", [*arrays], ["y"], **size, **attributes)
        results += computed(tmp_path / "m.onnx", node, arrays, opset=opset)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 2, 1]])
def test_integer_convolutions(kind, zero, pads, tmp_path):
    limits = np.iinfo(kind)
    arrays = {
        "x": RANDOM.integers(limits.min, limits.max + 1, (2, 3, 6, 5), kind),
        "w": RANDOM.integers(-128, 128, (4, 3, 3, 2), np.int8),
        "xz": kind(limits.max - zero),
        "wz": RANDOM.integers(-128, 128, 4, np.int8) if zero else np.zeros(4, np.int8),
    }
    arrays = {name: np.asarray(each) for name, each in arrays.items()}
    node = helper.make_node("ConvInteger", [*arrays], ["y"], pads=pads, strides=[1, 2], kernel_shape=[3, 2])
    (result,) = computed(tmp_path / "m.onnx", node, arrays)
    image = np.pad(
        arrays["x"].astype(np.int64) - arrays["xz"], ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    )
    weight = arrays["w"].astype(np.int64) - arrays["wz"].reshape(4, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 2), (2, 3))[:, :, :, ::2]
    np.testing.assert_array_equal(result, np.einsum("nchwij,ocij->nohw", windows, weight))


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
@pytest.mark.parametrize(("zero", "pads"), [(0, [1, 1, 1, 1]), (7, [1, 1, 1, 1]), (0, [0, 1, 2, 0])])
def test_quantized_convolutions_on_an_npu(zero, pads, tmp_path):
    """Images with and without a zero point, and padding that the op has or that is stored."""
    inputs = {"x": RANDOM.integers(-128, 128, (1, 16, 9, 8), np.int8)}
    initializers = {
        "xs": np.float32(0.02),
        "xz": np.int8(zero),
        "ys": np.float32(0.8),
        "yz": np.int8(0),
        "w": RANDOM.integers(-128, 128, (20, 16, 3, 3), np.int8),
        "ws": floats(20, low=0.01, high=0.1),
        "wz": np.zeros(20, np.int8),
        "b": RANDOM.integers(-9999, 9999, 20, np.int32),
    }
    operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    path, node = tmp_path / "m.onnx", helper.make_node("QLinearConv", operands, ["y"], pads=pads, strides=[1, 2])
    with nt.default_device("sim:npu2"):
        loaded = equals_reference(path, [node], inputs, initializers=initializers, atol=1)
        rows = nt.explain(loaded(nt.from_numpy(inputs["x"])))
        assert [row.device for row in rows if row.kernel == "conv"] == ["sim:npu2"]
        assert not any(row.op == "contract" for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_the_reference_computes(name, tmp_path):
    operator, values, attributes = CASES[name]
    inputs = {f"x{n}": np.asarray(each) for n, each in enumerate(values) if each is not None}
    names = ["" if each is None else f"x{n}" for n, each in enumerate(values)]
    outputs = {"LSTM": ("y", "h", "c"), "GRU": ("y", "h")}.get(operator, ("y",))
    node = helper.make_node(operator, names, outputs, **attributes)
    equals_reference(tmp_path / "model.onnx", [node], inputs, outputs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("operator", "arrays", "attributes", "expected"),
    [
        ("Gelu", [X], {}, lambda x: nt.gelu(x)),
        ("FastGelu", [X, floats(5)], {}, lambda x, b: nt.gelu(x + b, "tanh")),
        ("BiasGelu", [X, floats(5)], {}, lambda x, b: nt.gelu(x + b)),
        ("FusedMatMul", [floats(4, 3), floats(4, 5)], {"transA": 1, "alpha": 2.0}, lambda a, b: 2 * a.T @ b),
        (
            "SkipLayerNormalization",
            [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)],
            {"epsilon": 1e-5},
            lambda x, skip, w, b, more: nt.layer_norm(x + skip + more, 8, w, b),
        ),
        (
            "SkipSimplifiedLayerNormalization",
            [floats(2, 3, 8), floats(2, 3, 8), floats(8)],
            {"epsilon": 1e-5},
            lambda x, skip, w: nt.rms_norm(x + skip, 8, w, 1e-5),
        ),
    ],
)
def test_operators_of_onnx_runtime(operator, arrays, attributes, expected, tmp_path):
    inputs = {f"x{n}": each for n, each in enumerate(arrays)}
    node = helper.make_node(operator, list(inputs), ["y"], domain="com.microsoft", **attributes)
    (result,) = computed(tmp_path / "model.onnx", node, inputs, domains=["com.microsoft"])
    wanted = expected(*(nt.from_numpy(each) for each in arrays)).numpy()
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("bits", "has_zeros"), [(4, False), (2, True), (4, True), (8, True)])
def test_weights_of_few_bits(bits, has_zeros, tmp_path):
    columns, rows, size = 40, 5, 16  # The last of three blocks is padded.

    def packed(codes):
        shifts = np.arange(0, 8, bits)
        groups = np.pad(codes, ((0, 0), (0, -codes.shape[1] % len(shifts)))).reshape(rows, -1, len(shifts))
        return (groups.astype(np.int64) << shifts).sum(-1).astype(np.uint8)

    codes, zeros = (RANDOM.integers(0, 1 << bits, (rows, n), np.uint8) for n in (3 * size, 3))
    scales, x = floats(rows, 3, low=0.1, high=1), floats(2, columns)
    weights = {"w": packed(codes).reshape(rows, 3, -1), "s": scales, "z": packed(zeros)}
    if not has_zeros:
        del weights["z"]
        zeros = np.full((rows, 3), 1 << (bits - 1))
    attributes = {"K": columns, "N": rows, "bits": bits, "block_size": size}
    node = helper.make_node("MatMulNBits", ["x", *weights], ["y"], domain="com.microsoft", **attributes)
    expected = (codes.astype(np.float32) - np.repeat(zeros, size, 1)) * np.repeat(scales, size, 1)
    (result,) = computed(tmp_path / "m.onnx", node, {"x": x}, initializers=weights, domains=["com.microsoft"])
    np.testing.assert_allclose(result, x @ expected[:, :columns].T, rtol=1e-4, atol=1e-3)


def test_attention_over_cached_keys(tmp_path):
    inputs = {
        "q": floats(1, 1, 16),
        "k": floats(1, 1, 8),
        "v": floats(1, 1, 8),
        "pk": floats(1, 2, 3, 4),
        "pv": floats(1, 2, 3, 4),
        "last": np.array([3], np.int32),
    }
    node = helper.make_node(
        *("GroupQueryAttention", list(inputs), ["y", "key", "value"]),
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
    )
    y, key, value = computed(tmp_path / "m.onnx", node, inputs, ("y", "key", "value"), domains=["com.microsoft"])
    heads = [
        np.concatenate([inputs[past], inputs[x].reshape(1, 1, 2, 4).swapaxes(1, 2)], 2)
        for past, x in (("pk", "k"), ("pv", "v"))
    ]
    np.testing.assert_array_equal(key, heads[0])
    np.testing.assert_array_equal(value, heads[1])
    k, v = (np.repeat(each, 2, 1) for each in heads)
    scores = np.exp(inputs["q"].reshape(1, 4, 1, 4) @ k.swapaxes(2, 3) / 2)
    expected = (scores / scores.sum(-1, keepdims=True) @ v).reshape(1, 1, 16)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


# --- models


def perceptron(path, **keywords):
    weights = {"layer.weight": floats(8, 4), "layer.bias": floats(4), "scale": np.float32(2)}
    nodes = [
        helper.make_node("MatMul", ["x", "layer.weight"], ["a"], name="first"),
        helper.make_node("Add", ["a", "layer.bias"], ["b"]),
        helper.make_node("Mul", ["b", "scale"], ["y"], name="last"),
    ]
    saved(path, nodes, {"x": floats(2, 8)}, initializers=weights, **keywords)
    return weights


def test_initializers_are_parameters_under_their_names(tmp_path):
    weights = perceptron(tmp_path / "m.onnx")
    model = nt.load_onnx(tmp_path / "m.onnx")
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
    assert not any(each.requires_grad for each in model.parameters())
    x = nt.randn(2, 8)
    expected = (x.numpy() @ weights["layer.weight"] + weights["layer.bias"]) * 2
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(nt.jit(model)(x=x).numpy(), expected, rtol=1e-5)
    model.requires_grad_()
    model(x).sum().backward()
    np.testing.assert_allclose(model.layer.bias.grad.numpy(), np.full(4, 4.0))


def test_explain_and_errors_name_the_nodes(tmp_path):
    perceptron(tmp_path / "m.onnx")
    model = nt.load_onnx(tmp_path / "m.onnx")
    assert {row.line for row in nt.explain(model(nt.randn(2, 8)))} >= {"first", "last"}
    with pytest.raises(nt.ShapeError, match=r"argument 'x' .* \[2, 8\], not float32\[2, 9\]"):
        model(nt.randn(2, 9))


def test_external_weights_are_mapped(tmp_path):
    perceptron(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = nt.randn(2, 8)
    inside, outside = (nt.load_onnx(tmp_path / name)(x).numpy() for name in ("m.onnx", "e.onnx"))
    np.testing.assert_array_equal(inside, outside)


@pytest.mark.parametrize(
    "names", [("forward", "a", "a.b", "x..y", "graph"), ("a", "a.b", "a_b", "forward", "forward_")]
)
def test_names_that_a_module_cannot_have_or_that_would_get_the_same_path(names, tmp_path):
    arrays = {name: np.full(3, n, np.float32) for n, name in enumerate(names, 1)}
    saved(tmp_path / "m.onnx", [helper.make_node("Concat", [*arrays], ["y"], axis=0)], {}, initializers=arrays)
    model = nt.load_onnx(tmp_path / "m.onnx")
    assert len(model.state_dict()) == 5
    np.testing.assert_array_equal(model().numpy(), np.repeat([1, 2, 3, 4, 5], 3))


def test_extents_of_minus_one_are_any(tmp_path):
    perceptron(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "m.onnx")
    assert nt.load_onnx(tmp_path / "m.onnx")(nt.zeros(5, 8)).shape == (5, 4)


def test_shapes_are_folded_under_jit(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["m"]),
        helper.make_node("Unsqueeze", ["m", "axes"], ["ms"]),
        helper.make_node("Concat", ["ms", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
        helper.make_node("Range", ["zero", "n", "one"], ["places"]),
    ]
    constants = {"zero": 0, "one": 1, "two": 2, "axes": [0], "minus": [-1]}
    initializers = {name: np.array(each, np.int64) for name, each in constants.items()}
    saved(tmp_path / "m.onnx", nodes, {"x": floats(3, 4)}, ("y", "shape", "places"), initializers)
    y, shape, places = nt.jit(nt.load_onnx(tmp_path / "m.onnx"))(nt.arange(12.0).reshape(3, 4))
    assert y.shape == (6, 2)
    assert (shape.tolist(), places.tolist()) == ([3, 4], [0, 1, 2])


def test_a_shape_that_depends_on_values_needs_no_jit(tmp_path):
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="resize")
    saved(tmp_path / "m.onnx", [node], {"x": floats(6), "shape": np.array([2, 3])})
    model = nt.load_onnx(tmp_path / "m.onnx")
    assert model(nt.arange(6.0), nt.tensor([2, 3])).shape == (2, 3)
    with pytest.raises(nt.CaptureError, match="operand 1 must be known") as caught:
        nt.jit(model)(nt.arange(6.0), nt.tensor([2, 3]))
    assert caught.value.__notes__ == ["in Reshape of the imported graph at resize"]


def test_branches_and_loops(tmp_path):
    def branch(operator):
        node = helper.make_node(operator, ["x", "w"], ["out"])
        return helper.make_graph([node], operator, [], [onnx.ValueInfoProto(name="out")])

    step = helper.make_graph(
        [helper.make_node("Add", ["state", "w"], ["next"]), helper.make_node("Identity", ["go"], ["still"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2]),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("still", "next", "next")],
    )
    nodes = [
        helper.make_node("If", ["condition"], ["a"], then_branch=branch("Add"), else_branch=branch("Mul")),
        helper.make_node("Loop", ["count", "", "a"], ["last", "all"], body=step),
    ]
    initializers = {"w": floats(2), "condition": np.array(False), "count": np.array(3)}
    x = floats(2)
    saved(tmp_path / "m.onnx", nodes, {"x": x}, ("a", "last", "all"), initializers)
    w = initializers["w"]
    for model in (nt.load_onnx(tmp_path / "m.onnx"), nt.jit(nt.load_onnx(tmp_path / "m.onnx"))):
        first, last, every = (each.numpy() for each in model(nt.from_numpy(x)))
        np.testing.assert_allclose(first, x * w, rtol=1e-6)
        np.testing.assert_allclose(last, x * w + 3 * w, rtol=1e-5)
        np.testing.assert_allclose(every, [x * w + n * w for n in (1, 2, 3)], rtol=1e-5)


def test_outputs_that_nothing_reads(tmp_path):
    nodes = [helper.make_node("Split", ["x"], ["a", "b", ""], axis=0, num_outputs=3)]
    saved(tmp_path / "m.onnx", nodes, {"x": floats(6)}, ("a", "b"))
    first, second = nt.load_onnx(tmp_path / "m.onnx")(nt.arange(6.0))
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3])


def test_a_branch_with_too_few_results(tmp_path):
    branches = [
        helper.make_graph([helper.make_node(name, ["x"], ["out"])], name, [], [onnx.ValueInfoProto(name="out")])
        for name in ("Abs", "Neg")
    ]
    node = helper.make_node(
        "If", ["condition"], ["y", "z"], "culprit", then_branch=branches[0], else_branch=branches[1]
    )
    saved(tmp_path / "m.onnx", [node], {"x": floats(3)}, ("y", "z"), {"condition": np.array(True)})
    with pytest.raises(nt.ArgumentError, match="the operator has 1 results, not 2") as caught:
        nt.load_onnx(tmp_path / "m.onnx")(nt.zeros(3))
    assert caught.value.__notes__ == ["in If of the imported graph at culprit"]


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_products_of_dequantized_matrices_are_integer_products(operator, tmp_path):
    weight = RANDOM.integers(-128, 128, (16, 8), np.int8)
    transposed = {"transB": 1} if operator == "Gemm" else {}
    initializers = {
        "s": np.float32(0.02),
        "z": np.uint8(120),
        "w": weight.T.copy() if transposed else weight,
        "ws": floats(8, low=0.01, high=0.1),
        "wz": np.zeros(8, np.int8),
        "b": floats(8),
    }
    bias, axis = (["b"], 0) if transposed else ([], 1)
    nodes, x = dequantized(operator, bias=bias, axis=axis, **transposed), floats(4, 16)
    loaded = equals_reference(tmp_path / "m.onnx", nodes, {"x": x}, initializers=initializers)
    assert "QuantizedMatMul" in [node.operator for node in loaded.graph.nodes]
    assert loaded.state_dict()["w"].dtype is nt.int8
    assert has_integer_product(loaded, x)


@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        ((2, 3, 9, 7), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 3, 9, 8), (4, 3, 3, 2), {"strides": [2, 1], "dilations": [2, 3], "pads": [2, 0, 1, 3]}),
        ((1, 3, 8, 9), (4, 3, 1, 1), {}),
        ((1, 3, 11), (4, 3, 5), {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ],
)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_convolutions_of_dequantized_images_are_integer_products(kind, shape, weight, attributes, tmp_path):
    limits = np.iinfo(kind)
    initializers = {
        "s": np.float32(0.02),
        "z": kind(limits.min + 120),
        "w": RANDOM.integers(limits.min, limits.max + 1, weight, kind),
        "ws": floats(4, low=0.01, high=0.1),
        "wz": RANDOM.integers(limits.min, limits.max, 4, kind),
        "b": floats(4),
    }
    nodes, x = dequantized("Conv", bias=["b"], axis=0, **attributes), floats(*shape)
    loaded = equals_reference(tmp_path / "m.onnx", nodes, {"x": x}, initializers=initializers)
    assert has_integer_product(loaded, x)


@pytest.mark.parametrize(
    ("quantize", "zero", "dequantize", "weight", "is_product"),
    [
        ({}, np.uint8(7), {}, np.int8, True),
        ({}, None, {}, np.int8, True),
        ({"output_dtype": TensorProto.INT8}, None, {}, np.int8, True),
        ({"output_dtype": TensorProto.INT16}, None, {}, np.int8, False),
        ({}, np.int16(0), {}, np.int8, False),
        ({}, np.uint8(7), {"axis": 0, "block_size": 8}, np.int8, False),
        ({}, np.uint8(7), {}, np.int16, False),
    ],
)
def test_which_products_are_integer_products(quantize, zero, dequantize, weight, is_product, tmp_path):
    scales = floats(2, 4, low=0.01, high=0.1) if dequantize else np.float32(0.05)
    initializers = {"s": np.float32(0.002), "w": RANDOM.integers(-99, 99, (16, 4), weight), "ws": scales}
    names = ["s"]
    if zero is not None:
        initializers["z"], names = zero, ["s", "z"]
    own_names = names if zero is None or zero.dtype == np.uint8 else ["s"]  # Left out, it is 0.
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], **quantize),
        helper.make_node("DequantizeLinear", ["q", *own_names], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["c"], **dequantize),
        helper.make_node("MatMul", ["a", "c"], ["y"]),
    ]
    loaded = equals_reference(tmp_path / "m.onnx", nodes, {"x": floats(3, 16)}, initializers=initializers)
    assert ("QuantizedMatMul" in [node.operator for node in loaded.graph.nodes]) is is_product


@pytest.mark.parametrize("axis", [0, -4, 1])
def test_only_scales_of_output_channels_leave_a_convolution_one_of_integers(axis, tmp_path):
    initializers = {
        "s": np.float32(0.02),
        "w": RANDOM.integers(-99, 99, (3, 3, 2, 2), np.int8),
        "ws": floats(3, low=0.01, high=0.1),
    }
    nodes = dequantized("Conv", ["s"], ["w", "ws"], axis=axis)
    x = floats(1, 3, 5, 4, low=0)
    loaded = equals_reference(tmp_path / "m.onnx", nodes, {"x": x}, initializers=initializers)
    assert ("QuantizedConv" in [node.operator for node in loaded.graph.nodes]) is (axis != 1)


def test_a_quantized_graph_of_operators(tmp_path):
    arrays = {
        "aq": RANDOM.integers(0, 255, (4, 16), np.uint8),
        "as": np.float32(0.02),
        "az": np.uint8(113),
        "bq": RANDOM.integers(-128, 127, (16, 8), np.int8),
        "bs": floats(8, low=0.01, high=0.1),
        "bz": np.zeros(8, np.int8),
        "ys": np.float32(0.3),
        "yz": np.uint8(118),
    }
    nodes = [
        helper.make_node("QLinearMatMul", list(arrays), ["y"]),
        helper.make_node("DequantizeLinear", ["y", "ys", "yz"], ["float"]),
        helper.make_node("DynamicQuantizeLinear", ["float"], ["q", "scale", "zero"]),
    ]
    inputs = {"aq": arrays.pop("aq")}
    equals_reference(tmp_path / "m.onnx", nodes, inputs, ("y", "q", "scale", "zero"), arrays, rtol=1e-6, atol=0)


# --- PyTorch's exporters


@pytest.mark.parametrize(
    ("name", "dynamo"),
    [*((name, False) for name in ("depthwise", "encoder", "recurrent", "translator", "unet")), ("vision", True)],
)
def test_models_exported_from_pytorch(name, dynamo, tmp_path):
    torch = pytest.importorskip("torch")
    if dynamo:
        pytest.importorskip("onnxscript")
    from torch_models import example

    module, arguments = example(name)
    module.eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.backends.mha.set_fastpath_enabled(False)
        torch.onnx.export(module, arguments, path, dynamo=dynamo, **({} if dynamo else {"opset_version": 17}))
        expected = module(*arguments).numpy()
    torch.backends.mha.set_fastpath_enabled(fast)
    model, own = nt.load_onnx(path), [nt.from_numpy(each.numpy()) for each in arguments]
    for function in (model, nt.jit(model)):
        assert np.abs(function(*own).numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
    if dynamo:
        assert any(str(row.line).startswith("torch_models.py:") for row in nt.explain(model(*own)))


# --- files that cannot be read


def damaged(change, tmp_path):
    perceptron(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    change(model)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    nt.load_onnx(tmp_path / "m.onnx")


def external(location, **entries):
    def change(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=str(value))

    return change


BAD = {
    "missing input": (
        lambda m: m.graph.node[0].input.__setitem__(0, "nothing"),
        "MatMul at first: no input .* 'nothing'",
    ),
    "cycle": (lambda m: m.graph.node[0].input.__setitem__(0, "y"), "no earlier node has the name 'y'"),
    "unknown output": (lambda m: m.graph.output[0].__setattr__("name", "z"), "no node computes the output 'z'"),
    "two values of a name": (lambda m: m.graph.node[1].output.__setitem__(0, "a"), "another value of the name 'a'"),
    "unknown operator": (
        lambda m: m.graph.node[0].__setattr__("op_type", "Magic"),
        r"Magic at first \(domain ai.onnx, opset 21\) is not supported",
    ),
    "unknown domain": (
        lambda m: m.graph.node[0].__setattr__("domain", "org.example"),
        r"MatMul at first \(domain org.example, opset unknown\) is not supported",
    ),
    "old opset": (lambda m: m.opset_import[0].__setattr__("version", 9), "opset 9; 13 to 28 are supported"),
    "no opset": (lambda m: m.ClearField("opset_import"), "names no opset"),
    "no graph": (lambda m: m.ClearField("graph"), "has no graph"),
    "absurd shape": (lambda m: m.graph.initializer[0].dims.__setitem__(0, 1 << 60), "tensor 'layer.weight'"),
    "negative shape": (lambda m: m.graph.initializer[0].dims.__setitem__(0, -8), "has the shape"),
    "short data": (lambda m: m.graph.initializer[0].__setattr__("raw_data", b"abc"), "tensor 'layer.weight'"),
    "outside": (external("../secret.bin"), "outside of the folder"),
    "absolute path": (external("/etc/hostname"), "outside of the folder"),
    "end of external file": (external("m.onnx", offset=1 << 40), "which has"),
    "negative offset": (external("m.onnx", offset=-8), "needs bytes -8"),
    "folder": (external("."), "which is a folder"),
    "offset of letters": (external("m.onnx", offset="x"), "invalid literal"),
}


@pytest.mark.parametrize("kind", BAD)
def test_damaged_files_raise_an_error(kind, tmp_path):
    change, message = BAD[kind]
    with pytest.raises(nt.ArgumentError, match=message):
        damaged(change, tmp_path)


def test_truncated_files_raise_an_error(tmp_path):
    perceptron(tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    for end in range(0, len(data) - 1, 7):
        (tmp_path / "m.onnx").write_bytes(data[:end])
        with pytest.raises(nt.ArgumentError, match="load_onnx"):
            nt.load_onnx(tmp_path / "m.onnx")
    with pytest.raises(FileNotFoundError):
        nt.load_onnx(tmp_path / "none.onnx")


def test_inputs_of_other_dtypes_raise_an_error(tmp_path):
    saved(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])], {"x": np.zeros(3, np.uint32)})
    with pytest.raises(nt.DTypeError, match="input 'x' is uint32"):
        nt.load_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("operator", "arrays", "attributes"),
    [
        ("Conv", [IMAGE, floats(6, 4, 3, 3)], {"strides": [0, 1]}),
        ("Conv", [IMAGE, floats(6, 4, 3, 3)], {"strides": [1, 1 << 62]}),
        ("Conv", [IMAGE, floats(6, 4, 3, 3)], {"kernel_shape": [3, 2]}),
        ("ConvTranspose", [IMAGE, floats(4, 2, 3, 3)], {"kernel_shape": [3, 2]}),
        ("ConvInteger", [np.ones((1, 2, 4, 4), np.int8), np.ones((3, 2, 2, 2), np.int8)], {"kernel_shape": [3, 3]}),
        ("Unsqueeze", [X, np.array([1, 1])], {}),
        ("Reshape", [X, np.array([7, 7])], {}),
        ("Transpose", [X], {"perm": [0, 1, 2, 9]}),
        ("Expand", [X, np.array([1 << 40, 1 << 20, 1, 1, 1, 1])], {}),
        ("Concat", [X, floats(2)], {"axis": 0}),
        ("Cast", [X], {"to": 999}),
        ("Tile", [np.array([1]), np.array([1 << 62])], {}),
        ("LSTM", [floats(4, 2, 3), floats(1, 20, 3), floats(1, 20, 5)], {"activations": ["Magic"] * 3}),
    ],
)
def test_operands_that_do_not_fit_raise_an_error_with_the_node(operator, arrays, attributes, tmp_path):
    inputs = {f"x{n}": each for n, each in enumerate(arrays)}
    node = helper.make_node(operator, list(inputs), ["y"], "culprit", **attributes)
    saved(tmp_path / "m.onnx", [node], inputs)
    model = nt.load_onnx(tmp_path / "m.onnx")
    with pytest.raises(nt.NpuTensorError) as caught:
        model(*(nt.from_numpy(each) for each in arrays)).numpy()
    assert "culprit" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


@pytest.mark.parametrize(
    ("operator", "domain", "attributes", "message"),
    [
        ("Conv", "", {"magic": 1}, "Conv at culprit: Unrecognized attribute: magic"),
        ("Conv", "", {"strides": 2}, "Conv at culprit: Mismatched attribute type .* Expected: 'INTS', actual: 'INT'"),
        ("LRN", "", {}, "LRN at culprit: .*[Rr]equired attribute 'size' is missing"),
        ("Gather", "", {}, "Gather at culprit: .* input size 1 not in range"),
        ("Gelu", "com.microsoft", {"magic": 1}, "Gelu at culprit: got an unexpected keyword argument 'magic'"),
        ("MatMulNBits", "com.microsoft", {}, "MatMulNBits at culprit: missing a required argument"),
    ],
)
def test_wrong_attributes_are_found_when_the_file_is_loaded(operator, domain, attributes, message, tmp_path):
    inputs = {"x": IMAGE} if operator in ("Gather", "LRN", "Gelu") else {"x": IMAGE, "w": IMAGE}
    node = helper.make_node(operator, list(inputs), ["y"], "culprit", domain=domain, **attributes)
    saved(tmp_path / "m.onnx", [node], inputs, domains=[domain] if domain else ())
    with pytest.raises(nt.ArgumentError, match=message):
        nt.load_onnx(tmp_path / "m.onnx")


def test_bits_of_another_dtype(tmp_path):
    node = helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT32)
    np.testing.assert_array_equal(computed(tmp_path / "m.onnx", node, {"x": X}, opset=26)[0], X.view(np.int32))
