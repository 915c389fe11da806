"""Tensor: the user's handle on a value. Most of its methods come from the registry of ops and functions.

An op call records a Node and returns at once; it raises shape and dtype errors. Values are computed when they are
read: print, repr, item, numpy, tolist, bool, int, float, or realize.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from npu_tensor import ops
from npu_tensor._util.units import size
from npu_tensor._util.user_warnings import user_line
from npu_tensor.config import config
from npu_tensor.dtypes import STRUCT_CODES, DType, as_dtype, stored_shape
from npu_tensor.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    NpuTensorError,
    OutOfMemoryError,
    ShapeError,
    no_such_name,
)
from npu_tensor.graph.aliasing import Storage, View, view_node
from npu_tensor.graph.history import (
    GradMode,
    Leaf,
    active,
    grad_mode,
    is_tracked,
    leaf_node,
    leaf_of,
    retained,
    same_value,
)
from npu_tensor.graph.index_checks import check_indices
from npu_tensor.graph.nodes import (
    MOST_WRITES,
    ONE_OWNER,
    PLACEHOLDER,
    Data,
    Node,
    Overwriting,
    located,
    next_order,
    no_value_yet,
    overwrite,
)
from npu_tensor.graph.structure import depends_on_placeholder, described_graph, structure_of
from npu_tensor.graph.tracing import Watch, current_watch, watches
from npu_tensor.observe import printing
from npu_tensor.ops import registry
from npu_tensor.ops.declare import Call, Op, Operand, describe, keep
from npu_tensor.ops.recorders import STEPS
from npu_tensor.planner import selection
from npu_tensor.planner.planner import realize as _realize_nodes
from npu_tensor.planner.planner import shorten
from npu_tensor.planner.pressure import pressure
from npu_tensor.runtime import dlpack
from npu_tensor.runtime.devices.device_uri import DeviceName
from npu_tensor.runtime.devices.host import allocator
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Size, Spec

if TYPE_CHECKING:
    # The generated methods, for type checkers and editors.
    from npu_tensor._methods import Methods
    from npu_tensor.observe.explain import CompilationReport
    from npu_tensor.observe.explanation import Explanation
else:
    Methods = object

__all__ = [
    "ACCEPTED",
    "Tensor",
    "explain",
    "from_array",
    "handle_on",
    "into",
    "named",
    "overwrite_part",
    "own_value",
    "pending",
    "realize",
    "record",
    "recorded_result",
    "refused",
    "rename",
    "views_of",
    "wrap",
]

MAX_DEPTH = 4096
"""Ops of a chain after which its beginning runs while more are recorded, which bounds the memory of a loop."""


class Tensor(Methods):
    """Multi-dimensional array whose value may not have been computed yet.

    Create one with `npu_tensor.tensor`, or its short form `Tensor(data, dtype)`, `zeros`, `from_numpy` and the like. A
    Tensor is a handle on an immutable value. `x += y` and `x[i] = v` make this handle name a new value, and with it
    those that share memory with it in PyTorch: `x` is changed by `x[0].zero_()`, and `x.T` by `x += 1`.
    """

    __slots__ = ("__weakref__", "_alias", "_current", "_leaf")
    _current: Node | None  # None after a write to another tensor that shares memory, until the next use
    _alias: tuple[Storage, View] | None  # None for a tensor that was never viewed
    _leaf: Leaf | None  # for a tensor that requires a gradient, or did when its gradient was computed
    __hash__ = object.__hash__

    def __init__(self, data: Any, dtype: Any = None) -> None:
        self._alias = self._leaf = None
        self._name(registry.PUBLIC["tensor"].function(data, dtype)._node)  # type: ignore[misc]
        if (watch := current_watch()) is not None:
            watch.made.add(self)

    @property
    def _node(self) -> Node:
        """The present value, derived again after a write to another tensor that shares memory."""
        node = self._current
        if node is None:
            assert self._alias is not None
            storage, view = self._alias
            node = storage.read(self, view)
            if config.eager and node.value is None and not watches:
                _realize_nodes((node,))
        return node

    # --- properties that need no computation

    @property
    def shape(self) -> Size:
        """Extents, outermost dimension first."""
        return (self._current or self._node).spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return (self._current or self._node).spec.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return (self._current or self._node).spec.ndim

    @property
    def device(self) -> DeviceName:
        """URI of the device whose memory holds the value: "cpu" unless an NPU has computed it."""
        home = getattr(self._node.value, "home", None)
        return DeviceName("cpu" if home is None else str(home.uri))

    @property
    def itemsize(self) -> int:
        """Bytes of one element; for a quantized tensor, of one block."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._node.spec.nbytes

    @property
    def is_realized(self) -> bool:
        """True if the value has been computed."""
        return self._node.value is not None

    @property
    def graph(self) -> Any:
        """Pending ops as a new networkx.DiGraph; see npu_tensor.graph.structure.described_graph."""
        return described_graph(structure_of([self._node]))

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._node.spec.size

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the extent of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def element_size(self) -> int:
        """Return the bytes of one element.

        Raises:
            DTypeError: The tensor is quantized; its blocks have `itemsize` bytes.
        """
        if self.dtype.is_quantized:
            raise DTypeError(f"elements of {self._node.spec} are stored in blocks; itemsize is that of a block")
        return self.itemsize

    def is_floating_point(self) -> bool:
        """Return True if the dtype is floating point."""
        return self.dtype.is_floating_point

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        return printing.shown(self, sys._getframe(1))

    def _repr_html_(self) -> str:
        """Return the text of `repr` and a picture of the recorded ops, for notebooks."""
        return printing.notebook_bundle(self, sys._getframe(1))["text/html"]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # Otherwise IPython gets the text first, which computes the value and leaves no recorded ops to draw.
        return printing.notebook_bundle(self, sys._getframe(1))

    # --- reading the value

    def realize(self, wait: bool = True, device: str | None = None) -> Tensor:
        """Compute the value now, if it has not been computed, and return self.

        Args:
            wait: False lets an NPU compute while the program continues; reading the value, or `synchronize`, waits.
            device: URI of a device that must run every op, in place of the default devices and the CPU.

        Raises:
            DeviceError: `device` cannot run an op. The message names the op and the reason.
        """
        if device is not None:
            realize(self, wait=wait, device=device)
        elif (node := self._node).value is None:
            _realize_nodes((node,), wait)
        return self

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return the value as a read-only NumPy array that shares memory; bfloat16 has ml_dtypes' type.

        Args:
            force: Has no effect; PyTorch needs it for tensors that require gradients.

        Raises:
            DTypeError: The tensor is quantized; use `dequantize().numpy()`.
        """
        if self._node.spec.dtype.is_quantized:
            raise DTypeError(f"{self._node.spec} has no elements in memory; write .dequantize().numpy()")
        return self._stored()

    def _stored(self) -> np.ndarray[Any, Any]:
        """Return the same as `numpy`, also for a quantized tensor: its blocks as records."""
        node = self._node  # read once: another thread may let this handle name a new value
        if node.value is None:
            _realize_nodes((node,))
        if node.value is PLACEHOLDER:
            raise no_value_yet()
        shape, dtype = stored_shape(node.spec.shape, node.spec.dtype), node.spec.dtype.numpy
        return cast(Buffer, node.value).as_array(shape, dtype, writeable=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        target = array.dtype if dtype is None else np.dtype(dtype)
        if target != array.dtype:
            if copy is False:
                raise ValueError(f"{self.dtype.name} to {target} needs a copy")
            return array.astype(target)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export a copy of the value for `torch.from_dlpack` and the like.

        copy=False exports memory that must not be changed.
        """
        if stream is not None:
            raise BufferError(f"the value is in the CPU's memory, which has no streams: {stream!r}")
        return dlpack.capsule_of(self.numpy(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            ShapeError: The tensor has several elements.
        """
        node = self._node
        if type(node.value) is Buffer and node.spec.size == 1 and (code := STRUCT_CODES.get(node.spec.dtype)):
            return struct.unpack(code, ctypes.string_at(node.value.address, node.spec.nbytes))[0]
        if self._node.spec.size != 1:
            raise ShapeError(f"item() needs one element, {self._node.spec} has {self._node.spec.size}")
        value = self.numpy().reshape(())
        return float(value) if self.dtype.is_floating_point else value.item()

    def tolist(self) -> Any:
        """Return the value as nested lists of Python numbers."""
        array = self.numpy()
        return (array.astype(np.float32) if self.dtype.name == "bfloat16" else array).tolist()

    def __str__(self) -> str:
        return printing.printed(self, sys._getframe(1))

    def __format__(self, spec: str) -> str:
        # Formatted as a number, like in PyTorch: f"loss {loss}". A traced function has no number yet.
        is_number = not self.shape and (spec or not depends_on_placeholder(self._node))
        return format(self.item(), spec) if is_number else object.__format__(self, spec)

    def __bool__(self) -> bool:
        if self._node.spec.size != 1:
            raise ArgumentError(
                f"the truth value of a tensor with {self._node.spec.size} elements is ambiguous; use any() or all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point:
            raise TypeError(f"only integer tensors can be an index, not {self.dtype.name}")
        return int(self.item())

    @property
    def T(self) -> Tensor:
        """View with all dimensions in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tensor:
        """View with the last two dimensions swapped."""
        if self.ndim == 1:
            raise ShapeError("mT needs two dimensions or more, or none")
        return self.transpose(-2, -1) if self.ndim else self.permute()

    @property
    def H(self) -> Tensor:
        """Transposed matrix."""
        if self.ndim not in (0, 2):
            raise ShapeError(f"H needs a matrix, not {self.ndim} dimensions; mT swaps the last two")
        return self.mT

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __copy__(self) -> Tensor:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Tensor:
        if leaf_of(self._node) is None:
            return self.clone()
        return self.detach().clone().requires_grad_()

    if not TYPE_CHECKING:  # type checkers would otherwise accept every attribute

        def __getattr__(self, name: str) -> Any:
            """Resolve an attribute that was not found."""
            if name in _HINTS:
                raise no_such_name("'Tensor' object", name, (), _HINTS[name])
            raise AttributeError(f"'Tensor' object has no attribute {name!r}", name=name, obj=self)

    def __reduce__(self) -> Any:
        # Bytes, because pickle protocol 5 shares memory of NumPy's own dtypes only, not of bfloat16.
        array = self._stored().reshape(-1).view(np.uint8)
        return _rebuild, (array, self.dtype, self.shape, leaf_of(self._node) is not None)

    # --- gradients

    def detach(self) -> Tensor:
        """Return the same value and memory without gradients.

        >>> nt.detach(nt.tensor([1.0, 2.0]))
        """
        node = self._node
        with GradMode(False):
            return views_of(self, (ops.reshape.op.call((node.spec,), (node.spec.shape,)),))

    def detach_(self) -> Tensor:
        """Stop gradients at this tensor from now on and return it."""
        node = self._node
        if node.history is not None:
            self._name(self.detach()._node)
            leaf = leaf_of(node)
            if leaf is not None:
                Storage.moves += 1
                leaf.is_frozen = True
                self._leaf = None if leaf.gradient is None else leaf
        return self

    @property
    def data(self) -> Tensor:
        """The same value and memory without gradients; self if it has none. Writes to it are not recorded."""
        return self.detach() if self.requires_grad else self

    @data.setter
    def data(self, value: Tensor) -> None:
        """Let this tensor share the memory of another one from now on, with its shape and dtype.

        In a function that `jit` captures, a tensor from outside gets the value and shares no memory.
        """
        if not isinstance(value, Tensor):
            raise TypeError(f"x.data = ... takes a tensor, not {type(value).__name__}")
        if value is self or self._shows_as(value):
            return
        leaf = leaf_of(self._node)
        if leaf is None and self.requires_grad:
            raise GradientError("x.data can be set for leaves only; write x = x.detach() first")
        if leaf is not None and not value.dtype.is_floating_point:
            raise DTypeError(f"a leaf that requires a gradient cannot be {value.dtype.name}")
        watch = current_watch()
        if watch is not None and watch.is_outside(self._node):
            if value._node.spec is not self._node.spec:
                raise watch.refuse(user_line(sys._getframe(1)))
            with GradMode(False):
                self._assign(value)
            return
        storage, view = value._alias or Storage.of(value)
        node = same_value(value._node)
        self._alias = storage, view
        Storage.moves += 1
        self._name(node if leaf is None else leaf_node(node, leaf))
        storage.enter(self)

    def _shows_as(self, other: Tensor) -> bool:
        """Return True if both tensors are the same view of the same memory, as after x.data += 1."""
        mine, its = self._alias, other._alias
        return mine is not None and its is not None and mine[0] is its[0] and mine[1].layout == its[1].layout

    @property
    def requires_grad(self) -> bool:
        """True if gradients are recorded: it was requested, or the tensor was computed from such tensors."""
        return self._node.history is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Enable or disable the gradient of this tensor and return it.

        Raises:
            DTypeError: The tensor is not floating point.
            GradientError: The tensor is a result, whose gradient cannot be disabled.
        """
        node = self._node
        if requires_grad and node.history is None:
            if not self.dtype.is_floating_point:
                raise DTypeError(f"only floats have gradients, not {node.spec}")
            leaf = self._leaf = self._named_leaf() or Leaf()
            leaf.is_frozen = False
            Storage.moves += 1
            self._name(leaf_node(node, leaf))
        elif not requires_grad and node.history is not None:
            if leaf_of(node) is None:
                raise GradientError("requires_grad can be changed for leaves only; use x.detach()")
            self.detach_()
        return self

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was not computed from tensors that require gradients."""
        return self._node.history is None or leaf_of(self._node) is not None

    @property
    def grad(self) -> Tensor | None:
        """Sum of the gradients of all backward passes since it was None; see `requires_grad_` and `retain_grad`."""
        leaf = self._named_leaf()
        if leaf is None:
            return None
        watch = current_watch() if leaf.gradient is None else None
        if watch is not None and leaf not in watch.gradients and not watch.has_made_leaf(leaf):
            watch.without_gradient.add(leaf)
        gradient: Tensor | None = leaf.gradient
        return gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        leaf = self._named_leaf()
        if value is not None and (not isinstance(value, Tensor) or value._node.spec is not self._node.spec):
            other = value._node.spec if isinstance(value, Tensor) else type(value).__name__
            raise ArgumentError(f"the gradient of {self._node.spec} cannot be {other}")
        if leaf is not None:
            if (watch := current_watch()) is not None and not watch.has_made_leaf(leaf):
                watch.gradients.setdefault(leaf, (leaf.gradient, False))
            leaf.gradient = value
        elif value is not None:
            raise GradientError("only leaves that require a gradient can have one; see requires_grad_()")

    def retain_grad(self) -> None:
        """Let `backward` set `grad` of this tensor although it is a result. Leaves always get one.

        Raises:
            GradientError: The tensor does not require a gradient.
        """
        if not self.requires_grad:
            raise GradientError(f"{self._node.spec} does not require a gradient, so there is none to retain")
        if not self.is_leaf and not self.retains_grad:
            self._leaf = Leaf()
            self._leaf.is_frozen = True  # A view that is derived again must not become a leaf.
            retained[id(self)] = self

    @property
    def retains_grad(self) -> bool:
        """True for a result for which `retain_grad` was called."""
        return id(self) in retained and not self.is_leaf

    def _named_leaf(self) -> Leaf | None:
        """Return the leaf that this tensor is, or was before it was frozen with a gradient."""
        return leaf_of(self._node) or self._leaf

    def _name(self, node: Node) -> None:
        """Let this handle name another node of the same value."""
        self._current = node
        node.handle = weakref.ref(self)

    def _show_as(self, view: Tensor) -> None:
        """Let this handle be another view of its memory."""
        self._alias = view._alias
        Storage.moves += 1
        self._name(view._node)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Return self if its elements are in row-major order, else a copy, whatever the memory format."""
        return self if self.is_contiguous() else self.clone()

    def cpu(self) -> Tensor:
        """Return the tensor itself."""
        return self

    def _fitting(self, result: Tensor, uniform: bool = False) -> Tensor:
        """Convert `result` to this tensor's dtype. Raises an error if it cannot be written to this tensor."""
        if self._alias is not None and self._alias[1].overlaps and not uniform:
            raise ArgumentError(
                f"an in-place op on {self._node.spec} would write to one element at several positions, as it was "
                "expanded; clone() it first"
            )
        if result._node.spec is self._node.spec:
            return result
        if result.shape != self.shape:
            raise ShapeError(f"an in-place op cannot change {list(self.shape)} to {list(result.shape)}")
        if result.dtype.category > self.dtype.category:
            raise ArgumentError(f"an in-place op cannot turn {self.dtype.name} into {result.dtype.name}")
        return ops.convert(result, self.dtype)

    def _assign(self, result: Tensor, *, uniform: bool = False) -> Tensor:
        """Write `result`, which must have the same shape, to this tensor and its views, converted to its dtype.

        uniform: True if all its elements are equal, so that the order of the writes does not matter.
        """
        result = self._fitting(result, uniform)
        if (watch := current_watch()) is not None:
            watch.read(result)
            _note_change(watch, self, sys._getframe(1))
            if watch.is_outside(result._node):  # An op inside the function reads the value again at each call.
                result = record(ops.reshape.op, (result,), (result.shape,))
        own, node = self._node, result._node
        if own.history is not None and active:
            leaf = leaf_of(own)
            if grad_mode.enabled and (leaf is not None or _shows_a_leaf(self)):
                what = "a leaf that requires a gradient" if leaf is not None else "a view of a leaf that requires one"
                raise GradientError(f"an in-place op cannot change {what}; do it under no_grad()")
            if leaf is not None:
                node = leaf_node(node, leaf)
        if node.value is None and not uniform:
            overwrite(own, node)
        self._write(node)
        return self

    def _write(self, node: Node) -> None:
        """Let this tensor and its views name another value."""
        if self._alias is None:
            self._name(node)
        else:
            storage, view = self._alias
            if not self._write_in_place(storage, view, node):
                storage.write(self, view, node)

    def _write_in_place(self, storage: Storage, view: View, node: Node) -> bool:
        """Write to a part of the memory in place if the program has written to many parts. Return False if it cannot.

        The first writes are recorded, so that a model with a few of them runs as one plan.
        """
        if storage.part_writes < MOST_WRITES or view.covers or not view.is_contiguous or watches:
            return False
        owner = storage.owner_beside(self)
        if owner is None or node.history is not None:
            return False
        _realize_nodes((owner._node, node))
        self._name(node)  # The former value may be a view recorded from that of the owner.
        value = node.value
        return type(value) is Buffer and overwrite_part(owner, view.layout.offset, value.address, node.spec.nbytes)


NO_TRANSFER = "tensors go where they are needed; nt.set_default_device('npu') lets an NPU run ops"
_HINTS = {
    "cuda": NO_TRANSFER,
    "npu": NO_TRANSFER,
    "astype": "write x.to(dtype)",
    "copy": "write x.clone()",
    "register_hook": "change x.grad after backward(), or differentiate a function with nt.grad or nt.value_and_grad",
    "strides": "x.stride() gives them, in elements",
    "tobytes": "write x.numpy().tobytes()",
}
"""Hints for attributes that PyTorch's tensors or NumPy's arrays have and these tensors do not."""


def handle_on(node: Node) -> Tensor:
    """Return a new Tensor of a node's value without becoming the tensor that names the node."""
    tensor = _new(Tensor)
    tensor._alias = tensor._leaf = None
    tensor._current = node
    return tensor


def wrap(node: Node) -> Tensor:
    """Return a new Tensor that names `node`."""
    tensor = handle_on(node)
    node.handle = weakref.ref(tensor)
    if watches and (watch := current_watch()) is not None:
        watch.created.add(node)
        watch.made.add(tensor)
    return tensor


def recorded_result(node: Node) -> Tensor:
    """Return a new Tensor that names a recorded node; run it at once if the chain has become too long."""
    tensor = wrap(node)
    if pressure.remembers:
        pressure.remember(node)
    if node.depth > MAX_DEPTH:
        _run_early(node)
    return tensor


def named(spec: Spec, value: Any) -> Tensor:
    """Return a new tensor of a value."""
    return wrap(Data(spec, value))


def own_value(tensor: Tensor) -> bool:
    """Return True if a tensor names all its memory, no other one shows it, and its value is computed.

    After many pending writes to the tensor, the value is computed first.
    """
    alias = tensor._alias
    if alias is not None and alias[0].owner_beside(tensor) is not tensor:
        return False
    node = tensor._node
    if node.value is None and isinstance(node.inputs, Overwriting) and node.inputs.writes >= MOST_WRITES:
        _realize_nodes((node,))
    return node.value is not None


def overwrite_part(owner: Tensor, start: int, address: int, nbytes: int) -> bool:
    """Copy bytes over elements of a computed value if nothing but its tensor refers to it. Return False otherwise."""
    node = owner._current
    if node is None or node.history is not None or type(node.value) is not Buffer:
        return False
    value = node.value
    if sys.getrefcount(node) > ONE_OWNER or sys.getrefcount(value) > ONE_OWNER or not value.is_overwritable:
        return False
    allocator().forget_layouts(value)
    ctypes.memmove(value.address + start * node.spec.dtype.itemsize, address, nbytes)
    owner._name(Data(node.spec, value))  # A captured function notices another value by its node.
    return True


def rename(tensor: Tensor, node: Node) -> None:
    """Let a tensor name another node, which the program does not name otherwise, also where it is a leaf."""
    leaf = leaf_of(tensor._node) if active else None
    if leaf is not None:
        if node.value is None and node.history is None and node.tensor is None:
            node.history = leaf
        else:
            node = leaf_node(node, leaf)
    tensor._write(node)


def _shows_a_leaf(tensor: Tensor) -> bool:
    """Return True if the tensor shares memory with a leaf that requires a gradient."""
    return tensor._alias is not None and any(
        leaf_of(member._node) is not None for member in tensor._alias[0].living() if member is not tensor
    )


def _note_change(watch: Watch, tensor: Tensor, frame: FrameType) -> None:
    """Note that a function that is being captured is about to change a tensor.

    Raises CaptureError for an argument.
    """
    watch.touch(tensor)
    if tensor in watch.copies:
        watch.lost[id(tensor)] = user_line(frame)
    alias = tensor._alias
    if not (watch.is_outside(tensor._node) if alias is None else alias[0].is_outside(watch)):
        return
    members = [tensor] if alias is None else alias[0].living()
    if any(each._node.value is PLACEHOLDER for each in members):
        raise watch.refuse(user_line(frame))
    whole = next((each for each in members if each._alias is None or not each._alias[1].path), None)
    if whole is None:
        assert alias is not None
        whole = _new_whole(alias[0])
    watch.read(whole)
    if whole not in watch.changed:
        watch.changed[whole] = partial(whole._name, whole._node) if alias is None else alias[0].undo()


def _new_whole(storage: Storage) -> Tensor:
    """Return a new handle on all the memory of a storage whose first tensor is gone."""
    whole = _new(Tensor)
    whole._current = whole._leaf = None
    whole._alias = storage.whole_view()
    whole._node  # noqa: B018  # reads the value, as after a write to another view
    return whole


def _note_reads(*operands: Any) -> None:
    """Note the tensors from outside that a function being captured in this thread reads."""
    if (watch := current_watch()) is not None:
        for operand in operands:
            if isinstance(operand, Tensor):
                watch.read(operand)


def realize(*tensors: Tensor, wait: bool = True, device: str | None = None) -> None:
    """Compute several tensors at once; shared ops are computed once. wait, device: see `Tensor.realize`."""
    chosen = None if device is None else selection.forced(device)
    nodes = pending("realize", tensors)
    if nodes:
        _realize_nodes(nodes, wait, chosen)


@overload
def explain(*tensors: Tensor, device: str | None = None) -> Explanation: ...


@overload
def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CompilationReport: ...


def explain(*tensors: Any, **keywords: Any) -> Explanation | CompilationReport:
    """Return the devices that pending ops of `tensors` will run on, and why; empty if there are none.

    This makes the plan and compiles its kernels, so running it later takes no time for that. Code inside
    `with explanation.measure():` is timed kernel by kernel. A function captured by `jit` has its own method `explain`.

    For the result of `torch.compile(model, backend="npu_tensor")`, pass it with the arguments of a call. It is called,
    and the result has an explanation for each of its graphs, and the operators that are left to PyTorch.

    Args:
        *tensors: Tensors whose pending ops are planned; or a compiled function and its arguments.
        **keywords: `device`, the URI of a device that must run every op, as in `Tensor.realize`; or the keyword
            arguments of the function.

    Raises:
        DeviceError: `device` cannot run an op. The message names the op and the reason.
        ArgumentError: An argument is not a tensor, or the function runs no compiled graph.
    """
    from npu_tensor.observe.explain import explain_call, explain_nodes

    if tensors and callable(tensors[0]):
        return explain_call(*tensors, **keywords)
    return explain_nodes(pending("explain", tensors), **keywords)


def pending(function: str, tensors: Iterable[Tensor]) -> tuple[Node, ...]:
    """Return the nodes without a value. Raise ArgumentError for an argument of `function` that is not a tensor."""
    nodes = []
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            several = f"; pass several as {function}(*tensors)" if isinstance(tensor, (tuple, list)) else ""
            argument = f"{type(tensor).__name__} {printing.brief(tensor)}"
            raise ArgumentError(f"{function} needs tensors, not {argument}{several}")
        node = tensor._node
        if node.value is None:
            nodes.append(node)
    return tuple(nodes)


def from_array(array: np.ndarray[Any, Any], dtype: Any = None, *, copy: bool = True) -> Tensor:
    """Create a tensor from a NumPy array, in its dtype unless `dtype` is given.

    An array of records holds blocks of the corresponding quantized dtype.
    """
    target = as_dtype(array.dtype if dtype is None else dtype)
    if target.is_quantized and array.dtype != target.numpy:
        raise DTypeError(f"write quantize(x, {target.name!r}) for numbers in {target.name}")
    try:
        with np.errstate(all="ignore"):
            owned = np.array(array, dtype=target.numpy, order="C", copy=True if copy else None)
    except MemoryError as error:
        spec = Spec.of(array.shape, target)
        raise OutOfMemoryError(f"out of memory: {spec}, a copy of an array, needs {size(spec.nbytes)}") from error
    shape = tuple(map(int, owned.shape))
    if target.is_quantized:
        shape = (*shape[:-1], *(blocks * target.block for blocks in shape[-1:]))
    spec = Spec.of(shape, target)
    pressure.arrive(owned.nbytes)
    return wrap(Data(spec, Buffer.from_array(owned)))


def _rebuild(data: np.ndarray[Any, Any], dtype: DType, shape: tuple[int, ...], requires_grad: bool = False) -> Tensor:
    array = np.frombuffer(data, dtype.numpy).reshape(stored_shape(shape, dtype))
    return from_array(array).requires_grad_(requires_grad)


# --- recording

_new = object.__new__


def _constant(value: Any) -> tuple[Any, Operand]:
    """Return a number or the node of an array, and its type or spec."""
    kind = type(value)
    if kind in (float, int, bool):
        return value, kind
    if isinstance(value, np.generic):
        return _constant(value.item())
    if isinstance(value, np.ndarray):
        node = from_array(value)._node
        return node, node.spec
    raise TypeError(f"expected a Tensor, a NumPy array or a Python number, not {kind.__name__}{_conversion(value)}")


def _conversion(value: Any) -> str:
    """Return a hint how to convert another library's array, or ""."""
    return f" of {type(value).__module__}; convert it with nt.from_dlpack" if hasattr(value, "__dlpack__") else ""


def _unresolved(op: Op, operands: tuple[Operand, ...], error: Exception, frame: FrameType) -> Exception:
    """Return the error of resolving a call with a text that names the op, its operands and the user's line."""
    reason = str(error)
    return located(error, f"{op.name}({describe(operands)}): {reason}", user_line(frame), reason)


def _finish_view(call: Call, base: Node, depth: int, frame: FrameType, viewed: Any) -> Tensor:
    """Return the Tensor of a view, which shares the storage of the viewed tensor unless elements have to be copied."""
    node = view_node(call, base, depth, user_line(frame), bool(active) and is_tracked(call, (base,)))
    tensor = wrap(node)
    if isinstance(viewed, Tensor):
        storage, view = viewed._alias or Storage.of(viewed)
        try:
            child = view.children[call]
        except KeyError:
            child = view.through(call)
        if child is not None:
            tensor._alias = (storage, child)
            members = storage.members
            members.append(node.handle)
            if members is not storage.members or viewed._node is not base:
                storage.enter(tensor)  # Another thread has written to the storage.
            elif len(members) > storage.crowded:
                storage.forget_the_dead()
    if pressure.remembers and node.value is None:
        pressure.remember(node)
    if node.value is None and (depth > MAX_DEPTH or config.eager):
        _run_early(node)
    return tensor


def views_of(viewed: Tensor, calls: Iterable[Call]) -> Tensor:
    """Return the view that view ops make of another tensor."""
    frame = sys._getframe(1)
    if watches:
        _note_reads(viewed)
    for call in calls:
        viewed = _finish_view(call, viewed._node, viewed._node.depth + 1, frame, viewed)
    return viewed


def _run_early(node: Node) -> None:
    if current_watch() is not None or depends_on_placeholder(node):
        return  # The graph of a function under `jit` stays whole.
    if config.eager:
        _realize_nodes((node,))
    else:
        shorten(node, MAX_DEPTH)


def record(
    op: Op,
    operands: Sequence[Any],
    attributes: tuple[Any, ...] | None = None,
    frame: FrameType | None = None,
    shares: bool = False,
) -> Tensor:
    """Record `op`.

    Args:
        op: Declaration.
        operands: Tensors, arrays and numbers.
        attributes: Values in the order of the declaration, or None for the defaults.
        frame: Frame whose line errors name; by default that of the caller.
        shares: True if the result of a view op shares the storage of its operand.
    """
    if frame is None:
        frame = sys._getframe(1)
    if watches:
        _note_reads(*operands)
    inputs: list[Any] = []
    specs: list[Operand] = []
    depth = 0
    has_numbers = False
    for operand in operands:
        if isinstance(operand, Tensor):
            read = operand._current or operand._node
            inputs.append(read)
            specs.append(read.spec)
            if read.depth > depth:
                depth = read.depth
        else:
            value, spec = _constant(operand)
            inputs.append(value)
            specs.append(spec)
            has_numbers = True
    key = tuple(specs)
    call = op.calls.get(key) if attributes is None else None
    if call is None:
        try:
            call = op.call(key, op.defaults if attributes is None else attributes)
        except (NpuTensorError, TypeError, ValueError) as error:
            raise _unresolved(op, key, error, frame) from error.__cause__
        if attributes is None:
            keep(op.calls, key, call)
    if has_numbers:
        for position, spec in enumerate(key):
            if spec is int and not -1 << 63 <= inputs[position] < 1 << 63:
                _require_fitting(call, position, inputs[position], frame)
    if shares:
        return _finish_view(call, inputs[0], depth + 1, frame, operands[0])
    given, where = tuple(inputs), user_line(frame)
    if call.op.indices is not None:
        check_indices(call, given, where)
    # A call of __init__ takes 200 ns, these stores 80.
    node: Node = _new(Node)
    node.call = call
    node.inputs = given
    node.history = given if active and is_tracked(call, given) else None
    node.spec = call.spec
    node.depth = depth + 1
    node.where = where
    node.value = None
    node.order = next_order()
    tensor: Tensor = _new(Tensor)
    tensor._alias = tensor._leaf = None
    tensor._current = node
    node.handle = weakref.ref(tensor)
    if watches and (watch := current_watch()) is not None:
        watch.made.add(tensor)
    if pressure.remembers:
        pressure.remember(node)
    if depth >= MAX_DEPTH or config.eager:
        _run_early(node)
    return tensor


def _require_fitting(call: Call, position: int, number: int, frame: FrameType) -> None:
    """Raise ArgumentError for a Python integer outside the op's register type."""
    register = call.registers[position] or "int64"
    if register.startswith("float"):
        try:
            float(number)
            return
        except OverflowError:
            pass
    text = f"an integer of {number.bit_length()} bits does not fit {register}"
    raise located(ArgumentError(), f"{call.op.name}({describe(call.operands)}): {text}", user_line(frame), text)


ACCEPTED = (Tensor, float, int, np.ndarray, np.generic)
"""Types of the other operand of operators; Python tries the reflected operator of other types."""


def refused(other: Any) -> Any:
    """Return NotImplemented, or raise TypeError with a hint for another library's array."""
    if conversion := _conversion(other):
        raise TypeError(f"not an operand: {type(other).__name__}{conversion}")
    return NotImplemented


def into(out: Any, result: Any) -> Any:
    """Write a result, or its parts, to the tensors of PyTorch's `out=`. Empty ones take its shape."""
    if isinstance(result, tuple):
        parts = [into(*pair) for pair in zip(out, result, strict=True)]
        return result._make(parts) if hasattr(result, "_make") else tuple(parts)
    if not (isinstance(out, Tensor) and isinstance(result, Tensor)):
        raise TypeError(f"out must be a tensor for each that is returned, not {type(out).__name__}")
    if not out.numel() and out.shape != result.shape:
        out._alias = None
        Storage.moves += 1
        out._name(ops.fill(0, result.shape, out.dtype)._node)
    return out._assign(result)


STEPS.tensor, STEPS.accepted = Tensor, ACCEPTED
STEPS.record, STEPS.into, STEPS.refused = record, into, refused


def _install(name: str, entry: registry.Public) -> None:
    if entry.method is not None:
        setattr(Tensor, name, entry.method)


registry.on_publish(_install)
