"""PyTorch's torch.signal, which holds windows only."""

from npu_tensor.signal import windows

__all__ = ["windows"]
