"""The page docs/interface.md: signature and docstring of every public name that is no op."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import errors, events
from npu_tensor.config import Config
from npu_tensor.dtypes import DTYPES, QUANTIZED
from npu_tensor.functions.gguf import GGUF
from npu_tensor.jit import Jitted
from npu_tensor.observe.explanation import Explanation, Row, Total
from npu_tensor.ops import registry

FUNCTIONS: Final = registry.functions()
IN_PLACE: Final = tuple(name for name, entry in registry.PUBLIC.items() if entry.in_place)

__all__ = ["interface_page", "without_html"]

SHOWN: Final = 6
"""Names of a section in the overview."""

SHORT_FORMS: Final = frozenset({"float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"})
"""Methods of Tensor that are `to(dtype)`."""

OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"dim": "ndim", "size": "shape", "element_size": "itemsize", "nelement": "numel()"}
)
"""Methods of Tensor, and what says the same."""


def _sections() -> dict[str, tuple[Any, ...]]:
    """By heading; loaded when they are asked for. Each goes by its own name, or is a pair with another one."""
    from npu_tensor.observe import profiling
    from npu_tensor.runtime.sim.timeline import Span, Timeline

    return {
        "Tensors": (
            nt.Tensor,
            nt.Size,
            nt.DType,
            ("dtype", nt.dtype),
            ("device", nt.device),
            nt.realize,
            nt.jit,
            Jitted,
            nt.manual_seed,
            nt.Generator,
        ),
        "Files": (nt.save, nt.load, nt.load_gguf, nt.save_gguf, GGUF),
        "Linear algebra": tuple((f"linalg.{name}", getattr(nt.linalg, name)) for name in nt.linalg.__all__),
        "Devices": (
            nt.set_default_device,
            nt.get_default_device,
            nt.default_device,
            nt.list_devices,
            nt.synchronize,
            nt.selftest,
        ),
        "Looking at what happens": (
            nt.set_printoptions,
            nt.explain,
            Explanation,
            Row,
            Total,
            nt.profile,
            profiling.Profile,
            profiling.Table,
            profiling.ProfileRow,
            Timeline,
            Span,
        ),
        "Kernels": (nt.record_kernels, nt.compile, nt.finish_builds, nt.dtypes_table),
        "Threads and memory": (nt.set_num_threads, nt.get_num_threads, nt.empty_cache, nt.memory_stats),
        "Settings": (("config", Config),),
        "Events": tuple(getattr(events, name) for name in events.__all__ if name != "listeners"),
        "Errors": tuple(getattr(errors, name) for name in errors.__all__),
    }


def interface_page() -> str:
    """The text of docs/interface.md."""
    lines = [
        "# Interface",
        "",
        "The functions and methods that record ops are in [Functions and ops](ops.md). This page has the others:",
        "",
    ]
    sections = {
        heading: [entry if isinstance(entry, tuple) else (entry.__name__, entry) for entry in documented]
        for heading, documented in _sections().items()
    }
    for heading, documented in sections.items():
        names = ", ".join(f"`{name}`" for name, _ in documented[:SHOWN]) + (", ..." if documented[SHOWN:] else "")
        lines.append(f"- [{heading}](#{heading.lower().replace(' ', '-')}): {names}")
    for heading, documented in sections.items():
        lines += ["", f"## {heading}"]
        for name, item in documented:
            lines += ["", f"### {name}", "", *_described(item)]
            if item in _ADDITIONS:
                lines += ["", *_ADDITIONS[item]()]
            for member_name, member in _members(item):
                lines += ["", f"#### {name}.{member_name}", "", *_described(member)]
    return "\n".join(lines) + "\n"


def _left_out() -> Iterator[str]:
    """Methods of Tensor that a list is enough for."""
    yield "In-place forms such as `x.add_(y)` write to the tensor, and so to its views. The page of a"
    yield "[function](ops.md) names its in-place form."
    yield ""
    conversions = ", ".join(f"`{name}()`" for name in registry.methods() if name in SHORT_FORMS)
    others = ", ".join(f"`{name}()` for `{said}`" for name, said in OTHER_NAMES.items())
    yield f"Short forms of `to(dtype)`: {conversions}. Other names: {others}."


def _dtypes() -> Iterator[str]:
    """The constants of type DType."""
    others = {name: found for name, found in vars(nt).items() if isinstance(found, nt.DType) and name != found.name}
    yield f"There are {', '.join(f'`nt.{dtype.name}`' for dtype in DTYPES)}, and of weights"
    yield f"{', '.join(f'`nt.{dtype.name}`' for dtype in QUANTIZED)}."
    yield f"PyTorch's other names: {', '.join(f'`nt.{name}` for `{found.name}`' for name, found in others.items())}."
    yield "A function with a parameter `dtype` also takes their names as text and NumPy's dtypes."


_ADDITIONS: Final[Mapping[Any, Callable[[], Iterator[str]]]] = MappingProxyType(
    {nt.Tensor: _left_out, nt.DType: _dtypes}
)
"""What follows a docstring."""


def without_html(text: str) -> str:
    """Text of a page in which `<` begins no HTML; in code it does not do so anyway."""
    return re.sub(r"(`[^`]*`)|<(?=[A-Za-z/!])", lambda found: found[1] or "&lt;", text)


def _described(item: Any) -> Iterator[str]:
    signature = _signature(item)
    if signature:
        yield from ("```text", signature, "```", "")
    yield from without_html(inspect.getdoc(item) or "").splitlines()


def _signature(item: Any) -> str:
    made_elsewhere = (Exception, nt.Tensor, nt.DType, Config)
    if isinstance(item, property) or (isinstance(item, type) and issubclass(item, made_elsewhere)):
        return ""
    try:
        text = f"{item.__name__}{inspect.signature(item)}"
    except ValueError:  # a class that is made by C
        return ""
    # Annotations are text in quotes of either kind; those of named tuples have a ForwardRef around them.
    text = re.sub(r"""ForwardRef\(('[^']*'|"[^"]*")\)""", r"\1", text)
    return re.sub(r"""(: |-> )(?:'([^']*)'|"([^"]*)")""", r"\1\2\3", text)


def _members(item: Any) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, in their order; not those that record ops, nor the fields of data."""
    if not isinstance(item, type) or issubclass(item, (Exception, events.Event)):
        return
    listed = {*FUNCTIONS} - {"where"}  # whose arguments come in another order as a method's
    if item is nt.Tensor:
        listed |= {*SHORT_FORMS, *OTHER_NAMES, *(f"{name}_" for name in IN_PLACE)}
    for name, member in vars(item).items():
        own = isinstance(member, property) or inspect.isfunction(member)
        if own and not name.startswith("_") and name not in listed and inspect.getdoc(member):
            yield name, member
