"""Peak memory of the chain on 16 M elements, in a separate process: python -m benchmarks.memory.

The figure is resident memory (VmHWM of /proc, or ru_maxrss without /proc) above that of the process after it has
imported npu_tensor and created the inputs. It includes LLVM, which is loaded when the first kernel is compiled.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np

import npu_tensor as nt

from .report import Outcome, Table, benchmark, verdict

ROOT = Path(__file__).resolve().parents[1]
ELEMENTS, QUICK_ELEMENTS = 16 << 20, 1 << 20
DTYPES = ("float32", "bfloat16")
ASKED_OVERHEAD = 64 << 20


def _high_water(reset: bool = False) -> int:
    """Return the peak resident memory of this process in bytes, since the latest reset if the system supports it."""
    status = Path("/proc/self/status")
    if not status.exists():
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (kilobytes,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) * 1024


def peak(elements: int, dtype: str) -> dict[str, int]:
    """Measure the bytes of the inputs, of the output, and added by the computation. Needs a fresh process."""
    generator = np.random.default_rng(0)
    numpy_dtype = getattr(nt, dtype).numpy

    def operand() -> nt.Tensor:
        return nt.from_numpy(generator.standard_normal(elements, np.float32).astype(numpy_dtype, copy=False))

    a, b, c, d = operand(), operand(), operand(), operand()
    before = _high_water(reset=True)
    result = ((a * b + c).gelu(approximate="tanh") * d - a).realize()
    added = _high_water() - before
    return {"inputs": 4 * a.nbytes, "output": result.nbytes, "added": added}


def measure(elements: int, dtype: str) -> dict[str, Any]:
    """Measure one row in a fresh process, in bytes. `total` is inputs plus added memory, `asked` its bound."""
    program = f"import json; from {__package__}.memory import peak; print(json.dumps(peak({elements}, {dtype!r})))"
    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=PIPE, text=True, check=True)
    counts = json.loads(finished.stdout)
    total = counts["inputs"] + counts["added"]
    asked = counts["inputs"] + counts["output"] + ASKED_OVERHEAD
    return {"dtype": dtype, "elements": elements, **counts, "total": total, "asked": asked, "met": total <= asked}


@benchmark("1 M elements: to see that it works.", timed=False)
def main(quick: bool) -> Outcome:
    """Peak memory of the chain (a*b+c).gelu()*d - a."""
    rows = [measure(QUICK_ELEMENTS if quick else ELEMENTS, dtype) for dtype in DTYPES]
    columns = ("inputs", "output", "added", "total", "asked")
    table = Table(
        f"peak memory of the chain on {rows[0]['elements']:,} elements, MiB",
        ["dtype", *columns, "met"],
        [[row["dtype"], *(f"{row[name] / 2**20:.1f}" for name in columns), verdict(row["met"])] for row in rows],
    )
    return Outcome({"rows": rows}, [table])


if __name__ == "__main__":
    main()
