"""Convolutions and pools of images whose channels are neighbours in memory: (channels,columns,rows,batch).

A program has its images in this order on an NPU; see planner/channels_last.py. Kernels are (columns,rows,channels of a
group,outputs), and a bias has one float32 number per output.
"""

from __future__ import annotations

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.functions.pooling import windows_of_pool


def convolution(src0: nt.Tensor, src1: nt.Tensor, *, stride: int = 1, padding: int = 0, groups: int = 1) -> nt.Tensor:
    """Convolve src0 with the kernel src1."""
    return _sums(src0, src1, stride, padding, groups).to(src0.dtype)


def convolution_relu(
    src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor, *, stride: int = 1, padding: int = 0, groups: int = 1
) -> nt.Tensor:
    """relu(convolution + src2) with a bias for each output."""
    sums = _sums(src0, src1, stride, padding, groups) + src2.reshape(src2.numel())
    return sums.relu().to(src0.dtype)


def convolution_residual(
    src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor, src3: nt.Tensor, *, padding: int = 0
) -> nt.Tensor:
    """relu(convolution + src2 + src3) with a bias src2 for each output and another image src3."""
    sums = (_sums(src0, src1, 1, padding, 1) + src2.reshape(src2.numel())).to(src0.dtype)
    return nt.relu(sums + src3)


def max_pool(src0: nt.Tensor, *, kernel: int, stride: int, padding: int = 0) -> nt.Tensor:
    """Return the maximum of every window."""
    return _pool("max", src0, kernel, stride, padding)


def mean_pool(src0: nt.Tensor, *, kernel: int, stride: int, padding: int = 0) -> nt.Tensor:
    """Return the mean of every window. Padding counts as zeros."""
    return _pool("avg", src0, kernel, stride, padding)


def _sums(image: nt.Tensor, kernel: nt.Tensor, stride: int, padding: int, groups: int) -> nt.Tensor:
    is_depthwise = groups == image.shape[3] == kernel.shape[0]
    convolve = ops.conv_2d_dw if is_depthwise else ops.conv_2d
    around = ((padding, padding),) * 2
    result: nt.Tensor = convolve(image, kernel, (stride, stride), around, (1, 1), groups, True, "float32")
    return result


def _pool(mode: str, image: nt.Tensor, kernel: int, stride: int, padding: int) -> nt.Tensor:
    size, steps, around, gaps, counts = windows_of_pool(image.shape[1:3], kernel, stride, padding, 1, False)
    result: nt.Tensor = ops.pool_2d(image, mode, size, steps, around, gaps, counts, channels_last=True)
    return result
