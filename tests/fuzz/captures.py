"""Random programs of captured functions with state outside: each call must have the effect of the plain function.

    python tests/fuzz/captures.py --programs 10000 --seed 0
    python tests/fuzz/captures.py --programs 1 --seed 123 --show      # the program of this seed, as text

Programs have tensors outside, views of them, tensors that share their memory, and functions that read and change them.
Between calls they change values and shapes, and pass tensors from outside as arguments. Every second program draws
random numbers and is compared with the same program without `nt.jit`; the others are compared with PyTorch. Values are
whole numbers in float64, so they are compared bit for bit.
"""

import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from programs import OURS, REFUSALS, TORCH, execute, run_seeds, scope_of, seeds_parser, shown, shrunk, tensors_of

import npu_tensor as nt

SHAPES = ("(2, 3)", "(3,)", "(3, 3)", "(1, 3)")

SHARING = ("{o} = {a}.detach()", "{o} = nt.zeros(1).double(); {o}.data = {a}", "{o} = {a}[...]", "{o} = {a}.clone()")
VIEWS = ("{a}[0]", "{a}.t()", "{a}[..., :3]", "{a}.reshape(-1)", "{a}[..., 1:]", "{a}.unsqueeze(0)")
READS = (
    *("x * {a}", "x + {a}.sum()", "nt.select_scatter({a}, {a}.sum() + {a}[0], 0, 0)", "{a} - x.sum()", "{a}.clone()"),
    *("nt.diag_embed({a}).sum() + x", "nt.where({a} > x.sum(), {a}, {b}.sum())", "{a}.sum() * {b}.sum() + x"),
    *("{a}", "{a}[0]"),
)
WRITES = (
    *("{a}.add_(1)", "{a}.mul_(2)", "{a}[0] = {b}.sum()", "{a}.copy_({b}.sum())", "{a} += y.sum()", "{a}[..., 1] = 3"),
    *("{a}.sub_({b})", "{a}.t().add_(1)", "{a}.fill_(7)", "{a}.copy_({b})"),
)
BETWEEN = (*WRITES[:4], "{a}.t_()", "{a}.unsqueeze_(0)", "{a}.data = {b}", "{a}.data = {a}.clone()", "{a}.squeeze_()")
RANDOM = (
    *("nt.rand(3).double()", "nt.nn.functional.dropout(nt.ones(2, 3).double())", "nt.randn(1).double()"),
    *("nt.randperm(3)", "nt.bernoulli(nt.full((3,), 0.5)).double()"),
)


def draw(seed: int) -> tuple[list[str], bool]:
    """Return the statements of the program of this seed, and a flag that is True if it draws random numbers."""
    choice = random.Random(seed)
    is_random = seed % 2 == 1
    outside = [f"w{number}" for number in range(choice.randint(2, 4))]
    statements = []
    for number, name in enumerate(outside):
        if number and choice.random() < 0.5:
            other = choice.choice(outside[:number])
            how = choice.choice([*SHARING, *(f"{{o}} = {view}" for view in VIEWS)])
            statements.append(how.format(o=name, a=other))
        else:
            first, count = choice.randint(0, 5), choice.choice((3, 6, 9))
            statements.append(f"{name} = (nt.arange(9.0).double() - {first})[:{count}]")
            statements.append(f"{name} = {name}.reshape(-1, 3){choice.choice(('', '.clone()', '[0]'))}")

    def filled(template: str) -> str:
        return template.format(a=choice.choice(outside), b=choice.choice(outside))

    functions = [f"f{number}" for number in range(choice.randint(1, 2))]
    for function in functions:
        body = [f"y = {filled(choice.choice(READS))}"]
        for _ in range(choice.randint(0, 3)):
            kind = choice.random()
            if kind < 0.4:
                body.append(filled(choice.choice(WRITES)))
            elif kind < 0.7 or not is_random:
                body.append(f"y = y.sum() + {filled(choice.choice(READS))}")
            else:
                body.append(f"y = y.sum() + {choice.choice(RANDOM)}")
        result = choice.choice(("y", "y, y + 1", f"y, {choice.choice(outside)}"))
        lines = "\n".join(f"    {line}" for line in body)
        names = ", ".join(outside)
        statements.append(f"@nt.jit\ndef {function}(x):\n    global {names}\n{lines}\n    return {result}")
    for number in range(choice.randint(3, 8)):
        kind = choice.random()
        if kind < 0.6:
            shape, tensor = choice.choice(SHAPES), choice.choice(outside)
            given = choice.choice([f"nt.ones({shape}).double()", tensor, f"{tensor}[0]"])
            statements.append(f"r{number} = {choice.choice(functions)}({given})")
        elif kind < 0.9 or not is_random:
            statements.append(filled(choice.choice(BETWEEN)))
        else:
            statements.append(f"nt.manual_seed({choice.randint(0, 3)})")
    return ["nt.manual_seed(0)", *statements] if is_random else statements, is_random


class _Uncaptured(SimpleNamespace):
    """npu_tensor whose `jit` captures nothing."""

    @staticmethod
    def jit(function: Any) -> Any:
        return function

    def __getattr__(self, name: str) -> Any:
        return getattr(nt, name)


def _run(statements: list[str], library: Any) -> tuple[Any, Exception | None, list[str]]:
    """Run a program up to its first error. Returns the scope, the error and the statements that ran."""
    scope = scope_of(library)
    for number, statement in enumerate(statements):
        if (error := execute(statement, scope)) is not None:
            return scope, error, statements[:number]
    return scope, None, statements


def difference(statements: list[str], is_random: bool) -> str:
    """Return how the captured program differs from the plain one, or nothing."""
    # An error in the plain function keeps its earlier changes; a captured function changes nothing.
    done = _run(statements, _Uncaptured() if is_random else TORCH)[2]
    expected, _, _ = _run(done, _Uncaptured() if is_random else TORCH)
    actual, error, _ = _run(done, OURS)
    if isinstance(error, nt.CaptureError) or (isinstance(error, REFUSALS) and "already" in str(error)):
        return ""
    if error is not None:
        return f"raises {shown(error)}"
    own = tensors_of(actual)
    for name, theirs in tensors_of(expected).items():
        wanted = theirs.numpy() if isinstance(theirs, nt.Tensor) else theirs.detach().numpy()
        try:
            ours = own[name].numpy()
        except Exception as error:
            return f"{name} cannot be read: {shown(error)}"
        if np.abs(wanted).max(initial=0) > 2**50:
            return ""  # The order of sums shows.
        if ours.shape != wanted.shape or not np.array_equal(ours, wanted, equal_nan=True):
            return f"{name} is {ours.tolist()}, must be {wanted.tolist()}"
    return ""


def failure(seed: int) -> str:
    """Return the shortest program of this seed that differs, and how; nothing if it does not."""
    statements, is_random = draw(seed)
    if not difference(statements, is_random):
        return ""
    seed_statement, rest = statements[:is_random], statements[is_random:]  # The seed stays.
    short = [*seed_statement, *shrunk(rest, lambda each: difference([*seed_statement, *each], is_random))]
    return "\n".join([*short, f"# {difference(short, is_random)}"])


def main() -> int:
    torch.set_grad_enabled(False)
    return run_seeds(seeds_parser(__doc__).parse_args(), lambda seed: "\n".join(draw(seed)[0]), failure)


if __name__ == "__main__":
    sys.exit(main())
