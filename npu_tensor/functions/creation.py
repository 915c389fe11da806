"""Tensors from data, numbers and random streams. Shapes may be given as f(2, 3) or f((2, 3))."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import ml_dtypes
import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DTYPES, DType, as_dtype, bool_, default_dtype, int64, promote
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.register import check_device, composite, fitting, tensor_of
from npu_tensor.graph.tracing import current_watch
from npu_tensor.ops.rules import integer_extents, unpacked
from npu_tensor.runtime.dlpack import as_array
from npu_tensor.tensor import Tensor, from_array

_FLOATS = frozenset(dtype.numpy for dtype in DTYPES if dtype.is_floating_point)
Extents = Any
DTypeLike = Any


def extents(size: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape meant by f(2, 3) or f((2, 3))."""
    shape = integer_extents(unpacked(size))
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"shape {list(shape)} has a negative extent")
    return shape


def _elements(data: Any) -> Iterator[Any]:
    """Iterate over the leaves of nested lists."""
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from _elements(part)
    else:
        yield data


def _as_arrays(data: Any) -> Any:
    """Replace other libraries' arrays in nested lists by NumPy's."""
    if isinstance(data, (list, tuple)):
        return [_as_arrays(part) for part in data]
    return as_array(data) if hasattr(data, "__dlpack__") and not isinstance(data, (np.ndarray, Tensor)) else data


def _types(data: Any) -> set[type]:
    """Return the types of the leaves of nested lists."""
    if not isinstance(data, (list, tuple)):
        return {type(data)}
    types = set(map(type, data))
    return set().union(*map(_types, data)) if any(issubclass(each, (list, tuple)) for each in types) else types


def _dtype_of(element: Any) -> DType:
    """Return the dtype of a list element: its own, or the default dtype of a Python number."""
    if isinstance(element, (Tensor, np.ndarray, np.generic)):
        return as_dtype(element.dtype)
    if hasattr(element, "__dlpack__"):
        return as_dtype(as_array(element).dtype)
    return default_dtype(next((kind for kind in (bool, int) if isinstance(element, kind)), float))


def _culprit(data: Any) -> Any:
    """Return the first element that is not a number, or else the first of all."""
    strange = (each for each in _elements(data) if not isinstance(each, (numbers.Real, np.bool_, Tensor)))
    return next(strange, next(_elements(data), data))


