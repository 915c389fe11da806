"""Command `npu-tensor run`: runs a model from a file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import npu_tensor as nt
from npu_tensor._util.output_files import in_a_directory
from npu_tensor.cli.options import device_errors, device_option, failures
from npu_tensor.interop.imported_graph import ImportedInput, ImportedModule, Reference
from npu_tensor.jit.trees import flatten
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.observe.profiling import profile

__all__ = ["run_model"]

READERS: Final = {".onnx": "load_onnx", ".pt2": "load_pt2"}
"""Function of `npu_tensor` for each kind of file."""

HOT_RUNS: Final = 10

_FIGURES: Final = ("smallest", "mean", "largest")


@click.command("run")
@click.option(
    "--inputs",
    "inputs_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="NumPy archive (npz) with an array for each input, by name. Inputs without one are random.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=N,N,...",
    help="Shape of a random input. Once per input; without it, dimensions that the file leaves open are 1.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=in_a_directory,
    help="NumPy archive (npz) for the outputs, by name.",
)
@click.option("--explain", is_flag=True, help="Also print where every op runs and why.")
@click.option("--profile", "with_profile", is_flag=True, help="Also print where the time of a run went.")
@device_option()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def run_model(
    model: Path,
    inputs_file: Path | None,
    shapes: tuple[str, ...],
    output: Path | None,
    explain: bool,
    with_profile: bool,
    device: str,
) -> None:
    """Run a model from a file.

    MODEL is an ONNX file or a program of torch.export (pt2). Prints its outputs and the times of the first and of
    later runs. Random inputs are the same each time: normal numbers, and integers and bools that are 0 or 1.
    """
    reader = getattr(nt, READERS.get(model.suffix.lower(), ""), None)
    if reader is None:
        raise click.BadParameter(f"{model.name} is not one of *{', *'.join(READERS)}", param_hint="MODEL")
    with device_errors(), failures():
        nt.set_default_device(device)
        module = reader(model)
        inputs = _inputs(module, inputs_file, dict(_shape(text) for text in shapes))
        jitted = nt.jit(module)
        function: Callable[..., Any] = jitted
        start = time.perf_counter()
        try:
            results = _computed(function, inputs)
        except nt.CaptureError as error:
            click.echo(f"without jit: {error}", err=True)
            function, start = module, time.perf_counter()
            results = _computed(function, inputs)
        seconds = [time.perf_counter() - start]
        for _ in range(HOT_RUNS):
            start = time.perf_counter()
            _computed(function, inputs)
            seconds.append(time.perf_counter() - start)
        named = dict(zip(_output_names(module, len(results)), results, strict=True))
        print_table(
            f"outputs of {model.name}",
            ("output", "dtype", "shape", *_FIGURES),
            ((name, each.dtype.name, list(each.shape), *_range(each.numpy())) for name, each in named.items()),
            _FIGURES,
        )
        click.echo(f"first run {seconds[0] * 1e3:.1f} ms, median of {HOT_RUNS} more {_milliseconds(seconds[1:])} ms")
        if explain:
            click.echo(nt.explain(*results) if function is module else jitted.explain(**inputs))
        if with_profile:
            with profile() as run:
                _computed(function, inputs)
            click.echo(f"{run.heading}\n{run.by('op')}")
        if output is not None:
            with output.open("wb") as file:  # nt.save takes the format from the suffix of a path.
                nt.save(named, file)


def _milliseconds(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.3f}"


def _computed(function: Callable[..., Any], inputs: Mapping[str, nt.Tensor]) -> list[nt.Tensor]:
    tensors: list[nt.Tensor] = []
    flatten(function(**inputs), tensors)
    nt.realize(*tensors)
    return tensors


def _output_names(module: ImportedModule, count: int) -> list[str]:
    outputs = module.graph.outputs
    each = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    if len(each) == count and all(isinstance(one, Reference) for one in each):
        return [one.name for one in each]
    return [f"output_{number}" for number in range(count)]


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse "name=1,3,224,224"."""
    name, separator, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(",") if size)
    except ValueError:
        shape = (-1,)
    if not separator or any(size < 0 for size in shape):
        raise click.BadParameter(f"{text!r} is not of the form NAME=N,N,...", param_hint="--shape")
    return name, shape


def _inputs(module: ImportedModule, file: Path | None, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, nt.Tensor]:
    """Return the inputs: those of the file, and random ones for the rest."""
    given = {} if file is None else nt.load(file)
    if not isinstance(given, dict):
        raise click.BadParameter(f"{file} holds one array without a name", param_hint="--inputs")
    inputs = module.graph.inputs
    for name in (*given, *shapes):
        if name not in inputs:
            raise click.UsageError(f"the model has no input {name!r}; it has {', '.join(inputs)}")
    generator = np.random.default_rng(0)
    tensors = {}
    for name, each in inputs.items():
        if name in given:
            tensors[name] = given[name]
            continue
        if not isinstance(each, ImportedInput) or each.dtype is None or (each.shape is None and name not in shapes):
            raise click.UsageError(f"the file does not say what the input {name!r} is; pass it with --inputs")
        shape = shapes.get(name) or tuple(size or 1 for size in each.shape or ())
        try:
            is_float = each.dtype.is_floating_point
            array = generator.standard_normal(shape, np.float32) if is_float else generator.integers(0, 2, shape)
        except (MemoryError, ValueError) as error:
            raise click.UsageError(f"input {name!r} of the shape {list(shape)}: {error}") from None
        tensors[name] = nt.from_numpy(array.astype(each.dtype.numpy))
    return tensors


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str, str]:
    if not array.size:
        return "", "", ""
    values = array.astype(np.float64)
    return f"{values.min():.6g}", f"{values.mean():.6g}", f"{values.max():.6g}"
