"""Random programs that signals interrupt, and programs that compute while they end, each in a process of its own.

    python tests/fuzz/signals.py --programs 1000 --seed 0

A handler raises an exception at random moments. It must arrive as itself, and a tensor that was being changed must have
its value from before the statement or from after it. What computes at the end must end, with the right value or an
error.
"""

import os
import subprocess
import sys
from random import Random

from programs import run_seeds, seeds_parser

INTERRUPTED = """
import random, signal
import numpy as np
import npu_tensor as nt

rng = random.Random({seed})


class Expired(Exception):
    pass


kind = rng.choice([Expired, TimeoutError, KeyError, KeyboardInterrupt])


def handler(*_):
    raise kind("from the handler")


def add(x): x.add_(1)
def scale(x): x *= 2
def part(x): x[1:] -= 3
def row(x): x[0].add_(5)
def turned(x): x.T.mul_(2)
def read(x): (x * 2).sum().item()
def shown(x): repr(x + 1)


captured = nt.jit(lambda x: (x @ x.T).sum(1))
statements = [add, scale, part, row, turned, read, shown, lambda x: captured(x) if isinstance(x, nt.Tensor) else None]
theirs = {{add: "x += 1", scale: "x *= 2", part: "x[1:] -= 3", row: "x[0] += 5", turned: "x *= 2"}}
signal.signal(signal.SIGALRM, handler)
signal.alarm(0)
x, expected = nt.ones(40, 40, dtype=nt.float64), np.ones((40, 40))
for _ in range(60):
    statement = rng.choice(statements)
    after = expected.copy()
    exec(theirs.get(statement, ""), {{"x": after}})
    finished = False
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.expovariate(1 / {moment}) + 1e-6)
        statement(x)
        finished = True
        signal.setitimer(signal.ITIMER_REAL, 0)
    except kind as error:
        assert error.args == ("from the handler",), repr(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    value = x.numpy()
    if finished or np.array_equal(value, after):
        assert np.array_equal(value, after), statement
        expected = after
    else:
        assert np.array_equal(value, expected), statement
    if abs(expected).max() > 1e12:
        x, expected = nt.ones(40, 40, dtype=nt.float64), np.ones((40, 40))
print("right")
"""

ENDING = """
import atexit, os, signal, sys, weakref
import npu_tensor as nt

x = nt.arange(4.0)
expressions = [lambda: (x * 2).sum(), lambda: x @ x, lambda: x.cumsum(0)[-1], lambda: (x > 1).sum()]
values = [12, 14, 6, 2]


def show(number=0):
    value = expressions[number]().item()
    assert value == values[number], value
    print("right")


class Finalized:
    def __del__(self):
        show({number})


def generated():
    try:
        yield
    finally:
        show({number})


for number in {planned}:
    show(number)
if {place!r} == "atexit":
    atexit.register(show, {number})
elif {place!r} == "finalize":
    weakref.finalize(x, show, {number})
elif {place!r} == "generator":
    kept = generated()
    next(kept)
elif {place!r} == "cycle":
    kept = Finalized()
    kept.itself = kept
    del kept
elif {place!r} == "SIGTERM":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    atexit.register(show, {number})
    os.kill(os.getpid(), signal.SIGTERM)
else:
    kept = Finalized()
"""


def draw(seed: int) -> tuple[str, bool, dict[str, str]]:
    """Return the program of this seed, a flag that is True if it must report success, and its environment."""
    random = Random(seed)
    environment = {"NPU_TENSOR_CPU_FEATURES": random.choice(["", "", "numpy"])}
    if seed % 2:
        return INTERRUPTED.format(seed=seed, moment=random.choice([1e-4, 1e-3, 1e-2])), True, environment
    place = random.choice(["atexit", "finalize", "generator", "cycle", "SIGTERM", "finalizer"])
    number = random.randrange(4)
    planned = random.choice([[], [number] * 2, [0, 1, 2, 3]])
    text = ENDING.format(number=number, place=place, planned=planned)
    return text, place in ("atexit", "finalize", "SIGTERM"), environment


def difference(seed: int) -> str:
    """Return the problem of the program of this seed, or an empty string."""
    program, must_print, environment = draw(seed)
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        return f"seed {seed} does not end"
    refused = "Python is likely shutting down" in done.stderr
    said = [line for line in done.stderr.splitlines() if "Error" in line and "shutting down" not in line]
    if done.returncode or said or not (done.stdout.endswith("right\n") or (refused and not must_print)):
        return f"seed {seed} ends with {done.returncode}:\n{done.stdout}{done.stderr}"
    return ""


def main() -> int:
    parser = seeds_parser(__doc__)
    parser.set_defaults(programs=100)
    return run_seeds(parser.parse_args(), lambda seed: draw(seed)[0], difference)


if __name__ == "__main__":
    sys.exit(main())
