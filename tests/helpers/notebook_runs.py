"""Notebooks of examples/ and of tests, executed in kernels of this interpreter."""

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from npu_tensor.config import config
from npu_tensor.runtime import rates

SECONDS = 120
"""For one cell, so that a cell that hangs fails."""


def execute(path: Path, directory: Path) -> NotebookNode:
    """The notebook with what its cells put out. An error in a cell raises nbclient.exceptions.CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    # Without directories of kernels there is only the one of this interpreter.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    where = {"metadata": {"path": str(directory), "name": path.stem}}
    NotebookClient(notebook, km=manager, timeout=SECONDS, resources=where).execute(cleanup_kc=True)
    return notebook


def executed(path: Path, run_directory: Path) -> NotebookNode:
    """The same of a notebook of examples/, which is executed once for all processes of this run."""
    directory = run_directory / path.stem
    done = directory / "done.ipynb"
    with FileLock(run_directory / f"{path.stem}.lock"), pytest.MonkeyPatch.context() as patch:
        if not done.exists():
            (directory / "work").mkdir(parents=True, exist_ok=True)
            only_own_directories(directory, patch)
            if path.stem == "02_why_on_the_cpu":
                _calibrated(directory / "calibrated", patch)
            nbformat.write(execute(path, directory / "work"), directory / "part.ipynb")  # type: ignore[no-untyped-call]
            (directory / "part.ipynb").rename(done)
    return nbformat.read(done, as_version=4)  # type: ignore[no-untyped-call]


def only_own_directories(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Nothing that this user has is read."""
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(variable, str(directory / variable))
    for variable in ("NPU_TENSOR_DEVICE", "NPU_TENSOR_POLICY"):
        patch.delenv(variable, raising=False)


def _calibrated(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """A machine that was calibrated, with a CPU so fast that nothing would go to the NPU: the text is not about it."""
    patch.setenv("NPU_TENSOR_CACHE_DIR", str(directory))
    with config.scope(cache_path=str(directory)):
        usual = rates.processor_rates()
        fast = replace(usual, macs={unit: 1000 * rate for unit, rate in usual.macs.items()})
        rates.save("processor", rates.processor_identity(), fast)
    rates.forget()
