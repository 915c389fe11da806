"""Write ``ggml.npz``: small inputs and what the real ggml library computes from them on the CPU.

The file is an oracle that shares no code with npu_tensor. This script builds nothing; install ggml first::

    CMAKE_ARGS=-DGGML_NATIVE=OFF pip install ggml-py==0.10.1
    python make_ggml.py [ggml.npz]

Only the shared libraries of ggml-py are used, through the prototypes below: the Python layer of that release
describes an older ggml (wrong op numbers, wrong tensor struct). Tensors stay opaque pointers.

``README.md`` next to this file describes the format.
"""

import ctypes
import importlib.util
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

GGML_VERSION = "0.10.1"

# enum ggml_type and how NumPy holds one element. bfloat16 travels as its 16 bits.
TYPES: dict[str, tuple[int, np.dtype[Any]]] = {
    "f32": (0, np.dtype(np.float32)),
    "f16": (1, np.dtype(np.float16)),
    "i32": (26, np.dtype(np.int32)),
    "i64": (27, np.dtype(np.int64)),
    "bf16": (30, np.dtype(np.uint16)),
}
GLU = {"reglu": 0, "geglu": 1, "swiglu": 2, "swiglu_oai": 3, "geglu_erf": 4, "geglu_quick": 5}
POOL = {"max": 0, "avg": 1}
SORT_ORDER = {"asc": 0, "desc": 1}
TRIANGLE = {"upper_diag": 0, "upper": 1, "lower_diag": 2, "lower": 3}
SCALE_MODE = {"nearest": 0, "bilinear": 1, "bicubic": 2}
ALIGN_CORNERS = 1 << 8
ROPE_MODE = {"normal": 0, "neox": 2, "mrope": 8, "vision": 24, "imrope": 40}

# One letter per C argument after the context.
ARGUMENT = {
    "t": ctypes.c_void_p,  # tensor, may be NULL
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "z": ctypes.c_size_t,
    "f": ctypes.c_float,
    "b": ctypes.c_bool,
    "I": ctypes.POINTER(ctypes.c_int),
}
# ggml_<name>(context, ...) -> tensor, by argument list.
PROTOTYPES = {
    "t": "abs sgn neg step tanh elu relu sigmoid gelu gelu_quick silu hardswish hardsigmoid exp expm1"
    " softplus gelu_erf floor ceil round trunc sqr sqrt log sin cos sum sum_rows mean argmax cumsum diag"
    " soft_max reglu geglu swiglu geglu_erf geglu_quick reglu_swapped geglu_swapped swiglu_swapped"
    " geglu_erf_swapped geglu_quick_swapped",
    "tt": "add sub mul div count_equal repeat repeat_back silu_back mul_mat out_prod get_rows ssm_conv"
    " cross_entropy_loss reglu_split geglu_split swiglu_split geglu_erf_split geglu_quick_split",
    "ttt": "add_id mul_mat_id set_rows get_rows_back cross_entropy_loss_back opt_step_sgd",
    "ttttt": "opt_step_adamw",
    "tf": "norm rms_norm l2_norm scale fill",
    "tff": "clamp scale_bias",
    "tffff": "xielu",
    "tfb": "leaky_relu",
    "ttf": "rms_norm_back",
    "ttff": "swiglu_oai soft_max_ext soft_max_ext_back",
    "tif": "group_norm",
    "tti": "concat conv_transpose_2d_p0",
    "ttbbb": "solve_tri",
    "ti": "diag_mask_inf diag_mask_zero argsort top_k tri win_part",
    "tii": "pad_reflect_1d timestep_embedding upscale",
    "tiii": "win_unpart",
    "tiiii": "pool_1d roll",
    "tiiiiiiii": "pad_ext pad_ext_circular",
    "tiiiiiff": "pool_2d",
    "tlllli": "interpolate",
    "fff": "arange",
    "ttzzzz": "acc set",
    "ttiii": "conv_transpose_1d",
    "ttiiiiiibi": "im2col",
    "ttiiiiii": "conv_2d_direct conv_2d_dw_direct",
    "tttiiiffffff": "rope_ext rope_ext_back",
    "tttiIiiffffff": "rope_multi",
    "ttttfff": "flash_attn_ext",
}


