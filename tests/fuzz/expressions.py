"""Random chains of the public functions, in PyTorch and here: every result is compared with that of the same operands.

    python tests/fuzz/expressions.py --programs 100000 --seed 0 [--mode lazy|eager|jit] [--device sim:npu1]
    python tests/fuzz/expressions.py --programs 1 --seed 123 --show      # the program of this seed, as text

A program makes a few tensors of any dtype, shape and layout, of small numbers, of random ones or of special values
(NaN, infinities, -0.0, subnormals, limits of integers), and calls three to eight functions of expression_table.py. It
is run as a whole, so that its calls are fused, and read at the end. Then each call is judged on its own: PyTorch makes
it again of the values that npu_tensor had for its operands, in their dtypes and in float64. What PyTorch refuses must
be refused here. `lenient` in programs.py, `STRICTER` and `DOCUMENTED` are the differences that the documentation names.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from drawing import DTYPES, name_of
from expression_table import CALLS, READS, Call
from operands import MOST, Input, Operands
from programs import (
    OURS,
    REFUSALS,
    TORCH,
    WIDE,
    Scope,
    execute,
    lenient,
    run_seeds,
    scope_of,
    seeds_parser,
    shown,
    shrunk,
    to_torch,
)

import npu_tensor as nt

REPEATS = 3
"""Runs of each program, with other values."""


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


def draw(seed: int, captured: bool, dtypes: Sequence[str]) -> Chain:
    """The program of this seed. captured: it must not read values."""
    drawer, steps = Operands(seed, dtypes), list[Step]()
    for _ in range(drawer.random.randint(1, 3)):
        drawer.new()
    wanted = drawer.random.randint(3, 8)
    for _ in range(40):
        call = drawer.random.choice(CALLS)
        function = drawer.random.choice(call.names.split())
        if captured and function in READS:
            continue
        text = re.sub(r"\{(\w+)\}", lambda word: drawer.word(word[1]), call.text.replace("NAME", function))
        name = drawer.fresh("v")
        error = execute(f"{name} = {text}", drawer.scope)
        results = list(paths(name, drawer.scope.get(name)))
        tensors = {path: each for path, each in results if torch.is_tensor(each)}
        if any(each.is_complex() or each.numel() > MOST for each in tensors.values()):
            del drawer.scope[name]
        elif error is None or not (captured or lenient(error) or drawer.random.random() < 0.5):
            drawer.handles += tensors
            steps.append(Step(call, function, name, f"{name} = {text}"))
        if len(steps) == wanted:
            break
    return Chain(tuple(drawer.inputs), tuple(steps))


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


def mapped(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """A result with the function of each part of that kind in its place."""
    if isinstance(value, (tuple, list)):
        return tuple(mapped(each, kind, function) for each in value)
    return function(value) if isinstance(value, kind) else value


STRICTER = "not defined for bool|^take_along_dim: .* index is out of range"
"""Errors that PyTorch does not raise; coming_from.md: "Boolean tensors are not numeric" and "take_along_dim"."""


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
    """Return a mask of equal numbers in two arrays; zeros must also have the same sign."""
    same = (ours == theirs) & ((ours != 0) | (np.signbit(ours) == np.signbit(theirs)))
    return same | (np.isnan(ours) & np.isnan(theirs))


class Judge:
    """Holds npu_tensor's result of each step against PyTorch's of the same operands."""

    def __init__(self, inputs: Sequence[str], results: Scope, fused: bool, on_cpu: bool) -> None:
        """results: ours by name, or what was raised. fused: half-precision operands that the program computed may have
        had more bits than they were stored with."""
        self.results, self.fused, self.on_cpu, self.own = results, fused, on_cpu, scope_of(TORCH)
        for statement in inputs:
            execute(statement, self.own)
        self.inputs = set(self.own)

    def difference(self, step: Step) -> Difference | None:
        """Return the difference of our result of a step. Call this for each step in order."""
        error, ours = execute(step.statement, self.own), self.results[step.name]
        theirs = self.own.pop(step.name, None)
        if isinstance(error, NameError):  # An operand has no value.
            return None
        if isinstance(ours, Exception):
            if not isinstance(ours, REFUSALS):
                return Difference(step, "crash", shown(ours))
            fine = error is not None or re.search(STRICTER, str(ours))
            return None if fine else Difference(step, "only npu_tensor raises", shown(ours))
        self.own[step.name] = mapped(ours, nt.Tensor, to_torch)
        if error is not None:
            return None if lenient(error) else Difference(step, "only PyTorch raises", shown(error))
        pairs = [flat(theirs), flat(ours)]
        if len(pairs[0]) != len(pairs[1]):
            return Difference(step, "number of results", f"{len(pairs[1])}, in PyTorch {len(pairs[0])}")
        result = (self._compare(step, number, *pair) for number, pair in enumerate(zip(*pairs, strict=True)))
        return next((Difference(step, *what) for what in result if what), None)

    def _compare(self, step: Step, number: int, expected: Any, got: Any) -> tuple[str, str] | None:
        """Return the kind and the description of the difference of one part of the results."""
        facts = [describe(expected), describe(got)]
        if facts[0] != facts[1]:
            return "dtype or shape" if torch.is_tensor(expected) else "value", f"{facts[1]}, in PyTorch {facts[0]}"
        if not torch.is_tensor(expected) or not expected.numel():
            return None
        dtype, theirs, ours = name_of(expected.dtype), _array(expected), _array(to_torch(got))
        fine = _agree(ours, theirs)
        if not fine.all():
            fine |= self._near(step, number, ours, theirs, dtype)
        for _, where in DOCUMENTED:
            if not fine.all():
                fine |= where(self, step, number, ours, theirs)
        if fine.all():
            return None
        at = tuple(np.argwhere(~fine)[0].tolist())
        kind = "sign of 0" if ours[at] == theirs[at] else "NaN" if np.isnan([ours[at], theirs[at]]).any() else "value"
        return f"{kind} {dtype}", f"{(~fine).sum()} of {fine.size} differ: {at} is {ours[at]}, in PyTorch {theirs[at]}"

    def evaluate(self, step: Step, number: int, change: Callable[[str, Any], Any]) -> Any:
        """PyTorch's result of the step in float64, of operands that `change` makes of name and tensor; None if none."""
        scope = scope_of(WIDE)
        for name in names_in(step.statement) & self.own.keys():
            floats = lambda each, name=name: change(name, each) if each.is_floating_point() else each  # noqa: E731
            scope[name] = mapped(self.own[name], torch.Tensor, floats)
        return None if execute(step.statement, scope) else _array(flat(scope[step.name])[number])

    def _near(self, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray, dtype: str) -> np.ndarray:
        """Return a mask of the elements that are within the table's tolerance of the exact result."""
        exact = self.evaluate(step, number, lambda name, tensor: tensor.double())
        if exact is None or exact.shape != ours.shape:
            return np.zeros(ours.shape, bool)
        fine, allowed = _agree(ours, exact), np.zeros(ours.shape)
        with np.errstate(all="ignore"):
            if dtype in BITS:
                around = self._around(step, number, exact)
                if ulps := min(step.call.ulps, 1) if BITS[dtype] < 23 else step.call.ulps:
                    allowed = ulps * _spacing(around, dtype) + np.nan_to_num(2 * np.abs(theirs - exact), posinf=0)
                fine = _agree(ours, _array(torch.from_numpy(exact).to(getattr(torch, dtype))))
                fine |= np.abs(ours - exact) <= allowed
                if step.call.of != "result":  # A sum that leaves the range on its way depends on the order.
                    beyond = ~(around < torch.finfo(getattr(torch, dtype)).max / MOST)
                    fine |= beyond & ~(np.isfinite(ours) & np.isfinite(theirs))
            if self.fused and not fine.all():
                if self._overflowed(step):
                    return np.ones(ours.shape, bool)
                moved = [self.evaluate(step, number, partial(self._nudged, by)) for by in (-1, 1, 0)]
                bounds = [each for each in (*moved, exact) if each is not None and each.shape == ours.shape]
                fine |= (ours >= np.min(bounds, 0) - allowed) & (ours <= np.max(bounds, 0) + allowed)
        return np.asarray(fine)

    def _around(self, step: Step, number: int, exact: np.ndarray) -> np.ndarray:
        """The numbers whose last place is meant."""
        if step.call.of == "terms":
            terms = self.evaluate(step, number, lambda name, tensor: tensor.double().abs())
            return exact if terms is None else np.maximum(np.abs(exact), np.abs(terms))
        if step.call.of == "whole":
            finite = [np.abs(each[np.isfinite(each)]) for each in (exact, *map(_array, self.operands(step)))]
            return np.full(exact.shape, max((each.max() for each in finite if each.size), default=0.0))
        return exact

    def operands(self, step: Step) -> list[Any]:
        """The tensors that a step reads."""
        values = [self.own[name] for name in names_in(step.statement) & self.own.keys()]
        return [each for value in values for each in flat(value) if torch.is_tensor(each)]

    def _overflowed(self, step: Step) -> bool:
        """Return True if a half-precision operand is stored as infinity, possibly after an overflow."""
        return any(each.dtype in HALF and bool(each.isinf().any()) for each in self.operands(step))

    def _nudged(self, by: int, name: str, tensor: Any) -> Any:
        """Half-precision values that the program computed, moved by half a unit in the last place; by 0: in turns."""
        exact = tensor.double()
        if name in self.inputs or tensor.dtype not in HALF:
            return exact
        signs = by or (-1.0) ** torch.arange(exact.numel()).reshape(exact.shape)
        return exact + signs * torch.from_numpy(_spacing(exact.numpy(), name_of(tensor.dtype))) / 2


