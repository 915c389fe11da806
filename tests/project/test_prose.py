"""Prose of code and documents: docstrings and comments of C++ open with a verb or a noun, in words of the field."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT

from npu_tensor.config import SETTINGS
from npu_tensor.ops import registry

FOLDERS = ("npu_tensor", "kernels", "benchmarks", "scripts", "examples", "tests")
OPENING = re.compile(r"(What|Of|Where|Whether|How|Who|So many|As)\b")
HOME_MADE = re.compile(
    r"\b(heed\w*|befall\w*|settle[sd]?|lasting|offered|behind|by place|of then|of before|so many|nobody|somebody"
    r"|whoever|(?<!there )(?:is|are|was|were) no (?!longer|more|less|larger)\w+)\b",
    re.IGNORECASE,
)
"""Words that readers stumble over, and a negated noun where English negates the verb."""


def sources(folder: str) -> list[Path]:
    return sorted(Path(ROOT, folder).rglob("*.py"))


def described(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, the strings after assignments, and the help of options."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, (ast.Lambda, ast.IfExp)) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as text):
                    yield text
        match node:
            case ast.keyword(arg="help", value=ast.Constant(value=str()) as text):  # of a command's option
                yield text


def messages(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts in errors, warnings and reasons of refusals."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if re.search(r"(Error|Refusal|Violation|warn)$", ast.unparse(called) if called else ""):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file, with their lines: docstrings, comments and messages, or all but code blocks."""
    content = path.read_text("utf-8")
    if path.suffix == ".hpp":
        for number, line in enumerate(content.splitlines(), 1):
            if comment := re.search(r"//.*", line):
                yield number, comment[0]
        return
    if path.suffix == ".py":
        tree = ast.parse(content)
        for text in (*described(tree), *(() if path.is_relative_to(ROOT / "tests") else messages(tree))):
            yield text.lineno, str(text.value)
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        return
    in_code = False
    for number, line in enumerate(content.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if not in_code:
            yield number, line


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_open_with_a_verb_or_a_noun(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {str(text.value).strip()[:60]}"
        for path in sources(folder)
        for text in described(ast.parse(path.read_text("utf-8")))
        if OPENING.match(str(text.value).strip())
    ]
    assert not wrong, "\n".join(wrong)


def test_comments_of_headers_open_with_a_verb_or_a_noun() -> None:
    headers = sorted(Path(ROOT, "kernels").rglob("*.hpp"))
    comments = {path: re.findall(r"(?:^[ \t]*//.*\n)+", path.read_text("utf-8"), re.MULTILINE) for path in headers}
    assert not [
        f"{path.relative_to(ROOT)}: {comment.strip()[:60]}"
        for path, found in comments.items()
        for comment in found
        if OPENING.match(comment.strip().removeprefix("//").strip())
    ]


def test_texts_that_are_made_open_with_a_verb_or_a_noun() -> None:
    """Docstrings that functions get from tables, and the descriptions of settings."""
    public = {**registry.functions(), **{f"Tensor.{name}": each for name, each in registry.methods().items()}}
    texts = {name: each.__doc__ or "" for name, each in public.items()}
    texts |= {name: setting.doc.capitalize() for name, setting in SETTINGS.items()}
    assert not {name: text[:60] for name, text in texts.items() if OPENING.match(text)}


@pytest.mark.parametrize("folder", [*FOLDERS, "docs", "pages"])
def test_words_are_those_of_the_field(folder: str) -> None:
    pages = sorted(Path(ROOT).glob("*.md") if folder == "pages" else Path(ROOT, folder).rglob("*.md"))
    headers = sorted(Path(ROOT, "kernels").rglob("*.hpp")) if folder == "kernels" else []
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}"
        for path in [*pages, *headers, *(sources(folder) if folder in FOLDERS else ())]
        for number, text in prose(path)
        for found in HOME_MADE.finditer(text)
    ]
    assert not wrong, "\n".join(wrong)
