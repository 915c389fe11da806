"""PyTorch's torch.signal, `npu_tensor.signal`, which holds windows only."""

from npu_tensor.functions import signal_windows as windows

__all__ = ["windows"]
