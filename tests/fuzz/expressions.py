"""Random chains of the public functions, in PyTorch and here: every result is compared with that of the same operands.

    python tests/fuzz/expressions.py --ops 1000000 --seed 0 [--mode lazy|eager|jit] [--device sim:npu1]
    python tests/fuzz/expressions.py --programs 1 --seed 123 --show      # the program of this seed, as text

A program makes a few tensors of any dtype, shape and layout, of small numbers, of random ones or of special values
(NaN, infinities, -0.0, subnormals, limits of integers), and calls three to eight functions of expression_table.py. It
is run as a whole, so that its calls are fused, and read at the end. Then each call is judged on its own: PyTorch makes
it again of the values that npu_tensor had for its operands, in their dtypes and in float64. What PyTorch refuses must be
refused here. Differences that a page of the documentation names are in `DOCUMENTED`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from drawing import DTYPES, Drawer, name_of
from expression_table import CALLS, OPERANDS, READS, WORDS, Call
from programs import OURS, REFUSALS, TORCH, WIDE, Scope, execute, scope_of, shown, to_torch

import npu_tensor as nt

SHAPES = ((3, 4), (2, 3, 4), (7,), (2, 1, 3), (1, 5), (1,), (17,), (4, 4), (2, 2, 3, 2), (5, 33))
SCARCE_SHAPES = ((), (0,), (0, 3), (2, 0, 3))
EDGES = (
    *(0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-40, 1.2e-38, 6e-8, 3e38, -3e38, 65504.0, 5e-324, 1e300),
    *(0.5, -0.5, 1.0, -1.0, 1.5, 2.5, 3.0, -3.0, 20.0, 88.0, -88.0, -104.0, 1e4, 16777217.0, -1e10),
)
MOST = 4096  # elements of a result


class Input(NamedTuple):
    """A tensor that a program begins with: `stored` elements of a dtype, and the view of them that it is."""

    name: str
    stored: tuple[int, ...]
    dtype: str
    view: str
    finite: bool

    def statement(self, rng: np.random.Generator) -> str:
        """The statement that makes it, with new values."""
        numbers = _values(rng, int(np.prod(self.stored)), self.dtype, self.finite)
        values = f"nt.tensor({numbers}, dtype=nt.{self.dtype})"
        return f"{self.name} = {values}.reshape({list(self.stored)}){self.view}"


def _values(rng: np.random.Generator, size: int, dtype: str, finite: bool) -> list[Any]:
    """Small numbers, random ones or, unless finite, special ones."""
    style, to = rng.random() * (0.75 if finite else 1), getattr(torch, dtype)
    if dtype == "bool":
        return list((rng.random(size) < 0.5).tolist())
    if not to.is_floating_point:
        limits = torch.iinfo(to)
        low, high = (limits.min, limits.max) if style < 0.25 else (0 if dtype == "uint8" else -4, 6)
        whole = rng.integers(low, high, size, endpoint=True)
        return list(np.where(rng.random(size) < (style < 0.15) * 0.6, rng.choice([low, high], size), whole).tolist())
    if style < 0.45:
        floats = rng.integers(-12, 12, size) / 4
    else:
        floats = rng.standard_normal(size) if style < 0.75 else rng.choice(EDGES, size)
    return list(torch.from_numpy(floats).to(to).tolist())


class Step(NamedTuple):
    """A call of a program."""

    call: Call
    function: str
    name: str
    statement: str


class Chain(NamedTuple):
    """A program: tensors, then calls."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]

    def with_values(self, seed: int) -> tuple[str, ...]:
        """Statements that make the inputs, of values that the seed decides."""
        return tuple(each.statement(np.random.default_rng([seed, place])) for place, each in enumerate(self.inputs))


# --- drawing


