"""python -m npu_tensor.ggml_hsa.build: one kernel from arguments, as ggml-hsa's build.py takes them.

    python -m npu_tensor.ggml_hsa.build --op_name ADD --arch aie2 \\
        --input_tensors "(1024,1,1,1)/bf16" "(1024,1,1,1)/bf16" --output_tensor "(1024,1,1,1)/bf16" \\
        --exported_name add_bf16_1024 --output_directory kernels
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import click

from npu_tensor.config import config
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa.config_file import Problem, read
from npu_tensor.ggml_hsa.function_files import for_op, packaged
from npu_tensor.ggml_hsa.generate import generate, open_executor

__all__ = ["main"]

_INPUTS = ("--input_tensors", "--input-tensors")


class _Command(click.Command):
    """Takes several values after one `--input_tensors`, as ggml-hsa's tool does."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        repeated: list[str] = []
        within = False
        for argument in args:
            if argument.startswith("-"):
                within = argument in _INPUTS
            elif within and repeated[-1] not in _INPUTS:
                repeated.append(_INPUTS[0])
            repeated.append(argument)
        return super().parse_args(context, repeated)


def _function(op_name: str) -> str:
    """The kernel function for an op. Raises ArgumentError."""
    function = for_op(op_name)
    if function is None:
        prefix = re.compile("ggml_(?:unary_)?op_")
        known = {prefix.sub("", name).upper() for name in packaged() if prefix.match(name)}
        raise ArgumentError(f"no kernel function for the op {op_name!r}; there are {', '.join(sorted(known))}")
    return function


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"--op-params is not JSON: {error}") from None


@click.command(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--op_name", "--op-name", required=True, help="GGML's name, such as ADD, GELU or MUL_MAT.")
@click.option("--arch", required=True, help="aie2 or aie2p.")
@click.option(*_INPUTS, multiple=True, required=True, metavar="DESC...", help='Such as "(1024,1,1,1)/bf16".')
@click.option("--output_tensor", "--output-tensor", required=True, metavar="DESC")
@click.option("--exported_name", "--exported-name", required=True, help="Name of the files.")
@click.option("--output_directory", "--output-directory", required=True, type=click.Path(path_type=Path))
@click.option("--op-params", "--op_params", default="{}", metavar="JSON", help='Such as {"scale": 0.5}.')
@click.option("--target", type=click.Choice(["iron", "host"]), default="iron", help="host: for the simulated NPU.")
@click.option("-v", "--verbose", is_flag=True, help="Print what the compilers are told and say.")
def main(
    op_name: str,
    op_params: str,
    output_directory: Path,
    target: Literal["iron", "host"],
    verbose: bool,
    input_tensors: tuple[str, ...],
    **fields: str,
) -> None:
    """Build one kernel. Exit code 0 if it is there in the end, else 1."""
    try:
        function = _function(op_name)
        entry = {
            "kernel_name": function,
            "kernel_source": packaged()[function].name,
            "input_tensors": list(input_tensors),
            "op_params": _json(op_params),
            **fields,
        }
        (kernel,) = read({"kernels": [entry]})
        if isinstance(kernel, Problem):
            raise ArgumentError(str(kernel))
        with config.scope(jit_verbose=verbose or config.jit_verbose), open_executor(jobs=1) as executor:
            number = generate([kernel], output_directory, target, executor)
    except (NpuTensorError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if not number:
        raise SystemExit(1)


if __name__ == "__main__":
    main(prog_name="python -m npu_tensor.ggml_hsa.build")
