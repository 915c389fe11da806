"""Every notebook in examples/ runs, shows the output that its text describes, and is stored without outputs."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebooks need the extra `test`")
pytest.importorskip("nbclient", reason="the notebooks need the extra `test`")

from nbformat import NotebookNode  # noqa: E402
from notebook_runs import execute, executed, only_own_directories  # noqa: E402
from paths import EXAMPLES  # noqa: E402
from running import needs_compiler  # noqa: E402

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SIMULATING = [path for path in NOTEBOOKS if path.stem[:2] in ("02", "03", "04", "06")]


def name(path: Path) -> str:
    return path.stem


class Executed:
    """Executed notebook: the output of its cells, by their ids."""

    def __init__(self, notebook: NotebookNode) -> None:
        self.notebook = notebook
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", ())]
        assert [output.text for output in outputs if output.get("name") == "stderr"] == []

    def cell(self, id: str) -> NotebookNode:
        (result,) = (cell for cell in self.notebook.cells if cell.id == id)
        return result

    def text(self, id: str) -> str:
        """Return the printed output of a cell, and the text of its displayed objects."""
        result = []
        for output in self.cell(id).outputs:
            result.append(output.text if output.output_type == "stream" else output.data.get("text/plain", ""))
        return "".join(result)

    def html(self, id: str) -> str:
        """Return the HTML output of a cell."""
        data = [output.data for output in self.cell(id).outputs if "data" in output]
        return "".join(part.get("text/html", "") + part.get("image/svg+xml", "") for part in data)

    def numbers(self, id: str) -> list[float]:
        return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", self.text(id))]


def shown_by(number: int, run_directory: Path) -> Executed:
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith(f"{number:02}_"))
    return Executed(executed(path, run_directory))


def test_first_steps(run_directory: Path) -> None:
    shown = shown_by(1, run_directory)
    assert shown.text("show-pending").startswith("Tensor([[")
    assert "4 ops recorded" in shown.html("show-pending")
    assert "<svg" in shown.html("show-pending")
    assert shown.text("look-now").endswith("True")
    assert "inner dimensions differ" in shown.text("bad-shapes")
    assert "recorded at In[" in shown.text("bad-shapes")
    assert "<svg" in shown.html("explain-pending")
    assert shown.text("jit-define") == "(1, 1)"
    assert shown.text("jit-other-shape") == "(2, 2)"
    assert shown.numbers("digits-network")[-1] > 0.95


@needs_compiler
def test_why_on_the_cpu(run_directory: Path) -> None:
    shown = shown_by(2, run_directory)
    sizes = shown.text("sizes-table").splitlines()[1:]
    assert "cpu" in sizes[0]
    assert "sim:npu2" in sizes[-1]
    page = shown.html("whole-explain")
    assert "<svg" in page
    assert "sim:npu2" in page
    assert "argsort" in shown.text("force-error")
    assert "no NPU kernel" in shown.text("force-error")
    assert "warm" in shown.html("profile-op")
    assert "flowchart" in shown.text("picture-save")
    assert shown.numbers("trace-save")[0] > 1000  # the simulated tiles alone do more


@needs_compiler
def test_bfloat16(run_directory: Path) -> None:
    shown = shown_by(3, run_directory)
    assert shown.numbers("sums-show")[-2:] == [256, 1000]
    fused, step_by_step = shown.numbers("chain-define")
    assert 0 < fused < step_by_step
    assert "sim:npu2" in shown.text("simulated-run")
    exact, emulated, rounded = (float(line.split()[-5]) for line in shown.text("float32-run").splitlines())
    assert emulated < exact < 1e-6 < 1e-4 < rounded
    assert "float32 is exact on the CPU" in shown.text("float32-explain")


@needs_compiler
def test_inside_a_kernel(run_directory: Path) -> None:
    shown = shown_by(4, run_directory)
    assert shown.text("check-run") == "[]"
    assert "65472 can be used" in shown.text("broken-run")
    assert "15 objects" in shown.text("unbalanced-run")
    assert "right: True" in shown.text("simulate-run")
    assert any(limit in shown.text("predict-run") for limit in ("compute", "stream", "ddr"))
    for cell in ("timeline-run", "timeline-product"):
        assert "<svg" in shown.html(cell)
    assert "ObjectFifo(" in shown.text("program-show")


def test_transformer_block(run_directory: Path) -> None:
    shown = shown_by(5, run_directory)
    page = shown.html("explain-it")
    assert "<svg" in page
    assert "rotate" in page
    largest, mean, worst = shown.numbers("accuracy-run")
    assert 0 < mean < worst < largest / 100
    assert "predicted" in shown.text("npu-explain")


@needs_compiler
def test_training(run_directory: Path) -> None:
    shown = shown_by(6, run_directory)
    captures, first, last, right = shown.numbers("loop-run")
    assert captures == 1
    assert last < 0.2 * first
    assert right > 0.95
    assert "<svg" in shown.html("loss-plot")
    assert "silu_backward_0" in shown.html("backward-explain")
    assert len(shown.text("step-explain").splitlines()) == 3
    before, *_, after = shown.numbers("npu-run")[:3]
    assert after < before
    assert re.search(r"relu_backward_0 .* sim:npu2 elementwise", shown.text("npu-rows"))


def test_bring_your_model(run_directory: Path) -> None:
    pytest.importorskip("torch")
    shown = shown_by(8, run_directory)
    assert shown.numbers("compile")[0] < 1e-5
    assert shown.text("explain").startswith("1 graph, left to PyTorch: nothing")
    assert "<svg" in shown.html("explain")
    ops, kernels = shown.numbers("kernels")
    assert kernels < ops
    assert "device sim:npu2, policy latency" in shown.text("npu")
    assert "gemm" in shown.text("npu-rows")


@needs_compiler
def test_write_a_kernel(run_directory: Path) -> None:
    shown = shown_by(9, run_directory)
    assert re.search(r"\d+ of 1023 elements differ", shown.text("wrong"))
    assert re.search(r"leaky:5:\d+: error(.|\n)* 5 \|", shown.text("typo"))
    assert "most for scalar code" in shown.text("scalar")
    assert "limited by stream" in shown.text("vector")
    assert "<svg" in shown.html("vector")
    one, two = shown.numbers("double")[:2]
    assert two < one
    seconds = [float(line.split()[2]) for line in shown.text("all").splitlines()]
    assert sorted(seconds, reverse=True) == seconds
    assert shown.text("all").rstrip().endswith("limited by ddr")
    assert re.search(r"leaky .* sim:npu2 .* custom", shown.text("use"))


@needs_compiler
def test_write_a_stencil(run_directory: Path) -> None:
    shown = shown_by(10, run_directory)
    assert "differ" not in shown.text("scalar")
    assert "limited by ddr" in shown.text("fast")
    assert shown.numbers("image")[-6:] == [39, 40, 79, 80, 119, 120]


@pytest.mark.parametrize("path", SIMULATING, ids=name)
def test_without_a_compiler(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated parts report that the compiler is missing, and every cell succeeds."""
    only_own_directories(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    shown = Executed(execute(path, tmp_path))
    assert any("no C++" in shown.text(cell.id) for cell in shown.notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_how_it_is_stored(path: Path) -> None:
    """Without results, in the form that nbformat writes, so that differences are those of the cells."""
    text = path.read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert text == nbformat.writes(notebook, indent=1) + "\n"
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.keys() <= {"kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info
    for cell in notebook.cells:
        assert not cell.metadata, cell.id
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id
    assert not re.search(r"(?:/home|/root|/tmp|/Users|/work)/|[A-Z]:\\\\", text)
