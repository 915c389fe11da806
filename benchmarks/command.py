"""Benchmark command: selects suites, devices and peers, prints tables, writes and compares results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from npu_tensor._util.output_files import json_option

SUITES = ("dispatch", "ops", "chains", "matmul", "mlp", "transformer", "language", "cache", "kernel_model")
PEERS = ("numpy", "torch", "jax", "tinygrad", "ggml")
"""Names of the peers, repeated here because importing their modules takes a second."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--suite", "suites", type=click.Choice(SUITES), multiple=True, help="Only this suite. Repeatable.")
@click.option("--only", metavar="CASE", multiple=True, help="Only this workload, as in the tables. Repeatable.")
@click.option(
    "--device",
    "devices",
    metavar="URI",
    multiple=True,
    help="Device of npu_tensor: cpu, npu, sim:npu2. Repeatable; by default cpu, and npu where there is one.",
)
@click.option("--peer", "peers", type=click.Choice([*PEERS, "none"]), multiple=True, help="Only this peer. Repeatable.")
@click.option("--quick", is_flag=True, help="Few samples and small sizes: some minutes on two cores.")
@json_option("the results, which --compare reads")
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), help="Write an HTML page into this folder.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Results to compare with. Exit code 1 if something of npu_tensor has become slower or is left out now.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=1, min_open=True),
    default=1.25,
    show_default=True,
    help="Slowdown from which a result counts as a regression.",
)
def bench(**options: Any) -> None:
    """Measure npu_tensor beside others.

    Those are NumPy, PyTorch, JAX, tinygrad and GGML, where they are installed.
    Contenders take turns in one process with equal numbers of threads; peers compute on the CPU, wherever npu_tensor
    does. Times on NPUs that are not there are predicted or simulated, and say so. Exit code 1 if npu_tensor fails.
    """
    from .run import Options, run

    options |= {"suites": options["suites"] or SUITES, "peers": options["peers"] or PEERS}
    if not run(Options(**options)):
        raise SystemExit(1)
