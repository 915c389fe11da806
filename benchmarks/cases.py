"""Workloads as data: computation, shapes and dtypes. All contenders share one description."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.examples.transformer_block import DIM, TOKENS

from .models import MLP_SIZES, block_values, mlp, mlp_values, product_flops, transformer_block
from .peers.library import Library
from .peers.npu_tensor import NpuTensor
from .peers.numpy import Reference
from .timing import Call

Shape = tuple[int, ...]

TOLERANCE: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 1e-3, "int8": 0.0}
"""Tolerances relative to the largest value of the reference. Beyond them a row would compare different computations.
Eager libraries round every step of a chain to 16 bits, other libraries only the result."""

ITEMSIZE: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "int32": 4}
"""Element size in bytes."""

EPSILON: Final = 1e-5


class Workload(NamedTuple):
    """One computation.

    Attributes:
        name: Name in the tables.
        operands: Number of operands.
        compute: Function of a `Library` and the operands.
        flops: Function from the operand shapes to the flops. A function such as exp counts as one.
        result: Function from the operand shapes to the result shape.
        dtype: Dtype of the result; empty for that of the operands.
        weights: Number of trailing operands that are the same in every run, such as the weights of a layer.
        captured: True if these are parameters of a model, which nt.jit captures.
    """

    name: str
    operands: int
    compute: Callable[..., Any]
    flops: Callable[..., int]
    result: Callable[..., Shape]
    dtype: str = ""
    weights: int = 0
    captured: bool = False


class Group(NamedTuple):
    """Workloads of a suite with the same shapes. --quick measures the first `quick` shapes.

    `values` creates the operands of a model; `shapes` then has that of its input only. Other operands are random.
    """

    suite: str
    workloads: tuple[Workload, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[Shape, ...], ...]
    quick: int
    values: Callable[[], Sequence[np.ndarray]] | None = None


def _elementwise(name: str, operands: int, compute: Callable[..., Any], flops: int = 1, dtype: str = "") -> Workload:
    """Create an elementwise workload. `flops` counts per element of the first operand."""
    return Workload(
        name, operands, compute, lambda first, *others: flops * math.prod(first), lambda first, *others: first, dtype
    )


def _unary(name: str) -> Workload:
    return _elementwise(name, 1, lambda library, x: getattr(library, name)(x))


def _conversion(target: str) -> Workload:
    return _elementwise(f"to_{target}", 1, lambda library, x: library.to(x, target), 1, target)


ELEMENTWISE: Final = (
    _elementwise("add", 2, lambda library, a, b: a + b),
    _elementwise("mul", 2, lambda library, a, b: a * b),
    *map(_unary, ("exp", "tanh", "gelu", "gelu_erf", "silu")),
)

CHAINS: Final = (
    _elementwise("chain", 4, lambda library, a, b, c, d: library.gelu(a * b + c) * d - a, 5),
    _elementwise("chain_erf", 4, lambda library, a, b, c, d: library.gelu_erf(a * b + c) * d - a, 5),
    _elementwise("swiglu", 2, lambda library, a, b: library.silu(a) * b, 2),
)

# Flops per element: exponential, two passes of subtraction or maximum, sum and division; square, sum, product.
ROWS: Final = (
    _elementwise("softmax", 1, lambda library, x: library.softmax(x), 5),
    _elementwise("rms_norm", 1, lambda library, x: library.rms_norm(x, EPSILON), 3),
)

ROW_CHAINS: Final = (
    _elementwise("scaled_softmax", 2, lambda library, a, b: library.softmax(a * b), 6),
    _elementwise("add_rms_norm", 2, lambda library, a, b: library.rms_norm(a + b, EPSILON), 4),
)


def _product_flops(a: Shape, b: Shape) -> int:
    return 2 * math.prod(a) * (b[-1] if len(b) > 1 else 1)


MATMUL: Final = Workload(
    "matmul", 2, lambda library, a, b: library.matmul(a, b), _product_flops, lambda a, b: (*a[:-1], *b[1:])
)
MATVEC: Final = MATMUL._replace(name="matvec")

# Weights have one row per output, as in linear layers and GGML.
LINEAR: Final = Workload(
    "linear",
    2,
    lambda library, x, weights: library.linear(x, weights),
    lambda x, weights: 2 * x[0] * math.prod(weights),
    lambda x, weights: (x[0], weights[0]),
    weights=1,
)
MATMUL_INT8: Final = LINEAR._replace(
    name="matmul_int8", compute=lambda library, x, weights: library.linear_int8(x, weights), dtype="int32"
)


MLP: Final = Workload(
    "mlp", 7, mlp, product_flops, lambda x, *parameters: (x[0], *parameters[-1]), weights=6, captured=True
)
TRANSFORMER_BLOCK: Final = Workload(
    "transformer_block",
    13,
    transformer_block,
    # The tables multiply no rows. Attention multiplies each token with all tokens twice.
    lambda x, *parameters: product_flops(x, *parameters[:-3]) + 4 * x[0] * math.prod(x),
    lambda x, *parameters: x,
    weights=12,
    captured=True,
)


def _chain(library: Library, x: Any, a: Any, b: Any) -> Any:
    """Compute a chain of elementwise ops, which fuses into one kernel."""
    for _ in range(192):
        x = x * a + b
    return x


def _mixed(library: Library, x: Any, a: Any, b: Any) -> Any:
    """Compute a chain with a product or a softmax every third op, which needs many kernels."""
    for _ in range(64):
        x = library.matmul(x, a) * a + b
        x = library.softmax(x) * b - a
    return x


SIDE: Final = 4
"""Rows and columns of operands that are small enough for call overhead to dominate."""

# Workloads on vectors of K elements.
DISPATCH_VECTORS: Final = (
    _elementwise("add 1,024 elements", 2, lambda library, a, b: a + b),
    CHAINS[0]._replace(name="5 ops on 1,024 elements"),
)

DISPATCH: Final = (
    _elementwise("add 16 elements", 2, lambda library, a, b: a + b),
    _elementwise("384 ops, element-wise", 3, _chain, 384),
    # 64 products with 2 * SIDE flops per element, 64 softmaxes and 256 other ops.
    _elementwise("384 ops, every third a product or softmax", 3, _mixed, 64 * (2 * SIDE + 5 + 4)),
)

FLOATS: Final = ("float32", "bfloat16")
K, M = 1 << 10, 1 << 20


def _flat(operands: int, *sizes: int) -> tuple[tuple[Shape, ...], ...]:
    return tuple(((n,),) * operands for n in sizes)


def square(*sizes: int) -> tuple[tuple[Shape, ...], ...]:
    """Return the shapes of two square operands for each size."""
    return tuple(((n, n),) * 2 for n in sizes)


GROUPS: Final = (
    Group("ops", ELEMENTWISE, FLOATS, _flat(2, M, K, 16 * M), 1),
    Group("ops", (_conversion("bfloat16"), _conversion("float16")), ("float32",), _flat(1, M, 16 * M), 1),
    Group("ops", (_conversion("float32"),), ("bfloat16", "float16"), _flat(1, M, 16 * M), 1),
    Group("ops", ROWS, FLOATS, (((4096, 1024),),), 1),
    Group("ops", (MATMUL,), FLOATS, square(256, 1024, 2048), 1),
    Group("ops", (MATMUL_INT8,), ("int8",), square(1024), 1),
    Group("ops", (MATVEC,), FLOATS, (((4096, 4096), (4096,)),), 1),
    Group("chains", CHAINS, FLOATS, _flat(4, M, K, 16 * M), 1),
    Group("chains", ROW_CHAINS, FLOATS, square(1024, 4096), 1),
    Group("matmul", (LINEAR,), FLOATS, square(64, 128, 256, 512, 1024, 384, 768, 1536, 2048, 4096), 5),
    Group("dispatch", DISPATCH, ("float32",), (((SIDE, SIDE),) * 3,), 1),
    Group("dispatch", DISPATCH_VECTORS, ("float32",), _flat(4, K), 1),
    *(
        Group("mlp", (MLP._replace(name=f"mlp_{n}"),), FLOATS, (((n, MLP_SIZES[0]),),), 1, partial(mlp_values, n))
        for n in (1, 64)
    ),
    Group("transformer", (TRANSFORMER_BLOCK,), FLOATS, (((TOKENS, DIM),),), 1, block_values),
)


def size_name(shape: Shape) -> str:
    """Format a shape: (4096, 1024) -> 4096x1024."""
    return "x".join(map(str, shape))


class Case(NamedTuple):
    """A workload with operand values in float32, or in int8 if that is the dtype."""

    suite: str
    workload: Workload
    dtype: str
    values: tuple[np.ndarray, ...]

    @property
    def shapes(self) -> list[list[int]]:
        """Shapes of the operands."""
        return [list(values.shape) for values in self.values]

    @property
    def size(self) -> str:
        """Extents of the first operand, such as "4096x1024"."""
        return size_name(self.values[0].shape)

    @property
    def title(self) -> str:
        """Name of the workload."""
        return self.workload.name

    @property
    def flops(self) -> int:
        """Flops of the whole computation."""
        return self.workload.flops(*(values.shape for values in self.values))

    @property
    def nbytes(self) -> int:
        """Bytes of the operands and the result, each moved once."""
        read = sum(values.size for values in self.values) * ITEMSIZE[self.dtype]
        shape = self.workload.result(*(values.shape for values in self.values))
        return read + math.prod(shape) * ITEMSIZE[self.workload.dtype or self.dtype]

    def contender(self, library: Library) -> Callable[[], Call]:
        """Return a factory of the timed call. The operands are created in advance."""
        constants = self.workload.weights if self.workload.captured else 0
        return partial(library.call, self.workload.compute, self.operands(library), constants)

    def recorded(self) -> tuple[nt.Tensor, ...]:
        """Return the pending result and the operands that are new in every run."""
        library = NpuTensor()
        operands = self.operands(library)
        return self.workload.compute(library, *operands), *operands[: len(operands) - self.workload.weights]

    def operands(self, library: Library) -> tuple[Any, ...]:
        """Create the operands, with equal values for every library."""
        return tuple(library.operand(values, self.dtype) for values in self.values)

    def expected(self) -> np.ndarray:
        """Compute the result in float64."""
        reference = Reference()
        return np.asarray(self.workload.compute(reference, *self.operands(reference)))


def _values(shape: Shape, dtype: str, seed: int, bound: float) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype == "int8":
        return generator.integers(-128, 128, shape, np.int8)
    return generator.standard_normal(shape, np.float32) * np.float32(bound)


SPREAD: Final = {"dispatch": 0.25}
"""Standard deviation of the operands by suite, if it is not 1. Repeated x * a + b must stay bounded."""


def cases(
    only: Collection[str] = (),
    sizes: Collection[str] = (),
    suite: str = "",
    quick: bool = False,
    groups: Iterable[Group] = GROUPS,
) -> Iterator[Case]:
    """Yield the cases of one suite, or of all groups. Operands are created once per size and dtype.

    `only` names workloads and `sizes` values of Case.size; empty means all. `quick` reduces the number of shapes.
    """
    for group in groups:
        workloads = [workload for workload in group.workloads if not only or workload.name in only]
        if suite not in ("", group.suite) or not workloads:
            continue
        for dtype, shapes in product(group.dtypes, group.shapes[: group.quick] if quick else group.shapes):
            if sizes and size_name(shapes[0]) not in sizes:
                continue
            spread = SPREAD.get(group.suite, 1.0)
            drawn = (_values(shape, dtype, seed, spread) for seed, shape in enumerate(shapes))
            values = tuple(group.values() if group.values else drawn)
            for workload in workloads:
                yield Case(group.suite, workload, dtype, values[: workload.operands])


def disagreement(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest expected magnitude.

    Returns infinity for different shapes and for non-finite values.
    """
    actual, expected = actual.squeeze(), expected.squeeze()  # GGML tensors do not store their number of dimensions.
    if actual.shape != expected.shape or not np.isfinite(actual).all():
        return math.inf
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny))
