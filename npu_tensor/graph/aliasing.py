"""Aliasing: tensors that share memory as in PyTorch, and the effect of a write to one on the others.

    r = a[0]    # r and a are members of one storage
    r[1] = 5    # r names a new value; a drops its own, and derives it from the storage when it is next used

Values are immutable, so a write makes new ones (functionalization). Recording a view only notes that two tensors
belong together. The first write that another member can see gives the storage a value: the base, from which views are
recorded again, and the writes that are not in the base yet. Nothing is computed.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, ClassVar, Final

from npu_tensor import ops
from npu_tensor._util.forks import held_at_fork
from npu_tensor.graph.history import active, depends, leaf_node, leaf_of
from npu_tensor.graph.nodes import Data, Node, next_order
from npu_tensor.graph.tracing import Watch, current_watch, watches
from npu_tensor.ops.declare import MOST_KEPT, Call, Layout
from npu_tensor.runtime.devices.host import allocator
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Spec, contiguous_strides

CROWDED: Final = 8
"""Number of members beyond which dead references are dropped before members are compared. Chosen, not measured."""


class View:
    """Position of a tensor's elements in its storage: PyTorch's offset, sizes and strides.

    Equal views are one object, unless there are very many.

    Attributes:
        children: Views of this view by view op; None if the op has to copy.
        spec: Shape and dtype.
        layout: Strides and offset in elements.
        path: View ops that lead from the whole storage to this view.
        is_contiguous: True if the elements are in row-major order without gaps.
        overlaps: True if one element is at several positions, as after `expand`.
        covers: True if every element of the storage is at one position.
        first: Lowest offset of an element in the storage.
        last: Highest offset of an element in the storage.
    """

    __slots__ = ("children", "covers", "first", "is_contiguous", "last", "layout", "overlaps", "path", "spec")
    _wholes: ClassVar[dict[Spec, View]] = {}
    _kept: ClassVar[int] = 0

    def __init__(self, spec: Spec, layout: Layout, path: tuple[Call, ...], size: int) -> None:
        self.children: dict[Call, View | None] = {}
        self.spec: Final = spec
        self.layout: Final = layout
        self.path: Final = path
        steps = [(extent, stride) for extent, stride in zip(spec.shape, layout.strides, strict=True) if extent != 1]
        own = contiguous_strides(tuple(extent for extent, _ in steps))
        self.is_contiguous: Final = not spec.size or all(s == o for (_, s), o in zip(steps, own, strict=True))
        self.overlaps: Final = bool(spec.size) and any(not stride for _, stride in steps)
        self.covers: Final = spec.size == size and not self.overlaps
        self.first, self.last = layout.bounds

    @classmethod
    def whole(cls, spec: Spec) -> View:
        """Return the view of a whole storage."""
        view = cls._wholes.get(spec)
        if view is None:
            layout = Layout(spec.shape, contiguous_strides(spec.shape))
            view = cls._wholes.setdefault(spec, cls(spec, layout, (), spec.size))
        return view

    def through(self, call: Call) -> View | None:
        """Apply a view op and store the result in `children`; None if PyTorch would have to copy the elements."""
        assert call.op.layout is not None
        layout = call.op.layout(self.layout, call.spec.shape, call.attributes)
        whole = self.path[0].operands[0] if self.path else self.spec
        assert isinstance(whole, Spec)
        child = None if layout is None else View(call.spec, layout, (*self.path, call), whole.size)
        View._kept += 1
        if View._kept >= MOST_KEPT or len(self.children) >= MOST_KEPT:  # Equal views can then be several objects.
            View._kept = 0
            View._wholes.clear()
            self.children.clear()
        return self.children.setdefault(call, child)

    def meets(self, other: View) -> bool:
        """Return True if the address ranges overlap, so that the two may have elements in common."""
        return self.first <= other.last and other.first <= self.last and self.spec.size != 0 and other.spec.size != 0


# Lock of all storages, for the first view of a tensor, writes that other members see, and the first use of a tensor
# after such a write.
_lock = threading.RLock()
held_at_fork(_lock)


class _Writes:
    """Writes to parts of a storage that are not in its base yet.

    Attributes:
        nodes: Written nodes by part, oldest first.
        are_apart: True if no two parts overlap, so that their order does not matter.
    """

    __slots__ = ("_first", "_last", "are_apart", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[View, Node] = {}
        self.are_apart = True
        self._first, self._last = 0, -1  # address range of all parts

    def add(self, view: View, node: Node) -> None:
        """Add a write. An interrupt leaves either the state before or the state after it."""
        if view.spec.size and view not in self.nodes:
            self.are_apart &= not self._is_near(view)
            is_first = self._first > self._last
            self._first = view.first if is_first else min(self._first, view.first)
            self._last = view.last if is_first else max(self._last, view.last)
        if self.are_apart or view not in self.nodes:
            self.nodes[view] = node
        else:  # The latest write is the last one.
            self.nodes = {**{other: older for other, older in self.nodes.items() if other is not view}, view: node}

    def meet(self, view: View) -> bool:
        """Return True if a written part may have elements in common with a view."""
        return self._is_near(view) and any(view.meets(part) for part in self.nodes)

    def _is_near(self, view: View) -> bool:
        return view.first <= self._last and self._first <= view.last


_NOTHING: Final = _Writes()  # Shared by storages without writes, which are most; never changed.


class Storage:
    """Tensors that are views of the same memory.

    Before the first write its members name consistent values of their own, and the storage has none. Afterwards a
    member names either its present value or none. In that case `read` derives the value when the member is used.

    Args:
        member: Tensor that is about to be viewed.

    Attributes:
        members: Weak references to the members that name a value, and dead references.
        crowded: Number of members at which dead references are dropped.
        part_writes: Number of writes to parts that the storage has recorded.
    """

    __slots__ = (
        "__weakref__",
        "_current",
        "_stale",
        "_whole",
        "_writes",
        "_written",
        "crowded",
        "members",
        "part_writes",
    )

    moves: ClassVar[int] = 0
    """Number of changes of a tensor's shape, dtype, memory or frozen state in place."""

    def __init__(self, member: Any) -> None:
        self._whole: Spec = member._current.spec
        self.members: deque[Any] = deque((weakref.ref(member),))
        self.crowded = 64
        self.part_writes = 0
        # The base. Plans keep the value of a node that an attribute of this name refers to, as in a Tensor.
        self._current: Node | None = None
        self._writes = _NOTHING
        self._stale: dict[int, Any] = {}  # weak references to members that name no value, and dead references
        self._written = 0  # node order at the latest write that other members could see

    @staticmethod
    def of(tensor: Any) -> tuple[Storage, View]:
        """Return the storage of a tensor, made if there is none, and the tensor's view of it."""
        with _lock:
            if tensor._alias is None:
                tensor._alias = Storage(tensor), View.whole(tensor._node.spec)
            return tensor._alias  # type: ignore[no-any-return]

    @staticmethod
    def sharing(tensors: Sequence[Any]) -> tuple[tuple[int, Spec, Layout | None, bool], ...]:
        """Describe the sharing of memory between tensors.

        Returns:
            For each tensor, the number of the first one that shares its memory, its spec, its layout in the memory
            (None for all of it), and True if it is a leaf that requires a gradient.
        """
        first: dict[int, int] = {}
        described = []
        for number, tensor in enumerate(tensors):
            alias = tensor._alias
            is_whole = alias is None or not alias[1].path
            owner = number if alias is None else first.setdefault(id(alias[0]), number)
            node, layout = tensor._node, None if is_whole else alias[1].layout
            described.append((owner, node.spec, layout, leaf_of(node) is not None))
        return tuple(described)

    def forget_the_dead(self) -> None:
        """Drop dead references to members. Called when there may be many."""
        with _lock:
            members = self.members
            for _ in range(len(members)):  # One by one, because other threads may append.
                member = members.popleft()
                if member() is not None:
                    members.append(member)
            self.crowded = 64 + 2 * len(members)

    def enter(self, tensor: Any) -> None:
        """Register a view whose value may be stale because another thread has written to the base."""
        with _lock:
            if self._has_value() and tensor._current is not None:
                self._forget(tensor)
            else:
                self.members.append(weakref.ref(tensor))

    def living(self) -> list[Any]:
        """Return the living members that name a value."""
        return self._living(self.members)

    def _living(self, handles: Iterable[Any]) -> list[Any]:
        members = (handle() for handle in list(handles))
        return [member for member in members if member is not None and member._alias and member._alias[0] is self]

    def whole_view(self) -> tuple[Storage, View]:
        """Return this storage and the view of all its elements, once it has a value of its own."""
        with _lock:
            if not self._has_value():
                self._begin(self.living())
            return self, View.whole(self._whole)

    def owner_beside(self, tensor: Any) -> Any | None:
        """Return the member that names all elements if no other member than it and `tensor` is alive, else None.

        It then names the present value, and the storage has none of its own.
        """
        with _lock:
            if len(self.members) > CROWDED:
                self.forget_the_dead()
            others = {
                member for member in (*self.living(), *self._living(self._stale.values())) if member is not tensor
            }
            owner = tensor if not tensor._alias[1].path else others.pop() if others else None
            if others or owner is None or owner._alias[1].path:
                return None
            if self._has_value():
                if owner._current is None:
                    self.read(owner, owner._alias[1])
                self._current, self._writes, self._stale = None, _NOTHING, {}
                self.members = deque(map(weakref.ref, {owner, tensor}))
            return owner

    def is_outside(self, watch: Watch) -> bool:
        """Return True if a member is older than the function that is being traced."""
        if self._has_value():
            return self._written < watch.before
        return any(watch.is_outside(member._node) for member in self.living())

    def undo(self) -> Callable[[], None]:
        """Return a function that restores the present state of all members."""
        with _lock:
            members, base, writes, written = self.members.copy(), self._current, self._writes, self._written
            if writes is not _NOTHING:
                self._writes = copy(writes)
                self._writes.nodes = dict(writes.nodes)
            nodes = [(member, member._current) for member in self.living() if member._current is not None]
            stale = list(self._stale.values())

        def back() -> None:
            with _lock:
                self.members, self._current, self._writes, self._written = members, base, writes, written
                if base is not None and base.tensor is None:
                    base.handle = weakref.ref(self)
                for reference in stale:
                    member = reference()
                    if member is not None and member._alias[0] is self and member._current is not None:
                        self._forget(member)
                for member, node in nodes:
                    _name(member, node)

        return back

    def write(self, tensor: Any, view: View, node: Node) -> None:
        """Let a member name another value. The other members drop theirs.

        After an interrupt, either all members have the old values or all have the new ones.
        """
        with _lock:
            # Other threads append their new views to the new deque; see `enter`.
            members = self.members
            try:
                self.members = deque()
                self._write([member for member in self._living(members) if member is not tensor], tensor, view, node)
            except BaseException:
                if self.members is not members:
                    self.members.extend(members)
                raise

    def _write(self, others: list[Any], tensor: Any, view: View, node: Node) -> None:
        if others or self._has_value():
            if not self._has_value():
                self._begin([*others, tensor])
            self._written = next_order()
            for member in (*others, tensor):
                if member._current is not None:
                    self._forget(member)
            if self._current is not None:
                self._current.handle = weakref.ref(self)
            if view.covers or self._writes is _NOTHING:
                writes = _Writes()
                writes.add(view, node)
                self._writes = writes
            else:
                self._writes.add(view, node)
            if view.covers:
                self._current = None
            else:
                self.part_writes += 1
        self.members.append(weakref.ref(tensor))
        self._stale.pop(id(tensor), None)
        _name(tensor, node)

    def _forget(self, member: Any) -> None:
        """Drop the value of a member until it is read again."""
        member._current.handle = None
        member._current = None
        if len(self._stale) > self.crowded:
            self._stale = {number: each for number, each in self._stale.items() if each() is not None}
            self.crowded = max(self.crowded, 2 * len(self._stale))
        self._stale[id(member)] = weakref.ref(member)

    def read(self, tensor: Any, view: View) -> Node:
        """Return the present value of a member that names none, and let the member name it."""
        with _lock:
            if tensor._current is not None:
                return tensor._current  # type: ignore[no-any-return]  # Another thread was faster.
            watch = current_watch()
            outside = watch is not None and self.is_outside(watch)
            start = next_order()
            node = self._writes.nodes.get(view) if self._writes.are_apart else None
            if node is None:
                if self._current is None or self._writes.meet(view):
                    self._record_writes()
                assert self._current is not None
                node = self._current
                for call in view.path:
                    node = view_node(call, node, node.depth + 1, node.where, bool(active) and depends(call, (node,)))
            if active and (leaf := tensor._leaf) is not None and not leaf.is_frozen:
                node = leaf_node(node, leaf)
            if watch is not None and outside:
                watch.outside_since(start, node)
            _name(tensor, node)
            self._stale.pop(id(tensor), None)
            self.members.append(node.handle)
            return node

    def _has_value(self) -> bool:
        return self._current is not None or bool(self._writes.nodes)

    def _begin(self, members: list[Any]) -> None:
        """Give the storage a value from those of its members, which are consistent."""
        whole = next((member for member in members if not member._alias[1].path), None)
        if whole is not None:
            self._current = whole._node
            return
        # The viewed tensor is gone, so only its views can be read.
        writes = _Writes()
        for member in members:
            writes.add(member._alias[1], member._node)
        self._writes = writes

    def _record_writes(self) -> None:
        """Record the writes, so that the base includes them."""
        base = self._current
        for view, node in self._writes.nodes.items():
            if not view.path:
                base = node
            elif view.covers and view.is_contiguous:
                call = ops.reshape.op.call((view.spec,), (self._whole.shape,))
                base = view_node(call, node, node.depth + 1, node.where, bool(active) and depends(call, (node,)))
            else:
                base = _written(_zeros(self._whole) if base is None else base, view, node)
        self._current = _zeros(self._whole) if base is None else base
        self._writes = _NOTHING
        if self._current.tensor is None:
            self._current.handle = weakref.ref(self)


