"""NPU kernels that only move data."""
