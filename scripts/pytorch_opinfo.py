"""Compare every function with PyTorch on the samples of PyTorch's own tests, the database of OpInfo.

    python scripts/pytorch_opinfo.py                      # all samples of all functions; needs torch and expecttest
    python scripts/pytorch_opinfo.py --samples 2 linalg   # two samples of each function whose name contains "linalg"

It prints the share of equal results for each dtype, the names that do not exist here, and the results that differ.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import npu_tensor as nt

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8)

UNINITIALIZED = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"))
"""Functions whose elements are arbitrary; only shape and dtype of their results are compared."""

RANDOM = re.compile(r"rand|normal|bernoulli|multinomial|dropout|rrelu|exponential|geometric|cauchy|uniform")
"""Functions whose values are random; only shape and dtype of their results are compared."""

ORDERS: dict[str, Any] = {
    "einsum": lambda function: lambda operands, equation: function(equation, *operands),
    "nn.functional.embedding": lambda function: lambda w, index, **keywords: function(index, w, **keywords),
    "nn.functional.embedding_bag": lambda function: (
        lambda w, index, *args, **keywords: function(index, w, *args, **keywords)
    ),
    "polygamma": lambda function: lambda x, n: function(n, x),
    "special.polygamma": lambda function: lambda x, n: function(n, x),
    "where": lambda function: lambda x, condition, other: function(condition, x, other),
}
"""Functions from arguments in the order of the samples."""

LEFT_OUT = ("jiterator", "fft.", "sparse.", "torch.ops.", "_refs.", "_native", "ops.", "masked.sparse")
"""Beginnings of names that are not functions of users, or functions of complex and sparse tensors."""

COMPLEX = frozenset(
    ("angle", "complex", "imag", "istft", "polar", "real", "resolve_conj", "stft", "view_as_complex", "view_as_real")
)
"""Functions of complex numbers."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one sample.

    Attributes:
        name: Name of the function, and of the variant of its samples in PyTorch's tests.
        dtype: Name of the dtype.
        problem: "" if the results are equal, "missing", or the difference.
        sample: Arguments.
    """

    name: str
    dtype: str
    problem: str
    sample: str = ""


def function_of(name: str) -> Any:
    """Return our function of PyTorch's name, or the method; None if there is neither."""
    *path, last = name.split(".")
    place: Any = nt if path or callable(getattr(torch, name, None)) else nt.Tensor
    for part in path:
        place = getattr(place, part, None)
    found = getattr(place, last, None) or (None if path else getattr(nt.Tensor, name, None))
    if isinstance(found, property):
        return found.fget
    return ORDERS[name](found) if name in ORDERS else found


def converted(value: Any) -> Any:
    """Convert arguments of PyTorch to ours, at any depth."""
    if isinstance(value, torch.Tensor):
        return nt.tensor(value.detach())
    if isinstance(value, torch.dtype):
        return getattr(nt, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(converted, value)) if isinstance(value, tuple) else [*map(converted, value)]
    if isinstance(value, dict):
        return {key: converted(each) for key, each in value.items()}
    return value


def leaves(value: Any) -> Iterator[Any]:
    """Iterate over the tensors and other values in nested sequences."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, dict):
        yield from leaves([*value.values()])
    else:
        yield value


def is_foreign(sample: Any) -> bool:
    """Return True for complex and sparse operands and dtypes that this library lacks."""
    return any(
        (
            isinstance(each, torch.Tensor)
            and (each.is_complex() or each.layout is not torch.strided or each.is_quantized)
        )
        or isinstance(each, complex)
        or (isinstance(each, torch.dtype) and not hasattr(nt, str(each).removeprefix("torch.")))
        for each in leaves((sample.input, sample.args, sample.kwargs))
    )


def difference(ours: Any, theirs: Any, with_values: bool) -> str:
    """Return the first difference of two results, or ""."""
    mine, other = [*leaves(ours)], [*leaves(theirs)]
    if len(mine) != len(other):
        return f"{len(mine)} results in place of {len(other)}"
    for a, b in zip(mine, other, strict=True):
        if not isinstance(b, torch.Tensor):
            if str(a) != str(b).removeprefix("torch.") and a != b and not (isinstance(b, float) and math.isclose(a, b)):
                return f"{a} in place of {b}"
            continue
        if tuple(a.shape) != tuple(b.shape):
            return f"shape {list(a.shape)} in place of {list(b.shape)}"
        if a.dtype.name != str(b.dtype).removeprefix("torch."):
            return f"dtype {a.dtype.name} in place of {b.dtype}"
        if with_values:
            try:
                torch.testing.assert_close(torch.from_dlpack(a), b, equal_nan=True, check_stride=False)
            except AssertionError as error:
                return "values: " + "; ".join(str(error).splitlines()[2:])
    return ""


def called(op: Any, sample: Any) -> Any:
    """Return PyTorch's result."""
    return op.op(sample.input, *sample.args, **sample.kwargs)