def _name(tensor: Any, node: Node) -> None:
    tensor._current = node
    node.handle = weakref.ref(tensor)


def _zeros(spec: Spec) -> Node:
    """Return a base for views that together cover all elements that can be read."""
    return Node(ops.fill.op.call((int,), (spec.shape, spec.dtype)), (0,), spec, 1, None)


def _written(base: Node, view: View, value: Node) -> Node:
    """Return the base with the elements of a view replaced."""
    op, (_, strides, offset) = ops.write_strided.op, view.layout
    # The offset is an operand, so that iterations of a loop with different offsets have one structure.
    call = op.call((base.spec, value.spec, int), (strides, False))
    inputs = (base, value, offset)
    history = inputs if depends(call, inputs) else None
    return Node(call, inputs, base.spec, max(base.depth, value.depth) + 1, value.where, history=history)


SMALL_PART = 4096
"""Upper bound in bytes on parts that are copied instead of shared. The copy takes less than a microsecond."""


def view_node(call: Call, viewed: Node, depth: int, where: Any, tracked: bool) -> Node:
    """Return the node of a view. A row-major part of a computed value shares its memory, and nothing is recorded.

    A plan for each position that a program reads would cost far more. The view is recorded if gradients pass through
    it, or if a device has a copy of the value: kernels read parts of that copy.
    """
    value = viewed.value
    if tracked:
        return Node(call, (viewed,), call.spec, depth, where, history=(viewed,))
    if call.start is None or type(value) is not Buffer or watches or hasattr(value, "copies"):
        return Node(call, (viewed,), call.spec, depth, where)
    start, nbytes = call.start * call.spec.dtype.itemsize, call.spec.nbytes
    if nbytes == value.nbytes:
        return Data(call.spec, value)
    if nbytes <= SMALL_PART and 8 * nbytes <= value.nbytes:  # Sharing would keep the whole value alive.
        part = allocator().allocate(nbytes)
        ctypes.memmove(part.address, value.address + start, nbytes)
        return Data(call.spec, part)
    return Data(call.spec, value.part(start, nbytes))
