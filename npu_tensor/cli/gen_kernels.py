"""Command `npu-tensor gen-kernels`, also installed as `ggml-hsa-gen-kernels`: builds kernels in advance.

Example:
    npu-tensor gen-kernels my-kernels.json --output-dir ./precompiled --verbose
    export NPU_TENSOR_KERNEL_DIR=./precompiled
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click

from npu_tensor.config import config
from npu_tensor.dataflow.array import arch_of
from npu_tensor.errors import ArgumentError, BuildError, DeviceError, NpuTensorError
from npu_tensor.ggml_hsa.config_file import Entry, Problem, examples, find, load_for
from npu_tensor.ggml_hsa.generate import generate, open_executor
from npu_tensor.runtime.npu.kernel_name import kernel_name

logger = logging.getLogger("npu_tensor.ggml_hsa")


class _Echo(logging.Handler):
    """Handler that looks up stderr for every record: a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


@contextmanager
def _log_to_stderr(verbose: bool) -> Iterator[None]:
    """Write log records and warnings of the package to stderr in the form of ggml-hsa's tool."""
    handler = _Echo()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(), config.scope(**({"debug": 5} if verbose else {})):
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: logger.warning("%s", message)
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _arch(context: click.Context, parameter: click.Parameter, names: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(map(arch_of, names))
    except DeviceError as error:
        raise click.BadParameter(str(error)) from None


def _print_examples_dir(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(examples())
        context.exit()


@click.command("gen-kernels", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("config_file", metavar="CONFIG", required=False)
@click.option("--config", "config_option", metavar="FILE", help="The same as CONFIG, as ggml-hsa's tool has it.")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the kernels, which NPU_TENSOR_KERNEL_DIR then names; needed unless --dry-run or --list.",
)
@click.option(
    "--target",
    type=click.Choice(["iron", "host"]),
    default="iron",
    show_default=True,
    help="iron: for NPUs, with mlir-aie; host: for the simulated ones, with this machine's C++ compiler.",
)
@click.option(
    "--arch",
    "--target-device",
    multiple=True,
    callback=_arch,
    help="Only kernels for this array: aie2, npu2, Strix and so on; default: all.",
)
@click.option("--jobs", type=click.IntRange(min=0), default=0, help="Builds at once; 0 or nothing: all cores.")
@click.option(
    "--executor", metavar="dask://HOST:PORT", help="Let the workers of this Dask cluster build, which have a compiler."
)
@click.option("--force", is_flag=True, help="Build all anew, also those that are in the directory or in the cache.")
@click.option(
    "--kernels-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="First directory in the search for kernel sources, which are Python files that are run. Then follow those of "
    "the configuration and the package; sources elsewhere are refused.",
)
@click.option("--list", "only_list", is_flag=True, help="Print exported name, array and canonical name of each.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the configuration, for which its kernel sources are run; build nothing, need no compiler.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print the commands and the output of the compilers.")
@click.option(
    "--examples-dir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_examples_dir,
    help="Print where the installed examples are, and exit.",
)
def gen_kernels(
    config_file: str | None,
    config_option: str | None,
    output_dir: Path | None,
    target: Literal["iron", "host"],
    arch: Sequence[str],
    jobs: int,
    executor: str | None,
    force: bool,
    kernels_dir: Path | None,
    only_list: bool,
    dry_run: bool,
    verbose: bool,
) -> None:
    """Build the kernels that CONFIG lists in advance.

    Programs that use them need no compiler. CONFIG is JSON, or the name of an installed example: minimal or example. A
    program that runs with NPU_TENSOR_RECORD=FILE writes one. It is checked before the first kernel is built. Problems
    are reported, and the other kernels are built. The exit code is 0 only if all of them were.
    """
    if (config_file is None) == (config_option is None):
        raise click.UsageError("Missing argument 'CONFIG'." if config_file is None else "Give CONFIG or --config.")
    config_file = config_file or config_option
    assert config_file is not None
    if output_dir is None and not (only_list or dry_run):
        raise click.UsageError("Missing option '--output-dir'.")
    with _log_to_stderr(verbose):
        try:
            entries, problems = _load(config_file, kernels_dir, arch)
            number = len(entries)
            if only_list:
                width = max((len(entry.exported_name) for entry in entries), default=0)
                for entry in entries:
                    click.echo(f"{entry.exported_name:{width}}  {entry.arch:5}  {kernel_name(entry.planned.task)}")
            elif dry_run:
                logger.info("%d kernel(s) can be generated", number)
            else:
                assert output_dir is not None
                logger.info("Generating %d kernel(s)", number)
                with open_executor(executor, jobs) as pool:
                    number = generate(entries, output_dir, target, pool, force)
                logger.info("Generated %d/%d kernel(s) successfully", number, len(entries) + len(problems))
        except BuildError as error:
            # The prefix matches ggml-hsa's tool, which imports its compiler. Our message adds the install command.
            logger.error("Failed to import kernel build module: %s", str(error).removeprefix("no compiler: "))
            raise SystemExit(1) from None
        except (NpuTensorError, OSError) as error:
            logger.error("%s", error)
            raise SystemExit(1) from None
    if problems or number < len(entries):
        raise SystemExit(1)


def _load(config_file: str, kernels_dir: Path | None, arch: Sequence[str]) -> tuple[list[Entry], list[Problem]]:
    """Load the kernels of a configuration for some arrays, or for all, and log problems of the others.

    Raises ArgumentError if no kernel is for these arrays.
    """
    path = find(config_file)
    logger.info("Loading configuration from %s", path)
    entries, problems = load_for(config_file, kernels_dir, arch)
    if arch and not entries and not problems:
        others, _ = load_for(config_file, kernels_dir, ())
        there = ", ".join(sorted({entry.arch for entry in others})) or "no array"
        raise ArgumentError(f"{path} has no kernels for {' or '.join(arch)}, but for {there}")
    return entries, problems


if __name__ == "__main__":
    gen_kernels()
