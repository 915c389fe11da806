"""Whole models beside PyTorch, ONNX Runtime and OpenVINO: python -m benchmarks.models_beside --json FILE.

Each contender runs in a process of its own with the same parameters, inputs and number of threads. The contenders take
turns in several rounds. A time is the median of the warm calls of a round, the smallest of all rounds. Results are
compared with that of PyTorch eager in the same dtype.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import npu_tensor as nt

from .report import Outcome, Table, benchmark
from .whole_models import WHOLE_MODELS

ROOT: Final = Path(__file__).resolve().parents[1]

SECONDS: Final = 3.0
"""Time that a contender calls its model for, after the warm-up."""

WARM_UP: Final = 4

ROUNDS: Final = 3
"""Rounds of all contenders. On a shared machine the medians of one contender differed by up to 60 %."""


def _torch_model(name: str, threads: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, inputs = WHOLE_MODELS[name].build(torch), tuple(map(torch.from_numpy, WHOLE_MODELS[name].inputs()))
    _use_own_statistics(torch, model, inputs)
    return model, inputs


def _use_own_statistics(torch: Any, model: Any, inputs: tuple[Any, ...]) -> None:
    """Give batch norms the statistics of the inputs, without which the results of deep random models are constant."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    with torch.no_grad():
        model(*inputs)
    for norm in norms:
        norm.eval()


def prepare(name: str, directory: str, threads: int) -> None:
    """Write the parameters, and the ONNX file if its exporter is installed."""
    import torch

    folder = Path(directory)
    model, inputs = _torch_model(name, threads)
    np.savez(folder / "state.npz", **{key: value.numpy() for key, value in model.state_dict().items()})
    try:
        torch.onnx.export(model, inputs, str(folder / "model.onnx"), dynamo=True, verbose=False)
    except ImportError as error:
        print(f"no ONNX file: {error}", file=sys.stderr)


def _torch(name: str, folder: Path, threads: int, dtype: str, compiled: bool = False) -> Callable[[], Any]:
    import torch

    model, inputs = _torch_model(name, threads)
    if dtype == "bfloat16":
        model = model.bfloat16()
        inputs = tuple(each.bfloat16() if each.is_floating_point() else each for each in inputs)
    if compiled:
        model = torch.compile(model)

    def call() -> Any:
        with torch.inference_mode():
            return model(*inputs).float().numpy()

    return call


def _onnx_runtime(name: str, folder: Path, threads: int, dtype: str) -> Callable[[], Any]:
    import onnxruntime

    if dtype != "float32":
        raise SystemExit(f"ONNX Runtime has no {dtype} models on the processor")

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    inputs = dict(zip([each.name for each in session.get_inputs()], WHOLE_MODELS[name].inputs(), strict=True))
    return lambda: session.run(None, inputs)[0]


def _openvino(name: str, folder: Path, threads: int, dtype: str) -> Callable[[], Any]:
    import openvino

    precision = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    if dtype != "float32" and precision.upper() not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise SystemExit(f"OpenVINO has no {dtype} on this processor")
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    model = openvino.compile_model(folder / "model.onnx", "CPU", settings)
    inputs = WHOLE_MODELS[name].inputs()
    return lambda: model(inputs)[0]


def _ours(name: str, folder: Path, threads: int, dtype: str, captured: bool = False) -> Callable[[], Any]:
    nt.set_num_threads(threads)
    model = WHOLE_MODELS[name].build(nt)
    with np.load(folder / "state.npz") as state:
        model.load_state_dict(dict(state))
    inputs = [nt.from_numpy(each).realize() for each in WHOLE_MODELS[name].inputs()]
    if dtype == "bfloat16":
        model = model.to(nt.bfloat16)
        inputs = [each.to(nt.bfloat16).realize() if each.is_floating_point() else each for each in inputs]
    if captured:
        model = nt.jit(model)

    def call() -> Any:
        with nt.no_grad():
            return model(*inputs).to(nt.float32).numpy()

    return call


