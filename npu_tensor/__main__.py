"""`python -m npu_tensor` is `npu-tensor`."""

from npu_tensor.cli import main

main(prog_name="npu-tensor")
