"""The public function `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_tensor.tensor import Tensor, pending

if TYPE_CHECKING:
    from npu_tensor.observe.explanation import Explanation

__all__ = ["explain"]


def explain(*tensors: Tensor, device: str | None = None) -> Explanation:
    """Where the pending ops of `tensors` will run and why; empty if there are none.

    Makes the plan and compiles its kernels, so that running it later takes no time for that. What runs inside
    `with explanation.measure():` is timed kernel by kernel. A function that `jit` has captured has a method `explain`
    of its own.

    device: what must run every op, as for `Tensor.realize`. Raises DeviceError with the op and the reason if it cannot,
    ArgumentError for what is no tensor.
    """
    from npu_tensor.observe.explain import explain_nodes

    return explain_nodes(pending("explain", tensors), device)
