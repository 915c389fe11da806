"""The place of PyTorch's torch.nn, for `import npu_tensor.nn.functional as F`. There are no modules, only functions."""

from npu_tensor.nn import functional

__all__ = ["functional"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"npu_tensor.nn has no {name}, only `functional`: layers are functions of their weights here")
