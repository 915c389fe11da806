"""The page docs/interface.md: signature and docstring of every public name that is no op."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import npu_tensor as nt
from npu_tensor import errors, events
from npu_tensor.config import Config
from npu_tensor.explanation import Explanation, Row
from npu_tensor.tensor import FUNCTIONS

__all__ = ["interface_page"]


def _sections() -> dict[str, tuple[Any, ...]]:
    """By heading; loaded when they are asked for."""
    from npu_tensor.profiling import Profile

    return {
        "Tensors": (nt.Tensor, nt.realize, nt.jit, nt.manual_seed, nt.Generator),
        "Devices": (
            nt.set_default_device,
            nt.get_default_device,
            nt.default_device,
            nt.list_devices,
            nt.synchronize,
            nt.selftest,
        ),
        "Looking at what happens": (nt.explain, Explanation, Row, nt.profile, Profile),
        "Kernels": (nt.record_kernels, nt.compile, nt.finish_builds, nt.dtypes_table),
        "Threads and memory": (nt.set_num_threads, nt.get_num_threads, nt.empty_cache, nt.memory_stats),
        "Settings": (Config,),
        "Events": tuple(getattr(events, name) for name in events.__all__ if name != "listeners"),
        "Errors": tuple(getattr(errors, name) for name in errors.__all__),
    }


def interface_page() -> str:
    """The text of docs/interface.md."""
    lines = [
        "# Interface",
        "",
        "Generated from the docstrings; write it anew with `npu-tensor docs --write`. The functions and methods that "
        "record ops are in [ops.md](ops.md).",
    ]
    for heading, documented in _sections().items():
        lines += ["", f"## {heading}"]
        for item in documented:
            lines += ["", f"### {item.__name__}", "", *_described(item)]
            for name, member in _members(item):
                lines += ["", f"#### {item.__name__}.{name}", "", *_described(member)]
    return "\n".join(lines) + "\n"


def _described(item: Any) -> Iterator[str]:
    signature = _signature(item)
    if signature:
        yield from ("```text", signature, "```", "")
    yield from (inspect.getdoc(item) or "").splitlines()


def _signature(item: Any) -> str:
    if isinstance(item, property) or (isinstance(item, type) and issubclass(item, (Exception, nt.Tensor, Config))):
        return ""
    try:
        text = f"{item.__name__}{inspect.signature(item)}"
    except ValueError:  # a class that is made by C
        return ""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are text


def _members(item: Any) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, in their order; not those that record ops, nor the fields of data."""
    if not isinstance(item, type) or issubclass(item, (Exception, events.Event)):
        return
    for name, member in vars(item).items():
        own = isinstance(member, property) or inspect.isfunction(member)
        if own and not name.startswith("_") and name not in FUNCTIONS and inspect.getdoc(member):
            yield name, member
