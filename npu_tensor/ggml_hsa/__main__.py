"""python -m npu_tensor.ggml_hsa --builtin: puts ready kernels into the package, for a wheel that is built next.

Example:
    NPU_TENSOR_KERNEL_TARGETS=aie2,aie2p python -m npu_tensor.ggml_hsa --builtin --config model-kernels.json
    python -m pip wheel --no-deps .
"""

from __future__ import annotations

import logging
import shutil
from typing import Literal

import click

from npu_tensor._util.version import VERSION
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS, arch_of
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa.config_file import load_for
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.ggml_hsa.generate import generate, missing, open_executor
from npu_tensor.runtime.store import ready_kernels

__all__ = ["main"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--builtin", "wanted", is_flag=True, help="Make the kernels that are part of the package.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    default="example",
    show_default=True,
    help="JSON with the kernels to make, as npu-tensor-gen-kernels takes it.",
)
@click.option(
    "--target",
    type=click.Choice(["iron", "host"]),
    default="iron",
    show_default=True,
    help="iron: for NPUs, with mlir-aie; host: for the simulated ones, with this machine's C++ compiler.",
)
def main(wanted: bool, config_file: str, target: Literal["iron", "host"]) -> None:
    """Build the kernels that a wheel brings, for the arrays in NPU_TENSOR_KERNEL_TARGETS, or for all.

    They replace those that the package has. Exit code 0 if all of them are there in the end, 1 if not.
    """
    if not wanted:
        raise click.UsageError("Missing option '--builtin'.")
    directory = ready_kernels.BUILTIN
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    try:
        entries, complete = _entries(config_file)
        reason = missing(target, VERSION)
        if reason is not None:
            raise click.ClickException(reason)
        if directory.exists():
            shutil.rmtree(directory)
        with open_executor() as executor:
            number = generate(entries, directory, target, executor)
    except (NpuTensorError, OSError) as error:
        raise click.ClickException(str(error)) from None
    targets = ", ".join(ready_kernels.builtin_targets())
    click.echo(f"{directory}: {number} of {len(entries)} kernels for {targets}")
    if not complete or number < len(entries):
        raise SystemExit(1)


def _entries(config_file: str) -> tuple[list[Entry], bool]:
    """The kernels for the arrays that are asked for, and whether nothing is wrong with the others of the file.

    Raises ArgumentError, also if there are none for one of these arrays.
    """
    targets = [arch_of(name) for name in config.kernel_targets or ARRAYS]
    entries, problems = load_for(config_file, None, targets)
    without = [arch for arch in targets if arch not in {entry.arch for entry in entries}]
    if without:
        raise ArgumentError(f"{config_file} has no kernels for {' or '.join(without)}")
    return entries, not problems


if __name__ == "__main__":
    main(prog_name="python -m npu_tensor.ggml_hsa")
