"""The workloads, as data: what is computed, on which shapes and dtypes, by npu_tensor and by PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

import npu_tensor as nt
from benchmarks.timing import Call

__all__ = ["BATCH", "GROUPS", "Case", "Group", "Workload", "cases", "disagreement", "size_name"]

BATCH = 16
"""Independent sets of operands in one jitted function, as the layers of a model have."""

Shape = tuple[int, ...]


class Workload(NamedTuple):
    """One computation. `ours` records it, `peer` runs it eagerly.

    peer_into: the same into a preallocated result, its last argument; None where PyTorch cannot.
    """

    name: str
    operands: int
    ours: Callable[..., nt.Tensor]
    peer: Callable[..., torch.Tensor]
    peer_into: Callable[..., object] | None


class Group(NamedTuple):
    """Workloads that take the same shapes. `shapes` lists the shapes of all operands for each size."""

    workloads: tuple[Workload, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[Shape, ...], ...]


def _ours_chain(approximate: str) -> Callable[..., nt.Tensor]:
    def chain(a: nt.Tensor, b: nt.Tensor, c: nt.Tensor, d: nt.Tensor) -> nt.Tensor:
        return (a * b + c).gelu(approximate=approximate) * d - a

    return chain


def _peer_chain(approximate: str) -> Callable[..., torch.Tensor]:
    def chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return functional.gelu(a * b + c, approximate=approximate) * d - a

    return chain


def _peer_chain_into(approximate: str) -> Callable[..., object]:
    """Every step into the one preallocated tensor, the fastest way that eager PyTorch has."""

    def chain(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, out: torch.Tensor
    ) -> object:
        torch.mul(a, b, out=out)
        torch.add(out, c, out=out)
        torch._C._nn.gelu(out, approximate=approximate, out=out)
        torch.mul(out, d, out=out)
        return torch.sub(out, a, out=out)

    return chain


def _into(function: Callable[..., object]) -> Callable[..., object]:
    """function(..., out=) with `out` as the last positional argument."""

    def into(*operands: torch.Tensor) -> object:
        return function(*operands[:-1], out=operands[-1])

    return into


def _conversion(target: str) -> Workload:
    ours, peer = getattr(nt, target), getattr(torch, target)
    return Workload(
        f"to_{target}",
        1,
        lambda x: x.to(ours),
        lambda x: x.to(peer),
        lambda x, out: out.copy_(x),
    )


# Not in PyTorch's documented interface, which has no out= for these two; they are what it would call.
_gelu_into = torch._C._nn.gelu
_silu_into = torch._C._nn.silu

ELEMENTWISE = (
    Workload("add", 2, operator.add, operator.add, _into(torch.add)),
    Workload("mul", 2, operator.mul, operator.mul, _into(torch.mul)),
    Workload("exp", 1, nt.exp, torch.exp, _into(torch.exp)),
    Workload("tanh", 1, nt.tanh, torch.tanh, _into(torch.tanh)),
    Workload(
        "gelu",
        1,
        partial(nt.gelu, approximate="tanh"),
        partial(functional.gelu, approximate="tanh"),
        _into(partial(_gelu_into, approximate="tanh")),
    ),
    Workload("gelu_erf", 1, nt.gelu, functional.gelu, _into(_gelu_into)),
    Workload("silu", 1, nt.silu, functional.silu, _into(_silu_into)),
    Workload("chain", 4, _ours_chain("tanh"), _peer_chain("tanh"), _peer_chain_into("tanh")),
    Workload("chain_erf", 4, _ours_chain("none"), _peer_chain("none"), _peer_chain_into("none")),
)

_softmax = partial(torch.softmax, dim=-1)

ROWS = (
    Workload("softmax", 1, partial(nt.softmax, dim=-1), _softmax, _into(_softmax)),
    Workload(
        "rms_norm",
        1,
        lambda x: nt.rms_norm(x, x.shape[-1:]),
        lambda x: functional.rms_norm(x, x.shape[-1:]),
        None,
    ),
)

MATMUL = Workload("matmul", 2, operator.matmul, operator.matmul, _into(torch.matmul))
MATVEC = Workload("matvec", 2, operator.matmul, operator.matmul, _into(torch.mv))

# With weights as rows on both sides, which is the layout of linear layers: x @ weights.T in int32.
MATMUL_INT8 = Workload(
    "matmul_int8",
    2,
    lambda x, weights: nt.mul_mat(weights, x),
    lambda x, weights: torch._int_mm(x, weights.t()),
    lambda x, weights, out: torch._int_mm(x, weights.t(), out=out),
)

K, M = 1 << 10, 1 << 20

GROUPS = (
    Group(ELEMENTWISE, ("float32", "bfloat16"), tuple(((n,),) * 4 for n in (K, M, 16 * M))),
    Group(
        (_conversion("bfloat16"), _conversion("float16")), ("float32",), tuple(((n,),) for n in (M, 16 * M))
    ),
    Group((_conversion("float32"),), ("bfloat16", "float16"), tuple(((n,),) for n in (M, 16 * M))),
    Group(ROWS, ("float32", "bfloat16"), (((4096, 1024),),)),
    Group((MATMUL,), ("float32", "bfloat16"), tuple(((n, n),) * 2 for n in (256, 1024, 2048))),
    Group((MATMUL_INT8,), ("int8",), (((1024, 1024),) * 2,)),
    Group((MATVEC,), ("float32", "bfloat16"), (((4096, 4096), (4096,)),)),
)


def size_name(shape: Shape) -> str:
    """(4096, 1024) -> 4096x1024."""
    return "x".join(map(str, shape))


class Case(NamedTuple):
    """A workload on operands of equal values for both sides."""

    workload: Workload
    dtype: str
    ours: tuple[nt.Tensor, ...]
    peer: tuple[torch.Tensor, ...]

    @property
    def size(self) -> str:
        """Extents of the first operand, as in 4096x1024."""
        return size_name(self.ours[0].shape)

    @property
    def large(self) -> bool:
        """Whether the arithmetic, not the call, takes the time."""
        return self.ours[0].numel() > K

    def contenders(self) -> dict[str, Call]:
        """By name: ours, jit (the one op inside nt.jit), peer, and out and jit_batch where they apply."""
        workload, operands = self.workload, self.ours
        found: dict[str, Call] = {
            "ours": lambda: workload.ours(*operands).realize(),
            "peer": partial(workload.peer, *self.peer),
            "jit": partial(nt.jit(workload.ours), *operands),
        }
        if workload.peer_into is not None:
            result = torch.empty_like(workload.peer(*self.peer))
            found["out"] = partial(workload.peer_into, *self.peer, result)
        if not self.large:
            found["jit_batch"] = self._batch()
        return found

    def _batch(self) -> Call:
        """The op on BATCH independent sets of operands in one jitted function."""
        record, width = self.workload.ours, self.workload.operands

        def batch(*operands: nt.Tensor) -> tuple[nt.Tensor, ...]:
            return tuple(record(*operands[i : i + width]) for i in range(0, len(operands), width))

        sets = [
            _ours(_values(x.shape, self.dtype, seed), self.dtype) for seed in range(BATCH) for x in self.ours
        ]
        return partial(nt.jit(batch), *sets)


def _values(shape: Shape, dtype: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype == "int8":
        return generator.integers(-128, 128, shape, np.int8)
    return generator.standard_normal(shape, np.float32)


def _ours(values: np.ndarray, dtype: str) -> nt.Tensor:
    return nt.from_numpy(values).to(getattr(nt, dtype)).realize()


def _peer(values: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.from_numpy(values.copy()).to(getattr(torch, dtype))


def cases(only: Collection[str] = (), sizes: Collection[str] = ()) -> Iterator[Case]:
    """The cases of the named workloads and sizes, as in Case.size; of all, if none is named.

    Operands are made once per size and dtype.
    """
    for group in GROUPS:
        workloads = [workload for workload in group.workloads if not only or workload.name in only]
        for dtype, shapes in product(group.dtypes, group.shapes if workloads else ()):
            if sizes and size_name(shapes[0]) not in sizes:
                continue
            values = [_values(shape, dtype, seed) for seed, shape in enumerate(shapes)]
            ours = tuple(_ours(value, dtype) for value in values)
            peer = tuple(_peer(value, dtype) for value in values)
            for workload in workloads:
                yield Case(workload, dtype, ours[: workload.operands], peer[: workload.operands])


def disagreement(case: Case) -> float:
    """Largest difference between the two sides' results, relative to the peer's largest absolute value."""
    ours = case.workload.ours(*case.ours).realize()
    peer = case.workload.peer(*case.peer)
    if tuple(peer.shape) != ours.shape or str(peer.dtype) != f"torch.{ours.dtype.name}":
        raise AssertionError(f"{case.workload.name}: {ours!r} here, {peer.dtype}{list(peer.shape)} there")
    wide = ours.to(nt.float32).numpy()
    expected = peer.float().numpy()
    return float(np.abs(wide - expected).max() / np.abs(expected).max())
