"""npu-tensor gen-kernels: the words and exit codes of ggml-hsa's tool, and its documented workflows."""

import json
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from paths import GOLDEN, ROOT
from running import needs_compiler, python

import npu_tensor as nt
from npu_tensor.cli.gen_kernels import gen_kernels
from npu_tensor.ggml_hsa import generate
from npu_tensor.runtime.build.iron import IronBackend

SHARE = ROOT / "share" / "npu_tensor" / "examples"

no_mlir_aie = pytest.mark.skipif(IronBackend().missing() is None, reason="mlir-aie is installed")

# Both examples of the documentation of ggml-hsa's tool, unedited.
STRUCTURE = (GOLDEN / "ggml_hsa_format.json").read_text()
PRODUCTION = (GOLDEN / "ggml_hsa_deployment.json").read_text()


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(gen_kernels, list(map(str, arguments)))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A configuration of one kernel for each array."""
    (structure,), (production,) = (json.loads(text)["kernels"] for text in (STRUCTURE, PRODUCTION))
    path = tmp_path / "two.json"
    path.write_text(json.dumps({"description": "two", "kernels": [structure, {**production, "arch": "aie2p"}]}))
    return path


# --- from the configuration to the files


@needs_compiler
def test_every_kernel_is_made_and_logged(tmp_path: Path, two: Path) -> None:
    done = invoke("--config", two, "--output-dir", tmp_path / "out", "--target", "host", "--jobs", 2)
    assert done.stderr.splitlines() == [
        f"INFO: Loading configuration from {two}",
        "INFO: Generating 2 kernel(s)",
        "INFO: [1/2] Processing kernel: add_f32_1024",
        "INFO: Successfully generated kernel: add_f32_1024",
        "INFO: [2/2] Processing kernel: add_bf16_4096_model",
        "INFO: Successfully generated kernel: add_bf16_4096_model",
        "INFO: Generated 2/2 kernel(s) successfully",
    ]
    assert (done.exit_code, done.stdout) == (0, "")
    made = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").glob("aie*/*"))
    assert made == [
        *("aie2/add_f32_1024.json", "aie2/add_f32_1024.so"),
        *("aie2p/add_bf16_4096_model.json", "aie2p/add_bf16_4096_model.so"),
    ]
    again = invoke("--config", two, "--output-dir", tmp_path / "out", "--target", "host")
    assert again.exit_code == 0
    assert "INFO: Already generated kernel: add_f32_1024" in again.stderr


@needs_compiler
def test_bad_entries_are_reported_and_the_rest_is_made(tmp_path: Path, two: Path) -> None:
    document = json.loads(two.read_text())
    good = document["kernels"][0]
    document["kernels"] = [
        {**good, "input_tensors": ["1024/f32", "(1024,1,1,1)/f32"]},
        good,
        {**good, "exported_name": "c", "output_tensor": "(1024,1,1)/f32"},
        {**good, "exported_name": "d", "kernel_source": "none.py"},
        {key: value for key, value in good.items() if key != "arch"},
    ]
    two.write_text(json.dumps(document))
    for mode in (["--dry-run"], ["--list"], ["--target", "host", "--output-dir", tmp_path / "out"]):
        done = invoke("--config", two, *mode)
        assert done.exit_code == 1
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        assert len(errors) == 4
        expected = (
            ("/kernels/0/input_tensors/0", "Invalid shape format in 1024/f32"),
            ("/kernels/2/output_tensor", "Shape must have exactly 4 dimensions, got 3"),
            ("/kernels/3/kernel_source", "Kernel source not found: 'none.py'"),
            ("/kernels/4", "Kernel 4 missing 'arch'"),
        )
        for error, (pointer, message) in zip(errors, expected, strict=True):
            assert error.startswith(f"ERROR: {pointer}: {message}")
    assert done.stderr.splitlines()[-1] == "INFO: Generated 1/5 kernel(s) successfully"
    assert (tmp_path / "out" / "aie2" / "add_f32_1024.so").is_file()


@needs_compiler
def test_a_failed_build_is_an_exit_code(tmp_path: Path, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = generate.build

    def failing(request: Any, *rest: Any) -> Any:
        if request.design.arch == "aie2":
            raise nt.BuildError("error: no such instruction")
        return build(request, *rest)

    monkeypatch.setattr(generate, "build", failing)
    done = invoke("--config", two, "--output-dir", tmp_path / "out", "--target", "host")
    assert done.exit_code == 1
    assert "ERROR: Failed to generate kernel add_f32_1024: error: no such instruction" in done.stderr
    assert "INFO: Generated 1/2 kernel(s) successfully" in done.stderr
    assert not (tmp_path / "out" / "aie2").exists()


# --- without a compiler


@no_mlir_aie
def test_without_mlir_aie_it_validates_and_says_what_to_install(tmp_path: Path, two: Path) -> None:
    done = invoke("--config", two, "--output-dir", tmp_path / "out")
    assert done.exit_code == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("ERROR: Failed to import kernel build module: No module named 'aie'")
    assert "source scripts/env_setup.sh" in error
    assert not (tmp_path / "out").exists()
    document = json.loads(two.read_text())
    del document["kernels"][0]["arch"]
    two.write_text(json.dumps(document))
    done = invoke("--config", two, "--output-dir", tmp_path / "out")
    assert done.exit_code == 1
    assert "ERROR: /kernels/0: Kernel 0 missing 'arch'" in done.stderr


# --- the other options


def test_list_prints_the_canonical_names(two: Path) -> None:
    assert invoke("--config", two, "--list").stdout == (
        "add_f32_1024         aie2   add-1024f32-1024f32-1024f32\n"
        "add_bf16_4096_model  aie2p  add-4096bf16-4096bf16-4096bf16\n"
    )


def test_arrays_are_chosen_by_any_name(two: Path) -> None:
    for name, exported in (("aie2", "add_f32_1024"), ("npu1", "add_f32_1024"), ("Strix", "add_bf16_4096_model")):
        for option in ("--arch", "--target-device"):
            assert invoke("--config", two, "--list", option, name).stdout.split()[0] == exported
    both = invoke("--config", two, "--list", "--arch", "npu1", "--arch", "npu2")
    assert both.stdout == invoke("--config", two, "--list").stdout
    unknown = invoke("--config", two, "--list", "--arch", "npu9")
    assert unknown.exit_code == 2
    assert "there is no array" in unknown.stderr
    two.write_text(STRUCTURE)
    none = invoke("--config", two, "--dry-run", "--arch", "npu2")
    assert none.exit_code == 1
    assert "has no kernels for aie2p, but for aie2" in none.stderr


def test_a_configuration_runs_no_files_elsewhere(tmp_path: Path) -> None:
    """A configuration may be untrusted, and kernel sources are executed even for a check."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    ran = tmp_path / "ran"
    elsewhere = tmp_path / "there" / "ops.py"
    elsewhere.write_text(f"import os\nos.mkdir({str(ran)!r})\ndef twice(x):\n    return x + x\n")
    entry = {**json.loads(PRODUCTION)["kernels"][0], "kernel_name": "twice"}
    entry["input_tensors"] = entry["input_tensors"][:1]
    path = tmp_path / "here" / "a.json"
    for source in (str(elsewhere), "../there/ops.py", "x/../../there/ops.py"):
        path.write_text(json.dumps({"kernels": [{**entry, "kernel_source": source}]}))
        for mode in ("--dry-run", "--list"):
            done = invoke("--config", path, mode)
            assert done.exit_code == 1
            assert f"/kernels/0/kernel_source: Kernel source not found: {source!r} (searched " in done.stderr
            assert "; it is outside of them, and --kernels-dir can name its directory)" in done.stderr
    assert not ran.exists()
    path.write_text(json.dumps({"kernels": [{**entry, "kernel_source": str(elsewhere)}]}))
    assert invoke("--config", path, "--dry-run", "--kernels-dir", elsewhere.parent).exit_code == 0
    assert ran.exists()


