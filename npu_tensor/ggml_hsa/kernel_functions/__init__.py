"""The kernel functions of the pregeneration tool, one file per group, under the names that they have in ggml-hsa.

A configuration names the file (`kernel_source`) and the function (`kernel_name`). A function takes its operands as
tensors of four dimensions, whose shape is GGML's extents in NumPy's order, and what stands in `op_params` as keywords;
one with a parameter `output` is also given the TensorDesc of the result. A user's own file looks the same.
"""
