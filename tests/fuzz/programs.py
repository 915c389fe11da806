"""Programs as text that PyTorch and npu_tensor both run: lists of statements in which `nt` names the library.

`difference` runs a program in both and returns where they differ; `shrink` removes the statements that this does not
need. A text can be read, pasted and repeated, and means the same in both libraries.
"""

import argparse
import re
import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

import npu_tensor as nt

Scope = dict[str, Any]
T = TypeVar("T")

torch.set_num_threads(1)  # The operands are small, and threads of two libraries would fight for the cores.


class _Torch:
    """PyTorch under npu_tensor's names."""

    @staticmethod
    def jit(function: Any) -> Any:
        return function

    def __getattr__(self, name: str) -> Any:
        functional = torch.nn.functional  # First, as some have other parameters in torch.
        return getattr(functional if hasattr(functional, name) else torch, name)


class _Wide(_Torch):
    """PyTorch with float64 for every float dtype."""

    float16 = bfloat16 = float32 = torch.float64


TORCH, WIDE, OURS = _Torch(), _Wide(), nt

REFUSALS = (nt.NpuTensorError, TypeError, ValueError, IndexError)
"""Errors that npu_tensor may raise for input that PyTorch refuses."""


class Program(NamedTuple):
    """Statements. captured: they are the body of a function of the tensors `arguments`, which nt.jit captures; it is
    called twice, the second time with other values, and returns the tensors that live at its end."""

    statements: tuple[str, ...]
    captured: bool = False
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.statements if not self.captured else _as_function(self))


def scope_of(library: Any) -> Scope:
    """The names that statements begin with.

    seen: a list for values that are read. apart: for an operand that overlaps with what is written, which PyTorch
    refuses or leaves undefined; npu_tensor reads the whole operand first, as PyTorch does with a copy (coming_from.md).
    """
    apart = torch.Tensor.clone if isinstance(library, _Torch) else lambda tensor: tensor
    return {"nt": library, "seen": [], "apart": apart, "inf": np.inf, "nan": np.nan}


def to_torch(tensor: nt.Tensor) -> Any:
    """The value as a tensor of PyTorch, of the same dtype."""
    array = tensor.numpy()
    if tensor.dtype is nt.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


REFUSED_DTYPES = (
    "not implemented for|same dtype|dtypes must be|did not match|[Ff]ound dtype|Unsupported input type|expected scalar "
    "type|does not support bool|bool tensor is not supported|must be Tensor, not (int|float|bool)|view size is not"
)


def lenient(error: Exception) -> bool:
    """Return True if PyTorch refuses dtypes, numbers or strides that are documented as valid, or valid here.

    coming_from.md: "accept more than PyTorch's".
    """
    return isinstance(error, NotImplementedError) or bool(re.search(REFUSED_DTYPES, str(error)))


@lru_cache(maxsize=4096)
def _compiled(statement: str) -> CodeType:
    return compile(statement, "<fuzz>", "exec")


def execute(statement: str, scope: Scope) -> Exception | None:
    """Execute a statement and return its exception, or None."""
    torch.set_default_dtype(torch.float64 if scope["nt"] is WIDE else torch.float32)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            exec(_compiled(statement), scope)
    except Exception as error:
        return error
    return None


def tensors_of(scope: Scope) -> dict[str, Any]:
    """The living tensors by name, also those of lists and tuples."""
    flat = {}
    for name, value in scope.items():
        several = isinstance(value, (list, tuple)) and name != "seen"
        for number, each in enumerate(value if several else [value]):
            if isinstance(each, (torch.Tensor, nt.Tensor)):
                flat[f"{name}[{number}]" if several else name] = each
    return flat


