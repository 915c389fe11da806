"""Settings: their sources, valid values, and effects."""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from running import python

import npu_tensor as nt
from npu_tensor.cli.settings import config_command
from npu_tensor.config import KINDS, SETTINGS, Config, GgmlSwitch, config

WRONG = "?!"
"""Text that every setting refuses unless it takes any text or paths."""

CHECKED = [name for name, each in SETTINGS.items() if each.readers[each.variable] not in (KINDS[str], KINDS[tuple])]

GGML_SWITCHES = [
    (name, variable, reader)
    for name, setting in SETTINGS.items()
    for variable, reader in setting.readers.items()
    if isinstance(reader, GgmlSwitch)
]

ON = ("1", "true", "True", "YES", "on")
OFF = ("0", "false", "False", "NO", "off", "")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear all variables and cached settings, and restore the assignments of wider fixtures afterwards."""
    assigned = {name: getattr(config, name) for name in SETTINGS if config.origin(name) == f"config.{name}"}
    for setting in SETTINGS.values():
        for variable in setting.readers:
            monkeypatch.delenv(variable, raising=False)
    config.reset()
    yield
    monkeypatch.undo()
    config.reset()
    for name, value in assigned.items():
        setattr(config, name, value)


def printed(code: str, **environment: str) -> str:
    """Return the output of a program."""
    return python("-W", "error", "-c", code, **environment).stdout


# --- variables


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("NPU_TENSOR_THREAD", "did you mean NPU_TENSOR_THREADS?"), ("NPU_TENSOR_QQQQQQQQQQ", "`npu-tensor config` lists")],
)
def test_a_misspelt_variable_is_reported_once(variable: str, hint: str) -> None:
    code = """
import warnings
from npu_tensor.config import config
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    config.threads, config.eager
assert len(found) == 1 and found[0].filename == "<string>", found
print(found[0].message)
"""
    message = printed(code, **{variable: "2"}, NPU_TENSOR_TEST_MINE="1", NPU_TENSOR_CACHE_CLEARED="x")
    assert f"the environment sets {variable}" in message
    assert hint in message


@pytest.mark.parametrize("name", SETTINGS)
def test_the_first_variable_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config().origin(name) == "default"
    for variable in reversed(SETTINGS[name].readers):
        monkeypatch.setenv(variable, "1")
        assert Config().origin(name) == variable


@pytest.mark.parametrize(("name", "variable", "switch"), GGML_SWITCHES, ids=lambda value: str(value)[:30])
def test_switches_of_ggml_hsa(name: str, variable: str, switch: GgmlSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, expected in ((ON, switch.on), (OFF, switch.off)):
        for word in words:
            monkeypatch.setenv(variable, word)
            assert getattr(Config(), name) == expected
    monkeypatch.setenv(variable, "enable")
    with pytest.warns(RuntimeWarning, match=f"{variable}='enable'"):
        assert getattr(Config(), name) == switch.off


@pytest.mark.parametrize(
    ("name", "variable", "text", "expected"),
    [
        ("device", "NPU_TENSOR_DEVICE", "sim:npu2,cpu", "sim:npu2,cpu"),
        ("threads", "NPU_TENSOR_THREADS", "0", 0),
        ("eager", "NPU_TENSOR_EAGER", "On", True),
        ("eager", "NPU_TENSOR_EAGER", "", False),
        ("fallback", "NPU_TENSOR_FALLBACK", "warn", "warn"),
        ("jit", "NPU_TENSOR_JIT", "background", "background"),
        ("jit", "NPU_TENSOR_JIT", "0", "off"),
        ("kernel_dirs", "NPU_TENSOR_KERNEL_DIR", "/a:b c", (Path("/a"), Path("b c"))),
        ("kernel_dirs", "NPU_TENSOR_KERNEL_DIR", "", ()),
        ("backend", "NPU_TENSOR_BACKEND", "sim, cpu", ("sim", "cpu")),
        ("visible_devices", "NPU_VISIBLE_DEVICES", "2,3", ("2", "3")),
        ("visible_devices", "NPU_VISIBLE_DEVICES", "", ()),
        ("visible_devices", "ROCR_VISIBLE_DEVICES", "GPU-0e12865a3bf5b7ab", ("GPU-0e12865a3bf5b7ab",)),
    ],
)
def test_a_variable_gives_a_typed_value(
    name: str, variable: str, text: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    settings = Config()
    value = getattr(settings, name)
    assert (value, type(value)) == (expected, type(expected))
    assert settings.origin(name) == variable


def test_a_variable_that_is_not_set_is_not_an_empty_one() -> None:
    assert Config().visible_devices is None


@pytest.mark.parametrize("name", CHECKED)
def test_an_invalid_value_is_an_error_that_names_variable_and_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = SETTINGS[name].variable
    monkeypatch.setenv(variable, WRONG)
    settings = Config()
    for _ in range(2):  # An error is not remembered as a value.
        with pytest.raises(nt.ArgumentError, match=f"{variable}='{re.escape(WRONG)}' is not allowed; it takes .+"):
            getattr(settings, name)
    with pytest.raises(nt.ArgumentError, match=f"config.{name}='{re.escape(WRONG)}'"):
        setattr(settings, name, WRONG)
    monkeypatch.delenv(variable)
    getattr(settings, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("debug", 6), ("debug", -1), ("threads", "1.5"), ("threads", 1.5), ("threads", None), ("eager", None)),
        *(("kernel_dirs", 3), ("device", 3), ("fallback", "wran")),
    ],
)
def test_a_program_cannot_assign_an_invalid_value(name: str, value: object) -> None:
    with pytest.raises(nt.ArgumentError, match=re.escape(f"config.{name}={value!r} is not allowed")):
        setattr(Config(), name, value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("threads", "2", 2),
        ("eager", "on", True),
        ("kernel_dirs", ["/a", Path("/b")], (Path("/a"), Path("/b"))),
        ("visible_devices", range(2), ("0", "1")),
    ],
)
def test_a_program_may_assign_texts_and_values(name: str, value: object, expected: object) -> None:
    settings = Config()
    setattr(settings, name, value)
    assert getattr(settings, name) == expected


def test_settings_that_do_not_exist_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="there is no setting 'eagr'"):
        _ = config.eagr  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="there is no setting 'eagr'"):
        config.eagr = True


def test_invalid_values_disturb_neither_the_import_nor_the_process() -> None:
    program = """
