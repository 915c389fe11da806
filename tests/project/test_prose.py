"""Docstrings open as the style of this project asks: with a verb or a noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

FOLDERS = ("npu_tensor", "kernels", "benchmarks", "scripts", "examples", "tests")
OPENING = re.compile(r"(What|Of|Where|Whether|How|Who|So many|As)\b")


def described(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, and the strings that describe the assignment before them."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, (ast.Lambda, ast.IfExp)) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as text):
                    yield text


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_open_with_a_verb_or_a_noun(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {str(text.value).strip()[:60]}"
        for path in sorted(Path(ROOT, folder).rglob("*.py"))
        for text in described(ast.parse(path.read_text("utf-8")))
        if OPENING.match(str(text.value).strip())
    ]
    assert not wrong, "\n".join(wrong)
