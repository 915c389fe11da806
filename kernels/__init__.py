"""NPU kernels: a folder or file per family (claim, plan, design), with the C++ that its cores share in include/nt.

Installed as `npu_tensor.kernels`.
"""
