"""The self-test: all that it can say about a case, on simulated NPUs and on devices that do something wrong."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.cli import selftest as self_test
from npu_tensor.cli.selftest import HEADINGS, Report, kernel_cases, selftest
from npu_tensor.cli.selftest import selftest_command as command
from npu_tensor.cli.selftest.kernel_cases import FAMILIES, case_names, run_cases
from npu_tensor.cli.selftest.outcome import Outcome
from npu_tensor.cli.selftest.stages import STAGES, steps
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError, LaunchTimeout
from npu_tensor.ggml_hsa.representative import ALL, VARIANTS
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.devices.host import allocator
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.task import Cost, Expense, Fusion, Kernel, Output, Refusal, Step, Task


def test_all_cases_and_the_quick_ones() -> None:
    names = case_names()
    assert sorted(names) == sorted(f"{v.family}-{v.name}-{dtype}" for v in VARIANTS for dtype in v.dtypes)
    quick = [name.split("-") for name in case_names(quick=True)]
    pairs = {(variant.family, dtype) for variant in VARIANTS for dtype in variant.dtypes}
    assert sorted((family, dtype) for family, _, dtype in quick) == sorted(pairs)
    for family in FAMILIES:  # A variant comes again only after all of its family were there.
        variants = [variant for own, variant, _ in quick if own == family]
        known = {variant.name for variant in VARIANTS if variant.family == family}
        assert len(set(variants)) >= min(len(known), len(variants), 3)


@pytest.mark.usefixtures("_compiler", "less_optimised")
def test_a_simulated_npu_passes() -> None:
    before = nt.get_default_device()
    dtypes = ALL if os.environ.get("NPU_TENSOR_TEST_ALL") else ("bf16", "f32", "i8")
    report = selftest("sim:npu2", dtypes=dtypes, quick=True)
    assert report.ok, str(report)
    assert [row.result for row in report.rows] == ["pass"] * len(case_names(dtypes=dtypes, quick=True))
    names = [row.name.split("-") for row in report.rows]
    assert {family for family, _, _ in names} == set(FAMILIES)
    assert {dtype for _, _, dtype in names} == set(dtypes)
    for row in report.rows:
        assert row.seconds is None
        assert row.predicted > 0
        assert "predicted" in row.reason
        assert row.nmse is not None
        assert row.nmse == 0 or row.name.rpartition("-")[2] not in ("i8", "i16", "i32", "u8")
    assert any(row.nmse for row in report.rows)
    assert nt.get_default_device() == before
    assert "simulated" in str(report)


def test_the_cpu_passes() -> None:
    report = selftest("cpu", ["elementwise"], ["bfloat16"], quick=True)
    assert report.ok, str(report)
    assert all(row.seconds is not None and row.seconds > 0 for row in report.rows)


# --- devices that compute with NumPy and then do something wrong


Array = np.ndarray[Any, Any]
Damage = Callable[[Array], None]
"""Changes a result in place, or raises the error of a launch."""


COST = Cost(Expense(1e-3, 1e-3, 0.0), 0)


@dataclass
class BrokenKernel:
    """Computes the task, then lets `damage` change every result."""

    name: str
    device: str
    cost: Cost
    reason: str
    task: Task
    damage: Damage
    origin: str = "none"

    def bind(self) -> Step:
        right = ReferenceKernel(self.task, ReferenceDevice(allocator())).bind()

        def step(values: list[Any]) -> None:
            right(values)
            for output in self.task.outputs:
                self.damage(elements(values, output))

        return step


def elements(values: list[Any], output: Output) -> Array:
    return flat(values[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize]


class BrokenDevice:
    """refused: ops that it does not take."""

    uri = "cpu"
    fusion = Fusion()

    def __init__(self, damage: Damage, refused: Sequence[str] = ()) -> None:
        self.damage = damage
        self.refused = refused

    def claim(self, task: Task) -> Kernel | Refusal:
        if task.name in self.refused:
            return Refusal(f"{task.name} is too much")
        return BrokenKernel("broken", self.uri, COST, "as it was told", task, self.damage)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        raise RuntimeError("nothing can be prepared")


def run(monkeypatch: pytest.MonkeyPatch, damage: Damage, *families: str, refused: tuple[str, ...] = ()) -> Report:
    device = BrokenDevice(damage, refused)
    monkeypatch.setattr(kernel_cases, "opened", lambda uri: device)
    return selftest("cpu", families, quick=True)


def nothing(values: Array) -> None:
    pass


def zeros(values: Array) -> None:
    values[...] = 0


def noise(values: Array) -> None:
    values.view(np.uint8)[...] = np.random.default_rng(0).integers(0, 256, values.nbytes, np.uint8)


def one_element(values: Array) -> None:
    """By more than the widest tolerance allows, which is that of products with quantized weights."""
    values[-1] += np.asarray(8).astype(values.dtype)


def raising(values: Array) -> None:
    raise LaunchTimeout("the kernel did not end\nwithin 10 s")


def failing(values: Array) -> None:
    values.view("no such dtype")


@pytest.mark.parametrize("damage", [zeros, noise, one_element])
def test_wrong_values(damage: Damage, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(monkeypatch, damage)
    assert not report.ok
    for row in report.rows:
        assert row.result == "wrong", row
        assert row.nmse != 0, row
        assert row.reason.startswith("run 1: ")
        assert " elements differ " in row.reason


@pytest.mark.parametrize(
    ("damage", "result", "said"), [(raising, "hang", "LaunchTimeout: the kernel"), (failing, "error", "TypeError: ")]
)
def test_a_case_that_fails_does_not_end_the_run(
    damage: Damage, result: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run(monkeypatch, damage, "elementwise", "gemm")
    assert not report.ok
    assert len(report.rows) == 13
    for row in report.rows:
        assert (row.result, row.nmse, row.seconds, row.predicted) == (result, None, None, 1e-3)
        assert row.reason.startswith(said)
        assert row.advice
    assert ("within 10 s" in str(report)) is (damage is raising)


@pytest.mark.parametrize(
    "event", [events.DeviceFault("relu", "npu", "it hung", 1), events.Fallback("relu", "npu", "it hung")]
)
def test_what_the_cpu_finished_has_not_passed(event: events.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(monkeypatch, lambda values: events.emit(event), "elementwise")
    assert {(row.result, row.reason) for row in report.rows} == {("error", "the CPU computed it: it hung")}


class Stale:
    """From the given run on, every result is what another kernel, or the same one, left there before."""

    def __init__(self, first: int) -> None:
        self.left = first
        self.last: Array | None = None

    def __call__(self, values: Array) -> None:
        new = values.copy()
        if self.last is not None and self.left <= 0:
            values[...] = self.last
        self.last, self.left = new, self.left - 1


@pytest.mark.parametrize("first", [1, 4])
def test_old_data_is_found_in_any_run(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "case_names", lambda *_: ["gemm-batch-bf16"])
    (row,) = run(monkeypatch, Stale(first)).rows
    assert row.result == "wrong"
    assert row.reason.startswith(f"run {first + 1}: ")


class Npu(BrokenDevice):
    target = Target(ARRAYS["aie2p"], 8)


def test_an_npu_without_any_kernels_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "opened", lambda _uri: Npu(nothing))
    monkeypatch.setattr(IronBackend, "missing", lambda _: "no compiler: no mlir-aie")
    monkeypatch.setattr(IronBackend, "toolchain", lambda _: "none")
    with pytest.raises(DeviceError, match=r"^npu:0: no kernels for `aie2p`: .* \(no compiler: no mlir-aie\)") as raised:
        next(run_cases("npu:0", case_names(["rope"])))
    assert raised.value.code == "NOT_FOUND"
    monkeypatch.setattr(IronBackend, "missing", lambda _: None)
    assert next(run_cases("npu:0", case_names(["rope"]))).result == "pass"


# --- the report


def test_a_report_as_text_and_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    wrong = "2 of 3\nare wrong"
    rows = (
        Outcome("kernels", "gemm-batch-bf16", "contract: a -> b", "pass", 1.5e-7, 2e-4, 1e-4, "by the book"),
        Outcome("kernels", "gemm-padded-f32", "contract: a -> b", "wrong", float("inf"), 3e-3, 1e-4, wrong, "do this"),
        Outcome("kernels", "gemm-padded-f16", "contract: a -> b", "wrong", 2.0, 3e-3, 1e-4, wrong, "do this"),
        Outcome("kernels", "rope-yarn-f16", "rotate: a -> b", "refused", reason="no"),
        *(Outcome("programs", str(number), result="not run", reason="it is gone") for number in range(10)),
    )
    report = Report("npu", {"driver": "1.2"}, rows)
    lines = str(report).splitlines()
    assert lines[:3] == ["driver: 1.2", "", "WRONG           kernels: gemm-padded-f32; kernels: gemm-padded-f16"]
    assert lines[3:7] == ["    2 of 3", "    are wrong", "    to do:      do this", ""]
    assert any(line.startswith("not run") and line.endswith("programs: 7; and 2 more") for line in lines)
    table = lines[lines.index("    it is gone") + 2 :]
    assert table[0].split() == list(HEADINGS)
    assert all(word in table[1] for word in ("1.5e-07", "200.0 us", "100.0 us", "contract: a -> b"))
    assert table[5:] == ["npu: 10 not run, 2 wrong, 1 pass, 1 refused"]
    assert not report.ok
    read: dict[str, Any] = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert read["machine"] == {"driver": "1.2"}
    assert read["ok"] is False
    assert [row["nmse"] for row in read["rows"][:4]] == [1.5e-7, None, 2.0, None]
    assert read["rows"][0] == rows[0]._asdict()


# --- the command


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.mark.usefixtures("_compiler")
def test_the_command_on_a_simulated_npu(tmp_path: Path) -> None:
    file, text = tmp_path / "report.json", tmp_path / "report.txt"
    dtypes = ("--dtype", "i16", "--dtype", "u8")
    files = ("--json", file, "--report", text)
    done = invoke("--device", "sim:npu2", "--family", "movement", *dtypes, "--quick", *files)
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert [row["name"].rpartition("-")[2] for row in rows] == ["i16", "u8"]
    assert text.read_text("utf-8") == done.stdout
    assert done.stdout.endswith(f"sim:npu2: {len(rows)} pass\n")
    assert "npu_tensor: " in done.stdout
    assert done.stderr.splitlines()[-1] == "3/3 kernels: movement-transpose-u8: pass"


def test_steps_by_device() -> None:
    def stages(*arguments: Any) -> list[str]:
        return list(dict.fromkeys(stage for stage, _ in steps(*arguments, True)))

    assert stages("npu", (), ()) == list(STAGES)
    assert stages("sim:npu1", (), ()) == ["machine", "probes", "first kernels", "kernels", "programs"]
    assert stages("cpu", (), ()) == stages("npu", ("gemm",), ()) == ["machine", "first kernels", "kernels"]
    names = [name for stage, name in steps("npu", (), (), False) if stage.endswith("kernels")]
    assert sorted(names) == sorted(case_names())
    assert [name.partition("-")[0] for name in names[: len(FAMILIES)]] == list(FAMILIES)
    assert sum(stage == "predictions" for stage, _ in steps("npu", (), (), True)) == 10


def test_reports_replace_names_only_where_they_are_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test.socket, "gethostname", lambda: "npu")
    monkeypatch.setattr(self_test.getpass, "getuser", lambda: "array")
    monkeypatch.setattr(self_test.Path, "home", lambda: Path("/home/array"))
    reason = (
        "npu array: '/home/array/x.py', /home/arrays, /run/user/array/s, array@npu: http://npu:8/ AIE-0123456789abcdef"
    )
    row = self_test._without_personal_data(Outcome("probes", "one", reason=reason))
    expected = "npu array: '~/x.py', /home/arrays, /run/user/USER/s, USER@HOST: http://HOST:8/ AIE-ID"
    assert row.reason == expected
    monkeypatch.setattr(self_test.socket, "gethostname", lambda: "workstation")
    monkeypatch.setattr(self_test.getpass, "getuser", lambda: "somebody")
    row = self_test._without_personal_data(Outcome("probes", "one", reason="Linux workstation, run by somebody"))
    assert row.reason == "Linux HOST, run by USER"
