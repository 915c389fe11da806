"""Example configurations of npu-tensor gen-kernels, part of the package as `npu_tensor.ggml_hsa.examples`."""
