"""Every module against PyTorch's: state dict, results, states and gradients, in training and evaluation."""

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.nn import function_layers

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:.*(nested.tensor|Using padding='same'|dropout option)")

Case = tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...], dict[str, Any]]
"""Name, arguments and keywords of the constructor; inputs and keywords of the call. A shape stands for a float input,
"p" and a shape for probabilities, an array for itself."""

CLASSES = np.array([2, 0, -100, 1])
SIGNS = np.array([1, -1, 1, -1])
TOKENS = np.array([[0, 3, 1], [1, 1, 2]])
HIDDEN = np.triu(np.ones((5, 5), bool), 1)
PADDED = np.array([[False] * 4 + [True], [False] * 5])
MASK = np.linspace(-1, 1, 25).reshape(5, 5)
WEIGHTS = np.array([0.5, 1.0, 2.0])


def cases(name: str, *rest: Any) -> list[Case]:
    """Describe a module: arguments, keywords, inputs and optionally keywords of the call."""
    return [(name, *each, {}) if len(each) == 3 else (name, *each) for each in rest]


CASES: list[Case] = [
    *((name, (), {}, ((3, 4),), {}) for name in ("ELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU")),
    *((name, (), {}, ((3, 4),), {}) for name in ("LogSigmoid", "Mish", "ReLU", "ReLU6", "SELU", "Sigmoid", "SiLU")),
    *((name, (), {}, ((3, 4),), {}) for name in ("Softplus", "Softsign", "Tanh", "GLU", "Identity", "PReLU")),
    *((name, (1,), {}, ((3, 4),), {}) for name in ("Softmax", "LogSoftmax", "Softmin")),
    *((name, (), {}, ((3, 4),), {}) for name in ("CELU", "Hardshrink", "Softshrink", "Tanhshrink")),
    *cases("RReLU", ((0.25, 0.25), {}, ((3, 4),))),
    *cases("Threshold", ((0.1, -2.0), {}, ((3, 4),))),
    *cases("ELU", ((0.5,), {"inplace": True}, ((3, 4),))),
    *cases("GELU", (("tanh",), {}, ((3, 4),))),
    *cases("ReLU", ((True,), {}, ((3, 4),))),
    *cases("LeakyReLU", ((0.2,), {}, ((3, 4),))),
    *cases("PReLU", ((4,), {}, ((3, 4, 2),))),
    *((name, (0.0,), {}, ((3, 4, 5),), {}) for name in ("Dropout", "Dropout1d")),
    *cases("Dropout2d", ((0.0,), {}, ((3, 4, 5, 2),))),
    *((name, (0.0,), {}, ((3, 4, 2, 5, 2),), {}) for name in ("Dropout3d", "AlphaDropout", "FeatureAlphaDropout")),
    *(
        (name, (2,), {}, ((2, 3, 6),), {})
        for name in ("MaxPool1d", "AvgPool1d", "AdaptiveAvgPool1d", "AdaptiveMaxPool1d")
    ),
    *(
        (name, (2,), {}, ((2, 3, 6, 7),), {})
        for name in ("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d")
    ),
    *((name, (2,), {}, ((2, 3, 4, 6, 7),), {}) for name in ("MaxPool3d", "AvgPool3d", "AdaptiveAvgPool3d")),
    *cases("AdaptiveMaxPool3d", ((2,), {}, ((2, 3, 4, 6, 7),))),
    *((f"LPPool{n}d", (2, 2, 1), {}, ((2, 3, 6, 4, 5)[: n + 2],), {}) for n in (1, 2, 3)),
    *cases("LocalResponseNorm", ((3,), {"alpha": 0.1}, ((2, 5, 4),))),
    *cases("ChannelShuffle", ((2,), {}, ((2, 6, 3, 3),))),
    *cases("Fold", (((5, 6), 3), {"padding": 1, "stride": 2}, ((2, 18, 9),))),
    *cases("MaxPool2d", (((3, 2), 2), {"padding": (1, 0), "ceil_mode": True}, ((2, 3, 6, 7),))),
    *cases("AvgPool2d", ((3, 2, 1), {"count_include_pad": False}, ((2, 3, 6, 7),))),
    *cases("Flatten", ((), {}, ((2, 3, 4),)), ((0, 1), {}, ((2, 3, 4),))),
    *cases("Unflatten", ((1, (2, 3)), {}, ((4, 6, 2),))),
    *cases("PixelShuffle", ((2,), {}, ((2, 8, 3, 3),))),
    *cases("PixelUnshuffle", ((3,), {}, ((2, 2, 3, 6),))),
    *cases("Unfold", ((3,), {"padding": 1, "stride": 2}, ((2, 3, 5, 6),))),
    *cases("Upsample", ((), {"scale_factor": 2.0}, ((2, 3, 4, 5),)), ((7,), {"mode": "bilinear"}, ((2, 3, 4, 5),))),
    *cases("CosineSimilarity", ((), {}, ((3, 4), (3, 4)))),
    *((name, (), {}, ((3, 4), (3, 4)), {}) for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")),
    *cases("SmoothL1Loss", ((), {"beta": 0.3, "reduction": "sum"}, ((3, 4), (3, 4)))),
    *cases("CrossEntropyLoss", ((), {}, ((4, 3), CLASSES)), ((WEIGHTS,), {"label_smoothing": 0.1}, ((4, 3), CLASSES))),
    *cases("NLLLoss", ((), {"ignore_index": 1}, ((4, 3), np.abs(CLASSES) % 3)), ((WEIGHTS,), {}, ((4, 3), CLASSES))),
    *cases("BCELoss", ((), {}, (("p", (3, 4)), ("p", (3, 4))))),
    *(
        ("BCEWithLogitsLoss", (), keywords, ((4, 3), ("p", (4, 3))), {})
        for keywords in ({}, {"pos_weight": WEIGHTS}, {"reduction": "none"})
    ),
    *cases("KLDivLoss", ((), {"reduction": "batchmean"}, ((3, 4), ("p", (3, 4))))),
    *cases("GaussianNLLLoss", ((), {"full": True}, ((3, 4), (3, 4), ("p", (3, 4))))),
    *cases("HingeEmbeddingLoss", ((0.5,), {}, ((4,), SIGNS))),
    *cases("MarginRankingLoss", ((0.5,), {}, ((4,), (4,), SIGNS))),
    *cases("MultiLabelMarginLoss", ((), {}, ((2, 3), np.array([[2, 0, -1], [1, -1, 0]])))),
    *cases("MultiLabelSoftMarginLoss", ((WEIGHTS,), {}, ((4, 3), ("p", (4, 3))))),
    *cases("MultiMarginLoss", ((2, 0.5), {}, ((4, 3), np.abs(CLASSES) % 3))),
    *((name, (), {}, ((3, 4), (3, 4)), {}) for name in ("PairwiseDistance", "PoissonNLLLoss")),
    *cases("SoftMarginLoss", ((), {}, ((4,), SIGNS))),
    *cases("TripletMarginLoss", ((0.5, 3.0), {}, ((3, 4),) * 3)),
    *cases("TripletMarginWithDistanceLoss", ((), {"margin": 0.5}, ((3, 4),) * 3)),
    *cases("CosineEmbeddingLoss", ((), {"margin": 0.1}, ((4, 3), (4, 3), SIGNS))),
    *((f"{kind}Pad1d", (2,), {}, ((2, 3, 4),), {}) for kind in ("Zero", "Reflection", "Replication", "Circular")),
    *((f"{kind}Pad2d", ((1, 2, 0, 3),), {}, ((2, 4, 4),), {}) for kind in ("Zero", "Reflection", "Replication")),
    *((f"{kind}Pad3d", (1,), {}, ((2, 2, 3, 4),), {}) for kind in ("Zero", "Reflection", "Replication")),
    *cases("CircularPad2d", ((1,), {}, ((2, 3, 4, 5),))),
    *cases("CircularPad3d", ((1,), {}, ((2, 3, 4, 5, 2),))),
    *((f"ConstantPad{n}d", (1, 0.5), {}, ((2, 3, 4, 5),), {}) for n in (1, 2, 3)),
    *cases("Bilinear", ((4, 3, 5), {}, ((2, 4), (2, 3)))),
    *cases("Linear", ((4, 5), {}, ((3, 4),)), ((4, 5), {"bias": False}, ((2, 3, 4),))),
    *cases(
        "Conv1d",
        ((3, 4, 3), {}, ((2, 3, 8),)),
        ((4, 6, 3, 2), {"groups": 2, "padding": 2, "padding_mode": "circular"}, ((2, 4, 8),)),
        ((3, 4, 4), {"padding": "same", "dilation": 2, "padding_mode": "reflect"}, ((2, 3, 12),)),
    ),
    *cases(
        "Conv2d",
        ((3, 4, (3, 2)), {"stride": (2, 1), "padding": 1, "bias": False}, ((2, 3, 6, 7),)),
        ((4, 4, 3), {"groups": 4, "padding": (1, 2), "padding_mode": "replicate"}, ((2, 4, 6, 7),)),
        ((3, 4, 3), {"padding": "same"}, ((3, 6, 7),)),
    ),
    *cases("Conv3d", ((4, 6, (3, 2, 1), 2, 1), {"groups": 2}, ((2, 4, 4, 5, 3),))),
    *cases("ConvTranspose3d", ((4, 3, 2, 2), {"output_padding": 1}, ((2, 4, 2, 3, 2),))),
    *cases("ConvTranspose1d", ((4, 3, 3, 2), {"output_padding": 1}, ((2, 4, 5),))),
    *cases("ConvTranspose2d", ((4, 6, (3, 2), 2, 1), {"groups": 2, "dilation": 2, "bias": False}, ((2, 4, 5, 6),))),
    *cases(
        "BatchNorm1d",
        ((3,), {}, ((6, 3),)),
        ((3,), {"momentum": None}, ((4, 3, 5),)),
        ((3,), {"affine": False, "momentum": 0.3, "eps": 1e-3}, ((6, 3),)),
        ((3,), {"track_running_stats": False}, ((6, 3),)),
    ),
    *cases("BatchNorm2d", ((3,), {}, ((4, 3, 5, 2),)), ((3,), {"bias": False}, ((4, 3, 5, 2),))),
    *cases("BatchNorm3d", ((3,), {}, ((4, 3, 2, 3, 2),))),
    *cases(
        "InstanceNorm1d",
        ((3,), {}, ((2, 3, 5),)),
        ((3,), {"affine": True, "track_running_stats": True}, ((2, 3, 5),)),
        ((3,), {"affine": True, "bias": False}, ((3, 5),)),
    ),
    *cases("InstanceNorm2d", ((3,), {"affine": True}, ((2, 3, 4, 5),))),
    *cases("InstanceNorm3d", ((3,), {"affine": True}, ((2, 3, 2, 4, 3),))),
    *cases("LayerNorm", ((4,), {}, ((3, 4),)), (((3, 4),), {"bias": False}, ((2, 3, 4),))),
    *cases("LayerNorm", ((4,), {"elementwise_affine": False, "eps": 1e-2}, ((3, 4),))),
    *cases("RMSNorm", ((4,), {}, ((3, 4),)), ((4,), {"eps": 1e-5, "elementwise_affine": False}, ((3, 4),))),
    *cases("GroupNorm", ((2, 4), {}, ((3, 4, 5),)), ((2, 4), {"affine": False}, ((3, 4, 5),))),
    *cases("Embedding", ((4, 3), {}, (TOKENS,)), ((4, 3), {"padding_idx": -3}, (TOKENS,))),
    *cases(
        "EmbeddingBag",
        ((4, 3), {}, (TOKENS,)),
        ((4, 3), {"mode": "sum", "padding_idx": 1}, (TOKENS.ravel(), np.array([0, 2]))),
        ((4, 3), {"mode": "max"}, (TOKENS,)),
    ),
    *cases(
        "MultiheadAttention",
        ((8, 2), {}, ((5, 2, 8), (4, 2, 8), (4, 2, 8))),
        ((8, 2), {"batch_first": True, "bias": False}, ((2, 5, 8),) * 3, {"need_weights": False}),
        ((8, 2), {"batch_first": True}, ((2, 5, 8),) * 3, {"key_padding_mask": PADDED, "attn_mask": HIDDEN}),
        (
            (8, 2),
            {"batch_first": True},
            ((2, 5, 8),) * 3,
            {"key_padding_mask": PADDED, "need_weights": False, "average_attn_weights": False},
        ),
        ((8, 2), {"kdim": 3, "vdim": 5}, ((5, 8), (5, 3), (5, 5)), {"average_attn_weights": False}),
        ((8, 2), {}, ((5, 2, 8),) * 3, {"attn_mask": np.stack([MASK] * 4), "need_weights": False}),
        ((8, 2), {}, ((5, 2, 8),) * 3, {"attn_mask": HIDDEN, "is_causal": True}),
    ),
    *cases(
        "TransformerEncoderLayer",
        ((8, 2, 16, 0.0), {}, ((5, 2, 8),)),
        ((8, 2, 16, 0.0, "gelu"), {"norm_first": True, "batch_first": True}, ((2, 5, 8),), {"src_mask": HIDDEN}),
        ((8, 2, 16, 0.0), {"bias": False, "batch_first": True}, ((2, 5, 8),), {"src_key_padding_mask": PADDED}),
    ),
    *cases(
        "TransformerDecoderLayer",
        ((8, 2, 16, 0.0), {}, ((5, 2, 8), (3, 2, 8))),
        ((8, 2, 16, 0.0, "gelu"), {"norm_first": True}, ((5, 2, 8), (3, 2, 8)), {"tgt_mask": HIDDEN}),
    ),
    *cases("Transformer", ((8, 2, 1, 2, 16, 0.0), {}, ((5, 2, 8), (3, 2, 8)), {"src_mask": HIDDEN})),
    *(
        (name, arguments, keywords, inputs, {})
        for name in ("RNN", "LSTM", "GRU")
        for arguments, keywords, inputs in (
            ((3, 4), {}, ((5, 2, 3),)),
            ((3, 4, 2), {"bidirectional": True, "batch_first": True}, ((2, 5, 3),)),
            ((3, 4), {"bias": False}, ((5, 3),)),
        )
    ),
    *cases("RNN", ((3, 4), {"nonlinearity": "relu"}, ((5, 2, 3), (1, 2, 4)))),
    *cases("GRU", ((3, 4, 2), {}, ((5, 2, 3), (2, 2, 4)))),
    *(
        (name, arguments, keywords, inputs, {})
        for name in ("RNNCell", "GRUCell", "LSTMCell")
        for arguments, keywords, inputs in (((3, 4), {}, ((2, 3),)), ((3, 4), {"bias": False}, ((3,),)))
    ),
    *cases("RNNCell", ((3, 4), {"nonlinearity": "relu"}, ((2, 3), (2, 4)))),
    *cases("GRUCell", ((3, 4), {}, ((2, 3), (2, 4)))),
    *cases("LSTMCell", ((3, 4), {}, ((2, 3), [(2, 4), (2, 4)]))),
    *cases("LSTM", ((3, 4, 2), {}, ((5, 2, 3), [(2, 2, 4), (2, 2, 4)]))),
]
TOLERANCE = {"float32": 3e-5, "float64": 1e-10}
PYTORCH_ROUNDS = {"Hardsigmoid": 3.1e-8}
"""Errors of PyTorch's own gradients in float64: PyTorch rounds 1 / 6 to float32."""


def values(generator: np.random.Generator, description: Any, dtype: str) -> Any:
    """Make the described NumPy array or list of arrays; return other values unchanged."""
    if isinstance(description, np.ndarray):
        return description.astype(dtype) if description.dtype.kind == "f" else description
    if isinstance(description, list):
        return [values(generator, each, dtype) for each in description]
    if description[:1] == ("p",):
        return generator.uniform(0.1, 0.9, description[1]).astype(dtype)
    return np.asarray(generator.standard_normal(description), dtype)


def torch_of(value: Any, **options: Any) -> Any:
    if isinstance(value, list):
        return tuple(torch_of(each, **options) for each in value)
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return torch.tensor(value, **(options if is_float else {})) if isinstance(value, np.ndarray) else value


def ours_of(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(ours_of, value))
    return nt.from_numpy(value) if isinstance(value, np.ndarray) else value


def leaves(value: Any) -> list[Any]:
    """Return the float tensors in nested tuples."""
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [value] if value is not None and value.is_floating_point() else []


def cast(value: Any, dtype: str) -> Any:
    """Convert float arrays to a dtype; return other values unchanged."""
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def called(function: Any, convert: Any, dtype: str, arguments: Any, keywords: dict[str, Any]) -> Any:
    return function(
        *(convert(cast(each, dtype)) for each in arguments),
        **{key: convert(cast(each, dtype)) for key, each in keywords.items()},
    )


def pair(case: Case, dtype: str) -> tuple[Any, Any]:
    """Make PyTorch's module with random weights, and ours with the same weights."""
    name, arguments, keywords, _, _ = case
    theirs = called(getattr(torch.nn, name), torch_of, dtype, arguments, keywords).to(getattr(torch, dtype))
    ours = called(getattr(nn, name), ours_of, dtype, arguments, keywords).to(dtype)
    with torch.no_grad():
        for each in theirs.parameters():
            each += 0.1 * torch.randn_like(each)  # Also parameters that start as 0 or 1.
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    return theirs, ours


def check(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    expected = theirs.detach().double().numpy()
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), what
    np.testing.assert_allclose(
        ours.double().numpy(), expected, tolerance, tolerance * max(1, abs(expected).max(initial=0)), err_msg=what
    )


def identifier(value: Any) -> str:
    """Return the test id of a case or another parameter."""
    return "-".join(map(str, value[:3]))[:60] if isinstance(value, tuple) else str(value)


USES_MODE = re.compile("Norm|Drop|RReLU|LSTM|GRU|RNN|Transformer|Attention")
"""Names of modules that differ between training and evaluation."""


@pytest.mark.parametrize(
    ("case", "training", "dtype"),
    [
        *((case, True, "float32") for case in CASES),
        *(
            pytest.param(case, False, "float32", marks=[] if USES_MODE.search(case[0]) else [pytest.mark.slow])
            for case in CASES
        ),
        *((case, True, "float64") for case in {case[0]: case for case in reversed(CASES)}.values()),
    ],
    ids=identifier,
)
def test_against_pytorch(case: Case, training: bool, dtype: str) -> None:
    """Yield all cases in float32, and the first one of every module in float64."""
    torch.manual_seed(0)
    name, _, _, inputs, keywords = case
    tolerance = max(TOLERANCE[dtype], PYTORCH_ROUNDS.get(name, 0))
    theirs, ours = pair(case, dtype)
    theirs.train(training)
    ours.train(training)
    generator = np.random.default_rng(len(inputs))
    arrays = [values(generator, each, dtype) for each in inputs]
    own = [torch_of(each, requires_grad=True) for each in arrays]
    # PyTorch does not change leaves in place.
    first = [each.clone() if getattr(theirs, "inplace", False) else each for each in own]
    expected = leaves(called(theirs, torch_of, dtype, first, keywords))
    seeds = [values(generator, tuple(each.shape), dtype) for each in expected]
    if expected[0].requires_grad:
        torch.autograd.backward(expected, [torch_of(each) for each in seeds])

    def function(parameters: dict[str, nt.Tensor], floats: list[nt.Tensor]) -> Any:
        remaining = iter(floats)

        def filled(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(filled, value))
            return next(remaining) if value.is_floating_point() else value

        arguments = tuple(filled(ours_of(each)) for each in arrays)
        options = {key: ours_of(cast(each, dtype)) for key, each in keywords.items()}
        return leaves(nn.functional_call(ours, parameters, arguments, options))

    parameters = dict(ours.named_parameters())
    results, pull_back = nt.vjp(function, parameters, leaves([ours_of(each) for each in arrays]))
    assert len(results) == len(expected)
    for number, (result, each) in enumerate(zip(results, expected, strict=True)):
        check(result, each, tolerance, f"result {number}")
    by_parameter, by_input = pull_back([nt.from_numpy(each) for each in seeds])
    own_parameters = dict(theirs.named_parameters())
    assert list(by_parameter) == list(own_parameters)
    for name, gradient in by_parameter.items():
        check(gradient, own_parameters[name].grad, tolerance, name)
    for number, (gradient, leaf) in enumerate(zip(by_input, leaves(own), strict=True)):
        if leaf.grad is not None:
            check(gradient, leaf.grad, tolerance, f"input {number}")
    ours_state, their_state = ours.state_dict(), theirs.state_dict()
    assert list(ours_state) == list(their_state)
    for name, tensor in their_state.items():  # Running statistics.
        check(ours_state[name], tensor, tolerance, name)


def loaded(model: Any) -> Any:
    """Copy a module, change its values and load the state."""
    other = copy.deepcopy(model)
    with nt.no_grad():
        for each in other.parameters():
            each.zero_()
    assert other.load_state_dict(model.state_dict()) == ([], [])
    return other


WAYS: dict[str, Callable[[Any], Any]] = {
    "built": lambda model: model,
    "copied": copy.deepcopy,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "loaded": loaded,
    "cast": lambda model: copy.deepcopy(model).double(),
}


def encoders() -> tuple[Any, Any]:
    """Make PyTorch's TransformerEncoder and ours with the same weights."""
    theirs, ours = (lib.TransformerEncoder(lib.TransformerEncoderLayer(8, 2, 16, 0.0), 2) for lib in (torch.nn, nn))
    ours.load_state_dict(theirs.state_dict())
    return theirs.double(), ours.double()


def losses(lib: Any, model: Any, inputs: Any, keywords: dict[str, Any]) -> list[float]:
    """Return the losses of a few steps that shrink the results."""
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    convert = ours_of if lib is nt else torch_of
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = sum((each * each).mean() for each in leaves(called(model, convert, "float64", inputs, keywords)))
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


TRAINED = {case[0]: case for case in reversed(CASES) if case[0] not in function_layers.__all__}
ENCODER: Case = ("TransformerEncoder", (), {}, ((5, 2, 8),), {})


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, marks=[pytest.mark.slow] if turn % len(WAYS) else [], id=f"{case[0]}-{way}")
        for number, case in enumerate([*TRAINED.values(), ENCODER])
        for turn, way in enumerate(WAYS, number)
    ],
)
def test_training(case: Case, way: str) -> None:
    """Modules train as PyTorch's do, and training a copy leaves the original unchanged.

    Without the slow tests, the ways take turns.
    """
    torch.manual_seed(0)
    theirs, original = encoders() if case is ENCODER else pair(case, "float64")
    if not list(theirs.parameters()):
        return
    before = {name: each.numpy() for name, each in original.state_dict().items()}
    ours = WAYS[way](original.float() if way == "cast" else original)
    if way == "cast":
        theirs = theirs.float().double()
    generator = np.random.default_rng(0)
    inputs = [values(generator, each, "float64") for each in case[3]]
    expected = losses(torch, theirs, inputs, case[4])
    np.testing.assert_allclose(losses(nt, ours, inputs, case[4]), expected, rtol=1e-7)
    assert expected[-1] < expected[0]
    assert all(each.is_leaf for each in ours.parameters())
    for name, each in theirs.named_parameters():
        check(dict(ours.named_parameters())[name], each, 1e-7, name)
    if way in ("copied", "pickled", "loaded"):
        assert all(each.grad is None for each in original.parameters())
        for name, each in original.state_dict().items():
            np.testing.assert_array_equal(each.numpy(), before[name])


