"""NPU kernels: one Python file per family (claim and design) with its C++ for the AIE cores.

Installed as `npu_tensor.kernels`. Empty in this release: the kernels come with the NPU devices.
"""
