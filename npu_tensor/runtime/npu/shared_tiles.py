"""Tilings of consecutive kernels: the fastest of each, or slower ones that save a reconfiguration.

Some configurations also compute tasks of other families, such as the ops between products of a decoder layer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from npu_tensor.config import config
from npu_tensor.kernels.offer import Offer
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.task import Task

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice

SLOWER: Final = 2.0
"""Upper bound on the slowdown of a ready tiling that saves a single run a build. A build takes longer than any run, but
the best tiling should be built once if the ready ones are much slower.
"""

Chain = tuple["Chain", NpuKernel] | None
"""Linked list of the chosen kernels, latest first."""


def share_configurations(kernels: Sequence[NpuKernel], device: NpuDevice, once: bool) -> None:
    """Choose the tilings of consecutive kernels that minimize their total cost, by dynamic programming.

    Args:
        kernels: Kernels in order of execution.
        device: Their device.
        once: True if the plan is made for a single run, so that loaded and built configurations are cheaper.
    """
    within = {kernel.cost.context: kernel.offer.claim_within for kernel in kernels if kernel.offer.claim_within}
    if not within and not any(kernel.offer.others for kernel in kernels):
        return
    if not once and len({kernel.cost.context for kernel in kernels}) == 1:
        return
    switch = device.switch_cost.seconds
    change = switch if device.reconfiguration_cost is None else device.reconfiguration_cost.seconds
    chains: dict[Hashable, tuple[float, Chain]] = {None: (0.0, None)}
    for number, kernel in enumerate(kernels):
        begins = once and not number
        longer: dict[Hashable, tuple[float, Chain]] = {}
        for option in _options(kernel, [*within.values()], change + max(change, switch * begins), device, once):
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
            kernel.replace_tiling(option, _reason(kernel, option, device, once))


def _options(
    kernel: NpuKernel,
    within: Sequence[Callable[[Task], Offer | None]],
    saved: float,
    device: NpuDevice,
    once: bool,
) -> list[NpuKernel]:
    """Return the kernel and alternatives that cost at most `saved` seconds more.

    `within` are claims in the configurations of other kernels. Alternatives have the same operand forms, or use a
    tensor's own bytes: another form may end a launch. If a single run would wait for a build or nothing can be built,
    only kernels with a binary count.
    """
    best = kernel.cost.expense.seconds
    only_ready = not device.can_build or (once and config.jit == "wait")
    most = max(best + saved, SLOWER * best * only_ready)
    others = [other for other in kernel.others if other.cost.expense.seconds <= most]
    offers = [offer for claim in within if (offer := claim(kernel.task)) is not None]
    guests = [NpuKernel(kernel.owner, kernel.task, offer) for offer in offers]
    others += [guest for guest in guests if guest.cost.expense.seconds <= most]
    options = [kernel, *(other for other in others if _fits(other, kernel))]
    if not only_ready:
        return options
    near = (each for each in options if each is kernel or each.cost.expense.seconds <= SLOWER * best)
    return [each for each in near if device.is_ready(each)] or [kernel]


def _fits(option: NpuKernel, kernel: NpuKernel) -> bool:
    """Return True if an option needs no copy that the kernel does not need, besides those of constants.

    One of another family may copy an operand in another form if the kernel needs a copy of it too.
    """
    guest = option.name != kernel.name
    moves = ((*each.cost.reads, *each.cost.writes) for each in (option, kernel))
    constant = (*(operand.persistent for operand in kernel.task.inputs), *(False for _ in kernel.cost.writes))
    return all(
        fixed or own.form in (None, other.form) or (guest and other.form is not None)
        for fixed, own, other in zip(constant, *moves, strict=True)
    )


def _reason(kernel: NpuKernel, option: NpuKernel, device: NpuDevice, once: bool) -> str:
    """Explain why a kernel does not get its best tiling; empty if an earlier choice is undone."""
    if option.cost.expense.seconds < kernel.cost.expense.seconds:
        return ""
    if device.is_ready(option) and not device.is_ready(kernel):
        return "better tiles would have to be built first"
    if once and device.is_loaded(option) and not device.is_loaded(kernel):
        return "better tiles are not loaded"
    return "better tiles differ from the configurations before and after"
