"""python -m npu_tensor.ggml_hsa.build: one kernel from arguments, as ggml-hsa's build.py takes them.

    python -m npu_tensor.ggml_hsa.build --op_name ADD --arch aie2 \\
        --input_tensors "(1024,1,1,1)/bf16" "(1024,1,1,1)/bf16" --output_tensor "(1024,1,1,1)/bf16" \\
        --exported_name add_bf16_1024 --output_directory kernels
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa.config_file import Problem, read
from npu_tensor.ggml_hsa.executors import open_executor
from npu_tensor.ggml_hsa.function_files import PACKAGED, functions
from npu_tensor.ggml_hsa.generate import generate

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    # argparse, because an option of click cannot take any number of values.
    parser = argparse.ArgumentParser(prog="python -m npu_tensor.ggml_hsa.build", description="Build one kernel.")
    parser.add_argument("--op_name", "--op-name", required=True, help="GGML's name, such as ADD, GELU or MUL_MAT")
    parser.add_argument("--arch", required=True, help="aie2 or aie2p")
    parser.add_argument(
        "--input_tensors", "--input-tensors", nargs="+", required=True, metavar="DESC", help='"(1024,1,1,1)/bf16"'
    )
    parser.add_argument("--output_tensor", "--output-tensor", required=True, metavar="DESC")
    parser.add_argument("--exported_name", "--exported-name", required=True, help="name of the files")
    parser.add_argument("--output_directory", "--output-directory", required=True, type=Path)
    parser.add_argument("--op-params", "--op_params", default="{}", metavar="JSON", help='such as {"scale": 0.5}')
    parser.add_argument("--target", choices=("iron", "host"), default="iron", help="host: for the simulated NPU")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what the compilers are told and say")
    return parser


def _function(op_name: str) -> tuple[str, str]:
    """File and name of the kernel function for an op. Raises ArgumentError."""
    word = op_name.removeprefix("GGML_OP_").removeprefix("GGML_UNARY_OP_").lower()
    known = set()
    for path in sorted(PACKAGED.glob("*.py")):
        for name in functions(path):
            for prefix in ("ggml_op_", "ggml_unary_op_"):
                if name == prefix + word:
                    return path.name, name
                if name.startswith(prefix):
                    known.add(name.removeprefix(prefix).upper())
    raise ArgumentError(f"no kernel function for the op {op_name!r}; there are {', '.join(sorted(known))}")


def _entry(given: argparse.Namespace) -> dict[str, Any]:
    source, name = _function(given.op_name)
    try:
        op_params = json.loads(given.op_params)
    except ValueError as error:
        raise ArgumentError(f"--op-params is not JSON: {error}") from None
    return {
        "kernel_name": name,
        "kernel_source": source,
        "arch": given.arch,
        "input_tensors": given.input_tensors,
        "output_tensor": given.output_tensor,
        "exported_name": given.exported_name,
        **({"op_params": op_params} if op_params != {} else {}),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the kernel that the arguments describe. Exit code 0 if it is there in the end, else 1."""
    given = _parser().parse_args(arguments)
    try:
        (entry,) = read({"kernels": [_entry(given)]})
        if isinstance(entry, Problem):
            raise ArgumentError(str(entry))
        with config.scope(jit_verbose=given.verbose or config.jit_verbose), open_executor(jobs=1) as executor:
            return 0 if generate([entry], given.output_directory, given.target, executor) else 1
    except (NpuTensorError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