import npu_tensor as nt
try:
    nt.ones(3) + 1
except nt.ArgumentError as error:
    print(error)
nt.config.eager = False
nt.ones(3) + 1
"""
    assert "NPU_TENSOR_EAGER='maybe' is not allowed" in printed(program, NPU_TENSOR_EAGER="maybe")


def test_a_bad_device_is_an_error_when_something_runs_and_can_be_replaced() -> None:
    program = """
import npu_tensor as nt
x = nt.ones(3) + 1
try:
    x.tolist()
except nt.DeviceError as error:
    print(error)
with nt.default_device("cpu"):
    print(x.tolist(), nt.get_default_device())
print(nt.get_default_device())
"""
    message, *rest = printed(program, NPU_TENSOR_DEVICE="sim:npu9").splitlines()
    assert message.startswith("NPU_TENSOR_DEVICE='sim:npu9': ")
    assert rest == ["[2.0, 2.0, 2.0] cpu", "sim:npu9"]


# --- reading and changing


def test_a_setting_is_read_when_it_is_first_used_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    monkeypatch.setenv("NPU_TENSOR_DEBUG", "1")
    assert settings.debug == 1
    monkeypatch.setenv("NPU_TENSOR_DEBUG", "2")
    assert settings.debug == 1
    settings.reset()
    assert settings.debug == 2
    monkeypatch.delenv("NPU_TENSOR_DEBUG")
    settings.reset()
    assert settings.debug == 0


def test_what_differs_from_the_defaults_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    assert repr(settings) == "config()"
    monkeypatch.setenv("NPU_TENSOR_DEVICE", "sim:npu2")
    monkeypatch.setenv("NPU_TENSOR_THREADS", "several")
    settings.debug = 0
    settings.eager = True
    assert repr(settings) == "config(eager=True, device='sim:npu2', threads='several')"
    monkeypatch.setenv("NPU_TENSOR_DEVICE", "cpu")
    assert settings.device == "cpu"  # which was not kept


def test_scope_restores_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    settings.threads = 2
    assert settings.build_seconds == 600
    with settings.scope(threads=3, build_seconds=5, debug=1):
        assert (settings.threads, settings.build_seconds, settings.debug) == (3, 5, 1)
        with settings.scope(threads=4):
            assert settings.threads == 4
        assert settings.threads == 3
    assert (settings.threads, settings.build_seconds) == (2, 600)
    assert (settings.origin("threads"), settings.origin("build_seconds")) == ("config.threads", "default")
    monkeypatch.setenv("NPU_TENSOR_DEBUG", "2")  # was not read before the scope
    assert settings.debug == 2


@pytest.mark.usefixtures("own_contexts")
def test_a_scope_is_of_its_context_and_an_assignment_is_of_the_process() -> None:
    settings = Config()
    with ThreadPoolExecutor(1) as other:
        with settings.scope(threads=3):
            assert (settings.threads, other.submit(lambda: settings.threads).result()) == (3, 0)
            assert other.submit(copy_context().run, lambda: settings.threads).result() == 3
            other.submit(setattr, settings, "threads", 5).result()
            assert (settings.threads, other.submit(lambda: settings.threads).result()) == (3, 5)
            settings.threads = 4
            assert (settings.threads, other.submit(lambda: settings.threads).result()) == (4, 5)
        assert (settings.threads, other.submit(lambda: settings.threads).result()) == (5, 5)


@pytest.mark.parametrize(
    ("wrong", "error"), [({"jit": "maybe"}, nt.ArgumentError), ({"no_such_setting": 1}, AttributeError)]
)
def test_a_scope_that_fails_changes_nothing(wrong: dict[str, Any], error: type[Exception]) -> None:
    settings = Config()
    settings.threads = 2
    with pytest.raises(error), settings.scope(threads=3, **wrong):
        pytest.fail("the block must not run")
    assert settings.threads == 2
    assert settings.jit == "wait"
    assert not hasattr(settings, "no_such_setting")


# --- directories


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NPU_TENSOR_CACHE_DIR": "/n", "GGML_HSA_KERNEL_CACHE_DIR": "/g", "XDG_CACHE_HOME": "/x"}, "/n"),
        ({"GGML_HSA_KERNEL_CACHE_DIR": "/g", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/g"),
        ({"NPU_TENSOR_CACHE_DIR": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/npu_tensor"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/npu_tensor"),
        ({"HOME": "/h"}, "/h/.cache/npu_tensor"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/npu_tensor"),
        ({}, f"/t/npu_tensor-{os.getuid()}"),
    ],
)
def test_order_of_the_cache_directories(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/t")
    for variable, text in environment.items():
        monkeypatch.setenv(variable, text)
    assert Config().cache_dir == Path(expected)


def test_directories_of_ready_kernels_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, file, missing = tmp_path / "there", tmp_path / "file", tmp_path / "missing"
    there.mkdir()
    file.touch()
    assert Config().ready_kernel_dirs() == ()
    monkeypatch.setenv("GGML_HSA_KERNEL_DIR", f"{there}:{file}")
    with pytest.raises(nt.ArgumentError, match=f"GGML_HSA_KERNEL_DIR names '{file}', which is not a directory"):
        Config().ready_kernel_dirs()
    monkeypatch.setenv("NPU_TENSOR_KERNEL_DIR", f"{there}:{missing}")
    with pytest.raises(nt.ArgumentError, match=f"NPU_TENSOR_KERNEL_DIR names '{missing}', which does not exist"):
        Config().ready_kernel_dirs()
    missing.mkdir()
    assert Config().ready_kernel_dirs() == (there, missing)


# --- npu-tensor config


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(config_command, arguments, env={"COLUMNS": "400"})


def cells(output: str) -> dict[str, list[str]]:
    """Variable -> value and origin."""
    rows = (re.split("  +", line) for line in output.partition("\n\n")[0].splitlines()[2:])
    return {variable: rest for variable, *rest in rows}


def test_the_command_prints_values_and_their_origins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NPU_TENSOR_THREADS", "3")
    monkeypatch.setenv("NPU_TENSOR_CACHE_DIR", str(tmp_path))
    config.debug = 1
    result = invoke()
    assert result.exit_code == 0, result.output
    shown = cells(result.output)
    assert shown["NPU_TENSOR_THREADS"] == ["3", "NPU_TENSOR_THREADS"]
    assert shown["NPU_TENSOR_DEBUG"] == ["1", "config.debug"]
    assert shown["NPU_TENSOR_BUILD_SECONDS"] == ["600", "default"]
    assert len(shown) == len(SETTINGS)
    assert result.output.splitlines()[-1] == f"directory of the cache: {tmp_path}"
    rows = {row["variable"]: row for row in json.loads(invoke("--json").output)["settings"]}
    assert {name: [name, *row["aliases"]] for name, row in rows.items()} == {
        setting.variable: [*setting.readers] for setting in SETTINGS.values()
    }
    assert rows["NPU_TENSOR_THREADS"]["value"] == 3
    assert rows["NPU_TENSOR_BUILD_SECONDS"]["default"] == 600


def test_the_command_shows_an_invalid_value_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    invalid = {
        "NPU_TENSOR_POOL_BYTES": ("lots", "it takes an integer of at least 0"),
        "NPU_TENSOR_DEVICE": ("sim:npu9", "there is no simulated npu9"),
        "NPU_TENSOR_KERNEL_DIR": ("/no/such", "does not exist"),
    }
    for variable, (text, _) in invalid.items():
        monkeypatch.setenv(variable, text)
    result = invoke()
    assert result.exit_code == 1
    shown = cells(result.output)
    for variable, (_, words) in invalid.items():
        assert words in shown[variable][0]
    listed = json.loads(invoke("--json").output)["settings"]
    assert {row["variable"] for row in listed if row["error"]} == set(invalid)
