"""Matrix products with a fused epilogue: C[...] = epilogue(A[...] @ B[...]).

A and B may be `Computed`: element-wise expressions that are evaluated while they are packed. Three loops run one after
the other on the pool: pack A, pack B, multiply. K is never split, so the sums stay in registers until they are rounded
once, after the epilogue. The panels stream from the caches at 7 bytes per cycle and core, which L3 can deliver for any
K; the order of the tiles keeps what is read most often in L2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.runtime.cpu.engine import Address, Engine
from npu_tensor.runtime.cpu.gemm_micro import LEAST_ROWS, Blocking, Unit
from npu_tensor.runtime.cpu.gemm_multiply import GemmSpec, multiply_module
from npu_tensor.runtime.cpu.gemm_pack import PackPrologue, PackSpec, pack_module, panel_bytes
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, register_dtype

__all__ = ["Computed", "Gemm", "Matrix", "tile_rows"]

# Panels of A that are multiplied by one panel of B after the other, so that L2 holds them meanwhile.
_BLOCK_BYTES = 384 << 10
# A piece of work that a thread claims: long against the claim (0.1 us), short against the whole product.
_PIECE_CYCLES = 15_000
_PIECE_BYTES = 32 << 10
# What a tile costs besides its steps: decoding, storing, the epilogue.
_OVERHEAD_CYCLES = 500
# Of packed panels, in bytes.
_ALIGNMENT = 64


class Matrix(NamedTuple):
    """A matrix in memory, or a number (`strides` is None)."""

    dtype: str
    strides: tuple[int, ...] | None = None  # in elements: per batch dimension (0 repeats a matrix), of rows, of columns


class Computed(NamedTuple):
    """A matrix that is computed element by element while it is packed, as if it had been stored.

    The column strides of all its matrices are 0 or 1, or the row strides of all are.
    """

    dtype: str  # to which the result of the program is rounded
    program: Program  # elementwise, load and scalar slot i is input i; one result
    inputs: tuple[Matrix, ...]  # numbers, and at least one matrix


class _Problem(NamedTuple):
    """What a product is asked to do."""

    shape: tuple[int, int, int]
    batch: tuple[int, ...]
    a: Matrix | Computed
    b: Matrix | Computed
    outputs: tuple[Matrix, ...]
    operands: tuple[Matrix, ...]

    @property
    def empty(self) -> bool:
        """Whether no output has an element."""
        return 0 in (*self.batch, *self.shape[:2])

    @property
    def tensors(self) -> list[Matrix]:
        """Outputs and epilogue operands that are matrices."""
        return [*self.outputs, *(operand for operand in self.operands if operand.strides is not None)]

    def with_batch_as_rows(self) -> _Problem:
        """The same product with batch dimensions made into rows, where B is shared and all row strides go on.

        A stack of small products with the same weights becomes one with full tiles.
        """
        problem = self
        while problem.batch:
            m, n, k = problem.shape
            size = problem.batch[-1]
            followed = [_strides(operand) for operand in (*_matrices(problem.a), *problem.tensors)]
            if size != 1 and any(_strides(operand)[-3] != 0 for operand in _matrices(problem.b)):
                break
            if size != 1 and m != 1 and any(strides[-3] != m * strides[-2] for strides in followed):
                break
            if size != 1 and m == 1 and isinstance(problem.a, Computed):
                break  # the distance between rows could become one that its vectors cannot follow
            # A matrix of one row has no distance between rows: that of the batch takes its place.
            keep = -3 if m == 1 and size != 1 else -2
            problem = problem._replace(
                shape=(m * size, n, k),
                batch=problem.batch[:-1],
                a=_without_batch(problem.a, keep),
                b=_without_batch(problem.b, -2),
                outputs=tuple(_matrix_without_batch(output, keep) for output in problem.outputs),
                operands=tuple(_matrix_without_batch(operand, keep) for operand in problem.operands),
            )
        return problem


def tile_rows(m: int, most: int) -> int:
    """Rows of a tile such that the last one is nearly full: as few tiles as possible, of equal size."""
    tiles = max(1, -(-m // most))
    return max(LEAST_ROWS, -(-m // tiles))


def _strides(operand: Matrix) -> tuple[int, ...]:
    """The strides of an operand that is no number."""
    assert operand.strides is not None
    return operand.strides


def _matrices(operand: Matrix | Computed) -> list[Matrix]:
    """What is in memory of A or B."""
    inputs = operand.inputs if isinstance(operand, Computed) else (operand,)
    return [x for x in inputs if x.strides is not None]


def _column_stride(operand: Matrix, columns: int) -> int | None:
    """The column stride; 1 for a single column; None for a number."""
    if operand.strides is None:
        return None
    return operand.strides[-1] if columns > 1 else 1


def _matrix_without_batch(operand: Matrix, keep: int) -> Matrix:
    """The operand with the innermost batch dimension and its rows made one dimension of stride `keep`."""
    if operand.strides is None:
        return operand
    *outer, _, _, column = operand.strides
    return Matrix(operand.dtype, (*outer, operand.strides[keep], column))


def _without_batch(operand: Matrix | Computed, keep: int) -> Matrix | Computed:
    if isinstance(operand, Matrix):
        return _matrix_without_batch(operand, keep)
    return operand._replace(inputs=tuple(_matrix_without_batch(x, keep) for x in operand.inputs))


def _vector_access(operand: Matrix, axis: int, extent: int) -> str:
    """How vectors in the direction of an axis read an input of a prologue; "" if they cannot."""
    if operand.strides is None:
        return "number"
    return {0: "splat", 1: "vector"}.get(operand.strides[axis] if extent > 1 else 1, "")


def _pack_spec(operand: Matrix | Computed, unit: Unit, width: int, k_axis: int, k: int, lines: int) -> PackSpec:
    """How A or B is packed, whose stride number `k_axis` is the one along K."""
    line_axis = -3 - k_axis
    if isinstance(operand, Computed):
        along_k = all(_vector_access(x, k_axis, k) for x in operand.inputs)
        axis, extent = (k_axis, k) if along_k else (line_axis, lines)
        prologue = PackPrologue(
            operand.program, tuple((x.dtype, _vector_access(x, axis, extent)) for x in operand.inputs)
        )
        layout = "along_k" if along_k else "across_lines"
        return PackSpec(operand.dtype, unit, layout, width, prologue=prologue)
    strides = _strides(operand)
    if strides[k_axis] == 1 and k > 1:
        layout = "along_k"
    else:
        layout = "across_lines" if strides[line_axis] == 1 or lines == 1 else "strided"
    return PackSpec(operand.dtype, unit, layout, width)


def _store_sum(accumulate: str, outputs: Sequence[Matrix]) -> Program:
    """The epilogue that only casts."""
    casts = [Instruction("cast", (0,), register_dtype(output.dtype)) for output in outputs]
    return Program((Instruction("load", (), accumulate, 0), *casts), tuple(range(1, 1 + len(casts))))


def _batch_offsets(batch: tuple[int, ...], operand: Matrix) -> NDArray[np.int64]:
    """The byte offset of the operand's matrix in every product of the batch."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(batch, _strides(operand), strict=False):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets * ELEMENT_SIZE[operand.dtype]


