"""Text of tensors for `repr`, `print` and notebooks, and `set_printoptions`.

`repr` computes the values that it shows. Debuggers call it at every stop, in any state of the program. Therefore it
never raises and never waits: if a computation could do either, the text gives the reason instead of the values.
"""

from __future__ import annotations

import math
import operator
import reprlib
import textwrap
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor._util.forks import locks_are_free
from npu_tensor._util.user_warnings import INTERNAL
from npu_tensor.errors import ArgumentError, NpuTensorError
from npu_tensor.graph.nodes import PLACEHOLDER, Node
from npu_tensor.graph.structure import depends_on_placeholder
from npu_tensor.graph.tracing import current_watch

PREFIX: Final = "Tensor("

LONGEST_ERROR: Final = 300
"""Maximum length of an error shown instead of a value, in characters."""


class _Options(NamedTuple):
    """Options of `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None
    lazy: bool = False


_options: ContextVar[_Options] = ContextVar("npu_tensor print options", default=_Options())  # noqa: B039 - it is a tuple

_PROFILES: Final[dict[str, dict[str, float]]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
    *,
    lazy: bool | None = None,
) -> None:
    """Set how tensors are printed in this thread or asyncio task, like `torch.set_printoptions`.

    Options that are None keep their value, except `sci_mode`.

    Args:
        precision: Digits after the decimal point; initially 4.
        threshold: Number of elements above which a tensor is abbreviated; initially 1000.
        edgeitems: Elements shown at each end of an abbreviated dimension; initially 3.
        linewidth: Characters per line; initially 80.
        profile: "default", "short" or "full", which sets the four options above. They override it.
        sci_mode: True for scientific notation, such as 1.0000e+00. None selects the notation by the values.
        lazy: True to show the recorded op instead of computing the values.

    Raises:
        ArgumentError: A value is invalid.
    """
    if profile is not None and profile not in _PROFILES:
        raise ArgumentError(f"set_printoptions: profile must be one of {', '.join(_PROFILES)}, not {profile!r}")
    counts = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changed: dict[str, Any] = dict(_PROFILES.get(profile or "", ()))
    for name, value in counts.items():
        if value is not None:
            changed[name] = _count(name, value)
    for name, flag in (("sci_mode", sci_mode), ("lazy", lazy)):
        if flag not in (None, False, True):
            raise ArgumentError(f"set_printoptions: {name} must be True, False or None, not {flag!r}")
    changed["sci_mode"] = sci_mode
    if lazy is not None:
        changed["lazy"] = lazy
    _options.set(_options.get()._replace(**changed))


def _count(name: str, value: Any) -> float:
    if name == "threshold" and value == math.inf:
        return math.inf
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"set_printoptions: {name} must be an integer of at least 0, not {value!r}")
    return number


def shown(tensor: Any, caller: FrameType | None) -> str:
    """Return the text of `repr`, with the values or the reason why they are missing.

    Never raises and never waits for a lock. `caller` is the frame that calls `repr`.
    """
    alias = tensor._alias
    if alias is not None and tensor._current is None and not locks_are_free():
        return f"{PREFIX}{alias[1].spec}, changed by a write to a view; not computed: another thread is computing)"
    node: Node = tensor._node
    try:
        if not _is_here(node):
            in_own_message = caller is not None and INTERNAL[caller.f_code.co_filename]
            if _options.get().lazy or in_own_message:
                return _without_values(node)
            if reason := _obstacle(node, caller):
                return _without_values(node, reason)
        return _with_values(tensor)
    except NpuTensorError as error:
        message = textwrap.shorten(f"{type(error).__name__}: {error}", LONGEST_ERROR, placeholder=" ...")
        return f"{PREFIX}{node.spec}, <{message}>)"


def printed(tensor: Any, caller: FrameType | None) -> str:
    """Return the text of `str`. Unlike `shown`, it waits for other threads and passes on errors of the computation."""
    node = tensor._node
    if _options.get().lazy or depends_on_placeholder(node):
        return shown(tensor, caller)
    return _with_values(tensor)


def notebook_bundle(tensor: Any, caller: FrameType | None) -> dict[str, str]:
    """Return the notebook output by MIME type. The HTML shows the recorded ops below the value."""
    from npu_tensor.observe.drawing import page
    from npu_tensor.observe.drawing.card import graph_html

    node = tensor._node
    graph = graph_html(node) if node.value is None else ""  # The computation drops the recorded ops.
    text = shown(tensor, caller)
    caption = ""
    if node.value not in (None, PLACEHOLDER):
        caption = page.paragraph(f"{node.spec}, {node.spec.nbytes:,} bytes on {_home(node)}")
    return {"text/html": f"<div>{page.preformatted(text)}{caption}{graph}</div>", "text/plain": text}


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = 12
        self.maxstring = self.maxlong = self.maxother = 100

    def repr1(self, x: Any, level: int) -> str:
        if hasattr(x, "_node"):  # a Tensor or a subclass
            return str(x._node.spec)
        return f"array {x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else super().repr1(x, level)


brief: Final[Callable[[Any], str]] = _Brief().repr
"""Formatter of arguments in messages. Tensors become specs, also in lists; long or deep values are truncated."""


# --- whether to compute


def _home(node: Node) -> str:
    home = getattr(node.value, "home", None)
    return "cpu" if home is None else str(home.uri)


def _is_here(node: Node) -> bool:
    """Return True if the value is in host memory and can be read without waiting or copying."""
    value = node.value
    if value is None or value is PLACEHOLDER:
        return False
    return getattr(value, "home", None) is None or value.host is not None


def _obstacle(node: Node, caller: FrameType | None) -> str:
    """Return why the value must not be computed or fetched now, or an empty string."""
    if depends_on_placeholder(node) or current_watch() is not None:
        return "a function is being captured"
    if _is_at_work(caller):
        return "npu_tensor is at work in this thread"
    if not locks_are_free():
        return "another thread is computing"
    return ""


def _is_at_work(frame: FrameType | None) -> bool:
    """Return True if a function of this package is on the stack. It may hold a lock or be incomplete.

    This happens in event listeners, in signal handlers and at breakpoints.
    """
    while frame is not None and not INTERNAL[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame is not None


# --- text


def _without_values(node: Node, reason: str = "") -> str:
    if node.value is None:
        assert node.call is not None
        state, missing = f"lazy: {node.call.op.name}", "computed"
    elif node.value is PLACEHOLDER:
        return f"{PREFIX}{node.spec}, argument of a function that is being captured)"
    else:
        state, missing = f"on {_home(node)}", "fetched"
    return f"{PREFIX}{node.spec}, {state}{f'; not {missing}: {reason}' if reason else ''})"


def _with_values(tensor: Any) -> str:
    spec, options = tensor._node.spec, _options.get()
    if spec.dtype.is_quantized:
        return f"{PREFIX}{spec})"
    array = tensor.numpy()
    printed = np.array2string(
        array,
        separator=", ",
        prefix=PREFIX,
        threshold=options.threshold,  # type: ignore[arg-type]  # NumPy accepts infinity.
        edgeitems=options.edgeitems,
        # NumPy reserves space for closing brackets, PyTorch does not.
        max_line_width=options.linewidth + max(array.ndim - 1, 0),
        formatter={"all": _float_formatter(array, options)} if spec.dtype.is_floating_point else None,
    )
    shape = "" if array.size or array.ndim == 1 else f", shape={list(spec.shape)}"
    gradient = ", requires_grad=True" if tensor.requires_grad else ""
    return f"{PREFIX}{printed}{shape}, dtype={spec.dtype.name}{gradient})"


def _float_formatter(array: np.ndarray[Any, Any], options: _Options) -> Callable[[Any], str]:
    """Return a formatter with PyTorch's notation for the shown elements and a common width."""
    edge = options.edgeitems
    if array.size > options.threshold:
        for axis, extent in enumerate(array.shape):
            if extent > 2 * edge:
                array = array.take(np.r_[:edge, extent - edge : extent], axis)
    values = array.astype(np.float64).ravel()
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    form, point = ".0f", "."
    if sizes.size:
        least, most = float(sizes.min()), float(sizes.max())
        scientific = options.sci_mode
        if scientific is None:
            scientific = most / least > 1000 or most > 1e8 or least < 1e-4
        if scientific or (sizes % 1).any():
            form, point = f".{options.precision}{'e' if scientific else 'f'}", ""

    def text(value: Any) -> str:
        number = float(value)
        return f"{number:{form}}{point if math.isfinite(number) else ''}"

    width = max((len(text(value)) for value in values), default=0)
    return lambda value: text(value).rjust(width)
