"""python tests/fuzz/fuzz_config.py -runs=2000: configurations of kernels that atheris makes up.

Every input is tried as the bytes of a file, and as a field of a valid kernel.
"""

import contextlib
import json
import sys
import warnings
from typing import Any

import atheris

with atheris.instrument_imports(include=["npu_tensor.ggml_hsa", "npu_tensor.runtime.npu.tensor_desc"]):
    from npu_tensor.errors import ArgumentError
    from npu_tensor.ggml_hsa import config_file

warnings.simplefilter("ignore")

KERNEL = {
    "kernel_name": "ggml_op_add",
    "kernel_source": "binary_ops.py",
    "arch": "aie2",
    "input_tensors": ["(16,1,1,1)/f32", "(16,1,1,1)/f32"],
    "output_tensor": "(16,1,1,1)/f32",
    "exported_name": "add",
    "op_params": {},
    "cols": 1,
    "float32": "emulate",
    "ops": [{"op": "add", "operands": [{"input": 0}, {"input": 1}], "attributes": {"alpha": 1}}],
}


def one_input(data: bytes) -> None:
    """Anything but kernels, problems or an ArgumentError ends the run."""
    with contextlib.suppress(ArgumentError):
        config_file.parse(data)
    made_up = atheris.FuzzedDataProvider(data)
    key = made_up.PickValueInList([*KERNEL])
    text = made_up.ConsumeUnicode(len(data))
    value: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
    result = config_file.entry(KERNEL | {key: value}, 0)
    str(result)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