class InitParams(ctypes.Structure):
    """``struct ggml_init_params``."""

    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class Ggml:
    """The two shared libraries of ggml-py with the prototypes this script needs."""

    def __init__(self, version: str = GGML_VERSION, prototypes: Mapping[str, str] = PROTOTYPES) -> None:
        package = importlib.util.find_spec("ggml")  # located, not imported: the bindings are never used
        if package is None or not package.submodule_search_locations:
            raise SystemExit("ggml is missing; README.md says which version is needed, and how it is built")
        folder = Path(package.submodule_search_locations[0]) / "lib"
        self._base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self._cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)

        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.version = self._function("version", ctypes.c_char_p)().decode()
        if self.version != version:
            raise SystemExit(f"expected ggml {version}, found {self.version}")
        self.init = self._function("init", pointer, InitParams)
        self.free = self._function("free", None, pointer)
        self.new_tensor = self._function(
            "new_tensor", pointer, pointer, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)
        )
        self.data = self._function("get_data", pointer, pointer)
        self.nbytes = self._function("nbytes", size, pointer)
        self.element_size = self._function("element_size", size, pointer)
        self.nelements = self._function("nelements", ctypes.c_int64, pointer)
        self.is_contiguous = self._function("is_contiguous", ctypes.c_bool, pointer)
        self.op_description = self._function("op_desc", ctypes.c_char_p, pointer)
        self.set_param = self._function("set_param", None, pointer)
        self.soft_max_add_sinks = self._function("soft_max_add_sinks", None, pointer, pointer)
        self.flash_attn_ext_add_sinks = self._function("flash_attn_ext_add_sinks", None, pointer, pointer)
        self._unravel = self._function(
            "unravel_index", None, pointer, ctypes.c_int64, *[ctypes.POINTER(ctypes.c_int64)] * 4
        )
        self._new_graph = self._function("new_graph", pointer, pointer)
        self._expand = self._function("build_forward_expand", None, pointer, pointer)
        self._compute = self._function(
            "graph_compute_with_ctx", ctypes.c_int, pointer, pointer, ctypes.c_int, library=self._cpu
        )
        self._function("cpu_init", None, library=self._cpu)()  # fills the float16 look-up tables of gelu
        self.operations = {
            name: self._function(name, pointer, pointer, *(ARGUMENT[code] for code in codes))
            for codes, names in prototypes.items()
            for name in names.split()
        }

    def _function(self, name: str, result: Any, *arguments: Any, library: ctypes.CDLL | None = None) -> Any:
        function = getattr(library or self._base, f"ggml_{name}")
        function.restype, function.argtypes = result, arguments
        return function

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Shape in NumPy order, four entries. The last element's coordinates reveal it without the struct."""
        last = [ctypes.c_int64() for _ in range(4)]
        self._unravel(tensor, self.nelements(tensor) - 1, *map(ctypes.byref, last))
        return tuple(coordinate.value + 1 for coordinate in reversed(last))

    def compute(self, context: int, tensor: int) -> None:
        graph = self._new_graph(context)
        self._expand(graph, tensor)
        if self._compute(context, graph, 1) != 0:  # one thread: the same sums on every machine
            raise RuntimeError("ggml_graph_compute_with_ctx failed")


@dataclass
class Case:
    """One call of ggml. `arguments` are its C arguments after the tensors, by default the attributes."""

    name: str
    inputs: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    function: str = ""
    arguments: Sequence[Any] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    out_type: str = "f32"
    sinks: bool = False  # the last input is attached to the result instead of passed
    unordered: bool = False  # rows of the result are sets of indices

    @property
    def op(self) -> str:
        return self.name.partition(".")[0]

    def type_of(self, name: str) -> str:
        own = self.inputs[name].dtype
        return self.types.get(name) or {"f": "f32", "i": f"i{8 * own.itemsize}"}[own.kind]


def to_memory(array: np.ndarray, type_name: str) -> np.ndarray:
    """The bytes ggml sees. Values must already be exact in a 16-bit type."""
    if type_name == "bf16":
        return np.ascontiguousarray((array.view(np.uint32) >> 16).astype(np.uint16))
    return np.ascontiguousarray(array.astype(TYPES[type_name][1]))


def from_memory(memory: np.ndarray, type_name: str) -> np.ndarray:
    if type_name == "bf16":
        return (memory.astype(np.uint32) << 16).view(np.float32)
    return memory.astype(np.float32) if type_name == "f16" else memory


def without_leading_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """ggml pads shapes to four dimensions; the file keeps none of that padding but one dimension."""
    shape = tuple(shape)
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def run(ggml: Ggml, case: Case) -> tuple[np.ndarray, str]:
    """The result of `case` and ggml's own name of the operation."""
    context = ggml.init(InitParams(64 << 20, None, False))
    try:
        tensors = []
        for name, array in case.inputs.items():
            if array.ndim > 1 and array.shape[0] == 1:
                raise ValueError(f"{case.name}/{name}: leading dimension of one")
            type_name = case.type_of(name)
            memory = to_memory(array, type_name)
            if not np.array_equal(from_memory(memory, type_name), array, equal_nan=array.dtype.kind == "f"):
                raise ValueError(f"{case.name}/{name}: not exact in {type_name}")
            extents = (ctypes.c_int64 * array.ndim)(*reversed(array.shape))
            tensor = ggml.new_tensor(context, TYPES[type_name][0], array.ndim, extents)
            ctypes.memmove(ggml.data(tensor), memory.ctypes.data, memory.nbytes)
            tensors.append(tensor)
        if case.op.startswith("opt_step"):
            ggml.set_param(tensors[0])  # ggml refuses to step anything else

        attached = tensors.pop() if case.sinks else None
        arguments = (*tensors, *(case.attrs.values() if case.arguments is None else case.arguments))
        function = ggml.operations[case.function or case.op]
        if len(arguments) + 1 != len(function.argtypes):  # ctypes lets surplus arguments pass
            raise TypeError(f"{case.name}: {len(arguments) + 1} arguments for {len(function.argtypes)}")
        result = function(context, *arguments)
        if attached is not None:
            ggml.soft_max_add_sinks(result, attached)
        ggml.compute(context, result)

        dtype = TYPES[case.out_type][1]
        if not ggml.is_contiguous(result) or ggml.element_size(result) != dtype.itemsize:
            raise RuntimeError(f"{case.name}: the result is not a contiguous {case.out_type}")
        memory = np.frombuffer(ctypes.string_at(ggml.data(result), ggml.nbytes(result)), dtype)
        out = from_memory(memory, case.out_type).reshape(without_leading_ones(ggml.shape(result)))
        return (np.sort(out, axis=-1) if case.unordered else out), ggml.op_description(result).decode()
    finally:
        ggml.free(context)