def doubled(value: Any) -> Any:
    """Convert tensors of floats to float64; return others and dtypes unchanged."""
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def is_more_precise(op: Any, sample: Any, ours: Any, theirs: Any) -> bool:
    """Return True if no tensor of ours is farther from the result in float64 than PyTorch's."""
    try:
        exact = called(op, sample.transform(doubled))
    except RuntimeError:
        return False
    triples = zip(leaves(ours), leaves(theirs), leaves(exact), strict=True)
    errors = [
        [(each.double() - reference.double()).abs().max() for each in (torch.from_dlpack(mine), other)]
        for mine, other, reference in triples
        if isinstance(other, torch.Tensor) and other.is_floating_point()
    ]
    return bool(errors) and all(mine <= other for mine, other in errors)


def problem_of(op: Any, function: Any, sample: Any) -> str:
    """Return the difference between our result of a sample and PyTorch's, or ""."""
    operands = converted([sample.input, *sample.args])
    keywords = converted(sample.kwargs)
    torch.manual_seed(0)
    expected = called(op, sample)
    if any(isinstance(each, torch.Tensor) and (each.is_complex() or each.is_sparse) for each in leaves(expected)):
        return "complex"
    try:
        result = function(*operands, **keywords)
        is_random = op.name in UNINITIALIZED or RANDOM.search(op.name) or sample.kwargs.get("dropout_p")
        problem = difference(result, expected, not is_random)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if problem.startswith("values"):
        if is_more_precise(op, sample, result, expected):
            return ""
        torch.manual_seed(1)
        if difference(converted(called(op, sample)), expected, True):  # random, as dropout in attention
            return difference(result, expected, False)
    return problem


def outcomes(names: Iterable[str], samples: int | None, dtypes: Iterable[torch.dtype]) -> Iterator[Outcome]:
    """Run the samples of functions whose names contain one of `names`."""
    names = [*names]
    for op in op_db:
        if op.name.startswith(LEFT_OUT) or op.name in COMPLEX or (names and not any(n in op.name for n in names)):
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        function = function_of(op.name + "_" * (op.variant_test_name == "in_place"))
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            kind = str(dtype).removeprefix("torch.")
            if function is None:
                yield Outcome(name, kind, "missing")
                continue
            for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), samples):
                if is_foreign(sample):
                    continue
                problem = problem_of(op, function, sample)
                if problem != "complex":
                    yield Outcome(name, kind, problem, sample.summary() if problem else "")


def main(arguments: list[str] | None = None) -> int:
    """Run the samples and print what differs. Return 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="parts of names of functions; all functions by default")
    parser.add_argument("--samples", type=int, help="most samples of a function and dtype")
    parser.add_argument("--dtypes", nargs="*", default=[str(dtype).removeprefix("torch.") for dtype in DTYPES])
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    dtypes = [getattr(torch, name) for name in options.dtypes]
    counts: collections.Counter[tuple[str, bool]] = collections.Counter()
    missing: dict[str, list[str]] = collections.defaultdict(list)
    names = set()
    for outcome in outcomes(options.names, options.samples, dtypes):
        names.add(outcome.name)
        if outcome.problem == "missing":
            missing[outcome.name].append(outcome.dtype)
            continue
        counts[outcome.dtype, not outcome.problem] += 1
        if outcome.problem:
            print(f"{outcome.name} {outcome.dtype}: {outcome.problem}\n    {outcome.sample}", flush=True)
    print(f"missing ({len(missing)} of {len(names)}): {' '.join(missing)}")
    for name in options.dtypes:
        equal, all_ = counts[name, True], counts[name, True] + counts[name, False]
        print(f"{name}: {equal} of {all_} samples equal ({equal / max(all_, 1):.2%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
