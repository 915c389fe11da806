"""Settings: their sources, valid values, and effects."""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result
from running import python

import npu_tensor as nt
from npu_tensor._util.interrupts import uninterrupted
from npu_tensor.cli.settings import config_command
from npu_tensor.config import SETTINGS, Config, Policy, config
from npu_tensor.planner.measures import MEASURES
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.sim.simulated_array import OwnThread
from npu_tensor.runtime.store.background import Builds

# The variables that the project promises, with those of other programs that mean the same, the one that wins first.
PROMISED = {
    "NPU_TENSOR_KERNEL_DIR": ["GGML_HSA_KERNEL_DIR"],
    "NPU_TENSOR_CACHE_DIR": ["GGML_HSA_KERNEL_CACHE_DIR"],
    "NPU_TENSOR_CACHE_CLEAR": ["GGML_HSA_KERNEL_CACHE_CLEAR"],
    "NPU_TENSOR_JIT": ["GGML_HSA_JIT_COMPILE", "GGML_HSA_JIT_COMPILER_ORDER"],
    "NPU_TENSOR_JIT_VERBOSE": ["GGML_HSA_JIT_VERBOSE"],
    "NPU_TENSOR_LOG": ["GGML_HSA_ENABLE_LOG"],
    "NPU_TENSOR_FALLBACK": ["GGML_HSA_CPU_FALLBACK"],
    "NPU_TENSOR_DEVICE": [],
    "NPU_VISIBLE_DEVICES": ["ROCR_VISIBLE_DEVICES"],
    "NPU_TENSOR_ARCH": [],
    "NPU_TENSOR_TOOLCHAIN_VERSION": [],
    "NPU_TENSOR_FORCE_RECOMPILE": [],
    "NPU_TENSOR_KERNEL_TARGETS": [],
    "NPU_TENSOR_LIBHSA_PATH": ["IREE_HAL_AMDGPU_LIBHSA_PATH", "ROCM_PATH"],
    "NPU_TENSOR_XRT_PATH": ["XILINX_XRT"],
    "NPU_TENSOR_POLICY": [],
    "NPU_TENSOR_MAX_CONTEXTS": [],
    "NPU_TENSOR_RECORD": [],
    "NPU_TENSOR_BACKEND": ["GGML_HSA"],
}

# The words that ggml-hsa takes for on, and what everybody takes for off.
ON = ["1", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"]
OFF = ["0", "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", ""]

# Settings and what the words stand for there, under the first two of their variables.
SWITCHES: dict[str, tuple[Any, Any]] = {
    "cache_clear": (True, False),
    "jit": ("wait", "off"),
    "jit_verbose": (True, False),
    "log": (True, False),
}

# A text that is not allowed for each setting that does not take any text.
BAD = {
    "kernel_format": "pdi",
    "launch_milliseconds": "-1",
    "launch_seconds": "0",
    "self_check": "maybe",
    "strict": "sometimes",
    "trust_cache": "mine",
    "eager": "maybe",
    "fallback": "wran",
    "debug": "6",
    "log": "2",
    "threads": "many",
    "max_depth": "0",
    "cpu_compile": "y",
    "pool_bytes": "1.5",
    "cache_bytes": "4 GiB",
    "cache_clear": "-",
    "jit": "backround",
    "jit_verbose": "loud",
    "force_recompile": "2",
    "build_seconds": "0",
    "build_jobs": "-1",
    "toolchain_version": "../1.4",
    "backend": "npu,gpu",
    "visible_devices": "0,,1",
    "policy": "fast",
    "max_contexts": "x",
    "kernel_targets": "aie2;aie2p",
}
ANY_TEXT = {"device", "cpu_features", "kernel_dirs", "cache_path", "record", "arch", "xrt_path", "libhsa_path"}


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
def test_a_misspelt_variable_is_told_of_once(variable: str, hint: str) -> None:
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
    assert f"the environment sets {variable}, which is no setting" in message
    assert hint in message


def test_every_promised_variable_is_read_with_its_aliases() -> None:
    result = {variable: aliases for variable, *aliases in (setting.readers for setting in SETTINGS.values())}
    assert {variable: result.get(variable) for variable in PROMISED} == PROMISED


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_take_the_words_of_ggml_hsa_in_any_case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [*SETTINGS[name].readers][:2]:
        for words, expected in zip((ON, OFF), SWITCHES[name], strict=True):
            for word in words:
                monkeypatch.setenv(variable, word)
                assert getattr(Config(), name) == expected
        monkeypatch.delenv(variable)


@pytest.mark.parametrize("name", SWITCHES)
def test_other_words_are_off_for_ggml_hsa_and_wrong_for_us(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = [*SETTINGS[name].readers][:2]
    monkeypatch.setenv(theirs, "enable")
    with pytest.warns(RuntimeWarning, match=f"{theirs}='enable'"):
        assert getattr(Config(), name) == SWITCHES[name][1]
    monkeypatch.setenv(ours, "enable")
    with pytest.raises(nt.ArgumentError, match=f"{ours}='enable'"):
        getattr(Config(), name)


@pytest.mark.parametrize(
    ("name", "variable", "text", "expected"),
    [
        ("device", "NPU_TENSOR_DEVICE", "sim:npu2,cpu", "sim:npu2,cpu"),
        ("threads", "NPU_TENSOR_THREADS", "0", 0),
        ("max_depth", "NPU_TENSOR_MAX_DEPTH", "1", 1),
        ("build_seconds", "NPU_TENSOR_BUILD_SECONDS", "1", 1),
        ("fallback", "NPU_TENSOR_FALLBACK", "warn", "warn"),
        ("fallback", "GGML_HSA_CPU_FALLBACK", "on", "allow"),
        ("fallback", "GGML_HSA_CPU_FALLBACK", "0", "error"),
        ("jit", "NPU_TENSOR_JIT", "background", "background"),
        ("jit", "NPU_TENSOR_JIT", "wait", "wait"),
        ("jit", "GGML_HSA_JIT_COMPILER_ORDER", "triton,iron", "wait"),
        ("jit", "GGML_HSA_JIT_COMPILER_ORDER", "triton", "off"),
        ("jit", "GGML_HSA_JIT_COMPILER_ORDER", "", "wait"),
        ("kernel_dirs", "NPU_TENSOR_KERNEL_DIR", "/a:b c", (Path("/a"), Path("b c"))),
        ("kernel_dirs", "GGML_HSA_KERNEL_DIR", "/a", (Path("/a"),)),
        ("kernel_dirs", "NPU_TENSOR_KERNEL_DIR", "", ()),
        ("toolchain_version", "NPU_TENSOR_TOOLCHAIN_VERSION", "1.4.1+peano_22-3", "1.4.1+peano_22-3"),
        ("backend", "NPU_TENSOR_BACKEND", "sim, cpu", ("sim", "cpu")),
        ("backend", "GGML_HSA", "0", ("sim", "cpu")),
        ("backend", "GGML_HSA", "1", ("auto",)),
        ("visible_devices", "NPU_VISIBLE_DEVICES", "2,3", ("2", "3")),
        ("visible_devices", "ROCR_VISIBLE_DEVICES", "GPU-0e12865a3bf5b7ab", ("GPU-0e12865a3bf5b7ab",)),
        ("visible_devices", "NPU_VISIBLE_DEVICES", "", ()),
        ("libhsa_path", "ROCM_PATH", "/opt/rocm", (Path("/opt/rocm"),)),
        ("xrt_path", "XILINX_XRT", "/opt/xilinx/xrt", (Path("/opt/xilinx/xrt"),)),
        ("kernel_targets", "NPU_TENSOR_KERNEL_TARGETS", "aie2,aie2p", ("aie2", "aie2p")),
        ("max_contexts", "NPU_TENSOR_MAX_CONTEXTS", "6", 6),
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


def test_our_variable_wins_then_the_first_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ROCM_PATH", "IREE_HAL_AMDGPU_LIBHSA_PATH", "NPU_TENSOR_LIBHSA_PATH"):
        monkeypatch.setenv(variable, f"/{variable}")
        settings = Config()
        assert settings.libhsa_path == (Path(f"/{variable}"),)
        assert settings.origin("libhsa_path") == variable


def test_every_setting_is_checked_or_takes_any_text() -> None:
    assert BAD.keys() | ANY_TEXT == SETTINGS.keys()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_an_error_that_names_variable_value_and_what_is_allowed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = SETTINGS[name].variable
    monkeypatch.setenv(variable, BAD[name])
    settings = Config()
    for _ in range(2):  # an error is not remembered as a value
        with pytest.raises(nt.ArgumentError, match=f"{variable}='{re.escape(BAD[name])}' is not allowed; it takes .+"):
            getattr(settings, name)
    monkeypatch.delenv(variable)
    getattr(settings, name)
    with pytest.raises(nt.ArgumentError, match=f"config.{name}='{re.escape(BAD[name])}'"):
        setattr(settings, name, BAD[name])


def test_policies_of_the_setting_are_those_of_the_measures() -> None:
    assert set(get_args(Policy)) == {"auto", "always", *MEASURES}


@pytest.mark.parametrize("level", range(6))
def test_debug_has_six_levels(level: int) -> None:
    settings = Config()
    settings.debug = level
    assert settings.debug == level
    with pytest.raises(nt.ArgumentError, match="an integer from 0 to 5"):
        settings.debug = 6


def test_bad_values_do_not_disturb_the_import_and_stop_no_process() -> None:
    bad = {SETTINGS[name].variable: text for name, text in BAD.items()}
    program = """
import npu_tensor as nt
from npu_tensor.config import SETTINGS
wrong = []
for name in SETTINGS:
    try:
        getattr(nt.config, name)
    except nt.ArgumentError:
        wrong.append(name)
try:
    nt.ones(3) + 1
except nt.ArgumentError as error:
    print(error)
nt.config.eager, nt.config.max_depth = False, 10
nt.ones(3) + 1
print(*wrong)
"""
    message, wrong = printed(program, **bad).splitlines()
    assert "NPU_TENSOR_" in message
    assert set(wrong.split()) == set(BAD)


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


def test_the_device_is_read_after_the_import() -> None:
    program = """
import os
import npu_tensor as nt
os.environ["NPU_TENSOR_DEVICE"] = "sim:npu1"
print(nt.get_default_device())
"""
    assert printed(program) == "sim:npu1\n"


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


def test_origin_says_where_a_value_is_from_also_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    assert settings.origin("jit") == "default"
    monkeypatch.setenv("GGML_HSA_JIT_COMPILE", "0")
    assert settings.origin("jit") == "GGML_HSA_JIT_COMPILE"
    assert settings.jit == "off"
    settings.jit = "background"
    assert settings.origin("jit") == "config.jit"
    settings.reset()
    assert (settings.origin("jit"), settings.jit) == ("GGML_HSA_JIT_COMPILE", "off")


def test_what_differs_from_the_defaults_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    assert repr(settings) == "config()"
    monkeypatch.setenv("NPU_TENSOR_DEVICE", "sim:npu2")
    monkeypatch.setenv("NPU_TENSOR_THREADS", "several")
    settings.debug = 0
    settings.strict = True
    assert repr(settings) == "config(device='sim:npu2', threads='several', strict=True)"
    monkeypatch.setenv("NPU_TENSOR_DEVICE", "cpu")
    assert settings.device == "cpu"  # which was not kept


def test_scope_restores_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    settings.threads = 2
    assert settings.max_depth == 4096
    with settings.scope(threads=3, max_depth=5, debug=1):
        assert (settings.threads, settings.max_depth, settings.debug) == (3, 5, 1)
        with settings.scope(threads=4):
            assert settings.threads == 4
        assert settings.threads == 3
    assert (settings.threads, settings.max_depth) == (2, 4096)
    assert (settings.origin("threads"), settings.origin("max_depth")) == ("config.threads", "default")
    monkeypatch.setenv("NPU_TENSOR_DEBUG", "2")  # was not read before the scope
    assert settings.debug == 2


def test_scopes_end_in_any_order() -> None:
    settings = Config()

    def generator() -> Iterator[int]:
        with settings.scope(max_depth=7):
            yield settings.max_depth

    steps = generator()
    assert next(steps) == 7
    with settings.scope(eager=True):
        steps.close()  # type: ignore[attr-defined]
        assert (settings.eager, settings.max_depth) == (True, 4096)
    steps = generator()
    next(steps)
    copy_context().run(steps.close)  # type: ignore[attr-defined]
    assert not settings.eager


def test_scope_covers_a_variable_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_TENSOR_THREADS", "many")
    settings = Config()
    with settings.scope(threads=1):
        assert settings.threads == 1
    with pytest.raises(nt.ArgumentError):
        _ = settings.threads


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


@pytest.mark.usefixtures("own_contexts")
def test_threads_of_the_package_see_the_settings_of_who_starts_them() -> None:
    done = Builds()
    with config.scope(build_seconds=61):
        seen = [uninterrupted(lambda: config.build_seconds)(), OwnThread("test").call(lambda: config.build_seconds)]
        with build_threads(1) as threads:
            seen.append(threads.submit(lambda: config.build_seconds).result())
        done.start("key", lambda: seen.append(config.build_seconds))  # type: ignore[arg-type, func-returns-value]
        done.finish()
    assert seen == [61] * 4


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


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("threads", "2", 2),
        ("eager", "on", True),
        ("kernel_dirs", "/a:/b", (Path("/a"), Path("/b"))),
        ("kernel_dirs", ["/a", Path("/b")], (Path("/a"), Path("/b"))),
        ("cache_path", Path("/a"), "/a"),
        ("visible_devices", ["0", "1"], ("0", "1")),
        ("visible_devices", range(2), ("0", "1")),
    ],
)
def test_a_program_may_assign_texts_and_values(name: str, value: object, expected: object) -> None:
    settings = Config()
    setattr(settings, name, value)
    assert getattr(settings, name) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", 1.5), ("threads", None), ("eager", None), ("kernel_dirs", 3), ("cache_path", 3), ("record", None)],
)
def test_values_of_the_wrong_type_are_refused(name: str, value: object) -> None:
    settings = Config()
    with pytest.raises(nt.ArgumentError, match=re.escape(f"config.{name}={value!r} is not allowed")):
        setattr(settings, name, value)


def test_settings_that_do_not_exist_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="there is no setting 'eagr'"):
        _ = config.eagr  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="there is no setting 'eagr'"):
        config.eagr = True


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


def invoke(*arguments: str, columns: int = 400) -> Result:
    return CliRunner().invoke(config_command, arguments, env={"COLUMNS": str(columns)})


def cells(output: str) -> dict[str, list[str]]:
    """Variable -> value and origin."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line[0] == "│"]
    return {variable: rest for variable, *rest in rows}


def test_the_command_prints_values_and_where_they_come_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GGML_HSA_JIT_COMPILE", "off")
    monkeypatch.setenv("NPU_TENSOR_THREADS", "3")
    monkeypatch.setenv("NPU_TENSOR_CACHE_DIR", str(tmp_path))
    config.debug = 1
    result = invoke()
    assert result.exit_code == 0, result.output
    shown = cells(result.output)
    assert shown["NPU_TENSOR_JIT"] == ["off", "GGML_HSA_JIT_COMPILE"]
    assert shown["NPU_TENSOR_THREADS"] == ["3", "NPU_TENSOR_THREADS"]
    assert shown["NPU_TENSOR_DEBUG"] == ["1", "config.debug"]
    assert shown["NPU_TENSOR_MAX_DEPTH"] == ["4096", "default"]
    assert len(shown) == len(SETTINGS)
    assert result.output.splitlines()[-1] == f"directory of the cache: {tmp_path}"


def test_the_command_shows_a_bad_value_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {
        "NPU_TENSOR_POOL_BYTES": ("lots", "it takes an integer of at least 0"),
        "NPU_TENSOR_DEVICE": ("sim:npu9", "there is no simulated npu9"),
        "NPU_TENSOR_CPU_FEATURES": ("mmx9", "no feature"),
        "NPU_TENSOR_ARCH": ("npu9", "is no known array"),
        "NPU_TENSOR_KERNEL_DIR": ("/no/such", "does not exist"),
    }
    for variable, (text, _) in bad.items():
        monkeypatch.setenv(variable, text)
    result = invoke()
    assert result.exit_code == 1
    shown = cells(result.output)
    assert {variable for variable, (value, _) in shown.items() if len(value) > 20} == set(bad)
    for variable, (_, words) in bad.items():
        assert words in shown[variable][0]
    listed = json.loads(invoke("--json").output)["settings"]
    assert {row["variable"] for row in listed if row["error"]} == set(bad)


def test_no_name_is_cut_on_a_narrow_terminal() -> None:
    columns = [line.split("│")[1].strip() for line in invoke(columns=60).output.splitlines() if line[0] == "│"]
    assert "".join(columns) == "".join(setting.variable for setting in SETTINGS.values())


def test_the_command_prints_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_TENSOR_KERNEL_DIR", "/:/tmp")
    result = invoke("--json")
    assert result.exit_code == 0
    rows = {row["variable"]: row for row in json.loads(result.output)["settings"]}
    assert {variable: rows[variable]["aliases"] for variable in PROMISED} == PROMISED
    assert rows["NPU_TENSOR_KERNEL_DIR"]["value"] == ["/", "/tmp"]
    assert rows["NPU_TENSOR_KERNEL_DIR"]["origin"] == "NPU_TENSOR_KERNEL_DIR"
    assert rows["NPU_TENSOR_EAGER"]["value"] is False
    assert rows["NPU_TENSOR_MAX_DEPTH"]["default"] == 4096


def test_the_command_prints_paths_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_TENSOR_RECORD", os.fsdecode(b"a\xff"))
    assert cells(invoke().output)["NPU_TENSOR_RECORD"][0] == "a\\xff"
    assert invoke("--json").exit_code == 0