# --- inputs ---


def rounded(array: np.ndarray, type_name: str) -> np.ndarray:
    """`array` as float32 values that are exact in `type_name` (nearest, ties to even)."""
    array = array.astype(np.float32)
    if type_name == "f16":
        return array.astype(np.float16).astype(np.float32)
    if type_name == "bf16":
        bits = array.view(np.uint32)
        to_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        return ((bits + to_even) & np.uint32(0xFFFF0000)).view(np.float32)
    return array


# Cases in which ggml's result is an accident of its code rather than the mathematical meaning of the op.
QUIRKS = {
    **dict.fromkeys(("relu.special", "leaky_relu.special", "hardsigmoid.special"), "NaN gives 0"),
    **dict.fromkeys(("sgn.special", "step.special"), "NaN gives 0"),
    "clamp.special": "NaN gives max",
    "gelu.special": "-inf gives 0, the limit; the formula gives NaN",
    "gelu_quick.special": "the table's argument is float16: beyond 65504 it is inf",
}


class Random:
    """Random arrays that depend on `name` only, so that a new case leaves the others as they are."""

    def __init__(self, name: str) -> None:
        self._generator = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0, exact_in: str = "f32") -> np.ndarray:
        """Multiples of 2**-14: they compress well, and most of them still need more bits than float16 has."""
        values = self._generator.normal(0.0, scale, shape)
        return rounded(np.round(values * 2.0**14) / 2.0**14, exact_in)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        return self._generator.uniform(low, high, shape).astype(np.float32)

    def distinct(self, *shape: int) -> np.ndarray:
        """Rows without ties."""
        rows = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) - 20.0
        return self._generator.permuted(rows, axis=-1)

    def indices(self, count: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
        return self._generator.integers(0, count, shape).astype(dtype)

    def choice(self, count: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
        """Rows of indices below `count` without repetition."""
        rows = np.broadcast_to(np.arange(count), (*shape[:-1], count))
        return np.ascontiguousarray(self._generator.permuted(rows, axis=-1)[..., : shape[-1]]).astype(dtype)


# Around every kink of the activations (0, -3, 3, the limits of the gelu table, softplus at 20).
KINKS: np.ndarray = np.array(
    [0.001, 0.49999997, 0.5, 1.5, 2.5, 2.9999, 3.0, 3.0001, 9.99, 10.0, 10.01, 19.99, 20.0, 20.01],
    np.float32,
)
INF, NAN = np.inf, np.nan
SPECIAL: np.ndarray = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40, 1e-6, -1e-6, 88, 89, -104, 70000, -70000, 3e38, -3e38],
    np.float32,
)


def activation_input(name: str) -> np.ndarray:
    steps = np.arange(-7, 7.01, 0.5, dtype=np.float32)
    random = Random(name).normal(96 - steps.size - 2 * KINKS.size, scale=3.0)
    return np.concatenate([steps, KINKS, -KINKS, random]).reshape(4, 24)


def causal(rows: int, columns: int, past: int = 0) -> np.ndarray:
    """0 where a position may be seen, -inf where not."""
    allowed = np.arange(columns) <= np.arange(rows)[:, None] + past
    return np.where(allowed, 0.0, -np.inf).astype(np.float32)


# --- cases ---

EXACT = 0.0
ROUNDING = 1e-6  # a few float32 roundings of functions from a good math library
SUMMED = 1e-5  # float32 sums in another order
HALF_TABLE = 1e-3  # float16 argument and float16 value of ggml's look-up tables
ONE_BF16_STEP = 2.0**-7
ITERATED_ANGLE = 2e-5  # ggml multiplies the angles of rope up in float32
HALF_ACCUMULATED = 2e-3  # flash attention keeps its value sums in float16

UNARY = {
    **dict.fromkeys(("abs", "sgn", "neg", "step", "relu", "floor", "ceil", "round", "trunc"), EXACT),
    **dict.fromkeys(("tanh", "elu", "sigmoid", "silu", "hardswish", "hardsigmoid"), ROUNDING),
    **dict.fromkeys(("exp", "expm1", "softplus", "gelu_erf"), ROUNDING),
    **dict.fromkeys(("gelu", "gelu_quick"), HALF_TABLE),
}


def unary_cases() -> Iterator[Case]:
    for op, tolerance in UNARY.items():
        yield Case(op, {"x": activation_input(op)}, tolerance=tolerance)
        yield Case(f"{op}.special", {"x": SPECIAL}, tolerance=tolerance)
    xielu = {"alpha_n": 0.8, "alpha_p": 0.6, "beta": 0.5, "eps": -1e-6}
    yield Case("xielu", {"x": activation_input("xielu")}, xielu, ROUNDING)
    yield Case("xielu.special", {"x": SPECIAL}, xielu, ROUNDING)
    for op in ("tanh", "exp", "relu", "softplus", "hardswish"):
        for kind, step in (("bf16", ONE_BF16_STEP), ("f16", 2.0**-10)):
            x = rounded(Random(f"{op}.{kind}").normal(4, 12, scale=2.0), kind)
            yield Case(f"{op}.{kind}", {"x": x}, tolerance=step, types={"x": kind}, out_type=kind)

    leaky = {"negative_slope": 0.1}
    for name, x in (("leaky_relu", activation_input("leaky_relu")), ("leaky_relu.special", SPECIAL)):
        yield Case(name, {"x": x}, leaky, ROUNDING, arguments=(0.1, False))
    for name, x in (("clamp", activation_input("clamp")), ("clamp.special", SPECIAL)):
        yield Case(name, {"x": x}, {"min": -1.5, "max": 2.25})
    yield Case("scale", {"x": Random("scale").normal(3, 4, 5)}, {"scale": 2.5}, ROUNDING)
    x = Random("scale.bias").normal(3, 4, 5)
    yield Case("scale.bias", {"x": x}, {"scale": -0.75, "bias": 1.25}, ROUNDING, function="scale_bias")

    positive = np.abs(activation_input("positive")) + np.float32(1e-3)
    for op in ("sqr", "sqrt", "log", "sin", "cos"):
        x = positive if op in ("sqrt", "log") else activation_input(op)
        yield Case(op, {"x": x}, tolerance=ROUNDING)
        # The reduction of 3e38 modulo pi is a test of the math library only.
        yield Case(f"{op}.special", {"x": SPECIAL[:12] if op in ("sin", "cos") else SPECIAL}, tolerance=ROUNDING)


