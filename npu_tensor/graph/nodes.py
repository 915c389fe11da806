"""Nodes of the recorded graph, owned by the tensors that refer to them. Recording an op adds a node."""

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
from typing import Any, Final, TypeVar

from npu_tensor._util.cache_sizes import LINES
from npu_tensor._util.forks import in_child
from npu_tensor._util.user_warnings import user_line
from npu_tensor.dtypes import float32
from npu_tensor.errors import CaptureError, reworded
from npu_tensor.ops.declare import Call
from npu_tensor.spec import Spec

E = TypeVar("E", bound=Exception)


def no_value_yet(captured: Node | None = None) -> CaptureError:
    """Return the error of reading a value that depends on an argument of a captured function.

    Args:
        captured: Node of the captured function that uses the argument, if the read is after the capture.
    """
    place = place_of(user_line(sys._getframe()))
    if captured is not None:
        return CaptureError(
            f"a tensor that a captured function computed from its arguments and left outside has no value (recorded at "
            f"{captured.line}: {captured.source}){place}. Return it from the function instead"
        )
    return CaptureError(
        f"only the structure of the function is captured; there are no values yet{place}. "
        "Use npu_tensor.where in place of a branch on a value, and read values outside the function"
    )


def place_of(where: tuple[CodeType, int] | None) -> str:
    """Return ", at file.py:12: text of the line" for a message, or "" if the line is not known."""
    return f", at {source_line(*where)}: {source_text(*where)}" if where else ""


being_written: dict[Node, tuple[int, Callable[[], Any]]] = {}
"""Nodes that a captured function is about to write; they have neither an op nor a value yet. Each comes with the thread
that writes it and a function that copies the old value."""


def wait_until_written(node: Node) -> None:
    """Wait until another thread has written the value of a node in `being_written`.

    A signal handler of the writing thread cannot wait, so it reads a copy of the present memory.
    """
    while (writing := being_written.get(node)) is not None and node.value is None:
        thread, copy_before = writing
        if thread == threading.get_ident():
            node.value = copy_before()
        else:
            time.sleep(1e-5)


def _adopt_writes() -> None:
    """Adopt all writes in a forked process, which has only the thread that forked."""
    for node, (_, copy_before) in list(being_written.items()):
        being_written[node] = threading.get_ident(), copy_before


in_child(_adopt_writes)


class _Placeholder:
    """Value of an argument while `jit` captures a function."""

    @property
    def address(self) -> int:
        """Raise CaptureError, because a placeholder has no memory that a kernel could read."""
        raise no_value_yet()

    def __repr__(self) -> str:
        return "PLACEHOLDER"


PLACEHOLDER = _Placeholder()

next_order = count().__next__
"""Return an order number between those of existing and of later nodes."""


class Node:
    """A recorded value.

    Attributes:
        call: Op with its attributes; None for data.
        inputs: Nodes and Python numbers; empty once there is a value.
        value: Buffer, filled in by execution.
        depth: Longest chain of ops still to run; 0 if the value has been computed, even if it was not kept.
        order: Creation number, a topological order.
        where: Code object and instruction offset of the recording line.
        handle: Weak reference to the Tensor that names the node.
        history: Source of gradients that pass through the node, see `npu_tensor.graph.history`; None if none do.
    """

    __slots__ = ("__weakref__", "call", "depth", "handle", "history", "inputs", "order", "spec", "value", "where")

    def __init__(
        self,
        call: Call | None,
        inputs: tuple[Any, ...],
        spec: Spec,
        depth: int,
        where: tuple[CodeType, int] | None,
        value: Any = None,
        history: Any = None,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.spec = spec
        self.depth = depth
        self.where = where
        self.value = value
        self.history = history
        self.order = next_order()
        self.handle: weakref.ref[Any] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.order} {self.call or 'data'} {self.spec}>"

    @property
    def tensor(self) -> Any:
        """The living Tensor that names this node, or None. Other threads can release it at any time."""
        reference = self.handle
        tensor = None if reference is None else reference()
        return tensor if tensor is not None and tensor._current is self else None

    @property
    def line(self) -> str:
        """The recording line as "file.py:12", or "" for data."""
        if self.where is None:
            return ""
        return source_line(*self.where)

    @property
    def source(self) -> str:
        """Text of the recording line, if the file can still be read."""
        if self.where is None:
            return ""
        return source_text(*self.where)


class Data(Node):
    """A node that has its value from the start. Constant attributes are on the class, so that it is cheap to create."""

    __slots__ = ()
    call = None
    inputs = ()
    depth = 0
    where = None
    history = None
    order = -1  # lower than that of every op

    def __init__(self, spec: Spec, value: Any) -> None:
        self.spec = spec
        self.value = value
        self.handle = None


def _references_of_one_owner() -> int:
    owner = Data(Spec.of((), float32), [])
    value = owner.value
    return sys.getrefcount(value)


ONE_OWNER: Final = _references_of_one_owner()
"""Result of `sys.getrefcount` for an object in a local variable with one other owner; it depends on Python."""


class Overwriting(tuple[Any, ...]):
    """Inputs of a pending write to a tensor. The tensor returns to the previous node if the write fails.

    After many pending writes only readers keep the previous node alive, so that a loop of writes without reads does not
    use more and more memory.

    Attributes:
        before: Function that returns the previous node, or None if it is gone.
        writes: Number of pending writes to the tensor.
    """

    before: Callable[[], Node | None]
    writes: int


MOST_WRITES = 8
"""Upper bound on pending writes that keep previous nodes alive. Chosen, not measured: so few batches fit in memory."""


def overwrite(old: Node, new: Node) -> None:
    """Prepare a tensor that names `old` for naming the pending node `new`."""
    inputs = Overwriting(new.inputs)
    inputs.writes = 1 + (old.inputs.writes if isinstance(old.inputs, Overwriting) else 0)
    inputs.before = (lambda: old) if inputs.writes <= MOST_WRITES else weakref.ref(old)
    new.inputs = inputs


def source_line(code: CodeType, offset: int) -> str:
    """Return the line of an instruction as "file.py:12", "In[3]:12" in a cell of a notebook, or a node's own name.

    Code of a node of an imported graph has the name in place of a path, and the line 0.
    """
    line = _line_number(code, offset)
    return f"{_file_name(code.co_filename)}:{line}" if line else code.co_filename


def _file_name(path: str) -> str:
    """Return the last part of a path, or IPython's name of a notebook cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(path) if shell is not None else None
    return cell[1] if cell else os.path.basename(path)


def source_text(code: CodeType, offset: int) -> str:
    """Return the text of an instruction's line, if the file can still be read."""
    return linecache.getline(code.co_filename, _line_number(code, offset)).strip()


def located(error: E, text: str, where: tuple[CodeType, int] | str | None, reason: str = "") -> E:
    """Return the same error with another text that ends in the recording line.

    Args:
        error: The error.
        text: Text without the line.
        where: Recording line; empty if the error has it already.
        reason: Part of the text that names the fault, see `NpuTensorError`.
    """
    line = source_line(*where) if isinstance(where, tuple) else where
    other = reworded(error, f"{text} (recorded at {line})" if line else text)
    other.reason = reason  # type: ignore[attr-defined]  # The error may be a TypeError.
    if line:
        other.recorded_at = line  # type: ignore[attr-defined]
    return other


@lru_cache(maxsize=LINES)  # A loop records ops on the same lines many times.
def _line_number(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno
