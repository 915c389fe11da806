"""The command line and the demo."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from paths import ROOT
from running import needs_compiler, python

import npu_tensor as nt
from npu_tensor.cli import COMMANDS, demo, main
from npu_tensor.config import SETTINGS, config
from npu_tensor.examples import train_digits
from npu_tensor.ops import OPS


def invoke(*arguments: str, columns: int = 200) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": str(columns)})


@pytest.fixture(scope="module")
def digits() -> demo.Digits:
    return demo.load()


def reference_digits(digits: demo.Digits) -> np.ndarray:
    """The network in NumPy float64."""
    x = digits.pixels.astype(np.float64)
    for weight, bias in digits.layers[:-1]:
        x = np.maximum(x @ weight.astype(np.float64).T + bias, 0)
    weight, bias = digits.layers[-1]
    return (x @ weight.astype(np.float64).T + bias).argmax(axis=1)


def test_the_data_is_what_its_note_says(digits: demo.Digits) -> None:
    with np.load(ROOT / "examples" / "data" / "digits.npz") as file:
        images, labels = file["images"], file["labels"]
    assert images.shape == (1797, 8, 8)
    assert images.dtype == labels.dtype == np.uint8
    # Range and class counts as published with the data set.
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert digits.pixels.shape == (500, 64)
    assert (digits.pixels.min(), digits.pixels.max()) == (0, 1)


def test_float32_classes_are_those_of_float64(digits: demo.Digits) -> None:
    layers = [(nt.from_numpy(weight), nt.from_numpy(bias)) for weight, bias in digits.layers]
    predicted = demo.classify(nt.from_numpy(digits.pixels), layers)
    np.testing.assert_array_equal(predicted.numpy(), reference_digits(digits))


def test_demo_reads_the_digits_in_both_dtypes(digits: demo.Digits) -> None:
    result = invoke("demo")
    assert result.exit_code == 0, result.output
    accuracy = float(np.mean(reference_digits(digits) == digits.labels))
    assert f"{accuracy:.4f}" in result.output
    for name in demo.DTYPE_NAMES:
        assert f"{name}: where every node runs" in result.output


def test_demo_fails_when_the_network_is_wrong(digits: demo.Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    (weight, bias), *rest = digits.layers
    spoiled = digits._replace(layers=[(-weight, bias), *rest])
    monkeypatch.setattr(demo, "load", lambda: spoiled)
    result = invoke("demo", "--dtype", "float32")
    assert result.exit_code == 1
    assert "is not above 0.95" in result.output


def test_demo_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_digits, "NETWORKS", {"MLP": train_digits.NETWORKS["MLP"]._replace(epochs=6)})
    result = invoke("demo", "--train", "--dtype", "float32")
    assert result.exit_code == 0, result.output
    step, trained = result.output.rstrip().split("\n\n")
    assert [tuple(re.split("  +", line)[:2]) for line in step.splitlines()[2:]] == [
        ("loss = nt.cross_entropy(self.model(images), labels)", "cpu"),
        ("loss.backward()", "cpu"),
        ("self.optimizer.step()", "cpu"),
    ]
    network, dtype, steps, loss, accuracy, *_ = trained.splitlines()[-1].split()
    assert (network, dtype, steps) == ("MLP", "float32", "240")
    assert float(loss) < 0.3
    assert float(accuracy) > 0.95
    monkeypatch.setattr(train_digits, "LEARNING_RATE", 0.0)
    monkeypatch.setattr(train_digits, "NETWORKS", {"MLP": train_digits.NETWORKS["MLP"]._replace(epochs=1)})
    result = invoke("demo", "--train", "--dtype", "bfloat16")
    assert result.exit_code == 1
    assert "MLP, bfloat16: accuracy 0." in result.output
    assert "is not above 0.95" in result.output


@needs_compiler
@pytest.mark.parametrize("device", [pytest.param("sim:npu1", marks=pytest.mark.slow), "sim:npu2"])
def test_demo_reads_the_digits_on_a_simulated_npu(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "HOT_RUNS", 1)  # The simulator is slow.
    digits = demo.load()
    for dtype in demo.DTYPE_NAMES:
        here = demo.run(digits, dtype)
        there = demo.run(digits, dtype, device)
        used = f"{device}?float32=emulate"
        assert {row.device for row in there.explanation} == {used, "-"}
        assert [total.device for total in there.explanation.totals] == [used]
        assert abs(there.accuracy - here.accuracy) <= 0.002
        assert demo.complaints([there]) == []


@pytest.mark.parametrize("columns", [10, 60, 80, 200])
def test_ops_lists_every_op(columns: int) -> None:
    result = invoke("ops", columns=columns)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= max(columns, 60)
    entries: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith(" "):
            entries[name] += f" {line.strip()}"
        elif line:
            name, _, text = line.partition("  ")
            entries[name] = text.strip()
    assert set(OPS) <= {name.removesuffix(" (internal)") for name in entries}
    assert {"contract (internal)", "matmul", "linear", "rope", "layer_norm"} <= set(entries)
    assert "MUL_MAT" in entries["matmul"]
    assert "UNARY_SILU" in entries["silu"]
    assert "NPU: elementwise" in entries["silu"]
    assert entries["zeros_like"].startswith("Create zeros of the input's shape and dtype.")


def test_ops_describes_those_that_fit_a_pattern() -> None:
    shown = invoke("ops", "softmax", columns=80).output
    assert "softmax(input: Operand, dim: int, dtype: Any = None) -> Tensor\n" in shown
    assert "It can run: CPU, compiled; NPU kernels, rowwise." in shown
    convolutions = invoke("ops", "conv_2d").output
    assert all(f"NPU kernels, {family}." in convolutions for family in ("conv", "windows"))
    assert "log_softmax(input" in shown
    assert "mul_mat(a: Tensor, b: Tensor, *, exact: bool = False) -> Tensor" in invoke("ops", "MUL_MAT").output
    unknown = invoke("ops", "softmx")
    assert unknown.exit_code == 1
    assert "softmax" in unknown.output


@pytest.mark.parametrize(
    "command", [["ops", "relu"], ["info"], ["config"], ["doctor"], ["cache", "ls"], ["selftest", "--device=cpu"]]
)
def test_json_means_the_same_everywhere(command: list[str], tmp_path: Path) -> None:
    quick = ["--quick", "--family=rope"] if command[0] == "selftest" else []
    printed = CliRunner().invoke(main, [*command, *quick, "--json"])
    content = json.loads(printed.stdout)
    file = tmp_path / "out.json"
    beside = CliRunner().invoke(main, [*command, *quick, "--json", str(file)])
    assert type(json.loads(file.read_text("utf-8"))) is type(content)
    assert not beside.stdout.startswith(("{", "["))  # the tables
    absent = CliRunner().invoke(main, [*command, *quick, "--json", str(tmp_path / "absent" / "out.json")])
    assert absent.exit_code == 2
    assert "there is no directory" in absent.output


def test_examples_are_copied_and_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert "README.md: is there already" in invoke("examples", str(tmp_path)).output
    source = ROOT / "examples"
    patterns = ("*.ipynb", "*.py", "*.md", "data/*.md", "data/*.npz", "data/*.gguf")
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()} == {
        path.relative_to(source) for pattern in patterns for path in source.glob(pattern)
    }
    data = source / "data"
    assert (tmp_path / "data" / "digits.npz").read_bytes() == (data / "digits.npz").read_bytes()
    assert (tmp_path / "data" / "made_up_model.gguf").read_bytes() == (data / "made_up_model.gguf").read_bytes()
    assert (tmp_path / "README.md").read_text() == "mine"
    first = "01_first_steps.ipynb"
    assert (tmp_path / first).read_bytes() == (source / first).read_bytes()


def test_copied_programs_run_and_links_of_their_readme_lead_somewhere(tmp_path: Path) -> None:
    invoke("examples", str(tmp_path))
    for target in re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text("utf-8")):
        assert (tmp_path / target).is_file()
    load = python("-c", "import train_digits as t; print(len(t.load()[1].labels))", cwd=tmp_path)
    assert load.stdout == "500\n"
    model = tmp_path / "data" / "made_up_model.gguf"
    shipped = model.read_bytes()
    model.unlink()
    python("made_up_model.py", cwd=tmp_path)
    assert model.read_bytes() == shipped


def test_a_wheel_has_the_data_that_the_package_reads() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {name: ROOT / settings["package-dir"].get(name, name.replace(".", "/")) for name in settings["packages"]}
    data = {
        path
        for name, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in folders.get(name, ROOT / "absent").glob(pattern)
    }
    files = {path for folder in folders.values() for path in folder.iterdir()}
    there = {path.resolve() for path in files if path.suffix in (".json", ".ipynb", ".npz", ".ll", ".css", ".html")}
    assert there <= {path.resolve() for path in data}


@pytest.mark.slow
def test_an_editable_installation_is_not_hidden_by_the_folder_of_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    checkout = tmp_path / "npu_tensor"
    unneeded = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "builtin_kernels", "docs", "site", "tests")
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=unneeded)
    program = "import sys; from setuptools.build_meta import build_editable; build_editable(sys.argv[1])"
    command = [sys.executable, "-c", program, str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    # Python orders site-packages this way when it starts in the directory of the checkout.
    program = "import site, sys; sys.path = [p for p in sys.path if p != sys.argv[2]]; site.addsitedir(sys.argv[1])"
    program += "; import npu_tensor; print(npu_tensor.__file__)"
    command = [sys.executable, "-c", program, str(site), str(ROOT)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == f"{checkout / 'npu_tensor' / '__init__.py'}\n", done.stderr


def test_info_names_versions_and_settings(tmp_path: Path) -> None:
    with config.scope(cache_path=str(tmp_path)):
        result = invoke("info", columns=1000)
    assert result.exit_code == 0
    assert nt.__version__ in result.output
    assert np.__version__ in result.output
    assert str(tmp_path) in result.output
    for setting in SETTINGS.values():
        assert setting.variable in result.output


@pytest.mark.parametrize("command", ["doctor", pytest.param("info", marks=pytest.mark.slow)])
def test_commands_are_as_wide_as_the_terminal(command: str) -> None:
    lines = run_command(*command.split(), COLUMNS="100").stdout.splitlines()
    written = [line for line in lines if not line.startswith(("        fix: ", "/", "No NPU"))]
    assert 80 < max(map(len, written)) <= 100


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command runs in a separate process, which reads the environment again."""
    return python("-m", "npu_tensor", *arguments, exit_code=None, **environment)


