"""The XRT device from end to end, on the stand-in for pyxrt: results, contexts, buffers, submissions, reasons."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import npu_images
import numpy as np
import pytest
from machine import Machine, Npu
from npu_values import BF16, as_float, close, errors_of, joined, normal, recorded
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.events import ContextClosed, ContextOpened, Fallback
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.planner import selection
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.npu import buffers
from npu_tensor.runtime.npu.kernel_name import kernel_name
from npu_tensor.runtime.npu.packing import pack
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Artifact, Request
from npu_tensor.runtime.xrt import engines
from npu_tensor.runtime.xrt import xrt_device as device
from npu_tensor.task import Task

pytestmark = [
    pytest.mark.usefixtures("_unchecked"),
    needs_compiler,
]


@pytest.fixture
def npu(machine: Machine) -> Iterator[Machine]:
    """An NPU of the second generation, as the default device."""
    with nt.default_device("npu"):
        yield machine


X, Y = normal(24, 64), normal(24, 64, seed=1)
CHOSEN = np.random.default_rng(4).permutation(24).astype(np.int32)


# --- contexts


class Loading:
    """Which contexts were opened and closed meanwhile, by the number of the kernel that `joined` makes."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.seen: list[Any] = []

    def compute(self, number: int, seed: int = 0) -> None:
        result, expected = joined(number, seed)
        with recorded(ContextOpened, ContextClosed) as seen:
            np.testing.assert_array_equal(result.numpy(), expected)
        opened = [event.kernel for event in seen if isinstance(event, ContextOpened)]
        assert len(opened) <= 1
        self.names |= dict.fromkeys(opened, number)
        self.seen += seen

    def taken(self) -> list[tuple[str, int, int]]:
        """What happened since this was asked for last: how many contexts there are afterwards comes last."""
        found = [
            ("open" if isinstance(event, ContextOpened) else "close", self.names[event.kernel], event.contexts)
            for event in self.seen
        ]
        self.seen = []
        return found


@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EINVAL])
def test_the_context_that_was_used_longest_ago_goes(npu: Machine, refusal: int) -> None:
    npu.devices[0].context_limit, npu.devices[0].refusal = 3, refusal
    loading = Loading()
    for number in (0, 1, 2, 0):
        loading.compute(number)
    assert loading.taken() == [("open", 0, 1), ("open", 1, 2), ("open", 2, 3)]
    loading.compute(3)
    assert loading.taken() == [("close", 1, 2), ("open", 3, 3)]
    for number in (2, 0, 3):
        loading.compute(number, seed=1)
    assert loading.taken() == []
    loading.compute(1)
    assert loading.taken() == [("close", 2, 2), ("open", 1, 3)]
    assert (npu.contexts_made, npu.live_contexts) == (5, 3)
    assert not errors_of(npu)


@pytest.mark.parametrize(("npus", "limit"), [("npu1", 6), ("npu2", 16)], indirect=["npus"])
def test_as_many_contexts_are_kept_as_the_driver_allows(npus: Machine, limit: int) -> None:
    """On the first generation all go to make room for one: what is left of the others would fail."""
    loading = Loading()
    for number in range(limit):
        loading.compute(number)
    assert npus.live_contexts == limit
    loading.taken()
    loading.compute(limit)
    given_up = limit if limit == 6 else 1
    closed = [("close", number, limit - 1 - number) for number in range(given_up)]
    assert loading.taken() == [*closed, ("open", limit, limit - given_up + 1)]
    for number in range(limit + 1):
        loading.compute(number, seed=1)
    assert npus.live_contexts <= limit
    assert not errors_of(npus)


def test_no_more_contexts_are_kept_than_the_setting_says(npu: Machine) -> None:
    loading = Loading()
    with config.scope(max_contexts=2):
        for number in (0, 1, 2):
            loading.compute(number)
    assert loading.taken()[-2:] == [("close", 0, 1), ("open", 2, 2)]
    assert npu.live_contexts == 2


@pytest.mark.parametrize("npus", ["npu1", "npu2"], indirect=True)
def test_contexts_go_only_when_what_runs_in_them_has_ended(npus: Machine) -> None:
    npus.polls = 3
    npus.devices[0].context_limit = 2  # One that goes only later would be one too many.
    with config.scope(max_contexts=2):
        pairs = [joined(number % 5, seed=number) for number in range(15)]
        for result, _ in pairs:
            result.realize(wait=False)
        for result, expected in reversed(pairs):
            np.testing.assert_array_equal(result.numpy(), expected)
    assert npus.launches == 15
    assert npus.live_contexts <= 2
    assert not errors_of(npus)


