"""Views that see writes: which tensors share memory in PyTorch's sense, and what a write to one means for the others.

    r = a[0]    # r and a are members of one storage
    r[1] = 5    # r names a new value; a forgets its own, and derives it from the storage when it is next used

Values are immutable, so a write makes new ones (functionalization). Recording a view only notes that two tensors
belong together. The first write that another member can see gives the storage a value: the base, from which views are
recorded again, and the writes that it has yet to take in. Nothing is computed.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from typing import Any, ClassVar, Final

from npu_tensor import selection
from npu_tensor.forks import held_at_fork
from npu_tensor.graph import Data, Node, Watch, current_order, watches
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import MOST_KEPT, Call, Layout
from npu_tensor.runtime.host import allocator
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Spec, contiguous_strides

__all__ = ["Storage", "View", "view_node"]


class View:
    """Where a tensor's elements lie in its storage: PyTorch's offset, sizes and strides. Interned.

    path: the view ops that lead from the whole storage to it. layout: strides and offset in elements.
    overlaps: whether one element stands at several positions, as after `expand`. covers: whether every element of the
    storage stands at one position.
    """

    __slots__ = ("children", "covers", "first", "is_contiguous", "last", "layout", "overlaps", "path", "spec")
    _wholes: ClassVar[dict[Spec, View]] = {}

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
        self.first: Final = layout.offset + sum(min(0, (extent - 1) * stride) for extent, stride in steps)
        self.last: Final = layout.offset + sum(max(0, (extent - 1) * stride) for extent, stride in steps)

    @classmethod
    def whole(cls, spec: Spec) -> View:
        """The view of a storage that is the storage."""
        view = cls._wholes.get(spec)
        if view is None:
            if len(cls._wholes) >= MOST_KEPT:
                cls._wholes.clear()
            layout = Layout(spec.shape, contiguous_strides(spec.shape))
            view = cls._wholes.setdefault(spec, cls(spec, layout, (), spec.size))
        return view

    def through(self, call: Call) -> View | None:
        """What a view op shows of this view; None where its elements would have to be copied, by PyTorch's rule."""
        try:
            return self.children[call]
        except KeyError:
            pass
        assert call.op.layout is not None
        layout = call.op.layout(self.layout, call.spec.shape, call.attributes)
        whole = self.path[0].operands[0] if self.path else self.spec
        assert isinstance(whole, Spec)
        child = None if layout is None else View(call.spec, layout, (*self.path, call), whole.size)
        if len(self.children) >= MOST_KEPT:
            self.children.clear()
        return self.children.setdefault(call, child)

    def meets(self, other: View) -> bool:
        """Whether the two may have elements in common. Compares the ranges of addresses, so that it may err."""
        return (
            self.first <= other.last and other.first <= self.last and self.spec.size != 0 and other.spec.size != 0
        )


# One lock for all storages: only writes that others see, and the first use of a tensor after one, take it.
_lock = threading.RLock()
held_at_fork(_lock)


