"""Command `npu-tensor kernel-source`: prints kernels as Python programs for mlir-aie's IRON.

The programs do not import this package, but their C++ includes its headers. `--all` writes the headers and the
instruction streams beside them: NAME.insts has the little-endian words that mlir-aie 1.4.1 generates for the program.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

import click

from npu_tensor.dataflow.array import Arch, arch_of
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.ggml_hsa import config_file, function_files, representative
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.kernels.offer import Float32
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import program
from npu_tensor.runtime.build.iron_worker import HEADERS
from npu_tensor.runtime.build.parameter_addresses import predicted
from npu_tensor.runtime.devices.detect import NotDetected, detect_arch
from npu_tensor.runtime.npu.kernel_name import kernel_name
from npu_tensor.runtime.store.files import write_atomically

NEAREST: Final = 5
_PARTIAL: Final = re.compile(r"\+|\dn(?=-|$)|-number\b|-[0-9a-f]{16}$")
"""Pattern of canonical names that denote several kernels."""
_TENSOR: Final = re.compile(r"(?P<extents>\d+(?:x\d+){0,3})(?P<dtype>[a-z]+\d+)")


@click.command()
@click.argument("name", required=False)
@click.option(
    "--arch",
    metavar="ARRAY",
    help="aie2, aie2p, npu1, Strix and so on; default: NPU_TENSOR_ARCH, else this machine's NPU.",
)
@click.option("--columns", type=click.IntRange(min=1), help="Columns of the array that are used; default: all.")
@click.option("--float32", type=click.Choice(get_args(Float32)), help="Treatment of float32 on the array.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take NAME from this configuration of kernels.",
)
@click.option("--list", "only_list", is_flag=True, help="Print the names that there are.")
@click.option("--all", "everything", is_flag=True, help="Write all programs, headers and instructions into --out.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Directory for --all.")
def kernel_source(
    name: str | None,
    arch: str | None,
    columns: int | None,
    float32: Float32 | None,
    config: Path | None,
    only_list: bool,
    everything: bool,
    out: Path | None,
) -> None:
    """Print the IRON program of the kernel NAME.

    NAME is one of those that --list prints, one for each family, variant and dtype; or, with --config, an exported name
    of a configuration; or the name of a kernel of GGML, such as add-1024bf16-1024bf16-1024bf16. A name with +, with a
    hash at its end or with an n after a dtype does not define the kernel: record the program that needs it with
    NPU_TENSOR_RECORD=FILE, and give --config FILE.
    """
    if sum((name is not None, only_list, everything)) != 1:
        raise click.UsageError("give a NAME, --list or --all")
    if everything != (out is not None):
        raise click.UsageError("--all and --out go together")
    there = _entries(arch, config)
    if only_list:
        for entry in there:
            click.echo(entry.exported_name)
        return
    named = there if name is None else [_find(name, there, arch)]
    entries = [_changed(entry, columns, float32) for entry in named]
    if out is None:
        click.echo(program(entries[0].request().design), nl=False)
    else:
        _write(entries, out)


def _changed(entry: Entry, columns: int | None, float32: Float32 | None) -> Entry:
    most = entry.target.array.columns
    if columns is not None and columns > most:
        raise click.BadParameter(f"{entry.arch} has {most} columns, not {columns}", param_hint="--columns")
    return replace(entry, cols=columns or entry.cols, float32=float32 or entry.float32)


def _arch(asked: str | None) -> Arch:
    try:
        return detect_arch(asked or "").arch
    except NotDetected:
        raise ArgumentError(
            "which array? Give --arch aie2 or --arch aie2p, or set NPU_TENSOR_ARCH (no NPU was found here)"
        ) from None


def _entries(arch: str | None, config: Path | None) -> Sequence[Entry]:
    """Return the named kernels: the representative ones, or those of a configuration, which must be valid."""
    if config is None:
        return representative.entries(_arch(arch))
    entries = config_file.require_valid(config_file.load(config), str(config))
    return [entry for entry in entries if arch is None or entry.arch == arch_of(arch)]


def _find(name: str, there: Sequence[Entry], arch: str | None) -> Entry:
    """Return the kernel with this name. Raises ArgumentError with similar names."""
    match = next((entry for entry in there if entry.exported_name == name), None) or _canonical(name, arch)
    if match is None:
        near = difflib.get_close_matches(name, [entry.exported_name for entry in there], NEAREST, 0.3)
        hint = f"; near are {', '.join(near)}" if near else ""
        if _PARTIAL.search(name):
            hint += "; such a name does not say all: give --config FILE, written with NPU_TENSOR_RECORD=FILE"
        raise ArgumentError(f"there is no kernel {name!r}{hint}; --list prints all names")
    return match


def _canonical(name: str, arch: str | None) -> Entry | None:
    """Return the kernel with this canonical name, or None if the name is incomplete.

    A complete name has extents, dtypes and a function of this package. Raises ArgumentError if the kernel does not
    exist.
    """
    word, *parts = name.split("-")
    tensors = [_TENSOR.fullmatch(part) for part in parts]
    function = function_files.for_op(word)
    if not (function and tensors and all(tensors)):
        return None
    output, *inputs = (_descriptor(tensor) for tensor in tensors if tensor is not None)
    value = {
        "kernel_name": function,
        "kernel_source": function_files.packaged()[function].name,
        "arch": _arch(arch),
        "input_tensors": inputs,
        "output_tensor": output,
        "exported_name": name,
    }
    entry = config_file.entry(value, 0)
    if isinstance(entry, config_file.Problem):
        raise ArgumentError(f"there is no kernel {name!r}: {entry.message}")
    actual = kernel_name(entry.planned.task)
    if actual != name:
        raise ArgumentError(f"there is no kernel {name!r}; the one of this op for these tensors is {actual}")
    return entry


def _descriptor(tensor: re.Match[str]) -> str:
    extents = tensor["extents"].split("x")
    return f"({','.join([*extents, *'1' * (4 - len(extents))])})/{tensor['dtype']}"


def _write_instructions(entry: Entry, out: Path) -> bool:
    """Write the instruction stream, or print why its words are unknown before compilation."""
    design = entry.request().design
    try:
        words = instructions(design, predicted(design))
    except NpuTensorError as error:
        click.echo(f"{entry.exported_name}: no instructions: {error}", err=True)
        return False
    write_atomically(out / f"{entry.exported_name}.insts", words.astype("<u4").tobytes())
    return True


def _write(entries: Sequence[Entry], out: Path) -> None:
    """Write programs, instruction streams and the C++ headers. Print the number of files and the omissions."""
    headers = sorted((HEADERS / "nt").glob("*.hpp"))
    (out / "include" / "nt").mkdir(parents=True, exist_ok=True)
    for header in headers:
        write_atomically(out / "include" / "nt" / header.name, header.read_bytes())
    failed = streams = 0
    for entry in entries:
        try:
            text = program(entry.request().design)
        except NpuTensorError as error:
            failed += 1
            click.echo(f"{entry.exported_name}: {error}", err=True)
        else:
            write_atomically(out / f"{entry.exported_name}.py", text.encode())
            streams += _write_instructions(entry, out)
    written = f"{len(entries) - failed} programs, {streams} instruction streams and {len(headers)} headers"
    click.echo(f"{written} in {out}")
    if failed:
        raise click.ClickException(f"{failed} of {len(entries)} kernels have no program for mlir-aie")