class Expressions(Drawer):
    """One method per word in braces of the table; each gives the text of an argument."""

    def __init__(self, seed: int, captured: bool = False, dtypes: Sequence[str] = DTYPES) -> None:
        super().__init__(seed)
        self.captured = captured
        self.dtypes = dtypes
        self.rng = np.random.default_rng(seed)
        self.inputs: list[Input] = []
        self.it = torch.zeros(())
        self.dim_of_it = 0

    def chain(self) -> Chain:
        steps: list[Step] = []
        for _ in range(self.random.randint(1, 3)):
            self.new()
        wanted = self.random.randint(3, 8)
        for _ in range(40):
            step = self._step()
            if step is not None:
                steps.append(step)
            if len(steps) == wanted:
                break
        return Chain(tuple(self.inputs), tuple(steps))

    def _step(self) -> Step | None:
        call = self.random.choice(CALLS)
        function = self.random.choice(call.names.split())
        if self.captured and function in READS:
            return None
        text = re.sub(r"\{(\w+)\}", lambda found: self._word(found[1]), call.text.replace("NAME", function))
        name = self.fresh("v")
        statement = f"{name} = {text}"
        error = execute(statement, self.scope)
        if error is not None:
            keep = not self.captured and not lenient(error) and self.random.random() < 0.5
            return Step(call, function, name, statement) if keep else None
        results = flat(self.scope[name])
        if any(torch.is_tensor(each) and (each.is_complex() or each.numel() > MOST) for each in results):
            del self.scope[name]
            return None
        self.handles += [path for path, each in paths(name, self.scope[name]) if torch.is_tensor(each)]
        return Step(call, function, name, statement)

    def _word(self, word: str) -> str:
        if word in WORDS:
            return self.random.choice(WORDS[word].split())
        return self._together(*OPERANDS[word]) if word in OPERANDS else str(getattr(self, word)())

    def _together(self, kinds: str, forms: str, finite: bool = False) -> str:
        """New tensors of one dtype; a letter stands for the same extent in all of them."""
        extents = {
            letter: self.random.choices([1, 2, 3, 4, 5, 17, 0], [2, 4, 4, 4, 2, 1, 0.3])[0] for letter in "bhkmn"
        }
        dtype = self._kind(*kinds.split())
        shapes = self.random.choice(forms.split()).split(",")
        return ", ".join(
            self.new([extents[each] if each in extents else int(each) for each in shape], dtype, finite)
            for shape in shapes
        )

    def new(self, shape: Sequence[int] | None = None, dtype: str = "", finite: bool = False) -> str:
        """A new tensor, often one that does not lie in row-major order."""
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

    # --- words of the table: tensors

    def _pick(self, fits: Callable[[Any], bool], make: Callable[[], str]) -> str:
        """A handle that fits, sometimes through a view, or a new tensor."""
        for _ in range(4):
            name = self.handle()
            if self.random.random() < 0.2:
                name = self.view(name, name)
            tensor = self.value(name)
            if tensor is not None and tensor.numel() <= MOST // 8 and fits(tensor):
                self.it = tensor
                return name
        name = make()
        self.it = self.value(name)
        return name

    def _kind(self, *kinds: str) -> str:
        return self.random.choice(
            [dtype for dtype in self.dtypes if dtype.rstrip("0123456789") in kinds] or ["float32"]
        )

    def x(self) -> str:
        return self._pick(lambda tensor: True, self.new)

    def f(self) -> str:
        return self._pick(
            lambda tensor: tensor.is_floating_point(), lambda: self.new(None, self._kind("float", "bfloat"))
        )

    def g(self) -> str:
        """Finite floats, for functions that PyTorch computes in another order, or in several, in which NaN appears."""
        return self.new(None, self._kind("float", "bfloat"), finite=True)

    def i(self) -> str:
        whole = self._kind("int", "uint")
        return self._pick(lambda t: not t.is_floating_point() and t.dtype != torch.bool, lambda: self.new(None, whole))

    def m(self) -> str:
        return self._pick(lambda tensor: tensor.dtype == torch.bool, lambda: self.new(None, "bool"))

    def v(self) -> str:
        return self._pick(lambda tensor: tensor.ndim == 1 and 0 < tensor.numel() < 40, lambda: self.new((7,)))

    def y(self) -> str:
        return self._word("number") if self.random.random() < 0.3 else self.t()

    def t(self) -> str:
        """A tensor that broadcasts with the last one; sometimes one that may not."""
        it = self.it
        if self.random.random() < 0.05:
            return self.x()

        def fits(tensor: Any) -> bool:
            try:
                return bool(np.prod(torch.broadcast_shapes(tensor.shape, it.shape)) <= MOST)
            except RuntimeError:
                return False

        shape = [extent if self.random.random() < 0.8 else 1 for extent in it.shape]
        name = self._pick(fits, lambda: self.new(shape[self.random.choice([0, 0, min(len(shape), 1)]) :]))
        self.it = it
        return name

    def same(self) -> str:
        """A tensor of the same shape and, nearly always, dtype."""
        it, dtype = self.it, name_of(self.it.dtype)
        name = self._pick(lambda t: t.shape == it.shape and t.dtype == it.dtype, lambda: self.new(it.shape, dtype))
        self.it = it
        return name

    def a_view(self) -> str:
        name = self.handle()
        return self.view(name, name)

    def mask(self) -> str:
        it = self.it
        name = self._pick(lambda t: t.dtype == torch.bool and t.shape == it.shape, lambda: self.new(it.shape, "bool"))
        self.it = it
        return name

    # --- words of the table: numbers

    def dtype(self) -> str:
        return f"nt.{self.random.choice(self.dtypes)}"

    def dim(self) -> str:
        """A dimension of the last tensor; sometimes one that it has not."""
        ndim = self.it.ndim
        if self.random.random() < 0.03 and self.it.numel():
            return str(self.random.choice([ndim, -ndim - 1, 7]))
        return str(self.random.randrange(-max(ndim, 1), max(ndim, 1)))

    def dims(self) -> str:
        ndim = self.it.ndim
        choice = self.random.random()
        if choice < 0.5 or not ndim:
            return self.dim()
        return "None" if choice < 0.6 else str(tuple(self.random.sample(range(ndim), self.random.randint(1, ndim))))

    def along(self) -> str:
        """A dimension, that `points` and `rows` refer to."""
        self.dim_of_it = self.random.randrange(max(self.it.ndim, 1))
        return str(self.dim_of_it - (self.it.ndim if self.random.random() < 0.3 else 0))

    def last(self) -> str:
        return str(self.it.shape[-1] if self.it.ndim else 1)

    def widths(self) -> str:
        count = self.random.randint(1, max(1, min(self.it.ndim, 3)))
        return str([self.random.choice([0, 1, 2, 1, -1]) for _ in range(2 * count)])

    # --- words of the table: positions

    @property
    def _extent(self) -> int:
        return self.it.shape[self.dim_of_it] if self.it.ndim else 1

    def _distinct(self, extent: int) -> list[int]:
        return self.random.sample(range(extent), self.random.randint(1, extent)) if extent else []

    def points(self) -> str:
        self.chosen = self._distinct(self._extent)
        return f"nt.tensor({self.chosen}, dtype=nt.int64)"

    def first_points(self) -> str:
        self.dim_of_it = 0
        return self.points()

    def number_of_it(self) -> str:
        return f"nt.tensor({self.random.choice(['0', '1', '3'])}, dtype=nt.{name_of(self.it.dtype)})"

    def part(self) -> str:
        """What lies at the `points`."""
        shape = list(self.it.shape)
        shape[self.dim_of_it : self.dim_of_it + 1] = [len(self.chosen)] if shape else []
        return self.new(shape, name_of(self.it.dtype))

    def rows(self) -> str:
        """Positions along a dimension, no two the same."""
        shape = tuple(self.it.shape)
        order = self.rng.random(shape).argsort(self.dim_of_it) if shape else np.array(0)
        order = order.take(range(self.random.randint(0, self._extent)), self.dim_of_it) if shape else order
        return f"nt.tensor({order.tolist()}, dtype=nt.int64).reshape({list(order.shape)})"

    def rows_and_dim(self) -> str:
        dim = self.along()
        return f"{self.rows()}, {dim}"

    def item(self) -> str:
        return self.index(self.it.shape, points=True)

    # --- words of the table: operands of their own shapes

    def image(self) -> str:
        return self.new((self.random.choice([1, 2]), 4, self.random.choice([4, 6]), 6), self._kind("float", "bfloat"))

    def signal(self) -> str:
        return self.new((2, 3, self.random.choice([5, 8])), self._kind("float", "bfloat"))

    def channels(self) -> str:
        return self.new((4,), name_of(self.it.dtype))

    def squares(self) -> str:
        return f"{self.channels()}.square()"

    def shares(self) -> str:
        """Numbers from 0 to 1."""
        dtype = name_of(self.it.dtype) if self.it.is_floating_point() else "float32"
        return f"nt.tensor({(self.rng.integers(0, 9, 6) / 8).tolist()}, dtype=nt.{dtype}).reshape([2, 3])"

    def logits_labels(self) -> str:
        return f"{self.new((4, 5), self._kind('float'))}, nt.tensor({self.rng.integers(0, 5, 4).tolist()})"

    def places(self) -> str:
        return f"nt.tensor({self.rng.integers(0, 5, (2, 3)).tolist()})"

    def table(self) -> str:
        return self.new((5, 3))