class Storage:
    """Tensors that are views of the same memory.

    Before the first write its members name consistent values of their own, and the storage has none. Afterwards a
    member either names its present value, or none, and then gets it by `read` when it is used.
    """

    __slots__ = ("__weakref__", "_node", "_whole", "_writes", "_written", "crowded", "members")

    def __init__(self, member: Any) -> None:
        """member: the tensor that is about to be viewed."""
        self._whole: Spec = member._node.spec
        self.members: deque[Any] = deque((weakref.ref(member),))  # that name a value, weakly; also dead ones
        self.crowded = 64
        # The base. An attribute of this name, as that of a Tensor, lets plans keep its value while the storage lives.
        self._node: Node | None = None
        self._writes: dict[View, Node] = {}  # not in the base yet, oldest first
        self._written = 0  # the order of nodes at the latest write that others could see

    def forget_the_dead(self) -> None:
        """Drop what stands for views that are gone. Called when there may be many."""
        members = self.members
        for _ in range(len(members)):  # one by one, as other threads may add theirs meanwhile
            known = members.popleft()
            if known() is not None:
                members.append(known)
        self.crowded = 64 + 2 * len(members)

    @staticmethod
    def has_changed(tensor: Any) -> bool:
        """Whether a write to another member has made a tensor forget its value."""
        try:
            object.__getattribute__(tensor, "_node")
        except AttributeError:
            return True
        return False

    def living(self) -> list[Any]:
        """The members that name a value. A result of which only its function knew that it is a view has left."""
        members = (reference() for reference in self.members)
        return [member for member in members if member is not None and member._alias and member._alias[0] is self]

    def is_outside(self, watch: Watch) -> bool:
        """Whether a tensor from outside a function that is being traced is a member."""
        if self._node is not None or self._writes:
            return self._written < watch.before
        return any(watch.is_outside(member._node) for member in self.living())

    def write(self, tensor: Any, view: View, node: Node) -> None:
        """Let a member name another value. Others that may see a change forget theirs."""
        with _lock:
            others = [member for member in self.living() if member is not tensor]
            meets = [member._alias[1].meets(view) for member in others]
            changed = [member for member, is_changed in zip(others, meets, strict=True) if is_changed]
            if changed or self._node is not None or self._writes:
                if self._node is None and not self._writes:
                    self._begin([*others, tensor])
                self._take(view, node)
            for member in changed:
                member._node.handle = None
                del member._node
            _name(tensor, node)
            kept = [member for member, is_changed in zip(others, meets, strict=True) if not is_changed]
            self.members = deque(map(weakref.ref, (tensor, *kept)))
            if self._node is not None:
                self._node.handle = weakref.ref(self)

    def read(self, tensor: Any, view: View) -> Node:
        """The present value of a member that names none; from now on it names this one."""
        with _lock:
            if not self.has_changed(tensor):
                return tensor._node  # type: ignore[no-any-return]  # another thread was faster
            watch = watches.get(threading.get_ident()) if watches else None
            outside = watch is not None and self.is_outside(watch)
            start = current_order()
            if self._node is None or any(view.meets(written) for written in self._writes):
                self._settle()
            assert self._node is not None
            node = self._node
            for call in view.path:
                node = view_node(call, node, node.depth + 1, node.where)
            if watch is not None and outside:
                watch.outside_since(start, node)
            _name(tensor, node)
            self.members.append(node.handle)
            return node

    def _begin(self, members: list[Any]) -> None:
        """Give the storage the value that its members agree on."""
        whole = next((member for member in members if not member._alias[1].path), None)
        if whole is not None:
            self._node = whole._node
        else:  # what was viewed is gone; all that anybody can see of it are its views
            for member in members:
                self._take(member._alias[1], member._node)

    def _take(self, view: View, node: Node) -> None:
        """Note that a part has a new value."""
        self._written = current_order()
        if view.covers:
            self._writes.clear()
            self._node = None
        self._writes.pop(view, None)
        self._writes[view] = node

    def _settle(self) -> None:
        """Record the writes, so that the base has them."""
        base = self._node
        for view, node in self._writes.items():
            if not view.path:
                base = node
            elif view.covers and view.is_contiguous:
                call = OPS["reshape"].call((view.spec,), (self._whole.shape,))
                base = view_node(call, node, node.depth + 1, node.where)
            else:
                base = _written(_zeros(self._whole) if base is None else base, view, node)
        self._writes.clear()
        assert base is not None
        self._node = base
        if base.tensor is None:
            base.handle = weakref.ref(self)


def _name(tensor: Any, node: Node) -> None:
    tensor._node = node
    node.handle = weakref.ref(tensor)


def _zeros(spec: Spec) -> Node:
    """A base of which no element that is not written can be seen."""
    return Node(OPS["fill"].call((int,), (spec.shape, spec.dtype)), (0,), spec, 1, None)


def _written(base: Node, view: View, value: Node) -> Node:
    """The base with the elements of a view replaced."""
    op, (_, strides, offset) = OPS["write_strided"], view.layout
    # The offset is an operand, so that a place that changes from turn to turn of a loop is not a new structure.
    call = op.call((base.spec, value.spec, int), (strides,))
    return Node(call, (base, value, offset), base.spec, max(base.depth, value.depth) + 1, value.where)


SMALL_PART = 4096
"""Parts of at most so many bytes are copied, which takes less than a microsecond, instead of shared."""


def view_node(call: Call, viewed: Node, depth: int, where: Any) -> Node:
    """The node of a view. Elements in row-major order of a value that is there are a value: nothing is recorded.

    A plan for every place that a program looks at would cost far more than to share the memory.
    """
    value = viewed.value
    if call.start is None or type(value) is not Buffer or watches:
        return Node(call, (viewed,), call.spec, depth, where)
    start, nbytes = call.start * call.spec.dtype.itemsize, call.spec.nbytes
    if nbytes == value.nbytes:
        return Data(call.spec, value)
    if nbytes <= SMALL_PART and 8 * nbytes <= value.nbytes:  # which would keep the whole alive
        part = allocator().allocate(nbytes)
        ctypes.memmove(part.address, value.address + start, nbytes)
        return Data(call.spec, part)
    if selection.active.accelerators:  # An NPU keeps copies of whole values, and reads parts of them.
        return Node(call, (viewed,), call.spec, depth, where)
    return Data(call.spec, value.part(start, nbytes))
