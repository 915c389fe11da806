"""Devices that `set_default_device` refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running import python

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.store import kernel_directory


@pytest.mark.parametrize("given", [None, 3, ["npu"], b"cpu"])
@pytest.mark.parametrize("take", [nt.set_default_device, nt.selftest, lambda uri: nt.default_device(uri).__enter__()])
def test_a_device_is_named_by_text(take: Callable[[Any], object], given: Any) -> None:
    before = nt.get_default_device()
    with pytest.raises(nt.DeviceError, match="a device is named by text such as 'npu:0', not by ") as raised:
        take(given)
    assert raised.value.code == "INVALID_ARGUMENT"
    assert nt.get_default_device() == before


@pytest.mark.parametrize("spelt", [" cpu", "cpu ", " cpu , sim:npu2"])
def test_spaces_do_not_make_another_selection(spelt: str) -> None:
    plain = spelt.replace(" ", "")
    assert selection.selection_of(spelt) is selection.selection_of(plain)
    with nt.default_device(spelt):
        assert selection.current() is selection.selection_of(plain)


@pytest.mark.parametrize(("allowed", "uri"), [(("npu", "cpu"), "sim:npu2?cols=3"), (("sim", "cpu"), "npu?cols=3")])
def test_a_kind_of_device_that_is_not_allowed(allowed: tuple[str, ...], uri: str) -> None:
    kind = uri.partition(":")[0].partition("?")[0]
    with (
        config.scope(backend=allowed),
        pytest.raises(nt.DeviceError, match=rf": config.backend allows no devices of the kind {kind}$"),
    ):
        nt.set_default_device(uri)


@pytest.mark.parametrize(("variable", "value"), [("GGML_HSA", "0"), ("NPU_TENSOR_BACKEND", "sim,cpu")])
def test_programs_that_name_an_npu_in_the_environment_run_without_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    for name in ("GGML_HSA", "NPU_TENSOR_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    program = "import npu_tensor as nt; print((nt.ones(2) + 1).tolist())"
    done = python("-c", program, NPU_TENSOR_DEVICE="npu", **{variable: value})
    assert done.stdout == "[2.0, 2.0]\n"
    assert f"RuntimeWarning: left out: npu: {variable} allows no devices of the kind npu" in done.stderr


@pytest.mark.usefixtures("machine")
def test_an_npu_without_kernels_is_refused_without_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IronBackend, "missing", lambda _: "no compiler: no mlir-aie")
    monkeypatch.setattr(IronBackend, "toolchain", lambda _: "none")
    monkeypatch.setattr(kernel_directory, "BUILTIN", tmp_path / "builtin")
    (tmp_path / "builtin/aie2").mkdir(parents=True)
    (tmp_path / "builtin/aie2" / "kernel.json").touch()
    with (
        config.scope(kernel_dirs=(), jit=True, cache_path=str(tmp_path), fallback="error"),
        pytest.raises(nt.DeviceError) as raised,
    ):
        nt.set_default_device("npu://0000:c6:00.1")
    assert str(raised.value) == (
        "npu://0000:c6:00.1: no kernels for `aie2p`: built-in targets are aie2; "
        "set GGML_HSA_KERNEL_DIR or install mlir-aie (no compiler: no mlir-aie)"
    )
