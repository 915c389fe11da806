"""NPU kernels of element-wise ops."""