def test_a_bad_setting_does_not_keep_the_settings_from_being_shown(tmp_path: Path) -> None:
    variable = "NPU_TENSOR_CPU_FEATURES"
    bad = {variable: "maybe", "COLUMNS": "200", "NPU_TENSOR_CACHE_DIR": str(tmp_path)}
    for command, code in (("config", 1), ("info", 0)):
        done = run_command(command, **bad)
        assert done.returncode == code, done.stderr
        (row,) = (line for line in done.stdout.splitlines() if line.startswith(variable))
        assert "maybe" in row
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "warning"),
    [
        ("NPU_TENSOR_CACHE_DIR", "/proc/x", "compiled kernels are not kept in /proc/x"),
        ("NPU_TENSOR_RECORD", "/proc/x/y.json", "NPU_TENSOR_RECORD: there is no directory /proc/x"),
        ("NPU_TENSOR_RECORD", "{directory}/cpu.json", "cpu.json has no kernels: "),
        ("NPU_TENSOR_JITT", "1", "the environment sets NPU_TENSOR_JITT"),
    ],
)
def test_warnings_of_commands_have_no_place(variable: str, value: str, warning: str, tmp_path: Path) -> None:
    done = run_command("demo", "--dtype", "float32", **{variable: value.format(directory=tmp_path)})
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: ")
    assert warning in line


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("generate {model} hi --temperature -1", "temperature must be 0 or more"),
        ("generate {model} hi --top-p 2", "top_p must be above 0 and at most 1"),
        ("generate {model} hi --seed -1", "seed must be 0 or more"),
        ("selftest --device cpu --family x", "no kernel family x"),
        ("selftest --device cpu --dtype x", "'x' is not a dtype"),
        ("selftest --device cpu --dtype f64", "no kernel takes f64"),
        ("selftest --device cpu --device sim:npu2", "one device is tested at a time"),
        ("kernel-source elementwise-silu-f32 --arch aie2 --columns 99", "aie2 has "),
        ("bench --only nosuch", "no such workload: nosuch"),
    ],
)
def test_bad_values_have_one_exit_code(command: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    model = str(ROOT / "examples" / "data" / "made_up_model.gguf")
    result = invoke(*(model if word == "{model}" else word for word in command.split()))
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_no_summary_of_a_command_is_cut() -> None:
    lines = invoke("--help", columns=80).output.partition("Commands:\n")[2].splitlines()
    assert len(lines) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_a_reader_that_has_gone_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "npu_tensor", "ops"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments", [["ops"], ["--help"], pytest.param(["demo", "--dtype", "float32"], marks=pytest.mark.slow)]
)
def test_output_to_a_full_disk_is_one_sentence(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "npu_tensor", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: the output cannot be written: No space left on device\n")