@pytest.mark.parametrize(
    ("name", "arguments", "keywords"),
    [
        ("Embedding", (4, 3), {"max_norm": 0.5}),
        ("Embedding", (4, 3, 1, 1.5, 1.0, False, False), {}),
        ("EmbeddingBag", (4, 3, 0.5, 1.0, False, "sum"), {}),
    ],
)
def test_rows_of_bounded_norm(name: str, arguments: Any, keywords: Any) -> None:
    torch.manual_seed(0)
    theirs, ours = pair((name, arguments, keywords, (TOKENS,), {}), "float64")
    assert repr(ours) == repr(theirs)
    np.testing.assert_allclose(losses(nt, ours, [TOKENS], {}), losses(torch, theirs, [TOKENS], {}), rtol=1e-7)
    check(ours.weight, theirs.weight, 1e-7, "weight")


def test_text() -> None:
    for case in CASES:
        theirs, ours = pair(case, "float32")
        expected = repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
        if case[0] == "AvgPool1d":
            expected = re.sub(r"\((\d),\)", r"\1", expected)
        assert repr(ours) == expected


@pytest.mark.parametrize("name", function_layers.__all__)
def test_options(name: str) -> None:
    """Compare names, order and defaults of the options with PyTorch's."""
    no_options = ("self", "size_average", "reduce", "return_indices", "device", "dtype", "args", "kwargs")
    no_options += ("min_value", "max_value", "recompute_scale_factor")
    theirs = {
        key: each.default
        for key, each in inspect.signature(getattr(torch.nn, name).__init__).parameters.items()
        if key not in no_options
    }
    ours = {key: each.default for key, each in inspect.signature(getattr(nn, name)).parameters.items()}
    if name.startswith(("Softm", "LogSoftm")):
        theirs["dim"] = inspect.Parameter.empty  # Theirs is None, deprecated.
    if name == "AvgPool1d":
        theirs["divisor_override"] = None  # In PyTorch, only the other two have this option.
    assert list(ours) == list(theirs)
    assert ours == theirs


def test_every_module_has_a_case() -> None:
    rest = {
        "CTCLoss",
        "TransformerDecoder",
        "Module",
        "ModuleDict",
        "ModuleList",
        "Parameter",
        "ParameterList",
        "Sequential",
        "TransformerEncoder",
    }
    assert {case[0] for case in CASES} == {name for name in nn.__all__ if name[0].isupper()} - rest
