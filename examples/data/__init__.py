"""Data files of the demo, installed as `npu_tensor.examples.data` so that an installed package finds them."""
