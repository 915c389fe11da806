"""NPU kernels of ops along rows."""
