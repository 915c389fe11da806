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

RANDOM = re.compile(r"rand|normal|bernoulli|multinomial|dropout|rrelu|exponential|geometric|cauchy|uniform|head_att")
"""Functions whose values are random; only shape and dtype of their results are compared."""

ORDERS: dict[str, Any] = {
    "einsum": lambda function: lambda operands, equation: function(equation, *operands),
    "linalg.lstsq.grad_oriented": lambda function: lambda a, b, driver: function(a, b, driver=driver)[:2],
    "linalg.pinv.singular": lambda function: lambda a, b: function(a @ b.mT),
    "nn.functional.embedding": lambda function: lambda w, index, **keywords: function(index, w, **keywords),
    "nn.functional.embedding_bag": lambda function: (
        lambda w, index, *args, **keywords: function(index, w, *args, **keywords)
    ),
    "polygamma": lambda function: lambda x, n: function(n, x),
    "special.polygamma": lambda function: lambda x, n: function(n, x),
    "where": lambda function: lambda x, condition, other: function(condition, x, other),
}
"""Functions from arguments in the order of the samples."""

TIES = frozenset(("argsort", "kthvalue", "sort", "topk"))
"""Functions whose last result is indices, which are not compared: those of equal elements are arbitrary."""

LEFT_OUT = ("jiterator", "fft.", "sparse.", "torch.ops.", "_refs.", "_native", "ops.", "masked.sparse")
"""Beginnings of names that are not functions of users, or functions of complex and sparse tensors."""

COMPLEX = re.compile(
    r"angle|c?complex|cdouble|cfloat|chalf|conj|conj_physical|imag|isreal|istft|linalg\.eig|linalg\.eigvals|mH|polar|real"
    r"|resolve_conj|resolve_neg|stft|to_sparse|view_as_complex|view_as_real"
)
"""Functions of complex numbers and sparse tensors."""


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


def function_of(name: str, variant: str) -> Any:
    """Return our function of PyTorch's name, or the method; None if there is neither."""
    name += "_" * (variant == "in_place")
    *path, last = name.split(".")
    place: Any = nt if path or callable(getattr(torch, name, None)) else nt.Tensor
    for part in path:
        place = getattr(place, part, None)
    found = getattr(place, last, None)
    if found is None and not path:
        found = getattr(nt.Tensor, name, getattr(nt.Tensor, f"{name}_", None))
    if isinstance(found, property):
        return found.fget
    order = ORDERS.get(f"{name}.{variant}", ORDERS.get(name))
    return found if found is None or order is None else order(found)


def converted(value: Any) -> Any:
    """Convert arguments of PyTorch to ours, at any depth."""
    if isinstance(value, torch.Tensor):
        return nt.tensor(value.detach())
    if isinstance(value, torch.dtype):
        return getattr(nt, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.nn.PairwiseDistance):
        return nt.nn.PairwiseDistance(value.norm, value.eps, value.keepdim)
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
    """Convert tensors of floats, and dtypes of floats, to float64; return others unchanged."""
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
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
        if op.name in TIES:
            return difference([*leaves(result)][:-1], [*leaves(expected)][:-1], True)
        if is_more_precise(op, sample, result, expected):
            return ""
        torch.manual_seed(1)
        if difference(converted(called(op, sample)), expected, True):  # random, as dropout in attention
            return difference(result, expected, False)
    return problem


def operations(names: Iterable[str] = ()) -> list[Any]:
    """Return PyTorch's descriptions of the functions whose names contain one of `names`; all without names."""
    wanted = [*names]
    return [
        op
        for op in op_db
        if not op.name.startswith(LEFT_OUT) and not COMPLEX.fullmatch(op.name)
        if not wanted or any(part in op.name for part in wanted)
    ]


def dtypes_of(op: Any, dtypes: Iterable[torch.dtype] = DTYPES) -> list[torch.dtype]:
    """Return the dtypes that PyTorch supports for a function."""
    return [dtype for dtype in dtypes if dtype in op.supported_dtypes("cpu")]


def outcomes(op: Any, dtype: torch.dtype, samples: int | None) -> Iterator[Outcome]:
    """Run the samples of a function."""
    name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
    function, kind = function_of(op.name, op.variant_test_name), str(dtype).removeprefix("torch.")
    if function is None:
        yield Outcome(name, kind, "missing")
        return
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), samples):
        if not is_foreign(sample) and (problem := problem_of(op, function, sample)) != "complex":
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
    runs = ((op, dtype) for op in operations(options.names) for dtype in dtypes_of(op, dtypes))
    for outcome in itertools.chain.from_iterable(outcomes(*run, options.samples) for run in runs):
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