def binary_cases() -> Iterator[Case]:
    shapes = {"same": (2, 3, 4, 5), "row": (5,), "column": (3, 4, 1), "tiled": (3, 2, 5)}
    for op in ("add", "sub", "mul", "div"):
        for kind, shape in shapes.items():
            random = Random(f"{op}.{kind}")
            b = random.normal(*shape)
            b = np.copysign(np.abs(b) + np.float32(0.25), b)  # keeps quotients moderate
            yield Case(f"{op}.{kind}", {"a": random.normal(2, 3, 4, 5), "b": b}, tolerance=ROUNDING)
    special = {
        "a": np.array([0.0, 1.0, -1.0, np.inf, np.inf, np.nan, 3e38, 1e-40], np.float32),
        "b": np.array([0.0, 0.0, 0.0, np.inf, -np.inf, 1.0, 3e38, 2.0], np.float32),
    }
    for op in ("add", "sub", "mul", "div"):
        yield Case(f"{op}.special", special)
    random = Random("add_id")
    inputs = {"x": random.normal(3, 2, 6), "bias": random.normal(5, 6), "ids": random.indices(5, 3, 2)}
    yield Case("add_id", inputs, tolerance=ROUNDING)
    for op in ("acc", "set"):
        random = Random(op)
        # the region rows 1..3, columns 2..4 of a (4, 6) matrix: byte strides and offset of ggml
        inputs = {"a": random.normal(4, 6), "b": random.normal(3, 3)}
        yield Case(op, inputs, {"region": [[1, 4], [2, 5]]}, ROUNDING, arguments=(24, 96, 96, 32))


def glu_cases() -> Iterator[Case]:
    for op in ("reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick"):
        random = Random(op)
        x = random.normal(2, 3, 16, scale=2.0)
        # A table error is multiplied with the other factor.
        tolerance = 4 * HALF_TABLE if op in ("geglu", "geglu_quick") else ROUNDING
        yield Case(op, {"x": x}, {"swapped": False}, tolerance, arguments=())
        yield Case(f"{op}.swapped", {"x": x}, {"swapped": True}, tolerance, function=f"{op}_swapped", arguments=())
        inputs = {"x": random.normal(2, 3, 8, scale=2.0), "gate": random.normal(2, 3, 8, scale=2.0)}
        yield Case(f"{op}.split", inputs, {}, tolerance, function=f"{op}_split")
    random = Random("swiglu_oai")
    inputs = {"x": random.normal(2, 3, 8, scale=4.0), "gate": random.normal(2, 3, 8, scale=4.0)}
    yield Case("swiglu_oai.split", inputs, {"alpha": 1.702, "limit": 3.0}, ROUNDING)


def reduction_cases() -> Iterator[Case]:
    for op in ("sum", "sum_rows", "mean", "cumsum"):
        yield Case(op, {"x": Random(op).normal(2, 3, 4, 17)}, tolerance=SUMMED)
    special = np.array([[np.inf, 1, 2], [np.inf, -np.inf, 0], [np.nan, 1, 1]], np.float32)
    yield Case("sum_rows.special", {"x": special})
    yield Case("argmax", {"x": Random("argmax").distinct(6, 33)}, out_type="i32")
    random = Random("count_equal")
    for name, shape in (("count_equal", (40,)), ("count_equal.matrix", (6, 9))):
        yield Case(name, {"a": random.indices(3, *shape), "b": random.indices(3, *shape)}, out_type="i64")
    for order in ("asc", "desc"):
        x = Random(f"argsort.{order}").distinct(2, 3, 13)
        yield Case(f"argsort.{order}", {"x": x}, {"order": order}, out_type="i32", arguments=(SORT_ORDER[order],))
    for k in (1, 4):
        yield Case(f"top_k.{k}", {"x": Random("top_k").distinct(2, 3, 13)}, {"k": k}, out_type="i32", unordered=True)


def normalization_cases() -> Iterator[Case]:
    for op in ("norm", "rms_norm", "l2_norm"):
        for eps in (1e-5, 0.1):
            x = Random(f"{op}.{eps}").normal(3, 4, 19)
            x[1, 2] = 0.0  # only eps keeps this row finite
            x[2, 3] = 7.0
            yield Case(f"{op}.eps_{eps:g}", {"x": x}, {"eps": eps}, SUMMED)
    random = Random("group_norm")
    for name, channels, groups in (("group_norm", 6, 3), ("group_norm.uneven", 7, 3), ("group_norm.one", 4, 1)):
        yield Case(name, {"x": random.normal(2, channels, 4, 5)}, {"n_groups": groups, "eps": 1e-5}, SUMMED)
    random = Random("rms_norm_back")
    inputs = {"grad": random.normal(2, 3, 16), "x": random.normal(2, 3, 16)}
    yield Case("rms_norm_back", inputs, {"eps": 1e-5}, SUMMED)
    random = Random("silu_back")
    inputs = {"grad": random.normal(3, 20), "x": random.normal(3, 20, scale=3.0)}
    yield Case("silu_back", inputs, tolerance=ROUNDING)