def test_a_context_holds_nothing_of_the_driver_when_it_is_gone(npu: Machine) -> None:
    """Instructions, runs and lists of runs go with it; the buffers of values stay in the pool."""
    with config.scope(max_contexts=1):
        before = 0
        for round in range(6):
            for number in range(3):
                nt.realize(*(joined(number, seed)[0] for seed in range(3)))
            if round == 2:
                before = npu.live_bos
        assert npu.live_bos == before
        assert npu.live_contexts == 1


@pytest.fixture
def npus(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """An NPU of the generation that the test names, as the default device."""
    found: Machine = request.getfixturevalue("first_generation" if request.param == "npu1" else "machine")
    with nt.default_device("npu"):
        yield found


def test_quantized_weights_are_packed_once(npu: Machine) -> None:
    """Whatever they are multiplied with; both channels of all columns read the one copy."""
    numbers = normal(200, 96, seed=5).astype(np.float32)
    weights = nt.quantize(nt.from_numpy(numbers), "q8_0").realize()
    with mock.patch.object(buffers, "pack", wraps=pack) as packed:
        for seed, tokens in enumerate((1, 1, 40)):
            x = normal(tokens, 96, seed=seed)
            result = nt.linear(nt.from_numpy(x), weights)
            assert [row.kernel for row in nt.explain(result)] == ["quantized"]
            close(result, as_float(x) @ numbers.T.astype(np.float64))
    assert [call.args[0].order is not None for call in packed.call_args_list].count(True) == 1
    assert npu.launches == 3
    assert not errors_of(npu)


# --- what is checked before a launch


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
    with recorded(Fallback) as seen:
        np.testing.assert_array_equal(again.numpy(), expected)
    assert "its file declares 1" in seen[0].reason
    other, expected = joined(1)
    np.testing.assert_array_equal(other.numpy(), expected)
    assert npu.launches == 1


class Altered:
    """A kernel library that gives out other artefacts than it has."""

    def __init__(self, library: KernelLibrary, alter: Callable[[Request, Artifact], Artifact]) -> None:
        self._library = library
        self._alter = alter
        self.backend = library.backend
        self.prepare = library.prepare

    def find(self, request: Request) -> Artifact:
        return self._alter(request, self._library.find(request))


@pytest.fixture
def alter(monkeypatch: pytest.MonkeyPatch, standin_library: KernelLibrary) -> Callable[..., None]:
    """Let the device get altered artefacts."""

    def begin(change: Callable[[Request, Artifact], Artifact]) -> None:
        altered = Altered(standin_library, change)
        monkeypatch.setattr(device, "library", lambda: altered)

    return begin


def _as_made_for(arch: str, artifact: Artifact) -> Artifact:
    description = artifact.description
    return artifact._replace(description={**description, "made_from": {**description["made_from"], "arch": arch}})


def test_an_artefact_for_another_array_is_refused(npu: Machine, alter: Callable[..., None]) -> None:
    alter(lambda request, artifact: _as_made_for("aie2", artifact))
    result, expected = joined(0)
    row = nt.explain(result)[-1]
    assert row.device == "cpu"
    assert re.search("is made for aie2, and this NPU is aie2p", row.why)
    np.testing.assert_array_equal(result.numpy(), expected)
    assert (npu.launches, npu.contexts_made) == (0, 0)


@pytest.mark.parametrize(
    ("does", "says"),
    [("zeros", "its result differs from the CPU's"), ("error", "state ERROR"), ("timeout", "state TIMEOUT")],
)
def test_an_artefact_for_another_array_that_says_otherwise_gives_no_wrong_values(
    npu: Machine,
    alter: Callable[..., None],
    standin_library: KernelLibrary,
    monkeypatch: pytest.MonkeyPatch,
    does: Any,
    says: str,
) -> None:
    npu.wrong_arch = does
    older: list[Artifact] = []
    alter(lambda request, artifact: artifact._replace(files=older[0].files))
    claim = families.claim

    def claim_both(task: Task, target: Target) -> Any:
        offer = claim(task, Target(ARRAYS["aie2"], 4))
        assert isinstance(offer, Offer)
        older.append(standin_library.find(Request(kernel_name(task), offer.design())))
        return claim(task, target)

    monkeypatch.setattr(families, "claim", claim_both)
    result, expected = joined(0)
    with pytest.warns(RuntimeWarning, match=says):
        np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.launches == 1


# --- runtime parameters, full ELFs


def test_numbers_are_patched_for_every_run(npu: Machine) -> None:
    """Also while the run with the last ones is under way: what comes of it needs its own."""
    x = nt.from_numpy(X)
    npu.polls = 3
    pairs = [((x * factor + (1 - factor)).relu(), factor) for factor in (2.0, -0.5, 3.0, 3.0, 0.25)]
    for result, _ in pairs:
        result.realize(wait=False)
    assert pairs[-1][0]._node.value.pending
    for result, factor in pairs:
        close(result, np.maximum(as_float(X) * factor + (1 - factor), 0))
    assert (npu.launches, npu.contexts_made) == (5, 1)
    assert not errors_of(npu)


def test_two_steps_of_one_plan_have_numbers_of_their_own(npu: Machine) -> None:
    """They share a context and are submitted together."""
    x, y = nt.from_numpy(X), nt.from_numpy(Y)
    for a, b in ((2.0, 3.0), (-1.0, 0.5), (-1.0, 7.0)):
        before = npu.launches
        results = (x * a + 1).relu(), (y * b + 1).relu()
        nt.realize(*results)
        close(results[0], np.maximum(as_float(X) * a + 1, 0))
        close(results[1], np.maximum(as_float(Y) * b + 1, 0))
        assert npu.launches - before == 2
    assert npu.contexts_made == 1


def formats(machine: Machine) -> set[str]:
    """Of what is loaded."""
    return {core.image.format for npu in machine.devices for reference in npu.cores if (core := reference())}


def test_full_elfs(npu: Machine) -> None:
    """Where they are asked for, for kernels without runtime parameters; both kinds side by side."""
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
    assert not errors_of(npu)


# --- submissions


def test_consecutive_kernels_of_one_context_are_submitted_together(npu: Machine) -> None:
    """All but the last of at most 25 as a list, which XRT submits at once, and the last one by itself."""
    at = nt.from_numpy(CHOSEN)

    def chain(length: int, seed: int) -> None:
        value = nt.from_numpy(values := normal(24, 64, seed=seed))
        for _ in range(length):
            value, values = value.index_select(0, at), values[CHOSEN]
        np.testing.assert_array_equal(value.numpy(), values)

    chain(1, 0)  # Compared with the CPU by itself.
    for length, submissions in ((1, 1), (2, 2), (25, 2), (30, 4)):
        for seed in (1, 2):
            before = npu.launches, npu.submissions, npu.contexts_made
            chain(length, seed)
            assert npu.launches - before[0] == length
            assert npu.submissions - before[1] == submissions
            assert npu.contexts_made == before[2] == 1
    assert not errors_of(npu)


def test_kernels_of_different_contexts_wait_for_each_other(npu: Machine) -> None:
    """The stand-in runs nothing in a context before somebody asks there."""
    npu.polls = 2
    at = nt.from_numpy(CHOSEN)
    for seed in range(3):
        values = normal(24, 64, seed=seed)
        value = nt.from_numpy(values)
        for _ in range(4):
            value = nt.cat([value.index_select(0, at), value], 0).reshape(2, 24, 64)[0]
            value = nt.cat([value[:12], value[12:] * 2], 0)
            values = np.concatenate([values[CHOSEN][:12], values[CHOSEN][12:] * BF16.type(2)])
        rows = [row for row in nt.explain(value) if row.predicted is not None]
        assert {row.device for row in rows} == {"npu"}
        value.realize(wait=False)
        np.testing.assert_array_equal(value.numpy(), values)
    assert npu.contexts_made >= 3
    assert not errors_of(npu)


def test_asynchronous(npu: Machine) -> None:
    joined(0)[0].realize()
    npu.polls = 5
    polled = npu.state_polls
    pairs = [joined(0, seed) for seed in range(3)]
    for result, _ in pairs:
        assert result.realize(wait=False) is result
        assert result.device == "npu"
    assert npu.launches == 4
    buffers: list[Any] = [result._node.value for result, _ in pairs]
    assert buffers[-1].pending
    nt.synchronize()
    assert not any(buffer.pending for buffer in buffers)
    assert npu.state_polls > polled
    assert npu.from_device == 1  # Of the first launch, which was compared with the CPU.
    for result, expected in pairs:
        np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.from_device == 4


def test_begun_before_anybody_waits(npu: Machine) -> None:
    joined(0)[0].realize()
    polled, npu.polls = npu.state_polls, 5
    result, expected = joined(0, 1)
    result.realize(wait=False)
    assert (npu.launches, npu.state_polls) == (2, polled)
    np.testing.assert_array_equal(result.numpy(), expected)


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


# --- reasons and settings


def _only_on_cpu(result: nt.Tensor) -> str:
    (row,) = [row for row in nt.explain(result) if row.predicted is not None or row.device == "cpu"]
    assert row.device == "cpu"
    return row.why


def test_without_mlir_aie_the_reason_is_named(npu: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "library", lambda: KernelLibrary(IronBackend()))
    result, expected = joined(0)
    assert "no compiler: No module named 'aie'" in _only_on_cpu(result)
    np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.launches == 0


# --- several URIs, no NPU


@contextmanager
def used(uris: str) -> Iterator[None]:
    """Devices as the default ones, opened at once."""
    with nt.default_device(uris):
        selection.accelerators(selection.current())
        yield


@pytest.fixture
def pair(machine: Machine) -> Machine:
    """A second NPU of the same kind."""
    machine.devices.append(Npu(bdf="0000:c7:00.1"))
    return machine


def test_values_pass_from_one_device_to_the_other(pair: Machine) -> None:
    pair.polls = 2
    with nt.default_device("npu://0000:c6:00.1"):
        first, expected = joined(0)
        first.realize(wait=False)
    with nt.default_device("npu://0000:c7:00.1"):
        second = nt.cat([first, first]).realize(wait=False)
        assert [value.device for value in (first, second)] == ["npu://0000:c6:00.1", "npu://0000:c7:00.1"]
        np.testing.assert_array_equal(second.numpy(), np.concatenate([expected, expected]))
    assert [npu.cores != set() for npu in pair.devices] == [True, True]
    assert not errors_of(pair)


@pytest.mark.filterwarnings("ignore:the ordinals of NPUs may change")
def test_a_device_that_is_not_there_is_left_out_of_a_list(machine: Machine) -> None:
    with ExitStack() as stack:
        with pytest.warns(RuntimeWarning, match="left out: npu:5: device ordinal 5 out of range; 1 NPU devices"):
            stack.enter_context(used("npu:5,npu"))
        result, expected = joined(0)
        np.testing.assert_array_equal(result.numpy(), expected)
        assert result.device == "npu"


def test_one_npu_by_two_names_is_one_device(machine: Machine) -> None:
    with nt.default_device("npu"):
        value, expected = joined(0)
        value.realize()
    before = machine.from_device
    with nt.default_device("xdna://0000:c6:00.1"):
        again = nt.cat([value, value]).realize()
    assert machine.from_device == before + 1  # The self-check reads the result, and nobody the operand.
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
    environment = os.environ | {"NPU_TENSOR_DEVICE": "npu", "PYTHONPATH": str(tmp_path), "NPU_TENSOR_XRT_PATH": ""}
    environment |= {"NPU_TENSOR_CACHE_DIR": str(config.cache_dir)}
    finished = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split("\n")[:3] == ["[3.0, -6.0]", "[4.0, -8.0]", "cpu"]
    assert finished.stderr.count("RuntimeWarning") == 1
    assert "left out: NPU_TENSOR_DEVICE" in finished.stderr or "left out: npu: there is no NPU" in finished.stderr
    assert "npu-tensor doctor" in finished.stderr


# --- power


def test_keepalive_runs_what_is_loaded_on_buffers_of_its_own(machine: Machine) -> None:
    with nt.default_device("npu?keepalive=60"):
        result, expected = joined(0)
        result.realize()
        opened = engines._engines[0]
        thread = opened.keepalive._thread
        opened.touch()
        assert machine.launches == 2
        np.testing.assert_array_equal(result.numpy(), expected)
        result = joined(0, 1)[0].realize(wait=False)
        opened.touch()  # It is busy.
        assert machine.launches == 3
    selection.reset()
    assert opened.keepalive is None
    assert not thread.is_alive()


def test_a_device_in_use_can_be_kept_awake(npu: Machine) -> None:
    joined(0)[0].realize()
    assert engines._engines[0].keepalive is None
    with used("npu?keepalive=60"):
        assert engines._engines[0].keepalive is not None


@pytest.fixture
def xrt_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """XRT's tool, which notes how it was called and then does what a line of shell says."""

    def install(line: str) -> Path:
        tool, called = tmp_path / "xrt-smi", tmp_path / "called"
        tool.write_text(f'#!/bin/sh\necho "$@" >> {called}\n{line}\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return called

    return install


def test_the_power_mode_is_asked_for_once(machine: Machine, xrt_smi: Callable[[str], Path]) -> None:
    called = xrt_smi("exit 0")
    with nt.default_device("npu?power=high"):
        joined(0)[0].realize()
        joined(1)[0].realize()
    assert called.read_text() == "configure --device 0000:c6:00.1 --pmode performance\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [("echo 'Permission denied' >&2; exit 1", "exit code 1: Permission denied"), ("exit 3", "exit code 3")],
)
def test_work_goes_on_in_any_power_mode(machine: Machine, xrt_smi: Callable[[str], Path], line: str, says: str) -> None:
    xrt_smi(line)
    with ExitStack() as stack:
        with pytest.warns(RuntimeWarning, match=f"0000:c6:00.1 is not turbo: {says}"):
            stack.enter_context(used("npu?power=turbo"))
        result, expected = joined(0)
        np.testing.assert_array_equal(result.numpy(), expected)
        assert result.device.startswith("npu")