class _Loop(NamedTuple):
    """A kernel bound to its meta array: the leading arguments of `launch`."""

    kernel: Address
    meta_address: int
    items: int
    grain: int


class _Packing(NamedTuple):
    """How one operand is packed; `matrices` numbers the packed matrix of every product of the batch."""

    loop: _Loop
    matrices: NDArray[np.int64]
    panels: int
    panel_bytes: int

    @property
    def bytes(self) -> int:
        return self.loop.items * self.panel_bytes

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the packed matrix of every product begins."""
        return self.matrices * (self.panels * self.panel_bytes)


class Gemm:
    """A matrix product bound to shapes and strides, ready to be called on addresses.

    engine    compiles the kernels
    target    of the engine
    blocking  in which the products are computed, for the dtypes of a and b
    shape     (m, n, k) of every product
    a, b      m x k and k x n matrices with any strides, or `Computed` ones. float32, bfloat16 and float16,
              mixed or not, are summed in float32; int8, uint8, int16 and int32 in int32 (wrapping); float64
              and int64 in their own dtype
    outputs   m x n matrices whose column stride is 1. Sums are cast to a dtype unless the epilogue does it
    epilogue  elementwise program: load slot 0 is the sum, slot i the operand i - 1, one result per output
    operands  of the epilogue: m x n matrices with any row stride and a column stride of 0 or 1, and numbers
    batch     sizes of the batch dimensions that the strides of all matrices begin with
    """

    def __init__(
        self,
        engine: Engine,
        target: CpuTarget,
        blocking: Blocking,
        shape: tuple[int, int, int],
        *,
        a: Matrix | Computed,
        b: Matrix | Computed,
        outputs: Sequence[Matrix],
        epilogue: Program | None = None,
        operands: Sequence[Matrix] = (),
        batch: tuple[int, ...] = (),
    ) -> None:
        problem = _Problem(shape, batch, a, b, tuple(outputs), tuple(operands))
        self._engine = engine
        self._target = target
        self._metas: list[NDArray[np.int64]] = []  # keeps the arrays alive whose addresses the loops hold
        self._empty = problem.empty
        if not problem.empty:
            self._bind(problem.with_batch_as_rows(), blocking, epilogue)

    def _bind(self, problem: _Problem, blocking: Blocking, epilogue: Program | None) -> None:
        m, n, k = problem.shape
        unit, most_rows, columns = blocking
        rows, steps, quads = tile_rows(m, most_rows), max(1, -(-k // unit.count)), unit.name == "int8_quad"
        spec_a = _pack_spec(problem.a, unit, rows, -1, k, m)._replace(flip_sign=quads)
        spec_b = _pack_spec(problem.b, unit, columns, -2, k, n)._replace(correct=quads)
        pack_a = self._packing(spec_a, problem.a, problem.batch, k, steps, m, k_axis=-1)
        pack_b = self._packing(spec_b, problem.b, problem.batch, k, steps, n, k_axis=-2)
        self._pack_a, self._pack_b = pack_a.loop, pack_b.loop
        self._offset_b = pack_a.bytes
        self._scratch_bytes = pack_a.bytes + pack_b.bytes + _ALIGNMENT

        blocks = -(-pack_a.panels * pack_a.panel_bytes // _BLOCK_BYTES)
        block_panels = -(-pack_a.panels // blocks)
        blocks = -(-pack_a.panels // block_panels)
        header = [m, n, steps, pack_a.panels, pack_b.panels, block_panels, blocks]
        header += [pack_a.panel_bytes, pack_b.panel_bytes]
        header += [_strides(tensor)[-2] * ELEMENT_SIZE[tensor.dtype] for tensor in problem.tensors]
        table = [pack_a.offsets, pack_b.offsets]
        table += [_batch_offsets(problem.batch, tensor) for tensor in problem.tensors]
        tile_cycles = _OVERHEAD_CYCLES + steps * rows * 2
        access = {None: "number", 0: "column", 1: "row"}
        spec = GemmSpec(
            unit,
            rows,
            columns,
            tuple(output.dtype for output in problem.outputs),
            epilogue or _store_sum(unit.accumulate, problem.outputs),
            tuple((operand.dtype, access[_column_stride(operand, n)]) for operand in problem.operands),
        )
        self._multiply = self._loop(
            multiply_module("multiply", spec, self._target),
            "multiply",
            np.concatenate([np.array(header, np.int64), np.stack(table, axis=1).ravel()]),
            len(table[0]) * blocks * pack_b.panels * block_panels,
            _PIECE_CYCLES // tile_cycles,
        )

    def _packing(
        self,
        spec: PackSpec,
        operand: Matrix | Computed,
        batch: tuple[int, ...],
        k: int,
        steps: int,
        lines: int,
        *,
        k_axis: int,
    ) -> _Packing:
        line_axis, matrices = -3 - k_axis, _matrices(operand)
        # Products that read the same matrices share a packed one.
        every = np.stack([_batch_offsets(batch, matrix) for matrix in matrices], axis=1)
        offsets, index = np.unique(every, axis=0, return_inverse=True)
        panels = -(-lines // spec.width)
        bytes_ = panel_bytes(spec, steps, self._target)
        if isinstance(operand, Computed):
            across = line_axis if spec.layout == "along_k" else k_axis
            strides, outer = [0, 0], [_strides(x)[across] * ELEMENT_SIZE[x.dtype] for x in matrices]
        else:
            size = ELEMENT_SIZE[operand.dtype]
            strides, outer = [_strides(operand)[axis] * size for axis in (line_axis, k_axis)], []
        meta = np.array([k, steps, lines, panels, *strides, bytes_, *outer, *offsets.ravel()], np.int64)
        module = pack_module("pack", spec, self._target)
        loop = self._loop(module, "pack", meta, panels * len(offsets), _PIECE_BYTES // bytes_)
        return _Packing(loop, index.ravel(), panels, bytes_)

    def _loop(self, module: str, name: str, meta: NDArray[np.int64], items: int, grain: int) -> _Loop:
        self._metas.append(meta)
        kernel = self._engine.compile(module, name)[name]
        return _Loop(kernel, meta.ctypes.data, items, max(1, grain))

    def __call__(
        self,
        launch: Callable[..., None],
        allocate: Callable[[int], Any],
        outputs: Sequence[int],
        a: Sequence[int | float],
        b: Sequence[int | float],
        *operands: int | float,
    ) -> None:
        """Compute the product of operands that are addresses and numbers; A and B have several if they are computed.

        An output may be the memory of a or b, which are packed before, or of an operand with the same strides.
        """
        if self._empty:
            return
        scratch = allocate(self._scratch_bytes)
        packed_a = -(-scratch.address // _ALIGNMENT) * _ALIGNMENT
        packed_b = packed_a + self._offset_b
        launch(*self._pack_a, packed_a, *a)
        launch(*self._pack_b, packed_b, *b)
        launch(*self._multiply, packed_a, packed_b, *outputs, *operands)
