"""Tiles of kernels that follow each other: the fastest of each, or slower ones that save a change of configuration."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from npu_tensor.config import config
from npu_tensor.runtime.npu.npu_kernel import NpuKernel

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice

__all__ = ["share_configurations"]

SLOWER: Final = 2.0
"""How many times as long as the best tiles others may take that spare a single run a build. No run saves as much as a
build takes; but where the others are much slower, the best ones should exist from then on."""

Chain = tuple["Chain", NpuKernel] | None
"""Kernels chosen so far: those before, and the latest."""


def share_configurations(kernels: Sequence[NpuKernel], device: NpuDevice, once: bool) -> None:
    """Give kernels, which will follow each other, the tiles with which all of them take least.

    Another configuration costs a change within a launch, or a switch where there is none. once: whether the plan is
    made for one run, so that it counts which configurations are loaded, and which have a binary.
    """
    if not any(kernel.offer.others for kernel in kernels):
        return
    if not once and len({kernel.cost.context for kernel in kernels}) == 1:
        return
    switch = device.switch.seconds
    change = switch if device.change is None else device.change.seconds
    chains: dict[Hashable, tuple[float, Chain]] = {None: (0.0, None)}
    for number, kernel in enumerate(kernels):
        begins = once and not number
        longer: dict[Hashable, tuple[float, Chain]] = {}
        for option in _options(kernel, change + max(change, switch * begins), device, once):
            context = option.cost.context
            seconds, before = min(
                ((total + change * (other not in (None, context)), chain) for other, (total, chain) in chains.items()),
                key=lambda each: each[0],
            )
            seconds += option.cost.expense.seconds + switch * (begins and not device.is_loaded(option))
            if context not in longer or seconds < longer[context][0]:
                longer[context] = seconds, (before, option)
        chains = longer
    _, chain = min(chains.values(), key=lambda each: each[0])
    for kernel in reversed(kernels):
        assert chain is not None
        chain, option = chain
        if option is not kernel:
            kernel.become(option, _reason(kernel, option, device, once))


def _options(kernel: NpuKernel, saved: float, device: NpuDevice, once: bool) -> list[NpuKernel]:
    """The kernel, and those of other tiles that may be better: they take no more than what they could save.

    All read and write the same forms of the operands: another one may end a launch. Only kernels that are ready, if a
    single run would wait for a build or nothing can be built.
    """
    best, forms = kernel.cost.expense.seconds, _forms(kernel)
    only_ready = not device.can_build or (once and config.jit == "wait")
    most = max(best + saved, SLOWER * best * only_ready)
    others = takewhile(lambda other: other.cost.expense.seconds <= most, kernel.others)
    options = [kernel, *(other for other in others if _forms(other) == forms)]
    if not only_ready:
        return options
    near = (each for each in options if each is kernel or each.cost.expense.seconds <= SLOWER * best)
    return [each for each in near if device.is_ready(each)] or [kernel]


def _forms(kernel: NpuKernel) -> list[Hashable]:
    """In which its operands are read, and its results written."""
    return [move.form for move in (*kernel.cost.reads, *kernel.cost.writes)]


def _reason(kernel: NpuKernel, option: NpuKernel, device: NpuDevice, once: bool) -> str:
    """Why a kernel does not have its best tiles."""
    if device.is_ready(option) and not device.is_ready(kernel):
        return "better tiles would have to be built first"
    if once and device.is_loaded(option) and not device.is_loaded(kernel):
        return "better tiles are not loaded"
    return "better tiles would be another configuration than before or behind"
