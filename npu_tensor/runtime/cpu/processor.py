"""The processor as its kernels use it: they are compiled for its target, and share its thread pool and memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from npu_tensor._util.cache_sizes import KERNELS
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.config import config
from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.engine import Address, Engine, Module
from npu_tensor.runtime.cpu.gemm import Computed, Gemm, Matrix, Packs, Scattered
from npu_tensor.runtime.cpu.gemm_micro import UNITS, Blocking, blockings, choose_unit
from npu_tensor.runtime.cpu.loop_kernel import loop_kernel
from npu_tensor.runtime.cpu.map_kernel import LoopSpec
from npu_tensor.runtime.cpu.pool import Pool
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.cpu.windows import Windows
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.rates import ProcessorRates, TileShape, processor_rates


class Processor:
    """Engine, thread pool and memory, and the loops and products that were compiled.

    Attributes:
        bound: Kernels of living plans that equal tasks share, by class, threads and task.
    """

    def __init__(self, allocator: Allocator) -> None:
        self.target = host_target(config.cpu_features)
        self.allocator = allocator
        key = f"{self.target.cpu} {self.target.feature_string}"
        self.engine = Engine(self.target.create_target_machine(), key, config.cache_dir)
        # Layers of a model and iterations of a loop share products and loops. Those in neither a cache nor a plan are
        # freed.
        self._products = lru_cache(maxsize=KERNELS)(self._new_product)
        self._loops = lru_cache(maxsize=KERNELS)(self._compiled_loop)
        self.bound: WeakValueDictionary[Any, Any] = WeakValueDictionary()
        self._pool: Pool | None = None
        self._pool_lock = new_lock()

    @property
    def pool(self) -> Pool:
        """The thread pool, compiled at first use."""
        if self._pool is None:
            with self._pool_lock:
                if self._pool is None:  # Making one sets the number of threads.
                    self._pool = Pool(self.engine, config.threads)
        return self._pool

    @cached_property
    def rates(self) -> ProcessorRates:
        return processor_rates(self.target.lanes)

    def blocking(self, dtype_a: str, dtype_b: str) -> Blocking:
        """Return the fastest way to multiply matrices of these dtypes. Raises DTypeError if they have no product."""
        unit = choose_unit(dtype_a, dtype_b, self.target)
        # The dot product of bfloat16 has twice the rate of float32 on a Zen 4 and half of it on some Intel processors.
        macs = self.rates.macs
        if unit.name == "bfloat16_pair" and self.rates.tiles and macs["float32"] > 1.1 * macs[unit.name]:
            unit = UNITS["float32"]
        measured = self.rates.tiles.get(unit.name)
        usual, *others = blockings(unit, self.target)
        return next((other for other in others if measured == TileShape(*other[1:])), usual)

    def product(
        self,
        shape: tuple[int, int, int],
        *,
        a: Matrix | Computed | Scattered | Windows,
        b: Matrix | Computed | Scattered,
        epilogue: Program,
        **more: Any,
    ) -> Gemm:
        """Return the matrix product bound to its shape and strides; arguments are those of `Gemm`, in tuples."""
        programs = [epilogue, *(factor.program for factor in (a, b) if isinstance(factor, Computed))]
        constants = tuple(program.constants for program in programs)
        return self._products(constants, shape, a=a, b=b, epilogue=epilogue, **more)

    def _new_product(self, constants: tuple[tuple[str, ...], ...], shape: tuple[int, int, int], **more: Any) -> Gemm:
        blocking = self.blocking(more["a"].dtype, more["b"].dtype)
        return Gemm(self.engine, self.target, blocking, shape, **more)

    def packed(self, packing: Packs, value: Buffer, source: int, persistent: bool = False) -> Buffer:
        """Return a matrix packed for a product. A packed form that is kept lives as long as the value.

        Args:
            packing: Packing of the matrix.
            value: Buffer that holds the matrix.
            source: Address of the matrix.
            persistent: True to keep that packed form. Else that of the second use is kept, because most values are
                operands of one product, once.
        """
        layouts, key = self._layouts(packing, value, source)
        packed = layouts.get(key)
        if packed is None:
            is_kept = persistent or key in layouts
            packed = packing.run(self.pool.launch, self.allocator.allocate, [source])
            layouts[key] = packed if is_kept and self.allocator.keeps(packed) else None
        return packed

    def was_used(self, packing: Packs, value: Buffer, source: int) -> bool:
        """Note a use of a matrix that is not packed. Return True if it has been used before."""
        layouts, key = self._layouts(packing, value, source)
        was_used = key in layouts
        layouts.setdefault(key)
        return was_used

    def _layouts(self, packing: Packs, value: Buffer, source: int) -> tuple[dict[Hashable, Buffer | None], Hashable]:
        """Return the packed forms of a value, and the key of one of them."""
        return self.allocator.layouts.setdefault(value, {}), (packing.key, source - value.address)

    def loop(self, spec: LoopSpec) -> Address:
        return self._loops(spec.program.constants, spec)

    def _compiled_loop(self, constants: tuple[str, ...], spec: LoopSpec) -> Address:
        return self.compiled(loop_kernel, spec)

    def compiled(self, module: Module, spec: Any) -> Address:
        """Return the address of a kernel, from the cache or compiled from its module."""
        return self.engine.generated(module, spec, self.target)

    @contextmanager
    def compiling(self, kernel: Any) -> Iterator[None]:
        """Note in a kernel, as its `origin`, where its code came from that is compiled meanwhile."""
        done = self.engine.statistics
        compiled, loaded = done.compiled, done.disk_hits
        yield
        kernel.origin = "built" if done.compiled > compiled else "cache" if done.disk_hits > loaded else "memory"

    @property
    def threads(self) -> int:
        return self.pool.threads

    def set_threads(self, threads: int) -> None:
        """Change the number of threads; 0 means all cores of the process."""
        self.pool.set_threads(threads)