# --- installed commands


@needs_compiler
@pytest.mark.parametrize(("name", "kernels"), [("minimal", 2), pytest.param("example", 25, marks=pytest.mark.slow)])
def test_the_installed_examples(tmp_path: Path, name: str, kernels: int) -> None:
    listed = invoke("--config", name, "--list")
    assert listed.exit_code == 0, listed.stderr
    assert len(listed.stdout.splitlines()) == kernels
    arguments = ["--output-dir", tmp_path, "--target", "host", "--arch", "npu1"]
    assert invoke("--config", name, *arguments).exit_code == 0
    directory = Path(invoke("--examples-dir").stdout.strip())
    installed = directory / f"{name}-kernel-config.json"
    assert installed.read_text() == (SHARE / f"{name}-kernel-config.json").read_text()
    python("-c", f"import json; json.load(open({str(installed)!r}))")  # the documented check of the syntax


def test_both_names_and_both_places_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    data = project["tool"]["setuptools"]["data-files"]
    for place in ("share/npu_tensor/examples", "share/ggml-hsa/examples"):
        assert [path.name for pattern in data[place] for path in sorted(ROOT.glob(pattern))] == [
            "example-kernel-config.json",
            "minimal-kernel-config.json",
        ]
    name = "ggml-hsa-gen-kernels"
    script = metadata.EntryPoint(name, project["project"]["scripts"][name], "console_scripts")
    assert script.load() is gen_kernels