def product_cases() -> Iterator[Case]:
    shapes = {
        "vector": ((5, 40), (40,)),
        "matrix": ((5, 40), (7, 40)),
        "batch": ((2, 3, 4, 8), (2, 3, 5, 8)),
        "grouped_ne2": ((2, 4, 8), (3, 6, 5, 8)),
        "grouped_ne3": ((2, 2, 4, 8), (4, 6, 3, 8)),
    }
    for kind in ("f32", "f16", "bf16"):
        for layout, (w, x) in shapes.items():
            if kind != "f32" and layout not in ("matrix", "grouped_ne2"):
                continue
            name = f"mul_mat.{kind}.{layout}"
            random = Random(name)
            inputs = {"w": random.normal(*w, exact_in=kind), "x": random.normal(*x, exact_in=kind)}
            yield Case(name, inputs, tolerance=SUMMED, types={"w": kind, "x": "f32"})
    random = Random("mul_mat_id")
    for name, experts in (("mul_mat_id", 2), ("mul_mat_id.shared", 1)):
        inputs = {"w": random.normal(4, 5, 8), "x": random.normal(3, experts, 8), "ids": random.choice(4, 3, 2)}
        yield Case(name, inputs, tolerance=SUMMED)
    outer = {
        "matrix": ((9, 4), (9, 5)),
        "grouped_ne2": ((2, 9, 4), (3, 6, 9, 5)),
        "grouped_ne3": ((2, 2, 9, 4), (4, 2, 9, 5)),
    }
    for layout, (a, b) in outer.items():
        random = Random(f"out_prod.{layout}")
        yield Case(f"out_prod.{layout}", {"a": random.normal(*a), "b": random.normal(*b)}, tolerance=SUMMED)


def row_cases() -> Iterator[Case]:
    for kind in ("f32", "bf16", "f16"):
        random = Random(f"get_rows.{kind}")
        inputs = {"x": random.normal(7, 6, exact_in=kind), "rows": random.indices(7, 9)}
        yield Case(f"get_rows.{kind}", inputs, types={"x": kind})
    random = Random("get_rows.batch")
    yield Case("get_rows.i32", {"x": random.indices(99, 7, 6), "rows": random.indices(7, 4)}, out_type="i32")
    yield Case("get_rows.batch", {"x": random.normal(2, 3, 5, 4), "rows": random.indices(5, 2, 3, 6)})
    random = Random("get_rows_back")
    inputs = {"grad": random.normal(6, 4), "rows": random.indices(5, 6), "x": random.normal(5, 4)}
    yield Case("get_rows_back", inputs, tolerance=ROUNDING)
    for name, kind, index in (
        ("f32", "f32", np.int64),
        ("i32_rows", "f32", np.int32),
        ("bf16", "bf16", np.int64),
        ("f16", "f16", np.int64),
    ):
        random = Random(f"set_rows.{name}")
        inputs = {"x": random.normal(7, 6, exact_in=kind), "source": random.normal(3, 6)}
        inputs["rows"] = random.choice(7, 3, dtype=index)
        yield Case(f"set_rows.{name}", inputs, types={"x": kind}, out_type=kind)
    random = Random("set_rows.batch")
    inputs = {"x": random.normal(3, 4, 7, 5), "source": random.normal(3, 4, 3, 5)}
    yield Case("set_rows.batch", {**inputs, "rows": random.choice(7, 2, 3, dtype=np.int64)})


