"""PyTorch programs on npu_tensor: the backend of `torch.compile`, and programs of `torch.export`.

Imports PyTorch, so `import npu_tensor` does not import this package.
"""
