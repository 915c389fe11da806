"""What the simulated NPU and XRT share: kernels of an NPU, their names, packing and cost."""
