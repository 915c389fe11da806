"""Warnings point at the line of the program, however deep in the package they are issued."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import pytest

import npu_tensor as nt
from npu_tensor import selection
from npu_tensor.user_warnings import warn


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
    found = [(str(warning.message), lines[warning.lineno - first].strip()) for warning in seen]
    block = 'with nt.default_device("around"):'
    assert found == [
        ("here", 'warn("here")'),
        ("there", 'nt.set_default_device("there")'),
        ("around", block),
        (before, block),
    ]


def test_a_package_whose_name_begins_like_ours_is_the_users() -> None:
    file = str(Path(nt.__file__).parent) + "_app/model.py"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile("warn('here')", file, "exec"), {"warn": warn})
    assert [warning.filename for warning in seen] == [file]
