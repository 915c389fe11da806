"""Kernels that users write: C++ for a core of an NPU, a pattern of dataflow, and a NumPy function as contract."""
