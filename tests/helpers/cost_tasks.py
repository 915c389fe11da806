"""Tasks of recorded graphs, and the answers of a device to them."""

from typing import Any

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner import selection
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.task import Cost, Device, Refusal


def tensor(dtype: str, *shape: int) -> nt.Tensor:
    """Zeros that are data and not a recorded op."""
    return nt.from_numpy(np.zeros(shape, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype))


def kernels(device: Device, result: nt.Tensor) -> list[Any]:
    """Return the kernel of every task of a pending tensor, in order."""
    answers = [device.claim(task) for task in cut(structure_of([result._node]), device.fusion).tasks]
    assert not any(isinstance(answer, Refusal) for answer in answers), answers
    return answers


def cost(device: Device, result: nt.Tensor) -> Cost:
    """Return the cost of a pending tensor that is one kernel."""
    (kernel,) = kernels(device, result)
    actual = kernel.cost
    assert isinstance(actual, Cost)
    return actual


def opened(uri: str) -> Any:
    """The device at a URI."""
    with nt.default_device(uri):
        return (*selection.accelerators(selection.current()), *host_devices())[0]
