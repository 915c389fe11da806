"""The XRT device from end to end, on the stand-in for pyxrt."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from unittest.mock import patch

import npu_images
import numpy as np
import pytest
from machine import Machine, Npu
from npu_values import as_float, close, joined, normal
from paths import ROOT
from running import heard, needs_compiler, python

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.events import Fallback
from npu_tensor.planner import selection
from npu_tensor.runtime.npu.contexts import MOST_CONTEXTS

pytestmark = [pytest.mark.usefixtures("_unchecked", "less_optimised"), needs_compiler]


@pytest.fixture
def npu(machine: Machine) -> Iterator[Machine]:
    """An NPU of the second generation, as the default device."""
    with nt.default_device("npu"):
        yield machine
        assert not machine.complaints


X, Y = normal(24, 64), normal(24, 64, seed=1)


# --- contexts


def test_a_context_holds_nothing_of_the_driver_when_it_is_gone(npu: Machine) -> None:
    """Instructions and runs go with it; the buffers of values stay in the pool."""
    with patch.dict(MOST_CONTEXTS, aie2=1, aie2p=1):
        before = 0
        for round in range(6):
            for number in range(3):
                nt.realize(*(joined(number, seed)[0] for seed in range(3)))
            if round == 2:
                before = npu.live_memories
        assert npu.live_memories == before
        assert npu.live_contexts == 1


# --- checks before a launch


def test_a_file_that_declares_fewer_arguments_is_not_launched(npu: Machine) -> None:
    result, expected = joined(0)
    arguments = property(lambda image: image.first_buffer + 1)
    with (
        mock.patch.object(npu_images.Image, "arguments", arguments),
        pytest.warns(RuntimeWarning, match="has 3 host buffers, and its file declares 1; the CPU computes"),
    ):
        np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.launches == 0
    # It stays so: the file does not get better.
    again, expected = joined(0, seed=1)
    with heard(Fallback) as seen:
        np.testing.assert_array_equal(again.numpy(), expected)
    assert "its file declares 1" in seen[0].reason
    other, expected = joined(1)
    np.testing.assert_array_equal(other.numpy(), expected)
    assert npu.launches == 1


# --- runtime parameters, full ELFs


def test_numbers_are_patched_for_every_run(npu: Machine) -> None:
    """This holds while the previous run is in flight: its result needs its own numbers."""
    x = nt.from_numpy(X)
    npu.polls = 3
    pairs = [((x * factor + (1 - factor)).relu(), factor) for factor in (2.0, -0.5, 3.0, 3.0, 0.25)]
    for result, _ in pairs:
        result.realize(wait=False)
    assert pairs[-1][0]._node.value.pending
    for result, factor in pairs:
        close(result, np.maximum(as_float(X) * factor + (1 - factor), 0))
    assert (npu.launches, npu.contexts_made) == (5, 1)


def formats(machine: Machine) -> set[str]:
    """Return the formats of loaded files."""
    return {core.image.format for npu in machine.devices for reference in npu.cores if (core := reference())}


def test_full_elfs(npu: Machine) -> None:
    """Full ELFs serve kernels without runtime parameters, beside xclbins."""
    with config.scope(kernel_format="elf"):
        for seed in range(2):
            pairs = [joined(number, seed) for number in (20, 21)]
            nt.realize(*(result for result, _ in pairs))
            for result, expected in pairs:
                np.testing.assert_array_equal(result.numpy(), expected)
                assert result.device == "npu"
        assert formats(npu) == {"elf"}
        close((nt.from_numpy(X) * 2 + 1).relu(), np.maximum(as_float(X) * 2 + 1, 0))
    assert formats(npu) == {"elf", "xclbin"}
    assert npu.launches == 5


def test_a_value_outlives_the_device(npu: Machine) -> None:
    result, expected = joined(0)
    result.realize(wait=False)
    view = result.numpy()
    other, also = joined(1)
    other.realize(wait=False)
    selection.reset()
    np.testing.assert_array_equal(view, expected)
    np.testing.assert_array_equal(other.numpy(), also)
    assert npu.live_contexts == 0


# --- several URIs, no NPU


def test_values_pass_from_one_device_to_the_other(machine: Machine) -> None:
    machine.devices.append(Npu(bdf="0000:c7:00.1"))
    machine.polls = 2
    with nt.default_device("npu://0000:c6:00.1"):
        first, expected = joined(0)
        first.realize(wait=False)
    with nt.default_device("npu://0000:c7:00.1"):
        second = nt.cat([first, first]).realize(wait=False)
        assert [value.device for value in (first, second)] == ["npu://0000:c6:00.1", "npu://0000:c7:00.1"]
        np.testing.assert_array_equal(second.numpy(), np.concatenate([expected, expected]))
    assert [npu.cores != set() for npu in machine.devices] == [True, True]


def test_one_npu_by_two_names_is_one_device(machine: Machine) -> None:
    with nt.default_device("npu"):
        value, expected = joined(0)
        value.realize()
    with nt.default_device("xdna://0000:c6:00.1"):
        nt.cat([value, value]).realize()  # The self-check reads the result.
        before = machine.syncs
        again = nt.cat([value, value]).realize()
    assert machine.syncs == before  # The operand is not read.
    np.testing.assert_array_equal(again.numpy(), np.concatenate([expected, expected]))


def test_without_pyxrt_the_cpu_computes_and_one_warning_says_why(tmp_path: Path) -> None:
    """In a process as users start it: the setting is read when the first value is needed."""
    program = (
        "import npu_tensor as nt\n"
        "print((nt.tensor([1.0, -2.0]) * 3).tolist())\n"
        "print((nt.tensor([1.0, -2.0]) * 4).tolist())\n"
        "print(nt.explain(nt.tensor([1.0]) + 2)[0].device)\n"
    )
    (tmp_path / "pyxrt.py").write_text("raise ImportError('libxrt_coreutil.so.2: cannot open shared object file')\n")
    settings = {"NPU_TENSOR_DEVICE": "npu", "NPU_TENSOR_XRT_PATH": "", "NPU_TENSOR_CACHE_DIR": str(config.cache_dir)}
    finished = python("-c", program, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}", **settings)
    assert finished.stdout.split("\n")[:3] == ["[3.0, -6.0]", "[4.0, -8.0]", "cpu"]
    assert finished.stderr.count("RuntimeWarning") == 1
    assert "left out: NPU_TENSOR_DEVICE" in finished.stderr or "left out: npu: there is no NPU" in finished.stderr
    assert "npu-tensor doctor" in finished.stderr
