"""Nodes: what was asked, owned by the tensors that refer to them. To record an op means to add a node."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any, TypeVar

from npu_tensor._util.forks import in_child
from npu_tensor._util.user_warnings import user_line
from npu_tensor.errors import CaptureError, reworded
from npu_tensor.ops.declare import Call
from npu_tensor.spec import Spec

__all__ = [
    "PLACEHOLDER",
    "Data",
    "Node",
    "Overwriting",
    "being_written",
    "located",
    "next_order",
    "no_value_yet",
    "overwrite",
    "place_of",
    "source_line",
    "source_text",
    "wait_until_written",
]

E = TypeVar("E", bound=Exception)


def no_value_yet() -> CaptureError:
    """The error of asking for a value that depends on an argument of a function while it is captured."""
    place = place_of(user_line(sys._getframe()))
    return CaptureError(
        f"only the structure of the function is captured; there are no values yet{place}. "
        "Use npu_tensor.where in place of a branch on a value, and read values outside the function"
    )


def place_of(where: tuple[CodeType, int] | None) -> str:
    """A part of a message: ", at file.py:12: text of the line", or nothing where the line is not known."""
    return f", at {source_line(*where)}: {source_text(*where)}" if where else ""


being_written: dict[Node, tuple[int, Callable[[], Any]]] = {}
"""Nodes whose value a captured function is about to write, which have neither an op nor a value yet. Each comes with
the thread that writes it and a function that copies the value before."""


def wait_until_written(node: Node) -> None:
    """Wait until another thread has written the value of a node in `being_written`.

    A signal handler of the writing thread cannot wait: it reads a copy of the present memory.
    """
    while (writing := being_written.get(node)) is not None and node.value is None:
        thread, copy_before = writing
        if thread == threading.get_ident():
            node.value = copy_before()
        else:
            time.sleep(1e-5)


def _adopt_writes() -> None:
    """Let a forked process, which has only the thread that forked, wait for no other thread."""
    for node, (_, copy_before) in list(being_written.items()):
        being_written[node] = threading.get_ident(), copy_before


in_child(_adopt_writes)


class _Placeholder:
    """The value of an argument while `jit` captures a function: there is none yet."""

    @property
    def address(self) -> int:
        """There is no memory either; whoever would run a kernel on it gets a CaptureError."""
        raise no_value_yet()

    def __repr__(self) -> str:
        return "PLACEHOLDER"


PLACEHOLDER = _Placeholder()

next_order = count().__next__
"""A number between those of the nodes that exist and those to come."""


class Node:
    """One recorded value. Immutable but for `value`, which execution fills in and which then replaces `inputs`.

    call: what to compute, None for data. inputs: Nodes and Python numbers. value: the buffer once there is one.
    depth: longest chain of ops still to run; 0 if the value has been computed, whether it was kept or not. order:
    creation number, a topological order. where: code object and instruction offset of the recording line. handle: weak
    reference to the Tensor, if it still lives. history: of tracked nodes alone, see `npu_tensor.graph.history`: the
    inputs, which stay, the leaf that it is the value of, or None after backward() has freed it.
    """

    __slots__ = ("__weakref__", "call", "depth", "handle", "history", "inputs", "order", "spec", "value", "where")
    history: Any

    def __init__(
        self,
        call: Call | None,
        inputs: tuple[Any, ...],
        spec: Spec,
        depth: int,
        where: tuple[CodeType, int] | None,
        value: Any = None,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.spec = spec
        self.depth = depth
        self.where = where
        self.value = value
        self.order = next_order()
        self.handle: weakref.ref[Any] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.order} {self.call or 'data'} {self.spec}>"

    @property
    def tensor(self) -> Any:
        """The living Tensor that still names this node, or None. Other threads may let go of it at any time."""
        reference = self.handle
        tensor = None if reference is None else reference()
        return tensor if tensor is not None and tensor._node is self else None

    @property
    def line(self) -> str:
        """The recording line as "file.py:12", or "" for data."""
        if self.where is None:
            return ""
        return source_line(*self.where)

    @property
    def source(self) -> str:
        """Text of the recording line, where the file can still be read."""
        if self.where is None:
            return ""
        return source_text(*self.where)


class Data(Node):
    """A node that has its value from the start. What never varies is on the class, which makes it cheap to create."""

    __slots__ = ()
    call = None
    inputs = ()
    depth = 0
    where = None
    order = -1  # older than every op

    def __init__(self, spec: Spec, value: Any) -> None:
        self.spec = spec
        self.value = value
        self.handle = None


class Overwriting(tuple[Any, ...]):
    """The inputs of a pending node that a tensor names in place of another, to which it returns if this one fails.

    before: returns the node before, or None if it is gone. writes: number of pending writes to the tensor. Where there
    are many, the node before is kept alive only by those that read it, so that a loop of writes that nobody reads takes
    no more and more memory.
    """

    before: Callable[[], Node | None]
    writes: int


MOST_WRITES = 8
"""Chosen, not measured: so many batches of a loop fit into memory."""


def overwrite(old: Node, new: Node) -> None:
    """Note that a tensor that names `old` is about to name the pending node `new`."""
    inputs = Overwriting(new.inputs)
    inputs.writes = 1 + (old.inputs.writes if isinstance(old.inputs, Overwriting) else 0)
    inputs.before = (lambda: old) if inputs.writes <= MOST_WRITES else weakref.ref(old)
    new.inputs = inputs


def source_line(code: CodeType, offset: int) -> str:
    """Where an instruction stands, as "file.py:12", or "In[3]:12" in a cell of a notebook."""
    return f"{_file_name(code.co_filename)}:{_line_number(code, offset)}"


def _file_name(path: str) -> str:
    """The last part of a path. The file of a cell has a number for a name, and IPython knows which cell it is."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(path) if shell is not None else None
    return cell[1] if cell else os.path.basename(path)


def source_text(code: CodeType, offset: int) -> str:
    """The text of an instruction's line, where the file can still be read."""
    return linecache.getline(code.co_filename, _line_number(code, offset)).strip()


def located(error: E, text: str, where: tuple[CodeType, int] | str | None, reason: str = "") -> E:
    """The same error with another text that ends in the recording line; an error that has it keeps it.

    reason: the part of the text that says what is wrong, see `NpuTensorError`.
    """
    line = source_line(*where) if isinstance(where, tuple) else where
    other = reworded(error, f"{text} (recorded at {line})" if line else text)
    other.reason = reason  # type: ignore[attr-defined]  # also of TypeError and the like
    if line:
        other.recorded_at = line  # type: ignore[attr-defined]
    return other


@lru_cache(maxsize=4096)  # A loop records the ops of its lines again and again.
def _line_number(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno
