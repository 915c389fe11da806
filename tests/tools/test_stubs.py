"""The generated stubs are fresh, complete, and serve a user's type checker."""

import ast
import os
import sys
from pathlib import Path

import pytest
from running import python

import npu_tensor as nt
from npu_tensor.ops import registry
from npu_tensor.tools import stubs

PACKAGE = Path(nt.__file__).parent
FUNCTIONS = registry.functions()


def test_stubs_are_fresh() -> None:
    assert stubs.stale() == [], "run python -m npu_tensor.tools.stubs"


def test_check_reports_a_stale_stub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.pyi"
    old.write_text("x: int\n")
    monkeypatch.setattr(stubs, "STUBS", {old: lambda: "x: float\n"})
    monkeypatch.setattr(sys, "argv", ["stubs", "--check"])
    assert stubs.main() == 1
    assert "old.pyi is stale" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["stubs"])
    assert stubs.main() == 0
    assert old.read_text() == "x: float\n"


def names(stub: str) -> set[str]:
    """Return the names that a stub defines at its top level, or in its class."""
    result = set()
    body = ast.parse((PACKAGE / stub).read_text("utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    for node in classes[0].body if classes else body:
        if isinstance(node, ast.FunctionDef):
            result.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            result.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            result |= {alias.asname for alias in node.names if alias.asname}
    return result


def test_every_public_name_is_in_the_stub() -> None:
    assert set(nt.__all__) <= names("__init__.pyi")
    assert set(FUNCTIONS) <= names("__init__.pyi")
    for name in names("__init__.pyi"):
        assert hasattr(nt, name), name


def test_every_method_is_in_the_stub() -> None:
    declared = names("_methods.pyi")
    own = {name for name in vars(nt.Tensor) if not name.startswith("_") and callable(getattr(nt.Tensor, name))}
    written = {
        node.name
        for node in ast.walk(ast.parse((PACKAGE / "tensor.py").read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert own - written <= declared
    for name in declared:
        assert hasattr(nt.Tensor, name), name


def test_names_of_builtins_do_not_leak_into_the_package() -> None:
    """nt.sum and the like are attributes of the package only; its modules and `import *` leave Python's own alone."""
    assert nt.sum(nt.tensor([1, 2])).item() == 3
    for name in ("abs", "all", "any", "max", "min", "pow", "round", "sum"):
        assert callable(getattr(nt, name))
        assert name not in nt.__all__


PROGRAM = """\
from typing import assert_type

import numpy as np

import npu_tensor as nt

x = nt.tensor([[1.0, 2.0]])
assert_type(x, nt.Tensor)
assert_type((x * 2 + 1).relu(), nt.Tensor)
assert_type(1 - x, nt.Tensor)
assert_type(x.sum(dim=-1, keepdim=True), nt.Tensor)
assert_type(nt.linear(x, x, bias=None), nt.Tensor)
assert_type(x[0, :], nt.Tensor)
assert_type(nt.zeros(2, 3, dtype=nt.bfloat16), nt.Tensor)
assert_type(x.sort().indices, nt.Tensor)
assert_type(nt.add(x, np.ones(2)), nt.Tensor)
for row in x:
    assert_type(row, nt.Tensor)
x += 1
x[0] = 2
nt.softmax(x)  # error: dim is missing
x.leaky_relu("much")  # error: not a number
x.no_such_method()  # error
nt.no_such_function(x)  # error
"""


def test_a_type_checker_sees_functions_and_methods(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    # No public type is one of theirs, and half of all modules are.
    others = ",".join(f"{name}.*" for name in ("IPython", "dask", "distributed", "matplotlib", "mypy", "rich"))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{others}]\nfollow_imports = skip\n", "utf-8")
    # The package's own errors are not the user's: mypy is silent about installed packages.
    options = ["--strict", "--follow-imports=silent", "--cache-dir", os.devnull]
    done = python("-m", "mypy", *options, "program.py", cwd=tmp_path, exit_code=None, MYPYPATH=str(PACKAGE.parent))
    result = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    marked = [str(number) for number, line in enumerate(PROGRAM.splitlines(), 1) if "# error" in line]
    assert result == marked, done.stdout + done.stderr