CONTENDERS: Final[dict[str, Callable[[str, Path, int, str], Callable[[], Any]]]] = {
    "torch eager": _torch,
    "torch.compile": partial(_torch, compiled=True),
    "ONNX Runtime": _onnx_runtime,
    "OpenVINO": _openvino,
    "ours, lazy": _ours,
    "ours, nt.jit": partial(_ours, captured=True),
}
"""Functions that return the call to measure, by contender."""


def measure(name: str, contender: str, directory: str, threads: int, dtype: str) -> None:
    """Print the times of a contender as JSON and write its result."""
    folder = Path(directory)
    start = time.perf_counter()
    call = CONTENDERS[contender](name, folder, threads, dtype)
    result = call()
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        call()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    np.save(folder / f"{contender}.npy", result)
    print(json.dumps({"first_seconds": first, "seconds": statistics.median(times), "calls": len(times)}))


def _in_process(function: Callable[..., None], *arguments: str | int) -> str:
    """Call a function of this module in a process of its own. Return the last line that it prints; "" if it fails."""
    program = f"from {__package__}.models_beside import {function.__name__} as run; run(*{arguments!r})"
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        print(process.stderr.strip().splitlines()[-1], file=sys.stderr)
        return ""
    return (process.stdout.splitlines() or [""])[-1]


def _rows(models: Sequence[str], contenders: tuple[str, ...], threads: int, dtype: str) -> Iterator[dict[str, Any]]:
    for name in models:
        with tempfile.TemporaryDirectory() as temporary:
            _in_process(prepare, name, temporary, threads)
            row: dict[str, Any] = {"model": name, "what": WHOLE_MODELS[name].what, "threads": threads, "dtype": dtype}
            expected = None
            for contender in contenders * ROUNDS:
                line = _in_process(measure, name, contender, temporary, threads, dtype)
                if not line:
                    continue
                measured = json.loads(line)
                if contender in row:
                    row[contender]["seconds"] = min(row[contender]["seconds"], measured["seconds"])
                    continue
                row[contender] = measured
                result = np.load(Path(temporary, f"{contender}.npy"))
                expected = result if expected is None else expected
                row[contender]["error"] = float(abs(result - expected).max() / abs(expected).max())
            yield row


def _milliseconds(row: dict[str, Any], contender: str) -> str:
    return f"{row[contender]['seconds'] * 1e3:.3g}" if contender in row else "-"


def _ratio(row: dict[str, Any]) -> str:
    """Return the speed of the captured model relative to the best peer."""
    peers = [row[each]["seconds"] for each in CONTENDERS if each in row and not each.startswith("ours")]
    ours = row.get("ours, nt.jit")
    return f"{min(peers) / ours['seconds']:.2f}" if peers and ours else "-"


@benchmark("Only the smallest model.")
@click.argument("models", nargs=-1, type=click.Choice([*WHOLE_MODELS]))
@click.option("--contender", "contenders", type=click.Choice([*CONTENDERS]), multiple=True, help="Only this one.")
@click.option("--threads", type=int, default=0, help="Threads of each contender; default: those of npu_tensor.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
def main(models: tuple[str, ...], contenders: tuple[str, ...], threads: int, dtype: str, quick: bool) -> Outcome:
    """Measure whole models beside other engines, in milliseconds per call."""
    chosen = contenders or tuple(CONTENDERS)
    models = models or (("mlp",) if quick else tuple(WHOLE_MODELS))
    rows = list(_rows(models, chosen, threads or nt.get_num_threads(), dtype))
    cells = [[row["what"], *(_milliseconds(row, each) for each in chosen), _ratio(row)] for row in rows]
    text = Table(f"whole models in {dtype}, ms per call", ["model", *chosen, "jit against best"], cells)
    return Outcome({"rows": rows}, [text])


if __name__ == "__main__":
    main()
