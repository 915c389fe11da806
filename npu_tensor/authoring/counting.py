"""Instructions of a core function, counted while it runs on this machine with zeros.

The host version of `aie_api` counts vector instructions per slot of a bundle, and the longest chain of dependent ones.
Elements of the result that no vector store wrote, or elements that no vector load of a reduction read, are taken to be
moved by scalar code, at SCALAR_STEP cycles each. Its arithmetic and repeated passes are not counted: that is a lower
bound.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final, NamedTuple

from npu_tensor.authoring.apart import Failure, run_apart
from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.dataflow.design import KernelFunction, ObjectType, Source
from npu_tensor.errors import LaunchError
from npu_tensor.kernels.codegen.cycles import LOOP_CYCLES, SCALAR_STEP, counting_flags
from npu_tensor.kernels.dataflow_patterns import CoreFunction, ObjectSizes
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer

SECONDS: Final = 20
"""Time limit for compiling and counting a function."""

_SLOTS: Final = 6
_COUNT: Final = """
extern "C" void nt_count({parameters}) {{
    for (int round = 0; round < 2; ++round) {{  // the first brings constants into registers
        nt_host::latest = 0;
        for (int &slot : nt_host::work) slot = 0;
        {call};
    }}
    for (unsigned i = 0; i < nt_host::SLOTS; ++i) counts[i] = nt_host::work[i];
    counts[nt_host::SLOTS] = nt_host::latest;
}}
"""


class Counted(NamedTuple):
    """Instructions of one call.

    Attributes:
        loads: Load instructions, on two ports.
        stores: Store instructions.
        vector: Vector instructions.
        moves: Move instructions.
        chain: Cycles of the longest chain of dependent instructions.
        scalar: Elements that scalar code moves, each counted once, or products of matrices that it computes.
    """

    loads: int
    stores: int
    vector: int
    moves: int
    chain: int
    scalar: int

    @property
    def bounds(self) -> dict[str, int]:
        """Cycles by what needs them."""
        return {
            "loads": -(-self.loads // 2),
            "stores": self.stores,
            "vector instructions": self.vector,
            "moves": self.moves,
            "chain of dependent instructions": self.chain,
            "scalar code": self.scalar * SCALAR_STEP,
        }

    @property
    def cycles(self) -> int:
        """Predicted cycles of a call, whose vector loops are taken to be pipelined."""
        *slots, scalar = self.bounds.values()
        return max(slots) + scalar + LOOP_CYCLES

    def __str__(self) -> str:
        bounds = {name: cycles for name, cycles in self.bounds.items() if cycles}
        worst = max(bounds, key=lambda name: bounds[name], default="nothing")
        return f"{self.cycles} cycles, most for {worst} ({', '.join(f'{n} {c}' for n, c in bounds.items())})"


@lru_cache(maxsize=256)
def counted(function: CoreFunction, arch: Arch, sizes: ObjectSizes) -> Counted | str:
    """Count one call in a process of its own, or return why that failed."""
    (answer,) = run_apart([partial(_count, function, arch, sizes)], SECONDS)
    return answer.reason if isinstance(answer, Failure) else Counted(*answer)


def cycles(function: CoreFunction, arch: Arch, sizes: ObjectSizes) -> int | str:
    """Return the predicted cycles of a call, or why it fails; without a C++ compiler, those of scalar code."""
    if host_compiler.reason() is not None:
        return (sum(sizes.operands) + sizes.result) * SCALAR_STEP
    answer = counted(function, arch, sizes)
    return answer if isinstance(answer, str) else answer.cycles


def _count(function: CoreFunction, arch: Arch, sizes: ObjectSizes) -> tuple[int, ...]:
    operands = zip(function.operands, sizes.operands, strict=True)
    types = [ObjectType(dtype, (size,)) for (_, dtype), size in operands for _ in range(function.pointers)]
    types += [ObjectType(function.result, (sizes.result,))] * function.results
    names = [*(f"a{number}" for number in range(len(types))), *(f"n{number}" for number in range(function.numbers))]
    kinds = [f"{_element(type_)} *" for type_ in types] + ["int32 "] * function.numbers
    text = _COUNT.format(
        parameters=", ".join([*(kind + name for kind, name in zip(kinds, names, strict=True)), "int32 *counts"]),
        call=f"{function.name}({', '.join(names)})",
    )
    source = Source(function.name, function.source.text + text, counting_flags(arch))
    counts = ObjectType("int32", (_SLOTS + 1,))
    declared = KernelFunction("nt_count", (*types, *["int32"] * function.numbers, counts), source)
    entry = host_compiler.compile_source(source, arch, [declared]).entry(declared)
    buffers = [DeviceBuffer(each.nbytes) for each in (*types, counts)]
    *pointers, result = (buffer.address for buffer in buffers)
    message = entry(*pointers, *[sizes.data] * function.numbers, result)
    if message is not None:
        raise LaunchError(f"{function.name}: {message.decode()}")
    load_a, load_b, load, store, vector, move, chain = map(int, buffers[-1].bytes.view("int32")[: _SLOTS + 1])
    array, *in_, out = ARRAYS[arch], *types
    loads = load_a + load_b + load
    by_vectors = loads * array.load_bytes, store * array.store_bytes
    if out.elements > 1:
        scalar = max(function.results * out.nbytes - by_vectors[1], 0) // out.itemsize
    else:  # One element is written in any way; an operand is read, if not all of them.
        scalar = max(in_[0].nbytes - by_vectors[0], 0) // in_[0].itemsize
    return loads, store, vector, move, chain, scalar * sizes.steps


def _element(type_: ObjectType) -> str:
    return "float" if type_.dtype == "float32" else type_.dtype
