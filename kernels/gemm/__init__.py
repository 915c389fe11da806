"""NPU kernels of matrix products."""