def softmax_cases() -> Iterator[Case]:
    x = Random("soft_max").normal(2, 3, 4, 19, scale=3.0)
    x[0, 0, 0, :7] = -np.inf
    x[1, 1, 1] = 80.0
    yield Case("soft_max", {"x": x}, tolerance=ROUNDING)
    special = np.array([[np.nan, 1, 2], [np.inf, 1, 2], [3e38, -3e38, 0], [-np.inf, 0, -np.inf]], np.float32)
    yield Case("soft_max.special", {"x": special}, tolerance=ROUNDING)

    def extended(name: str, x: Any, mask: Any, scale: float, max_bias: float = 0.0, mask_type: str = "f32") -> Case:
        name = f"soft_max_ext.{name}"
        inputs = {"x": Random(name).normal(*x, scale=2.0)}
        if mask is not None:
            inputs["mask"] = rounded(mask, mask_type)
        attrs = {"scale": scale, "max_bias": max_bias}
        arguments = (scale, max_bias) if mask is not None else (None, scale, max_bias)
        return Case(name, inputs, attrs, ROUNDING * 5, arguments=arguments, types={"mask": mask_type})

    random = Random("soft_max_ext.masks")
    shape = (2, 4, 4, 7)
    distance = -np.abs(np.arange(7) - np.arange(3, 7)[:, None]).astype(np.float32)
    bias = (distance + causal(4, 7, past=3)).astype(np.float32)
    per_batch = np.stack([bias, 2.0 * bias])[:, None].astype(np.float32)
    yield extended("scale", shape, None, 0.25)
    yield extended("mask", shape, random.normal(*shape), 0.5)
    yield extended("mask_over_heads", shape, causal(4, 7, past=3), 0.5)
    yield extended("mask_per_batch", shape, per_batch, 0.5)
    yield extended("mask_repeats_ne2", shape, random.normal(2, 2, 4, 7), 0.5)
    yield extended("mask_more_rows", shape, random.normal(6, 7), 0.5)
    yield extended("mask_f16", shape, random.normal(4, 7), 0.5, mask_type="f16")
    yield extended("alibi_4_heads", shape, bias, 0.5, max_bias=8.0)
    yield extended("alibi_6_heads", (2, 6, 4, 7), bias, 0.5, max_bias=8.0)
    yield extended("alibi_per_batch", shape, per_batch, 0.5, max_bias=4.0)

    random = Random("soft_max_ext.sinks")
    inputs = {"x": random.normal(*shape), "mask": bias, "sinks": random.normal(4)}
    yield Case("soft_max_ext.sinks", inputs, {"scale": 0.5, "max_bias": 0.0}, ROUNDING * 5, sinks=True)
    random = Random("soft_max_ext_back")
    logits = random.normal(3, 4, 9)
    y = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    inputs = {"grad": random.normal(3, 4, 9), "y": y}
    yield Case("soft_max_ext_back", inputs, {"scale": 0.5, "max_bias": 0.0}, SUMMED)

    for name, rows in (("cross_entropy_loss", (5, 11)), ("cross_entropy_loss.batch", (2, 3, 4, 10))):
        random = Random(name)
        target = np.exp(random.normal(*rows))
        target /= target.sum(-1, keepdims=True)
        yield Case(name, {"logits": random.normal(*rows, scale=3.0), "labels": target}, tolerance=SUMMED)
    random = Random("cross_entropy_loss_back")
    target = np.eye(11, dtype=np.float32)[:5]
    inputs = {"grad": np.array([0.75], np.float32), "logits": random.normal(5, 11, scale=3.0), "labels": target}
    yield Case("cross_entropy_loss_back", inputs, tolerance=SUMMED)


def rope_cases() -> Iterator[Case]:
    plain = {
        "n_dims": 16,
        "mode": 0,
        "n_ctx_orig": 64,
        "freq_base": 10000.0,
        "freq_scale": 1.0,
        "ext_factor": 0.0,
        "attn_factor": 1.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    }
    variants: dict[str, dict[str, float]] = {
        "full": {},
        "partial": {"n_dims": 10},
        "freq_scale": {"freq_scale": 0.5, "freq_base": 500.0},
        "freq_factors": {"n_dims": 12},
        "yarn": {"freq_scale": 0.25, "ext_factor": 0.7465, "attn_factor": 1.4245},
        "yarn_partial": {"n_dims": 12, "freq_scale": 0.7, "ext_factor": 1.0, "n_ctx_orig": 512},
    }
    for mode in ("normal", "neox"):
        for variant, changes in variants.items():
            name = f"rope_ext.{mode}.{variant}"
            random = Random(name)
            attrs = {**plain, **changes, "mode": ROPE_MODE[mode]}
            batch = (2,) if variant == "full" else ()
            inputs = {"x": random.normal(*batch, 4, 2, 16), "pos": np.array([0, 1, 7, 100], np.int32)}
            factors = variant == "freq_factors"
            if factors:
                inputs["freq_factors"] = random.uniform(0.5, 4.0, 8)
            arguments = tuple(attrs.values()) if factors else (None, *attrs.values())
            yield Case(name, inputs, attrs, ITERATED_ANGLE, arguments=arguments)
        name = f"rope_ext_back.{mode}"
        attrs = {**plain, "n_dims": 10, "mode": ROPE_MODE[mode]}
        inputs = {"grad": Random(name).normal(4, 2, 16), "pos": np.array([0, 1, 7, 100], np.int32)}
        yield Case(name, inputs, attrs, ITERATED_ANGLE, arguments=(None, *attrs.values()))
    for mode, dims, sections in (
        ("mrope", 16, [4, 2, 2, 0]),
        ("imrope", 16, [3, 3, 2, 0]),
        ("vision", 8, [4, 4, 0, 0]),
    ):
        name = f"rope_multi.{mode}"
        numbers = {**plain, "n_dims": dims, "mode": ROPE_MODE[mode]}
        head, *tail = numbers.values()  # the sections stand after n_dims
        inputs = {"x": Random(name).normal(5, 3, 16), "pos": Random(name).indices(30, 4 * 5)}
        arguments = (None, head, (ctypes.c_int * 4)(*sections), *tail)
        yield Case(name, inputs, {**numbers, "sections": sections}, ITERATED_ANGLE, arguments=arguments)