@composite(method=False, creates=True)
def tensor(data: Any, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor by copying data.

    Without `dtype`, Python floats give float32, ints int64 and bools bool; arrays and tensors keep theirs. A list with
    elements of several types gets the promoted dtype. Gradients that another library records for its array are dropped.

    Args:
        data: Number, nested lists of numbers, array of NumPy, PyTorch or JAX, or another tensor.

    Raises:
        ShapeError: Nested lists are ragged.
        DTypeError: An element is not a number.
        ArgumentError: An integer dtype cannot hold a Python number. Floats of arrays that are out of range give the
            nearest limit instead, as in `Tensor.to`.
    """
    if isinstance(data, Tensor):
        return data.clone() if dtype is None else data.clone().to(dtype)
    if not isinstance(data, np.ndarray) and hasattr(data, "__dlpack__"):
        data = as_array(data)
    if isinstance(data, np.generic) or hasattr(data, "__array__"):
        array = np.asarray(data)
        if dtype is not None and as_dtype(dtype).is_integer and array.dtype.newbyteorder("=") in _FLOATS:
            return from_array(array).to(dtype)  # the conversion op defines the results for NaN and large numbers
        return from_array(array, dtype)
    try:
        try:
            array = np.asarray(data)
        except (RuntimeError, TypeError):  # raised by PyTorch for gradients and bfloat16
            array = np.asarray(_as_arrays(data))
    except ValueError as error:
        raise ShapeError(f"nested lists must be rectangular: {error}") from None
    except OverflowError as error:
        raise ArgumentError(str(error)) from None
    types = set() if dtype is not None else _types(data)
    if array.dtype.kind in "uOf" and types == {int}:  # one of them is too large for int64
        raise ArgumentError("a number does not fit int64; give a float dtype to hold it approximately")
    if array.dtype.kind not in "biuf" and str(array.dtype) != "bfloat16":
        raise DTypeError(f"cannot make a tensor of {type(_culprit(data)).__name__}")
    if not types <= {bool, int, float}:
        dtype = promote((each, 1) for each in set(map(_dtype_of, _elements(data))))
    elif dtype is None and array.dtype == np.float64:
        dtype = default_dtype(float)
    if dtype is not None and as_dtype(dtype).is_integer and array.size:
        for extreme in (array.min(), array.max()):  # both are NaN if one element is
            fitting(extreme, as_dtype(dtype))
    return from_array(array, dtype)


@composite(method=False, creates=True)
def as_tensor(data: Any, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor as `tensor` does, but return a Tensor that already has the dtype unchanged."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return tensor(data, dtype, device)


@composite(method=False, creates=True)
def asarray(data: Any, dtype: DTypeLike = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Create a tensor as `as_tensor` does, with control over copies.

    Args:
        copy: True never returns `data` itself. False refuses data that has to be copied.

    Raises:
        ArgumentError: `copy` is False and a copy is needed.
    """
    if copy is False and not isinstance(data, Tensor):
        raise ArgumentError("data other than a tensor is copied; see from_numpy, which can share memory")
    result = as_tensor(data, dtype, device)
    if copy is False and result is not data:
        raise ArgumentError(f"{data.dtype.name} as {result.dtype.name} is a copy")
    return result.clone() if copy and result is data else result


@composite(method=False, creates=True)
def scalar_tensor(s: float, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor without dimensions from a number, of the default float dtype unless `dtype` is given.

    >>> nt.scalar_tensor(2.5)
    """
    return tensor(s, dtype or default_dtype(float), device)


@composite(method=False)
def from_numpy(array: np.ndarray[Any, Any], copy: bool = True) -> Tensor:
    """Create a tensor with the array's value and dtype.

    Args:
        array: NumPy array.
        copy: False shares the memory of a row-major array and marks the array read-only, because values never change.

    Raises:
        TypeError: `array` is not a NumPy array.

    >>> nt.from_numpy(np.arange(3.0))
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected a NumPy array, not {type(array).__name__}")
    tensor = from_array(array, copy=copy)
    if not copy:
        array.flags.writeable = False
    return tensor


@composite(method=False)
def from_dlpack(external: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Convert an array that supports DLPack, such as a PyTorch tensor or a JAX array, to a tensor of the same dtype.

    Args:
        external: Array of another library.
        copy: False shares the memory of a row-major array, which must not be written to any more.

    Raises:
        BufferError: The memory is not accessible to the CPU.
        DTypeError: The dtype has no equivalent.
        TypeError: `external` has no `__dlpack__`.

    >>> nt.from_dlpack(np.arange(3.0))
    """
    if not hasattr(external, "__dlpack__"):
        raise TypeError(f"from_dlpack needs an array that has __dlpack__, not {type(external).__name__}")
    check_device(device)
    return from_array(as_array(external), copy=copy is not False)


def tensor_of_any(value: Any) -> Tensor:
    """Convert a tensor of any library, or a number."""
    return from_dlpack(value) if hasattr(value, "__dlpack__") and not isinstance(value, Tensor) else tensor_of(value)


def _filled(shape: tuple[int, ...], value: float, dtype: DTypeLike) -> Tensor:
    return ops.fill(fitting(value, as_dtype(dtype)), shape, as_dtype(dtype))


def _constant(name: str, value: float, text: str = "") -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Publish functions that fill tensors with a number: <name>, <name>_like and the method new_<name>."""

    def filled(*size: Extents, dtype: DTypeLike = None, device: Any = None) -> Tensor:
        return _filled(extents(size), value, dtype or default_dtype(float))

    def like(input: Tensor, dtype: DTypeLike = None, device: Any = None) -> Tensor:
        return _filled(input.shape, value, dtype or input.dtype)

    def new(input: Tensor, *size: Extents, dtype: DTypeLike = None, device: Any = None) -> Tensor:
        return _filled(extents(size), value, dtype or input.dtype)

    kind = "a tensor" if name == "empty" else name
    filled.__doc__ = f"Create {kind} of the given shape, float32 unless `dtype` is given.{text}"
    like.__doc__ = f"Create {kind} of the input's shape and dtype.{text}"
    new.__doc__ = f"Create {kind} of the given shape in the dtype of input.{text}"
    composite(f"new_{name}", function=False, creates=True)(new)
    create_like = composite(f"{name}_like", method=False, creates=True)
    return composite(name, method=False, creates=True)(filled), create_like(like)


zeros, zeros_like = _constant("zeros", 0)
ones, ones_like = _constant("ones", 1)
empty, empty_like = _constant("empty", 0, " The elements are zero.")


@composite(method=False, ggml="FILL", creates=True)
def full(size: Extents, fill_value: float, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor with `fill_value` everywhere. Its type determines the dtype unless `dtype` is given.

    Raises:
        ArgumentError: An integer dtype cannot hold `fill_value`.
        TypeError: `fill_value` is not a number.
    """
    shape = extents((size,))
    if isinstance(fill_value, Tensor):
        return (fill_value if dtype is None else fill_value.to(dtype)).reshape(()).expand(shape)
    if isinstance(fill_value, np.generic):
        fill_value = fill_value.item()
    if not isinstance(fill_value, (bool, int, float)):
        raise TypeError(f"fill_value must be a number, not {type(fill_value).__name__}")
    return _filled(shape, fill_value, dtype or default_dtype(type(fill_value)))


@composite(method=False, creates=True)
def full_like(input: Tensor, fill_value: float, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor with `fill_value` everywhere, in the input's shape and dtype."""
    return full(input.shape, fill_value, dtype or input.dtype, device)


def _number_dtype(dtype: DTypeLike) -> DType:
    resolved = as_dtype(dtype)
    if resolved is bool_:
        raise DTypeError("the result cannot be bool")
    return resolved


@composite(method=False, ggml="ARANGE", creates=True)
def arange(
    start: float = 0, end: float | None = None, step: float = 1, dtype: DTypeLike = None, device: Any = None
) -> Tensor:
    """Create start, start + step, ... below end, beginning at 0 if only one number is given.

    The dtype is int64 if all three are integers, else float32. As in PyTorch, an integer dtype drops the fractions of
    start and step, and int64 also that of end.

    Args:
        start: First element.
        end: Upper bound, not included.
        step: Difference of neighbours.

    Raises:
        ArgumentError: A number is not finite, or `step` does not lead from `start` to `end`.
        DTypeError: `dtype` is bool.
    """
    if end is None:
        start, end = 0, start
    start, end, step = (x.item() if isinstance(x, (Tensor, np.generic)) else x for x in (start, end, step))
    for number in (start, end, step):
        if not isinstance(number, (int, float)):
            raise TypeError(f"arange needs numbers, not {type(number).__name__}")
        if not math.isfinite(number):
            raise ArgumentError(f"start, end and step must be finite, not {number}")
    if dtype is None:
        dtype = int64 if all(isinstance(x, int) for x in (start, end, step)) else default_dtype(float)
    target = _number_dtype(dtype)
    if target is int64:
        start, end, step = int(start), int(end), int(step)
    if not step or (end - start) * step < 0:
        raise ArgumentError(f"step {step} does not lead from {start} to {end}")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        length = -((start - end) // step)  # len() of a range is limited to 2**63
    elif math.isfinite(steps := (end - start) / step):
        length = math.ceil(steps)
    else:
        raise ArgumentError(f"there are too many steps of {step} from {start} to {end}")
    if target.is_integer:
        start, step = int(start), int(step)
    return ops.arange_from(start, step, (length,), target)


@composite(method=False, creates=True)
def linspace(start: float, end: float, steps: int, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create `steps` evenly spaced numbers from start to end, both included.

    Integer results have whole bounds: the fractions of start and end are dropped, as in PyTorch.

    >>> nt.linspace(0.0, 1.0, 5)
    """
    target = _number_dtype(dtype or default_dtype(float))
    first, last = _bounds(start, end, target)
    return ops.linspace_between(first, last, extents((steps,)), target)


def _bounds(start: Any, end: Any, target: DType) -> tuple[Any, Any]:
    """Return the bounds of a sequence, whole numbers if its dtype is an integer."""
    if not target.is_integer:
        return start, end
    first, last = (each.to(target) if isinstance(each, Tensor) else int(each) for each in (start, end))
    return first, last


@composite(method=False, creates=True)
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, dtype: DTypeLike = None, device: Any = None
) -> Tensor:
    """Create `steps` numbers from base ** start to base ** end whose logarithms are evenly spaced.

    Integer results have whole bounds: the fractions of start and end are dropped, as in PyTorch.

    >>> nt.logspace(0.0, 2.0, 3)
    """
    target = _number_dtype(dtype or default_dtype(float))
    first, last = _bounds(start, end, target)
    return (base ** linspace(first, last, steps, "float64", device)).to(target)


@composite("range", method=False, creates=True)
def range_with_end(start: float, end: float, step: float = 1, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create start, start + step, ... up to and including end, of the default float dtype unless `dtype` is given.

    Raises:
        ArgumentError: `step` does not lead from `start` to `end`.

    >>> nt.range(0, 3)
    """
    if not step or (end - start) * step < 0:
        raise ArgumentError(f"step {step} does not lead from {start} to {end}")
    return ops.arange_from(start, step, (int((end - start) / step) + 1,), _number_dtype(dtype or default_dtype(float)))


@composite(method=False, creates=True)
def eye(n: int, m: int | None = None, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a matrix of n rows and m (default n) columns with ones on the diagonal."""
    return ops.eye_matrix(1, extents((n, n if m is None else m)), as_dtype(dtype or default_dtype(float)))


# --- like another tensor


@composite(method=False, creates=True)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Return rows and columns, of shape (2, n), of the elements on and below a diagonal."""
    rows, columns = extents((row, col))
    return from_array(np.stack(np.tril_indices(rows, offset, columns)), dtype or int64)


@composite(method=False, creates=True)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Return rows and columns, of shape (2, n), of the elements on and above a diagonal."""
    rows, columns = extents((row, col))
    return from_array(np.stack(np.triu_indices(rows, offset, columns)), dtype or int64)


@composite(function=False, creates=True)
def new_full(input: Tensor, size: Extents, fill_value: float, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor with `fill_value` everywhere, in the dtype of input."""
    return full(size, fill_value, dtype or input.dtype, device)


@composite(function=False, creates=True)
def new_tensor(input: Tensor, data: Any, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Create a tensor from data, like `tensor`, in the dtype of input."""
    return tensor(data, dtype or input.dtype, device)


@composite(method=False)
def is_tensor(obj: object) -> bool:
    """Return True if obj is a Tensor.

    >>> nt.is_tensor(nt.zeros(2))
    """
    return isinstance(obj, Tensor)


@composite(method=False)
def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return input.numel()


# --- random numbers: every call draws one number from the generator, which seeds the stream of that tensor


class Generator:
    """Source of seeds. Two generators of equal seed give equal tensors in the same sequence of calls."""

    def __init__(self, seed: int | None = None, device: Any = "cpu") -> None:
        check_device(device)
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else seed)

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed})"

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed`. In a function that `jit` captures, the seeds drawn afterwards are constants.

        Raises:
            ArgumentError: `seed` is negative.
        """
        if seed < 0:
            raise ArgumentError(f"a seed must not be negative: {seed}")
        if (watch := current_watch()) is not None:
            watch.seeded.add(self)
        self._seed = int(seed)
        self._calls = count()
        return self

    def initial_seed(self) -> int:
        """Return the seed it was started from."""
        return self._seed

    def draw(self) -> int:
        """Draw the seed of the next tensor, 63 bits. A function that `jit` captures draws anew at each call."""
        if (watch := current_watch()) is not None and self not in watch.seeded:
            return watch.draw(self)
        words = np.random.SeedSequence([self._seed, next(self._calls)]).generate_state(1, np.uint64)
        return int(words[0]) >> 1


default_generator = Generator()


@composite("seed", method=False)
def seed_anew() -> int:
    """Restart the default generator from a seed of the operating system and return that seed."""
    return default_generator.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1).initial_seed()


@composite(method=False)
def initial_seed() -> int:
    """Return the seed that the default generator was started from."""
    return default_generator.initial_seed()


def manual_seed(seed: int) -> Generator:
    """Restart the default generator from `seed` and return it."""
    return default_generator.manual_seed(seed)


def draw(source: Any) -> int:
    """Draw the seed of a new tensor."""
    if source is not None and not isinstance(source, Generator):
        raise TypeError(f"generator must be a Generator, not {type(source).__name__}")
    return int((source or default_generator).draw())


def _float_dtype(dtype: DTypeLike) -> DType:
    resolved = as_dtype(dtype or default_dtype(float))
    if not resolved.is_floating_point:
        raise DTypeError(f"the result must be floating point, not {resolved.name}")
    return resolved


@composite(method=False, creates=True)
def rand(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Draw uniform random numbers on [0, 1). The seed is drawn now, the numbers when the value is needed."""
    return ops.random_uniform(draw(generator), extents(size), _float_dtype(dtype))


@composite(method=False, creates=True)
def randn(*size: Extents, generator: Generator | None = None, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Draw standard normal random numbers."""
    return ops.random_normal(draw(generator), extents(size), _float_dtype(dtype))


def _integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer that both int64 and `dtype` can hold."""
    if dtype is bool_:
        return 0, 1
    if dtype.is_floating_point:
        finite = int(float(ml_dtypes.finfo(dtype.numpy).max))  # type: ignore[no-untyped-call]
        return max(-finite, np.iinfo(np.int64).min), min(finite, np.iinfo(np.int64).max)
    limits = np.iinfo(dtype.numpy)
    return limits.min, limits.max


@composite(method=False, creates=True)
def randint(
    low: int = 0,
    high: int | Extents | None = None,
    size: Extents = None,
    generator: Generator | None = None,
    dtype: DTypeLike = None,
    device: Any = None,
) -> Tensor:
    """Draw uniform random integers on [low, high), int64 by default. Without high, the range is [0, low).

    A float dtype rounds integers that have more digits than it.

    Raises:
        ArgumentError: The range is empty, or `dtype` cannot hold it.

    >>> nt.randint(0, 10, (2, 2))
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if high is None or size is None:
        raise TypeError("randint needs high and size")
    if low >= high:
        raise ArgumentError(f"randint needs low < high, not {low} and {high}")
    target = as_dtype(dtype or int64)
    lowest, largest = _integer_limits(target)
    if low < lowest or high - 1 > largest:
        raise ArgumentError(f"the range [{low}, {high}) does not fit {target.name}")
    return ops.random_integers(draw(generator), low, high, extents((size,)), target)


@composite(method=False, creates=True)
def randperm(n: int, generator: Generator | None = None, dtype: DTypeLike = None) -> Tensor:
    """Return a random order of 0 to n - 1; int64 by default.

    Raises:
        ArgumentError: `dtype` cannot hold n - 1.
    """
    target = _number_dtype(dtype or int64)
    if n - 1 > _integer_limits(target)[1]:
        raise ArgumentError(f"numbers below {n} do not fit {target.name}")
    return ops.random_order(draw(generator), extents((n,)), target)


@composite(method=False, creates=True)
def rand_like(input: Tensor, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Draw uniform random numbers on [0, 1) in the input's shape and dtype."""
    return rand(input.shape, dtype=dtype or input.dtype, device=device)


@composite(method=False, creates=True)
def randn_like(input: Tensor, dtype: DTypeLike = None, device: Any = None) -> Tensor:
    """Draw standard normal random numbers in the input's shape and dtype."""
    return randn(input.shape, dtype=dtype or input.dtype, device=device)


@composite(method=False, creates=True)
def randint_like(
    input: Tensor, low: int, high: int | None = None, dtype: DTypeLike = None, device: Any = None
) -> Tensor:
    """Draw uniform random integers on [low, high), or [0, low), in the input's shape and dtype.

    >>> nt.randint_like(nt.zeros(2, 2), 0, 10)
    """
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, input.shape, dtype=dtype or input.dtype, device=device)
