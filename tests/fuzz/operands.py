"""Words of the table of calls: replacements of `{x}`, `{dim}` and similar words, and values of tensors."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from drawing import DTYPES, Drawer, name_of
from expression_table import OPERANDS, WORDS
from programs import execute

SHAPES = ((3, 4), (2, 3, 4), (7,), (2, 1, 3), (1, 5), (1,), (17,), (4, 4), (2, 2, 3, 2), (5, 33))
SCARCE_SHAPES = ((), (0,), (0, 3), (2, 0, 3))
EDGES = (
    *(0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-40, 1.2e-38, 6e-8, 3e38, -3e38, 65504.0, 5e-324, 1e300, 0.5),
    *(-0.5, 1.0, -1.0, 1.5, 2.5, 3.0, -3.0, 20.0, 88.0, -88.0, -104.0, 1e4, 16777217.0, -1e10),
)
MOST = 4096
"""Elements of a result, at most."""

FLOATS, WHOLE = "float bfloat", "int uint"


class Input(NamedTuple):
    """A tensor that a program begins with: `stored` elements of a dtype, and the view of them that it is."""

    name: str
    stored: tuple[int, ...]
    dtype: str
    view: str
    finite: bool

    def statement(self, rng: np.random.Generator) -> str:
        """The statement that makes it, with new values."""
        values = _values(rng, int(np.prod(self.stored)), self.dtype, self.finite)
        return f"{self.name} = nt.tensor({values}, dtype=nt.{self.dtype}).reshape({list(self.stored)}){self.view}"


def _values(rng: np.random.Generator, size: int, dtype: str, finite: bool) -> list[Any]:
    """Small numbers, random ones or, unless finite, special ones."""
    style, to = rng.random() * (0.75 if finite else 1), getattr(torch, dtype)
    values: Any
    if dtype == "bool":
        values = rng.random(size) < 0.5
    elif not to.is_floating_point:
        limits = torch.iinfo(to)
        low, high = (limits.min, limits.max) if style < 0.25 else (0 if dtype == "uint8" else -4, 6)
        values = rng.integers(low, high, size, endpoint=True)
        values = np.where(rng.random(size) < (style < 0.15) * 0.6, rng.choice([low, high], size), values)
    elif style < 0.45:
        values = rng.integers(-12, 12, size) / 4
    else:
        values = rng.standard_normal(size) if style < 0.75 else rng.choice(EDGES, size)
    return list(torch.from_numpy(values).to(to).tolist())


class Operands(Drawer):
    """A method for each word that the tables WORDS and OPERANDS do not have; `it` is the tensor that was drawn last."""

    def __init__(self, seed: int, dtypes: Sequence[str] = DTYPES) -> None:
        super().__init__(seed)
        self.dtypes = dtypes
        self.rng = np.random.default_rng(seed)
        self.inputs: list[Input] = []
        self.it = torch.zeros(())
        self.dim_of_it = 0
        self.chosen: list[int] = []

    def word(self, word: str) -> str:
        """Return the replacement of a word in braces."""
        if word in WORDS:
            return self.random.choice(WORDS[word].split())
        return self._together(*OPERANDS[word]) if word in OPERANDS else str(getattr(self, word)())

    def _together(self, kinds: str, forms: str, finite: bool = False) -> str:
        """New tensors of one dtype; a letter stands for the same extent in all of them."""
        drawn = self.random.choices([1, 2, 3, 4, 5, 17, 0], [6, 12, 12, 12, 6, 3, 1], k=5)
        extents = dict(zip("bhkmn", drawn, strict=True)) | {str(digit): digit for digit in range(10)}
        shapes, dtype = self.random.choice(forms.split()).split(","), self._kind(kinds)
        return ", ".join(self.new([extents[each] for each in shape], dtype, finite) for shape in shapes)

    def new(self, shape: Sequence[int] | None = None, dtype: str = "", finite: bool = False) -> str:
        """Return a new tensor, often one that is not row-major."""
        if shape is None:
            shape = self.random.choice(SCARCE_SHAPES if self.random.random() < 0.1 else SHAPES)
        dtype = dtype or self.random.choice(self.dtypes)
        layout, stored, view = self.random.random(), list(shape), ""
        if layout < 0.2 and len(stored) > 1:
            stored, view = stored[::-1], f".permute({list(range(len(stored)))[::-1]})"
        elif layout < 0.3 and stored:
            stored, view = [*stored[:-1], 2 * stored[-1]], "[..., ::2]"
        elif layout < 0.35 and stored:
            stored, view = [stored[0] + 2, *stored[1:]], "[2:]"
        made = Input(self.fresh("a"), tuple(stored), dtype, view, finite)
        assert execute(made.statement(self.rng), self.scope) is None, made
        self.inputs.append(made)
        self.handles.append(made.name)
        self.it = self.scope[made.name]
        return made.name

    def _kind(self, kinds: str) -> str:
        """One of the dtypes of these kinds."""
        fits = [dtype for dtype in self.dtypes if dtype.rstrip("0123456789") in kinds.split()]
        return self.random.choice(fits or ["float32"])

    def _pick(self, fits: Callable[[Any], bool], shape: Sequence[int] | None = None, dtype: str = "") -> str:
        """A handle that fits, sometimes through a view, or a new tensor."""
        for _ in range(4):
            name = self.a_view() if self.random.random() < 0.2 else self.handle()
            tensor = self.value(name)
            if tensor is not None and tensor.numel() <= MOST // 8 and fits(tensor):
                self.it = tensor
                return name
        return self.new(shape, dtype)

    def _beside(self, fits: Callable[[Any], bool], shape: Sequence[int], dtype: str = "") -> str:
        """A further operand: `it` remains the one before."""
        it = self.it
        name = self._pick(fits, shape, dtype)
        self.it = it
        return name

    # --- tensors

    def x(self) -> str:
        return self._pick(lambda tensor: True)

    def f(self) -> str:
        return self._pick(lambda tensor: tensor.is_floating_point(), dtype=self._kind(FLOATS))

    def g(self) -> str:
        """Finite floats, for functions that PyTorch computes in another order, or in several, in which NaN appears."""
        return self.new(None, self._kind(FLOATS), finite=True)

    def also(self) -> str:
        """Return a tensor like `g`, with the shape and dtype of the last tensor."""
        return self.new(self.it.shape, name_of(self.it.dtype), finite=True)

    def i(self) -> str:
        return self._pick(lambda t: not t.is_floating_point() and t.dtype != torch.bool, dtype=self._kind(WHOLE))

    def m(self) -> str:
        return self._pick(lambda tensor: tensor.dtype == torch.bool, dtype="bool")

    def v(self) -> str:
        return self._pick(lambda tensor: tensor.ndim == 1 and 0 < tensor.numel() < 40, (7,))

    def y(self) -> str:
        return self.word("number") if self.random.random() < 0.3 else self.t()

    def t(self) -> str:
        """A tensor that broadcasts with the last one; sometimes one that may not."""
        it = self.it
        shape = [extent if self.random.random() < 0.8 else 1 for extent in it.shape]
        shape = shape[self.random.choice([0, 0, min(len(shape), 1)]) :]
        return self._beside(lambda t: self.random.random() < 0.02 or _broadcasts(t.shape, it.shape), shape)

    def same(self) -> str:
        """A tensor of the same shape and dtype."""
        it = self.it
        return self._beside(lambda t: (t.shape, t.dtype) == (it.shape, it.dtype), it.shape, name_of(it.dtype))

    def mask(self) -> str:
        it = self.it
        return self._beside(lambda t: (t.shape, t.dtype) == (it.shape, torch.bool), it.shape, "bool")

    def a_view(self) -> str:
        name = self.handle()
        return self.view(name, name)

    def channels(self) -> str:
        return self.new((4,), name_of(self.it.dtype), finite=True)

    # --- dtypes and dimensions

    def dtype(self) -> str:
        return f"nt.{self.random.choice(self.dtypes)}"

    def dim(self) -> str:
        """A dimension of the last tensor; sometimes one that it has not."""
        ndim = max(self.it.ndim, 1)
        wrong = self.random.random() < 0.03 and self.it.numel()
        return str(self.random.choice([ndim, -ndim - 1]) if wrong else self.random.randrange(-ndim, ndim))

    def dims(self) -> str:
        ndim, choice = self.it.ndim, self.random.random()
        if choice < 0.5 or not ndim:
            return self.dim()
        return "None" if choice < 0.6 else str(tuple(self.random.sample(range(ndim), self.random.randint(1, ndim))))

    def last(self) -> int:
        return int(self.it.shape[-1]) if self.it.ndim else 1

    def widths(self) -> list[int]:
        """Return widths by which `pad` extends the last dimensions."""
        count = self.random.randint(1, max(1, min(self.it.ndim, 3)))
        least = -1 if min(self.it.shape, default=0) > 1 else 0
        return self.random.choices([0, 1, 2, least], k=2 * count)

    # --- positions

    def along(self) -> int:
        """The dimension that `points` and `rows` refer to."""
        self.dim_of_it = self.random.randrange(max(self.it.ndim, 1))
        return self.dim_of_it - (self.it.ndim if self.random.random() < 0.3 else 0)

    def _extent(self) -> int:
        return self.it.shape[self.dim_of_it] if self.it.ndim else 1

    def points(self) -> str:
        extent = self._extent()
        self.chosen = self.random.sample(range(extent), self.random.randint(1, extent)) if extent else []
        return f"nt.tensor({self.chosen}, dtype=nt.int64)"

    def first_points(self) -> str:
        self.dim_of_it = 0
        return self.points()

    def number_of_it(self) -> str:
        return f"nt.tensor({self.word('factor')}, dtype=nt.{name_of(self.it.dtype)}).abs()"

    def part(self) -> str:
        """Return a tensor of values for the `points`."""
        shape = list(self.it.shape)
        shape[self.dim_of_it : self.dim_of_it + 1] = [len(self.chosen)] if shape else []
        return self.new(shape, name_of(self.it.dtype))

    def rows(self) -> str:
        """Positions along a dimension, no two the same."""
        order = np.array(0)
        if self.it.ndim:
            order = self.rng.random(tuple(self.it.shape)).argsort(self.dim_of_it)
            order = order.take(range(self.random.randint(0, self._extent())), self.dim_of_it)
        return f"nt.tensor({order.tolist()}, dtype=nt.int64).reshape({list(order.shape)})"

    def rows_and_dim(self) -> str:
        dim = self.along()
        return f"{self.rows()}, {dim}"

    def item(self) -> str:
        return self.index(self.it.shape, points=True)


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return True if two shapes broadcast to a shape that is not too large."""
    try:
        return bool(np.prod(torch.broadcast_shapes(a, b)) <= MOST)
    except RuntimeError:
        return False