def movement_cases() -> Iterator[Case]:
    random = Random("movement")
    x = random.normal(2, 3, 4, 5)
    for name, shape in (("repeat", (4, 6, 8, 10)), ("repeat.new_dims", (2, 2, 6, 5))):
        small = x if name == "repeat" else x[0, :, 0]
        inputs = {"x": np.ascontiguousarray(small), "like": np.zeros(shape, np.float32)}
        yield Case(name, inputs, {"shape": list(shape)}, arguments=())
    inputs = {"x": random.normal(4, 3, 8, 10), "like": np.zeros((2, 3, 4, 5), np.float32)}
    yield Case("repeat_back", inputs, {"shape": [2, 3, 4, 5]}, SUMMED, arguments=())
    for dim in range(4):
        extra = list(x.shape)
        extra[-1 - dim] = 2 + dim
        yield Case(f"concat.dim{dim}", {"a": x, "b": random.normal(*extra)}, {"axis": -1 - dim}, arguments=(dim,))
    yield Case("diag", {"x": random.normal(6)})
    yield Case("diag.batch", {"x": random.normal(2, 3, 1, 5)})
    for op in ("diag_mask_inf", "diag_mask_zero"):
        for n_past in (0, 2):
            yield Case(f"{op}.past{n_past}", {"x": random.normal(2, 3, 4, 6)}, {"n_past": n_past})
    for kind, code in TRIANGLE.items():
        yield Case(f"tri.{kind}", {"x": random.normal(2, 5, 5)}, {"type": kind}, arguments=(code,))
    yield Case("fill", {"x": random.normal(3, 4)}, {"value": -2.5})

    def padding(name: str, pads: list[list[int]], function: str) -> Case:
        flat = [width for before_after in reversed(pads) for width in before_after]
        return Case(name, {"x": x}, {"pads": pads}, function=function, arguments=flat)

    yield padding("pad", [[0, 1], [0, 2], [0, 1], [0, 3]], "pad_ext")
    yield padding("pad.both_sides", [[1, 0], [2, 1], [0, 3], [1, 2]], "pad_ext")
    yield padding("pad.circular", [[1, 0], [2, 1], [0, 3], [1, 2]], "pad_ext_circular")
    yield Case("pad_reflect_1d", {"x": random.normal(2, 3, 7)}, {"pads": [3, 2]}, arguments=(3, 2))
    for name, shifts in (("roll", [0, 0, 1, -2]), ("roll.all", [1, -2, 3, 4])):
        yield Case(name, {"x": x}, {"shifts": shifts}, arguments=shifts[::-1])
    for name, start, stop, step in (("arange", 0.0, 10.0, 1.0), ("arange.fraction", 1.5, 4.0, 0.3)):
        yield Case(name, {}, {"start": start, "stop": stop, "step": step}, ROUNDING)
    timesteps = np.array([0.0, 1.0, 12.0, 100.0, 0.25], np.float32)
    for dim in (8, 9):
        attrs = {"dim": dim, "max_period": 10000}
        yield Case(f"timestep_embedding.{dim}", {"timesteps": timesteps}, attrs, SUMMED)


def image_cases() -> Iterator[Case]:
    random = Random("image")
    for pool in POOL:
        for kernel, stride, padding in ((3, 1, 0), (3, 2, 1), (2, 2, 0)):
            name, x = f"pool_1d.{pool}.k{kernel}s{stride}p{padding}", random.normal(2, 3, 10)
            attrs: dict[str, Any] = {"pool": pool, "kernel": kernel, "stride": stride, "padding": padding}
            yield Case(name, {"x": x}, attrs, ROUNDING, arguments=(POOL[pool], kernel, stride, padding))
        for name, (kh, kw), (sh, sw), (ph, pw) in (
            ("plain", (2, 2), (2, 2), (0, 0)),
            ("padded", (3, 3), (2, 1), (1, 1)),
            ("oblong", (2, 3), (1, 2), (0, 1)),
        ):
            attrs = {"pool": pool, "kernel": [kh, kw], "stride": [sh, sw], "padding": [ph, pw]}
            arguments = (POOL[pool], kw, kh, sw, sh, pw, ph)
            x = random.normal(2, 3, 6, 7)
            yield Case(f"pool_2d.{pool}.{name}", {"x": x}, attrs, ROUNDING, arguments=arguments)
    small = random.normal(2, 3, 4, 5)
    for factor in (2, 3):
        attrs = {"scale_factor": factor, "mode": "nearest"}
        yield Case(f"upscale.x{factor}", {"x": small}, attrs, arguments=(factor, SCALE_MODE["nearest"]))
    for mode in SCALE_MODE:
        for corners in (False,) if mode == "nearest" else (False, True):
            shape = [2, 3, 7, 8]
            flags = SCALE_MODE[mode] | (ALIGN_CORNERS if corners else 0)
            attrs = {"shape": shape, "mode": mode, "align_corners": corners}
            name = f"interpolate.{mode}{'.align_corners' * corners}"
            yield Case(name, {"x": small}, attrs, 4 * ROUNDING, arguments=(*shape[::-1], flags))

    windows = {
        "plain": {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]},
        "padded": {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 1]},
        "dilated": {"stride": [1, 3], "padding": [2, 1], "dilation": [2, 1]},
    }
    for name, attrs in windows.items():
        arguments = tuple(value for pair in attrs.values() for value in reversed(pair))
        image = random.normal(2, 3, 6, 7)
        filters = random.normal(4, 3, 2, 3)
        yield Case(f"im2col.{name}", {"kernel": filters, "x": image}, attrs, arguments=(*arguments, True, 0))
        for op, kernel in (("conv_2d", filters), ("conv_2d_dw", random.normal(3, 1, 2, 3))):
            inputs = {"kernel": kernel, "x": image}
            yield Case(f"{op}.{name}", inputs, attrs, SUMMED, function=f"{op}_direct", arguments=arguments)
    inputs = {"kernel": random.normal(4, 3, 3), "x": random.normal(2, 3, 11)}
    attrs = {"stride": [2], "padding": [1], "dilation": [2]}
    yield Case("im2col.1d", inputs, attrs, arguments=(2, 0, 1, 0, 2, 0, False, 0))
    for stride in (1, 3):
        inputs = {"kernel": random.normal(3, 4, 5), "x": random.normal(3, 6)}
        yield Case(f"conv_transpose_1d.s{stride}", inputs, {"stride": stride, "padding": 0, "dilation": 1}, SUMMED)
    inputs = {"kernel": random.normal(3, 4, 2, 3), "x": random.normal(3, 4, 5)}
    yield Case("conv_transpose_2d", inputs, {"stride": 2}, SUMMED, function="conv_transpose_2d_p0")