HALF = (torch.float16, torch.bfloat16)


def _array(tensor: Any) -> np.ndarray:
    """Floats as float64, others as they are."""
    return np.asarray((tensor.double() if tensor.is_floating_point() else tensor).contiguous().numpy())


def describe(value: Any) -> str:
    """Return dtype and shape of a tensor of either library, or the text of another result."""
    if isinstance(value, (torch.Tensor, nt.Tensor)):
        return f"{value.dtype.name if isinstance(value, nt.Tensor) else name_of(value.dtype)}{list(value.shape)}"
    return repr(tuple(value) if isinstance(value, torch.Size) else value)


def names_in(statement: str) -> set[str]:
    """The names of tensors that a call reads."""
    return set(re.findall(r"\b[av]\d+\b", statement.split("=", 1)[1]))


# --- documented differences: the elements of our result that a page is about


def _beyond_integers(judge: Judge, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    source = re.match(rf"v\d+ = (.*?)\.{step.function}\(", step.statement)
    if ours.dtype.kind not in "iu" or step.function not in CONVERSIONS or not source:
        return np.zeros(ours.shape, bool)
    execute(f"it = {source[1]}", scope := dict(judge.own))
    limits, values = np.iinfo(ours.dtype), _array(scope["it"])
    return np.broadcast_to(~((values >= limits.min) & (values < limits.max)), ours.shape)


def _subnormals(judge: Judge, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Accept flushed subnormals: of matrix products on the CPU, of all ops on an NPU."""
    flushed = judge.evaluate(step, number, lambda name, tensor: tensor.double().where(tensor.abs() > 1.2e-38, 0))
    halves = any(each.dtype == torch.bfloat16 for each in judge.operands(step))
    if ours.dtype.kind != "f" or flushed is None or (judge.on_cpu and not (halves and step.call.of == "terms")):
        return np.zeros(ours.shape, bool)
    with np.errstate(invalid="ignore"):
        return _agree(ours, flushed) | (np.abs(ours - flushed) <= 2.0**-7 * np.abs(flushed) + 2.0**-122)


def _remainders(judge: Judge, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return np.isnan(theirs) & np.isfinite(ours) & (step.function in ("fmod", "remainder", "%", "floor_divide", "//"))


def _of_infinite(judge: Judge, step: Step, number: int, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    different = (np.isnan(theirs) & np.isinf(ours)) | ((theirs == -1) & (ours == 0))
    return different & (step.function in ("floor_divide", "//"))


CONVERSIONS = ("to", "type_as", "int", "long", "short", "char", "byte")

DOCUMENTED = (
    ("coming_from.md: a float that is too large for an integer type", _beyond_integers),
    ("tensors.md: subnormals are kept on the CPU, but bfloat16 matrix products take them as zero", _subnormals),
    ("coming_from.md: remainders where the quotient overflows", _remainders),
    ("coming_from.md: // of infinite numbers", _of_infinite),
)


# --- running


def results_of(inputs: Sequence[str], steps: Sequence[Step], mode: str) -> Scope:
    """Return npu_tensor's results or exceptions by name of the step, read after the last step."""
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
    """Return the computed value, or the exception that it raises."""
    try:
        for each in flat(value):
            if isinstance(each, nt.Tensor):
                each.numpy()
    except Exception as error:
        return error
    return value


def differences(inputs: Sequence[str], steps: Sequence[Step], mode: str) -> list[Difference]:
    """All differences of a program."""
    judge = Judge(inputs, results_of(inputs, steps, mode), mode != "eager", nt.get_default_device() == "cpu")
    return [result for step in steps if (result := judge.difference(step))]


def shortened(inputs: Sequence[str], steps: Sequence[Step], difference: Difference, mode: str) -> str:
    """The program without what its difference does not need, as text."""
    alike = (difference.kind, difference.step.statement)

    def shows(inputs: Sequence[str], steps: Sequence[Step]) -> bool:
        try:
            return any((each.kind, each.step.statement) == alike for each in differences(inputs, steps, mode))
        except AssertionError:
            return False

    steps = shrunk(steps, lambda rest: shows(inputs, rest))
    inputs = shrunk(inputs, lambda rest: shows(rest, steps))
    return "\n".join((*inputs, *(step.statement for step in steps)))


def failure(seed: int, mode: str, dtypes: Sequence[str]) -> str:
    """Return the shortest program of this seed that differs, and how; nothing if it does not."""
    chain = draw(seed, mode == "jit", dtypes)
    for repeat in range(REPEATS if chain.steps else 0):
        inputs = chain.with_values(seed + (repeat << 32))
        for result in differences(inputs, chain.steps, mode):
            return f"{shortened(inputs, chain.steps, result, mode)}\n# {result.kind}: {result.text}"
    return ""


def main() -> int:
    parser = seeds_parser(__doc__)
    parser.add_argument("--mode", choices=["lazy", "eager", "jit"], default="lazy")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default=" ".join(DTYPES), help="separated by spaces")
    given = parser.parse_args()
    mode, dtypes = given.mode, given.dtypes.split()

    def text(seed: int) -> str:
        chain = draw(seed, mode == "jit", dtypes)
        return "\n".join((*chain.with_values(seed), *(step.statement for step in chain.steps)))

    with (
        nt.config.scope(eager=mode == "eager"),
        nt.default_device(given.device, None if given.device == "cpu" else "always"),
    ):
        return run_seeds(given, text, lambda seed: failure(seed, mode, dtypes))


if __name__ == "__main__":
    sys.exit(main())
