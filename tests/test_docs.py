"""The Python code in README, CONTRIBUTING and docs/ runs. Blocks of one file are one program, in order.

A block preceded by an HTML comment that starts with `not run:` and gives the reason is left out.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from npu_tensor.config import Config

ROOT = Path(__file__).resolve().parents[1]
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
LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#\s]+)")


def program(text: str) -> str:
    """The code blocks of a document, each at its own lines, so that tracebacks point into the document."""
    lines: list[str] = []
    for match in BLOCK.finditer(text):
        if not match["skip"]:
            lines += [""] * (text.count("\n", 0, match.start("code")) - len(lines))
            lines += textwrap.dedent(match["code"]).splitlines()
    return "\n".join(lines)


PROGRAMS = {
    str(path.relative_to(ROOT)): code for path in DOCUMENTS if (code := program(path.read_text("utf-8")))
}


@pytest.mark.parametrize("document", PROGRAMS)
def test_code_blocks_run(document: str, tmp_path: Path) -> None:
    script = tmp_path / Path(document).with_suffix(".py").name
    script.write_text(PROGRAMS[document], "utf-8")
    # A process of its own: a document may declare ops and change settings.
    search_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_documents_have_examples() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md"} <= set(PROGRAMS)


def test_blocks_keep_their_line_numbers() -> None:
    fence = "```"
    skipped = f"<!-- not run: needs a network -->\n{fence}python\nb\n{fence}\n"
    text = f"# Title\n\n{fence}python\na = 1\n{fence}\n\n{skipped}  {fence}python\n  c\n  {fence}\n"
    assert program(text).splitlines() == [{4: "a = 1", 12: "c"}.get(line, "") for line in range(1, 13)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(path: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(path.read_text("utf-8"))]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    rows = [
        f"| {code(row['variable'])} | {code(row['aliases'])} | {code(row['default'])} | {row['doc']} |"
        for row in Config.table()
    ]
    assert [line for line in text.splitlines() if line.startswith(("| `NPU_TENSOR_", "| `NPU_VISIBLE_"))] == rows


def code(words: str) -> str:
    """Each word of a list in the type of code."""
    return ", ".join(f"`{word}`" for word in words.split(", ") if word)
