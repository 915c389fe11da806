"""Warnings point at the line of the program, however deep in the package they are issued."""

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import npu_tensor as nt
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import Config
from npu_tensor.ggml_hsa import config_file
from npu_tensor.jit import MANY_SIGNATURES
from npu_tensor.planner import selection


def test_the_line_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its message is the URI that is given. To warnings, it is a part of the package.
    select = eval(compile("lambda uris, policy: warn(uris)", selection.__file__, "eval"), {"warn": warn})
    monkeypatch.setattr(selection, "select", select)
    before = nt.get_default_device()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn("here")
        nt.set_default_device("there")
        with nt.default_device("around"):
            pass
    assert [warning.category for warning in seen] == [RuntimeWarning] * 4
    assert {warning.filename for warning in seen} == {__file__}
    lines, first = inspect.getsourcelines(test_the_line_is_the_users)
    result = [(str(warning.message), lines[warning.lineno - first].strip()) for warning in seen]
    block = 'with nt.default_device("around"):'
    assert result == [
        ("here", 'warn("here")'),
        ("there", 'nt.set_default_device("there")'),
        ("around", block),
        (before, block),
    ]


def many_signatures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        @nt.jit
        def step(self, x: nt.Tensor, number: int) -> nt.Tensor:
            return x + number

    model = Model()
    for number in range(MANY_SIGNATURES + 1):
        model.step(nt.ones(1), number)  # here


def a_word_that_is_no_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_HSA_ENABLE_LOG", "perhaps")
    settings = Config()
    settings.follow("debug", bool)
    settings.read_followed()  # here


def an_unknown_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kernels.json"
    path.write_text('{"kernels": [], "kernel": 1}')
    config_file.load(path)  # here


@pytest.mark.parametrize("issue", [many_signatures, a_word_that_is_no_switch, an_unknown_key])
def test_every_warning_names_the_users_line(
    issue: Callable[[Path, pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        issue(tmp_path, monkeypatch)
    lines, first = inspect.getsourcelines(issue)
    (warning,) = seen
    assert warning.filename == __file__
    assert lines[warning.lineno - first].rstrip().endswith("# here")
