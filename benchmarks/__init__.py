"""Benchmarks of npu_tensor beside PyTorch and NumPy; README.md explains how to run and read them."""