def _as_function(program: Program) -> tuple[str, ...]:
    """The statements that define a captured program and call it twice."""
    scope = scope_of(TORCH)
    for statement in (*program.arguments, *program.statements):
        execute(statement, scope)
    names = [argument.split(" ", 1)[0] for argument in program.arguments]
    living = ", ".join(name for name in tensors_of(scope) if name not in names)
    body = "\n".join(f"    {line}" for statement in program.statements for line in statement.split("\n"))
    function = f"@nt.jit\ndef f({', '.join(names)}):\n{body}\n    return [{living}]"
    first, second = ", ".join(names), ", ".join(f"{name} + {name}" for name in names)
    return (*program.arguments, function, f"r0 = f({first})", f"r1 = f({second})", f"r2 = f({first})")


Compare = Callable[[str, Any, Any], str]
"""Function of a name, PyTorch's tensor and ours. Returns their difference; empty if they agree."""


def difference(program: Program, compare: Compare) -> str:
    """Return the first difference from PyTorch, or "". Both run each statement in turn; tensors are compared last."""
    theirs, ours = scope_of(TORCH), scope_of(OURS)
    for statement in program.statements if not program.captured else _as_function(program):
        expected, error = execute(statement, theirs), execute(statement, ours)
        if isinstance(expected, NameError) or (error is None and expected is not None and lenient(expected)):
            return ""  # `shrink` has left out too much; or from here on the two have other values.
        if error is not None and not isinstance(error, REFUSALS):
            return f"{statement}\n  crashes: {type(error).__name__}: {error}"
        if (expected is None) != (error is None):
            names = [f"{who}: {shown(what)}" for who, what in (("PyTorch", expected), ("npu_tensor", error))]
            return f"{statement}\n  {'; '.join(names)}"
        if theirs["seen"] != ours["seen"]:
            return f"{statement}\n  saw {ours['seen'][-1]}, PyTorch {theirs['seen'][-1]}"
    return compare_scopes(theirs, ours, compare)


def compare_scopes(theirs: Scope, ours: Scope, compare: Compare) -> str:
    """The first difference of tensors of the same name."""
    own = tensors_of(ours)
    for name, expected in tensors_of(theirs).items():
        if name not in own:
            return f"{name} is no tensor"
        try:
            if what := compare(name, expected, own[name]):
                return what
        except Exception as error:
            return f"{name} cannot be computed: {type(error).__name__}: {error}"
    return ""


def shown(error: Exception | None) -> str:
    """Return the first lines of an exception."""
    return "no error" if error is None else f"{type(error).__name__}: {str(error)[:300]}"


def seeds_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that `run_seeds` reads."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others have the next numbers")
    parser.add_argument("--show", action="store_true", help="print every program")
    parser.add_argument("--limit", type=int, default=5, help="differences after which it ends")
    return parser


def run_seeds(given: argparse.Namespace, draw: Callable[[int], object], failure: Callable[[int], str]) -> bool:
    """Run the programs of many seeds. Returns True if one of them differs.

    Args:
        given: Options of `seeds_parser`.
        draw: Function from a seed to its program, as text.
        failure: Function from a seed to its shortest program that differs, and how; to nothing if it does not.
    """
    start, different = time.perf_counter(), 0
    for seed in range(given.seed, given.seed + given.programs):
        if given.show:
            print(draw(seed), end="\n\n")
        if text := failure(seed):
            print(f"--- seed {seed}\n{text}\n", flush=True)
            different += 1
            if different == given.limit:
                break
    print(f"{seed - given.seed + 1} programs, {different} different, {time.perf_counter() - start:.1f} s")
    return different > 0


def shrunk(statements: Sequence[T], differs: Callable[[Sequence[T]], object]) -> Sequence[T]:
    """Return the statements without those that the difference does not need."""
    for place in reversed(range(len(statements))):
        if (shorter := [*statements[:place], *statements[place + 1 :]]) and differs(shorter):
            statements = shorter
    return statements


def shrink(program: Program, compare: Compare) -> Program:
    """Return the program without the statements that its difference does not need."""
    return program._replace(
        statements=tuple(
            shrunk(program.statements, lambda rest: difference(program._replace(statements=tuple(rest)), compare))
        )
    )
