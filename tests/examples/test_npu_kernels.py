"""The documented lines of examples/npu_kernels.py, and its exit status."""

import ast
import re
import runpy
from types import SimpleNamespace

import pytest
from paths import EXAMPLES, ROOT

from npu_tensor.authoring.custom_kernel import CustomKernel, Trial, Trials


def lines(kernel: ast.FunctionDef) -> tuple[int, int]:
    """Return the lines of a kernel in C++ and in Python, which has no comments and no docstring here."""
    (decorator,) = kernel.decorator_list
    assert isinstance(decorator, ast.Call)
    source = ast.literal_eval(decorator.args[0])
    assert kernel.end_lineno is not None
    return source.count("\n") - 1, kernel.end_lineno - decorator.lineno + 1 - (source.count("\n") - 1)


def test_documented_lines() -> None:
    tree = ast.parse((EXAMPLES / "npu_kernels.py").read_text("utf-8"))
    counted = {node.name: lines(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    table = (ROOT / "docs" / "write_a_kernel.md").read_text("utf-8").split("## Lines beside the originals")[1]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (\d+) \| (\d+) \|", table, re.MULTILINE)
    assert {name: (int(cxx), int(python)) for name, cxx, python in rows} == counted


def test_a_kernel_that_fails_sets_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(kernel: CustomKernel) -> Trials:
        return Trials([Trial((1,), "npu2", "differs" if kernel.name in ("add", "fir") else "")])

    monkeypatch.setattr(CustomKernel, "test", tried)
    monkeypatch.setattr(CustomKernel, "cost", lambda *_: SimpleNamespace(seconds=1e-6))
    with pytest.raises(SystemExit, match=r"^not equal to NumPy: add, fir$"):
        runpy.run_path(str(EXAMPLES / "npu_kernels.py"), run_name="__main__")
