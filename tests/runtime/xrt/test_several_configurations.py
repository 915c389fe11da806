"""Launches of several configurations: full ELFs on the second generation, xclbins of several kernels on the first."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from machine import Machine
from npu_faults import Fault
from npu_values import Rearranged, reordered
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.xrt.xrt_driver import XrtDriver

pytestmark = [pytest.mark.usefixtures("_unchecked", "less_optimised"), needs_compiler]

STANDIN = Path(__file__).parent / "standin" / "xclbinutil.py"


@pytest.fixture(autouse=True)
def _several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AIE_XCLBINUTIL", program(tmp_path, f'exec {shlex.join([sys.executable, str(STANDIN)])} "$@"'))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with config.scope(launch_milliseconds=500):
        yield


@pytest.fixture
def npu(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The default device: `machine` or `first_generation`."""
    machine: Machine = request.getfixturevalue(request.param)
    with nt.default_device("npu"):
        yield machine
    assert machine.complaints == []


BOTH = pytest.mark.parametrize("npu", ["machine", "first_generation"], indirect=True)
SECOND = pytest.mark.parametrize("npu", ["machine"], indirect=True)
FIRST = pytest.mark.parametrize("npu", ["first_generation"], indirect=True)


def program(directory: Path, command: str) -> str:
    path = directory / "xclbinutil"
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return str(path)


@BOTH
def test_several_configurations_are_one_launch(npu: Machine) -> None:
    work = Rearranged()
    explanation = nt.explain(work.recorded())
    assert (explanation.launches, explanation.configuration_changes, explanation.context_switches) == (1, 3, 0)
    work.compute()  # The first is compared with its kernels one by one.
    before, contexts = npu.submissions, npu.contexts_made
    work.compute()
    # A full ELF is one run of XRT; else there is one for each configuration, of which the first is loaded anew.
    assert npu.submissions - before == (3 if npu.devices[0].first_generation else 1)
    assert npu.contexts_made == contexts


@pytest.mark.parametrize("npu", ["machine", pytest.param("first_generation", marks=pytest.mark.slow)], indirect=True)
def test_a_run_with_other_numbers(npu: Machine) -> None:
    """On the first generation each part gets the words of its own kernels; a full ELF has those of its first run."""
    order = np.random.default_rng(2).permutation(16).astype(np.int32)
    values = np.arange(-256, 256, dtype=np.float32).reshape(16, 32)
    x, at = nt.from_numpy(values).to(nt.bfloat16).realize(), nt.from_numpy(order)

    def scaled(first: float, second: float) -> nt.Tensor:
        return (x * first).index_select(0, at) * second

    explanation = nt.explain(scaled(0.5, 4.0))
    assert (explanation.launches, explanation.configuration_changes) == (1, 2)
    runs = []
    for first, second in ((0.5, 4.0), (0.5, 4.0), (0.25, 2.0), (2.0, 0.5)):
        before = npu.submissions
        np.testing.assert_array_equal(scaled(first, second).numpy().astype(np.float32), values[order] * first * second)
        runs.append(npu.submissions - before)
    # The first is compared with its kernels one by one; with other numbers a full ELF is replaced by them.
    assert runs[1:] == ([3, 3, 3] if npu.devices[0].first_generation else [1, 3, 3])


@FIRST
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TIMEOUT, Fault.START, Fault.HANG], ids=lambda fault: fault.name)
def test_a_fault_between_the_runs(npu: Machine, fault: Fault) -> None:
    work = Rearranged()
    with patch.object(XrtDriver, "launch_seconds", 1.0):
        work.compute()
        npu.inject(fault, after=1)
        with pytest.warns(RuntimeWarning, match="the CPU computes"):
            work.compute()


@BOTH
def test_kernels_that_cannot_be_packed_are_launched_one_by_one(
    npu: Machine, standin_library: KernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler no ELF is built, and without XRT's program no xclbins are packed."""
    work = Rearranged()
    with config.scope(launch_milliseconds=0):
        nt.realize(work.recorded(), reordered(2)[0])
    selection.reset()
    monkeypatch.setenv("AIE_XCLBINUTIL", "/nowhere/xclbinutil")
    monkeypatch.setattr(standin_library.backend, "missing", lambda: "there is no compiler")
    explanation = nt.explain(work.recorded(), reordered(4)[0])
    assert explanation.launches > 2
    assert explanation.context_switches == explanation.configuration_changes > 1
    # Kernels of one configuration are still one launch.
    assert len({row.launch for row in explanation[-4:] if row.kernel == "get_rows"}) == 1
    work.compute()
