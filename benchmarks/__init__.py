"""Benchmarks of npu_tensor beside PyTorch and NumPy; README.md says how to run and read them."""