# --- judging


def paths(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a result with the expressions that name them."""
    if isinstance(value, (tuple, list)) and any(isinstance(each, (torch.Tensor, nt.Tensor)) for each in value):
        for number, each in enumerate(value):
            yield from paths(f"{name}[{number}]", each)
    else:
        yield name, value


def flat(value: Any) -> list[Any]:
    """The parts of a result."""
    return [each for _, each in paths("", value)]


def converted(value: Any, wide: bool = False) -> Any:
    """Our result as PyTorch's tensors; wide: floats in float64."""
    if isinstance(value, (tuple, list)):
        return tuple(converted(each, wide) for each in value)
    if not isinstance(value, nt.Tensor):
        return value
    tensor = to_torch(value)
    return tensor.double() if wide and tensor.is_floating_point() else tensor


def lenient(error: Exception) -> bool:
    """Whether PyTorch refuses what may be computed here: coming_from.md, "dtypes that PyTorch refuses"."""
    return isinstance(error, NotImplementedError) or bool(re.search(DTYPES_REFUSED, str(error)))


DTYPES_REFUSED = (
    "not implemented for|same dtype|dtypes must be|[Ff]ound dtype|Unsupported input type|expected scalar type|"
    "does not support bool|bool tensor is not supported|must be Tensor, not (int|float|bool)|"
    "view size is not compatible"  # of functions that take any layout by their documentation
)


NOT_FOR_BOOL = "not defined for bool"
"""What arithmetic says of masks; coming_from.md names it."""


class Difference(NamedTuple):
    """step: the call. kind: what differs, in a few words. text: with values."""

    step: Step
    kind: str
    text: str


BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def _spacing(values: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbouring numbers of a float dtype around values."""
    least = float(torch.finfo(getattr(torch, dtype)).smallest_normal)
    with np.errstate(all="ignore"):
        scale = np.exp2(np.floor(np.log2(np.maximum(np.abs(values), least))))
    return np.asarray(np.where(np.isfinite(scale), scale, 0) * 2.0 ** -BITS[dtype])


def _agree(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Where two arrays have the same number; zeros also the same sign."""
    same = (ours == theirs) & ((ours != 0) | (np.signbit(ours) == np.signbit(theirs)))
    return same | (np.isnan(ours) & np.isnan(theirs))


class Judge:
    """Holds npu_tensor's result of each step against PyTorch's of the same operands."""

    def __init__(self, inputs: Sequence[str], results: Scope, fused: bool) -> None:
        """results: ours by name, or what was raised. fused: half-precision operands that the program computed may have
        had more bits than they were stored with."""
        self.results, self.fused = results, fused
        self.own, self.wide = scope_of(TORCH), scope_of(WIDE)
        for statement in inputs:
            execute(statement, self.own)
            execute(statement, self.wide)
        self.inputs = set(self.own)

    def differences(self, steps: Sequence[Step]) -> Iterator[Difference]:
        for step in steps:
            if what := self._difference(step):
                yield Difference(step, *what)

    def _difference(self, step: Step) -> tuple[str, str] | None:
        error, result = execute(step.statement, self.own), self.results[step.name]
        refused = result if isinstance(result, Exception) else None
        expected = self.own.pop(step.name, None)
        if isinstance(error, NameError):  # An operand has no value.
            return None
        if refused is not None and not isinstance(refused, REFUSALS):
            return "crash", shown(refused)
        if refused is not None:
            allowed = error is not None or NOT_FOR_BOOL in str(refused)
            return None if allowed else ("only npu_tensor raises", shown(refused))
        for scope, wide in ((self.own, False), (self.wide, True)):
            scope[step.name] = converted(result, wide)
        if error is not None:
            return None if lenient(error) else ("only PyTorch raises", shown(error))
        pairs = [flat(expected), flat(result)]
        if len(pairs[0]) != len(pairs[1]):
            return "number of results", f"{len(pairs[1])}, in PyTorch {len(pairs[0])}"
        found = (self._compare(step, number, *pair) for number, pair in enumerate(zip(*pairs, strict=True)))
        return next(filter(None, found), None)

    def _compare(self, step: Step, number: int, expected: Any, got: Any) -> tuple[str, str] | None:
        if not torch.is_tensor(expected):
            expected = tuple(expected) if isinstance(expected, torch.Size) else expected
            return (
                None if repr(expected) == repr(got) or expected == got else ("value", f"{got}, in PyTorch {expected}")
            )
        if not isinstance(got, nt.Tensor):
            return "no tensor", repr(got)
        dtype = name_of(expected.dtype)
        if got.dtype.name != dtype:
            return "dtype", f"{got.dtype.name}, in PyTorch {dtype}"
        if got.shape != tuple(expected.shape):
            return "shape", f"{got.shape}, in PyTorch {tuple(expected.shape)}"
        if not expected.numel():
            return None
        ours = got.numpy()
        theirs = (expected.float() if dtype == "bfloat16" else expected).resolve_conj().numpy()
        if dtype in BITS:
            ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
            fine = _agree(ours, theirs)
        else:
            fine = ours == theirs
        if not fine.all() and (dtype in BITS or self.fused):
            fine |= self._near(step, number, ours, theirs, dtype)
        for page in DOCUMENTED:
            if not fine.all():
                fine |= page.where(self, step, number, ours)
        if fine.all():
            return None
        at = tuple(np.argwhere(~fine)[0].tolist())
        kind = (
            "zero's sign"
            if (ours[~fine] == theirs[~fine]).all()
            else "NaN"
            if np.isnan(ours[at]) or np.isnan(theirs[at])
            else "value"
        )
        return (
            f"{kind} {dtype}",
            f"{(~fine).sum()} of {fine.size} differ: [{at}] is {ours[at]!r}, in PyTorch {theirs[at]!r}",
        )

    def evaluate(self, step: Step, number: int, change: Callable[[str, Any], Any]) -> np.ndarray | None:
        """The step in float64, of changed operands."""
        scope = {name: change(name, value) for name, value in self.wide.items()}
        if execute(step.statement, scope) is not None:
            return None
        result = flat(scope[step.name])[number]
        return result.double().numpy() if torch.is_tensor(result) else None

    def _near(self, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray, dtype: str) -> np.ndarray:
        """Where our result is as near to the exact one as the table asks for."""
        exact = self.evaluate(step, number, lambda name, value: value)
        if exact is None or exact.shape != ours.shape:
            return np.zeros(ours.shape, bool)
        allowed = np.zeros(ours.shape)
        with np.errstate(all="ignore"):
            if dtype in BITS:
                # A sum that leaves the range of the dtype on its way becomes what the order of adding makes of it.
                loose = step.call.of != "result" and ~np.isfinite(ours) & ~np.isfinite(theirs)
                rounded = torch.from_numpy(exact).to(getattr(torch, dtype)).double().numpy()
                around = self._around(step, number, exact)
                ulps = min(step.call.ulps, 1) if BITS[dtype] < 23 else step.call.ulps
                if ulps:
                    allowed = ulps * _spacing(around, dtype) + np.nan_to_num(2 * np.abs(theirs - exact), posinf=0)
                largest = torch.finfo(getattr(torch, dtype)).max
                fine = _agree(ours, rounded) | (np.abs(ours - exact) <= allowed) | (loose & ~(around < largest))
            else:
                fine = np.zeros(ours.shape, bool)
            if self.fused and not fine.all():
                if self._overflowed(step):
                    return np.ones(ours.shape, bool)
                nudged = [
                    self.evaluate(step, number, lambda name, value, by=by: self._nudged(name, value, by))
                    for by in (-1, 1, 0)
                ]
                bounds = [each for each in (*nudged, exact) if each is not None and each.shape == ours.shape]
                fine |= (ours >= np.min(bounds, 0) - allowed) & (ours <= np.max(bounds, 0) + allowed)
        return np.asarray(fine)

    def _around(self, step: Step, number: int, exact: np.ndarray) -> np.ndarray:
        """The numbers whose last place is meant."""
        if step.call.of == "terms":
            absolute = self.evaluate(step, number, lambda name, value: _mapped(value, torch.abs))
            return exact if absolute is None else absolute
        if step.call.of == "whole":
            operands = [self.wide[name] for name in names_in(step.statement) if name in self.wide]
            parts = [each for operand in operands for each in flat(operand) if torch.is_tensor(each)]
            finite = [np.abs(each[np.isfinite(each)]) for each in (exact, *(part.double().numpy() for part in parts))]
            return np.full(exact.shape, max((each.max() for each in finite if each.size), default=0.0))
        return exact

    def _overflowed(self, step: Step) -> bool:
        """Whether a half-precision operand was stored as infinity, and may have been a number before."""
        operands = [self.own[name] for name in names_in(step.statement) if name in self.own and name not in self.inputs]
        parts = [each for operand in operands for each in flat(operand) if torch.is_tensor(each)]
        return any(each.dtype in (torch.float16, torch.bfloat16) and bool(each.isinf().any()) for each in parts)

    def _nudged(self, name: str, value: Any, by: int) -> Any:
        """Half-precision values that were computed, moved by half a unit in the last place; by 0: in turns."""
        if name in self.inputs or name not in self.own:
            return value

        def move(tensor: Any, own: Any) -> Any:
            dtype = name_of(own.dtype)
            if dtype not in ("float16", "bfloat16") or not tensor.numel():
                return tensor
            signs = (
                torch.tensor([1.0, -1.0]).repeat(tensor.numel())[: tensor.numel()].reshape(tensor.shape)
                if by == 0
                else by
            )
            return tensor + 0.5 * signs * torch.from_numpy(_spacing(tensor.numpy(), dtype))

        if isinstance(value, tuple):
            return tuple(
                move(*pair) if torch.is_tensor(pair[0]) else pair[0] for pair in zip(value, self.own[name], strict=True)
            )
        return move(value, self.own[name]) if torch.is_tensor(value) else value


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """The function of float tensors, also of those in a tuple."""
    if isinstance(value, tuple):
        return tuple(_mapped(each, function) for each in value)
    return function(value) if torch.is_tensor(value) and value.is_floating_point() else value


def names_in(statement: str) -> list[str]:
    """The names of tensors that a call reads."""
    return re.findall(r"\b[av]\d+\b", statement.split("=", 1)[1])


# --- documented differences


class Documented(NamedTuple):
    """page: where the documentation says it. where: the elements of our result that it is about."""

    page: str
    where: Callable[[Judge, Step, int, np.ndarray], np.ndarray]


def _too_large_for_integers(judge: Judge, step: Step, number: int, ours: np.ndarray) -> np.ndarray:
    converted = re.match(rf"v\d+ = (.*?)\.{step.function}\(", step.statement)
    scope = dict(judge.own)
    execute(f"it = {converted[1] if converted else None}", scope)
    values = scope["it"]
    if ours.dtype.kind not in "iu" or step.function not in CONVERSIONS or not torch.is_tensor(values):
        return np.zeros(ours.shape, bool)
    limits, values = np.iinfo(ours.dtype), values.double().numpy()
    return np.broadcast_to(~((values >= limits.min) & (values < limits.max)), ours.shape)


def _subnormal_factors(judge: Judge, step: Step, number: int, ours: np.ndarray) -> np.ndarray:
    flushed = judge.evaluate(step, number, lambda name, value: _mapped(value, lambda t: t.where(t.abs() > 1.2e-38, 0)))
    if step.call.of != "terms" or flushed is None or ours.dtype.kind != "f":
        return np.zeros(ours.shape, bool)
    return np.asarray(np.abs(ours - flushed) <= 2.0**-7 * np.abs(flushed) + 2.0**-126)


CONVERSIONS = ["to", "type_as", "int", "long", "short", "char", "byte"]

DOCUMENTED = (
    Documented("coming_from.md: a float that is too large for an integer type", _too_large_for_integers),
    Documented("tensors.md: bfloat16 matrix products take subnormal inputs as zero", _subnormal_factors),
)


# --- running


def results_of(inputs: Sequence[str], steps: Sequence[Step], mode: str) -> Scope:
    """npu_tensor's result of each step by name, read after the last one, or what was raised."""
    scope = scope_of(OURS)
    for statement in inputs:
        if error := execute(statement, scope):
            raise AssertionError(statement) from error
    if mode != "jit":
        errors = {step.name: execute(step.statement, scope) for step in steps}
        return {name: errors[name] or _read(scope[name]) for name in errors}
    names = ", ".join(statement.split(" ", 1)[0] for statement in inputs)
    body = "".join(f"    {step.statement}\n" for step in steps)
    results = ", ".join(f"{step.name!r}: {step.name}" for step in steps)
    error = execute(f"@nt.jit\ndef f({names}):\n{body}    return {{{results}}}\nf({names})\nagain = f({names})", scope)
    if error is None:
        return {step.name: _read(scope["again"][step.name]) for step in steps}
    # One step fails all of them: those that fail without the capture too are left out, if there are any.
    lazy = results_of(inputs, steps, "lazy")
    sound = [step for step in steps if not isinstance(lazy[step.name], Exception)]
    captured = results_of(inputs, sound, mode) if len(sound) < len(steps) else {step.name: error for step in steps}
    return lazy | captured


def _read(value: Any) -> Any:
    """The value once it is computed, or what is raised then."""
    try:
        for each in flat(value):
            if isinstance(each, nt.Tensor):
                each.numpy()
    except Exception as error:
        return error
    return value


def differences(inputs: Sequence[str], steps: Sequence[Step], mode: str) -> list[Difference]:
    """All differences of a program."""
    results = results_of(inputs, steps, mode)
    return [*Judge(inputs, results, fused=mode != "eager").differences(steps)]


def shortened(inputs: Sequence[str], steps: Sequence[Step], difference: Difference, mode: str) -> str:
    """The program without what its difference does not need, as text."""
    alike = (difference.kind, difference.step.statement)

    def shows(inputs: Sequence[str], steps: Sequence[Step]) -> bool:
        try:
            return any((each.kind, each.step.statement) == alike for each in differences(inputs, steps, mode))
        except AssertionError:
            return False

    for place in reversed(range(len(steps))):
        if shows(inputs, shorter := [*steps[:place], *steps[place + 1 :]]):
            steps = shorter
    for place in reversed(range(len(inputs))):
        if shows(shorter := [*inputs[:place], *inputs[place + 1 :]], steps):
            inputs = shorter
    return "\n".join((*inputs, *(step.statement for step in steps)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=10_000, help="calls to make, at least")
    parser.add_argument("--programs", type=int, default=1 << 40)
    parser.add_argument("--repeats", type=int, default=20, help="runs of each program, with other values")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time after which it ends")
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others have the next numbers")
    parser.add_argument("--mode", choices=["lazy", "eager", "jit"], default="lazy")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default=" ".join(DTYPES), help="separated by spaces")
    parser.add_argument("--show", action="store_true", help="print every program")
    parser.add_argument("--examples", type=int, default=1, help="programs to print of each kind of difference")
    given = parser.parse_args()
    start, ops, programs, kinds = time.perf_counter(), 0, 0, Counter[str]()
    policy = None if given.device == "cpu" else "always"
    with nt.config.scope(eager=given.mode == "eager"), nt.default_device(given.device, policy):
        while ops < given.ops and programs < given.programs and time.perf_counter() - start < given.seconds:
            seed = given.seed + programs
            chain = Expressions(seed, given.mode == "jit", given.dtypes.split()).chain()
            for repeat in range(given.repeats if chain.steps else 0):
                inputs = chain.with_values(seed + repeat * (1 << 32))
                if given.show:
                    print(*inputs, *(step.statement for step in chain.steps), sep="\n", end="\n\n", flush=True)
                for difference in differences(inputs, chain.steps, given.mode):
                    kind = f"{difference.step.function}: {difference.kind}"
                    kinds[kind] += 1
                    if kinds[kind] <= given.examples:
                        text = shortened(inputs, chain.steps, difference, given.mode)
                        print(
                            f"--- {kind} (seed {seed})\n{text}\n# {difference.step.name}: {difference.text}\n",
                            flush=True,
                        )
                ops += len(chain.steps)
            programs += 1
    for kind, count in sorted(kinds.items()):
        print(f"{count:6} {kind}")
    print(f"{ops} ops in {programs} programs, {kinds.total()} different, {time.perf_counter() - start:.1f} s")
    return kinds.total() > 0


if __name__ == "__main__":
    sys.exit(main())
