"""python tests/fuzz/fuzz_tensor_desc.py -runs=20000: TensorDesc.parse on texts that atheris makes up."""

import contextlib
import sys
import warnings

import atheris

with atheris.instrument_imports(include=["npu_tensor.runtime.npu.tensor_desc"]):
    from npu_tensor.errors import ArgumentError
    from npu_tensor.runtime.npu.tensor_desc import TensorDesc

warnings.simplefilter("ignore")


def one_input(data: bytes) -> None:
    """Anything but a descriptor that its own text describes, or an ArgumentError, ends the run."""
    text = atheris.FuzzedDataProvider(data).ConsumeUnicode(len(data))
    with contextlib.suppress(ArgumentError):
        desc = TensorDesc.parse(text)
        assert TensorDesc.parse(str(desc)) == desc


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
