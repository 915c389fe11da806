"""Host overhead of a launch, with kernels that do nothing: python -m benchmarks.launch.

Without `--device` no NPU is measured. The tests' stand-in for pyxrt completes every launch without running it. The
figures then contain the time of the package and of the stand-in, which is measured by repeating the calls of one plan.
The real pyxrt takes a different time. With `--device npu` the kernels run, so the figures include their time and have
no targets.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import click
import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor.planner import selection
from npu_tensor.runtime.xrt import bindings

from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Call, Effort, medians

ASKED_OF_ONE: Final = 15.0
ASKED_OF_MANY: Final = 6.0
"""Targets in microseconds per launch, in a plan of one kernel and of 100."""

SIDE: Final = 64

EACH: Final = 25
"""Number of kernels per kind in a large plan, equal to the number that is submitted to XRT at once."""

Product = Callable[[nt.Tensor, nt.Tensor], nt.Tensor]

KINDS: Final[tuple[Product, ...]] = (
    lambda x, weight: x @ weight,
    lambda x, weight: (x @ weight).relu(),
    lambda x, weight: x @ weight.T,
    lambda x, weight: (x @ weight.T).relu(),
)
"""Products of four configurations, each with its own context."""

CALLS: Final = {"run": ("set_arg", "start", "state"), "bo": ("sync",)}
"""Functions of pyxrt that a cached plan calls."""

TESTS: Final = Path(__file__).resolve().parents[1] / "tests"


class Case(NamedTuple):
    """One row: a call, its numbers of kernels and contexts, and the target in microseconds per launch."""

    what: str
    kernels: int
    contexts: int
    asked: float
    call: Call


def _matrix(rows: int, columns: int) -> nt.Tensor:
    values = np.random.default_rng(rows + columns).standard_normal((rows, columns)) / columns**0.5
    return nt.from_numpy(values.astype(ml_dtypes.bfloat16))


def _products(x: nt.Tensor, weights: list[nt.Tensor], kinds: list[Product]) -> nt.Tensor:
    for weight, product in zip(weights, kinds, strict=True):
        x = product(x, weight)
    return x


def cases() -> list[Case]:
    """Return everything that is timed, on the default device. Matrix products do not fuse with each other."""
    x = _matrix(SIDE, SIDE)
    relu, many = nt.jit(nt.relu), EACH * len(KINDS)
    weights = many * [_matrix(SIDE, SIDE)]
    same = nt.jit(partial(_products, weights=weights, kinds=many * [KINDS[0]]))
    alternating = nt.jit(partial(_products, weights=weights, kinds=EACH * list(KINDS)))
    inputs = [_matrix(SIDE, SIDE) for _ in KINDS]

    def each(*xs: nt.Tensor) -> tuple[nt.Tensor, ...]:
        return tuple(_products(x, weights[:EACH], EACH * [kind]) for x, kind in zip(xs, KINDS, strict=True))

    grouped = nt.jit(each)
    return [
        Case("one kernel, recorded each time", 1, 1, ASKED_OF_ONE, lambda: x.relu().realize()),
        Case("one kernel, nt.jit", 1, 1, ASKED_OF_ONE, lambda: relu(x)),
        Case(f"{many} kernels of one context", many, 1, ASKED_OF_MANY, lambda: same(x)),
        Case(f"{many} kernels, 4 contexts of {EACH} each", many, 4, ASKED_OF_MANY, lambda: grouped(*inputs)),
        Case(f"{many} kernels, 4 contexts in turn", many, 4, ASKED_OF_MANY, lambda: alternating(x)),
    ]


@contextmanager
def _standin() -> Iterator[None]:
    """Provide a stand-in NPU of the second generation that completes every launch without running it."""
    # The stand-in belongs to the tests and is not installed.
    places = [str(TESTS / "runtime" / "xrt" / "standin"), str(TESTS / "helpers")]
    with ExitStack() as stack:
        with mock.patch.object(sys, "path", [*places, *sys.path]):
            from backend import StandinBackend
            from machine import Machine, install

            machine = Machine()
            stack.enter_context(install(machine))
        machine.compute = False
        from npu_tensor.runtime.store.library import KernelLibrary
        from npu_tensor.runtime.xrt import xrt_device as device

        library = KernelLibrary(StandinBackend())
        stack.enter_context(mock.patch.object(device, "library", return_value=library))
        yield


@contextmanager
def recorded(driver: Any) -> Iterator[list[tuple[str, Callable[[], Any]]]]:
    """Record the calls of pyxrt in a `with` block: names, and functions that repeat them."""
    calls: list[tuple[str, Callable[[], Any]]] = []

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            calls.append((name, partial(function, *arguments)))
            return function(*arguments)

        return record

    with ExitStack() as patches:
        for kind, names in CALLS.items():
            owner = getattr(driver, kind)
            for name in names:
                replacement = recording(f"{kind}.{name}", getattr(owner, name))
                patches.enter_context(mock.patch.object(owner, name, replacement))
        yield calls


def _row(case: Case, effort: Effort, device: str | None) -> dict[str, Any]:
    for _ in range(3):  # The first runs create contexts, runs and buffers. The third is steady state.
        result = case.call()
    with recorded(bindings.pyxrt()) as calls:
        result = case.call()
    del result
    count = Counter(name for name, _ in calls)
    contenders = {"ours": case.call}
    if device is None:
        # The repeated calls keep the arguments of the recorded plan. No kernel runs, so they have no effect.
        again = [call for _, call in calls]
        contenders["driver"] = lambda: [call() for call in again]
    seconds = medians(contenders, effort)
    each = {name: round(value * 1e6 / case.kernels, 3) for name, value in seconds.items()}
    return {
        "what": case.what,
        "kernels": case.kernels,
        "contexts": case.contexts,
        "us": each["ours"],
        "driver_us": each.get("driver"),
        "set_args": count["run.set_arg"],
        "syncs": count["bo.sync"],
        "submissions": count["run.start"],
        "asked_us": case.asked if device is None else None,
        "met": each["ours"] <= case.asked if device is None else None,
    }


def measured(effort: Effort, device: str | None) -> list[dict[str, Any]]:
    """Measure all rows on the device at a URI, or on the stand-in if it is None.

    Raises:
        ClickException: Kernels do not run on the device.
    """
    with ExitStack() as settings:
        if device is None:
            settings.enter_context(_standin())
        # The self-check compares the first run of a kernel with the CPU. An empty run would fail.
        settings.enter_context(nt.config.scope(self_check=False, fallback="error"))
        try:
            with nt.default_device(device or "npu", policy="always"):
                return [_row(case, effort, device) for case in cases()]
        except nt.DeviceError as error:
            raise click.ClickException(str(error)) from None
        finally:
            selection.reset()


@benchmark("Few rounds: to see that it works, not for figures.")
@click.option("--device", metavar="URI", help="The NPU to measure. Without it: a stand-in that runs nothing.")
def main(device: str | None, quick: bool) -> Outcome:
    """Measure the cost of a launch to the host: microseconds per launch; calls of pyxrt per plan."""
    rows = measured(QUICK_EFFORT if quick else FULL_EFFORT, device)
    remark = "Nothing here ran on an NPU: this is a stand-in for pyxrt, and its kernels are empty."
    what = f"launch: microseconds per launch on {device or 'a stand-in'}; calls of pyxrt per plan"
    times = ("in all = us:,.2f", "of it the stand-in = driver_us:,.2f", "asked = asked_us:,.2f")
    calls = ("set_arg = set_args", "sync = syncs", "submissions")
    text = table(what, rows, "what", *times, "met", *calls)
    return Outcome({"device": device or "stand-in", "rows": rows}, [text], [] if device else [remark])


if __name__ == "__main__":
    main()
