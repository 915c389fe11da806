"""The Python code in README, CONTRIBUTING and docs/ runs, and generated parts match the code.

Blocks of one file are one program, in order. A block preceded by an HTML comment that starts with `not run:` and gives
the reason is left out.
"""

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from paths import ROOT
from running import python

import npu_tensor as nt
from npu_tensor.cli.ops import is_in_place
from npu_tensor.config import SETTINGS
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.design import Source
from npu_tensor.dtypes import DTYPES
from npu_tensor.ops import registry
from npu_tensor.runtime.devices.device_kind import OPTIONS
from npu_tensor.runtime.sim import host_compiler

FUNCTIONS = [name for name in registry.functions() if not is_in_place(name)]

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "examples").glob("**/*.md")),
]
BLOCK = re.compile(
    r"^(?P<skip> *<!-- not run: [^>]+ -->\n+)?(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
WRITTEN_FOR_THE_SITE = ("interface.md", "ops.md")
LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#\s]+)")


def program(text: str) -> str:
    """The code blocks of a document, each at its own lines, so that tracebacks point into the document."""
    lines: list[str] = []
    for match in BLOCK.finditer(text):
        if not match["skip"]:
            lines += [""] * (text.count("\n", 0, match.start("code")) - len(lines))
            lines += textwrap.dedent(match["code"]).splitlines()
    return "\n".join(lines)


PROGRAMS = {str(path.relative_to(ROOT)): code for path in DOCUMENTS if (code := program(path.read_text("utf-8")))}


@pytest.mark.parametrize("document", PROGRAMS)
def test_code_blocks_run(document: str, tmp_path: Path) -> None:
    script = tmp_path / Path(document).with_suffix(".py").name
    script.write_text(PROGRAMS[document], "utf-8")
    # A process of its own: a document may declare ops and change settings.
    python("-W", "error", script, cwd=tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(path: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(path.read_text("utf-8"))]
    written = WRITTEN_FOR_THE_SITE if path.parent == ROOT / "docs" else ()
    assert [target for target in targets if target not in written and not (path.parent / target).exists()] == []


# --- generated pages


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("reference")


def test_every_setting_and_every_option_has_a_row(reference: ModuleType) -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    page = reference.with_tables(text)
    first = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert [name for name in first if name.startswith("NPU_")] == [setting.variable for setting in SETTINGS.values()]
    assert [name for name in first if name in OPTIONS] == [*OPTIONS]
    # Handwritten text is unchanged.
    written = [line for line in text.splitlines() if line not in reference.TABLES]
    assert [line for line in page.splitlines() if line in written] == written


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
def test_the_table_of_the_core_language_has_what_headers_declare(reference: ModuleType, arch: Arch) -> None:
    page = reference.with_tables((ROOT / "docs" / "write_a_kernel.md").read_text("utf-8"))
    documented = set(re.findall(r"`((?:aie|nt)::\w+)`", page))
    names = set(documented)
    if arch == "aie2":
        names -= {"aie::exp2", "aie::tanh", "aie::block_vector", "aie::block_vector_input_buffer_stream"}
    uses = "\n".join(f"namespace n{number} {{ using {name}; }}" for number, name in enumerate(sorted(names)))
    text = f"#include <aie_api/aie.hpp>\n#include <nt/vector_math.hpp>\n{uses}"
    host_compiler.library(Source("names", text), arch)
    assert re.search("`aie::mmul` \\([^)]*`mac`", page)
    # The headers of the package are users of the table, too.
    headers = "".join(path.read_text("utf-8") for path in (ROOT / "kernels" / "include" / "nt").glob("*.hpp"))
    assert set(re.findall(r"\baie::\w+(?=\(|<[^<>]*>\()", headers)) <= documented


def test_every_public_name_that_is_no_op_is_described(reference: ModuleType) -> None:
    page = reference.PAGES["interface.md"]()
    described = set(re.findall(r"^### (.+)$", page, re.MULTILINE))
    functions = registry.functions()
    others = {name for name in nt.__all__ if name not in functions and not isinstance(getattr(nt, name), nt.DType)}
    assert others <= described
    assert not [dtype.name for dtype in DTYPES if f"`nt.{dtype.name}`" not in page]
    assert not re.search(r"ForwardRef|: '|: \"Literal|-> '|[^`]<[a-z]+>[^,)]", page)


def test_ops_that_no_function_is_named_after_are_marked_and_explained(reference: ModuleType) -> None:
    x = nt.ones(2, 3)
    recorded = {
        "matmul": nt.matmul(x, x.T),
        "zeros": nt.zeros(2),
        "rope": nt.rope(nt.ones(2, 1, 4), nt.arange(2)),
        "to": x.to(nt.int32),
    }
    page = reference.PAGES["ops.md"]()
    assert set(recorded) == set(reference.RECORDED)
    for function, op in reference.RECORDED.items():
        assert recorded[function]._node.call.op.name == op
        assert f"\n| `{op}` (internal) |" in page
        assert f"`{function}` records `{op}`" in page
    linked = re.findall(r"^\| \[`(\w+)`\]\((functions/\w+\.md)\) \|", page, re.MULTILINE)
    assert {*FUNCTIONS} == {name for name, _ in linked}
    assert {target for _, target in linked} <= {*reference.PAGES}


def test_every_function_has_an_example_that_runs(reference: ModuleType) -> None:
    functions = reference.functions
    assert [name for name in FUNCTIONS if not functions.example(name)] == []
    values = {name: functions.evaluated(functions.example(name)) for name in FUNCTIONS}
    assert all(map(str, values.values()))  # Text reads the values, which runs the recorded ops.
    np.testing.assert_allclose(values["softmax"].numpy().sum(0), 1, 1e-6)
    assert values["where"].tolist() == [1.0, 0.0]


def test_a_page_of_a_function_says_what_help_says(reference: ModuleType) -> None:
    page, text = reference.PAGES["functions/softmax.md"](), inspect.getdoc(nt.softmax)
    for line in (text or "").splitlines():
        words = line.strip().removeprefix(">>> ")
        assert words.removesuffix(":").rpartition(": ")[2] in page
    for part in (
        "# softmax\n",
        "nt.softmax(input: Operand, dim: int, dtype: Any = None) -> Tensor",
        "Also a method: `x.softmax(dim)`.",
        "- `dim`: Dimension",
        "[[0.1192, 0.1192],",
        "| [`softmax`](softmax.md) | floats | compiled | rowwise |",
    ):
        assert part in page
    # The page of a function made of ops lists the ops that its example records.
    assert "| `contract` | all but bool | compiled | gemm |" in reference.PAGES["functions/linear.md"]()


def test_the_site_builds(site: Path) -> None:
    pages = {path.parent.name for path in site.glob("*/index.html")}
    written = {"contributing", *(name.removesuffix(".md") for name in WRITTEN_FOR_THE_SITE)}
    assert pages >= {path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "index"} | written
    # The notebooks are pages, and the quick start leads to them.
    built = (site / "notebooks").glob("*/index.html")
    notebooks = {path.parent.name: path.read_text("utf-8") for path in built}
    assert notebooks.keys() == {path.stem for path in (ROOT / "examples").glob("*.ipynb")}
    assert all("import npu_tensor" in re.sub("<[^>]*>", "", text) for text in notebooks.values())
    home = (site / "index.html").read_text("utf-8")
    assert all(f'href="notebooks/{name}/"' in home for name in notebooks)
    # Nothing is loaded from elsewhere.
    for page in (home, *notebooks.values()):
        assert not re.findall(r'(?:src|href)="https?://(?!squidfunk)[^"]*\.(?:js|css|woff2?)"', page)
