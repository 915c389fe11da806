"""Command `npu-tensor run`: runs a model from a file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import npu_tensor as nt
from npu_tensor._util.output_files import in_a_directory
from npu_tensor.cli.options import device_option
from npu_tensor.interop.imported_graph import ImportedInput, ImportedModule, Reference
from npu_tensor.interop.saved_function import SavedFunction, saved_calls
from npu_tensor.jit.trees import flatten
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.observe.profiling import profile
from npu_tensor.spec import Spec

READERS: Final = {".npt": "load", ".onnx": "load_onnx", ".pt2": "load_pt2"}
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

    MODEL is an ONNX file, a program of torch.export (pt2) or a function that nt.save has written (npt). Prints its
    outputs and the times of the first and of later runs. Random inputs are the same each time: normal numbers, and
    integers and bools that are 0 or 1. Tensors inside of an input x are x[0] or x['key'], and positional arguments of a
    function are argument_0, argument_1 and so on.
    """
    reader = getattr(nt, READERS.get(model.suffix.lower(), ""), None)
    if reader is None:
        raise click.BadParameter(f"{model.name} is not one of *{', *'.join(READERS)}", param_hint="MODEL")
    nt.set_default_device(device)
    module = reader(model)
    if not callable(module):
        raise click.BadParameter(f"{model.name} holds tensors, not a function", param_hint="MODEL")
    args, named = _arguments(module, inputs_file, dict(_shape(text) for text in shapes))
    jitted = nt.jit(module)
    function: Callable[..., Any] = jitted
    start = time.perf_counter()
    try:
        results = _computed(function, args, named)
    except nt.CaptureError as error:
        click.echo(f"without jit: {error}", err=True)
        function, start = module, time.perf_counter()
        results = _computed(function, args, named)
    seconds = [time.perf_counter() - start]
    for _ in range(HOT_RUNS):
        start = time.perf_counter()
        _computed(function, args, named)
        seconds.append(time.perf_counter() - start)
    outputs = dict(zip(_output_names(module, len(results)), results, strict=True))
    print_table(
        f"outputs of {model.name}",
        ("output", "dtype", "shape", *_FIGURES),
        ((name, each.dtype.name, list(each.shape), *_range(each.numpy())) for name, each in outputs.items()),
        _FIGURES,
    )
    click.echo(f"first run {seconds[0] * 1e3:.1f} ms, median of {HOT_RUNS} more {_milliseconds(seconds[1:])} ms")
    if explain:
        click.echo(nt.explain(*results) if function is module else jitted.explain(*args, **named))
    if with_profile:
        with profile() as run:
            _computed(function, args, named)
        click.echo(f"{run.heading}\n{run.by('op')}")
    if output is not None:
        with output.open("wb") as file:  # nt.save takes the format from the suffix of a path.
            nt.save(outputs, file)


def _milliseconds(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.3f}"


def _computed(function: Callable[..., Any], args: list[Any], named: Mapping[str, Any]) -> list[nt.Tensor]:
    tensors: list[nt.Tensor] = []
    flatten(function(*args, **named), tensors)
    nt.realize(*tensors)
    return tensors


def _output_names(module: nt.nn.Module, count: int) -> list[str]:
    outputs = module.graph.outputs if isinstance(module, ImportedModule) else ()
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


def _arguments(
    module: Any, file: Path | None, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call: tensors of the file, and random ones for the rest."""
    stored = {} if file is None else nt.load(file)
    if not isinstance(stored, dict):
        raise click.BadParameter(f"{file} holds one array without a name", param_hint="--inputs")
    calls = saved_calls(module) if isinstance(module, SavedFunction) else [((), module.graph.inputs)]
    patterns = [{**{f"argument_{n}": each for n, each in enumerate(args)}, **named} for args, named in calls]
    tables = [dict(_leaves(pattern)) for pattern in patterns]
    known = next((n for n, table in enumerate(tables) if _accepts(table, stored)), 0)
    leaves = tables[known]
    for name in (*stored, *shapes):
        if name not in leaves:
            raise click.UsageError(f"the model has no input {name!r}; it has {', '.join(leaves)}")
    generator = np.random.default_rng(0)
    tensors = {
        name: stored[name] if name in stored else _random(name, leaf, shapes.get(name), generator)
        for name, leaf in leaves.items()
    }
    values = [_filled(name, each, tensors) for name, each in patterns[known].items()]
    count = len(calls[known][0])
    return values[:count], dict(zip([*patterns[known]][count:], values[count:], strict=True))


def _parts(name: str, pattern: Any) -> dict[str, Any] | None:
    """Return the elements of a nested argument by name, or None if it is a tensor or a constant."""
    if isinstance(pattern, dict):
        return {f"{name}[{key!r}]" if name else key: part for key, part in pattern.items()}
    if isinstance(pattern, (tuple, list)):
        return {f"{name}[{number}]": part for number, part in enumerate(pattern)}
    return None


def _leaves(pattern: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield name and description of each tensor in nested arguments."""
    parts = _parts(name, pattern)
    if parts is not None:
        for each, part in parts.items():
            yield from _leaves(part, each)
    elif isinstance(pattern, (ImportedInput, Spec)):
        yield name, pattern


def _filled(name: str, pattern: Any, tensors: Mapping[str, Any]) -> Any:
    """Return an argument with its tensors."""
    parts = _parts(name, pattern)
    if parts is None:
        return tensors.get(name, pattern)
    values = [_filled(each, part, tensors) for each, part in parts.items()]
    return dict(zip(pattern, values, strict=True)) if isinstance(pattern, dict) else type(pattern)(values)


def _accepts(leaves: Mapping[str, Any], stored: Mapping[str, nt.Tensor]) -> bool:
    """Return True if a signature has tensors of these names and specs."""
    return all(
        name in leaves and (leaves[name].dtype, leaves[name].shape) == (each.dtype, each.shape)
        for name, each in stored.items()
    )


def _random(name: str, leaf: Any, shape: tuple[int, ...] | None, generator: np.random.Generator) -> nt.Tensor:
    if leaf.dtype is None or (leaf.shape is None and shape is None):
        raise click.UsageError(f"the file does not say what the input {name!r} is; pass it with --inputs")
    shape = tuple(size or 1 for size in leaf.shape or ()) if shape is None else shape
    try:
        is_float = leaf.dtype.is_floating_point
        array = generator.standard_normal(shape, np.float32) if is_float else generator.integers(0, 2, shape)
    except (MemoryError, ValueError) as error:
        raise click.UsageError(f"input {name!r} of the shape {list(shape)}: {error}") from None
    return nt.from_numpy(array.astype(leaf.dtype.numpy))


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str, str]:
    if not array.size:
        return "", "", ""
    values = array.astype(np.float64)
    return f"{values.min():.6g}", f"{values.mean():.6g}", f"{values.max():.6g}"
