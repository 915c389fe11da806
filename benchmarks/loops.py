"""Python loops over elements, tokens and steps that read values early, late or never: python -m benchmarks.loops.

The same program runs with npu_tensor and, if installed, PyTorch eager: a first pass, which plans and compiles with an
empty cache directory, and later passes. The figures are time ratios within one session.
"""

from __future__ import annotations

import importlib
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt

from . import peers
from .cases import TOLERANCE, disagreement
from .peers.npu_tensor import NAME, NpuTensor
from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Call, Effort, medians

RATIOS: Final = ("first_speedup", "later_speedup", "first_over_later")


class Loop(NamedTuple):
    """A loop. `run` takes the module npu_tensor or torch and the operands as its tensors, and returns numbers."""

    what: str
    run: Callable[..., Any]
    operands: tuple[np.ndarray, ...]


def _read(library: Any, vector: Any) -> Any:
    return [float(element) for element in vector]


def _write(library: Any, values: Any) -> Any:
    """Write Python numbers element by element into a matrix of zeros."""
    matrix = library.zeros(*values.shape)
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            matrix[i, j] = value
    return matrix.tolist()


def _decode(library: Any, tokens: Any, query: Any, key: Any, value: Any, *, grows: bool) -> Any:
    """Compute attention of one head, token by token. Caches grow, or have all rows from the start and use a mask."""
    length, width = tokens.shape
    positions = library.arange(length)
    keys, values = (library.zeros(0 if grows else length, width) for _ in range(2))
    results = []
    for position, token in enumerate(tokens):
        if grows:
            keys = library.cat([keys, (token @ key)[None]])
            values = library.cat([values, (token @ value)[None]])
        else:
            keys[position], values[position] = token @ key, token @ value
        scores = keys @ (token @ query) / math.sqrt(width)
        if not grows:
            scores = library.where(positions <= position, scores, -math.inf)
        results.append((library.softmax(scores, -1) @ values).tolist())
    return results


def _attend(library: Any, tokens: Any) -> Any:
    """Compute causal attention token by token, with growing caches of keys and values."""
    results = []
    keys = values = tokens[:, :0]
    for position in range(tokens.shape[1]):
        token = tokens[:, position : position + 1]
        keys, values = library.cat([keys, token], dim=1), library.cat([values, token], dim=1)
        scores = token @ keys.transpose(1, 2) / math.sqrt(tokens.shape[2])
        results.append((library.softmax(scores, -1) @ values).tolist())
    return results


def _regression(library: Any, inputs: Any, labels: Any, *, steps: int, reads: bool) -> Any:
    """Run gradient descent for a logistic regression. The weights are read at every step or at the end."""
    weights, bias = library.zeros(inputs.shape[1], 1), library.zeros(1)
    for _ in range(steps):
        error = library.sigmoid(inputs @ weights + bias) - labels
        weights = weights - inputs.T @ error * (0.1 / len(error))
        bias = bias - 0.1 * error.mean()
        if reads:
            weights.tolist(), bias.tolist()
    return [*weights.tolist(), bias.tolist()]


def loops(quick: bool) -> list[Loop]:
    """Return everything that is timed."""
    elements, side, tokens = (64, 8, 6) if quick else (4096, 32, 128)
    normal = np.random.default_rng(0).standard_normal
    steps = 30 if quick else 200
    samples = normal((256, 16), np.float32), (normal((256, 1)) > 0).astype(np.float32)
    decoding = tuple(normal((4, tokens, tokens), np.float32) / np.float32(math.sqrt(tokens)))
    return [
        Loop(f"read {elements} elements of a vector", _read, (normal(elements, np.float32),)),
        Loop(f"write {side} x {side} elements of a matrix", _write, (normal((side, side), np.float32),)),
        Loop(f"decode {tokens} tokens, cache of fixed size", partial(_decode, grows=False), decoding),
        Loop(f"decode {tokens} tokens, cache that grows", partial(_decode, grows=True), decoding),
        Loop(f"attend to up to {tokens} tokens, caches that grow", _attend, (normal((1, tokens, 64), np.float32),)),
        *(
            Loop(f"{steps} steps of a regression, {read}", partial(_regression, steps=steps, reads=reads), samples)
            for read, reads in (("read at each step", True), ("read in the end", False))
        ),
    ]


def measured(chosen: Iterable[Loop], effort: Effort) -> Iterator[dict[str, Any]]:
    """Yield a row per loop: speedup over PyTorch, None without it, and first pass over later ones.

    Needs a fresh process.
    """
    libraries = [NpuTensor(), *peers.load(["torch"], nt.get_num_threads())[0]]
    for loop in chosen:
        calls: dict[str, Call] = {}
        first: dict[str, float] = {}
        results = []
        for library in libraries:
            operands = [library.operand(values, "float32") for values in loop.operands]
            call = calls[library.name] = partial(loop.run, importlib.import_module(library.name), *operands)
            with library.around():
                start = time.perf_counter()
                results.append(call())
                first[library.name] = time.perf_counter() - start
        if disagreement(np.array(results[0]), np.array(results[-1])) > TOLERANCE["float32"]:
            raise AssertionError(f"{loop.what}: results differ")
        later = medians(calls, effort, {library.name: library.around for library in libraries})
        speedups = (seconds["torch"] / seconds[NAME] if "torch" in calls else None for seconds in (first, later))
        yield {"what": loop.what, **dict(zip(RATIOS, (*speedups, first[NAME] / later[NAME]), strict=True))}


@benchmark("Few rounds, small loops: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Loops over elements and tokens: time of PyTorch over that of npu_tensor."""
    with tempfile.TemporaryDirectory() as empty, nt.config.scope(cache_path=empty), nt.default_device("cpu"):
        rows = list(measured(loops(quick), QUICK_EFFORT if quick else FULL_EFFORT))
    headings = ("first pass, speedup", "later passes, speedup", "first over later")
    columns = (f"{heading} = {key}:.2f" for heading, key in zip(headings, RATIOS, strict=True))
    return Outcome({"rows": rows}, [table("PyTorch's time over npu_tensor's", rows, "loop = what", *columns)])


if __name__ == "__main__":
    main()
