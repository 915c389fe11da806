"""The workloads, as data: what is computed, on which shapes and dtypes. One description serves every contender."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt

from .peers.library import Library
from .peers.npu_tensor import NpuTensor
from .peers.numpy import Reference
from .timing import Call

__all__ = [
    "FLOATS",
    "GROUPS",
    "ITEMSIZE",
    "LINEAR",
    "MATMUL",
    "MATMUL_INT8",
    "SIDE",
    "TOLERANCE",
    "Case",
    "Group",
    "Shape",
    "Workload",
    "cases",
    "disagreement",
    "size_name",
    "square",
]

Shape = tuple[int, ...]

TOLERANCE: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 1e-3, "int8": 0.0}
"""Largest accepted difference from the reference, relative to its largest value; beyond it a row compares different
things. Eager libraries round every step of a chain to 16 bits, others the result only."""

ITEMSIZE: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "int32": 4}
"""Bytes of an element."""

EPSILON: Final = 1e-5


class Workload(NamedTuple):
    """One computation.

    compute: takes a `Library` and the operands. flops: of the whole computation, from the operands' shapes; a
    function such as exp counts as one. result: its shape, from theirs. dtype: of the result, if not the operands'.
    weights: so many of the last operands are the same in every run, as the weights of a layer.
    """

    name: str
    operands: int
    compute: Callable[..., Any]
    flops: Callable[..., int]
    result: Callable[..., Shape]
    dtype: str = ""
    weights: int = 0


class Group(NamedTuple):
    """Workloads of a suite that take the same shapes; the first `quick` of them are measured by --quick."""

    suite: str
    workloads: tuple[Workload, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[Shape, ...], ...]
    quick: int


def _elementwise(name: str, operands: int, compute: Callable[..., Any], flops: int = 1, dtype: str = "") -> Workload:
    """flops: per element of the first operand."""
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

# Flops of rows: exponential, two passes of subtraction or maximum, sum and division; square, sum, product.
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

# Weights as rows, one per output, which is the layout of linear layers and that of GGML.
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


def _chain(library: Library, x: Any, a: Any, b: Any) -> Any:
    """Element-wise only: fuses into one kernel."""
    for _ in range(192):
        x = x * a + b
    return x


def _mixed(library: Library, x: Any, a: Any, b: Any) -> Any:
    """A product or a softmax every third op: many kernels."""
    for _ in range(64):
        x = library.matmul(x, a) * a + b
        x = library.softmax(x) * b - a
    return x


SIDE: Final = 4
"""Rows and columns of operands that are so small that only the calls take time."""

# On vectors of K elements.
DISPATCH_VECTORS: Final = (
    _elementwise("add 1,024 elements", 2, lambda library, a, b: a + b),
    CHAINS[0]._replace(name="5 ops on 1,024 elements"),
)

DISPATCH: Final = (
    _elementwise("add 16 elements", 2, lambda library, a, b: a + b),
    _elementwise("384 ops, element-wise", 3, _chain, 384),
    # Of 64 products with 2 * SIDE flops per element, 64 softmaxes and 256 others.
    _elementwise("384 ops, every third a product or softmax", 3, _mixed, 64 * (2 * SIDE + 5 + 4)),
)

FLOATS: Final = ("float32", "bfloat16")
K, M = 1 << 10, 1 << 20


def _flat(operands: int, *sizes: int) -> tuple[tuple[Shape, ...], ...]:
    return tuple(((n,),) * operands for n in sizes)


def square(*sizes: int) -> tuple[tuple[Shape, ...], ...]:
    """Of two operands."""
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
)


def size_name(shape: Shape) -> str:
    """(4096, 1024) -> 4096x1024."""
    return "x".join(map(str, shape))


class Case(NamedTuple):
    """A workload and the values of its operands: float32, or int8 if that is the dtype."""

    suite: str
    workload: Workload
    dtype: str
    values: tuple[np.ndarray, ...]

    @property
    def shapes(self) -> list[list[int]]:
        """Of the operands."""
        return [list(values.shape) for values in self.values]

    @property
    def size(self) -> str:
        """Extents of the first operand, as in 4096x1024."""
        return size_name(self.values[0].shape)

    @property
    def title(self) -> str:
        """Of the workload."""
        return self.workload.name

    @property
    def flops(self) -> int:
        """Of the whole computation."""
        return self.workload.flops(*(values.shape for values in self.values))

    @property
    def nbytes(self) -> int:
        """Every operand read once and the result written once."""
        read = sum(values.size for values in self.values) * ITEMSIZE[self.dtype]
        shape = self.workload.result(*(values.shape for values in self.values))
        return read + math.prod(shape) * ITEMSIZE[self.workload.dtype or self.dtype]

    def contender(self, library: Library) -> Callable[[], Call]:
        """A function that makes the call which is timed; the operands are there before."""
        return partial(library.call, self.workload.compute, self.operands(library))

    def recorded(self) -> tuple[nt.Tensor, ...]:
        """The result, not computed yet, and the operands that are new in every run."""
        library = NpuTensor()
        operands = self.operands(library)
        return self.workload.compute(library, *operands), *operands[: len(operands) - self.workload.weights]

    def operands(self, library: Library) -> tuple[Any, ...]:
        """Equal values for every library."""
        return tuple(library.operand(values, self.dtype) for values in self.values)

    def expected(self) -> np.ndarray:
        """The result in float64."""
        reference = Reference()
        return np.asarray(self.workload.compute(reference, *self.operands(reference)))


def _values(shape: Shape, dtype: str, seed: int, bound: float) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype == "int8":
        return generator.integers(-128, 128, shape, np.int8)
    return generator.standard_normal(shape, np.float32) * np.float32(bound)


SPREAD: Final = {"dispatch": 0.25}
"""Standard deviation of the operands where it is not 1: values must stay bounded when x * a + b repeats."""


def cases(
    only: Collection[str] = (),
    sizes: Collection[str] = (),
    suite: str = "",
    quick: bool = False,
    groups: Iterable[Group] = GROUPS,
) -> Iterator[Case]:
    """The cases of one suite, or of all of the groups; with the named workloads and sizes (Case.size), if any are.

    Operands are made once per size and dtype.
    """
    for group in groups:
        workloads = [workload for workload in group.workloads if not only or workload.name in only]
        if suite not in ("", group.suite) or not workloads:
            continue
        for dtype, shapes in product(group.dtypes, group.shapes[: group.quick] if quick else group.shapes):
            if sizes and size_name(shapes[0]) not in sizes:
                continue
            spread = SPREAD.get(group.suite, 1.0)
            values = tuple(_values(shape, dtype, seed, spread) for seed, shape in enumerate(shapes))
            for workload in workloads:
                yield Case(group.suite, workload, dtype, values[: workload.operands])


def disagreement(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference, relative to the largest absolute value that is expected.

    Infinite for another shape, and for what is not finite.
    """
    actual, expected = actual.squeeze(), expected.squeeze()  # Tensors of GGML do not count their dimensions.
    if actual.shape != expected.shape or not np.isfinite(actual).all():
        return math.inf
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny))
