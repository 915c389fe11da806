"""Entries of a configuration of ggml-hsa's tool."""

from typing import Any


def kernel_entry(op: str, arch: str, exported: str, tensor: str) -> dict[str, Any]:
    """A binary op of two tensors of one descriptor."""
    return {
        "kernel_name": f"ggml_op_{op}",
        "kernel_source": "binary_ops.py",
        "arch": arch,
        "input_tensors": [tensor, tensor],
        "output_tensor": tensor,
        "exported_name": exported,
    }