def attention_cases() -> Iterator[Case]:
    q, kv = (2, 4, 4, 16), (2, 4, 7, 16)
    grouped = (2, 2, 7, 16)
    mask = causal(4, 7, past=3)
    bias = rounded(-np.abs(np.arange(7) - np.arange(3, 7)[:, None]).astype(np.float32) * 0.5 + mask, "f16")
    variants: dict[str, tuple[tuple[int, ...], np.ndarray | None, float, float]] = {
        "plain": (kv, None, 0.0, 0.0),
        "grouped": (grouped, mask, 0.0, 0.0),
        "alibi": (grouped, bias, 8.0, 0.0),
        "softcap": (grouped, mask, 0.0, 2.0),
    }
    for variant, (shape, mask_, max_bias, softcap) in variants.items():
        name = f"flash_attn_ext.{variant}"
        random = Random(name)
        inputs = {
            "q": random.normal(*q, exact_in="f16"),
            "k": random.normal(*shape, exact_in="f16"),
            "v": random.normal(*shape[:-1], 8, exact_in="f16"),
        }
        if mask_ is not None:
            inputs["mask"] = mask_
        attrs = {"scale": 0.25, "max_bias": max_bias, "logit_softcap": softcap}
        values = tuple(attrs.values()) if mask_ is not None else (None, *attrs.values())
        types = {"k": "f16", "v": "f16", "mask": "f16"}
        yield Case(name, inputs, attrs, HALF_ACCUMULATED, arguments=values, types=types)


def other_cases() -> Iterator[Case]:
    random = Random("solve_tri")
    lower = np.tril(random.normal(2, 5, 5)) + 3 * np.eye(5, dtype=np.float32)
    attrs = {"left": True, "lower": True, "unit_diagonal": False}
    yield Case("solve_tri", {"a": lower, "b": random.normal(2, 5, 3)}, attrs, SUMMED)
    random = Random("ssm_conv")
    yield Case("ssm_conv", {"x": random.normal(2, 5, 7), "kernel": random.normal(5, 4)}, tolerance=SUMMED)
    random = Random("windows")
    yield Case("win_part", {"x": random.normal(4, 5, 3)}, {"window": 2})
    yield Case("win_unpart", {"x": random.normal(6, 2, 2, 3)}, {"width": 5, "height": 4, "window": 2})

    def step(op: str, state: Mapping[str, np.ndarray], hyper: dict[str, float]) -> Case:
        random = Random(op)
        weights = {"x": random.normal(3, 4), "grad": random.normal(3, 4)}
        numbers = np.array(list(hyper.values()), np.float32)
        return Case(op, {**weights, **state, "hyper": numbers}, hyper, ROUNDING, arguments=())

    yield step("opt_step_sgd", {}, {"alpha": 0.1, "wd": 0.01})
    random = Random("adamw")
    moments = {"m": random.normal(3, 4), "v": np.abs(random.normal(3, 4))}
    corrections = {"beta1h": 1 / (1 - 0.9**3), "beta2h": 1 / (1 - 0.999**3)}  # of the third step
    hyper = {"alpha": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "wd": 0.01, **corrections}
    yield step("opt_step_adamw", moments, hyper)


CASES = (
    *(unary_cases, binary_cases, glu_cases, reduction_cases, normalization_cases, product_cases, row_cases),
    *(softmax_cases, rope_cases, movement_cases, image_cases, attention_cases, other_cases),
)


def write(ggml: Ggml, target: Path, makers: Sequence[Callable[[], Iterator[Case]]]) -> None:
    """Write the cases with what the library computes."""
    arrays: dict[str, np.ndarray] = {}
    entries = []
    for make in makers:
        for case in make():
            try:
                out, description = run(ggml, case)
            except Exception as error:
                error.add_note(f"in case {case.name}")
                raise
            keys = {f"{case.name}/{name}": array for name, array in case.inputs.items()}
            keys[f"{case.name}/out"] = out
            if repeated := keys.keys() & arrays.keys():
                raise ValueError(f"two cases named {sorted(repeated)}")
            arrays.update(keys)
            entry: dict[str, Any] = {
                "op": case.op,
                "name": case.name,
                "ggml_op": description,
                "inputs": [f"{case.name}/{name}" for name in case.inputs],
                "input_types": [case.type_of(name) for name in case.inputs],
                "attrs": dict(case.attrs),
                "out": f"{case.name}/out",
                "out_type": case.out_type,
                "tolerance": case.tolerance,
            }
            if case.unordered:
                entry["unordered"] = True
            if quirk := QUIRKS.get(case.name):
                entry["quirk"] = quirk
            entries.append(entry)
    arrays["cases"] = np.array(json.dumps(entries))
    np.savez_compressed(target, allow_pickle=False, **arrays)
    print(f"{target}: {len(entries)} cases, {target.stat().st_size / 1024:.0f} KiB, ggml {ggml.version}")


if __name__ == "__main__":
    write(Ggml(), Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("ggml.npz"), CASES)
