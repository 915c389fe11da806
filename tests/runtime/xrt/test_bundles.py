"""Launches of several configurations on the first generation: an xclbin of several kernels in one context."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from machine import Machine
from npu_faults import Fault

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.build import bundle
from npu_tensor.runtime.store.requests import Artifact

pytestmark = pytest.mark.usefixtures("_unchecked", "less_optimised")

STANDIN = Path(__file__).parent / "standin" / "xclbinutil.py"


@pytest.fixture(autouse=True)
def _several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    program = tmp_path / "xclbinutil"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(STANDIN)])} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("AIE_XCLBINUTIL", str(program))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with config.scope(launch_milliseconds=500):
        yield


def block(x: nt.Tensor, w: nt.Tensor, factor: float = 1.0) -> nt.Tensor:
    """Several configurations, one of them twice, with values that die inside."""
    return ((x @ w * factor).softmax(-1) @ w).relu() + x


@pytest.fixture
def operands() -> tuple[nt.Tensor, nt.Tensor]:
    generator = np.random.default_rng(0)
    x, w = (nt.from_numpy(generator.standard_normal((64, 64), np.float32)).to(nt.bfloat16) for _ in range(2))
    nt.realize(x, w)
    return x, w


def right(x: nt.Tensor, w: nt.Tensor, factor: float = 1.0) -> None:
    """Computes a block on the NPU."""
    expected = block(x.float(), w.float(), factor).numpy()
    with nt.default_device("npu"):
        np.testing.assert_allclose(block(x, w, factor).float().numpy(), expected, rtol=0.05, atol=0.1)


def test_several_configurations_are_one_launch(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor]
) -> None:
    with nt.default_device("npu"):
        explanation = nt.explain(block(*operands).float())
    assert (explanation.launches, explanation.context_switches) == (1, 0)
    assert explanation.configuration_changes > 1
    right(*operands)  # The first is compared with its kernels one by one.
    before, contexts = first_generation.submissions, first_generation.contexts_made
    right(*operands)
    # A run of XRT for each configuration; the first one is loaded anew in every launch.
    assert first_generation.submissions - before == explanation.configuration_changes
    assert first_generation.contexts_made == contexts
    assert first_generation.complaints == []


def test_another_extent_packs_nothing(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    right(*operands)
    contexts = first_generation.contexts_made
    monkeypatch.setattr(bundle, "run", None)
    x, w = operands
    right(nt.cat([x, x, x]).realize(), w)  # Their tiles are the same, those of two would differ.
    assert first_generation.contexts_made == contexts


def test_a_run_with_other_numbers_is_the_same_launch(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor]
) -> None:
    """Each part gets the words of its own kernels."""
    submissions = []
    for factor in (0.5, 0.25, 0.125):
        before = first_generation.submissions
        right(*operands, factor)
        submissions.append(first_generation.submissions - before)
    assert submissions[0] > submissions[1] == submissions[2]  # The first is compared with its kernels one by one.
    assert first_generation.complaints == []


def test_launches_of_a_plan_share_a_context(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor]
) -> None:
    """Also one of a single kernel, behind what only the processor computes."""
    x, w = operands

    def apart(x: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
        return (block(x, w).cumsum(-1) @ w).float()

    expected = apart(x.float(), w.float()).numpy()
    with nt.default_device("npu"):
        explanation = nt.explain(apart(x, w))
        assert (explanation.launches, explanation.context_switches) == (2, 0)
        apart(x, w).realize()
        contexts = first_generation.contexts_made
        for _ in range(2):
            np.testing.assert_allclose(apart(x, w).numpy(), expected, rtol=0.1, atol=1.0)
    assert first_generation.contexts_made == contexts
    assert first_generation.complaints == []


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TIMEOUT, Fault.START, Fault.HANG], ids=lambda fault: fault.name)
def test_a_fault_between_the_runs(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor], fault: Fault
) -> None:
    with config.scope(launch_seconds=1):
        right(*operands)
        first_generation.inject(fault, after=1)
        with pytest.warns(RuntimeWarning, match="the CPU computes"):
            right(*operands)


def test_without_the_program_launches_have_one_configuration(
    first_generation: Machine, operands: tuple[nt.Tensor, nt.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIE_XCLBINUTIL", "/nowhere/xclbinutil")
    selection.reset()
    with nt.default_device("npu"):
        explanation = nt.explain(block(*operands).float())
    assert explanation.launches > 1
    assert explanation.context_switches == explanation.configuration_changes > 1
    right(*operands)


# --- the file


def kernel(directory: Path, number: int) -> Artifact:
    """A kernel that is none: nothing is read of it but by xclbinutil."""
    files = {suffix: directory / f"{number}{suffix}" for suffix in (".xclbin", ".pdi")}
    for path in files.values():
        path.touch()
    return Artifact(f"kernel-{number}", f"{number}" * 64, files, "built", {"columns": 4 if number < 9 else 1})


def test_without_the_program_there_is_no_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIE_XCLBINUTIL", "/nowhere/xclbinutil")
    with pytest.raises(nt.BuildError, match=r"for one context: xclbinutil, which .* is not on PATH; install XRT"):
        bundle.bundle("aie2", [kernel(tmp_path, 1), kernel(tmp_path, 2)])


PARTITIONS = ["", "{}", '{"aie_partition": {"PDIs": []}}', '{"aie_partition": {"PDIs": [{}]}}']


@pytest.mark.parametrize("number", range(len(PARTITIONS)))
def test_a_file_without_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    program = tmp_path / "xclbinutil"
    program.write_text(f"#!/bin/sh\necho {shlex.quote(PARTITIONS[number])} > partition.json\n")
    program.chmod(0o755)
    monkeypatch.setenv("AIE_XCLBINUTIL", str(program))
    with pytest.raises(nt.BuildError, match=f"{number}.xclbin has no partition with one kernel"):
        bundle.bundle("aie2", [kernel(tmp_path, number), kernel(tmp_path, 9)])
    with pytest.raises(nt.BuildError, match="has no partition"):  # Nothing is remembered.
        bundle.bundle("aie2", [kernel(tmp_path, number), kernel(tmp_path, 9)])
