"""Page docs/interface.md: signature and docstring of every public name that is not an op."""

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
from npu_tensor.interop.saved_function import SavedFunction
from npu_tensor.jit import Jitted
from npu_tensor.observe.explanation import Explanation, Row, Total
from npu_tensor.ops import registry
from npu_tensor.ops.documentation import SECTIONS

FUNCTIONS: Final = registry.functions()
IN_PLACE: Final = tuple(name for name, entry in registry.PUBLIC.items() if entry.in_place)

__all__ = ["as_markdown", "interface_page", "without_html"]

SHOWN: Final = 6
"""Maximum number of names per section in the overview."""

SHORT_FORMS: Final = frozenset({"float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"})
"""Methods of Tensor that are `to(dtype)`."""

OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"dim": "ndim", "size": "shape", "element_size": "itemsize", "nelement": "numel()"}
)
"""Methods of Tensor, and the equivalent expressions."""


def _sections() -> dict[str, tuple[Any, ...]]:
    """Return the documented items by heading. An item is documented under its own name, or in a pair with another one.

    They are imported here because they load slowly.
    """
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
        "Files": (nt.save, nt.load, SavedFunction, nt.load_gguf, nt.save_gguf, GGUF),
        "PyTorch": (nt.from_exported, nt.from_torch, nt.load_pt2),
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
    """Return the text of docs/interface.md."""
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
    """List methods of Tensor that need no description."""
    yield "In-place forms such as `x.add_(y)` write to the tensor, and so to its views. The page of a"
    yield "[function](ops.md) names its in-place form."
    yield ""
    conversions = ", ".join(f"`{name}()`" for name in registry.methods() if name in SHORT_FORMS)
    others = ", ".join(f"`{name}()` for `{expression}`" for name, expression in OTHER_NAMES.items())
    yield f"Short forms of `to(dtype)`: {conversions}. Other names: {others}."


def _dtypes() -> Iterator[str]:
    """List the constants of type DType."""
    others = {name: found for name, found in vars(nt).items() if isinstance(found, nt.DType) and name != found.name}
    yield f"There are {', '.join(f'`nt.{dtype.name}`' for dtype in DTYPES)}, and for weights"
    yield f"{', '.join(f'`nt.{dtype.name}`' for dtype in QUANTIZED)}."
    yield f"PyTorch's other names: {', '.join(f'`nt.{name}` for `{found.name}`' for name, found in others.items())}."
    yield "A parameter `dtype` also accepts their names as strings and NumPy's dtypes."


_ADDITIONS: Final[Mapping[Any, Callable[[], Iterator[str]]]] = MappingProxyType(
    {nt.Tensor: _left_out, nt.DType: _dtypes}
)
"""Text that follows a docstring."""


def without_html(text: str) -> str:
    """Escape each `<` outside of code that would begin an HTML element."""
    return re.sub(r"(`[^`]*`)|<(?=[A-Za-z/!])", lambda found: found[1] or "&lt;", text)


def _described(item: Any) -> Iterator[str]:
    signature = _signature(item)
    if signature:
        yield from ("```text", signature, "```", "")
    yield from as_markdown(inspect.getdoc(item) or "", "**{}**")


def as_markdown(text: str, heading: str) -> Iterator[str]:
    """Convert a docstring with Google sections to Markdown. Its example is left out.

    Args:
        text: Docstring, not indented.
        heading: Format of the heading of a section.
    """
    section = ""
    for line in text.splitlines():
        if line.removesuffix(":") in (*SECTIONS, "Attributes"):
            section = line.removesuffix(":")
            if section != "Example":
                yield from (heading.format(section), "")
        elif section == "Example":
            continue
        elif line.startswith(">>> "):
            yield from ("```python", line[4:], "```")
        elif not section or not line or line.startswith("     "):
            yield without_html(line.strip() if section else line)
        elif section == "Returns":
            yield without_html(line.strip())
        else:
            name, _, meaning = line.strip().partition(": ")
            yield f"- `{name}`: {without_html(meaning)}"


def _signature(item: Any) -> str:
    made_elsewhere = (Exception, nt.Tensor, nt.DType, Config)
    if isinstance(item, property) or (isinstance(item, type) and issubclass(item, made_elsewhere)):
        return ""
    try:
        text = f"{item.__name__}{inspect.signature(item)}"
    except ValueError:  # a class implemented in C
        return ""
    # Annotations are text in quotes of either kind. Those of named tuples are wrapped in a ForwardRef.
    text = re.sub(r"""ForwardRef\(('[^']*'|"[^"]*")\)""", r"\1", text)
    return re.sub(r"""(: |-> )(?:'([^']*)'|"([^"]*)")""", r"\1\2\3", text)


def _members(item: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over public methods and properties of a class, without those that record ops and the fields of data."""
    if not isinstance(item, type) or issubclass(item, (Exception, events.Event)):
        return
    listed = {*FUNCTIONS} - {"where"}  # its arguments have another order as a method
    if item is nt.Tensor:
        listed |= {*SHORT_FORMS, *OTHER_NAMES, *(f"{name}_" for name in IN_PLACE)}
    for name, member in vars(item).items():
        own = isinstance(member, property) or inspect.isfunction(member)
        if own and not name.startswith("_") and name not in listed and inspect.getdoc(member):
            yield name, member
